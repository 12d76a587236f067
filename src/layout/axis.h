/* layout/axis.h - parallel axes, layouts, writer partitions, and shard arithmetic.
 *
 * A layout holds each kind at most once, in the canonical order dp, tp, ep, pp, whatever order the caller gave.
 * tp is the only axis that cuts; the others (the scope) name who owns the data. */
#ifndef PT_LAYOUT_AXIS_H
#define PT_LAYOUT_AXIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout/box.h"

enum pt_axis_kind { PT_AXIS_DP = 0, PT_AXIS_TP = 1, PT_AXIS_EP = 2, PT_AXIS_PP = 3, PT_AXIS_KINDS = 4 };

struct pt_axis {
	enum pt_axis_kind kind;
	int32_t rank;
	int32_t size;                   /* 0: not given (paths may leave it out) */
	int32_t dim;                    /* tp: split dimension, -1 not given; others: -1 */
	bool has_id;                    /* ep: expert id, pp: stage id */
	int32_t id;
};

struct pt_layout {
	uint32_t axis_count;
	struct pt_axis axis[PT_AXIS_KINDS];     /* canonical order */
};

/* How a dimension that does not divide is cut; recorded with the key and inherited. */
enum pt_split { PT_SPLIT_UNSET = 0, PT_SPLIT_BALANCED = 1, PT_SPLIT_CHUNK = 2 };

struct pt_partition {                   /* a writer (or tp rank) that owns one slice */
	int32_t rank;
	int32_t size;
	int32_t dim;
};

#define PT_LAYOUT_TEXT_MAX 256

/* Adds one axis in canonical place. -EINVAL: kind there already, rank outside size, dim or id on the wrong kind. */
int pt_layout_add(struct pt_layout *l, const struct pt_axis *axis);
const struct pt_axis *pt_layout_find(const struct pt_layout *l, enum pt_axis_kind kind);       /* or NULL */
/* The non-splitting axes alone. */
void pt_layout_scope(const struct pt_layout *l, struct pt_layout *ret_scope);
bool pt_layout_equal(const struct pt_layout *a, const struct pt_layout *b);
/* Everything the C API requires: sizes > 0, tp with dim >= 0, ep and pp with ids. -EINVAL with a sentence. */
int pt_layout_check_complete(const struct pt_layout *l);
/* Canonical text "dp=0of2/tp=1of4,dim=0/ep=0of2,expert=11/pp=0of2,stage=7": ids always written (defaulting to the rank),
 * "" for an empty layout. Used as the scope part of record keys and in paths. Returns the length. */
int pt_layout_format(const struct pt_layout *l, char ret_text[PT_LAYOUT_TEXT_MAX]);
/* One component "tp=1of4,dim=0", or its inverse pt_axis_parse in path/. */
int pt_axis_format(const struct pt_axis *a, char ret_text[PT_LAYOUT_TEXT_MAX]);
const char *pt_axis_kind_name(enum pt_axis_kind kind);

/* The part [*ret_off, *ret_off + *ret_ext) of a dimension of `extent` elements that rank of size owns.
 * balanced: [floor(D r/n), floor(D (r+1)/n)); chunk: pieces of ceil(D/n) as torch.chunk cuts, trailing ones short or empty.
 * 0 <= rank < size. UNSET counts as balanced. */
void pt_shard_range(uint64_t extent, int32_t rank, int32_t size, enum pt_split split, uint64_t *ret_off, uint64_t *ret_ext);
/* The box of a slice of `shape`. -EINVAL with a sentence: dim outside the shape, rank outside size, an fp4 byte would be cut. */
int pt_shard_box(const struct pt_shape *shape, enum pt_dtype dtype, const struct pt_partition *part, enum pt_split split,
		 struct pt_box *ret_box);

#endif

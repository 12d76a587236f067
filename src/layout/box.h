/* layout/box.h - shapes and n-dimensional half-open boxes, in elements. Plain values, no ownership. */
#ifndef PT_LAYOUT_BOX_H
#define PT_LAYOUT_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "layout/dtype.h"

#define PT_DIMS_MAX 64

struct pt_shape {
	uint32_t ndim;
	uint64_t dim[PT_DIMS_MAX];              /* elements; entries from ndim on are unspecified */
};

struct pt_box {
	uint32_t ndim;
	uint64_t off[PT_DIMS_MAX];
	uint64_t ext[PT_DIMS_MAX];
};

/* Element count; false on overflow (evaluated in order, so [huge, huge, 0] overflows). A 0-d shape has one. */
bool pt_shape_elems(const struct pt_shape *s, uint64_t *ret_elems);
/* Payload bytes of a tensor, at most PT_TENSOR_BYTES_MAX. -EOVERFLOW; -EINVAL when fp4 does not fill whole bytes
 * in its last dimension. */
int pt_shape_bytes(const struct pt_shape *s, enum pt_dtype dtype, uint64_t *ret_bytes);
bool pt_shape_equal(const struct pt_shape *a, const struct pt_shape *b);
void pt_shape_box(const struct pt_shape *s, struct pt_box *ret_box);            /* the whole, offsets 0 */
/* "[2,3]"; buf of any size is NUL-terminated; returns the untruncated length. */
int pt_shape_format(const struct pt_shape *s, char *buf, uint32_t len);
/* Parses "2,3", "[2, 3]", "2x3" or "[]". -EINVAL with a sentence. */
int pt_shape_parse(const char *text, struct pt_shape *ret_shape);

void pt_box_shape(const struct pt_box *b, struct pt_shape *ret_shape);          /* the extents */
bool pt_box_equal(const struct pt_box *a, const struct pt_box *b);
bool pt_box_empty(const struct pt_box *b);                                      /* any extent 0 */
/* Is b inside the shape, with no overflow in off + ext? */
bool pt_box_within(const struct pt_box *b, const struct pt_shape *s);
/* False when they share no element. */
bool pt_box_intersect(const struct pt_box *a, const struct pt_box *b, struct pt_box *ret_box);
/* Restates shape or box in units of whole bytes or elements that a planner can move: for fp4 the last dimension is
 * halved and the unit is 1 byte; else unchanged, and the unit is the element. -EINVAL when a cut would split a byte. */
int pt_box_pack(const struct pt_box *b, enum pt_dtype dtype, struct pt_box *ret_box, uint64_t *ret_unit_bytes);

#endif

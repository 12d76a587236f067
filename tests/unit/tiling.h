/* tests/unit/tiling.h - random shapes and random ways to cut them into boxes. */
#ifndef TESTS_UNIT_TILING_H
#define TESTS_UNIT_TILING_H

#include <stddef.h>

#include "layout/axis.h"
#include "layout/box.h"
#include "unit/rng.h"

#define TILING_MAX 512

struct tiling {
	size_t count;
	struct pt_box box[TILING_MAX];
};

enum tiling_kind {
	TILING_WHOLE, TILING_BALANCED, TILING_CHUNK, TILING_PREFIX_SUMS, TILING_BLOCKS, TILING_GUILLOTINE, TILING_GROWN,
	TILING_KINDS
};

/* ndim 0..max_ndim, zero and one extents among them, at most max_elems elements. */
void tiling_shape(struct rng *r, uint32_t max_ndim, uint64_t max_elems, struct pt_shape *ret_shape);
/* Boxes that cover the shape exactly. GROWN gives covers that no sequence of planes makes (pinwheels among them). */
void tiling_make(struct rng *r, const struct pt_shape *shape, enum tiling_kind kind, struct tiling *ret_tiling);
void tiling_shuffle(struct rng *r, struct tiling *t);
/* A box inside the shape: the whole, a shard, or anything. */
void tiling_target(struct rng *r, const struct pt_shape *shape, struct pt_box *ret_box);

#endif

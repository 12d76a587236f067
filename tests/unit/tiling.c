/* tests/unit/tiling.c - random tilings. */
#include "unit/tiling.h"

#include <stdlib.h>
#include <string.h>

void tiling_shape(struct rng *r, uint32_t max_ndim, uint64_t max_elems, struct pt_shape *ret_shape)
{
	uint64_t left = max_elems, ext;
	uint32_t d;

	memset(ret_shape, 0, sizeof(*ret_shape));
	ret_shape->ndim = (uint32_t)rng_below(r, max_ndim + 1);
	for (d = 0; d < ret_shape->ndim; d++) {
		uint64_t dice = rng_below(r, 20);

		ext = dice == 0 ? 0 : dice < 5 ? 1 : rng_between(r, 2, dice < 8 ? 37 : 7);
		if (ext > left)
			ext = left;
		ret_shape->dim[d] = ext;
		if (ext)
			left /= ext;
	}
}

static void add(struct tiling *t, const struct pt_box *box)
{
	if (t->count < TILING_MAX)
		t->box[t->count++] = *box;
	else
		abort();
}

static void cut_by_rank(struct rng *r, const struct pt_shape *shape, enum pt_split split, struct tiling *t)
{
	uint32_t dim = (uint32_t)rng_below(r, shape->ndim);
	int32_t size = (int32_t)rng_between(r, 1, 9), rank;
	struct pt_box box;

	for (rank = 0; rank < size; rank++) {
		pt_shape_box(shape, &box);
		pt_shard_range(shape->dim[dim], rank, size, split, &box.off[dim], &box.ext[dim]);
		add(t, &box);
	}
}

static void cut_by_prefix_sums(struct rng *r, const struct pt_shape *shape, struct tiling *t)
{
	uint32_t dim = (uint32_t)rng_below(r, shape->ndim);
	uint64_t off = 0;
	struct pt_box box;

	pt_shape_box(shape, &box);
	do {
		box.off[dim] = off;
		box.ext[dim] = rng_between(r, 0, shape->dim[dim] - off);
		if (!box.ext[dim] && rng_below(r, 2))
			box.ext[dim] = shape->dim[dim] - off;
		off += box.ext[dim];
		add(t, &box);
	} while (off < shape->dim[dim]);
}

static void cut_in_blocks(struct rng *r, const struct pt_shape *shape, struct tiling *t)
{
	uint32_t a = (uint32_t)rng_below(r, shape->ndim), b = (uint32_t)rng_below(r, shape->ndim);
	int32_t na = (int32_t)rng_between(r, 1, 5), nb = a == b ? 1 : (int32_t)rng_between(r, 1, 5), i, j;
	struct pt_box box;

	for (i = 0; i < na; i++) {
		for (j = 0; j < nb; j++) {
			pt_shape_box(shape, &box);
			pt_shard_range(shape->dim[b], j, nb, PT_SPLIT_BALANCED, &box.off[b], &box.ext[b]);
			pt_shard_range(shape->dim[a], i, na, PT_SPLIT_CHUNK, &box.off[a], &box.ext[a]);
			add(t, &box);
		}
	}
}

static void cut_by_planes(struct rng *r, const struct pt_box *box, int depth, struct tiling *t)
{
	uint32_t dim = box->ndim ? (uint32_t)rng_below(r, box->ndim) : 0;
	struct pt_box side = *box;
	uint64_t at;

	if (!depth || !box->ndim || box->ext[dim] < 2 || !rng_below(r, 6)) {
		add(t, box);
		return;
	}
	at = rng_between(r, 1, box->ext[dim] - 1);
	side.ext[dim] = at;
	cut_by_planes(r, &side, depth - 1, t);
	side.off[dim] = box->off[dim] + at;
	side.ext[dim] = box->ext[dim] - at;
	cut_by_planes(r, &side, depth - 1, t);
}

/* Calls with the linear index of each element of the box, until the callback says no. */
static int each_element(const struct pt_shape *shape, const struct pt_box *box, uint8_t *taken, int mark)
{
	uint64_t at[PT_DIMS_MAX] = { 0 }, linear;
	uint32_t d;

	for (;;) {
		linear = 0;
		for (d = 0; d < shape->ndim; d++)
			linear = linear * shape->dim[d] + box->off[d] + at[d];
		if (mark)
			taken[linear] = 1;
		else if (taken[linear])
			return 0;
		for (d = shape->ndim; d-- > 0;) {
			if (++at[d] < box->ext[d])
				break;
			at[d] = 0;
		}
		if (d == UINT32_MAX)
			return 1;
	}
}

/* From each element that is still free, in order, a box grows in random directions over free elements. */
static void grow(struct rng *r, const struct pt_shape *shape, uint64_t elems, struct tiling *t)
{
	uint8_t *taken = calloc(elems, 1);
	uint64_t i, rest;
	struct pt_box box, more;
	uint32_t d, tries;

	if (!taken)
		abort();
	for (i = 0; i < elems; i++) {
		if (taken[i])
			continue;
		memset(&box, 0, sizeof(box));
		box.ndim = shape->ndim;
		rest = i;
		for (d = shape->ndim; d-- > 0;) {
			box.off[d] = rest % shape->dim[d];
			box.ext[d] = 1;
			rest /= shape->dim[d];
		}
		/* Towards the end of the table only whole rows are added, so that it suffices. */
		for (tries = (uint32_t)rng_between(r, 2, 10) + (t->count > TILING_MAX / 2 ? 60 : 0); tries && shape->ndim; tries--) {
			more = box;
			d = (uint32_t)rng_below(r, shape->ndim);
			if (more.off[d] + more.ext[d] == shape->dim[d])
				continue;
			more.ext[d]++;
			if (each_element(shape, &more, taken, 0))
				box = more;
		}
		each_element(shape, &box, taken, 1);
		add(t, &box);
	}
	free(taken);
}

void tiling_make(struct rng *r, const struct pt_shape *shape, enum tiling_kind kind, struct tiling *ret_tiling)
{
	struct pt_box whole;
	uint64_t elems = 0;

	ret_tiling->count = 0;
	pt_shape_box(shape, &whole);
	pt_shape_elems(shape, &elems);
	if (!shape->ndim || !elems || (kind == TILING_GROWN && elems > TILING_MAX))
		kind = !shape->ndim || kind == TILING_GROWN ? TILING_WHOLE : kind;
	switch (kind) {
	case TILING_BALANCED:
		cut_by_rank(r, shape, PT_SPLIT_BALANCED, ret_tiling);
		break;
	case TILING_CHUNK:
		cut_by_rank(r, shape, PT_SPLIT_CHUNK, ret_tiling);
		break;
	case TILING_PREFIX_SUMS:
		cut_by_prefix_sums(r, shape, ret_tiling);
		break;
	case TILING_BLOCKS:
		cut_in_blocks(r, shape, ret_tiling);
		break;
	case TILING_GUILLOTINE:
		cut_by_planes(r, &whole, (int)rng_between(r, 1, 6), ret_tiling);
		break;
	case TILING_GROWN:
		grow(r, shape, elems, ret_tiling);
		break;
	default:
		add(ret_tiling, &whole);
	}
}

void tiling_shuffle(struct rng *r, struct tiling *t)
{
	struct pt_box swap;
	size_t i, j;

	for (i = t->count; i > 1; i--) {
		j = rng_below(r, i);
		swap = t->box[i - 1];
		t->box[i - 1] = t->box[j];
		t->box[j] = swap;
	}
}

void tiling_target(struct rng *r, const struct pt_shape *shape, struct pt_box *ret_box)
{
	uint64_t kind = rng_below(r, 4);
	uint32_t d;

	memset(ret_box, 0, sizeof(*ret_box));
	pt_shape_box(shape, ret_box);
	if (!shape->ndim || !kind)
		return;
	for (d = 0; d < shape->ndim; d++) {
		if (kind == 1 && d != rng_below(r, shape->ndim))
			continue;
		if (kind == 2 && rng_below(r, 2))
			continue;
		ret_box->off[d] = rng_between(r, 0, shape->dim[d]);
		ret_box->ext[d] = rng_between(r, 0, shape->dim[d] - ret_box->off[d]);
		if (!ret_box->ext[d] && shape->dim[d] && rng_below(r, 8)) {
			ret_box->off[d] = rng_below(r, shape->dim[d]);
			ret_box->ext[d] = 1;
		}
	}
}

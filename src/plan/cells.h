/* plan/cells.h - what a plan is made of; private to plan/.
 *
 * A cell is one source clipped to the target. Dimensions are reduced first: those in which the target has extent 1 are
 * dropped, and neighbours that no used source cuts or strides over are joined. So few are left, and the coordinates below
 * are in these reduced dimensions, relative to the target's corner.
 *
 * Cells are found through a bounding interval hierarchy: a binary tree whose inner node says, along one axis, where the
 * left cells end and where the right ones begin. Where a plane separates the two (it always does when the cells were cut
 * by planes all through) a look-up follows one path; else both sides may have to be tried. No cell is ever divided, so
 * memory is linear, and depth is bounded by PLAN_DEPTH_MAX.
 *
 * Invariants of a finished plan:
 * 1. cells are not empty, are disjoint, and together cover the target;
 * 2. from a cell's run dimension on, source and target strides are equal, and behind it the cell has full extent:
 *    a run is contiguous in both, and cannot be made longer;
 * 3. hint names the cell that follows the first run of the cell. */
#ifndef PT_PLAN_CELLS_H
#define PT_PLAN_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

/* Any separating plane is taken down to this depth; below it nodes are halved by count. */
#define PLAN_DEPTH_FREE 40
#define PLAN_DEPTH_MAX (PLAN_DEPTH_FREE + 33)

struct plan_cell {
	uint64_t src_base;              /* bytes into the source's payload of the cell's first element */
	uint64_t run_start;             /* bytes, within the target's row, at which a run begins */
	uint64_t run_len;               /* bytes */
	uint32_t source;
	uint32_t run_dim;               /* ndim: a run is one element */
	uint32_t hint;
};

/* A child is the index of a node, or of a cell with PLAN_LEAF set. */
#define PLAN_LEAF ((uint64_t)1 << 32)

struct plan_node {
	uint64_t left_end;              /* along axis: all left cells end at or before */
	uint64_t right_off;             /* along axis: all right cells begin at or after */
	uint64_t left;
	uint64_t right;
	uint32_t axis;
};

struct pt_plan {
	uint64_t bytes;
	uint64_t unit;
	size_t source_count;
	uint8_t *used;                  /* a bit a source */
	uint32_t ndim;                  /* reduced */
	uint64_t dim[PT_DIMS_MAX];      /* the target's extents */
	uint64_t stride[PT_DIMS_MAX];   /* the target's strides, bytes */
	uint32_t cell_count;
	struct plan_cell *cells;
	uint64_t *geometry;             /* a cell: off[ndim], ext[ndim], source stride in bytes[ndim] */
	struct plan_node *nodes;        /* cell_count - 1 */
	uint64_t root;
};

static inline const uint64_t *plan_cell_off(const struct pt_plan *plan, uint32_t cell)
{
	return plan->geometry + (size_t)cell * 3 * plan->ndim;
}

static inline const uint64_t *plan_cell_ext(const struct pt_plan *plan, uint32_t cell)
{
	return plan_cell_off(plan, cell) + plan->ndim;
}

static inline const uint64_t *plan_cell_stride(const struct pt_plan *plan, uint32_t cell)
{
	return plan_cell_off(plan, cell) + 2 * plan->ndim;
}

static inline bool plan_cell_has(const struct pt_plan *plan, uint32_t cell, const uint64_t *at)
{
	const uint64_t *off = plan_cell_off(plan, cell), *ext = off + plan->ndim;
	uint32_t d;

	for (d = 0; d < plan->ndim; d++)
		if (at[d] - off[d] >= ext[d])
			return false;
	return true;
}

/* Builds nodes over all cells. -EINVAL with a sentence when two cells overlap; -ENOMEM. */
int plan_tree_build(struct pt_plan *plan);
/* The cell that holds the point. By invariant 1 there is one. */
uint32_t plan_tree_find(const struct pt_plan *plan, const uint64_t *at);

/* Moves `at`, a point inside the cell, to the first point behind the run that it is in. False at the target's end. */
static inline bool plan_run_skip(const struct pt_plan *plan, uint32_t cell, uint64_t *at)
{
	uint32_t d = plan->cells[cell].run_dim, i;

	if (d == plan->ndim) {
		if (!d--)
			return false;
		at[d]++;
	} else {
		at[d] = plan_cell_off(plan, cell)[d] + plan_cell_ext(plan, cell)[d];
		for (i = d + 1; i < plan->ndim; i++)
			at[i] = 0;
	}
	while (at[d] == plan->dim[d]) {
		at[d] = 0;
		if (!d--)
			return false;
		at[d]++;
	}
	return true;
}

#endif

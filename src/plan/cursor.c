/* plan/cursor.c - walking a window of a plan.
 *
 * opaque[0] is the cell expected at pos: a guess that is checked, so that any value of a cell's index is right.
 * Coordinates are divided out once a call and then stepped. */
#include "plan/cells.h"

void pt_plan_seek(const struct pt_plan *plan, uint64_t off, uint64_t len, struct pt_plan_cursor *ret_cursor)
{
	uint64_t pos = off < plan->bytes ? off : plan->bytes;

	*ret_cursor = (struct pt_plan_cursor){
		.plan = plan,
		.pos = pos,
		.end = len < plan->bytes - pos ? pos + len : plan->bytes,
	};
}

size_t pt_plan_next(struct pt_plan_cursor *cursor, struct pt_range *ret_ranges, size_t max)
{
	const struct pt_plan *plan = cursor->plan;
	const uint32_t ndim = plan->ndim;
	uint64_t at[PT_DIMS_MAX], pos = cursor->pos, end = cursor->end, left, in_run, src, len;
	const struct plan_cell *cell;
	const uint64_t *off, *stride;
	uint32_t index, d;
	size_t n = 0;

	if (!max || pos >= end)
		return 0;
	left = pos;
	for (d = 0; d < ndim; d++) {
		at[d] = left / plan->stride[d];
		left %= plan->stride[d];
	}
	index = (uint32_t)cursor->opaque[0];
	if (!plan_cell_has(plan, index, at))
		index = plan_tree_find(plan, at);
	cell = &plan->cells[index];
	/* Only the first range may begin inside a run: `left` bytes into an element, and some elements in. */
	in_run = left - cell->run_start;
	for (d = cell->run_dim; d < ndim; d++)
		in_run += at[d] * plan->stride[d];
	for (;;) {
		off = plan_cell_off(plan, index);
		stride = plan_cell_stride(plan, index);
		src = cell->src_base + in_run;
		for (d = 0; d < cell->run_dim; d++)
			src += (at[d] - off[d]) * stride[d];
		len = cell->run_len - in_run;
		if (len > end - pos)
			len = end - pos;
		ret_ranges[n++] = (struct pt_range){ .source = cell->source, .src_off = src, .dst_off = pos, .len = len };
		pos += len;
		if (pos == end)
			break;
		plan_run_skip(plan, index, at);
		index = cell->hint;
		if (n == max)
			break;
		if (!plan_cell_has(plan, index, at))
			index = plan_tree_find(plan, at);
		cell = &plan->cells[index];
		in_run = 0;
	}
	cursor->pos = pos;
	cursor->opaque[0] = index;
	return n;
}

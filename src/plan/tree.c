/* plan/tree.c - the hierarchy over a plan's cells: building it, finding a point, finding an overlap. */
#include "plan/cells.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

struct builder {
	struct pt_plan *plan;
	uint32_t *order;                /* cells, permuted while building */
	uint32_t node_count;
	bool all_free;                  /* every node is separated by a plane: then the cells are disjoint */
};

struct sort_key {
	const struct pt_plan *plan;
	uint32_t axis;
};

struct cut {
	uint32_t axis;
	uint32_t left_count;
	uint64_t left_end;
	uint64_t right_off;
	uint32_t crossing;              /* left cells that reach beyond right_off; 0: a plane separates */
};

static uint64_t cell_off(const struct pt_plan *plan, uint32_t cell, uint32_t axis)
{
	return plan_cell_off(plan, cell)[axis];
}

static uint64_t cell_end(const struct pt_plan *plan, uint32_t cell, uint32_t axis)
{
	return plan_cell_off(plan, cell)[axis] + plan_cell_ext(plan, cell)[axis];
}

static int compare_off(const void *a, const void *b, void *arg)
{
	const struct sort_key *key = arg;
	uint32_t ca = *(const uint32_t *)a, cb = *(const uint32_t *)b;
	uint64_t x = cell_off(key->plan, ca, key->axis), y = cell_off(key->plan, cb, key->axis);

	if (x != y)
		return x < y ? -1 : 1;
	return ca < cb ? -1 : ca > cb;
}

static void sort_by(struct builder *b, uint32_t *order, uint32_t count, uint32_t axis)
{
	struct sort_key key = { b->plan, axis };
	uint32_t i;

	for (i = 1; i < count; i++)
		if (compare_off(&order[i - 1], &order[i], &key) > 0)
			break;
	if (i < count)
		qsort_r(order, count, sizeof(*order), compare_off, &key);
}

static bool axis_varies(const struct builder *b, const uint32_t *order, uint32_t count, uint32_t axis)
{
	uint64_t first = cell_off(b->plan, order[0], axis);
	uint32_t i;

	for (i = 1; i < count; i++)
		if (cell_off(b->plan, order[i], axis) != first)
			return true;
	return false;
}

static uint32_t smaller_side(uint32_t count, uint32_t left)
{
	return left < count - left ? left : count - left;
}

/* Among the planes across `axis` that cut no cell, the one nearest to the middle of the sorted cells. */
static bool find_plane(const struct builder *b, const uint32_t *order, uint32_t count, uint32_t axis, struct cut *ret)
{
	uint64_t end = 0, cell;
	uint32_t i, best = 0;

	for (i = 0; i < count; i++) {
		if (i && cell_off(b->plan, order[i], axis) >= end && smaller_side(count, i) > smaller_side(count, best)) {
			best = i;
			ret->left_end = end;
			ret->right_off = cell_off(b->plan, order[i], axis);
		}
		cell = cell_end(b->plan, order[i], axis);
		if (cell > end)
			end = cell;
	}
	ret->axis = axis;
	ret->left_count = best;
	ret->crossing = 0;
	return best > 0;
}

static void cut_in_half(const struct builder *b, const uint32_t *order, uint32_t count, uint32_t axis, struct cut *ret)
{
	uint64_t end;
	uint32_t i;

	ret->axis = axis;
	ret->left_count = count / 2;
	ret->left_end = 0;
	ret->right_off = cell_off(b->plan, order[count / 2], axis);
	ret->crossing = 0;
	for (i = 0; i < count / 2; i++) {
		end = cell_end(b->plan, order[i], axis);
		if (end > ret->left_end)
			ret->left_end = end;
		ret->crossing += end > ret->right_off;
	}
}

/* Chooses how to divide the cells and leaves them sorted along that axis. */
static int choose_cut(struct builder *b, uint32_t *order, uint32_t count, uint32_t depth, struct cut *ret_cut)
{
	const struct pt_plan *plan = b->plan;
	struct cut half = { .crossing = UINT32_MAX }, plane = { .left_count = 0 }, cut;
	uint32_t axis, sorted = UINT32_MAX;
	bool found = false;

	for (axis = 0; axis < plan->ndim; axis++) {
		if (!axis_varies(b, order, count, axis))
			continue;
		sort_by(b, order, count, axis);
		sorted = axis;
		if (depth < PLAN_DEPTH_FREE && find_plane(b, order, count, axis, &cut) &&
		    smaller_side(count, cut.left_count) > smaller_side(count, plane.left_count)) {
			plane = cut;
			if (smaller_side(count, cut.left_count) >= count / 4)
				break;
		}
		cut_in_half(b, order, count, axis, &cut);
		if (!found || cut.crossing < half.crossing)
			half = cut;
		found = true;
	}
	if (sorted == UINT32_MAX)       /* all begin at one point, and none is empty */
		return pt_fail(EINVAL, "sources %" PRIu32 " and %" PRIu32 " overlap inside the target",
			       plan->cells[order[0]].source, plan->cells[order[1]].source);
	*ret_cut = plane.left_count ? plane : half;
	if (ret_cut->axis != sorted)
		sort_by(b, order, count, ret_cut->axis);
	return 0;
}

static int build(struct builder *b, uint32_t first, uint32_t count, uint32_t depth, uint64_t *ret_child)
{
	struct plan_node *node;
	struct cut cut;
	int rc;

	if (count == 1) {
		*ret_child = PLAN_LEAF | b->order[first];
		return 0;
	}
	assert(depth < PLAN_DEPTH_MAX);
	rc = choose_cut(b, b->order + first, count, depth, &cut);
	if (rc < 0)
		return rc;
	if (cut.crossing)
		b->all_free = false;
	*ret_child = b->node_count;
	node = &b->plan->nodes[b->node_count++];
	node->axis = cut.axis;
	node->left_end = cut.left_end;
	node->right_off = cut.right_off;
	rc = build(b, first, cut.left_count, depth + 1, &node->left);
	if (rc < 0)
		return rc;
	return build(b, first + cut.left_count, count - cut.left_count, depth + 1, &node->right);
}

static bool cells_overlap(const struct pt_plan *plan, uint32_t a, uint32_t b)
{
	uint32_t d;

	for (d = 0; d < plan->ndim; d++)
		if (cell_off(plan, a, d) >= cell_end(plan, b, d) || cell_off(plan, b, d) >= cell_end(plan, a, d))
			return false;
	return true;
}

/* Does another cell overlap this one? */
static bool find_overlap(const struct pt_plan *plan, uint32_t cell, uint32_t *ret_other)
{
	uint64_t stack[PLAN_DEPTH_MAX + 1], at;
	uint32_t depth = 0, other;

	stack[depth++] = plan->root;
	while (depth) {
		at = stack[--depth];
		if (at & PLAN_LEAF) {
			other = (uint32_t)at;
			if (other != cell && cells_overlap(plan, cell, other)) {
				*ret_other = other;
				return true;
			}
		} else {
			const struct plan_node *node = &plan->nodes[at];

			if (cell_end(plan, cell, node->axis) > node->right_off)
				stack[depth++] = node->right;
			if (cell_off(plan, cell, node->axis) < node->left_end)
				stack[depth++] = node->left;
		}
	}
	return false;
}

int plan_tree_build(struct pt_plan *plan)
{
	struct builder b = { .plan = plan, .all_free = true };
	uint32_t i, other;
	int rc;

	b.order = pt_reallocarray(NULL, plan->cell_count, sizeof(*b.order));
	if (!b.order)
		return pt_fail_nomem();
	for (i = 0; i < plan->cell_count; i++)
		b.order[i] = i;
	rc = build(&b, 0, plan->cell_count, 0, &plan->root);
	free(b.order);
	if (rc < 0 || b.all_free)
		return rc;
	for (i = 0; i < plan->cell_count; i++)
		if (find_overlap(plan, i, &other))
			return pt_fail(EINVAL, "sources %" PRIu32 " and %" PRIu32 " overlap inside the target",
				       plan->cells[i].source, plan->cells[other].source);
	return 0;
}

uint32_t plan_tree_find(const struct pt_plan *plan, const uint64_t *at)
{
	uint64_t stack[PLAN_DEPTH_MAX + 1], child = plan->root;
	uint32_t depth = 0;

	for (;;) {
		if (child & PLAN_LEAF) {
			if (plan_cell_has(plan, (uint32_t)child, at))
				return (uint32_t)child;
		} else {
			const struct plan_node *node = &plan->nodes[child];
			bool left = at[node->axis] < node->left_end, right = at[node->axis] >= node->right_off;

			if (left && right)
				stack[depth++] = node->right;
			if (left || right) {
				child = left ? node->left : node->right;
				continue;
			}
		}
		/* A cover has no holes: some side that is still to be tried holds the point. */
		if (!depth)
			abort();
		child = stack[--depth];
	}
}

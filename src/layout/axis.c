/* layout/axis.c - layouts in canonical order, their text, and shard arithmetic. */
#include "layout/axis.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

static const char *const kind_names[PT_AXIS_KINDS] = { "dp", "tp", "ep", "pp" };

static bool kind_valid(enum pt_axis_kind kind)
{
	return (unsigned)kind < PT_AXIS_KINDS;
}

const char *pt_axis_kind_name(enum pt_axis_kind kind)
{
	return kind_valid(kind) ? kind_names[kind] : "?";
}

static int axis_check(const struct pt_axis *a)
{
	const char *name;

	if (!kind_valid(a->kind))
		return pt_fail(EINVAL, "%d is no axis kind: dp, tp, ep and pp are", (int)a->kind);
	name = kind_names[a->kind];
	if (a->size < 0)
		return pt_fail(EINVAL, "%s: a size of %" PRId32 " makes no sense", name, a->size);
	if (a->rank < 0 || (a->size && a->rank >= a->size))
		return pt_fail(EINVAL, "%s: rank %" PRId32 " is outside size %" PRId32 " (ranks count from 0)", name, a->rank, a->size);
	if (a->kind == PT_AXIS_TP) {
		if (a->dim < -1 || a->dim >= PT_DIMS_MAX)
			return pt_fail(EINVAL, "tp: dim %" PRId32 " is outside 0..%d", a->dim, PT_DIMS_MAX - 1);
	} else if (a->dim != -1) {
		return pt_fail(EINVAL, "%s: only tp splits a dimension, so dim must be left out", name);
	}
	if (a->has_id && a->kind != PT_AXIS_EP && a->kind != PT_AXIS_PP)
		return pt_fail(EINVAL, "%s: only ep takes an expert and pp a stage", name);
	return 0;
}

int pt_layout_add(struct pt_layout *l, const struct pt_axis *axis)
{
	uint32_t at = l->axis_count;
	int rc;

	rc = axis_check(axis);
	if (rc < 0)
		return rc;
	if (pt_layout_find(l, axis->kind))
		return pt_fail(EINVAL, "%s is given twice: a layout holds each axis once", kind_names[axis->kind]);
	while (at && l->axis[at - 1].kind > axis->kind) {
		l->axis[at] = l->axis[at - 1];
		at--;
	}
	l->axis[at] = *axis;
	l->axis_count++;
	return 0;
}

const struct pt_axis *pt_layout_find(const struct pt_layout *l, enum pt_axis_kind kind)
{
	uint32_t i;

	for (i = 0; i < l->axis_count; i++)
		if (l->axis[i].kind == kind)
			return &l->axis[i];
	return NULL;
}

void pt_layout_scope(const struct pt_layout *l, struct pt_layout *ret_scope)
{
	struct pt_layout scope = { .axis_count = 0 };
	uint32_t i;

	for (i = 0; i < l->axis_count; i++)
		if (l->axis[i].kind != PT_AXIS_TP)
			scope.axis[scope.axis_count++] = l->axis[i];
	*ret_scope = scope;
}

static bool kind_has_id(enum pt_axis_kind kind)
{
	return kind == PT_AXIS_EP || kind == PT_AXIS_PP;
}

/* The id that text and comparison use: the one given, else the rank. */
static int32_t axis_id(const struct pt_axis *a)
{
	return a->has_id ? a->id : a->rank;
}

bool pt_layout_equal(const struct pt_layout *a, const struct pt_layout *b)
{
	uint32_t i;

	if (a->axis_count != b->axis_count)
		return false;
	for (i = 0; i < a->axis_count; i++) {
		const struct pt_axis *x = &a->axis[i], *y = &b->axis[i];

		if (x->kind != y->kind || x->rank != y->rank || x->size != y->size || x->dim != y->dim)
			return false;
		if (kind_has_id(x->kind) && axis_id(x) != axis_id(y))
			return false;
	}
	return true;
}

int pt_layout_check_complete(const struct pt_layout *l)
{
	uint32_t i;
	int rc;

	if (l->axis_count > PT_AXIS_KINDS)
		return pt_fail(EINVAL, "a layout of %" PRIu32 " axes: at most %d exist", l->axis_count, PT_AXIS_KINDS);
	for (i = 0; i < l->axis_count; i++) {
		const struct pt_axis *a = &l->axis[i];

		rc = axis_check(a);
		if (rc < 0)
			return rc;
		if (i && l->axis[i - 1].kind >= a->kind)
			return pt_fail(EINVAL, "the axes are not in the order dp, tp, ep, pp, each once");
		if (!a->size)
			return pt_fail(EINVAL, "%s: give its size", kind_names[a->kind]);
		if (a->kind == PT_AXIS_TP && a->dim < 0)
			return pt_fail(EINVAL, "tp: give the dimension that it splits");
		if (kind_has_id(a->kind) && !a->has_id)
			return pt_fail(EINVAL, "%s: give the %s id", kind_names[a->kind], a->kind == PT_AXIS_EP ? "expert" : "stage");
	}
	return 0;
}

int pt_axis_format(const struct pt_axis *a, char ret_text[PT_LAYOUT_TEXT_MAX])
{
	int at;

	at = snprintf(ret_text, PT_LAYOUT_TEXT_MAX, "%s=%" PRId32, pt_axis_kind_name(a->kind), a->rank);
	if (a->size)
		at += snprintf(ret_text + at, (size_t)(PT_LAYOUT_TEXT_MAX - at), "of%" PRId32, a->size);
	if (a->kind == PT_AXIS_TP && a->dim >= 0)
		at += snprintf(ret_text + at, (size_t)(PT_LAYOUT_TEXT_MAX - at), ",dim=%" PRId32, a->dim);
	if (kind_has_id(a->kind))
		at += snprintf(ret_text + at, (size_t)(PT_LAYOUT_TEXT_MAX - at), ",%s=%" PRId32,
			       a->kind == PT_AXIS_EP ? "expert" : "stage", axis_id(a));
	return at;
}

int pt_layout_format(const struct pt_layout *l, char ret_text[PT_LAYOUT_TEXT_MAX])
{
	char text[PT_LAYOUT_TEXT_MAX];
	uint32_t i;
	int at = 0;

	ret_text[0] = '\0';
	/* The longest text of four axes, with 11-character numbers throughout, is 168 characters. */
	for (i = 0; i < l->axis_count; i++) {
		pt_axis_format(&l->axis[i], text);
		at += snprintf(ret_text + at, (size_t)(PT_LAYOUT_TEXT_MAX - at), "%s%s", i ? "/" : "", text);
	}
	return at;
}

void pt_shard_range(uint64_t extent, int32_t rank, int32_t size, enum pt_split split, uint64_t *ret_off, uint64_t *ret_ext)
{
	uint64_t n = (uint64_t)size, r = (uint64_t)rank, off, end, piece;

	if (split == PT_SPLIT_CHUNK) {
		piece = extent / n + (extent % n != 0);
		off = !piece || r > extent / piece ? extent : r * piece;
		end = piece > extent - off ? extent : off + piece;
	} else {
		off = pt_size_muldiv(extent, r, n);
		end = pt_size_muldiv(extent, r + 1, n);
	}
	*ret_off = off;
	*ret_ext = end - off;
}

int pt_shard_box(const struct pt_shape *shape, enum pt_dtype dtype, const struct pt_partition *part, enum pt_split split,
		 struct pt_box *ret_box)
{
	const struct pt_dtype_info *info = pt_dtype_info(dtype);
	struct pt_box box;
	uint32_t dim;

	if (!info)
		return pt_fail(EINVAL, "%d is no dtype", (int)dtype);
	if (shape->ndim > PT_DIMS_MAX)
		return pt_fail(EINVAL, "a shape of %" PRIu32 " dimensions: at most %d are supported", shape->ndim, PT_DIMS_MAX);
	if (part->size <= 0 || part->rank < 0 || part->rank >= part->size)
		return pt_fail(EINVAL, "rank %" PRId32 " is outside size %" PRId32 " (ranks count from 0)", part->rank, part->size);
	if (part->dim < 0 || (uint32_t)part->dim >= shape->ndim)
		return pt_fail(EINVAL, "dim %" PRId32 " is outside the tensor's %" PRIu32 " dimensions", part->dim, shape->ndim);
	dim = (uint32_t)part->dim;
	pt_shape_box(shape, &box);
	pt_shard_range(shape->dim[dim], part->rank, part->size, split, &box.off[dim], &box.ext[dim]);
	if (info->bits < 8 && (box.off[box.ndim - 1] % 2 || box.ext[box.ndim - 1] % 2))
		return pt_fail(EINVAL, "%s packs two elements a byte: rank %" PRId32 " of %" PRId32 " on dim %" PRId32
			       " of extent %" PRIu64 " would cut one", info->name, part->rank, part->size, part->dim, shape->dim[dim]);
	*ret_box = box;
	return 0;
}

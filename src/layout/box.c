/* layout/box.c - shapes and boxes. Callers keep ndim <= PT_DIMS_MAX; functions that take outside values check it. */
#include "layout/box.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

bool pt_shape_elems(const struct pt_shape *s, uint64_t *ret_elems)
{
	uint64_t elems = 1;
	uint32_t d;

	for (d = 0; d < s->ndim; d++)
		if (!pt_size_mul(elems, s->dim[d], &elems))
			return false;
	*ret_elems = elems;
	return true;
}

int pt_shape_bytes(const struct pt_shape *s, enum pt_dtype dtype, uint64_t *ret_bytes)
{
	const struct pt_dtype_info *info = pt_dtype_info(dtype);
	uint64_t elems, bytes;

	if (!info)
		return pt_fail(EINVAL, "%d is no dtype", (int)dtype);
	if (s->ndim > PT_DIMS_MAX)
		return pt_fail(EINVAL, "a shape of %" PRIu32 " dimensions: at most %d are supported", s->ndim, PT_DIMS_MAX);
	if (!pt_shape_elems(s, &elems))
		return pt_fail(EOVERFLOW, "the shape's element count is beyond 2^64");
	if (info->bits < 8) {
		if (!s->ndim || s->dim[s->ndim - 1] % 2)
			return pt_fail(EINVAL, "%s packs two elements a byte: the last dimension must be even", info->name);
		bytes = elems / 2;
	} else if (!pt_size_mul(elems, info->bits / 8, &bytes)) {
		bytes = UINT64_MAX;
	}
	if (bytes > PT_TENSOR_BYTES_MAX)
		return pt_fail(EOVERFLOW, "the tensor would have 2^62 bytes or more");
	*ret_bytes = bytes;
	return 0;
}

bool pt_shape_equal(const struct pt_shape *a, const struct pt_shape *b)
{
	return a->ndim == b->ndim && !memcmp(a->dim, b->dim, a->ndim * sizeof(a->dim[0]));
}

void pt_shape_box(const struct pt_shape *s, struct pt_box *ret_box)
{
	ret_box->ndim = s->ndim;
	memset(ret_box->off, 0, s->ndim * sizeof(ret_box->off[0]));
	memcpy(ret_box->ext, s->dim, s->ndim * sizeof(ret_box->ext[0]));
}

int pt_shape_format(const struct pt_shape *s, char *buf, uint32_t len)
{
	char text[PT_DIMS_MAX * 21 + 3];
	size_t at = 0;
	uint32_t d;

	text[at++] = '[';
	for (d = 0; d < s->ndim; d++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%" PRIu64, d ? "," : "", s->dim[d]);
	text[at++] = ']';
	text[at] = '\0';
	if (len)
		snprintf(buf, len, "%s", text);
	return (int)at;
}

static const char *skip_spaces(const char *p)
{
	while (*p == ' ')
		p++;
	return p;
}

int pt_shape_parse(const char *text, struct pt_shape *ret_shape)
{
	struct pt_shape shape = { .ndim = 0 };
	const char *p = skip_spaces(text);
	bool bracket = *p == '[';
	char separator = '\0';
	uint64_t value;

	if (bracket)
		p = skip_spaces(p + 1);
	if (bracket && *p == ']')
		goto end;
	for (;;) {
		if (*p < '0' || *p > '9')
			goto bad;
		for (value = 0; *p >= '0' && *p <= '9'; p++)
			if (!pt_size_mul(value, 10, &value) || !pt_size_add(value, (uint64_t)(*p - '0'), &value))
				return pt_fail(EINVAL, "shape '%.200s': an extent is beyond 2^64", text);
		if (shape.ndim == PT_DIMS_MAX)
			return pt_fail(EINVAL, "shape '%.200s': more than %d dimensions", text, PT_DIMS_MAX);
		shape.dim[shape.ndim++] = value;
		p = skip_spaces(p);
		if (*p != ',' && *p != 'x')
			break;
		if (separator && *p != separator)
			goto bad;
		separator = *p;
		p = skip_spaces(p + 1);
	}
end:
	if (bracket) {
		if (*p != ']')
			goto bad;
		p = skip_spaces(p + 1);
	}
	if (*p)
		goto bad;
	*ret_shape = shape;
	return 0;
bad:
	return pt_fail(EINVAL, "shape '%.200s' is not understood: write it as 2,3 or [2,3] or 2x3, and [] for a scalar", text);
}

void pt_box_shape(const struct pt_box *b, struct pt_shape *ret_shape)
{
	ret_shape->ndim = b->ndim;
	memcpy(ret_shape->dim, b->ext, b->ndim * sizeof(b->ext[0]));
}

bool pt_box_equal(const struct pt_box *a, const struct pt_box *b)
{
	return a->ndim == b->ndim && !memcmp(a->off, b->off, a->ndim * sizeof(a->off[0])) &&
	       !memcmp(a->ext, b->ext, a->ndim * sizeof(a->ext[0]));
}

bool pt_box_empty(const struct pt_box *b)
{
	uint32_t d;

	for (d = 0; d < b->ndim; d++)
		if (!b->ext[d])
			return true;
	return false;
}

bool pt_box_within(const struct pt_box *b, const struct pt_shape *s)
{
	uint64_t end;
	uint32_t d;

	if (b->ndim != s->ndim)
		return false;
	for (d = 0; d < b->ndim; d++)
		if (!pt_size_add(b->off[d], b->ext[d], &end) || end > s->dim[d])
			return false;
	return true;
}

static uint64_t box_end(const struct pt_box *b, uint32_t d)
{
	uint64_t end;

	return pt_size_add(b->off[d], b->ext[d], &end) ? end : UINT64_MAX;
}

bool pt_box_intersect(const struct pt_box *a, const struct pt_box *b, struct pt_box *ret_box)
{
	struct pt_box box;
	uint32_t d;

	if (a->ndim != b->ndim)
		return false;
	box.ndim = a->ndim;
	for (d = 0; d < a->ndim; d++) {
		uint64_t end = pt_size_min(box_end(a, d), box_end(b, d));

		box.off[d] = pt_size_max(a->off[d], b->off[d]);
		if (end <= box.off[d])
			return false;
		box.ext[d] = end - box.off[d];
	}
	ret_box->ndim = box.ndim;
	memcpy(ret_box->off, box.off, box.ndim * sizeof(box.off[0]));
	memcpy(ret_box->ext, box.ext, box.ndim * sizeof(box.ext[0]));
	return true;
}

int pt_box_pack(const struct pt_box *b, enum pt_dtype dtype, struct pt_box *ret_box, uint64_t *ret_unit_bytes)
{
	const struct pt_dtype_info *info = pt_dtype_info(dtype);
	struct pt_box box;
	uint32_t last;

	if (!info)
		return pt_fail(EINVAL, "%d is no dtype", (int)dtype);
	if (b->ndim > PT_DIMS_MAX)
		return pt_fail(EINVAL, "a box of %" PRIu32 " dimensions: at most %d are supported", b->ndim, PT_DIMS_MAX);
	if (info->bits >= 8) {
		*ret_box = *b;
		*ret_unit_bytes = info->bits / 8;
		return 0;
	}
	if (!b->ndim)
		return pt_fail(EINVAL, "%s packs two elements a byte: a scalar of it cannot be stored", info->name);
	box = *b;
	last = b->ndim - 1;
	if (b->off[last] % 2 || b->ext[last] % 2)
		return pt_fail(EINVAL, "%s packs two elements a byte: [%" PRIu64 ", +%" PRIu64 ") of the last dimension would cut one",
			       info->name, b->off[last], b->ext[last]);
	box.off[last] /= 2;
	box.ext[last] /= 2;
	*ret_box = box;
	*ret_unit_bytes = 1;
	return 0;
}

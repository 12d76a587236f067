/* format/obj.c - encodes and decodes tensor object headers and manifests; every integer little-endian. The layout of the bytes
 * is in docs/SPEC.md, "obj". Pure. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/size.h"
#include "format/obj.h"

#define OBJ_MAGIC 0x4d4f4f4eu
#define MANIFEST_MAGIC 0x574d414eu
#define VERSION 1
#define LAYOUT_FULL 0u
#define LAYOUT_SHARD 1u

enum {
	OFF_VERSION = 4, OFF_HEADER_SIZE = 6, OFF_DTYPE = 8, OFF_NDIM = 12, OFF_LAYOUT = 16, OFF_DATA_OFFSET = 24,
	OFF_DATA_BYTES = 32, OFF_GLOBAL = 40, OFF_LOCAL = 104, OFF_AXIS_COUNT = 168, OFF_AXES = 176, AXIS_BYTES = 32,
	OFF_M_SPLIT_DIM = 16, OFF_M_COUNT = 20, OFF_M_GLOBAL = 32
};

static int bad(const char *rule)
{
	return pt_fail(EINVAL, "not a usable tensor object: %s", rule);
}

static int32_t get_i32(const uint8_t *p)
{
	return (int32_t)pt_get_le32(p);
}

static int64_t get_i64(const uint8_t *p)
{
	return (int64_t)pt_get_le64(p);
}

static int get_dims(const uint8_t *p, uint32_t ndim, struct pt_shape *ret_shape)
{
	uint32_t i;

	ret_shape->ndim = ndim;
	for (i = 0; i < PT_OBJ_DIMS_MAX; i++) {
		int64_t d = get_i64(p + 8 * i);

		if (i < ndim && d < 0)
			return bad("a dimension is negative");
		if (i >= ndim && d != -1)
			return bad("an unused dimension is not -1");
		if (i < ndim)
			ret_shape->dim[i] = (uint64_t)d;
	}
	return 0;
}

static int get_axis(const uint8_t *p, uint32_t ndim, struct pt_obj_axis *ret_axis)
{
	struct pt_obj_axis a = {
		.kind = get_i32(p), .axis_index = get_i32(p + 4), .rank = get_i32(p + 8), .count = get_i32(p + 12),
		.split_dim = get_i32(p + 16), .id = get_i32(p + 20), .extent = get_i64(p + 24),
	};

	if (a.kind < 0 || a.kind > 4)
		return bad("an axis has an unknown kind");
	if (a.count <= 0 || a.rank < 0 || a.rank >= a.count)
		return bad("an axis' rank is not below its size");
	if (a.split_dim < -1 || a.split_dim >= (int32_t)ndim)
		return bad("an axis splits a dimension that the tensor does not have");
	*ret_axis = a;
	return 0;
}

int pt_obj_decode(const void *buf, size_t buf_len, uint64_t object_len, struct pt_obj *ret_obj)
{
	const uint8_t *p = buf;
	struct pt_obj o;
	int32_t ndim, code;
	uint32_t kind, i;
	uint64_t end, bytes;
	int rc;

	if (object_len < PT_OBJ_HEADER || buf_len < PT_OBJ_HEADER)
		return bad("it is shorter than its 304-byte header");
	if (pt_get_le32(p) != OBJ_MAGIC)
		return bad("it does not begin with \"NOOM\"");
	if (pt_get_le16(p + OFF_VERSION) != VERSION || pt_get_le16(p + OFF_HEADER_SIZE) != PT_OBJ_HEADER)
		return bad("its header is not version 1 of 304 bytes");
	memset(&o, 0, sizeof(o));
	code = get_i32(p + OFF_DTYPE);
	o.dtype = pt_dtype_by_obj_code(code);
	if (o.dtype == PT_DTYPE_INVALID)
		return pt_fail(EINVAL, "not a usable tensor object: its dtype code %d is unknown", code);
	ndim = get_i32(p + OFF_NDIM);
	if (ndim < 0 || ndim > PT_OBJ_DIMS_MAX)
		return bad("it has not 0 to 8 dimensions");
	o.axis_count = pt_get_le32(p + OFF_AXIS_COUNT);
	if (o.axis_count > PT_OBJ_AXES_MAX)
		return bad("it has more than 4 axes");
	kind = pt_get_le32(p + OFF_LAYOUT);
	if (kind != LAYOUT_FULL && kind != LAYOUT_SHARD)
		return bad("its layout is neither full nor shard");
	o.full = kind == LAYOUT_FULL;
	o.data_offset = pt_get_le64(p + OFF_DATA_OFFSET);
	o.data_bytes = pt_get_le64(p + OFF_DATA_BYTES);
	if (o.data_offset < PT_OBJ_HEADER || !pt_size_add(o.data_offset, o.data_bytes, &end))
		return bad("its payload begins inside the header or ends beyond any file");
	if (object_len != UINT64_MAX && end != object_len)
		return pt_fail(EINVAL, "not a usable tensor object: its header says %llu bytes in all, there are %llu",
			       (unsigned long long)end, (unsigned long long)object_len);
	rc = get_dims(p + OFF_GLOBAL, (uint32_t)ndim, &o.global_shape);
	if (!rc)
		rc = get_dims(p + OFF_LOCAL, (uint32_t)ndim, &o.local_shape);
	if (rc)
		return rc;
	if (pt_shape_bytes(&o.local_shape, o.dtype, &bytes) != 0 || bytes != o.data_bytes)
		return bad("its local shape does not make up its payload's bytes");
	for (i = 0; i < o.axis_count; i++) {
		rc = get_axis(p + OFF_AXES + AXIS_BYTES * i, (uint32_t)ndim, &o.axis[i]);
		if (rc)
			return rc;
	}
	*ret_obj = o;
	return 0;
}

static int contradiction(const char *what)
{
	return pt_fail(EINVAL, "the tensor object contradicts itself (%s); it can be read as_stored but is no source for other layouts", what);
}

int pt_obj_layout(const struct pt_obj *obj, struct pt_layout *ret_layout)
{
	struct pt_layout l = { 0 };
	int32_t split = -1;
	uint32_t i;
	int rc;

	if (obj->full && obj->axis_count)
		return contradiction("a full object with axes");
	if (!obj->full && !obj->axis_count)
		return contradiction("a shard without axes");
	for (i = 0; i < obj->axis_count; i++) {
		const struct pt_obj_axis *a = &obj->axis[i];
		struct pt_axis axis = { .kind = (enum pt_axis_kind)a->kind, .rank = a->rank, .size = a->count, .dim = a->split_dim };

		if (a->kind >= PT_AXIS_KINDS)
			return contradiction("an axis of the reserved kind");
		if (pt_layout_find(&l, axis.kind))
			return contradiction("two axes of one kind");
		if (axis.kind == PT_AXIS_TP && axis.dim < 0)
			return contradiction("a tp axis that splits no dimension");
		if (axis.kind != PT_AXIS_TP && axis.dim >= 0)
			return contradiction("an axis other than tp that splits a dimension");
		if (axis.kind == PT_AXIS_TP)
			split = axis.dim;
		if (axis.kind == PT_AXIS_EP || axis.kind == PT_AXIS_PP) {
			axis.has_id = true;
			axis.id = a->id;
		}
		rc = pt_layout_add(&l, &axis);
		if (rc)
			return rc;
	}
	if (obj->global_shape.ndim != obj->local_shape.ndim)
		return contradiction("global and local shape of different rank");
	for (i = 0; i < obj->local_shape.ndim; i++) {
		if (obj->local_shape.dim[i] > obj->global_shape.dim[i])
			return contradiction("a local shape larger than the global one");
		if ((int32_t)i != split && obj->local_shape.dim[i] != obj->global_shape.dim[i])
			return contradiction("a local shape that differs from the global one where nothing splits it");
	}
	*ret_layout = l;
	return 0;
}

static void put_dims(uint8_t *p, const struct pt_shape *s)
{
	uint32_t i;

	for (i = 0; i < PT_OBJ_DIMS_MAX; i++)
		pt_put_le64(p + 8 * i, i < s->ndim ? s->dim[i] : UINT64_MAX);
}

static bool dims_fit(const struct pt_shape *s)
{
	uint32_t i;

	if (s->ndim > PT_OBJ_DIMS_MAX)
		return false;
	for (i = 0; i < s->ndim; i++)
		if (s->dim[i] > INT64_MAX)
			return false;
	return true;
}

int pt_obj_encode(const struct pt_obj *obj, uint8_t ret_header[PT_OBJ_HEADER])
{
	const struct pt_dtype_info *info = pt_dtype_info(obj->dtype);
	uint8_t *h = ret_header;
	uint32_t i;

	if (!info || info->obj_code < 0)
		return pt_fail(EOPNOTSUPP, "a tensor object (.obj) cannot hold %s; read it as .pt", info ? info->name : "this dtype");
	if (!dims_fit(&obj->global_shape) || !dims_fit(&obj->local_shape) || obj->global_shape.ndim != obj->local_shape.ndim)
		return pt_fail(EOPNOTSUPP, "a tensor object (.obj) holds at most %d dimensions below 2^63; read it as .pt", PT_OBJ_DIMS_MAX);
	if (obj->axis_count > PT_OBJ_AXES_MAX)
		return pt_fail(EOPNOTSUPP, "a tensor object (.obj) holds at most %d axes", PT_OBJ_AXES_MAX);
	memset(h, 0, PT_OBJ_HEADER);
	pt_put_le32(h, OBJ_MAGIC);
	pt_put_le16(h + OFF_VERSION, VERSION);
	pt_put_le16(h + OFF_HEADER_SIZE, PT_OBJ_HEADER);
	pt_put_le32(h + OFF_DTYPE, (uint32_t)info->obj_code);
	pt_put_le32(h + OFF_NDIM, obj->local_shape.ndim);
	pt_put_le32(h + OFF_LAYOUT, obj->full ? LAYOUT_FULL : LAYOUT_SHARD);
	pt_put_le64(h + OFF_DATA_OFFSET, PT_OBJ_HEADER);
	pt_put_le64(h + OFF_DATA_BYTES, obj->data_bytes);
	put_dims(h + OFF_GLOBAL, &obj->global_shape);
	put_dims(h + OFF_LOCAL, &obj->local_shape);
	pt_put_le32(h + OFF_AXIS_COUNT, obj->axis_count);
	for (i = 0; i < obj->axis_count; i++) {
		const struct pt_obj_axis *a = &obj->axis[i];
		uint8_t *p = h + OFF_AXES + AXIS_BYTES * i;

		pt_put_le32(p, (uint32_t)a->kind);
		pt_put_le32(p + 4, (uint32_t)a->axis_index);
		pt_put_le32(p + 8, (uint32_t)a->rank);
		pt_put_le32(p + 12, (uint32_t)a->count);
		pt_put_le32(p + 16, (uint32_t)a->split_dim);
		pt_put_le32(p + 20, (uint32_t)a->id);
		pt_put_le64(p + 24, (uint64_t)a->extent);
	}
	return 0;
}

int pt_obj_manifest_decode(const void *buf, size_t len, struct pt_obj_manifest *ret_m)
{
	const uint8_t *p = buf;
	struct pt_obj_manifest m;
	int32_t ndim;
	uint32_t i;

	if (len < PT_OBJ_MANIFEST || pt_get_le32(p) != MANIFEST_MAGIC || pt_get_le16(p + OFF_VERSION) != VERSION ||
	    pt_get_le16(p + OFF_HEADER_SIZE) != PT_OBJ_MANIFEST)
		return pt_fail(EINVAL, "not a manifest: it needs 96 bytes that begin with \"NAMW\", version 1");
	memset(&m, 0, sizeof(m));
	m.dtype_code = get_i32(p + OFF_DTYPE);
	ndim = get_i32(p + OFF_NDIM);
	m.split_dim = get_i32(p + OFF_M_SPLIT_DIM);
	m.shard_count = get_i32(p + OFF_M_COUNT);
	if (ndim < 0 || ndim > PT_OBJ_DIMS_MAX || m.split_dim < 0 || m.split_dim >= ndim || m.shard_count <= 0)
		return pt_fail(EINVAL, "the manifest has a split dimension, shard count or rank that cannot be");
	m.global_shape.ndim = (uint32_t)ndim;
	for (i = 0; i < m.global_shape.ndim; i++) {
		int64_t d = get_i64(p + OFF_M_GLOBAL + 8 * i);

		if (d < 0)
			return pt_fail(EINVAL, "the manifest has a negative dimension");
		m.global_shape.dim[i] = (uint64_t)d;
	}
	*ret_m = m;
	return 0;
}

void pt_obj_manifest_encode(const struct pt_obj_manifest *m, uint8_t ret_bytes[PT_OBJ_MANIFEST])
{
	memset(ret_bytes, 0, PT_OBJ_MANIFEST);
	pt_put_le32(ret_bytes, MANIFEST_MAGIC);
	pt_put_le16(ret_bytes + OFF_VERSION, VERSION);
	pt_put_le16(ret_bytes + OFF_HEADER_SIZE, PT_OBJ_MANIFEST);
	pt_put_le32(ret_bytes + OFF_DTYPE, (uint32_t)m->dtype_code);
	pt_put_le32(ret_bytes + OFF_NDIM, m->global_shape.ndim);
	pt_put_le32(ret_bytes + OFF_M_SPLIT_DIM, (uint32_t)m->split_dim);
	pt_put_le32(ret_bytes + OFF_M_COUNT, (uint32_t)m->shard_count);
	put_dims(ret_bytes + OFF_M_GLOBAL, &m->global_shape);
}

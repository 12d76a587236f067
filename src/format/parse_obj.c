/* format/parse_obj.c - a tensor object: 304-byte header, padding up to data_offset, payload. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/parse_int.h"

struct obj {
	struct pt_parse_ctx *ctx;
	struct pt_buf header;
	struct pt_obj obj;
	bool decoded;
	uint64_t off;                   /* into the object, once decoded */
	uint32_t storage;
};

static int obj_create(struct pt_parse_ctx *ctx, void **ret_state)
{
	struct obj *o = pt_calloc(1, sizeof(*o));

	if (!o)
		return pt_fail_nomem();
	o->ctx = ctx;
	*ret_state = o;
	return 0;
}

static int decode(struct obj *o)
{
	struct pt_parse_tensor t = { .name = "", .contiguous = true };
	uint64_t size = o->ctx->hint.file_size;
	int rc;

	rc = pt_obj_decode(o->header.data, o->header.len, size ? size : UINT64_MAX, &o->obj);
	if (rc)
		return rc;
	o->decoded = true;
	o->off = PT_OBJ_HEADER;
	rc = pt_parse_storage(o->ctx, o->obj.data_bytes, &o->storage);
	if (rc)
		return rc;
	t.dtype = o->obj.dtype;
	t.shape = o->obj.local_shape;
	t.storage = o->storage;
	t.obj = &o->obj;
	rc = pt_parse_tensor(o->ctx, &t);
	return rc ? rc : pt_parse_header_done(o->ctx);
}

static int obj_feed(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct obj *o = state;
	int rc;

	if (!o->decoded) {
		*ret_used = pt_parse_collect(&o->header, PT_OBJ_HEADER, data, len);
		if (pt_buf_failed(&o->header))
			return pt_fail_nomem();
		if (o->header.len < PT_OBJ_HEADER)
			return 0;
		rc = decode(o);
		if (rc)
			return rc;
	} else if (o->off < o->obj.data_offset) {
		*ret_used = pt_size_min(len, o->obj.data_offset - o->off);
		o->off += *ret_used;
	} else {
		*ret_used = pt_size_min(len, o->obj.data_offset + o->obj.data_bytes - o->off);
		rc = pt_parse_data(o->ctx, o->storage, o->off - o->obj.data_offset, data, *ret_used);
		if (rc)
			return rc;
		o->off += *ret_used;
	}
	return o->off == o->obj.data_offset + o->obj.data_bytes ? pt_parse_complete(o->ctx) : 0;
}

static int obj_end(void *state)
{
	struct obj *o = state;

	if (!o->decoded)
		return pt_fail(EINVAL, "the tensor object ended inside its header, after %zu of %d bytes", o->header.len, PT_OBJ_HEADER);
	return pt_fail(EINVAL, "the tensor object ended after %llu bytes; its header says %llu", (unsigned long long)o->off,
		       (unsigned long long)(o->obj.data_offset + o->obj.data_bytes));
}

static void obj_free(void *state)
{
	struct obj *o = state;

	if (!o)
		return;
	pt_buf_done(&o->header);
	free(o);
}

const struct pt_parse_ops pt_parse_ops_obj = {
	.format = PT_FORMAT_OBJ,
	.create = obj_create,
	.feed = obj_feed,
	.end = obj_end,
	.free = obj_free,
};

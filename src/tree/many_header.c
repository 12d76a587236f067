/* tree/many_header.c - the header of many tensors as one file, made once: in the shape of a flat dict, or in that of a pickle that was written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/repickle.h"
#include "tree/many_int.h"

static void cut_shape(struct pt_shape *shape, const struct pt_many_cut *cut)
{
	if (cut->dim >= 0)
		shape->dim[cut->dim] = cut->ext;
}

static void describe(const struct pt_many_item *item, struct pt_serve_tensor *t, struct pt_buf *sign)
{
	struct pt_parse_tensor p;

	t->name = item->name;
	if (item->c) {
		pt_container_tensor(item->c, item->tensor, &p);
		t->dtype = p.dtype;
		t->global_shape = p.shape;
		if (item->cut.dim < 0)
			t->crc32 = item->c->tensors[item->tensor].crc32;
		pt_buf_append(sign, item->c->blob.id.b, sizeof(item->c->blob.id.b));
		pt_buf_append_le32(sign, item->tensor);
	} else {
		t->dtype = item->m->dtype;
		t->global_shape = item->m->shape;
		if (item->m->object_count == 1 && item->cut.dim < 0)
			t->crc32 = item->m->objects[0].crc32;
		pt_buf_append(sign, item->m->set_id.b, sizeof(item->m->set_id.b));
		pt_buf_append_le64(sign, item->m->revision);
	}
	t->shape = t->global_shape;
	cut_shape(&t->shape, &item->cut);
	pt_buf_append_le32(sign, (uint32_t)item->cut.dim);
	pt_buf_append_le64(sign, item->cut.off);
	pt_buf_append_le64(sign, item->cut.ext);
	pt_buf_append_str(sign, item->name);
	pt_buf_append_u8(sign, 0);
}

int pt_many_finish(struct pt_many *many, bool bare, const struct pt_axis *tp)
{
	struct pt_serve_tensor *t = pt_calloc(many->count ? many->count : 1, sizeof(*t));
	struct pt_buf sign = PT_BUF_INIT;
	uint32_t i;
	int rc;

	if (!t)
		return pt_fail_nomem();
	for (i = 0; i < many->count; i++)
		describe(&many->items[i], &t[i], &sign);
	if (tp && many->format == PT_FORMAT_OBJ && many->count == 1 && many->items[0].cut.dim >= 0) {
		t[0].axes_in_order[0] = *tp;
		t[0].axes_in_order[0].dim = many->items[0].cut.dim;
		pt_layout_add(&t[0].axes, &t[0].axes_in_order[0]);
	}
	pt_buf_append_le32(&sign, (uint32_t)many->format << 1 | bare);
	rc = sign.failed ? pt_fail_nomem() : pt_serve(many->format, t, many->count, !bare, &many->served);
	if (!rc)
		many->stamp = pt_hash64(sign.data, sign.len);
	pt_buf_done(&sign);
	free(t);
	return rc;
}

/* ---- in the shape of a pickle ---- */

struct payload {
	const struct pt_many_item *item;
	uint32_t index;                 /* of the item */
};

/* 0: the same bytes. */
static int payload_compare(const void *a, const void *b)
{
	const struct pt_many_item *x = ((const struct payload *)a)->item, *y = ((const struct payload *)b)->item;
	struct pt_parse_tensor s, t;
	int order;

#define BY(a, b) if ((a) != (b)) return (a) < (b) ? -1 : 1
	BY((uintptr_t)x->m, (uintptr_t)y->m);
	BY(x->cut.dim, y->cut.dim);
	if (x->cut.dim >= 0) {
		BY(x->cut.off, y->cut.off);
		BY(x->cut.ext, y->cut.ext);
	}
	if (x->m)
		return 0;
	pt_container_tensor(x->c, x->tensor, &s);
	pt_container_tensor(y->c, y->tensor, &t);
	BY(s.storage, t.storage);
	BY(s.storage_off, t.storage_off);
	BY(s.dtype, t.dtype);
	BY(s.contiguous, t.contiguous);
	BY(s.shape.ndim, t.shape.ndim);
#undef BY
	order = memcmp(s.shape.dim, t.shape.dim, s.shape.ndim * sizeof(s.shape.dim[0]));
	return order || s.contiguous ? order : memcmp(s.stride, t.stride, s.shape.ndim * sizeof(s.stride[0]));
}

static int payload_order(const void *a, const void *b)
{
	int order = payload_compare(a, b);
	const struct payload *x = a, *y = b;

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* first[i]: the first item of the same bytes as item i. */
static int same_bytes(const struct pt_many *many, uint32_t *first)
{
	struct payload *p = pt_calloc(many->count, sizeof(*p));
	uint32_t i, head = 0;

	if (!p)
		return pt_fail_nomem();
	for (i = 0; i < many->count; i++)
		p[i] = (struct payload){ &many->items[i], i };
	qsort(p, many->count, sizeof(*p), payload_order);
	for (i = 0; i < many->count; i++) {
		if (i && payload_compare(&p[head], &p[i]) != 0)
			head = i;
		first[p[i].index] = p[head].index;
	}
	free(p);
	return 0;
}

int pt_many_finish_like(struct pt_many *many, const struct pt_repickle *r, const char **ret_why)
{
	uint32_t values = pt_repickle_tensor_count(r), count = 0, i, v;
	struct pt_serve_tensor *payloads, *tensors, t;
	uint32_t *first, *item_of, *storage;
	struct pt_buf sign = PT_BUF_INIT, pickle = PT_BUF_INIT;
	int rc;

	*ret_why = NULL;
	if (pt_repickle_name_count(r) != many->count || !many->count) {
		*ret_why = "its tensors are not those of its description";
		return 0;
	}
	first = pt_reallocarray(NULL, many->count, sizeof(*first));
	item_of = pt_reallocarray(NULL, many->count, sizeof(*item_of));
	storage = pt_calloc(values, sizeof(*storage));
	payloads = pt_calloc(many->count, sizeof(*payloads));
	tensors = pt_calloc(values, sizeof(*tensors));
	rc = first && item_of && storage && payloads && tensors ? same_bytes(many, first) : pt_fail_nomem();
	for (i = 0; !rc && i < many->count; i++) {
		memset(&t, 0, sizeof(t));
		describe(&many->items[i], &t, &sign);
		v = pt_repickle_name_tensor(r, i);
		if (first[i] == i) {
			item_of[count] = i;
			payloads[count] = t;
			first[i] = count++;     /* from here on: its storage */
		} else {
			first[i] = first[first[i]];
		}
		if (tensors[v].name && storage[v] != first[i])
			*ret_why = "a tensor in it has two names, whose parts are not the same";
		tensors[v] = t;
		storage[v] = first[i];
	}
	if (!rc && !*ret_why)
		rc = pt_repickle_emit(r, tensors, storage, &pickle);
	if (!rc && !*ret_why)
		rc = sign.failed ? pt_fail_nomem() : pt_serve_with_pickle(payloads, count, &pickle, &many->served);
	if (!rc && !*ret_why) {
		pt_buf_append(&sign, pickle.data, pickle.len);
		many->stamp = pt_hash64(sign.data, sign.len);
		many->item_of = item_of;
		item_of = NULL;
		if (sign.failed)
			rc = pt_fail_nomem();
	}
	pt_buf_done(&sign);
	pt_buf_done(&pickle);
	free(first);
	free(item_of);
	free(storage);
	free(payloads);
	free(tensors);
	return rc;
}

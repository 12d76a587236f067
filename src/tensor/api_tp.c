/* tensor/api_tp.c - the calls of plain tensor parallelism: all slices of a full tensor as one set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/id.h"
#include "tensor/api_int.h"

#define TP_SIZE_MAX 65536

static int tp_request(int32_t rank, int32_t size, int32_t dim, enum pt_target target, struct pt_request *ret_req)
{
	struct pt_request req = { .target = target };
	int rc;

	if (size <= 1) {
		req.target = PT_TARGET_FULL;
	} else {
		req.axis_count = 1;
		req.axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = rank, .size = size, .dim = dim };
		if (dim < 0)
			return pt_fail(EINVAL, "split_dim %d is outside the tensor", (int)dim);
		rc = pt_layout_add(&req.layout, &req.axis[0]);
		if (rc)
			return rc;
	}
	*ret_req = req;
	return 0;
}

/* All slices are staged before the first is published, under a tag of their own: two calls never share a set. */
static int stage_all(struct ptio *p, uint64_t node, const struct pt_api_source *src, int32_t size, int32_t dim, bool put, const char *tag,
		     struct pt_upload **uploads)
{
	struct pt_request req;
	int32_t r;
	int rc = 0;

	for (r = 0; !rc && r < size; r++) {
		rc = tp_request(r, size, dim, PT_TARGET_FULL, &req);
		if (rc)
			break;
		memcpy(req.step, tag, strlen(tag) + 1);
		rc = pt_api_upload_open(p, node, src, &req, put, &uploads[r]);
		if (!rc)
			rc = pt_api_feed(uploads[r], src);
	}
	return rc;
}

struct begun {
	struct ptio *p;
	const char *tag;
};

static int drop_begun(void *ctx, const struct pt_pending *set)
{
	struct begun *b = ctx;

	return strcmp(set->step, b->tag) == 0 ? pt_pending_remove(b->p->repo, set) : 0;
}

static int slices_to_node(struct ptio *p, uint64_t node, const struct pt_api_source *src, int32_t size, int32_t dim, bool put)
{
	char tag[PT_ID_HEX_LEN + 1], sentence[PT_FAIL_SENTENCE_MAX];
	struct begun begun = { p, tag };
	struct pt_published published;
	struct pt_upload **uploads;
	struct pt_id id;
	int32_t r, done = 0;
	int rc;

	rc = pt_id_random(&id);
	if (rc < 0)
		return rc;
	pt_id_hex(&id, tag);
	uploads = pt_calloc((size_t)size, sizeof(*uploads));
	if (!uploads)
		return pt_fail_nomem();
	rc = stage_all(p, node, src, size, dim, put, tag, uploads);
	while (!rc && done < size) {
		rc = pt_upload_publish(uploads[done], &published);
		done += !rc;
	}
	for (r = 0; r < size; r++)
		pt_upload_free(uploads[r]);
	free(uploads);
	if (rc && done) {
		/* Nobody will complete the set: its tag is this call's. */
		snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
		pt_pending_list(p->repo, node, drop_begun, &begun);
		pt_fail(-rc, "%s", sentence);
	}
	return rc;
}

struct slices {
	struct ptio *p;
	const struct pt_api_source *src;
	int32_t size, dim;
	bool put;
};

static int slices_here(void *ctx, uint64_t node)
{
	const struct slices *s = ctx;

	return slices_to_node(s->p, node, s->src, s->size, s->dim, s->put);
}

static int write_tp(struct ptio *p, const char *key, const struct pt_api_source *src, int32_t size, int32_t dim, bool put)
{
	struct pt_request full = { .target = PT_TARGET_FULL };
	struct slices slices = { p, src, size, dim, put };
	int rc;

	if (!p)
		return pt_fail(EINVAL, "the handle is NULL");
	if (size > TP_SIZE_MAX)
		return pt_fail(EINVAL, "tp_size %d: at most %d slices are supported", (int)size, TP_SIZE_MAX);
	/* A shard is no tensor to split. */
	rc = src->tensor ? 0 : pt_api_object_check(src->object, src->size, &full);
	if (rc)
		return rc;
	return size <= 1 ? pt_api_write(p, key, src, &full, put) : pt_api_at_key(p, key, slices_here, &slices);
}

static int write_tp_tensor(struct ptio *p, const char *key, const struct ptio_tensor *t, int32_t size, int32_t dim, bool put)
{
	struct pt_api_source src = { .tensor = t };

	return t ? write_tp(p, key, &src, size, dim, put) : pt_fail(EINVAL, "the tensor is NULL");
}

int ptio_put_with_tp(struct ptio *p, const char *key, const struct ptio_tensor *t, int32_t tp_size, int32_t split_dim)
{
	return write_tp_tensor(p, key, t, tp_size, split_dim, true);
}

int ptio_upsert_with_tp(struct ptio *p, const char *key, const struct ptio_tensor *t, int32_t tp_size, int32_t split_dim)
{
	return write_tp_tensor(p, key, t, tp_size, split_dim, false);
}

int ptio_put_with_tp_from(struct ptio *p, const char *key, const void *object, uint64_t size, int32_t tp_size, int32_t split_dim)
{
	struct pt_api_source src = { .object = object, .size = size };

	return write_tp(p, key, &src, tp_size, split_dim, true);
}

static int refuse_batch(int *ret_codes, size_t count)
{
	size_t i;

	for (i = 0; ret_codes && i < count; i++)
		ret_codes[i] = -EINVAL;
	return pt_fail(EINVAL, "the batch is refused: its lists are NULL or of different lengths");
}

int ptio_batch_put_with_tp(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
			   int32_t tp_size, int32_t split_dim, int *ret_codes)
{
	size_t i;

	if (!key_count && !tensor_count)
		return 0;
	if (!p || !keys || !tensors || !ret_codes || tensor_count != key_count)
		return refuse_batch(ret_codes, key_count);
	for (i = 0; i < key_count; i++)
		ret_codes[i] = ptio_put_with_tp(p, keys[i], &tensors[i], tp_size, split_dim);
	return 0;
}

int ptio_batch_put_with_tp_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
				const uint64_t *sizes, size_t size_count, int32_t tp_size, int32_t split_dim, int *ret_codes)
{
	size_t i;

	if (!key_count && !object_count && !size_count)
		return 0;
	if (!p || !keys || !objects || !sizes || !ret_codes || object_count != key_count || size_count != key_count)
		return refuse_batch(ret_codes, key_count);
	for (i = 0; i < key_count; i++)
		ret_codes[i] = ptio_put_with_tp_from(p, keys[i], objects[i], sizes[i], tp_size, split_dim);
	return 0;
}

/* ---- reading: a shard target ---- */

struct tp_target {
	struct ptio_axis axis;
	struct ptio_parallelism parallelism;
	struct ptio_read_target target;
};

static void tp_target(int32_t rank, int32_t size, int32_t dim, struct tp_target *ret)
{
	ret->axis = ptio_axis_tp(rank, size, dim);
	ret->parallelism = (struct ptio_parallelism){ .axes = &ret->axis, .axis_count = 1 };
	ret->target = (struct ptio_read_target){ .mode = size <= 1 ? PTIO_FULL : PTIO_SHARD };
	if (size > 1)
		ret->target.parallelism = &ret->parallelism;
}

int ptio_get_with_tp(struct ptio *p, const char *key, int32_t rank, int32_t tp_size, int32_t split_dim, struct ptio_tensor *ret_t)
{
	struct tp_target t;

	tp_target(rank, tp_size, split_dim, &t);
	return ptio_get(p, key, &t.target, ret_t);
}

int64_t ptio_get_into_with_tp(struct ptio *p, const char *key, int32_t rank, int32_t tp_size, int32_t split_dim, void *buf, uint64_t size,
			      struct ptio_tensor *ret_t)
{
	struct tp_target t;

	tp_target(rank, tp_size, split_dim, &t);
	return ptio_get_into(p, key, &t.target, buf, size, ret_t);
}

int ptio_batch_get_into_with_tp(struct ptio *p, const char *const *keys, size_t key_count, void *const *bufs, size_t buf_count, const uint64_t *sizes,
				size_t size_count, int32_t rank, int32_t tp_size, int32_t split_dim, int64_t *ret_results)
{
	struct ptio_read_target *targets;
	struct tp_target t;
	size_t i;
	int rc;

	if (!key_count)
		return 0;
	targets = pt_reallocarray(NULL, key_count, sizeof(*targets));
	if (!targets)
		return pt_fail_nomem();
	tp_target(rank, tp_size, split_dim, &t);
	for (i = 0; i < key_count; i++)
		targets[i] = t.target;
	rc = ptio_batch_get_into(p, keys, key_count, targets, key_count, bufs, buf_count, sizes, size_count, ret_results);
	free(targets);
	return rc;
}

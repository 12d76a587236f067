/* tensor/api_write.c - put and upsert, from tensors and from tensor objects in memory, one key or many. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "tensor/api_int.h"
#include "tensor/spool.h"

#define FILE_WINDOW (1u << 20)
#define NODE_RACES 8                    /* a key may be removed between being found and being written */

/* ---- one source into one upload ---- */

static int feed_piece(void *ctx, const void *data, uint64_t len)
{
	return pt_upload_feed_tensor(ctx, data, len);
}

static int tensor_in(const struct ptio_tensor *t, struct pt_parse_tensor *ret)
{
	uint64_t bytes;
	int rc;

	if (t->ndim > PT_DIMS_MAX)
		return pt_fail(EINVAL, "a tensor of %u dimensions: at most %d are supported", (unsigned)t->ndim, PT_DIMS_MAX);
	memset(ret, 0, sizeof(*ret));
	ret->name = "";
	ret->dtype = (enum pt_dtype)t->dtype;
	ret->shape.ndim = t->ndim;
	memcpy(ret->shape.dim, t->shape, sizeof(ret->shape.dim));
	memcpy(ret->stride, t->stride, sizeof(ret->stride));
	ret->contiguous = !t->strided;
	rc = pt_shape_bytes(&ret->shape, ret->dtype, &bytes);
	if (rc)
		return rc == -EOVERFLOW ? -EINVAL : rc;
	if (!t->strided && bytes != t->bytes)
		return pt_fail(EINVAL, "dtype and shape make %llu bytes, but %llu are given", (unsigned long long)bytes, (unsigned long long)t->bytes);
	if (bytes && !t->data)
		return pt_fail(EINVAL, "the tensor has no data");
	return 0;
}

static int feed_tensor(struct pt_upload *u, const struct ptio_tensor *t)
{
	struct pt_parse_tensor in;
	int rc;

	rc = tensor_in(t, &in);
	if (!rc)
		rc = pt_upload_begin_tensor(u, in.dtype, &in.shape);
	if (rc)
		return rc;
	return in.contiguous ? pt_upload_feed_tensor(u, t->data, t->bytes) : pt_strided_gather(t->data, t->bytes, &in, feed_piece, u);
}

static int feed_fd(struct pt_upload *u, int fd)
{
	uint8_t *buf = pt_malloc(FILE_WINDOW);
	uint64_t off = 0;
	int64_t n;
	int rc = 0;

	if (!buf)
		return pt_fail_nomem();
	do {
		n = pt_io_pread(fd, buf, FILE_WINDOW, off);
		if (n < 0)
			rc = pt_fail((int)-n, "reading the file failed (%s)", strerror((int)-n));
		else
			rc = pt_upload_feed(u, buf, (uint64_t)n);
		off += n > 0 ? (uint64_t)n : 0;
	} while (!rc && n > 0);
	free(buf);
	return rc;
}

int pt_api_feed(struct pt_upload *u, const struct pt_api_source *src)
{
	if (src->tensor)
		return feed_tensor(u, src->tensor);
	return src->object ? pt_upload_feed(u, src->object, src->size) : feed_fd(u, src->fd);
}

int pt_api_upload_open(struct ptio *p, uint64_t node, const struct pt_api_source *src, const struct pt_request *req, bool put, struct pt_upload **ret_u)
{
	struct pt_upload_options o = { .format = src->object ? PT_FORMAT_OBJ : PT_FORMAT_SAFETENSORS, .put = put, .mode = 0644, .uid = geteuid(),
				       .gid = getegid() };

	o.hint.file_size = src->object ? src->size : 0;
	return pt_upload_open(p->repo, node, req, &o, ret_u);
}

static int write_to_node(struct ptio *p, uint64_t node, const struct pt_api_source *src, const struct pt_request *req, bool put)
{
	struct pt_published published;
	struct pt_upload *u;
	int rc;

	rc = pt_api_upload_open(p, node, src, req, put, &u);
	if (rc < 0)
		return rc;
	rc = pt_api_feed(u, src);
	if (!rc)
		rc = pt_upload_publish(u, &published);
	pt_upload_free(u);
	return rc;
}

int pt_api_object_check(const void *object, uint64_t size, const struct pt_request *req)
{
	struct pt_obj obj;
	int rc;

	if (!object)
		return pt_fail(EINVAL, "the tensor object is NULL");
	if (size < PT_OBJ_HEADER)
		return pt_fail(EINVAL, "%llu bytes are no tensor object: its header alone has %d", (unsigned long long)size, PT_OBJ_HEADER);
	rc = pt_obj_decode(object, size, size, &obj);
	if (rc)
		return rc;
	if (!obj.full && (req->has_partition || req->layout.axis_count != 1 || req->layout.axis[0].kind != PT_AXIS_TP))
		return pt_fail(EINVAL, "the object is a shard, and a full one is wanted: a slice is cut from it");
	return 0;
}

int pt_api_at_key(struct ptio *p, const char *key, int (*fn)(void *ctx, uint64_t node), void *ctx)
{
	char sentence[PT_FAIL_SENTENCE_MAX];
	struct pt_node node;
	uint64_t id;
	int rc, tries;

	rc = pt_api_key_check(key);
	for (tries = 0; !rc && tries < NODE_RACES; tries++) {
		rc = pt_node_by_key(p->repo, key, true, &node);
		if (rc < 0)
			return rc;
		id = node.id;
		pt_node_done(&node);
		rc = fn(ctx, id);
		if (rc >= 0)
			return 0;
		/* What was made for this write alone goes with it; the sentence stays. */
		snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
		pt_node_prune(p->repo, id);
		pt_fail(-rc, "%s", sentence);
		if (rc == -ENOENT)
			rc = 0;
	}
	return rc ? rc : pt_fail(EAGAIN, "the key is removed again and again while it is written");
}

struct write {
	struct ptio *p;
	const struct pt_api_source *src;
	const struct pt_request *req;
	bool put;
};

static int write_here(void *ctx, uint64_t node)
{
	const struct write *w = ctx;

	return write_to_node(w->p, node, w->src, w->req, w->put);
}

int pt_api_write(struct ptio *p, const char *key, const struct pt_api_source *src, const struct pt_request *req, bool put)
{
	struct write w = { p, src, req, put };

	return pt_api_at_key(p, key, write_here, &w);
}

/* ---- the public calls ---- */

static int write_one(struct ptio *p, const char *key, const struct pt_api_source *src, const struct ptio_write *how, bool put)
{
	struct pt_request req;
	int rc;

	if (!p)
		return pt_fail(EINVAL, "the handle is NULL");
	rc = pt_api_request_write(how, !src->tensor, &req);
	if (!rc && !src->tensor)
		rc = pt_api_object_check(src->object, src->size, &req);
	return rc ? rc : pt_api_write(p, key, src, &req, put);
}

static int write_tensor(struct ptio *p, const char *key, const struct ptio_tensor *t, const struct ptio_write *how, bool put)
{
	struct pt_api_source src = { .tensor = t };

	if (!t)
		return pt_fail(EINVAL, "the tensor is NULL");
	return write_one(p, key, &src, how, put);
}

static int write_object(struct ptio *p, const char *key, const void *object, uint64_t size, const struct ptio_write *how, bool put)
{
	struct pt_api_source src = { .object = object, .size = size };

	return write_one(p, key, &src, how, put);
}

int ptio_put(struct ptio *p, const char *key, const struct ptio_tensor *t, const struct ptio_write *how)
{
	return write_tensor(p, key, t, how, true);
}

int ptio_upsert(struct ptio *p, const char *key, const struct ptio_tensor *t, const struct ptio_write *how)
{
	return write_tensor(p, key, t, how, false);
}

int ptio_put_from(struct ptio *p, const char *key, const void *object, uint64_t size, const struct ptio_write *how)
{
	return write_object(p, key, object, size, how, true);
}

int ptio_upsert_from(struct ptio *p, const char *key, const void *object, uint64_t size, const struct ptio_write *how)
{
	return write_object(p, key, object, size, how, false);
}

/* ---- batches ---- */

static int refuse_all(int *ret_codes, size_t count, const char *why)
{
	size_t i;

	for (i = 0; i < count; i++)
		ret_codes[i] = -EINVAL;
	return pt_fail(EINVAL, "the batch is refused: %s", why);
}

static int batch_check(struct ptio *p, const char *const *keys, size_t key_count, size_t source_count, bool have_sources,
		       const struct ptio_batch_write *how, int *ret_codes)
{
	if (!ret_codes && key_count)
		return pt_fail(EINVAL, "the batch is refused: there is no place for its results");
	if (!p || (key_count && (!keys || !have_sources)))
		return refuse_all(ret_codes, key_count, "an argument is NULL");
	if (source_count != key_count)
		return refuse_all(ret_codes, key_count, "there are not as many tensors as keys");
	if (!how)
		return 0;
	if (how->parallelism_count && how->writer_count)
		return refuse_all(ret_codes, key_count, "axes together with writer partitions");
	if ((how->parallelism_count && (how->parallelism_count != key_count || !how->parallelisms)) ||
	    (how->writer_count && (how->writer_count != key_count || !how->writers)))
		return refuse_all(ret_codes, key_count, "there are not as many axes or writer partitions as keys");
	return 0;
}

static struct ptio_write how_of(const struct ptio_batch_write *how, size_t i)
{
	struct ptio_write one = { .parallelism = NULL };

	if (how) {
		one.parallelism = how->parallelism_count ? how->parallelisms[i] : NULL;
		one.writer = how->writer_count ? how->writers[i] : NULL;
		one.split = how->split;
		one.step = how->step;
	}
	return one;
}

static int batch_tensors(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
			 const struct ptio_batch_write *how, int *ret_codes, bool put)
{
	size_t i;
	int rc;

	rc = batch_check(p, keys, key_count, tensor_count, tensors != NULL, how, ret_codes);
	for (i = 0; !rc && i < key_count; i++) {
		struct ptio_write one = how_of(how, i);

		ret_codes[i] = write_tensor(p, keys[i], &tensors[i], &one, put);
	}
	return rc;
}

static int batch_objects(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
			 const uint64_t *sizes, size_t size_count, const struct ptio_batch_write *how, int *ret_codes, bool put)
{
	size_t i;
	int rc;

	rc = batch_check(p, keys, key_count, object_count == size_count ? object_count : key_count + 1, objects && sizes, how, ret_codes);
	for (i = 0; !rc && i < key_count; i++) {
		struct ptio_write one = how_of(how, i);

		ret_codes[i] = write_object(p, keys[i], objects[i], sizes[i], &one, put);
	}
	return rc;
}

int ptio_batch_put(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
		   const struct ptio_batch_write *how, int *ret_codes)
{
	return batch_tensors(p, keys, key_count, tensors, tensor_count, how, ret_codes, true);
}

int ptio_batch_upsert(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
		      const struct ptio_batch_write *how, int *ret_codes)
{
	return batch_tensors(p, keys, key_count, tensors, tensor_count, how, ret_codes, false);
}

int ptio_batch_put_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
			const uint64_t *sizes, size_t size_count, const struct ptio_batch_write *how, int *ret_codes)
{
	return batch_objects(p, keys, key_count, objects, object_count, sizes, size_count, how, ret_codes, true);
}

int ptio_batch_upsert_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
			   const uint64_t *sizes, size_t size_count, const struct ptio_batch_write *how, int *ret_codes)
{
	return batch_objects(p, keys, key_count, objects, object_count, sizes, size_count, how, ret_codes, false);
}

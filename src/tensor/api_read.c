/* tensor/api_read.c - get, get_into and describe, one key or many. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tensor/api_int.h"

#define PIN_RACES 1000                  /* revisions that may supersede each other while one is being pinned */

int pt_api_node(struct ptio *p, const char *key, uint64_t *ret_node)
{
	struct pt_node node;
	int rc;

	if (!p)
		return pt_fail(EINVAL, "the handle is NULL");
	rc = pt_api_key_check(key);
	if (rc)
		return rc;
	rc = pt_node_by_key(p->repo, key, false, &node);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return pt_fail(ENOENT, "there is no tensor '%.200s'", key);
	if (rc < 0)
		return rc;
	*ret_node = node.id;
	pt_node_done(&node);
	return 0;
}

/* Reads ahead what there is of one key: a hint, and none when there is no handle or key. */
static struct pt_repo_ahead *ahead_of(struct ptio *p, const char *key)
{
	struct pt_repo_ahead *ahead = NULL;

	if (p && key && pt_repo_ahead_begin(p->repo, &key, 1, &ahead) < 0)
		pt_fail_clear();        /* what goes wrong is told by who looks */
	return ahead;
}

static int find(struct ptio *p, const char *key, const struct pt_request *req, uint64_t *ret_node, struct pt_view **ret_view)
{
	struct pt_repo_ahead *ahead = ahead_of(p, key);
	int rc = pt_api_node(p, key, ret_node);

	if (!rc) {
		rc = pt_view_resolve(p->repo, *ret_node, req, ret_view);
		if (rc < 0)
			rc = pt_fail_context(rc, "'%.200s'", key);
	}
	pt_repo_ahead_end(ahead);
	return rc;
}

static int find_target(struct ptio *p, const char *key, const struct ptio_read_target *target, struct pt_view **ret_view)
{
	struct pt_request req;
	uint64_t node;
	int rc = pt_api_request_read(target, &req);

	return rc < 0 ? rc : find(p, key, &req, &node, ret_view);
}

static int view_open(struct ptio *p, const char *key, const struct pt_request *req, struct pt_view **ret_view)
{
	struct pt_view *v;
	uint64_t node;
	int rc, tries;

	rc = find(p, key, req, &node, &v);
	if (rc)
		return rc;
	for (tries = 0; tries < PIN_RACES; tries++) {
		rc = pt_view_pin(v);
		if (!rc) {
			*ret_view = v;
			return 0;
		}
		pt_view_unref(v);
		if (rc == -ESTALE)
			rc = pt_view_resolve(p->repo, node, req, &v);
		if (rc < 0)
			return pt_fail_context(rc, "'%.200s'", key);
	}
	pt_view_unref(v);
	return pt_fail(EAGAIN, "'%.200s' is replaced faster than it can be read", key);
}

int pt_api_view_open(struct ptio *p, const char *key, const struct pt_request *req, struct pt_view **ret_view)
{
	struct pt_meta *meta = p ? &pt_repo_store(p->repo)->meta : NULL;
	int rc;

	if (meta)
		pt_meta_moment_begin(meta);
	rc = view_open(p, key, req, ret_view);
	if (meta)
		pt_meta_moment_end(meta);
	return rc;
}

void pt_api_view_close(struct pt_view *v)
{
	pt_view_unpin(v);
	pt_view_unref(v);
}

static void tensor_out(const struct pt_view_info *info, struct ptio_tensor *ret_t)
{
	memset(ret_t, 0, sizeof(*ret_t));
	ret_t->dtype = (enum ptio_dtype)info->dtype;
	ret_t->ndim = info->shape.ndim;
	memcpy(ret_t->shape, info->shape.dim, info->shape.ndim * sizeof(ret_t->shape[0]));
	ret_t->bytes = info->bytes;
}

/* Pinned. resolved: the view as it was a moment ago, which this takes over, or NULL. */
static int open_view(struct ptio *p, const char *key, const struct pt_request *req, struct pt_view *resolved, struct pt_view **ret_view)
{
	struct pt_meta *meta;
	int rc = -ESTALE;

	if (resolved) {
		meta = &pt_repo_store(p->repo)->meta;
		pt_meta_moment_begin(meta);     /* the one that the pin tells: whether it came in time is seen by it */
		rc = pt_view_pin(resolved);
		pt_meta_moment_end(meta);
	}
	if (!rc) {
		*ret_view = resolved;
		return 0;
	}
	pt_view_unref(resolved);
	return rc == -ESTALE ? pt_api_view_open(p, key, req, ret_view) : pt_fail_context(rc, "'%.200s'", key);
}

static int get_request(struct ptio *p, const char *key, const struct pt_request *req, struct pt_view *resolved, struct ptio_tensor *ret_t)
{
	const struct pt_view_info *info;
	struct pt_view *v;
	void *data;
	int rc;

	rc = open_view(p, key, req, resolved, &v);
	if (rc)
		return rc;
	info = pt_view_info(v);
	data = info->bytes <= SIZE_MAX ? pt_malloc(info->bytes ? info->bytes : 1) : NULL;
	rc = data ? pt_view_read(v, data, info->bytes, 0) : pt_fail_nomem();
	if (rc) {
		free(data);
	} else {
		tensor_out(info, ret_t);
		ret_t->data = data;
	}
	pt_api_view_close(v);
	return rc;
}

static int get_resolved(struct ptio *p, const char *key, const struct ptio_read_target *target, struct pt_view *resolved, struct ptio_tensor *ret_t)
{
	struct pt_request req;
	int rc = pt_api_request_read(target, &req);

	if (!rc)
		return get_request(p, key, &req, resolved, ret_t);
	pt_view_unref(resolved);
	return rc;
}

int ptio_get(struct ptio *p, const char *key, const struct ptio_read_target *target, struct ptio_tensor *ret_t)
{
	return ret_t ? get_resolved(p, key, target, NULL, ret_t) : pt_fail(EINVAL, "there is no place for the tensor");
}

/* ---- into a registered buffer ---- */

static int64_t object_into(struct pt_vfile *f, uint8_t *buf, uint64_t size)
{
	uint64_t bytes = pt_vfile_size(f);
	uint8_t header[PT_OBJ_HEADER];
	int64_t n;

	if (size < bytes)
		return pt_fail(EINVAL, "the tensor object has %llu bytes, the buffer %llu", (unsigned long long)bytes, (unsigned long long)size);
	n = pt_vfile_read(f, header, sizeof(header), 0);
	if (n >= 0)
		n = pt_vfile_read(f, buf + PT_OBJ_HEADER, bytes - PT_OBJ_HEADER, PT_OBJ_HEADER);
	if (n < 0)
		return n;
	/* Whoever polls the header finds the payload there. */
	atomic_thread_fence(memory_order_release);
	memcpy(buf, header, sizeof(header));
	return (int64_t)bytes;
}

static int64_t into_resolved(struct ptio *p, const char *key, const struct ptio_read_target *target, struct pt_view *resolved, void *buf, uint64_t size,
			     struct ptio_tensor *ret_t)
{
	struct pt_request req;
	struct pt_vfile *f;
	struct pt_view *v;
	int64_t rc;

	rc = pt_api_request_read(target, &req);
	if (!rc && (pt_api_region_left(p, buf) < size || !buf))
		rc = pt_fail(EINVAL, "the buffer is not inside one registered region: call ptio_register_buffer first");
	if (rc) {
		pt_view_unref(resolved);
		return rc;
	}
	rc = open_view(p, key, &req, resolved, &v);
	if (rc)
		return rc;
	rc = pt_vfile_create(v, PT_FORMAT_OBJ, "", &f);
	if (!rc) {
		rc = object_into(f, buf, size);
		pt_vfile_free(f);
	}
	if (rc >= 0 && ret_t) {
		tensor_out(pt_view_info(v), ret_t);
		ret_t->data = (uint8_t *)buf + PT_OBJ_HEADER;
	}
	pt_api_view_close(v);
	return rc;
}

int64_t ptio_get_into(struct ptio *p, const char *key, const struct ptio_read_target *target, void *buf, uint64_t size, struct ptio_tensor *ret_t)
{
	return p ? into_resolved(p, key, target, NULL, buf, size, ret_t) : pt_fail(EINVAL, "the handle is NULL");
}

/* ---- batches ---- */

/* Views of up to PT_REPO_AHEAD_KEYS keys as they are now, found in few round trips; NULL for a key that is to be looked up by itself. They are not pinned. */
static void resolve_many(struct ptio *p, const char *const *keys, const struct ptio_read_target *targets, size_t count, struct pt_view **ret_views)
{
	struct pt_repo_ahead *ahead = NULL;
	struct pt_request req;
	uint64_t node;
	size_t i;

	memset(ret_views, 0, count * sizeof(*ret_views));
	if (pt_repo_ahead_begin(p->repo, keys, count, &ahead) < 0 || !ahead)
		return;
	for (i = 0; i < count; i++)
		if (pt_api_request_read(targets ? &targets[i] : NULL, &req) || pt_api_node(p, keys[i], &node) ||
		    pt_view_resolve(p->repo, node, &req, &ret_views[i]) < 0)
			ret_views[i] = NULL;
	pt_repo_ahead_end(ahead);
}

static int counts_differ(void)
{
	return pt_fail(EINVAL, "the batch is refused: its lists are NULL or of different lengths");
}

int ptio_batch_get(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
		   struct ptio_tensor *ret_tensors, int *ret_codes)
{
	bool sound = p && keys && (target_count ? target_count == key_count && targets : !targets || !key_count);
	struct pt_view *views[PT_REPO_AHEAD_KEYS] = { NULL };
	size_t i, at, some;

	if (!key_count)
		return 0;
	if (!ret_tensors || !ret_codes)
		return counts_differ();
	for (i = 0; i < key_count; i++) {
		memset(&ret_tensors[i], 0, sizeof(ret_tensors[i]));
		at = i % PT_REPO_AHEAD_KEYS;
		some = key_count - i < PT_REPO_AHEAD_KEYS ? key_count - i : PT_REPO_AHEAD_KEYS;
		if (sound && !at)
			resolve_many(p, keys + i, target_count ? targets + i : NULL, some, views);
		ret_codes[i] = sound ? get_resolved(p, keys[i], target_count ? &targets[i] : NULL, views[at], &ret_tensors[i]) : -EINVAL;
	}
	return sound ? 0 : counts_differ();
}

int ptio_batch_get_into(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
			void *const *bufs, size_t buf_count, const uint64_t *sizes, size_t size_count, int64_t *ret_results)
{
	bool sound = p && keys && bufs && sizes && buf_count == key_count && size_count == key_count &&
		     (target_count ? target_count == key_count && targets : !targets);
	struct pt_view *views[PT_REPO_AHEAD_KEYS] = { NULL };
	size_t i, at, some;

	if (!key_count)
		return 0;
	if (!ret_results)
		return counts_differ();
	for (i = 0; i < key_count; i++) {
		at = i % PT_REPO_AHEAD_KEYS;
		some = key_count - i < PT_REPO_AHEAD_KEYS ? key_count - i : PT_REPO_AHEAD_KEYS;
		if (sound && !at)
			resolve_many(p, keys + i, target_count ? targets + i : NULL, some, views);
		ret_results[i] = sound ? into_resolved(p, keys[i], target_count ? &targets[i] : NULL, views[at], bufs[i], sizes[i], NULL) : -EINVAL;
	}
	return sound ? 0 : counts_differ();
}

/* ---- telling ---- */

int ptio_describe(struct ptio *p, const char *key, const struct ptio_read_target *target, struct ptio_description *ret_d)
{
	const struct pt_view_info *info;
	struct ptio_description d = { .complete = 0 };
	struct pt_view *v;
	struct pt_vfile *f;
	uint32_t i;
	int rc;

	rc = find_target(p, key, target, &v);
	if (rc < 0)
		return rc;
	info = pt_view_info(v);
	d.complete = info->complete;
	d.readable = info->readable;
	d.shape_known = info->shape_known;
	d.dtype = (enum ptio_dtype)info->dtype;
	d.revision = info->revision;
	if (info->shape_known) {
		d.ndim = info->shape.ndim;
		memcpy(d.shape, info->shape.dim, d.ndim * sizeof(d.shape[0]));
		memcpy(d.global_shape, info->global_shape.dim, d.ndim * sizeof(d.shape[0]));
		memcpy(d.offset, info->box.off, d.ndim * sizeof(d.shape[0]));
		d.payload_bytes = info->bytes;
		if (!pt_vfile_create(v, PT_FORMAT_OBJ, "", &f)) {
			d.object_bytes = pt_vfile_size(f);
			pt_vfile_free(f);
		}
	}
	d.axis_count = info->axis_count;
	for (i = 0; i < info->axis_count; i++)
		pt_api_axis_out(&info->axis[i], &d.axes[i]);
	pt_view_unref(v);
	*ret_d = d;
	return 0;
}

int ptio_batch_describe(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
			struct ptio_description *ret_descriptions, int *ret_codes)
{
	bool sound = p && keys && (target_count ? target_count == key_count && targets : !targets);
	struct pt_repo_ahead *ahead;
	size_t first, i, some;

	if (!key_count)
		return 0;
	if (!ret_descriptions || !ret_codes)
		return counts_differ();
	memset(ret_descriptions, 0, key_count * sizeof(*ret_descriptions));
	for (first = 0; first < key_count; first += some) {
		some = key_count - first < PT_REPO_AHEAD_KEYS ? key_count - first : PT_REPO_AHEAD_KEYS;
		ahead = NULL;
		/* What goes wrong here is told key by key below. */
		if (sound)
			(void)pt_repo_ahead_begin(p->repo, keys + first, some, &ahead);
		for (i = first; i < first + some; i++)
			ret_codes[i] = sound ? ptio_describe(p, keys[i], target_count ? &targets[i] : NULL, &ret_descriptions[i]) : -EINVAL;
		pt_repo_ahead_end(ahead);
	}
	return sound ? 0 : counts_differ();
}

int ptio_object_size(struct ptio *p, const char *key, const struct ptio_read_target *target, uint64_t *ret_size)
{
	struct pt_view *v;
	struct pt_vfile *f;
	int rc;

	rc = find_target(p, key, target, &v);
	if (rc < 0)
		return rc;
	rc = pt_vfile_create(v, PT_FORMAT_OBJ, "", &f);
	if (!rc) {
		*ret_size = pt_vfile_size(f);
		pt_vfile_free(f);
	}
	pt_view_unref(v);
	return rc;
}

int ptio_describe_json(struct ptio *p, const char *key, char **ret_json)
{
	struct pt_buf json = PT_BUF_INIT;
	bool revision = false, pending = false;
	struct pt_repo_ahead *ahead = ahead_of(p, key);
	uint64_t node;
	int rc;

	rc = pt_api_node(p, key, &node);
	if (!rc)
		rc = pt_tensor_exists(p->repo, node, &revision, &pending);
	if (!rc && !revision && !pending)
		rc = pt_fail(ENOENT, "'%.200s' is no tensor", key);
	if (!rc)
		rc = pt_tensor_info_json(p->repo, node, NULL, &json);
	pt_repo_ahead_end(ahead);
	if (!rc) {
		pt_buf_append_u8(&json, 0);
		if (pt_buf_failed(&json))
			rc = pt_fail_nomem();
	}
	if (rc)
		pt_buf_done(&json);
	else
		*ret_json = (char *)json.data;
	return rc;
}

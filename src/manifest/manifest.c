/* manifest/manifest.c - finding revisions and pending sets. Lists are copied out of the index before callbacks run, so a callback may use the repo. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/cache.h"
#include "manifest/internal.h"

static int decode(struct pt_repo *repo, uint64_t node, const char *scope, const struct pt_buf *value, uint64_t version, struct pt_manifest **ret_m)
{
	struct pt_manifest *m;
	int rc;

	m = pt_cache_get(repo->cache, node, scope, version);
	if (!m) {
		rc = pt_record_manifest_decode(value->data, value->len, &m);
		if (rc < 0)
			return rc;
		if (m->node != node || strcmp(m->scope, scope)) {
			pt_manifest_unref(m);
			return pt_record_bad("revision");
		}
		m->version = version;
		pt_cache_put(repo->cache, m);
	}
	*ret_m = m;
	return 0;
}

int pt_manifest_get(struct pt_repo *repo, uint64_t node, const char *scope, struct pt_manifest **ret_m)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	if (strnlen(scope, PT_LAYOUT_TEXT_MAX) == PT_LAYOUT_TEXT_MAX)
		return pt_fail(EINVAL, "the scope is too long");
	pt_rkey_manifest(&key, node, scope);
	rc = pt_rec_get(repo, &key, &value, &version);
	if (!rc && !version)
		rc = pt_fail(ENOENT, "no revision has been committed%s%s", scope[0] ? " in scope " : "", scope);
	if (!rc)
		rc = decode(repo, node, scope, &value, version, ret_m);
	pt_buf_done(&value);
	return rc;
}

/* Things collected by a scan. */
struct found {
	void **item;
	size_t count, capacity;
};

static int found_add(struct found *f, void *item)
{
	size_t capacity;
	void **items;

	if (f->count == f->capacity) {
		capacity = f->capacity ? f->capacity * 2 : 8;
		items = pt_reallocarray(f->item, capacity, sizeof(*items));
		if (!items)
			return pt_fail_nomem();
		f->item = items;
		f->capacity = capacity;
	}
	f->item[f->count++] = item;
	return 0;
}

static int found_manifest(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct pt_manifest *m;
	struct pt_rkey want;
	int rc;

	rc = pt_record_manifest_decode(value, value_len, &m);
	if (rc < 0)
		return rc;
	m->version = version;
	pt_rkey_manifest(&want, m->node, m->scope);
	rc = want.len == key_len && !memcmp(want.b, key, key_len) ? found_add(ctx, m) : pt_record_bad("revision");
	if (rc < 0)
		pt_manifest_unref(m);
	return rc;
}

int pt_manifest_list(struct pt_repo *repo, uint64_t node, pt_manifest_list_fn *fn, void *ctx)
{
	struct found found = { .count = 0 };
	struct pt_rkey key;
	size_t i;
	int rc;

	pt_rkey_manifest(&key, node, NULL);
	rc = pt_meta_scan_prefix(&repo->store->meta, key.b, key.len, 0, found_manifest, &found);
	for (i = 0; i < found.count && !rc; i++)
		rc = fn(ctx, found.item[i]);
	for (i = 0; i < found.count; i++)
		pt_manifest_unref(found.item[i]);
	free(found.item);
	return rc < 0 ? rc : 0;
}

static int found_pending(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct pt_pending *p;
	struct pt_rkey want;
	int rc;

	rc = pt_record_pending_decode(value, value_len, &p);
	if (rc < 0)
		return rc;
	p->version = version;
	pt_rkey_pending(&want, p->node, p->scope, NULL);
	rc = want.len < key_len && !memcmp(want.b, key, want.len) ? found_add(ctx, p) : pt_record_bad("pending set");
	if (rc < 0)
		pt_pending_free(p);
	return rc;
}

int pt_pending_list(struct pt_repo *repo, uint64_t node, pt_pending_list_fn *fn, void *ctx)
{
	struct found found = { .count = 0 };
	struct pt_rkey key;
	size_t i;
	int rc;

	pt_rkey_pending(&key, node, NULL, NULL);
	rc = pt_meta_scan_prefix(&repo->store->meta, key.b, key.len, 0, found_pending, &found);
	for (i = 0; i < found.count && !rc; i++)
		rc = fn(ctx, found.item[i]);
	for (i = 0; i < found.count; i++)
		pt_pending_free(found.item[i]);
	free(found.item);
	return rc < 0 ? rc : 0;
}

int pt_pending_part(const struct pt_pending *p, int32_t rank, struct pt_manifest **ret_m)
{
	struct pt_manifest *m;
	uint32_t i;

	for (i = 0; i < p->object_count; i++)
		if (p->objects[i].part.rank == rank)
			break;
	if (i == p->object_count)
		return pt_fail(ENOENT, "rank %d has not been stored yet", (int)rank);
	m = pt_calloc(1, sizeof(*m));
	if (!m)
		return pt_fail_nomem();
	m->refs = 1;
	m->objects = pt_memdup(&p->objects[i], sizeof(p->objects[i]));
	if (!m->objects) {
		free(m);
		return pt_fail_nomem();
	}
	m->object_count = 1;
	m->version = p->version;
	m->node = p->node;
	memcpy(m->scope, p->scope, sizeof(m->scope));
	m->scope_axes = p->scope_axes;
	m->set_id = p->set_id;
	m->dtype = p->dtype;
	pt_box_shape(&m->objects[0].box, &m->shape);
	pt_shape_box(&m->shape, &m->objects[0].box);
	m->written = p->written;
	m->set_size = 1;
	m->set_dim = -1;
	m->split = p->split;
	memcpy(m->step, p->step, sizeof(m->step));
	m->mode = 0644;
	m->mtime_ns = p->updated_ns;
	m->pending = true;
	*ret_m = m;
	return 0;
}

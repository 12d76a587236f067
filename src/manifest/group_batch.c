/* manifest/group_batch.c - the batch of a group: the records of what group_look.c decided, each with a compare of what it was decided by.
 *
 * Keys and values are gathered in one buffer, which moves while it grows: an operation has their places in it, and gets addresses when all is there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/group_int.h"

static void op_add(struct pt_group *g, enum pt_meta_op_kind kind, const struct pt_rkey *key, uint64_t version, size_t value)
{
	struct pt_group_op *more;

	if (g->op_count == g->op_cap) {
		more = pt_reallocarray(g->ops, g->op_cap ? 2 * g->op_cap : 256, sizeof(*more));
		if (!more) {
			g->failed = true;
			return;
		}
		g->ops = more;
		g->op_cap = g->op_cap ? 2 * g->op_cap : 256;
	}
	g->ops[g->op_count++] = (struct pt_group_op){ .kind = kind, .key = g->bytes.len, .key_len = key->len, .value = value, .value_len = g->bytes.len - value,
					     .version = version };
	pt_buf_append(&g->bytes, key->b, key->len);
}

static void compare(struct pt_group *g, const struct pt_rkey *key, uint64_t version)
{
	op_add(g, PT_META_COMPARE, key, version, g->bytes.len);
}

static void delete(struct pt_group *g, const struct pt_rkey *key)
{
	op_add(g, PT_META_DELETE, key, 0, g->bytes.len);
}

/* The value is what bytes has from `value` on. */
static void put(struct pt_group *g, const struct pt_rkey *key, size_t value)
{
	op_add(g, PT_META_PUT, key, 0, value);
}

static void put_entry(struct pt_group *g, const struct pt_node *n, uint64_t version)
{
	struct pt_entry entry = { .id = n->id, .kind = n->kind };
	size_t at = g->bytes.len;
	struct pt_rkey key;

	pt_rkey_entry(&key, n->parent, n->name, strlen(n->name));
	pt_record_entry_encode(&entry, &g->bytes);
	put(g, &key, at);
	compare(g, &key, version);
}

static void put_now(struct pt_group *g, const struct pt_rkey *key)
{
	size_t at = g->bytes.len;

	pt_record_times_encode(pt_time_now_ns(), &g->bytes);
	put(g, key, at);
}

static void put_times(struct pt_group *g, uint64_t node)
{
	struct pt_rkey key;

	pt_rkey_times(&key, node);
	put_now(g, &key);
}

static int put_node(struct pt_group *g, const struct pt_node *n)
{
	size_t at = g->bytes.len;
	struct pt_rkey key;
	int rc = pt_record_node_encode(n, &g->bytes);

	pt_rkey_node(&key, n->id);
	put(g, &key, at);
	return rc;
}

static void put_blob(struct pt_group *g, const struct pt_blob_ref *blob, uint64_t bytes, uint64_t payload_off)
{
	struct pt_blob_rec rec = { .kind = blob->kind, .refs = 1, .bytes = bytes, .payload_off = payload_off };
	size_t at = g->bytes.len;
	struct pt_rkey key;

	pt_record_blob_encode(&rec, &g->bytes);
	pt_rkey_blob(&key, &blob->id);
	put(g, &key, at);
	compare(g, &key, 0);
}

static int put_set(struct pt_group *g, struct pt_group_member *m)
{
	size_t at = g->bytes.len;
	int rc;

	m->set->updated_ns = pt_time_now_ns();
	rc = pt_record_pending_encode(m->set, &g->bytes);
	put(g, &m->set_key, at);
	compare(g, &m->set_key, m->set_version);
	return rc;
}

static int put_revision(struct pt_group *g, struct pt_group_member *m)
{
	struct pt_rkey key;
	size_t at;
	uint32_t i;
	int rc;

	if (m->set_version) {
		compare(g, &m->set_key, m->set_version);
		delete(g, &m->set_key);
	}
	for (i = 0; m->old && i < m->old->object_count; i++)
		pt_record_garbage_add(&g->garbage, &m->old->objects[i].blob);
	at = g->bytes.len;
	rc = pt_record_manifest_encode(m->next, &g->bytes);
	pt_rkey_manifest(&key, m->node.id, m->next->scope);
	put(g, &key, at);
	compare(g, &key, m->old ? m->old->version : 0);
	m->node.next_revision++;
	if (m->next->split != PT_SPLIT_UNSET)
		m->node.split = m->next->split;
	return rc;
}

static int put_member(struct pt_group *g, struct pt_group_member *m)
{
	struct pt_rkey key;
	size_t at;
	int rc;

	if (!m->set || (!m->has_part && !m->next))
		return 0;
	pt_rkey_node(&key, m->node.id);
	compare(g, &key, m->born ? m->node.version : 0);
	if (!m->born)
		put_entry(g, &m->node, 0);
	rc = m->next ? put_revision(g, m) : put_set(g, m);
	if (!rc && (m->next || !m->born))
		rc = put_node(g, &m->node);
	if (rc < 0)
		return rc;
	put_times(g, m->node.id);
	if (!m->has_part)
		return 0;
	if (m->replaces)
		pt_record_garbage_add(&g->garbage, &m->replaced);
	put_blob(g, &m->part.object.blob, m->part.object.payload_off + m->part.object.bytes, m->part.object.payload_off);
	at = g->bytes.len;
	pt_record_hashes_encode(&m->part.chunk_hashes, &g->bytes);
	pt_rkey_hashes(&key, &m->part.object.blob.id);
	put(g, &key, at);
	return 0;
}

static int put_file(struct pt_group *g, struct pt_group_file *f)
{
	struct pt_node *n = &f->node;
	struct pt_entry entry;
	struct pt_rkey key;
	uint64_t version = 0;
	bool was_container = n->kind == PT_NODE_CONTAINER;
	int rc;

	if (n->id) {
		pt_rkey_node(&key, n->id);
		compare(g, &key, n->version);
		rc = was_container ? 0 : pt_entry_get(g->repo, n->parent, n->name, &entry, &version);
		if (!rc && !was_container && entry.id != n->id)
			rc = -EAGAIN;
		if (rc < 0)
			return rc == -ENOENT ? -EAGAIN : rc;
		if (!pt_id_is_zero(&n->blob.id))
			pt_record_garbage_add(&g->garbage, &n->blob);
	} else {
		rc = pt_node_id_new(g->repo, &n->id);
		if (rc < 0)
			return rc;
		n->parent = g->dir_node;
		n->next_revision = 1;
		was_container = false;
	}
	n->kind = PT_NODE_CONTAINER;
	n->blob = f->blob;
	n->size = 0;
	if (f->shows || !was_container) {
		n->mtime_ns = f->mtime_ns ? f->mtime_ns : pt_time_now_ns();
		n->ctime_ns = pt_time_now_ns();
	}
	if (!was_container)
		put_entry(g, n, version);
	put_blob(g, &f->blob, f->blob_bytes, 0);
	pt_rkey_models(&key, g->dir_node);
	put_now(g, &key);
	compare(g, &key, f->models_version);
	return put_node(g, n);
}

int pt_group_batch_make(struct pt_group *g, struct pt_group_file *file)
{
	struct pt_rkey key;
	struct pt_id id;
	size_t i, at;
	int rc = 0;

	pt_rkey_node(&key, g->dir_node);
	compare(g, &key, g->dir.version);
	for (i = 0; i < g->count && !rc; i++)
		rc = put_member(g, &g->members[i]);
	if (!rc && file)
		rc = put_file(g, file);
	if (rc < 0)
		return rc;
	put_times(g, g->dir_node);
	if (g->garbage.len) {
		rc = pt_id_random(&id);
		if (rc < 0)
			return rc;
		at = g->bytes.len;
		pt_buf_append(&g->bytes, g->garbage.data, g->garbage.len);
		pt_rkey_garbage(&key, &id);
		put(g, &key, at);
	}
	return g->failed || g->bytes.failed || g->garbage.failed ? pt_fail_nomem() : 0;
}

int pt_group_batch_commit(struct pt_group *g, uint64_t *ret_version)
{
	struct pt_meta_op *ops;
	size_t i;
	int rc;

	if (g->repo->store->read_only)
		return pt_fail(EROFS, "the store is open read-only");
	ops = pt_reallocarray(NULL, g->op_count, sizeof(*ops));
	if (!ops)
		return pt_fail_nomem();
	for (i = 0; i < g->op_count; i++) {
		const struct pt_group_op *o = &g->ops[i];

		ops[i] = (struct pt_meta_op){ .kind = o->kind, .key = { g->bytes.data + o->key, o->key_len }, .version = o->version };
		if (o->kind == PT_META_PUT) {
			ops[i].value = g->bytes.data + o->value;
			ops[i].value_len = o->value_len;
		}
	}
	rc = pt_meta_commit(&g->repo->store->meta, ops, g->op_count, ret_version);
	if (rc == 0)
		pt_repo_changed(g->repo, ops, g->op_count);
	free(ops);
	return rc;
}

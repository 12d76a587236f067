/* manifest/group.c - publishing the parts of many keys of one directory, and the file that shows them, by one batch.
 *
 * The keys are looked up by name when the batch is made: one that is not there yet is made by it. A part joins its pending set as in commit.c. Sets that are complete
 * with it become revisions, in the same batch, if all sets of the group are. While one waits for other parts they all wait, even as pending sets with nothing
 * missing, as whole tensors are at once, which one writer stores alone. So the batch that completes the sets finishes the whole tensors as well: its own, and those
 * that another writer has left behind under the names that it follows.
 * Groups of one process take turns, since they mostly change the same records; those of others are noticed by the compares. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/cache.h"
#include "manifest/internal.h"
#include "manifest/set.h"

#define TURN_NS ((int64_t)30 * 1000000000)
#define MEMBER_NS ((int64_t)10 * 1000000)        /* more time for more members: the loser of a race begins again */

struct member {
	char *name;
	uint64_t made;                  /* id of the key's node, should it have to be made; 0: none taken */
	bool has_part;
	struct pt_part part;
	/* As last looked at: */
	bool born;                      /* node is in the index */
	struct pt_node node;
	struct pt_pending *set;         /* with the part; followed: what has waited, or NULL */
	struct pt_rkey set_key;
	uint64_t set_version;
	struct pt_manifest *old;        /* current revision */
	struct pt_manifest *next;       /* what it becomes, or NULL: it waits */
	bool replaces;
	struct pt_blob_ref replaced;
};

struct op {
	enum pt_meta_op_kind kind;
	size_t key, key_len, value, value_len;  /* in bytes */
	uint64_t version;
};

struct pt_group {
	struct pt_repo *repo;
	uint64_t dir_node;
	char scope[PT_LAYOUT_TEXT_MAX], step[PT_STEP_MAX + 1];  /* of the first part: what is followed waits there */
	bool any;                       /* there was one */
	struct pt_part attrs;           /* mode and so on, when there is no part */
	uint64_t round;
	bool all;                       /* as begin says */
	struct member *members;
	size_t count, cap;
	struct pt_node dir;             /* as last looked at */
	bool finishes;
	/* the batch */
	struct pt_buf bytes;            /* keys and values */
	struct pt_buf garbage;
	struct op *ops;
	size_t op_count, op_cap;
	bool failed;                    /* no memory for it */
};

int pt_group_create(struct pt_repo *repo, uint64_t dir_node, struct pt_group **ret_group)
{
	struct pt_group *g = pt_calloc(1, sizeof(*g));

	if (!g)
		return pt_fail_nomem();
	g->repo = repo;
	g->dir_node = dir_node;
	*ret_group = g;
	return 0;
}

static int member_new(struct pt_group *g, const char *name, struct member **ret_m)
{
	struct member *more, *m;

	if (g->count == g->cap) {
		more = pt_reallocarray(g->members, g->cap ? 2 * g->cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		g->members = more;
		g->cap = g->cap ? 2 * g->cap : 16;
	}
	m = &g->members[g->count];
	memset(m, 0, sizeof(*m));
	m->name = pt_strdup(name);
	if (!m->name)
		return pt_fail_nomem();
	g->count++;
	*ret_m = m;
	return 0;
}

void pt_group_round(struct pt_group *g, const struct pt_group_round *round)
{
	g->round = round->round;
	snprintf(g->scope, sizeof(g->scope), "%s", round->scope);
	snprintf(g->step, sizeof(g->step), "%s", round->step);
	g->attrs.mode = round->mode;
	g->attrs.uid = round->uid;
	g->attrs.gid = round->gid;
	g->attrs.mtime_ns = round->mtime_ns;
	g->any = true;
}

int pt_group_add(struct pt_group *g, const char *name, struct pt_part *part)
{
	struct member *m;
	int rc;

	rc = pt_name_check(name);
	if (!rc)
		rc = pt_set_check_part(part);
	if (!rc)
		rc = member_new(g, name, &m);
	if (rc < 0) {
		pt_object_discard(g->repo, part);
		return rc;
	}
	part->object.hidden = false;
	if (!g->any) {
		memcpy(g->scope, part->scope, sizeof(g->scope));
		memcpy(g->step, part->step, sizeof(g->step));
		g->any = true;
	}
	part->round = part->object.part.size == 1 && part->object.part.dim == -1 ? g->round : 0;
	m->part = *part;
	m->has_part = true;
	memset(part, 0, sizeof(*part));
	return 0;
}

int pt_group_follow(struct pt_group *g, const char *name)
{
	struct member *m;
	int rc = pt_name_check(name);

	return rc < 0 ? rc : member_new(g, name, &m);
}

static void member_forget(struct member *m)
{
	pt_node_done(&m->node);
	pt_pending_free(m->set);
	pt_manifest_unref(m->old);
	pt_manifest_unref(m->next);
	memset(&m->node, 0, sizeof(m->node));
	m->set = NULL;
	m->old = m->next = NULL;
	m->set_version = 0;
	m->born = m->replaces = false;
}

static void group_forget(struct pt_group *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		member_forget(&g->members[i]);
	pt_node_done(&g->dir);
	memset(&g->dir, 0, sizeof(g->dir));
	pt_buf_reset(&g->bytes);
	pt_buf_reset(&g->garbage);
	g->op_count = 0;
	g->failed = false;
}

void pt_group_free(struct pt_group *g)
{
	size_t i;

	if (!g)
		return;
	group_forget(g);
	for (i = 0; i < g->count; i++) {
		if (g->members[i].has_part)
			pt_object_discard(g->repo, &g->members[i].part);
		free(g->members[i].name);
	}
	pt_buf_done(&g->bytes);
	pt_buf_done(&g->garbage);
	free(g->members);
	free(g->ops);
	free(g);
}

/* ---- looking ---- */

/* The key's node, or what it will be. */
static int look_node(struct pt_group *g, struct member *m)
{
	const struct pt_part *p = &m->part;
	int rc;

	rc = pt_node_lookup(g->repo, g->dir_node, m->name, &m->node);
	if (!rc) {
		m->born = true;
		if (m->node.kind == PT_NODE_DIR)
			return 0;
		return m->has_part ? pt_fail(ENOTDIR, "a file of that name is in the way of the key") : 0;
	}
	if (rc != -ENOENT || !m->has_part)
		return rc;
	if (!m->made) {
		rc = pt_node_id_new(g->repo, &m->made);
		if (rc < 0)
			return rc;
	}
	m->node = (struct pt_node){ .id = m->made, .parent = g->dir_node, .kind = PT_NODE_DIR, .implicit = true, .mode = 0755, .uid = p->uid, .gid = p->gid,
				    .next_revision = 1 };
	strcpy(m->node.name, m->name);
	m->node.mtime_ns = m->node.ctime_ns = pt_time_now_ns();
	return 0;
}

static int look_old(struct pt_group *g, struct member *m)
{
	int rc = m->born ? pt_manifest_get(g->repo, m->node.id, m->has_part ? m->part.scope : g->scope, &m->old) : -ENOENT;

	return rc == -ENOENT ? 0 : rc;
}

static int look_part(struct pt_group *g, struct member *m)
{
	int rc;

	rc = look_node(g, m);
	if (!rc)
		rc = look_old(g, m);
	if (!rc)
		rc = pt_set_load(g->repo, m->node.id, &m->part, true, &m->set, &m->set_key, &m->set_version);
	return rc < 0 ? rc : pt_set_add(m->set, &m->part.object, &m->replaces, &m->replaced);
}

struct waiting {
	const struct pt_group *group;
	struct pt_pending *found;       /* a copy of the latest */
	int rc;
};

static bool of_round(const struct pt_group *g, const struct pt_pending *p)
{
	if (strcmp(p->scope, g->scope) != 0 || strcmp(p->step, g->step) != 0)
		return false;
	if (p->set_size == 1)
		return p->round == g->round && p->object_count == 1;
	return p->set_size == (int32_t)(uint32_t)g->round && p->written == (g->round >> 32 == 1 ? PT_WRITTEN_WRITER : PT_WRITTEN_TP_SHARD);
}

static int waiting_one(void *ctx, const struct pt_pending *p)
{
	struct waiting *w = ctx;
	struct pt_pending *copy;

	if (!of_round(w->group, p) || (w->found && w->found->updated_ns >= p->updated_ns))
		return 0;
	copy = pt_memdup(p, sizeof(*p));
	if (copy)
		copy->objects = pt_memdup(p->objects, p->object_count * sizeof(*p->objects));
	if (!copy || !copy->objects) {
		free(copy);
		w->rc = pt_fail_nomem();
		return 1;
	}
	pt_pending_free(w->found);
	w->found = copy;
	return 0;
}

/* What another writer has left to wait under this name. */
static int look_waiting(struct pt_group *g, struct member *m)
{
	struct waiting w = { .group = g };
	struct pt_hash128 identity;
	int rc;

	rc = look_node(g, m);
	if (rc < 0 || m->node.kind != PT_NODE_DIR)
		return rc == -ENOENT ? 0 : rc;
	rc = pt_pending_list(g->repo, m->node.id, waiting_one, &w);
	if (rc >= 0)
		rc = w.rc;
	m->set = w.found;
	if (rc < 0 || !m->set)
		return rc < 0 ? rc : 0;
	rc = pt_set_identity(m->set, &identity);
	if (rc < 0)
		return rc;
	pt_rkey_pending(&m->set_key, m->node.id, m->set->scope, &identity);
	m->set_version = m->set->version;
	return look_old(g, m);
}

static int finish(struct member *m, const struct pt_part *attrs)
{
	int rc = pt_set_finish(m->set, &m->next);

	if (rc < 0)
		return rc;
	m->next->revision = m->node.next_revision;
	m->next->mode = attrs->mode;
	m->next->uid = attrs->uid;
	m->next->gid = attrs->gid;
	m->next->mtime_ns = attrs->mtime_ns ? attrs->mtime_ns : pt_time_now_ns();
	return 0;
}

/* Reads what is there, and decides which sets become revisions. */
static int look(struct pt_group *g)
{
	const struct pt_part *attrs = &g->attrs;
	struct member *m = NULL;
	size_t i;
	int rc;

	rc = pt_node_get(g->repo, g->dir_node, &g->dir);
	if (rc < 0)
		return rc;
	g->finishes = g->all;
	for (i = 0; i < g->count && !rc; i++) {
		m = &g->members[i];
		if (!m->has_part)
			continue;
		attrs = &m->part;
		rc = look_part(g, m);
		if (!rc && m->set->object_count < (uint32_t)m->set->set_size)
			g->finishes = false;
	}
	for (i = 0; i < g->count && !rc && g->finishes; i++) {
		m = &g->members[i];
		if (m->has_part)
			continue;
		rc = look_waiting(g, m);
		if (!rc && g->round && (!m->set || m->set->object_count < (uint32_t)m->set->set_size))
			g->finishes = false;
	}
	for (i = 0; i < g->count && !rc; i++) {
		m = &g->members[i];
		if (m->set && g->finishes)
			rc = finish(m, attrs);
	}
	if (rc < 0 && m && rc != -EAGAIN)
		pt_fail_context(rc, "%.300s", m->name);
	return rc;
}

/* ---- the batch ---- */

static void op_add(struct pt_group *g, enum pt_meta_op_kind kind, const struct pt_rkey *key, uint64_t version, size_t value)
{
	struct op *more;

	if (g->op_count == g->op_cap) {
		more = pt_reallocarray(g->ops, g->op_cap ? 2 * g->op_cap : 256, sizeof(*more));
		if (!more) {
			g->failed = true;
			return;
		}
		g->ops = more;
		g->op_cap = g->op_cap ? 2 * g->op_cap : 256;
	}
	g->ops[g->op_count++] = (struct op){ .kind = kind, .key = g->bytes.len, .key_len = key->len, .value = value, .value_len = g->bytes.len - value,
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

static int put_set(struct pt_group *g, struct member *m)
{
	size_t at = g->bytes.len;
	int rc;

	m->set->updated_ns = pt_time_now_ns();
	rc = pt_record_pending_encode(m->set, &g->bytes);
	put(g, &m->set_key, at);
	compare(g, &m->set_key, m->set_version);
	return rc;
}

static int put_revision(struct pt_group *g, struct member *m)
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

static int put_member(struct pt_group *g, struct member *m)
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

static int batch_make(struct pt_group *g, struct pt_group_file *file)
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

static int batch_commit(struct pt_group *g, uint64_t *ret_version)
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
		const struct op *o = &g->ops[i];

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

/* ---- publishing ---- */

/* The parts are the index's, or nobody can tell whose: only the collector, which looks, may remove their blobs then. */
static void parts_gone(struct pt_group *g)
{
	size_t i;

	for (i = 0; i < g->count; i++) {
		struct member *m = &g->members[i];

		if (!m->has_part)
			continue;
		pt_data_unpin(&g->repo->store->data, &m->part.object.blob, 1);
		pt_part_done(&m->part);
		m->has_part = false;
	}
}

static void published(struct pt_group *g, uint64_t version)
{
	size_t i;

	for (i = 0; i < g->count; i++) {
		struct member *m = &g->members[i];

		pt_count(&g->repo->counters.parts, m->has_part);
		pt_count(&g->repo->counters.commits, m->next != NULL);
		if (m->next) {
			m->next->version = version;
			pt_cache_put(g->repo->cache, m->next);
		}
	}
}

static int publish_once(struct pt_group *g, const struct pt_group_calls *calls, void *ctx)
{
	struct pt_group_file file = { .blob_bytes = 0 };
	uint64_t version;
	bool writes = false;
	int rc;

	rc = calls->begin(ctx, &g->all);
	if (!rc)
		rc = look(g);
	if (!rc)
		rc = calls->file(ctx, g->finishes, &file, &writes);
	if (!rc)
		rc = batch_make(g, writes ? &file : NULL);
	if (!rc)
		rc = batch_commit(g, &version);
	if (!rc)
		published(g, version);
	if (!rc && writes)
		pt_data_unpin(&g->repo->store->data, &file.blob, 1);
	pt_node_done(&file.node);
	group_forget(g);
	return rc;
}

int pt_group_publish(struct pt_group *g, const struct pt_group_calls *calls, void *ctx)
{
	struct pt_retry retry = { .deadline_ns = pt_time_boot_ns() + TURN_NS + (int64_t)g->count * MEMBER_NS };
	size_t count = g->count;
	int rc;

	pthread_mutex_lock(&g->repo->group_lock);
	do {
		pt_fail_clear();
		while (g->count > count)        /* what begin followed the time before */
			free(g->members[--g->count].name);
		rc = publish_once(g, calls, ctx);
	} while (pt_retry_again(&retry, &rc));
	pthread_mutex_unlock(&g->repo->group_lock);
	if (!rc || rc == -EIO)
		parts_gone(g);
	return rc;
}

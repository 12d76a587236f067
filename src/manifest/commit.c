/* manifest/commit.c - publishing a part: one compare-and-set batch adds it to its pending set, or makes the revision that it completes.
 *
 * The batch of a part that completes nothing: node and set as read; the set, the part's object and hashes, garbage if it replaces a part.
 * The batch of one that does: node, manifest and set as read; the manifest, the node with the next revision number, the set's end, the part's object and
 * hashes, garbage for the superseded manifest's objects. At most 13 operations, whatever the set's size.
 * Object references: a sealed part's blob has one (a shared one is read, compared, and gets one more), held by its set, which passes it on to the manifest, and that to a garbage record.
 * Other pending sets of the same (node, scope) stay as they are; they expire if nobody completes them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "manifest/cache.h"
#include "manifest/internal.h"
#include "manifest/set.h"

struct commit {
	struct pt_repo *repo;
	struct pt_part *part;
	struct pt_node node;
	struct pt_pending *set;
	struct pt_rkey set_key;
	uint64_t set_version;           /* 0: not in the index */
	struct pt_manifest *old;        /* the current revision, or NULL */
	struct pt_manifest *next;       /* what the part completes, or NULL */
	struct pt_buf garbage, set_value, manifest_value, node_value, times_value, blob_value, hashes_value;
	struct pt_batch batch;
};

void pt_part_done(struct pt_part *part)
{
	pt_buf_done(&part->chunk_hashes);
	memset(part, 0, sizeof(*part));
}

static void commit_done(struct commit *c)
{
	pt_node_done(&c->node);
	pt_pending_free(c->set);
	pt_manifest_unref(c->old);
	pt_manifest_unref(c->next);
	pt_buf_done(&c->garbage);
	pt_buf_done(&c->set_value);
	pt_buf_done(&c->manifest_value);
	pt_buf_done(&c->node_value);
	pt_buf_done(&c->times_value);
	pt_buf_done(&c->blob_value);
	pt_buf_done(&c->hashes_value);
}

/* Equal hashes of 128 bits mean equal sets; damage could still say otherwise. */
static bool same_set(const struct pt_pending *a, const struct pt_pending *b)
{
	return a->written == b->written && a->set_size == b->set_size && a->set_dim == b->set_dim && a->dtype == b->dtype && a->split == b->split &&
	       !strcmp(a->step, b->step) && !strcmp(a->scope, b->scope) && pt_shape_equal(&a->shape, &b->shape) && a->round == b->round;
}

int pt_set_load(struct pt_repo *repo, uint64_t node, const struct pt_part *part, bool single, struct pt_pending **ret_set, struct pt_rkey *ret_key,
		uint64_t *ret_version)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_pending *set, *found = NULL;
	struct pt_hash128 identity;
	uint64_t version = 0;
	int rc;

	rc = pt_set_create(node, part, &set);
	if (rc < 0)
		return rc;
	rc = pt_set_identity(set, &identity);
	if (rc < 0)
		goto fail;
	set->created_ns = pt_time_now_ns();
	pt_rkey_pending(ret_key, node, part->scope, &identity);
	if (set->set_size > 1 || single)
		rc = pt_rec_get(repo, ret_key, &value, &version);
	if (!rc && version)
		rc = pt_record_pending_decode(value.data, value.len, &found);
	if (!rc && found && !same_set(found, set)) {
		pt_pending_free(found);
		rc = pt_record_bad("pending set");
	}
	if (rc < 0)
		goto fail;
	if (found) {
		pt_pending_free(set);
		set = found;
	}
	pt_buf_done(&value);
	*ret_set = set;
	*ret_version = version;
	return 0;
fail:
	pt_pending_free(set);
	pt_buf_done(&value);
	return rc;
}

static int add_object(struct commit *c)
{
	const struct pt_object *o = &c->part->object;
	struct pt_blob_rec rec = { .kind = o->blob.kind, .refs = 1, .bytes = o->payload_off + o->bytes, .payload_off = o->payload_off };
	uint64_t version = 0;
	struct pt_rkey key;
	int rc;

	if (c->part->shared) {
		rc = pt_rec_blob(c->repo, &o->blob.id, &rec, &version);
		if (rc < 0)
			return rc;
		if (!version)
			return pt_fail(ESTALE, "the file has been replaced meanwhile");
		if (rec.refs == UINT32_MAX)
			return pt_fail(EMLINK, "the object has too many references");
		rec.refs++;
	}
	pt_buf_reset(&c->blob_value);
	pt_record_blob_encode(&rec, &c->blob_value);
	pt_rkey_blob(&key, &o->blob.id);
	pt_batch_compare(&c->batch, &key, version);
	pt_batch_put(&c->batch, &key, &c->blob_value);
	if (c->part->shared)
		return 0;
	pt_record_hashes_encode(&c->part->chunk_hashes, &c->hashes_value);
	pt_rkey_hashes(&key, &o->blob.id);
	pt_batch_put(&c->batch, &key, &c->hashes_value);
	return 0;
}

static int add_pending(struct commit *c)
{
	int rc;

	c->set->updated_ns = pt_time_now_ns();
	pt_buf_reset(&c->set_value);
	rc = pt_record_pending_encode(c->set, &c->set_value);
	if (rc < 0)
		return rc;
	pt_batch_compare(&c->batch, &c->set_key, c->set_version);
	pt_batch_put(&c->batch, &c->set_key, &c->set_value);
	return 0;
}

static int add_revision(struct commit *c)
{
	const struct pt_part *part = c->part;
	struct pt_rkey key;
	uint32_t i;
	int rc;

	rc = pt_set_finish(c->set, &c->next);
	if (rc < 0)
		return rc;
	c->next->revision = c->node.next_revision;
	c->next->mode = part->mode;
	c->next->uid = part->uid;
	c->next->gid = part->gid;
	c->next->mtime_ns = part->mtime_ns ? part->mtime_ns : pt_time_now_ns();
	if (c->set_version) {
		pt_batch_compare(&c->batch, &c->set_key, c->set_version);
		pt_batch_delete(&c->batch, &c->set_key);
	}
	if (c->old)
		for (i = 0; i < c->old->object_count; i++)
			pt_record_garbage_add(&c->garbage, &c->old->objects[i].blob);
	rc = pt_record_manifest_encode(c->next, &c->manifest_value);
	if (rc < 0)
		return rc;
	pt_rkey_manifest(&key, c->node.id, part->scope);
	pt_batch_compare(&c->batch, &key, c->old ? c->old->version : 0);
	pt_batch_put(&c->batch, &key, &c->manifest_value);
	c->node.next_revision++;
	if (c->next->split != PT_SPLIT_UNSET)
		c->node.split = c->next->split;
	rc = pt_record_node_encode(&c->node, &c->node_value);
	if (rc < 0)
		return rc;
	pt_rkey_node(&key, c->node.id);
	pt_batch_put(&c->batch, &key, &c->node_value);
	return 0;
}

static int commit_once(struct commit *c, uint64_t node, bool put, struct pt_published *ret_published)
{
	struct pt_blob_ref replaced;
	struct pt_rkey key;
	uint64_t version;
	bool replaces;
	int rc;

	rc = pt_node_get(c->repo, node, &c->node);
	if (rc < 0)
		return rc;
	if (c->node.kind != PT_NODE_DIR)
		return pt_fail(ENOTDIR, "'%s' is not a directory, so it cannot be a tensor", c->node.name);
	rc = pt_manifest_get(c->repo, node, c->part->scope, &c->old);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (put && c->old)
		return pt_fail(EEXIST, "'%s' has a revision already%s%s: put only makes new ones; upsert (ptio put without -n) replaces it", c->node.name, c->part->scope[0] ? " in scope " : "",
			       c->part->scope);
	rc = pt_set_load(c->repo, node, c->part, false, &c->set, &c->set_key, &c->set_version);
	if (!rc)
		rc = pt_set_add(c->set, &c->part->object, &replaces, &replaced);
	if (rc < 0)
		return rc;
	if (replaces)
		pt_record_garbage_add(&c->garbage, &replaced);
	pt_batch_init(&c->batch);
	pt_rkey_node(&key, node);
	pt_batch_compare(&c->batch, &key, c->node.version);
	rc = c->set->object_count == (uint32_t)c->set->set_size ? add_revision(c) : add_pending(c);
	if (rc < 0)
		return rc;
	rc = add_object(c);
	if (rc < 0)
		return rc;
	pt_node_changed(&c->batch, node, &c->times_value);
	rc = pt_batch_garbage(&c->batch, &c->garbage);
	if (!rc)
		rc = pt_batch_commit(c->repo, &c->batch, &version);
	if (rc < 0)
		return rc;
	if (c->next) {
		c->next->version = version;
		pt_cache_put(c->repo->cache, c->next);
	}
	ret_published->set_id = c->set->set_id;
	ret_published->revision = c->next ? c->next->revision : 0;
	return 0;
}

int pt_commit_part(struct pt_repo *repo, uint64_t node, struct pt_part *part, bool put, struct pt_published *ret_published)
{
	struct pt_published published;
	struct pt_retry retry = { 0 };
	struct commit c;
	int rc;

	rc = pt_set_check_part(part);
	if (rc < 0)
		return rc;
	part->object.hidden = false;
	do {
		memset(&c, 0, offsetof(struct commit, batch));
		c.repo = repo;
		c.part = part;
		rc = commit_once(&c, node, put, &published);
		commit_done(&c);
	} while (pt_retry_again(&retry, &rc));
	if (rc == -EIO) {
		/* A daemon that goes away may have made the change. If it has not, the blob is an orphan. */
		pt_data_unpin(&repo->store->data, &part->object.blob, 1);
		pt_part_done(part);
	}
	if (rc < 0)
		return rc;
	pt_data_unpin(&repo->store->data, &part->object.blob, 1);
	pt_count(&repo->counters.parts, 1);
	if (published.revision)
		pt_count(&repo->counters.commits, 1);
	pt_part_done(part);
	*ret_published = published;
	return 0;
}

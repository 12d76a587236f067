/* manifest/manifest_edit.c - changing what is committed without new bytes: touch, hide, remove; and dropping pending sets.
 *
 * A caller's manifest may be older than the record through somebody's touch or hide; what counts is that the revision number is the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "manifest/set.h"
#include "manifest/internal.h"

/* A private copy of the current record of m's revision. -ESTALE. */
static int edit_begin(struct pt_repo *repo, const struct pt_manifest *m, struct pt_manifest **ret_copy)
{
	struct pt_manifest *current, *copy;
	int rc;

	rc = pt_manifest_get(repo, m->node, m->scope, &current);
	if (rc < 0)
		return rc == -ENOENT ? pt_fail(ESTALE, "this revision has been removed: look again") : rc;
	if (m->pending || current->revision != m->revision) {
		pt_manifest_unref(current);
		return pt_fail(ESTALE, "this revision has been superseded: look again");
	}
	copy = pt_memdup(current, sizeof(*current));
	if (copy) {
		copy->refs = 1;
		copy->objects = pt_memdup(current->objects, current->object_count * sizeof(*copy->objects));
		if (!copy->objects) {
			free(copy);
			copy = NULL;
		}
	}
	pt_manifest_unref(current);
	if (!copy)
		return pt_fail_nomem();
	*ret_copy = copy;
	return 0;
}

static int edit_put(struct pt_repo *repo, const struct pt_manifest *copy)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_batch batch;
	struct pt_rkey key;
	int rc;

	rc = pt_record_manifest_encode(copy, &value);
	if (!rc) {
		pt_batch_init(&batch);
		pt_rkey_manifest(&key, copy->node, copy->scope);
		pt_batch_compare(&batch, &key, copy->version);
		pt_batch_put(&batch, &key, &value);
		batch.lazy = true;
		rc = pt_batch_commit(repo, &batch, NULL);
	}
	pt_buf_done(&value);
	return rc;
}

/* Deletes the record at m's version; its objects become garbage in the same batch. */
static int remove_record(struct pt_repo *repo, const struct pt_manifest *m)
{
	struct pt_buf garbage = PT_BUF_INIT, times_value = PT_BUF_INIT;
	struct pt_batch batch;
	struct pt_rkey key;
	uint32_t i;
	int rc;

	for (i = 0; i < m->object_count; i++)
		pt_record_garbage_add(&garbage, &m->objects[i].blob);
	pt_batch_init(&batch);
	pt_rkey_manifest(&key, m->node, m->scope);
	pt_batch_compare(&batch, &key, m->version);
	pt_batch_delete(&batch, &key);
	pt_node_changed(&batch, m->node, &times_value);
	batch.lazy = true;              /* as in remove_once of node.c */
	rc = pt_batch_garbage(&batch, &garbage);
	if (!rc)
		rc = pt_batch_commit(repo, &batch, NULL);
	pt_buf_done(&garbage);
	pt_buf_done(&times_value);
	return rc;
}

int pt_manifest_touch(struct pt_repo *repo, const struct pt_manifest *m, uint32_t mode, uint32_t uid, uint32_t gid, int64_t mtime_ns)
{
	struct pt_retry retry = { 0 };
	struct pt_manifest *copy;
	int rc;

	do {
		rc = edit_begin(repo, m, &copy);
		if (rc < 0)
			return rc;
		copy->mode = mode;
		copy->uid = uid;
		copy->gid = gid;
		copy->mtime_ns = mtime_ns;
		rc = edit_put(repo, copy);
		pt_manifest_unref(copy);
	} while (pt_retry_again(&retry, &rc));
	return rc;
}

int pt_manifest_hide(struct pt_repo *repo, const struct pt_manifest *m, uint32_t index)
{
	struct pt_retry retry = { 0 };
	struct pt_manifest *copy;
	bool visible;
	uint32_t i;
	int rc;

	do {
		rc = edit_begin(repo, m, &copy);
		if (rc < 0)
			return rc;
		if (index >= copy->object_count) {
			pt_manifest_unref(copy);
			return pt_fail(EINVAL, "the revision has no object %u", index);
		}
		copy->objects[index].hidden = true;
		visible = false;
		for (i = 0; i < copy->object_count; i++)
			visible = visible || !copy->objects[i].hidden;
		rc = visible ? edit_put(repo, copy) : remove_record(repo, copy);
		pt_manifest_unref(copy);
	} while (pt_retry_again(&retry, &rc));
	return rc;
}

int pt_manifest_remove(struct pt_repo *repo, uint64_t node, const char *scope)
{
	struct pt_retry retry = { 0 };
	struct pt_manifest *m;
	int rc;

	do {
		rc = pt_manifest_get(repo, node, scope, &m);
		if (rc < 0)
			return rc;
		rc = remove_record(repo, m);
		pt_manifest_unref(m);
	} while (pt_retry_again(&retry, &rc));
	return rc;
}

/* as_read: only if no part has come since. */
static int pending_remove_once(struct pt_repo *repo, const struct pt_pending *p, const struct pt_rkey *key, bool as_read)
{
	struct pt_buf value = PT_BUF_INIT, garbage = PT_BUF_INIT, times_value = PT_BUF_INIT;
	struct pt_pending *now = NULL;
	struct pt_batch batch;
	uint64_t version;
	uint32_t i;
	int rc;

	rc = pt_rec_get(repo, key, &value, &version);
	if (!rc && version)
		rc = pt_record_pending_decode(value.data, value.len, &now);
	if (!rc && (!now || pt_id_compare(&now->set_id, &p->set_id) || (as_read && version != p->version)))
		rc = pt_fail(ENOENT, "the pending set is gone, or has got another part");
	if (rc < 0)
		goto out;
	for (i = 0; i < now->object_count; i++)
		pt_record_garbage_add(&garbage, &now->objects[i].blob);
	pt_batch_init(&batch);
	pt_batch_compare(&batch, key, version);
	pt_batch_delete(&batch, key);
	pt_node_changed(&batch, now->node, &times_value);
	rc = pt_batch_garbage(&batch, &garbage);
	if (!rc)
		rc = pt_batch_commit(repo, &batch, NULL);
out:
	pt_pending_free(now);
	pt_buf_done(&value);
	pt_buf_done(&garbage);
	pt_buf_done(&times_value);
	return rc;
}

static int pending_remove(struct pt_repo *repo, const struct pt_pending *p, bool as_read)
{
	struct pt_retry retry = { 0 };
	struct pt_hash128 identity;
	struct pt_rkey key;
	int rc;

	rc = pt_set_identity(p, &identity);
	if (rc < 0)
		return rc;
	pt_rkey_pending(&key, p->node, p->scope, &identity);
	do
		rc = pending_remove_once(repo, p, &key, as_read);
	while (pt_retry_again(&retry, &rc));
	return rc;
}

int pt_pending_remove(struct pt_repo *repo, const struct pt_pending *p)
{
	return pending_remove(repo, p, false);
}

int pt_pending_expire(struct pt_repo *repo, const struct pt_pending *p)
{
	return pending_remove(repo, p, true);
}

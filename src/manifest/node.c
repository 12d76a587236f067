/* manifest/node.c - changes of single nodes: create, update, unlink, rmdir. They are read in node_read.c.
 *
 * Every change is one batch that compares what it was decided upon. Two rules keep directories consistent without making everybody who works
 * in one directory collide on its node record:
 * - whatever adds something below a node (an entry, a part, a revision) compares the version of the node's record, which only attribute changes
 *   and commits alter, and puts its times record (t) without compare;
 * - whatever removes a directory compares both records with what they were before it looked whether the directory is empty.
 * So creators in one directory don't disturb each other, and none can add to a directory that goes away.
 * A directory's mtime is the later of its node record's and its times record's. pt_node_update compares both and drops the times record, so a time
 * that was set stands until the next change of entries, and no attribute is lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "manifest/internal.h"

void pt_node_changed(struct pt_batch *b, uint64_t node, struct pt_buf *value)
{
	struct pt_rkey key;

	if (!value->len)
		pt_record_times_encode(pt_time_now_ns(), value);
	pt_rkey_times(&key, node);
	pt_batch_put(b, &key, value);
}

bool pt_node_is_model(enum pt_node_kind kind, const char *name)
{
	return kind == PT_NODE_CONTAINER || (kind == PT_NODE_FILE && strcmp(name, PT_PLAN_NAME) == 0);
}

void pt_node_models_changed(struct pt_batch *b, uint64_t node, struct pt_buf *value)
{
	struct pt_rkey key;

	if (!value->len)
		pt_record_times_encode(pt_time_now_ns(), value);
	pt_rkey_models(&key, node);
	pt_batch_put(b, &key, value);
}

/* Takes a reference on the blob in the batch. *ret_new: nobody referred to it before, so its writer's pin can go once the batch holds. */
int pt_node_blob_take(struct pt_repo *repo, struct pt_batch *b, const struct pt_blob_ref *ref, uint64_t bytes, struct pt_buf *value, bool *ret_new)
{
	struct pt_blob_rec rec;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	rc = pt_rec_blob(repo, &ref->id, &rec, &version);
	if (rc < 0)
		return rc;
	if (!version)
		rec = (struct pt_blob_rec){ .kind = ref->kind, .bytes = bytes };
	if (rec.refs == UINT32_MAX)
		return pt_fail(EMLINK, "the object has too many references");
	rec.refs++;
	pt_record_blob_encode(&rec, value);
	pt_rkey_blob(&key, &ref->id);
	pt_batch_compare(b, &key, version);
	pt_batch_put(b, &key, value);
	*ret_new = !version;
	return 0;
}

static int create_once(struct pt_repo *repo, struct pt_node *node, bool *ret_unpin)
{
	struct pt_buf entry_value = PT_BUF_INIT, node_value = PT_BUF_INIT, times_value = PT_BUF_INIT, blob_value = PT_BUF_INIT;
	struct pt_entry entry = { .id = node->id, .kind = node->kind }, old;
	struct pt_rkey entry_key, key;
	struct pt_node parent;
	struct pt_batch batch;
	uint64_t version;
	bool unpin = false;
	int rc;

	rc = pt_node_get(repo, node->parent, &parent);
	if (rc < 0)
		return rc;
	version = parent.version;
	pt_node_done(&parent);
	if (parent.kind != PT_NODE_DIR)
		return pt_fail(ENOTDIR, "'%s' is not a directory", parent.name);
	rc = pt_entry_get(repo, node->parent, node->name, &old, &(uint64_t){ 0 });
	if (!rc)
		return pt_fail(EEXIST, "'%s' exists", node->name);
	if (rc != -ENOENT)
		return rc;
	pt_batch_init(&batch);
	pt_rkey_node(&key, node->parent);
	pt_batch_compare(&batch, &key, version);
	pt_rkey_entry(&entry_key, node->parent, node->name, strlen(node->name));
	pt_batch_compare(&batch, &entry_key, 0);
	pt_record_entry_encode(&entry, &entry_value);
	pt_batch_put(&batch, &entry_key, &entry_value);
	rc = pt_record_node_encode(node, &node_value);
	if (rc < 0)
		goto out;
	pt_rkey_node(&key, node->id);
	pt_batch_put(&batch, &key, &node_value);
	pt_node_changed(&batch, node->parent, &times_value);
	if (pt_node_is_model(node->kind, node->name))
		pt_node_models_changed(&batch, node->parent, &times_value);
	if (!pt_id_is_zero(&node->blob.id)) {
		rc = pt_node_blob_take(repo, &batch, &node->blob, node->size, &blob_value, &unpin);
		if (rc < 0)
			goto out;
	}
	/* What is written into it is durable when it is closed, and then so is this. A symlink publishes, as a rename does. */
	batch.lazy = pt_id_is_zero(&node->blob.id) && node->kind != PT_NODE_SYMLINK;
	rc = pt_batch_commit(repo, &batch, &node->version);
	if (!rc)
		*ret_unpin = unpin;
out:
	pt_buf_done(&entry_value);
	pt_buf_done(&node_value);
	pt_buf_done(&times_value);
	pt_buf_done(&blob_value);
	return rc;
}

int pt_node_create(struct pt_repo *repo, uint64_t parent, const char *name, const struct pt_node *attrs, struct pt_node *ret_node)
{
	struct pt_retry retry = { 0 };
	struct pt_node node = { 0 };
	bool unpin = false;
	int rc;

	rc = pt_name_check(name);
	if (rc < 0)
		return rc;
	if (attrs->kind < PT_NODE_DIR || attrs->kind > PT_NODE_CONTAINER)
		return pt_fail(EINVAL, "%d is no kind of node", (int)attrs->kind);
	if ((attrs->kind == PT_NODE_SYMLINK) != (attrs->target != NULL) || (attrs->target && !attrs->target[0]))
		return pt_fail(EINVAL, "'%s': a symlink needs a target, and nothing else has one", name);
	if (attrs->target && strlen(attrs->target) > 4095)
		return pt_fail(ENAMETOOLONG, "'%s': the link's target is longer than 4095 bytes", name);
	rc = pt_node_id_new(repo, &node.id);
	if (rc < 0)
		return rc;
	node.parent = parent;
	strcpy(node.name, name);
	node.kind = attrs->kind;
	node.implicit = attrs->implicit;
	node.mode = attrs->mode;
	node.uid = attrs->uid;
	node.gid = attrs->gid;
	node.mtime_ns = attrs->mtime_ns ? attrs->mtime_ns : pt_time_now_ns();
	node.ctime_ns = pt_time_now_ns();
	node.next_revision = 1;
	node.split = attrs->split;
	if (attrs->kind == PT_NODE_FILE || attrs->kind == PT_NODE_CONTAINER) {
		node.blob = attrs->blob;
		node.size = attrs->size;
	}
	if (attrs->target)
		node.size = strlen(attrs->target);
	node.target = attrs->target;
	node.xattrs = attrs->xattrs;
	node.xattr_count = attrs->xattr_count;
	do
		rc = create_once(repo, &node, &unpin);
	while (pt_retry_again(&retry, &rc));
	if (rc < 0)
		return rc;
	if (unpin)
		pt_data_unpin(&repo->store->data, &node.blob, 1);
	return pt_node_get(repo, node.id, ret_node);
}

/* A file that becomes a container, or stops being one: its entry says so, too. */
static int entry_kind_change(struct pt_repo *repo, struct pt_batch *batch, const struct pt_node *next, struct pt_buf *value)
{
	struct pt_entry entry;
	struct pt_rkey key;
	uint64_t version;
	int rc;

	rc = pt_entry_get(repo, next->parent, next->name, &entry, &version);
	if (rc < 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	if (entry.id != next->id)
		return -EAGAIN;
	entry.kind = next->kind;
	pt_record_entry_encode(&entry, value);
	pt_rkey_entry(&key, next->parent, next->name, strlen(next->name));
	pt_batch_compare(batch, &key, version);
	pt_batch_put(batch, &key, value);
	return 0;
}

int pt_node_update_with(struct pt_repo *repo, struct pt_node *node, uint64_t blob_bytes, pt_node_extra_fn *extra, void *ctx)
{
	struct pt_buf node_value = PT_BUF_INIT, blob_value = PT_BUF_INIT, garbage = PT_BUF_INIT, entry_value = PT_BUF_INIT, times_value = PT_BUF_INIT;
	struct pt_node old, next;
	struct pt_batch batch;
	struct pt_rkey key;
	uint64_t version;
	bool unpin = false;
	int rc;

	rc = pt_node_get(repo, node->id, &old);
	if (rc < 0)
		return rc;
	rc = -EAGAIN;
	if (old.version != node->version || old.times_version != node->times_version)
		goto out;
	next = old;
	next.mode = node->mode;
	next.uid = node->uid;
	next.gid = node->gid;
	next.mtime_ns = node->mtime_ns;
	next.ctime_ns = node->ctime_ns;
	next.xattrs = node->xattrs;
	next.xattr_count = node->xattr_count;
	next.split = node->split;
	next.implicit = node->implicit;
	pt_batch_init(&batch);
	if (old.kind == PT_NODE_FILE || old.kind == PT_NODE_CONTAINER) {
		next.kind = node->kind == PT_NODE_CONTAINER ? PT_NODE_CONTAINER : PT_NODE_FILE;
		next.blob = node->blob;
		next.size = node->size;
		rc = next.kind != old.kind ? entry_kind_change(repo, &batch, &next, &entry_value) : 0;
		if (rc < 0)
			goto out;
		if (pt_id_compare(&old.blob.id, &next.blob.id)) {
			if (!pt_id_is_zero(&old.blob.id))
				pt_record_garbage_add(&garbage, &old.blob);
			rc = pt_id_is_zero(&next.blob.id) ? 0 : pt_node_blob_take(repo, &batch, &next.blob, blob_bytes, &blob_value, &unpin);
			if (!rc)
				rc = pt_batch_garbage(&batch, &garbage);
			if (rc < 0)
				goto out;
		}
		if ((next.kind != old.kind || pt_id_compare(&old.blob.id, &next.blob.id)) &&
		    (pt_node_is_model(old.kind, old.name) || pt_node_is_model(next.kind, next.name)))
			pt_node_models_changed(&batch, next.parent, &times_value);
	}
	rc = pt_record_node_encode(&next, &node_value);
	if (rc < 0)
		goto out;
	pt_rkey_node(&key, node->id);
	pt_batch_compare(&batch, &key, old.version);
	pt_batch_put(&batch, &key, &node_value);
	if (old.kind == PT_NODE_DIR) {
		pt_rkey_times(&key, node->id);
		pt_batch_compare(&batch, &key, old.times_version);
		pt_batch_delete(&batch, &key);
	}
	if (extra)
		extra(ctx, &batch);
	batch.lazy = !extra && next.kind == old.kind && pt_id_compare(&old.blob.id, &next.blob.id) == 0 && next.size == old.size;
	rc = pt_batch_commit(repo, &batch, &version);
	if (rc < 0)
		goto out;
	node->version = version;
	node->times_version = 0;
	if (unpin)
		pt_data_unpin(&repo->store->data, &next.blob, 1);
out:
	pt_node_done(&old);
	pt_buf_done(&node_value);
	pt_buf_done(&blob_value);
	pt_buf_done(&garbage);
	pt_buf_done(&entry_value);
	pt_buf_done(&times_value);
	return rc;
}

int pt_node_update(struct pt_repo *repo, struct pt_node *node)
{
	return pt_node_update_with(repo, node, node->size, NULL, NULL);
}

int pt_node_check_empty(struct pt_repo *repo, uint64_t node)
{
	struct pt_rkey key;
	int rc;

	pt_rkey_entry(&key, node, "", 0);
	rc = pt_rec_any(repo, &key);
	if (rc)
		return rc < 0 ? rc : pt_fail(ENOTEMPTY, "the directory has entries: remove them first");
	pt_rkey_manifest(&key, node, NULL);
	rc = pt_rec_any(repo, &key);
	if (rc)
		return rc < 0 ? rc : pt_fail(ENOTEMPTY, "the directory is a tensor: remove its revisions first");
	pt_rkey_pending(&key, node, NULL, NULL);
	rc = pt_rec_any(repo, &key);
	if (rc)
		return rc < 0 ? rc : pt_fail(ENOTEMPTY, "the directory has a pending set: remove it first (ptio pending)");
	return 0;
}

void pt_node_drop(struct pt_batch *b, const struct pt_node *node, struct pt_buf *garbage)
{
	struct pt_rkey key;

	pt_rkey_node(&key, node->id);
	pt_batch_compare(b, &key, node->version);
	pt_batch_delete(b, &key);
	if (node->kind == PT_NODE_DIR) {
		pt_rkey_times(&key, node->id);
		pt_batch_compare(b, &key, node->times_version);
		pt_batch_delete(b, &key);
		pt_rkey_models(&key, node->id);
		pt_batch_delete(b, &key);
	}
	if (!pt_id_is_zero(&node->blob.id))
		pt_record_garbage_add(garbage, &node->blob);
}

/* id: the node that is meant; 0: any. */
static int remove_once(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t id, bool directory)
{
	struct pt_buf times_value = PT_BUF_INIT, garbage = PT_BUF_INIT;
	struct pt_rkey entry_key;
	struct pt_entry entry;
	struct pt_batch batch;
	struct pt_node node;
	uint64_t version;
	int rc;

	rc = pt_entry_get(repo, parent, name, &entry, &version);
	if (rc < 0)
		return rc;
	if (id && entry.id != id)
		return pt_fail(ENOENT, "'%s' is another file by now", name);
	rc = pt_node_get(repo, entry.id, &node);
	if (rc < 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	if (directory && node.kind != PT_NODE_DIR)
		rc = pt_fail(ENOTDIR, "'%s' is not a directory", name);
	else if (!directory && node.kind == PT_NODE_DIR)
		rc = pt_fail(EISDIR, "'%s' is a directory", name);
	else if (directory)
		rc = pt_node_check_empty(repo, node.id);
	if (rc < 0)
		goto out;
	pt_batch_init(&batch);
	pt_rkey_entry(&entry_key, parent, name, strlen(name));
	pt_batch_compare(&batch, &entry_key, version);
	pt_batch_delete(&batch, &entry_key);
	pt_node_drop(&batch, &node, &garbage);
	pt_node_changed(&batch, parent, &times_value);
	if (pt_node_is_model(node.kind, name))
		pt_node_models_changed(&batch, parent, &times_value);
	/* A collector removes nothing before a batch of its own, which is durable after this one. */
	batch.lazy = true;
	rc = pt_batch_garbage(&batch, &garbage);
	if (!rc)
		rc = pt_batch_commit(repo, &batch, NULL);
out:
	pt_node_done(&node);
	pt_buf_done(&times_value);
	pt_buf_done(&garbage);
	return rc;
}

static int node_remove(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t id, bool directory)
{
	struct pt_retry retry = { 0 };
	int rc;

	do
		rc = remove_once(repo, parent, name, id, directory);
	while (pt_retry_again(&retry, &rc));
	return rc;
}

int pt_node_unlink(struct pt_repo *repo, uint64_t parent, const char *name)
{
	return node_remove(repo, parent, name, 0, false);
}

int pt_node_unlink_id(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t id)
{
	return node_remove(repo, parent, name, id, false);
}

int pt_node_rmdir(struct pt_repo *repo, uint64_t parent, const char *name)
{
	return node_remove(repo, parent, name, 0, true);
}

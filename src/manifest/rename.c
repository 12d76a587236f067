/* manifest/rename.c - POSIX rename in one batch.
 *
 * The batch compares both entries, the moved nodes, the new parent (so that it is still there) and what is replaced, each as it was when the rules
 * were checked. No pair of concurrent renames can make a circle: renames of directories between parents also compare and put one record of the store
 * (c | rename), and nothing else alters who is below whom. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "manifest/internal.h"

#define DEPTH_MAX 65536

struct side {
	uint64_t parent;
	const char *name;
	bool there;
	uint64_t version;               /* of the entry, 0 when it is not there */
	struct pt_node node;            /* when there */
	struct pt_buf entry_value, node_value;
};

static int side_load(struct pt_repo *repo, struct side *s, uint64_t parent, const char *name)
{
	struct pt_entry entry;
	int rc;

	s->parent = parent;
	s->name = name;
	rc = pt_entry_get(repo, parent, name, &entry, &s->version);
	if (rc < 0)
		return rc;
	rc = pt_node_get(repo, entry.id, &s->node);
	if (rc < 0)
		return rc == -ENOENT ? -EAGAIN : rc;
	s->there = true;
	return 0;
}

static void side_done(struct side *s)
{
	if (s->there)
		pt_node_done(&s->node);
	pt_buf_done(&s->entry_value);
	pt_buf_done(&s->node_value);
}

/* -EINVAL when `dir` is `id` or above it. */
static int check_not_below(struct pt_repo *repo, uint64_t dir, uint64_t id, const char *name)
{
	struct pt_node node;
	uint32_t depth;
	int rc;

	for (depth = 0; id != PT_NODE_ROOT; depth++) {
		if (id == dir)
			return pt_fail(EINVAL, "'%s' cannot move into itself", name);
		if (depth == DEPTH_MAX)
			return pt_record_bad("node");
		rc = pt_node_get(repo, id, &node);
		if (rc < 0)
			return rc;
		pt_node_done(&node);
		id = node.parent;
	}
	return 0;
}

static int check_rules(struct pt_repo *repo, const struct side *from, const struct side *to, bool no_replace, bool exchange)
{
	bool from_dir = from->node.kind == PT_NODE_DIR, to_dir = to->there && to->node.kind == PT_NODE_DIR;
	int rc;

	if (to->there && no_replace)
		return pt_fail(EEXIST, "'%s' exists", to->name);
	if (exchange && !to->there)
		return pt_fail(ENOENT, "there is no '%s' to exchange with", to->name);
	if (from_dir) {
		rc = check_not_below(repo, from->node.id, to->parent, from->name);
		if (rc < 0)
			return rc;
	}
	if (exchange)
		return to_dir ? check_not_below(repo, to->node.id, from->parent, to->name) : 0;
	if (!to->there)
		return 0;
	if (from_dir && !to_dir)
		return pt_fail(ENOTDIR, "'%s' is a directory, '%s' is not", from->name, to->name);
	if (!from_dir && to_dir)
		return pt_fail(EISDIR, "'%s' is a directory", to->name);
	if (to_dir) {
		rc = pt_node_check_empty(repo, to->node.id);
		return rc < 0 ? pt_fail_context(rc, "cannot replace '%s'", to->name) : 0;
	}
	return 0;
}

/* Puts the node of `s` under another parent and name; its old entry is the caller's business. */
static int move_node(struct pt_batch *b, struct side *s, uint64_t parent, const char *name, int64_t now_ns)
{
	struct pt_entry entry = { .id = s->node.id, .kind = s->node.kind };
	struct pt_node moved = s->node;
	struct pt_rkey key;
	int rc;

	moved.parent = parent;
	strcpy(moved.name, name);
	moved.ctime_ns = now_ns;
	rc = pt_record_node_encode(&moved, &s->node_value);
	if (rc < 0)
		return rc;
	pt_record_entry_encode(&entry, &s->entry_value);
	pt_rkey_node(&key, s->node.id);
	pt_batch_compare(b, &key, s->node.version);
	pt_batch_put(b, &key, &s->node_value);
	pt_rkey_entry(&key, parent, name, strlen(name));
	pt_batch_put(b, &key, &s->entry_value);
	return 0;
}

static int lock_ancestry(struct pt_repo *repo, struct pt_batch *b, struct pt_buf *value)
{
	struct pt_rkey key;
	uint64_t version;
	int rc;

	pt_rkey_counter(&key, "rename");
	rc = pt_rec_get(repo, &key, value, &version);
	if (rc < 0)
		return rc;
	pt_buf_reset(value);
	pt_record_counter_encode(version, value);
	pt_batch_compare(b, &key, version);
	pt_batch_put(b, &key, value);
	return 0;
}

/* Under its old name or the new one. */
static bool is_model(const struct side *s, const char *new_name)
{
	return pt_node_is_model(s->node.kind, s->name) || pt_node_is_model(s->node.kind, new_name);
}

static int build_and_commit(struct pt_repo *repo, struct pt_batch *batch, struct side *from, struct side *to, bool exchange)
{
	struct pt_buf times_value = PT_BUF_INIT, garbage = PT_BUF_INIT;
	int64_t now_ns = pt_time_now_ns();
	struct pt_rkey key;
	int rc;

	pt_rkey_entry(&key, from->parent, from->name, strlen(from->name));
	pt_batch_compare(batch, &key, from->version);
	if (!exchange)
		pt_batch_delete(batch, &key);
	pt_rkey_entry(&key, to->parent, to->name, strlen(to->name));
	pt_batch_compare(batch, &key, to->version);
	if (to->there && !exchange)
		pt_node_drop(batch, &to->node, &garbage);
	rc = move_node(batch, from, to->parent, to->name, now_ns);
	if (!rc && exchange)
		rc = move_node(batch, to, from->parent, from->name, now_ns);
	pt_node_changed(batch, from->parent, &times_value);
	if (from->parent != to->parent)
		pt_node_changed(batch, to->parent, &times_value);
	if (is_model(from, to->name) || (to->there && is_model(to, from->name))) {
		pt_node_models_changed(batch, from->parent, &times_value);
		if (from->parent != to->parent)
			pt_node_models_changed(batch, to->parent, &times_value);
	}
	if (!rc)
		rc = pt_batch_garbage(batch, &garbage);
	if (!rc)
		rc = pt_batch_commit(repo, batch, NULL);
	pt_buf_done(&times_value);
	pt_buf_done(&garbage);
	return rc;
}

static int rename_once(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t new_parent, const char *new_name, bool no_replace,
		       bool exchange)
{
	struct side from = { .there = false }, to = { .there = false };
	struct pt_buf lock_value = PT_BUF_INIT;
	struct pt_node target;
	struct pt_batch batch;
	struct pt_rkey key;
	int rc;

	pt_batch_init(&batch);
	rc = pt_node_get(repo, new_parent, &target);
	if (rc < 0)
		return rc;
	pt_node_done(&target);
	if (target.kind != PT_NODE_DIR)
		return pt_fail(ENOTDIR, "'%s' is not a directory", target.name);
	pt_rkey_node(&key, new_parent);
	pt_batch_compare(&batch, &key, target.version);
	rc = side_load(repo, &from, parent, name);
	if (rc < 0)
		goto out;
	rc = side_load(repo, &to, new_parent, new_name);
	if (rc < 0 && rc != -ENOENT)
		goto out;
	rc = 0;
	if (to.there && to.node.id == from.node.id) {
		if (no_replace)
			rc = pt_fail(EEXIST, "'%s' exists", new_name);
		goto out;
	}
	/* Before the ancestors are looked at. */
	if (parent != new_parent && (from.node.kind == PT_NODE_DIR || (exchange && to.there && to.node.kind == PT_NODE_DIR)))
		rc = lock_ancestry(repo, &batch, &lock_value);
	if (!rc)
		rc = check_rules(repo, &from, &to, no_replace, exchange);
	if (!rc)
		rc = build_and_commit(repo, &batch, &from, &to, exchange);
out:
	side_done(&from);
	side_done(&to);
	pt_buf_done(&lock_value);
	return rc;
}

int pt_node_rename(struct pt_repo *repo, uint64_t parent, const char *name, uint64_t new_parent, const char *new_name, bool no_replace, bool exchange)
{
	struct pt_retry retry = { 0 };
	int rc;

	if (no_replace && exchange)
		return pt_fail(EINVAL, "exchange needs what no_replace forbids");
	rc = pt_name_check(new_name);
	if (rc < 0)
		return rc;
	do
		rc = rename_once(repo, parent, name, new_parent, new_name, no_replace, exchange);
	while (pt_retry_again(&retry, &rc));
	return rc;
}

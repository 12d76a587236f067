/* manifest/node_key.c - keys and nodes: from a key to its node and back, and implicit directories that nobody needs any more. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "manifest/internal.h"

#define IMPLICIT_MODE 0755
#define DEPTH_MAX 65536                 /* more parents than that: the index holds a circle */

static int key_check(const char *key)
{
	size_t len = strnlen(key, PT_KEY_MAX + 1);

	if (len > PT_KEY_MAX)
		return pt_fail(ENAMETOOLONG, "a key may have %d bytes: '%.40s...' is longer", PT_KEY_MAX, key);
	if (len && (key[0] == '/' || key[len - 1] == '/' || strstr(key, "//")))
		return pt_fail(EINVAL, "the key '%s' has an empty component", key);
	return 0;
}

static int step_down(struct pt_repo *repo, const struct pt_node *parent, const char *name, bool create, struct pt_node *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_DIR, .implicit = true, .mode = IMPLICIT_MODE, .uid = geteuid(), .gid = getegid() };
	int rc;

	if (parent->kind != PT_NODE_DIR)
		return pt_fail(ENOTDIR, "'%s' is not a directory, so '%s' cannot be below it", parent->name, name);
	rc = pt_node_lookup(repo, parent->id, name, ret_node);
	if (rc != -ENOENT || !create)
		return rc;
	rc = pt_node_create(repo, parent->id, name, &attrs, ret_node);
	return rc == -EEXIST || rc == -ENOENT ? -EAGAIN : rc;
}

static int by_key_once(struct pt_repo *repo, const char *key, bool create, struct pt_node *ret_node)
{
	struct pt_node node, child;
	char name[PT_NAME_MAX + 1];
	size_t len;
	int rc;

	rc = pt_node_get(repo, PT_NODE_ROOT, &node);
	while (!rc && *key) {
		len = strcspn(key, "/");
		if (len > PT_NAME_MAX) {
			rc = pt_fail(ENAMETOOLONG, "a component of a key may have %d bytes: '%.40s...' is longer", PT_NAME_MAX, key);
		} else {
			memcpy(name, key, len);
			name[len] = '\0';
			rc = step_down(repo, &node, name, create, &child);
		}
		pt_node_done(&node);
		if (rc < 0)
			return rc;
		node = child;
		key += len + (key[len] == '/');
	}
	if (!rc)
		*ret_node = node;
	return rc;
}

int pt_node_by_key(struct pt_repo *repo, const char *key, bool create, struct pt_node *ret_node)
{
	struct pt_retry retry = { 0 };
	int rc;

	rc = key_check(key);
	if (rc < 0)
		return rc;
	do
		rc = by_key_once(repo, key, create, ret_node);
	while (pt_retry_again(&retry, &rc));
	return rc;
}

int pt_node_key(struct pt_repo *repo, uint64_t id, char ret_key[PT_KEY_MAX + 1])
{
	char text[PT_KEY_MAX + 2];
	size_t at = sizeof(text), len;
	struct pt_node node;
	uint32_t depth;
	int rc;

	for (depth = 0; id != PT_NODE_ROOT; depth++) {
		if (depth == DEPTH_MAX)
			return pt_record_bad("node");
		rc = pt_node_get(repo, id, &node);
		if (rc < 0)
			return rc;
		pt_node_done(&node);
		len = strlen(node.name);
		if (len + 1 > at)
			return pt_fail(ENAMETOOLONG, "the key of '%s' is longer than %d bytes", node.name, PT_KEY_MAX);
		text[--at] = '/';
		at -= len;
		memcpy(text + at, node.name, len);
		id = node.parent;
	}
	len = sizeof(text) - at;
	if (len)
		len--;                  /* the slash after the last component */
	memcpy(ret_key, text + at, len);
	ret_key[len] = '\0';
	return 0;
}

/* 1: removed, *ret_parent is next; 0: it stays. */
static int prune_once(struct pt_repo *repo, uint64_t id, uint64_t *ret_parent)
{
	struct pt_buf times_value = PT_BUF_INIT, garbage = PT_BUF_INIT;
	struct pt_rkey entry_key;
	struct pt_entry entry;
	struct pt_batch batch;
	struct pt_node node;
	uint64_t version;
	int rc;

	rc = pt_node_get(repo, id, &node);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	pt_node_done(&node);
	if (id == PT_NODE_ROOT || node.kind != PT_NODE_DIR || !node.implicit)
		return 0;
	rc = pt_node_check_empty(repo, id);
	if (rc < 0)
		return rc == -ENOTEMPTY ? 0 : rc;
	rc = pt_entry_get(repo, node.parent, node.name, &entry, &version);
	if (rc < 0 || entry.id != id)
		return rc < 0 && rc != -ENOENT ? rc : -EAGAIN;
	pt_batch_init(&batch);
	pt_rkey_entry(&entry_key, node.parent, node.name, strlen(node.name));
	pt_batch_compare(&batch, &entry_key, version);
	pt_batch_delete(&batch, &entry_key);
	pt_node_drop(&batch, &node, &garbage);
	pt_node_changed(&batch, node.parent, &times_value);
	rc = pt_batch_commit(repo, &batch, NULL);
	pt_buf_done(&times_value);
	pt_buf_done(&garbage);
	if (rc < 0)
		return rc;
	*ret_parent = node.parent;
	return 1;
}

int pt_node_prune(struct pt_repo *repo, uint64_t id)
{
	struct pt_retry retry;
	uint64_t parent = 0;
	int rc;

	do {
		retry = (struct pt_retry){ 0 };
		do
			rc = prune_once(repo, id, &parent);
		while (pt_retry_again(&retry, &rc));
		id = parent;
	} while (rc == 1);
	return rc;
}

/* tensor/api_list.c - which tensors there are, and removing them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tensor/api_int.h"
#include "tensor/known.h"

struct listed {
	char *key;
	uint64_t node;
};

struct listing {
	const char *prefix;
	size_t prefix_len;
	struct listed *list;
	size_t count, room;
	int rc;
};

/* Keys are collected first, so that no scan is open while the caller's function runs. */
static int collect(void *ctx, const char *key, const struct pt_node *node)
{
	struct listing *l = ctx;
	struct listed *grown;

	if (node->kind != PT_NODE_DIR || strncmp(key, l->prefix, l->prefix_len) != 0)
		return 0;
	if (l->count == l->room) {
		grown = pt_reallocarray(l->list, l->room ? 2 * l->room : 64, sizeof(*grown));
		if (!grown)
			goto nomem;
		l->list = grown;
		l->room = l->room ? 2 * l->room : 64;
	}
	l->list[l->count].key = pt_strdup(key);
	if (!l->list[l->count].key)
		goto nomem;
	l->list[l->count++].node = node->id;
	return 0;
nomem:
	l->rc = pt_fail_nomem();
	return 1;
}

int ptio_list(struct ptio *p, const char *prefix, ptio_list_fn *fn, void *ctx)
{
	struct listing l = { .prefix = prefix ? prefix : "" };
	bool revision, pending, stop = false;
	size_t i;
	int rc;

	if (!p || !fn)
		return pt_fail(EINVAL, "an argument is NULL");
	l.prefix_len = strlen(l.prefix);
	rc = pt_node_walk(p->repo, PT_NODE_ROOT, collect, &l);
	if (rc >= 0)
		rc = l.rc;
	for (i = 0; i < l.count; i++) {
		if (rc >= 0 && !stop) {
			rc = pt_tensor_exists(p->repo, l.list[i].node, &revision, &pending);
			if (!rc && (revision || pending))
				stop = fn(ctx, l.list[i].key, revision) != 0;
			else if (rc == -ENOENT)         /* removed meanwhile */
				rc = 0;
		}
		free(l.list[i].key);
	}
	free(l.list);
	return rc < 0 ? rc : 0;
}

static int scope_text(const struct ptio_parallelism *scope, char ret_text[PT_LAYOUT_TEXT_MAX])
{
	struct ptio_read_target target = { .mode = PTIO_FULL, .parallelism = scope };
	struct pt_request req;
	int rc;

	rc = pt_api_request_read(&target, &req);
	if (rc)
		return rc;
	if (pt_layout_find(&req.layout, PT_AXIS_TP))
		return pt_fail(EINVAL, "a tp axis is no scope: a set is removed whole");
	pt_layout_format(&req.layout, ret_text);
	return 0;
}

int ptio_remove(struct ptio *p, const char *key, const struct ptio_parallelism *scope)
{
	char text[PT_LAYOUT_TEXT_MAX];
	struct pt_known k;
	uint64_t node;
	size_t i, removed = 0;
	int rc;

	rc = pt_api_node(p, key, &node);
	if (!rc && scope)
		rc = scope_text(scope, text);
	if (!rc)
		rc = pt_known_load(p->repo, node, &k);
	if (rc)
		return rc;
	for (i = 0; !rc && i < k.manifest_count; i++) {
		if (scope && strcmp(k.manifests[i]->scope, text) != 0)
			continue;
		rc = pt_manifest_remove(p->repo, node, k.manifests[i]->scope);
		removed += !rc;
		if (rc == -ENOENT)
			rc = 0;
	}
	for (i = 0; !rc && i < k.pending_count; i++) {
		if (scope && strcmp(k.pendings[i]->scope, text) != 0)
			continue;
		rc = pt_pending_remove(p->repo, k.pendings[i]);
		removed += !rc;
		if (rc == -ENOENT || rc == -EAGAIN)
			rc = 0;
	}
	pt_known_done(&k);
	if (rc < 0)
		return rc;
	if (!removed)
		return pt_fail(ENOENT, "nothing of '%.200s' is stored%s%s", key, scope ? " as " : "", scope ? text : "");
	pt_node_prune(p->repo, node);
	return 0;
}

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

/* What up to PT_REPO_AHEAD_KEYS nodes hold, looked up together. */
struct held {
	bool revision, pending;
	int rc;
};

static void look(struct pt_repo *repo, const struct listed *list, size_t count, struct held *ret_held)
{
	struct pt_repo_ahead *ahead = NULL;
	uint64_t nodes[PT_REPO_AHEAD_KEYS];
	size_t i;

	for (i = 0; i < count; i++)
		nodes[i] = list[i].node;
	/* What goes wrong here does so below. */
	if (pt_repo_ahead_begin(repo, NULL, 0, &ahead) == 0)
		(void)pt_repo_ahead_content(ahead, nodes, count);
	for (i = 0; i < count; i++)
		ret_held[i].rc = pt_tensor_exists(repo, nodes[i], &ret_held[i].revision, &ret_held[i].pending);
	pt_repo_ahead_end(ahead);
}

/* Where the store is away many are looked up before the first is told; else each just before. */
static size_t at_once(struct pt_repo *repo)
{
	return pt_meta_looks_max(&pt_repo_store(repo)->meta) ? PT_REPO_AHEAD_KEYS : 1;
}

/* All keys that may be tensors, and their nodes. */
static int walk(struct pt_repo *repo, struct listing *l)
{
	struct pt_repo_ahead *ahead;
	int rc = pt_repo_ahead_begin(repo, NULL, 0, &ahead);

	if (rc < 0)
		return rc;
	rc = pt_node_walk(repo, PT_NODE_ROOT, collect, l);
	pt_repo_ahead_end(ahead);
	return rc < 0 ? rc : l->rc;
}

int ptio_list(struct ptio *p, const char *prefix, ptio_list_fn *fn, void *ctx)
{
	struct listing l = { .prefix = prefix ? prefix : "" };
	struct held held[PT_REPO_AHEAD_KEYS];
	const struct held *h;
	bool stop = false;
	size_t i, some;
	int rc;

	if (!p || !fn)
		return pt_fail(EINVAL, "an argument is NULL");
	l.prefix_len = strlen(l.prefix);
	some = at_once(p->repo);
	rc = walk(p->repo, &l);
	for (i = 0; i < l.count; i++) {
		h = &held[i % some];
		if (rc >= 0 && !stop) {
			if (i % some == 0)
				look(p->repo, l.list + i, l.count - i < some ? l.count - i : some, held);
			rc = h->rc == -ENOENT ? 0 : h->rc;      /* removed meanwhile */
			if (!h->rc && (h->revision || h->pending))
				stop = fn(ctx, l.list[i].key, h->revision) != 0;
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

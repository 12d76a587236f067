/* tree/all_view.c - .all files: every tensor below a directory as one file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/rank_view.h"

#define DEPTH_MAX 256

struct gather {
	struct pt_models *models;
	struct pt_repo *repo;
	const struct pt_request *base;
	struct pt_partition rank;
	struct pt_many *many;
};

struct names {
	char **name;                    /* of child directories, in byte order */
	uint64_t *id;
	size_t count, cap;
	int rc;
};

static int collect(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	struct names *n = ctx;
	char **more;
	uint64_t *ids;

	if (kind != PT_NODE_DIR)
		return 0;
	if (n->count == n->cap) {
		size_t cap = n->cap ? 2 * n->cap : 16;

		more = pt_reallocarray(n->name, cap, sizeof(*more));
		if (more)
			n->name = more;
		ids = pt_reallocarray(n->id, cap, sizeof(*ids));
		if (ids)
			n->id = ids;
		if (!more || !ids) {
			n->rc = pt_fail_nomem();
			return 1;
		}
		n->cap = cap;
	}
	n->name[n->count] = pt_strdup(name);
	if (!n->name[n->count]) {
		n->rc = pt_fail_nomem();
		return 1;
	}
	n->id[n->count++] = id;
	return 0;
}

static void names_done(struct names *n)
{
	size_t i;

	for (i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
	free(n->id);
}

static int by_name(const void *key, const void *entry)
{
	return strcmp(key, *(char *const *)entry);
}

static int add_key(struct gather *g, const struct pt_model_dir *dir, uint64_t node, const char *name, const char *path)
{
	struct pt_manifest *m;
	struct pt_many_cut cut;
	const char *why;
	int32_t dim;
	int rc;

	rc = pt_rank_revision(g->repo, node, path, g->base, &m, &dim);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	rc = pt_rank_cut(dir, name, m->dtype, &m->shape, dim, &g->rank, g->base->split != PT_SPLIT_UNSET ? g->base->split : m->split, &cut, &why, NULL);
	if (!rc)
		rc = pt_many_add_revision(g->many, path, m, &cut);
	pt_manifest_unref(m);
	return rc;
}

/* Something nearer to the name comes before a file of the directory above: a key, but only if it is a tensor, or, for a name with slashes, a file further down. */
static int is_hidden(struct gather *g, const struct names *n, const char *name, bool *ret_hidden)
{
	char part[PT_NAME_MAX + 1], *const *found;
	bool revision, pending;
	struct pt_model_dir *d;
	struct pt_node node;
	uint64_t id = 0;
	size_t len;
	int rc;

	*ret_hidden = false;
	for (;; name += len + 1) {
		len = strcspn(name, "/");
		memcpy(part, name, len);        /* a name that resolves has components that fit */
		part[len] = '\0';
		if (!id) {
			found = n->count ? bsearch(part, n->name, n->count, sizeof(*n->name), by_name) : NULL;
			if (!found)
				return 0;
			id = n->id[found - n->name];
		} else {
			rc = pt_node_lookup(g->repo, id, part, &node);
			if (rc < 0)
				return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
			id = node.kind == PT_NODE_DIR ? node.id : 0;
			pt_node_done(&node);
			if (!id)
				return 0;
		}
		if (!name[len])
			break;
		rc = pt_models_dir(g->models, id, &d);
		if (rc < 0)
			return rc;
		*ret_hidden = pt_model_dir_find(d, name + len + 1);
		pt_model_dir_unref(d);
		if (*ret_hidden)
			return 0;
	}
	rc = pt_tensor_exists(g->repo, id, &revision, &pending);
	if (!rc)
		*ret_hidden = revision || pending;
	return rc;
}

static int gather(struct gather *g, uint64_t node, const char *prefix, int depth)
{
	struct names n = { 0 };
	struct pt_model_dir *dir = NULL;
	struct pt_parse_tensor t;
	struct pt_many_cut cut;
	const char *why;
	char *path;
	bool hidden;
	uint32_t a;
	size_t i;
	int rc;

	if (depth > DEPTH_MAX)
		return pt_fail(ELOOP, "the directories are too deep for one file");
	rc = pt_models_dir(g->models, node, &dir);
	if (!rc)
		rc = pt_node_list(g->repo, node, "", collect, &n);
	if (rc >= 0)
		rc = n.rc;
	for (a = 0; !rc && a < dir->alias_count; a++) {
		const struct pt_model_alias *alias = &dir->aliases[a];

		if (alias->withheld)
			continue;
		rc = is_hidden(g, &n, alias->name, &hidden);
		if (rc < 0 || hidden)
			continue;
		pt_container_tensor(dir->files[alias->file].c, alias->tensor, &t);
		rc = pt_rank_cut(dir, alias->name, t.dtype, &t.shape, -1, &g->rank, g->base->split, &cut, &why, NULL);
		if (rc < 0)
			break;
		path = pt_asprintf("%s%s", prefix, alias->name);
		rc = path ? pt_many_add_tensor(g->many, path, dir->files[alias->file].c, alias->tensor, &cut) : pt_fail_nomem();
		free(path);
	}
	for (i = 0; !rc && i < n.count; i++) {
		path = pt_asprintf("%s%s", prefix, n.name[i]);
		rc = path ? add_key(g, dir, n.id[i], n.name[i], path) : pt_fail_nomem();
		free(path);
		path = rc ? NULL : pt_asprintf("%s%s/", prefix, n.name[i]);
		if (!rc)
			rc = path ? gather(g, n.id[i], path, depth + 1) : pt_fail_nomem();
		free(path);
	}
	pt_model_dir_unref(dir);
	names_done(&n);
	return rc;
}

int pt_all_view(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, enum pt_format format, struct pt_many **ret_many)
{
	struct gather g = { .models = models, .repo = repo, .base = base };
	int rc;

	rc = pt_rank_of(base, &g.rank);
	if (!rc)
		rc = pt_many_create(repo, format, &g.many);
	if (!rc)
		rc = gather(&g, dir_node, "", 0);
	if (!rc)
		rc = pt_many_finish(g.many, false, NULL);
	if (rc < 0) {
		pt_many_free(g.many);
		return rc;
	}
	*ret_many = g.many;
	return 0;
}

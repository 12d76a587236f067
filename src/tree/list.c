/* tree/list.c - what a directory lists: children of the node, and each stored object once, under its layout. */
#include "tree/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

int pt_tree_object_path(const struct pt_manifest *m, uint32_t object, char ret_path[PT_TREE_LISTED_MAX])
{
	const struct pt_object *o = &m->objects[object];
	struct pt_layout layout = { 0 };
	char text[PT_LAYOUT_TEXT_MAX];
	uint32_t i;
	int rc;

	switch (m->written) {
	case PT_WRITTEN_WRITER:
		snprintf(ret_path, PT_TREE_LISTED_MAX, "writer=%dof%d,dim=%d/full", o->part.rank, o->part.size, o->part.dim);
		return 0;
	case PT_WRITTEN_TP_SHARD:
	case PT_WRITTEN_TP_SLICE:
		for (i = 0; i < o->axis_count && i < PT_AXIS_KINDS; i++) {
			rc = pt_layout_add(&layout, &o->axis[i]);
			if (rc < 0)
				return rc;
		}
		pt_layout_format(&layout, text);
		snprintf(ret_path, PT_TREE_LISTED_MAX, "%s%sshard", text, text[0] ? "/" : "");
		return 0;
	default:
		snprintf(ret_path, PT_TREE_LISTED_MAX, "%s%sfull", m->scope, m->scope[0] ? "/" : "");
		return 0;
	}
}

static bool axis_fits(const struct pt_axis *asked, const struct pt_axis *stored)
{
	return asked->kind == stored->kind && asked->rank == stored->rank && (asked->size == 0 || asked->size == stored->size) &&
	       (asked->dim < 0 || asked->dim == stored->dim) && (!asked->has_id || !stored->has_id || asked->id == stored->id);
}

static bool layout_fits(const struct pt_layout *asked, const struct pt_axis *stored, uint32_t stored_count)
{
	const struct pt_axis *a;
	uint32_t i;

	if (asked->axis_count != stored_count)
		return false;
	for (i = 0; i < stored_count; i++) {
		a = pt_layout_find(asked, stored[i].kind);
		if (!a || !axis_fits(a, &stored[i]))
			return false;
	}
	return true;
}

static bool object_fits(const struct pt_manifest *m, const struct pt_object *o, const struct pt_request *req)
{
	switch (m->written) {
	case PT_WRITTEN_WRITER:
		return req->has_partition && req->target == PT_TARGET_FULL && req->partition.rank == o->part.rank &&
		       (req->partition.size == 0 || req->partition.size == o->part.size) &&
		       (req->partition.dim < 0 || req->partition.dim == o->part.dim);
	case PT_WRITTEN_TP_SHARD:
	case PT_WRITTEN_TP_SLICE:
		return !req->has_partition && req->target == PT_TARGET_SHARD && layout_fits(&req->layout, o->axis, o->axis_count);
	default:
		return !req->has_partition && req->target == PT_TARGET_FULL &&
		       layout_fits(&req->layout, m->scope_axes.axis, m->scope_axes.axis_count);
	}
}

bool pt_tree_listed(const struct pt_manifest *m, const struct pt_request *req, uint32_t *ret_object)
{
	uint32_t i;

	for (i = 0; i < m->object_count; i++)
		if (!m->objects[i].hidden && object_fits(m, &m->objects[i], req)) {
			*ret_object = i;
			return true;
		}
	return false;
}

struct names {
	char **name;                    /* with a '/' at the end for axis directories */
	size_t count, cap;
	int rc;
};

static void names_done(struct names *n)
{
	size_t i;

	for (i = 0; i < n->count; i++)
		free(n->name[i]);
	free(n->name);
}

static int names_add(struct names *n, const char *name, size_t len, bool is_dir)
{
	char **more;
	size_t i;

	/* Objects come in order of rank, so a repeated first component is near the end. */
	for (i = n->count; i > 0 && i + 8 > n->count; i--)
		if (strlen(n->name[i - 1]) == len + is_dir && strncmp(n->name[i - 1], name, len) == 0)
			return 0;
	if (n->count == n->cap) {
		more = pt_reallocarray(n->name, n->cap ? 2 * n->cap : 16, sizeof(*more));
		if (!more)
			return n->rc = pt_fail_nomem();
		n->name = more;
		n->cap = n->cap ? 2 * n->cap : 16;
	}
	n->name[n->count] = pt_asprintf("%.*s%s", (int)len, name, is_dir ? "/" : "");
	if (!n->name[n->count])
		return n->rc = pt_fail_nomem();
	n->count++;
	return 0;
}

struct list {
	const char *dir;
	bool formats;
	struct names names;
	pt_tree_list_fn *fn;
	void *ctx;
	int rc;                         /* what fn said */
	int fail;
	uint32_t max, looked;           /* children to look at, 0: all; and those that were */
	bool over;                      /* no further child can be one of dir */
	char *after;                    /* the last one, PT_NAME_MAX + 1 bytes */
};

/* Path of an object below dir to the next component of it; false when it is not below dir. Spelled components may leave parts out. */
static bool path_below(const char *path, const char *dir, const char **ret_rest)
{
	struct pt_path_name asked, stored;
	char a[PT_NAME_MAX + 1], s[PT_NAME_MAX + 1];
	size_t alen, slen;

	while (*dir) {
		alen = strcspn(dir, "/");
		slen = strcspn(path, "/");
		if (path[slen] != '/' || alen > PT_NAME_MAX || slen > PT_NAME_MAX)
			return false;
		if (alen != slen || memcmp(dir, path, alen) != 0) {
			memcpy(a, dir, alen);
			a[alen] = '\0';
			memcpy(s, path, slen);
			s[slen] = '\0';
			if (pt_path_classify(a, &asked) < 0 || pt_path_classify(s, &stored) < 0 || asked.kind != stored.kind)
				return false;
			if (asked.kind == PT_PATH_AXIS) {
				if (!axis_fits(&asked.axis, &stored.axis))
					return false;
			} else if (asked.kind != PT_PATH_PARTITION || asked.partition.rank != stored.partition.rank ||
				   (asked.partition.size && asked.partition.size != stored.partition.size) ||
				   (asked.partition.dim >= 0 && asked.partition.dim != stored.partition.dim)) {
				return false;
			}
		}
		dir += alen + (dir[alen] == '/');
		path += slen + 1;
	}
	*ret_rest = path;
	return true;
}

static int list_manifest(void *ctx, struct pt_manifest *m)
{
	struct list *l = ctx;
	char path[PT_TREE_LISTED_MAX];
	const char *rest;
	size_t len;
	uint32_t i;

	for (i = 0; i < m->object_count && !l->fail; i++) {
		if (m->objects[i].hidden)
			continue;
		l->fail = pt_tree_object_path(m, i, path);
		if (l->fail < 0 || !path_below(path, l->dir, &rest))
			continue;
		len = strcspn(rest, "/");
		l->fail = names_add(&l->names, rest, len, rest[len] == '/');
	}
	return l->fail ? 1 : 0;
}

/* Where a side file's directory leads below l->dir: "" when it is this one. False: elsewhere. */
static bool side_below(const struct list *l, const char *dir, const char **ret_rest)
{
	size_t len = strlen(l->dir);

	*ret_rest = dir;
	if (!len)
		return true;
	if (strncmp(dir, l->dir, len) != 0 || (dir[len] && dir[len] != '/'))
		return false;
	*ret_rest = dir + len + (dir[len] == '/');
	return true;
}

static int list_child(void *ctx, const char *component, uint64_t id, enum pt_node_kind kind)
{
	struct list *l = ctx;
	char dir[PT_TREE_DIR_MAX], encoded[PT_PATH_COMPONENT_MAX + 1];
	const char *decoded, *rest;

	strcpy(l->after, component);
	l->looked++;
	if (pt_tree_component_split(component, dir, &decoded)) {
		if (!side_below(l, dir, &rest) || *rest)
			goto out;
	} else if (l->dir[0]) {
		l->over = component[0] != 1;    /* side files sort before every other name */
		return l->over;
	}
	if (pt_path_component_encode(decoded, encoded) == 0)    /* else only reachable through the API */
		l->rc = l->fn(l->ctx, encoded, id, kind);
out:
	return l->rc || (l->max && l->looked == l->max);
}

/* The axis directories that lead to side files further down. */
static int list_side(void *ctx, const char *component, uint64_t id, enum pt_node_kind kind)
{
	struct list *l = ctx;
	char dir[PT_TREE_DIR_MAX];
	const char *decoded, *rest;

	(void)id;
	(void)kind;
	if (component[0] != 1)
		return 1;
	if (pt_tree_component_split(component, dir, &decoded) && side_below(l, dir, &rest) && *rest)
		l->fail = names_add(&l->names, rest, strcspn(rest, "/"), true);
	return l->fail ? 1 : 0;
}

static int names_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(struct list *l)
{
	struct names *n = &l->names;
	char with[PT_NAME_MAX + 1];
	size_t i, len;
	int f;

	if (n->count)
		qsort(n->name, n->count, sizeof(*n->name), names_compare);
	for (i = 0; i < n->count && !l->rc; i++) {
		if (i > 0 && strcmp(n->name[i], n->name[i - 1]) == 0)
			continue;
		len = strlen(n->name[i]);
		if (n->name[i][len - 1] == '/') {
			snprintf(with, sizeof(with), "%.*s", (int)len - 1, n->name[i]);
			l->rc = l->fn(l->ctx, with, 0, PT_NODE_DIR);
			continue;
		}
		l->rc = l->fn(l->ctx, n->name[i], 0, PT_NODE_FILE);
		for (f = 0; l->formats && f < PT_FORMAT_COUNT && !l->rc; f++) {
			snprintf(with, sizeof(with), "%s.%s", n->name[i], pt_format_name((enum pt_format)f));
			l->rc = l->fn(l->ctx, with, 0, PT_NODE_FILE);
		}
	}
	return 0;
}

int pt_tree_list_children(struct pt_repo *repo, uint64_t node, const char *dir, uint32_t max, char after[PT_NAME_MAX + 1], pt_tree_list_fn *fn, void *ctx)
{
	struct list l = { .dir = dir, .fn = fn, .ctx = ctx, .max = max };
	char from[PT_NAME_MAX + 1];
	int rc;

	strcpy(from, after);
	l.after = after;
	rc = pt_node_list(repo, node, from, list_child, &l);
	if (rc >= 0)
		pt_fail_clear();
	return rc < 0 ? rc : !l.over && max && l.looked == max;
}

static int list_layouts(struct pt_repo *repo, uint64_t node, struct list *l)
{
	int rc;

	rc = pt_node_list(repo, node, "", list_side, l);
	if (rc >= 0 && l->fail < 0)
		rc = l->fail;
	if (rc >= 0)
		rc = pt_manifest_list(repo, node, list_manifest, l);
	if (rc >= 0 && l->fail < 0)
		rc = l->fail;
	if (rc >= 0)
		rc = list_names(l);
	names_done(&l->names);
	return rc < 0 ? rc : 0;
}

int pt_tree_list_layouts(struct pt_repo *repo, uint64_t node, const char *dir, bool formats, pt_tree_list_fn *fn, void *ctx)
{
	struct list l = { .dir = dir, .formats = formats, .fn = fn, .ctx = ctx };

	return list_layouts(repo, node, &l);
}

int pt_tree_list(struct pt_repo *repo, uint64_t node, const char *dir, bool formats, pt_tree_list_fn *fn, void *ctx)
{
	struct list l = { .dir = dir, .formats = formats, .fn = fn, .ctx = ctx };
	char after[PT_NAME_MAX + 1];
	int rc;

	l.after = after;
	rc = pt_node_list(repo, node, "", list_child, &l);
	if (rc < 0 || l.rc)
		return rc < 0 ? rc : 0;
	return list_layouts(repo, node, &l);
}

struct rank_list {
	struct pt_repo *repo;
	uint64_t node;
	const char *dir;
	pt_tree_list_fn *fn;
	void *ctx;
	int rc;
};

static int rank_child(void *ctx, const char *component, uint64_t id, enum pt_node_kind kind)
{
	char encoded[PT_PATH_COMPONENT_MAX + 1], side[PT_NAME_MAX + 1];
	struct rank_list *l = ctx;
	struct pt_node node;

	if (component[0] == 1 || pt_path_component_encode(component, encoded) < 0)
		return 0;
	/* A file of the axis directory's own has been listed already. */
	if (pt_tree_component(l->dir, component, side) == 0 && pt_node_lookup(l->repo, l->node, side, &node) == 0) {
		pt_node_done(&node);
		return 0;
	}
	l->rc = l->fn(l->ctx, encoded, id, kind);
	return l->rc;
}

int pt_tree_rank_list(struct pt_repo *repo, uint64_t node, const char *dir, pt_tree_list_fn *fn, void *ctx)
{
	struct rank_list l = { repo, node, dir, fn, ctx, 0 };
	bool revision, pending;
	int rc;

	rc = pt_tensor_exists(repo, node, &revision, &pending);
	if (rc < 0 || revision || pending)
		return rc < 0 ? rc : 0;
	rc = pt_node_list(repo, node, "", rank_child, &l);
	pt_fail_clear();
	return rc < 0 ? rc : 0;
}

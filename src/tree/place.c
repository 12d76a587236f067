/* tree/place.c - walking a path: keys, aliases, axes, what is below a rank's directory. */
#include "tree/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tree/alias.h"

struct walk {
	struct pt_models *models;
	struct pt_repo *repo;
	bool create;
	struct pt_request base;         /* of dir */
	struct pt_place at;
};

void pt_place_done(struct pt_place *p)
{
	pt_node_done(&p->file);
	memset(&p->file, 0, sizeof(p->file));
}

static int step_axis(struct walk *w, const struct pt_path_name *n, const char *name)
{
	size_t len = strlen(w->at.dir);
	int rc;

	rc = pt_tree_dir_append(&w->base, n);
	if (rc < 0)
		return rc;
	if (len + 1 + strlen(name) + 1 > sizeof(w->at.dir))
		return pt_fail(ENAMETOOLONG, "the axes are longer than %d bytes", PT_PATH_DIR_MAX);
	snprintf(w->at.dir + len, sizeof(w->at.dir) - len, "%s%s", len ? "/" : "", name);
	return 0;
}

/* Below a tensor of a file, or where none of the directory's own names is there. */
static int step_alias(struct walk *w, const char *component)
{
	struct pt_alias a;
	size_t len = strlen(w->at.alias);
	int rc;

	if (len + 1 + strlen(component) > PT_KEY_MAX)
		return -ENOENT;
	snprintf(w->at.alias + len, sizeof(w->at.alias) - len, "%s%s", len ? "/" : "", component);
	rc = pt_alias_find(w->models, w->repo, w->at.node, w->at.alias, false, &a);
	if (rc < 0) {
		w->at.alias[len] = '\0';
		return rc;
	}
	w->at.node = a.dir->node;
	strcpy(w->at.alias, a.name);
	pt_alias_done(&a);
	return 0;
}

/* 1: the path ends here. */
static int step_node(struct walk *w, struct pt_node *node, const char *name, bool last)
{
	if (node->kind == PT_NODE_DIR) {
		w->at.node = node->id;
		pt_node_done(node);
		return 0;
	}
	if (!last) {
		pt_node_done(node);
		return pt_fail(ENOTDIR, "'%s' on its way is no directory", name);
	}
	w->at.kind = PT_PLACE_FILE;
	w->at.file = *node;
	return 1;
}

static int nothing(struct walk *w)
{
	w->at.kind = PT_PLACE_NOTHING;
	return 1;
}

static int step_plain(struct walk *w, const char *component, const char *name, bool last)
{
	char side[PT_NAME_MAX + 1];
	struct pt_named named;
	struct pt_node node;
	int rc;

	if (w->at.alias[0] && !w->at.dir[0]) {
		rc = step_alias(w, component);
		if (rc != -ENOENT || !w->create)
			return rc;
		rc = pt_alias_key(w->repo, w->at.node, w->at.alias, &w->at.node);
		if (rc < 0)
			return rc;
		w->at.alias[0] = '\0';
	}
	if (w->at.alias[0])
		return -ENOENT;
	if (w->at.dir[0]) {
		rc = pt_tree_component(w->at.dir, component, side);
		if (rc == 0)
			rc = pt_node_lookup(w->repo, w->at.node, side, &node);
		if (rc != -ENOENT)
			return rc < 0 ? rc : step_node(w, &node, name, last);
	}
	if (last && (rc = pt_named_find(w->models, w->repo, w->at.node, w->at.dir, name, &named)) != -ENOENT) {
		if (rc < 0)
			return rc;
		pt_named_done(&named);
		w->at.kind = PT_PLACE_MANY;
		return 1;
	}
	rc = pt_node_lookup(w->repo, w->at.node, component, &node);
	if (rc != -ENOENT)
		return rc < 0 ? rc : step_node(w, &node, name, last);
	if (w->at.dir[0])
		return last ? nothing(w) : -ENOENT;
	rc = step_alias(w, component);
	if (rc != -ENOENT)
		return rc;
	if (last)
		return nothing(w);
	return w->create ? pt_alias_key(w->repo, w->at.node, component, &w->at.node) : -ENOENT;
}

static int step(struct walk *w, const char *name, bool last)
{
	struct pt_path_name n;
	int rc;

	rc = pt_path_classify(name, &n);
	if (rc < 0)
		return rc;
	if (n.kind == PT_PATH_AXIS || n.kind == PT_PATH_PARTITION)
		return step_axis(w, &n, name);
	if (n.kind != PT_PATH_PLAIN && !last)
		return pt_fail(ENOTDIR, "'%s' on its way is no directory", name);
	switch (n.kind) {
	case PT_PATH_PLAIN:
		return step_plain(w, n.component, name, last);
	case PT_PATH_VIEW:
		w->at.kind = PT_PLACE_VIEW;
		return 1;
	case PT_PATH_INFO:
		w->at.kind = PT_PLACE_INFO;
		return 1;
	case PT_PATH_ALL:
		w->at.kind = PT_PLACE_MANY;
		return w->at.alias[0] ? -ENOENT : 1;
	default:
		return pt_fail(ENOENT, "%s is of a mount, not of the store", PT_PATH_CONTROL_NAME);
	}
}

int pt_place_find(struct pt_models *models, struct pt_repo *repo, const char *path, bool create, struct pt_place *ret_place)
{
	struct walk w = { .models = models, .repo = repo, .create = create, .base = { .target = PT_TARGET_FULL }, .at = { .node = PT_NODE_ROOT } };
	char name[PT_PATH_COMPONENT_MAX + 1];
	size_t len, after;
	int rc = 0;

	for (path += strspn(path, "/"); rc == 0 && *path; path += len + after) {
		len = strcspn(path, "/");
		after = strspn(path + len, "/");
		if (len > PT_PATH_COMPONENT_MAX)
			return pt_fail(ENAMETOOLONG, "a name of more than %d bytes", PT_PATH_COMPONENT_MAX);
		memcpy(name, path, len);
		name[len] = '\0';
		rc = step(&w, name, !path[len + after]);
	}
	if (rc < 0)
		return rc;
	if (rc == 1)
		strcpy(w.at.name, name);
	pt_fail_clear();
	*ret_place = w.at;
	return 0;
}

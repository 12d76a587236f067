/* tree/alias.c - what alias.h says. */
#include "tree/alias.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tree/rank_view.h"

#define DEPTH_MAX 65536                 /* more parents than that: the index holds a circle */

void pt_alias_done(struct pt_alias *a)
{
	pt_model_dir_unref(a->dir);
	a->dir = NULL;
}

/* In one directory's files. */
static int find_in(struct pt_models *models, uint64_t node, const char *name, bool tensors_only, struct pt_alias *ret)
{
	const struct pt_model_alias *tensor;
	struct pt_model_dir *d;
	int rc;

	rc = pt_models_dir_sound(models, node, &d);
	if (rc < 0)
		return rc == -ENOTDIR ? -ENOENT : rc;
	tensor = pt_model_dir_find(d, name);
	if (!tensor && (tensors_only || !pt_model_dir_leads(d, name))) {
		pt_model_dir_unref(d);
		return -ENOENT;
	}
	ret->dir = d;
	ret->tensor = tensor;
	strcpy(ret->name, name);
	return 0;
}

int pt_alias_find(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, bool tensors_only, struct pt_alias *ret_alias)
{
	char text[PT_KEY_MAX + 1];
	size_t at = PT_KEY_MAX - strnlen(name, PT_KEY_MAX), len;
	struct pt_node n;
	uint32_t depth;
	int rc;

	strcpy(text + at, name);
	for (depth = 0;; depth++) {
		rc = find_in(models, node, text + at, tensors_only, ret_alias);
		if (rc != -ENOENT || node == PT_NODE_ROOT)
			return rc;
		rc = pt_node_get(repo, node, &n);
		if (rc < 0)
			return rc;
		len = strlen(n.name);
		node = n.parent;
		if (len + 1 > at || depth == DEPTH_MAX) {
			pt_node_done(&n);
			return -ENOENT;
		}
		text[--at] = '/';
		at -= len;
		memcpy(text + at, n.name, len);
		pt_node_done(&n);
	}
}

static void dim_set(struct pt_axis *axes, uint32_t count, int32_t dim)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (axes[i].kind == PT_AXIS_TP && axes[i].dim < 0)
			axes[i].dim = dim;
}

int pt_alias_view(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, const struct pt_request *asked, struct pt_view **ret_view)
{
	const struct pt_container *c;
	struct pt_request req = *asked;
	struct pt_parse_tensor t;
	struct pt_manifest *m;
	struct pt_tp_rule rule;
	struct pt_alias a;
	int rc;

	rc = pt_alias_find(models, repo, node, name, true, &a);
	if (rc < 0)
		return rc;
	c = a.dir->files[a.tensor->file].c;
	pt_container_tensor(c, a.tensor->tensor, &t);
	pt_tp_plan_rule(a.dir->plan, a.name, &t.shape, &rule);
	if (rule.dim >= 0) {
		dim_set(req.layout.axis, req.layout.axis_count, rule.dim);
		dim_set(req.axis, req.axis_count, rule.dim);
	}
	rc = pt_container_manifest(c, a.tensor->tensor, &m, &t);
	if (rc == 0) {
		rc = pt_view_of_manifest(repo, m, t.contiguous ? NULL : &t, &req, ret_view);
		pt_manifest_unref(m);
	}
	pt_alias_done(&a);
	return rc;
}

/* A directory without a revision may stand where an alias is. */
static int view_of_empty(struct pt_models *models, struct pt_repo *repo, uint64_t node, const struct pt_request *req, struct pt_view **ret_view)
{
	bool revision, pending;
	struct pt_node n;
	int rc;

	rc = pt_tensor_exists(repo, node, &revision, &pending);
	if (rc < 0 || revision || pending)
		return rc < 0 ? rc : -ENOENT;
	rc = pt_node_get(repo, node, &n);
	if (rc < 0)
		return rc;
	rc = n.id == PT_NODE_ROOT ? -ENOENT : pt_alias_view(models, repo, n.parent, n.name, req, ret_view);
	pt_node_done(&n);
	return rc;
}

int pt_tree_view(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, const struct pt_request *asked, struct pt_view **ret_view)
{
	struct pt_request req = *asked;
	int rc;

	if (name[0])
		return pt_alias_view(models, repo, node, name, &req, ret_view);
	if (node == PT_NODE_ROOT)
		return -ENOENT;
	/* A plan that cannot be read matters only where nothing else says the dimension. */
	if (pt_models_plan_dim(models, node, &req) < 0)
		pt_fail_clear();
	rc = pt_view_resolve(repo, node, &req, ret_view);
	return rc == -ENOENT ? view_of_empty(models, repo, node, &req, ret_view) : rc;
}

/* The beginning of names: which. */
static json_t *names_json(const struct pt_alias *a)
{
	json_t *names = json_array();
	size_t len = strlen(a->name);
	uint32_t i;

	for (i = 0; i < a->dir->alias_count; i++) {
		const struct pt_model_alias *t = &a->dir->aliases[i];

		if (!t->withheld && strncmp(t->name, a->name, len) == 0 && t->name[len] == '/')
			json_array_append_new(names, json_string(t->name));
	}
	return json_pack("{s:s, s:o}", "alias", a->name, "aliases", names);
}

static json_t *tensor_json(const struct pt_alias *a)
{
	struct pt_partition rank = { .rank = 0, .size = 2, .dim = -1 };
	const struct pt_model_file *file = &a->dir->files[a->tensor->file];
	struct pt_parse_tensor t;
	struct pt_many_cut cut;
	const char *why;
	json_t *shape, *j;
	uint32_t i;

	pt_container_tensor(file->c, a->tensor->tensor, &t);
	shape = json_array();
	for (i = 0; i < t.shape.ndim; i++)
		json_array_append_new(shape, json_integer((json_int_t)t.shape.dim[i]));
	j = json_pack("{s:s, s:s, s:s, s:o, s:b}", "alias", a->name, "file", file->name, "dtype", pt_dtype_info(t.dtype)->name, "shape", shape, "complete", 1);
	if (pt_rank_cut(a->dir, a->name, t.dtype, &t.shape, -1, &rank, PT_SPLIT_UNSET, &cut, &why, NULL) < 0) {
		json_object_set_new(j, "error", json_string(pt_fail_sentence()));
		pt_fail_clear();
	} else {
		json_object_set_new(j, "split_dim", cut.dim < 0 ? json_null() : json_integer(cut.dim));
		json_object_set_new(j, "split_why", json_string(why));
	}
	return j;
}

int pt_alias_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *name, struct pt_buf *ret_json)
{
	struct pt_alias a;
	json_t *j;
	int rc;

	rc = pt_alias_find(models, repo, node, name, false, &a);
	if (rc < 0)
		return rc;
	j = a.tensor ? tensor_json(&a) : names_json(&a);
	pt_alias_done(&a);
	return pt_json_append(j, ret_json);
}

int pt_alias_key(struct pt_repo *repo, uint64_t node, const char *name, uint64_t *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_DIR, .mode = 0755, .implicit = true }, n;
	char component[PT_NAME_MAX + 1], key[PT_KEY_MAX + 1];
	size_t len;
	int rc;

	rc = pt_node_key(repo, node, key);
	if (rc == 0)
		rc = pt_node_get(repo, node, &n);
	if (rc < 0)
		return rc;
	if (strlen(key) + 1 + strlen(name) > PT_KEY_MAX + !key[0]) {
		pt_node_done(&n);
		return pt_fail(ENAMETOOLONG, "the key would be longer than %d bytes", PT_KEY_MAX);
	}
	attrs.uid = n.uid;
	attrs.gid = n.gid;
	pt_node_done(&n);
	for (; *name; name += len + (name[len] == '/')) {
		len = strcspn(name, "/");
		if (len == 0 || len > PT_NAME_MAX)
			return pt_fail(EINVAL, "no key is called that");
		memcpy(component, name, len);
		component[len] = '\0';
		rc = pt_node_create(repo, node, component, &attrs, &n);
		if (rc == -EEXIST)
			rc = pt_node_lookup(repo, node, component, &n);
		if (rc < 0)
			return rc;
		node = n.id;
		rc = n.kind == PT_NODE_DIR ? 0 : pt_fail(ENOTDIR, "'%s' is a file", component);
		pt_node_done(&n);
		if (rc < 0)
			return rc;
	}
	*ret_node = node;
	return 0;
}

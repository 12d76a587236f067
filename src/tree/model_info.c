/* tree/model_info.c - what .ptio.json says of a directory with model files: files, tensors and how a rank splits them, completeness. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tree/rank_view.h"

#define PENDING_MAX 1000                /* keys named */

struct pending {
	struct pt_repo *repo;
	json_t *keys;                   /* or NULL: only counted */
	uint64_t count;
	int rc;
};

static int pending_set(void *ctx, const struct pt_pending *p)
{
	(void)p;
	*(bool *)ctx = true;
	return 1;
}

static int pending_node(void *ctx, const char *key, const struct pt_node *node)
{
	struct pending *p = ctx;
	bool any = false;

	if (node->kind != PT_NODE_DIR)
		return 0;
	p->rc = pt_pending_list(p->repo, node->id, pending_set, &any);
	if (p->rc < 0)
		return 1;
	p->rc = 0;
	if (any && p->count++ < PENDING_MAX && p->keys)
		json_array_append_new(p->keys, json_string(key));
	return 0;
}

static int bundles_complete(struct pt_repo *repo, const struct pt_model_dir *dir, bool *ret_complete)
{
	bool revision, pending;
	struct pt_node node;
	uint32_t f, i;
	int rc = 0;

	*ret_complete = true;
	for (f = 0; f < dir->file_count && *ret_complete; f++) {
		const struct pt_container *c = dir->files[f].c;

		for (i = 0; c->bundle && i < c->tensor_count && *ret_complete; i++) {
			rc = pt_node_lookup(repo, dir->node, c->names + c->tensors[i].name, &node);
			if (rc < 0 && rc != -ENOENT)
				return rc;
			revision = false;
			if (!rc) {
				rc = pt_tensor_exists(repo, node.id, &revision, &pending);
				pt_node_done(&node);
				if (rc < 0)
					return rc;
			}
			*ret_complete = revision;
		}
	}
	pt_fail_clear();
	return 0;
}

int pt_model_complete(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, bool *ret_complete)
{
	struct pending p = { .repo = repo };
	struct pt_model_dir *dir;
	int rc;

	rc = pt_node_walk(repo, dir_node, pending_node, &p);
	if (rc >= 0)
		rc = p.rc;
	if (rc < 0)
		return rc;
	rc = pt_models_dir(models, dir_node, &dir);
	if (rc < 0)
		return rc;
	rc = bundles_complete(repo, dir, ret_complete);
	pt_model_dir_unref(dir);
	if (!rc && p.count)
		*ret_complete = false;
	return rc;
}

static json_t *shape_json(const struct pt_shape *s)
{
	json_t *a = json_array();
	uint32_t d;

	for (d = 0; d < s->ndim; d++)
		json_array_append_new(a, json_integer((json_int_t)s->dim[d]));
	return a;
}

static json_t *tensor_json(const struct pt_model_dir *dir, const struct pt_model_alias *alias, const struct pt_partition *rank, enum pt_split split)
{
	const struct pt_model_file *file = &dir->files[alias->file];
	struct pt_parse_tensor t;
	struct pt_many_cut cut;
	const char *why;
	json_t *j;
	int rc;

	pt_container_tensor(file->c, alias->tensor, &t);
	j = json_pack("{s:s, s:s, s:s, s:o}", "name", alias->name, "file", file->name, "dtype", pt_dtype_info(t.dtype)->name, "shape", shape_json(&t.shape));
	if (!j)
		return NULL;
	if (alias->withheld)
		json_object_set_new(j, "withheld", json_string(alias->withheld));
	rc = pt_rank_cut(dir, alias->name, t.dtype, &t.shape, -1, rank, split, &cut, &why, NULL);
	if (rc < 0) {
		json_object_set_new(j, "error", json_string(pt_fail_sentence()));
	} else {
		json_object_set_new(j, "split_dim", cut.dim < 0 ? json_null() : json_integer(cut.dim));
		json_object_set_new(j, "split_why", json_string(why));
	}
	return j;
}

int pt_model_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, struct pt_buf *ret_json, bool *ret_any)
{
	json_t *root = json_object(), *files = json_array(), *tensors = json_array(), *pending_keys = json_array();
	struct pending p = { .repo = repo, .keys = pending_keys };
	struct pt_partition rank = { .rank = 0, .size = 1, .dim = -1 };
	struct pt_model_dir *dir = NULL;
	bool complete = true;
	char *text = NULL;
	uint32_t i;
	int rc;

	*ret_any = false;
	if (pt_rank_of(base, &rank) < 0 || rank.size == 1)
		rank = (struct pt_partition){ .rank = 0, .size = 2, .dim = -1 };
	pt_fail_clear();
	rc = pt_models_dir(models, dir_node, &dir);
	if (!rc)
		rc = pt_node_walk(repo, dir_node, pending_node, &p);
	if (rc >= 0)
		rc = p.rc;
	if (!rc)
		rc = bundles_complete(repo, dir, &complete);
	if (rc < 0)
		goto out;
	if (!dir->file_count && !p.count)
		goto out;
	for (i = 0; i < dir->file_count; i++) {
		const struct pt_container *c = dir->files[i].c;

		json_array_append_new(files, json_pack("{s:s, s:s, s:b, s:I, s:I}", "name", dir->files[i].name, "format", pt_format_name(c->format), "bundle",
						       c->bundle, "tensors", (json_int_t)c->tensor_count, "bytes", (json_int_t)c->size));
	}
	for (i = 0; i < dir->alias_count; i++)
		json_array_append_new(tensors, tensor_json(dir, &dir->aliases[i], &rank, base->split));
	json_object_set_new(root, "directory_complete", json_boolean(complete && !p.count));
	json_object_set(root, "pending_keys", pending_keys);
	json_object_set(root, "files", files);
	json_object_set(root, "tensors", tensors);
	if (dir->plan_error)
		json_object_set_new(root, "tp_plan_error", json_string(dir->plan_error));
	text = json_dumps(root, JSON_INDENT(1));
	if (!text) {
		rc = pt_fail_nomem();
		goto out;
	}
	/* Only the members: the caller has braces of its own. */
	pt_buf_append(ret_json, text + 1, strlen(text) - 2);
	free(text);
	rc = ret_json->failed ? pt_fail_nomem() : 0;
	*ret_any = true;
out:
	pt_fail_clear();
	pt_model_dir_unref(dir);
	json_decref(files);
	json_decref(tensors);
	json_decref(pending_keys);
	json_decref(root);
	return rc;
}

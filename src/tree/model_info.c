/* tree/model_info.c - what .ptio.json says of a directory with model files: files, tensors and how a rank splits them, completeness. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "path/path.h"
#include "tree/alias.h"
#include "tree/rank_view.h"
#include "tree/tree.h"

#define PENDING_MAX 1000                /* keys named */
#define DEPTH_MAX 65536                 /* more parents than that: the index holds a circle */

struct pending {
	struct pt_repo *repo;
	uint64_t dir;                   /* whose subtree */
	bool names;                     /* keys are wanted; else only counted */
	char **keys;                    /* the first PENDING_MAX, below dir */
	size_t key_count;
	uint64_t count;
	uint64_t last;                  /* the node of the set before: sets come node by node */
};

static void pending_done(struct pending *p)
{
	while (p->key_count)
		free(p->keys[--p->key_count]);
	free(p->keys);
}

/* 1: the node is below the directory; *ret_key, in text, is its key from there, NULL when it is too long. 0: it is elsewhere, or gone. */
static int below(const struct pending *p, uint64_t id, char text[PT_KEY_MAX + 1], const char **ret_key)
{
	size_t at = PT_KEY_MAX + 1, len;
	struct pt_node node;
	bool fits = true;
	uint32_t depth;
	int rc;

	if (id == p->dir)
		return 0;
	for (depth = 0; id != p->dir; depth++) {
		if (id == PT_NODE_ROOT || depth == DEPTH_MAX)
			return 0;
		rc = pt_node_get(p->repo, id, &node);
		if (rc < 0)
			return rc == -ENOENT ? 0 : rc;
		pt_node_done(&node);
		len = strlen(node.name);
		fits = fits && len + 1 <= at;
		if (fits) {
			text[--at] = depth ? '/' : '\0';
			at -= len;
			memcpy(text + at, node.name, len);
		}
		id = node.parent;
	}
	*ret_key = fits ? text + at : NULL;
	return 1;
}

static int pending_set(void *ctx, const struct pt_pending *set)
{
	struct pending *p = ctx;
	char text[PT_KEY_MAX + 1];
	const char *key;
	int rc;

	if (set->node == p->last)
		return 0;
	p->last = set->node;
	rc = below(p, set->node, text, &key);
	if (rc <= 0)
		return rc;
	p->count++;
	if (!p->names || !key || p->key_count == PENDING_MAX)
		return 0;
	if (!p->keys)
		p->keys = pt_calloc(PENDING_MAX, sizeof(*p->keys));
	if (p->keys)
		p->keys[p->key_count] = pt_strdup(key);
	if (!p->keys || !p->keys[p->key_count])
		return pt_fail_nomem();
	p->key_count++;
	return 0;
}

static int key_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The keys below a directory that wait for parts: one scan of all pending sets, however large the subtree is. */
static int pending_find(struct pt_repo *repo, uint64_t dir_node, bool names, struct pending *ret_pending)
{
	struct pending p = { .repo = repo, .dir = dir_node, .names = names };
	int rc;

	rc = pt_pending_list(repo, 0, pending_set, &p);
	if (rc < 0) {
		pending_done(&p);
		return rc;
	}
	pt_fail_clear();
	if (p.key_count)
		qsort(p.keys, p.key_count, sizeof(*p.keys), key_compare);
	*ret_pending = p;
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

		if (c->bundle && !c->tensor_count)
			*ret_complete = false;
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
	struct pt_model_dir *dir;
	struct pending p;
	int rc;

	rc = pending_find(repo, dir_node, false, &p);
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

/* A JSON string; bytes that are not ASCII are taken as they are where they are UTF-8, else written as U+FFFD. */
static void quoted(struct pt_buf *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t n, run;

	pt_buf_append_u8(out, '"');
	for (; *s; s += n) {
		for (run = 0; s[run] >= 0x20 && s[run] < 0x80 && s[run] != '"' && s[run] != '\\'; run++)
			;
		pt_buf_append(out, s, run);
		n = run;
		if (run)
			continue;
		n = *s < 0x80 ? 1 : pt_text_utf8_len((const char *)s);
		if (*s == '"' || *s == '\\')
			pt_buf_printf(out, "\\%c", *s);
		else if (*s < 0x20)
			pt_buf_printf(out, "\\u%04x", *s);
		else if (n)
			pt_buf_append(out, s, n);
		else
			pt_buf_append_str(out, "\\ufffd");
		n += !n;
	}
	pt_buf_append_u8(out, '"');
}

static void member(struct pt_buf *out, const char *before, const char *value)
{
	pt_buf_append_str(out, before);
	quoted(out, value);
}

/* Written without a tree of values: there may be tens of thousands. */
static void tensor_json(struct pt_buf *out, const struct pt_model_dir *dir, const struct pt_model_alias *alias, const struct pt_partition *rank,
			enum pt_split split)
{
	const struct pt_model_file *file = &dir->files[alias->file];
	struct pt_parse_tensor t;
	struct pt_many_cut cut;
	const char *why;
	uint32_t d;

	pt_container_tensor(file->c, alias->tensor, &t);
	member(out, "  {\"name\": ", alias->name);
	member(out, ", \"file\": ", file->name);
	member(out, ", \"dtype\": ", pt_dtype_info(t.dtype)->name);
	pt_buf_append_str(out, ", \"shape\": [");
	for (d = 0; d < t.shape.ndim; d++)
		pt_buf_printf(out, d ? ", %llu" : "%llu", (unsigned long long)t.shape.dim[d]);
	pt_buf_append_u8(out, ']');
	if (alias->withheld)
		member(out, ", \"withheld\": ", alias->withheld);
	if (pt_rank_cut(dir, alias->name, t.dtype, &t.shape, -1, rank, split, &cut, &why, NULL) < 0) {
		member(out, ", \"error\": ", pt_fail_sentence());
	} else {
		if (cut.dim < 0)
			pt_buf_append_str(out, ", \"split_dim\": null");
		else
			pt_buf_printf(out, ", \"split_dim\": %d", (int)cut.dim);
		member(out, ", \"split_why\": ", why);
	}
	pt_buf_append_u8(out, '}');
}

/* Is a rank's view of a torch file less than the file, and why? *ret_why is the caller's. */
static bool flat_why(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, struct pt_container *c, const struct pt_request *base, char **ret_why)
{
	const struct pt_axis two = { .kind = PT_AXIS_TP, .rank = 0, .size = 2, .dim = -1 };
	struct pt_request req = *base;
	struct pt_many *many;

	if (c->format != PT_FORMAT_PT || (c->bundle && !c->literal_bytes))
		return false;
	if (!pt_layout_find(&req.layout, PT_AXIS_TP) && pt_layout_add(&req.layout, &two) < 0)
		return false;
	if (pt_rank_view(models, repo, dir_node, c, &req, &many) < 0) {
		pt_fail_clear();
		return false;
	}
	*ret_why = pt_many_flat(many) ? pt_strdup(pt_many_flat(many)) : NULL;
	pt_many_free(many);
	return *ret_why;
}

int pt_model_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t dir_node, const struct pt_request *base, struct pt_buf *ret_json, bool *ret_any)
{
	json_t *root = json_object(), *files = json_array(), *pending_keys = json_array(), *file;
	char *why = NULL;
	struct pending p = { .count = 0 };
	struct pt_partition rank = { .rank = 0, .size = 1, .dim = -1 };
	struct pt_model_dir *dir = NULL;
	bool complete = true;
	char *text = NULL;
	uint32_t i;
	size_t k;
	int rc;

	*ret_any = false;
	if (pt_rank_of(base, &rank) < 0 || rank.size == 1)
		rank = (struct pt_partition){ .rank = 0, .size = 2, .dim = -1 };
	pt_fail_clear();
	rc = pt_models_dir(models, dir_node, &dir);
	if (!rc)
		rc = pending_find(repo, dir_node, true, &p);
	if (!rc)
		rc = bundles_complete(repo, dir, &complete);
	if (rc < 0)
		goto out;
	if (!dir->file_count && !p.count)
		goto out;
	for (i = 0; i < dir->file_count; i++) {
		const struct pt_container *c = dir->files[i].c;

		file = json_pack("{s:s, s:s, s:b, s:I, s:I}", "name", dir->files[i].name, "format", pt_format_name(c->format), "bundle",
						       c->bundle, "tensors", (json_int_t)c->tensor_count, "bytes", (json_int_t)c->size);
		if (file && flat_why(models, repo, dir_node, dir->files[i].c, base, &why))
			json_object_set_new(file, "rank_view", json_sprintf("a flat dict of its tensors: %s", why));
		free(why);
		why = NULL;
		json_array_append_new(files, file);
	}
	for (k = 0; k < p.key_count; k++)
		json_array_append_new(pending_keys, json_string(p.keys[k]));
	json_object_set_new(root, "directory_complete", json_boolean(complete && !p.count));
	json_object_set(root, "pending_keys", pending_keys);
	json_object_set(root, "files", files);
	if (dir->plan_error)
		json_object_set_new(root, "tp_plan_error", json_string(dir->plan_error));
	text = json_dumps(root, JSON_INDENT(1));
	if (!text) {
		rc = pt_fail_nomem();
		goto out;
	}
	/* Only the members: the caller has braces of its own. */
	pt_buf_append(ret_json, text + 1, strlen(text) - 3);
	free(text);
	pt_buf_append_str(ret_json, ",\n \"tensors\": [");
	for (i = 0; i < dir->alias_count; i++) {
		pt_buf_append_str(ret_json, i ? ",\n" : "\n");
		tensor_json(ret_json, dir, &dir->aliases[i], &rank, base->split);
	}
	pt_buf_append_str(ret_json, "]\n");
	rc = ret_json->failed ? pt_fail_nomem() : 0;
	*ret_any = true;
out:
	pt_fail_clear();
	pending_done(&p);
	pt_model_dir_unref(dir);
	json_decref(files);
	json_decref(pending_keys);
	json_decref(root);
	return rc;
}

int pt_tree_info_json(struct pt_models *models, struct pt_repo *repo, uint64_t node, const char *alias, const char *dir, struct pt_buf *ret_json)
{
	struct pt_request req;
	bool any = false;
	int rc;

	if (alias[0])
		return pt_alias_info_json(models, repo, node, alias, ret_json);
	rc = pt_tree_dir_parse(dir, &req);
	if (rc == 0)
		rc = pt_tensor_info_json(repo, node, dir[0] ? &req : NULL, ret_json);
	if (rc < 0)
		return rc;
	/* Model files of the directory, as further members of the object. */
	while (ret_json->len && ret_json->data[ret_json->len - 1] != '}')
		ret_json->len--;
	if (ret_json->len)
		ret_json->len--;
	while (ret_json->len && ret_json->data[ret_json->len - 1] == '\n')
		ret_json->len--;
	pt_buf_append_str(ret_json, ",");
	rc = pt_model_info_json(models, repo, node, &req, ret_json, &any);
	if (rc < 0)
		return rc;
	if (!any) {
		ret_json->len--;
		pt_buf_append_str(ret_json, "\n");
	}
	pt_buf_append_str(ret_json, "}\n");
	return pt_buf_failed(ret_json) ? pt_fail_nomem() : 0;
}

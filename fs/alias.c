/* fs/alias.c - tensors of containers as if they were keys: `<dir>/<tensor name>` while no key of that name exists.
 *
 * An alias is a directory that is not listed; below it are the axes and views of the tensor. Its inodes hang on the directory's node, their dir text is byte 1, the
 * tensor's name, byte 1 and then the spelled axes. Writing below it makes the key first, which from then on hides it; the container stays as it is. */
#include "fs.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tree/rank_view.h"

#define MARK '\1'

bool pt_fs_alias_split(const char *dir, char ret_name[PT_NAME_MAX + 1], const char **ret_axes)
{
	const char *end;

	if (dir[0] != MARK)
		return false;
	end = strchr(dir + 1, MARK);
	if (!end || end - dir - 1 > PT_NAME_MAX)
		return false;
	memcpy(ret_name, dir + 1, (size_t)(end - dir - 1));
	ret_name[end - dir - 1] = '\0';
	*ret_axes = end + 1;
	return true;
}

/* The tensor, and the index that it is in; a reference. */
static int find(struct pt_fs *fs, uint64_t node, const char *name, struct pt_model_dir **ret_dir, const struct pt_model_alias **ret_alias)
{
	struct pt_model_dir *d;
	int rc;

	rc = pt_models_dir(fs->models, node, &d);
	if (rc < 0)
		return rc;
	*ret_alias = pt_model_dir_find(d, name);
	if (!*ret_alias) {
		pt_model_dir_unref(d);
		return -ENOENT;
	}
	*ret_dir = d;
	return 0;
}

int pt_fs_alias_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *component, struct pt_fs_inode **ret_inode)
{
	const struct pt_model_alias *alias;
	char dir[PT_NAME_MAX + 3];
	struct pt_model_dir *d;
	int rc;

	rc = find(fs, parent->node, component, &d, &alias);
	if (rc < 0)
		return rc;
	pt_model_dir_unref(d);
	snprintf(dir, sizeof(dir), "%c%s%c", MARK, component, MARK);
	return pt_fs_inode_get(fs, PT_FS_AXIS, parent->node, dir, "", 0, ret_inode);
}

int pt_fs_alias_resolve(struct pt_fs *fs, uint64_t node, const char *dir, const struct pt_request *asked, char ret_name[PT_NAME_MAX + 1],
			struct pt_view **ret_view)
{
	const struct pt_model_alias *alias;
	struct pt_request req = *asked;
	struct pt_parse_tensor t;
	struct pt_model_dir *d;
	struct pt_manifest *m;
	struct pt_tp_rule rule;
	const char *axes;
	bool strided;
	uint32_t i;
	int rc;

	if (!pt_fs_alias_split(dir, ret_name, &axes))
		return -ENOENT;
	rc = find(fs, node, ret_name, &d, &alias);
	if (rc < 0)
		return rc;
	pt_container_tensor(d->files[alias->file].c, alias->tensor, &t);
	/* A dimension that the path leaves out is the plan's. */
	pt_tp_plan_rule(d->plan, ret_name, &t.shape, &rule);
	for (i = 0; i < req.layout.axis_count && rule.dim >= 0; i++)
		if (req.layout.axis[i].kind == PT_AXIS_TP && req.layout.axis[i].dim < 0)
			req.layout.axis[i].dim = rule.dim;
	for (i = 0; i < req.axis_count && rule.dim >= 0; i++)
		if (req.axis[i].kind == PT_AXIS_TP && req.axis[i].dim < 0)
			req.axis[i].dim = rule.dim;
	rc = pt_container_manifest(d->files[alias->file].c, alias->tensor, &m, &strided);
	if (rc == 0) {
		rc = pt_view_of_manifest(fs->repo, m, strided ? &t : NULL, &req, ret_view);
		pt_manifest_unref(m);
	}
	pt_model_dir_unref(d);
	return rc;
}

int pt_fs_alias_key(struct pt_fs *fs, uint64_t node, const char *dir, uint64_t *ret_node, const char **ret_axes)
{
	struct pt_node attrs = { .kind = PT_NODE_DIR, .mode = 0755, .implicit = true }, key, parent;
	char name[PT_NAME_MAX + 1];
	int rc;

	if (!pt_fs_alias_split(dir, name, ret_axes))
		return -EINVAL;
	rc = pt_node_get(fs->repo, node, &parent);
	if (rc < 0)
		return rc;
	attrs.uid = parent.uid;
	attrs.gid = parent.gid;
	pt_node_done(&parent);
	rc = pt_node_create(fs->repo, node, name, &attrs, &key);
	if (rc == -EEXIST)
		rc = pt_node_lookup(fs->repo, node, name, &key);
	if (rc < 0)
		return rc;
	if (key.kind != PT_NODE_DIR)
		rc = pt_fail(ENOTDIR, "'%s' is a file", name);
	else
		*ret_node = key.id;
	pt_node_done(&key);
	return rc;
}

int pt_fs_alias_info(struct pt_fs *fs, const struct pt_fs_inode *inode, struct pt_buf *out)
{
	struct pt_partition rank = { .rank = 0, .size = 2, .dim = -1 };
	const struct pt_model_alias *alias;
	char name[PT_NAME_MAX + 1], *text;
	struct pt_parse_tensor t;
	struct pt_model_dir *d;
	struct pt_many_cut cut;
	const char *axes, *why;
	json_t *shape, *j;
	uint32_t i;
	int rc;

	if (!pt_fs_alias_split(inode->dir, name, &axes))
		return -ENOENT;
	rc = find(fs, inode->node, name, &d, &alias);
	if (rc < 0)
		return rc;
	pt_container_tensor(d->files[alias->file].c, alias->tensor, &t);
	shape = json_array();
	for (i = 0; i < t.shape.ndim; i++)
		json_array_append_new(shape, json_integer((json_int_t)t.shape.dim[i]));
	j = json_pack("{s:s, s:s, s:s, s:o, s:b}", "alias", name, "file", d->files[alias->file].name, "dtype", pt_dtype_info(t.dtype)->name, "shape", shape,
		      "complete", 1);
	if (pt_rank_cut(d, name, t.dtype, &t.shape, -1, &rank, PT_SPLIT_UNSET, &cut, &why, NULL) < 0) {
		json_object_set_new(j, "error", json_string(pt_fail_sentence()));
		pt_fail_clear();
	} else {
		json_object_set_new(j, "split_dim", cut.dim < 0 ? json_null() : json_integer(cut.dim));
		json_object_set_new(j, "split_why", json_string(why));
	}
	pt_model_dir_unref(d);
	text = json_dumps(j, JSON_INDENT(1));
	json_decref(j);
	if (!text)
		return pt_fail_nomem();
	pt_buf_append_str(out, text);
	pt_buf_append_u8(out, '\n');
	free(text);
	return pt_buf_failed(out) ? pt_fail_nomem() : 0;
}

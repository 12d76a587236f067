/* fs/rename.c - rename: of nodes, and of ordinary files onto views, which publishes them (temporary file, then rename). */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#endif

static int rename_onto_view(struct pt_fs *fs, struct pt_fs_inode *dir, const char *component, struct pt_fs_inode *to, const char *name, unsigned flags)
{
	struct pt_fs_resolved r;
	struct pt_fs_inode *file;
	struct pt_node node;
	int rc;

	if (flags & RENAME_EXCHANGE)
		return pt_fail(EINVAL, "a file and a view of a tensor cannot be exchanged");
	if (to->node == PT_NODE_ROOT)
		return pt_fail(EINVAL, "%s at the top of the mount belongs to no key: make a directory for the key first (mkdir KEY)", name);
	if (flags & RENAME_NOREPLACE && pt_fs_view_resolve(fs, to->node, to->dir, name, &r) == 0) {
		rc = r.listed ? -EEXIST : 0;
		pt_fs_resolved_done(&r);
		if (rc < 0)
			return rc;
	}
	pt_fail_clear();
	rc = pt_node_lookup(fs->repo, dir->node, component, &node);
	if (rc < 0)
		return rc;
	if (node.kind != PT_NODE_FILE && node.kind != PT_NODE_CONTAINER) {
		rc = node.kind == PT_NODE_DIR ? -ENOTDIR : pt_fail(EINVAL, "only a file with a tensor in it can become %s", name);
		pt_node_done(&node);
		return rc;
	}
	rc = pt_fs_node_inode(fs, &node, &file);
	pt_node_done(&node);
	if (rc < 0)
		return rc;
	rc = pt_fs_file_publish(fs, file, dir->node, component, to->node, to->dir, name);
	if (rc == 0)
		pt_fs_intent_end(fs, to->node, to->dir, name, NULL);
	pt_fs_inode_unref(fs, file);
	return rc;
}

static int rename_node(struct pt_fs *fs, struct pt_fs_inode *dir, const char *component, struct pt_fs_inode *to, const char *name, unsigned flags)
{
	char target[PT_NAME_MAX + 1];
	struct pt_node node;
	int rc;

	rc = pt_fs_component(to, name, target);
	if (rc < 0)
		return rc;
	if (to->kind == PT_FS_AXIS) {
		rc = pt_node_lookup(fs->repo, dir->node, component, &node);
		if (rc < 0)
			return rc;
		rc = node.kind == PT_NODE_DIR ? pt_fail(EPERM, "a directory cannot be moved into an axis directory") : 0;
		pt_node_done(&node);
		if (rc < 0)
			return rc;
	}
	rc = pt_node_rename(fs->repo, dir->node, component, to->node, target, flags & RENAME_NOREPLACE, flags & RENAME_EXCHANGE);
	if (rc == 0) {
		pt_fs_gc_poke(fs);
		pt_fs_where_moved(fs, to->node, target);
		if (flags & RENAME_EXCHANGE)
			pt_fs_where_moved(fs, dir->node, component);
	}
	if (rc == 0 && to->kind == PT_FS_AXIS)
		rc = pt_fs_shards_renamed(fs, to, target, name);
	return rc;
}

static int do_rename(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name, struct pt_fs_inode *to, const char *new_name, unsigned flags)
{
	char component[PT_NAME_MAX + 1];
	struct pt_path_name from, onto;
	struct pt_fs_inode *in;         /* of the key, if to is an alias */
	int rc;

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	rc = pt_path_classify(name, &from);
	if (rc == 0)
		rc = pt_path_classify(new_name, &onto);
	if (rc < 0)
		return rc;
	/* A view is not moved but read and written again: mv copies on EXDEV. */
	if (from.kind == PT_PATH_VIEW || from.kind == PT_PATH_AXIS || from.kind == PT_PATH_PARTITION)
		return -EXDEV;
	rc = pt_fs_component(dir, name, component);
	if (rc < 0)
		return rc;
	if (to->kind != PT_FS_DIR && to->kind != PT_FS_AXIS)
		return pt_fail(EACCES, "nothing can be made here");
	rc = pt_fs_alias_dir(fs, to, &in);
	if (rc < 0)
		return rc;
	if (onto.kind == PT_PATH_VIEW)
		rc = rename_onto_view(fs, dir, component, in, new_name, flags);
	else
		rc = rename_node(fs, dir, component, in, new_name, flags);
	pt_fs_inode_unref(fs, in);
	return rc;
}

void pt_fs_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname, unsigned flags)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *to = pt_fs_inode(fs, newparent);
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_RENAME], 1);
	rc = pt_fs_where_check(fs, pt_fs_inode(fs, parent), NULL, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = pt_fs_where_check(fs, to, NULL, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = do_rename(fs, pt_fs_inode(fs, parent), name, to, newname, flags);
	if (rc == -ENOENT || rc == -EEXIST || rc == -ENOTEMPTY || rc == -EXDEV || rc == -ENOTDIR || rc == -EISDIR)
		pt_fail_clear();
	if (rc < 0)
		pt_fs_fail(req, rc, to, newname, "rename");
	else
		fuse_reply_err(req, 0);
}

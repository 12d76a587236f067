/* fs/names.c - making and removing names: directories, files by mknod, symlinks, views. */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define TRIES 10

/* Makes an ordinary node and replies with its entry. */
static void node_make(fuse_req_t req, struct pt_fs_inode *dir, const char *name, enum pt_node_kind kind, mode_t mode, const char *target,
		      const char *op)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct pt_node attrs = { .kind = kind, .mode = mode & 07777, .uid = ctx->uid, .gid = ctx->gid }, node;
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *in = NULL, *i;      /* in: of the key, if dir is an alias */
	char component[PT_NAME_MAX + 1];
	int rc;

	rc = dir->kind == PT_FS_DIR || dir->kind == PT_FS_AXIS ? pt_fs_alias_dir(fs, dir, &in) : pt_fail(EACCES, "nothing can be made here");
	if (rc < 0)
		goto fail;
	rc = pt_fs_component(in, name, component);
	if (rc < 0)
		goto fail;
	attrs.target = (char *)target;
	attrs.size = target ? strlen(target) : 0;
	rc = pt_node_create(fs->repo, in->node, component, &attrs, &node);
	if (rc < 0)
		goto fail;
	rc = pt_fs_node_inode(fs, &node, &i);
	pt_node_done(&node);
	if (rc < 0)
		goto fail;
	pt_fs_inode_unref(fs, in);
	pt_fs_where_entry(dir, name);
	pt_fs_reply_entry(req, i, NULL);
	return;
fail:
	if (rc == -EEXIST)
		pt_fail_clear();
	pt_fs_inode_unref(fs, in);
	pt_fs_fail(req, rc, dir, name, op);
}

void pt_fs_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent);
	char key[PT_KEY_MAX + 1];
	struct pt_fs_inode *axis;
	struct pt_path_name n;
	int rc = 0;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_MKDIR], 1);
	pt_fs_caller_made_dir(fs, fuse_req_ctx(req)->pid);
	rc = pt_fs_where_check(fs, dir, NULL, fuse_req_ctx(req)->pid);
	if (rc < 0) {
		/* said below */
	} else if (pt_path_classify(name, &n) == 0 && (n.kind == PT_PATH_AXIS || n.kind == PT_PATH_PARTITION)) {
		rc = pt_fs_axis_inode(fs, dir, &n, name, &axis);
		if (rc == 0) {
			atomic_store(&axis->made, true);
			pt_fs_reply_entry(req, axis, NULL);
			return;
		}
	} else if (dir->kind == PT_FS_AXIS && !pt_fs_alias_itself(dir->dir)) {
		rc = pt_fail(EPERM, "directories cannot be made inside an axis directory: make the key first, the axes come last");
	} else if (pt_node_key(fs->repo, dir->node, key) == 0 && strlen(key) + strlen(dir->dir) + 1 + strlen(n.component) > PT_KEY_MAX + !key[0]) {
		rc = pt_fail(ENAMETOOLONG, "the key would be longer than %d bytes", PT_KEY_MAX);
	}
	if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "mkdir");
	else
		node_make(req, dir, name, PT_NODE_DIR, mode, NULL, "mkdir");
}

void pt_fs_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent);
	int rc;

	(void)rdev;
	pt_fail_clear();
	rc = S_ISREG(mode) ? pt_fs_where_check(fs, dir, NULL, fuse_req_ctx(req)->pid) : pt_fail(EPERM, "ptio holds no devices, pipes or sockets");
	if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "mknod");
	else
		node_make(req, dir, name, PT_NODE_FILE, mode, NULL, "mknod");
}

void pt_fs_symlink(fuse_req_t req, const char *link, fuse_ino_t parent, const char *name)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent);
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_SYMLINK], 1);
	rc = pt_fs_where_check(fs, dir, NULL, fuse_req_ctx(req)->pid);
	if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "symlink");
	else
		node_make(req, dir, name, PT_NODE_SYMLINK, 0777, link, "symlink");
}

void pt_fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *i = pt_fs_inode(fs, ino);
	struct pt_node n;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_READLINK], 1);
	rc = pt_node_get(fs->repo, i->node, &n);
	if (rc < 0) {
		pt_fs_fail(req, rc == -ENOENT ? -ESTALE : rc, i, NULL, "readlink");
		return;
	}
	if (n.target)
		fuse_reply_readlink(req, n.target);
	else
		fuse_reply_err(req, EINVAL);
	pt_node_done(&n);
}

void pt_fs_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	(void)ino;
	(void)newparent;
	(void)newname;
	fuse_reply_err(req, EPERM);
}

static int unlink_view_once(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name)
{
	struct pt_fs_inode *writer;
	struct pt_fs_resolved r;
	struct pt_manifest *m;
	int rc;

	rc = pt_fs_view_resolve(fs, dir->node, dir->dir, name, &r);
	if (rc < 0 && rc != -ENOENT)
		return rc;
	if (rc == -ENOENT || !r.view || !pt_view_manifest(r.view)) {
		writer = pt_fs_writer_find(fs, dir->node, dir->dir, name);
		if (writer) {
			pt_fs_writer_abandon(fs, writer);
			pt_fs_inode_unref(fs, writer);
			pt_fail_clear();
			if (rc == -ENOENT)
				return 0;
		}
		if (rc == 0)
			pt_fs_resolved_done(&r);
		return rc;              /* parts that wait for others are not listed: a later write replaces them */
	}
	m = pt_view_manifest(r.view);
	if (!pt_id_is_zero(&m->container))
		rc = pt_fail(EPERM, "this is a tensor of a file in the directory: remove the file (%s of the directory says which)", PT_PATH_INFO_NAME);
	else if (m->pending)
		rc = 0;
	else if (r.listed)
		rc = pt_manifest_hide(fs->repo, m, r.object);
	else if (r.req.target == PT_TARGET_FULL && !r.req.has_partition && !pt_layout_find(&r.req.layout, PT_AXIS_TP))
		rc = pt_manifest_remove(fs->repo, m->node, m->scope);
	else
		rc = pt_fail(EPERM, "%s is computed from what is stored under other names (see ls): remove those, or `full` for all", name);
	pt_fs_resolved_done(&r);
	return rc;
}

static int unlink_view(struct pt_fs *fs, struct pt_fs_inode *dir, const char *name, pid_t tid)
{
	struct pt_node node;
	int rc, try;

	rc = pt_node_get(fs->repo, dir->node, &node);
	if (rc < 0)
		return rc;
	pt_node_done(&node);
	for (try = 0; try < TRIES; try++) {
		pt_fail_clear();
		rc = unlink_view_once(fs, dir, name);
		if (rc != -ESTALE && rc != -EAGAIN)
			break;
	}
	if (rc == 0) {
		pt_fs_intent_gone(fs, tid, dir->node, dir->dir, name, node.next_revision);
		pt_fs_gc_poke(fs);
	}
	return rc;
}

void pt_fs_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent), *shown;
	char component[PT_NAME_MAX + 1];
	struct pt_path_name n;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_UNLINK], 1);
	rc = pt_fs_where_check(fs, dir, NULL, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = pt_path_classify(name, &n);
	if (rc == 0 && n.kind == PT_PATH_VIEW && (dir->kind == PT_FS_DIR || dir->kind == PT_FS_AXIS)) {
		rc = unlink_view(fs, dir, name, fuse_req_ctx(req)->pid);
	} else if (rc == 0) {
		rc = pt_fs_component(dir, name, component);
		if (rc == 0)
			rc = pt_node_unlink(fs->repo, dir->node, component);
		if (rc == -ENOENT && dir->kind == PT_FS_AXIS && !pt_fs_alias_is(dir->dir) && pt_fs_rank_lookup(fs, dir, n.component, name, &shown) == 0) {
			pt_fs_inode_unref(fs, shown);
			rc = pt_fail(EPERM, "%s is shown here from the directory above: remove it there", name);
		}
		if (rc == 0)
			pt_fs_gc_poke(fs);
	}
	if (rc == -ENOENT || rc == -EISDIR)
		pt_fail_clear();
	if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "unlink");
	else
		fuse_reply_err(req, 0);
}

static int stop_at_first(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	(void)name;
	(void)id;
	(void)kind;
	*(bool *)ctx = true;
	return 1;
}

struct drop {
	struct pt_repo *repo;
	int rc;
};

static int drop_pending(void *ctx, const struct pt_pending *p)
{
	struct drop *d = ctx;

	d->rc = pt_pending_remove(d->repo, p);
	return d->rc < 0 ? 1 : 0;
}

/* rmdir of what lists nothing removes parts that wait for others, too: nobody could remove them by name. */
static int rmdir_node(struct pt_fs *fs, struct pt_fs_inode *dir, const char *component)
{
	struct drop d = { fs->repo, 0 };
	struct pt_node node;
	bool some = false;
	int rc, try;

	rc = pt_node_rmdir(fs->repo, dir->node, component);
	for (try = 0; rc == -ENOTEMPTY && try < TRIES; try++) {
		rc = pt_node_lookup(fs->repo, dir->node, component, &node);
		if (rc < 0)
			return rc;
		rc = pt_tree_list(fs->repo, node.id, "", false, stop_at_first, &some);
		if (rc == 0 && some)
			rc = -ENOTEMPTY;
		if (rc == 0)
			rc = pt_pending_list(fs->repo, node.id, drop_pending, &d);
		pt_node_done(&node);
		if (rc < 0)
			return rc;
		rc = pt_node_rmdir(fs->repo, dir->node, component);
	}
	return rc;
}

void pt_fs_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pt_fs *fs = pt_fs_of(req);
	struct pt_fs_inode *dir = pt_fs_inode(fs, parent);
	char component[PT_NAME_MAX + 1];
	struct pt_fs_inode *axis;
	struct pt_path_name n;
	int rc;

	pt_fail_clear();
	atomic_fetch_add(&fs->counters.ops[PT_FS_OP_RMDIR], 1);
	rc = pt_fs_where_check(fs, dir, NULL, fuse_req_ctx(req)->pid);
	if (rc == 0)
		rc = pt_path_classify(name, &n);
	if (rc == 0 && (n.kind == PT_PATH_AXIS || n.kind == PT_PATH_PARTITION)) {
		/* Always exists; what it lists goes when that is removed. */
		if (pt_fs_axis_inode(fs, dir, &n, name, &axis) == 0) {
			atomic_store(&axis->made, false);
			pt_fs_inode_unref(fs, axis);
		}
		fuse_reply_err(req, 0);
		return;
	}
	if (rc == 0)
		rc = pt_fs_component(dir, name, component);
	if (rc == 0)
		rc = rmdir_node(fs, dir, component);
	if (rc == -ENOTEMPTY || rc == -ENOENT || rc == -ENOTDIR)
		pt_fail_clear();
	if (rc < 0)
		pt_fs_fail(req, rc, dir, name, "rmdir");
	else
		fuse_reply_err(req, 0);
}

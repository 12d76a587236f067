/* fs/many.c - files of many tensors: rank views of containers, bundles, .all files; and the names that an axis directory has from its model directory.
 *
 * An inode stands for one state of everything that the file is made of, told by its stamp. Until it is pinned it may be superseded; then OPEN is ESTALE and the kernel
 * looks again. Below an axis directory ordinary files, symlinks and directories of the model directory are what they are. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "tree/named.h"

struct pt_fs_many {
	struct pt_many *file;           /* NULL: not made yet, or a placeholder of what cannot be read now */
	uint32_t pins;
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
};

/* Of a container's rank view, without making it: it depends on nothing but the container and the directory's plan. */
static int quick_stamp(struct pt_fs *fs, uint64_t node, const struct pt_named *n, uint64_t *ret_stamp)
{
	struct pt_buf b = PT_BUF_INIT;
	struct pt_model_dir *d;
	uint64_t stamp;
	int rc;

	rc = pt_models_dir(fs->models, node, &d);
	if (rc < 0)
		return rc;
	pt_buf_append_le64(&b, d->signature);
	pt_model_dir_unref(d);
	pt_buf_append(&b, n->c->blob.id.b, sizeof(n->c->blob.id.b));
	stamp = pt_buf_failed(&b) ? 0 : pt_hash64(b.data, b.len);
	pt_buf_done(&b);
	*ret_stamp = stamp <= PT_FS_STAMP_NONE ? stamp + 2 : stamp;
	return 0;
}

/* Makes the file, unless the quick stamp is enough and wants none. *ret_why: it cannot be read now. */
static int resolve(struct pt_fs *fs, uint64_t node, const struct pt_named *n, bool want_file, uint64_t *ret_stamp, struct pt_many **ret_many, int *ret_why)
{
	bool quick = n->c && !n->c->bundle;
	int rc;

	*ret_many = NULL;
	*ret_why = 0;
	if (quick) {
		rc = quick_stamp(fs, node, n, ret_stamp);
		if (rc < 0 || !want_file)
			return rc;
	}
	rc = pt_named_make(fs->models, fs->repo, node, n, fs->options->split, ret_many);
	if (rc == -EINVAL || rc == -ENODATA || rc == -EOPNOTSUPP || rc == -EFBIG) {
		*ret_why = rc;
		*ret_stamp = PT_FS_STAMP_NONE;
		return 0;
	}
	if (rc == 0 && !quick)
		*ret_stamp = pt_many_stamp(*ret_many) <= PT_FS_STAMP_NONE ? pt_many_stamp(*ret_many) + 2 : pt_many_stamp(*ret_many);
	return rc;
}

/* Known, and with a size. */
static bool known(struct pt_fs_inode *i)
{
	bool is;

	pthread_mutex_lock(&i->lock);
	is = i->many && i->many->size;
	pthread_mutex_unlock(&i->lock);
	return is;
}

/* Latest used; one that has not been used for long gives its file back, unless it is open. */
static void used(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_inode *old = i->stamp == PT_FS_STAMP_NONE ? NULL : pt_fs_inode_lru_touch(fs, i);

	if (old) {
		pt_fs_view_drop(fs, old);
		pt_fs_inode_unref(fs, old);
	}
}

int pt_fs_many_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *name, struct pt_fs_inode **ret_inode)
{
	struct pt_many *many = NULL;
	struct pt_fs_inode *i;
	struct pt_named n;
	uint64_t stamp;
	bool made;
	int rc, why;

	rc = pt_named_find(fs->models, fs->repo, parent->node, parent->dir, name, &n);
	if (rc < 0)
		return rc;
	rc = resolve(fs, parent->node, &n, false, &stamp, &many, &why);
	if (rc == 0 && !many && !why) {
		i = pt_fs_inode_find(fs, PT_FS_MANY, parent->node, parent->dir, name, stamp);
		if (i && known(i)) {
			used(fs, i);
			*ret_inode = i;
			goto out;
		}
		if (i)
			pt_fs_inode_unref(fs, i);
		rc = resolve(fs, parent->node, &n, true, &stamp, &many, &why);
	}
	pt_fail_clear();
	if (rc == 0)
		rc = pt_fs_inode_get(fs, PT_FS_MANY, parent->node, parent->dir, name, stamp, &i);
	if (rc < 0)
		goto out;
	pthread_mutex_lock(&i->lock);
	if (!i->many)
		i->many = pt_calloc(1, sizeof(*i->many));
	made = i->many;
	if (made) {
		i->many->mode = n.all == PT_FORMAT_COUNT ? n.node.mode : 0644;
		i->many->uid = n.node.uid;
		i->many->gid = n.node.gid;
		i->many->mtime_ns = n.node.mtime_ns;
		if (many && !i->many->file) {
			i->many->size = pt_many_size(many);
			i->many->file = many;
			many = NULL;
		}
	}
	pthread_mutex_unlock(&i->lock);
	if (!made) {
		pt_fs_inode_unref(fs, i);
		rc = pt_fail_nomem();
	} else {
		used(fs, i);
		*ret_inode = i;
	}
out:
	pt_many_free(many);
	pt_named_done(&n);
	return rc;
}

void pt_fs_many_done(struct pt_fs_inode *i)
{
	if (!i->many)
		return;
	if (i->many->pins)
		pt_many_unpin(i->many->file);
	pt_many_free(i->many->file);
	free(i->many);
	i->many = NULL;
}

void pt_fs_many_drop(struct pt_fs_inode *i)
{
	struct pt_many *file = NULL;

	pthread_mutex_lock(&i->lock);
	if (i->many && i->many->pins == 0) {
		file = i->many->file;
		i->many->file = NULL;
	}
	pthread_mutex_unlock(&i->lock);
	pt_many_free(file);
}

void pt_fs_many_stat(struct pt_fs_inode *i, struct stat *st)
{
	pthread_mutex_lock(&i->lock);
	st->st_mode = S_IFREG | i->many->mode;
	st->st_uid = i->many->uid;
	st->st_gid = i->many->gid;
	st->st_size = (off_t)i->many->size;
	st->st_mtim = pt_fs_time(i->many->mtime_ns);
	pthread_mutex_unlock(&i->lock);
}

/* A placeholder is looked at again: why it cannot be read, or that it can now. */
static int why_not(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_many *many = NULL;
	struct pt_named n;
	int rc;

	rc = pt_named_find(fs->models, fs->repo, i->node, i->dir, i->name, &n);
	if (rc < 0)
		return rc == -ENOENT ? -ESTALE : rc;
	rc = pt_named_make(fs->models, fs->repo, i->node, &n, fs->options->split, &many);
	pt_many_free(many);
	pt_named_done(&n);
	return rc < 0 ? rc : -ESTALE;
}

/* Makes the file again if it was dropped. -ESTALE: the name means something else now. */
static int load_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_many *many = NULL;
	struct pt_named n;
	uint64_t stamp;
	int rc, why;

	if (i->many->file)
		return 0;
	rc = pt_named_find(fs->models, fs->repo, i->node, i->dir, i->name, &n);
	if (rc < 0)
		return rc == -ENOENT ? -ESTALE : rc;
	rc = resolve(fs, i->node, &n, true, &stamp, &many, &why);
	pt_named_done(&n);
	if (rc == 0 && (!many || stamp != i->stamp || pt_many_size(many) != i->many->size))
		rc = -ESTALE;
	if (rc == 0)
		i->many->file = many;
	else
		pt_many_free(many);
	return rc;
}

int pt_fs_many_open(struct pt_fs *fs, struct pt_fs_inode *i)
{
	int rc = 0;

	if (i->stamp == PT_FS_STAMP_NONE)
		return why_not(fs, i);
	pthread_mutex_lock(&i->lock);
	if (i->many->pins == 0) {
		rc = load_locked(fs, i);
		if (rc == 0)
			rc = pt_many_pin(i->many->file);
		/* Of a bundle, more may be recorded than what it shows: it is the same file, then. */
		if (rc == -ESTALE && i->many->file) {
			pt_many_free(i->many->file);
			i->many->file = NULL;
			pt_fail_clear();
			rc = load_locked(fs, i);
			if (rc == 0)
				rc = pt_many_pin(i->many->file);
		}
	}
	if (rc == 0)
		i->many->pins++;
	pthread_mutex_unlock(&i->lock);
	return rc;
}

void pt_fs_many_release(struct pt_fs_inode *i)
{
	pthread_mutex_lock(&i->lock);
	if (i->many->pins > 0 && --i->many->pins == 0)
		pt_many_unpin(i->many->file);
	pthread_mutex_unlock(&i->lock);
}

uint64_t pt_fs_many_read_end(struct pt_fs_inode *i, uint64_t off, uint64_t max)
{
	return pt_many_read_end(i->many->file, off, max);
}

int64_t pt_fs_many_read(struct pt_fs_inode *i, void *buf, uint64_t len, uint64_t off)
{
	/* The handle's pin keeps file alive and unchanged. */
	return pt_many_read(i->many->file, buf, len, off);
}

int pt_fs_many_write(struct pt_fs *fs, const struct pt_fs_inode *i, const struct fuse_ctx *ctx)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644, .uid = ctx->uid, .gid = ctx->gid }, node;
	char component[PT_NAME_MAX + 1];
	struct pt_path_name n;
	int rc;

	rc = pt_path_classify(i->name, &n);
	if (rc == 0 && n.kind == PT_PATH_ALL)
		return pt_fail(EACCES, "%s is made by ptio and read only", i->name);
	if (rc == 0 && !i->dir[0])
		return pt_fail(EACCES, "%s shows the tensors that ranks have written: remove it, or write them again as they were written", i->name);
	if (rc == 0)
		rc = pt_tree_component(i->dir, n.component, component);
	if (rc == 0) {
		rc = pt_node_create(fs->repo, i->node, component, &attrs, &node);
		if (rc == 0)
			pt_node_done(&node);
	}
	pt_fail_clear();
	return rc == 0 || rc == -EEXIST ? -ESTALE : rc;
}

/* ---- names below an axis directory ---- */

int pt_fs_rank_lookup(struct pt_fs *fs, struct pt_fs_inode *parent, const char *component, const char *name, struct pt_fs_inode **ret_inode)
{
	struct pt_node node;
	int rc;

	rc = pt_fs_many_lookup(fs, parent, name, ret_inode);
	if (rc != -ENOENT)
		return rc;
	rc = pt_node_lookup(fs->repo, parent->node, component, &node);
	if (rc < 0)
		return rc;
	if (node.kind == PT_NODE_DIR)
		rc = pt_fs_inode_get(fs, PT_FS_AXIS, node.id, parent->dir, "", 0, ret_inode);
	else
		rc = pt_fs_node_inode(fs, &node, ret_inode);
	pt_node_done(&node);
	return rc;
}

int pt_fs_rank_list(struct pt_fs *fs, const struct pt_fs_inode *dir, pt_tree_list_fn *fn, void *ctx)
{
	return pt_tree_rank_list(fs->repo, dir->node, dir->dir, fn, ctx);
}

/* fs/writer_attr.c - attributes of a view name that is being written: what stat tells of it, what chmod, chown and touch set, and the hints for raw bytes. */
#include "fs.h"

#include <errno.h>

#include "base/error.h"
#include "writer_int.h"

void pt_fs_writer_stat(struct pt_fs_inode *inode, struct stat *st)
{
	struct pt_fs_writer *w = inode->writer;

	pthread_mutex_lock(&inode->lock);
	st->st_size = (off_t)pt_fs_writer_size_locked(w);
	st->st_mode = S_IFREG | w->attrs.mode;
	st->st_uid = w->attrs.uid;
	st->st_gid = w->attrs.gid;
	st->st_mtim = pt_fs_time(w->attrs.mtime_ns);
	pthread_mutex_unlock(&inode->lock);
}

/* touch and chmod through a descriptor that has written nothing. */
static int touch_present(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set)
{
	struct pt_fs_resolved r;
	struct pt_fs_inode *view;
	int rc;

	rc = pt_fs_view_resolve(fs, inode->node, inode->dir, inode->name, &r);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	rc = pt_fs_view_inode(fs, inode->node, inode->dir, inode->name, &r, &view);
	pt_fs_resolved_done(&r);
	if (rc < 0)
		return rc;
	rc = pt_fs_view_setattr(fs, view, attr, to_set);
	pt_fs_inode_unref(fs, view);
	return rc;
}

int pt_fs_writer_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set)
{
	struct pt_fs_writer *w = inode->writer;
	struct pt_fs_source *a = &w->attrs;
	bool touches;
	int rc = 0;

	to_set &= FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW;
	if (!to_set)
		return 0;
	pthread_mutex_lock(&inode->lock);
	if (to_set & FUSE_SET_ATTR_MODE)
		a->mode = attr->st_mode & 07777;
	if (to_set & FUSE_SET_ATTR_UID)
		a->uid = attr->st_uid;
	if (to_set & FUSE_SET_ATTR_GID)
		a->gid = attr->st_gid;
	a->mtime_ns = pt_fs_setattr_mtime(attr, to_set, a->mtime_ns);
	if (w->upload && !w->abandoned)
		rc = pt_upload_set_attrs(w->upload, a->mode, a->uid, a->gid, a->mtime_ns);
	touches = w->touches && w->pos == 0 && w->truncated == 0 && !w->published;
	pthread_mutex_unlock(&inode->lock);
	if (rc == 0 && touches)
		rc = touch_present(fs, inode, attr, to_set);
	return rc == -ESTALE ? 0 : rc;
}

int pt_fs_writer_hint(struct pt_fs *fs, struct pt_fs_inode *inode, const char *dtype, const char *shape)
{
	struct pt_fs_writer *w = inode->writer;
	struct pt_shape s;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	if (w->pos > 0)                 /* copied attributes of something already described by its own bytes */
		goto out;
	if (dtype) {
		w->hint.dtype = pt_dtype_by_name(dtype);
		if (w->hint.dtype == PT_DTYPE_INVALID)
			rc = pt_fail(EINVAL, "%s is no dtype: use float32, bfloat16, int64, ...", dtype);
	}
	if (rc == 0 && shape) {
		rc = pt_shape_parse(shape, &s);
		if (rc == 0) {
			w->hint.shape = s;
			w->hint.has_shape = true;
		}
	}
	if (rc == 0 && w->upload && w->spool < 0)
		rc = pt_fs_writer_start(fs, w);
out:
	pthread_mutex_unlock(&inode->lock);
	return rc;
}

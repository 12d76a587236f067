/* fs/view.c - views: resolving a name, its inode, pins, reads.
 *
 * A view's inode stands for one revision and box, told by its stamp. What is needed to serve it (plan, header) is made at look-up, dropped from
 * memory when many are known, and made again at open; if by then the name means another revision, OPEN is ESTALE and the kernel looks again. */
#include "fs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "tree/alias.h"

static uint64_t stamp_of(const struct pt_view_info *info, const struct pt_manifest *m, const char *tensor_name)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t stamp;
	uint32_t i;

	pt_buf_append(&b, info->set_id.b, sizeof(info->set_id.b));
	pt_buf_append_le64(&b, info->revision);
	pt_buf_append_le32(&b, (uint32_t)info->dtype);
	for (i = 0; i < info->box.ndim && i < PT_DIMS_MAX; i++) {
		pt_buf_append_le64(&b, info->box.off[i]);
		pt_buf_append_le64(&b, info->box.ext[i]);
	}
	for (i = 0; i < info->axis_count && i < PT_AXIS_KINDS; i++) {
		pt_buf_append_le32(&b, (uint32_t)info->axis[i].kind);
		pt_buf_append_le32(&b, (uint32_t)info->axis[i].rank);
		pt_buf_append_le32(&b, (uint32_t)info->axis[i].size);
	}
	if (m && m->pending && m->object_count)         /* a part still pending may be replaced */
		pt_buf_append(&b, m->objects[0].blob.id.b, sizeof(m->objects[0].blob.id.b));
	pt_buf_append_str(&b, tensor_name);             /* safetensors files carry it */
	stamp = pt_buf_failed(&b) ? 0 : pt_hash64(b.data, b.len);
	pt_buf_done(&b);
	return stamp <= PT_FS_STAMP_NONE ? stamp + 2 : stamp;
}

int pt_fs_view_resolve(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_resolved *ret_r)
{
	struct pt_fs_resolved r = { .stamp = PT_FS_STAMP_NONE };
	const struct pt_view_info *info;
	char alias[PT_KEY_MAX + 1] = "";
	struct pt_manifest *m;
	struct pt_node n = { 0 };
	const char *axes;
	int rc;

	rc = pt_tree_view_parse(dir, name, &r.req, &r.format);
	if (rc < 0)
		return rc;
	r.since_ns = pt_time_boot_ns();
	r.marked = fs->entry_timeout > 0 && pt_meta_mark(&fs->store->meta, &r.mark);
	if (r.format == PT_FORMAT_COUNT)
		r.format = fs->options->bare;
	if (r.req.split == PT_SPLIT_UNSET)
		r.req.split = fs->options->split;
	pt_fs_alias_split(dir, alias, &axes);
	rc = pt_tree_view(fs->models, fs->repo, node, alias, &r.req, &r.view);
	if (rc == -EINVAL) {            /* must not fail the look-up: it may be written under this name */
		r.rc = rc;
		*ret_r = r;
		return 0;
	}
	if (rc < 0)
		return rc;
	info = pt_view_info(r.view);
	if (!info->readable) {
		r.rc = -ENODATA;
		*ret_r = r;
		return 0;
	}
	rc = 0;
	if (r.format == PT_FORMAT_SAFETENSORS && alias[0])      /* of one tensor, others do not carry a name */
		snprintf(n.name, sizeof(n.name), "%.*s", PT_NAME_MAX, strrchr(alias, '/') ? strrchr(alias, '/') + 1 : alias);
	else if (r.format == PT_FORMAT_SAFETENSORS)
		rc = pt_node_get(fs->repo, node, &n);
	if (rc < 0)
		goto fail;
	m = pt_view_manifest(r.view);
	r.listed = m && !m->pending && pt_id_is_zero(&m->container) && pt_tree_listed(m, &r.req, &r.object);
	r.rc = pt_vfile_create(r.view, r.format, n.name, &r.file);
	if (r.rc == 0)
		r.stamp = stamp_of(info, m, n.name);
	pt_node_done(&n);
	if (r.rc == -ENOMEM) {
		rc = r.rc;
		goto fail;
	}
	*ret_r = r;
	return 0;
fail:
	pt_fs_resolved_done(&r);
	return rc;
}

void pt_fs_resolved_done(struct pt_fs_resolved *r)
{
	pt_vfile_free(r->file);
	r->file = NULL;
	if (r->view)
		pt_view_unref(r->view);
	r->view = NULL;
}

/* The view that was used longest ago makes room. */
static void used(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_inode *old = pt_fs_inode_lru_touch(fs, i);

	if (old) {
		pt_fs_view_drop(fs, old);
		pt_fs_inode_unref(fs, old);
	}
}

/* What look-ups tell of a view goes to its inode. */
static void view_take(struct pt_fs *fs, struct pt_fs_inode *i, struct pt_fs_resolved *r)
{
	const struct pt_view_info *info = r->view ? pt_view_info(r->view) : NULL;
	struct pt_manifest *m = r->view ? pt_view_manifest(r->view) : NULL;
	struct pt_fs_view *v = &i->view;
	bool keeps = r->stamp != PT_FS_STAMP_NONE && m && !m->pending && pt_id_is_zero(&m->container) && !pt_fs_alias_is(i->dir);

	pthread_mutex_lock(&i->lock);
	v->mode = info ? info->mode : 0644;
	v->uid = info ? info->uid : 0;
	v->gid = info ? info->gid : 0;
	v->mtime_ns = info ? info->mtime_ns : 0;
	if (r->file) {
		uint64_t size = pt_vfile_size(r->file);

		if (v->size != size)    /* who was told of the node reads it without the lock: no revision has another one later */
			v->size = size;
		/* A listed name counts what its object holds; others are not met by du, and must only not look sparse. */
		v->stored = r->listed && m ? m->objects[r->object].bytes : v->size;
		if (!v->file) {
			v->file = r->file;
			r->file = NULL;
		}
	}
	atomic_store(&v->keeps, keeps);
	v->is_checked = r->marked;
	v->since_ns = r->since_ns;
	v->checked = r->mark;
	pthread_mutex_unlock(&i->lock);
	if (r->stamp != PT_FS_STAMP_NONE)
		used(fs, i);
}

int pt_fs_view_inode(struct pt_fs *fs, uint64_t node, const char *dir, const char *name, struct pt_fs_resolved *r, struct pt_fs_inode **ret_inode)
{
	struct pt_fs_inode *i;
	int rc;

	rc = pt_fs_inode_get(fs, PT_FS_VIEW, node, dir, name, r->stamp, &i);
	if (rc < 0)
		return rc;
	view_take(fs, i, r);
	*ret_inode = i;
	return 0;
}

/* Nobody has committed since the view was found to be what its name means. */
static bool is_unchanged(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_meta_mark mark;
	bool same;

	if (!pt_meta_mark(&fs->store->meta, &mark))
		return false;
	pthread_mutex_lock(&inode->lock);
	same = inode->view.is_checked && memcmp(&inode->view.checked, &mark, sizeof(mark)) == 0;
	pthread_mutex_unlock(&inode->lock);
	return same;
}

int pt_fs_view_current(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_resolved r;
	int rc;

	if (inode->kind != PT_FS_VIEW || inode->stamp == PT_FS_STAMP_NONE || is_unchanged(fs, inode))
		return 0;
	rc = pt_fs_view_resolve(fs, inode->node, inode->dir, inode->name, &r);
	if (rc < 0)
		return rc;
	if (r.stamp == inode->stamp)
		view_take(fs, inode, &r);
	else
		rc = -ESTALE;
	pt_fs_resolved_done(&r);
	pt_fail_clear();
	return rc;
}

void pt_fs_view_drop(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_vfile *file = NULL;

	(void)fs;
	if (inode->kind == PT_FS_MANY) {
		pt_fs_many_drop(inode);
		return;
	}
	pthread_mutex_lock(&inode->lock);
	if (inode->view.pins == 0) {
		file = inode->view.file;
		inode->view.file = NULL;
	}
	pthread_mutex_unlock(&inode->lock);
	pt_vfile_free(file);
}

void pt_fs_view_done(struct pt_fs_inode *inode)
{
	if (!inode->view.file)
		return;
	for (; inode->view.pins > 0; inode->view.pins--)
		pt_view_unpin(pt_vfile_view(inode->view.file));
	pt_vfile_free(inode->view.file);
	inode->view.file = NULL;
}

/* Makes the file again if it was dropped. -ESTALE: the name means something else now. Called with the inode's lock held. */
static int view_load_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_resolved r;
	int rc;

	if (inode->view.file)
		return 0;
	rc = pt_fs_view_resolve(fs, inode->node, inode->dir, inode->name, &r);
	if (rc == -ENOENT)
		return -ESTALE;
	if (rc < 0)
		return rc;
	if (r.stamp != inode->stamp) {
		rc = -ESTALE;
	} else if (r.rc == -ENODATA) {
		rc = pt_view_pin(r.view);       /* refuses, and says what is missing */
		if (rc == 0) {
			pt_view_unpin(r.view);
			rc = -ESTALE;
		}
	} else if (r.rc < 0) {
		rc = r.rc;
	} else {
		inode->view.file = r.file;
		r.file = NULL;
	}
	pt_fs_resolved_done(&r);
	return rc;
}

int pt_fs_view_pin(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	bool loaded;
	int rc;

	pthread_mutex_lock(&inode->lock);
	rc = 0;
	if (inode->view.pins == 0) {
		rc = view_load_locked(fs, inode);
		if (rc == 0)
			rc = pt_view_pin(pt_vfile_view(inode->view.file));
	}
	loaded = rc == 0 && inode->view.pins == 0;
	/* Further pins need no look at the store: the name was looked up, or found to mean this still, just now, so the open began before any commit it misses had ended. */
	if (rc == 0)
		inode->view.pins++;
	pthread_mutex_unlock(&inode->lock);
	if (loaded && inode->stamp != PT_FS_STAMP_NONE)
		used(fs, inode);
	return rc;
}

void pt_fs_view_unpin(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	(void)fs;
	pthread_mutex_lock(&inode->lock);
	if (inode->view.pins > 0 && --inode->view.pins == 0)
		pt_view_unpin(pt_vfile_view(inode->view.file));
	pthread_mutex_unlock(&inode->lock);
}

int64_t pt_fs_view_read(struct pt_fs *fs, struct pt_fs_inode *inode, void *buf, size_t len, uint64_t off)
{
	(void)fs;
	/* The handle's pin keeps file alive and unchanged. */
	return pt_vfile_read(inode->view.file, buf, len, off);
}

int pt_fs_view_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set)
{
	struct pt_fs_view *v = &inode->view;
	uint32_t mode, uid, gid;
	struct pt_manifest *m;
	struct pt_view *view = NULL;
	int64_t mtime_ns;
	int rc;

	pthread_mutex_lock(&inode->lock);
	mode = to_set & FUSE_SET_ATTR_MODE ? attr->st_mode & 07777 : v->mode;
	uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : v->uid;
	gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : v->gid;
	mtime_ns = pt_fs_setattr_mtime(attr, to_set, v->mtime_ns);
	rc = inode->stamp == PT_FS_STAMP_NONE ? 0 : view_load_locked(fs, inode);
	if (rc == 0 && v->file)
		view = pt_view_ref(pt_vfile_view(v->file));
	pthread_mutex_unlock(&inode->lock);
	if (rc < 0 || !view)
		return rc;
	m = pt_view_manifest(view);
	if (m && !m->pending && pt_id_is_zero(&m->container))
		rc = pt_manifest_touch(fs->repo, m, mode, uid, gid, mtime_ns);
	pt_view_unref(view);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&inode->lock);
	v->mode = mode;
	v->uid = uid;
	v->gid = gid;
	v->mtime_ns = mtime_ns;
	pthread_mutex_unlock(&inode->lock);
	return 0;
}

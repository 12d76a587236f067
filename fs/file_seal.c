/* fs/file_seal.c - what was written to an ordinary file becomes its node's blob, or container; and a tensor, when it is renamed onto a view. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>

#include "base/error.h"

static int append(void *ctx, const void *data, uint64_t len)
{
	return pt_object_writer_append(ctx, data, len);
}

static int seal_contents_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last)
{
	struct pt_fs_file *f = inode->file;
	struct pt_object_writer *w = NULL;
	struct pt_blob_ref blob = { 0 };
	struct pt_node n;
	uint64_t bytes = 0;
	int rc, try;

	if (!f->dirty || f->gone)
		return 0;
	rc = pt_fs_shards_take_locked(fs, inode, last);
	if (rc)
		return rc < 0 ? rc : 0;
	if (f->stream) {
		rc = pt_fs_stream_seal_locked(fs, inode);
		if (rc || f->gone)
			return rc < 0 ? rc : 0;
	}
	if (f->size > 0) {
		rc = pt_fs_file_spool_locked(fs, f, false);
		if (rc == 0)
			rc = pt_fs_spool_contain_locked(fs, inode);
		if (rc || f->gone)
			return rc < 0 ? rc : 0;
		rc = pt_plain_writer_create(fs->repo, &w);
		if (rc < 0)
			return rc;
		rc = pt_fs_spool_each(f->spool, f->size, append, w);
		if (rc < 0) {
			pt_object_writer_abort(w);
			return rc;
		}
		rc = pt_plain_writer_seal(w, &blob, &bytes);
		if (rc < 0)
			return rc;
	}
	for (try = 0;; try++) {
		rc = pt_node_get(fs->repo, inode->node, &n);
		if (rc < 0)
			break;
		n.kind = PT_NODE_FILE;
		n.blob = blob;
		n.size = bytes;
		n.mtime_ns = f->mtime_ns;
		rc = pt_node_update(fs->repo, &n);
		pt_node_done(&n);
		if (rc != -EAGAIN || try == PT_FS_FILE_TRIES)
			break;
	}
	if (rc < 0) {
		pt_blob_discard(fs->repo, &blob, rc);
		if (rc == -ENOENT) {    /* unlinked while open: nothing to keep */
			f->gone = true;
			return 0;
		}
		return rc;
	}
	pt_fs_file_took_locked(fs, f, PT_NODE_FILE, &blob);
	return 0;
}

int pt_fs_file_seal_locked(struct pt_fs *fs, struct pt_fs_inode *inode, bool last)
{
	struct pt_fs_file *f = inode->file;
	int rc;

	pt_fs_file_show(f);
	atomic_store(&f->sealing, true);
	rc = seal_contents_locked(fs, inode, last);
	atomic_store(&f->sealing, false);
	return rc;
}

int pt_fs_file_seal(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	int rc;

	pthread_mutex_lock(&inode->lock);
	rc = inode->file ? pt_fs_file_seal_locked(fs, inode, false) : 0;
	pt_fs_file_unlock(inode);
	return rc;
}

int pt_fs_file_publish(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t parent, const char *component, uint64_t node, const char *dir,
		       const char *name)
{
	struct pt_fs_source source;
	struct pt_upload *u;
	struct pt_fs_file *f;
	int rc;

	rc = pt_fs_file_attach(fs, inode);
	if (rc < 0)
		return rc;
	f = inode->file;
	pthread_mutex_lock(&inode->lock);
	rc = pt_fs_file_reload_locked(fs, inode);
	if (rc < 0)
		goto out;
	/* A tensor file that is all here becomes one now, so that its object can be referred to. */
	if (f->stream && f->dirty)
		rc = pt_fs_stream_seal_locked(fs, inode);
	if (rc >= 0 && (f->stream || f->shards || f->fresh))
		rc = pt_fs_file_spool_locked(fs, f, false);
	if (rc < 0)
		goto out;
	source = (struct pt_fs_source){ f->spool, f->blob, f->size, f->mode, f->uid, f->gid, f->mtime_ns, f->container };
	if (f->size == 0)
		rc = pt_fail(EINVAL, "an empty file is no tensor: write it before it is renamed to %s", name);
	else
		rc = pt_fs_upload_source(fs, node, dir, name, &source, &u);
	if (rc < 0)
		goto out;
	rc = pt_node_unlink_id(fs->repo, parent, component, inode->node);
	if (rc < 0)
		pt_fs_errors_add(fs, rc, inode, NULL, "rename");        /* published all the same: only the old name is left */
	rc = 0;
	f->gone = true;
	f->dirty = false;
	pt_upload_free(f->upload);
	f->upload = u;
out:
	pt_fs_file_idle_locked(fs, f);
	pt_fs_file_unlock(inode);
	return rc;
}

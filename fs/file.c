/* fs/file.c - ordinary files: one inode per node, mutable.
 *
 * A clean file is a sealed blob, or a container (container.c), read in place. The first change copies it to a spool that all openers of this mount share; flush, fsync and release
 * seal a dirty spool into a new blob (file_seal.c), under the inode's lock: stat does not wait for that, nor do reads keep others out. A file that was renamed onto a view lives on for its open handles; its attributes go to the publication. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "tree/shard_write.h"

static bool blob_none(const struct pt_blob_ref *b)
{
	return pt_id_is_zero(&b->id);
}

int pt_fs_file_attach(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f;

	(void)fs;
	if (__atomic_load_n(&inode->file, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_lock(&inode->lock);
	f = inode->file;
	if (!f) {
		f = pt_calloc(1, sizeof(*f));
		if (f) {
			f->spool = -1;
			pthread_mutex_init(&f->shown_lock, NULL);
			__atomic_store_n(&inode->file, f, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&inode->lock);
	return f ? 0 : pt_fail_nomem();
}

static void unpin(struct pt_fs *fs, struct pt_fs_file *f)
{
	if (f->container)
		pt_container_release(f->container, f->held);
	pt_container_unref(f->container);
	f->container = NULL;
	pt_fs_file_unpin(fs, f->pin);
	f->pin = NULL;
}

void pt_fs_file_took_locked(struct pt_fs *fs, struct pt_fs_file *f, enum pt_node_kind kind, const struct pt_blob_ref *blob)
{
	unpin(fs, f);
	f->kind = kind;
	f->blob = *blob;
	f->fresh = false;
	f->dirty = false;
	pt_fs_gc_poke(fs);
}

void pt_fs_file_done(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;

	if (!f)
		return;
	unpin(fs, f);
	if (f->spool >= 0)
		close(f->spool);
	pt_container_writer_free(f->stream);
	pt_fs_shards_drop_locked(f);
	pt_upload_free(f->upload);
	pthread_mutex_destroy(&f->shown_lock);
	free(f);
	inode->file = NULL;
}

/* Takes what the node says now, unless this mount's spool is newer. A clean spool is kept for its openers as long as nobody else replaces what it
 * was sealed as. */
int pt_fs_file_refresh_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;
	struct pt_node n;
	int rc;

	if (f->gone || f->dirty)
		return 0;
	rc = pt_node_get(fs->repo, inode->node, &n);
	if (rc == -ENOENT) {
		if (!f->opens)
			return -ESTALE;
		f->gone = true;
		return 0;
	}
	if (rc < 0)
		return rc;
	if (!f->loaded || pt_id_compare(&n.blob.id, &f->blob.id) != 0) {
		f->changed = true;
		unpin(fs, f);
		if (f->spool >= 0)
			close(f->spool);
		f->spool = -1;
	}
	f->kind = n.kind;
	f->blob = n.blob;
	f->size = n.size;
	f->mode = n.mode;
	f->uid = n.uid;
	f->gid = n.gid;
	f->mtime_ns = n.mtime_ns;
	f->loaded = true;
	pt_node_done(&n);
	return 0;
}

/* For who takes its bytes away: they need not be readable. */
static int reload_cut_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	const struct pt_fs_file *f = inode->file;

	if (f->gone && !f->opens)
		return -ESTALE;         /* with the last opener went what kept its bytes */
	return pt_fs_file_refresh_locked(fs, inode);
}

/* Refreshes, and pins the blob. It is looked at again after it is pinned, for a collector may have been faster: manifest/pin.c says why that suffices. */
int pt_fs_file_reload_locked(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	struct pt_fs_file *f = inode->file;
	struct pt_node n = { .id = inode->node, .name = "the file" };
	int rc, try;

	rc = reload_cut_locked(fs, inode);
	for (try = 0; rc == 0 && !f->pin && !f->gone && !f->dirty && f->spool < 0 && !blob_none(&f->blob); try++) {
		if (try == PT_FS_FILE_TRIES)
			return pt_fail(EIO, "the file is being replaced without end: try again");
		rc = pt_fs_file_pin(fs, &f->blob, &f->pin);
		if (rc < 0)
			break;
		rc = pt_fs_file_refresh_locked(fs, inode);         /* unpins what was replaced */
	}
	if (rc == 0 && f->pin && f->kind == PT_NODE_CONTAINER && !f->container) {
		n.kind = f->kind;
		n.blob = f->blob;
		rc = pt_models_container(fs->models, &n, &f->container);
		if (rc == 0)
			f->held = pt_container_hold(f->container);
	}
	return rc;
}

int pt_fs_file_spool_locked(struct pt_fs *fs, struct pt_fs_file *f, bool empty)
{
	int fd, rc;

	if (f->upload)
		return pt_fail(EIO, "the file has been renamed onto a tensor and is part of it now: write a new one");
	if (f->spool >= 0)
		return 0;
	rc = pt_fs_spool_create(fs, &fd);
	if (rc < 0)
		return rc;
	if (!empty && f->shards)
		rc = pt_fs_shards_spill_locked(f, fd);
	else if (!empty && f->stream)
		rc = pt_fs_stream_spill_locked(f, fd);
	else if (!empty && !f->fresh && f->container)
		rc = pt_fs_container_copy(f->container, fd);
	else if (!empty && !f->fresh && !blob_none(&f->blob))
		rc = pt_fs_spool_from_blob(fs, &f->blob, f->size, fd);
	if (rc == 0 && !empty && ftruncate(fd, (off_t)f->size) < 0)
		rc = pt_fail(errno, "cannot set the size of the spool file: %s", strerror(errno));
	if (rc < 0) {
		close(fd);
		return rc;
	}
	pt_container_writer_free(f->stream);
	f->stream = NULL;
	pt_fs_shards_drop_locked(f);
	f->fresh = false;
	f->spool = fd;
	return 0;
}

/* An empty file, or one of zeros, needs no spool before something is written. */
static bool stays_fresh(const struct pt_fs_file *f, uint64_t size)
{
	if (f->upload || f->spool >= 0)
		return false;
	if (f->stream)
		return size >= pt_container_writer_fed(f->stream);
	if (f->shards)
		return size >= pt_shard_writer_fed(f->shards);
	return size == 0 || f->fresh || (f->size == 0 && blob_none(&f->blob));
}

static int truncate_locked(struct pt_fs *fs, struct pt_fs_file *f, uint64_t size)
{
	int rc;

	if (size == 0 && (f->stream || f->shards)) {
		pt_container_writer_free(f->stream);
		f->stream = NULL;
		pt_fs_shards_drop_locked(f);
		f->fresh = true;
	}
	if (stays_fresh(f, size)) {
		f->fresh = !f->stream && !f->shards;
	} else {
		rc = pt_fs_file_spool_locked(fs, f, size == 0);
		if (rc < 0)
			return rc;
		if (ftruncate(f->spool, (off_t)size) < 0)
			return pt_fail(errno, "cannot set the size of the spool file: %s", strerror(errno));
	}
	f->dirty = true;
	f->size = size;
	f->mtime_ns = pt_time_now_ns();
	return 0;
}

int pt_fs_file_open(struct pt_fs *fs, struct pt_fs_inode *inode, int flags, bool *ret_keep)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY, truncate = flags & O_TRUNC;
	struct pt_fs_file *f;
	int rc;

	rc = pt_fs_file_attach(fs, inode);
	if (rc < 0)
		return rc;
	f = inode->file;
	pthread_mutex_lock(&inode->lock);
	rc = truncate ? reload_cut_locked(fs, inode) : pt_fs_file_reload_locked(fs, inode);
	if (rc == 0 && truncate && f->size > 0)
		rc = truncate_locked(fs, f, 0);
	if (rc == 0) {
		f->opens++;
		f->writers += writes;
		f->read_back = f->read_back || (flags & O_ACCMODE) != O_WRONLY;
		*ret_keep = !f->changed && !truncate;
		f->changed = false;
	}
	pt_fs_file_unlock(inode);
	if (rc == 0)
		atomic_fetch_add(&fs->counters.open_files, 1);
	return rc;
}

bool pt_fs_file_shared(struct pt_fs_inode *inode, int flags)
{
	bool shared;

	pthread_mutex_lock(&inode->lock);
	shared = inode->file->writers > ((flags & O_ACCMODE) != O_RDONLY);
	pthread_mutex_unlock(&inode->lock);
	return shared;
}

int pt_fs_file_hold(struct pt_fs *fs, struct pt_fs_inode *inode)
{
	int rc = pt_fs_file_attach(fs, inode);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&inode->lock);
	rc = pt_fs_file_reload_locked(fs, inode);
	if (rc == 0)
		inode->file->opens++;
	pt_fs_file_unlock(inode);
	if (rc == 0)
		atomic_fetch_add(&fs->counters.open_files, 1);
	return rc;
}

void pt_fs_file_idle_locked(struct pt_fs *fs, struct pt_fs_file *f)
{
	if (f->opens || f->dirty)
		return;
	unpin(fs, f);
	if (f->spool >= 0)
		close(f->spool);
	f->spool = -1;
	pt_container_writer_free(f->stream);
	f->stream = NULL;
	pt_fs_shards_drop_locked(f);
	f->read_back = false;
	f->fresh = false;
	pt_upload_free(f->upload);
	f->upload = NULL;
}

void pt_fs_file_release(struct pt_fs *fs, struct pt_fs_inode *inode, bool writes)
{
	struct pt_fs_file *f = inode->file;
	int rc = 0;

	pthread_mutex_lock(&inode->lock);
	rc = pt_fs_file_seal_locked(fs, inode, f->opens == 1);
	f->opens--;
	f->writers -= writes;
	if (f->opens == 0 && rc < 0)
		f->dirty = false;       /* told below; there is nobody left to write it again */
	pt_fs_file_idle_locked(fs, f);
	pt_fs_file_unlock(inode);
	atomic_fetch_sub(&fs->counters.open_files, 1);
	if (rc < 0)
		pt_fs_errors_add(fs, rc, inode, NULL, "close");
}

static int spool_write_locked(struct pt_fs *fs, struct pt_fs_file *f, const void *buf, uint64_t len, uint64_t off)
{
	int rc = pt_fs_file_spool_locked(fs, f, false);

	return rc < 0 ? rc : pt_io_pwrite(f->spool, buf, len, off);
}

int pt_fs_file_write(struct pt_fs *fs, struct pt_fs_inode *inode, const void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_file *f = inode->file;
	int rc;

	pthread_mutex_lock(&inode->lock);
	rc = pt_fs_stream_write_locked(fs, inode, buf, len, off);
	if (rc == 0)
		rc = pt_fs_shards_write_locked(fs, inode, buf, len, off);
	if (rc) {
		pt_fs_file_unlock(inode);
		return rc < 0 ? rc : 0;
	}
	rc = spool_write_locked(fs, f, buf, len, off);
	if ((rc == -ENOSPC || rc == -EDQUOT) && pt_fs_gc_room(fs))      /* the spool is in the store's directory, if that can be */
		rc = spool_write_locked(fs, f, buf, len, off);
	if (rc == 0) {
		f->dirty = true;
		f->mtime_ns = pt_time_now_ns();
		if (off + len > f->size)
			f->size = off + len;
	}
	pt_fs_file_unlock(inode);
	return rc;
}

int pt_fs_file_truncate(struct pt_fs *fs, struct pt_fs_inode *inode, uint64_t size)
{
	struct pt_fs_file *f;
	int rc;

	rc = pt_fs_file_attach(fs, inode);
	if (rc < 0)
		return rc;
	f = inode->file;
	pthread_mutex_lock(&inode->lock);
	rc = f->opens ? 0 : size ? pt_fs_file_reload_locked(fs, inode) : reload_cut_locked(fs, inode);
	if (rc == 0 && size != f->size)
		rc = truncate_locked(fs, f, size);
	if (rc == 0 && !f->opens) {
		rc = pt_fs_file_seal_locked(fs, inode, true);
		f->dirty = false;
	}
	pt_fs_file_idle_locked(fs, f);
	pt_fs_file_unlock(inode);
	return rc;
}

int pt_fs_file_fallocate(struct pt_fs *fs, struct pt_fs_inode *inode, int mode, uint64_t off, uint64_t len)
{
	struct pt_fs_file *f = inode->file;
	int rc;

	pthread_mutex_lock(&inode->lock);
	rc = pt_fs_file_spool_locked(fs, f, false);
	if (rc == 0 && fallocate(f->spool, mode, (off_t)off, (off_t)len) < 0)
		rc = -errno;
	if (rc == 0) {
		f->dirty = true;
		if (!(mode & FALLOC_FL_KEEP_SIZE) && off + len > f->size)
			f->size = off + len;
	}
	pt_fs_file_unlock(inode);
	return rc;
}

int pt_fs_file_setattr(struct pt_fs *fs, struct pt_fs_inode *inode, const struct stat *attr, int to_set)
{
	struct pt_fs_file *f;
	struct pt_node n;
	int rc, try;

	rc = pt_fs_file_attach(fs, inode);
	if (rc < 0)
		return rc;
	f = inode->file;
	pthread_mutex_lock(&inode->lock);
	rc = f->opens ? 0 : pt_fs_file_refresh_locked(fs, inode);
	if (rc < 0)
		goto out;
	if (to_set & FUSE_SET_ATTR_MODE)
		f->mode = attr->st_mode & 07777;
	if (to_set & FUSE_SET_ATTR_UID)
		f->uid = attr->st_uid;
	if (to_set & FUSE_SET_ATTR_GID)
		f->gid = attr->st_gid;
	f->mtime_ns = pt_fs_setattr_mtime(attr, to_set, f->mtime_ns);
	if (f->upload) {
		rc = pt_upload_set_attrs(f->upload, f->mode, f->uid, f->gid, f->mtime_ns);
		if (rc == -ESTALE)
			rc = 0;
		goto out;
	}
	for (try = 0; !f->gone; try++) {
		rc = pt_node_get(fs->repo, inode->node, &n);
		if (rc < 0)
			break;
		n.mode = f->mode;
		n.uid = f->uid;
		n.gid = f->gid;
		n.mtime_ns = f->mtime_ns;
		rc = pt_node_update(fs->repo, &n);
		pt_node_done(&n);
		if (rc != -EAGAIN || try == PT_FS_FILE_TRIES)
			break;
	}
	if (rc == -ENOENT && f->opens)
		rc = 0;
out:
	pt_fs_file_unlock(inode);
	return rc;
}

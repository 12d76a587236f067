/* fs/file_read.c - what leaves an ordinary file as it is: reads, stat, and the pins of its blob.
 *
 * The inode's lock is held for as long as it takes to find where the bytes are, not while they are read; a blob stays pinned until its last read has ended. A seal holds the
 * lock until everything is durable, so stat does not wait for one: it tells what was shown when the lock was let go last, which a seal does not change. */
#include "fs.h"
#include "file_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"

#define LOCK_STEP_NS 1000000            /* how often one who waits for the lock looks whether a seal has it */

void pt_fs_file_show(struct pt_fs_file *f)
{
	pthread_mutex_lock(&f->shown_lock);
	f->shown = (struct pt_fs_file_shown){ f->gone, f->size, f->mode, f->uid, f->gid, f->mtime_ns };
	pthread_mutex_unlock(&f->shown_lock);
}

void pt_fs_file_unlock(struct pt_fs_inode *inode)
{
	if (inode->file)
		pt_fs_file_show(inode->file);
	pthread_mutex_unlock(&inode->lock);
}

int pt_fs_file_pin(struct pt_fs *fs, const struct pt_blob_ref *blob, struct pt_fs_file_pin **ret_pin)
{
	struct pt_fs_file_pin *pin = pt_calloc(1, sizeof(*pin));
	int rc;

	if (!pin)
		return pt_fail_nomem();
	rc = pt_meta_pin(&fs->store->meta, &fs->store->data, blob, 1);
	if (rc < 0) {
		free(pin);
		return rc;
	}
	pin->refs = 1;
	pin->blob = *blob;
	*ret_pin = pin;
	return 0;
}

static struct pt_fs_file_pin *pin_ref(struct pt_fs_file_pin *pin)
{
	if (pin)
		atomic_fetch_add(&pin->refs, 1);
	return pin;
}

void pt_fs_file_unpin(struct pt_fs *fs, struct pt_fs_file_pin *pin)
{
	if (!pin || atomic_fetch_sub(&pin->refs, 1) > 1)
		return;
	pt_data_unpin(&fs->store->data, &pin->blob, 1);
	free(pin);
}

/* Where the bytes are is found under the lock; they are read without it. */
int64_t pt_fs_file_read(struct pt_fs *fs, struct pt_fs_inode *inode, void *buf, uint64_t len, uint64_t off)
{
	struct pt_fs_file *f = inode->file;
	struct pt_fs_file_pin *pin = NULL;
	struct pt_container *c = NULL;
	struct pt_data_range r = { 0 };
	uint64_t left;
	int64_t n = 0;
	int rc = 0, fd = -1;

	pthread_mutex_lock(&inode->lock);
	left = off < f->size ? f->size - off : 0;
	if (len > left)
		len = left;
	if (f->stream || f->shards)
		rc = pt_fs_file_spool_locked(fs, f, false);
	if (rc < 0) {
		n = rc;
	} else if (f->spool >= 0) {
		fd = fcntl(f->spool, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			n = pt_fail(errno, "cannot read a spool file back: %s", strerror(errno));
	} else if (f->fresh) {
		n = (int64_t)len;
		memset(buf, 0, len);
	} else if (f->container) {
		c = pt_container_ref(f->container);
		pin = pin_ref(f->pin);
	} else if (f->kind == PT_NODE_CONTAINER) {      /* its blob is not what it reads as */
		n = pt_fail(EIO, "the file was removed by another mount while it was being stored: its bytes cannot be read any more");
	} else if (len && !pt_id_is_zero(&f->blob.id)) {
		r = (struct pt_data_range){ .blob = f->blob, .off = off, .len = len, .buf = buf };
		pin = pin_ref(f->pin);
	}
	pt_fs_file_unlock(inode);
	if (fd >= 0) {
		n = pt_io_pread(fd, buf, len, off);
		close(fd);
	} else if (c) {
		n = pt_container_read(c, buf, len, off);
	} else if (r.len) {
		rc = pt_fs_blob_read(fs, &r);
		n = rc < 0 ? rc : (int64_t)r.len;
	}
	pt_container_unref(c);
	pt_fs_file_unpin(fs, pin);
	return n;
}

bool pt_fs_file_lock_unless_sealed(struct pt_fs_inode *inode)
{
	for (;;) {
		if (pt_mutex_lock_within(&inode->lock, LOCK_STEP_NS))
			return true;
		if (inode->file && atomic_load(&inode->file->sealing))
			return false;
	}
}

int pt_fs_file_stat(struct pt_fs *fs, struct pt_fs_inode *inode, struct stat *st)
{
	struct pt_fs_file_shown shown;
	struct pt_fs_file *f;
	int rc;

	rc = pt_fs_file_attach(fs, inode);
	if (rc < 0)
		return rc;
	f = inode->file;
	if (pt_fs_file_lock_unless_sealed(inode)) {
		rc = f->opens ? pt_fs_file_reload_locked(fs, inode) : pt_fs_file_refresh_locked(fs, inode);
		pt_fs_file_unlock(inode);
	}
	pthread_mutex_lock(&f->shown_lock);
	shown = f->shown;
	pthread_mutex_unlock(&f->shown_lock);
	st->st_size = (off_t)shown.size;
	st->st_mode = S_IFREG | shown.mode;
	st->st_uid = shown.uid;
	st->st_gid = shown.gid;
	st->st_mtim = pt_fs_time(shown.mtime_ns);
	st->st_nlink = shown.gone ? 0 : 1;
	return rc;
}

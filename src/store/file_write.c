/* store/file_write.c - the file engine's blobs while they are written: staged, sealed, aborted.
 *
 * Order of a seal, so that a crash leaves a whole object or none: size set, file synced, renamed into objects/ without
 * replacing anything, that directory synced. Whoever is told so writes the manifest after that. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file_state.h"
#include "base/io.h"
#include "store/file_int.h"
#include "store/folder.h"

#define WRITE_BACK ((uint64_t)8 << 20)         /* what is written goes to the disk in stretches of this size, so that little is left to wait for when a blob is sealed */
#define ZEROS_UNIT 65536u               /* zeros are left out in aligned pieces of this size */

struct staged {
	struct pt_blob_ref ref;
	int fd;
	bool hashed;                    /* by whoever wrote it, all of it */
};

/* What is staged is the parent's: a child neither changes nor removes it. */
static int forked(const struct pt_file_store *f)
{
	return f->pid == getpid() ? 0 : pt_fail(EIO, "the store was opened before fork(); open it in the process that uses it");
}

static int staging_dir(struct pt_file_store *f)
{
	int rc = forked(f);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&f->lock);
	if (f->token.fd < 0) {
		rc = pt_token_create(f->staging, true, &f->token);
		if (rc < 0)
			pt_fail(-rc, "cannot make a directory below staging/ of the store %s: %s; writing needs it", f->dir,
				strerror(-rc));
	}
	pthread_mutex_unlock(&f->lock);
	return rc;
}

/* ENOENT here is no answer about a name that somebody asked for. */
static int write_fail(const struct pt_file_store *f, const struct pt_blob_ref *ref, const char *what, int err)
{
	if (err == ENOENT)
		return pt_fail(EIO, "cannot %s an object in %s: its objects/ or staging/ was removed or moved while the store was open; put it back, or end all that uses the store and run ptio fsck on it", what,
			       f->dir);
	return pt_file_fail(f, ref, what, err);
}

/* objects/xx, made durable if it is new. A sentence in any case: what: is to be done with the blob. */
static int open_bucket(struct pt_file_store *f, const struct pt_blob_ref *ref, const char *name, const char *what, int *ret_fd)
{
	char bucket[3] = { name[0], name[1], '\0' };
	bool made;
	int fd, rc;

	rc = pt_folder_open(f->objects, bucket, O_RDONLY, ret_fd);
	if (rc == -ENOENT) {
		rc = pt_folder_make(f->objects, bucket, &made, &fd);
		if (rc == 0) {          /* also where another process has made it, which may not have come so far */
			rc = pt_io_fsync_dir(f->objects);
			if (rc < 0)
				close(fd);
			else
				*ret_fd = fd;
		}
	}
	return rc == 0 || rc == -ELOOP || rc == -EPERM ? rc : write_fail(f, ref, what, -rc);
}

/* Its bucket first: where that cannot be made, for want of room, say, the caller is told while it can still do something about it. */
void pt_file_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = h;
	struct staged *s;
	int rc = staging_dir(f);
	int bucket;

	/* No space is reserved: a tensor of zeros may be far larger than what it takes on the disk. */
	(void)size_hint;
	if (rc < 0)
		goto out;
	if (pt_file_is_there(f, ref)) {
		rc = pt_file_fail(f, ref, "make", EEXIST);
		goto out;
	}
	s = pt_calloc(1, sizeof(*s));
	if (!s) {
		rc = pt_fail_nomem();
		goto out;
	}
	s->ref = *ref;
	pt_file_name(ref, name);
	rc = open_bucket(f, ref, name, "make", &bucket);
	if (rc < 0) {
		free(s);
		goto out;
	}
	close(bucket);
	s->fd = openat(f->token.fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (s->fd < 0) {
		rc = write_fail(f, ref, "make", errno);
		free(s);
		goto out;
	}
	*ret_blob = s;
out:
	pt_done_call(done, rc);
}

static bool is_zeros(const uint8_t *p, size_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

/* Bytes are written once, so zeros can stay holes. Runs of pieces that are not zeros go out in one write. */
static int write_around_zeros(int fd, const uint8_t *p, uint64_t len, uint64_t off)
{
	uint64_t run = 0;

	for (uint64_t i = 0; i < len;) {
		uint64_t piece = ZEROS_UNIT - (off + i) % ZEROS_UNIT;

		if (piece > len - i)
			piece = len - i;
		if (piece == ZEROS_UNIT && is_zeros(p + i, ZEROS_UNIT)) {
			int rc = i > run ? pt_io_pwrite(fd, p + run, i - run, off + run) : 0;

			if (rc < 0)
				return rc;
			run = i + piece;
		}
		i += piece;
	}
	return len > run ? pt_io_pwrite(fd, p + run, len - run, off + run) : 0;
}

void pt_file_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	struct pt_file_store *f = h;
	struct staged *s = blob;
	int rc = forked(f);

	if (rc < 0) {
		pt_done_call(done, rc);
		return;
	}
	rc = write_around_zeros(s->fd, buf, len, off);
	if (rc == 0 && off / WRITE_BACK != (off + len) / WRITE_BACK)
		sync_file_range(s->fd, (off_t)(off / WRITE_BACK * WRITE_BACK), (off_t)(len / WRITE_BACK * WRITE_BACK + WRITE_BACK), SYNC_FILE_RANGE_WRITE);
	if (rc < 0)
		rc = pt_file_fail(f, &s->ref, "write", -rc);
	pt_done_call(done, rc);
}

/* Never replaces: filesystems without RENAME_NOREPLACE get a link and an unlink. */
static int rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(from_dir, from, to_dir, to, 0) < 0)
		return -errno;
	unlinkat(from_dir, from, 0);
	return 0;
}

void pt_file_hashed(void *h, void *blob)
{
	struct staged *s = blob;

	(void)h;
	s->hashed = true;
}

/* Sealed: it counts as verified if it is what it was when its last byte had been written, as its time of modification then tells. */
static void tell_sealed(struct pt_file_store *f, const struct staged *s, uint64_t bytes, int64_t mtime_ns)
{
	struct pt_file_state state;

	if (pt_file_state_get(s->fd, &state) == 0 && state.size == bytes && state.mtime_ns == mtime_ns)
		pt_ledger_add(f->ledger, &s->ref, pt_file_state_stamp(&state));
}

void pt_file_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = h;
	struct staged *s = blob;
	bool tell = s->hashed;
	int64_t mtime_ns = 0;
	int bucket = -1, rc = forked(f);
	bool said = false;

	if (rc < 0) {
		pt_file_abort(h, blob);
		pt_done_call(done, rc);
		return;
	}
	pt_file_name(&s->ref, name);
	if (ftruncate(s->fd, (off_t)bytes) < 0 || fchmod(s->fd, 0440) < 0)
		rc = -errno;
	if (rc == 0)
		rc = pt_folder_owner_set(f->objects, s->fd);
	if (rc == 0 && tell)
		tell = pt_file_state_settle(s->fd, &mtime_ns) == 0;
	if (rc == 0)
		rc = pt_io_fsync(s->fd);
	if (rc == 0) {
		rc = open_bucket(f, &s->ref, name, "seal", &bucket);
		said = rc < 0;
	}
	if (rc == 0)
		rc = rename_new(f->token.fd, name, bucket, name);
	if (rc < 0) {
		unlinkat(f->token.fd, name, 0);
	} else {
		rc = pt_io_fsync_dir(bucket);
		if (rc < 0)
			unlinkat(bucket, name, 0);      /* told as failed, so not there */
	}
	if (rc == 0 && tell)
		tell_sealed(f, s, bytes, mtime_ns);
	if (rc < 0 && !said)
		rc = write_fail(f, &s->ref, "seal", -rc);
	if (bucket >= 0)
		close(bucket);
	close(s->fd);
	free(s);
	pt_done_call(done, rc);
}

void pt_file_abort(void *h, void *blob)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = h;
	struct staged *s = blob;

	pt_file_name(&s->ref, name);
	if (f->pid == getpid())
		unlinkat(f->token.fd, name, 0);
	close(s->fd);
	free(s);
}

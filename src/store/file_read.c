/* store/file_read.c - the file engine's reads: many ranges of many blobs, in few system calls.
 *
 * Ranges are taken in windows, sorted by blob and offset, and neighbours in a blob go into one preadv(); a gap of up to
 * GAP_MAX bytes between two is read into a buffer that nobody looks at, which costs less than another call. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "store/file_int.h"
#include "store/folder.h"

#define WINDOW 256                      /* ranges sorted at a time */
#define IOVS 128                        /* of one call */
#define GAP_MAX 4096

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)     /* a pipe in its place is no reason to wait */

/* In one call, where the kernel can (5.6). -1: it cannot, or there is something to say of why not. */
static int open_at_once(const struct pt_file_store *f, const char name[PT_FILE_NAME_LEN])
{
	struct open_how how = { .flags = OPEN_FLAGS, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH };
	char path[PT_FILE_NAME_LEN + 3];

	snprintf(path, sizeof(path), "%.2s/%s", name, name);
	return (int)syscall(SYS_openat2, f->objects, path, &how, sizeof(how));
}

static int open_in_bucket(struct pt_file_store *f, const struct pt_blob_ref *ref, char name[PT_FILE_NAME_LEN])
{
	int bucket, fd, rc;

	rc = pt_file_bucket(f, ref, "open", name, &bucket);
	if (rc < 0)
		return rc;
	fd = openat(bucket, name, OPEN_FLAGS);
	rc = fd < 0 ? errno : 0;
	if (rc == ELOOP)
		rc = pt_folder_fail_no_file(bucket, name, S_IFLNK);
	else if (rc)
		rc = pt_file_fail(f, ref, "open", rc);
	close(bucket);
	return rc < 0 ? rc : fd;
}

int pt_file_open_blob(void *ctx, const struct pt_blob_ref *ref, uint64_t *ret_bytes)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = ctx;
	struct stat st;
	int fd, rc;

	pt_file_name(ref, name);
	fd = open_at_once(f, name);
	if (fd < 0)
		fd = open_in_bucket(f, ref, name);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		rc = pt_file_fail(f, ref, "open", errno);
		close(fd);
		return rc;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return pt_fail(EIO, "%s in %s is not a file: put a copy of it back, or write the tensor again", name, f->dir);
	}
	*ret_bytes = (uint64_t)st.st_size;
	return fd;
}

void pt_file_stat(void *h, const struct pt_blob_ref *ref, uint64_t *ret_bytes, struct pt_done *done)
{
	char name[PT_FILE_NAME_LEN];
	struct pt_file_store *f = h;
	struct stat st;
	int bucket;
	int rc = pt_file_bucket(f, ref, "look at", name, &bucket);

	if (rc == 0) {
		if (fstatat(bucket, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			rc = pt_file_fail(f, ref, "look at", errno);
		else
			*ret_bytes = (uint64_t)st.st_size;
		close(bucket);
	}
	pt_done_call(done, rc);
}

int pt_file_get_named(struct pt_file_store *f, const struct pt_blob_ref *ref, struct pt_fdcache_file **ret_file)
{
	struct stat st;
	int rc;

	rc = pt_fdcache_get(f->cache, ref, ret_file);
	if (rc < 0 || fstat((*ret_file)->fd, &st) < 0 || st.st_nlink)
		return rc;
	if (!pt_file_is_there(f, ref))
		return 0;
	pt_fdcache_forget(f->cache, ref);
	pt_fdcache_put(f->cache, *ret_file);
	return pt_fdcache_get(f->cache, ref, ret_file);
}

/* Opened for reading only, so whoever gets it cannot write through it. */
int pt_file_fd_get(void *h, const struct pt_blob_ref *ref, int *ret_fd, void **ret_lent)
{
	struct pt_file_store *f = h;
	struct pt_fdcache_file *file;
	int rc = pt_file_get_named(f, ref, &file);

	if (rc < 0)
		return rc;
	*ret_fd = file->fd;
	*ret_lent = file;
	return 0;
}

void pt_file_fd_put(void *h, void *lent)
{
	struct pt_file_store *f = h;

	pt_fdcache_put(f->cache, lent);
}

static int compare_ranges(const struct pt_data_range *a, const struct pt_data_range *b)
{
	int d = pt_id_compare(&a->blob.id, &b->blob.id);

	if (d == 0)
		d = (int)a->blob.kind - (int)b->blob.kind;
	if (d == 0)
		d = a->off < b->off ? -1 : a->off > b->off;
	return d;
}

/* For qsort: pointers to ranges; ties stay apart by their place. */
static int compare_pointers(const void *a, const void *b)
{
	const struct pt_data_range *x = *(const struct pt_data_range *const *)a;
	const struct pt_data_range *y = *(const struct pt_data_range *const *)b;
	int d = compare_ranges(x, y);

	return d ? d : (x < y ? -1 : x > y);
}

static int fail_cut(const struct pt_file_store *f, const struct pt_blob_ref *ref, uint64_t end, uint64_t bytes)
{
	char name[PT_FILE_NAME_LEN];

	pt_fdcache_forget(f->cache, ref);       /* a good file may be put in its place */
	pt_file_name(ref, name);
	return pt_fail(EIO, "object %s in %s has %llu bytes, but %llu are needed; it was cut short: run ptio verify, and write the tensor again",
		       name, f->dir, (unsigned long long)bytes, (unsigned long long)end);
}

/* Fills the list from off on; the file is known to reach that far. */
static int read_list(int fd, struct iovec *iov, int n, uint64_t off)
{
	while (n) {
		ssize_t got = preadv(fd, iov, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		off += (uint64_t)got;
		while (n && (size_t)got >= iov->iov_len) {
			got -= (ssize_t)iov->iov_len;
			iov++;
			n--;
		}
		if (n) {
			iov->iov_base = (uint8_t *)iov->iov_base + got;
			iov->iov_len -= (size_t)got;
		}
	}
	return 0;
}

/* Reads ranges[0..n) of one blob, in order of offsets: as many as fit one call; their number. */
static int read_some(struct pt_file_store *f, const struct pt_fdcache_file *file, const struct pt_data_range *const *ranges, size_t n)
{
	static uint8_t unused[GAP_MAX];         /* written by many threads, read by none */
	struct iovec iov[IOVS];
	uint64_t start = ranges[0]->off;
	uint64_t end = start;
	size_t taken = 0;
	int iovs = 0;
	int rc;

	while (taken < n && iovs + 2 <= IOVS) {
		const struct pt_data_range *r = ranges[taken];

		if (r->off < end || r->off - end > GAP_MAX)
			if (taken)
				break;
		if (r->len > file->bytes || r->off > file->bytes - r->len)
			return fail_cut(f, &r->blob, r->off + r->len, file->bytes);
		if (r->off > end)
			iov[iovs++] = (struct iovec){ unused, (size_t)(r->off - end) };
		if (r->len)
			iov[iovs++] = (struct iovec){ r->buf, (size_t)r->len };
		end = r->off + r->len;
		taken++;
	}
	rc = read_list(file->fd, iov, iovs, start);
	if (rc == -ENODATA) {
		struct stat st = { 0 };

		fstat(file->fd, &st);
		return fail_cut(f, &ranges[0]->blob, end, (uint64_t)st.st_size);
	}
	return rc < 0 ? pt_file_fail(f, &ranges[0]->blob, "read", -rc) : (int)taken;
}

/* One window: sorted pointers. */
static int read_window(struct pt_file_store *f, const struct pt_data_range *const *sorted, size_t n)
{
	struct pt_fdcache_file *file;
	size_t i = 0;
	int rc = 0;

	while (rc == 0 && i < n) {
		size_t end = i + 1;

		while (end < n && pt_blob_ref_equal(&sorted[end]->blob, &sorted[i]->blob))
			end++;
		rc = pt_fdcache_get(f->cache, &sorted[i]->blob, &file);
		if (rc < 0)
			return rc;
		while (rc == 0 && i < end) {
			int taken = read_some(f, file, sorted + i, end - i);

			if (taken < 0)
				rc = taken;
			else
				i += (size_t)taken;
		}
		pt_fdcache_put(f->cache, file);
	}
	return rc;
}

void pt_file_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	const struct pt_data_range *sorted[WINDOW];
	struct pt_file_store *f = h;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < count; at += WINDOW) {
		size_t n = count - at < WINDOW ? count - at : WINDOW;
		bool in_order = true;

		for (size_t i = 0; i < n; i++) {
			sorted[i] = &ranges[at + i];
			if (i && compare_ranges(sorted[i - 1], sorted[i]) > 0)
				in_order = false;
		}
		if (!in_order)
			qsort(sorted, n, sizeof(sorted[0]), compare_pointers);
		rc = read_window(f, sorted, n);
	}
	pt_done_call(done, rc);
}

/* fs/spool.c - unlinked files that hold contents while they are written at random, and walking over contents in order. */
#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define STEP PT_MIB

int pt_fs_spool_create(struct pt_fs *fs, int *ret_fd)
{
	char *path;
	int fd;

	fd = open(fs->spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		path = pt_asprintf("%s/ptiofs-XXXXXX", fs->spool_dir);
		if (!path)
			return pt_fail_nomem();
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
		free(path);
	}
	if (fd < 0)
		return pt_fail(errno, "cannot make a spool file in %s: %s (set TMPDIR to a directory with room)", fs->spool_dir, strerror(errno));
	*ret_fd = fd;
	return 0;
}

int pt_fs_spool_each(int fd, uint64_t size, pt_fs_spool_fn *fn, void *ctx)
{
	uint64_t off = 0, end;
	void *buf;
	off_t data, hole;
	int64_t n;
	int rc = 0;

	buf = pt_malloc(STEP);
	if (!buf)
		return pt_fail_nomem();
	while (rc == 0 && off < size) {
		data = lseek(fd, (off_t)off, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			data = (off_t)size;
		else if (data < 0)
			data = (off_t)off;      /* cannot tell holes: all is data */
		if ((uint64_t)data > off) {
			end = pt_size_min((uint64_t)data, size);
			rc = fn(ctx, NULL, end - off);
			off = end;
			continue;
		}
		hole = lseek(fd, (off_t)off, SEEK_HOLE);
		end = hole > (off_t)off ? pt_size_min((uint64_t)hole, size) : size;
		while (rc == 0 && off < end) {
			n = pt_io_pread(fd, buf, pt_size_min(STEP, end - off), off);
			if (n <= 0) {
				rc = pt_fail(n < 0 ? (int)-n : EIO, "cannot read a spool file back");
				break;
			}
			rc = fn(ctx, buf, (uint64_t)n);
			off += (uint64_t)n;
		}
	}
	free(buf);
	return rc;
}

/* Of a blob that is pinned, and is what a node names: where it is not there, that is damage. */
int pt_fs_blob_read(struct pt_fs *fs, const struct pt_data_range *range)
{
	int rc = pt_data_read(&fs->store->data, range, 1);

	return rc == -ENOENT ? pt_fail(EIO, "what the file contains is missing from the store: restore this file, or write it again") : rc;
}

int pt_fs_blob_each(struct pt_fs *fs, const struct pt_blob_ref *blob, uint64_t size, pt_fs_spool_fn *fn, void *ctx)
{
	struct pt_data_range r = { .blob = *blob };
	int rc = 0;

	r.buf = pt_malloc(STEP);
	if (!r.buf)
		return pt_fail_nomem();
	while (rc == 0 && r.off < size) {
		r.len = pt_size_min(STEP, size - r.off);
		rc = pt_fs_blob_read(fs, &r);
		if (rc == 0)
			rc = fn(ctx, r.buf, r.len);
		r.off += r.len;
	}
	free(r.buf);
	return rc;
}

struct copy {
	int fd;
	uint64_t off;
};

static bool all_zero(const void *data, uint64_t len)
{
	const char *p = data;

	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static int copy_piece(void *ctx, const void *data, uint64_t len)
{
	struct copy *c = ctx;
	uint64_t at, n;
	int rc = 0;

	for (at = 0; rc == 0 && at < len; at += n) {
		n = pt_size_min(len - at, 64 * PT_KIB);
		if (!all_zero((const char *)data + at, n))      /* holes stay holes */
			rc = pt_io_pwrite(c->fd, (const char *)data + at, n, c->off + at);
	}
	c->off += len;
	return rc;
}

int pt_fs_spool_from_blob(struct pt_fs *fs, const struct pt_blob_ref *blob, uint64_t size, int fd)
{
	struct copy c = { fd, 0 };
	int rc;

	rc = pt_fs_blob_each(fs, blob, size, copy_piece, &c);
	if (rc == 0 && ftruncate(fd, (off_t)size) < 0)
		rc = pt_fail(errno, "cannot copy a file to its spool: %s", strerror(errno));
	return rc;
}

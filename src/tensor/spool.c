/* tensor/spool.c - strided tensors: their storage goes to an unlinked file, then comes back row by row through a map. */
#include "tensor/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define WINDOW (256 * PT_KIB)
/* Gathering may touch a page for every element; maps beyond this size are dropped from memory between windows. */
#define KEEP_MAPPED (32 * PT_MIB)

static int open_in(const char *dir)
{
	char path[4096];
	int fd;

	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	if ((size_t)snprintf(path, sizeof(path), "%s/ptio-XXXXXX", dir) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int pt_spool_open(struct pt_spool *s, const char *dir, uint64_t bytes)
{
	const char *tmp = getenv("TMPDIR");
	int fd = dir ? open_in(dir) : -1, err;

	if (!tmp || !*tmp)
		tmp = "/tmp";
	if (fd < 0)
		fd = open_in(tmp);
	if (fd < 0)
		return pt_fail(errno, "no temporary file can be made in %s for a tensor that is not contiguous (%s); set TMPDIR, or make the tensor "
			       "contiguous first", tmp, strerror(errno));
	if (bytes > INT64_MAX || ftruncate(fd, (off_t)bytes) < 0) {
		err = bytes > INT64_MAX ? EFBIG : errno;
		close(fd);
		return pt_fail(err, "the temporary file of a tensor that is not contiguous cannot grow to %llu bytes; make the tensor contiguous first",
			       (unsigned long long)bytes);
	}
	s->fd = fd;
	s->bytes = bytes;
	return 0;
}

int pt_spool_write(struct pt_spool *s, const void *data, uint64_t len, uint64_t off)
{
	uint64_t end;
	int rc;

	if (!pt_size_add(off, len, &end) || end > s->bytes)
		return pt_fail(EINVAL, "storage bytes beyond the storage's end");
	if (!data)
		return 0;               /* written once, and in order: still a hole */
	rc = pt_io_pwrite(s->fd, data, len, off);
	return rc < 0 ? pt_fail(-rc, "writing the temporary file of a tensor that is not contiguous failed (%s)", strerror(-rc)) : 0;
}

static int gather(const void *storage, uint64_t bytes, const struct pt_parse_tensor *t, pt_slice_out_fn *out, void *ctx, uint64_t window,
		  void *drop_map)
{
	const struct pt_dtype_info *info = pt_dtype_info(t->dtype);
	/* fp4 strides count pairs, which are bytes (format/parse.h). */
	struct pt_parse_tensor pairs = *t;
	uint64_t elem_bytes = info->bits < 8 ? 1 : info->bits / 8, elems, at, n, per, end;
	uint8_t *buf;
	int rc = 0;

	if (info->bits < 8 && pairs.shape.ndim)
		pairs.shape.dim[pairs.shape.ndim - 1] /= 2;
	if (!pt_shape_elems(&pairs.shape, &elems))
		return pt_fail(EOVERFLOW, "the shape's element count is beyond 2^64");
	if (!pt_gather_reach(t, &end) || end > bytes)
		return pt_fail(EINVAL, "the strided tensor reaches outside its storage of %llu bytes", (unsigned long long)bytes);
	per = window / elem_bytes;
	buf = pt_malloc(window);
	if (!buf)
		return pt_fail_nomem();
	for (at = 0; !rc && at < elems; at += n) {
		n = pt_size_min(per, elems - at);
		pt_gather_strided(storage, t, at, n, buf);
		rc = out(ctx, buf, n * elem_bytes);
		if (drop_map)
			madvise(drop_map, bytes, MADV_DONTNEED);
	}
	free(buf);
	return rc;
}

int pt_strided_gather(const void *storage, uint64_t bytes, const struct pt_parse_tensor *t, pt_slice_out_fn *out, void *ctx)
{
	return gather(storage, bytes, t, out, ctx, WINDOW, NULL);
}

int pt_spool_gather(struct pt_spool *s, const struct pt_parse_tensor *t, pt_slice_out_fn *out, void *ctx)
{
	bool drop = s->bytes > KEEP_MAPPED;
	void *map = NULL;
	int rc;

	if (s->bytes) {
		map = mmap(NULL, s->bytes, PROT_READ, MAP_SHARED, s->fd, 0);
		if (map == MAP_FAILED)
			return pt_fail(errno, "mapping the temporary file of a tensor that is not contiguous failed (%s)", strerror(errno));
	}
	rc = gather(map, s->bytes, t, out, ctx, drop ? WINDOW / 4 : WINDOW, drop ? map : NULL);
	if (map)
		munmap(map, s->bytes);
	return rc;
}

void pt_spool_done(struct pt_spool *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

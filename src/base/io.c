/* base/io.c - whole reads and writes, syncs, clocks. */
#include "base/io.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/error.h"

/* One call's count: the kernel moves at most 2 GiB - 4 KiB at once. */
#define IO_CALL_MAX ((size_t)1 << 30)

static int io_check_range(size_t len, uint64_t off)
{
	if (len > INT64_MAX || off > (uint64_t)INT64_MAX - len)
		return pt_fail(EOVERFLOW, "%zu bytes at %" PRIu64 " end beyond the largest file offset", len, off);
	return 0;
}

int64_t pt_io_pread(int fd, void *buf, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	rc = io_check_range(len, off);
	if (rc < 0)
		return rc;
	while (done < len) {
		size_t want = len - done < IO_CALL_MAX ? len - done : IO_CALL_MAX;

		n = pread(fd, (char *)buf + done, want, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pt_fail(errno, "reading %zu bytes at %" PRIu64 " failed: %m", len, off);
		if (!n)
			break;
		done += (size_t)n;
	}
	return (int64_t)done;
}

int pt_io_pwrite(int fd, const void *buf, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	rc = io_check_range(len, off);
	if (rc < 0)
		return rc;
	while (done < len) {
		size_t want = len - done < IO_CALL_MAX ? len - done : IO_CALL_MAX;

		n = pwrite(fd, (const char *)buf + done, want, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return pt_fail(errno, "writing %zu bytes at %" PRIu64 " failed: %m", len, off);
		if (!n)
			return pt_fail(EIO, "writing %zu bytes at %" PRIu64 " stopped after %zu", len, off, done);
		done += (size_t)n;
	}
	return 0;
}

int pt_io_fsync(int fd)
{
	/* After a failed fsync the kernel forgets the error: never retried, but an interrupted one may be. */
	while (fsync(fd) < 0) {
		if (errno != EINTR)
			return pt_fail(errno, "making a file durable (fsync) failed: %m");
	}
	return 0;
}

int pt_io_fsync_dir(int dirfd)
{
	while (fsync(dirfd) < 0) {
		if (errno != EINTR)
			return pt_fail(errno, "making a directory durable (fsync) failed: %m");
	}
	return 0;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t pt_time_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t pt_time_boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

struct timespec pt_time_until(int64_t ns)
{
	int64_t at = clock_ns(CLOCK_MONOTONIC) + (ns > 0 ? ns : 0);

	return (struct timespec){ .tv_sec = at / 1000000000, .tv_nsec = at % 1000000000 };
}

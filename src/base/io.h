/* base/io.h - whole reads and writes on descriptors, retried on EINTR and short counts; and times. */
#ifndef PT_BASE_IO_H
#define PT_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Bytes read (short only at the end of file), or -errno. */
int64_t pt_io_pread(int fd, void *buf, size_t len, uint64_t off);
/* 0 or -errno. */
int pt_io_pwrite(int fd, const void *buf, size_t len, uint64_t off);
int pt_io_fsync(int fd);
int pt_io_fsync_dir(int dirfd);
/* Nanoseconds since the epoch; nanoseconds of CLOCK_BOOTTIME. */
int64_t pt_time_now_ns(void);
int64_t pt_time_boot_ns(void);
/* CLOCK_MONOTONIC in so many ns, for a condition of that clock; 0 or less: now. */
struct timespec pt_time_until(int64_t ns);

#endif

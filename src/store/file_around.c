/* store/file_around.c - bytes of staged files that go to the disk around the kernel's cache (O_DIRECT), where write_way.h says so and the filesystem can.
 *
 * It is a way to be quicker, never one to fail: what cannot go around goes through, and that says what is wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "store/file_int.h"

#define PAGE 4096u                      /* what goes around shares no page with what goes through */

void pt_file_around_init(struct pt_file_around *a)
{
	memset(a, 0, sizeof(*a));
	pthread_mutex_init(&a->lock, NULL);
	pt_write_way_init(&a->way);
}

void pt_file_around_done(struct pt_file_around *a)
{
	for (uint32_t i = 0; i < a->buffers; i++)
		free(a->buffer[i]);
	pt_write_way_done(&a->way);
	pthread_mutex_destroy(&a->lock);
}

/* What the filesystem wants of memory and offsets, asked once; false: it has no such way (memory has not, and nor have kernels before 6.1). */
static bool possible(struct pt_file_around *a, int fd)
{
#ifdef STATX_DIOALIGN
	struct statx sx;

	pthread_mutex_lock(&a->lock);
	if (!a->asked && statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 && sx.stx_mask & STATX_DIOALIGN && sx.stx_dio_offset_align <= PAGE)
		a->memory_align = sx.stx_dio_mem_align <= PAGE ? sx.stx_dio_mem_align : 0;
	a->asked = true;
	pthread_mutex_unlock(&a->lock);
#else
	(void)fd;
#endif
	return a->memory_align;
}

/* A second descriptor of the file, once it is wanted. -1: there is none. */
static int open_around(struct pt_file_store *f, struct pt_file_staged *s)
{
	char name[PT_FILE_NAME_LEN];
	int fd;

	pthread_mutex_lock(&f->around.lock);
	if (s->around_fd < 0) {
		pt_file_name(&s->ref, name);
		s->around_fd = openat(f->token.fd, name, O_WRONLY | O_DIRECT | O_CLOEXEC);
	}
	fd = s->around_fd;
	pthread_mutex_unlock(&f->around.lock);
	return fd;
}

static void *buffer_get(struct pt_file_around *a)
{
	void *buffer = NULL;

	pthread_mutex_lock(&a->lock);
	if (a->buffers)
		buffer = a->buffer[--a->buffers];
	pthread_mutex_unlock(&a->lock);
	return buffer || posix_memalign(&buffer, PAGE, PT_MIB) == 0 ? buffer : NULL;
}

static void buffer_put(struct pt_file_around *a, void *buffer)
{
	pthread_mutex_lock(&a->lock);
	if (a->buffers < PT_FILE_AROUND_BUFFERS) {
		a->buffer[a->buffers++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&a->lock);
	free(buffer);
}

/* From memory that the device cannot take it from. */
static int write_copied(struct pt_file_around *a, int fd, const uint8_t *p, uint64_t len, uint64_t off)
{
	void *buffer = buffer_get(a);
	int rc = buffer ? 0 : -ENOMEM;
	uint64_t n;

	for (; rc == 0 && len; p += n, len -= n, off += n) {
		n = pt_size_min(len, PT_MIB);
		memcpy(buffer, p, n);
		rc = pt_file_write_around_zeros(fd, buffer, n, off);
	}
	if (buffer)
		buffer_put(a, buffer);
	return rc;
}

bool pt_file_write_around(struct pt_file_store *f, struct pt_file_staged *s, const void *buf, uint64_t len, uint64_t off)
{
	struct pt_file_around *a = &f->around;
	int64_t begin;
	int fd, rc;

	if ((len | off) % PAGE || !possible(a, s->fd) || !pt_write_way_around(&a->way, len))
		return false;
	fd = open_around(f, s);
	if (fd < 0)
		return false;
	begin = pt_time_boot_ns();
	if ((uintptr_t)buf % a->memory_align)
		rc = write_copied(a, fd, buf, len, off);
	else
		rc = pt_file_write_around_zeros(fd, buf, len, off);
	if (rc < 0) {
		pt_fail_clear();
		return false;
	}
	pt_write_way_went_around(&a->way, len, (uint64_t)(pt_time_boot_ns() - begin));
	__atomic_add_fetch(&a->bytes, len, __ATOMIC_RELAXED);
	return true;
}

uint64_t pt_file_thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* cache/memory.c - files and buffers in huge pages. */
#include "cache/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/mount.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23          /* kernel 5.14 */
#endif

#define LEFT ((uint64_t)32 << 20)       /* bytes that views leave to all else in a control group */

/* As system calls, for the C library has them only since 2.36. */
static int tmpfs_mount(uint64_t limit, bool huge)
{
	char size[32];
	int fs, fd = -1;

	fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	snprintf(size, sizeof(size), "%" PRIu64, limit);
	if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
	    syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "700", 0) == 0 &&
	    (!huge || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "huge", "always", 0) == 0) &&
	    syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOATIME);
	close(fs);
	return fd;
}

void pt_memory_open(struct pt_memory *m, uint64_t limit)
{
	int fd;

	*m = (struct pt_memory){ .kind = PT_MEMORY_NONE, .mount = -1 };
	pt_budget_find(&m->budget, "");
	if (!limit)
		return;
	m->huge = true;
	m->mount = tmpfs_mount(limit, true);
	if (m->mount < 0) {
		m->huge = false;
		m->mount = tmpfs_mount(limit, false);
	}
	if (m->mount >= 0) {
		m->kind = PT_MEMORY_TMPFS;
		return;
	}
	fd = memfd_create("ptio", MFD_CLOEXEC);
	if (fd >= 0) {
		m->kind = PT_MEMORY_MEMFD;
		close(fd);
	}
}

void pt_memory_close(struct pt_memory *m)
{
	if (m->mount >= 0)
		close(m->mount);
	m->mount = -1;
	m->kind = PT_MEMORY_NONE;
}

int pt_memory_file(struct pt_memory *m, uint64_t bytes)
{
	int fd = -1;

	if (m->kind == PT_MEMORY_TMPFS)
		fd = openat(m->mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	else if (m->kind == PT_MEMORY_MEMFD)
		fd = memfd_create("ptio", MFD_CLOEXEC);
	else
		return -EOPNOTSUPP;
	if (fd < 0)
		return pt_fail(errno, "cannot make a file in memory: %s", strerror(errno));
	if (ftruncate(fd, (off_t)bytes) < 0) {
		int rc = pt_fail(errno, "cannot size a file in memory: %s", strerror(errno));

		close(fd);
		return rc;
	}
	return fd;
}

int pt_memory_map(struct pt_memory *m, uint64_t bytes, int *ret_fd, uint8_t **ret_map)
{
	int fd = pt_memory_file(m, bytes);
	void *map;

	if (fd < 0)
		return fd;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		close(fd);
		return pt_fail_nomem();
	}
	if (m->kind == PT_MEMORY_MEMFD)
		madvise(map, bytes, MADV_HUGEPAGE);
	*ret_fd = fd;
	*ret_map = map;
	return 0;
}

int pt_memory_resize(int fd, uint8_t **map, uint64_t from, uint64_t to)
{
	void *moved;

	if (from == to)
		return 0;
	if (ftruncate(fd, (off_t)to) < 0)
		return pt_fail(errno, "cannot size a file in memory: %s", strerror(errno));
	moved = mremap(*map, from, to, MREMAP_MAYMOVE);
	if (moved == MAP_FAILED)
		return pt_fail_nomem();
	*map = moved;
	return 0;
}

/* Beyond its group's limit a process gets no error: it is killed. */
bool pt_memory_short(const struct pt_memory *m, uint64_t len)
{
	return m->budget.bounded && pt_budget_group_available(&m->budget) < len + LEFT;
}

/* fallocate() would hold the inode's lock while it takes pages, and leave them to be cleared by page faults: threads that fill one file would wait for each other. */
int pt_memory_take(const struct pt_memory *m, int fd, void *map, uint64_t off, uint64_t len, uint64_t fresh)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = off & ~(page - 1);
	int rc;

	if (fresh && pt_memory_short(m, fresh))
		return pt_fail(ENOSPC, "no more memory for views: the control group of this process allows no more");

	do {
		rc = madvise((uint8_t *)map + start, off + len - start, MADV_POPULATE_WRITE);
	} while (rc < 0 && (errno == EINTR || errno == EAGAIN));
	if (rc < 0 && errno == EINVAL)
		rc = fallocate(fd, 0, (off_t)off, (off_t)len);
	else if (rc < 0 && errno == EFAULT)
		errno = ENOSPC;
	return rc < 0 ? pt_fail(errno, "cannot take memory for a view: %s", strerror(errno)) : 0;
}

uint64_t pt_memory_free(const struct pt_memory *m)
{
	uint64_t available = pt_budget_available(&m->budget);
	struct statfs s;

	if (m->kind != PT_MEMORY_TMPFS || fstatfs(m->mount, &s) < 0)
		return available;
	return pt_size_min((uint64_t)s.f_bavail * (uint64_t)s.f_bsize, available);
}

const char *pt_memory_name(const struct pt_memory *m)
{
	if (m->kind == PT_MEMORY_TMPFS)
		return m->huge ? "tmpfs with huge pages" : "tmpfs";
	return m->kind == PT_MEMORY_MEMFD ? "memfd" : "none";
}

int pt_buffers_init(struct pt_buffers *b, uint32_t max)
{
	uint32_t slabs = max < PT_BUFFERS_A_SLAB ? 1 : max / PT_BUFFERS_A_SLAB;

	max = slabs * PT_BUFFERS_A_SLAB;
	memset(b, 0, sizeof(*b));
	b->free = pt_calloc(max, sizeof(*b->free));
	b->slab = pt_calloc(slabs, sizeof(*b->slab));
	if (!b->free || !b->slab) {
		free(b->free);
		free(b->slab);
		memset(b, 0, sizeof(*b));
		return pt_fail_nomem();
	}
	b->max = max;
	pthread_mutex_init(&b->lock, NULL);
	return 0;
}

void pt_buffers_done(struct pt_buffers *b)
{
	if (!b->free)
		return;
	while (b->slab_count) {
		if (b->watch.remove)
			b->watch.remove(b->watch.ctx, b->slab[b->slab_count - 1]);
		free(b->slab[--b->slab_count]);
	}
	free(b->free);
	free(b->slab);
	pthread_mutex_destroy(&b->lock);
	memset(b, 0, sizeof(*b));
}

static void more_locked(struct pt_buffers *b)
{
	void *slab;
	uint32_t i;

	if (b->made == b->max || posix_memalign(&slab, PT_MEMORY_HUGE, PT_BUFFER_SLAB))
		return;
	madvise(slab, PT_BUFFER_SLAB, MADV_HUGEPAGE);
	if (b->watch.add)
		b->watch.add(b->watch.ctx, slab, PT_BUFFER_SLAB);
	b->slab[b->slab_count++] = slab;
	for (i = PT_BUFFERS_A_SLAB; i > 0; i--)
		b->free[b->free_count++] = (char *)slab + (i - 1) * (PT_BUFFER_BYTES + PT_BUFFER_PAD);
	b->made += PT_BUFFERS_A_SLAB;
}

void *pt_buffers_get(struct pt_buffers *b)
{
	void *buffer = NULL;

	pthread_mutex_lock(&b->lock);
	if (!b->free_count)
		more_locked(b);
	if (b->free_count)
		buffer = b->free[--b->free_count];
	pthread_mutex_unlock(&b->lock);
	return buffer;
}

void pt_buffers_put(struct pt_buffers *b, void *buffer)
{
	pthread_mutex_lock(&b->lock);
	b->free[b->free_count++] = buffer;
	pthread_mutex_unlock(&b->lock);
}

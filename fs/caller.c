/* fs/caller.c - which system call a thread waits in: only where a look-up cannot be answered rightly without knowing.
 *
 * mkdir(2) and open(2) with O_EXCL of something that a look-up has found fail in the kernel before anybody is asked. But axis directories and those of files' tensors exist
 * to stat and to path walks, and views that are computed, or wait for other parts, are found though nothing is stored under their names; cp -r,
 * copytree and tar make all that they copy. So a look-up on behalf of such a call finds nothing where nothing is listed (docs/PATHS.md "Listing"), and the
 * MKDIR or CREATE that follows succeeds. Where /proc does not tell (another pid namespace, no right to trace), such calls say EEXIST.
 *
 * A path may lead to a directory that is not there any more, or to a view that was superseded (where.c), a descriptor never does. What changes attributes by descriptor the kernel
 * does not try again after ESTALE; where /proc does not tell, such a call fails once, and views are not kept, so that paths do not lead to superseded ones. */
#include "fs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#define PAGE 4096u

#define ARGS 6
#define PATHS 4                         /* arguments among which they are */
#define ASLEEP_TRIES 200
#define ASLEEP_WAIT_NS 50000L

/* The number and first arguments of the call that the thread is in; number -1 when unknown. */
struct call {
	long number;
	unsigned long arg[ARGS];
	uint64_t hash;                  /* of all arguments, and of where it was called */
};

static int call_open(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)tid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static struct call call_of(pid_t tid)
{
	struct call c = { .number = -1 };
	char text[160], *p;
	ssize_t n;
	int fd, i;

	fd = call_open(tid);
	if (fd < 0)
		return c;
	/* It says "running" until the thread, whose request is here already, has gone to sleep. */
	for (i = 0; (n = pread(fd, text, sizeof(text) - 1, 0)) > 0 && text[0] == 'r' && i < ASLEEP_TRIES; i++)
		nanosleep(&(struct timespec){ .tv_nsec = ASLEEP_WAIT_NS }, NULL);
	close(fd);
	if (n <= 0 || text[0] < '0' || text[0] > '9')
		return c;
	text[n] = '\0';
	c.number = strtol(text, &p, 10);
	c.hash = pt_hash64(text, (size_t)n);
	for (i = 0; i < ARGS; i++)
		c.arg[i] = strtoul(p, &p, 16);
	return c;
}

bool pt_fs_caller_tells(struct pt_fs *fs, pid_t tid)
{
	char text[8] = "";
	bool tells;
	int fd;

	if (atomic_load(&fs->callers_silent))
		return false;
	fd = call_open(tid);
	tells = fd >= 0 && pread(fd, text, sizeof(text), 0) > 0;
	if (fd >= 0)
		close(fd);
	atomic_store(tells ? &fs->callers_tell : &fs->callers_silent, true);
	return tells && text[0] != 'r';         /* "running": it has been kept from going to sleep all the time that call_of() waits */
}

static uint32_t slot(pid_t tid)
{
	return (uint32_t)tid % (PT_FS_MKDIR_SLOTS * 64);
}

void pt_fs_caller_made_dir(struct pt_fs *fs, pid_t tid)
{
	atomic_fetch_or(&fs->mkdir_tids[slot(tid) / 64], (uint64_t)1 << slot(tid) % 64);
}

/* The path at an address of the caller, or as much as can be read; a length. */
static size_t path_of(pid_t tid, unsigned long at, char *path, size_t room)
{
	size_t len = 0, step, end;
	struct iovec to, from;
	ssize_t n;

	while (len < room) {
		step = PAGE - at % PAGE;        /* what follows may not be mapped */
		step = step < room - len ? step : room - len;
		to = (struct iovec){ path + len, step };
		from = (struct iovec){ (void *)at, step };
		n = process_vm_readv(tid, &to, 1, &from, 1, 0);
		if (n <= 0)
			return 0;
		end = strnlen(path + len, (size_t)n);
		len += end;
		at += (unsigned long)n;
		if (end < (size_t)n)
			return len;
	}
	return 0;
}

/* Of all components of the path only the last one is `name`. True where the path cannot be read. */
static bool is_last(pid_t tid, unsigned long at, const char *name)
{
	char path[PATH_MAX];
	size_t len = path_of(tid, at, path, sizeof(path)), start;
	bool last = true;

	if (!len)
		return true;
	while (len > 0 && path[len - 1] == '/')
		len--;
	for (; len > 0; len = start, last = false) {
		for (start = len; start > 0 && path[start - 1] != '/'; start--)
			;
		if ((strlen(name) == len - start && memcmp(path + start, name, len - start) == 0) != last)
			return false;
		while (start > 0 && path[start - 1] == '/')
			start--;
	}
	return true;
}

bool pt_fs_caller_makes_dir(struct pt_fs *fs, pid_t tid, const char *name)
{
	struct call c;

	/* Path walks cross axis directories all the time: threads that have made no directory here are not asked. */
	if (!(atomic_load(&fs->mkdir_tids[slot(tid) / 64]) & (uint64_t)1 << slot(tid) % 64))
		return false;
	c = call_of(tid);
#ifdef SYS_mkdir
	if (c.number == SYS_mkdir)
		return is_last(tid, c.arg[0], name);
#endif
	return c.number == SYS_mkdirat && is_last(tid, c.arg[1], name);
}

bool pt_fs_caller_excludes(pid_t tid)
{
	const unsigned long want = O_CREAT | O_EXCL;
	struct call c = call_of(tid);

#ifdef SYS_open
	if (c.number == SYS_open)
		return (c.arg[1] & want) == want;
#endif
	return c.number == SYS_openat && (c.arg[2] & want) == want;
}

/* The path at this address is none: the descriptor is meant. */
static bool is_empty(pid_t tid, const struct call *c, int path, int flags)
{
	char first = 0;
	struct iovec to = { &first, 1 }, from = { (void *)c->arg[path], 1 };

	return c->arg[flags] & AT_EMPTY_PATH && (!c->arg[path] || (process_vm_readv(tid, &to, 1, &from, 1, 0) == 1 && !first));
}

bool pt_fs_caller_has_open(pid_t tid)
{
	struct call c = call_of(tid);

	switch (c.number) {
	case SYS_fchmod: case SYS_fchown: case SYS_fsetxattr: case SYS_fremovexattr: case SYS_fgetxattr: case SYS_flistxattr: case SYS_fstat: case SYS_fchdir:
		return true;
	case SYS_utimensat:
		return c.arg[1] == 0 || is_empty(tid, &c, 1, 3);
#ifdef SYS_newfstatat
	case SYS_newfstatat:
		return is_empty(tid, &c, 1, 3);
#endif
#ifdef SYS_statx
	case SYS_statx:
		return is_empty(tid, &c, 1, 2);
#endif
#ifdef SYS_faccessat2
	case SYS_faccessat2:
		return is_empty(tid, &c, 1, 3);
#endif
	case SYS_fchownat:
		return is_empty(tid, &c, 1, 4);
	default:
		return false;
	}
}

bool pt_fs_caller_opens(pid_t tid)
{
	struct call c = call_of(tid);

	switch (c.number) {
	case -1:
#ifdef SYS_open
	case SYS_open: case SYS_creat:
#endif
#ifdef SYS_openat2
	case SYS_openat2:
#endif
	case SYS_openat:
		return true;
	default:
		return false;
	}
}

bool pt_fs_caller_rewrites(pid_t tid)
{
	struct call c = call_of(tid);
	unsigned long flags;

	switch (c.number) {
#ifdef SYS_open
	case SYS_creat:
		return true;
	case SYS_open:
		flags = c.arg[1];
		break;
#endif
	case SYS_openat:
		flags = c.arg[2];
		break;
	case SYS_truncate:
		return c.arg[1] == 0;
	default:
		return false;
	}
	return (flags & O_ACCMODE) != O_RDONLY && (flags & O_TRUNC || ((flags & O_ACCMODE) == O_WRONLY && !(flags & O_APPEND)));
}

uint64_t pt_fs_caller_call(pid_t tid)
{
	struct call c = call_of(tid);
	char first[PATHS] = { 0 };
	struct iovec to, from;
	int i;

	if (c.number < 0)
		return 0;
	/* Whether a path begins at the root; nothing else of what an argument points to, for it may be no path, and change while the call lasts. */
	for (i = 0; i < PATHS; i++) {
		to = (struct iovec){ &first[i], 1 };
		from = (struct iovec){ (void *)c.arg[i], 1 };
		first[i] = c.arg[i] >= PAGE && process_vm_readv(tid, &to, 1, &from, 1, 0) == 1 && first[i] == '/';
	}
	return c.hash ^ pt_hash64(first, sizeof(first));
}

static bool is_first(pid_t tid, unsigned long at, const char *name)
{
	char path[PATH_MAX + 1];
	size_t len = path_of(tid, at, path, PATH_MAX), start = 0, end, found = 0;
	bool first = true;

	if (!len || path[0] == '/')
		return false;
	for (; start < len; start = end + 1) {
		for (end = start; end < len && path[end] != '/'; end++)
			;
		path[end] = '\0';
		if (end == start || strcmp(path + start, ".") == 0 || (first && strcmp(path + start, "..") == 0))
			continue;
		if ((strcmp(path + start, name) == 0) != first)
			return false;
		first = false;
		found++;
	}
	return found > 0;
}

bool pt_fs_caller_begins(pid_t tid, const char *name)
{
	struct call c = call_of(tid);
	int i;

	for (i = 0; c.number >= 0 && i < PATHS; i++)
		if (c.arg[i] >= PAGE && is_first(tid, c.arg[i], name))
			return true;
	return false;
}

bool pt_fs_caller_makes(pid_t tid, const char *name)
{
	struct call c = call_of(tid);

	switch (c.number) {
#ifdef SYS_mkdir
	case SYS_mkdir: case SYS_mknod:
		return is_last(tid, c.arg[0], name);
	case SYS_symlink: case SYS_link:
		return is_last(tid, c.arg[1], name);
#endif
	case SYS_mkdirat: case SYS_mknodat:
		return is_last(tid, c.arg[1], name);
	case SYS_symlinkat:
		return is_last(tid, c.arg[2], name);
	case SYS_linkat:
		return is_last(tid, c.arg[3], name);
	default:
		return false;
	}
}

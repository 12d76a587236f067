/* store/held.c - see held.h. */
#include "store/held.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"

static void process_name(long pid, char *ret_name, size_t room)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(ret_name, (int)room, f))
		snprintf(ret_name, room, "?");
	ret_name[strcspn(ret_name, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* "process 12 (ptiofs), process 13 (ptiod)": who holds locks on this directory, as far as the system tells. */
static void holders(int fd, struct pt_buf *out)
{
	char line[256], name[64];
	unsigned int major_, minor_;
	unsigned long long inode;
	struct stat st;
	long pid;
	FILE *f = fopen("/proc/locks", "re");

	if (f && fstat(fd, &st) == 0)
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major_, &minor_, &inode) == 4 && inode == st.st_ino &&
			    major_ == major(st.st_dev) && minor_ == minor(st.st_dev) && pid > 0) {
				process_name(pid, name, sizeof(name));
				pt_buf_printf(out, "%sprocess %ld (%s)", out->len ? ", " : "", pid, name);
			}
	if (!out->len)
		pt_buf_append_str(out, "another process");
	pt_buf_append_u8(out, 0);
	if (f)
		fclose(f);
}

static int busy(const char *dir, int fd, bool alone)
{
	struct pt_buf who = PT_BUF_INIT;
	const char *name;
	int rc;

	holders(fd, &who);
	name = who.failed ? "another process" : (const char *)who.data;
	if (alone)
		rc = pt_fail(EBUSY, "the store %s is in use by %s; unmount it, or end what uses it, and try again", dir, name);
	else
		rc = pt_fail(EBUSY, "the index of the store %s is being rebuilt by %s; wait until that has ended", dir, name);
	pt_buf_done(&who);
	return rc;
}

int pt_held_take(const char *dir, bool alone, int *ret_fd)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return pt_fail(errno, "cannot open the store %s: %s%s", dir, strerror(errno),
			       errno == EACCES ? "; it is another user's: mount it as that user, with -o allow_other for others" : "");
	do
		rc = flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB);
	while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno == EWOULDBLOCK) {
		rc = busy(dir, fd, alone);
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

void pt_held_give(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* fs/main.c - ptiofs STORE MOUNTPOINT [-o ...]: checks the mountpoint, goes into the background, runs the mount.
 *
 * The store is opened after the fork (an index connection and locks do not survive one); the parent waits for the child's word, so that failures reach
 * the terminal and the exit status. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"

#define FILES_LEAST 256                 /* descriptors: the store's, some for each thread, and one for each file of it that is open and each view that is kept in memory */

struct launch {
	int fd;                         /* to the waiting parent; -1 in the foreground */
};

/* The mount answers: the parent may go, and the terminal is let go of. */
static void launch_ready(void *ctx)
{
	struct launch *l = ctx;
	int null;

	if (l->fd < 0)
		return;
	pt_log_setup("ptiofs", PT_LOG_INFO, 1);
	null = open("/dev/null", O_RDWR);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	if (write(l->fd, "", 1) < 0)
		pt_log(PT_LOG_DEBUG, "nobody waits for the mount");
	close(l->fd);
	l->fd = -1;
}

/* Parent: does not return before the child says ready or ends. Child: returns 0 with *ret_fd set. */
static int background(int *ret_fd)
{
	int fds[2], status;
	pid_t pid;
	char byte;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return pt_fail(errno, "cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return pt_fail(errno, "cannot start in the background: %s", strerror(errno));
	if (pid == 0) {
		close(fds[0]);
		setsid();
		*ret_fd = fds[1];
		return 0;
	}
	close(fds[1]);
	do
		n = read(fds[0], &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
	_exit(1);
}

static int directory_empty(const char *path, bool *ret_empty)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return pt_fail(errno, "%s: %s", path, strerror(errno));
	*ret_empty = true;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			*ret_empty = false;
	closedir(d);
	return 0;
}

/* Explains what fusermount3 would only refuse; makes the path absolute. */
static int mountpoint_check(struct pt_fs_options *o)
{
	char version[PATH_MAX];
	struct statvfs space;
	struct stat st;
	char *absolute;
	bool empty;
	int rc, try;

	/* A mount that is just ending is not connected for a moment. The kernel may answer stat by itself, never statvfs. */
	for (try = 0; ((rc = stat(o->mountpoint, &st)) < 0 || (rc = statvfs(o->mountpoint, &space)) < 0) && errno == ENOTCONN && try < 10; try++)
		usleep(100000);
	if (rc < 0) {
		if (errno == ENOTCONN || errno == ECONNABORTED)
			return pt_fail(errno, "%s is left over from a mount whose driver has ended: run `fusermount3 -u %s` and try again", o->mountpoint,
				       o->mountpoint);
		if (errno == ENOENT)
			return pt_fail(errno, "%s does not exist: make the directory first (mkdir -p %s)", o->mountpoint, o->mountpoint);
		return pt_fail(errno, "%s: %s", o->mountpoint, strerror(errno));
	}
	if (!S_ISDIR(st.st_mode))
		return pt_fail(ENOTDIR, "%s is not a directory", o->mountpoint);
	if (snprintf(version, sizeof(version), "%s/" PT_PATH_CONTROL_NAME "/version", o->mountpoint) < (int)sizeof(version) && access(version, F_OK) == 0)
		return pt_fail(EBUSY, "a ptio store is mounted on %s already: unmount it first (fusermount3 -u %s)", o->mountpoint, o->mountpoint);
	rc = directory_empty(o->mountpoint, &empty);
	if (rc < 0)
		return rc;
	if (!empty)
		return pt_fail(ENOTEMPTY, "%s is not empty, and the mount would hide what is in it: use an empty directory", o->mountpoint);
	absolute = realpath(o->mountpoint, NULL);
	if (!absolute)
		return pt_fail(errno, "%s: %s", o->mountpoint, strerror(errno));
	free(o->mountpoint);
	o->mountpoint = absolute;
	return 0;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct pt_fs_options options = { 0 };
	struct launch launch = { -1 };
	int rc;

	/* One heap: each thread's own would grow by a page at a time, with a system call for each, which is as much as a look-up takes. */
	mallopt(M_ARENA_MAX, 1);
	pt_log_setup("ptiofs", PT_LOG_INFO, 0);
	rc = pt_fs_options_parse(&args, &options);
	if (rc == 0)
		rc = pt_process_raise_files(FILES_LEAST);
	if (rc == 0)
		rc = mountpoint_check(&options);
	if (rc == 0 && !options.foreground)
		rc = background(&launch.fd);
	if (rc == 0) {
		if (options.debug)
			pt_log_setup("ptiofs", PT_LOG_DEBUG, 0);
		signal(SIGPIPE, SIG_IGN);
		rc = pt_fs_run(&options, &args, launch_ready, &launch);
	}
	if (rc < 0)
		pt_log(PT_LOG_ERROR, "%s", pt_fail_sentence()[0] ? pt_fail_sentence() : strerror(-rc));
	pt_fs_options_done(&options);
	fuse_opt_free_args(&args);
	return rc < 0 ? 1 : 0;
}

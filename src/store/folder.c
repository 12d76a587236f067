/* store/folder.c - see folder.h. */
#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define FOLDER_MODE 0750

/* What nobody but its owner can have put somewhere else. */
static bool is_just_made(const struct stat *st)
{
	return st->st_uid == 0 && (st->st_mode & (07777 & ~(FOLDER_MODE | S_ISGID))) == 0;
}

int pt_folder_owner_set(int dirfd, int fd)
{
	struct stat dir, st;

	if (geteuid() != 0)
		return 0;
	if (fstat(dirfd, &dir) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((dir.st_uid == st.st_uid && dir.st_gid == st.st_gid) || !is_just_made(&st))
		return 0;
	/* A root without the right to, or without such a user where it is root, or a filesystem without owners that can be set. */
	if (fchown(fd, dir.st_uid, dir.st_gid) == 0 || errno == EPERM || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
		return 0;
	return -errno;
}

/* The folder's path, as far as the system tells. */
static const char *path_of(int dirfd, char buf[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	n = readlink(link, buf, PATH_MAX - 1);
	if (n < 0)
		return "the store";
	buf[n] = '\0';
	return buf;
}

static int fail_link(int dirfd, const char *name)
{
	char path[PATH_MAX];

	return pt_fail(ELOOP, "%s/%s is a symbolic link, and a store has none: put what it leads to in its place (a folder of another disk with mount --bind)", path_of(dirfd, path), name);
}

int pt_folder_fail_no_file(int dirfd, const char *name, unsigned int mode)
{
	char path[PATH_MAX];

	if (S_ISLNK(mode))
		return fail_link(dirfd, name);
	return pt_fail(EIO, "%s/%s is not a file; move it away", path_of(dirfd, path), name);
}

/* rc of what is below. */
static int fail_folder(int dirfd, const char *name, int rc)
{
	struct stat dir, st;
	char path[PATH_MAX];

	if (rc == -ELOOP)
		return fail_link(dirfd, name);
	if (rc == -EPERM && fstat(dirfd, &dir) == 0 && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return pt_fail(EPERM, "%s/%s belongs to user %u, and the folder that it is in to user %u: give all of the store to its owner (chown -R)", path_of(dirfd, path), name,
			       (unsigned int)st.st_uid, (unsigned int)dir.st_uid);
	return pt_fail(-rc, "cannot open %s/%s: %s", path_of(dirfd, path), name, strerror(-rc));
}

/* Root's own are no stranger's. */
static int check_owner(int dirfd, int fd)
{
	struct stat dir, st;

	if (geteuid() != 0)
		return 0;
	if (fstat(dirfd, &dir) < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_uid == dir.st_uid || st.st_uid == 0 ? 0 : -EPERM;
}

int pt_folder_try(int dirfd, const char *name, int flags, int *ret_fd)
{
	int fd = openat(dirfd, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOTDIR)
		return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
	if (fd < 0)
		return -errno;
	rc = check_owner(dirfd, fd);
	if (rc < 0)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

int pt_folder_try_make(int dirfd, const char *name, bool *ret_made, int *ret_fd)
{
	bool made = mkdirat(dirfd, name, FOLDER_MODE) == 0;
	int fd, rc;

	if (!made && errno != EEXIST)
		return -errno;
	rc = pt_folder_try(dirfd, name, O_RDONLY, &fd);
	if (rc < 0)
		return rc;
	if (made)
		rc = pt_folder_owner_set(dirfd, fd);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*ret_made = made;
	*ret_fd = fd;
	return 0;
}

int pt_folder_open(int dirfd, const char *name, int flags, int *ret_fd)
{
	int rc = pt_folder_try(dirfd, name, flags, ret_fd);

	return rc < 0 ? fail_folder(dirfd, name, rc) : 0;
}

int pt_folder_make(int dirfd, const char *name, bool *ret_made, int *ret_fd)
{
	int rc = pt_folder_try_make(dirfd, name, ret_made, ret_fd);

	return rc < 0 ? fail_folder(dirfd, name, rc) : 0;
}

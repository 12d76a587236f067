/* store/token.c - see token.h. */
#include "store/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/folder.h"

#define TRIES 100

/* -errno with a sentence. */
static int open_token(int dirfd, const char *name, bool directory)
{
	int fd, rc;

	if (directory) {
		rc = pt_folder_open(dirfd, name, O_RDONLY, &fd);
		return rc < 0 ? rc : fd;
	}
	fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ELOOP)
		return pt_folder_fail_no_file(dirfd, name, S_IFLNK);
	return fd < 0 ? pt_fail(errno, "cannot open %s in the store: %s", name, strerror(errno)) : fd;
}

/* The same, made. */
static int make_token(int dirfd, const char *name, bool directory)
{
	bool made;
	int fd, rc;

	if (directory) {
		rc = pt_folder_make(dirfd, name, &made, &fd);
		return rc < 0 ? rc : fd;
	}
	fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (fd < 0)
		return pt_fail(errno, "cannot make %s in the store: %s", name, strerror(errno));
	rc = pt_folder_owner_set(dirfd, fd);
	if (rc < 0) {
		unlinkat(dirfd, name, 0);
		close(fd);
		return pt_fail(-rc, "cannot give %s in the store to its owner: %s", name, strerror(-rc));
	}
	return fd;
}

/* Does the name still lead to what the descriptor holds? */
static bool still_named(int dirfd, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(dirfd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int pt_token_create(int dirfd, bool directory, struct pt_token *ret_token)
{
	for (int i = 0; i < TRIES; i++) {
		struct pt_token t;
		struct pt_id id;
		int rc = pt_id_random(&id);

		if (rc < 0)
			return rc;
		pt_id_hex(&id, t.name);
		t.fd = make_token(dirfd, t.name, directory);
		if (t.fd == -ENOENT)
			continue;       /* swept already */
		if (t.fd < 0)
			return t.fd;
		if (flock(t.fd, LOCK_EX | LOCK_NB) == 0 && still_named(dirfd, t.name, t.fd)) {
			*ret_token = t;
			return 0;
		}
		rc = errno;
		close(t.fd);
		if (rc == ENOLCK || rc == EOPNOTSUPP)
			return -rc;
	}
	return -EAGAIN;
}

void pt_token_remove(int dirfd, bool directory, struct pt_token *token)
{
	if (token->fd < 0)
		return;
	unlinkat(dirfd, token->name, directory ? AT_REMOVEDIR : 0);
	close(token->fd);
	token->fd = -1;
}

bool pt_token_name_is(const char *name)
{
	return strlen(name) == PT_ID_HEX_LEN && strspn(name, "0123456789abcdef") == PT_ID_HEX_LEN;
}

int pt_token_claim_dead(int dirfd, const char *name, bool directory, int *ret_fd)
{
	int fd = open_token(dirfd, name, directory);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !still_named(dirfd, name, fd)) {
		close(fd);
		return 0;
	}
	*ret_fd = fd;
	return 1;
}

bool pt_token_is_live(int dirfd, const char *name, bool directory)
{
	int fd = open_token(dirfd, name, directory);
	bool live;

	if (fd < 0)
		return fd != -ENOENT;
	/* A shared lock: two that look at once do not take each other for the owner. */
	live = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	close(fd);
	return live;
}

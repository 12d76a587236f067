/* store/token.c - see token.h. */
#include "store/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define TRIES 100

static int open_token(int dirfd, const char *name, bool directory)
{
	int fd = openat(dirfd, name, directory ? O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW : O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
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
		if (directory) {
			if (mkdirat(dirfd, t.name, 0750) < 0)
				return -errno;
			t.fd = open_token(dirfd, t.name, true);
		} else {
			t.fd = openat(dirfd, t.name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
			if (t.fd < 0)
				t.fd = -errno;
		}
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
		return pt_fail(-fd, "cannot open %s in the store: %s", name, strerror(-fd));
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

/* store/sqlite_file.c - see sqlite_file.h.
 *
 * Never opens an index by itself: closing any descriptor of a file drops the locks that SQLite holds on it in this process. */
#include "store/sqlite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/id.h"
#include "base/io.h"
#include "base/size.h"
#include "store/folder.h"
#include "store/sqlite_vfs.h"

/* What the log holds before it is taken in (PRAGMA wal_autocheckpoint), and a batch: as much may the index have to grow by before anything is freed. */
#define RESERVE_BYTES (1024 * 1024)
/* Left free by the reserve: for pins and the index's shared memory, without which nothing can be read. */
#define ROOM_BYTES (128 * 1024)

/* ---- where it is ---- */
/* The folder of a path. */
static int dir_open(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash ? pt_asprintf("%.*s", slash == path ? 1 : (int)(slash - path), path) : pt_strdup(".");
	int fd, rc = 0;

	if (!dir)
		return pt_fail_nomem();
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		rc = pt_fail(errno, "cannot look at the index %s: %s", path, strerror(errno));
	free(dir);
	return rc < 0 ? rc : fd;
}

int pt_sqlite_file_init(struct pt_sqlite_file *f, int dirfd, const char *path)
{
	int rc = 0;

	*f = (struct pt_sqlite_file){ .dirfd = dirfd < 0 ? dir_open(path) : fcntl(dirfd, F_DUPFD_CLOEXEC, 0) };
	if (f->dirfd < 0) {
		rc = dirfd < 0 ? f->dirfd : pt_fail(errno, "cannot look at the index %s: %s", path, strerror(errno));
		f->dirfd = -1;
		return rc;
	}
	f->path = pt_strdup(path);
	if (f->path) {
		f->name = strrchr(f->path, '/');
		f->name = f->name ? f->name + 1 : f->path;
		f->at = pt_asprintf("/proc/self/fd/%d/%s", f->dirfd, f->name);
	}
	if (f->at && access("/proc/self/fd", X_OK) < 0) {
		free(f->at);
		f->at = pt_strdup(path);
	}
	if (!f->at) {
		pt_sqlite_file_done(f);
		return pt_fail_nomem();
	}
	return 0;
}

void pt_sqlite_file_done(struct pt_sqlite_file *f)
{
	if (f->dirfd >= 0)
		close(f->dirfd);
	free(f->path);
	free(f->at);
	*f = (struct pt_sqlite_file){ .dirfd = -1 };
}

/* name and suffix, as SQLite names what it keeps beside an index. */
static char *name_beside(const struct pt_sqlite_file *f, const char *suffix)
{
	return pt_asprintf("%s%s", f->name, suffix);
}

/* ---- making one ---- */
static int sync_dir_of(const struct pt_sqlite_file *f)
{
	int rc = pt_io_fsync_dir(f->dirfd);

	return rc < 0 ? pt_fail(-rc, "the directory of the index %s cannot be synced: %s", f->path, strerror(-rc)) : 0;
}

/* An empty file beside it that nobody else uses, for SQLite to open. */
static int make_empty_beside(const struct pt_sqlite_file *f, struct pt_sqlite_file *ret_new)
{
	char hex[PT_ID_HEX_LEN + 1];
	struct pt_id id;
	char *path;
	int fd, rc;

	rc = pt_id_random(&id);
	if (rc < 0)
		return rc;
	pt_id_hex(&id, hex);
	path = pt_asprintf("%s.new-%s", f->path, hex);
	rc = path ? pt_sqlite_file_init(ret_new, f->dirfd, path) : pt_fail_nomem();
	free(path);
	if (rc < 0)
		return rc;
	fd = openat(ret_new->dirfd, ret_new->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	rc = fd < 0 ? -errno : pt_folder_owner_set(f->dirfd, fd);
	if (rc < 0) {
		pt_fail(-rc, "cannot make the index %s: %s", f->path, strerror(-rc));
		if (fd >= 0)
			unlinkat(ret_new->dirfd, ret_new->name, 0);
		pt_sqlite_file_done(ret_new);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

static void remove_new(struct pt_sqlite_file *new)
{
	unlinkat(new->dirfd, new->name, 0);
	pt_sqlite_file_done(new);
}

/* Its content synced, gives the file its name, unless that is taken. */
static int publish(const struct pt_sqlite_file *new, const struct pt_sqlite_file *f)
{
	int fd = openat(new->dirfd, new->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int rc = fd < 0 ? -errno : pt_io_fsync(fd);

	if (fd >= 0)
		close(fd);
	if (rc < 0)
		return pt_fail(-rc, "cannot sync the index %s: %s", f->path, strerror(-rc));
	if (linkat(new->dirfd, new->name, f->dirfd, f->name, 0) < 0)
		return pt_fail(errno, "cannot make the index %s: %s", f->path, strerror(errno));
	return sync_dir_of(f);
}

static int make_index(const struct pt_sqlite_file *f)
{
	struct pt_sqlite_conn *c = NULL;
	struct pt_sqlite_file new;
	int rc = make_empty_beside(f, &new);

	if (rc < 0)
		return rc;
	rc = pt_sqlite_conn_open(&new, PT_SQLITE_INIT, &c);
	pt_sqlite_conn_close(c);        /* writes the log back and removes it */
	if (rc == 0)
		rc = publish(&new, f);
	remove_new(&new);
	return rc == -EEXIST ? 0 : rc;
}

/* ---- opening one ---- */
/* What SQLite opens beside the index is a file, or not there. */
static int check_beside(const struct pt_sqlite_file *f)
{
	static const char *const suffixes[] = { "-wal", "-shm" };
	struct stat st;
	size_t i;
	int rc = 0;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && rc == 0; i++) {
		char *name = name_beside(f, suffixes[i]);

		if (!name)
			rc = pt_fail_nomem();
		else if (fstatat(f->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
			rc = pt_folder_fail_no_file(f->dirfd, name, st.st_mode);
		free(name);
	}
	return rc;
}

static int prepare_read_only(const struct pt_sqlite_file *f, enum pt_sqlite_mode *ret_mode)
{
	char *log = name_beside(f, "-wal");
	struct stat st;
	bool unwritten;

	if (!log)
		return pt_fail_nomem();
	unwritten = fstatat(f->dirfd, log, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
	free(log);
	if (unwritten)
		return pt_fail(EROFS, "the index %s has changes in its log that a read-only filesystem cannot take in; mount that read-write once and open the store",
			       f->path);
	*ret_mode = PT_SQLITE_IMMUTABLE;
	return 0;
}

static int look(const struct pt_sqlite_file *f, struct stat *ret_st)
{
	if (fstatat(f->dirfd, f->name, ret_st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return pt_fail(errno, "cannot look at the index %s: %s", f->path, strerror(errno));
}

int pt_sqlite_file_prepare(const struct pt_sqlite_file *f, enum pt_sqlite_mode *ret_mode)
{
	struct statvfs fs;
	struct stat st;
	int rc = look(f, &st);

	if (rc == -ENOENT) {
		rc = make_index(f);
		if (rc == 0)
			rc = look(f, &st);
	}
	if (rc < 0)
		return rc;
	if (S_ISLNK(st.st_mode))
		return pt_folder_fail_no_file(f->dirfd, f->name, st.st_mode);
	if (!S_ISREG(st.st_mode))
		return pt_fail(EIO, "the index %s is not a file; give the directory of a ptio store", f->path);
	if (st.st_size < PT_SQLITE_PAGE)
		return pt_fail(EIO, "the index %s is cut short (%lld bytes); run ptio fsck --rebuild on its store", f->path,
			       (long long)st.st_size);
	rc = check_beside(f);
	if (rc < 0)
		return rc;
	if (fstatvfs(f->dirfd, &fs) < 0)
		return pt_fail(errno, "cannot look at the filesystem of the index %s: %s", f->path, strerror(errno));
	if (fs.f_flag & ST_RDONLY)
		return prepare_read_only(f, ret_mode);
	if (faccessat(f->dirfd, f->name, R_OK | W_OK, 0) < 0 || faccessat(f->dirfd, ".", R_OK | W_OK | X_OK, 0) < 0)
		return pt_fail(errno, "the index %s cannot be used by this user, who has to write it and its directory even to read (locks are kept there)",
			       f->path);
	*ret_mode = PT_SQLITE_OPEN;
	return 0;
}

int pt_sqlite_file_copy(struct pt_sqlite_conn *from, const struct pt_sqlite_file *f)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE;
	struct pt_sqlite_conn to = { .name = f->path };
	int reserve = PT_SQLITE_RESERVE;
	struct pt_sqlite_file new;
	sqlite3_backup *backup;
	int rc;

	rc = make_empty_beside(f, &new);
	if (rc < 0)
		return rc;
	rc = sqlite3_open_v2(new.at, &to.db, flags, PT_SQLITE_VFS);
	if (rc == SQLITE_OK)
		rc = sqlite3_file_control(to.db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);
	if (rc != SQLITE_OK) {
		rc = pt_sqlite_conn_fail(&to, rc);
		goto out;
	}
	backup = sqlite3_backup_init(to.db, "main", from->db, "main");
	if (!backup) {
		rc = pt_sqlite_conn_fail(&to, sqlite3_extended_errcode(to.db));
		goto out;
	}
	from->busy_since_ns = pt_time_boot_ns();
	do {
		rc = sqlite3_backup_step(backup, -1);
		if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	} while ((rc == SQLITE_BUSY || rc == SQLITE_LOCKED) && pt_time_boot_ns() - from->busy_since_ns < pt_sqlite_busy_ns);
	sqlite3_backup_finish(backup);
	rc = rc == SQLITE_DONE ? 0 : pt_sqlite_conn_fail(&to, rc);
out:
	if (sqlite3_close(to.db) != SQLITE_OK && rc == 0)
		rc = pt_fail(EIO, "the copy of the index at %s cannot be closed", f->path);
	if (rc == 0)
		rc = publish(&new, f);
	remove_new(&new);
	return rc;
}

/* ---- its space ---- */
/* -1: what is there is no file that the store's own would be, and its size is not ours to change. */
static int reserve_open(const struct pt_sqlite_file *f, const char *name, struct stat *ret_st)
{
	const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	int fd = openat(f->dirfd, name, flags | O_CREAT | O_EXCL, 0640);

	if (fd >= 0)
		(void)pt_folder_owner_set(f->dirfd, fd);
	else if (errno == EEXIST)
		fd = openat(f->dirfd, name, flags);
	if (fd >= 0 && (fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode) || ret_st->st_nlink != 1)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

bool pt_sqlite_file_reserve(const struct pt_sqlite_file *f)
{
	char *name = name_beside(f, "-reserve");
	uint64_t room, want = 0;
	struct statvfs fs;
	struct stat st;
	int fd = name ? reserve_open(f, name, &st) : -1;

	if (fd >= 0 && fstatvfs(fd, &fs) == 0) {
		room = (uint64_t)fs.f_bavail * fs.f_frsize + (uint64_t)st.st_blocks * 512;
		want = room > ROOM_BYTES ? pt_size_min(room - ROOM_BYTES, RESERVE_BYTES) : 0;
		if ((uint64_t)st.st_size > want && ftruncate(fd, (off_t)want) < 0)
			want = 0;
		if (want && posix_fallocate(fd, 0, (off_t)want) != 0)
			want = 0;
	}
	if (fd >= 0) {
		close(fd);
		if (!want)
			unlinkat(f->dirfd, name, 0);
	}
	free(name);
	return want == RESERVE_BYTES;
}

bool pt_sqlite_file_release(const struct pt_sqlite_file *f)
{
	char *name = name_beside(f, "-reserve");
	bool released = name && unlinkat(f->dirfd, name, 0) == 0;

	free(name);
	return released;
}

int pt_sqlite_file_identify(const struct pt_sqlite_file *f, bool log, struct pt_sqlite_file_id *ret_id)
{
	struct stat st;
	int rc = look(f, &st);

	if (rc == 0)
		*ret_id = (struct pt_sqlite_file_id){ st.st_dev, st.st_ino, log };
	return rc;
}

int pt_sqlite_file_same(const struct pt_sqlite_file *f, const struct pt_sqlite_file_id *id)
{
	char *log = id->log ? name_beside(f, "-wal") : NULL;
	struct stat st;
	bool gone;

	if (id->log && !log)
		return pt_fail_nomem();
	if (fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		gone = errno == ENOENT || errno == ESTALE;
	else
		gone = st.st_dev != id->dev || st.st_ino != id->ino || (log && fstatat(f->dirfd, log, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT);
	free(log);
	if (!gone)              /* or not to be known: who may not look, or cannot read the disk, hears of that elsewhere */
		return 0;
	return pt_fail(EIO, "the index %s, or its log, was removed, moved or replaced while it was open, so nothing is committed: put it back where it was, or end all that uses the store and run ptio fsck on it",
		       f->path);
}

int pt_sqlite_file_space(const struct pt_sqlite_file *f, struct pt_meta_space *ret_space)
{
	char *log = name_beside(f, "-wal");
	struct statvfs fs;
	struct stat st;
	int rc = log ? look(f, &st) : pt_fail_nomem();

	if (rc == 0 && fstatvfs(f->dirfd, &fs) < 0)
		rc = pt_fail(errno, "cannot look at the index %s: %s", f->path, strerror(errno));
	if (rc == 0) {
		ret_space->used_bytes = (uint64_t)st.st_size;
		ret_space->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		if (fstatat(f->dirfd, log, &st, AT_SYMLINK_NOFOLLOW) == 0)
			ret_space->used_bytes += (uint64_t)st.st_size;
	}
	free(log);
	return rc;
}

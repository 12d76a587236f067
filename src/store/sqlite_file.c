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
#include "store/sqlite_vfs.h"

/* What the log holds before it is taken in (PRAGMA wal_autocheckpoint), and a batch: as much may the index have to grow by before anything is freed. */
#define RESERVE_BYTES (1024 * 1024)
/* Left free by the reserve: for pins and the index's shared memory, without which nothing can be read. */
#define ROOM_BYTES (128 * 1024)

/* The directory of a path, as a new string. */
static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir;

	if (!slash)
		return pt_strdup(".");
	if (slash == path)
		return pt_strdup("/");
	dir = pt_strdup(path);
	if (dir)
		dir[slash - path] = '\0';
	return dir;
}

static int sync_dir_of(const char *path)
{
	char *dir = dir_of(path);
	int fd, rc;

	if (!dir)
		return pt_fail_nomem();
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = fd < 0 ? -errno : pt_io_fsync_dir(fd);
	if (rc < 0)
		pt_fail(-rc, "the directory %s cannot be synced: %s", dir, strerror(-rc));
	if (fd >= 0)
		close(fd);
	free(dir);
	return rc;
}

/* An empty file beside `path` that nobody else uses, for SQLite to open. */
static int make_empty_beside(const char *path, char **ret_name)
{
	char hex[PT_ID_HEX_LEN + 1];
	struct pt_id id;
	char *name;
	int fd, rc;

	rc = pt_id_random(&id);
	if (rc < 0)
		return rc;
	pt_id_hex(&id, hex);
	name = pt_asprintf("%s.new-%s", path, hex);
	if (!name)
		return pt_fail_nomem();
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	if (fd < 0) {
		rc = pt_fail(errno, "cannot make the index %s: %s", path, strerror(errno));
		free(name);
		return rc;
	}
	close(fd);
	*ret_name = name;
	return 0;
}

/* Its content synced, gives the file its name, unless that is taken. */
static int publish(const char *name, const char *path)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : pt_io_fsync(fd);

	if (fd >= 0)
		close(fd);
	if (rc < 0)
		return pt_fail(-rc, "cannot sync the index %s: %s", path, strerror(-rc));
	if (link(name, path) < 0)
		return pt_fail(errno, "cannot make the index %s: %s", path, strerror(errno));
	return sync_dir_of(path);
}

static int make_index(const char *path)
{
	struct pt_sqlite_conn *c = NULL;
	char *name;
	int rc = make_empty_beside(path, &name);

	if (rc < 0)
		return rc;
	rc = pt_sqlite_conn_open(name, PT_SQLITE_INIT, &c);
	pt_sqlite_conn_close(c);        /* writes the log back and removes it */
	if (rc == 0)
		rc = publish(name, path);
	unlink(name);
	free(name);
	return rc == -EEXIST ? 0 : rc;
}

static int prepare_read_only(const char *path, enum pt_sqlite_mode *ret_mode)
{
	char *log = pt_asprintf("%s-wal", path);
	struct stat st;
	bool unwritten;

	if (!log)
		return pt_fail_nomem();
	unwritten = stat(log, &st) == 0 && st.st_size > 0;
	free(log);
	if (unwritten)
		return pt_fail(EROFS, "the index %s has changes in its log that a read-only filesystem cannot take in; mount that read-write once and open the store",
			       path);
	*ret_mode = PT_SQLITE_IMMUTABLE;
	return 0;
}

int pt_sqlite_file_prepare(const char *path, enum pt_sqlite_mode *ret_mode)
{
	struct statvfs fs;
	struct stat st;
	char *dir;
	int rc;

	if (stat(path, &st) < 0) {
		if (errno != ENOENT)
			return pt_fail(errno, "cannot look at the index %s: %s", path, strerror(errno));
		rc = make_index(path);
		if (rc < 0)
			return rc;
		if (stat(path, &st) < 0)
			return pt_fail(errno, "cannot look at the index %s: %s", path, strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		return pt_fail(EIO, "the index %s is not a file; give the directory of a ptio store", path);
	if (st.st_size < PT_SQLITE_PAGE)
		return pt_fail(EIO, "the index %s is cut short (%lld bytes); run ptio fsck --rebuild on its store", path,
			       (long long)st.st_size);
	if (statvfs(path, &fs) < 0)
		return pt_fail(errno, "cannot look at the filesystem of the index %s: %s", path, strerror(errno));
	if (fs.f_flag & ST_RDONLY)
		return prepare_read_only(path, ret_mode);
	dir = dir_of(path);
	if (!dir)
		return pt_fail_nomem();
	rc = 0;
	if (access(path, R_OK | W_OK) < 0 || access(dir, R_OK | W_OK | X_OK) < 0)
		rc = pt_fail(errno, "the index %s cannot be used by this user, who has to write it and its directory even to read (locks are kept there)",
			     path);
	free(dir);
	*ret_mode = PT_SQLITE_OPEN;
	return rc;
}

int pt_sqlite_file_copy(struct pt_sqlite_conn *from, const char *path)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READWRITE;
	struct pt_sqlite_conn to = { .name = path };
	int reserve = PT_SQLITE_RESERVE;
	sqlite3_backup *backup;
	char *name;
	int rc;

	rc = make_empty_beside(path, &name);
	if (rc < 0)
		return rc;
	rc = sqlite3_open_v2(name, &to.db, flags, PT_SQLITE_VFS);
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
		rc = pt_fail(EIO, "the copy of the index at %s cannot be closed", path);
	if (rc == 0)
		rc = publish(name, path);
	unlink(name);
	free(name);
	return rc;
}

bool pt_sqlite_file_reserve(const char *path)
{
	char *name = pt_asprintf("%s-reserve", path);
	uint64_t room, want = 0;
	struct statvfs fs;
	struct stat st;
	int fd = -1;

	if (name)
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
	if (fd >= 0 && fstat(fd, &st) == 0 && fstatvfs(fd, &fs) == 0) {
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
			unlink(name);
	}
	free(name);
	return want == RESERVE_BYTES;
}

bool pt_sqlite_file_release(const char *path)
{
	char *name = pt_asprintf("%s-reserve", path);
	bool released = name && unlink(name) == 0;

	free(name);
	return released;
}

int pt_sqlite_file_space(const char *path, struct pt_meta_space *ret_space)
{
	char *log = pt_asprintf("%s-wal", path);
	struct statvfs fs;
	struct stat st;
	int rc = 0;

	if (!log)
		return pt_fail_nomem();
	if (stat(path, &st) < 0 || statvfs(path, &fs) < 0) {
		rc = pt_fail(errno, "cannot look at the index %s: %s", path, strerror(errno));
	} else {
		ret_space->used_bytes = (uint64_t)st.st_size;
		ret_space->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		if (stat(log, &st) == 0)
			ret_space->used_bytes += (uint64_t)st.st_size;
	}
	free(log);
	return rc;
}

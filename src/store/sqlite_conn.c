/* store/sqlite_conn.c - see sqlite_conn.h. */
#include "store/sqlite_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "store/sqlite_file.h"
#include "store/sqlite_vfs.h"

#define APPLICATION_ID 0x7074696f

static const char *const stmt_sql[PT_SQLITE_STMTS] = {
	[PT_SQLITE_BEGIN] = "BEGIN IMMEDIATE",
	[PT_SQLITE_BEGIN_READ] = "BEGIN DEFERRED",
	[PT_SQLITE_COMMIT] = "COMMIT",
	[PT_SQLITE_ROLLBACK] = "ROLLBACK",
	[PT_SQLITE_GET] = "SELECT value, version, hash FROM record WHERE key = ?1",
	[PT_SQLITE_GET_VERSION] = "SELECT version FROM record WHERE key = ?1",
	[PT_SQLITE_SCAN] = "SELECT key, value, version, hash FROM record WHERE key >= ?1 ORDER BY key LIMIT ?2",
	[PT_SQLITE_SCAN_TO] = "SELECT key, value, version, hash FROM record WHERE key >= ?1 AND key < ?3 ORDER BY key LIMIT ?2",
	[PT_SQLITE_PUT] = "INSERT OR REPLACE INTO record(key, value, version, hash) VALUES(?1, ?2, ?3, ?4)",
	[PT_SQLITE_DELETE] = "DELETE FROM record WHERE key = ?1",
	[PT_SQLITE_HIGHEST] = "SELECT value FROM ptio WHERE name = 'version'",
	[PT_SQLITE_SET_HIGHEST] = "UPDATE ptio SET value = ?1 WHERE name = 'version'",
};

static const char session_sql[] =
	"PRAGMA mmap_size = 0;"
	"PRAGMA trusted_schema = OFF;"
	"PRAGMA cell_size_check = ON;"
	"PRAGMA temp_store = MEMORY;"
	"PRAGMA synchronous = FULL;"
	"PRAGMA wal_autocheckpoint = 100;"      /* pages: the space kept for deleting on a full disk must do to take the log in */
	"PRAGMA journal_size_limit = 67108864;";

static const char schema_sql[] =
	"PRAGMA page_size = 4096;"
	"PRAGMA application_id = 1886677359;"
	"BEGIN;"
	"CREATE TABLE ptio(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE record(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL, hash INTEGER NOT NULL)"
	" WITHOUT ROWID;"
	"INSERT INTO ptio VALUES('format', 1), ('version', 0);"
	"COMMIT;";

uint64_t pt_sqlite_record_hash(const void *key, size_t key_len, uint64_t version, const void *value, size_t value_len)
{
	uint8_t b[32];

	pt_put_le64(b, key_len);
	pt_put_le64(b + 8, version);
	pt_put_le64(b + 16, pt_hash64(key, key_len));
	pt_put_le64(b + 24, pt_hash64(value, value_len));
	return pt_hash64(b, sizeof(b));
}

int64_t pt_sqlite_busy_ns = 30 * INT64_C(1000000000);

#define IN_VAIN 64                      /* the part of that time that calls wait which come after one that has waited in vain: a process that stopped holds up one, not one after the other */

/* Short sleeps with some spread: commits take a millisecond or so, and many processes may wait. */
static int on_busy(void *ctx, int times)
{
	struct pt_sqlite_conn *c = ctx;
	int64_t now = pt_time_boot_ns();
	struct timespec pause = { 0 };
	bool vain;
	uint32_t r;

	if (times == 0)
		c->busy_since_ns = now;
	vain = c->in_vain_ns && now - c->in_vain_ns < 2 * pt_sqlite_busy_ns;
	if (now - c->busy_since_ns > (vain ? pt_sqlite_busy_ns / IN_VAIN : pt_sqlite_busy_ns)) {
		c->in_vain_ns = now;
		return 0;
	}
	sqlite3_randomness((int)sizeof(r), &r);
	pause.tv_nsec = 200000 + r % (times < 4 ? 400000u : 4000000u);
	nanosleep(&pause, NULL);
	return 1;
}

/* err: what the system said, or 0. SQLite keeps that of some failures only, and never that of a COMMIT. */
static int fail_system(struct pt_sqlite_conn *c, int err, int otherwise)
{
	if (!err && c->db)
		err = sqlite3_system_errno(c->db);
	switch (err) {
	case ENOSPC:
		return pt_fail(ENOSPC, "no space is left for the index %s; free some on its filesystem", c->name);
	case EDQUOT:
		return pt_fail(EDQUOT, "the disk quota does not allow the index %s to grow; free some space or raise it", c->name);
	case EROFS:
		return pt_fail(EROFS, "the index %s is on a read-only filesystem; mount that read-write", c->name);
	case EACCES:
	case EPERM:
		return pt_fail(EACCES, "the index %s may not be opened by this user, who needs to read and write it and its directory",
			       c->name);
	case EMFILE:
	case ENFILE:
		return pt_fail(err, "no descriptor is left to open the index %s; raise the limit on open files (ulimit -n)", c->name);
	default:
		return pt_fail(otherwise, "the index %s cannot be read or written: %s%s%s", c->name,
			       c->db ? sqlite3_errmsg(c->db) : "SQLite failed", err ? ": " : "", err ? strerror(err) : "");
	}
}

int pt_sqlite_conn_fail(struct pt_sqlite_conn *c, int sqlite_rc)
{
	return pt_sqlite_conn_fail_errno(c, sqlite_rc, 0);
}

int pt_sqlite_conn_fail_errno(struct pt_sqlite_conn *c, int sqlite_rc, int err)
{
	switch (sqlite_rc & 0xff) {
	case SQLITE_NOMEM:
		return pt_fail_nomem();
	case SQLITE_FULL:
		return pt_fail(ENOSPC, "no space is left for the index %s; free some on its filesystem", c->name);
	case SQLITE_READONLY:
		return pt_fail(EROFS, "the index %s cannot be written; check that its directory and filesystem are writable", c->name);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return pt_fail(EIO, "the index %s stayed locked by another process for %d s; see which one holds it (fuser) and end it",
			       c->name, (int)(pt_sqlite_busy_ns / INT64_C(1000000000)));
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
		if (err == EIO || err == ENXIO)         /* SQLite takes what cannot be read for damaged */
			return pt_fail(EIO, "the index %s cannot be read: %s; see the kernel log for what the device says", c->name, strerror(err));
		return pt_fail(EIO, "the index %s is damaged, or is not a ptio index (%s); run ptio fsck --rebuild on its store", c->name,
			       sqlite3_errstr(sqlite_rc));
	case SQLITE_IOERR:
		if (sqlite_rc == SQLITE_IOERR_DATA)
			return pt_fail(EIO, "a page of the index %s is damaged (its checksum does not match); run ptio fsck --rebuild on its store",
				       c->name);
		return fail_system(c, err, EIO);
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return fail_system(c, err, EIO);
	default:
		return pt_fail(EIO, "the index %s failed: %s; try again, and if it stays so run ptio fsck --rebuild on its store", c->name,
			       c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(sqlite_rc));
	}
}

int pt_sqlite_conn_stmt(struct pt_sqlite_conn *c, enum pt_sqlite_stmt which, sqlite3_stmt **ret_stmt)
{
	if (c->stmts[which]) {
		sqlite3_reset(c->stmts[which]);
	} else {
		int rc = sqlite3_prepare_v3(c->db, stmt_sql[which], -1, SQLITE_PREPARE_PERSISTENT, &c->stmts[which], NULL);

		if (rc != SQLITE_OK)
			return pt_sqlite_conn_fail(c, rc);
	}
	*ret_stmt = c->stmts[which];
	return 0;
}

int pt_sqlite_conn_step(struct pt_sqlite_conn *c, sqlite3_stmt *stmt)
{
	int rc, ret;

	errno = 0;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		return 1;
	ret = rc == SQLITE_DONE ? 0 : pt_sqlite_conn_fail_errno(c, sqlite3_extended_errcode(c->db), errno);
	sqlite3_reset(stmt);
	return ret;
}

int pt_sqlite_conn_run(struct pt_sqlite_conn *c, enum pt_sqlite_stmt which)
{
	sqlite3_stmt *stmt = NULL;
	int rc = pt_sqlite_conn_stmt(c, which, &stmt);

	if (rc == 0)
		rc = pt_sqlite_conn_step(c, stmt);
	return rc > 0 ? 0 : rc;
}

/* One integer of a query without parameters; `absent` when there is no row. */
static int query_int(struct pt_sqlite_conn *c, const char *sql, int64_t absent, int64_t *ret_value)
{
	sqlite3_stmt *stmt;
	int64_t value = absent;
	int rc = sqlite3_prepare_v2(c->db, sql, -1, &stmt, NULL);

	if (rc != SQLITE_OK)
		return pt_sqlite_conn_fail(c, rc);
	rc = pt_sqlite_conn_step(c, stmt);
	if (rc > 0)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	if (rc < 0)
		return rc;
	*ret_value = value;
	return 0;
}

static int check_format(struct pt_sqlite_conn *c)
{
	int64_t id, format;
	int rc = query_int(c, "PRAGMA application_id", 0, &id);

	if (rc < 0)
		return rc;
	if (id != APPLICATION_ID)
		return pt_fail(EIO, "%s is not a ptio index, or is damaged; give the directory of a ptio store, and if it is one run ptio fsck --rebuild on its store", c->name);
	rc = query_int(c, "SELECT value FROM ptio WHERE name = 'format'", -1, &format);
	if (rc < 0)
		return rc;
	if (format > PT_SQLITE_FORMAT)
		return pt_fail(ENOTSUP, "the index %s has format %lld, made by a newer ptio; this one knows format %d: upgrade ptio",
			       c->name, (long long)format, PT_SQLITE_FORMAT);
	if (format != PT_SQLITE_FORMAT)
		return pt_fail(EIO, "the index %s has no valid format number; run ptio fsck --rebuild on its store", c->name);
	return 0;
}

static int execute(struct pt_sqlite_conn *c, const char *sql)
{
	int rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : pt_sqlite_conn_fail(c, sqlite3_extended_errcode(c->db));
}

static int make_schema(struct pt_sqlite_conn *c, bool wal)
{
	int reserve = PT_SQLITE_RESERVE;
	int rc = sqlite3_file_control(c->db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve);
	int ret;

	if (rc != SQLITE_OK)
		return pt_sqlite_conn_fail(c, rc);
	ret = execute(c, schema_sql);
	if (ret == 0 && wal)
		ret = execute(c, "PRAGMA journal_mode = WAL");
	return ret;
}

/* "file:PATH?immutable=1" with the characters that mean something in a URI escaped. */
static char *immutable_uri(const char *path)
{
	struct pt_buf b = PT_BUF_INIT;

	pt_buf_append_str(&b, "file:");
	for (const char *p = path; *p; p++) {
		if (strchr("%?#", *p))
			pt_buf_printf(&b, "%%%02X", (unsigned)(unsigned char)*p);
		else
			pt_buf_append(&b, p, 1);
	}
	pt_buf_append_str(&b, "?immutable=1");
	pt_buf_append_u8(&b, 0);
	if (pt_buf_failed(&b)) {
		pt_buf_done(&b);
		return NULL;
	}
	return (char *)b.data;
}

int pt_sqlite_conn_open(const struct pt_sqlite_file *file, enum pt_sqlite_mode mode, struct pt_sqlite_conn **ret_conn)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	struct pt_sqlite_conn *c;
	char *uri = NULL;
	int rc;

	rc = pt_sqlite_vfs_register();
	if (rc < 0)
		return rc;
	c = pt_calloc(1, sizeof(*c));
	if (!c)
		return pt_fail_nomem();
	c->name = mode == PT_SQLITE_MEMORY ? "in memory" : file->path;
	if (mode == PT_SQLITE_IMMUTABLE) {
		uri = immutable_uri(file->at);
		if (!uri) {
			rc = pt_fail_nomem();
			goto fail;
		}
		rc = sqlite3_open_v2(uri, &c->db, flags | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, PT_SQLITE_VFS);
	} else {
		rc = sqlite3_open_v2(mode == PT_SQLITE_MEMORY ? ":memory:" : file->at, &c->db,
				     flags | SQLITE_OPEN_READWRITE | (mode == PT_SQLITE_MEMORY ? SQLITE_OPEN_CREATE : 0), PT_SQLITE_VFS);
	}
	if (rc != SQLITE_OK) {
		rc = pt_sqlite_conn_fail(c, rc);
		goto fail;
	}
	sqlite3_busy_handler(c->db, on_busy, c);
	sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_db_config(c->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	if (mode == PT_SQLITE_MEMORY || mode == PT_SQLITE_INIT) {
		rc = make_schema(c, mode == PT_SQLITE_INIT);
		if (rc < 0)
			goto fail;
	}
	rc = execute(c, session_sql);
	if (rc == 0)
		rc = check_format(c);
	if (rc < 0)
		goto fail;
	free(uri);
	*ret_conn = c;
	return 0;
fail:
	free(uri);
	pt_sqlite_conn_close(c);
	return rc;
}

void pt_sqlite_conn_close(struct pt_sqlite_conn *c)
{
	if (!c)
		return;
	for (int i = 0; i < PT_SQLITE_STMTS; i++)
		sqlite3_finalize(c->stmts[i]);
	sqlite3_close(c->db);
	free(c);
}

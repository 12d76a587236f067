/* store/sqlite_conn.h - connections to an index file: opening, statements, errors, locks.
 *
 * A connection belongs to one thread at a time. Schema, format 1:
 *   ptio(name TEXT PRIMARY KEY, value INTEGER): 'format' -> 1; 'version' -> the highest version given to a record
 *   record(key BLOB PRIMARY KEY, value BLOB, version INTEGER, hash INTEGER), hash being pt_sqlite_record_hash()
 * both WITHOUT ROWID; application_id 0x7074696f ("ptio"); pages as sqlite_vfs.h says. */
#ifndef PT_STORE_SQLITE_CONN_H
#define PT_STORE_SQLITE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#define PT_SQLITE_FORMAT 1

extern int64_t pt_sqlite_busy_ns;       /* how long to wait for another process: 30 s, and for tests less */

enum pt_sqlite_stmt {
	PT_SQLITE_BEGIN,                /* for writing */
	PT_SQLITE_BEGIN_READ,           /* one snapshot for several statements; ends with COMMIT or ROLLBACK */
	PT_SQLITE_COMMIT,
	PT_SQLITE_ROLLBACK,
	PT_SQLITE_GET,                  /* value, version, hash of key ?1 */
	PT_SQLITE_GET_VERSION,          /* version of key ?1 */
	PT_SQLITE_SCAN,                 /* key, value, version, hash from ?1 on, ?2 at most */
	PT_SQLITE_SCAN_TO,              /* the same, below ?3 */
	PT_SQLITE_PUT,                  /* ?1 key, ?2 value, ?3 version, ?4 hash */
	PT_SQLITE_DELETE,               /* key ?1 */
	PT_SQLITE_HIGHEST,              /* the highest version */
	PT_SQLITE_SET_HIGHEST,          /* ?1 */
	PT_SQLITE_STMTS
};

struct pt_sqlite_conn {
	sqlite3 *db;
	const char *name;               /* for sentences: the path, or "in memory"; not owned */
	int64_t busy_since_ns;
	int64_t in_vain_ns;             /* when a call had waited that long, which counts for a while; 0: something could be written since */
	sqlite3_stmt *stmts[PT_SQLITE_STMTS];
	struct pt_sqlite_conn *next;    /* in the pool */
};

enum pt_sqlite_mode {
	PT_SQLITE_MEMORY,               /* file is not used */
	PT_SQLITE_INIT,                 /* an empty file: gets the schema */
	PT_SQLITE_OPEN,
	PT_SQLITE_IMMUTABLE             /* on a read-only filesystem; nobody can change it */
};

struct pt_sqlite_file;

/* The file must outlive the connection. -EIO, -ENOMEM, -EACCES, -EROFS, -ENOTSUP (a newer format). */
int pt_sqlite_conn_open(const struct pt_sqlite_file *file, enum pt_sqlite_mode mode, struct pt_sqlite_conn **ret_conn);
void pt_sqlite_conn_close(struct pt_sqlite_conn *c);

/* The prepared statement, reset; kept for the connection's life. */
int pt_sqlite_conn_stmt(struct pt_sqlite_conn *c, enum pt_sqlite_stmt which, sqlite3_stmt **ret_stmt);
/* 1: a row; 0: the end (the statement is reset); -errno (reset too). */
int pt_sqlite_conn_step(struct pt_sqlite_conn *c, sqlite3_stmt *stmt);
/* Steps a statement that returns no row. */
int pt_sqlite_conn_run(struct pt_sqlite_conn *c, enum pt_sqlite_stmt which);
/* Turns SQLite's result code into -errno and a sentence. */
int pt_sqlite_conn_fail(struct pt_sqlite_conn *c, int sqlite_rc);
/* The same, with errno after the call, which was set to 0 before it. */
int pt_sqlite_conn_fail_errno(struct pt_sqlite_conn *c, int sqlite_rc, int err);

/* XXH3-64 of four u64le: length of the key, version, XXH3-64 of the key, XXH3-64 of the value. */
uint64_t pt_sqlite_record_hash(const void *key, size_t key_len, uint64_t version, const void *value, size_t value_len);

#endif

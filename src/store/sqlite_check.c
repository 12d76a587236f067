/* store/sqlite_check.c - whether an index file is sound: every page by its checksum, SQLite's own structure, every record by its hash. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "store/meta.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_file.h"
#include "store/sqlite_record.h"

#define CHECK_SQL "PRAGMA integrity_check(100)"

static int count_record(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)key, (void)key_len, (void)value, (void)value_len, (void)version;
	++*(uint64_t *)ctx;
	return 0;
}

/* The first thing that SQLite finds wrong is enough: more of them say no more. */
static int check_structure(struct pt_sqlite_conn *c)
{
	const char *text;
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(c->db, CHECK_SQL, -1, &stmt, NULL);

	if (rc != SQLITE_OK)
		return pt_sqlite_conn_fail(c, sqlite3_extended_errcode(c->db));
	rc = pt_sqlite_conn_step(c, stmt);
	text = rc > 0 ? (const char *)sqlite3_column_text(stmt, 0) : "it says nothing";
	if (rc >= 0)
		rc = text && strcmp(text, "ok") == 0 ? 0 : pt_fail(EIO, "the index %s is damaged: %s", c->name, text ? text : "out of memory");
	sqlite3_finalize(stmt);
	return rc;
}

int pt_meta_sqlite_check(int dirfd, const char *path, bool alone, uint64_t *ret_version, uint64_t *ret_records)
{
	const struct pt_meta_key first = { "", 1 }, end = { "", 0 };
	enum pt_sqlite_mode mode = PT_SQLITE_IMMUTABLE;
	uint64_t version = 0, records = 0;
	struct pt_sqlite_conn *c = NULL;
	struct pt_sqlite_file f;
	int rc;

	rc = pt_sqlite_file_init(&f, dirfd, path);
	if (rc < 0)
		return rc;
	if (!alone)
		rc = pt_sqlite_file_prepare(&f, &mode);
	if (rc == 0)
		rc = pt_sqlite_conn_open(&f, mode, &c);
	if (rc < 0)
		goto out;
	rc = pt_sqlite_conn_run(c, PT_SQLITE_BEGIN_READ);
	if (rc == 0)
		rc = check_structure(c);
	if (rc == 0)
		rc = pt_sqlite_highest(c, &version);
	if (rc == 0)
		rc = pt_sqlite_scan(c, &first, &end, 0, count_record, &records);
	pt_sqlite_roll_back(c);
	pt_sqlite_conn_close(c);
	if (rc == 0) {
		*ret_version = version;
		*ret_records = records;
	}
out:
	pt_sqlite_file_done(&f);
	return rc;
}

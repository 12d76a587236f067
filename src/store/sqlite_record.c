/* store/sqlite_record.c - see sqlite_record.h. Every record that is read is checked against its hash. */
#include "store/sqlite_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define WANTED_FEW 128                  /* records asked for at once without memory for their order */
#define STEPS_MAX 4                     /* rows passed by, before a search is cheaper */

static int fail_damaged(const void *key, size_t len)
{
	struct pt_buf name = PT_BUF_INIT;
	int rc;

	for (size_t i = 0; i < len && i < 64; i++) {
		uint8_t b = ((const uint8_t *)key)[i];

		if (b >= 0x20 && b < 0x7f && b != '%')
			pt_buf_append(&name, &b, 1);
		else
			pt_buf_printf(&name, "%%%02X", b);
	}
	pt_buf_append_u8(&name, 0);
	rc = pt_fail(EIO, "index record \"%s\" is damaged; run ptio verify to see which tensors can still be read, and ptio fsck --rebuild for another index", pt_buf_failed(&name) ? "?" : (char *)name.data);
	pt_buf_done(&name);
	return rc;
}

/* NULL is what SQLite gives for an empty blob. */
static const void *column_blob(sqlite3_stmt *stmt, int column, size_t *ret_len)
{
	const void *data = sqlite3_column_blob(stmt, column);

	*ret_len = (size_t)sqlite3_column_bytes(stmt, column);
	return data ? data : "";
}

static int bind_blob(struct pt_sqlite_conn *c, sqlite3_stmt *stmt, int param, const void *data, size_t len)
{
	int rc = sqlite3_bind_blob64(stmt, param, len ? data : "", len, SQLITE_STATIC);

	return rc == SQLITE_OK ? 0 : pt_sqlite_conn_fail(c, rc);
}

int pt_sqlite_highest(struct pt_sqlite_conn *c, uint64_t *ret_version)
{
	sqlite3_stmt *stmt;
	int rc = pt_sqlite_conn_stmt(c, PT_SQLITE_HIGHEST, &stmt);

	if (rc == 0)
		rc = pt_sqlite_conn_step(c, stmt);
	if (rc == 0)
		return pt_fail(EIO, "the index %s has lost its version number; run ptio fsck --rebuild on its store", c->name);
	if (rc < 0)
		return rc;
	*ret_version = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return 0;
}

int pt_sqlite_get(struct pt_sqlite_conn *c, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version)
{
	struct pt_buf copy = PT_BUF_INIT;
	sqlite3_stmt *stmt;
	uint64_t version;
	const void *value;
	size_t len;
	int rc = pt_sqlite_conn_stmt(c, PT_SQLITE_GET, &stmt);

	if (rc == 0)
		rc = bind_blob(c, stmt, 1, key->data, key->len);
	if (rc == 0)
		rc = pt_sqlite_conn_step(c, stmt);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		*ret_version = 0;
		return 0;
	}
	value = column_blob(stmt, 0, &len);
	version = (uint64_t)sqlite3_column_int64(stmt, 1);
	rc = 0;
	if (version == 0 ||
	    pt_sqlite_record_hash(key->data, key->len, version, value, len) != (uint64_t)sqlite3_column_int64(stmt, 2)) {
		rc = fail_damaged(key->data, key->len);
	} else if (ret_value) {
		pt_buf_append(&copy, value, len);
		if (pt_buf_failed(&copy)) {
			rc = pt_fail_nomem();
			pt_buf_done(&copy);
		} else {
			pt_buf_done(ret_value);
			*ret_value = copy;
		}
	}
	sqlite3_reset(stmt);
	if (rc == 0)
		*ret_version = version;
	return rc;
}

struct wanted {
	const struct pt_meta_key *key;
	size_t at;
};

static int compare_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
	int d = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return d ? d : (a_len > b_len) - (a_len < b_len);
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return compare_bytes(x->key->data, x->key->len, y->key->data, y->key->len);
}

/* A walk through the table in order of keys: from one wanted record on, over those that nobody wants, to the next. */
struct walk {
	struct pt_sqlite_conn *c;
	sqlite3_stmt *stmt;
	enum { NOWHERE, AT_ROW, AT_END } at;
	const void *key;                /* of the row, until the next step */
	size_t key_len;
};

static int walk_step(struct walk *w)
{
	int rc = pt_sqlite_conn_step(w->c, w->stmt);

	w->at = rc > 0 ? AT_ROW : AT_END;
	if (rc > 0)
		w->key = column_blob(w->stmt, 0, &w->key_len);
	return rc < 0 ? rc : 0;
}

static int walk_seek(struct walk *w, const struct pt_meta_key *key)
{
	int rc = pt_sqlite_conn_stmt(w->c, PT_SQLITE_SCAN, &w->stmt);

	w->at = NOWHERE;
	if (rc == 0)
		rc = bind_blob(w->c, w->stmt, 1, key->data, key->len);
	if (rc == 0 && sqlite3_bind_int64(w->stmt, 2, -1) != SQLITE_OK)
		rc = pt_sqlite_conn_fail(w->c, sqlite3_extended_errcode(w->c->db));
	return rc < 0 ? rc : walk_step(w);
}

/* The row's key against this one; past the last row: it is greater than any. */
static int walk_compare(const struct walk *w, const struct pt_meta_key *key)
{
	return w->at == AT_ROW ? compare_bytes(w->key, w->key_len, key->data, key->len) : 1;
}

/* To the record of the key, or the next one, and how that compares. */
static int walk_to(struct walk *w, const struct pt_meta_key *key, int *ret_compare)
{
	int rc = 0, steps, d = w->at == NOWHERE ? -1 : walk_compare(w, key);

	for (steps = 0; rc == 0 && d < 0 && w->at == AT_ROW && steps < STEPS_MAX; steps++) {
		rc = walk_step(w);
		d = walk_compare(w, key);
	}
	if (rc == 0 && d < 0) {
		rc = walk_seek(w, key);
		d = walk_compare(w, key);
	}
	*ret_compare = d;
	return rc;
}

/* The row that the walk is at is the one that is wanted. */
static int walk_tell(const struct walk *w, const struct wanted *want, pt_meta_many_fn *fn, void *ctx)
{
	uint64_t version = (uint64_t)sqlite3_column_int64(w->stmt, 2);
	size_t len;
	const void *value = column_blob(w->stmt, 1, &len);

	if (version == 0 ||
	    pt_sqlite_record_hash(want->key->data, want->key->len, version, value, len) != (uint64_t)sqlite3_column_int64(w->stmt, 3))
		return fail_damaged(want->key->data, want->key->len);
	return fn(ctx, want->at, value, len, version);
}

/* What is asked for together lies together (nodes made one after the other), and a step to the next row costs a third of a search. */
int pt_sqlite_get_many(struct pt_sqlite_conn *c, const struct pt_meta_key *keys, size_t count, pt_meta_many_fn *fn, void *ctx)
{
	struct wanted few[WANTED_FEW], *wanted = few;
	struct walk w = { .c = c };
	bool in_order = true;
	int rc = 0, compare;
	size_t i;

	if (count > WANTED_FEW)
		wanted = pt_reallocarray(NULL, count, sizeof(*wanted));
	if (!wanted)
		return pt_fail_nomem();
	for (i = 0; i < count; i++) {
		wanted[i] = (struct wanted){ &keys[i], i };
		if (i && compare_wanted(&wanted[i - 1], &wanted[i]) > 0)
			in_order = false;
	}
	if (!in_order)
		qsort(wanted, count, sizeof(*wanted), compare_wanted);
	for (i = 0; i < count && rc == 0; i++) {
		rc = walk_to(&w, wanted[i].key, &compare);
		if (rc == 0)
			rc = compare == 0 ? walk_tell(&w, &wanted[i], fn, ctx) : fn(ctx, wanted[i].at, NULL, 0, 0);
	}
	if (w.stmt)
		sqlite3_reset(w.stmt);
	if (wanted != few)
		free(wanted);
	return rc;
}

int pt_sqlite_scan(struct pt_sqlite_conn *c, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit,
		   pt_meta_scan_fn *fn, void *ctx)
{
	sqlite3_stmt *stmt;
	int rc = pt_sqlite_conn_stmt(c, end->len ? PT_SQLITE_SCAN_TO : PT_SQLITE_SCAN, &stmt);

	if (rc < 0)
		return rc;
	rc = bind_blob(c, stmt, 1, start->data, start->len);
	if (rc == 0 && sqlite3_bind_int64(stmt, 2, limit && limit < INT64_MAX ? (int64_t)limit : -1) != SQLITE_OK)
		rc = pt_sqlite_conn_fail(c, sqlite3_extended_errcode(c->db));
	if (rc == 0 && end->len)
		rc = bind_blob(c, stmt, 3, end->data, end->len);
	while (rc == 0 && (rc = pt_sqlite_conn_step(c, stmt)) > 0) {
		uint64_t version = (uint64_t)sqlite3_column_int64(stmt, 2);
		size_t key_len, value_len;
		const void *key = column_blob(stmt, 0, &key_len);
		const void *value = column_blob(stmt, 1, &value_len);

		if (version == 0 ||
		    pt_sqlite_record_hash(key, key_len, version, value, value_len) != (uint64_t)sqlite3_column_int64(stmt, 3))
			rc = fail_damaged(key, key_len);
		else
			rc = fn(ctx, key, key_len, value, value_len, version);
		if (rc > 0)
			break;
	}
	sqlite3_reset(stmt);
	return rc < 0 ? rc : 0;
}

static int compare_op(struct pt_sqlite_conn *c, const struct pt_meta_op *op)
{
	sqlite3_stmt *stmt;
	uint64_t version = 0;
	int rc = pt_sqlite_conn_stmt(c, PT_SQLITE_GET_VERSION, &stmt);

	if (rc == 0)
		rc = bind_blob(c, stmt, 1, op->key.data, op->key.len);
	if (rc == 0)
		rc = pt_sqlite_conn_step(c, stmt);
	if (rc < 0)
		return rc;
	if (rc > 0)
		version = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	if (version != op->version)
		return pt_fail(EAGAIN, "an index record changed meanwhile; read it again and retry");
	return 0;
}

static int write_op(struct pt_sqlite_conn *c, const struct pt_meta_op *op, uint64_t version)
{
	bool put = op->kind == PT_META_PUT;
	sqlite3_stmt *stmt;
	int rc = pt_sqlite_conn_stmt(c, put ? PT_SQLITE_PUT : PT_SQLITE_DELETE, &stmt);

	if (rc < 0)
		return rc;
	rc = bind_blob(c, stmt, 1, op->key.data, op->key.len);
	if (rc == 0 && put) {
		uint64_t hash = pt_sqlite_record_hash(op->key.data, op->key.len, version, op->value, op->value_len);

		rc = bind_blob(c, stmt, 2, op->value, op->value_len);
		if (rc == 0 && (sqlite3_bind_int64(stmt, 3, (int64_t)version) != SQLITE_OK ||
				sqlite3_bind_int64(stmt, 4, (int64_t)hash) != SQLITE_OK))
			rc = pt_sqlite_conn_fail(c, sqlite3_extended_errcode(c->db));
	}
	if (rc == 0)
		rc = pt_sqlite_conn_step(c, stmt);
	sqlite3_clear_bindings(stmt);
	return rc;
}

/* Inside a write transaction. */
static int apply(struct pt_sqlite_conn *c, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	bool changes = false;
	sqlite3_stmt *stmt;
	uint64_t version;
	int rc;

	for (size_t i = 0; i < count; i++) {
		if (ops[i].kind != PT_META_COMPARE) {
			changes = true;
			continue;
		}
		rc = compare_op(c, &ops[i]);
		if (rc < 0)
			return rc;
	}
	rc = pt_sqlite_highest(c, &version);
	if (rc < 0)
		return rc;
	if (changes) {
		version++;
		rc = pt_sqlite_conn_stmt(c, PT_SQLITE_SET_HIGHEST, &stmt);
		if (rc == 0 && sqlite3_bind_int64(stmt, 1, (int64_t)version) != SQLITE_OK)
			rc = pt_sqlite_conn_fail(c, sqlite3_extended_errcode(c->db));
		if (rc == 0)
			rc = pt_sqlite_conn_step(c, stmt);
	}
	for (size_t i = 0; rc == 0 && i < count; i++)
		if (ops[i].kind != PT_META_COMPARE)
			rc = write_op(c, &ops[i], version);
	if (rc == 0)
		*ret_version = version;
	return rc;
}

void pt_sqlite_roll_back(struct pt_sqlite_conn *c)
{
	sqlite3_stmt *stmt;

	/* Some failures have rolled back already. The sentence of the failure stays, so no checked step here. */
	if (sqlite3_get_autocommit(c->db))
		return;
	if (pt_sqlite_conn_stmt(c, PT_SQLITE_ROLLBACK, &stmt) == 0) {
		sqlite3_step(stmt);
		sqlite3_reset(stmt);
	}
}

int pt_sqlite_commit(struct pt_sqlite_conn *c, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	int rc = pt_sqlite_conn_run(c, PT_SQLITE_BEGIN);

	if (rc == 0)
		rc = apply(c, ops, count, ret_version);
	if (rc == 0)
		rc = pt_sqlite_conn_run(c, PT_SQLITE_COMMIT);
	if (rc < 0)
		pt_sqlite_roll_back(c);
	return rc;
}

/* store/sqlite_record.h - records of an index by one connection: reading, scanning, and a batch as one transaction.
 *
 * As struct pt_meta_ops has them, without its threads and completions. The caller has the connection for itself. -errno with a sentence: -EIO a damaged record or
 * file, and what pt_sqlite_conn_fail makes of SQLite's codes. */
#ifndef PT_STORE_SQLITE_RECORD_H
#define PT_STORE_SQLITE_RECORD_H

#include "store/meta.h"
#include "store/sqlite_conn.h"

/* The highest version given to a record. */
int pt_sqlite_highest(struct pt_sqlite_conn *c, uint64_t *ret_version);
/* ret_value may be NULL; version 0: absent, and the value is left alone. */
int pt_sqlite_get(struct pt_sqlite_conn *c, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version);
/* One after the other, in whatever transaction there is; what fn returns ends it if not 0. */
int pt_sqlite_get_many(struct pt_sqlite_conn *c, const struct pt_meta_key *keys, size_t count, pt_meta_many_fn *fn, void *ctx);
/* In order, limit rows at most (0: all), from start on and below end (empty: to the last). fn: 1 ends it. */
int pt_sqlite_scan(struct pt_sqlite_conn *c, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit, pt_meta_scan_fn *fn, void *ctx);
/* One transaction: all compares hold and all changes are made, or nothing is. The version is raised if anything is changed. -EAGAIN: a compare does not hold. */
int pt_sqlite_commit(struct pt_sqlite_conn *c, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version);
/* Ends a transaction that failed, if SQLite has not; the failure's sentence stays. */
void pt_sqlite_roll_back(struct pt_sqlite_conn *c);

#endif

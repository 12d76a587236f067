/* store/meta_sqlite.c - the SQLite meta engine, over a file that many processes open, or in memory.
 *
 * Owns one connection for writing and a pool of connections for reading. A reader takes a connection for itself, so a scan is
 * one snapshot and its callback may use the engine; a callback's own commits do not show in it. In memory there is one
 * connection for all, and a scan first copies its rows. Operations complete before they return. Connections do not survive
 * fork(): a child is refused. */
#include "store/meta.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/process.h"
#include "store/meta_cache.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_file.h"
#include "store/sqlite_record.h"
#include "store/sqlite_vfs.h"
#include "store/sqlite_watch.h"

#define POOL_KEPT 16                            /* idle reading connections kept open */
#define RESERVE_EVERY 64                        /* batches from one try to the next to keep space again */

struct sqlite_meta {
	struct pt_sqlite_file file;             /* path NULL: in memory */
	struct pt_sqlite_file_id id;            /* of a file that can change */
	enum pt_sqlite_mode mode;
	pid_t pid;
	/* Locks in the order they are taken: write_lock, then pool_lock or the watch's. */
	pthread_mutex_t write_lock;             /* writer (in memory: for every use), released, batches */
	struct pt_sqlite_conn *writer;
	bool lazy;                              /* write_lock, and read atomically: the last batch of this process may not be durable yet */
	bool relaxed;                           /* write_lock: the writer may be at synchronous=NORMAL */
	bool released;                          /* the space kept for deleting was used up, by us */
	unsigned int batches;                   /* since then */
	pthread_mutex_t pool_lock;              /* pool, pooled */
	struct pt_sqlite_conn *pool;
	unsigned int pooled;
	struct pt_sqlite_watch watch;
};

static int check_process(const struct sqlite_meta *m)
{
	if (m->pid != pt_process_id())
		return pt_fail(EIO, "the store was opened before fork(); open it in the process that uses it");
	return 0;
}

/* What is written is found by whoever opens the index next. */
static int still_ours(const struct sqlite_meta *m)
{
	return m->mode == PT_SQLITE_OPEN ? pt_sqlite_file_same(&m->file, &m->id) : 0;
}

static int reader_take(struct sqlite_meta *m, struct pt_sqlite_conn **ret_conn)
{
	struct pt_sqlite_conn *c;
	int rc = check_process(m);

	if (rc < 0)
		return rc;
	if (m->mode == PT_SQLITE_MEMORY) {
		pthread_mutex_lock(&m->write_lock);
		*ret_conn = m->writer;
		return 0;
	}
	pthread_mutex_lock(&m->pool_lock);
	c = m->pool;
	if (c) {
		m->pool = c->next;
		m->pooled--;
	}
	pthread_mutex_unlock(&m->pool_lock);
	if (c) {
		*ret_conn = c;
		return 0;
	}
	rc = pt_sqlite_conn_open(&m->file, m->mode, &c); /* which is NULL where it fails */
	if (rc == 0)
		rc = still_ours(m);
	if (rc == 0)
		*ret_conn = c;
	else
		pt_sqlite_conn_close(c);
	return rc;
}

static void reader_give(struct sqlite_meta *m, struct pt_sqlite_conn *c)
{
	if (m->mode == PT_SQLITE_MEMORY) {
		pthread_mutex_unlock(&m->write_lock);
		return;
	}
	pthread_mutex_lock(&m->pool_lock);
	if (m->pooled < POOL_KEPT) {
		c->next = m->pool;
		m->pool = c;
		m->pooled++;
		c = NULL;
	}
	pthread_mutex_unlock(&m->pool_lock);
	pt_sqlite_conn_close(c);
}

static void sqlite_get(void *h, const struct pt_meta_key *key, struct pt_buf *ret_value, uint64_t *ret_version, struct pt_done *done)
{
	struct sqlite_meta *m = h;
	struct pt_sqlite_conn *c;
	int rc = reader_take(m, &c);

	if (rc == 0) {
		rc = pt_sqlite_get(c, key, ret_value, ret_version);
		reader_give(m, c);
	}
	pt_done_call(done, rc);
}

/* One transaction: its locks are what a single get mostly costs. */
static void sqlite_get_many(void *h, const struct pt_meta_key *keys, size_t count, pt_meta_many_fn *fn, void *ctx, struct pt_done *done)
{
	struct sqlite_meta *m = h;
	struct pt_sqlite_conn *c;
	int rc = reader_take(m, &c);

	if (rc == 0) {
		rc = pt_sqlite_conn_run(c, PT_SQLITE_BEGIN_READ);
		if (rc == 0)
			rc = pt_sqlite_get_many(c, keys, count, fn, ctx);
		if (rc == 0)
			rc = pt_sqlite_conn_run(c, PT_SQLITE_COMMIT);
		if (rc < 0)
			pt_sqlite_roll_back(c);
		reader_give(m, c);
	}
	pt_done_call(done, rc);
}

/* Rows of a scan in memory: u32 key length, u64 value length, u64 version, key, value. */
static int row_keep(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct pt_buf *rows = ctx;

	pt_meta_rows_add(rows, key, key_len, value, value_len, version);
	return pt_buf_failed(rows) ? pt_fail_nomem() : 0;
}

static void sqlite_scan(void *h, const struct pt_meta_key *start, const struct pt_meta_key *end, uint64_t limit, pt_meta_scan_fn *fn,
			void *ctx, struct pt_done *done)
{
	struct pt_buf rows = PT_BUF_INIT;
	struct sqlite_meta *m = h;
	struct pt_sqlite_conn *c;
	int rc = reader_take(m, &c);

	if (rc == 0) {
		if (m->mode == PT_SQLITE_MEMORY)
			rc = pt_sqlite_scan(c, start, end, limit, row_keep, &rows);
		else
			rc = pt_sqlite_scan(c, start, end, limit, fn, ctx);
		reader_give(m, c);
	}
	if (rc == 0 && m->mode == PT_SQLITE_MEMORY)
		rc = pt_meta_rows_play(rows.data, rows.len, fn, ctx);
	pt_buf_done(&rows);
	pt_done_call(done, rc);
}

static bool is_full(int rc)
{
	return rc == -ENOSPC || rc == -EDQUOT;
}

static bool deletes(const struct pt_meta_op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ops[i].kind == PT_META_DELETE)
			return true;
	return false;
}

static void take_log_in(struct sqlite_meta *m)
{
	sqlite3_wal_checkpoint_v2(m->writer->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* On a full filesystem: the log's own space is used again once it has been taken in. Where that needs space as well, deletions get what is kept for
 * them, first of all for taking the log in. What they leave of it is kept again at once: uploads must not get it. */
static int commit_locked(struct sqlite_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	int rc = still_ours(m);

	if (rc < 0)
		return rc;
	rc = pt_sqlite_commit(m->writer, ops, count, ret_version);

	if (m->file.path && is_full(rc)) {
		take_log_in(m);
		rc = pt_sqlite_commit(m->writer, ops, count, ret_version);
	}
	if (m->file.path && is_full(rc) && deletes(ops, count) && pt_sqlite_file_release(&m->file)) {
		take_log_in(m);
		rc = pt_sqlite_commit(m->writer, ops, count, ret_version);
		m->released = !pt_sqlite_file_reserve(&m->file);
	} else if (rc == 0 && m->released && ++m->batches % RESERVE_EVERY == 0) {
		m->released = !pt_sqlite_file_reserve(&m->file);
	}
	if (rc == 0 || rc == -EAGAIN)
		m->writer->in_vain_ns = 0;
	return rc;
}

/* NORMAL leaves out the fsync of the log after a transaction. Frames are written in order and checked by running sums, so the next transaction's makes this one durable,
 * too, and after a power loss the log ends somewhere between two transactions. */
static int synchronous_set(struct sqlite_meta *m, bool full)
{
	int rc;

	if (!full)
		m->relaxed = true;
	rc = sqlite3_exec(m->writer->db, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return pt_sqlite_conn_fail(m->writer, rc);
	m->relaxed = !full;
	return 0;
}

/* Where going back fails the batch is there all the same, and the next that has to be durable tries again. */
static int commit_lazy_locked(struct sqlite_meta *m, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version)
{
	char sentence[PT_FAIL_SENTENCE_MAX];
	int rc;

	rc = synchronous_set(m, false);
	if (rc < 0)
		return rc;
	rc = commit_locked(m, ops, count, ret_version);
	if (rc == 0)
		__atomic_store_n(&m->lazy, true, __ATOMIC_RELEASE);
	snprintf(sentence, sizeof(sentence), "%s", pt_fail_sentence());
	if (synchronous_set(m, true) < 0)
		pt_fail_clear();
	if (rc < 0)
		pt_fail(-rc, "%s", sentence);
	return rc;
}

static void commit_any(struct sqlite_meta *m, bool lazy, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	uint64_t version = 0;
	int rc = check_process(m);

	if (rc < 0) {
		pt_done_call(done, rc);
		return;
	}
	pthread_mutex_lock(&m->write_lock);
	if (lazy && m->file.path) {
		rc = commit_lazy_locked(m, ops, count, &version);
	} else {
		rc = m->relaxed ? synchronous_set(m, true) : 0;
		if (rc == 0)
			rc = commit_locked(m, ops, count, &version);
		if (rc == 0 && pt_meta_writes(ops, count))      /* one that only compares makes nothing durable */
			__atomic_store_n(&m->lazy, false, __ATOMIC_RELEASE);
	}
	if (rc == 0) {
		*ret_version = version;
		pt_sqlite_watch_committed(&m->watch, version);
	}
	pthread_mutex_unlock(&m->write_lock);
	pt_done_call(done, rc);
}

static void sqlite_commit(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	commit_any(h, false, ops, count, ret_version, done);
}

static void sqlite_commit_lazy(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	commit_any(h, true, ops, count, ret_version, done);
}

static int highest_now(void *ctx, uint64_t *ret_version)
{
	struct sqlite_meta *m = ctx;
	struct pt_sqlite_conn *c;
	int rc = reader_take(m, &c);

	if (rc == 0) {
		rc = pt_sqlite_highest(c, ret_version);
		reader_give(m, c);
	}
	return rc;
}

static bool sqlite_mark(void *h, struct pt_meta_mark *ret_mark)
{
	struct sqlite_meta *m = h;

	return pt_sqlite_watch_mark(&m->watch, ret_mark);
}

static void sqlite_watch(void *h, uint64_t seen, int64_t timeout_ns, uint64_t *ret_version, struct pt_done *done)
{
	struct sqlite_meta *m = h;

	pt_done_call(done, pt_sqlite_watch_wait(&m->watch, seen, timeout_ns, highest_now, m, ret_version));
}

static void sqlite_space(void *h, struct pt_meta_space *ret_space, struct pt_done *done)
{
	struct sqlite_meta *m = h;
	int rc = 0;

	if (m->file.path) {
		rc = pt_sqlite_file_space(&m->file, ret_space);
	} else {
		struct sysinfo info;

		ret_space->used_bytes = (uint64_t)sqlite3_memory_used();
		ret_space->free_bytes = sysinfo(&info) == 0 ? (uint64_t)info.freeram * info.mem_unit : 0;
	}
	pt_done_call(done, rc);
}

/* What commits since the last sync are in the log, so the log is all there is to sync. A checkpoint does so itself before it copies frames. */
static int log_sync_locked(struct sqlite_meta *m)
{
	sqlite3_file *log = NULL;
	int rc = sqlite3_file_control(m->writer->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);

	errno = 0;
	if (rc == SQLITE_OK)
		rc = log && log->pMethods ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) : SQLITE_IOERR_FSYNC;
	return rc == SQLITE_OK ? 0 : pt_sqlite_conn_fail_errno(m->writer, rc, errno);
}

/* Not by a commit: that would raise the version, and whoever keeps records in memory would have to read them again. */
static void sqlite_sync(void *h, struct pt_done *done)
{
	struct sqlite_meta *m = h;
	int rc = check_process(m);

	if (rc == 0 && __atomic_load_n(&m->lazy, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&m->write_lock);
		if (m->lazy)
			rc = log_sync_locked(m);
		if (rc == 0)
			__atomic_store_n(&m->lazy, false, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&m->write_lock);
	}
	pt_done_call(done, rc);
}

static void sqlite_snapshot(void *h, int dirfd, const char *path, struct pt_done *done)
{
	struct sqlite_meta *m = h;
	struct pt_sqlite_file copy;
	struct pt_sqlite_conn *c;
	int rc = pt_sqlite_file_init(&copy, dirfd, path);

	if (rc == 0) {
		rc = reader_take(m, &c);
		if (rc == 0) {
			rc = pt_sqlite_file_copy(c, &copy);
			reader_give(m, c);
		}
		pt_sqlite_file_done(&copy);
	}
	pt_done_call(done, rc);
}

static void sqlite_close(void *h)
{
	struct sqlite_meta *m = h;

	/* In a forked child closing would drop the parent's locks. */
	if (m->pid == pt_process_id()) {
		while (m->pool) {
			struct pt_sqlite_conn *c = m->pool;

			m->pool = c->next;
			pt_sqlite_conn_close(c);
		}
		pt_sqlite_conn_close(m->writer);
	}
	pt_sqlite_watch_done(&m->watch);
	pthread_mutex_destroy(&m->pool_lock);
	pthread_mutex_destroy(&m->write_lock);
	pt_sqlite_file_done(&m->file);
	free(m);
}

#define SQLITE_META_OPS(durable_) { \
	.size = sizeof(struct pt_meta_ops), \
	.version = 1, \
	.name = "sqlite", \
	.durable = durable_, \
	.close = sqlite_close, \
	.get = sqlite_get, \
	.scan = sqlite_scan, \
	.commit = sqlite_commit, \
	.watch = sqlite_watch, \
	.space = sqlite_space, \
	.sync = sqlite_sync, \
	.snapshot = sqlite_snapshot, \
	.mark = sqlite_mark, \
	.get_many = sqlite_get_many, \
	.commit_lazy = sqlite_commit_lazy, \
}

static const struct pt_meta_ops file_ops = SQLITE_META_OPS(true);
static const struct pt_meta_ops memory_ops = SQLITE_META_OPS(false);

static int writer_open(struct sqlite_meta *m)
{
	int rc = pt_sqlite_conn_open(&m->file, m->mode, &m->writer);
	uint64_t highest;

	if (rc == 0)
		rc = pt_sqlite_highest(m->writer, &highest);
	if (rc < 0) {
		pt_sqlite_conn_close(m->writer);
		m->writer = NULL;
	} else {
		pt_sqlite_watch_start(&m->watch, m->mode, m->writer, highest);
	}
	return rc;
}

int pt_meta_sqlite_open_at(int dirfd, const char *path, struct pt_meta *ret_meta)
{
	struct sqlite_meta *m = pt_calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return pt_fail_nomem();
	m->pid = pt_process_id();
	m->mode = PT_SQLITE_MEMORY;
	m->file.dirfd = -1;
	rc = path ? pt_sqlite_file_init(&m->file, dirfd, path) : 0;
	if (rc < 0) {
		free(m);
		return rc;
	}
	pthread_mutex_init(&m->write_lock, NULL);
	pthread_mutex_init(&m->pool_lock, NULL);
	rc = pt_sqlite_watch_init(&m->watch, m->file.at);
	if (rc < 0)
		goto fail;
	if (path) {
		rc = pt_sqlite_file_prepare(&m->file, &m->mode);
		if (rc < 0)
			goto fail;
	}
	rc = writer_open(m);
	/* Its shared memory takes space. */
	if (m->mode == PT_SQLITE_OPEN && is_full(rc) && pt_sqlite_file_release(&m->file))
		rc = writer_open(m);
	if (rc < 0)
		goto fail;
	if (m->mode == PT_SQLITE_OPEN)
		rc = pt_sqlite_file_identify(&m->file, pt_sqlite_vfs_shm(m->writer->db) != NULL, &m->id);
	if (rc < 0)
		goto fail;
	if (m->mode == PT_SQLITE_OPEN)
		m->released = !pt_sqlite_file_reserve(&m->file);
	*ret_meta = (struct pt_meta){ .ops = path ? &file_ops : &memory_ops, .h = m };
	return 0;
fail:
	sqlite_close(m);
	return rc;
}

int pt_meta_sqlite_open(const char *path, struct pt_meta *ret_meta)
{
	return pt_meta_sqlite_open_at(-1, path, ret_meta);
}

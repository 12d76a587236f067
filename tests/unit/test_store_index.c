/* tests/unit/test_store_index.c - the index as a file: many processes, crashes, damage. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "store/sqlite_conn.h"
#include "store/sqlite_news.h"
#include "store/sqlite_vfs.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static char *path;

static void setup(void)
{
	path = path_in(dir_make(), "index.db");
}

static void teardown(void)
{
	free(path);
}

#define PROCESSES 4
#define THREADS 2
#define COUNTS 25

static struct pt_meta child_meta;

static void *count_up(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < COUNTS;) {
		int rc = meta_count_up(&child_meta);

		CHILD_MUST(rc == 0 || rc == -EAGAIN);
		if (rc == 0)
			i++;
	}
	return NULL;
}

static void count_in_process(void *ctx, int fd)
{
	pthread_t threads[THREADS];

	(void)ctx, (void)fd;
	/* The first to come makes the index. */
	CHILD_MUST(pt_meta_sqlite_open(path, &child_meta) == 0);
	for (int i = 0; i < THREADS; i++)
		CHILD_MUST(pthread_create(&threads[i], NULL, count_up, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pt_meta_close(&child_meta);
}

START_TEST(processes_that_compare_and_set_lose_no_count)
{
	struct pt_buf b = PT_BUF_INIT;
	pid_t pids[PROCESSES];
	struct pt_meta meta;

	for (int i = 0; i < PROCESSES; i++)
		pids[i] = child_start(count_in_process, NULL, NULL);
	for (int i = 0; i < PROCESSES; i++)
		child_join(pids[i]);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(pt_meta_get(&meta, "counter", 7, &b, NULL));
	ck_assert_uint_eq(pt_get_le64(b.data), PROCESSES * THREADS * COUNTS);
	pt_buf_done(&b);
	pt_meta_close(&meta);
}
END_TEST

/* Batches of three records with the same number, which is told once committed. */
static void commit_for_ever(void *ctx, int fd)
{
	struct pt_meta meta;

	(void)ctx;
	CHILD_MUST(pt_meta_sqlite_open(path, &meta) == 0);
	for (uint64_t n = 1;; n++) {
		uint8_t value[3000] = { 0 };
		struct pt_meta_op ops[3];

		pt_put_le64(value, n);
		for (int i = 0; i < 3; i++)
			ops[i] = (struct pt_meta_op){ .kind = PT_META_PUT, .key = { i == 0 ? "a" : i == 1 ? "b" : "c", 1 }, .value = value,
						      .value_len = sizeof(value) };
		CHILD_MUST(pt_meta_commit(&meta, ops, 3, NULL) == 0);
		CHILD_MUST(write(fd, &n, sizeof(n)) == sizeof(n));
	}
}

static uint64_t number_in(struct pt_meta *m, const char *key)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t version, n;

	MUST_WORK(pt_meta_get(m, key, 1, &b, &version));
	n = version ? pt_get_le64(b.data) : 0;
	pt_buf_done(&b);
	return n;
}

START_TEST(a_killed_committer_leaves_every_batch_that_it_told_of)
{
	struct rng r = { rng_seed(77) };

	for (int round = 0; round < 8; round++) {
		uint64_t told = 0, n, wanted = rng_between(&r, 1, 60);
		struct pt_meta meta;
		int fd;
		pid_t pid = child_start(commit_for_ever, NULL, &fd);

		while (told < wanted && read(fd, &n, sizeof(n)) == sizeof(n))
			told = n;
		ck_assert_uint_eq(told, wanted);
		usleep((useconds_t)rng_below(&r, 2000));
		child_kill(pid);
		while (read(fd, &n, sizeof(n)) == sizeof(n))
			told = n;
		close(fd);
		MUST_WORK(pt_meta_sqlite_open(path, &meta));
		n = number_in(&meta, "a");
		ck_assert_uint_ge(n, told);
		ck_assert_uint_le(n, told + 1);
		ck_assert_uint_eq(number_in(&meta, "b"), n);
		ck_assert_uint_eq(number_in(&meta, "c"), n);
		pt_meta_close(&meta);
	}
}
END_TEST

static void put_one(void *ctx, int fd)
{
	struct pt_meta meta;

	(void)fd;
	CHILD_MUST(pt_meta_sqlite_open(path, &meta) == 0);
	CHILD_MUST(meta_put(&meta, ctx, "v", 1, NULL) == 0);
	pt_meta_close(&meta);
}

START_TEST(a_watch_sees_other_processes_commits)
{
	struct pt_meta meta;
	uint64_t seen, now;
	pid_t pid;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(pt_meta_watch(&meta, 0, 0, &seen));
	ck_assert_uint_eq(seen, 0);
	pt_meta_close(&meta);
	pid = child_start(put_one, (void *)(uintptr_t)"k", NULL);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(pt_meta_watch(&meta, seen, INT64_C(60000000000), &now));
	ck_assert_uint_eq(now, 1);
	child_join(pid);
	pt_meta_close(&meta);
}
END_TEST

/* Descriptors of this process that wait for files to change. */
static int inotify_count(void)
{
	char link[64], to[64];
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(link, to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = '\0';
		n += strstr(to, "inotify") != NULL;
	}
	return n;
}

START_TEST(a_watch_hands_what_it_waits_with_to_the_next)
{
	uint64_t seen, now;
	struct pt_meta meta;
	pid_t pid;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_put(&meta, "k", "v", 1, &seen));
	for (int i = 0; i < 3; i++) {
		MUST_WORK(pt_meta_watch(&meta, seen, 1000000, &now));
		ck_assert_int_eq(inotify_count(), 1);
		MUST_WORK(pt_meta_version(&meta, &now));
		ck_assert_int_eq(inotify_count(), 1);
	}
	pid = child_start(put_one, (void *)(uintptr_t)"l", NULL);
	MUST_WORK(pt_meta_watch(&meta, seen, INT64_C(60000000000), &now));
	ck_assert_uint_gt(now, seen);
	child_join(pid);
	pt_meta_close(&meta);
	ck_assert_int_eq(inotify_count(), 0);
}
END_TEST

START_TEST(batches_of_this_process_are_told_from_others)
{
	uint64_t first, last, version;
	struct pt_meta meta;
	pid_t pid;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_put(&meta, "a", "v", 1, &first));
	MUST_WORK(meta_put(&meta, "b", "v", 1, &last));
	ck_assert(pt_meta_own(&meta, first - 1, last));
	ck_assert(pt_meta_own(&meta, last, last));
	ck_assert(!pt_meta_own(&meta, last, last + 1));
	pid = child_start(put_one, (void *)(uintptr_t)"k", NULL);
	child_join(pid);
	MUST_WORK(pt_meta_version(&meta, &version));
	ck_assert_uint_gt(version, last);
	ck_assert(!pt_meta_own(&meta, last, version));
	MUST_WORK(meta_put(&meta, "c", "v", 1, &last));
	ck_assert(pt_meta_own(&meta, version, last));
	ck_assert(!pt_meta_own(&meta, first - 1, last));
	for (int i = 0; i < PT_META_OWN + 10; i++)
		MUST_WORK(meta_put(&meta, "c", "v", 1, &version));
	ck_assert(pt_meta_own(&meta, version - PT_META_OWN, version));
	ck_assert(!pt_meta_own(&meta, last, version));
	pt_meta_close(&meta);
}
END_TEST

START_TEST(news_of_a_log_are_what_is_written_to_it)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	struct pt_sqlite_news news;
	int64_t before;

	ck_assert_int_ge(fd, 0);
	pt_sqlite_news_init(&news, path);
	ck_assert_int_ge(news.fd, 0);
	before = news.since_ns;
	pt_sqlite_news_wait(&news, INT64_MAX);
	ck_assert_int_eq(news.since_ns, before);
	ck_assert_int_eq(pwrite(fd, "x", 1, 0), 1);
	pt_sqlite_news_wait(&news, INT64_MAX);
	ck_assert_int_gt(news.since_ns, before);
	pt_sqlite_news_done(&news);
	/* Without inotify it is time to look again all the same. */
	pt_sqlite_news_wait(&news, INT64_MAX);
	close(fd);
}
END_TEST

/* One watch after the other of an index at rest looks as seldom as one long watch does. */
START_TEST(watches_of_an_index_at_rest_hardly_wake)
{
	struct rusage before, after;
	struct pt_meta meta;
	uint64_t version, seen;
	int i;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_put(&meta, "a", "v", 1, &seen));
	for (i = 0; i < 8; i++) {
		if (i == 4)
			getrusage(RUSAGE_THREAD, &before);
		MUST_WORK(pt_meta_watch(&meta, seen, INT64_C(100000000), &version));
		ck_assert_uint_eq(version, seen);
	}
	getrusage(RUSAGE_THREAD, &after);
	ck_assert_int_lt(after.ru_nvcsw - before.ru_nvcsw, 30);         /* 100 when each watch began with looks 0.1 ms apart */
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_process_that_stopped_with_the_lock_is_not_waited_for_by_one_after_the_other)
{
	const int64_t as_it_was = pt_sqlite_busy_ns;
	struct pt_meta meta;
	int64_t begun;
	sqlite3 *db;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_count_up(&meta));
	MUST(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, PT_SQLITE_VFS) == SQLITE_OK);
	MUST(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
	pt_sqlite_busy_ns = INT64_C(1000000000);
	begun = pt_time_boot_ns();
	MUST_FAIL(EIO, meta_count_up(&meta));
	ck_assert_int_ge(pt_time_boot_ns() - begun, pt_sqlite_busy_ns);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "stayed locked by another process"));
	for (int i = 0; i < 20; i++)
		MUST_FAIL(EIO, meta_count_up(&meta));
	ck_assert_int_lt(pt_time_boot_ns() - begun, 11 * pt_sqlite_busy_ns);
	MUST(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
	MUST_WORK(meta_count_up(&meta));
	/* From then on it is waited for as before. */
	MUST(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
	begun = pt_time_boot_ns();
	MUST_FAIL(EIO, meta_count_up(&meta));
	ck_assert_int_ge(pt_time_boot_ns() - begun, pt_sqlite_busy_ns);
	pt_sqlite_busy_ns = as_it_was;
	sqlite3_close(db);
	pt_meta_close(&meta);
}
END_TEST

/* What the system answers SQLite with: 0: what it is asked for. */
static int write_errno, read_errno;

static ssize_t failing_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	if (!write_errno)
		return pwrite(fd, buf, len, off);
	errno = write_errno;
	return -1;
}

static ssize_t failing_pread(int fd, void *buf, size_t len, off_t off)
{
	if (!read_errno)
		return pread(fd, buf, len, off);
	errno = read_errno;
	return -1;
}

static void system_call_replace(const char *name, sqlite3_syscall_ptr fn)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	MUST(vfs && vfs->iVersion >= 3 && vfs->xSetSystemCall(vfs, name, fn) == SQLITE_OK);
}

static void system_calls_replace(bool failing)
{
	MUST(sqlite3_initialize() == SQLITE_OK);
	system_call_replace("pwrite", failing ? (sqlite3_syscall_ptr)failing_pwrite : NULL);
	system_call_replace("pwrite64", failing ? (sqlite3_syscall_ptr)failing_pwrite : NULL);
	system_call_replace("pread", failing ? (sqlite3_syscall_ptr)failing_pread : NULL);
	system_call_replace("pread64", failing ? (sqlite3_syscall_ptr)failing_pread : NULL);
}

START_TEST(a_commit_that_the_system_refuses_says_why)
{
	static const struct { int err; const char *says; } refused[] = {
		{ ENOSPC, "no space is left" }, { EDQUOT, "quota" }, { EROFS, "read-only" }, { EIO, "Input/output error" },
	};
	struct pt_meta meta;

	system_calls_replace(true);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_count_up(&meta));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		write_errno = refused[i].err;
		MUST_FAIL(refused[i].err, meta_count_up(&meta));
		ck_assert_msg(strstr(pt_fail_sentence(), refused[i].says) != NULL, "%s", pt_fail_sentence());
		write_errno = 0;
		MUST_WORK(meta_count_up(&meta));
	}
	pt_meta_close(&meta);
	system_calls_replace(false);
}
END_TEST

START_TEST(an_index_that_cannot_be_read_is_not_called_damaged)
{
	struct pt_meta meta;

	system_calls_replace(true);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_count_up(&meta));
	pt_meta_close(&meta);
	read_errno = EIO;
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	ck_assert_msg(strstr(pt_fail_sentence(), "Input/output error") != NULL && !strstr(pt_fail_sentence(), "damaged"), "%s", pt_fail_sentence());
	read_errno = 0;
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	pt_meta_close(&meta);
	system_calls_replace(false);
}
END_TEST

static int commit_put(struct pt_meta *meta, const char *key)
{
	struct pt_meta_op op = { .kind = PT_META_PUT, .key = { key, strlen(key) }, .value = "v", .value_len = 1 };

	return pt_meta_commit(meta, &op, 1, NULL);
}

/* What was moved away and comes back is the same again. */
START_TEST(nothing_is_committed_to_an_index_that_lost_its_name)
{
	char *away = path_in(dir_make(), "away"), *log = NULL;
	struct pt_meta meta, other;

	ck_assert_int_gt(asprintf(&log, "%s-wal", path), 0);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(commit_put(&meta, "a"));
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rename(i ? log : path, away), 0);
		MUST_FAIL(EIO, commit_put(&meta, "b"));
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), path));
		ck_assert_int_eq(rename(away, i ? log : path), 0);
		MUST_WORK(commit_put(&meta, "c"));
	}
	/* Another one in its place. */
	ck_assert_int_eq(rename(path, away), 0);
	ck_assert_int_eq(unlink(log), 0);
	MUST_WORK(pt_meta_sqlite_open(path, &other));
	MUST_FAIL(EIO, commit_put(&meta, "d"));
	MUST_WORK(commit_put(&other, "e"));
	pt_meta_close(&other);
	pt_meta_close(&meta);
	free(away);
	free(log);
}
END_TEST

START_TEST(an_index_made_by_many_at_once_is_one)
{
	static char names[8][2] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	struct pt_meta meta;
	pid_t pids[8];

	for (int i = 0; i < 8; i++)
		pids[i] = child_start(put_one, names[i], NULL);
	for (int i = 0; i < 8; i++)
		child_join(pids[i]);
	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	ck_assert_uint_eq(meta_count(&meta), 8);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_forked_child_is_refused)
{
	struct pt_meta meta;
	pid_t pid;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	MUST_WORK(meta_put(&meta, "k", "v", 1, NULL));
	pid = fork();
	if (pid == 0) {
		uint64_t v;

		CHILD_MUST(pt_meta_get(&meta, "k", 1, NULL, &v) == -EIO);
		CHILD_MUST(meta_put(&meta, "k", "v", 1, NULL) == -EIO);
		CHILD_MUST(strstr(pt_fail_sentence(), "fork"));
		_exit(0);
	}
	child_join(pid);
	MUST_WORK(meta_put(&meta, "k", "v", 1, NULL));
	pt_meta_close(&meta);
}
END_TEST

/* --- damage ------------------------------------------------------------------ */

#define RECORDS 300

static void record_of(int i, char ret_key[32], uint8_t ret_value[1500], size_t *ret_len)
{
	snprintf(ret_key, 32, "record/%03d", i);
	*ret_len = i % 50 == 0 ? 1500 : (size_t)(20 + i % 40);
	pattern_fill(ret_value, *ret_len, (uint64_t)i);
}

/* The bytes of an index with RECORDS records, in pages of every kind. */
static uint8_t *make_index(size_t *ret_len)
{
	struct pt_meta meta;
	struct stat st;
	uint8_t *bytes;
	int fd;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	for (int i = 0; i < RECORDS; i += 100) {
		struct pt_meta_op ops[100];
		static uint8_t values[100][1500];
		static char keys[100][32];

		for (int j = 0; j < 100; j++) {
			size_t len;

			record_of(i + j, keys[j], values[j], &len);
			ops[j] = (struct pt_meta_op){ .kind = PT_META_PUT, .key = { keys[j], strlen(keys[j]) }, .value = values[j],
						      .value_len = len };
		}
		MUST_WORK(pt_meta_commit(&meta, ops, 100, NULL));
	}
	pt_meta_close(&meta);
	fd = open(path, O_RDONLY);
	MUST(fd >= 0 && fstat(fd, &st) == 0);
	bytes = malloc((size_t)st.st_size);
	MUST(bytes && pt_io_pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return bytes;
}

static void write_index(const uint8_t *bytes, size_t len)
{
	char *side = NULL;
	int fd;

	for (int i = 0; i < 2; i++) {
		MUST(asprintf(&side, "%s%s", path, i ? "-wal" : "-shm") > 0);
		unlink(side);
		free(side);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	MUST(fd >= 0);
	MUST_WORK(pt_io_pwrite(fd, bytes, len, 0));
	close(fd);
}

static int match_record(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	uint8_t want[1500];
	int *n = ctx;
	char name[32];
	size_t len;

	record_of(*n, name, want, &len);
	MUST(key_len == strlen(name) && memcmp(key, name, key_len) == 0);
	MUST(value_len == len && memcmp(value, want, len) == 0);
	MUST(version >= 1 && version <= 3);
	++*n;
	return 0;
}

/* Everything in it is right, or something is refused with a sentence. True: all right. */
static bool right_or_refused(void)
{
	struct pt_meta meta;
	bool right = true;
	int n = 0;
	int rc;

	pt_fail_clear();
	rc = pt_meta_sqlite_open(path, &meta);
	if (rc < 0) {
		MUST(*pt_fail_sentence());
		return false;
	}
	for (int i = 0; i < RECORDS; i += 17) {
		struct pt_buf b = PT_BUF_INIT;
		uint8_t want[1500];
		uint64_t version;
		char key[32];
		size_t len;

		record_of(i, key, want, &len);
		pt_fail_clear();
		rc = pt_meta_get(&meta, key, strlen(key), &b, &version);
		if (rc < 0) {
			MUST(rc == -EIO && *pt_fail_sentence());
			right = false;
			continue;
		}
		MUST(version > 0 && b.len == len && memcmp(b.data, want, len) == 0);
		pt_buf_done(&b);
	}
	pt_fail_clear();
	rc = pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, match_record, &n);
	if (rc < 0) {
		MUST(rc == -EIO && *pt_fail_sentence());
		right = false;
	} else {
		MUST(n == RECORDS);
	}
	pt_meta_close(&meta);
	return right;
}

START_TEST(a_flipped_bit_is_refused_or_harmless)
{
	struct rng r = { rng_seed(4242) };
	size_t len;
	uint8_t *bytes = make_index(&len);
	int refused = 0;

	ck_assert(right_or_refused());
	for (int i = 0; i < 500; i++) {
		/* A third in the first bytes of a page, where its structure is. */
		size_t at = i % 3 ? rng_below(&r, len) : rng_below(&r, len / 4096) * 4096 + rng_below(&r, 110);
		uint8_t bit = (uint8_t)(1u << rng_below(&r, 8));

		bytes[at] ^= bit;
		write_index(bytes, len);
		refused += !right_or_refused();
		bytes[at] ^= bit;
	}
	ck_assert_int_gt(refused, 400);
	write_index(bytes, len);
	ck_assert(right_or_refused());
	free(bytes);
}
END_TEST

/* As newer builds of SQLite read the continuation of a large record; here by hand, so that it is tested with any. */
START_TEST(a_read_of_part_of_a_page_checks_the_page)
{
	sqlite3_vfs *vfs;
	sqlite3_file *f;
	uint8_t part[4088];
	size_t len;
	uint8_t *bytes = make_index(&len);
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MAIN_DB;

	vfs = sqlite3_vfs_find(PT_SQLITE_VFS);
	ck_assert_ptr_nonnull(vfs);
	f = calloc(1, (size_t)vfs->szOsFile);
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(vfs->xOpen(vfs, path, f, flags, &flags), SQLITE_OK);
	for (int n = 1; n <= 4088; n = n < 8 ? n + 1 : n * 2 - 7) {
		ck_assert_int_eq(f->pMethods->xRead(f, part, n, 2 * 4096), SQLITE_OK);
		ck_assert_mem_eq(part, bytes + 2 * 4096, n);
		ck_assert_int_eq(f->pMethods->xRead(f, part, n, 3 * 4096 - n), SQLITE_OK);
		ck_assert_mem_eq(part, bytes + 3 * 4096 - n, n);
	}
	ck_assert_int_eq(f->pMethods->xRead(f, part, 4088, 2 * 4096 + 9), SQLITE_CORRUPT);
	ck_assert_int_eq(f->pMethods->xRead(f, part, 100, (sqlite3_int64)len), SQLITE_CORRUPT);
	bytes[2 * 4096 + 3000] ^= 1;
	write_index(bytes, len);
	ck_assert_int_eq(f->pMethods->xRead(f, part, 4, 2 * 4096), SQLITE_IOERR_DATA);
	ck_assert_int_eq(f->pMethods->xRead(f, part, 4, 3 * 4096), SQLITE_OK);
	f->pMethods->xClose(f);
	free(f);
	free(bytes);
}
END_TEST

START_TEST(a_page_in_the_place_of_another_is_refused)
{
	uint8_t saved[4096];
	size_t len;
	uint8_t *bytes = make_index(&len);

	ck_assert_uint_gt(len / 4096, 8);
	for (size_t i = 1; i + 1 < len / 4096; i++) {
		memcpy(saved, bytes + i * 4096, 4096);
		memcpy(bytes + i * 4096, bytes + (i + 1) * 4096, 4096);
		write_index(bytes, len);
		ck_assert(!right_or_refused());
		memcpy(bytes + i * 4096, saved, 4096);
	}
	free(bytes);
}
END_TEST

START_TEST(a_truncated_index_is_refused)
{
	size_t len;
	uint8_t *bytes = make_index(&len);
	struct pt_meta meta;

	for (size_t cut = 0; cut < len; cut += cut % 4096 == 0 ? 1000 : 3096) {
		write_index(bytes, cut);
		ck_assert(!right_or_refused());
	}
	write_index(bytes, 0);
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "ptio fsck --rebuild"));
	write_index(bytes, len - 4096);
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "ptio fsck --rebuild"));
	free(bytes);
}
END_TEST

START_TEST(what_is_not_an_index_is_refused)
{
	uint8_t text[20000];
	struct pt_meta meta;
	sqlite3 *db;

	memset(text, 'x', sizeof(text));
	write_index(text, sizeof(text));
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	unlink(path);
	MUST(sqlite3_open(path, &db) == SQLITE_OK);
	MUST(sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES(1)", NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	unlink(path);
	MUST(mkdir(path, 0700) == 0);
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
	rmdir(path);
	free(path);
	path = path_in(dir_make(), "absent/index.db");
	MUST_FAIL(ENOENT, pt_meta_sqlite_open(path, &meta));
}
END_TEST

/* A statement as a ptio of the future, or a careless user, might run it. */
static void run_sql(const char *sql)
{
	sqlite3 *db;

	MUST_WORK(pt_sqlite_vfs_register());
	MUST(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, PT_SQLITE_VFS) == SQLITE_OK);
	MUST(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

START_TEST(a_newer_format_is_refused)
{
	struct pt_meta meta;

	MUST_WORK(pt_meta_sqlite_open(path, &meta));
	pt_meta_close(&meta);
	run_sql("UPDATE ptio SET value = 2 WHERE name = 'format'");
	MUST_FAIL(ENOTSUP, pt_meta_sqlite_open(path, &meta));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "upgrade ptio"));
	run_sql("DELETE FROM ptio WHERE name = 'format'");
	MUST_FAIL(EIO, pt_meta_sqlite_open(path, &meta));
}
END_TEST

START_TEST(a_record_changed_behind_our_back_is_refused)
{
	static const char *const changes[] = {
		"UPDATE record SET value = x'00' WHERE key = CAST('k' AS BLOB)",
		"UPDATE record SET version = 77 WHERE key = CAST('k' AS BLOB)",
		"UPDATE record SET version = 0 WHERE key = CAST('k' AS BLOB)",
		"UPDATE record SET hash = hash + 1 WHERE key = CAST('k' AS BLOB)",
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct pt_buf b = PT_BUF_INIT;
		struct pt_meta meta;
		uint64_t v;
		int n = 0;

		MUST_WORK(pt_meta_sqlite_open(path, &meta));
		MUST_WORK(meta_put(&meta, "k", "value", 5, NULL));
		pt_meta_close(&meta);
		run_sql(changes[i]);
		MUST_WORK(pt_meta_sqlite_open(path, &meta));
		MUST_FAIL(EIO, pt_meta_get(&meta, "k", 1, &b, &v));
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "index record \"k\" is damaged"));
		MUST_FAIL(EIO, pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, match_record, &n));
		pt_meta_close(&meta);
	}
}
END_TEST

int main(void)
{
	TCase *tcases[] = { tcase_create("processes"), tcase_create("damage") };

	for (size_t i = 0; i < 2; i++)
		tcase_add_checked_fixture(tcases[i], setup, teardown);
	tcase_add_test(tcases[0], processes_that_compare_and_set_lose_no_count);
	tcase_add_test(tcases[0], a_killed_committer_leaves_every_batch_that_it_told_of);
	tcase_add_test(tcases[0], a_watch_sees_other_processes_commits);
	tcase_add_test(tcases[0], a_watch_hands_what_it_waits_with_to_the_next);
	tcase_add_test(tcases[0], batches_of_this_process_are_told_from_others);
	tcase_add_test(tcases[0], news_of_a_log_are_what_is_written_to_it);
	tcase_add_test(tcases[0], watches_of_an_index_at_rest_hardly_wake);
	tcase_add_test(tcases[0], a_process_that_stopped_with_the_lock_is_not_waited_for_by_one_after_the_other);
	tcase_add_test(tcases[0], a_commit_that_the_system_refuses_says_why);
	tcase_add_test(tcases[0], an_index_that_cannot_be_read_is_not_called_damaged);
	tcase_add_test(tcases[0], nothing_is_committed_to_an_index_that_lost_its_name);
	tcase_add_test(tcases[0], an_index_made_by_many_at_once_is_one);
	tcase_add_test(tcases[0], a_forked_child_is_refused);
	tcase_add_test(tcases[1], a_flipped_bit_is_refused_or_harmless);
	tcase_add_test(tcases[1], a_read_of_part_of_a_page_checks_the_page);
	tcase_add_test(tcases[1], a_page_in_the_place_of_another_is_refused);
	tcase_add_test(tcases[1], a_truncated_index_is_refused);
	tcase_add_test(tcases[1], what_is_not_an_index_is_refused);
	tcase_add_test(tcases[1], a_newer_format_is_refused);
	tcase_add_test(tcases[1], a_record_changed_behind_our_back_is_refused);
	return run_suite("store: index", tcases, 2);
}

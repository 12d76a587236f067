/* tests/unit/test_store_meta.c - what the meta contract promises, on every engine. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static struct pt_meta meta;
static const char *dir;

static void open_engine(int engine)
{
	dir = dir_make();
	meta_open(engine, dir, &meta);
}

static void must_hold(const char *key, const void *value, size_t len, uint64_t version)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t v;

	MUST_WORK(pt_meta_get(&meta, key, strlen(key), &b, &v));
	MUST(v == version);
	MUST(b.len == len && (len == 0 || memcmp(b.data, value, len) == 0));
	pt_buf_done(&b);
}

START_TEST(an_absent_record_has_version_0)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t v = 9;

	open_engine(_i);
	MUST_WORK(pt_meta_get(&meta, "no", 2, &b, &v));
	ck_assert_uint_eq(v, 0);
	ck_assert_uint_eq(meta_count(&meta), 0);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(records_of_any_size_come_back)
{
	static const size_t sizes[] = { 0, 1, 100, 1000, 4000, 4096, 70000, 3 << 20 };
	uint8_t *value = malloc(3 << 20);

	open_engine(_i);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t key_len = 1; key_len <= PT_META_KEY_MAX; key_len = key_len == 1 ? 300 : key_len * 2 > PT_META_KEY_MAX && key_len < PT_META_KEY_MAX ? PT_META_KEY_MAX : key_len * 2) {
			uint8_t key[PT_META_KEY_MAX];
			struct pt_meta_op op = { .kind = PT_META_PUT, .key = { key, key_len }, .value = value, .value_len = sizes[i] };
			struct pt_buf b = PT_BUF_INIT;
			uint64_t put, got;

			pattern_fill(key, key_len, i);
			pattern_fill(value, sizes[i], key_len);
			MUST_WORK(pt_meta_commit(&meta, &op, 1, &put));
			MUST_WORK(pt_meta_get(&meta, key, key_len, &b, &got));
			ck_assert_uint_eq(put, got);
			ck_assert_uint_eq(b.len, sizes[i]);
			ck_assert(b.len == 0 || memcmp(b.data, value, b.len) == 0);
			pt_buf_done(&b);
		}
	pt_meta_close(&meta);
	free(value);
}
END_TEST

START_TEST(versions_only_grow_also_over_deletion)
{
	struct pt_meta_op del = { .kind = PT_META_DELETE, .key = { "k", 1 } };
	uint64_t first, second, third, v;

	open_engine(_i);
	MUST_WORK(meta_put(&meta, "k", "a", 1, &first));
	MUST_WORK(meta_put(&meta, "k", "b", 1, &second));
	ck_assert_uint_gt(second, first);
	MUST_WORK(pt_meta_commit(&meta, &del, 1, &v));
	MUST_WORK(pt_meta_get(&meta, "k", 1, NULL, &v));
	ck_assert_uint_eq(v, 0);
	MUST_WORK(pt_meta_commit(&meta, &del, 1, &v));
	MUST_WORK(meta_put(&meta, "k", "c", 1, &third));
	ck_assert_uint_gt(third, second + 1);
	must_hold("k", "c", 1, third);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_batch_is_all_or_nothing)
{
	uint64_t a, v;

	open_engine(_i);
	MUST_WORK(meta_put(&meta, "a", "1", 1, &a));
	{
		struct pt_meta_op ops[] = {
			{ .kind = PT_META_PUT, .key = { "b", 1 }, .value = "2", .value_len = 1 },
			{ .kind = PT_META_DELETE, .key = { "a", 1 } },
			{ .kind = PT_META_COMPARE, .key = { "a", 1 }, .version = a + 1 },
		};

		MUST_FAIL(EAGAIN, pt_meta_commit(&meta, ops, 3, NULL));
		must_hold("a", "1", 1, a);
		ck_assert_uint_eq(meta_count(&meta), 1);
		ops[2].version = 0;
		MUST_FAIL(EAGAIN, pt_meta_commit(&meta, ops, 3, NULL));
		ops[2].version = a;
		MUST_WORK(pt_meta_commit(&meta, ops, 3, &v));
		must_hold("b", "2", 1, v);
		ck_assert_uint_eq(meta_count(&meta), 1);
	}
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_compare_with_0_wants_the_record_absent)
{
	struct pt_meta_op ops[] = {
		{ .kind = PT_META_COMPARE, .key = { "a", 1 } },
		{ .kind = PT_META_PUT, .key = { "a", 1 }, .value = "1", .value_len = 1 },
	};

	open_engine(_i);
	MUST_WORK(pt_meta_commit(&meta, ops, 1, NULL));         /* changes nothing */
	MUST_WORK(pt_meta_commit(&meta, ops, 2, NULL));
	MUST_FAIL(EAGAIN, pt_meta_commit(&meta, ops, 2, NULL));
	pt_meta_close(&meta);
}
END_TEST

struct seen {
	char text[256];
	int stop_at;                            /* calls left before rc is returned */
	int rc;
};

static int see(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct seen *s = ctx;

	MUST(version > 0 && value_len == key_len && memcmp(key, value, key_len) == 0);
	strncat(s->text, key, key_len);
	strcat(s->text, " ");
	return --s->stop_at == 0 ? s->rc : 0;
}

START_TEST(a_scan_gives_a_range_in_order)
{
	static const char *const keys[] = { "b", "a/", "a/x", "a/\xff", "a/\xff\xff", "a0", "\xff", "\xff\xff", "c" };
	struct seen s = { .text = "" };

	open_engine(_i);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		MUST_WORK(meta_put(&meta, keys[i], keys[i], strlen(keys[i]), NULL));
	MUST_WORK(pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, see, &s));
	ck_assert_str_eq(s.text, "a/ a/x a/\xff a/\xff\xff a0 b c \xff \xff\xff ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan(&meta, "a/x", 3, "b", 1, 0, see, &s));
	ck_assert_str_eq(s.text, "a/x a/\xff a/\xff\xff a0 ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan(&meta, "a/y", 3, NULL, 0, 3, see, &s));
	ck_assert_str_eq(s.text, "a/\xff a/\xff\xff a0 ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan_prefix(&meta, "a/", 2, 0, see, &s));
	ck_assert_str_eq(s.text, "a/ a/x a/\xff a/\xff\xff ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan_prefix(&meta, "a/\xff", 3, 0, see, &s));
	ck_assert_str_eq(s.text, "a/\xff a/\xff\xff ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan_prefix(&meta, "\xff", 1, 0, see, &s));
	ck_assert_str_eq(s.text, "\xff \xff\xff ");
	s.text[0] = '\0';
	MUST_WORK(pt_meta_scan(&meta, "z", 1, "b", 1, 0, see, &s));
	ck_assert_str_eq(s.text, "");
	s = (struct seen){ .stop_at = 2, .rc = 1 };
	MUST_WORK(pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, see, &s));
	ck_assert_str_eq(s.text, "a/ a/x ");
	s = (struct seen){ .stop_at = 1, .rc = -ECANCELED };
	ck_assert_int_eq(pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, see, &s), -ECANCELED);
	pt_meta_close(&meta);
}
END_TEST

static int change_while_scanning(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	struct pt_meta_op del = { .kind = PT_META_DELETE, .key = { "k9", 2 } };
	int *n = ctx;
	uint64_t v;

	(void)value, (void)value_len;
	MUST_WORK(pt_meta_get(&meta, key, key_len, NULL, &v));
	MUST(v == version || v == 0);
	if (++*n == 1) {
		MUST_WORK(meta_put(&meta, "k5x", "new", 3, NULL));
		MUST_WORK(pt_meta_commit(&meta, &del, 1, NULL));
	}
	return 0;
}

static int write_down(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	char line[64];

	MUST(version > 0);
	snprintf(line, sizeof(line), "%.*s=%.*s ", (int)key_len, (const char *)key, (int)value_len, (const char *)value);
	pt_buf_append_str(ctx, line);
	return 0;
}

START_TEST(a_look_gives_records_and_all_that_begin_so_in_the_order_asked)
{
	static const char *const keys[] = { "12345678a", "12345678ab", "12345678abc", "b" };
	static const struct {
		const char *key;
		bool begins;
	} wants[] = { { "b", false }, { "12345678ab", true }, { "none", false }, { "none, or so", true }, { "12345678a", false }, { "12345678a", true },
		    { "b", false } };
	struct pt_meta_look look[sizeof(wants) / sizeof(wants[0])], many[3000];
	struct pt_buf text = PT_BUF_INIT;

	open_engine(_i);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		MUST_WORK(meta_put(&meta, keys[i], keys[i], strlen(keys[i]), NULL));
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++)
		look[i] = (struct pt_meta_look){ { wants[i].key, strlen(wants[i].key) }, wants[i].begins };
	MUST_WORK(pt_meta_look(&meta, look, sizeof(wants) / sizeof(wants[0]), write_down, &text));
	pt_buf_append_u8(&text, 0);
	ck_assert_str_eq((char *)text.data, "b=b 12345678ab=12345678ab 12345678abc=12345678abc 12345678a=12345678a 12345678a=12345678a "
			 "12345678ab=12345678ab 12345678abc=12345678abc b=b ");
	/* More than one request takes. */
	pt_buf_reset(&text);
	for (size_t i = 0; i < 3000; i++)
		many[i] = look[0];
	MUST_WORK(pt_meta_look(&meta, many, 3000, write_down, &text));
	ck_assert_uint_eq(text.len, 3000 * 4);
	MUST_WORK(pt_meta_look(&meta, look, 0, write_down, &text));
	look[1].key.len = PT_META_BEGINS_MIN - 1;
	MUST_FAIL(EINVAL, pt_meta_look(&meta, look, 2, write_down, &text));
	look[0].key.len = 0;
	MUST_FAIL(EINVAL, pt_meta_look(&meta, look, 2, write_down, &text));
	pt_buf_done(&text);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_scan_is_one_snapshot_though_its_callback_commits)
{
	int n = 0;

	open_engine(_i);
	for (int i = 0; i < 10; i++) {
		char key[] = { 'k', (char)('0' + i), '\0' };

		MUST_WORK(meta_put(&meta, key, "v", 1, NULL));
	}
	MUST_WORK(pt_meta_scan(&meta, NULL, 0, NULL, 0, 0, change_while_scanning, &n));
	ck_assert_int_eq(n, 10);
	ck_assert_uint_eq(meta_count(&meta), 10);
	pt_meta_close(&meta);
}
END_TEST

static void *put_late(void *ctx)
{
	nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
	MUST_WORK(meta_put(&meta, "late", "v", 1, ctx));
	return NULL;
}

START_TEST(a_watch_ends_with_the_next_commit_or_the_timeout)
{
	uint64_t seen, put, now;
	pthread_t thread;

	open_engine(_i);
	MUST_WORK(meta_put(&meta, "k", "v", 1, &put));
	MUST_WORK(pt_meta_watch(&meta, 0, INT64_MAX, &seen));
	ck_assert_uint_eq(seen, put);
	MUST_WORK(pt_meta_watch(&meta, seen, 20000000, &now));
	ck_assert_uint_eq(now, seen);
	pthread_create(&thread, NULL, put_late, &put);
	MUST_WORK(pt_meta_watch(&meta, seen, INT64_C(60000000000), &now));
	pthread_join(thread, NULL);
	ck_assert_uint_eq(now, put);
	pt_meta_close(&meta);
}
END_TEST

/* 100,000 records at once; a compare that does not hold, or a record written twice, at the far end undoes all of it. */
START_TEST(a_large_batch_is_all_or_nothing)
{
	size_t n = 100000, i;
	struct pt_meta_op *ops = calloc(n + 1, sizeof(*ops));
	char (*keys)[16] = calloc(n, sizeof(*keys));
	uint64_t version;

	open_engine(_i);
	for (i = 0; i < n; i++) {
		snprintf(keys[i], sizeof(keys[i]), "g%zu", i);
		ops[i] = (struct pt_meta_op){ .kind = PT_META_PUT, .key = { keys[i], strlen(keys[i]) }, .value = keys[i], .value_len = strlen(keys[i]) };
	}
	ops[n] = (struct pt_meta_op){ .kind = PT_META_COMPARE, .key = { "absent", 6 }, .version = 5 };
	ck_assert_int_eq(pt_meta_commit(&meta, ops, n + 1, NULL), -EAGAIN);
	ops[n] = ops[7];
	MUST_FAIL(EINVAL, pt_meta_commit(&meta, ops, n + 1, NULL));
	MUST_WORK(pt_meta_get(&meta, "g0", 2, NULL, &version));
	ck_assert_uint_eq(version, 0);
	MUST_WORK(pt_meta_commit(&meta, ops, n, NULL));
	MUST_WORK(pt_meta_get(&meta, keys[n - 1], strlen(keys[n - 1]), NULL, &version));
	ck_assert_uint_gt(version, 0);
	pt_meta_close(&meta);
	free(ops);
	free(keys);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	struct pt_meta_op ops[2], *many = calloc(PT_META_GROUP_MAX + 1, sizeof(*many));
	char long_key[PT_META_KEY_MAX + 1] = "";
	int n = 0;

	open_engine(_i);
	MUST_FAIL(EINVAL, pt_meta_get(&meta, "", 0, NULL, NULL));
	MUST_FAIL(EINVAL, pt_meta_get(&meta, long_key, sizeof(long_key), NULL, NULL));
	MUST_FAIL(EINVAL, pt_meta_scan(&meta, long_key, sizeof(long_key), NULL, 0, 0, change_while_scanning, &n));
	MUST_FAIL(EINVAL, pt_meta_scan_prefix(&meta, long_key, sizeof(long_key), 0, change_while_scanning, &n));
	MUST_FAIL(EINVAL, pt_meta_commit(&meta, ops, 0, NULL));
	for (size_t i = 0; i <= PT_META_GROUP_MAX; i++)
		many[i] = (struct pt_meta_op){ .kind = PT_META_COMPARE, .key = { "k", 1 } };
	MUST_FAIL(EFBIG, pt_meta_commit(&meta, many, PT_META_GROUP_MAX + 1, NULL));
	MUST_WORK(pt_meta_commit(&meta, many, PT_META_BATCH_MAX, NULL));
	free(many);
	ops[0] = ops[1] = (struct pt_meta_op){ .kind = PT_META_DELETE, .key = { "k", 1 } };
	MUST_FAIL(EINVAL, pt_meta_commit(&meta, ops, 2, NULL));
	ops[0] = (struct pt_meta_op){ .kind = PT_META_PUT, .key = { "k", 1 }, .value = "", .value_len = PT_META_VALUE_MAX + 1ul };
	MUST_FAIL(EFBIG, pt_meta_commit(&meta, ops, 1, NULL));
	ops[0].kind = 77;
	MUST_FAIL(EINVAL, pt_meta_commit(&meta, ops, 1, NULL));
	meta.read_only = true;
	MUST_FAIL(EROFS, meta_put(&meta, "k", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&meta), 0);
	pt_meta_close(&meta);
	pt_meta_close(&meta);
}
END_TEST

#define RACERS 4
#define RACES 50

static void *race(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < RACES;) {
		int rc = meta_count_up(&meta);

		MUST(rc == 0 || rc == -EAGAIN);
		if (rc == 0)
			i++;
	}
	return NULL;
}

START_TEST(threads_that_compare_and_set_lose_no_count)
{
	struct pt_buf b = PT_BUF_INIT;
	pthread_t threads[RACERS];

	open_engine(_i);
	for (int i = 0; i < RACERS; i++)
		pthread_create(&threads[i], NULL, race, NULL);
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	MUST_WORK(pt_meta_get(&meta, "counter", 7, &b, NULL));
	ck_assert_uint_eq(pt_get_le64(b.data), RACERS * RACES);
	pt_buf_done(&b);
	pt_meta_close(&meta);
}
END_TEST

/* The model: a version and a value a key, keys being "00" to "63". */
struct model {
	uint64_t version[64];
	uint32_t value[64];
};

struct model_scan {
	const struct model *model;
	size_t next, end;
};

static int match_model(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	const char *k = key;
	struct model_scan *s = ctx;
	size_t i;

	MUST(key_len == 2 && value_len == 4);
	i = (size_t)(k[0] - '0') * 10 + (size_t)(k[1] - '0');
	while (s->next < s->end && !s->model->version[s->next])
		s->next++;
	MUST(i == s->next);
	MUST(version == s->model->version[i] && pt_get_le32(value) == s->model->value[i]);
	s->next++;
	return 0;
}

START_TEST(random_batches_do_what_a_plain_model_does)
{
	struct rng r = { rng_seed(20240611) };
	struct model model = { .version = { 0 } };

	open_engine(_i);
	for (int n = 0; n < 400; n++) {
		char keys[8][3];
		uint8_t values[8][4];
		struct pt_meta_op ops[8];
		struct model next = model;
		size_t count = rng_between(&r, 1, 8);
		bool holds = true, changes = false;
		bool used[64] = { false };
		uint64_t version;
		int rc;

		for (size_t i = 0; i < count; i++) {
			size_t k = rng_below(&r, 64);

			keys[i][0] = (char)('0' + k / 10);
			keys[i][1] = (char)('0' + k % 10);
			ops[i] = (struct pt_meta_op){ .kind = PT_META_COMPARE, .key = { keys[i], 2 }, .version = model.version[k] };
			if (rng_below(&r, 3) == 0 || used[k]) {
				if (rng_below(&r, 20) == 0) {
					ops[i].version++;
					holds = false;
				}
				continue;
			}
			used[k] = changes = true;
			ops[i].kind = rng_below(&r, 3) ? PT_META_PUT : PT_META_DELETE;
			next.value[k] = (uint32_t)rng_next(&r);
			pt_put_le32(values[i], next.value[k]);
			ops[i].value = values[i];
			ops[i].value_len = 4;
			next.version[k] = ops[i].kind == PT_META_PUT;
		}
		rc = pt_meta_commit(&meta, ops, count, &version);
		MUST(rc == (holds ? 0 : -EAGAIN));
		if (holds) {
			for (size_t k = 0; k < 64; k++)
				if (used[k] && next.version[k]) {
					MUST(changes && version > model.version[k]);
					next.version[k] = version;
				}
			model = next;
		}
		if (n % 10 == 0) {
			struct model_scan s = { &model, rng_below(&r, 64), 64 };
			char start[3] = { (char)('0' + s.next / 10), (char)('0' + s.next % 10), '\0' };

			MUST_WORK(pt_meta_scan(&meta, start, 2, NULL, 0, 0, match_model, &s));
			for (; s.next < s.end; s.next++)
				MUST(model.version[s.next] == 0);
		}
		if (META_DURABLE(_i) && n % 100 == 99) {
			pt_meta_close(&meta);
			meta_open(_i, dir, &meta);
		}
	}
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_snapshot_is_an_index_of_its_own)
{
	struct pt_meta copy;
	char *path;

	open_engine(_i);
	for (int i = 0; i < 50; i++) {
		char key[] = { 'k', (char)('0' + i), '\0' };
		uint8_t value[2000];

		pattern_fill(value, sizeof(value), (uint64_t)i);
		MUST_WORK(meta_put(&meta, key, value, sizeof(value), NULL));
	}
	path = path_in(dir, "copy.db");
	MUST_WORK(pt_meta_snapshot(&meta, -1, path));
	MUST_FAIL(EEXIST, pt_meta_snapshot(&meta, -1, path));
	MUST_WORK(meta_put(&meta, "later", "v", 1, NULL));
	MUST_WORK(pt_meta_sqlite_open(path, &copy));
	ck_assert_uint_eq(meta_count(&copy), 50);
	MUST_WORK(meta_put(&copy, "x", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&copy), 51);
	pt_meta_close(&copy);
	pt_meta_close(&meta);
	free(path);
}
END_TEST

START_TEST(much_deleted_and_written_again_can_be_copied)
{
	struct rng r = { rng_seed(99) };
	static uint8_t value[20000];
	struct pt_meta copy;
	char *path;

	open_engine(_i);
	path = path_in(dir, "copy.db");
	for (int n = 0; n < 60; n++) {
		struct pt_meta_op ops[64];
		uint8_t keys[64];
		size_t count = 0;

		for (int k = 0; k < 64; k++) {
			if (rng_below(&r, 2))
				continue;
			keys[count] = (uint8_t)k;
			ops[count] = (struct pt_meta_op){ .kind = rng_below(&r, 2) ? PT_META_PUT : PT_META_DELETE, .key = { &keys[count], 1 },
							  .value = value, .value_len = rng_below(&r, sizeof(value)) };
			count++;
		}
		if (count)
			MUST_WORK(pt_meta_commit(&meta, ops, count, NULL));
		if (n % 10 == 9) {
			if (META_DURABLE(_i) && n % 20 == 19) {
				pt_meta_close(&meta);
				meta_open(_i, dir, &meta);
			}
			MUST_WORK(pt_meta_snapshot(&meta, -1, path));
			MUST_WORK(pt_meta_sqlite_open(path, &copy));
			ck_assert_uint_eq(meta_count(&copy), meta_count(&meta));
			pt_meta_close(&copy);
			unlink(path);
		}
	}
	pt_meta_close(&meta);
	free(path);
}
END_TEST

static unsigned int syncs;

/* In place of the C library's, also for SQLite. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	syncs++;
	return (int)syscall(SYS_fsync, fd);
}

static bool full_fails;

/* The same: while full_fails, going back to durable batches fails. */
__attribute__((visibility("default"))) int sqlite3_exec(sqlite3 *db, const char *sql, int (*fn)(void *, int, char **, char **), void *ctx, char **error)
{
	int (*real)(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
	void *found = dlsym(RTLD_NEXT, "sqlite3_exec");

	if (full_fails && strcmp(sql, "PRAGMA synchronous = FULL") == 0)
		return SQLITE_NOMEM;
	memcpy(&real, &found, sizeof(real));
	return real(db, sql, fn, ctx, error);
}

static unsigned int syncs_of_commit(bool lazy, const char *value)
{
	struct pt_meta_op op = { .kind = PT_META_PUT, .key = { "k", 1 }, .value = value, .value_len = strlen(value) };
	unsigned int before = syncs;
	uint64_t version;

	MUST_WORK((lazy ? pt_meta_commit_lazy : pt_meta_commit)(&meta, &op, 1, &version));
	must_hold("k", value, strlen(value), version);
	return syncs - before;
}

static unsigned int syncs_of_settle(void)
{
	unsigned int before = syncs;

	MUST_WORK(pt_meta_settle(&meta));
	return syncs - before;
}

START_TEST(lazy_batches_are_durable_with_the_next_one_or_when_asked)
{
	struct pt_meta_op none = { .kind = PT_META_COMPARE, .key = { "k", 1 }, .version = 999999 };
	uint64_t version;

	open_engine(0);
	syncs_of_commit(false, "first");        /* makes the log */
	ck_assert_uint_eq(syncs_of_commit(false, "durable"), 1);
	ck_assert_uint_eq(syncs_of_settle(), 0);
	ck_assert_uint_eq(syncs_of_commit(true, "lazy"), 0);
	ck_assert_uint_eq(syncs_of_commit(true, "lazy again"), 0);
	ck_assert_uint_eq(syncs_of_settle(), 1);
	ck_assert_uint_eq(syncs_of_settle(), 0);
	ck_assert_uint_eq(syncs_of_commit(true, "lazy"), 0);
	ck_assert_uint_eq(syncs_of_commit(false, "durable"), 1);
	ck_assert_uint_eq(syncs_of_settle(), 0);
	ck_assert_int_eq(pt_meta_commit_lazy(&meta, &none, 1, &version), -EAGAIN);
	ck_assert_uint_eq(syncs_of_commit(true, "lazy"), 0);
	MUST_WORK(pt_meta_get(&meta, "k", 1, NULL, &none.version));
	MUST_WORK(pt_meta_commit(&meta, &none, 1, &version));
	ck_assert_uint_eq(syncs_of_settle(), 1);
	ck_assert_uint_eq(syncs_of_commit(false, "still durable"), 1);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(a_durable_batch_after_a_lazy_one_is_durable_or_fails)
{
	struct pt_meta_op op = { .kind = PT_META_PUT, .key = { "k", 1 }, .value = "never", .value_len = 5 };

	open_engine(0);
	syncs_of_commit(false, "first");        /* makes the log */
	full_fails = true;
	ck_assert_uint_eq(syncs_of_commit(true, "lazy"), 0);
	ck_assert_int_eq(pt_meta_commit(&meta, &op, 1, NULL), -ENOMEM);
	full_fails = false;
	ck_assert_uint_eq(syncs_of_commit(false, "durable"), 1);
	full_fails = true;
	ck_assert_uint_eq(syncs_of_commit(false, "durable again"), 1);
	ck_assert_uint_eq(syncs_of_commit(true, "lazy"), 0);
	ck_assert_uint_eq(syncs_of_settle(), 1);
	pt_meta_close(&meta);
}
END_TEST

START_TEST(space_and_sync_answer)
{
	struct pt_meta_space space;

	open_engine(_i);
	MUST_WORK(pt_meta_space(&meta, &space));
	ck_assert_uint_gt(space.used_bytes, 0);
	ck_assert_uint_gt(space.free_bytes, 0);
	MUST_WORK(pt_meta_sync(&meta));
	ck_assert(meta.ops->durable == META_DURABLE(_i));
	pt_meta_close(&meta);
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_nothing_leaks)
{
	struct pt_buf b = PT_BUF_INIT;
	char *path;
	int n, rc = -ENOMEM;

	dir = dir_make();
	path = path_in(dir, "index.db");
	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_meta_sqlite_open(_i ? NULL : path, &meta);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	ck_assert_int_gt(n, 2);
	MUST_WORK(meta_put(&meta, "k", "value", 5, NULL));
	pt_alloc_fail_after(0);
	rc = pt_meta_get(&meta, "k", 1, &b, NULL);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	MUST_WORK(pt_meta_get(&meta, "k", 1, &b, NULL));
	pt_buf_done(&b);
	pt_meta_close(&meta);
	free(path);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("every engine");

	tcase_add_loop_test(tcase, an_absent_record_has_version_0, 0, META_ENGINES);
	tcase_add_loop_test(tcase, records_of_any_size_come_back, 0, META_ENGINES);
	tcase_add_loop_test(tcase, versions_only_grow_also_over_deletion, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_batch_is_all_or_nothing, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_compare_with_0_wants_the_record_absent, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_scan_gives_a_range_in_order, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_look_gives_records_and_all_that_begin_so_in_the_order_asked, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_scan_is_one_snapshot_though_its_callback_commits, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_watch_ends_with_the_next_commit_or_the_timeout, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_large_batch_is_all_or_nothing, 0, META_ENGINES);
	tcase_add_loop_test(tcase, nonsense_is_refused, 0, META_ENGINES);
	tcase_add_loop_test(tcase, threads_that_compare_and_set_lose_no_count, 0, META_ENGINES);
	tcase_add_loop_test(tcase, random_batches_do_what_a_plain_model_does, 0, META_ENGINES);
	tcase_add_loop_test(tcase, a_snapshot_is_an_index_of_its_own, 0, META_LOCAL);
	tcase_add_loop_test(tcase, much_deleted_and_written_again_can_be_copied, 0, META_LOCAL);
	tcase_add_test(tcase, lazy_batches_are_durable_with_the_next_one_or_when_asked);
	tcase_add_test(tcase, a_durable_batch_after_a_lazy_one_is_durable_or_fails);
	tcase_add_loop_test(tcase, space_and_sync_answer, 0, META_ENGINES);
	tcase_add_loop_test(tcase, each_failed_allocation_is_reported_and_nothing_leaks, 0, 2);
	return run_suite("store: meta", &tcase, 1);
}

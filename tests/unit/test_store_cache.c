/* tests/unit/test_store_cache.c - answers kept in memory are never older than the index, whoever commits. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/meta_cache.h"
#include "unit/store_numbers.h"

/* Two openings of one index: the second stands for another process, whose commits the first is not told. */
static struct pt_meta mine, other;

static void open_both(void)
{
	char *path = path_in(dir_make(), "index");

	MUST_WORK(pt_meta_sqlite_open(path, &mine));
	MUST_WORK(pt_meta_sqlite_open(path, &other));
	MUST_WORK(pt_meta_cache_on(&mine));
	MUST(mine.cache);
	free(path);
}

static void close_both(void)
{
	pt_meta_close(&mine);
	pt_meta_close(&other);
}

static uint64_t queries(void)
{
	struct pt_meta_counters c;

	pt_meta_counters(&mine, &c);
	return c.queries;
}

START_TEST(what_has_not_changed_is_not_asked_again)
{
	uint64_t before, version, again;

	open_both();
	number_put(&mine, "a", 1);
	number_put(&mine, "ab", 2);
	MUST(number_of(&mine, "a") == 1);
	MUST(number_of(&mine, "absent") == 0);
	MUST(sum_of(&mine, "a") == sum_of(&other, "a"));
	MUST_WORK(pt_meta_version(&mine, &version));
	before = queries();
	for (int i = 0; i < 10000; i++) {
		MUST(number_of(&mine, "a") == 1);
		MUST(number_of(&mine, "absent") == 0);
		MUST_WORK(pt_meta_version(&mine, &again));
		MUST(again == version);
	}
	MUST(sum_of(&mine, "a") == sum_of(&other, "a"));
	ck_assert_uint_eq(queries(), before);
	close_both();
}
END_TEST

START_TEST(a_commit_elsewhere_shows_at_once)
{
	uint64_t version;

	open_both();
	for (uint64_t n = 1; n < 200; n++) {
		uint64_t sum;

		MUST(number_of(&mine, "k") == n - 1);
		sum = sum_of(&mine, "k");
		number_put(&other, "k", n);
		MUST(number_of(&mine, "k") == n);
		MUST(sum_of(&mine, "k") != sum);
		MUST_WORK(pt_meta_version(&mine, &version));
		MUST(version == n);
	}
	number_delete(&other, "k");
	MUST(number_of(&mine, "k") == 0);
	close_both();
}
END_TEST

START_TEST(a_commit_of_ones_own_drops_only_what_it_changes)
{
	uint64_t before;

	open_both();
	number_put(&mine, "p1", 1);
	number_put(&mine, "q1", 1);
	number_put(&mine, "r", 1);
	MUST(number_of(&mine, "r") == 1);
	MUST(number_of(&mine, "p1") == 1);
	MUST(sum_of(&mine, "p") && sum_of(&mine, "q"));
	number_put(&mine, "p1", 2);
	before = queries();
	MUST(number_of(&mine, "r") == 1);
	MUST(sum_of(&mine, "q") == sum_of(&other, "q"));
	ck_assert_uint_eq(queries(), before);
	MUST(number_of(&mine, "p1") == 2);
	MUST(sum_of(&mine, "p") == sum_of(&other, "p"));
	ck_assert_uint_eq(queries(), before + 2);
	/* Not so when others have committed meanwhile, however it is interleaved. */
	number_put(&other, "r", 2);
	number_put(&mine, "p1", 3);
	MUST(number_of(&mine, "r") == 2);
	close_both();
}
END_TEST

START_TEST(what_is_made_durable_later_is_not_asked_again)
{
	struct pt_meta_op op = { .kind = PT_META_PUT, .key = { "made", 4 }, .value = "", .value_len = 0 };
	uint64_t before, committed, version;

	open_both();
	number_put(&mine, "r", 1);
	MUST(number_of(&mine, "r") == 1);
	MUST(sum_of(&mine, "q") == sum_of(&other, "q"));
	before = queries();
	for (int i = 0; i < 1000; i++) {
		MUST_WORK(pt_meta_commit_lazy(&mine, &op, 1, &committed));
		MUST_WORK(pt_meta_settle(&mine));
		MUST(number_of(&mine, "r") == 1);
		MUST(sum_of(&mine, "q") == sum_of(&other, "q"));
	}
	ck_assert_uint_eq(queries(), before);
	MUST_WORK(pt_meta_version(&other, &version));
	ck_assert_uint_eq(version, committed);
	close_both();
}
END_TEST

START_TEST(random_commits_of_two_are_seen_by_a_cached_reader_as_by_another)
{
	open_both();
	numbers_are_the_same(&mine, &other, 2000);
	close_both();
}
END_TEST

START_TEST(readers_never_see_less_than_what_has_been_committed)
{
	open_both();
	numbers_never_go_back(&mine, &other, _i);
	close_both();
}
END_TEST

START_TEST(records_read_ahead_together_are_those_of_the_index)
{
	struct pt_meta_key keys[] = { { "a", 1 }, { "absent", 6 }, { "b", 1 }, { "a", 1 } };
	uint64_t before;

	open_both();
	number_put(&other, "a", 1);
	number_put(&other, "b", 2);
	before = queries();
	MUST_WORK(pt_meta_prefetch(&mine, keys, 4));
	ck_assert_uint_eq(queries(), before + 1);
	MUST(number_of(&mine, "a") == 1 && number_of(&mine, "b") == 2 && number_of(&mine, "absent") == 0);
	MUST_WORK(pt_meta_prefetch(&mine, keys, 4));
	ck_assert_uint_eq(queries(), before + 1);
	number_put(&other, "b", 3);
	MUST(number_of(&mine, "b") == 3);
	number_put(&other, "absent", 4);
	MUST_WORK(pt_meta_prefetch(&mine, keys, 3));
	MUST(number_of(&mine, "absent") == 4 && number_of(&mine, "b") == 3);
	keys[0].len = 0;
	MUST_FAIL(EINVAL, pt_meta_prefetch(&mine, keys, 1));
	close_both();
}
END_TEST

START_TEST(what_is_asked_for_beside_a_record_comes_with_it)
{
	struct pt_meta_key key = { "n1", 2 }, beside[] = { { "m1", 2 }, { "t1", 2 } };
	struct pt_buf b = PT_BUF_INIT;
	uint64_t before, version;

	open_both();
	number_put(&other, "n1", 1);
	number_put(&other, "m1", 2);
	MUST(number_of(&mine, "else") == 0);    /* the version is known from here on */
	before = queries();
	MUST_WORK(pt_meta_get_beside(&mine, &key, beside, 2, &b, &version));
	MUST(version && pt_get_le64(b.data) == 1);
	ck_assert_uint_eq(queries(), before + 1);
	MUST(number_of(&mine, "m1") == 2 && number_of(&mine, "t1") == 0 && number_of(&mine, "n1") == 1);
	MUST_WORK(pt_meta_get_beside(&mine, &key, beside, 2, &b, &version));
	ck_assert_uint_eq(queries(), before + 1);
	number_put(&other, "t1", 3);
	number_put(&other, "n1", 4);
	MUST_WORK(pt_meta_get_beside(&mine, &key, beside, 2, &b, &version));
	MUST(pt_get_le64(b.data) == 4 && number_of(&mine, "t1") == 3);
	pt_buf_done(&b);
	close_both();
}
END_TEST

#define MANY 300

struct told {
	const struct pt_meta_key *keys;
	uint32_t times[2 * MANY];
};

static int as_one_by_one(void *ctx, size_t at, const void *value, size_t value_len, uint64_t version)
{
	struct told *told = ctx;
	uint64_t want;
	struct pt_buf b = PT_BUF_INIT;

	MUST_WORK(pt_meta_get(&other, told->keys[at].data, told->keys[at].len, &b, &want));
	MUST(version == want);
	MUST(!version || (b.len == value_len && memcmp(b.data, value, value_len) == 0));
	told->times[at]++;
	pt_buf_done(&b);
	return 0;
}

/* Neighbours, gaps of all widths, absent ones, the same twice, in any order. */
START_TEST(many_records_at_once_are_those_one_by_one)
{
	static char name[MANY][8];
	struct pt_meta_key keys[2 * MANY];
	struct told told;
	struct pt_wait w;
	struct rng rng = { rng_seed(5) };
	size_t count, i;

	open_both();
	for (i = 0; i < MANY; i++) {
		snprintf(name[i], sizeof(name[i]), "k%0*zu", rng_below(&rng, 8) ? 3 : 1, i);
		if (rng_below(&rng, 4))
			number_put(&other, name[i], i);
	}
	for (int round = 0; round < 300; round++) {
		size_t start = rng_below(&rng, MANY), step = 1 + rng_below(&rng, round % 3 ? 2 : 40);

		count = 1 + rng_below(&rng, round % 2 ? 2 * MANY : 6);
		for (i = 0; i < count; i++) {
			size_t at = round % 5 ? (start + i * step) % MANY : rng_below(&rng, MANY);

			keys[i] = (struct pt_meta_key){ name[at], strlen(name[at]) };
		}
		told = (struct told){ .keys = keys };
		pt_wait_init(&w);
		mine.ops->get_many(mine.h, keys, count, as_one_by_one, &told, &w.done);
		MUST_WORK(pt_wait_finish(&w));
		for (i = 0; i < count; i++)
			MUST(told.times[i] == 1);
	}
	close_both();
}
END_TEST

static void *write_own(void *arg)
{
	for (uint64_t n = 1; n <= 20; n++) {            /* three threads: fewer than the cache can remember */
		number_put(&mine, arg, n);
		MUST(number_of(&mine, arg) == n);
		MUST(number_of(&mine, "fixed") == 5);
	}
	return NULL;
}

START_TEST(commits_of_ones_own_threads_keep_what_none_of_them_changes)
{
	pthread_t thread[3];
	uint64_t before, n;
	char key[16];

	open_both();
	number_put(&mine, "fixed", 5);
	for (n = 0; n < 50; n++) {
		snprintf(key, sizeof(key), "q%d", (int)n);
		MUST(number_of(&mine, key) == 0);
	}
	pthread_create(&thread[0], NULL, write_own, "a");
	pthread_create(&thread[1], NULL, write_own, "b");
	pthread_create(&thread[2], NULL, write_own, "c");
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	before = queries();
	for (n = 0; n < 50; n++) {
		snprintf(key, sizeof(key), "q%d", (int)n);
		MUST(number_of(&mine, key) == 0);
	}
	ck_assert_uint_eq(queries(), before);
	number_put(&other, "q7", 1);
	number_put(&mine, "a", 1);
	MUST(number_of(&mine, "q7") == 1);
	close_both();
}
END_TEST

static void commit_and_die(void *ctx, int fd)
{
	struct pt_meta m;

	CHILD_MUST(pt_meta_sqlite_open(ctx, &m) == 0);
	CHILD_MUST(meta_put(&m, "k", "\1\0\0\0\0\0\0", 8, NULL) == 0);
	CHILD_MUST(write(fd, "x", 1) == 1);
	_exit(0);
}

START_TEST(the_commit_of_a_process_that_died_shows)
{
	char *path = path_in(dir_make(), "index"), c;
	pid_t pid;
	int fd;

	MUST_WORK(pt_meta_sqlite_open(path, &mine));
	MUST_WORK(pt_meta_cache_on(&mine));
	MUST(number_of(&mine, "k") == 0);
	MUST(number_of(&mine, "k") == 0);
	pid = child_start(commit_and_die, path, &fd);
	MUST(read(fd, &c, 1) == 1);
	MUST(number_of(&mine, "k") == 1);
	child_join(pid);
	close(fd);
	MUST(number_of(&mine, "k") == 1);
	pt_meta_close(&mine);
	free(path);
}
END_TEST

START_TEST(memory_is_bounded_and_the_least_recently_used_goes)
{
	struct pt_meta_mark mark = { { 1 } };
	struct pt_meta_cache *cache;
	struct pt_meta_cached *e;
	uint8_t value[1000] = { 0 };
	char key[16];

	ck_assert_int_eq(pt_meta_cache_create(100000, &cache), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		pt_meta_cache_add(cache, &mark, false, key, strlen(key), value, sizeof(value), 1);
		e = pt_meta_cache_find(cache, &mark, false, "k0", 2);
		MUST(e);
		pt_meta_cached_unref(e);
	}
	e = pt_meta_cache_find(cache, &mark, false, "k999", 4);
	MUST(e && e->value_len == sizeof(value));
	pt_meta_cached_unref(e);
	MUST(!pt_meta_cache_find(cache, &mark, false, "k1", 2));
	MUST(!pt_meta_cache_find(cache, &mark, false, "k900", 4));
	mark.word[0] = 2;
	MUST(!pt_meta_cache_find(cache, &mark, false, "k999", 4));
	pt_meta_cache_free(cache);
}
END_TEST

START_TEST(without_memory_nothing_is_kept_and_all_is_answered)
{
	uint64_t version;
	int rc = -1, n;

	open_both();
	number_put(&mine, "k", 3);
	for (n = 0; n < 40; n++) {
		struct pt_buf b = PT_BUF_INIT;

		number_put(&other, "l", (uint64_t)n);
		pt_alloc_fail_after(n);
		rc = pt_meta_get(&mine, "k", 1, &b, &version);
		pt_alloc_fail_after(-1);
		MUST(rc == 0 || rc == -ENOMEM);
		if (rc == 0)
			MUST(pt_get_le64(b.data) == 3);
		pt_buf_done(&b);
	}
	MUST(rc == 0);
	MUST(number_of(&mine, "k") == 3);
	close_both();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("cache");

	tcase_add_test(tcase, what_has_not_changed_is_not_asked_again);
	tcase_add_test(tcase, a_commit_elsewhere_shows_at_once);
	tcase_add_test(tcase, a_commit_of_ones_own_drops_only_what_it_changes);
	tcase_add_test(tcase, what_is_made_durable_later_is_not_asked_again);
	tcase_add_test(tcase, random_commits_of_two_are_seen_by_a_cached_reader_as_by_another);
	tcase_add_test(tcase, records_read_ahead_together_are_those_of_the_index);
	tcase_add_test(tcase, what_is_asked_for_beside_a_record_comes_with_it);
	tcase_add_test(tcase, many_records_at_once_are_those_one_by_one);
	tcase_add_test(tcase, commits_of_ones_own_threads_keep_what_none_of_them_changes);
	tcase_add_loop_test(tcase, readers_never_see_less_than_what_has_been_committed, 0, 2);
	tcase_add_test(tcase, the_commit_of_a_process_that_died_shows);
	tcase_add_test(tcase, memory_is_bounded_and_the_least_recently_used_goes);
	tcase_add_test(tcase, without_memory_nothing_is_kept_and_all_is_answered);
	return run_suite("store: cache", &tcase, 1);
}

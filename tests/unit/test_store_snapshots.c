/* tests/unit/test_store_snapshots.c - copies of the index: when there is one, which stay, that they are whole; and who has a store open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "store/held.h"
#include "store/snapshots.h"
#include "unit/store_support.h"

static const struct pt_store_options create = { .create = true };
static struct pt_store *store;
static const char *dir;

static void setup(void)
{
	unsetenv("PTIO_FAULTS");
	dir = dir_make();
	MUST_WORK(pt_store_open(dir, &create, &store));
}

static void teardown(void)
{
	pt_store_close(store);
	dir_remove(dir);
}

static void put(const char *key)
{
	MUST_WORK(meta_put(&store->meta, key, "value", 5, NULL));
}

static bool make(void)
{
	bool made;

	MUST_WORK(pt_snapshots_make(store, &made));
	return made;
}

static size_t listed(struct pt_snapshot *ret, size_t room)
{
	struct pt_snapshot *all = NULL;
	size_t count = 0;

	MUST_WORK(pt_snapshots_list(store->dirfd, &all, &count));
	ck_assert_uint_le(count, room);
	if (count)
		memcpy(ret, all, count * sizeof(*all));
	free(all);
	return count;
}

START_TEST(there_is_one_when_something_was_committed_since_and_it_is_whole)
{
	struct pt_snapshot s[4];
	uint64_t version, records;
	char *path;

	ck_assert(!make());
	for (int i = 0; i < 300; i++) {
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		put(key);
	}
	ck_assert(make());
	ck_assert(!make());
	ck_assert_uint_eq(listed(s, 4), 1);
	path = pt_asprintf("%s/snapshots/%s", dir, s[0].name);
	MUST_WORK(pt_meta_sqlite_check(-1, path, true, &version, &records));
	ck_assert(version == 300 && records == 300 && s[0].version == 300);
	free(path);
}
END_TEST

static void pretend(int64_t age_s, uint64_t version)
{
	time_t t = time(NULL) - age_s;
	char when[32], *path;
	struct tm tm;
	int fd;

	gmtime_r(&t, &tm);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &tm);
	path = pt_asprintf("%s/snapshots/index-%s-%llu.db", dir, when, (unsigned long long)version);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0640);
	ck_assert_int_ge(fd, 0);
	close(fd);
	free(path);
}

START_TEST(the_newest_two_stay_and_one_of_a_day_ago)
{
	static const int64_t ages[] = { 60, 3600, 7200, 40000, 80000, 90000, 200000 };
	struct pt_snapshot s[8];
	size_t i;

	put("a");
	ck_assert(make());
	for (i = 0; i < sizeof(ages) / sizeof(ages[0]); i++)
		pretend(ages[i], 1000 - i);
	ck_assert_uint_eq(listed(s, 8), 8);
	put("b");
	/* The same second would be the same name but for the version. */
	ck_assert(make());
	ck_assert_uint_eq(listed(s, 8), 4);
	ck_assert_uint_eq(s[0].version, 2);
	ck_assert_uint_eq(s[1].version, 1);
	ck_assert_uint_eq(s[2].version, 1000 - 4);
	ck_assert_uint_eq(s[3].version, 1000 - 5);
}
END_TEST

START_TEST(a_copy_made_after_the_clock_was_set_back_is_the_newest)
{
	char *path = pt_asprintf("%s/snapshots", dir);
	struct pt_snapshot s[4];
	size_t count, i;

	ck_assert_int_eq(mkdir(path, 0750), 0);
	pretend(-2 * 365 * 86400, 1000);
	pretend(-365 * 86400, 999);
	pretend(-364 * 86400, 998);
	put("a");
	ck_assert(make());
	put("b");
	ck_assert(make());
	count = listed(s, 4);
	ck_assert_uint_eq(count, 3);
	ck_assert_uint_eq(s[0].version, 2);
	ck_assert_uint_eq(s[1].version, 1);
	for (i = 0; i < count; i++)
		ck_assert_int_le(s[i].time_ns, pt_time_now_ns());
	free(path);
}
END_TEST

START_TEST(what_is_no_file_is_no_snapshot)
{
	static const char *const names[] = { "index-20991201T000000Z-9.db", "index-20991201T000000Z-8.db" };
	struct pt_snapshot s[8];
	char *path;

	put("a");
	ck_assert(make());
	for (int i = 0; i < 2; i++) {
		path = pt_asprintf("%s/snapshots/%s", dir, names[i]);
		ck_assert_int_eq(i ? mkdir(path, 0750) : mkfifo(path, 0640), 0);
		free(path);
	}
	ck_assert_uint_eq(listed(s, 8), 1);
}
END_TEST

START_TEST(what_a_dead_process_left_goes_and_a_live_one_is_left_alone)
{
	char *path = pt_asprintf("%s/snapshots", dir), *stale = pt_asprintf("%s/snapshots/index-20260101T000000Z-1.db.new-1234", dir);
	int fd;

	put("a");
	ck_assert(make());
	fd = open(stale, O_WRONLY | O_CREAT, 0640);
	ck_assert_int_ge(fd, 0);
	close(fd);
	put("b");
	fd = open(path, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ck_assert(!make());
	ck_assert_int_eq(access(stale, F_OK), 0);
	close(fd);
	ck_assert(make());
	ck_assert_int_ne(access(stale, F_OK), 0);
	free(path);
	free(stale);
}
END_TEST

static void must_not_fail(const char *sentence)
{
	ck_abort_msg("%s", sentence);
}

START_TEST(a_thread_makes_the_first_soon_and_a_last_one_at_its_end)
{
	struct pt_snapshots_counters n = { 0 };
	struct pt_snapshots *s;
	struct pt_snapshot got[4];

	MUST_WORK(pt_snapshots_start(store, INT64_C(1000000000), must_not_fail, &s));
	ck_assert_ptr_nonnull(s);
	put("a");
	while (!n.made) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		pt_snapshots_count(s, &n);
	}
	pt_snapshots_stop(s);
	ck_assert_uint_eq(listed(got, 4), 1);
	/* An hour is not over: nothing is due but the first. */
	MUST_WORK(pt_snapshots_start(store, INT64_C(3600000000000), must_not_fail, &s));
	put("b");
	pt_snapshots_stop(s);
	ck_assert_uint_eq(listed(got, 4), 1);
	MUST_WORK(pt_snapshots_start(store, 0, must_not_fail, &s));
	ck_assert_ptr_null(s);
}
END_TEST

static char told[256];

static void tell(const char *sentence)
{
	snprintf(told, sizeof(told), "%s", sentence);
}

START_TEST(one_that_fails_is_told_counted_and_leaves_nothing)
{
	struct pt_snapshots *s;
	struct pt_snapshot got[4];

	pt_store_close(store);
	MUST_WORK(pt_store_open(dir, &(struct pt_store_options){ .faults = "meta.snapshot:error=ENOSPC" }, &store));
	put("a");
	MUST_WORK(pt_snapshots_start(store, INT64_C(3600000000000), tell, &s));
	pt_snapshots_stop(s);
	ck_assert_str_ne(told, "");
	ck_assert_uint_eq(listed(got, 4), 0);
}
END_TEST

START_TEST(a_store_that_somebody_has_open_is_not_had_alone)
{
	struct pt_store *other;
	char pid[32];
	int fd;

	MUST_FAIL(EBUSY, pt_held_take(dir, true, &fd));
	snprintf(pid, sizeof(pid), "process %ld (", (long)getpid());
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), pid));
	MUST_WORK(pt_store_open(dir, &create, &other));
	pt_store_close(other);
	pt_store_close(store);
	store = NULL;
	MUST_WORK(pt_held_take(dir, true, &fd));
	MUST_FAIL(EBUSY, pt_store_open(dir, &create, &other));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "rebuilt"));
	pt_held_give(fd);
	MUST_WORK(pt_store_open(dir, &create, &store));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("snapshots");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, there_is_one_when_something_was_committed_since_and_it_is_whole);
	tcase_add_test(tcase, the_newest_two_stay_and_one_of_a_day_ago);
	tcase_add_test(tcase, a_copy_made_after_the_clock_was_set_back_is_the_newest);
	tcase_add_test(tcase, what_is_no_file_is_no_snapshot);
	tcase_add_test(tcase, what_a_dead_process_left_goes_and_a_live_one_is_left_alone);
	tcase_add_test(tcase, a_thread_makes_the_first_soon_and_a_last_one_at_its_end);
	tcase_add_test(tcase, one_that_fails_is_told_counted_and_leaves_nothing);
	tcase_add_test(tcase, a_store_that_somebody_has_open_is_not_had_alone);
	return run_suite("store: snapshots of the index", &tcase, 1);
}

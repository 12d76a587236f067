/* tests/unit/test_store_away.c - answers kept in memory of an index that is away are never older than the moment in which they are wanted, whoever commits and whatever daemon answers. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "store/remote.h"
#include "store/store.h"
#include "unit/daemon.h"
#include "unit/store_numbers.h"

/* Two clients of one daemon. */
static struct daemon d;
static const char *dir;
static struct pt_store *mine, *other;

static struct pt_store *open_client(void)
{
	struct pt_store_options options = { .secret_file = daemon_secret(dir), .timeout_ns = INT64_C(5000000000) };
	struct pt_store *s;
	char uri[80];

	snprintf(uri, sizeof(uri), "tcp://%s", d.hosts);
	MUST_WORK(pt_store_open(uri, &options, &s));
	return s;
}

static void serve(uint16_t port)
{
	daemon_start(&d, dir, dir, port, NULL);
}

static void open_both(void)
{
	dir = dir_make();
	serve(0);
	mine = open_client();
	other = open_client();
	MUST(mine->meta.cache);
}

static void close_both(void)
{
	pt_store_close(mine);
	pt_store_close(other);
	MUST(daemon_stop(&d, SIGTERM) == 0);
}

static uint64_t calls(void)
{
	struct pt_net_status s;

	MUST(pt_remote_status(&mine->data, &s));
	return s.calls;
}

/* In a moment of its own. */
static uint64_t now(const char *key)
{
	uint64_t n;

	pt_meta_moment_begin(&mine->meta);
	n = number_of(&mine->meta, key);
	pt_meta_moment_end(&mine->meta);
	return n;
}

START_TEST(a_moment_in_which_nothing_has_changed_is_one_round_trip)
{
	uint64_t before, sum;

	open_both();
	number_put(&mine->meta, "a", 1);
	number_put(&mine->meta, "ab", 2);
	MUST(number_of(&mine->meta, "a") == 1 && number_of(&mine->meta, "absent") == 0);
	sum = sum_of(&mine->meta, "a");
	before = calls();
	for (int i = 0; i < 100; i++) {
		pt_meta_moment_begin(&mine->meta);
		MUST(number_of(&mine->meta, "a") == 1);
		pt_meta_moment_begin(&mine->meta);
		MUST(number_of(&mine->meta, "absent") == 0);
		pt_meta_moment_end(&mine->meta);
		MUST(sum_of(&mine->meta, "a") == sum);
		pt_meta_moment_end(&mine->meta);
	}
	ck_assert_uint_eq(calls(), before + 100);
	/* Without one each is asked, and the mark as well. */
	MUST(number_of(&mine->meta, "a") == 1 && number_of(&mine->meta, "a") == 1 && sum_of(&mine->meta, "a") == sum);
	ck_assert_uint_eq(calls(), before + 103);
	/* What is not in memory costs what it did. */
	pt_meta_moment_begin(&mine->meta);
	MUST(number_of(&mine->meta, "another") == 0 && number_of(&mine->meta, "a") == 1);
	pt_meta_moment_end(&mine->meta);
	ck_assert_uint_eq(calls(), before + 104);
	close_both();
}
END_TEST

START_TEST(a_commit_elsewhere_shows_in_the_next_moment)
{
	open_both();
	for (uint64_t n = 1; n < 200; n++) {
		uint64_t sum;

		pt_meta_moment_begin(&mine->meta);
		MUST(number_of(&mine->meta, "k") == n - 1);
		sum = sum_of(&mine->meta, "k");
		pt_meta_moment_end(&mine->meta);
		number_put(&other->meta, "k", n);
		pt_meta_moment_begin(&mine->meta);
		MUST(sum_of(&mine->meta, "k") != sum);
		MUST(number_of(&mine->meta, "k") == n);
		pt_meta_moment_end(&mine->meta);
	}
	number_delete(&other->meta, "k");
	MUST(now("k") == 0);
	close_both();
}
END_TEST

START_TEST(marks_are_equal_as_long_as_nothing_is_committed)
{
	struct pt_meta_mark first, second;

	open_both();
	number_put(&other->meta, "k", 1);
	MUST(pt_meta_mark(&mine->meta, &first) && pt_meta_mark(&mine->meta, &second));
	MUST(memcmp(&first, &second, sizeof(first)) == 0);
	MUST(pt_meta_mark(&other->meta, &second));
	MUST(memcmp(&first, &second, sizeof(first)) == 0);
	number_put(&other->meta, "k", 1);
	MUST(pt_meta_mark(&mine->meta, &second));
	MUST(memcmp(&first, &second, sizeof(first)) != 0);
	close_both();
}
END_TEST

START_TEST(a_commit_of_ones_own_drops_only_what_it_changes)
{
	uint64_t before;

	open_both();
	number_put(&mine->meta, "p1", 1);
	number_put(&mine->meta, "q1", 1);
	number_put(&mine->meta, "r", 1);
	MUST(number_of(&mine->meta, "r") == 1 && number_of(&mine->meta, "p1") == 1 && sum_of(&mine->meta, "p") && sum_of(&mine->meta, "q"));
	pt_meta_moment_begin(&mine->meta);
	number_put(&mine->meta, "p1", 2);
	before = calls();
	/* The commit has told the mark. */
	MUST(number_of(&mine->meta, "r") == 1 && sum_of(&mine->meta, "q"));
	ck_assert_uint_eq(calls(), before);
	MUST(number_of(&mine->meta, "p1") == 2 && sum_of(&mine->meta, "p") == sum_of(&other->meta, "p"));
	ck_assert_uint_eq(calls(), before + 2);
	pt_meta_moment_end(&mine->meta);
	/* Not so when others have committed meanwhile. */
	number_put(&other->meta, "r", 2);
	pt_meta_moment_begin(&mine->meta);
	number_put(&mine->meta, "p1", 3);
	MUST(number_of(&mine->meta, "r") == 2);
	pt_meta_moment_end(&mine->meta);
	close_both();
}
END_TEST

/* A thread of the same process: its commits end the moments of others. */
static void *put_7(void *arg)
{
	number_put(&mine->meta, arg, 7);
	return NULL;
}

START_TEST(a_commit_of_the_same_process_renews_moments)
{
	pthread_t thread;

	open_both();
	number_put(&other->meta, "k", 1);
	MUST(number_of(&mine->meta, "k") == 1);
	pt_meta_moment_begin(&mine->meta);
	MUST(number_of(&mine->meta, "k") == 1);
	pthread_create(&thread, NULL, put_7, "k");
	pthread_join(thread, NULL);
	MUST(number_of(&mine->meta, "k") == 7);
	pt_meta_moment_end(&mine->meta);
	close_both();
}
END_TEST

START_TEST(a_pin_tells_the_moment_from_which_it_counts)
{
	struct pt_blob_ref ref = { .kind = PT_BLOB_PLAIN };
	uint64_t before;

	open_both();
	MUST_WORK(pt_id_random(&ref.id));
	number_put(&other->meta, "k", 1);
	MUST(number_of(&mine->meta, "k") == 1);
	pt_meta_moment_begin(&mine->meta);
	MUST(number_of(&mine->meta, "k") == 1);
	before = calls();
	MUST_WORK(pt_meta_pin(&mine->meta, &mine->data, &ref, 1));
	MUST(number_of(&mine->meta, "k") == 1);
	ck_assert_uint_eq(calls(), before + 1);
	number_put(&other->meta, "k", 2);
	MUST_WORK(pt_meta_pin(&mine->meta, &mine->data, &ref, 1));
	MUST(number_of(&mine->meta, "k") == 2);
	pt_meta_moment_end(&mine->meta);
	pt_data_unpin(&mine->data, &ref, 1);
	pt_data_unpin(&mine->data, &ref, 1);
	close_both();
}
END_TEST

START_TEST(random_commits_of_two_are_seen_by_a_cached_reader_as_by_another)
{
	open_both();
	numbers_are_the_same(&mine->meta, &other->meta, 2000);
	close_both();
}
END_TEST

START_TEST(readers_never_see_less_than_what_has_been_committed)
{
	open_both();
	numbers_never_go_back(&mine->meta, &other->meta, _i);
	close_both();
}
END_TEST

/* The highest version, which is in the mark, is the same as before; who tells it is not. */
START_TEST(another_run_of_the_daemon_means_another_history)
{
	struct pt_meta_mark first, second;
	uint64_t before, after;
	struct pt_store *local;
	char command[1000];

	open_both();
	number_put(&mine->meta, "k", 1);
	number_put(&mine->meta, "fixed", 5);
	MUST(now("k") == 1 && now("fixed") == 5);
	MUST(daemon_stop(&d, SIGTERM) == 0);
	snprintf(command, sizeof(command), "cp -a %s %s.then", dir, dir);
	MUST(system(command) == 0);
	serve(d.port);
	number_put(&mine->meta, "k", 2);
	MUST(now("k") == 2);
	MUST(pt_meta_mark(&mine->meta, &first));
	MUST_WORK(pt_meta_version(&mine->meta, &before));
	MUST(daemon_stop(&d, SIGKILL));
	/* A copy is put back, and somebody goes on from there. */
	snprintf(command, sizeof(command), "rm -r %s && mv %s.then %s", dir, dir, dir);
	MUST(system(command) == 0);
	MUST_WORK(pt_store_open(dir, NULL, &local));
	number_put(&local->meta, "k", 3);
	pt_store_close(local);
	MUST(!pt_meta_mark(&mine->meta, &second));
	serve(d.port);
	MUST(pt_meta_mark(&mine->meta, &second));
	MUST_WORK(pt_meta_version(&mine->meta, &after));
	ck_assert_uint_eq(before, after);
	MUST(memcmp(&first, &second, sizeof(first)) != 0);
	MUST(now("k") == 3 && now("fixed") == 5);
	close_both();
}
END_TEST

START_TEST(without_the_daemon_nothing_is_told_from_memory)
{
	uint64_t version, before;

	open_both();
	number_put(&mine->meta, "k", 1);
	MUST(now("k") == 1);
	MUST(daemon_stop(&d, SIGKILL));
	pt_meta_moment_begin(&mine->meta);
	MUST_FAIL(EIO, pt_meta_get(&mine->meta, "k", 1, NULL, &version));
	/* Who has waited in vain in this moment does not wait again in it. */
	before = calls();
	MUST_FAIL(EIO, pt_meta_get(&mine->meta, "k", 1, NULL, &version));
	MUST_FAIL(EIO, pt_meta_get(&mine->meta, "another", 7, NULL, &version));
	MUST_FAIL(EIO, pt_meta_scan_prefix(&mine->meta, "k", 1, 0, numbers_add_up, &(uint64_t){ 0 }));
	MUST_FAIL(EIO, pt_meta_prefetch(&mine->meta, &(struct pt_meta_key){ "k", 1 }, 1));
	ck_assert_uint_eq(calls(), before);
	pt_meta_moment_end(&mine->meta);
	serve(d.port);
	MUST(now("k") == 1);
	close_both();
}
END_TEST

START_TEST(lasting_records_are_told_whatever_was_committed_since)
{
	struct pt_buf b = PT_BUF_INIT;
	uint64_t version, before;

	open_both();
	number_put(&mine->meta, "lasting", 1);
	MUST(number_of(&mine->meta, "lasting") == 1 && number_of(&mine->meta, "absent") == 0);
	before = calls();
	MUST_WORK(pt_meta_get_lasting(&mine->meta, "lasting", 7, &b, &version));
	MUST(version && b.len == 8);
	ck_assert_uint_eq(calls(), before);
	number_put(&other->meta, "absent", 1);
	MUST_WORK(pt_meta_get_lasting(&mine->meta, "absent", 6, &b, &version));
	MUST(version && b.len == 8);
	pt_buf_done(&b);
	close_both();
}
END_TEST

static void *ask(void *arg)
{
	struct pt_meta_mark mark;

	(void)arg;
	MUST(pt_meta_mark(&mine->meta, &mark));
	return NULL;
}

/* Two are on their way, and what comes meanwhile is one question more. */
START_TEST(questions_for_the_mark_of_many_threads_are_few)
{
	struct pt_meta_counters c = { .shared = 0 };
	pthread_t thread[20];
	uint64_t before;

	open_both();
	number_put(&other->meta, "a", 1);
	MUST(now("a") == 1);
	before = calls();
	MUST(kill(d.pid, SIGSTOP) == 0);
	for (int i = 0; i < 20; i++)
		MUST(pthread_create(&thread[i], NULL, ask, NULL) == 0);
	while (c.shared < 17)
		pt_meta_counters(&mine->meta, &c);
	MUST(kill(d.pid, SIGCONT) == 0);
	for (int i = 0; i < 20; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(c.shared, 17);
	ck_assert_uint_le(calls() - before, 3 + 1);     /* maybe a renewal */
	close_both();
}
END_TEST

/* An answer to a question that was sent before an asker began is no answer to it. */
static void *follow(void *arg)
{
	const uint64_t *least = arg;

	for (uint64_t want = 0; want < 300;) {
		want = __atomic_load_n(least, __ATOMIC_ACQUIRE);
		MUST(now("a") >= want);
	}
	return NULL;
}

START_TEST(many_readers_never_see_less_than_what_was_committed_when_they_asked)
{
	static uint64_t least;
	pthread_t thread[8];

	open_both();
	number_put(&other->meta, "a", 0);
	for (int i = 0; i < 8; i++)
		MUST(pthread_create(&thread[i], NULL, follow, &least) == 0);
	for (uint64_t n = 1; n <= 300; n++) {
		number_put(&other->meta, "a", n);
		__atomic_store_n(&least, n, __ATOMIC_RELEASE);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	close_both();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("away");

	tcase_add_test(tcase, a_moment_in_which_nothing_has_changed_is_one_round_trip);
	tcase_add_test(tcase, a_commit_elsewhere_shows_in_the_next_moment);
	tcase_add_test(tcase, marks_are_equal_as_long_as_nothing_is_committed);
	tcase_add_test(tcase, a_commit_of_ones_own_drops_only_what_it_changes);
	tcase_add_test(tcase, a_commit_of_the_same_process_renews_moments);
	tcase_add_test(tcase, a_pin_tells_the_moment_from_which_it_counts);
	tcase_add_test(tcase, random_commits_of_two_are_seen_by_a_cached_reader_as_by_another);
	tcase_add_loop_test(tcase, readers_never_see_less_than_what_has_been_committed, 0, 2);
	tcase_add_test(tcase, questions_for_the_mark_of_many_threads_are_few);
	tcase_add_test(tcase, many_readers_never_see_less_than_what_was_committed_when_they_asked);
	tcase_add_test(tcase, another_run_of_the_daemon_means_another_history);
	tcase_add_test(tcase, without_the_daemon_nothing_is_told_from_memory);
	tcase_add_test(tcase, lasting_records_are_told_whatever_was_committed_since);
	return run_suite("store: away", &tcase, 1);
}

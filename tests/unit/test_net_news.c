/* tests/unit/test_net_news.c - a client that waits for news of the index hears of commits by themselves, and at once when nobody can tell any more; those that wait cost the daemon little and hold up nobody. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "store/remote.h"
#include "store/store.h"
#include "unit/daemon.h"
#include "unit/raw_peer.h"
#include "unit/store_support.h"

#define S INT64_C(1000000000)
#define LONG_NS (1000 * S)

static const char *const with_http[] = { "--http", "127.0.0.1:0", NULL };
static const char *const slow_to_stop[] = { "--http", "127.0.0.1:0", "--drain", "300", NULL };
static struct daemon d;
static const char *dir;
static struct pt_store *mine, *other;

static void serve(const char *store, const char *const *args)
{
	dir = dir_make();
	daemon_start(&d, dir, store, 0, args);
}

static struct pt_store *open_client(void)
{
	struct pt_store_options options = { .secret_file = daemon_secret(dir), .timeout_ns = 60 * S };
	struct pt_store *s;
	char uri[80];

	snprintf(uri, sizeof(uri), "tcp://%s", d.hosts);
	MUST_WORK(pt_store_open(uri, &options, &s));
	return s;
}

static void status(struct pt_net_status *ret_status)
{
	MUST(pt_remote_status(&mine->data, ret_status));
}

/* A thread that waits for news. */
struct waiter {
	pthread_t thread;
	uint64_t seen;
	struct pt_meta_mark mark;
	int rc;
	int64_t took_ns;
};

static void *wait_for_news(void *arg)
{
	struct waiter *w = arg;
	int64_t began = pt_time_boot_ns();

	w->rc = pt_meta_news(&mine->meta, w->seen, LONG_NS, &w->mark);
	w->took_ns = pt_time_boot_ns() - began;
	return NULL;
}

/* Returns when the daemon has its request. */
static void waiter_start(struct waiter *w, uint64_t seen)
{
	w->seen = seen;
	MUST(pthread_create(&w->thread, NULL, wait_for_news, w) == 0);
	daemon_metric_wait(&d, "watches", 1);
}

static uint64_t version_now(void)
{
	struct pt_meta_mark mark;

	MUST_WORK(pt_meta_news(&mine->meta, 0, 0, &mark));
	return mark.word[2];
}

START_TEST(commits_of_others_and_of_oneself_are_told_with_the_mark)
{
	struct pt_net_status before, after;
	struct pt_meta_mark mark;
	struct waiter w;
	uint64_t seen;

	serve(_i ? "mem:1M" : NULL, with_http);
	mine = open_client();
	other = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	MUST(pt_meta_has_news(&mine->meta));
	seen = version_now();
	status(&before);
	waiter_start(&w, seen);
	MUST_WORK(meta_put(&other->meta, "k", "w", 1, NULL));
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, 0);
	ck_assert_uint_gt(w.mark.word[2], seen);
	ck_assert(!pt_meta_own(&mine->meta, seen, w.mark.word[2]));
	/* It is not counted among the calls that somebody waits for. */
	status(&after);
	ck_assert_uint_eq(after.calls, before.calls);
	ck_assert_uint_eq(after.asides, before.asides + 1);
	MUST(pt_meta_mark(&mine->meta, &mark));
	ck_assert_mem_eq(&mark, &w.mark, sizeof(mark));
	seen = w.mark.word[2];
	waiter_start(&w, seen);
	MUST_WORK(meta_put(&mine->meta, "k", "x", 1, NULL));
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, 0);
	ck_assert(!pt_meta_committing(&mine->meta) && pt_meta_own(&mine->meta, seen, w.mark.word[2]));
	pt_store_close(mine);
	pt_store_close(other);
}
END_TEST

/* Such a call goes out alone. */
START_TEST(a_call_above_the_limits_does_not_wait_for_news)
{
	const size_t len = (size_t)17 << 20;
	char *value = calloc(1, len);
	struct waiter w;
	uint64_t seen;

	MUST(value);
	serve("mem:1M", with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	seen = version_now();
	waiter_start(&w, seen);
	MUST_WORK(meta_put(&mine->meta, "k", value, len, NULL));
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, 0);
	ck_assert_uint_gt(w.mark.word[2], seen);
	pt_store_close(mine);
	free(value);
}
END_TEST

START_TEST(nobody_waits_on_for_a_daemon_that_died)
{
	struct pt_meta_mark mark;
	struct waiter w;
	int rc;

	serve(NULL, with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	waiter_start(&w, version_now());
	daemon_stop(&d, SIGKILL);
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, -EIO);
	/* Nor is it asked while there is no connection. */
	MUST_FAIL(EIO, pt_meta_news(&mine->meta, w.seen, LONG_NS, &mark));
	daemon_start(&d, dir, NULL, d.port, with_http);
	while ((rc = pt_meta_news(&mine->meta, 0, 0, &mark)) == -EIO)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	ck_assert_int_eq(rc, 0);
	ck_assert_uint_eq(mark.word[2], w.seen);
	/* Another run, whatever the versions. */
	MUST(memcmp(mark.word, w.mark.word, 2 * sizeof(mark.word[0])) != 0);
	pt_store_close(mine);
}
END_TEST

START_TEST(a_silent_daemon_is_noticed_long_before_calls_end)
{
	struct pt_meta_mark mark;
	int64_t began;

	serve("mem:1M", with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	version_now();
	MUST(kill(d.pid, SIGSTOP) == 0);
	began = pt_time_boot_ns();
	MUST_FAIL(EIO, pt_meta_news(&mine->meta, UINT64_MAX, S / 10, &mark));
	ck_assert_int_lt(pt_time_boot_ns() - began, 20 * S);
	MUST(kill(d.pid, SIGCONT) == 0);
	MUST_WORK(pt_meta_get(&mine->meta, "k", 1, NULL, NULL));
	pt_store_close(mine);
}
END_TEST

START_TEST(who_waits_can_be_told_to_end)
{
	struct pt_meta_mark mark;
	struct waiter w;

	serve("mem:1M", with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	waiter_start(&w, version_now());
	pt_meta_news_stop(&mine->meta);
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, -EIO);
	MUST_FAIL(EIO, pt_meta_news(&mine->meta, 0, LONG_NS, &mark));
	MUST_WORK(pt_meta_get(&mine->meta, "k", 1, NULL, NULL));
	pt_store_close(mine);
}
END_TEST

/* ---- many that wait ---- */

static void raw_watch(struct raw *r, uint64_t id)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__MetaWatch watch = PTIO__WIRE__META_WATCH__INIT;

	watch.timeout_ns = LONG_NS;
	watch.seen = version_now();
	q.op_case = PTIO__WIRE__REQUEST__OP_META_WATCH;
	q.meta_watch = &watch;
	q.id = id;
	raw_send(r, &q.base, NULL, 0);
}

static void raw_space(struct raw *r, uint64_t id)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;

	q.op_case = PTIO__WIRE__REQUEST__OP_META_SPACE;
	q.meta_space = &nothing;
	q.id = id;
	raw_send(r, &q.base, NULL, 0);
}

START_TEST(watches_hold_up_no_other_request_of_their_connection)
{
	Ptio__Wire__Reply *p;
	struct raw r;
	uint64_t id;

	serve("mem:1M", with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	raw_login(&r, d.port);
	for (id = 1; id <= 20; id++)
		raw_watch(&r, id);
	raw_space(&r, id);
	p = raw_recv(&r, &ptio__wire__reply__descriptor);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(p->id, id);
	/* A few of them wait at the watcher, the others for their turn. */
	daemon_metric_wait(&d, "watches", 4);
	MUST_WORK(meta_put(&mine->meta, "k", "w", 1, NULL));
	for (id = 1; id <= 20; id++) {
		p = raw_recv(&r, &ptio__wire__reply__descriptor);
		ck_assert(p && p->error == 0 && p->mark && p->mark->version == p->version);
	}
	daemon_metric_wait(&d, "watches", 0);
	raw_close(&r);
	pt_store_close(mine);
}
END_TEST

START_TEST(a_daemon_that_stops_does_not_wait_for_watches)
{
	int64_t began;
	struct raw r;

	serve("mem:1M", slow_to_stop);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	raw_login(&r, d.port);
	raw_watch(&r, 1);
	daemon_metric_wait(&d, "watches", 1);
	pt_store_close(mine);
	began = pt_time_boot_ns();
	ck_assert_int_eq(daemon_stop(&d, SIGTERM), 0);
	ck_assert_int_lt(pt_time_boot_ns() - began, 100 * S);
	raw_close(&r);
}
END_TEST

static uint64_t memory_of(pid_t pid)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtoull(line + 6, NULL, 10);
	fclose(f);
	MUST(kib);
	return kib << 10;
}

static unsigned descriptors_of(pid_t pid)
{
	unsigned count = 0;
	char path[64];
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	MUST(fds);
	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

#define CLIENTS 100

/* Half of them never read what they are told. */
START_TEST(a_hundred_clients_that_wait_cost_little_and_are_all_told)
{
	static struct raw r[CLIENTS];
	unsigned descriptors;
	Ptio__Wire__Reply *p;
	uint64_t bytes;

	serve("mem:1M", with_http);
	mine = open_client();
	MUST_WORK(meta_put(&mine->meta, "k", "v", 1, NULL));
	bytes = memory_of(d.pid);
	descriptors = descriptors_of(d.pid);
	for (int i = 0; i < CLIENTS; i++) {
		raw_login(&r[i], d.port);
		raw_watch(&r[i], 1);
	}
	daemon_metric_wait(&d, "watches", CLIENTS);
	ck_assert_uint_le(descriptors_of(d.pid), descriptors + CLIENTS + 2);
	MUST_WORK(meta_put(&mine->meta, "k", "w", 1, NULL));
	for (int i = 0; i < CLIENTS; i += 2) {
		p = raw_recv(&r[i], &ptio__wire__reply__descriptor);
		ck_assert(p && p->id == 1 && p->error == 0 && p->mark);
	}
	daemon_metric_wait(&d, "watches", 0);
	/* Whoever takes nothing gets what it asked for, once, and that is all. */
	for (int n = 0; n < 20; n++)
		MUST_WORK(meta_put(&mine->meta, "k", "x", 1, NULL));
	ck_assert_uint_lt(memory_of(d.pid), bytes + (16u << 20));
	for (int i = 0; i < CLIENTS; i++)
		raw_close(&r[i]);
	daemon_metric_wait(&d, "clients", 1);
	ck_assert_uint_le(descriptors_of(d.pid), descriptors + 2);
	pt_store_close(mine);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("news");

	tcase_add_loop_test(tcase, commits_of_others_and_of_oneself_are_told_with_the_mark, 0, 2);
	tcase_add_test(tcase, a_call_above_the_limits_does_not_wait_for_news);
	tcase_add_test(tcase, nobody_waits_on_for_a_daemon_that_died);
	tcase_add_test(tcase, a_silent_daemon_is_noticed_long_before_calls_end);
	tcase_add_test(tcase, who_waits_can_be_told_to_end);
	tcase_add_test(tcase, watches_hold_up_no_other_request_of_their_connection);
	tcase_add_test(tcase, a_daemon_that_stops_does_not_wait_for_watches);
	tcase_add_test(tcase, a_hundred_clients_that_wait_cost_little_and_are_all_told);
	return run_suite("net: news", &tcase, 1);
}

/* tests/unit/test_net_faults.c - daemons that die, fall silent or forget, connections that are cut: what clients see, and that they recover by themselves. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "store/remote.h"
#include "unit/daemon.h"
#include "unit/store_support.h"

#define S INT64_C(1000000000)

static const char *const with_http[] = { "--http", "127.0.0.1:0", NULL };
static const char *const short_lease[] = { "--http", "127.0.0.1:0", "--lease", "1", NULL };
static struct daemon d;
static const char *dir;
static struct pt_meta meta;
static struct pt_data data;

static void open_hosts(const char *hosts, int64_t timeout_ns)
{
	struct pt_remote_options o = { .secret_file = daemon_secret(dir), .timeout_ns = timeout_ns };
	bool read_only;

	MUST_WORK(pt_remote_open(hosts, &o, &meta, &data, &read_only));
}

static void start(const char *store, const char *const *args, int64_t timeout_ns)
{
	dir = dir_make();
	daemon_start(&d, dir, store, 0, args);
	open_hosts(d.hosts, timeout_ns);
}

static void restart(const char *const *args)
{
	daemon_start(&d, dir, NULL, d.port, args);
}

static void stop(void)
{
	pt_meta_close(&meta);
	pt_data_close(&data);
}

/* The resolver of this program: "moving.test" is wherever it is put, and nothing is answered while it hangs. */
static const char *moving = "127.0.0.1";        /* atomic */
static int hanging, asked;                      /* atomics */

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret_list)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
		(int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");

	__atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hanging, __ATOMIC_SEQ_CST))
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	if (node && strcmp(node, "moving.test") == 0)
		node = __atomic_load_n(&moving, __ATOMIC_SEQ_CST);
	return real(node, service, hints, ret_list);
}

static void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

struct later {
	pthread_t thread;
	int after_ms;
	void (*fn)(void);
};

static void *run_later(void *arg)
{
	struct later *l = arg;

	sleep_ms(l->after_ms);
	l->fn();
	return NULL;
}

static void later(struct later *l, int after_ms, void (*fn)(void))
{
	l->after_ms = after_ms;
	l->fn = fn;
	pthread_create(&l->thread, NULL, run_later, l);
}

static void kill_daemon(void)
{
	daemon_stop(&d, SIGKILL);
}

START_TEST(without_a_listener_opening_fails_soon)
{
	struct pt_remote_options o = { .timeout_ns = 30 * S };
	int64_t began = pt_time_boot_ns();
	bool read_only;

	dir = dir_make();
	MUST_FAIL(EIO, pt_remote_open("127.0.0.1:1", &o, &meta, &data, &read_only));
	MUST_FAIL(EIO, pt_remote_open("127.0.0.1:1,[::1]:1", &o, &meta, &data, &read_only));
	ck_assert_int_lt(pt_time_boot_ns() - began, 10 * S);
}
END_TEST

START_TEST(a_daemon_killed_during_a_read_is_an_error_in_time_and_reads_work_when_it_is_back)
{
	static const char *const slow[] = { "PTIO_FAULTS=data.read:delay_ms=60000:after=1", NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct later l;
	int64_t began;
	char got[5];

	start(NULL, slow, 3 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	later(&l, 300, kill_daemon);
	began = pt_time_boot_ns();
	MUST_FAIL(EIO, blob_get(&data, &ref, got, 5, 0));
	ck_assert_int_lt(pt_time_boot_ns() - began, 8 * S);
	pthread_join(l.thread, NULL);
	restart(NULL);
	memset(got, 0, sizeof(got));
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	stop();
}
END_TEST

static void kill_and_restart(void)
{
	kill_daemon();
	restart(NULL);
}

static sem_t read_over;

/* A daemon ends with the thread that started it. */
static void kill_restart_and_stay(void)
{
	kill_and_restart();
	sem_wait(&read_over);
}

START_TEST(a_read_outlives_a_restart_that_is_quick_enough)
{
	static const char *const slow[] = { "PTIO_FAULTS=data.read:delay_ms=60000", NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct later l;
	char got[5];

	start(NULL, slow, 30 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	sem_init(&read_over, 0, 0);
	later(&l, 300, kill_restart_and_stay);
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	sem_post(&read_over);
	pthread_join(l.thread, NULL);
	stop();
}
END_TEST

START_TEST(a_silent_daemon_is_an_error_in_time)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	int64_t began;
	char got[5];

	start("mem:1M", NULL, 2 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST(kill(d.pid, SIGSTOP) == 0);
	began = pt_time_boot_ns();
	MUST_FAIL(EIO, blob_get(&data, &ref, got, 5, 0));
	ck_assert_int_lt(pt_time_boot_ns() - began, 7 * S);
	MUST_FAIL(EIO, pt_meta_get(&meta, "k", 1, NULL, NULL));
	MUST(kill(d.pid, SIGCONT) == 0);
	/* On a busy machine it may take its time. */
	for (int i = 0; i < 30 && blob_get(&data, &ref, got, 5, 0) < 0; i++)
		;
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	stop();
}
END_TEST

/* A page fault, or a walk down a path, asks several times in a row. */
START_TEST(calls_do_not_wait_again_and_again_for_a_daemon_that_is_away)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	int64_t began;
	char got[5];

	start(NULL, NULL, 3 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	kill_daemon();
	began = pt_time_boot_ns();
	for (int i = 0; i < 20; i++)
		MUST_FAIL(EIO, blob_get(&data, &ref, got, 5, 0));
	ck_assert_int_lt(pt_time_boot_ns() - began, 20 * S);
	restart(NULL);
	for (int i = 0; i < 30 && blob_get(&data, &ref, got, 5, 0) < 0; i++)
		;
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	kill_daemon();
	restart(NULL);
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	stop();
}
END_TEST

START_TEST(a_daemon_killed_during_a_write_fails_the_upload_and_the_next_works)
{
	static const char *const slow[] = { "PTIO_FAULTS=data.write:delay_ms=60000:after=1", NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct later l;
	void *blob;
	uint64_t n;

	start(NULL, slow, 3 * S);
	MUST_WORK(pt_data_create(&data, &ref, 100, &blob));
	MUST_WORK(pt_data_write(&data, blob, "some", 4, 0));
	later(&l, 300, kill_daemon);
	MUST_FAIL(EIO, pt_data_write(&data, blob, "more", 4, 4));
	pthread_join(l.thread, NULL);
	restart(NULL);
	MUST_FAIL(EIO, pt_data_write(&data, blob, "more", 4, 4));
	MUST_FAIL(EIO, pt_data_seal(&data, blob, 8));
	MUST_FAIL(ENOENT, pt_data_stat(&data, &ref, &n));
	MUST_WORK(pt_data_sweep(&data, &n));
	MUST_WORK(blob_put(&data, &ref, "whole", 5));
	stop();
}
END_TEST

/* before: the commit was not made; after: it was, though nobody heard. Either is whole. */
START_TEST(a_daemon_killed_during_a_commit_leaves_all_of_it_or_nothing)
{
	static const char *const crash[2][2] = { { "PTIO_FAULTS=meta.commit:crash:after=1", NULL }, { "PTIO_FAULTS=meta.commit:crash-after:after=1", NULL } };
	struct pt_meta_op ops[] = {
		{ .kind = PT_META_PUT, .key = { "a", 1 }, .value = "1", .value_len = 1 },
		{ .kind = PT_META_PUT, .key = { "b", 1 }, .value = "2", .value_len = 1 },
	};
	uint64_t a, b;

	start(NULL, crash[_i], 3 * S);
	MUST_WORK(meta_put(&meta, "before", "v", 1, NULL));
	MUST_FAIL(EIO, pt_meta_commit(&meta, ops, 2, NULL));
	waitpid(d.pid, NULL, 0);
	restart(NULL);
	MUST_WORK(pt_meta_get(&meta, "a", 1, NULL, &a));
	MUST_WORK(pt_meta_get(&meta, "b", 1, NULL, &b));
	ck_assert((a != 0) == (_i == 1));
	ck_assert_uint_eq(a, b);
	MUST_WORK(pt_meta_commit(&meta, ops, 2, NULL));
	stop();
}
END_TEST

/* ---- a cable that can be cut ---- */

struct cable {
	int listen_fd;
	uint16_t to;
	char hosts[64];
	pthread_t thread;
	int cut_pipe[2];
	int deaf;                       /* atomic: bytes of the daemon are held back */
	int stopping;
};

static struct cable cable;

static int dial(uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool pass(int from, int to)
{
	char buf[65536];
	ssize_t n = recv(from, buf, sizeof(buf), 0);

	for (ssize_t at = 0; at < n;) {
		ssize_t w = send(to, buf + at, (size_t)(n - at), MSG_NOSIGNAL);

		if (w <= 0)
			return false;
		at += w;
	}
	return n > 0;
}

static void carry(struct cable *c, int client, int server)
{
	bool up = true;

	while (up) {
		int deaf = __atomic_load_n(&c->deaf, __ATOMIC_ACQUIRE);
		struct pollfd p[3] = { { client, POLLIN, 0 }, { deaf ? -1 : server, POLLIN, 0 }, { c->cut_pipe[0], POLLIN, 0 } };
		char one;

		if (poll(p, 3, 20) < 0)
			break;
		if (p[2].revents) {
			MUST(read(c->cut_pipe[0], &one, 1) == 1);
			break;
		}
		if (p[0].revents)
			up = pass(client, server);
		if (up && p[1].revents)
			up = pass(server, client);
	}
}

static void *lay(void *arg)
{
	struct cable *c = arg;

	while (!__atomic_load_n(&c->stopping, __ATOMIC_ACQUIRE)) {
		int client = accept(c->listen_fd, NULL, NULL), server;

		if (client < 0)
			break;
		server = dial(c->to);
		if (server >= 0)
			carry(c, client, server);
		close(client);
		close(server);
	}
	return NULL;
}

static void cable_start(uint16_t to)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sin);

	memset(&cable, 0, sizeof(cable));
	cable.to = to;
	MUST(pipe(cable.cut_pipe) == 0);
	cable.listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(bind(cable.listen_fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(cable.listen_fd, 5) == 0);
	MUST(getsockname(cable.listen_fd, (struct sockaddr *)&sin, &len) == 0);
	snprintf(cable.hosts, sizeof(cable.hosts), "127.0.0.1:%u", ntohs(sin.sin_port));
	pthread_create(&cable.thread, NULL, lay, &cable);
}

static void cable_cut(void)
{
	__atomic_store_n(&cable.deaf, 0, __ATOMIC_RELEASE);
	MUST(write(cable.cut_pipe[1], "x", 1) == 1);
}

static void cable_stop(void)
{
	__atomic_store_n(&cable.stopping, 1, __ATOMIC_RELEASE);
	shutdown(cable.listen_fd, SHUT_RDWR);
	pthread_join(cable.thread, NULL);
	close(cable.listen_fd);
}

static void start_with_cable(const char *store, const char *const *args, int64_t timeout_ns)
{
	dir = dir_make();
	daemon_start(&d, dir, store, 0, args);
	cable_start(d.port);
	open_hosts(cable.hosts, timeout_ns);
}

START_TEST(a_commit_whose_answer_was_lost_is_made_once_and_confirmed)
{
	struct pt_meta_op ops[] = {
		{ .kind = PT_META_COMPARE, .key = { "k", 1 } },
		{ .kind = PT_META_PUT, .key = { "k", 1 }, .value = "1", .value_len = 1 },
	};
	uint64_t version, now;
	struct later l;

	start_with_cable(NULL, with_http, 20 * S);
	/* The request goes through; the answer stays in the cable until it is cut. A second try that was made anew would fail its compare. */
	__atomic_store_n(&cable.deaf, 1, __ATOMIC_RELEASE);
	later(&l, 500, cable_cut);
	MUST_WORK(pt_meta_commit(&meta, ops, 2, &version));
	pthread_join(l.thread, NULL);
	MUST_WORK(pt_meta_get(&meta, "k", 1, NULL, &now));
	ck_assert_uint_eq(now, version);
	stop();
	cable_stop();
}
END_TEST

START_TEST(a_cut_connection_keeps_its_pins_and_loses_its_uploads)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), other = blob_new(PT_BLOB_TENSOR);
	bool pinned = false;
	void *blob;

	start_with_cable("mem:1M", with_http, 20 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	MUST_WORK(pt_data_create(&data, &other, 100, &blob));
	cable_cut();
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(pinned);
	daemon_metric_wait(&d, "uploads", 0);
	MUST_FAIL(EIO, pt_data_write(&data, blob, "1", 1, 0));
	pt_data_abort(&data, blob);
	pt_data_unpin(&data, &ref, 1);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(!pinned);
	ck_assert_uint_eq(daemon_metric(&d, "sessions"), 1);
	stop();
	cable_stop();
}
END_TEST

START_TEST(long_lists_and_scans_come_whole_through_a_cut)
{
	struct later l;

	start_with_cable(NULL, NULL, 20 * S);
	for (int i = 0; i < 50; i++) {
		static uint8_t value[200000];
		char key[16];

		snprintf(key, sizeof(key), "k%d", i);
		MUST_WORK(meta_put(&meta, key, value, sizeof(value), NULL));
	}
	later(&l, 10, cable_cut);
	for (int i = 0; i < 5; i++)
		ck_assert_uint_eq(meta_count(&meta), 50);
	pthread_join(l.thread, NULL);
	stop();
	cable_stop();
}
END_TEST

/* ---- pins and leases ---- */

START_TEST(pins_are_made_again_at_a_daemon_that_was_restarted)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	bool pinned = false;

	start(NULL, with_http, 20 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	kill_and_restart();
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(pinned);
	pt_data_unpin(&data, &ref, 1);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(pinned);
	pt_data_unpin(&data, &ref, 1);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(!pinned);
	stop();
}
END_TEST

static void pin_and_hang(void *ctx, int pipe_fd)
{
	struct pt_blob_ref *ref = ctx;

	open_hosts(d.hosts, 5 * S);
	CHILD_MUST(pt_data_pin(&data, ref, 1) == 0);
	CHILD_MUST(write(pipe_fd, "r", 1) == 1);
	pause();
}

START_TEST(pins_of_a_client_that_died_end_with_its_lease_and_of_one_that_closed_at_once)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	bool pinned = false;
	int pipe_fd;
	char ready;
	pid_t pid;

	start("mem:1M", short_lease, 5 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	pid = child_start(pin_and_hang, &ref, &pipe_fd);
	MUST(read(pipe_fd, &ready, 1) == 1);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(pinned);
	child_kill(pid);
	daemon_metric_wait(&d, "pins", 0);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(!pinned);
	ck_assert_uint_eq(daemon_metric(&d, "pins_expired_total"), 1);
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	stop();
	daemon_metric_wait(&d, "pins", 0);
	ck_assert_uint_eq(daemon_metric(&d, "pins_expired_total"), 1);
}
END_TEST

/* Pins, says so, waits for a byte, and reads. */
struct reader {
	struct pt_blob_ref ref;
	int go[2];
};

static void pin_wait_read(void *ctx, int pipe_fd)
{
	struct reader *r = ctx;
	char got[5] = "", one, verdict;
	int rc;

	open_hosts(d.hosts, 5 * S);
	CHILD_MUST(pt_data_pin(&data, &r->ref, 1) == 0);
	CHILD_MUST(blob_get(&data, &r->ref, got, 5, 0) == 0);
	CHILD_MUST(write(pipe_fd, "r", 1) == 1);
	CHILD_MUST(read(r->go[0], &one, 1) == 1);
	memset(got, 0, sizeof(got));
	rc = blob_get(&data, &r->ref, got, 5, 0);
	verdict = rc == -EIO ? 'e' : rc == 0 && memcmp(got, "bytes", 5) == 0 ? 'g' : 'w';
	CHILD_MUST(write(pipe_fd, &verdict, 1) == 1);
}

START_TEST(a_lease_that_ran_out_under_a_reader_is_an_error_never_other_bytes)
{
	struct reader r = { .ref = blob_new(PT_BLOB_TENSOR) };
	struct pt_blob_ref other = blob_new(PT_BLOB_TENSOR);
	int pipe_fd;
	char one;
	pid_t pid;

	start("mem:1M", short_lease, 5 * S);
	MUST(pipe(r.go) == 0);
	MUST_WORK(blob_put(&data, &r.ref, "bytes", 5));
	pid = child_start(pin_wait_read, &r, &pipe_fd);
	MUST(read(pipe_fd, &one, 1) == 1 && one == 'r');
	MUST(kill(pid, SIGSTOP) == 0);
	daemon_metric_wait(&d, "pins", 0);
	MUST_WORK(pt_data_remove(&data, &r.ref));
	MUST_WORK(blob_put(&data, &other, "other", 5));
	MUST(kill(pid, SIGCONT) == 0);
	MUST(write(r.go[1], "g", 1) == 1);
	MUST(read(pipe_fd, &one, 1) == 1);
	ck_assert_int_eq(one, 'e');
	child_join(pid);
	stop();
}
END_TEST

START_TEST(leases_of_clients_that_live_are_renewed)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	bool pinned = false;

	start("mem:1M", short_lease, 5 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	sleep_ms(2600);
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert(pinned);
	ck_assert_uint_eq(daemon_metric(&d, "pins_expired_total"), 0);
	stop();
}
END_TEST

/* ---- several daemons ---- */

START_TEST(the_next_host_serves_when_one_is_gone)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct daemon second;
	char hosts[200], got[5];

	dir = dir_make();
	daemon_start(&d, dir, NULL, 0, NULL);
	daemon_start(&second, dir, NULL, 0, NULL);
	second.port = second.port == d.port ? 0 : second.port;
	MUST(second.port);
	snprintf(hosts, sizeof(hosts), "127.0.0.1:1,%s,%s", d.hosts, second.hosts);
	open_hosts(hosts, 10 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	kill_daemon();
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	stop();
	daemon_stop(&second, SIGKILL);
}
END_TEST

/* ---- stopping, logs, settings ---- */

static void terminate(void)
{
	MUST(kill(d.pid, SIGTERM) == 0);
}

START_TEST(a_name_that_leads_elsewhere_is_looked_up_again)
{
	char hosts[64], listen_on[64];
	const char *args[] = { "--listen", listen_on, NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_net_status status;
	char got[5] = "";

	dir = dir_make();
	daemon_start(&d, dir, NULL, 0, NULL);
	snprintf(hosts, sizeof(hosts), "moving.test:%u", d.port);
	snprintf(listen_on, sizeof(listen_on), "127.0.0.2:%u", d.port);
	open_hosts(hosts, 30 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	daemon_stop(&d, SIGKILL);
	__atomic_store_n(&moving, "127.0.0.2", __ATOMIC_SEQ_CST);
	daemon_start_first(&d, dir, NULL, args);
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	MUST(pt_remote_status(&data, &status));
	ck_assert_str_eq(status.peer, hosts);
	stop();
}
END_TEST

START_TEST(a_resolver_that_does_not_answer_keeps_nobody_waiting)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	char got[5] = "";

	start(NULL, NULL, 3 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	__atomic_store_n(&hanging, 1, __ATOMIC_SEQ_CST);
	asked = 0;
	daemon_stop(&d, SIGKILL);
	MUST_FAIL(EIO, blob_get(&data, &ref, got, 5, 0));
	ck_assert_int_gt(__atomic_load_n(&asked, __ATOMIC_SEQ_CST), 0);
	restart(NULL);
	for (int i = 0; blob_get(&data, &ref, got, 5, 0) < 0; i++)
		MUST(i < 100);
	ck_assert_mem_eq(got, "bytes", 5);
	stop();
	/* Its thread ends by itself. */
	__atomic_store_n(&hanging, 0, __ATOMIC_SEQ_CST);
}
END_TEST

START_TEST(sigterm_waits_for_an_upload_and_ends_well)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	char text[200];
	void *blob;
	int status;

	start(NULL, with_http, 5 * S);
	MUST_WORK(pt_data_create(&data, &ref, 8, &blob));
	MUST_WORK(pt_data_write(&data, blob, "some", 4, 0));
	terminate();
	for (int i = 0; daemon_http(&d, "/healthz", text, sizeof(text)) != 503; i++) {
		MUST(i < 500);
		sleep_ms(10);
	}
	MUST_WORK(pt_data_write(&data, blob, "more", 4, 4));
	MUST_WORK(pt_data_seal(&data, blob, 8));
	MUST(waitpid(d.pid, &status, 0) == d.pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	restart(with_http);
	ck_assert_int_eq(daemon_http(&d, "/healthz", text, sizeof(text)), 200);
	MUST_WORK(blob_get(&data, &ref, text, 8, 0));
	ck_assert_mem_eq(text, "somemore", 8);
	stop();
}
END_TEST

START_TEST(sighup_opens_the_log_anew)
{
	const char *args[] = { "--log", NULL, NULL };
	char log[300], moved[300];

	dir = dir_make();
	snprintf(log, sizeof(log), "%s.log", dir);
	snprintf(moved, sizeof(moved), "%s.run/moved", dir);
	args[1] = log;
	daemon_start(&d, dir, "mem:1M", 0, args);
	MUST(rename(log, moved) == 0);
	MUST(kill(d.pid, SIGHUP) == 0);
	for (int i = 0; !daemon_log_has(&d, "log opened anew"); i++) {
		MUST(i < 500);
		sleep_ms(10);
	}
	open_hosts(d.hosts, 5 * S);
	stop();
	ck_assert(daemon_log_has(&d, "is there"));
}
END_TEST

START_TEST(a_read_only_daemon_refuses_changes)
{
	static const char *const read_only[] = { "--read-only", NULL };
	struct pt_remote_options o = { .timeout_ns = 5 * S };
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	bool is_read_only = false;
	char got[5];

	start(NULL, NULL, 5 * S);
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	stop();
	daemon_stop(&d, SIGTERM);
	restart(read_only);
	o.secret_file = daemon_secret(dir);
	MUST_WORK(pt_remote_open(d.hosts, &o, &meta, &data, &is_read_only));
	ck_assert(is_read_only);
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	MUST_FAIL(EROFS, pt_data_remove(&data, &ref));
	MUST_FAIL(EROFS, meta_put(&meta, "k", "v", 1, NULL));
	stop();
}
END_TEST

START_TEST(options_come_from_a_file_and_the_command_line_has_the_last_word)
{
	const char *args[] = { "--config", NULL, NULL };
	char path[300];
	FILE *f;

	dir = dir_make();
	snprintf(path, sizeof(path), "%s.secret.conf", dir);
	f = fopen(path, "w");
	MUST(f);
	fputs("# a comment\n store = dir:/nowhere\nlisten=127.0.0.1:1\n  http = 127.0.0.1:0  \nlease = 7\n", f);
	fclose(f);
	args[1] = path;
	daemon_start(&d, dir, "mem:1M", 0, args);
	open_hosts(d.hosts, 5 * S);
	ck_assert_uint_ne(d.port, 1);
	ck_assert_uint_ne(d.http_port, 0);
	ck_assert_uint_eq(daemon_metric(&d, "durable"), 0);
	stop();
	unlink(path);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("faults");

	tcase_add_test(tcase, without_a_listener_opening_fails_soon);
	tcase_add_test(tcase, a_daemon_killed_during_a_read_is_an_error_in_time_and_reads_work_when_it_is_back);
	tcase_add_test(tcase, a_read_outlives_a_restart_that_is_quick_enough);
	tcase_add_test(tcase, a_silent_daemon_is_an_error_in_time);
	tcase_add_test(tcase, calls_do_not_wait_again_and_again_for_a_daemon_that_is_away);
	tcase_add_test(tcase, a_daemon_killed_during_a_write_fails_the_upload_and_the_next_works);
	tcase_add_loop_test(tcase, a_daemon_killed_during_a_commit_leaves_all_of_it_or_nothing, 0, 2);
	tcase_add_test(tcase, a_commit_whose_answer_was_lost_is_made_once_and_confirmed);
	tcase_add_test(tcase, a_cut_connection_keeps_its_pins_and_loses_its_uploads);
	tcase_add_test(tcase, long_lists_and_scans_come_whole_through_a_cut);
	tcase_add_test(tcase, pins_are_made_again_at_a_daemon_that_was_restarted);
	tcase_add_test(tcase, pins_of_a_client_that_died_end_with_its_lease_and_of_one_that_closed_at_once);
	tcase_add_test(tcase, a_lease_that_ran_out_under_a_reader_is_an_error_never_other_bytes);
	tcase_add_test(tcase, leases_of_clients_that_live_are_renewed);
	tcase_add_test(tcase, the_next_host_serves_when_one_is_gone);
	tcase_add_test(tcase, a_name_that_leads_elsewhere_is_looked_up_again);
	tcase_add_test(tcase, a_resolver_that_does_not_answer_keeps_nobody_waiting);
	tcase_add_test(tcase, sigterm_waits_for_an_upload_and_ends_well);
	tcase_add_test(tcase, sighup_opens_the_log_anew);
	tcase_add_test(tcase, a_read_only_daemon_refuses_changes);
	tcase_add_test(tcase, options_come_from_a_file_and_the_command_line_has_the_last_word);
	return run_suite("net: faults", &tcase, 1);
}

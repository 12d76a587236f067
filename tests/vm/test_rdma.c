/* tests/vm/test_rdma.c - one-sided reads between two soft-RoCE devices: a real ptiod at 10.77.0.1, this process at 10.77.0.2. Runs in tests/vm/vm only. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "net/rdma.h"
#include "store/refmap.h"
#include "store/remote.h"
#include "store/store.h"
#include "unit/daemon.h"
#include "unit/raw_peer.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static struct daemon d;
static const char *dir;
static struct pt_meta meta;
static struct pt_data data;
static char hosts[64];

static int try_open(int64_t timeout_ns)
{
	struct pt_remote_options o = { .secret_file = daemon_secret(dir), .timeout_ns = timeout_ns, .transport = PT_REMOTE_RDMA, .rdma_bind = "10.77.0.2" };
	bool read_only;

	return pt_remote_open(hosts, &o, &meta, &data, &read_only);
}

static void start(const char *store, const char *const *more)
{
	const char *args[16] = { "--listen", "10.77.0.1:0", "--http", "127.0.0.1:0", "--rdma", "yes" };
	int n = 6;

	while (more && *more)
		args[n++] = *more++;
	dir = dir_make();
	daemon_start_first(&d, dir, store, args);
	snprintf(hosts, sizeof(hosts), "10.77.0.1:%u", d.port);
	MUST_WORK(try_open(30000000000));
}

static void stop(void)
{
	pt_meta_close(&meta);
	pt_data_close(&data);
}

static struct pt_remote_rdma_status status(void)
{
	struct pt_remote_rdma_status s;

	MUST(pt_remote_rdma_info(&data, &s));
	return s;
}

START_TEST(bytes_come_by_rdma_and_are_right)
{
	static const size_t sizes[] = { 1, 4095, 4096, 100000, (1 << 20) + 3, 9 << 20 };
	struct pt_remote_rdma_status before, after;
	uint8_t *bytes = malloc(9 << 20), *got = malloc(9 << 20);

	start(_i ? NULL : "mem:64M", NULL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);

		pattern_fill(bytes, sizes[i], i);
		MUST_WORK(blob_put(&data, &ref, bytes, sizes[i]));
		memset(got, 0, sizes[i]);
		before = status();
		MUST_WORK(blob_get(&data, &ref, got, sizes[i], 0));
		ck_assert(memcmp(bytes, got, sizes[i]) == 0);
		after = status();
		ck_assert_uint_eq(after.reads, before.reads + 1);
		ck_assert_uint_eq(after.bytes_read - before.bytes_read, sizes[i]);
		ck_assert_uint_eq(after.bytes_asked - before.bytes_asked, sizes[i]);
	}
	ck_assert_uint_eq(status().fallbacks, 0);
	ck_assert_uint_eq(daemon_metric(&d, "read_bytes_total"), 0);
	stop();
	free(bytes);
	free(got);
}
END_TEST

START_TEST(random_ranges_of_several_objects_are_right_registered_or_not)
{
	struct rng r = { rng_seed(5) };
	uint8_t *bytes[3], *got = malloc(4 << 20);
	struct pt_blob_ref ref[3];
	struct pt_data_range ranges[300];

	start("mem:64M", NULL);
	for (int i = 0; i < 3; i++) {
		bytes[i] = malloc(1 << 20);
		pattern_fill(bytes[i], 1 << 20, (uint64_t)i);
		ref[i] = blob_new(PT_BLOB_PLAIN);
		MUST_WORK(blob_put(&data, &ref[i], bytes[i], 1 << 20));
	}
	for (int n = 0; n < 20; n++) {
		size_t count = rng_between(&r, 1, 300);
		uint64_t to = 0;

		if (n == 10)
			MUST_WORK(pt_data_buffer_register(&data, got, 4 << 20));
		for (size_t i = 0; i < count; i++) {
			uint64_t len = rng_below(&r, 10000);

			ranges[i] = (struct pt_data_range){ ref[rng_below(&r, 3)], rng_below(&r, (1 << 20) - len), len, got + to };
			to += len + rng_below(&r, 50);
		}
		MUST_WORK(pt_data_read(&data, ranges, count));
		for (size_t i = 0; i < count; i++) {
			int k = 0;

			while (!pt_blob_ref_equal(&ref[k], &ranges[i].blob))
				k++;
			MUST(memcmp(ranges[i].buf, bytes[k] + ranges[i].off, ranges[i].len) == 0);
		}
	}
	pt_data_buffer_unregister(&data, got);
	ck_assert_uint_eq(status().fallbacks, 0);
	stop();
	for (int i = 0; i < 3; i++)
		free(bytes[i]);
	free(got);
}
END_TEST

static double cpu_seconds(pid_t pid)
{
	unsigned long user = 0, sys = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	MUST(f && fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) == 2);
	fclose(f);
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

/* 256 MiB in all. The object is in the arena already, and the device moves the bytes. */
START_TEST(the_daemon_spends_no_time_on_reads)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	size_t len = 32 << 20;
	uint8_t *bytes = malloc(len);
	double cpu, wall;

	start("mem:64M", NULL);
	pattern_fill(bytes, len, 1);
	MUST_WORK(blob_put(&data, &ref, bytes, len));
	MUST_WORK(pt_data_buffer_register(&data, bytes, len));
	MUST_WORK(blob_get(&data, &ref, bytes, 4096, 0));
	cpu = cpu_seconds(d.pid);
	wall = (double)pt_time_boot_ns();
	for (int i = 0; i < 8; i++)
		MUST_WORK(blob_get(&data, &ref, bytes, len, 0));
	wall = ((double)pt_time_boot_ns() - wall) / 1e9;
	cpu = cpu_seconds(d.pid) - cpu;
	printf("256 MiB in %.2f s, the daemon's processor time %.3f s\n", wall, cpu);
	ck_assert(cpu < 0.02 * wall);
	ck_assert_uint_eq(status().bounced_bytes, 0);
	ck_assert_uint_eq(status().bytes_read, 8 * len + 4096);
	ck_assert_uint_eq(status().fallbacks, 0);
	stop();
	free(bytes);
}
END_TEST

START_TEST(a_token_that_nobody_was_given_opens_nothing)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0001) } }, from = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0002) } };
	uint8_t token[PT_RDMA_TOKEN] = { 1, 2, 3 };
	struct pt_rdma *rdma;

	start("mem:1M", NULL);
	sin.sin_port = htons(d.port);
	MUST_FAIL(EACCES, pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, token, 5000000000, &rdma));
	sin.sin_port = htons(1);
	MUST_FAIL(EACCES, pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, token, 5000000000, &rdma));
	stop();
}
END_TEST

START_TEST(reads_beyond_the_span_fail_and_the_connection_with_them)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0001) } }, from = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0002) } };
	uint8_t buf[64];
	struct pt_rdma_range range = { .len = sizeof(buf), .buf = buf };
	struct pt_rdma *rdma;
	Ptio__Wire__ServerProof *p;
	struct raw raw;
	int fd;

	start("mem:1M", NULL);
	sin.sin_port = htons(d.port);
	memset(&raw, 0, sizeof(raw));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(connect(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	raw.fd = fd;
	raw_hello(&raw);
	p = raw_prove(&raw, RAW_SECRET);
	ck_assert_uint_eq(p->session->rdma_token.len, PT_RDMA_TOKEN);
	MUST_WORK(pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, p->session->rdma_token.data, 5000000000, &rdma));
	MUST_WORK(pt_rdma_read(rdma, &range, 1, pt_time_boot_ns() + 5000000000));
	range.remote = pt_rdma_span(rdma) - 32;
	MUST_FAIL(EIO, pt_rdma_read(rdma, &range, 1, pt_time_boot_ns() + 5000000000));
	pt_rdma_close(rdma);
	raw_close(&raw);
	stop();
}
END_TEST

/* The queue goes with the TCP connection that it was opened for. */
START_TEST(a_client_that_left_can_read_nothing_any_more)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0001) } }, from = { .sin_family = AF_INET, .sin_addr = { htonl(0x0a4d0002) } };
	uint8_t buf[64], token[PT_RDMA_TOKEN];
	struct pt_rdma_range range = { .len = sizeof(buf), .buf = buf };
	struct pt_rdma *rdma;
	Ptio__Wire__ServerProof *p;
	struct raw raw;
	int rc = 0;

	start("mem:1M", NULL);
	sin.sin_port = htons(d.port);
	memset(&raw, 0, sizeof(raw));
	raw.fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(connect(raw.fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
	raw_hello(&raw);
	p = raw_prove(&raw, RAW_SECRET);
	memcpy(token, p->session->rdma_token.data, sizeof(token));
	MUST_WORK(pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, token, 5000000000, &rdma));
	MUST_WORK(pt_rdma_read(rdma, &range, 1, pt_time_boot_ns() + 5000000000));
	raw_close(&raw);
	daemon_metric_wait(&d, "clients", 1);
	for (int i = 0; rc == 0 && i < 500; i++) {
		rc = pt_rdma_read(rdma, &range, 1, pt_time_boot_ns() + 5000000000);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	ck_assert_int_eq(rc, -EIO);
	pt_rdma_close(rdma);
	MUST_FAIL(EACCES, pt_rdma_connect((struct sockaddr *)&sin, sizeof(sin), (struct sockaddr *)&from, token, 5000000000, &rdma));
	stop();
}
END_TEST

START_TEST(a_full_arena_makes_room_or_leaves_the_read_to_tcp)
{
	static const char *const small[] = { "--arena", "4M", "--lease", "2", NULL };
	struct pt_blob_ref ref[3];
	uint8_t *bytes = malloc(3 << 20), *got = malloc(3 << 20);

	start("mem:64M", small);
	for (int i = 0; i < 3; i++) {
		ref[i] = blob_new(PT_BLOB_PLAIN);
		pattern_fill(bytes, 3 << 20, (uint64_t)i);
		MUST_WORK(blob_put(&data, &ref[i], bytes, 3 << 20));
	}
	for (int i = 0; i < 3; i++) {
		pattern_fill(bytes, 3 << 20, (uint64_t)i);
		MUST_WORK(blob_get(&data, &ref[i], got, 3 << 20, 0));
		ck_assert(memcmp(bytes, got, 3 << 20) == 0);
	}
	/* Only the first found room; its lease is over by and by. */
	ck_assert_uint_eq(daemon_metric(&d, "arena_loads_total"), 1);
	ck_assert_uint_eq(status().fallbacks, 2);
	nanosleep(&(struct timespec){ .tv_sec = 3 }, NULL);
	MUST_WORK(blob_get(&data, &ref[2], got, 3 << 20, 0));
	ck_assert(memcmp(bytes, got, 3 << 20) == 0);
	ck_assert_uint_eq(daemon_metric(&d, "arena_loads_total"), 2);
	stop();
	free(bytes);
	free(got);
}
END_TEST

START_TEST(reads_go_on_after_the_daemon_was_killed_and_is_back)
{
	const char *args[] = { "--listen", NULL, "--http", "127.0.0.1:0", "--rdma", "yes", NULL };
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_remote_rdma_status s = { .reads = 0 };
	char got[5] = "";

	start(NULL, NULL);
	args[1] = hosts;
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	daemon_stop(&d, SIGKILL);
	daemon_start_first(&d, dir, NULL, args);
	memset(got, 0, 5);
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	ck_assert_mem_eq(got, "bytes", 5);
	for (int i = 0; i < 100 && s.connects < 2; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		MUST_WORK(blob_get(&data, &ref, got, 5, 0));
		s = status();
	}
	ck_assert_uint_eq(s.connects, 2);
	stop();
}
END_TEST

/* The network device below rxe1. */
#define CABLE "$(cat /sys/class/infiniband/rxe1/ports/1/gid_attrs/ndevs/0)"

START_TEST(a_link_that_is_down_is_an_error_in_time_and_no_harm_when_it_is_up)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	int64_t began;
	char got[5] = "";
	int rc;

	start("mem:1M", NULL);
	stop();
	MUST_WORK(try_open(4000000000));
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(blob_get(&data, &ref, got, 5, 0));
	MUST(system("ip link set " CABLE " down") == 0);
	began = pt_time_boot_ns();
	/* One machine plays both hosts, so TCP may still get through, by loopback. */
	rc = blob_get(&data, &ref, got, 5, 0);
	ck_assert(rc == -EIO || (rc == 0 && memcmp(got, "bytes", 5) == 0));
	ck_assert(pt_time_boot_ns() - began < 14000000000);
	MUST(system("ip link set " CABLE " up") == 0);
	for (int i = 0; i < 100 && (rc = blob_get(&data, &ref, got, 5, 0)) < 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	ck_assert_int_eq(rc, 0);
	ck_assert_mem_eq(got, "bytes", 5);
	stop();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("rdma");

	tcase_add_loop_test(tcase, bytes_come_by_rdma_and_are_right, 0, 2);
	tcase_add_test(tcase, random_ranges_of_several_objects_are_right_registered_or_not);
	tcase_add_test(tcase, the_daemon_spends_no_time_on_reads);
	tcase_add_test(tcase, a_token_that_nobody_was_given_opens_nothing);
	tcase_add_test(tcase, reads_beyond_the_span_fail_and_the_connection_with_them);
	tcase_add_test(tcase, a_client_that_left_can_read_nothing_any_more);
	tcase_add_test(tcase, a_full_arena_makes_room_or_leaves_the_read_to_tcp);
	tcase_add_test(tcase, reads_go_on_after_the_daemon_was_killed_and_is_back);
	tcase_add_test(tcase, a_link_that_is_down_is_an_error_in_time_and_no_harm_when_it_is_up);
	return run_suite("vm: rdma", &tcase, 1);
}

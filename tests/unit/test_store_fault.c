/* tests/unit/test_store_fault.c - the fault layer does what its rules say, and no more. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "store/fault.h"
#include "unit/store_support.h"

static struct pt_meta meta;
static struct pt_data data;

static void open_with(const char *spec)
{
	MUST_WORK(pt_meta_sqlite_open(NULL, &meta));
	MUST_WORK(pt_data_memory_open(1 << 20, 0, &data));
	MUST_WORK(pt_fault_meta_stack(&meta, spec));
	MUST_WORK(pt_fault_data_stack(&data, spec));
}

static void close_both(void)
{
	pt_meta_close(&meta);
	pt_data_close(&data);
}

START_TEST(errors_come_after_n_calls_and_m_times)
{
	open_with("meta.commit:error=ENOSPC:after=2:times=3");
	for (int i = 0; i < 8; i++) {
		if (i >= 2 && i < 5)
			MUST_FAIL(ENOSPC, meta_put(&meta, "k", "v", 1, NULL));
		else
			MUST_WORK(meta_put(&meta, "k", "v", 1, NULL));
	}
	ck_assert_uint_eq(meta_count(&meta), 1);
	close_both();
}
END_TEST

START_TEST(a_group_takes_all_its_operations_and_no_other)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_data_space space;

	open_with("data.*:error=EDQUOT,data.read:error=EIO");
	MUST_WORK(meta_put(&meta, "k", "v", 1, NULL));
	MUST_FAIL(EDQUOT, blob_put(&data, &ref, "x", 1));
	MUST_FAIL(EDQUOT, pt_data_space(&data, &space));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "on purpose"));
	close_both();
}
END_TEST

START_TEST(a_read_may_come_short_or_corrupt)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	char b[10];
	int bits = 0;

	open_with("data.read:short:times=1,data.read:corrupt:after=1:times=1");
	MUST_WORK(blob_put(&data, &ref, "0123456789", 10));
	MUST_FAIL(EIO, blob_get(&data, &ref, b, 10, 0));
	MUST_WORK(blob_get(&data, &ref, b, 10, 0));
	for (int i = 0; i < 10; i++)
		bits += __builtin_popcount((unsigned)(b[i] ^ "0123456789"[i]));
	ck_assert_int_eq(bits, 1);
	MUST_WORK(blob_get(&data, &ref, b, 10, 0));
	ck_assert_mem_eq(b, "0123456789", 10);
	close_both();
}
END_TEST

START_TEST(a_delay_delays)
{
	int64_t start = pt_time_boot_ns();

	open_with("meta.get:delay_ms=50:times=1");
	MUST_WORK(pt_meta_get(&meta, "k", 1, NULL, NULL));
	ck_assert_int_ge(pt_time_boot_ns() - start, 50000000);
	close_both();
}
END_TEST

START_TEST(a_seal_that_fails_consumes_its_blob)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_data_space space;

	open_with("data.seal:error=EIO:times=1");
	MUST_FAIL(EIO, blob_put(&data, &ref, "x", 1));
	MUST_WORK(pt_data_space(&data, &space));
	ck_assert_uint_eq(space.used_bytes, 0);
	MUST_WORK(blob_put(&data, &ref, "x", 1));
	close_both();
}
END_TEST

struct crash {
	const char *dir;
	const char *spec;
	struct pt_blob_ref ref;
};

static void crash_child(void *ctx, int fd)
{
	struct crash *c = ctx;
	char *path = path_in(c->dir, "index.db");
	struct pt_meta m;
	struct pt_data d;

	(void)fd;
	CHILD_MUST(pt_meta_sqlite_open(path, &m) == 0);
	CHILD_MUST(pt_data_file_open(c->dir, &d) == 0);
	CHILD_MUST(pt_fault_meta_stack(&m, c->spec) == 0 && pt_fault_data_stack(&d, c->spec) == 0);
	CHILD_MUST(blob_put(&d, &c->ref, "x", 1) == 0);
	CHILD_MUST(meta_put(&m, "k", "v", 1, NULL) == 0);
	CHILD_MUST(meta_put(&m, "k2", "v", 1, NULL) == 0);
}

/* Runs the child under a spec; blobs and records that it left. */
static void crash_with(const char *spec, int blobs, int records)
{
	struct crash c = { dir_make(), spec, blob_new(PT_BLOB_PLAIN) };
	char *path = path_in(c.dir, "index.db");
	pid_t pid = child_start(crash_child, &c, NULL);
	struct pt_meta m;
	struct pt_data d;
	uint64_t n;
	int status;

	MUST(waitpid(pid, &status, 0) == pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	MUST_WORK(pt_meta_sqlite_open(path, &m));
	MUST_WORK(pt_data_file_open(c.dir, &d));
	ck_assert_uint_eq(meta_count(&m), (uint64_t)records);
	ck_assert_int_eq(pt_data_stat(&d, &c.ref, &n), blobs ? 0 : -ENOENT);
	pt_meta_close(&m);
	pt_data_close(&d);
	free(path);
}

START_TEST(a_crash_comes_before_or_after_the_operation)
{
	crash_with("data.seal:crash", 0, 0);
	crash_with("data.seal:crash-after", 1, 0);
	crash_with("meta.commit:crash:after=1", 1, 1);
	crash_with("meta.commit:crash-after:after=1", 1, 2);
}
END_TEST

static _Atomic int failed_calls;

static void *call_often(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < 500; i++)
		if (pt_meta_sync(&meta) < 0)
			atomic_fetch_add(&failed_calls, 1);
	return NULL;
}

START_TEST(calls_are_counted_over_all_threads)
{
	pthread_t threads[4];

	open_with("meta.sync:error=EIO:after=100:times=777");
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, call_often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(failed_calls, 777);
	close_both();
}
END_TEST

START_TEST(malformed_rules_are_refused)
{
	static const char *const bad[] = {
		"x", "data.read", "data.read:", "data.read:nonsense", "data.fly:error=EIO", "read:error=EIO", "*:crash", "data.read:error=",
		"data.read:error=EWHATEVER", "data.read:error=5", "data.read:delay_ms=", "data.read:delay_ms=-1", "data.read:delay_ms=1x",
		"data.read:delay_ms=99999999999", "data.read:error=EIO:after=", "data.read:error=EIO:after=x", "data.read:error=EIO:times=1 ",
		"data.read:error=EIO:until=3", "data.write:short", "data.*:corrupt", "data.read:error=EIO,x",
		"data.read:error=EIO:after=99999999999999999999999",
	};

	open_with("");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		MUST_FAIL(EINVAL, pt_fault_meta_stack(&meta, bad[i]));
		MUST_FAIL(EINVAL, pt_fault_data_stack(&data, bad[i]));
	}
	MUST_WORK(meta_put(&meta, "k", "v", 1, NULL));
	close_both();
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_nothing_leaks)
{
	int rc = -ENOMEM;

	open_with("");
	for (int n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_fault_data_stack(&data, "data.read:error=EIO,data.write:delay_ms=3");
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	close_both();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("fault layer");

	tcase_add_test(tcase, errors_come_after_n_calls_and_m_times);
	tcase_add_test(tcase, a_group_takes_all_its_operations_and_no_other);
	tcase_add_test(tcase, a_read_may_come_short_or_corrupt);
	tcase_add_test(tcase, a_delay_delays);
	tcase_add_test(tcase, a_seal_that_fails_consumes_its_blob);
	tcase_add_test(tcase, a_crash_comes_before_or_after_the_operation);
	tcase_add_test(tcase, calls_are_counted_over_all_threads);
	tcase_add_test(tcase, malformed_rules_are_refused);
	tcase_add_test(tcase, each_failed_allocation_is_reported_and_nothing_leaks);
	return run_suite("store: faults", &tcase, 1);
}

/* tests/unit/test_looking.c - files that are looked through where they lie. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cache/cache_int.h"
#include "cache_source.h"

/* ---- looking through ---- */

struct looked {
	atomic_int pieces, finishes, releases;
	atomic_uint_fast64_t bytes;
	atomic_uint_fast64_t bad_off;   /* the piece that it is in is damaged; UINT64_MAX: none */
	atomic_bool held, finish_fails;
};

static struct pt_workers *workers, *idle;
static struct pt_vcache *cache;

static int look_check(void *ctx, uint64_t len, uint64_t off)
{
	struct looked *l = ctx;

	atomic_fetch_add(&l->pieces, 1);
	while (atomic_load(&l->held))
		usleep(100);
	if (atomic_load(&l->bad_off) - off < len)
		return pt_fail(EIO, "damaged");
	atomic_fetch_add(&l->bytes, len);
	return 0;
}

static int look_finish(void *ctx)
{
	struct looked *l = ctx;

	atomic_fetch_add(&l->finishes, 1);
	return atomic_load(&l->finish_fails) ? -EAGAIN : 0;
}

static void look_release(void *ctx)
{
	struct looked *l = ctx;

	atomic_fetch_add(&l->releases, 1);
}

static void begin(uint64_t limit)
{
	ck_assert_int_eq(pt_workers_create(2, &workers), 0);
	ck_assert_int_eq(pt_workers_create_idle(1, &idle), 0);
	ck_assert_int_eq(pt_vcache_create(limit, workers, &cache), 0);
	pt_vcache_idle(cache, idle);
}

static void end(void)
{
	pt_workers_stop(workers);
	pt_workers_stop(idle);
	pt_vcache_free(cache);
	pt_workers_free(workers);
	pt_workers_free(idle);
}

static int look(uint64_t id, uint64_t size, struct looked *l, struct pt_vcache_file **ret)
{
	struct pt_vcache_source source = { .check = look_check, .finish = look_finish, .release = look_release, .ctx = l };
	struct pt_vcache_key key = { { id } };

	return pt_vcache_fill(cache, &key, size, 0, PT_VCACHE_TRY, &source, ret);
}

static struct pt_vcache_stats stats(void)
{
	struct pt_vcache_stats s;

	pt_vcache_stats(cache, &s);
	return s;
}

static int wait_end(struct pt_vcache_file *f)
{
	int rc;

	while ((rc = pt_vcache_file_wait(cache, f, 1000000)) == 0)
		;
	return rc;
}

static void wait_released(struct looked *l)
{
	while (!atomic_load(&l->releases))
		usleep(200);
}

START_TEST(a_file_is_looked_through_once_and_takes_no_memory)
{
	struct looked l = { .bad_off = UINT64_MAX }, unused = { .bad_off = UINT64_MAX };
	struct pt_vcache_file *f, *again;
	const void *data;

	begin(_i ? 8 * MIB : 0);        /* also where there is no cache, and of any size */
	ck_assert_int_eq(look(1, 41 * MIB + 3, &l, &f), 0);
	ck_assert_int_eq(look(1, 41 * MIB + 3, &unused, &again), 1);
	ck_assert_ptr_eq(again, f);
	ck_assert_int_eq(wait_end(f), 1);
	ck_assert_uint_eq(atomic_load(&l.bytes), 41 * MIB + 3);
	ck_assert_int_eq(atomic_load(&l.finishes), 1);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, 10, &data), -EAGAIN);
	ck_assert_uint_eq(stats().checks, 1);
	ck_assert_uint_eq(stats().checked_bytes, 41 * MIB + 3);
	ck_assert_uint_eq(stats().used + stats().files + stats().filling + stats().filled_bytes + stats().fills, 0);
	pt_vcache_put(cache, again);
	wait_released(&l);
	pt_vcache_put(cache, f);
	/* Nothing of it is left: the marks remember. */
	ck_assert_int_eq(look(1, 41 * MIB + 3, &unused, &f), 0);
	ck_assert_int_eq(wait_end(f), 1);
	pt_vcache_put(cache, f);
	end();
	ck_assert_int_eq(atomic_load(&unused.releases), 1);
}
END_TEST

START_TEST(a_damaged_piece_ends_it)
{
	struct looked l = { .bad_off = 17 * MIB };
	struct pt_vcache_file *f;

	begin(8 * MIB);
	ck_assert_int_eq(look(1, 40 * MIB, &l, &f), 0);
	ck_assert_int_eq(wait_end(f), -EAGAIN);
	ck_assert(!pt_vcache_file_whole(f));
	wait_released(&l);
	ck_assert_int_eq(atomic_load(&l.finishes), 0);
	ck_assert_uint_eq(stats().checks, 0);
	ck_assert_uint_eq(stats().checks_failed, 1);
	ck_assert_uint_eq(stats().fills_failed, 0);
	pt_vcache_put(cache, f);
	end();
}
END_TEST

START_TEST(a_file_that_is_not_good_after_all_is_not_whole)
{
	struct looked l = { .bad_off = UINT64_MAX, .finish_fails = true };
	struct pt_vcache_file *f;

	begin(8 * MIB);
	ck_assert_int_eq(look(1, 12 * MIB, &l, &f), 0);
	ck_assert_int_eq(wait_end(f), -EAGAIN);
	ck_assert(!pt_vcache_file_whole(f));
	wait_released(&l);
	ck_assert_int_eq(atomic_load(&l.finishes), 1);
	ck_assert_uint_eq(stats().checks, 0);
	ck_assert_uint_eq(stats().checks_failed, 1);
	pt_vcache_put(cache, f);
	end();
}
END_TEST

START_TEST(what_nobody_holds_is_not_looked_through_further)
{
	struct looked l = { .bad_off = UINT64_MAX, .held = true };
	struct pt_vcache_file *f;

	begin(8 * MIB);
	ck_assert_int_eq(look(1, 400 * MIB, &l, &f), 0);
	while (atomic_load(&l.pieces) < 2)
		usleep(200);
	pt_vcache_put(cache, f);
	atomic_store(&l.held, false);
	wait_released(&l);
	ck_assert_uint_lt(atomic_load(&l.bytes), 40 * MIB);
	ck_assert_uint_eq(stats().checks + stats().checks_failed + stats().given_up + stats().filling, 0);
	end();
}
END_TEST

START_TEST(how_fast_files_are_looked_through_says_nothing_of_filling)
{
	begin(64 * MIB);
	pt_vcache_file_slow(cache, PT_VCACHE_CHECK, MIB, 1000000000);
	ck_assert(!pt_vcache_soon(cache, PT_VCACHE_CHECK, 100 * MIB, 1000000000));
	ck_assert(pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000000));
	end();
}
END_TEST

/* ---- copies that nobody waits for ---- */

static void source_release(void *ctx)
{
	struct source *s = ctx;

	atomic_fetch_add(&s->releases, 1);
}

static int copy(uint64_t id, enum pt_vcache_want want, uint64_t size, struct source *s, struct pt_vcache_file **ret)
{
	struct pt_vcache_source source = { .read = source_read, .release = source_release, .ctx = s };
	struct pt_vcache_key key = { { id } };

	return pt_vcache_fill(cache, &key, size, 0, want, &source, ret);
}

START_TEST(an_idle_filling_goes_on_when_nobody_holds_it_and_drives_nothing_out)
{
	struct source used = { .seed = 1 }, s = { .seed = 2 }, large = { .seed = 3 };
	struct pt_vcache_key key = { { 2 } };
	struct pt_vcache_file *f, *g;
	const void *data;

	begin(32 * MIB);
	ck_assert_int_eq(copy(1, PT_VCACHE_KEEP, 12 * MIB, &used, &f), 0);
	ck_assert_int_eq(wait_end(f), 1);
	pt_vcache_put(cache, f);
	ck_assert_int_eq(copy(3, PT_VCACHE_IDLE, 24 * MIB, &large, &f), -ENOSPC);
	ck_assert_int_eq(copy(2, PT_VCACHE_IDLE, 20 * MIB, &s, &f), 0);
	pt_vcache_put(cache, f);
	while (!(g = pt_vcache_find(cache, &key, false)))
		usleep(200);
	ck_assert_int_eq(pt_vcache_file_get(cache, g, 0, 20 * MIB, &data), 0);
	check_bytes(data, 2, 0, 20 * MIB);
	pt_vcache_put(cache, g);
	ck_assert_uint_eq(stats().evictions, 0);
	ck_assert_uint_eq(stats().fills, 2);
	end();
}
END_TEST

START_TEST(who_waits_for_an_idle_filling_has_it_done_by_all_threads)
{
	struct source s = { .seed = 2, .held = true }, unused = { .seed = 2 };
	struct pt_vcache_file *f, *g;

	begin(64 * MIB);
	ck_assert_int_eq(copy(1, PT_VCACHE_IDLE, 40 * MIB, &s, &f), 0);
	while (atomic_load(&s.reads) < 1)
		usleep(200);
	usleep(2000);
	ck_assert_int_eq(atomic_load(&s.reads), 1);             /* one thread */
	ck_assert_int_eq(copy(1, PT_VCACHE_KEEP, 40 * MIB, &unused, &g), 1);
	while (atomic_load(&s.reads) < 2)
		usleep(200);
	atomic_store(&s.held, false);
	ck_assert_int_eq(wait_end(g), 1);
	pt_vcache_put(cache, f);
	pt_vcache_put(cache, g);
	end();
}
END_TEST

/* Soon, and not when the hour below is over. */
static void must_release(struct source *s)
{
	for (int i = 0; i < 10000 && !atomic_load(&s->releases); i++)
		usleep(1000);
	ck_assert_int_eq(atomic_load(&s->releases), 1);
}

static void hush_for_an_hour(void)
{
	cache->rest_ns = INT64_C(2) * 3600 * 1000000000;
	pt_vcache_hush(cache, INT64_C(3600) * 1000000000);
}

START_TEST(an_idle_filling_rests_while_somebody_loads_but_not_when_somebody_waits_for_it)
{
	struct source s = { .seed = 2 }, unused = { .seed = 2 };
	struct pt_vcache_file *f, *g;

	begin(64 * MIB);
	hush_for_an_hour();
	ck_assert_int_eq(copy(1, PT_VCACHE_IDLE, 40 * MIB, &s, &f), 0);
	while (stats().rests < 1)
		usleep(200);
	usleep(2000);
	ck_assert_int_eq(atomic_load(&s.reads), 0);
	ck_assert_int_eq(copy(1, PT_VCACHE_KEEP, 40 * MIB, &unused, &g), 1);
	ck_assert_int_eq(wait_end(g), 1);
	must_release(&s);       /* nothing of it rests on */
	pt_vcache_put(cache, f);
	pt_vcache_put(cache, g);
	end();
}
END_TEST

START_TEST(an_idle_filling_rests_only_so_long_and_ends_with_the_threads)
{
	struct source s = { .seed = 2 }, other = { .seed = 3 };
	struct pt_vcache_file *f, *g;

	begin(128 * MIB);
	hush_for_an_hour();
	cache->rest_ns = 5000000;
	ck_assert_int_eq(copy(1, PT_VCACHE_IDLE, 40 * MIB, &s, &f), 0);
	ck_assert_int_eq(wait_end(f), 1);
	pt_vcache_put(cache, f);
	hush_for_an_hour();
	ck_assert_int_eq(copy(2, PT_VCACHE_IDLE, 40 * MIB, &other, &g), 0);
	pt_vcache_put(cache, g);
	end();
	ck_assert_int_eq(atomic_load(&other.reads), 0);
}
END_TEST

/* It holds its source, and what that has pinned: 0: a later file of its subject is begun; 1: others have filled it; 2: it has failed. */
START_TEST(an_idle_filling_with_nothing_left_to_do_does_not_rest)
{
	struct source s = { .seed = 2, .fails = _i == 2 }, later = { .seed = 3 };
	struct pt_vcache_source source = { .read = source_read, .release = source_release, .ctx = &s, .subject = 7 };
	struct pt_vcache_file *f, *g = NULL;

	begin(128 * MIB);
	hush_for_an_hour();
	ck_assert_int_eq(pt_vcache_fill(cache, &(struct pt_vcache_key){ { 1 } }, 40 * MIB, 0, PT_VCACHE_IDLE, &source, &f), 0);
	while (stats().rests < 1)
		usleep(200);
	if (_i == 0) {
		pt_vcache_put(cache, f);
		source.ctx = &later;
		ck_assert_int_eq(pt_vcache_fill(cache, &(struct pt_vcache_key){ { 2 } }, 40 * MIB, 0, PT_VCACHE_IDLE, &source, &g), 0);
		f = NULL;
	} else {
		ck_assert_int_eq(pt_vcache_fill_range(cache, f, 0, 40 * MIB), _i == 1 ? 0 : -EAGAIN);
	}
	must_release(&s);
	pt_vcache_put(cache, f);
	pt_vcache_put(cache, g);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("looking");
	TCase *tc = tcase_create("looking");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_file_is_looked_through_once_and_takes_no_memory, 0, 2);
	tcase_add_test(tc, a_damaged_piece_ends_it);
	tcase_add_test(tc, a_file_that_is_not_good_after_all_is_not_whole);
	tcase_add_test(tc, what_nobody_holds_is_not_looked_through_further);
	tcase_add_test(tc, how_fast_files_are_looked_through_says_nothing_of_filling);
	tcase_add_test(tc, an_idle_filling_goes_on_when_nobody_holds_it_and_drives_nothing_out);
	tcase_add_test(tc, who_waits_for_an_idle_filling_has_it_done_by_all_threads);
	tcase_add_test(tc, an_idle_filling_rests_while_somebody_loads_but_not_when_somebody_waits_for_it);
	tcase_add_test(tc, an_idle_filling_rests_only_so_long_and_ends_with_the_threads);
	tcase_add_loop_test(tc, an_idle_filling_with_nothing_left_to_do_does_not_rest, 0, 3);
	suite_add_tcase(suite, tc);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

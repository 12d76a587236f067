/* tests/unit/test_store_arena.c - the arena's allocator against its own invariants, and against fragmentation. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "store/arena.h"
#include "unit/rng.h"
#include "unit/store_support.h"

#define A PT_ARENA_ALIGN

START_TEST(pieces_do_not_overlap_and_come_back_as_one)
{
	struct pt_arena_piece *p[3], *all;
	struct pt_arena *a;

	MUST_WORK(pt_arena_create(10 * A + 5, &a));
	for (int i = 0; i < 3; i++)
		MUST_WORK(pt_arena_alloc(a, 2 * A + 1, &p[i]));
	ck_assert_uint_eq(pt_arena_len(p[0]), 3 * A);
	ck_assert_uint_eq(pt_arena_off(p[1]), 3 * A);
	ck_assert_uint_eq(pt_arena_bytes_free(a), A);
	MUST_FAIL(ENOSPC, pt_arena_alloc(a, 2 * A, &all));
	pt_arena_release(a, p[0]);
	pt_arena_release(a, p[2]);
	pt_arena_check(a);
	ck_assert_uint_eq(pt_arena_bytes_largest(a), 4 * A);
	/* The smallest that fits. */
	MUST_WORK(pt_arena_alloc(a, 3 * A, &p[0]));
	ck_assert_uint_eq(pt_arena_off(p[0]), 0);
	pt_arena_release(a, p[1]);
	pt_arena_release(a, p[0]);
	pt_arena_check(a);
	MUST_WORK(pt_arena_alloc(a, 10 * A, &all));
	ck_assert_uint_eq(pt_arena_bytes_free(a), 0);
	pt_arena_release(a, all);
	pt_arena_free(a);
}
END_TEST

START_TEST(after_100000_operations_at_80_percent_half_of_the_free_space_is_one_piece)
{
	const uint64_t pages = 1 << 16, limit = pages * 8 / 10;
	struct pt_arena_piece **live = calloc(pages, sizeof(*live));
	struct rng r = { rng_seed(80) };
	struct pt_arena *a;
	uint64_t used = 0, count = 0;

	MUST_WORK(pt_arena_create(pages * A, &a));
	for (int n = 0; n < 100000; n++) {
		uint64_t want = rng_between(&r, 1, 64);

		/* Full: something goes. Else mostly something comes. */
		if (used + want > limit || (count && rng_below(&r, 8) == 0)) {
			size_t i = rng_below(&r, count);

			used -= pt_arena_len(live[i]) / A;
			pt_arena_release(a, live[i]);
			live[i] = live[--count];
		} else {
			MUST_WORK(pt_arena_alloc(a, want * A - rng_below(&r, A), &live[count]));
			used += want;
			count++;
		}
		if (n % 5000 == 0)
			pt_arena_check(a);
	}
	pt_arena_check(a);
	ck_assert_uint_ge(used, limit - 2 * 64 * 8);
	ck_assert_uint_ge(pt_arena_bytes_largest(a) * 2, pt_arena_bytes_free(a));
	while (count)
		pt_arena_release(a, live[--count]);
	ck_assert_uint_eq(pt_arena_bytes_largest(a), pages * A);
	pt_arena_free(a);
	free(live);
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_changes_nothing)
{
	struct pt_arena_piece *p = NULL;
	struct pt_arena *a = NULL;
	int n, rc = -ENOMEM;

	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_arena_create(10 * A, &a);
		pt_alloc_fail_after(-1);
	}
	ck_assert_int_eq(n, 3);
	pt_alloc_fail_after(0);
	rc = pt_arena_alloc(a, A, &p);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	pt_arena_check(a);
	ck_assert_uint_eq(pt_arena_bytes_free(a), 10 * A);
	pt_arena_free(a);
	pt_arena_free(NULL);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("arena");

	tcase_add_test(tcase, pieces_do_not_overlap_and_come_back_as_one);
	tcase_add_test(tcase, after_100000_operations_at_80_percent_half_of_the_free_space_is_one_piece);
	tcase_add_test(tcase, each_failed_allocation_is_reported_and_changes_nothing);
	return run_suite("store: arena", &tcase, 1);
}

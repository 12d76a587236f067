/* tests/unit/test_store_reserve.c - memory that is there beforehand. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "store/reserve.h"
#include "unit/store_support.h"

#define UNIT PT_RESERVE_UNIT
#define BYTES (16 * UNIT)

static struct pt_reserve *reserve;
static uint64_t room;

static uint64_t tell_room(void *ctx)
{
	(void)ctx;
	return __atomic_load_n(&room, __ATOMIC_RELAXED);
}

static void setup(void)
{
	room = UINT64_MAX;
	MUST_WORK(pt_reserve_create(BYTES + 4096, tell_room, NULL, &reserve));
}

static void teardown(void)
{
	pt_reserve_free(reserve);
}

/* Until all that is held is ready, and that is so much. */
static void wait_held(uint64_t bytes)
{
	uint64_t held;

	while (pt_reserve_ready(reserve, &held) != bytes || held != bytes)
		sched_yield();
}

/* In memory, without being touched. */
static uint64_t resident(uint8_t *p, uint64_t len)
{
	size_t pages = len / 4096, n = 0;
	unsigned char *in = malloc(pages);

	MUST(mincore(p, len, in) == 0);
	for (size_t i = 0; i < pages; i++)
		n += in[i] & 1;
	free(in);
	return n * 4096;
}

static bool all_zero(const uint8_t *p, uint64_t len)
{
	return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

START_TEST(what_is_taken_is_resident_zero_and_the_takers)
{
	uint8_t *a, *b;

	wait_held(BYTES);
	a = pt_reserve_take(reserve, 3 * UNIT);
	b = pt_reserve_take(reserve, 2 * UNIT);
	MUST(a && b && (uintptr_t)a % UNIT == 0 && (uintptr_t)b % UNIT == 0);
	ck_assert_uint_eq(resident(a, 3 * UNIT), 3 * UNIT);
	ck_assert_uint_eq(resident(b, 2 * UNIT), 2 * UNIT);
	MUST(all_zero(a, 3 * UNIT) && all_zero(b, 2 * UNIT));
	memset(a, 1, 3 * UNIT);
	MUST(all_zero(b, 2 * UNIT));
	/* In parts, and after the reserve has gone. */
	MUST(munmap(a + UNIT, UNIT) == 0);
	pt_reserve_free(reserve);
	reserve = NULL;
	MUST(a[0] == 1 && a[3 * UNIT - 1] == 1);
	MUST(munmap(a, UNIT) == 0 && munmap(a + 2 * UNIT, UNIT) == 0);
	MUST(munmap(b, 2 * UNIT) == 0);
}
END_TEST

START_TEST(more_comes_when_half_is_used)
{
	uint8_t *taken[8];
	uint64_t held;

	wait_held(BYTES);
	for (int i = 0; i < 7; i++)
		MUST((taken[i] = pt_reserve_take(reserve, UNIT)));
	wait_held(BYTES - 7 * UNIT);
	MUST((taken[7] = pt_reserve_take(reserve, UNIT)));
	wait_held(BYTES);
	/* Not in one piece, though. */
	MUST(!pt_reserve_take(reserve, BYTES));
	ck_assert_uint_eq(pt_reserve_ready(reserve, &held), BYTES);
	for (int i = 0; i < 8; i++)
		MUST(munmap(taken[i], UNIT) == 0);
}
END_TEST

START_TEST(the_room_bounds_it)
{
	wait_held(BYTES);
	__atomic_store_n(&room, 5 * UNIT + 1, __ATOMIC_RELAXED);
	pt_reserve_look(reserve);
	wait_held(5 * UNIT);
	__atomic_store_n(&room, UNIT - 1, __ATOMIC_RELAXED);
	pt_reserve_look(reserve);
	wait_held(0);
	MUST(!pt_reserve_take(reserve, UNIT));
	__atomic_store_n(&room, UINT64_MAX, __ATOMIC_RELAXED);
	pt_reserve_look(reserve);
	wait_held(BYTES);
}
END_TEST

/* Odd sizes leave remnants, of which only so many are kept. */
START_TEST(remnants_do_not_pile_up)
{
	uint64_t held;
	void *p;

	for (int i = 0; i < 200; i++) {
		p = pt_reserve_take(reserve, (uint64_t)(i % 7 + 1) * UNIT);
		if (p)
			MUST(munmap(p, (uint64_t)(i % 7 + 1) * UNIT) == 0);
		else
			sched_yield();
		(void)pt_reserve_ready(reserve, &held);
		ck_assert_uint_le(held, BYTES);
	}
}
END_TEST

START_TEST(blobs_of_a_memory_store_come_out_of_it)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct pt_data data;
	const void *addr;
	void *blob, *map;

	/* Bytes that nobody has written are in memory: only the reserve had touched them. */
	MUST_WORK(pt_data_memory_open(64 * PT_MIB, 32 * PT_MIB, &data));
	for (uint64_t in = 0; in < 8 * PT_MIB;) {
		ref = blob_new(PT_BLOB_TENSOR);
		MUST_WORK(pt_data_create(&data, &ref, 8 * PT_MIB, &blob));
		MUST_WORK(pt_data_write(&data, blob, "last", 4, 8 * PT_MIB - 4));
		MUST_WORK(pt_data_seal(&data, blob, 8 * PT_MIB));
		MUST_WORK(pt_data_map(&data, &ref, 0, 8 * PT_MIB, &addr, &map));
		in = resident((uint8_t *)(uintptr_t)addr, 8 * PT_MIB);
		pt_data_unmap(&data, map);
		if (in < 8 * PT_MIB)            /* it was not ready yet */
			MUST_WORK(pt_data_remove(&data, &ref));
	}
	pt_data_close(&data);
}
END_TEST

/* The whole capacity can be written, and what the reserve has is not counted. */
START_TEST(a_memory_store_has_its_capacity_whatever_is_in_reserve)
{
	uint8_t *bytes = malloc(4 * PT_MIB), *got = malloc(4 * PT_MIB);
	struct pt_blob_ref refs[16], more = blob_new(PT_BLOB_TENSOR);
	struct pt_data_space space;
	struct pt_data data;

	MUST_WORK(pt_data_memory_open(64 * PT_MIB, UINT64_MAX, &data));
	for (uint64_t i = 0; i < 16; i++) {
		refs[i] = blob_new(PT_BLOB_TENSOR);
		pattern_fill(bytes, 4 * PT_MIB, i);
		MUST_WORK(blob_put(&data, &refs[i], bytes, 4 * PT_MIB));
	}
	MUST_WORK(pt_data_space(&data, &space));
	ck_assert_uint_eq(space.free_bytes, 0);
	MUST_FAIL(ENOSPC, blob_put(&data, &more, bytes, 1));
	for (uint64_t i = 0; i < 16; i++) {
		pattern_fill(bytes, 4 * PT_MIB, i);
		MUST_WORK(blob_get(&data, &refs[i], got, 4 * PT_MIB, 0));
		MUST(memcmp(bytes, got, 4 * PT_MIB) == 0);
	}
	pt_data_close(&data);
	free(bytes);
	free(got);
}
END_TEST

int main(void)
{
	TCase *own = tcase_create("reserve"), *store = tcase_create("memory engine");

	tcase_add_checked_fixture(own, setup, teardown);
	tcase_add_test(own, what_is_taken_is_resident_zero_and_the_takers);
	tcase_add_test(own, more_comes_when_half_is_used);
	tcase_add_test(own, the_room_bounds_it);
	tcase_add_test(own, remnants_do_not_pile_up);
	tcase_add_test(store, blobs_of_a_memory_store_come_out_of_it);
	tcase_add_test(store, a_memory_store_has_its_capacity_whatever_is_in_reserve);
	return run_suite("store: reserve", (TCase *[]){ own, store }, 2);
}

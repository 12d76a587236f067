/* tests/unit/test_store_reserve.c - memory that is there beforehand. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

/* Zeros. */
static uint8_t *take(uint64_t len)
{
	bool used = false;
	uint8_t *p = pt_reserve_take(reserve, len, &used);

	MUST(!used);
	return p;
}

static uint8_t *take_used(uint64_t len)
{
	bool used = false;
	uint8_t *p = pt_reserve_take(reserve, len, &used);

	MUST(p && used);
	return p;
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
	a = take(3 * UNIT);
	b = take(2 * UNIT);
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
		MUST((taken[i] = take(UNIT)));
	wait_held(BYTES - 7 * UNIT);
	MUST((taken[7] = take(UNIT)));
	wait_held(BYTES);
	/* Not in one piece, though. */
	MUST(!take(BYTES));
	ck_assert_uint_eq(pt_reserve_ready(reserve, &held), BYTES);
	for (int i = 0; i < 8; i++)
		MUST(munmap(taken[i], UNIT) == 0);
}
END_TEST

START_TEST(the_room_bounds_it)
{
	uint8_t *a, *b;

	wait_held(BYTES);
	a = take(UNIT);
	__atomic_store_n(&room, 5 * UNIT + 1, __ATOMIC_RELAXED);
	pt_reserve_look(reserve);
	wait_held(5 * UNIT);
	/* What is kept is what was there, not fetched anew. */
	b = take(UNIT);
	ck_assert_ptr_eq(b, a + UNIT);
	MUST(munmap(a, 2 * UNIT) == 0);
	__atomic_store_n(&room, UNIT - 1, __ATOMIC_RELAXED);
	pt_reserve_look(reserve);
	wait_held(0);
	MUST(!take(UNIT));
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
		p = take((uint64_t)(i % 7 + 1) * UNIT);
		if (p)
			MUST(munmap(p, (uint64_t)(i % 7 + 1) * UNIT) == 0);
		else
			sched_yield();
		(void)pt_reserve_ready(reserve, &held);
		ck_assert_uint_le(held, BYTES);
	}
}
END_TEST

START_TEST(what_is_given_is_taken_again_first_in_one_piece_and_as_it_is)
{
	uint8_t *a, *b, *c;
	uint64_t held;

	wait_held(BYTES);
	a = take(2 * UNIT);
	b = take(3 * UNIT);
	c = take(UNIT);
	MUST(b == a + 2 * UNIT && c == b + 3 * UNIT);
	memset(a, 1, 6 * UNIT);
	pt_reserve_give(reserve, a, 2 * UNIT);
	pt_reserve_give(reserve, c, UNIT);
	pt_reserve_give(reserve, b, 3 * UNIT);
	ck_assert_uint_eq(pt_reserve_ready(reserve, &held), BYTES);
	ck_assert_ptr_eq(take_used(6 * UNIT), a);
	MUST(a[0] == 1 && memcmp(a, a + 1, 6 * UNIT - 1) == 0);
	MUST(munmap(a, 6 * UNIT) == 0);
	a = take(UNIT);
	MUST(a && all_zero(a, UNIT) && munmap(a, UNIT) == 0);
}
END_TEST

/* All of it. */
static bool is_mapped(const uint8_t *p, uint64_t len)
{
	unsigned char *in = malloc(len / 4096);
	bool mapped = mincore((uint8_t *)(uintptr_t)p, len, in) == 0;

	free(in);
	return mapped;
}

START_TEST(what_is_given_is_unmapped_where_there_is_no_room)
{
	uint8_t *a, *own;

	wait_held(BYTES);
	own = mmap(NULL, 2 * UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(own != MAP_FAILED);
	pt_reserve_give(reserve, own, 2 * UNIT);
	MUST(!is_mapped(own, UNIT));
	a = take(UNIT);
	__atomic_store_n(&room, BYTES - UNIT, __ATOMIC_RELAXED);
	pt_reserve_give(reserve, a, UNIT);
	MUST(!is_mapped(a, UNIT));
	/* Nor where it does not lie as huge pages do. As much as fits is kept. */
	__atomic_store_n(&room, UINT64_MAX, __ATOMIC_RELAXED);
	own = mmap(NULL, 2 * UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(own != MAP_FAILED);
	a = own + ((uintptr_t)own % UNIT ? 0 : 4096);
	pt_reserve_give(reserve, a, UNIT);
	MUST(!is_mapped(a, UNIT));
	munmap(own, 2 * UNIT);
	wait_held(BYTES - UNIT);
	own = take(3 * UNIT);
	__atomic_store_n(&room, BYTES - 2 * UNIT, __ATOMIC_RELAXED);
	pt_reserve_give(reserve, own, 3 * UNIT);
	wait_held(BYTES - 2 * UNIT);
	MUST(is_mapped(own + UNIT, UNIT) && !is_mapped(own + 2 * UNIT, UNIT));
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

#define BLOB (8 * PT_MIB)

/* Of 0x55 throughout; where it is in memory. */
static const uint8_t *put_full(struct pt_data *data, const struct pt_blob_ref *ref, uint64_t len)
{
	uint8_t *bytes = malloc(len);
	const void *addr;
	void *map;

	memset(bytes, 0x55, len);
	MUST_WORK(blob_put(data, ref, bytes, len));
	free(bytes);
	MUST_WORK(pt_data_map(data, ref, 0, len, &addr, &map));
	pt_data_unmap(data, map);
	return addr;
}

START_TEST(memory_of_a_removed_blob_is_used_again_and_its_bytes_are_gone)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), next = blob_new(PT_BLOB_TENSOR);
	const uint8_t *before, *addr = NULL;
	struct pt_data data;
	void *blob, *map;

	MUST_WORK(pt_data_memory_open(64 * PT_MIB, 32 * PT_MIB, &data));
	do {                                    /* until what was given back is there to be taken */
		before = put_full(&data, &ref, BLOB);
		MUST_WORK(pt_data_remove(&data, &ref));
		addr = put_full(&data, &ref, BLOB);
		MUST_WORK(pt_data_remove(&data, &ref));
	} while (addr != before);
	/* Two bytes with holes before, between and behind. */
	MUST_WORK(pt_data_create(&data, &next, BLOB, &blob));
	MUST_WORK(pt_data_write(&data, blob, "b", 1, 5 * PT_MIB));
	MUST_WORK(pt_data_write(&data, blob, "a", 1, 2 * PT_MIB));
	MUST_WORK(pt_data_seal(&data, blob, BLOB));
	MUST_WORK(pt_data_map(&data, &next, 0, BLOB, (const void **)&addr, &map));
	ck_assert_ptr_eq(addr, before);
	MUST(addr[2 * PT_MIB] == 'a' && addr[5 * PT_MIB] == 'b');
	MUST(all_zero(addr, 2 * PT_MIB) && all_zero(addr + 2 * PT_MIB + 1, 3 * PT_MIB - 1) && all_zero(addr + 5 * PT_MIB + 1, 3 * PT_MIB - 1));
	pt_data_unmap(&data, map);
	pt_data_close(&data);
}
END_TEST

static bool several_maps;

/* In the place of the C library's: as the system answers where memory is more than one map to it. */
void *mremap(void *addr, size_t len, size_t new_len, int flags, ...)
{
	if (several_maps) {
		errno = EFAULT;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mremap, addr, len, new_len, flags);
}

START_TEST(a_blob_grows_whose_memory_is_several_maps)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	uint8_t *bytes = malloc(2 * BLOB), *got = malloc(2 * BLOB);
	struct pt_data data;
	void *blob;

	for (uint64_t i = 0; i < 2 * BLOB; i++)
		bytes[i] = (uint8_t)(i / 4096 + i);
	MUST_WORK(pt_data_memory_open(64 * PT_MIB, 32 * PT_MIB, &data));
	/* Memory that others leave full of their bytes. */
	for (int i = 0; i < 3; i++) {
		put_full(&data, &ref, 2 * BLOB);
		MUST_WORK(pt_data_remove(&data, &ref));
	}
	several_maps = true;
	MUST_WORK(pt_data_create(&data, &ref, BLOB, &blob));
	MUST_WORK(pt_data_write(&data, blob, bytes, BLOB - 9, 0));
	MUST_WORK(pt_data_write(&data, blob, bytes + BLOB, BLOB - 5, BLOB));
	MUST_WORK(pt_data_seal(&data, blob, 2 * BLOB));
	memset(bytes + BLOB - 9, 0, 9);
	memset(bytes + 2 * BLOB - 5, 0, 5);
	MUST_WORK(blob_get(&data, &ref, got, 2 * BLOB, 0));
	MUST(memcmp(got, bytes, 2 * BLOB) == 0);
	several_maps = false;
	pt_data_close(&data);
	free(bytes);
	free(got);
}
END_TEST

/* Blobs that fill their last huge page only in part: the memory that they leave fits into what they had left of the capacity, and stays. */
START_TEST(memory_of_a_full_store_goes_round)
{
	struct pt_blob_ref a = blob_new(PT_BLOB_TENSOR), b = blob_new(PT_BLOB_TENSOR);
	const uint8_t *at_a, *at_b;
	struct pt_data data;
	bool stays = false;

	MUST_WORK(pt_data_memory_open(22 * PT_MIB, 22 * PT_MIB, &data));
	for (int i = 0; i < 100 && !stays; i++) {       /* at first the reserve may have too little yet */
		at_a = put_full(&data, &a, BLOB + 4096);
		at_b = put_full(&data, &b, BLOB + 4096);
		usleep(10000);                          /* so that the reserve's thread looks while little is left */
		MUST_WORK(pt_data_remove(&data, &a));
		MUST_WORK(pt_data_remove(&data, &b));
		stays = is_mapped(at_a, BLOB + UNIT) && is_mapped(at_b, BLOB + UNIT);
	}
	MUST(stays);
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
	tcase_add_test(own, what_is_given_is_taken_again_first_in_one_piece_and_as_it_is);
	tcase_add_test(own, what_is_given_is_unmapped_where_there_is_no_room);
	tcase_add_test(store, blobs_of_a_memory_store_come_out_of_it);
	tcase_add_test(store, memory_of_a_removed_blob_is_used_again_and_its_bytes_are_gone);
	tcase_add_test(store, a_blob_grows_whose_memory_is_several_maps);
	tcase_add_test(store, memory_of_a_full_store_goes_round);
	tcase_add_test(store, a_memory_store_has_its_capacity_whatever_is_in_reserve);
	return run_suite("store: reserve", (TCase *[]){ own, store }, 2);
}

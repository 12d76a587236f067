/* tests/unit/test_store_way.c - when bytes go around the kernel's cache. */
#include "store/write_way.h"
#include "unit/store_support.h"

#define CHEAP ((uint64_t)200000)        /* ns for a MiB */
#define SLOW ((uint64_t)2400000)
#define DISK ((uint64_t)600000)

static struct pt_write_way way;

static void setup(void)
{
	pt_write_way_init(&way);
}

static void teardown(void)
{
	pt_write_way_done(&way);
}

START_TEST(bytes_go_through_the_cache_while_pages_are_cheap)
{
	for (int i = 0; i < 1000; i++) {
		ck_assert(!pt_write_way_around(&way, PT_MIB));
		pt_write_way_went_through(&way, PT_MIB, CHEAP + (uint64_t)(i % 7) * 30000);
	}
}
END_TEST

START_TEST(dear_pages_send_bytes_around_for_a_while)
{
	uint64_t around = 0;

	pt_write_way_went_through(&way, PT_MIB, SLOW);
	while (pt_write_way_around(&way, PT_MIB)) {
		pt_write_way_went_around(&way, PT_MIB, DISK);
		around += PT_MIB;
	}
	ck_assert_uint_eq(around, PT_WRITE_WAY_AROUND);
	/* then the cache is tried again */
	pt_write_way_went_through(&way, PT_MIB, CHEAP);
	ck_assert(!pt_write_way_around(&way, PT_MIB));
	pt_write_way_went_through(&way, PT_MIB, SLOW);
	ck_assert(pt_write_way_around(&way, PT_MIB));
}
END_TEST

START_TEST(short_writes_go_through_and_tell_nothing)
{
	pt_write_way_went_through(&way, PT_WRITE_WAY_MIN - 1, SLOW);
	ck_assert(!pt_write_way_around(&way, PT_MIB));
	pt_write_way_went_through(&way, PT_MIB, SLOW);
	ck_assert(!pt_write_way_around(&way, PT_WRITE_WAY_MIN - 1));
	ck_assert(pt_write_way_around(&way, PT_WRITE_WAY_MIN));
}
END_TEST

START_TEST(what_is_dear_is_so_beside_the_best)
{
	pt_write_way_went_through(&way, PT_MIB, CHEAP);
	pt_write_way_went_through(&way, PT_MIB, PT_WRITE_WAY_DEAR_MIN);
	ck_assert(!pt_write_way_around(&way, PT_MIB));
	pt_write_way_went_through(&way, PT_MIB, PT_WRITE_WAY_DEAR_MIN + 1);
	ck_assert(pt_write_way_around(&way, PT_MIB));
	/* A slower processor takes as long for pages at their best. */
	teardown();
	setup();
	pt_write_way_went_through(&way, PT_MIB, 400000);
	pt_write_way_went_through(&way, 2 * PT_MIB, 2 * 800000);
	ck_assert(!pt_write_way_around(&way, PT_MIB));
	pt_write_way_went_through(&way, 2 * PT_MIB, 2 * 800001);
	ck_assert(pt_write_way_around(&way, PT_MIB));
}
END_TEST

/* Sends bytes around until they are to go through: how many. */
static uint64_t go_around(uint64_t ns)
{
	uint64_t bytes = 0;

	for (; pt_write_way_around(&way, PT_MIB); bytes += PT_MIB)
		pt_write_way_went_around(&way, PT_MIB, ns);
	return bytes;
}

START_TEST(a_disk_slower_than_the_pages_is_left_alone)
{
	uint64_t through;

	pt_write_way_went_through(&way, PT_MIB, SLOW);
	ck_assert_uint_eq(go_around(2 * SLOW), PT_WRITE_WAY_JUDGED);
	for (through = 0; !pt_write_way_around(&way, PT_MIB); through += PT_MIB)
		pt_write_way_went_through(&way, PT_MIB, SLOW);
	ck_assert_uint_eq(through, PT_WRITE_WAY_THROUGH);
	/* Pages dearer than the disk was are reason enough before that. */
	ck_assert_uint_eq(go_around(2 * SLOW), PT_WRITE_WAY_JUDGED);
	pt_write_way_went_through(&way, PT_MIB, SLOW);
	ck_assert(!pt_write_way_around(&way, PT_MIB));
	pt_write_way_went_through(&way, PT_MIB, 2 * SLOW + 1);
	ck_assert(pt_write_way_around(&way, PT_MIB));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("write way");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, bytes_go_through_the_cache_while_pages_are_cheap);
	tcase_add_test(tcase, dear_pages_send_bytes_around_for_a_while);
	tcase_add_test(tcase, short_writes_go_through_and_tell_nothing);
	tcase_add_test(tcase, what_is_dear_is_so_beside_the_best);
	tcase_add_test(tcase, a_disk_slower_than_the_pages_is_left_alone);
	return run_suite("store: write way", &tcase, 1);
}

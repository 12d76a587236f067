/* tests/unit/test_cache.c - files in memory hold their source's bytes, stay within the limit, and outlive nobody's map. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cache_fixture.h"
#include "lib/suite.h"

START_TEST(a_file_holds_the_bytes_of_its_source_and_has_exactly_its_size)
{
	static const uint64_t sizes[] = { 4 * MIB, 9 * MIB + 17, 16 * MIB, 5 };
	struct source s = { .seed = (uint64_t)_i };
	uint64_t size = sizes[_i];
	struct pt_vcache_key key = { { 1 } };
	struct pt_vcache_file *f, *again;
	const void *data;
	struct stat st;
	void *map;

	begin(32 * MIB);
	ck_assert_int_eq(fill(1, size, size > 100 ? 100 : 0, &s, &f), 0);
	wait_whole(f);
	wait_released(&s);
	ck_assert_int_eq(fstat(pt_vcache_file_fd(f), &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, size);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, size, &data), 0);
	check_bytes(data, s.seed, 0, size);
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, pt_vcache_file_fd(f), 0);
	ck_assert(map != MAP_FAILED);
	check_bytes(map, s.seed, 0, size);
	munmap(map, size);
	ck_assert_int_lt(pt_vcache_file_get(cache, f, size, 1, &data), 0);
	again = pt_vcache_find(cache, &key, true);
	ck_assert_ptr_eq(again, f);
	ck_assert_uint_eq(stats().hits, 1);
	ck_assert_uint_eq(stats().fills, 1);
	ck_assert_uint_eq(stats().filled_bytes, size);
	pt_vcache_put(cache, again);
	pt_vcache_put(cache, f);
	end();
	ck_assert_int_eq(atomic_load(&s.releases), 1);
}
END_TEST

START_TEST(a_part_that_is_there_is_served_while_the_rest_is_filled)
{
	struct source s = { .seed = 3 };
	struct pt_vcache_file *f;
	const void *data;

	begin(256 * MIB);
	ck_assert_int_eq(fill(1, 200 * MIB, 0, &s, &f), 0);
	/* the end first: the reader fills it and does not wait for the rest */
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 199 * MIB, MIB, &data), 0);
	check_bytes(data, 3, 199 * MIB, MIB);
	atomic_store(&s.held, true);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 198 * MIB, 2 * MIB, &data), 0);
	check_bytes(data, 3, 198 * MIB, MIB);
	atomic_store(&s.held, false);
	ck_assert_uint_ge(pt_vcache_file_filled(cache, f), 4 * MIB);
	pt_vcache_put(cache, f);
	end();
	ck_assert_int_eq(atomic_load(&s.releases), 1);
}
END_TEST

START_TEST(the_least_recently_used_file_that_nobody_holds_makes_room)
{
	struct source s[5] = { { 0 } };
	struct pt_vcache_key key[5] = { { { 0 } }, { { 1 } }, { { 2 } }, { { 3 } }, { { 4 } } };
	struct pt_vcache_file *f[5];
	int i;

	begin(24 * MIB);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(fill((uint64_t)i, 8 * MIB, 0, &s[i], &f[i]), 0);
		wait_whole(f[i]);
		wait_released(&s[i]);
	}
	ck_assert_int_eq(fill(3, 8 * MIB, 0, &s[3], &f[3]), -ENOSPC);        /* all are held */
	ck_assert_uint_eq(stats().refused, 1);
	ck_assert_int_eq(atomic_load(&s[3].releases), 0);
	pt_vcache_put(cache, f[0]);
	pt_vcache_put(cache, f[1]);
	pt_vcache_put(cache, pt_vcache_find(cache, &key[0], false));      /* used later than 1 */
	ck_assert_int_eq(fill(3, 8 * MIB, 0, &s[3], &f[3]), 0);
	wait_whole(f[3]);
	ck_assert_ptr_null(pt_vcache_find(cache, &key[1], false));
	f[0] = pt_vcache_find(cache, &key[0], false);
	ck_assert_ptr_nonnull(f[0]);
	ck_assert_uint_eq(stats().evictions, 1);
	ck_assert_uint_le(stats().used, 24 * MIB);
	ck_assert_int_eq(fill(4, 25 * MIB, 0, &s[4], &f[4]), -ENOSPC);
	for (i = 0; i < 4; i++)
		if (i != 1)
			pt_vcache_put(cache, f[i]);
	end();
}
END_TEST

START_TEST(a_map_outlives_the_eviction_of_its_file)
{
	struct source a = { .seed = 1 }, b = { .seed = 2 };
	struct pt_vcache_file *f;
	uint8_t *map;

	begin(8 * MIB);
	ck_assert_int_eq(fill(1, 6 * MIB, 0, &a, &f), 0);
	wait_whole(f);
	wait_released(&a);
	map = mmap(NULL, 6 * MIB, PROT_READ, MAP_SHARED, pt_vcache_file_fd(f), 0);
	ck_assert(map != MAP_FAILED);
	pt_vcache_put(cache, f);
	/* Where the memory tells how full it is, the map still counts: there is no room; else there is. Never are its bytes touched. */
	if (fill(2, 6 * MIB, 0, &b, &f) == 0) {
		while (!pt_vcache_file_whole(f) && !stats().fills_failed)
			usleep(200);
		pt_vcache_put(cache, f);
	}
	check_bytes(map, 1, 0, 6 * MIB);
	munmap(map, 6 * MIB);
	end();
}
END_TEST

START_TEST(a_failed_filling_sends_readers_to_the_source)
{
	struct source s = { .fails = true };
	struct pt_vcache_key key = { { 1 } };
	struct pt_vcache_file *f;
	const void *data;

	begin(32 * MIB);
	ck_assert_int_eq(fill(1, 16 * MIB, 0, &s, &f), 0);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, 4096, &data), -EAGAIN);
	wait_released(&s);
	ck_assert_ptr_null(pt_vcache_find(cache, &key, false));
	ck_assert_uint_eq(stats().fills_failed, 1);
	pt_vcache_put(cache, f);
	ck_assert_uint_eq(stats().used, 0);
	ck_assert_uint_eq(stats().filling, 0);
	end();
}
END_TEST

struct reader {
	pthread_t thread;
	struct pt_vcache_file *f;
	unsigned seed;
};

static void *read_at_random(void *arg)
{
	struct reader *r = arg;
	const void *data;
	uint64_t off;
	int i;

	for (i = 0; i < 200; i++) {
		off = (uint64_t)rand_r(&r->seed) % (40 * MIB - 5000);
		ck_assert_int_eq(pt_vcache_file_get(cache, r->f, off, 5000, &data), 0);
		check_bytes(data, 9, off, 5000);
	}
	return NULL;
}

START_TEST(many_readers_of_a_file_being_filled_see_its_bytes)
{
	struct source s = { .seed = 9 };
	struct reader r[4];
	int i;

	cuts = _i;              /* pieces begin where the source wants, or not */
	begin(64 * MIB);
	ck_assert_int_eq(fill(1, 40 * MIB, 333, &s, &r[0].f), 0);
	for (i = 0; i < 4; i++) {
		r[i].f = r[0].f;
		r[i].seed = (unsigned)i + 1;
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, read_at_random, &r[i]), 0);
	}
	for (i = 0; i < 4; i++)
		pthread_join(r[i].thread, NULL);
	ck_assert_int_le(atomic_load(&s.reads), 10);       /* each piece once */
	ck_assert_uint_eq(cut_read_bad, 0);
	cuts = false;
	pt_vcache_put(cache, r[0].f);
	end();
}
END_TEST

START_TEST(a_cache_of_no_size_is_none)
{
	struct pt_vcache_key key = { { 1 } };
	struct source s = { 0 };
	struct pt_vcache_file *f;

	begin(0);
	ck_assert_int_eq(fill(1, 8 * MIB, 0, &s, &f), -EOPNOTSUPP);
	ck_assert_ptr_null(pt_vcache_find(cache, &key, true));
	end();
}
END_TEST

/* ---- first opens ---- */

START_TEST(a_filling_that_nobody_holds_is_given_up_unless_it_is_to_be_kept)
{
	struct source s = { .seed = 4 };
	struct pt_vcache_file *f;

	begin(64 * MIB);
	want = _i ? PT_VCACHE_KEEP : PT_VCACHE_TRY;
	atomic_store(&s.held, true);
	ck_assert_int_eq(fill(1, 40 * MIB, 0, &s, &f), 0);
	while (atomic_load(&s.reads) < 2)
		usleep(200);
	pt_vcache_put(cache, f);
	atomic_store(&s.held, false);
	wait_released(&s);
	ck_assert_uint_eq(stats().given_up, _i ? 0 : 1);
	ck_assert_uint_eq(stats().fills, _i ? 1 : 0);
	ck_assert_uint_eq(stats().used, _i ? 40 * MIB : 0);
	ck_assert_uint_eq(stats().fills_failed, 0);
	ck_assert_uint_eq(stats().filling, 0);
	ck_assert_uint_eq(cache->unfilled, 0);
	want = PT_VCACHE_KEEP;
	end();
	ck_assert_int_eq(atomic_load(&s.releases), 1);
}
END_TEST

START_TEST(a_filling_given_up_goes_on_for_who_comes_before_it_has_ended)
{
	struct source s = { .seed = 4 }, unused = { .seed = 5 };
	struct pt_vcache_file *f, *again;
	const void *data;

	begin(64 * MIB);
	want = PT_VCACHE_TRY;
	atomic_store(&s.held, true);
	ck_assert_int_eq(fill(1, 40 * MIB, 0, &s, &f), 0);
	while (atomic_load(&s.reads) < 2)
		usleep(200);
	pt_vcache_put(cache, f);
	ck_assert_int_eq(fill(1, 40 * MIB, 0, &unused, &again), 1);
	ck_assert_ptr_eq(again, f);
	atomic_store(&s.held, false);
	while (pt_vcache_file_wait(cache, again, 1000000) == 0)
		;
	ck_assert(pt_vcache_file_whole(again));
	ck_assert_int_eq(pt_vcache_file_get(cache, again, 0, 40 * MIB, &data), 0);
	check_bytes(data, 4, 0, 40 * MIB);
	wait_released(&s);
	ck_assert_uint_eq(stats().given_up, 0);
	ck_assert_uint_eq(stats().filled_bytes, 40 * MIB);
	ck_assert_int_eq(atomic_load(&unused.releases), 0);
	pt_vcache_put(cache, again);
	want = PT_VCACHE_KEEP;
	end();
}
END_TEST

/* Opens by their whole node that come and go. */
static bool use(uint64_t id, int times)
{
	struct pt_vcache_key key = { { id } };
	struct pt_vcache_file *f = NULL;

	for (int i = 0; i < times; i++) {
		f = pt_vcache_find(cache, &key, true);
		pt_vcache_put(cache, f);
	}
	return f != NULL;
}

static int fill_whole(uint64_t id, struct source *s)
{
	struct pt_vcache_file *f;
	int rc = fill(id, 8 * MIB, 0, s, &f);

	if (rc == 0) {
		wait_whole(f);
		wait_released(s);
		pt_vcache_put(cache, f);
	}
	return rc;
}

START_TEST(a_first_open_makes_room_only_of_what_was_read_once_or_long_ago)
{
	struct source s[6] = { { 0 } };

	begin(24 * MIB);
	want = PT_VCACHE_TRY;
	ck_assert_int_eq(fill_whole(0, &s[0]), 0);
	ck_assert(use(0, 2));           /* read again */
	ck_assert_int_eq(fill_whole(1, &s[1]), 0);
	ck_assert(use(1, 1));
	want = PT_VCACHE_KEEP;
	ck_assert_int_eq(fill_whole(2, &s[2]), 0);
	want = PT_VCACHE_TRY;
	ck_assert_int_eq(fill_whole(3, &s[3]), 0);              /* in the place of 1 */
	ck_assert(use(0, 1) && !use(1, 1) && use(2, 1) && use(3, 2));
	ck_assert_int_eq(fill_whole(4, &s[4]), -ENOSPC);
	ck_assert_uint_eq(stats().evictions, 1);                /* nothing went for nothing */
	cache->idle_ns = 0;
	ck_assert_int_eq(fill_whole(4, &s[4]), 0);              /* 0 was used longest ago */
	ck_assert(!use(0, 1) && use(2, 1) && use(3, 1) && use(4, 2));
	cache->idle_ns = INT64_C(3600) * 1000000000;
	ck_assert_int_eq(fill_whole(5, &s[5]), -ENOSPC);
	want = PT_VCACHE_KEEP;
	ck_assert_int_eq(fill_whole(5, &s[5]), 0);              /* opened again it may */
	end();
}
END_TEST

START_TEST(a_later_file_of_a_subject_takes_the_place_of_the_earlier_one)
{
	struct source s[4] = { { 0 }, { .seed = 1 }, { .seed = 2 }, { .seed = 3 } };
	struct pt_vcache_file *f, *held;
	const void *data;

	begin(16 * MIB);
	subject = 7;
	ck_assert_int_eq(fill_whole(0, &s[0]), 0);
	ck_assert(use(0, 3));
	want = PT_VCACHE_TRY;           /* which drives nothing out that is used */
	ck_assert_int_eq(fill_whole(1, &s[1]), 0);
	ck_assert(!use(0, 1) && use(1, 3));
	ck_assert_uint_eq(stats().superseded, 1);
	ck_assert_uint_eq(stats().used, 8 * MIB);
	held = pt_vcache_find(cache, &(struct pt_vcache_key){ { 1 } }, true);
	ck_assert_int_eq(fill(2, 8 * MIB, 0, &s[2], &f), 0);
	wait_whole(f);
	ck_assert_int_eq(pt_vcache_file_get(cache, held, 0, 8 * MIB, &data), 0);
	check_bytes(data, 1, 0, 8 * MIB);
	pt_vcache_put(cache, held);
	ck_assert(!use(1, 1) && use(2, 1));
	ck_assert_uint_eq(stats().superseded, 2);
	subject = 8;
	ck_assert_int_eq(fill_whole(3, &s[3]), 0);
	ck_assert(use(2, 1) && use(3, 1));
	ck_assert_uint_eq(stats().superseded, 2);
	ck_assert_uint_eq(stats().evictions, 0);
	pt_vcache_put(cache, f);
	subject = 0;
	want = PT_VCACHE_KEEP;
	end();
}
END_TEST

START_TEST(the_filling_of_an_earlier_file_of_a_subject_is_given_up)
{
	struct source s[2] = { { .held = true }, { 0 } };
	struct pt_vcache_file *f;

	begin(32 * MIB);
	subject = 7;
	ck_assert_int_eq(fill(0, 16 * MIB, 0, &s[0], &f), 0);
	pt_vcache_put(cache, f);        /* to the end, if nothing comes */
	ck_assert_int_eq(fill(1, 16 * MIB, 0, &s[1], &f), 0);
	atomic_store(&s[0].held, false);
	wait_released(&s[0]);
	wait_whole(f);
	pt_vcache_put(cache, f);
	ck_assert_uint_eq(stats().given_up, 1);
	ck_assert_uint_eq(stats().fills, 1);
	ck_assert_int_lt(atomic_load(&s[0].reads), 4);
	subject = 0;
	end();
}
END_TEST

START_TEST(what_takes_too_long_by_the_rate_seen_is_not_waited_for)
{
	struct source s = { .seed = 4, .held = true };
	struct pt_vcache_file *f;
	int tries;

	begin(64 * MIB);
	ck_assert(pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000000));
	ck_assert(!pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000));          /* no machine can */
	ck_assert_int_eq(fill(1, 40 * MIB, 0, &s, &f), 0);
	ck_assert_int_eq(pt_vcache_file_wait(cache, f, 1000000), 0);
	pt_vcache_file_slow(cache, PT_VCACHE_FILL, 4 * MIB, 1000000000);
	ck_assert(!pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000000));
	ck_assert(pt_vcache_soon(cache, PT_VCACHE_FILL, MIB, 1000000000));
	for (tries = 0; !pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000000); tries++)
		ck_assert_int_lt(tries, 1000);                          /* once more in the end */
	ck_assert_int_gt(tries, 10);
	atomic_store(&s.fails, true);
	atomic_store(&s.held, false);
	while (pt_vcache_file_wait(cache, f, 1000000) == 0)
		;
	ck_assert_int_eq(pt_vcache_file_wait(cache, f, 1000000), -EAGAIN);
	pt_vcache_put(cache, f);
	end();
}
END_TEST

START_TEST(no_rate_at_all_is_tried_again_in_the_end)
{
	int tries;

	begin(64 * MIB);
	pt_vcache_file_slow(cache, PT_VCACHE_FILL, 0, 1000000000);
	for (tries = 0; !pt_vcache_soon(cache, PT_VCACHE_FILL, 100 * MIB, 1000000000); tries++)
		ck_assert_int_lt(tries, 1000);
	ck_assert_int_gt(tries, 10);
	end();
}
END_TEST

static int64_t source_at_once(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	(void)buf, (void)off;
	/* All but the last piece, so that it does not become whole. */
	while (atomic_fetch_add(&((struct source *)ctx)->reads, 1) >= 3)
		usleep(200);
	return (int64_t)len;
}

static int64_t source_after_a_while(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	usleep(100000);
	return source_at_once(ctx, buf, len, off);
}

static int64_t source_but_the_end(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	(void)buf;
	while (off >= 12 * MIB && atomic_load(&((struct source *)ctx)->reads) >= 0)
		usleep(200);
	return (int64_t)len;
}

/* 0: the source takes no time, so memory takes longer; 1: it does; 2: somebody else holds the file, too; 3: it is to be kept; 4: a byte is all that there is to do. */
START_TEST(memory_that_comes_more_slowly_than_the_source_is_dear)
{
	struct pt_vcache_source source = { .read = _i == 1 ? source_after_a_while : _i == 4 ? source_but_the_end : source_at_once, .release = source_release };
	uint64_t size = _i == 4 ? 12 * MIB + 1 : 16 * MIB;
	struct pt_vcache_key key = { { 1 } };
	struct pt_vcache_file *f, *other = NULL;
	struct source s = { .seed = 4 };

	begin(64 * MIB);
	source.ctx = &s;
	ck_assert_int_eq(pt_vcache_fill(cache, &key, size, 0, _i == 3 ? PT_VCACHE_KEEP : PT_VCACHE_TRY, &source, &f), 0);
	if (_i == 2)
		ck_assert_int_eq(pt_vcache_fill(cache, &key, size, 0, PT_VCACHE_TRY, &source, &other), 1);
	while (pt_vcache_file_filled(cache, f) < 12 * MIB)
		usleep(200);
	/* It never becomes whole, so who waits for that waits until the time is over, unless memory is dear. */
	ck_assert_int_eq(pt_vcache_file_wait_cheap(cache, f, _i == 0 ? INT64_C(60000000000) : 1000000), _i == 0 ? -ENOBUFS : 0);
	ck_assert_int_eq(pt_vcache_file_wait(cache, f, 1000000), 0);
	ck_assert_int_eq(pt_vcache_file_dear(cache, f), _i == 0 || _i == 4);
	ck_assert_uint_eq(stats().dear, _i == 0 || _i == 4);
	atomic_store(&s.reads, -100);
	pt_vcache_put(cache, f);
	pt_vcache_put(cache, other);
	wait_released(&s);
	end();
}
END_TEST

/* The first piece is held up and good, all others fail at once. */
static int64_t first_only(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	return off ? pt_fail(EIO, "the source fails") : source_read(ctx, buf, len, off);
}

START_TEST(a_piece_that_comes_after_the_failure_takes_no_room_from_others)
{
	struct source held = { .seed = 6, .held = true }, other = { .seed = 7 };
	struct pt_vcache_source source = { .read = first_only, .release = source_release, .ctx = &held };
	struct pt_vcache_key key = { { 1 } };
	struct pt_vcache_file *f, *g;

	begin(24 * MIB);
	ck_assert_int_eq(pt_vcache_fill(cache, &key, 12 * MIB, 0, PT_VCACHE_KEEP, &source, &f), 0);
	while (pt_vcache_file_wait(cache, f, 1000000) == 0)
		;
	ck_assert_int_eq(pt_vcache_file_wait(cache, f, 1000000), -EAGAIN);
	atomic_store(&held.held, false);
	wait_released(&held);
	ck_assert_uint_eq(pt_vcache_file_filled(cache, f), 4 * MIB);
	pt_vcache_put(cache, f);
	want = PT_VCACHE_TRY;
	ck_assert_int_eq(fill(2, 2 * MIB, 0, &other, &g), 0);           /* less than the piece that came late */
	wait_whole(g);
	pt_vcache_put(cache, g);
	end();
}
END_TEST

static long faults(void)
{
	struct rusage usage;

	ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_minflt;
}

/* At a place and of a length that are no pages. */
START_TEST(memory_that_was_taken_is_written_without_page_faults)
{
	uint64_t size = 9 * MIB + 17, off = 4 * MIB + 100;
	struct pt_memory m;
	uint8_t *map;
	long before;
	int fd;

	pt_memory_open(&m, 32 * MIB);
	fd = pt_memory_file(&m, size);
	ck_assert_int_ge(fd, 0);
	/* Written before at this place: what a sanitizer notes of it takes pages, too. */
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(map != MAP_FAILED);
	memset(map, 1, size);
	ck_assert_ptr_eq(mmap(map, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), map);
	ck_assert_int_eq(pt_memory_take(&m, fd, map, off, size - off, size - off), 0);
	ck_assert_int_eq(pt_memory_take(&m, fd, map, off, size - off, size - off), 0);
	before = faults();
	memset(map + off, 1, size - off);
	ck_assert_int_le(faults() - before, 2);         /* not one for each page, of 4 KiB or 2 MiB */
	munmap(map, size);
	close(fd);
	pt_memory_close(&m);
}
END_TEST

START_TEST(memory_that_there_is_not_is_an_error_and_no_signal)
{
	struct pt_memory m;
	uint8_t *map;
	int fd;

	pt_memory_open(&m, 4 * MIB);
	fd = pt_memory_file(&m, 16 * MIB);
	ck_assert_int_ge(fd, 0);
	map = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(map != MAP_FAILED);
	ck_assert_int_eq(pt_memory_take(&m, fd, map, 0, 2 * MIB, 2 * MIB), 0);
	if (m.kind == PT_MEMORY_TMPFS)          /* else there is no limit */
		ck_assert_int_eq(pt_memory_take(&m, fd, map, 0, 16 * MIB, 16 * MIB), -ENOSPC);
	munmap(map, 16 * MIB);
	close(fd);
	pt_memory_close(&m);
}
END_TEST

START_TEST(views_take_no_more_than_the_control_group_has_left)
{
	char root[] = "/tmp/ptio-cache-XXXXXX", command[64];
	struct source s = { 0 };
	struct pt_vcache_file *f, *g;
	const void *data;

	ck_assert_ptr_nonnull(mkdtemp(root));
	group_write(root, "memory.max", 300 * MIB);
	group_write(root, "memory.current", 200 * MIB);
	begin(256 * MIB);
	if (cache->memory.kind != PT_MEMORY_TMPFS)
		goto out;
	cache->memory.budget = (struct pt_budget){ .root = "", .bounded = true, .top = strlen(root) };
	strcpy(cache->memory.budget.dir, root);
	ck_assert_int_eq(fill(1, 128 * MIB, 0, &s, &f), -ENOSPC);
	ck_assert_int_eq(fill(2, 8 * MIB, 0, &s, &f), 0);
	wait_whole(f);
	/* Less than was free when it was begun: the filling ends, and nobody waits for it. */
	atomic_store(&s.held, true);
	ck_assert_int_eq(fill(3, 64 * MIB, 0, &s, &g), 0);
	group_write(root, "memory.current", 280 * MIB);
	atomic_store(&s.held, false);
	ck_assert_int_eq(pt_vcache_file_wait(cache, g, INT64_C(60) * 1000000000), -EAGAIN);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, 8 * MIB, &data), 0);
	pt_vcache_put(cache, f);
	pt_vcache_put(cache, g);
out:
	end();
	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(every_failing_allocation_is_told)
{
	struct source s = { 0 };
	struct pt_vcache_file *f;
	int rc;

	begin(32 * MIB);
	pt_alloc_fail_after(0);
	rc = fill(1, 8 * MIB, 0, &s, &f);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	ck_assert_int_eq(atomic_load(&s.releases), 0);
	end();
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("cache");

	tcase_add_loop_test(tc, a_file_holds_the_bytes_of_its_source_and_has_exactly_its_size, 0, 4);
	tcase_add_test(tc, a_part_that_is_there_is_served_while_the_rest_is_filled);
	tcase_add_test(tc, the_least_recently_used_file_that_nobody_holds_makes_room);
	tcase_add_test(tc, a_map_outlives_the_eviction_of_its_file);
	tcase_add_test(tc, a_failed_filling_sends_readers_to_the_source);
	tcase_add_loop_test(tc, many_readers_of_a_file_being_filled_see_its_bytes, 0, 2);
	tcase_add_test(tc, a_cache_of_no_size_is_none);
	tcase_add_loop_test(tc, a_filling_that_nobody_holds_is_given_up_unless_it_is_to_be_kept, 0, 2);
	tcase_add_test(tc, a_filling_given_up_goes_on_for_who_comes_before_it_has_ended);
	tcase_add_test(tc, a_first_open_makes_room_only_of_what_was_read_once_or_long_ago);
	tcase_add_test(tc, a_later_file_of_a_subject_takes_the_place_of_the_earlier_one);
	tcase_add_test(tc, the_filling_of_an_earlier_file_of_a_subject_is_given_up);
	tcase_add_test(tc, what_takes_too_long_by_the_rate_seen_is_not_waited_for);
	tcase_add_test(tc, no_rate_at_all_is_tried_again_in_the_end);
	tcase_add_loop_test(tc, memory_that_comes_more_slowly_than_the_source_is_dear, 0, 5);
	tcase_add_test(tc, a_piece_that_comes_after_the_failure_takes_no_room_from_others);
	tcase_add_test(tc, memory_that_was_taken_is_written_without_page_faults);
	tcase_add_test(tc, memory_that_there_is_not_is_an_error_and_no_signal);
	tcase_add_test(tc, views_take_no_more_than_the_control_group_has_left);
	tcase_add_test(tc, every_failing_allocation_is_told);
	return run_suite("cache", &tc, 1);
}

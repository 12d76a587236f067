/* tests/unit/test_reserve.c - memory that is made ready for what is filled next. */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_fixture.h"
#include "lib/suite.h"

static struct pt_workers *idle;

static void begin_idle(uint64_t limit)
{
	begin(limit);
	ck_assert_int_eq(pt_workers_create_idle(1, &idle), 0);
	pt_vcache_idle(cache, idle);
	subject = 7;
}

static void end_idle(void)
{
	subject = 0;
	pt_workers_stop(workers);
	pt_workers_stop(idle);
	end();
	pt_workers_free(idle);
}

/* A revision of this size, opened, read and closed by its whole node. */
static void publish(uint64_t id, uint64_t size, struct source *s)
{
	struct pt_vcache_file *f;
	const void *data;

	s->seed = id;
	ck_assert_int_eq(fill(id, size, 100, s, &f), 0);
	wait_whole(f);
	wait_released(s);
	pt_vcache_use(cache, f);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, size, &data), 0);
	check_bytes(data, id, 0, size);
	pt_vcache_put(cache, f);
}

static void wait_ready(uint64_t size)
{
	for (bool ready = false; !ready; usleep(200)) {
		pthread_mutex_lock(&cache->lock);
		ready = cache->reserve && cache->reserve->filled == size && !cache->reserver.busy;
		pthread_mutex_unlock(&cache->lock);
	}
}

START_TEST(a_later_revision_is_filled_into_memory_that_was_made_ready)
{
	uint64_t size = 9 * MIB + 17, room = 10 * MIB;
	struct source s[5] = { { 0 } };
	struct stat st;

	begin_idle(64 * MIB);
	publish(0, size, &s[0]);
	ck_assert_uint_eq(stats().reserve, 0);          /* it may be the only one */
	publish(1, size, &s[1]);
	for (uint64_t i = 2; i < 5; i++) {
		wait_ready(size);
		ck_assert_uint_eq(stats().reserve, room);
		ck_assert_int_eq(fstat(cache->reserve->fd, &st), 0);
		ck_assert_uint_ge((uint64_t)st.st_blocks * 512, size);  /* all its pages are there */
		ck_assert_uint_eq((uint64_t)st.st_size, size);
		publish(i, size, &s[i]);
		ck_assert_uint_eq(stats().reserve_filled_bytes, (i - 1) * size);
		ck_assert_uint_eq(stats().used, room);
	}
	ck_assert_uint_eq(cache->unfilled, 0);
	end_idle();
}
END_TEST

START_TEST(memory_that_was_made_ready_is_the_first_to_go)
{
	struct source s[6] = { { 0 } };

	begin_idle(32 * MIB);
	publish(0, 8 * MIB, &s[0]);
	publish(1, 8 * MIB, &s[1]);
	wait_ready(8 * MIB);
	subject = 0;
	want = PT_VCACHE_TRY;
	publish(2, 8 * MIB, &s[2]);             /* into what was ready */
	ck_assert_uint_eq(stats().reserve_filled_bytes, 8 * MIB);
	subject = 7;
	publish(3, 8 * MIB, &s[3]);
	wait_ready(8 * MIB);
	ck_assert_uint_eq(stats().used, 16 * MIB);
	ck_assert_uint_eq(stats().reserve, 8 * MIB);
	subject = 0;
	publish(4, 7 * MIB, &s[4]);             /* of another size, beside it */
	ck_assert_uint_eq(stats().reserve, 8 * MIB);
	publish(5, 7 * MIB, &s[5]);
	ck_assert_uint_eq(stats().reserve, 0);
	ck_assert_uint_eq(stats().used, 32 * MIB);
	ck_assert_uint_eq(stats().evictions, 0);
	want = PT_VCACHE_KEEP;
	end_idle();
}
END_TEST

START_TEST(what_a_failed_filling_left_in_memory_that_was_ready_is_not_shown)
{
	struct source s[4] = { { 0 }, { 0 }, { .fails = true }, { 0 } };
	struct pt_vcache_file *f;
	const void *data;

	begin_idle(64 * MIB);
	publish(0, 8 * MIB, &s[0]);
	publish(1, 8 * MIB, &s[1]);
	wait_ready(8 * MIB);
	ck_assert_int_eq(fill(2, 8 * MIB, 0, &s[2], &f), 0);
	wait_released(&s[2]);
	ck_assert_int_eq(pt_vcache_file_get(cache, f, 0, MIB, &data), -EAGAIN);
	pt_vcache_put(cache, f);
	ck_assert_uint_eq(cache->unfilled, 0);
	publish(3, 8 * MIB, &s[3]);
	end_idle();
}
END_TEST

/* Memory for files of any size: 32 and 16 MiB. */
static void wait_any(void)
{
	for (bool ready = false; !ready; usleep(200)) {
		struct pt_vcache_file *f = NULL;

		pthread_mutex_lock(&cache->lock);
		ready = cache->stats.reserve == 48 * MIB && !cache->reserver.busy;
		for (f = cache->reserve; f; f = f->hash_next)
			ready = ready && f->any && f->filled == f->size;
		pthread_mutex_unlock(&cache->lock);
	}
}

START_TEST(a_file_of_any_size_takes_what_was_made_ready_and_suits_best)
{
	static const struct { uint64_t size, had; } cases[] = {
		{ 32 * MIB, 32 * MIB }, { 16 * MIB, 16 * MIB },         /* as it is */
		{ 20 * MIB + 17, 20 * MIB + 17 }, { 9 * MIB, 9 * MIB }, /* cut */
		{ 50 * MIB + 1, 32 * MIB }, { 33 * MIB, 32 * MIB },     /* made longer */
		{ 7 * MIB, 0 },                                         /* not worth it */
	};
	uint64_t before = 0;
	struct stat st;
	size_t i;

	begin_idle(256 * MIB);
	subject = 0;
	pt_vcache_ready(cache, 64 * MIB);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t room = (cases[i].size + 2 * MIB - 1) & ~(2 * MIB - 1);
		struct source s = { 0 };
		struct pt_vcache_file *f;
		uint64_t used = stats().used;

		wait_any();
		publish(i, cases[i].size, &s);
		ck_assert_uint_eq(stats().reserve_filled_bytes - before, cases[i].had);
		ck_assert_uint_eq(stats().used - used, room);
		before = stats().reserve_filled_bytes;
		f = pt_vcache_find(cache, &(struct pt_vcache_key){ { i } }, false);
		ck_assert(f && fstat(f->fd, &st) == 0);
		ck_assert_uint_eq((uint64_t)st.st_size, cases[i].size);
		ck_assert_uint_le((uint64_t)st.st_blocks * 512, room);
		pt_vcache_put(cache, f);
		ck_assert_uint_eq(cache->unfilled, 0);
	}
	wait_any();
	end_idle();
}
END_TEST

START_TEST(memory_for_any_size_is_given_back_when_nothing_is_loaded_and_made_again_after_something_was)
{
	struct source s[2] = { { 0 } };

	begin_idle(256 * MIB);
	subject = 0;
	cache->keep_ns = INT64_C(300) * 1000000;
	pt_vcache_ready(cache, 64 * MIB);
	wait_any();
	while (stats().reserve)
		usleep(1000);
	usleep(50000);
	ck_assert_uint_eq(stats().reserve, 0);          /* and it stays so */
	pthread_mutex_lock(&cache->lock);
	cache->keep_ns = INT64_C(1) << 60;
	pthread_mutex_unlock(&cache->lock);
	publish(0, 8 * MIB, &s[0]);
	wait_any();
	want = PT_VCACHE_IDLE;                          /* nobody waits: it is for others */
	publish(1, 32 * MIB, &s[1]);
	want = PT_VCACHE_KEEP;
	ck_assert_uint_eq(stats().reserve_filled_bytes, 0);
	ck_assert_uint_eq(stats().reserve, 48 * MIB);
	pt_vcache_ready(cache, 0);
	ck_assert_uint_eq(stats().reserve, 0);
	ck_assert_ptr_null(cache->reserve);
	end_idle();
}
END_TEST

static void meminfo(const char *root, uint64_t available)
{
	char line[64];

	snprintf(line, sizeof(line), "MemAvailable: %llu kB", (unsigned long long)available >> 10);
	line_write(root, "proc/meminfo", line);
}

START_TEST(a_quarter_of_the_machines_memory_is_left)
{
	char root[] = "/tmp/ptio-cache-XXXXXX", command[64];
	struct source s = { 0 };
	uint64_t total;

	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(command, sizeof(command), "mkdir %s/proc", root);
	ck_assert_int_eq(system(command), 0);
	begin_idle(256 * MIB);
	subject = 0;
	total = pt_budget_total(&cache->memory.budget);
	cache->memory.budget = (struct pt_budget){ .root = root };
	meminfo(root, total / 4 + 24 * MIB);
	pt_vcache_ready(cache, 64 * MIB);
	while (stats().reserve != 16 * MIB || stats().reserve_ready != 16 * MIB)        /* 32 are too many */
		usleep(1000);
	meminfo(root, total);
	publish(0, 5 * MIB, &s);
	wait_any();
	end_idle();
	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(no_memory_is_made_ready_while_a_file_is_being_filled)
{
	struct source s = { .held = true };
	struct pt_vcache_file *f;

	begin_idle(256 * MIB);
	subject = 0;
	ck_assert_int_eq(fill(1, 40 * MIB, 0, &s, &f), 0);
	pt_vcache_ready(cache, 64 * MIB);
	usleep(100000);
	pthread_mutex_lock(&cache->lock);
	for (struct pt_vcache_file *r = cache->reserve; r; r = r->hash_next)
		ck_assert_uint_eq(r->filled, 0);
	pthread_mutex_unlock(&cache->lock);
	ck_assert_uint_eq(stats().reserve, 48 * MIB);
	atomic_store(&s.held, false);
	wait_whole(f);
	wait_any();
	pt_vcache_put(cache, f);
	end_idle();
}
END_TEST

START_TEST(a_filling_that_fails_beyond_what_was_ready_leaves_no_account)
{
	struct source s[2] = { { .fails = true }, { 0 } };
	struct pt_vcache_file *f;

	begin_idle(256 * MIB);
	subject = 0;
	pt_vcache_ready(cache, 64 * MIB);
	wait_any();
	ck_assert_int_eq(fill(1, 50 * MIB, 0, &s[0], &f), 0);
	wait_released(&s[0]);
	pt_vcache_put(cache, f);
	ck_assert_uint_eq(cache->unfilled, 0);
	ck_assert_uint_eq(stats().used, 0);
	publish(2, 50 * MIB, &s[1]);
	ck_assert_uint_eq(cache->unfilled, 0);
	end_idle();
}
END_TEST

START_TEST(what_was_made_ready_is_filled_though_the_control_group_has_no_room_left)
{
	struct pt_budget full = { .root = "", .bounded = true };
	char dir[] = "/tmp/ptio-test-XXXXXX", path[128];
	struct source s = { 0 };
	struct pt_vcache_file *f;

	begin_idle(256 * MIB);
	subject = 0;
	pt_vcache_ready(cache, 64 * MIB);
	wait_any();
	ck_assert(mkdtemp(dir) != NULL);
	group_write(dir, "memory.max", 64 * MIB);
	group_write(dir, "memory.current", 64 * MIB);
	full.top = (size_t)snprintf(full.dir, sizeof(full.dir), "%s", dir);
	cache->memory.budget = full;
	ck_assert_int_eq(fill(0, 32 * MIB, 0, &s, &f), 0);
	wait_released(&s);
	ck_assert(pt_vcache_file_whole(f));
	pt_vcache_put(cache, f);
	end_idle();
	snprintf(path, sizeof(path), "%s/memory.max", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/memory.current", dir);
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("reserve");

	tcase_add_test(tc, a_later_revision_is_filled_into_memory_that_was_made_ready);
	tcase_add_test(tc, memory_that_was_made_ready_is_the_first_to_go);
	tcase_add_test(tc, what_a_failed_filling_left_in_memory_that_was_ready_is_not_shown);
	tcase_add_test(tc, a_file_of_any_size_takes_what_was_made_ready_and_suits_best);
	tcase_add_test(tc, memory_for_any_size_is_given_back_when_nothing_is_loaded_and_made_again_after_something_was);
	tcase_add_test(tc, a_quarter_of_the_machines_memory_is_left);
	tcase_add_test(tc, no_memory_is_made_ready_while_a_file_is_being_filled);
	tcase_add_test(tc, a_filling_that_fails_beyond_what_was_ready_leaves_no_account);
	tcase_add_test(tc, what_was_made_ready_is_filled_though_the_control_group_has_no_room_left);
	return run_suite("reserve", &tc, 1);
}

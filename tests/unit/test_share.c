/* tests/unit/test_share.c - what several readers of one file want at about the same time is read once, and each gets its bytes. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ahead_reader.h"
#include "base/alloc.h"
#include "lib/suite.h"

static const struct pt_vcache_key one_file = { { 1, 2, 3, 4 } }, other_file = { { 1, 2, 3, 5 } };

static struct pt_ahead *ahead_of_file(struct source *s, const struct pt_vcache_key *key, uint64_t size)
{
	struct pt_ahead *a;

	ck_assert_int_eq(pt_ahead_create(workers, &share, key, size, 0, source_read, NULL, s, &a), 0);
	return a;
}

/* Two readers, each a step behind the other by turns; how often the source was read. */
static int read_by_turns(const struct pt_vcache_key *first, const struct pt_vcache_key *second)
{
	struct source s = { .seed = 9 };
	struct pt_ahead *a, *b;
	uint64_t off;

	begin(2, 48);
	a = ahead_of_file(&s, first, 24 * MIB);
	b = ahead_of_file(&s, second, 24 * MIB);
	for (off = 0; off < 24 * MIB; off += MIB) {
		ck_assert_uint_eq(read_ahead(a, off, MIB, 9), off > 0);
		ck_assert_uint_eq(read_ahead(b, off, MIB, 9), off > 0);
	}
	pt_ahead_close(a);
	pt_ahead_close(b);
	end();
	return atomic_load(&s.reads);
}

START_TEST(what_two_readers_of_a_file_want_is_read_once)
{
	/* The first window may have been let go before the second reader wanted it. */
	ck_assert_int_le(read_by_turns(&one_file, &one_file), 24);
}
END_TEST

START_TEST(what_is_of_other_files_or_of_none_is_not_shared)
{
	ck_assert_int_eq(read_by_turns(&one_file, &other_file), 46);
	ck_assert_int_eq(read_by_turns(NULL, NULL), 46);
	ck_assert_int_eq(read_by_turns(&one_file, NULL), 46);
}
END_TEST

START_TEST(a_reader_outlives_the_other_one_whose_windows_it_shares)
{
	struct source s = { .seed = 9 };
	struct pt_ahead_lease lease;
	struct pt_ahead *a, *b;

	begin(1, 48);
	a = ahead_of_file(&s, &one_file, 24 * MIB);
	b = ahead_of_file(&s, &one_file, 24 * MIB);
	read_ahead(a, 0, MIB, 9);
	read_ahead(b, 0, MIB, 9);
	ck_assert_uint_eq(read_ahead(a, MIB, MIB / 2, 9), 1);
	ck_assert_int_eq(pt_ahead_get(b, MIB, MIB / 2, &lease), 1);
	pt_ahead_close(a);
	check_bytes(lease.iov[0].iov_base, 9, MIB, MIB / 2);
	ck_assert_uint_eq(read_ahead(b, MIB + MIB / 2, MIB, 9), 1);
	pt_ahead_close(b);
	check_bytes(lease.iov[0].iov_base, 9, MIB, MIB / 2);
	pt_ahead_put(&lease);
	end();
}
END_TEST

struct waiter {
	pthread_t thread;
	struct pt_share_window *w;
	bool mine;
};

static void *wait_for(void *arg)
{
	struct waiter *waiter = arg;

	waiter->mine = pt_share_begin(&share, waiter->w);
	return NULL;
}

/* Whether one who wants a window that another reads is to read it, when that has ended. */
static bool is_left_to_the_next(struct pt_share_window *w, bool all_read)
{
	struct waiter next = { .w = w };

	ck_assert(pt_share_begin(&share, w));
	ck_assert_int_eq(pthread_create(&next.thread, NULL, wait_for, &next), 0);
	pt_share_end(&share, w, all_read);
	pthread_join(next.thread, NULL);
	return next.mine;
}

START_TEST(an_error_of_one_reader_is_not_the_others)
{
	struct pt_share_window *mine, *same, *other;

	begin(1, 8);
	mine = pt_share_get(&share, &one_file, 0, MIB);
	same = pt_share_get(&share, &one_file, 0, MIB);
	other = pt_share_get(&share, &one_file, 0, MIB - 1);
	ck_assert_ptr_eq(mine, same);
	ck_assert_ptr_ne(mine, other);
	ck_assert(is_left_to_the_next(mine, false));
	pt_share_end(&share, mine, false);
	ck_assert_uint_eq(pt_share_bytes(&share), 0);
	ck_assert(!is_left_to_the_next(mine, true));
	ck_assert(!pt_share_begin(&share, same));
	ck_assert_uint_eq(pt_share_bytes(&share), 2 * MIB);
	pt_share_put(&share, mine);
	pt_share_put(&share, same);
	pt_share_put(&share, other);
	mine = pt_share_get(&share, &one_file, 0, MIB);         /* nobody held it any more */
	ck_assert(pt_share_begin(&share, mine));
	pt_share_end(&share, mine, false);
	pt_share_put(&share, mine);
	end();
}
END_TEST

static atomic_bool third_is_read;

static int64_t read_and_tell(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	int64_t n = source_read(ctx, buf, len, off);

	if (off == 2 * MIB)
		atomic_store(&third_is_read, true);
	return n;
}

START_TEST(a_worker_reads_on_while_another_reader_has_a_window_read)
{
	struct source s = { .seed = 9 };
	struct keeper k = { .go = false };
	struct pt_share_window *others;
	struct pt_ahead *a;

	begin(1, 48);
	keep_worker(&k);        /* until there is more than one window for it */
	others = pt_share_get(&share, &one_file, MIB, MIB);
	ck_assert(pt_share_begin(&share, others));
	ck_assert_int_eq(pt_ahead_create(workers, &share, &one_file, 24 * MIB, 0, read_and_tell, NULL, &s, &a), 0);
	ck_assert_uint_eq(read_ahead(a, 0, MIB / 2, 9), 0);
	ck_assert_uint_eq(read_ahead(a, MIB / 2, MIB / 2, 9), 1);
	atomic_store(&k.go, true);
	while (!atomic_load(&third_is_read))
		usleep(100);
	pt_share_end(&share, others, false);
	ck_assert_uint_eq(read_ahead(a, MIB, MIB, 9), 1);
	ck_assert_uint_eq(read_ahead(a, 2 * MIB, MIB, 9), 1);
	pt_share_put(&share, others);
	pt_ahead_close(a);
	end();
}
END_TEST

struct crowd {
	pthread_t thread;
	struct pt_ahead *a;
};

static void *read_all(void *arg)
{
	struct crowd *c = arg;
	uint64_t off;

	for (off = 0; off < 24 * MIB; off += MIB)
		read_ahead(c->a, off, MIB, 9);
	pt_ahead_close(c->a);
	return NULL;
}

/* Each in its thread, while others of the file begin, wait and end. */
START_TEST(many_readers_of_a_file_at_once_read_its_bytes)
{
	struct source s = { .seed = 9 };
	struct crowd t[5];
	int i;

	begin(2, 24);
	for (i = 0; i < 5; i++) {
		t[i].a = ahead_of_file(&s, &one_file, 24 * MIB);
		ck_assert_int_eq(pthread_create(&t[i].thread, NULL, read_all, &t[i]), 0);
	}
	for (i = 0; i < 5; i++)
		pthread_join(t[i].thread, NULL);
	ck_assert_int_le(atomic_load(&s.reads), 5 * 24);
	end();
}
END_TEST

START_TEST(every_failing_allocation_is_told)
{
	struct pt_share unshared;
	int rc;

	begin(1, 4);
	pt_alloc_fail_after(0);
	rc = pt_share_init(&unshared, &buffers);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	end();
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("share");

	tcase_add_test(tc, what_two_readers_of_a_file_want_is_read_once);
	tcase_add_test(tc, what_is_of_other_files_or_of_none_is_not_shared);
	tcase_add_test(tc, a_reader_outlives_the_other_one_whose_windows_it_shares);
	tcase_add_test(tc, an_error_of_one_reader_is_not_the_others);
	tcase_add_test(tc, a_worker_reads_on_while_another_reader_has_a_window_read);
	tcase_add_test(tc, many_readers_of_a_file_at_once_read_its_bytes);
	tcase_add_test(tc, every_failing_allocation_is_told);
	return run_suite("share", &tc, 1);
}

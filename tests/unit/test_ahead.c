/* tests/unit/test_ahead.c - windows ahead are the file's bytes, whoever reads them and in whatever order they are asked for; their buffers come back. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ahead_reader.h"
#include "base/alloc.h"
#include "base/error.h"
#include "lib/suite.h"

static struct pt_ahead *ahead_of(struct source *s, uint64_t size)
{
	struct pt_ahead *a;

	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, size, 0, source_read, NULL, s, &a), 0);
	return a;
}

struct watched {
	uint8_t *addr[8];
	uint64_t added, removed;
};

static void watch_add(void *ctx, void *addr, uint64_t len)
{
	struct watched *w = ctx;

	ck_assert_uint_eq(len, PT_BUFFER_SLAB);
	w->addr[w->added++] = addr;
}

static void watch_remove(void *ctx, void *addr)
{
	struct watched *w = ctx;
	bool known = false;

	for (uint64_t i = 0; i < w->added; i++)
		known = known || w->addr[i] == addr;
	ck_assert(known);
	w->removed++;
}

START_TEST(buffers_are_told_of_as_long_as_they_are_there)
{
	struct watched w = { .added = 0 };
	uint8_t *b[2 * PT_BUFFERS_A_SLAB];
	int count = 2 * PT_BUFFERS_A_SLAB;

	ck_assert_int_eq(pt_buffers_init(&buffers, (uint32_t)count), 0);
	buffers.watch = (struct pt_buffers_watch){ watch_add, watch_remove, &w };
	for (int i = 0; i < count; i++) {
		b[i] = pt_buffers_get(&buffers);
		ck_assert_ptr_nonnull(b[i]);
		ck_assert(b[i] >= w.addr[w.added - 1] && b[i] + PT_BUFFER_BYTES + PT_BUFFER_PAD <= w.addr[w.added - 1] + PT_BUFFER_SLAB);
		for (int j = 0; j < i; j++)
			ck_assert(b[j] + PT_BUFFER_BYTES + PT_BUFFER_PAD <= b[i] || b[i] + PT_BUFFER_BYTES + PT_BUFFER_PAD <= b[j]);
	}
	ck_assert_ptr_null(pt_buffers_get(&buffers));
	ck_assert_uint_eq(w.added, 2);
	for (int i = 0; i < count; i++)
		pt_buffers_put(&buffers, b[i]);
	ck_assert_uint_eq(w.removed, 0);
	ck_assert_ptr_eq(pt_buffers_get(&buffers), b[count - 1]);      /* the last one back is the first one out */
	pt_buffers_put(&buffers, b[count - 1]);
	pt_buffers_done(&buffers);
	ck_assert_uint_eq(w.removed, 2);
}
END_TEST

START_TEST(a_sequential_reader_finds_its_bytes_fetched)
{
	static const uint64_t steps[] = { MIB, 100000, 4096 };
	struct source s = { .seed = 5 };
	uint64_t size = 12 * MIB + 77, off, len, step = steps[_i], requests = 0, found = 0;
	struct pt_ahead *a;

	begin(2, 16);
	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, size, 1234, source_read, NULL, &s, &a), 0);
	for (off = 0; off < size; off += len) {
		len = size - off < step ? size - off : step;
		requests++;
		found += read_ahead(a, off, len, 5);
	}
	ck_assert_uint_eq(found, requests - 1);         /* all but the first */
	ck_assert_int_le(atomic_load(&s.reads), 15);
	pt_ahead_close(a);
	end();
}
END_TEST

static int64_t cut_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	if (off / CUT != (off + len - 1) / CUT)
		__atomic_add_fetch(&cut_read_bad, 1, __ATOMIC_RELAXED);
	return source_read(ctx, buf, len, off);
}

START_TEST(windows_end_where_the_source_wants_them_to)
{
	struct source s = { .seed = 6 };
	uint64_t size = 9 * MIB + 5, off, len, found = 0, requests = 0;
	struct pt_ahead *a;

	begin(2, 16);
	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, size, 0, cut_read, cut, &s, &a), 0);
	for (off = 0; off < size; off += len) {
		len = size - off < MIB ? size - off : MIB;
		requests++;
		found += read_ahead(a, off, len, 6);
	}
	ck_assert_uint_eq(found, requests - 1);
	ck_assert_uint_eq(cut_read_bad, 0);
	pt_ahead_close(a);
	end();
}
END_TEST

START_TEST(a_jumping_reader_reads_for_itself_and_leaves_no_buffer_taken)
{
	struct source s = { .seed = 5 };
	struct pt_ahead_lease lease;
	struct pt_ahead *a;
	unsigned seed = 1;
	uint64_t off;
	int i;

	begin(2, 4);
	a = ahead_of(&s, 64 * MIB);
	for (i = 0; i < 50; i++) {
		off = (uint64_t)rand_r(&seed) % (60 * MIB);
		read_ahead(a, off, 4096, 5);
		read_ahead(a, off + 4096, 4096, 5);
	}
	/* a lease stays good after the file is closed */
	read_ahead(a, 0, MIB, 5);
	for (off = MIB; !pt_ahead_get(a, off, MIB, &lease); off += MIB)
		usleep(1000);           /* until what was given up is out of the way */
	pt_ahead_close(a);
	check_bytes(lease.iov[0].iov_base, 5, off, lease.iov[0].iov_len);
	pt_ahead_put(&lease);
	end();
}
END_TEST

struct sharer {
	pthread_t thread;
	struct pt_ahead *a;
	unsigned seed;
};

/* As the page faults of a map: mostly in order, sometimes elsewhere, several at once. */
static void *read_shared(void *arg)
{
	struct sharer *s = arg;
	uint64_t off = 0;
	int i;

	for (i = 0; i < 400; i++) {
		read_ahead(s->a, off, 128 << 10, 5);
		off += 128 << 10;
		if (rand_r(&s->seed) % 16 == 0 || off > 30 * MIB)
			off = (uint64_t)rand_r(&s->seed) % (30 * MIB);
	}
	return NULL;
}

START_TEST(threads_that_share_a_reader_never_wait_for_what_was_given_up)
{
	struct source s = { .seed = 5 };
	struct sharer t[4];
	struct pt_ahead *a;
	int i;

	begin(2, 16);
	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, 32 * MIB, 64, source_read, NULL, &s, &a), 0);
	for (i = 0; i < 4; i++) {
		t[i].a = a;
		t[i].seed = (unsigned)i + 1;
		ck_assert_int_eq(pthread_create(&t[i].thread, NULL, read_shared, &t[i]), 0);
	}
	for (i = 0; i < 4; i++)
		pthread_join(t[i].thread, NULL);
	pt_ahead_close(a);
	end();
}
END_TEST

START_TEST(errors_ahead_are_left_to_the_reader)
{
	struct source s = { .fails = true };
	struct pt_ahead *a;
	uint64_t off;

	begin(2, 8);
	a = ahead_of(&s, 8 * MIB);
	for (off = 0; off < 8 * MIB; off += MIB)
		ck_assert_uint_eq(read_ahead(a, off, MIB, 5), 0);
	pt_ahead_close(a);
	end();
}
END_TEST

START_TEST(a_reader_reads_itself_what_no_worker_has_begun)
{
	struct source s = { .seed = 7 };
	struct keeper k = { .go = false };
	struct pt_ahead *a;
	uint64_t off;

	begin(1, 16);
	keep_worker(&k);
	a = ahead_of(&s, 24 * MIB);
	for (off = 0; off < 24 * MIB; off += MIB)
		ck_assert_uint_eq(read_ahead(a, off, MIB, 7), off > 0);
	ck_assert_int_eq(atomic_load(&s.reads), 23);
	atomic_store(&k.go, true);
	pt_ahead_close(a);
	end();
}
END_TEST

START_TEST(an_error_of_the_readers_own_read_leaves_nothing_behind)
{
	struct source s = { .seed = 7 };
	struct keeper k = { .go = false };
	struct pt_ahead *a;
	uint64_t off;

	begin(1, 16);
	keep_worker(&k);
	a = ahead_of(&s, 24 * MIB);
	for (off = 0; off < 24 * MIB; off += MIB) {
		atomic_store(&s.fails, off / MIB % 3 == 0);
		ck_assert_uint_eq(read_ahead(a, off, MIB, 7), off / MIB % 3 != 0);
		ck_assert_str_eq(pt_fail_sentence(), "");
	}
	atomic_store(&k.go, true);
	pt_ahead_close(a);
	end();
}
END_TEST

struct late {
	pthread_t thread;
	struct pt_ahead *a;
	atomic_bool closed;
};

static void *read_second(void *arg)
{
	struct late *l = arg;
	struct pt_ahead_lease lease;

	if (pt_ahead_get(l->a, MIB, MIB, &lease)) {
		check_bytes(lease.iov[0].iov_base, 7, MIB, lease.iov[0].iov_len);
		pt_ahead_put(&lease);
	}
	return NULL;
}

static void *close_it(void *arg)
{
	struct late *l = arg;

	pt_ahead_close(l->a);
	atomic_store(&l->closed, true);
	return NULL;
}

START_TEST(closing_waits_for_a_readers_own_read)
{
	struct source s = { .seed = 7, .held = true };
	struct keeper k = { .go = false };
	struct late l = { .closed = false };
	pthread_t closer;

	begin(1, 16);
	keep_worker(&k);
	l.a = ahead_of(&s, 24 * MIB);
	ck_assert_uint_eq(read_ahead(l.a, 0, MIB, 7), 0);
	ck_assert_int_eq(pthread_create(&l.thread, NULL, read_second, &l), 0);
	while (!atomic_load(&s.reads))
		usleep(100);
	ck_assert_int_eq(pthread_create(&closer, NULL, close_it, &l), 0);
	usleep(20000);                  /* it may come later than that, and then it waits no less */
	ck_assert(!atomic_load(&l.closed));
	atomic_store(&s.held, false);
	pthread_join(l.thread, NULL);
	pthread_join(closer, NULL);
	ck_assert_int_eq(atomic_load(&s.reads), 1);     /* none after the close */
	atomic_store(&k.go, true);
	end();
}
END_TEST

/* As O_DIRECT reads of 4 MiB, which the kernel cuts into requests that arrive together. */
START_TEST(requests_that_overtake_each_other_are_one_run)
{
	static const unsigned orders[][4] = { { 1, 0, 3, 2 }, { 3, 2, 1, 0 }, { 2, 0, 3, 1 } };
	const unsigned *order = orders[_i];
	struct source s = { .seed = 9 };
	struct pt_ahead *a;
	uint64_t at, found = 0;
	int i;

	begin(2, 40);
	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, 64 * MIB, 128, source_read, NULL, &s, &a), 0);
	read_ahead(a, 0, MIB, 9);
	read_ahead(a, MIB, MIB, 9);
	for (at = 2; at + 4 <= 64; at += 4)
		for (i = 0; i < 4; i++)
			found += read_ahead(a, (at + order[i]) * MIB, MIB, 9);
	ck_assert_uint_eq(found, 60);
	ck_assert_int_le(atomic_load(&s.reads), 66);    /* each byte once */
	pt_ahead_close(a);
	end();
}
END_TEST

/* How many workers read at once, from where on it counts. */
struct busy {
	struct source source;
	bool sleeps;
	pthread_t reader;
	atomic_int now, most;
};

static int64_t busy_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	struct busy *b = ctx;
	int64_t n;
	int now;

	if (pthread_equal(pthread_self(), b->reader))
		return source_read(&b->source, buf, len, off);
	now = atomic_fetch_add(&b->now, 1) + 1;
	if (off > 16 * MIB && now > atomic_load(&b->most))
		atomic_store(&b->most, now);
	if (b->sleeps)
		usleep(2000);
	n = source_read(&b->source, buf, len, off);
	atomic_fetch_sub(&b->now, 1);
	return n;
}

/* What is copied is read by all workers but one, what is waited for by all. */
START_TEST(as_many_workers_read_as_helps)
{
	struct busy b = { .source.seed = 3, .sleeps = _i, .reader = pthread_self() };
	struct pt_ahead *a;
	uint64_t off;

	begin(3, 40);
	ck_assert_int_eq(pt_ahead_create(workers, &share, NULL, 64 * MIB, 0, busy_read, NULL, &b, &a), 0);
	for (off = 0; off < 64 * MIB; off += MIB)
		read_ahead(a, off, MIB, 3);
	pt_ahead_close(a);
	if (b.sleeps)
		ck_assert_int_eq(atomic_load(&b.most), 3);
	else
		ck_assert_int_le(atomic_load(&b.most), 2);
	end();
}
END_TEST

START_TEST(every_failing_allocation_is_told)
{
	struct source s = { 0 };
	struct pt_buffers none;
	struct pt_ahead *a;
	int rc;

	begin(1, 4);
	pt_alloc_fail_after(1);
	rc = pt_buffers_init(&none, 4);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	pt_alloc_fail_after(0);
	rc = pt_ahead_create(workers, &share, NULL, MIB, 0, source_read, NULL, &s, &a);
	pt_alloc_fail_after(-1);
	ck_assert_int_eq(rc, -ENOMEM);
	end();
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("ahead");

	tcase_add_test(tc, buffers_are_told_of_as_long_as_they_are_there);
	tcase_add_loop_test(tc, a_sequential_reader_finds_its_bytes_fetched, 0, 3);
	tcase_add_test(tc, windows_end_where_the_source_wants_them_to);
	tcase_add_test(tc, a_jumping_reader_reads_for_itself_and_leaves_no_buffer_taken);
	tcase_add_test(tc, threads_that_share_a_reader_never_wait_for_what_was_given_up);
	tcase_add_test(tc, errors_ahead_are_left_to_the_reader);
	tcase_add_test(tc, a_reader_reads_itself_what_no_worker_has_begun);
	tcase_add_test(tc, an_error_of_the_readers_own_read_leaves_nothing_behind);
	tcase_add_test(tc, closing_waits_for_a_readers_own_read);
	tcase_add_loop_test(tc, requests_that_overtake_each_other_are_one_run, 0, 3);
	tcase_add_loop_test(tc, as_many_workers_read_as_helps, 0, 2);
	tcase_add_test(tc, every_failing_allocation_is_told);
	return run_suite("ahead", &tc, 1);
}

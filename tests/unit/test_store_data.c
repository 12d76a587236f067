/* tests/unit/test_store_data.c - what the data contract promises, on every engine. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static struct pt_data data;

static void open_engine(int engine)
{
	data_open(engine, dir_make(), &data);
}

START_TEST(blobs_of_any_size_come_back)
{
	static const size_t sizes[] = { 0, 1, 511, 4095, 4096, 4097, 65536, 70000, 262144, 300000, 3 << 20 };
	uint8_t *bytes = malloc(3 << 20), *got = malloc(3 << 20);

	open_engine(_i);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pt_blob_ref ref = blob_new(i % 2 ? PT_BLOB_TENSOR : PT_BLOB_PLAIN);
		uint64_t n;

		pattern_fill(bytes, sizes[i], i);
		MUST_WORK(blob_put(&data, &ref, bytes, sizes[i]));
		MUST_WORK(pt_data_stat(&data, &ref, &n));
		ck_assert_uint_eq(n, sizes[i]);
		MUST_WORK(blob_get(&data, &ref, got, sizes[i], 0));
		ck_assert(sizes[i] == 0 || memcmp(bytes, got, sizes[i]) == 0);
	}
	pt_data_close(&data);
	free(bytes);
	free(got);
}
END_TEST

#define PIECES 200
#define PIECE 3000

START_TEST(pieces_in_any_order_with_gaps_make_a_blob)
{
	struct rng r = { rng_seed(31) };
	uint8_t *want = calloc(PIECES + 2, PIECE), *got = malloc((PIECES + 2) * PIECE);
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	size_t order[PIECES];
	uint64_t size;
	void *blob;

	open_engine(_i);
	for (size_t i = 0; i < PIECES; i++) {
		size_t j = rng_below(&r, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	for (size_t i = 0; i < PIECES; i++) {
		uint8_t *at = want + order[i] * PIECE;
		uint64_t len = rng_below(&r, PIECE);

		if (i % 3 == 0)
			len = 0;
		if (i % 3 == 1)
			pattern_fill(at, len, i);       /* else zeros */
		MUST_WORK(pt_data_write(&data, blob, at, len, order[i] * PIECE));
	}
	MUST_WORK(pt_data_seal(&data, blob, (PIECES + 2) * PIECE));
	MUST_WORK(pt_data_stat(&data, &ref, &size));
	ck_assert_uint_eq(size, (PIECES + 2) * PIECE);
	memset(got, 1, size);
	MUST_WORK(blob_get(&data, &ref, got, size, 0));
	ck_assert(memcmp(want, got, size) == 0);
	pt_data_close(&data);
	free(want);
	free(got);
}
END_TEST

START_TEST(a_seal_may_cut_what_was_written)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	uint8_t bytes[100];
	uint64_t size;
	void *blob;

	open_engine(_i);
	pattern_fill(bytes, sizeof(bytes), 1);
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	MUST_WORK(pt_data_write(&data, blob, bytes, 100, 0));
	MUST_WORK(pt_data_seal(&data, blob, 40));
	MUST_WORK(pt_data_stat(&data, &ref, &size));
	ck_assert_uint_eq(size, 40);
	MUST_FAIL(EIO, blob_get(&data, &ref, bytes, 41, 0));
	pt_data_close(&data);
}
END_TEST

struct census {
	struct pt_blob_ref ref;                 /* the one looked for */
	int sealed, staged, live, found;
	uint64_t bytes;
};

static int count_blob(void *ctx, const struct pt_blob_ref *ref, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct census *c = ctx;

	MUST(mtime_ns > INT64_C(1500000000) * 1000000000 || !staged || mtime_ns > 0);
	c->sealed += !staged;
	c->staged += staged;
	c->live += staged && live;
	if (pt_id_compare(&ref->id, &c->ref.id) == 0 && ref->kind == c->ref.kind) {
		c->found++;
		c->bytes = bytes;
	}
	return 0;
}

static int stop_at_once(void *ctx, const struct pt_blob_ref *ref, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	(void)ref, (void)bytes, (void)mtime_ns, (void)staged, (void)live;
	++*(int *)ctx;
	return 1;
}

START_TEST(a_staged_blob_is_seen_by_the_list_only)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), other = blob_new(PT_BLOB_PLAIN);
	struct census c = { .ref = ref };
	uint64_t n;
	void *blob;
	char b;
	int calls = 0;

	open_engine(_i);
	MUST_WORK(blob_put(&data, &other, "other", 5));
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	MUST_WORK(pt_data_write(&data, blob, "12345", 5, 0));
	MUST_FAIL(ENOENT, pt_data_stat(&data, &ref, &n));
	MUST_FAIL(ENOENT, blob_get(&data, &ref, &b, 1, 0));
	MUST_FAIL(ENOENT, pt_data_remove(&data, &ref));
	MUST_WORK(pt_data_list(&data, count_blob, &c));
	ck_assert(c.sealed == 1 && c.staged == 1 && c.live == 1 && c.found == 1);
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert_uint_eq(n, 0);
	MUST_WORK(pt_data_seal(&data, blob, 5));
	c = (struct census){ .ref = ref };
	MUST_WORK(pt_data_list(&data, count_blob, &c));
	ck_assert(c.sealed == 2 && c.staged == 0 && c.found == 1 && c.bytes == 5);
	MUST_WORK(pt_data_list(&data, stop_at_once, &calls));
	ck_assert_int_eq(calls, 1);
	pt_data_close(&data);
}
END_TEST

START_TEST(an_aborted_blob_leaves_nothing)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct census c;
	void *blob;
	int tries = 0;

	open_engine(_i);
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	MUST_WORK(pt_data_write(&data, blob, "12345", 5, 0));
	pt_data_abort(&data, blob);
	pt_data_abort(&data, NULL);
	do {                    /* an abort has no answer: a daemon may still be at it when it is asked for the list */
		c = (struct census){ .ref = ref };
		MUST_WORK(pt_data_list(&data, count_blob, &c));
	} while (c.staged && tries++ < 500 && usleep(10000) == 0);
	ck_assert(c.sealed == 0 && c.staged == 0);
	MUST_WORK(blob_put(&data, &ref, "new", 3));
	pt_data_close(&data);
}
END_TEST

START_TEST(an_id_is_used_once)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	struct pt_blob_ref other_kind = { ref.id, PT_BLOB_PLAIN };
	char b[3];
	void *blob;

	open_engine(_i);
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	MUST_FAIL(EEXIST, blob_put(&data, &ref, "abc", 3));
	MUST_WORK(pt_data_write(&data, blob, "old", 3, 0));
	MUST_WORK(pt_data_seal(&data, blob, 3));
	MUST_FAIL(EEXIST, blob_put(&data, &ref, "abc", 3));
	MUST_WORK(blob_put(&data, &other_kind, "xyz", 3));
	MUST_WORK(blob_get(&data, &ref, b, 3, 0));
	ck_assert_mem_eq(b, "old", 3);
	pt_data_close(&data);
}
END_TEST

#define BLOBS 5
#define BLOB_BYTES 200000

START_TEST(many_ranges_of_many_blobs_come_in_one_call)
{
	struct rng r = { rng_seed(8) };
	struct pt_blob_ref refs[BLOBS];
	static uint8_t bytes[BLOBS][BLOB_BYTES];
	static uint8_t out[1 << 20];
	static struct pt_data_range ranges[700];

	open_engine(_i);
	for (size_t i = 0; i < BLOBS; i++) {
		refs[i] = blob_new(PT_BLOB_TENSOR);
		pattern_fill(bytes[i], BLOB_BYTES, i);
		MUST_WORK(blob_put(&data, &refs[i], bytes[i], BLOB_BYTES));
	}
	for (int round = 0; round < 60; round++) {
		size_t count = rng_between(&r, 1, round % 3 ? 20 : 700);
		uint64_t off = 0, used = 0;
		size_t blob = 0;

		for (size_t i = 0; i < count; i++) {
			uint64_t len = rng_below(&r, round % 2 ? 1400 : 60);

			/* Rows of a slice, unordered leaps, neighbours. */
			if (round % 4 == 0) {
				blob = rng_below(&r, BLOBS);
				off = rng_below(&r, BLOB_BYTES);
			} else {
				off += rng_below(&r, round % 4 == 1 ? 1 : 9000);
			}
			if (off + len > BLOB_BYTES) {
				off = 0;
				blob = (blob + 1) % BLOBS;
			}
			ranges[i] = (struct pt_data_range){ refs[blob], off, len, out + used };
			off += len;
			used += len;
		}
		MUST(used <= sizeof(out));
		memset(out, 0, sizeof(out));
		MUST_WORK(pt_data_read(&data, ranges, count));
		for (size_t i = 0; i < count; i++) {
			size_t b = 0;

			while (pt_id_compare(&refs[b].id, &ranges[i].blob.id) != 0)
				b++;
			MUST(ranges[i].len == 0 || memcmp(ranges[i].buf, bytes[b] + ranges[i].off, ranges[i].len) == 0);
		}
		MUST(out[used] == 0);
	}
	MUST_WORK(pt_data_read(&data, NULL, 0));
	pt_data_close(&data);
}
END_TEST

START_TEST(reads_beyond_the_end_and_of_absent_blobs_fail_whole)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), none = blob_new(PT_BLOB_TENSOR);
	char b[10];
	struct pt_data_range ranges[] = { { ref, 0, 5, b }, { none, 0, 1, b + 5 } };

	open_engine(_i);
	MUST_WORK(blob_put(&data, &ref, "12345", 5));
	MUST_FAIL(EIO, blob_get(&data, &ref, b, 6, 0));
	MUST_FAIL(EIO, blob_get(&data, &ref, b, 1, 5));
	MUST_FAIL(EIO, blob_get(&data, &ref, b, 1, INT64_MAX - 1));
	MUST_FAIL(EIO, blob_get(&data, &ref, b, 0, 6));
	MUST_WORK(blob_get(&data, &ref, b, 0, 5));
	MUST_FAIL(ENOENT, blob_get(&data, &none, b, 0, 0));
	MUST_FAIL(ENOENT, pt_data_read(&data, ranges, 2));
	pt_data_close(&data);
}
END_TEST

START_TEST(a_removed_blob_is_gone)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	uint64_t n;
	char b;

	open_engine(_i);
	MUST_WORK(blob_put(&data, &ref, "12345", 5));
	MUST_WORK(blob_get(&data, &ref, &b, 1, 0));
	MUST_WORK(pt_data_remove(&data, &ref));
	MUST_FAIL(ENOENT, pt_data_remove(&data, &ref));
	MUST_FAIL(ENOENT, blob_get(&data, &ref, &b, 1, 0));
	MUST_FAIL(ENOENT, pt_data_stat(&data, &ref, &n));
	pt_data_close(&data);
}
END_TEST

START_TEST(pins_are_counted)
{
	struct pt_blob_ref refs[200];
	bool pinned[200];

	open_engine(_i);
	for (size_t i = 0; i < 200; i++)
		refs[i] = blob_new(i % 2 ? PT_BLOB_TENSOR : PT_BLOB_PLAIN);
	MUST_WORK(pt_data_pinned(&data, refs, 200, pinned));
	for (size_t i = 0; i < 200; i++)
		ck_assert(!pinned[i]);
	MUST_WORK(pt_data_pin(&data, refs, 200));
	MUST_WORK(pt_data_pin(&data, refs + 50, 50));
	pt_data_unpin(&data, refs, 100);
	refs[0].kind = PT_BLOB_TENSOR;
	refs[150] = refs[60];
	MUST_WORK(pt_data_pinned(&data, refs, 200, pinned));
	for (size_t i = 0; i < 200; i++)
		ck_assert(pinned[i] == (i >= 50));
	pt_data_unpin(&data, refs + 50, 100);
	MUST_WORK(pt_data_pin(&data, refs, 1));
	MUST_WORK(pt_data_pinned(&data, refs, 150, pinned));
	ck_assert(pinned[0] && !pinned[60] && !pinned[149]);
	pt_data_close(&data);
}
END_TEST

START_TEST(a_map_shows_the_bytes_or_is_not_to_be_had)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	const void *addr;
	void *map;

	open_engine(_i);
	MUST_WORK(blob_put(&data, &ref, "0123456789", 10));
	if (!DATA_MAPS(_i)) {
		MUST_FAIL(EOPNOTSUPP, pt_data_map(&data, &ref, 2, 5, &addr, &map));
	} else {
		MUST_WORK(pt_data_map(&data, &ref, 2, 5, &addr, &map));
		MUST_WORK(pt_data_remove(&data, &ref));
		ck_assert_mem_eq(addr, "23456", 5);
		pt_data_unmap(&data, map);
		MUST_FAIL(ENOENT, pt_data_map(&data, &ref, 2, 5, &addr, &map));
	}
	pt_data_unmap(&data, NULL);
	pt_data_close(&data);
}
END_TEST

START_TEST(a_blob_that_is_a_file_is_lent_for_reading)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN), other = blob_new(PT_BLOB_PLAIN);
	char got[10];
	void *lent;
	int fd;

	open_engine(_i);
	MUST_WORK(blob_put(&data, &ref, "0123456789", 10));
	if (!DATA_FILES(_i)) {
		ck_assert_int_eq(pt_data_fd_get(&data, &ref, &fd, &lent), -EOPNOTSUPP);
	} else {
		MUST_FAIL(ENOENT, pt_data_fd_get(&data, &other, &fd, &lent));
		MUST_WORK(pt_data_fd_get(&data, &ref, &fd, &lent));
		ck_assert_int_eq(lseek(fd, 0, SEEK_END), 10);
		ck_assert_int_eq(write(fd, "x", 1), -1);
		MUST_WORK(pt_data_remove(&data, &ref));
		ck_assert_int_eq(pread(fd, got, 10, 0), 10);
		ck_assert_mem_eq(got, "0123456789", 10);
		pt_data_fd_put(&data, lent);
		MUST_FAIL(ENOENT, pt_data_fd_get(&data, &ref, &fd, &lent));
	}
	pt_data_fd_put(&data, NULL);
	pt_data_close(&data);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), bad = ref;
	struct pt_data_range range = { ref, 0, 4, NULL };
	uint64_t n;
	void *blob;
	bool pinned;
	char b;

	open_engine(_i);
	bad.kind = 3;
	MUST_FAIL(EINVAL, pt_data_create(&data, &bad, 0, &blob));
	MUST_FAIL(EINVAL, pt_data_stat(&data, &bad, &n));
	MUST_FAIL(EINVAL, pt_data_pinned(&data, &bad, 1, &pinned));
	bad = (struct pt_blob_ref){ .kind = PT_BLOB_PLAIN };
	MUST_FAIL(EINVAL, pt_data_create(&data, &bad, 0, &blob));
	MUST_FAIL(EINVAL, pt_data_read(&data, &range, 1));
	MUST_FAIL(EINVAL, blob_get(&data, &ref, &b, 2, INT64_MAX));
	MUST_FAIL(EINVAL, blob_get(&data, &ref, &b, UINT64_MAX, UINT64_MAX));
	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
	MUST_FAIL(EINVAL, pt_data_write(&data, blob, &b, UINT64_MAX, 2));
	MUST_FAIL(EINVAL, pt_data_seal(&data, blob, UINT64_MAX));       /* and aborts */
	MUST_WORK(blob_put(&data, &ref, "1", 1));
	data.read_only = true;
	MUST_FAIL(EROFS, pt_data_create(&data, &ref, 0, &blob));
	MUST_FAIL(EROFS, pt_data_remove(&data, &ref));
	MUST_FAIL(EROFS, pt_data_sweep(&data, &n));
	MUST_WORK(blob_get(&data, &ref, &b, 1, 0));
	pt_data_close(&data);
	pt_data_close(&data);
}
END_TEST

START_TEST(space_sync_and_buffers_answer)
{
	struct pt_data_space space;
	char b[64];

	open_engine(_i);
	MUST_WORK(pt_data_space(&data, &space));
	ck_assert_uint_gt(space.total_bytes, 0);
	ck_assert_uint_le(space.free_bytes, space.total_bytes);
	MUST_WORK(pt_data_sync(&data));
	MUST_WORK(pt_data_buffer_register(&data, b, sizeof(b)));
	pt_data_buffer_unregister(&data, b);
	ck_assert(data.ops->durable == DATA_DURABLE(_i));
	pt_data_close(&data);
}
END_TEST

static void *put_read_remove(void *ctx)
{
	uint8_t bytes[20000], got[20000];

	for (int i = 0; i < 40; i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
		bool pinned;

		pattern_fill(bytes, sizeof(bytes), (uint64_t)(uintptr_t)ctx * 100 + (uint64_t)i);
		MUST_WORK(blob_put(&data, &ref, bytes, sizeof(bytes)));
		MUST_WORK(pt_data_pin(&data, &ref, 1));
		for (int j = 0; j < 5; j++) {
			MUST_WORK(blob_get(&data, &ref, got, sizeof(got), 0));
			MUST(memcmp(bytes, got, sizeof(got)) == 0);
		}
		MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
		MUST(pinned);
		pt_data_unpin(&data, &ref, 1);
		if (i % 2)
			MUST_WORK(pt_data_remove(&data, &ref));
	}
	return NULL;
}

START_TEST(threads_do_not_disturb_each_other)
{
	struct census c = { .sealed = 0 };
	pthread_t threads[4];

	open_engine(_i);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, put_read_remove, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	MUST_WORK(pt_data_list(&data, count_blob, &c));
	ck_assert_int_eq(c.sealed, 80);
	pt_data_close(&data);
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_nothing_leaks)
{
	const char *dir = dir_make();
	int n, rc = -ENOMEM;

	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = _i ? pt_data_memory_open(1000, 0, &data) : pt_data_file_open(dir, &data);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	ck_assert_int_gt(n, 3);
	rc = -ENOMEM;
	for (n = 0; rc < 0; n++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
		char b[10];
		bool pinned;

		pt_alloc_fail_after(n);
		rc = blob_put(&data, &ref, "12345", 5);
		if (rc == 0)
			rc = blob_get(&data, &ref, b, 5, 0);
		if (rc == 0)
			rc = pt_data_pin(&data, &ref, 1);
		if (rc == 0)
			rc = pt_data_pinned(&data, &ref, 1, &pinned);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
		ck_assert(rc < 0 || pinned);
	}
	pt_data_close(&data);
}
END_TEST

START_TEST(memory_holds_its_capacity_and_no_more)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), big = blob_new(PT_BLOB_TENSOR), other = blob_new(PT_BLOB_PLAIN);
	struct pt_data_space space;
	uint8_t *bytes = calloc(1, 1 << 20);
	const void *addr;
	void *blob, *map;

	MUST_WORK(pt_data_memory_open(1 << 20, 0, &data));
	MUST_WORK(blob_put(&data, &ref, bytes, 1 << 19));
	MUST_FAIL(ENOSPC, blob_put(&data, &big, bytes, (1 << 19) + 1));
	MUST_WORK(pt_data_create(&data, &big, 0, &blob));
	MUST_WORK(pt_data_write(&data, blob, bytes, 1 << 18, 0));
	MUST_FAIL(ENOSPC, pt_data_write(&data, blob, bytes, 1, UINT64_C(1) << 40));
	MUST_FAIL(ENOSPC, pt_data_write(&data, blob, bytes, 1, 1 << 19));
	MUST_FAIL(ENOSPC, pt_data_seal(&data, blob, (1 << 19) + 1));    /* and aborts */
	MUST_WORK(pt_data_space(&data, &space));
	ck_assert_uint_eq(space.total_bytes, 1 << 20);
	ck_assert_uint_eq(space.used_bytes, 1 << 19);
	ck_assert_uint_eq(space.free_bytes, 1 << 19);
	MUST_WORK(pt_data_map(&data, &ref, 0, 10, &addr, &map));
	MUST_WORK(pt_data_remove(&data, &ref));
	MUST_FAIL(ENOSPC, blob_put(&data, &other, bytes, 1 << 20));
	pt_data_unmap(&data, map);
	MUST_WORK(blob_put(&data, &other, bytes, 1 << 20));
	pt_data_close(&data);
	free(bytes);
}
END_TEST

int main(void)
{
	TCase *tcases[] = { tcase_create("every engine"), tcase_create("memory") };

	tcase_add_loop_test(tcases[0], blobs_of_any_size_come_back, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], pieces_in_any_order_with_gaps_make_a_blob, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], a_seal_may_cut_what_was_written, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], a_staged_blob_is_seen_by_the_list_only, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], an_aborted_blob_leaves_nothing, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], an_id_is_used_once, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], many_ranges_of_many_blobs_come_in_one_call, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], reads_beyond_the_end_and_of_absent_blobs_fail_whole, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], a_removed_blob_is_gone, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], pins_are_counted, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], a_map_shows_the_bytes_or_is_not_to_be_had, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], a_blob_that_is_a_file_is_lent_for_reading, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], nonsense_is_refused, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], space_sync_and_buffers_answer, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], threads_do_not_disturb_each_other, 0, DATA_ENGINES);
	tcase_add_loop_test(tcases[0], each_failed_allocation_is_reported_and_nothing_leaks, 0, 2);
	tcase_add_test(tcases[1], memory_holds_its_capacity_and_no_more);
	return run_suite("store: data", tcases, 2);
}

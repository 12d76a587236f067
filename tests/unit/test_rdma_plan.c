/* tests/unit/test_rdma_plan.c - READs that are planned give every range its bytes, ask for no more than they say, and follow the costs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/rdma_costs.h"
#include "net/rdma_plan.h"
#include "unit/rng.h"
#include "unit/store_support.h"

struct totals {
	uint64_t requests, bytes_read, bytes_asked;
};

/* Does what a device would, with remote memory here. */
static struct totals run(const uint8_t *remote, const struct pt_rdma_range *ranges, uint32_t count, const struct pt_rdma_costs *costs)
{
	struct pt_rdma_piece *pieces = calloc(costs->pieces_max, sizeof(*pieces));
	uint8_t *bounce = malloc(costs->bounce_max + 1);
	struct pt_rdma_plan plan;
	struct pt_rdma_read read;
	struct totals t = { 0 };

	for (uint32_t i = 0; i < count; i++)
		t.bytes_asked += ranges[i].len;
	pt_rdma_plan_init(&plan, ranges, count, costs);
	while (pt_rdma_plan_next(&plan, pieces, &read)) {
		uint64_t at = 0;

		MUST(read.len > 0 && read.len <= costs->read_max);
		t.requests++;
		t.bytes_read += read.len;
		if (read.bounce) {
			MUST(read.len <= costs->bounce_max);
			memcpy(bounce, remote + read.remote, read.len);
			pt_rdma_plan_copy(&plan, &read, bounce);
			continue;
		}
		MUST(read.piece_count >= 1 && read.piece_count <= costs->pieces_max);
		for (uint32_t i = 0; i < read.piece_count; i++) {
			memcpy(pieces[i].buf, remote + read.remote + at, pieces[i].len);
			at += pieces[i].len;
		}
		MUST(at == read.len);
	}
	free(pieces);
	free(bounce);
	return t;
}

START_TEST(random_ranges_all_get_their_bytes)
{
	struct rng r = { rng_seed(12) };
	uint8_t *remote = malloc(1 << 20), *local = malloc(4 << 20);
	struct pt_rdma_range ranges[200];

	pattern_fill(remote, 1 << 20, 9);
	for (int n = 0; n < 2000; n++) {
		struct pt_rdma_costs c = { .request_ns = rng_between(&r, 0, 3000), .byte_ps = rng_between(&r, 1, 1000), .copy_ps = rng_between(&r, 0, 500),
					   .pieces_max = (uint32_t)rng_between(&r, 1, 32), .read_max = rng_between(&r, 1, 100000),
					   .bounce_max = rng_below(&r, 3) ? rng_between(&r, 0, 200000) : 0 };
		uint32_t count = (uint32_t)rng_between(&r, 0, 200);
		uint64_t at = 0, to = 0;
		struct totals t;

		for (uint32_t i = 0; i < count; i++) {
			uint64_t len = rng_below(&r, 4) ? rng_below(&r, 3000) : 0;

			/* Forwards with gaps or without, sometimes back. */
			at += rng_below(&r, 2) ? rng_below(&r, 2000) : 0;
			if (at + len > 1 << 20 || rng_below(&r, 30) == 0)
				at = rng_below(&r, 1000);
			to += rng_below(&r, 3) ? 0 : 100;
			ranges[i] = (struct pt_rdma_range){ at, len, local + to, (uint32_t)rng_below(&r, 2) };
			at += len;
			to += len;
		}
		memset(local, 0, to + 1);
		t = run(remote, ranges, count, &c);
		MUST(t.bytes_read >= t.bytes_asked);
		MUST(c.bounce_max || t.bytes_read == t.bytes_asked);
		for (uint32_t i = 0; i < count; i++)
			MUST(memcmp(ranges[i].buf, remote + ranges[i].remote, ranges[i].len) == 0);
	}
	free(remote);
	free(local);
}
END_TEST

#define DIM 4096u
#define ROW (DIM * 2)                   /* bf16 */
#define SHARD_ROW (ROW / 4)

/* tp=1of4,dim=1 of a [4096,4096] bf16 tensor, with these costs. */
static struct totals shard(const struct pt_rdma_costs *costs)
{
	uint8_t *remote = malloc((size_t)DIM * ROW), *local = calloc(DIM, SHARD_ROW);
	struct pt_rdma_range *ranges = calloc(DIM, sizeof(*ranges));
	struct totals t;

	pattern_fill(remote, (size_t)DIM * ROW, 2);
	for (uint32_t i = 0; i < DIM; i++)
		ranges[i] = (struct pt_rdma_range){ (uint64_t)i * ROW + SHARD_ROW, SHARD_ROW, local + (size_t)i * SHARD_ROW, 1 };
	t = run(remote, ranges, DIM, costs);
	for (uint32_t i = 0; i < DIM; i++)
		MUST(memcmp(ranges[i].buf, remote + ranges[i].remote, SHARD_ROW) == 0);
	free(ranges);
	free(remote);
	free(local);
	return t;
}

START_TEST(a_strided_shard_is_read_row_by_row_where_requests_are_cheap)
{
	struct pt_rdma_costs c = { .request_ns = 100, .byte_ps = 80, .copy_ps = 100, .pieces_max = 32, .read_max = 1 << 20, .bounce_max = 1 << 20 };
	struct totals t = shard(&c);

	ck_assert_uint_eq(t.bytes_read, t.bytes_asked);
	ck_assert_uint_le(t.requests, 4096);
}
END_TEST

START_TEST(a_strided_shard_is_read_in_spans_where_bytes_are_cheap)
{
	struct pt_rdma_costs c = { .request_ns = 20000, .byte_ps = 80, .copy_ps = 100, .pieces_max = 32, .read_max = 1 << 20, .bounce_max = 1 << 20 };
	struct totals t = shard(&c);

	ck_assert_uint_le(t.bytes_read, 4 * t.bytes_asked);
	ck_assert_uint_le(t.requests, 64);
}
END_TEST

START_TEST(a_full_read_of_a_set_split_on_the_first_dim_asks_for_exactly_its_bytes)
{
	struct pt_rdma_costs c = { .request_ns = 20000, .byte_ps = 80, .copy_ps = 100, .pieces_max = 32, .read_max = 1 << 20, .bounce_max = 1 << 20 };
	uint8_t *remote = malloc(17 << 20), *local = malloc(16 << 20);
	struct pt_rdma_range ranges[4];
	struct totals t;

	pattern_fill(remote, 17 << 20, 2);
	for (uint32_t i = 0; i < 4; i++)
		ranges[i] = (struct pt_rdma_range){ (uint64_t)i * ((4 << 20) + 8192), 4 << 20, local + (size_t)i * (4 << 20), 1 };
	t = run(remote, ranges, 4, &c);
	ck_assert_uint_eq(t.bytes_read, 16 << 20);
	ck_assert_uint_eq(t.requests, 16);
	free(remote);
	free(local);
}
END_TEST

START_TEST(neighbours_in_remote_memory_are_one_request_with_a_list)
{
	struct pt_rdma_costs c = { .request_ns = 1000, .byte_ps = 80, .copy_ps = 100, .pieces_max = 4, .read_max = 1 << 20 };
	uint8_t remote[1000], local[2000];
	struct pt_rdma_range ranges[10];
	struct totals t;

	pattern_fill(remote, sizeof(remote), 2);
	for (uint32_t i = 0; i < 10; i++)
		ranges[i] = (struct pt_rdma_range){ i * 100, 100, local + (size_t)i * 200, 1 };
	t = run(remote, ranges, 10, &c);
	ck_assert_uint_eq(t.requests, 3);
	ck_assert_uint_eq(t.bytes_read, 1000);
	/* Neighbours on both sides are one piece. */
	for (uint32_t i = 0; i < 10; i++)
		ranges[i].buf = local + (size_t)i * 100;
	t = run(remote, ranges, 10, &c);
	ck_assert_uint_eq(t.requests, 1);
}
END_TEST

START_TEST(prices_are_three_numbers)
{
	static const char *const bad[] = { "", "1", "1,2", "1,2,", "1,2,3,", "1,2,3,4", "-1,2,3", " 1,2,3", "1,2,x", "1,,3", "1,2,1000000001", "99999999999999999999,1,1" };
	struct pt_rdma_costs c = { .read_max = 5 };

	MUST_WORK(pt_rdma_costs_parse("0,80,1000000000", &c));
	ck_assert_uint_eq(c.request_ns, 0);
	ck_assert_uint_eq(c.byte_ps, 80);
	ck_assert_uint_eq(c.copy_ps, 1000000000);
	ck_assert_uint_eq(c.read_max, 5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		MUST_FAIL(EINVAL, pt_rdma_costs_parse(bad[i], &c));
	ck_assert_uint_eq(c.byte_ps, 80);
}
END_TEST

/* Of a 100 Gbit/s device, of soft-RoCE, of nonsense, of nothing: and which side a strided shard is read by then. */
START_TEST(prices_come_from_times_and_decide_how_a_strided_shard_is_read)
{
	static const struct {
		struct pt_rdma_times times;
		uint64_t request_ns, byte_ps, copy_ps;
		bool apart;
	} cases[] = {
		/* (8200 - 2000) / 31, 1000 * (89386 - 2000) / 1048576, 1000 * 52429 / 524288; a gap of 6 KiB is 510 ns of moving and 205 of copying */
		{ { 2000, 8200, 32, 89386, 1048576, 52429, 524288 }, 200, 83, 100, true },
		/* The same with requests of 1.5 us. */
		{ { 2000, 48500, 32, 89386, 1048576, 52429, 524288 }, 1500, 83, 100, false },
		/* (400000 - 90000) / 31, 1000 * (4284304 - 90000) / 262144; a gap is 98 us */
		{ { 90000, 400000, 32, 4284304, 262144, 300000, 524288 }, 10000, 16000, 572, true },
		/* Many that take no longer than one, a large one that is faster, time that stands still or flies: at the bounds. */
		{ { 5000, 5000, 32, 100, 1048576, 1, 524288 }, PT_RDMA_REQUEST_NS_MIN, PT_RDMA_BYTE_PS_MIN, PT_RDMA_COPY_PS_MIN, true },
		{ { 1, UINT64_MAX, 2, UINT64_MAX, 1, UINT64_MAX, 1 }, PT_RDMA_REQUEST_NS_MAX, PT_RDMA_BYTE_PS_MAX, PT_RDMA_COPY_PS_MAX, true },
		/* What was not taken is as usual. */
		{ { 0 }, PT_RDMA_REQUEST_NS, PT_RDMA_BYTE_PS, PT_RDMA_COPY_PS, false },
		{ { 2000, 0, 32, 89386, 1048576, 0, 0 }, PT_RDMA_REQUEST_NS, 83, PT_RDMA_COPY_PS, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pt_rdma_costs c = { .pieces_max = 32, .read_max = 1 << 20, .bounce_max = 1 << 20 };
		struct totals t;

		pt_rdma_costs_from_times(&cases[i].times, &c);
		ck_assert_uint_eq(c.request_ns, cases[i].request_ns);
		ck_assert_uint_eq(c.byte_ps, cases[i].byte_ps);
		ck_assert_uint_eq(c.copy_ps, cases[i].copy_ps);
		ck_assert_uint_eq(c.read_max, 1 << 20);
		t = shard(&c);
		if (cases[i].apart)
			ck_assert(t.bytes_read == t.bytes_asked && t.requests == 4096);
		else
			ck_assert(t.bytes_read <= 4 * t.bytes_asked && t.requests <= 64);
	}
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("plan");

	tcase_add_test(tcase, random_ranges_all_get_their_bytes);
	tcase_add_test(tcase, a_strided_shard_is_read_row_by_row_where_requests_are_cheap);
	tcase_add_test(tcase, a_strided_shard_is_read_in_spans_where_bytes_are_cheap);
	tcase_add_test(tcase, a_full_read_of_a_set_split_on_the_first_dim_asks_for_exactly_its_bytes);
	tcase_add_test(tcase, neighbours_in_remote_memory_are_one_request_with_a_list);
	tcase_add_test(tcase, prices_are_three_numbers);
	tcase_add_test(tcase, prices_come_from_times_and_decide_how_a_strided_shard_is_read);
	return run_suite("net: RDMA plan", &tcase, 1);
}

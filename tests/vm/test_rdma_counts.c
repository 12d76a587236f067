/* tests/vm/test_rdma_counts.c - through the public API, reads by RDMA move what they should and no more: work requests, bytes moved and bytes asked for. A
 * ptiod at 10.77.0.1, this process at 10.77.0.2. Runs in tests/vm/vm only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/remote.h"
#include "tensor/api_int.h"
#include "unit/daemon.h"
#include "unit/store_support.h"

#define DIM 4096u
#define ROW (DIM * 2)                   /* bf16 */
#define ALL ((uint64_t)DIM * ROW)
#define SHARD (ALL / 4)

static struct ptio *p;
static uint8_t *bytes;                  /* of the tensor [4096, 4096] */

/* costs: of PTIO_RDMA_COSTS, or NULL for as they are. */
static void start(const char *costs)
{
	const char *args[] = { "--listen", "10.77.0.1:0", "--rdma", "yes", "--arena", "96M", NULL };
	struct ptio_options options = { .create = 1 };
	const char *dir = dir_make();
	static struct daemon d;
	char uri[80];

	daemon_start_first(&d, dir, "mem:128M", args);
	snprintf(uri, sizeof(uri), "rdma://10.77.0.1:%u", d.port);
	setenv("PTIO_SECRET_FILE", daemon_secret(dir), 1);
	setenv("PTIO_RDMA_BIND", "10.77.0.2", 1);
	if (costs)
		setenv("PTIO_RDMA_COSTS", costs, 1);
	MUST_WORK(ptio_open(uri, &options, &p));
	bytes = malloc(ALL);
	pattern_fill(bytes, ALL, 7);
}

static void stop(void)
{
	ptio_close(p);
	free(bytes);
}

static struct pt_remote_rdma_status status(void)
{
	struct pt_remote_rdma_status s;

	MUST(pt_remote_rdma_info(&pt_repo_store(p->repo)->data, &s));
	return s;
}

static void must_not_use_tcp(void)
{
	struct pt_remote_tcp_status tcp;

	MUST(pt_remote_tcp_info(&pt_repo_store(p->repo)->data, &tcp));
	ck_assert_uint_eq(tcp.bytes_read, 0);
	ck_assert_uint_eq(status().fallbacks, 0);
}

static void put(const char *key, const struct ptio_write *how)
{
	struct ptio_tensor t = { .dtype = PTIO_BF16, .ndim = 2, .shape = { DIM, DIM }, .data = bytes, .bytes = ALL };

	MUST_WORK(ptio_put(p, key, &t, how));
}

/* What one read of the target moved. into: to a registered buffer, else to memory of ptio's. */
static struct pt_remote_rdma_status read_one(const char *key, const struct ptio_read_target *target, bool into, uint8_t *ret_payload, uint64_t len)
{
	struct pt_remote_rdma_status before = status(), after;
	uint8_t *buf = malloc(len + 4096);
	struct ptio_tensor t;

	if (into) {
		MUST_WORK(ptio_register_buffer(p, buf, len + 4096));
		MUST(ptio_get_into(p, key, target, buf, len + 4096, &t) > 0);
		MUST_WORK(ptio_unregister_buffer(p, buf));
	} else {
		MUST_WORK(ptio_get(p, key, target, &t));
	}
	ck_assert_uint_eq(t.bytes, len);
	memcpy(ret_payload, t.data, len);
	if (!into)
		ptio_tensor_done(&t);
	free(buf);
	after = status();
	after.requests -= before.requests;
	after.bytes_read -= before.bytes_read;
	after.bytes_asked -= before.bytes_asked;
	after.bounced_bytes -= before.bounced_bytes;
	return after;
}

START_TEST(a_full_read_of_a_set_split_on_dim_0_asks_for_exactly_its_bytes)
{
	struct ptio_read_target full = { .mode = PTIO_FULL };
	struct pt_remote_rdma_status moved;
	uint8_t *got = malloc(ALL);

	start(NULL);
	for (int32_t rank = 0; rank < 4; rank++) {
		struct ptio_writer_partition writer = { rank, 4, 0 };
		struct ptio_write how = { .writer = &writer };

		put("w", &how);
	}
	for (int into = 0; into < 2; into++) {
		moved = read_one("w", &full, into, got, ALL);
		ck_assert(memcmp(got, bytes, ALL) == 0);
		ck_assert_uint_eq(moved.bytes_asked, ALL);
		ck_assert_uint_eq(moved.bytes_read, ALL);
		ck_assert_uint_eq(moved.bounced_bytes, into ? 0 : ALL);
		/* Of at most 1 MiB, from four places. */
		ck_assert_uint_le(moved.requests, 36);
	}
	must_not_use_tcp();
	stop();
	free(got);
}
END_TEST

/* The columns of rank 1 of 4: 4,096 pieces of 2 KiB, 8 KiB apart. */
static void strided(bool into, struct pt_remote_rdma_status *ret_moved)
{
	struct ptio_axis axis = ptio_axis_tp(1, 4, 1);
	struct ptio_parallelism parallelism = { .axes = &axis, .axis_count = 1 };
	struct ptio_read_target target = { .mode = PTIO_SHARD, .parallelism = &parallelism };
	uint8_t *got = malloc(SHARD);

	*ret_moved = read_one("w", &target, into, got, SHARD);
	for (uint32_t i = 0; i < DIM; i++)
		MUST(memcmp(got + (size_t)i * (ROW / 4), bytes + (size_t)i * ROW + ROW / 4, ROW / 4) == 0);
	ck_assert_uint_eq(ret_moved->bytes_asked, SHARD);
	must_not_use_tcp();
	free(got);
}

START_TEST(a_strided_shard_reads_its_own_bytes_where_requests_are_cheap)
{
	struct pt_remote_rdma_status moved;

	start("100,80,100");
	put("w", NULL);
	strided(_i, &moved);
	ck_assert_str_eq(moved.costs_from, "told");
	ck_assert_uint_eq(moved.bytes_read, SHARD);
	ck_assert_uint_le(moved.requests, 4096);
	stop();
}
END_TEST

START_TEST(a_strided_shard_is_read_in_a_few_spans_where_requests_are_dear)
{
	struct pt_remote_rdma_status moved;

	start("20000,80,100");
	put("w", NULL);
	strided(_i, &moved);
	ck_assert_uint_le(moved.bytes_read, 4 * SHARD);
	ck_assert_uint_le(moved.requests, 64);
	stop();
}
END_TEST

START_TEST(a_strided_shard_is_read_as_the_prices_of_this_connection_say)
{
	uint64_t apart, together, spans = ALL / (1 << 20);
	struct pt_remote_rdma_status moved;

	start(NULL);
	put("w", NULL);
	strided(_i, &moved);
	apart = DIM * moved.request_ns + SHARD * moved.byte_ps / 1000;
	together = spans * moved.request_ns + (ALL - spans * (ROW - ROW / 4)) * moved.byte_ps / 1000 + SHARD * moved.copy_ps / 1000;
	ck_assert_str_eq(moved.costs_from, "measured");
	printf("%s: request %llu ns, byte %llu ps, copy %llu ps: %llu us apart, %llu us together; %llu requests\n", moved.costs_from,
	       (unsigned long long)moved.request_ns, (unsigned long long)moved.byte_ps, (unsigned long long)moved.copy_ps,
	       (unsigned long long)apart / 1000, (unsigned long long)together / 1000, (unsigned long long)moved.requests);
	if (apart < together) {
		ck_assert_uint_eq(moved.bytes_read, SHARD);
		ck_assert_uint_le(moved.requests, 4096);
	} else {
		ck_assert_uint_le(moved.bytes_read, 4 * SHARD);
		ck_assert_uint_le(moved.requests, 64);
	}
	stop();
}
END_TEST

START_TEST(prices_that_are_no_numbers_are_refused)
{
	struct ptio *other;
	const char *uri;

	start(NULL);
	uri = pt_repo_store(p->repo)->uri;
	setenv("PTIO_RDMA_COSTS", "cheap", 1);
	ck_assert_int_eq(ptio_open(uri, NULL, &other), -EINVAL);
	ck_assert_ptr_nonnull(strstr(ptio_last_error(), "\"cheap\" is not what RDMA costs"));
	stop();
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("counts");

	tcase_add_test(tcase, a_full_read_of_a_set_split_on_dim_0_asks_for_exactly_its_bytes);
	tcase_add_loop_test(tcase, a_strided_shard_reads_its_own_bytes_where_requests_are_cheap, 0, 2);
	tcase_add_loop_test(tcase, a_strided_shard_is_read_in_a_few_spans_where_requests_are_dear, 0, 2);
	tcase_add_loop_test(tcase, a_strided_shard_is_read_as_the_prices_of_this_connection_say, 0, 2);
	tcase_add_test(tcase, prices_that_are_no_numbers_are_refused);
	return run_suite("vm: RDMA counts", &tcase, 1);
}

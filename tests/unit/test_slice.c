/* tests/unit/test_slice.c - the stream filter passes on exactly the owned bytes, in order, whatever the shape, the cut and the pieces. */
#include "lib/tensor_help.h"
#include "tensor/slice.h"
#include "unit/rng.h"

struct got {
	uint8_t *data;
	uint64_t len, room;
	uint64_t calls;
	int fail;
};

static int take(void *ctx, const void *data, uint64_t len)
{
	struct got *g = ctx;

	if (g->fail)
		return g->fail;
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_le(g->len + len, g->room);
	if (data)
		memcpy(g->data + g->len, data, len);
	else
		memset(g->data + g->len, 0, len);
	g->len += len;
	g->calls++;
	return 0;
}

static void run_one(struct rng *r)
{
	static const enum pt_dtype dtypes[] = { PT_DTYPE_U8, PT_DTYPE_F16, PT_DTYPE_F32, PT_DTYPE_C128, PT_DTYPE_F4_E2M1 };
	enum pt_dtype dtype = dtypes[rng_below(r, 5)];
	struct pt_shape shape = { .ndim = (uint32_t)rng_below(r, 5) };
	uint64_t unit = dtype == PT_DTYPE_F4_E2M1 ? 1 : pt_dtype_info(dtype)->bits / 8, bytes, at, n, i, inner = unit, outer = 1;
	struct pt_box box;
	struct got g = { 0 };
	uint8_t *stream;
	struct pt_slice s;
	uint32_t d, cut;

	if (dtype == PT_DTYPE_F4_E2M1 && !shape.ndim)
		shape.ndim = 1;
	for (d = 0; d < shape.ndim; d++)
		shape.dim[d] = rng_below(r, 9);
	if (dtype == PT_DTYPE_F4_E2M1)
		shape.dim[shape.ndim - 1] *= 2;
	OK(pt_shape_bytes(&shape, dtype, &bytes));
	pt_shape_box(&shape, &box);
	cut = shape.ndim ? (uint32_t)rng_below(r, shape.ndim) : 0;
	if (shape.ndim) {
		box.off[cut] = rng_between(r, 0, shape.dim[cut]);
		box.ext[cut] = rng_between(r, 0, shape.dim[cut] - box.off[cut]);
		if (dtype == PT_DTYPE_F4_E2M1 && cut == shape.ndim - 1) {
			box.off[cut] &= ~(uint64_t)1;
			box.ext[cut] &= ~(uint64_t)1;
		}
	}
	stream = calloc(1, bytes + 1);
	for (i = 0; i < bytes; i++)
		stream[i] = (uint8_t)rng_next(r);
	g.room = bytes;
	g.data = calloc(1, bytes + 1);
	OK(pt_slice_init(&s, &shape, dtype, &box, take, &g));
	ck_assert_uint_eq(s.total, bytes);
	for (at = 0; at < bytes; at += n) {
		n = rng_between(r, 1, rng_below(r, 4) ? 7 : bytes - at);
		if (n > bytes - at)
			n = bytes - at;
		if (rng_below(r, 3)) {
			OK(pt_slice_feed(&s, stream + at, n));
		} else {
			memset(stream + at, 0, n);
			OK(pt_slice_feed(&s, NULL, n));
		}
	}
	OK(pt_slice_flush(&s));
	ck_assert_int_eq(pt_slice_feed(&s, stream, 1), -EINVAL);
	pt_slice_done(&s);
	/* element by element */
	for (d = 0; d < shape.ndim; d++) {
		uint64_t dim = dtype == PT_DTYPE_F4_E2M1 && d == shape.ndim - 1 ? shape.dim[d] / 2 : shape.dim[d];

		outer *= d < cut ? dim : 1;
		inner *= d > cut ? dim : 1;
	}
	for (i = 0, at = 0; shape.ndim && bytes && i < outer; i++) {
		uint64_t half = dtype == PT_DTYPE_F4_E2M1 && cut == shape.ndim - 1 ? 2 : 1, k;

		for (k = 0; k < box.ext[cut] / half * inner; k++)
			ck_assert_uint_eq(g.data[at++], stream[(i * (shape.dim[cut] / half) + box.off[cut] / half) * inner + k]);
	}
	if (!shape.ndim) {
		ck_assert_mem_eq(g.data, stream, bytes);
		at = bytes;
	}
	ck_assert_uint_eq(at, g.len);
	free(stream);
	free(g.data);
}

START_TEST(owned_bytes_come_out_in_order)
{
	struct rng r = { rng_seed(11) };
	int i;

	for (i = 0; i < 20000; i++)
		run_one(&r);
}
END_TEST

START_TEST(a_run_of_zeros_is_one_call_however_long)
{
	struct pt_shape shape = help_shape("1000000,4096");
	struct pt_box box;
	struct got g = { .room = UINT64_MAX };
	struct pt_slice s;

	pt_shape_box(&shape, &box);
	box.off[1] = 1024;
	box.ext[1] = 1024;
	g.fail = -ENOSPC;                       /* nothing is taken: only how it is asked matters */
	OK(pt_slice_init(&s, &shape, PT_DTYPE_F32, &box, take, &g));
	ck_assert_int_eq(pt_slice_feed(&s, NULL, s.total), -ENOSPC);
	pt_slice_done(&s);
}
END_TEST

START_TEST(small_runs_are_gathered)
{
	struct pt_shape shape = help_shape("65536,8");
	struct pt_box box;
	struct got g = { 0 };
	struct pt_slice s;
	uint8_t *stream;

	pt_shape_box(&shape, &box);
	box.off[1] = 3;
	box.ext[1] = 1;
	stream = calloc(1, 65536 * 8);
	g.room = 65536;
	g.data = malloc(g.room);
	OK(pt_slice_init(&s, &shape, PT_DTYPE_U8, &box, take, &g));
	OK(pt_slice_feed(&s, stream, 65536 * 8));
	OK(pt_slice_flush(&s));
	ck_assert_uint_eq(g.len, 65536);
	ck_assert_uint_le(g.calls, 2);
	pt_slice_done(&s);
	free(stream);
	free(g.data);
}
END_TEST

START_TEST(boxes_that_a_stream_cannot_give_are_refused)
{
	struct pt_shape shape = help_shape("4,4"), nibbles = help_shape("4,4");
	struct pt_box box;
	struct pt_slice s;

	pt_shape_box(&shape, &box);
	box.ext[0] = box.ext[1] = 2;
	FAILS(pt_slice_init(&s, &shape, PT_DTYPE_U8, &box, take, NULL), EINVAL);
	pt_shape_box(&shape, &box);
	box.off[0] = 3;
	FAILS(pt_slice_init(&s, &shape, PT_DTYPE_U8, &box, take, NULL), EINVAL);
	pt_shape_box(&nibbles, &box);
	box.off[1] = 1;
	box.ext[1] = 2;
	FAILS(pt_slice_init(&s, &nibbles, PT_DTYPE_F4_E2M1, &box, take, NULL), EINVAL);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, owned_bytes_come_out_in_order);
	tcase_add_test(tc, a_run_of_zeros_is_one_call_however_long);
	tcase_add_test(tc, small_runs_are_gathered);
	tcase_add_test(tc, boxes_that_a_stream_cannot_give_are_refused);
}

int main(void)
{
	return run_case("slice", add);
}

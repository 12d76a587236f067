/* tests/unit/test_conformance_axes.c - cases A17..A35: several axes, scopes, writer partitions, full reads. */
#include "lib/case.h"

#include <stdio.h>

CASE(A17_dp_and_tp_exact)
	struct ptio_tensor x = ar(PTIO_F32, "4,6", 0);

	put_ranks("k", x, "dp=1of2/tp=Rof3@1", 3, 1);
	EXPECT("k", "shard dp=1of2/tp=0of3@1", floats("4,2", 0.0, 1.0, 6.0, 7.0, 12.0, 13.0, 18.0, 19.0));
END_CASE

CASE(A18_batch_of_two_layouts)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor x = ar(PTIO_F32, "4,6", 0), y = ar(PTIO_F32, "6,8", 0), have[2], want[2];
	struct ptio_read_target targets[2] = { *target("shard dp=0of2/tp=1of3@1"), *target("shard pp=1of2s9/tp=0of2@0") };
	int codes[2], i;

	put_ranks("a", x, "dp=0of2/tp=Rof3@1", 3, 1);
	put_ranks("b", y, "pp=1of2s9/tp=Rof2@0", 2, 0);
	want[0] = floats("4,2", 2.0, 3.0, 8.0, 9.0, 14.0, 15.0, 20.0, 21.0);
	want[1] = ar(PTIO_F32, "3,8", 0);
	OK(ptio_batch_get(P, keys, 2, targets, 2, have, codes));
	for (i = 0; i < 2; i++) {
		ck_assert(!codes[i] && same(&have[i], &want[i]));
		ptio_tensor_done(&have[i]);
	}
END_CASE

CASE(A19_axis_order_is_irrelevant)
	put_ranks("k", ar(PTIO_F32, "2,4", 0), "pp=0of2s7/tp=Rof2@1", 2, 1);
	EXPECT("k", "shard tp=1of2@1/pp=0of2s7", floats("2,2", 2.0, 3.0, 6.0, 7.0));
END_CASE

static void expect_axis(const uint8_t *object, int i, int kind, int rank, int count, int dim, int id, int64_t extent)
{
	int32_t have[6];
	int64_t have_extent;

	memcpy(have, object + 176 + 32 * i, sizeof(have));
	memcpy(&have_extent, object + 176 + 32 * i + 24, 8);
	ck_assert_int_eq(have[0], kind);
	ck_assert_int_eq(have[1], i);
	ck_assert_int_eq(have[2], rank);
	ck_assert_int_eq(have[3], count);
	ck_assert_int_eq(have[4], dim);
	ck_assert_int_eq(have[5], id);
	ck_assert_int_eq(have_extent, extent);
}

CASE(A20_four_axes)
	const uint8_t *o;
	uint64_t size;
	char *json;

	put_ranks("m.w", ar(PTIO_F32, "2,4", 0), "dp=0of2/pp=1of4s9/ep=3of16e42/tp=Rof2@1", 2, 1);
	EXPECT("m.w", "shard tp=1of2@1/ep=3of16e42/dp=0of2/pp=1of4s9", floats("2,2", 2.0, 3.0, 6.0, 7.0));
	o = object_at("m.w", "as_stored tp=0of2@1/ep=3of16e42/dp=0of2/pp=1of4s9", &size);
	ck_assert_int_eq(o[168], 4);
	expect_axis(o, 0, 0, 0, 2, -1, 0, 0);
	expect_axis(o, 1, 3, 1, 4, -1, 9, 0);
	expect_axis(o, 2, 2, 3, 16, -1, 42, 0);
	expect_axis(o, 3, 1, 0, 2, 1, 0, 2);
	OK(ptio_describe_json(P, "m.w", &json));
	ck_assert_ptr_nonnull(strstr(json, "dp=0of2/tp=0of2,dim=1/ep=3of16,expert=42/pp=1of4,stage=9"));
	free(json);
END_CASE

/* ---- O: scope axes only ---- */

CASE(A21_dp_object)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);
	const uint8_t *o;
	uint64_t size;

	OK(put("k", x, "dp=0of2"));
	EXPECT("k", "shard dp=0of2", x);
	EXPECT_CODE("k", "shard dp=1of2", -ENOENT);
	EXPECT_CODE("k", NULL, -ENOENT);
	EXPECT("k", "full dp=0of2", x);
	o = object_at("k", "shard dp=0of2", &size);
	ck_assert_int_eq(o[16], 1);
	ck_assert_mem_eq(o + 40, o + 104, 64);
	expect_axis(o, 0, 0, 0, 2, -1, 0, 0);
END_CASE

CASE(A22_ep_object)
	struct ptio_tensor x = bytes_of(PTIO_BF16, "3", "\x80\x3f\x00\x40\xc0\xbf");
	const uint8_t *o;
	uint64_t size;

	OK(put("w", x, "ep=1of4e11"));
	EXPECT("w", "shard ep=1of4e11", x);
	EXPECT_CODE("w", "shard ep=1of4e12", -ENOENT);
	o = object_at("w", "shard ep=1of4e11", &size);
	expect_sha(o, size, "5e7cf74529d7fdbfa2990bd571222944f5a1238b25d0875e2fcbc8fb839af7b5");
END_CASE

/* ---- W: writer partitions ---- */

CASE(A23_four_writers)
	struct ptio_tensor x = ar(PTIO_F32, "6,8", 0);
	char shard[64];
	int r;

	put_ranks("k", x, "writer=Rof4@1", 4, 1);
	EXPECT("k", "full", x);
	EXPECT("k", "shard tp=2of4@1", floats("6,2", 4.0, 5.0, 12.0, 13.0, 20.0, 21.0, 28.0, 29.0, 36.0, 37.0, 44.0, 45.0));
	for (r = 0; r < 4; r++) {
		snprintf(shard, sizeof(shard), "shard tp=%dof4@1", r);
		EXPECT("k", shard, part(x, 1, r, 4));
		snprintf(shard, sizeof(shard), "shard writer=%dof4@1", r);
		EXPECT("k", shard, part(x, 1, r, 4));
	}
	EXPECT("k", "full writer=0of4@1", x);
	ck_assert_str_eq(keys_listed(), "k");
END_CASE

CASE(A24_batch_with_different_layouts)
	const char *keys[] = { "a", "b", "c" };
	struct ptio_tensor x[3] = { ar(PTIO_F32, "8,12", 0), ar(PTIO_F32, "6,9,4", 0), ar(PTIO_F32, "12,12", 0) };
	int size[3] = { 4, 3, 4 }, dim[3] = { 1, 0, 1 }, codes[3], step, i;

	for (step = 0; step < 4; step++) {
		const struct ptio_writer_partition *writers[3];
		struct ptio_batch_write w = { .writers = writers, .writer_count = 3 };
		char text[3][32];

		for (i = 0; i < 3; i++) {
			snprintf(text[i], sizeof(text[i]), "writer=%dof%d@%d", step < size[i] ? step : size[i] - 1, size[i], dim[i]);
			writers[i] = &how(text[i])->writer;
		}
		/* The fourth call repeats the last rank of b, whose set the third has completed. */
		OK(ptio_batch_put(P, keys, 3, x, 3, &w, codes));
		ck_assert(!codes[0] && codes[1] == (step < 3 ? 0 : -EEXIST) && !codes[2]);
	}
	for (i = 0; i < 3; i++)
		EXPECT(keys[i], "full", x[i]);
END_CASE

CASE(A25_raw_writer_shard)
	struct ptio_tensor x = ar(PTIO_U8, "4,2", 0);
	const uint8_t *o;
	uint64_t size;

	OK(put("w", x, "writer=2of4@0"));
	o = object_at("w", "as_stored writer=2of4@0", &size);
	expect_sha(o, size, "f7f4220644415e6cd3c3d0ddc0345cbfc27938d038119e638a43d10dcc60bff1");
	EXPECT("w", "shard writer=2of4@0", bytes_of(PTIO_U8, "1,2", "\4\5"));
END_CASE

CASE(A26_other_tp_size_over_a_writer_set)
	struct ptio_tensor x = ar(PTIO_F32, "8,2", 0);

	put_ranks("k", x, "writer=Rof4@0", 4, 0);
	EXPECT("k", "shard tp=1of2@0", cut(x, 0, 4, 4));
	EXPECT("k", "full tp=0of4@0", x);
END_CASE

/* ---- R: full reads ---- */

CASE(A27_tp_on_the_last_dim)
	struct ptio_tensor x = ar(PTIO_F32, "4,8", 0);

	put_ranks("k", x, "tp=Rof4@1", 4, 1);
	EXPECT("k", "full tp=0of4@1", x);
END_CASE

CASE(A28_pp_and_tp_into)
	struct ptio_tensor x = ar(PTIO_F32, "8,6", 0);

	put_ranks("k", x, "pp=0of2s4/tp=Rof2@0", 2, 0);
	EXPECT("k", "full pp=0of2s4/tp=1of2@0", x);
END_CASE

CASE(A29_matrix)
	static const struct {
		const char *shape;
		int dim, size;
	} m[] = { { "8,12", 0, 4 }, { "8,12", 0, 8 }, { "12,9", 1, 3 } };
	char text[64], key[8];
	size_t i;
	int r;

	for (i = 0; i < 3; i++) {
		struct ptio_tensor x = ar(PTIO_F32, m[i].shape, 0);

		snprintf(key, sizeof(key), "k%zu", i);
		snprintf(text, sizeof(text), "tp=Rof%d@%d", m[i].size, m[i].dim);
		put_ranks(key, x, text, m[i].size, m[i].dim);
		for (r = 0; r < m[i].size; r++) {
			struct ptio_tensor want = part(x, (uint32_t)m[i].dim, r, m[i].size), t;

			snprintf(text, sizeof(text), "shard tp=%dof%d@%d", r, m[i].size, m[i].dim);
			EXPECT(key, text, want);
			OK(ptio_get_with_tp(P, key, r, m[i].size, m[i].dim, &t));
			ck_assert(same(&t, &want));
			ptio_tensor_done(&t);
		}
		EXPECT(key, "full", x);
	}
END_CASE

CASE(A30_batch_of_three)
	const char *keys[] = { "a", "b", "c" };
	struct ptio_tensor x[3] = { ar(PTIO_F32, "8,12", 0), ar(PTIO_F32, "6,12,4", 0), ar(PTIO_F32, "12,12", 0) }, have[3];
	struct ptio_read_target full[3], shard[3];
	int codes[3], i;

	for (i = 0; i < 3; i++) {
		put_ranks(keys[i], x[i], "tp=Rof4@1", 4, 1);
		full[i] = *target("full tp=1of4@1");
		shard[i] = *target("shard tp=2of4@1");
	}
	OK(ptio_batch_get(P, keys, 3, full, 3, have, codes));
	for (i = 0; i < 3; i++) {
		ck_assert(!codes[i] && same(&have[i], &x[i]));
		ptio_tensor_done(&have[i]);
	}
	OK(ptio_batch_get(P, keys, 3, shard, 3, have, codes));
	for (i = 0; i < 3; i++) {
		struct ptio_tensor want = cut(x[i], 1, 6, 3);

		ck_assert(!codes[i] && same(&have[i], &want));
		ptio_tensor_done(&have[i]);
	}
END_CASE

CASE(A31_reordered_request_axes)
	struct ptio_tensor x = ar(PTIO_F32, "6,8", 0);

	put_ranks("k", x, "dp=1of2/tp=Rof4@1", 4, 1);
	EXPECT("k", "full tp=3of4@1/dp=1of2", x);
END_CASE

CASE(A32_reordered_request_axes_batch)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor x[2] = { ar(PTIO_F32, "6,8", 0), ar(PTIO_F32, "8,6", 0) }, have[2];
	struct ptio_read_target targets[2] = { *target("full tp=2of4@1/dp=1of2"), *target("full tp=1of2@0/pp=0of2s6") };
	int codes[2], i;

	put_ranks("a", x[0], "dp=1of2/tp=Rof4@1", 4, 1);
	put_ranks("b", x[1], "pp=0of2s6/tp=Rof2@0", 2, 0);
	OK(ptio_batch_get(P, keys, 2, targets, 2, have, codes));
	for (i = 0; i < 2; i++) {
		ck_assert(!codes[i] && same(&have[i], &x[i]));
		ptio_tensor_done(&have[i]);
	}
END_CASE

CASE(A33_request_size_differs)
	struct ptio_tensor x = ar(PTIO_F32, "8,12,16", 0);
	static const char *const targets[] = { "full tp=0of2@1", "full tp=2of3@1", "full tp=1of4@1", "full tp=5of6@1" };
	size_t i;

	put_ranks("k", x, "tp=Rof4@1", 4, 1);
	for (i = 0; i < 4; i++)
		EXPECT("k", targets[i], x);
END_CASE

CASE(A34_float16)
	struct ptio_tensor x = ar(PTIO_F16, "8,12", 0);
	char text[64];
	int r;

	put_ranks("k", x, "tp=Rof4@1", 4, 1);
	EXPECT("k", "full", x);
	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "shard tp=%dof4@1", r);
		EXPECT("k", text, cut(x, 1, 3 * (uint64_t)r, 3));
	}
END_CASE

CASE(A35_full_without_axes_over_a_tp_set)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0);

	put_ranks("k", x, "tp=Rof2@0", 2, 0);
	EXPECT("k", "full", x);
	EXPECT_CODE("k", "as_stored", -ENOENT);
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A17_dp_and_tp_exact);
	ADD_CASE(tc, A18_batch_of_two_layouts);
	ADD_CASE(tc, A19_axis_order_is_irrelevant);
	ADD_CASE(tc, A20_four_axes);
	ADD_CASE(tc, A21_dp_object);
	ADD_CASE(tc, A22_ep_object);
	ADD_CASE(tc, A23_four_writers);
	ADD_CASE(tc, A24_batch_with_different_layouts);
	ADD_CASE(tc, A25_raw_writer_shard);
	ADD_CASE(tc, A26_other_tp_size_over_a_writer_set);
	ADD_CASE(tc, A27_tp_on_the_last_dim);
	ADD_CASE(tc, A28_pp_and_tp_into);
	ADD_CASE(tc, A29_matrix);
	ADD_CASE(tc, A30_batch_of_three);
	ADD_CASE(tc, A31_reordered_request_axes);
	ADD_CASE(tc, A32_reordered_request_axes_batch);
	ADD_CASE(tc, A33_request_size_differs);
	ADD_CASE(tc, A34_float16);
	ADD_CASE(tc, A35_full_without_axes_over_a_tp_set);
}

int main(void)
{
	return run_case("conformance: axes, scopes, writers, full", add);
}

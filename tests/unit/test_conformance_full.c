/* tests/unit/test_conformance_full.c - cases A01..A16: full tensors, empty ones and scalars, the older tp calls, single tp shards. */
#include "lib/case.h"

CASE(A01_float32_vector)
	struct ptio_tensor v = floats("4", 1.0, 2.0, 3.0, 4.0);
	uint64_t size;

	OK(put("k", v, ""));
	EXPECT("k", NULL, v);
	EXPECT("k", "full", v);
	ck_assert_int_eq(object_at("k", NULL, &size)[8], 0);
	ck_assert_uint_eq(size, 320);
END_CASE

CASE(A02_three_dimensions_of_int64)
	struct ptio_tensor v = ar(PTIO_I64, "2,2,2", 1);
	uint64_t size;

	OK(put("k", v, ""));
	EXPECT("k", NULL, v);
	ck_assert_int_eq(object_at("k", NULL, &size)[8], 8);
	ck_assert_uint_eq(size, 368);
END_CASE

CASE(A03_dtype_sweep)
	static const struct {
		enum ptio_dtype dtype;
		int code;
		uint64_t bytes;
		const char *payload;
	} sweep[] = {
		{ PTIO_F64, 1, 48, NULL }, { PTIO_U8, 3, 6, NULL }, { PTIO_I32, 6, 24, NULL }, { PTIO_BOOL, 10, 6, "\0\1\0\1\1\0" },
		{ PTIO_BF16, 12, 12, "\x00\x00\x80\x3f\x00\x40\x40\x40\x80\x40\xa0\x40" },
	};
	size_t i;

	for (i = 0; i < sizeof(sweep) / sizeof(sweep[0]); i++) {
		struct ptio_tensor t = sweep[i].payload ? bytes_of(sweep[i].dtype, "2,3", sweep[i].payload) : ar(sweep[i].dtype, "2,3", 0);
		const char *key = ptio_dtype_name(sweep[i].dtype);
		uint64_t size;

		OK(put(key, t, ""));
		EXPECT(key, NULL, t);
		ck_assert_int_eq(object_at(key, NULL, &size)[8], sweep[i].code);
		ck_assert_uint_eq(size, 304 + sweep[i].bytes);
	}
END_CASE

CASE(A04_fp8_e5m2)
	struct ptio_tensor t = bytes_of(PTIO_F8_E5M2, "6", "\x00\x3c\x7b\x7c\xfe\x80");
	uint64_t size;

	OK(put("k", t, ""));
	EXPECT("k", NULL, t);
	ck_assert_int_eq(object_at("k", NULL, &size)[8], 14);
	ck_assert_uint_eq(size, 310);
END_CASE

CASE(A05_batch_read_with_a_hole)
	const char *keys[] = { "t1", "t2", "nonexistent" };
	struct ptio_tensor have[3], t1 = ar(PTIO_F32, "2,2", 0), t2 = ar(PTIO_F32, "3", 0);
	int codes[3];

	OK(put("t1", t1, ""));
	OK(put("t2", t2, ""));
	OK(ptio_batch_get(P, keys, 3, NULL, 0, have, codes));
	ck_assert_int_eq(codes[0], 0);
	ck_assert_int_eq(codes[1], 0);
	ck_assert_int_eq(codes[2], -ENOENT);
	ck_assert(same(&have[0], &t1) && same(&have[1], &t2) && !have[2].data);
	ptio_tensor_done(&have[0]);
	ptio_tensor_done(&have[1]);
END_CASE

CASE(A06_empty_tensors)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor a = zeros(PTIO_F32, "0"), b = zeros(PTIO_F16, "0,4096"), have[2];
	uint64_t size;
	int codes[2];

	OK(put("a", a, ""));
	OK(put("b", b, ""));
	EXPECT("a", NULL, a);
	EXPECT("b", NULL, b);
	object_at("a", NULL, &size);
	ck_assert_uint_eq(size, 304);
	object_at("b", "full", &size);
	ck_assert_uint_eq(size, 304);
	OK(ptio_batch_get(P, keys, 2, NULL, 0, have, codes));
	ck_assert(!codes[0] && !codes[1] && same(&have[0], &a) && same(&have[1], &b));
	ptio_tensor_done(&have[0]);
	ptio_tensor_done(&have[1]);
END_CASE

CASE(A07_empty_tensor_through_buffers)
	struct ptio_tensor t = zeros(PTIO_F32, "2,0,3"), view;
	uint8_t *buf = registered(4096);
	const uint8_t *a, *b;
	uint64_t size, size2;

	OK(put("k", t, ""));
	OK(ptio_object_size(P, "k", NULL, &size));
	ck_assert_uint_eq(size, 304);
	ck_assert_int_eq(ptio_get_into(P, "k", NULL, buf, 4096, &view), 304);
	ck_assert(same(&view, &t));
	OK(ptio_put_from(P, "k2", buf, size, NULL));
	a = object_at("k", NULL, &size);
	b = object_at("k2", NULL, &size2);
	ck_assert_uint_eq(size, size2);
	ck_assert_mem_eq(a, b, size);
END_CASE

CASE(A08_scalar)
	double v = 1.5;
	struct ptio_tensor t = bytes_of(PTIO_F64, "", &v);
	const uint8_t *o;
	uint64_t size;

	OK(put("k", t, ""));
	EXPECT("k", NULL, t);
	EXPECT("k", "full", t);
	o = object_at("k", NULL, &size);
	ck_assert_uint_eq(size, 312);
	expect_sha(o, size, "b8979cd57434ea97eddfb8a274fa1475e0a9b699d2b9cd47060fee34f75c8e1d");
END_CASE

/* ---- L: the older tp calls ---- */

static void expect_tp(const char *key, struct ptio_tensor x, int rank, int size, int dim)
{
	struct ptio_tensor want = part(x, (uint32_t)dim, rank, size), t;
	uint8_t *buf = registered(4096);

	OK(ptio_get_with_tp(P, key, rank, size, dim, &t));
	ck_assert(same(&t, &want));
	ptio_tensor_done(&t);
	OK(ptio_get_into_with_tp(P, key, rank, size, dim, buf, 4096, &t));
	ck_assert(same(&t, &want));
	OK(ptio_unregister_buffer(P, buf));
}

CASE(A09_split_by_the_store)
	struct ptio_tensor x = ar(PTIO_F32, "4,8", 0);
	int r;

	OK(ptio_put_with_tp(P, "k", &x, 4, 1));
	ck_assert_str_eq(keys_listed(), "k");
	EXPECT("k", "shard tp=1of4@1", floats("4,2", 2.0, 3.0, 10.0, 11.0, 18.0, 19.0, 26.0, 27.0));
	for (r = 0; r < 4; r++)
		expect_tp("k", x, r, 4, 1);
	EXPECT("k", "full", x);
	EXPECT_CODE("k", NULL, -ENOENT);
END_CASE

CASE(A10_from_a_buffer)
	struct ptio_tensor x = ar(PTIO_I64, "3,4", 0);
	uint64_t size;
	const void *o = object_of(x, &size);

	OK(ptio_put_with_tp_from(P, "key", o, size, 2, 1));
	expect_tp("key", x, 0, 2, 1);
	expect_tp("key", x, 1, 2, 1);
	EXPECT("key", "shard tp=0of2@1", bytes_of(PTIO_I64, "3,2", (int64_t[]){ 0, 1, 4, 5, 8, 9 }));
END_CASE

CASE(A11_batch_from_buffers)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor x[2] = { ar(PTIO_F32, "8,2", 0), ar(PTIO_F32, "8,2", 50) };
	uint64_t sizes[2], room[2] = { 1024, 1024 };
	const void *objects[2] = { object_of(x[0], &sizes[0]), object_of(x[1], &sizes[1]) };
	void *bufs[2] = { registered(1024), registered(1024) };
	int64_t results[2];
	int codes[2], r, i;

	OK(ptio_batch_put_with_tp_from(P, keys, 2, objects, 2, sizes, 2, 4, 0, codes));
	ck_assert(!codes[0] && !codes[1]);
	for (r = 0; r < 4; r++) {
		OK(ptio_batch_get_into_with_tp(P, keys, 2, bufs, 2, room, 2, r, 4, 0, results));
		for (i = 0; i < 2; i++) {
			struct ptio_tensor want = part(x[i], 0, r, 4);

			ck_assert_int_eq(results[i], 304 + 16);
			ck_assert_mem_eq((uint8_t *)bufs[i] + 304, want.data, 16);
		}
	}
END_CASE

CASE(A12_batch_publish)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor x[2] = { ar(PTIO_F32, "4,2", 0), ar(PTIO_F32, "4,2", 9) };
	int codes[2], r, i;

	OK(ptio_batch_put_with_tp(P, keys, 2, x, 2, 2, 0, codes));
	ck_assert(!codes[0] && !codes[1]);
	for (i = 0; i < 2; i++) {
		for (r = 0; r < 2; r++)
			expect_tp(keys[i], x[i], r, 2, 0);
		EXPECT(keys[i], "full", x[i]);
	}
END_CASE

CASE(A13_reader_with_another_tp_size)
	struct ptio_tensor x = ar(PTIO_F32, "8", 0), t, want = floats("4", 4.0, 5.0, 6.0, 7.0);

	OK(ptio_put_with_tp(P, "k", &x, 4, 0));
	OK(ptio_get_with_tp(P, "k", 1, 2, 0, &t));
	ck_assert(same(&t, &want));
	ptio_tensor_done(&t);
END_CASE

/* ---- S: a single tp axis ---- */

CASE(A14_one_shard_written_by_its_owner)
	struct ptio_tensor x = ar(PTIO_F32, "4,6", 0), own = cut(x, 1, 0, 2), t;

	OK(put("k", own, "tp=0of3@1"));
	EXPECT("k", "shard tp=0of3@1", own);
	EXPECT("k", "as_stored tp=0of3@1", own);
	OK(ptio_get_with_tp(P, "k", 0, 3, 1, &t));
	ck_assert(same(&t, &own));
	ptio_tensor_done(&t);
	EXPECT_CODE("k", "shard tp=1of3@1", -ENODATA);
	EXPECT_CODE("k", "shard tp=2of3@1", -ENODATA);
	FAILS(ptio_get_with_tp(P, "k", 1, 3, 1, &t), -ENODATA);
	EXPECT_CODE("k", "full", -ENODATA);
END_CASE

CASE(A15_inferred_global_shape)
	const uint8_t *o;
	uint64_t size;
	struct ptio_description d;

	OK(put("w", floats("2,2", 2.0, 3.0, 6.0, 7.0), "tp=1of2@1"));
	o = object_at("w", "as_stored tp=1of2@1", &size);
	ck_assert_uint_eq(size, 320);
	expect_sha(o, size, "c21ffce2d0b15f1a4aa65e045faab4cef85b8ec42fc99adbdee02ce8fbfd9dfb");
	OK(ptio_describe(P, "w", target("shard tp=1of2@1"), &d));
	ck_assert(!d.complete && d.readable && d.global_shape[0] == 2 && d.global_shape[1] == 4);
END_CASE

CASE(A16_batch_of_ranks)
	const char *keys[] = { "a", "b" };
	struct ptio_tensor x[2] = { ar(PTIO_F32, "4,2", 0), ar(PTIO_F32, "4,2", 100) }, have[2];
	struct ptio_read_target targets[2] = { *target("shard tp=1of2@0"), *target("shard tp=1of2@0") };
	int codes[2], r;

	for (r = 0; r < 2; r++) {
		struct ptio_tensor shards[2] = { part(x[0], 0, r, 2), part(x[1], 0, r, 2) };
		const struct ptio_parallelism *p = &how(r ? "tp=1of2@0" : "tp=0of2@0")->parallelism;
		const struct ptio_parallelism *both[2] = { p, p };
		struct ptio_batch_write w = { .parallelisms = both, .parallelism_count = 2 };

		OK(ptio_batch_put(P, keys, 2, shards, 2, &w, codes));
		ck_assert(!codes[0] && !codes[1]);
	}
	OK(ptio_batch_get(P, keys, 2, targets, 2, have, codes));
	for (r = 0; r < 2; r++) {
		struct ptio_tensor want = floats("2,2", 100.0 * r + 4, 100.0 * r + 5, 100.0 * r + 6, 100.0 * r + 7);

		ck_assert(!codes[r] && same(&have[r], &want));
		ptio_tensor_done(&have[r]);
	}
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A01_float32_vector);
	ADD_CASE(tc, A02_three_dimensions_of_int64);
	ADD_CASE(tc, A03_dtype_sweep);
	ADD_CASE(tc, A04_fp8_e5m2);
	ADD_CASE(tc, A05_batch_read_with_a_hole);
	ADD_CASE(tc, A06_empty_tensors);
	ADD_CASE(tc, A07_empty_tensor_through_buffers);
	ADD_CASE(tc, A08_scalar);
	ADD_CASE(tc, A09_split_by_the_store);
	ADD_CASE(tc, A10_from_a_buffer);
	ADD_CASE(tc, A11_batch_from_buffers);
	ADD_CASE(tc, A12_batch_publish);
	ADD_CASE(tc, A13_reader_with_another_tp_size);
	ADD_CASE(tc, A14_one_shard_written_by_its_owner);
	ADD_CASE(tc, A15_inferred_global_shape);
	ADD_CASE(tc, A16_batch_of_ranks);
}

int main(void)
{
	return run_case("conformance: full and single tp", add);
}

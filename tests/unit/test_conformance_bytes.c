/* tests/unit/test_conformance_bytes.c - cases A77..A85: ranges of objects, and the objects' bytes. */
#include "lib/case.h"

#include <stdio.h>

/* ---- T: ranges. The raw objects of the cases are the payloads of uint8 tensors: source offsets are 304 higher. ---- */

#define H PTIO_OBJECT_HEADER
static uint8_t *p32, *q32;

static void make_ranges(void)
{
	OK(put("K1", bytes_of(PTIO_U8, "36", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"), ""));
	OK(put("K2", bytes_of(PTIO_U8, "36", "abcdefghijklmnopqrstuvwxyz0123456789"), ""));
	p32 = registered(32);
	q32 = registered(32);
	memset(p32, '_', 32);
	memset(q32, '_', 32);
}

CASE(A77_two_buffers_two_keys_interleaved)
	struct ptio_range p1[] = { { H + 1, 0, 4, 0 }, { H + 30, 20, 3, 0 } }, p2[] = { { H + 2, 8, 5, 0 } };
	struct ptio_range q1[] = { { H + 0, 4, 6, 0 } }, q2[] = { { H + 10, 16, 4, 0 } };
	struct ptio_range_key pk[] = { { "K1", NULL, p1, 2 }, { "K2", NULL, p2, 1 } }, qk[] = { { "K2", NULL, q1, 1 }, { "K1", NULL, q2, 1 } };
	struct ptio_range_row rows[] = { { pk, 2 }, { qk, 2 } };
	void *bufs[2];

	make_ranges();
	bufs[0] = p32;
	bufs[1] = q32;
	OK(ptio_batch_get_into_ranges(P, bufs, 2, rows, 2));
	ck_assert(p1[0].result == 4 && p1[1].result == 3 && p2[0].result == 5 && q1[0].result == 6 && q2[0].result == 4);
	ck_assert_mem_eq(p32, "1234____cdefg_______UVW_________", 32);
	ck_assert_mem_eq(q32, "____abcdef______ABCD____________", 32);
END_CASE

CASE(A78_source_overflow)
	struct ptio_range r[] = { { H + 35, 0, 4, 0 }, { H + 36, 0, 0, 7 }, { H + 37, 0, 0, 7 }, { H, 30, 3, 0 }, { UINT64_MAX, 0, 2, 0 } };
	struct ptio_range_key k = { "K1", NULL, r, 5 };

	make_ranges();
	FAILS(ptio_get_into_ranges(P, p32, &k), -EINVAL);
	ck_assert_int_eq(r[0].result, -EINVAL);
	ck_assert_int_eq(r[1].result, 0);
	ck_assert_int_eq(r[2].result, -EINVAL);
	ck_assert_int_eq(r[3].result, -EINVAL);
	ck_assert_int_eq(r[4].result, -EINVAL);
	ck_assert_mem_eq(p32, "________________________________", 32);
END_CASE

CASE(A79_missing_key_beside_a_good_one)
	struct ptio_range missing[] = { { 0, 0, 4, 0 } }, good[] = { { H, 8, 4, 0 } };
	struct ptio_range_key k[] = { { "missing", NULL, missing, 1 }, { "K1", NULL, good, 1 } };
	struct ptio_range_row row = { k, 2 };
	void *buf;

	make_ranges();
	buf = p32;
	OK(ptio_batch_get_into_ranges(P, &buf, 1, &row, 1));
	ck_assert_int_eq(missing[0].result, -ENOENT);
	ck_assert_int_eq(good[0].result, 4);
	ck_assert_mem_eq(p32 + 8, "0123", 4);
END_CASE

CASE(A80_outer_length_mismatch)
	struct ptio_range a[] = { { H, 0, 4, 0 } }, b[] = { { H, 0, 4, 0 } };
	struct ptio_range_key k1 = { "K1", NULL, a, 1 }, k2 = { "K2", NULL, b, 1 };
	struct ptio_range_row rows[] = { { &k1, 1 }, { &k2, 1 } };
	void *buf;

	make_ranges();
	buf = p32;
	FAILS(ptio_batch_get_into_ranges(P, &buf, 1, rows, 2), -EINVAL);
	ck_assert(a[0].result == -EINVAL && b[0].result == -EINVAL);
	buf = case_alloc(64);
	FAILS(ptio_get_into_ranges(P, buf, &k1), -EINVAL);
	FAILS(ptio_get_into_ranges(P, NULL, &k1), -EINVAL);
	ck_assert_mem_eq(p32, "________________________________", 32);
END_CASE

CASE(A81_header_only_read)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);
	struct ptio_range r = { 0, 0, 304, 0 };
	struct ptio_range_key k = { "k", NULL, &r, 1 };
	uint8_t *buf = registered(304);
	uint64_t size;

	OK(put("k", x, ""));
	OK(ptio_get_into_ranges(P, buf, &k));
	ck_assert_int_eq(r.result, 304);
	ck_assert_mem_eq(buf, object_of(x, &size), 304);
END_CASE

/* ---- K: object bytes. Parsing and refusing them (A84, A85) is in test_obj.c, too. ---- */

CASE(A82_golden_objects)
	static const struct {
		const char *sha, *shape;
		enum ptio_dtype dtype;
	} golden[] = {
		{ "e1e5bd9cb64c2322044c7016fd3bd95a3791b99632c845620740ae765cdef2ef", "2,3", PTIO_F32 },
		{ "9178d4e9bb8fe6a59630519c0cc3ff1cf2be4d537fa930f7b0579c62db1428d1", "2,0,3", PTIO_F16 },
	};
	const uint8_t *o;
	uint64_t size;
	int i;

	for (i = 0; i < 2; i++) {
		OK(upsert("w", ar(golden[i].dtype, golden[i].shape, 0), ""));
		o = object_at("w", NULL, &size);
		expect_sha(o, size, golden[i].sha);
	}
END_CASE

CASE(A83_layouts_by_name)
	static const struct {
		const char *axes, *name;
	} table[] = { { "tp=3of8@1", "tp=3of8,dim=1" }, { "dp=0of2", "dp=0of2" }, { "pp=1of4s9", "pp=1of4,stage=9" },
		      { "tp=0of4@1/dp=1of2", "dp=1of2/tp=0of4,dim=1" } };
	char quoted[64], *json;
	size_t i;

	/* ptio keeps no suffixed keys: a layout is named in the tree and in the description, in canonical order. */
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ptio_description d;

		OK(upsert("m.w", ar(PTIO_F32, "4,8", 0), table[i].axes));
		snprintf(quoted, sizeof(quoted), "as_stored %s", table[i].axes);
		OK(ptio_describe(P, "m.w", target(quoted), &d));
		ck_assert_uint_eq(d.axis_count, i == 3 ? 2 : 1);
		if (!d.complete)                /* a pending set has no objects to name yet */
			continue;
		OK(ptio_describe_json(P, "m.w", &json));
		snprintf(quoted, sizeof(quoted), "\"layout\": \"%s\"", table[i].name);
		ck_assert_msg(strstr(json, quoted) != NULL, "%s in %s", quoted, json);
		free(json);
	}
	ck_assert_str_eq(keys_listed(), "m.w");
END_CASE

static int put_patched(const uint8_t *good, uint64_t size, size_t at, uint64_t value, int width, const char *axes)
{
	uint8_t *o = case_alloc(size);

	memcpy(o, good, size);
	memcpy(o + at, &value, (size_t)width);
	return ptio_put_from(P, "k", o, size, &how(axes)->write);
}

CASE(A84_reject_list)
	static const struct {
		size_t at;
		uint64_t value;
		int width;
	} bad[] = { { 0, 0x4d4f4f4f, 4 }, { 4, 2, 2 }, { 6, 300, 2 }, { 8, UINT32_MAX, 4 }, { 8, 15, 4 }, { 12, 9, 4 }, { 12, UINT32_MAX, 4 },
		    { 16, 2, 4 }, { 24, 303, 8 }, { 32, 23, 8 }, { 40, UINT64_MAX, 8 }, { 120, 5, 8 }, { 168, 5, 4 } };
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);
	uint8_t *longer = case_alloc(329);
	uint64_t size;
	const uint8_t *o = object_of(x, &size);
	size_t i;

	memcpy(longer, o, 328);
	FAILS(ptio_put_from(P, "k", o, 303, NULL), -EINVAL);
	FAILS(ptio_put_from(P, "k", longer, 329, NULL), -EINVAL);
	FAILS(ptio_put_from(P, "k", o, 327, NULL), -EINVAL);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FAILS(put_patched(o, size, bad[i].at, bad[i].value, bad[i].width, ""), -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
END_CASE

CASE(A85_accept_list)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0), y = floats("2,2", 2.0, 3.0, 6.0, 7.0);
	uint8_t *padded = case_alloc(336);
	const uint8_t *full, *shard;
	uint64_t size, shard_size;

	full = object_of(x, &size);
	OK(put_patched(full, size, 20, 7, 4, ""));              /* reserved_flags */
	OK(ptio_remove(P, "k", NULL));
	OK(put_patched(full, size, 172, 9, 4, ""));             /* reserved0 */
	OK(ptio_remove(P, "k", NULL));
	memcpy(padded, full, 304);
	padded[24] = 0x38;                                      /* data_offset 312 */
	memcpy(padded + 312, full + 304, 24);
	OK(ptio_put_from(P, "k", padded, 336, NULL));
	EXPECT("k", NULL, x);
	OK(ptio_remove(P, "k", NULL));
	/* Contradictory ones parse (test_obj.c), and are refused as a source. */
	FAILS(put_patched(full, size, 40, 5, 8, ""), -EINVAL);  /* global differs */
	OK(put("g", y, "tp=1of2@1"));
	shard = object_at("g", "as_stored tp=1of2@1", &shard_size);
	FAILS(put_patched(shard, shard_size, 176, 4, 4, "tp=1of2@1"), -EINVAL);         /* the reserved kind */
	FAILS(put_patched(shard, shard_size, 192, UINT32_MAX, 4, "tp=1of2@1"), -EINVAL);        /* no split_dim */
	FAILS(put_patched(shard, shard_size, 168, 0, 4, "tp=1of2@1"), -EINVAL);         /* no axes */
	FAILS(put_patched(shard, shard_size, 16, 0, 4, "tp=1of2@1"), -EINVAL);          /* FULL with an axis */
	FAILS(put_patched(shard, shard_size, 48, 1, 8, "tp=1of2@1"), -EINVAL);          /* global below local */
	OK(put_patched(shard, shard_size, 180, 9, 4, "tp=1of2@1"));                     /* axis_index */
	EXPECT("k", "shard tp=1of2@1", y);
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A77_two_buffers_two_keys_interleaved);
	ADD_CASE(tc, A78_source_overflow);
	ADD_CASE(tc, A79_missing_key_beside_a_good_one);
	ADD_CASE(tc, A80_outer_length_mismatch);
	ADD_CASE(tc, A81_header_only_read);
	ADD_CASE(tc, A82_golden_objects);
	ADD_CASE(tc, A83_layouts_by_name);
	ADD_CASE(tc, A84_reject_list);
	ADD_CASE(tc, A85_accept_list);
}

int main(void)
{
	return run_case("conformance: ranges and bytes", add);
}

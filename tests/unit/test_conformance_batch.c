/* tests/unit/test_conformance_batch.c - cases A56..A76: batches, reads into buffers, writes from buffers, upserts. */
#include "lib/case.h"

#include <stdio.h>

static struct ptio_tensor two[2];
static const char *const ab[] = { "a", "b" };

static void make_two(void)
{
	two[0] = ar(PTIO_F32, "4,4", 0);
	two[1] = ar(PTIO_F32, "4,4", 16);
}

static void expect_all(const int *codes, size_t count, int code)
{
	size_t i;

	for (i = 0; i < count; i++)
		ck_assert_int_eq(codes[i], code);
}

CASE(A56_mixed_routing_refused)
	const struct ptio_parallelism *p = &how("tp=0of2@0")->parallelism, *ps[] = { p, p };
	const struct ptio_writer_partition *w = &how("writer=0of2@0")->writer, *ws[] = { w, w };
	struct ptio_batch_write both = { .parallelisms = ps, .parallelism_count = 2, .writers = ws, .writer_count = 2 };
	uint64_t sizes[2];
	const void *objects[2];
	int codes[2] = { 0, 0 };

	make_two();
	objects[0] = object_of(two[0], &sizes[0]);
	objects[1] = object_of(two[1], &sizes[1]);
	FAILS(ptio_batch_put(P, ab, 2, two, 2, &both, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	FAILS(ptio_batch_upsert(P, ab, 2, two, 2, &both, codes), -EINVAL);
	FAILS(ptio_batch_put_from(P, ab, 2, objects, 2, sizes, 2, &both, codes), -EINVAL);
	FAILS(ptio_batch_upsert_from(P, ab, 2, objects, 2, sizes, 2, &both, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
END_CASE

CASE(A57_length_mismatches)
	const struct ptio_parallelism *ps[] = { &how("tp=0of2@0")->parallelism };
	const struct ptio_writer_partition *w = &how("writer=0of2@0")->writer, *ws[] = { w, w, w };
	struct ptio_batch_write one = { .parallelisms = ps, .parallelism_count = 1 }, three = { .writers = ws, .writer_count = 3 };
	uint64_t sizes[2];
	const void *objects[2];
	int codes[2] = { 0, 0 };

	make_two();
	objects[0] = object_of(two[0], &sizes[0]);
	objects[1] = object_of(two[1], &sizes[1]);
	FAILS(ptio_batch_put(P, ab, 2, two, 1, NULL, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	FAILS(ptio_batch_put(P, ab, 2, two, 2, &one, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	FAILS(ptio_batch_put(P, ab, 2, two, 2, &three, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	FAILS(ptio_batch_put_from(P, ab, 2, objects, 2, sizes, 1, NULL, codes), -EINVAL);
	FAILS(ptio_batch_put_from(P, ab, 2, objects, 1, sizes, 2, NULL, codes), -EINVAL);
	FAILS(ptio_batch_put_from(P, ab, 2, objects, 1, sizes, 1, NULL, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
	OK(ptio_batch_put(P, NULL, 0, NULL, 0, NULL, NULL));
END_CASE

CASE(an_entry_that_is_null_means_full_for_its_key)
	const struct ptio_parallelism *ps[] = { NULL, &how("tp=0of1@0")->parallelism };
	const struct ptio_writer_partition *ws[] = { &how("writer=0of1@0")->writer, NULL };
	struct ptio_batch_write axes = { .parallelisms = ps, .parallelism_count = 2 }, writers = { .writers = ws, .writer_count = 2 };
	int codes[2];

	make_two();
	OK(ptio_batch_put(P, ab, 2, two, 2, &axes, codes));
	expect_all(codes, 2, 0);
	EXPECT("a", "as_stored", two[0]);
	EXPECT_CODE("b", "as_stored", -ENOENT);
	EXPECT("b", "as_stored tp=0of1@0", two[1]);
	OK(ptio_batch_upsert(P, ab, 2, two, 2, &writers, codes));
	expect_all(codes, 2, 0);
	EXPECT_CODE("a", "as_stored", -ENOENT);
	EXPECT("b", "as_stored", two[1]);
END_CASE

CASE(A58_read_target_list_of_wrong_length)
	struct ptio_read_target one = *target("full");
	struct ptio_tensor have[2];
	uint64_t sizes[2] = { 1024, 1024 };
	void *bufs[2] = { registered(1024), registered(1024) };
	int64_t results[2] = { 0, 0 };
	int codes[2] = { 0, 0 };

	make_two();
	OK(put("a", two[0], ""));
	OK(put("b", two[1], ""));
	FAILS(ptio_batch_get(P, ab, 2, &one, 1, have, codes), -EINVAL);
	expect_all(codes, 2, -EINVAL);
	ck_assert(!have[0].data && !have[1].data);
	FAILS(ptio_batch_get_into(P, ab, 2, NULL, 0, bufs, 1, sizes, 2, results), -EINVAL);
	ck_assert(results[0] == -EINVAL && results[1] == -EINVAL);
	OK(ptio_batch_get_into(P, ab, 2, NULL, 0, bufs, 2, sizes, 2, results));
	ck_assert(results[0] == 368 && results[1] == 368);
END_CASE

CASE(A59_older_into_with_wrong_lengths)
	const char *keys[] = { "k", "m" };
	uint64_t size = 1024;
	void *buf = registered(1024);
	int64_t results[2] = { 0, 0 };

	OK(put("k", ar(PTIO_F32, "4", 0), ""));
	FAILS(ptio_batch_get_into_with_tp(P, keys, 2, &buf, 1, &size, 1, 0, 1, 0, results), -EINVAL);
	ck_assert(results[0] == -EINVAL && results[1] == -EINVAL);
END_CASE

/* ---- I: into buffers ---- */

CASE(A60_exact_capacity)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);
	uint8_t *buf = registered(328);
	uint64_t size;
	const void *o = object_of(x, &size);

	OK(put("k", x, ""));
	ck_assert_uint_eq(size, 328);
	ck_assert_int_eq(ptio_get_into(P, "k", NULL, buf, 328, NULL), 328);
	ck_assert_mem_eq(buf, o, 328);
	FAILS(ptio_get_into(P, "k", NULL, buf, 327, NULL), -EINVAL);
	FAILS(ptio_get_into(P, "k", NULL, NULL, 328, NULL), -EINVAL);
	FAILS(ptio_get_into(P, "k", NULL, case_alloc(400), 328, NULL), -EINVAL);
END_CASE

CASE(A61_inside_a_larger_region)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);
	uint8_t *buf = registered(4096);
	int i;

	OK(put("k", x, ""));
	memset(buf, 0x5a, 4096);
	ck_assert_int_eq(ptio_get_into(P, "k", NULL, buf + 512, 1024, NULL), 328);
	for (i = 0; i < 4096; i++)
		ck_assert(buf[i] == 0x5a || (i >= 512 && i < 840));
	ck_assert_mem_eq(buf + 512 + 304, x.data, 24);
	FAILS(ptio_get_into(P, "k", NULL, buf + 3900, 328, NULL), -EINVAL);
END_CASE

CASE(A62_header_of_a_rebuilt_full_tensor)
	struct ptio_tensor x = ar(PTIO_F32, "2,4", 0);
	const uint8_t *o;
	uint64_t size;

	put_ranks("k", x, "tp=Rof2@1", 2, 1);
	o = object_at("k", "full tp=0of2@1", &size);
	ck_assert_uint_eq(size, 336);
	expect_sha(o, size, "70caf2ec1c22bedba84f609a4c31a772f8d4b23de97099fc765b9bc92387e161");
END_CASE

CASE(A63_exact_hit_copies_the_stored_header)
	const uint8_t *a, *b, *c;
	uint64_t size, size2;

	put_ranks("k", ar(PTIO_F32, "2,4", 0), "dp=0of2/tp=Rof2@1", 2, 1);
	a = object_at("k", "shard tp=1of2@1/dp=0of2", &size);
	b = object_at("k", "as_stored dp=0of2/tp=1of2@1", &size2);
	ck_assert_uint_eq(size, size2);
	ck_assert_mem_eq(a, b, size);
	ck_assert_int_eq(a[176], 0);
	ck_assert_int_eq(a[176 + 32], 1);
	/* One that is rebuilt has the request's axes in the request's order. */
	c = object_at("k", "shard tp=3of4@1/dp=0of2", &size);
	ck_assert_int_eq(c[176], 1);
	ck_assert_int_eq(c[176 + 32], 0);
END_CASE

/* ---- X: from buffers ---- */

CASE(A64_tp_from_a_full_object)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0), want = floats("4,2", 0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 12.0, 13.0), t;
	const void *o;
	uint64_t size;

	OK(put_from("k", x, "tp=0of2@1"));
	EXPECT("k", "shard tp=0of2@1", want);
	OK(ptio_get_with_tp(P, "k", 0, 2, 1, &t));
	ck_assert(same(&t, &want));
	ptio_tensor_done(&t);
	OK(put_from("k", x, "tp=1of2@1"));
	EXPECT("k", "full", x);
	/* A shard is taken for tp alone, if its axes are those of the request. */
	o = object_at("k", "shard tp=1of2@1", &size);
	OK(ptio_put_from(P, "s", o, size, &how("tp=1of2@1")->write));
	FAILS(ptio_put_from(P, "s", o, size, &how("tp=0of2@1")->write), -EINVAL);
	FAILS(ptio_put_from(P, "s", o, size, &how("dp=0of2/tp=1of2@1")->write), -EINVAL);
	FAILS(ptio_put_from(P, "s", o, size, &how("writer=1of2@1")->write), -EINVAL);
	FAILS(ptio_put_from(P, "s", o, size, &how("dp=0of2")->write), -EINVAL);
	FAILS(ptio_put_from(P, "s", o, size, NULL), -EINVAL);
	o = object_at("k", "shard tp=0of2@1", &size);
	OK(ptio_put_from(P, "s", o, size, &how("tp=0of2@1")->write));
	EXPECT("s", "full", x);
END_CASE

CASE(A65_multi_axis_upsert_from)
	struct ptio_tensor x = ar(PTIO_F32, "2,4", 77);

	OK(upsert_from("k", x, "dp=0of2/tp=0of2@1"));
	OK(upsert_from("k", x, "dp=0of2/tp=1of2@1"));
	EXPECT("k", "shard dp=0of2/tp=1of2@1", floats("2,2", 79.0, 80.0, 83.0, 84.0));
END_CASE

CASE(A66_scope_axis_from)
	struct ptio_tensor x = ar(PTIO_I32, "3", 0);
	const uint8_t *o;
	uint64_t size;

	OK(put_from("k", x, "dp=1of2"));
	EXPECT("k", "shard dp=1of2", x);
	o = object_at("k", "shard dp=1of2", &size);
	ck_assert_int_eq(o[16], 1);
	ck_assert_int_eq(o[168], 1);
	ck_assert_mem_eq(o + 40, o + 104, 64);
END_CASE

CASE(A67_batch_writer_partition_from)
	uint64_t sizes[2];
	const void *objects[2];
	char text[32];
	int codes[2], r;

	make_two();
	objects[0] = object_of(two[0], &sizes[0]);
	objects[1] = object_of(two[1], &sizes[1]);
	put_ranks("a", two[0], "writer=Rof4@0", 4, 0);
	put_ranks("b", two[1], "writer=Rof4@0", 4, 0);
	for (r = 0; r < 4; r++) {
		const struct ptio_writer_partition *w, *ws[2];
		struct ptio_batch_write how_both = { .writers = ws, .writer_count = 2 };

		snprintf(text, sizeof(text), "writer=%dof4@0", r);
		w = &how(text)->writer;
		ws[0] = ws[1] = w;
		OK(ptio_batch_upsert_from(P, ab, 2, objects, 2, sizes, 2, &how_both, codes));
		expect_all(codes, 2, 0);
	}
	EXPECT("a", "full", two[0]);
	EXPECT("b", "full", two[1]);
END_CASE

CASE(A68_verbatim_full_copy)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0);
	const uint8_t *s, *k;
	uint64_t size, size2;

	OK(put("s", x, ""));
	s = object_at("s", NULL, &size);
	OK(ptio_put_from(P, "k", s, size, NULL));
	k = object_at("k", NULL, &size2);
	ck_assert_uint_eq(size, size2);
	ck_assert_mem_eq(s, k, size);
	FAILS(ptio_put_from(P, "m", s, size - 1, NULL), -EINVAL);
	FAILS(ptio_put_from(P, "m", s, 303, NULL), -EINVAL);
	FAILS(ptio_put_from(P, "m", NULL, size, NULL), -EINVAL);
	FAILS(ptio_put_from(P, "", s, size, NULL), -EINVAL);
END_CASE

/* ---- U: upserts ---- */

CASE(A69_same_size)
	struct ptio_tensor ones = ar(PTIO_F32, "30,30", 1), none = zeros(PTIO_F32, "30,30");

	OK(put("k", ones, ""));
	OK(upsert("k", none, ""));
	EXPECT("k", NULL, none);
END_CASE

CASE(A70_new_key)
	OK(upsert("k", ar(PTIO_F32, "5", 0), ""));
	EXPECT("k", NULL, ar(PTIO_F32, "5", 0));
END_CASE

CASE(A71_batch_over_old_values)
	struct ptio_tensor old[2] = { ar(PTIO_F32, "10,10", 1), ar(PTIO_F32, "10,10", 2) }, new[2] = { zeros(PTIO_F32, "10,10"), zeros(PTIO_F32, "10,10") };
	int codes[2];

	OK(ptio_batch_put(P, ab, 2, old, 2, NULL, codes));
	expect_all(codes, 2, 0);
	OK(ptio_batch_upsert(P, ab, 2, new, 2, NULL, codes));
	expect_all(codes, 2, 0);
	EXPECT("a", NULL, new[0]);
	EXPECT("b", NULL, new[1]);
	OK(ptio_batch_put(P, ab, 2, old, 2, NULL, codes));
	expect_all(codes, 2, -EEXIST);
END_CASE

CASE(A72_batch_from_buffers)
	struct ptio_tensor x = ar(PTIO_F32, "50", 0), want = zeros(PTIO_F32, "50");
	uint64_t sizes[2], i;
	const void *objects[2];
	int codes[2];

	OK(put("a", x, ""));
	OK(put("b", x, ""));
	for (i = 0; i < 50; i++)
		((float *)want.data)[i] = 99;
	objects[0] = object_of(want, &sizes[0]);
	objects[1] = object_of(want, &sizes[1]);
	OK(ptio_batch_upsert_from(P, ab, 2, objects, 2, sizes, 2, NULL, codes));
	expect_all(codes, 2, 0);
	EXPECT("a", NULL, want);
	EXPECT("b", NULL, want);
END_CASE

CASE(A73_multi_axis)
	struct ptio_tensor x = ar(PTIO_F32, "2,4", 0), y = ar(PTIO_F32, "2,4", 50);
	char text[32];
	int r;

	/* Each rank puts X and then upserts Y: two steps that overlap, so that they are tagged. */
	for (r = 0; r < 2; r++) {
		snprintf(text, sizeof(text), "dp=0of2/tp=%dof2@1", r);
		OK(ptio_put(P, "k", &x, write_at(text, "x")));
		OK(ptio_upsert(P, "k", &y, write_at(text, "y")));
	}
	EXPECT("k", "shard dp=0of2/tp=0of2@1", floats("2,2", 50.0, 51.0, 54.0, 55.0));
	EXPECT("k", "full dp=0of2", y);
	/* Untagged, with a barrier between the rounds. */
	put_ranks("m", x, "dp=0of2/tp=Rof2@1", 2, 1);
	OK(upsert("m", y, "dp=0of2/tp=0of2@1"));
	EXPECT("m", "full", x);
	OK(upsert("m", y, "dp=0of2/tp=1of2@1"));
	EXPECT("m", "full", y);
END_CASE

CASE(A74_single_tp)
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0), y = ar(PTIO_F32, "4,4", 1000);

	OK(put("k", cut(x, 0, 0, 2), "tp=0of2@0"));
	OK(upsert("k", cut(y, 0, 0, 2), "tp=0of2@0"));
	EXPECT("k", "shard tp=0of2@0", ar(PTIO_F32, "2,4", 1000));
END_CASE

CASE(A75_writer_partition_batch)
	struct ptio_tensor x[2] = { ar(PTIO_F32, "2,4", 0), ar(PTIO_F32, "2,4", 8) }, y[2] = { ar(PTIO_F32, "2,4", 100), ar(PTIO_F32, "2,4", 108) };
	int codes[2], r, round;

	for (round = 0; round < 2; round++) {
		for (r = 0; r < 2; r++) {
			const struct ptio_writer_partition *w = &how(r ? "writer=1of2@1" : "writer=0of2@1")->writer, *ws[] = { w, w };
			struct ptio_batch_write how_both = { .writers = ws, .writer_count = 2 };

			if (round)
				OK(ptio_batch_upsert(P, ab, 2, y, 2, &how_both, codes));
			else
				OK(ptio_batch_put(P, ab, 2, x, 2, &how_both, codes));
			expect_all(codes, 2, 0);
		}
	}
	EXPECT("a", "full", y[0]);
	EXPECT("b", "full", y[1]);
END_CASE

CASE(A76_many_rewrites)
	int i;

	for (i = 0; i < 10; i++)
		OK(upsert("k", ar(PTIO_U8, "16", i), ""));
	EXPECT("k", NULL, ar(PTIO_U8, "16", 9));
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A56_mixed_routing_refused);
	ADD_CASE(tc, A57_length_mismatches);
	ADD_CASE(tc, an_entry_that_is_null_means_full_for_its_key);
	ADD_CASE(tc, A58_read_target_list_of_wrong_length);
	ADD_CASE(tc, A59_older_into_with_wrong_lengths);
	ADD_CASE(tc, A60_exact_capacity);
	ADD_CASE(tc, A61_inside_a_larger_region);
	ADD_CASE(tc, A62_header_of_a_rebuilt_full_tensor);
	ADD_CASE(tc, A63_exact_hit_copies_the_stored_header);
	ADD_CASE(tc, A64_tp_from_a_full_object);
	ADD_CASE(tc, A65_multi_axis_upsert_from);
	ADD_CASE(tc, A66_scope_axis_from);
	ADD_CASE(tc, A67_batch_writer_partition_from);
	ADD_CASE(tc, A68_verbatim_full_copy);
	ADD_CASE(tc, A69_same_size);
	ADD_CASE(tc, A70_new_key);
	ADD_CASE(tc, A71_batch_over_old_values);
	ADD_CASE(tc, A72_batch_from_buffers);
	ADD_CASE(tc, A73_multi_axis);
	ADD_CASE(tc, A74_single_tp);
	ADD_CASE(tc, A75_writer_partition_batch);
	ADD_CASE(tc, A76_many_rewrites);
}

int main(void)
{
	return run_case("conformance: batches, buffers, upserts", add);
}

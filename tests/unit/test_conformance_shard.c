/* tests/unit/test_conformance_shard.c - cases A36..A55: shards of another size, uneven ones, invalid requests. */
#include "lib/case.h"

#include <stdio.h>

struct hetero {
	const char *shape, *written, *read;     /* R: the rank */
	int stored, wanted, dim;
	const char *const *sha;                 /* of each payload, first 16 hex digits; NULL: none given */
};

static void run_hetero(const struct hetero *h)
{
	struct ptio_tensor x = ar(PTIO_F32, h->shape, 0), have;
	const char *mark = strchr(h->read, 'R');
	char text[96];
	int r;

	put_ranks("k", x, h->written, h->stored, h->dim);
	for (r = 0; r < h->wanted; r++) {
		snprintf(text, sizeof(text), "shard %.*s%d%s", (int)(mark - h->read), h->read, r, mark + 1);
		EXPECT("k", text, part(x, (uint32_t)h->dim, r, h->wanted));
		OK(reads("k", text, &have));
		if (h->sha)
			expect_sha(have.data, have.bytes, h->sha[r]);
	}
}

static const char *const sha_4_to_2[] = { "ba7eef96a646a3a7", "5a12b43d0c644e21" };

CASE(A36_tp_4_to_2_on_dim_0)
	run_hetero(&(struct hetero){ "8,12,6", "tp=Rof4@0", "tp=Rof2@0", 4, 2, 0, sha_4_to_2 });
END_CASE

CASE(A37_ep_and_tp_2_to_4_on_dim_1)
	static const char *const sha[] = { "3acb3f5c2007ae86", "527e759000409cf8", "72991f84f8547ada", "843bb7db01ac5154" };

	run_hetero(&(struct hetero){ "8,12,6", "ep=0of2e11/tp=Rof2@1", "ep=0of2e11/tp=Rof4@1", 2, 4, 1, sha });
END_CASE

CASE(A38_pp_and_tp_2_to_4_not_divisible)
	run_hetero(&(struct hetero){ "8,12,6", "pp=0of2s7/tp=Rof2@2", "pp=0of2s7/tp=Rof4@2", 2, 4, 2, NULL });
END_CASE

CASE(A39_tp_4_to_2_into)
	uint8_t *buf = registered(4096);
	int r;

	put_ranks("k", ar(PTIO_F32, "8,12,6", 0), "tp=Rof4@0", 4, 0);
	for (r = 0; r < 2; r++) {
		OK(ptio_get_into(P, "k", target(r ? "shard tp=1of2@0" : "shard tp=0of2@0"), buf, 4096, NULL));
		expect_sha(buf + 304, 4 * 12 * 6 * 4, sha_4_to_2[r]);
	}
END_CASE

CASE(A40_ep_and_tp_4_to_2_on_16_cubed)
	static const char *const sha[] = { "359f4af411950917", "7646570123f19203" };

	run_hetero(&(struct hetero){ "16,16,16", "ep=0of2e11/tp=Rof4@2", "ep=0of2e11/tp=Rof2@2", 4, 2, 2, sha });
END_CASE

CASE(A41_tp_4_to_8)
	static const char *const sha[] = { "c7befc2ac0d86316", "1df6bda26c37e15a", "426d4e33d7eaba6e", "cf43a4313dc057ff", "b56a82f352f7a951",
					   "614ecb77d5f581d3", "24c3f63bc7750a72", "1a5c234b63d09333" };

	run_hetero(&(struct hetero){ "2,8", "tp=Rof4@1", "tp=Rof8@1", 4, 8, 1, sha });
END_CASE

CASE(A42_tp_4_to_1)
	static const char *const sha[] = { "45a99655901702d5" };

	run_hetero(&(struct hetero){ "2,12", "tp=Rof4@1", "tp=Rof1@1", 4, 1, 1, sha });
END_CASE

/* ---- G: ragged; ptio stores and reads them ---- */

CASE(A43_uneven_multi_axis_write)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);

	OK(put("k", x, "dp=0of2/tp=0of2@1"));
	EXPECT("k", "shard dp=0of2/tp=0of2@1", cut(x, 1, 0, 1));
	EXPECT_CODE("k", "full dp=0of2", -ENODATA);
	OK(put("k", x, "dp=0of2/tp=1of2@1"));
	EXPECT("k", "shard dp=0of2/tp=1of2@1", cut(x, 1, 1, 2));
	EXPECT("k", "full dp=0of2", x);
END_CASE

CASE(A44_uneven_writer_partition)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0);

	OK(put("k", x, "writer=0of2@1"));
	EXPECT_CODE("k", "full", -ENODATA);
	OK(put("k", x, "writer=1of2@1"));
	EXPECT("k", "full", x);
END_CASE

CASE(A45_uneven_split_by_the_store)
	struct ptio_tensor x = ar(PTIO_F32, "7", 0);
	char text[32];
	int r;

	OK(ptio_put_with_tp(P, "a", &x, 8, 0));
	OK(ptio_put_with_tp(P, "b", &x, 2, 0));
	for (r = 0; r < 8; r++) {
		snprintf(text, sizeof(text), "shard tp=%dof8@0", r);
		EXPECT("a", text, part(x, 0, r, 8));    /* the first is empty */
	}
	EXPECT("b", "shard tp=0of2@0", cut(x, 0, 0, 3));
	EXPECT("b", "shard tp=1of2@0", cut(x, 0, 3, 4));
	EXPECT("a", "full", x);
	EXPECT("b", "full", x);
END_CASE

CASE(A46_read_with_a_size_that_does_not_divide)
	struct ptio_tensor x = ar(PTIO_F32, "8", 0);

	put_ranks("k", x, "tp=Rof4@0", 4, 0);
	EXPECT("k", "shard tp=1of3@0", floats("3", 2.0, 3.0, 4.0));
	EXPECT("k", "full tp=0of3@0", x);
END_CASE

/* ---- V: invalid ---- */

static void expect_invalid(const char *axes)
{
	struct ptio_tensor x = ar(PTIO_F32, "8,8", 0);
	char text[128];

	FAILS(put("k", x, axes), -EINVAL);
	FAILS(upsert("k", x, axes), -EINVAL);
	FAILS(put_from("k", x, axes), -EINVAL);
	snprintf(text, sizeof(text), "shard %s", axes);
	EXPECT_CODE("k", text, -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
	/* Nonsense stays nonsense when there is something to read. */
	OK(put("k", x, ""));
	EXPECT_CODE("k", text, -EINVAL);
	OK(ptio_remove(P, "k", NULL));
}

CASE(A47_dp_with_a_split_dim)
	expect_invalid("dp=0of2@0");
END_CASE

CASE(A48_tp_without_split_dim)
	expect_invalid("tp=0of2");
	expect_invalid("dp=0of2/tp=0of2");
END_CASE

CASE(A49_ep_or_pp_with_a_split_dim)
	expect_invalid("ep=0of2e1@0");
	expect_invalid("pp=0of2s1@0");
	expect_invalid("ep=0of2");
	expect_invalid("pp=0of2");
END_CASE

CASE(A50_size_zero_or_negative)
	expect_invalid("tp=0of0@0");
	expect_invalid("dp=0of-1");
	expect_invalid("tp=2of2@0");
	expect_invalid("tp=-1of2@0");
	expect_invalid("tp=0of2@-1");
	FAILS(put("k", ar(PTIO_F32, "8,8", 0), "tp=0of2@2"), -EINVAL);
	FAILS(put("k", ar(PTIO_F32, "8,8", 0), "dp=0of2/tp=0of2@2"), -EINVAL);
	FAILS(put("k", ar(PTIO_F32, "8,8", 0), "writer=0of2@2"), -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
	OK(put("k", ar(PTIO_F32, "8,8", 0), ""));
	EXPECT_CODE("k", "shard tp=0of2@2", -EINVAL);
END_CASE

CASE(A51_too_many_axes)
	struct ptio_parallelism none = { .axes = NULL, .axis_count = 0 };
	struct ptio_write w = { .parallelism = &none };
	struct ptio_tensor x = ar(PTIO_F32, "8,8", 0);

	expect_invalid("dp=0of2/tp=0of2@0/ep=0of2e0/pp=0of2s0/dp=1of2");
	expect_invalid("dp=0of2/dp=1of2");
	FAILS(ptio_put(P, "k", &x, &w), -EINVAL);
END_CASE

CASE(A52_kind_is_case_insensitive)
	struct ptio_tensor x = cut(ar(PTIO_F32, "2,4", 0), 1, 2, 2);

	ck_assert_int_eq(ptio_axis_kind_by_name("Tp"), PTIO_TP);
	ck_assert_int_eq(ptio_axis_kind_by_name("xp"), PTIO_AXIS_UNKNOWN);
	OK(put("k", x, "TP=1of2@1"));
	EXPECT("k", "SHARD tp=1of2@1", x);
END_CASE

CASE(A53_nine_dimensions)
	struct ptio_tensor nine = zeros(PTIO_F32, "1,1,1,1,1,1,1,1,1"), eight = zeros(PTIO_F32, "1,1,1,1,1,1,1,1"), too_many = nine;
	uint8_t *buf = registered(4096);

	OK(put("k9", nine, ""));
	OK(put("k8", eight, ""));
	EXPECT("k8", NULL, eight);
	EXPECT("k9", NULL, nine);
	FAILS(ptio_get_into(P, "k9", NULL, buf, 4096, NULL), -EOPNOTSUPP);
	too_many.ndim = 65;
	FAILS(put("k65", too_many, ""), -EINVAL);
END_CASE

CASE(A54_non_contiguous_input)
	struct ptio_tensor x = ar(PTIO_F32, "2,3", 0), y = x, want = floats("3,2", 0.0, 3.0, 1.0, 4.0, 2.0, 5.0);

	y.shape[0] = 3, y.shape[1] = 2;
	y.strided = 1;
	y.stride[0] = 1, y.stride[1] = 3;
	OK(put("k", y, ""));
	EXPECT("k", "full", want);
	OK(put("s", y, "writer=0of2@0"));
	OK(put("s", y, "writer=1of2@0"));
	EXPECT("s", "full", want);
	y.bytes -= 1;
	FAILS(put("t", y, ""), -EINVAL);
END_CASE

CASE(A55_writer_partition_and_axes_together)
	struct how *h = (struct how *)how("tp=0of2@0");
	struct ptio_tensor x = ar(PTIO_F32, "4,4", 0);
	uint64_t size;
	const void *o = object_of(x, &size);

	h->write.writer = &how("writer=0of2@0")->writer;
	FAILS(ptio_put(P, "k", &x, &h->write), -EINVAL);
	FAILS(ptio_upsert(P, "k", &x, &h->write), -EINVAL);
	FAILS(ptio_put_from(P, "k", o, size, &h->write), -EINVAL);
	FAILS(ptio_upsert_from(P, "k", o, size, &h->write), -EINVAL);
	ck_assert_str_eq(keys_listed(), "");
END_CASE

static void add(TCase *tc)
{
	ADD_CASE(tc, A36_tp_4_to_2_on_dim_0);
	ADD_CASE(tc, A37_ep_and_tp_2_to_4_on_dim_1);
	ADD_CASE(tc, A38_pp_and_tp_2_to_4_not_divisible);
	ADD_CASE(tc, A39_tp_4_to_2_into);
	ADD_CASE(tc, A40_ep_and_tp_4_to_2_on_16_cubed);
	ADD_CASE(tc, A41_tp_4_to_8);
	ADD_CASE(tc, A42_tp_4_to_1);
	ADD_CASE(tc, A43_uneven_multi_axis_write);
	ADD_CASE(tc, A44_uneven_writer_partition);
	ADD_CASE(tc, A45_uneven_split_by_the_store);
	ADD_CASE(tc, A46_read_with_a_size_that_does_not_divide);
	ADD_CASE(tc, A47_dp_with_a_split_dim);
	ADD_CASE(tc, A48_tp_without_split_dim);
	ADD_CASE(tc, A49_ep_or_pp_with_a_split_dim);
	ADD_CASE(tc, A50_size_zero_or_negative);
	ADD_CASE(tc, A51_too_many_axes);
	ADD_CASE(tc, A52_kind_is_case_insensitive);
	ADD_CASE(tc, A53_nine_dimensions);
	ADD_CASE(tc, A54_non_contiguous_input);
	ADD_CASE(tc, A55_writer_partition_and_axes_together);
}

int main(void)
{
	return run_case("conformance: shards, uneven ones, invalid requests", add);
}

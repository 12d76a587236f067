/* tests/unit/test_layout.c - element types, shapes, boxes, axes and shards. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "layout/axis.h"
#include "lib/suite.h"
#include "unit/rng.h"

static uint64_t seed;

START_TEST(each_dtype_is_found_by_each_of_its_names)
{
	int seen_rank[32] = { 0 };
	int d;

	for (d = PT_DTYPE_BOOL; d < PT_DTYPE_COUNT; d++) {
		const struct pt_dtype_info *info = pt_dtype_info((enum pt_dtype)d);

		ck_assert_ptr_nonnull(info);
		ck_assert_int_eq(info->dtype, d);
		ck_assert_int_eq(pt_dtype_by_name(info->name), d);
		ck_assert(info->bits == 4 || info->bits == 8 || info->bits == 16 || info->bits == 32 || info->bits == 64 || info->bits == 128);
		if (info->safetensors) {
			ck_assert_int_eq(pt_dtype_by_safetensors(info->safetensors), d);
			ck_assert_int_eq(seen_rank[info->safetensors_rank]++, 0);
		}
		if (info->obj_code >= 0)
			ck_assert_int_eq(pt_dtype_by_obj_code(info->obj_code), d);
		/* numpy refuses fp8 under a float's name. */
		if (info->npy)
			ck_assert_str_ne(info->npy, "<f1");
	}
	ck_assert_ptr_null(pt_dtype_info(PT_DTYPE_INVALID));
	ck_assert_ptr_null(pt_dtype_info(PT_DTYPE_COUNT));
	ck_assert_int_eq(pt_dtype_by_name("float31"), PT_DTYPE_INVALID);
	ck_assert_int_eq(pt_dtype_by_safetensors("F6_E2M3"), PT_DTYPE_INVALID);
	ck_assert_int_eq(pt_dtype_by_obj_code(-1), PT_DTYPE_INVALID);
	ck_assert_int_eq(pt_dtype_by_obj_code(15), PT_DTYPE_INVALID);
}
END_TEST

/* Spec file-formats 3.2: the order in which save_file writes, highest first. */
START_TEST(safetensors_ranks_follow_save_file)
{
	static const enum pt_dtype order[] = {
		PT_DTYPE_U64, PT_DTYPE_I64, PT_DTYPE_F64, PT_DTYPE_C64, PT_DTYPE_F32, PT_DTYPE_U32, PT_DTYPE_I32, PT_DTYPE_BF16, PT_DTYPE_F16,
		PT_DTYPE_U16, PT_DTYPE_I16, PT_DTYPE_F8_E5M2FNUZ, PT_DTYPE_F8_E4M3FNUZ, PT_DTYPE_F8_E8M0, PT_DTYPE_F8_E4M3FN, PT_DTYPE_F8_E5M2,
		PT_DTYPE_I8, PT_DTYPE_U8, PT_DTYPE_F4_E2M1, PT_DTYPE_BOOL,
	};
	size_t i;

	for (i = 1; i < sizeof(order) / sizeof(order[0]); i++)
		ck_assert_int_lt(pt_dtype_info(order[i - 1])->safetensors_rank, pt_dtype_info(order[i])->safetensors_rank);
	ck_assert_ptr_null(pt_dtype_info(PT_DTYPE_C128)->safetensors);
}
END_TEST

static struct pt_shape shape_of(uint32_t ndim, const uint64_t *dim)
{
	struct pt_shape s = { .ndim = ndim };

	memcpy(s.dim, dim, ndim * sizeof(*dim));
	return s;
}

#define SHAPE(...) \
	shape_of(sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), (const uint64_t[]){ __VA_ARGS__ })

START_TEST(bytes_of_a_shape_are_checked)
{
	struct pt_shape scalar = { .ndim = 0 }, s;
	uint64_t bytes = 99;

	ck_assert_int_eq(pt_shape_bytes(&scalar, PT_DTYPE_F64, &bytes), 0);
	ck_assert_uint_eq(bytes, 8);
	s = SHAPE(3, 0, 5);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_C128, &bytes), 0);
	ck_assert_uint_eq(bytes, 0);
	s = SHAPE(3, 6);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_F4_E2M1, &bytes), 0);
	ck_assert_uint_eq(bytes, 9);
	s = SHAPE(6, 3);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_F4_E2M1, &bytes), -EINVAL);
	ck_assert_int_eq(pt_shape_bytes(&scalar, PT_DTYPE_F4_E2M1, &bytes), -EINVAL);
	s = SHAPE((uint64_t)1 << 40, (uint64_t)1 << 40, 0);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_U8, &bytes), -EOVERFLOW);
	s = SHAPE(0, (uint64_t)1 << 40, (uint64_t)1 << 40);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_U8, &bytes), 0);
	s = SHAPE((uint64_t)1 << 60);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_F32, &bytes), -EOVERFLOW);
	s = SHAPE(PT_TENSOR_BYTES_MAX);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_U8, &bytes), 0);
	ck_assert_uint_eq(bytes, PT_TENSOR_BYTES_MAX);
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_COUNT, &bytes), -EINVAL);
	s.ndim = PT_DIMS_MAX + 1;
	ck_assert_int_eq(pt_shape_bytes(&s, PT_DTYPE_U8, &bytes), -EINVAL);
	ck_assert_uint_eq(bytes, PT_TENSOR_BYTES_MAX);
}
END_TEST

START_TEST(shapes_are_read_as_they_are_written)
{
	static const char *const good[][2] = {
		{ "2,3", "[2,3]" }, { "[2, 3]", "[2,3]" }, { "2x3", "[2,3]" }, { "[]", "[]" }, { " [ ] ", "[]" }, { "7", "[7]" }, { "[7]", "[7]" },
		{ "0", "[0]" }, { "18446744073709551615", "[18446744073709551615]" }, { "[1x2x3]", "[1,2,3]" },
	};
	static const char *const bad[] = {
		"", "[", "]", "2,", ",2", "[2", "2]", "2,,3", "2x3,4", "-1", "+1", "2 3", "18446744073709551616", "99999999999999999999", "2.0", "(2,3)",
		"[2,3]x", "[,]", "0x10x",
	};
	char text[64], small[4];
	struct pt_shape s;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(pt_shape_parse(good[i][0], &s) == 0, "%s", good[i][0]);
		ck_assert_int_eq(pt_shape_format(&s, text, sizeof(text)), (int)strlen(good[i][1]));
		ck_assert_str_eq(text, good[i][1]);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pt_fail_clear();
		ck_assert_msg(pt_shape_parse(bad[i], &s) == -EINVAL, "'%s' was taken", bad[i]);
		ck_assert_msg(*pt_fail_sentence(), "'%s' without a sentence", bad[i]);
	}
	s = SHAPE(12, 34);
	ck_assert_int_eq(pt_shape_format(&s, small, sizeof(small)), 7);
	ck_assert_str_eq(small, "[12");
	ck_assert_int_eq(pt_shape_format(&s, NULL, 0), 7);
}
END_TEST

START_TEST(sixty_four_dimensions_are_read_and_one_more_is_not)
{
	char text[PT_DIMS_MAX * 21 + 3], more[2 * (PT_DIMS_MAX + 1)];
	struct pt_shape s = { .ndim = PT_DIMS_MAX }, back;
	uint32_t d;

	for (d = 0; d < PT_DIMS_MAX; d++)
		s.dim[d] = UINT64_MAX;
	ck_assert_int_eq(pt_shape_format(&s, text, sizeof(text)), PT_DIMS_MAX * 21 + 1);
	ck_assert_int_eq(pt_shape_parse(text, &back), 0);
	ck_assert(pt_shape_equal(&s, &back));
	for (d = 0; d < sizeof(more); d++)
		more[d] = d % 2 ? ',' : '1';
	more[sizeof(more) - 1] = '\0';
	ck_assert_int_eq(pt_shape_parse(more, &back), -EINVAL);
}
END_TEST

START_TEST(boxes_meet_where_they_share_an_element)
{
	struct pt_shape s = SHAPE(4, 6), line = SHAPE(4);
	struct pt_box a, b, both, whole, scalar = { .ndim = 0 };

	pt_shape_box(&s, &whole);
	ck_assert(pt_box_within(&whole, &s));
	ck_assert(!pt_box_within(&whole, &line));
	a = b = whole;
	a.ext[1] = 3;
	b.off[1] = 3;
	b.ext[1] = 3;
	ck_assert(!pt_box_intersect(&a, &b, &both));
	b.off[1] = 2;
	ck_assert(pt_box_intersect(&a, &b, &both));
	ck_assert_uint_eq(both.off[1], 2);
	ck_assert_uint_eq(both.ext[1], 1);
	ck_assert_uint_eq(both.ext[0], 4);
	b.ext[1] = 5;
	ck_assert(!pt_box_within(&b, &s));
	b.ext[1] = UINT64_MAX;
	ck_assert(!pt_box_within(&b, &s));
	ck_assert(pt_box_intersect(&a, &b, &both));
	a.ext[0] = 0;
	ck_assert(pt_box_empty(&a));
	ck_assert(!pt_box_intersect(&a, &whole, &both));
	ck_assert(!pt_box_empty(&scalar));
	ck_assert(pt_box_intersect(&scalar, &scalar, &both));
	ck_assert(pt_box_equal(&scalar, &both));
	ck_assert(!pt_box_equal(&scalar, &whole));
	ck_assert(!pt_box_intersect(&scalar, &whole, &both));
}
END_TEST

START_TEST(packing_never_cuts_a_byte)
{
	struct pt_shape s = SHAPE(3, 8);
	struct pt_box box, packed, scalar = { .ndim = 0 };
	uint64_t unit = 0;

	pt_shape_box(&s, &box);
	box.off[1] = 2;
	box.ext[1] = 4;
	ck_assert_int_eq(pt_box_pack(&box, PT_DTYPE_F32, &packed, &unit), 0);
	ck_assert_uint_eq(unit, 4);
	ck_assert(pt_box_equal(&box, &packed));
	ck_assert_int_eq(pt_box_pack(&box, PT_DTYPE_F4_E2M1, &packed, &unit), 0);
	ck_assert_uint_eq(unit, 1);
	ck_assert_uint_eq(packed.off[1], 1);
	ck_assert_uint_eq(packed.ext[1], 2);
	ck_assert_uint_eq(packed.ext[0], 3);
	box.off[1] = 3;
	ck_assert_int_eq(pt_box_pack(&box, PT_DTYPE_F4_E2M1, &packed, &unit), -EINVAL);
	box.off[1] = 2;
	box.ext[1] = 3;
	ck_assert_int_eq(pt_box_pack(&box, PT_DTYPE_F4_E2M1, &packed, &unit), -EINVAL);
	ck_assert_int_eq(pt_box_pack(&scalar, PT_DTYPE_F4_E2M1, &packed, &unit), -EINVAL);
	ck_assert_int_eq(pt_box_pack(&scalar, PT_DTYPE_C128, &packed, &unit), 0);
	ck_assert_uint_eq(unit, 16);
}
END_TEST

static const struct pt_axis dp = { .kind = PT_AXIS_DP, .rank = 0, .size = 2, .dim = -1 };
static const struct pt_axis tp = { .kind = PT_AXIS_TP, .rank = 1, .size = 4, .dim = 0 };
static const struct pt_axis ep = { .kind = PT_AXIS_EP, .rank = 0, .size = 2, .dim = -1, .has_id = true, .id = 11 };
static const struct pt_axis pp = { .kind = PT_AXIS_PP, .rank = 0, .size = 2, .dim = -1, .has_id = true, .id = -7 };

START_TEST(axes_stand_in_canonical_order_however_they_come)
{
	const struct pt_axis *all[] = { &dp, &tp, &ep, &pp };
	struct pt_layout first = { .axis_count = 0 }, l, scope;
	char text[PT_LAYOUT_TEXT_MAX];
	int i, orders = 0;

	for (i = 0; i < 4; i++)
		ck_assert_int_eq(pt_layout_add(&first, all[i]), 0);
	for (i = 0; i < 256; i++) {
		int at[] = { i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6 }, k;

		if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
			continue;
		l.axis_count = 0;
		for (k = 0; k < 4; k++)
			ck_assert_int_eq(pt_layout_add(&l, all[at[k]]), 0);
		ck_assert(pt_layout_equal(&l, &first));
		orders++;
	}
	ck_assert_int_eq(orders, 24);
	ck_assert_int_eq(pt_layout_format(&first, text), (int)strlen(text));
	ck_assert_str_eq(text, "dp=0of2/tp=1of4,dim=0/ep=0of2,expert=11/pp=0of2,stage=-7");
	ck_assert_int_eq(pt_layout_check_complete(&first), 0);
	pt_layout_scope(&first, &scope);
	pt_layout_format(&scope, text);
	ck_assert_str_eq(text, "dp=0of2/ep=0of2,expert=11/pp=0of2,stage=-7");
	l.axis_count = 0;
	ck_assert_int_eq(pt_layout_format(&l, text), 0);
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(pt_layout_check_complete(&l), 0);
}
END_TEST

START_TEST(nonsensical_axes_are_refused)
{
	static const struct pt_axis bad[] = {
		{ .kind = PT_AXIS_KINDS, .rank = 0, .size = 1, .dim = -1 },
		{ .kind = PT_AXIS_DP, .rank = 2, .size = 2, .dim = -1 },
		{ .kind = PT_AXIS_DP, .rank = -1, .size = 2, .dim = -1 },
		{ .kind = PT_AXIS_DP, .rank = 0, .size = -1, .dim = -1 },
		{ .kind = PT_AXIS_DP, .rank = 0, .size = 1, .dim = 0 },
		{ .kind = PT_AXIS_DP, .rank = 0, .size = 1, .dim = -1, .has_id = true },
		{ .kind = PT_AXIS_TP, .rank = 0, .size = 1, .dim = -2 },
		{ .kind = PT_AXIS_TP, .rank = 0, .size = 1, .dim = PT_DIMS_MAX },
		{ .kind = PT_AXIS_TP, .rank = 0, .size = 1, .dim = 0, .has_id = true },
		{ .kind = PT_AXIS_EP, .rank = 0, .size = 1, .dim = 1 },
	};
	struct pt_layout l = { .axis_count = 0 };
	struct pt_axis a;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(pt_layout_add(&l, &bad[i]) == -EINVAL, "axis %zu", i);
	ck_assert_uint_eq(l.axis_count, 0);
	ck_assert_int_eq(pt_layout_add(&l, &tp), 0);
	ck_assert_int_eq(pt_layout_add(&l, &tp), -EINVAL);
	ck_assert_uint_eq(l.axis_count, 1);

	a = tp;
	a.dim = -1;
	l = (struct pt_layout){ .axis_count = 1, .axis = { a } };
	ck_assert_int_eq(pt_layout_check_complete(&l), -EINVAL);
	a = ep;
	a.has_id = false;
	l.axis[0] = a;
	ck_assert_int_eq(pt_layout_check_complete(&l), -EINVAL);
	a = dp;
	a.size = 0;
	l.axis[0] = a;
	ck_assert_int_eq(pt_layout_check_complete(&l), -EINVAL);
	l = (struct pt_layout){ .axis_count = 2, .axis = { tp, dp } };
	ck_assert_int_eq(pt_layout_check_complete(&l), -EINVAL);
	l.axis_count = 5;
	ck_assert_int_eq(pt_layout_check_complete(&l), -EINVAL);
}
END_TEST

START_TEST(an_id_left_out_is_the_rank)
{
	struct pt_axis a = { .kind = PT_AXIS_EP, .rank = 3, .size = 8, .dim = -1 }, b = a;
	struct pt_layout x = { .axis_count = 1, .axis = { a } }, y;
	char text[PT_LAYOUT_TEXT_MAX];

	b.has_id = true;
	b.id = 3;
	y = (struct pt_layout){ .axis_count = 1, .axis = { b } };
	ck_assert(pt_layout_equal(&x, &y));
	y.axis[0].id = 4;
	ck_assert(!pt_layout_equal(&x, &y));
	pt_layout_format(&x, text);
	ck_assert_str_eq(text, "ep=3of8,expert=3");
	a.size = 0;
	pt_axis_format(&a, text);
	ck_assert_str_eq(text, "ep=3,expert=3");
}
END_TEST

START_TEST(the_longest_layout_fits_its_text)
{
	struct pt_layout l = { .axis_count = 4 };
	char text[PT_LAYOUT_TEXT_MAX];
	int i;

	for (i = 0; i < 4; i++)
		l.axis[i] = (struct pt_axis){ .kind = (enum pt_axis_kind)i, .rank = INT32_MAX - 1, .size = INT32_MAX,
					      .dim = i == PT_AXIS_TP ? PT_DIMS_MAX - 1 : -1, .has_id = i > 1, .id = INT32_MIN };
	ck_assert_int_lt(pt_layout_format(&l, text), PT_LAYOUT_TEXT_MAX);
	ck_assert_ptr_nonnull(strstr(text, ",stage=-2147483648"));
}
END_TEST

static void check_shards(uint64_t extent, int32_t size, enum pt_split split)
{
	uint64_t next = 0, off, ext, piece = extent / (uint64_t)size + (extent % (uint64_t)size != 0);
	int32_t r;

	for (r = 0; r < size; r++) {
		pt_shard_range(extent, r, size, split, &off, &ext);
		ck_assert_uint_eq(off, next);
		if (split == PT_SPLIT_CHUNK)
			ck_assert_uint_eq(ext, extent - off < piece ? extent - off : piece);
		else
			ck_assert(ext == extent / (uint64_t)size || ext == extent / (uint64_t)size + 1);
		next += ext;
	}
	ck_assert_uint_eq(next, extent);
}

START_TEST(shards_cover_the_dimension_once)
{
	struct rng r = { seed };
	uint64_t extent;
	int32_t size;

	for (extent = 0; extent < 40; extent++) {
		for (size = 1; size < 13; size++) {
			check_shards(extent, size, PT_SPLIT_BALANCED);
			check_shards(extent, size, PT_SPLIT_CHUNK);
		}
	}
	for (size = 1; size < 200; size++) {
		check_shards(rng_next(&r), size, PT_SPLIT_BALANCED);
		check_shards(rng_next(&r), size, PT_SPLIT_CHUNK);
		check_shards(UINT64_MAX, size, PT_SPLIT_CHUNK);
		check_shards(UINT64_MAX, size, PT_SPLIT_BALANCED);
	}
}
END_TEST

START_TEST(the_chunk_rule_cuts_as_torch_chunk)
{
	static const uint64_t want[][5] = { { 37, 10, 10, 10, 7 }, { 5, 2, 2, 1, 0 }, { 4, 1, 1, 1, 1 }, { 9, 3, 3, 3, 0 }, { 0, 0, 0, 0, 0 } };
	uint64_t off, ext;
	size_t i;
	int32_t r;

	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		for (r = 0; r < 4; r++) {
			pt_shard_range(want[i][0], r, 4, PT_SPLIT_CHUNK, &off, &ext);
			ck_assert_uint_eq(ext, want[i][r + 1]);
		}
	}
	/* And the balanced rule: [floor(D r/n), floor(D (r+1)/n)). */
	pt_shard_range(37, 1, 4, PT_SPLIT_UNSET, &off, &ext);
	ck_assert_uint_eq(off, 9);
	ck_assert_uint_eq(ext, 9);
	pt_shard_range(37, 3, 4, PT_SPLIT_BALANCED, &off, &ext);
	ck_assert_uint_eq(off, 27);
	ck_assert_uint_eq(ext, 10);
}
END_TEST

START_TEST(a_shard_box_is_within_its_tensor_or_refused)
{
	struct pt_shape s = SHAPE(5, 6);
	struct pt_partition part = { .rank = 1, .size = 2, .dim = 0 };
	struct pt_box box;

	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_CHUNK, &box), 0);
	ck_assert_uint_eq(box.off[0], 3);
	ck_assert_uint_eq(box.ext[0], 2);
	ck_assert_uint_eq(box.ext[1], 6);
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F4_E2M1, &part, PT_SPLIT_CHUNK, &box), 0);
	part.dim = 1;
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_BALANCED, &box), 0);
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F4_E2M1, &part, PT_SPLIT_BALANCED, &box), -EINVAL);  /* 3 and 3 would cut a byte */
	part.dim = 2;
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_BALANCED, &box), -EINVAL);
	part.dim = -1;
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_BALANCED, &box), -EINVAL);
	part = (struct pt_partition){ .rank = 2, .size = 2, .dim = 0 };
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_BALANCED, &box), -EINVAL);
	part = (struct pt_partition){ .rank = 0, .size = 0, .dim = 0 };
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_F32, &part, PT_SPLIT_BALANCED, &box), -EINVAL);
	ck_assert_int_eq(pt_shard_box(&s, PT_DTYPE_INVALID, &part, PT_SPLIT_BALANCED, &box), -EINVAL);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("layout");

	seed = rng_seed(7);
	tcase_add_test(tcase, each_dtype_is_found_by_each_of_its_names);
	tcase_add_test(tcase, safetensors_ranks_follow_save_file);
	tcase_add_test(tcase, bytes_of_a_shape_are_checked);
	tcase_add_test(tcase, shapes_are_read_as_they_are_written);
	tcase_add_test(tcase, sixty_four_dimensions_are_read_and_one_more_is_not);
	tcase_add_test(tcase, boxes_meet_where_they_share_an_element);
	tcase_add_test(tcase, packing_never_cuts_a_byte);
	tcase_add_test(tcase, axes_stand_in_canonical_order_however_they_come);
	tcase_add_test(tcase, nonsensical_axes_are_refused);
	tcase_add_test(tcase, an_id_left_out_is_the_rank);
	tcase_add_test(tcase, the_longest_layout_fits_its_text);
	tcase_add_test(tcase, shards_cover_the_dimension_once);
	tcase_add_test(tcase, the_chunk_rule_cuts_as_torch_chunk);
	tcase_add_test(tcase, a_shard_box_is_within_its_tensor_or_refused);
	return run_suite("layout", &tcase, 1);
}

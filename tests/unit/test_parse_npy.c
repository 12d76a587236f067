/* tests/unit/test_parse_npy.c - npy files of every version and writer come in whole, or are refused with a sentence. */
#include "base/alloc.h"
#include "unit/format_support.h"

static void make(int version, const char *text, size_t data_bytes, struct pt_buf *ret_file)
{
	struct pt_buf file = PT_BUF_INIT;
	size_t i;

	pt_buf_append(&file, "\x93NUMPY", 6);
	pt_buf_append_u8(&file, (uint8_t)version);
	pt_buf_append_u8(&file, 0);
	if (version == 1)
		pt_buf_append_le16(&file, (uint16_t)(strlen(text) + 1));
	else
		pt_buf_append_le32(&file, (uint32_t)(strlen(text) + 1));
	pt_buf_append_str(&file, text);
	pt_buf_append_u8(&file, '\n');
	for (i = 0; i < data_bytes; i++)
		pt_buf_append_u8(&file, (uint8_t)i);
	*ret_file = file;
}

static int parse(const char *text, size_t data_bytes, enum pt_dtype hinted, size_t piece, struct seen *s)
{
	struct pt_parse_hint hint = { .dtype = hinted };
	struct pt_buf file;
	int rc;

	make(1, text, data_bytes, &file);
	rc = parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, piece, s);
	pt_buf_done(&file);
	return rc;
}

static void expect_dtype(const char *descr, enum pt_dtype hint, enum pt_dtype dtype, size_t bytes)
{
	char text[200];
	struct seen s;

	snprintf(text, sizeof(text), "{'descr': %s, 'fortran_order': False, 'shape': (2,), }", descr);
	ck_assert_msg(parse(text, 2 * bytes, hint, 5, &s) == 0, "%s: %s", descr, pt_fail_sentence());
	ck_assert_uint_eq(s.tensors, 1);
	ck_assert_int_eq(s.tensor[0].dtype, dtype);
	seen_done(&s);
}

START_TEST(every_type_is_recognised)
{
	static const struct {
		const char *descr;
		enum pt_dtype dtype;
		size_t bytes;
	} types[] = {
		{ "'|b1'", PT_DTYPE_BOOL, 1 }, { "'?'", PT_DTYPE_BOOL, 1 }, { "'|i1'", PT_DTYPE_I8, 1 }, { "\"|u1\"", PT_DTYPE_U8, 1 },
		{ "'<i2'", PT_DTYPE_I16, 2 }, { "'<u2'", PT_DTYPE_U16, 2 }, { "'<f2'", PT_DTYPE_F16, 2 }, { "'=i4'", PT_DTYPE_I32, 4 },
		{ "'u4'", PT_DTYPE_U32, 4 }, { "'<f4'", PT_DTYPE_F32, 4 }, { "'>i8'", PT_DTYPE_I64, 8 }, { "'<u8'", PT_DTYPE_U64, 8 },
		{ "'<f8'", PT_DTYPE_F64, 8 }, { "'<c8'", PT_DTYPE_C64, 8 }, { "'<c16'", PT_DTYPE_C128, 16 }, { "'float32'", PT_DTYPE_F32, 4 },
		{ "'bfloat16'", PT_DTYPE_BF16, 2 }, { "'float8_e5m2'", PT_DTYPE_F8_E5M2, 1 },
	};
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		expect_dtype(types[i].descr, PT_DTYPE_INVALID, types[i].dtype, types[i].bytes);
	expect_dtype("'<V2'", PT_DTYPE_BF16, PT_DTYPE_BF16, 2);
	expect_dtype("'|V2'", PT_DTYPE_BF16, PT_DTYPE_BF16, 2);
	expect_dtype("'<V1'", PT_DTYPE_F8_E4M3FN, PT_DTYPE_F8_E4M3FN, 1);
	expect_dtype("'|V1'", PT_DTYPE_F8_E8M0, PT_DTYPE_F8_E8M0, 1);
	expect_dtype("'<f1'", PT_DTYPE_F8_E5M2, PT_DTYPE_F8_E5M2, 1);
}
END_TEST

START_TEST(types_that_ptio_has_not_are_refused_by_name)
{
	static const struct {
		const char *descr;
		int rc;
		const char *says;
	} types[] = {
		{ "'|O'", -EOPNOTSUPP, "Python objects" }, { "'<U5'", -EOPNOTSUPP, "'<U5'" }, { "'|S3'", -EOPNOTSUPP, "'|S3'" },
		{ "'<M8[ns]'", -EOPNOTSUPP, "'<M8[ns]'" }, { "'|V16'", -EOPNOTSUPP, "'|V16'" }, { "'<f16'", -EOPNOTSUPP, "'<f16'" },
		{ "'<c32'", -EOPNOTSUPP, "'<c32'" }, { "[('a', '<f4')]", -EOPNOTSUPP, "fields" }, { "'>V2'", -EOPNOTSUPP, "'>V2'" },
		{ "'<V2'", -EINVAL, "user.ptio.dtype" }, { "'<V1'", -EINVAL, "user.ptio.dtype" }, { "'float4_e2m1fn_x2'", -EOPNOTSUPP, "float4" },
		{ "''", -EOPNOTSUPP, "''" },
	};
	char text[200];
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(text, sizeof(text), "{'descr': %s, 'fortran_order': False, 'shape': (2,), }", types[i].descr);
		ck_assert_msg(parse(text, 2, PT_DTYPE_F32, 64, &s) == types[i].rc, "%s", types[i].descr);
		ck_assert_msg(strstr(pt_fail_sentence(), types[i].says) != NULL, "%s: %s", types[i].descr, pt_fail_sentence());
		seen_done(&s);
	}
}
END_TEST

START_TEST(dict_literals_of_other_writers_are_read)
{
	static const char *const good[] = {
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}",
		" { 'fortran_order' : False , 'shape' : ( 2L , 3L , ) , 'descr' : '<f4' }   ",
	};
	static const char *const bad[] = {
		"{'descr': '<f4', 'fortran_order': False}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
		"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "['descr']", "{'descr': '<f4', 'fortran_order': False, 'shape': (02, 3)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "{,}", "", "{'descr: 1}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
		("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}"),
	};
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(parse(good[i], 24, PT_DTYPE_INVALID, 1, &s) == 0, "%s: %s", good[i], pt_fail_sentence());
		ck_assert(s.tensor[0].shape.ndim == 2 && s.tensor[0].shape.dim[0] == 2 && s.tensor[0].shape.dim[1] == 3);
		seen_done(&s);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(parse(bad[i], 24, PT_DTYPE_INVALID, 4096, &s) == -EINVAL, "%s", bad[i]);
		seen_done(&s);
	}
}
END_TEST

START_TEST(versions_1_to_3_are_read)
{
	struct pt_buf file;
	struct seen s;
	int v;

	for (v = 1; v <= 3; v++) {
		make(v, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", 6, &file);
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 3, &s), 0);
		ck_assert_int_eq(memcmp(s.storage[0].data, "\0\1\2\3\4\5", 6), 0);
		seen_done(&s);
		file.data[7] = 1;
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 64, &s), -EINVAL);
		seen_done(&s);
		pt_buf_done(&file);
	}
	make(4, "{}", 0, &file);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 64, &s), -EINVAL);
	seen_done(&s);
	pt_put_le32(file.data + 8, 70000);
	file.data[6] = 2;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 64, &s), -EFBIG);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(big_endian_elements_are_turned_round_wherever_a_piece_cuts_them)
{
	static const struct {
		const char *descr;
		size_t bytes, unit;
	} types[] = { { ">u2", 2, 2 }, { ">f4", 4, 4 }, { ">i8", 8, 8 }, { ">c8", 8, 4 }, { ">c16", 16, 8 }, { ">u1", 1, 1 } };
	char text[200];
	struct seen s;
	size_t i, k, j;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t n = 601 * types[i].bytes;

		snprintf(text, sizeof(text), "{'descr': '%s', 'fortran_order': False, 'shape': (601,), }", types[i].descr);
		for (k = 0; k < PIECE_SIZES; k++) {
			ck_assert_int_eq(parse(text, n, PT_DTYPE_INVALID, piece_sizes[k], &s), 0);
			ck_assert_uint_eq(s.storage[0].len, n);
			for (j = 0; j < n; j++)
				ck_assert_uint_eq(s.storage[0].data[j], (uint8_t)(j - j % types[i].unit + types[i].unit - 1 - j % types[i].unit));
			seen_done(&s);
		}
	}
}
END_TEST

START_TEST(big_endian_holes_are_zeros_and_keep_their_place)
{
	struct pt_parse_sink sink;
	struct pt_parser *p;
	struct pt_buf file;
	struct seen s;

	make(1, "{'descr': '>u4', 'fortran_order': False, 'shape': (5000,), }", 0, &file);
	memset(&s, 0, sizeof(s));
	sink = seen_sink(&s);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, file.data, file.len), 0);
	ck_assert_int_eq(pt_parser_feed(p, "\1\2", 2), 0);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 19000), 0);
	ck_assert_int_eq(pt_parser_feed(p, "\1\2", 2), 0);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 996), 0);
	ck_assert(pt_parser_complete(p));
	ck_assert_int_eq(memcmp(s.storage[0].data, "\0\0\2\1\0\0\0", 7), 0);
	ck_assert_int_eq(memcmp(s.storage[0].data + 19000, "\2\1\0\0\0", 5), 0);
	pt_parser_free(p);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(fortran_order_becomes_strides_where_it_matters)
{
	uint8_t out[24], want[24] = { 0 };
	struct pt_parse_tensor t = { .dtype = PT_DTYPE_U8 };
	struct seen s;
	int i, j, k, n = 0;

	ck_assert_int_eq(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4), }", 24, PT_DTYPE_INVALID, 7, &s), 0);
	ck_assert(!s.tensor[0].contiguous);
	ck_assert(s.tensor[0].stride[0] == 1 && s.tensor[0].stride[1] == 2 && s.tensor[0].stride[2] == 6);
	t.shape = s.tensor[0].shape;
	memcpy(t.stride, s.tensor[0].stride, sizeof(t.stride));
	pt_gather_strided(s.storage[0].data, &t, 0, 24, out);
	for (i = 0; i < 2; i++)
		for (j = 0; j < 3; j++)
			for (k = 0; k < 4; k++)
				want[n++] = (uint8_t)(i + 2 * j + 6 * k);
	ck_assert_int_eq(memcmp(out, want, 24), 0);
	seen_done(&s);
	ck_assert_int_eq(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 5, 1), }", 5, PT_DTYPE_INVALID, 7, &s), 0);
	ck_assert(s.tensor[0].contiguous);
	seen_done(&s);
	ck_assert_int_eq(parse("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 0, 5), }", 0, PT_DTYPE_INVALID, 7, &s), 0);
	ck_assert(s.tensor[0].contiguous);
	seen_done(&s);
}
END_TEST

START_TEST(truncated_longer_and_changed_files_are_refused)
{
	struct pt_parse_hint hint = { 0 };
	struct pt_buf file;
	struct seen s;

	make(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2, 3), }", 24, &file);
	check_robust(PT_FORMAT_COUNT, NULL, &file);
	check_robust(PT_FORMAT_NPY, NULL, &file);
	hint.file_size = file.len + 1;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), -EINVAL);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(what_ptio_serves_comes_back)
{
	int d;

	for (d = PT_DTYPE_INVALID + 1; d < PT_DTYPE_COUNT; d++) {
		const struct pt_dtype_info *info = pt_dtype_info((enum pt_dtype)d);
		struct pt_serve_tensor t = { .dtype = (enum pt_dtype)d, .shape = shape_of(2, 3, 5) };
		struct pt_parse_hint hint = { .dtype = (enum pt_dtype)d };
		const void *payload[] = { calloc(15, 16) };
		struct pt_served served;
		struct pt_buf file;
		struct seen s;

		if (info->npy) {
			ck_assert_int_eq(pt_serve(PT_FORMAT_NPY, &t, 1, 0, &served), 0);
			assemble(&served, payload, &file);
			ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), 0);
			ck_assert_int_eq(s.tensor[0].dtype, d);
			ck_assert(pt_shape_equal(&s.tensor[0].shape, &t.shape));
			seen_done(&s);
			pt_buf_done(&file);
			pt_served_done(&served);
		}
		free((void *)payload[0]);
	}
}
END_TEST

START_TEST(allocation_failure_is_held_as_such)
{
	struct pt_buf file;
	int64_t n = 0;
	int rc;

	make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24, &file);
	do {
		struct pt_parse_sink sink = { 0 };
		struct pt_parser *p = NULL;

		pt_alloc_fail_after(n++);
		rc = pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p);
		if (!rc)
			rc = pt_parser_feed(p, file.data, file.len);
		pt_alloc_fail_after(-1);
		if (rc)
			ck_assert_int_eq(rc, -ENOMEM);
		pt_parser_free(p);
		ck_assert_int_lt(n, 1000);
	} while (rc);
	pt_buf_done(&file);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("parse_npy");

	tcase_add_test(tc, every_type_is_recognised);
	tcase_add_test(tc, types_that_ptio_has_not_are_refused_by_name);
	tcase_add_test(tc, dict_literals_of_other_writers_are_read);
	tcase_add_test(tc, versions_1_to_3_are_read);
	tcase_add_test(tc, big_endian_elements_are_turned_round_wherever_a_piece_cuts_them);
	tcase_add_test(tc, big_endian_holes_are_zeros_and_keep_their_place);
	tcase_add_test(tc, fortran_order_becomes_strides_where_it_matters);
	tcase_add_test(tc, truncated_longer_and_changed_files_are_refused);
	tcase_add_test(tc, what_ptio_serves_comes_back);
	tcase_add_test(tc, allocation_failure_is_held_as_such);
	return run_suite("parse_npy", &tc, 1);
}

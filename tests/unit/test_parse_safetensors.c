/* tests/unit/test_parse_safetensors.c - safetensors come in whole, from pieces of any size, or are refused with a sentence. */
#include "base/alloc.h"
#include "unit/format_support.h"

/* Length, header text, `data_bytes` bytes 0, 1, 2, ... */
static void make(const char *header, size_t data_bytes, struct pt_buf *ret_file)
{
	struct pt_buf file = PT_BUF_INIT;
	size_t i;

	pt_buf_append_le64(&file, strlen(header));
	pt_buf_append_str(&file, header);
	for (i = 0; i < data_bytes; i++)
		pt_buf_append_u8(&file, (uint8_t)i);
	*ret_file = file;
}

static int parse(const char *header, size_t data_bytes, struct seen *s)
{
	struct pt_buf file;
	int rc;

	make(header, data_bytes, &file);
	rc = parse_all(PT_FORMAT_SAFETENSORS, NULL, file.data, file.len, 11, s);
	pt_buf_done(&file);
	return rc;
}

static void expect_ok(const char *header, size_t data_bytes, uint32_t tensors)
{
	struct seen s;

	ck_assert_msg(parse(header, data_bytes, &s) == 0, "%s: %s", header, pt_fail_sentence());
	ck_assert_uint_eq(s.tensors, tensors);
	ck_assert_uint_eq(s.storages, tensors);
	seen_done(&s);
}

static void expect_refusal(const char *header, size_t data_bytes, int rc, const char *says)
{
	struct seen s;
	int got = parse(header, data_bytes, &s);

	ck_assert_msg(got == rc, "%s gave %d", header, got);
	ck_assert_msg(strstr(pt_fail_sentence(), says) != NULL, "%s: \"%s\" lacks \"%s\"", header, pt_fail_sentence(), says);
	ck_assert_int_eq(s.header_done, 0);
	seen_done(&s);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

START_TEST(tensors_come_in_file_order_with_their_bytes)
{
	static const char header[] =
		" { \"__metadata__\" : {\"format\":\"pt\",\"x\":\"\\n\\u00e9\"}, \"late\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},\n"
		"\"empty\":{\"dtype\":\"F64\",\"shape\":[0,5],\"data_offsets\":[8,8]}, \"sc\\u00e9\":{\"shape\":[],\"data_offsets\":[4,8],\"dtype\":\"F32\"},"
		"\"f4\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[0,4],\"more\":[{}]}}   ";
	struct pt_buf file;
	struct seen s;
	size_t k;

	make(header, 11, &file);
	for (k = 0; k < PIECE_SIZES; k++) {
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, piece_sizes[k], &s), 0);
		ck_assert_uint_eq(s.tensors, 4);
		ck_assert_str_eq(s.tensor[0].name, "f4");
		ck_assert(s.tensor[0].dtype == PT_DTYPE_F4_E2M1 && s.tensor[0].shape.ndim == 2 && s.tensor[0].shape.dim[1] == 4);
		ck_assert_str_eq(s.tensor[1].name, "sc\xc3\xa9");
		ck_assert(s.tensor[1].dtype == PT_DTYPE_F32 && s.tensor[1].shape.ndim == 0);
		ck_assert_str_eq(s.tensor[2].name, "empty");
		ck_assert_uint_eq(s.storage_bytes[2], 0);
		ck_assert_str_eq(s.tensor[3].name, "late");
		ck_assert_int_eq(memcmp(s.storage[0].data, "\0\1\2\3", 4), 0);
		ck_assert_int_eq(memcmp(s.storage[1].data, "\4\5\6\7", 4), 0);
		ck_assert_int_eq(memcmp(s.storage[3].data, "\10\11\12", 3), 0);
		seen_done(&s);
	}
	check_robust(PT_FORMAT_COUNT, NULL, &file);
	check_robust(PT_FORMAT_SAFETENSORS, NULL, &file);
	pt_buf_done(&file);
}
END_TEST

START_TEST(what_the_usual_reader_takes_is_taken)
{
	expect_ok("{}", 0, 0);
	expect_ok("{\"__metadata__\":{}}", 0, 0);
	expect_ok("{\"__metadata__\":null," A "}", 8, 1);
	expect_ok("\r\n\t {" A "}\n ", 8, 1);
	expect_ok("{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1);
	expect_ok("{\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, 1);
	expect_ok("{\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}," A "}", 8, 2);
}
END_TEST

START_TEST(malformed_headers_are_refused)
{
	static const char *const bad[] = {
		"[]", "{" A ",}", "{" A "} x", "{" A, "{\"a\"}", "{a:1}", "{\"a\":}", "{" A " " A "}", "{,}", "  ", "{\"a\":{\"dtype\":\"F32\"}}",
		"{\"a\":[\"F32\",[2],[0,8]]}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}",
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,\"8\"]}}",
		"{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}",
		"{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", "{\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
		"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", "{\"__metadata__\":{\"a\":1}," A "}", "{\"__metadata__\":[]," A "}",
		"{\"__metadata__\":{\"a\":null}," A "}", "{\"a\":null}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]]}", "{\"a\":tru}",
	};
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(parse(bad[i], 8, &s) == -EINVAL, "%s", bad[i]);
		ck_assert_int_eq(s.header_done, 0);
		seen_done(&s);
	}
}
END_TEST

START_TEST(holes_overlaps_and_wrong_sizes_are_refused)
{
	expect_refusal("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, -EINVAL, "\"a\" begins at byte 1");
	expect_refusal("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[9,11]}}", 11, -EINVAL, "holes");
	expect_refusal("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, -EINVAL, "overlaps");
	expect_refusal("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, -EINVAL, "overlaps");
	expect_refusal("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, -EINVAL, "12 bytes");
	expect_refusal("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, -EINVAL, "even");
	expect_refusal("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, -EINVAL, "\"a\"");
	expect_refusal("{" A "," A "}", 8, -EINVAL, "twice");
	expect_refusal("{\"__metadata__\":{},\"__metadata__\":{}," A "}", 8, -EINVAL, "twice");
	expect_refusal("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," A "}", 8, -EINVAL, "\"k\" twice");
	expect_refusal("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, -EINVAL, "\"a\"");
}
END_TEST

START_TEST(unknown_dtype_is_refused_by_name)
{
	expect_refusal("{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3, -EOPNOTSUPP, "\"a\" has dtype F6_E2M3");
}
END_TEST

START_TEST(header_lengths_out_of_bounds_are_refused_before_anything_is_held)
{
	struct pt_parse_hint hint = { .file_size = 100 };
	uint8_t length[8];
	struct seen s;

	pt_put_le64(length, 100000001);
	ck_assert_int_eq(parse_all(PT_FORMAT_SAFETENSORS, NULL, length, 8, 8, &s), -EFBIG);
	seen_done(&s);
	pt_put_le64(length, UINT64_MAX);
	ck_assert_int_eq(parse_all(PT_FORMAT_SAFETENSORS, NULL, length, 8, 8, &s), -EFBIG);
	seen_done(&s);
	pt_put_le64(length, 0);
	ck_assert_int_eq(parse_all(PT_FORMAT_SAFETENSORS, NULL, length, 8, 8, &s), -EINVAL);
	seen_done(&s);
	pt_put_le64(length, 93);
	ck_assert_int_eq(parse_all(PT_FORMAT_SAFETENSORS, &hint, length, 8, 8, &s), -EINVAL);
	ck_assert(strstr(pt_fail_sentence(), "more than the file has"));
	seen_done(&s);
}
END_TEST

START_TEST(a_known_file_size_must_agree)
{
	struct pt_parse_hint hint = { 0 };
	struct pt_buf file;
	struct seen s;

	make("{" A "}", 8, &file);
	hint.file_size = file.len;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), 0);
	seen_done(&s);
	hint.file_size++;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), -EINVAL);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(holes_of_a_sparse_copy_are_zeros)
{
	struct pt_parse_sink sink;
	struct pt_parser *p;
	struct pt_buf file;
	struct seen s;

	make("{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}", 0, &file);
	memset(&s, 0, sizeof(s));
	sink = seen_sink(&s);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, file.data, file.len), 0);
	ck_assert_int_eq(pt_parser_format(p), PT_FORMAT_SAFETENSORS);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 12), 0);
	ck_assert(pt_parser_complete(p));
	ck_assert_int_eq(memcmp(s.storage[0].data, "\0\0\0\0\0\0\0\0", 8), 0);
	ck_assert_uint_eq(s.storage[1].len, 4);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 1), -EINVAL);
	pt_parser_free(p);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(what_ptio_serves_comes_back)
{
	struct pt_serve_tensor t[3] = {
		{ .name = "w.\"1\"\n", .dtype = PT_DTYPE_BF16, .shape = shape_of(2, 2, 3) },
		{ .name = "a", .dtype = PT_DTYPE_I64, .shape = shape_of(0) },
		{ .name = "e", .dtype = PT_DTYPE_F8_E8M0, .shape = shape_of(1, 0) },
	};
	const void *payload[] = { "abcdefghijkl", "12345678", "" };
	struct pt_served served;
	struct pt_buf file;
	struct seen s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, 3, 0, &served), 0);
	assemble(&served, payload, &file);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 7, &s), 0);
	ck_assert_uint_eq(s.tensors, 3);
	ck_assert_str_eq(s.tensor[0].name, "a");
	ck_assert_str_eq(s.tensor[1].name, "w.\"1\"\n");
	ck_assert_int_eq(memcmp(s.storage[1].data, "abcdefghijkl", 12), 0);
	seen_done(&s);
	pt_buf_done(&file);
	pt_served_done(&served);
}
END_TEST

START_TEST(a_stored_object_is_a_file_like_any_other)
{
	static const char *const metadata[] = { "key", "a/b", NULL };
	struct pt_shape shape = shape_of(1, 2);
	struct pt_buf file;
	struct seen s;

	ck_assert_int_eq(pt_serve_object_header(PT_DTYPE_C128, &shape, metadata, &file), 0);
	pt_buf_append_fill(&file, 7, 32);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 4096, &s), 0);
	ck_assert_str_eq(s.tensor[0].name, "tensor");
	ck_assert(s.tensor[0].dtype == PT_DTYPE_F64 && s.tensor[0].shape.ndim == 2 && s.tensor[0].shape.dim[1] == 2);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(allocation_failure_is_held_as_such)
{
	struct pt_buf file;
	int64_t n = 0;
	int rc;

	make("{\"__metadata__\":{\"format\":\"pt\"}," A ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}", 9, &file);
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
		else
			ck_assert(pt_parser_complete(p));
		pt_parser_free(p);
		ck_assert_int_lt(n, 1000);
	} while (rc);
	pt_buf_done(&file);
}
END_TEST

/* 100,000 tensors parse in a moment. */
START_TEST(many_tensors_are_parsed)
{
	struct pt_parse_sink sink = { 0 };
	struct pt_buf text = PT_BUF_INIT;
	struct pt_parser *p;
	uint8_t length[8];
	int i;

	pt_buf_append_str(&text, "{");
	for (i = 0; i < 100000; i++)
		pt_buf_printf(&text, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[%d,%d]}", i ? "," : "", i, 8 * i, 8 * i + 8);
	pt_buf_append_str(&text, "}");
	pt_put_le64(length, text.len);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, length, 8), 0);
	ck_assert_int_eq(pt_parser_feed(p, text.data, text.len), 0);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 800000), 0);
	ck_assert(pt_parser_complete(p));
	pt_parser_free(p);
	pt_buf_done(&text);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("parse_safetensors");

	tcase_add_test(tc, tensors_come_in_file_order_with_their_bytes);
	tcase_add_test(tc, what_the_usual_reader_takes_is_taken);
	tcase_add_test(tc, malformed_headers_are_refused);
	tcase_add_test(tc, holes_overlaps_and_wrong_sizes_are_refused);
	tcase_add_test(tc, unknown_dtype_is_refused_by_name);
	tcase_add_test(tc, header_lengths_out_of_bounds_are_refused_before_anything_is_held);
	tcase_add_test(tc, a_known_file_size_must_agree);
	tcase_add_test(tc, holes_of_a_sparse_copy_are_zeros);
	tcase_add_test(tc, what_ptio_serves_comes_back);
	tcase_add_test(tc, a_stored_object_is_a_file_like_any_other);
	tcase_add_test(tc, allocation_failure_is_held_as_such);
	tcase_add_test(tc, many_tensors_are_parsed);
	return run_suite("parse_safetensors", &tc, 1);
}

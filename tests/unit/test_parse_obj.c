/* tests/unit/test_parse_obj.c - tensor objects and plain bytes come in whole, and the front end recognises, refuses and
 * remembers as it says. */
#include "base/alloc.h"
#include "unit/format_support.h"

static void make_object(struct pt_buf *ret_file)
{
	struct pt_serve_tensor t = { .dtype = PT_DTYPE_U16, .shape = shape_of(2, 2, 2), .global_shape = shape_of(2, 2, 4) };
	const void *payload[] = { "abcdefgh" };
	struct pt_served s;

	t.axes_in_order[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = 1, .size = 2, .dim = 1 };
	ck_assert_int_eq(pt_layout_add(&t.axes, &t.axes_in_order[0]), 0);
	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, &t, 1, 0, &s), 0);
	assemble(&s, payload, ret_file);
	pt_served_done(&s);
}

START_TEST(object_comes_in_pieces)
{
	struct pt_parse_hint hint = { 0 };
	struct pt_buf file;
	struct seen s;
	size_t k;

	make_object(&file);
	for (k = 0; k < PIECE_SIZES; k++) {
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, piece_sizes[k], &s), 0);
		ck_assert_uint_eq(s.tensors, 1);
		ck_assert_str_eq(s.tensor[0].name, "");
		ck_assert(s.tensor[0].has_obj && s.tensor[0].obj.global_shape.dim[1] == 4);
		ck_assert_int_eq(memcmp(s.storage[0].data, "abcdefgh", 8), 0);
		seen_done(&s);
	}
	check_robust(PT_FORMAT_COUNT, NULL, &file);
	check_robust(PT_FORMAT_OBJ, NULL, &file);
	hint.file_size = file.len;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), 0);
	seen_done(&s);
	hint.file_size = file.len - 1;
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, file.data, file.len, 64, &s), -EINVAL);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(empty_object_is_complete_with_its_header)
{
	struct pt_serve_tensor t = { .dtype = PT_DTYPE_F16, .shape = shape_of(2, 0, 3) };
	const void *payload[] = { "" };
	struct pt_served served;
	struct pt_buf file;
	struct seen s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, &t, 1, 0, &served), 0);
	assemble(&served, payload, &file);
	ck_assert_uint_eq(file.len, PT_OBJ_HEADER);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 64, &s), 0);
	ck_assert_uint_eq(s.storage_bytes[0], 0);
	seen_done(&s);
	pt_buf_done(&file);
	pt_served_done(&served);
}
END_TEST

START_TEST(plain_bytes_need_dtype_and_shape_and_exactly_their_size)
{
	struct pt_parse_hint hint = { .dtype = PT_DTYPE_U8, .has_shape = true, .shape = shape_of(1, 600) };
	uint8_t bytes[601];
	struct seen s;
	size_t k;

	memset(bytes, 0xee, sizeof(bytes));
	for (k = 0; k < PIECE_SIZES; k++) {
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, bytes, 600, piece_sizes[k], &s), 0);
		ck_assert_uint_eq(s.storage[0].len, 600);
		seen_done(&s);
		ck_assert_int_eq(parse_all(PT_FORMAT_BIN, &hint, bytes, 601, piece_sizes[k], &s), -EINVAL);
		seen_done(&s);
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, bytes, 599, piece_sizes[k], &s), -EINVAL);
		seen_done(&s);
	}
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, bytes, 600, 64, &s), -EINVAL);
	ck_assert(strstr(pt_fail_sentence(), "user.ptio.dtype"));
	seen_done(&s);
	ck_assert_int_eq(parse_all(PT_FORMAT_BIN, NULL, bytes, 600, 64, &s), -EINVAL);
	hint.shape = (struct pt_shape){ .ndim = 1, .dim = { UINT64_MAX } };
	ck_assert_int_eq(parse_all(PT_FORMAT_BIN, &hint, bytes, 600, 64, &s), -EFBIG);
}
END_TEST

/* Recognition may want more bytes than a small tensor has: until the end it may still be the beginning of another format. */
START_TEST(small_plain_tensors_are_told_from_other_formats)
{
	struct pt_parse_hint hint = { .dtype = PT_DTYPE_U8, .has_shape = true, .shape = shape_of(1, 3) };
	struct pt_parse_sink sink;
	struct pt_parser *p;
	struct seen s;

	memset(&s, 0, sizeof(s));
	sink = seen_sink(&s);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, &hint, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, "NOO", 3), 0);
	ck_assert(!pt_parser_complete(p));
	ck_assert_int_eq(pt_parser_end(p), 0);
	ck_assert(pt_parser_complete(p));
	ck_assert_int_eq(pt_parser_format(p), PT_FORMAT_BIN);
	ck_assert_uint_eq(pt_parser_fed(p), 3);
	pt_parser_free(p);
	seen_done(&s);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, "xyz", 3, 1, &s), 0);
	seen_done(&s);
	hint.shape = shape_of(1, 8);
	memset(&s, 0, sizeof(s));
	sink = seen_sink(&s);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, &hint, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, "\x93NUMPY\1", 7), 0);
	ck_assert_int_eq(pt_parser_feed(p, "\0v", 2), 0);
	ck_assert_int_eq(pt_parser_format(p), PT_FORMAT_NPY);
	pt_parser_free(p);
	seen_done(&s);
	hint.shape = shape_of(1, 0);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, &hint, "", 0, 1, &s), 0);
	ck_assert_uint_eq(s.tensors, 1);
	seen_done(&s);
	ck_assert_int_eq(parse_all(PT_FORMAT_BIN, &hint, "", 0, 1, &s), 0);
	seen_done(&s);
	ck_assert_int_eq(parse_all(PT_FORMAT_BIN, &hint, "x", 1, 1, &s), -EINVAL);
	seen_done(&s);
}
END_TEST

START_TEST(a_forced_bin_may_look_like_anything)
{
	struct pt_parse_hint hint = { .dtype = PT_DTYPE_U8, .has_shape = true, .shape = shape_of(1, 6) };
	struct seen s;

	ck_assert_int_eq(parse_all(PT_FORMAT_BIN, &hint, "\x93NUMPY", 6, 2, &s), 0);
	ck_assert_int_eq(memcmp(s.storage[0].data, "\x93NUMPY", 6), 0);
	seen_done(&s);
}
END_TEST

START_TEST(other_files_are_refused_by_name)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *says;
	} files[] = {
		{ "GGUF\3\0\0\0", 8, "GGUF" }, { "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15, "torch's old format" },
		{ "PYTORCH1", 8, "torch's old format" }, { "PK\5\6\0\0\0\0", 8, "zip" }, { "PK\3\4", 4, "zip" }, { "hello world", 11, "none of" },
		{ "\x93NUM", 4, "none of" }, { "NAMW", 4, "manifest" },
	};
	uint8_t tar[512] = { 'x' };
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, files[i].bytes, files[i].len, 3, &s), -EINVAL);
		ck_assert_msg(strstr(pt_fail_sentence(), files[i].says) != NULL, "%s", pt_fail_sentence());
		seen_done(&s);
	}
	memcpy(tar + 257, "ustar", 5);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, tar, sizeof(tar), 100, &s), -EINVAL);
	ck_assert(strstr(pt_fail_sentence(), "tar"));
	seen_done(&s);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, "", 0, 1, &s), -EINVAL);
	ck_assert(strstr(pt_fail_sentence(), "empty"));
	seen_done(&s);
}
END_TEST

START_TEST(an_error_of_the_sink_is_held_with_its_sentence)
{
	struct pt_parse_sink sink;
	struct pt_parser *p;
	struct pt_buf file;
	struct seen s;

	make_object(&file);
	memset(&s, 0, sizeof(s));
	sink = seen_sink(&s);
	s.fail_data = -ENOSPC;
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_OBJ, &sink, NULL, &p), 0);
	pt_fail(ENOSPC, "the disk is full");
	ck_assert_int_eq(pt_parser_feed(p, file.data, file.len), -ENOSPC);
	s.fail_data = 0;
	pt_fail_clear();
	ck_assert_int_eq(pt_parser_feed(p, file.data, 1), -ENOSPC);
	ck_assert_str_eq(pt_fail_sentence(), "the disk is full");
	ck_assert_int_eq(pt_parser_end(p), -ENOSPC);
	ck_assert(!pt_parser_complete(p));
	pt_parser_free(p);
	pt_parser_free(NULL);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(zeros_alone_are_no_format)
{
	struct pt_parse_hint hint = { .dtype = PT_DTYPE_F32, .has_shape = true, .shape = shape_of(1, 1 << 28) };
	struct pt_parse_sink sink = { 0 };
	struct pt_parser *p;

	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 1 << 30), -EINVAL);
	pt_parser_free(p);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, &hint, &p), 0);
	ck_assert_int_eq(pt_parser_feed(p, NULL, 1 << 30), 0);
	ck_assert(pt_parser_complete(p));
	pt_parser_free(p);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("parse_obj");

	tcase_add_test(tc, object_comes_in_pieces);
	tcase_add_test(tc, empty_object_is_complete_with_its_header);
	tcase_add_test(tc, plain_bytes_need_dtype_and_shape_and_exactly_their_size);
	tcase_add_test(tc, small_plain_tensors_are_told_from_other_formats);
	tcase_add_test(tc, a_forced_bin_may_look_like_anything);
	tcase_add_test(tc, other_files_are_refused_by_name);
	tcase_add_test(tc, an_error_of_the_sink_is_held_with_its_sentence);
	tcase_add_test(tc, zeros_alone_are_no_format);
	return run_suite("parse_obj", &tc, 1);
}

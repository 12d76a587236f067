/* tests/unit/test_serve.c - served files are the right bytes: golden vectors, segments, refusals, allocation failures. */
#include <inttypes.h>

#include "base/alloc.h"
#include "unit/format_support.h"
#include "unit/sha256.h"

static const uint8_t six_floats[24] = {
	0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40,
};

static struct pt_serve_tensor tensor_of(const char *name, enum pt_dtype dtype, struct pt_shape shape)
{
	return (struct pt_serve_tensor){ .name = name, .dtype = dtype, .shape = shape };
}

static void expect_file(enum pt_format format, const struct pt_serve_tensor *t, size_t count, int as_dict, const void *const *payload,
			uint64_t size, const char *sha)
{
	struct pt_served s;
	struct pt_buf file;
	char hex[65];

	ck_assert_int_eq(pt_serve(format, t, count, as_dict, &s), 0);
	ck_assert_uint_eq(s.size, size);
	assemble(&s, payload, &file);
	sha256_hex(file.data, file.len, hex);
	ck_assert_str_eq(hex, sha);
	pt_buf_done(&file);
	pt_served_done(&s);
}

START_TEST(golden_1_pt_float32)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_F32, shape_of(2, 2, 3));
	const void *payload[] = { six_floats };

	expect_file(PT_FORMAT_PT, &t, 1, 0, payload, 676, "ee033f49729b568c678899b204c43502bf1f166affa5d44c1c31c55c018deb23");
	t.crc32 = 0x91e79017;
	expect_file(PT_FORMAT_PT, &t, 1, 0, payload, 676, "c0982193b12284fe6ce6b4897a3ba536fa3fe48de35d0b952a7867732f9c1e0a");
}
END_TEST

START_TEST(golden_2_pt_float8)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_F8_E4M3FN, shape_of(1, 5));
	const void *payload[] = { "\0\1\2\3\4" };

	expect_file(PT_FORMAT_PT, &t, 1, 0, payload, 721, "d5d3f2ca89ca8b1850132a89084ed22cd25da3546637dc38769c83a27b87887a");
}
END_TEST

START_TEST(golden_3_pt_bfloat16_scalar)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_BF16, shape_of(0));
	const void *payload[] = { "\x80\x3f" };

	expect_file(PT_FORMAT_PT, &t, 1, 0, payload, 654, "b3349d3b9b2a89a9ee843639ed48db4ca8080fbaa1abc316567f2107e9188d3b");
}
END_TEST

START_TEST(golden_4_pt_dict)
{
	struct pt_serve_tensor t[3] = {
		tensor_of("a", PT_DTYPE_F32, shape_of(2, 2, 3)), tensor_of("b", PT_DTYPE_I64, shape_of(0)),
		tensor_of("c", PT_DTYPE_BOOL, shape_of(1, 0)),
	};
	const void *payload[] = { six_floats, "\7\0\0\0\0\0\0", "" };

	expect_file(PT_FORMAT_PT, t, 3, 1, payload, 1220, "23c397cd876923ab345a112d2991d6413790011384a7322feaccc6e9eefb815c");
	expect_file(PT_FORMAT_PT, t, 3, 0, payload, 1220, "23c397cd876923ab345a112d2991d6413790011384a7322feaccc6e9eefb815c");
}
END_TEST

START_TEST(golden_5_pt_page_aligned)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_F32, shape_of(2, 300, 300));
	uint8_t *ones = malloc(360000);
	const void *payload[] = { ones };

	memset(ones, 1, 360000);
	expect_file(PT_FORMAT_PT, &t, 1, 0, payload, 364364, "03484a492fc5c447d1e1c27d9669457600c01466c91f25bdc2ed1e12fa090b73");
	free(ones);
}
END_TEST

/* All literal bytes before (or after) the one payload segment. */
static void literals_around(const struct pt_served *s, bool after, char ret_hex[65])
{
	struct pt_buf bytes = PT_BUF_INIT;
	bool passed = false;
	size_t i;

	for (i = 0; i < s->segment_count; i++) {
		if (s->segments[i].tensor >= 0)
			passed = true;
		else if (passed == after)
			pt_buf_append(&bytes, s->literals.data + s->segments[i].literal_off, s->segments[i].len);
	}
	sha256_hex(bytes.data, bytes.len, ret_hex);
	pt_buf_done(&bytes);
}

START_TEST(golden_6_pt_beyond_4_gib)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_U8, (struct pt_shape){ .ndim = 1, .dim = { (uint64_t)5 << 30 } });
	struct pt_served s;
	char hex[65];
	size_t i;

	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, &t, 1, 0, &s), 0);
	ck_assert_uint_eq(s.size, 5368713580);
	i = pt_served_find(&s, 4096);
	ck_assert_int_eq(s.segments[i].tensor, 0);
	ck_assert_uint_eq(s.segments[i].off, 4096);
	literals_around(&s, false, hex);
	ck_assert_str_eq(hex, "6c73efbcd37f0819e178a08dab5f95a3a09ca33014e7beca6e05ccb85a005c95");
	literals_around(&s, true, hex);
	ck_assert_str_eq(hex, "fdd85183ceabda3fd127980ba8be3befc1e42ead0276de48e7d02ee9955194e4");
	pt_served_done(&s);
}
END_TEST

START_TEST(golden_7_npy)
{
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_F32, shape_of(2, 2, 3));
	const void *payload[] = { six_floats };

	expect_file(PT_FORMAT_NPY, &t, 1, 0, payload, 152, "47d9cb788e60cfff38faf2237400d94063bde1f42a0ad39297e02642caca6b56");
}
END_TEST

START_TEST(golden_8_safetensors)
{
	struct pt_serve_tensor t = tensor_of("a", PT_DTYPE_F32, shape_of(2, 2, 3));
	const void *payload[] = { six_floats };

	expect_file(PT_FORMAT_SAFETENSORS, &t, 1, 0, payload, 120, "ddae53d06f5c3e7ba108c42ffe0a9da526632fb8a4091677dee4c40b2e47472b");
}
END_TEST

static void expect_npy_header(enum pt_dtype dtype, struct pt_shape shape, size_t header, const char *begins)
{
	struct pt_serve_tensor t = tensor_of("x", dtype, shape);
	struct pt_served s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_NPY, &t, 1, 0, &s), 0);
	ck_assert_uint_eq(s.segments[0].len, header);
	ck_assert_int_eq(memcmp(s.literals.data + 10, begins, strlen(begins)), 0);
	ck_assert_int_eq(s.literals.data[header - 1], '\n');
	ck_assert_uint_eq(pt_get_le16(s.literals.data + 8), header - 10);
	pt_served_done(&s);
}

/* Sizes as numpy 1.24, 2.2 and 2.4 write them; tests/e2e compares whole headers with the numpy at hand. */
START_TEST(npy_headers_pad_as_numpy_does)
{
	struct pt_shape many = { .ndim = 32 };
	uint32_t i;

	expect_npy_header(PT_DTYPE_F32, shape_of(0), 128, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }  ");
	expect_npy_header(PT_DTYPE_BF16, shape_of(1, 5), 128, "{'descr': '<V2', 'fortran_order': False, 'shape': (5,), }  ");
	expect_npy_header(PT_DTYPE_F8_E5M2, shape_of(1, 0), 128, "{'descr': '<V1', 'fortran_order': False, 'shape': (0,), }  ");
	expect_npy_header(PT_DTYPE_C128, shape_of(2, 1, 2), 128, "{'descr': '<c16', 'fortran_order': False, 'shape': (1, 2), }  ");
	expect_npy_header(PT_DTYPE_BOOL, shape_of(3, 1, 2, 3), 128, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2, 3), }  ");
	for (i = 0; i < many.ndim; i++)
		many.dim[i] = 1;
	expect_npy_header(PT_DTYPE_U8, many, 192, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, ");
}
END_TEST

START_TEST(dtype_that_a_format_has_not_is_refused_with_both_names)
{
	struct pt_serve_tensor t = tensor_of("a", PT_DTYPE_C128, shape_of(1, 2));
	struct pt_served s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, &t, 1, 0, &s), -EOPNOTSUPP);
	ck_assert(strstr(pt_fail_sentence(), "safetensors") && strstr(pt_fail_sentence(), "complex128"));
	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, &t, 1, 0, &s), -EOPNOTSUPP);
	ck_assert(strstr(pt_fail_sentence(), "obj") && strstr(pt_fail_sentence(), "complex128"));
	t.dtype = PT_DTYPE_F4_E2M1;
	ck_assert_int_eq(pt_serve(PT_FORMAT_NPY, &t, 1, 0, &s), -EOPNOTSUPP);
	ck_assert(strstr(pt_fail_sentence(), "npy") && strstr(pt_fail_sentence(), "float4"));
}
END_TEST

START_TEST(requests_that_make_no_sense_are_refused)
{
	struct pt_serve_tensor t[2] = { tensor_of("a", PT_DTYPE_F32, shape_of(1, 2)), tensor_of("b", PT_DTYPE_F32, shape_of(1, 2)) };
	struct pt_shape nine = shape_of(9, 1, 1, 1, 1, 1, 1, 1, 1, 1);
	struct pt_served s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_NPY, t, 2, 0, &s), -EINVAL);
	ck_assert_int_eq(pt_serve(PT_FORMAT_BIN, t, 2, 0, &s), -EINVAL);
	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, t, 0, 0, &s), -EINVAL);
	t[0].shape = nine;
	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, t, 1, 0, &s), -EOPNOTSUPP);
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 1, 0, &s), 0);
	pt_served_done(&s);
	t[0].name = "bad\xff";
	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, 1, 0, &s), -EINVAL);
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 2, 0, &s), -EINVAL);
	t[0].name = "\xed\xa0\x80";                     /* a surrogate */
	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, 1, 0, &s), -EINVAL);
	t[0].name = "__metadata__";
	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, 1, 0, &s), -EINVAL);
	t[0].dtype = PT_DTYPE_F4_E2M1;
	t[0].shape = shape_of(2, 2, 3);
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 1, 0, &s), -EINVAL);
	t[0].shape = (struct pt_shape){ .ndim = 1, .dim = { (uint64_t)1 << 63 } };
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 1, 0, &s), -EFBIG);
}
END_TEST

START_TEST(fp4_is_pairs_in_pt_and_elements_in_safetensors)
{
	struct pt_serve_tensor t = tensor_of("a", PT_DTYPE_F4_E2M1, shape_of(2, 3, 8));
	struct pt_served s;
	static const char shape_and_strides[] = "K\0K\3K\4\x86K\4K\1\x86\x89";

	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, &t, 1, 0, &s), 0);
	ck_assert(memmem(s.literals.data, s.literals.len, shape_and_strides, sizeof(shape_and_strides) - 1));
	ck_assert(memmem(s.literals.data, s.literals.len, "cpuK\x0ctQ", 7));
	ck_assert(memmem(s.literals.data, s.literals.len, "ctorch\nfloat4_e2m1fn_x2\n", 24));
	pt_served_done(&s);
	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, &t, 1, 0, &s), 0);
	ck_assert(memmem(s.literals.data, s.literals.len, "\"F4\",\"shape\":[3,8],\"data_offsets\":[0,12]", 40));
	pt_served_done(&s);
}
END_TEST

START_TEST(safetensors_orders_by_dtype_then_name_and_escapes_names)
{
	struct pt_serve_tensor t[4] = {
		tensor_of("z\n\"\\\x01\x7f", PT_DTYPE_U8, shape_of(1, 3)), tensor_of("b", PT_DTYPE_F32, shape_of(0)),
		tensor_of("a", PT_DTYPE_F32, shape_of(0)), tensor_of("i", PT_DTYPE_I64, shape_of(1, 0)),
	};
	static const char want[] =
		"{\"__metadata__\":{\"format\":\"pt\"},\"i\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[0,0]},"
		"\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]},"
		"\"z\\n\\\"\\\\\\u0001\x7f\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
	const void *payload[] = { "xyz", "bbbb", "aaaa", "" };
	struct pt_served s;
	struct pt_buf file;

	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, 4, 0, &s), 0);
	assemble(&s, payload, &file);
	ck_assert_uint_eq(pt_get_le64(file.data) % 8, 0);
	ck_assert_int_eq(memcmp(file.data + 8, want, sizeof(want) - 1), 0);
	ck_assert_int_eq(memcmp(file.data + file.len - 11, "aaaabbbbxyz", 11), 0);
	pt_buf_done(&file);
	pt_served_done(&s);
}
END_TEST

START_TEST(every_offset_is_found_in_its_segment)
{
	struct pt_serve_tensor t[3] = {
		tensor_of("a", PT_DTYPE_U8, shape_of(1, 70000)), tensor_of("b", PT_DTYPE_U8, shape_of(1, 0)),
		tensor_of("c", PT_DTYPE_U8, shape_of(1, 65536)),
	};
	struct pt_served s;
	uint64_t off;

	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 3, 0, &s), 0);
	for (off = 0; off < s.size; off += 13) {
		size_t i = pt_served_find(&s, off);

		ck_assert(s.segments[i].off <= off && off < s.segments[i].off + s.segments[i].len);
		if (s.segments[i].tensor >= 0)
			ck_assert_uint_eq(s.segments[i].off % 4096, 0);
	}
	pt_served_done(&s);
}
END_TEST

START_TEST(hundred_thousand_tensors_are_served_with_zip64_and_little_memory)
{
	enum { N = 100000 };
	struct pt_serve_tensor *t = calloc(N, sizeof(*t));
	char (*names)[16] = calloc(N, sizeof(*names));
	struct pt_served s;
	const uint8_t *end;
	uint64_t dir_off, dir_size;
	int i;

	for (i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", i);
		t[i] = tensor_of(names[i], PT_DTYPE_F32, shape_of(2, 128, 128));
	}
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, N, 1, &s), 0);
	ck_assert_uint_lt(s.literals.len, 64 << 20);
	end = s.literals.data + s.literals.len - 22;
	ck_assert_uint_eq(pt_get_le32(end), 0x06054b50);
	ck_assert_uint_eq(pt_get_le16(end + 8), 0xffff);
	ck_assert_uint_eq(pt_get_le32(end + 16), 0xffffffff);
	ck_assert_uint_eq(pt_get_le32(end - 20), 0x07064b50);
	ck_assert_uint_eq(pt_get_le64(end - 12), s.size - 98);
	ck_assert_uint_eq(pt_get_le32(end - 76), 0x06064b50);
	ck_assert_uint_eq(pt_get_le64(end - 76 + 24), N + 3);
	dir_size = pt_get_le64(end - 76 + 40);
	dir_off = pt_get_le64(end - 76 + 48);
	ck_assert_uint_eq(dir_off + dir_size, s.size - 98);
	pt_served_done(&s);
	ck_assert_int_eq(pt_serve(PT_FORMAT_SAFETENSORS, t, N, 0, &s), 0);
	ck_assert_uint_eq(s.segment_count, N + 1);
	pt_served_done(&s);
	free(names);
	free(t);
}
END_TEST

START_TEST(allocation_failure_is_reported_and_leaks_nothing)
{
	struct pt_serve_tensor t[2] = { tensor_of("a", PT_DTYPE_F32, shape_of(2, 300, 300)), tensor_of("b", PT_DTYPE_U8, shape_of(1, 3)) };
	int f, rc;

	for (f = 0; f < PT_FORMAT_COUNT; f++) {
		size_t count = f == PT_FORMAT_PT || f == PT_FORMAT_SAFETENSORS ? 2 : 1;
		int64_t n = 0;

		do {
			struct pt_served s;

			pt_alloc_fail_after(n++);
			rc = pt_serve((enum pt_format)f, t, count, 0, &s);
			pt_alloc_fail_after(-1);
			if (rc)
				ck_assert_int_eq(rc, -ENOMEM);
			else
				pt_served_done(&s);
			ck_assert_int_lt(n, 1000);
		} while (rc);
	}
}
END_TEST

START_TEST(object_header_is_safetensors_with_a_page_aligned_payload)
{
	static const char *const metadata[] = { "key", "a/b \"c\"", "box", "0:2", NULL };
	static const char want[] = "{\"__metadata__\":{\"format\":\"pt\",\"key\":\"a/b \\\"c\\\"\",\"box\":\"0:2\"},"
				   "\"tensor\":{\"dtype\":\"F64\",\"shape\":[2,3,2],\"data_offsets\":[0,96]}} ";
	struct pt_shape shape = shape_of(2, 2, 3);
	struct pt_buf header;

	ck_assert_int_eq(pt_serve_object_header(PT_DTYPE_C128, &shape, metadata, &header), 0);
	ck_assert_uint_eq(header.len, 4096);
	ck_assert_uint_eq(pt_get_le64(header.data), 4088);
	ck_assert_int_eq(memcmp(header.data + 8, want, sizeof(want) - 1), 0);
	pt_buf_done(&header);
}
END_TEST

START_TEST(sniffing_goes_by_content)
{
	static const char gguf[] = "GGUF\3\0\0\0", legacy[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
	static const char safetensors[] = "\x08\0\0\0\0\0\0\0 {\"a\":", looks_alike[] = "\x05\0\0\0\0\0\0\0\x7b\0\0\0\0\0\0\0";
	struct pt_serve_tensor t = tensor_of("x", PT_DTYPE_F32, shape_of(0));
	struct pt_served s;
	uint8_t tar[512] = { 'd' };
	size_t i;

	ck_assert_int_eq(pt_format_sniff("", 0, 0), PT_SNIFF_MORE);
	ck_assert_int_eq(pt_format_sniff("", 0, 1), PT_SNIFF_RAW);
	ck_assert_int_eq(pt_format_sniff("PK", 2, 0), PT_SNIFF_MORE);
	ck_assert_int_eq(pt_format_sniff("PK", 2, 1), PT_SNIFF_RAW);
	ck_assert_int_eq(pt_format_sniff("\x93NUMPY", 6, 0), PT_SNIFF_NPY);
	ck_assert_int_eq(pt_format_sniff("NOOM", 4, 0), PT_SNIFF_OBJ);
	ck_assert_int_eq(pt_format_sniff("NAMW", 4, 0), PT_SNIFF_MANIFEST);
	ck_assert_int_eq(pt_format_sniff(gguf, 8, 0), PT_SNIFF_GGUF);
	ck_assert_int_eq(pt_format_sniff(legacy, 15, 0), PT_SNIFF_TORCH_LEGACY);
	ck_assert_int_eq(pt_format_sniff(safetensors, sizeof(safetensors) - 1, 0), PT_SNIFF_SAFETENSORS);
	ck_assert_int_eq(pt_format_sniff(looks_alike, 16, 1), PT_SNIFF_RAW);
	memcpy(tar + 257, "ustar", 5);
	ck_assert_int_eq(pt_format_sniff(tar, 512, 0), PT_SNIFF_TORCH_TAR);
	ck_assert_int_eq(pt_format_sniff(tar, 200, 0), PT_SNIFF_MORE);
	tar[260] = 0;
	ck_assert_int_eq(pt_format_sniff(tar, 512, 0), PT_SNIFF_RAW);
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, &t, 1, 0, &s), 0);
	for (i = 0; i < 46; i++)
		ck_assert_int_eq(pt_format_sniff(s.literals.data, i, 0), PT_SNIFF_MORE);
	ck_assert_int_eq(pt_format_sniff(s.literals.data, 46, 0), PT_SNIFF_PT);
	s.literals.data[40] = 'x';
	ck_assert_int_eq(pt_format_sniff(s.literals.data, 60, 0), PT_SNIFF_ZIP_OTHER);
	pt_served_done(&s);
}
END_TEST

START_TEST(names_of_formats_are_found_again)
{
	int f;

	for (f = 0; f < PT_FORMAT_COUNT; f++) {
		const char *n = pt_format_name((enum pt_format)f);

		ck_assert_int_eq(pt_format_by_name(n, strlen(n)), f);
	}
	ck_assert_int_eq(pt_format_by_name("ptx", 3), PT_FORMAT_COUNT);
	ck_assert_int_eq(pt_format_by_name("", 0), PT_FORMAT_COUNT);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("serve");

	tcase_add_test(tc, golden_1_pt_float32);
	tcase_add_test(tc, golden_2_pt_float8);
	tcase_add_test(tc, golden_3_pt_bfloat16_scalar);
	tcase_add_test(tc, golden_4_pt_dict);
	tcase_add_test(tc, golden_5_pt_page_aligned);
	tcase_add_test(tc, golden_6_pt_beyond_4_gib);
	tcase_add_test(tc, golden_7_npy);
	tcase_add_test(tc, golden_8_safetensors);
	tcase_add_test(tc, npy_headers_pad_as_numpy_does);
	tcase_add_test(tc, dtype_that_a_format_has_not_is_refused_with_both_names);
	tcase_add_test(tc, requests_that_make_no_sense_are_refused);
	tcase_add_test(tc, fp4_is_pairs_in_pt_and_elements_in_safetensors);
	tcase_add_test(tc, safetensors_orders_by_dtype_then_name_and_escapes_names);
	tcase_add_test(tc, every_offset_is_found_in_its_segment);
	tcase_add_test(tc, hundred_thousand_tensors_are_served_with_zip64_and_little_memory);
	tcase_add_test(tc, allocation_failure_is_reported_and_leaks_nothing);
	tcase_add_test(tc, object_header_is_safetensors_with_a_page_aligned_payload);
	tcase_add_test(tc, sniffing_goes_by_content);
	tcase_add_test(tc, names_of_formats_are_found_again);
	return run_suite("serve", &tc, 1);
}

/* tests/unit/test_obj.c - tensor objects and manifests have the bytes that real stores hold: golden vectors, what a reader must
 * accept and refuse, and 20 objects that a Mooncake store wrote (tests/data/mooncake). */
#include "unit/format_support.h"
#include "unit/sha256.h"

static const uint8_t eight_floats[32] = {       /* float32 0..7 */
	0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40, 0, 0, 0xc0, 0x40, 0, 0, 0xe0, 0x40,
};
static const uint8_t two_three_six_seven[16] = { 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0xc0, 0x40, 0, 0, 0xe0, 0x40 };

static struct pt_axis tp(int rank, int size, int dim)
{
	return (struct pt_axis){ .kind = PT_AXIS_TP, .rank = rank, .size = size, .dim = dim };
}

static struct pt_axis scope(enum pt_axis_kind kind, int rank, int size, bool has_id, int id)
{
	return (struct pt_axis){ .kind = kind, .rank = rank, .size = size, .dim = -1, .has_id = has_id, .id = id };
}

static struct pt_serve_tensor object(enum pt_dtype dtype, struct pt_shape global, struct pt_shape local, int axes, ...)
{
	struct pt_serve_tensor t = { .dtype = dtype, .shape = local, .global_shape = global };
	va_list ap;
	int i;

	va_start(ap, axes);
	for (i = 0; i < axes; i++) {
		t.axes_in_order[i] = va_arg(ap, struct pt_axis);
		ck_assert_int_eq(pt_layout_add(&t.axes, &t.axes_in_order[i]), 0);
	}
	va_end(ap);
	return t;
}

static void make(const struct pt_serve_tensor *t, const void *payload, struct pt_buf *ret_file)
{
	struct pt_served s;

	ck_assert_int_eq(pt_serve(PT_FORMAT_OBJ, t, 1, 0, &s), 0);
	assemble(&s, &payload, ret_file);
	pt_served_done(&s);
}

static void expect_golden(const struct pt_serve_tensor *t, const void *payload, size_t size, const char *sha)
{
	struct pt_buf file;
	char hex[65];

	make(t, payload, &file);
	ck_assert_uint_eq(file.len, size);
	sha256_hex(file.data, file.len, hex);
	ck_assert_str_eq(hex, sha);
	pt_buf_done(&file);
}

static struct pt_serve_tensor gv1(void)
{
	return object(PT_DTYPE_F32, shape_of(2, 2, 3), shape_of(2, 2, 3), 0);
}

static struct pt_serve_tensor gv2(void)
{
	return object(PT_DTYPE_F32, shape_of(2, 2, 4), shape_of(2, 2, 2), 1, tp(1, 2, 1));
}

START_TEST(a82_golden_objects)
{
	struct pt_serve_tensor t;

	t = gv1();
	expect_golden(&t, eight_floats, 328, "e1e5bd9cb64c2322044c7016fd3bd95a3791b99632c845620740ae765cdef2ef");
	t = gv2();
	expect_golden(&t, two_three_six_seven, 320, "c21ffce2d0b15f1a4aa65e045faab4cef85b8ec42fc99adbdee02ce8fbfd9dfb");
	t = object(PT_DTYPE_F32, shape_of(2, 2, 4), shape_of(2, 2, 2), 2, tp(1, 2, 1), scope(PT_AXIS_PP, 0, 2, true, 7));
	expect_golden(&t, two_three_six_seven, 320, "e3130841a06c416211c0fc6359e05d521782d41a2c77fc6d97c5d2605350b4c7");
	t = object(PT_DTYPE_BF16, shape_of(1, 3), shape_of(1, 3), 1, scope(PT_AXIS_EP, 1, 4, true, 11));
	expect_golden(&t, "\x80\x3f\x00\x40\xc0\xbf", 310, "5e7cf74529d7fdbfa2990bd571222944f5a1238b25d0875e2fcbc8fb839af7b5");
	t = object(PT_DTYPE_U8, shape_of(2, 4, 2), shape_of(2, 1, 2), 1, tp(2, 4, 0));
	expect_golden(&t, "\4\5", 306, "f7f4220644415e6cd3c3d0ddc0345cbfc27938d038119e638a43d10dcc60bff1");
	t = object(PT_DTYPE_F16, shape_of(3, 2, 0, 3), shape_of(3, 2, 0, 3), 0);
	expect_golden(&t, "", 304, "9178d4e9bb8fe6a59630519c0cc3ff1cf2be4d537fa930f7b0579c62db1428d1");
	t = object(PT_DTYPE_F64, shape_of(0), shape_of(0), 0);
	expect_golden(&t, "\0\0\0\0\0\0\xf8\x3f", 312, "b8979cd57434ea97eddfb8a274fa1475e0a9b699d2b9cd47060fee34f75c8e1d");
}
END_TEST

START_TEST(golden_manifests)
{
	struct pt_obj_manifest m = { .dtype_code = 0, .split_dim = 1, .shard_count = 2, .global_shape = shape_of(2, 2, 4) }, back;
	uint8_t bytes[PT_OBJ_MANIFEST];
	char hex[65];

	pt_obj_manifest_encode(&m, bytes);
	sha256_hex(bytes, sizeof(bytes), hex);
	ck_assert_str_eq(hex, "c5267da820d9050511b2bb11431270dafba5608ddb3d2e3bfbcf846319548244");
	ck_assert_int_eq(pt_obj_manifest_decode(bytes, sizeof(bytes), &back), 0);
	ck_assert(back.dtype_code == 0 && back.split_dim == 1 && back.shard_count == 2 && pt_shape_equal(&back.global_shape, &m.global_shape));
	m = (struct pt_obj_manifest){ .dtype_code = 3, .split_dim = 0, .shard_count = 4, .global_shape = shape_of(2, 4, 2) };
	pt_obj_manifest_encode(&m, bytes);
	sha256_hex(bytes, sizeof(bytes), hex);
	ck_assert_str_eq(hex, "2e24670b6e5eaa67ec688cd2722c4629624278b137392a0faed3b380fc147671");
	ck_assert_int_eq(pt_obj_manifest_decode(bytes, 95, &back), -EINVAL);
	bytes[20] = 0;                                          /* no shards */
	ck_assert_int_eq(pt_obj_manifest_decode(bytes, 96, &back), -EINVAL);
	bytes[20] = 4;
	bytes[16] = 2;                                          /* split_dim = ndim */
	ck_assert_int_eq(pt_obj_manifest_decode(bytes, 96, &back), -EINVAL);
	bytes[16] = 0;
	bytes[39] = 0x80;                                       /* a negative dimension */
	ck_assert_int_eq(pt_obj_manifest_decode(bytes, 96, &back), -EINVAL);
}
END_TEST

static int decode(const uint8_t *bytes, size_t len, struct pt_obj *ret_obj)
{
	int rc;

	pt_fail_clear();
	rc = pt_obj_decode(bytes, len, len, ret_obj);
	ck_assert(rc == 0 || rc == -EINVAL);
	if (rc)
		ck_assert_str_ne(pt_fail_sentence(), "");
	return rc;
}

START_TEST(a84_rejects)
{
	static const struct {
		size_t off;
		uint32_t value;
		int bytes;
	} changes[] = {
		{ 0, 0x4d4f4f4f, 4 }, { 4, 2, 2 }, { 6, 300, 2 }, { 8, (uint32_t)-1, 4 }, { 8, 15, 4 }, { 12, 9, 4 }, { 12, (uint32_t)-1, 4 },
		{ 16, 2, 4 }, { 24, 303, 4 }, { 32, 23, 4 }, { 40, (uint32_t)-1, 8 }, { 104, 3, 8 }, { 56, 0, 8 }, { 120, 1, 8 }, { 168, 5, 4 },
		{ 36, 0x80000000, 4 }, { 108, 0x40000000, 4 },
	};
	struct pt_serve_tensor t = gv1();
	struct pt_buf file;
	struct pt_obj o;
	size_t i;

	make(&t, eight_floats, &file);
	ck_assert_int_eq(decode(file.data, file.len, &o), 0);
	ck_assert_int_eq(decode(file.data, 303, &o), -EINVAL);
	ck_assert_int_eq(decode(file.data, file.len - 1, &o), -EINVAL);
	pt_buf_append_u8(&file, 0);
	ck_assert_int_eq(decode(file.data, file.len, &o), -EINVAL);
	file.len--;
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		uint8_t copy[328];

		memcpy(copy, file.data, sizeof(copy));
		if (changes[i].bytes == 8)
			pt_put_le64(copy + changes[i].off, (uint64_t)(int64_t)(int32_t)changes[i].value);
		else if (changes[i].bytes == 4)
			pt_put_le32(copy + changes[i].off, changes[i].value);
		else
			pt_put_le16(copy + changes[i].off, (uint16_t)changes[i].value);
		ck_assert_msg(decode(copy, sizeof(copy), &o) == -EINVAL, "change %zu was accepted", i);
	}
	pt_buf_done(&file);
}
END_TEST

/* Changes one u32 of a good object; says whether it decodes and whether it can be a source. */
static void expect_change(const struct pt_serve_tensor *t, const void *payload, size_t off, uint32_t value, int decodes, int is_source)
{
	struct pt_layout layout;
	struct pt_buf file;
	struct pt_obj o;

	make(t, payload, &file);
	pt_put_le32(file.data + off, value);
	ck_assert_msg((decode(file.data, file.len, &o) == 0) == decodes, "offset %zu value %u", off, value);
	if (decodes)
		ck_assert_msg((pt_obj_layout(&o, &layout) == 0) == is_source, "offset %zu value %u", off, value);
	pt_buf_done(&file);
}

START_TEST(a85_accepts_but_contradictions_are_no_sources)
{
	struct pt_serve_tensor full = gv1(), shard = gv2();
	uint8_t padded[336];
	struct pt_buf file;
	struct pt_obj o;
	struct seen s;

	expect_change(&full, eight_floats, 20, 7, 1, 1);        /* reserved_flags */
	expect_change(&full, eight_floats, 172, 9, 1, 1);       /* reserved0 */
	expect_change(&full, eight_floats, 40, 5, 1, 0);        /* FULL, global differs */
	expect_change(&shard, two_three_six_seven, 176, 4, 1, 0);       /* kind 4 */
	expect_change(&shard, two_three_six_seven, 176, 5, 0, 0);
	expect_change(&shard, two_three_six_seven, 180, 9, 1, 1);       /* axis_index */
	expect_change(&shard, two_three_six_seven, 192, (uint32_t)-1, 1, 0);    /* split_dim */
	expect_change(&shard, two_three_six_seven, 192, 2, 0, 0);
	expect_change(&shard, two_three_six_seven, 168, 0, 1, 0);       /* SHARD without axes */
	expect_change(&shard, two_three_six_seven, 16, 0, 1, 0);        /* FULL with its axis */
	expect_change(&shard, two_three_six_seven, 48, 1, 1, 0);        /* global < local */
	expect_change(&shard, two_three_six_seven, 184, 2, 0, 0);       /* rank = size */
	expect_change(&shard, two_three_six_seven, 188, 0, 0, 0);       /* size 0 */
	expect_change(&shard, two_three_six_seven, 40, 7, 1, 0);        /* differs where nothing splits */

	make(&full, eight_floats, &file);
	memcpy(padded, file.data, 304);
	memset(padded + 304, 0xee, 8);
	memcpy(padded + 312, eight_floats, 24);
	pt_put_le64(padded + 24, 312);
	ck_assert_int_eq(decode(padded, sizeof(padded), &o), 0);
	ck_assert_uint_eq(o.data_offset, 312);
	ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, padded, sizeof(padded), 7, &s), 0);
	ck_assert_int_eq(memcmp(s.storage[0].data, eight_floats, 24), 0);
	seen_done(&s);
	pt_buf_done(&file);
}
END_TEST

START_TEST(two_axes_of_one_kind_are_no_source)
{
	struct pt_obj o = {
		.dtype = PT_DTYPE_U8, .data_offset = 304, .data_bytes = 1, .global_shape = shape_of(1, 1), .local_shape = shape_of(1, 1),
		.axis_count = 2, .axis = { { .kind = 0, .count = 1, .split_dim = -1 }, { .kind = 0, .count = 2, .split_dim = -1 } },
	};
	struct pt_layout layout;
	uint8_t header[PT_OBJ_HEADER];
	struct pt_obj back;

	ck_assert_int_eq(pt_obj_layout(&o, &layout), -EINVAL);
	ck_assert_int_eq(pt_obj_encode(&o, header), 0);
	ck_assert_int_eq(pt_obj_decode(header, sizeof(header), 305, &back), 0);
	ck_assert_int_eq(back.axis[1].count, 2);
	/* A header read by itself: its own numbers count. */
	ck_assert_int_eq(pt_obj_decode(header, sizeof(header), UINT64_MAX, &back), 0);
	ck_assert_int_eq(pt_obj_decode(header, sizeof(header), 304, &back), -EINVAL);
}
END_TEST

/* --- what a real store wrote -------------------------------------------------------------------------------------------- */

static void read_data(const char *name, struct pt_buf *ret_file)
{
	const char *src = getenv("PTIO_SRC");
	struct pt_buf file = PT_BUF_INIT;
	uint8_t block[4096];
	char path[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/data/mooncake/%s.bin", src ? src : ".", name);
	f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "cannot open %s", path);
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		pt_buf_append(&file, block, n);
	fclose(f);
	*ret_file = file;
}

/* x = arange(24, float32).reshape(4, 6); the part that rank of 2 along dim holds (dim -1: all of it). */
static size_t slice_of_x(int rank, int dim, float *out)
{
	size_t n = 0;
	int r, c;

	for (r = 0; r < 4; r++)
		for (c = 0; c < 6; c++)
			if (dim < 0 || (dim == 0 ? r / 2 : c / 3) == rank)
				out[n++] = (float)(6 * r + c);
	return n;
}

static const struct {
	const char *name;
	int rank, dim;                  /* the slice of x that is the payload; dim -1: x */
	int g0, g1, l0, l1;
	int axes;
	struct pt_axis axis[2];
} objects[] = {
#define TP(r, d) { .kind = PT_AXIS_TP, .rank = r, .size = 2, .dim = d }
#define SCOPE(k, r, n, h, i) { .kind = PT_AXIS_##k, .rank = r, .size = n, .dim = -1, .has_id = h, .id = i }
	{ "full", 0, -1, 4, 6, 4, 6, 0, { { 0 } } },
	{ "from", 0, -1, 4, 6, 4, 6, 0, { { 0 } } },
	{ "tpd0_tp_0", 0, 0, 4, 6, 2, 6, 1, { TP(0, 0) } },
	{ "tpd0_tp_1", 1, 0, 4, 6, 2, 6, 1, { TP(1, 0) } },
	{ "tpd1_tp_0", 0, 1, 4, 6, 4, 3, 1, { TP(0, 1) } },
	{ "tpd1_tp_1", 1, 1, 4, 6, 4, 3, 1, { TP(1, 1) } },
	{ "pard0_tp_0", 0, -1, 8, 6, 4, 6, 1, { TP(0, 0) } },
	{ "pard0_tp_1", 0, -1, 8, 6, 4, 6, 1, { TP(1, 0) } },
	{ "pard1_tp_0", 0, -1, 4, 12, 4, 6, 1, { TP(0, 1) } },
	{ "pard1_tp_1", 0, -1, 4, 12, 4, 6, 1, { TP(1, 1) } },
	{ "dptp__dp_0of2__tp_0of2_sd1", 0, 1, 4, 6, 4, 3, 2, { SCOPE(DP, 0, 2, false, 0), TP(0, 1) } },
	{ "dptp__dp_0of2__tp_1of2_sd1", 1, 1, 4, 6, 4, 3, 2, { SCOPE(DP, 0, 2, false, 0), TP(1, 1) } },
	{ "ep__ep_1of4_eid5", 0, -1, 4, 6, 4, 6, 1, { SCOPE(EP, 1, 4, true, 5) } },
	{ "pp__pp_1of4_sid3", 0, -1, 4, 6, 4, 6, 1, { SCOPE(PP, 1, 4, true, 3) } },
	{ "wp__writer_0of2_sd0", 0, 0, 4, 6, 2, 6, 1, { TP(0, 0) } },
	{ "wp__writer_1of2_sd0", 1, 0, 4, 6, 2, 6, 1, { TP(1, 0) } },
};

START_TEST(mooncake_objects_are_served_byte_for_byte_and_parsed)
{
	struct pt_serve_tensor t = { .dtype = PT_DTYPE_F32 };
	struct pt_buf theirs, ours;
	struct pt_layout layout;
	float payload[24];
	struct seen s;
	size_t n, k;
	int i;

	t.shape = shape_of(2, objects[_i].l0, objects[_i].l1);
	t.global_shape = shape_of(2, objects[_i].g0, objects[_i].g1);
	for (i = 0; i < objects[_i].axes; i++) {
		t.axes_in_order[i] = objects[_i].axis[i];
		ck_assert_int_eq(pt_layout_add(&t.axes, &objects[_i].axis[i]), 0);
	}
	n = slice_of_x(objects[_i].rank, objects[_i].dim, payload);
	read_data(objects[_i].name, &theirs);
	make(&t, payload, &ours);
	ck_assert_uint_eq(ours.len, theirs.len);
	ck_assert_msg(memcmp(ours.data, theirs.data, ours.len) == 0, "%s differs", objects[_i].name);
	for (k = 0; k < PIECE_SIZES; k++) {
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, theirs.data, theirs.len, piece_sizes[k], &s), 0);
		ck_assert_uint_eq(s.tensors, 1);
		ck_assert(s.tensor[0].dtype == PT_DTYPE_F32 && pt_shape_equal(&s.tensor[0].shape, &t.shape));
		ck_assert(s.tensor[0].has_obj && pt_shape_equal(&s.tensor[0].obj.global_shape, &t.global_shape));
		ck_assert_int_eq(pt_obj_layout(&s.tensor[0].obj, &layout), 0);
		ck_assert(pt_layout_equal(&layout, &t.axes));
		ck_assert_uint_eq(s.storage[0].len, 4 * n);
		ck_assert_int_eq(memcmp(s.storage[0].data, payload, 4 * n), 0);
		seen_done(&s);
	}
	pt_buf_done(&ours);
	pt_buf_done(&theirs);
}
END_TEST

START_TEST(mooncake_manifests_are_decoded_and_refused_by_ingest)
{
	static const struct {
		const char *name;
		int split_dim, g0, g1;
	} manifests[] = {
		{ "dptp__parallelism_manifest", 1, 4, 6 }, { "pard0__parallelism_manifest", 0, 8, 6 },
		{ "pard1__parallelism_manifest", 1, 4, 12 }, { "wp__writer_manifest", 0, 4, 6 },
	};
	uint8_t again[PT_OBJ_MANIFEST];
	struct pt_obj_manifest m;
	struct pt_shape shape;
	struct pt_buf file;
	struct seen s;
	size_t i;

	for (i = 0; i < sizeof(manifests) / sizeof(manifests[0]); i++) {
		read_data(manifests[i].name, &file);
		ck_assert_int_eq(pt_obj_manifest_decode(file.data, file.len, &m), 0);
		shape = shape_of(2, manifests[i].g0, manifests[i].g1);
		ck_assert(m.dtype_code == 0 && m.split_dim == manifests[i].split_dim && m.shard_count == 2);
		ck_assert(pt_shape_equal(&m.global_shape, &shape));
		pt_obj_manifest_encode(&m, again);
		ck_assert_int_eq(memcmp(again, file.data, sizeof(again)), 0);
		ck_assert_int_eq(parse_all(PT_FORMAT_COUNT, NULL, file.data, file.len, 64, &s), -EINVAL);
		ck_assert(strstr(pt_fail_sentence(), "manifest"));
		seen_done(&s);
		pt_buf_done(&file);
	}
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("obj");

	tcase_add_test(tc, a82_golden_objects);
	tcase_add_test(tc, golden_manifests);
	tcase_add_test(tc, a84_rejects);
	tcase_add_test(tc, a85_accepts_but_contradictions_are_no_sources);
	tcase_add_test(tc, two_axes_of_one_kind_are_no_source);
	tcase_add_loop_test(tc, mooncake_objects_are_served_byte_for_byte_and_parsed, 0, (int)(sizeof(objects) / sizeof(objects[0])));
	tcase_add_test(tc, mooncake_manifests_are_decoded_and_refused_by_ingest);
	return run_suite("obj", &tc, 1);
}

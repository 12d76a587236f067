/* tests/unit/test_upload.c - files go in, what DESIGN's table of writes says is stored: rows, formats, tensor objects, strided tensors, bare
 * payloads, broken files. */
#include <sys/mman.h>

#include "format/serve.h"
#include "lib/tensor_help.h"

static struct pt_repo *repo;
static uint64_t node;

static void setup(void)
{
	repo = help_repo();
	node = help_node(repo, "k");
}

static void teardown(void)
{
	pt_repo_close(repo);
}

static int64_t store(const char *req, uint32_t seed)
{
	return help_store(repo, node, req, PT_DTYPE_F32, "8,6", seed);
}

static void expect(const char *req, uint32_t seed, int dim, uint64_t off, uint64_t ext)
{
	help_expect(repo, node, req, PT_DTYPE_F32, "8,6", seed, dim, off, ext);
}

/* The file of a counting tensor. */
static struct pt_buf file_of(enum pt_format format, enum pt_dtype dtype, const char *shape, uint32_t seed)
{
	struct pt_serve_tensor t = { .name = "w", .dtype = dtype, .shape = help_shape(shape), .global_shape = help_shape(shape) };
	struct pt_buf file = PT_BUF_INIT;
	struct pt_served s;
	uint64_t bytes;
	uint8_t *data;
	size_t i;

	OK(pt_shape_bytes(&t.shape, dtype, &bytes));
	data = malloc(bytes + 1);
	help_fill(data, bytes, seed);
	OK(pt_serve(format, &t, 1, 0, &s));
	for (i = 0; i < s.segment_count; i++)
		if (s.segments[i].tensor >= 0)
			pt_buf_append(&file, data, s.segments[i].len);
		else
			pt_buf_append(&file, s.literals.data + s.segments[i].literal_off, s.segments[i].len);
	pt_served_done(&s);
	free(data);
	ck_assert(!pt_buf_failed(&file));
	return file;
}

static struct pt_upload *open_at(const char *req, const struct pt_upload_options *options)
{
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT, .mode = 0644 };
	struct pt_request r = help_req(req);
	struct pt_upload *u;

	OK(pt_upload_open(repo, node, &r, options ? options : &o, &u));
	return u;
}

static int open_rc(const char *req, bool put)
{
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT, .put = put };
	struct pt_request r = help_req(req);
	struct pt_upload *u;
	int rc = pt_upload_open(repo, node, &r, &o, &u);

	if (!rc)
		pt_upload_free(u);
	return rc;
}

/* Feeds and publishes; the revision, 0 while pending, or -errno. */
static int64_t write_as(enum pt_format format, const char *req, const void *data, uint64_t len, uint64_t piece)
{
	struct pt_upload_options o = { .format = format, .mode = 0644 };
	struct pt_upload *u = open_at(req, &o);
	struct pt_published published = { 0 };
	uint64_t at, n;
	int rc = 0;

	for (at = 0; !rc && at < len; at += n) {
		n = len - at < piece ? len - at : piece;
		rc = pt_upload_feed(u, (const uint8_t *)data + at, n);
	}
	if (!rc)
		rc = pt_upload_publish(u, &published);
	pt_upload_free(u);
	return rc ? rc : (int64_t)published.revision;
}

static int64_t write_file(const char *req, const void *data, uint64_t len, uint64_t piece)
{
	return write_as(PT_FORMAT_COUNT, req, data, len, piece);
}

static int64_t write_bin(const char *req, const void *data, uint64_t len)
{
	return write_as(PT_FORMAT_BIN, req, data, len, 50);
}

START_TEST(rows_of_the_write_table)
{
	FAILS(open_rc("as_stored", false), EACCES);
	FAILS(open_rc("dp=0of2/as_stored", false), EACCES);
	FAILS(open_rc("shard", false), EINVAL);
	ck_assert_int_eq(store("full", 1), 1);
	expect("full", 1, -1, 0, 0);
	ck_assert_int_eq(store("dp=0of2/full", 2), 2);
	expect("dp=0of2/full", 2, -1, 0, 0);
	ck_assert_int_eq(store("pp=0of2s0/shard", 3), 3);
	expect("pp=0of2s0/shard", 3, -1, 0, 0);
	ck_assert_int_eq(store("dp=1of2/tp=0of2@1/full", 4), 0);
	ck_assert_int_eq(store("dp=1of2/tp=1of2@1/full", 4), 4);
	expect("dp=1of2/full", 4, -1, 0, 0);
	ck_assert_int_eq(store("writer=0of2@0/full", 5), 0);
	ck_assert_int_eq(store("writer=1of2@0/full", 5), 5);
	expect("full", 5, -1, 0, 0);
	ck_assert_int_eq(help_store(repo, node, "tp=1of2@0/shard", PT_DTYPE_F32, "4,6", 6), 0);
	ck_assert_int_eq(help_store(repo, node, "tp=0of2@0/shard", PT_DTYPE_F32, "4,6", 6), 6);
	FAILS(store("writer=0of2@0/shard", 1), EINVAL);
	SAYS("writer=0of2,dim=0/full");
}
END_TEST

START_TEST(put_is_refused_where_a_revision_is)
{
	OK(store("writer=0of2@0/full", 1));
	OK(open_rc("writer=1of2@0/full", true));        /* pending siblings never matter */
	OK(store("writer=1of2@0/full", 1));
	FAILS(open_rc("full", true), EEXIST);
	FAILS(open_rc("writer=1of2@0/full", true), EEXIST);
	OK(open_rc("dp=0of2/full", true));
}
END_TEST

START_TEST(only_the_owned_bytes_are_stored)
{
	struct pt_buf file = file_of(PT_FORMAT_SAFETENSORS, PT_DTYPE_F32, "8,6", 1);
	struct pt_manifest *m;
	int r;
	char text[40];

	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "writer=%dof4@1/full", r);
		ck_assert_int_eq(write_file(text, file.data, file.len, 5), r == 3);
	}
	OK(pt_manifest_get(repo, node, "", &m));
	ck_assert_uint_eq(m->objects[0].bytes + m->objects[1].bytes + m->objects[2].bytes + m->objects[3].bytes, 8 * 6 * 4);
	pt_manifest_unref(m);
	expect("full", 1, -1, 0, 0);
	pt_buf_done(&file);
}
END_TEST

#define PAGE ((uint64_t)4096)
#define ROWS_BYTES ((uint64_t)16 << 20) /* of float32 [4096, 1024] */

/* Bytes [begin, end) can no longer be looked at, as far as they are whole pages. */
static void hide(uint8_t *file, uint64_t begin, uint64_t end)
{
	begin = (begin + PAGE - 1) / PAGE * PAGE;
	end = end / PAGE * PAGE;
	ck_assert(begin < end && mprotect(file + begin, end - begin, PROT_NONE) == 0);
}

/* Whoever hashed or copied a byte that is not owned would end by SIGSEGV. (Those of torch.save are looked at: the file has a checksum of all of them.) */
START_TEST(bytes_that_are_not_owned_are_not_looked_at)
{
	static const enum pt_format formats[] = { PT_FORMAT_NPY, PT_FORMAT_SAFETENSORS };
	static const uint64_t pieces[] = { UINT64_MAX, 1 << 20, 100000 };
	struct pt_buf file = file_of(formats[_i / 3], PT_DTYPE_F32, "4096,1024", 1);
	struct pt_repo_counters before, after;
	uint64_t payload = 0;
	uint8_t *want = malloc(ROWS_BYTES), *map;

	help_fill(want, ROWS_BYTES, 1);
	while (memcmp(file.data + payload, want, 4096) != 0)
		payload++;
	map = mmap(NULL, file.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert(map != MAP_FAILED);
	memcpy(map, file.data, file.len);
	hide(map, payload, payload + ROWS_BYTES / 4);
	hide(map, payload + ROWS_BYTES / 2, payload + ROWS_BYTES);
	pt_repo_counters(repo, &before);
	OK(write_file("writer=1of4@0/full", map, file.len, pieces[_i % 3]));
	pt_repo_counters(repo, &after);
	ck_assert_uint_eq(after.bytes_stored - before.bytes_stored, ROWS_BYTES / 4);
	munmap(map, file.len);
	pt_buf_done(&file);
	free(want);
}
END_TEST

START_TEST(every_format_in_pieces_of_any_size)
{
	static const uint64_t pieces[] = { 1, 3, 64, 100000 };
	int f;
	size_t p;

	for (f = 0; f < PT_FORMAT_COUNT; f++)
		for (p = 0; p < 4; p++) {
			struct pt_buf file;
			uint32_t seed = (uint32_t)(10 * f) + (uint32_t)p;

			if (f == PT_FORMAT_BIN)
				continue;
			file = file_of((enum pt_format)f, PT_DTYPE_F32, "8,6", seed);
			OK(write_file("full", file.data, file.len, pieces[p]));
			expect("full", seed, -1, 0, 0);
			pt_buf_done(&file);
		}
}
END_TEST

START_TEST(a_bare_payload_has_the_dtype_and_shape_of_the_revision_or_of_a_hint)
{
	struct pt_upload_options o = { .format = PT_FORMAT_BIN };
	struct pt_parse_hint hint = { .dtype = PT_DTYPE_F32, .has_shape = true, .shape = help_shape("8,6") };
	struct pt_buf file = file_of(PT_FORMAT_BIN, PT_DTYPE_F32, "8,6", 7);
	struct pt_published published;
	struct pt_upload *u;

	FAILS(write_file("full", file.data, file.len, 50), EIO);
	SAYS("user.ptio.dtype");
	u = open_at("full", &o);
	OK(pt_upload_set_hint(u, &hint));
	OK(pt_upload_feed(u, file.data, 100));
	FAILS(pt_upload_set_hint(u, &hint), EBUSY);
	OK(pt_upload_feed(u, file.data + 100, file.len - 100));
	OK(pt_upload_publish(u, &published));
	pt_upload_free(u);
	expect("full", 7, -1, 0, 0);
	/* A name that says bin takes the revision's; under another name plain bytes are a mistake. */
	OK(write_bin("full", file.data, file.len));
	FAILS(write_file("full", file.data, file.len, 50), EIO);
	OK(write_bin("dp=0of2/full", file.data, file.len));
	expect("dp=0of2/full", 7, -1, 0, 0);
	/* The shard's shape is that of the layout. */
	OK(write_bin("tp=0of2@0/shard", file.data, file.len / 2));
	OK(write_bin("tp=1of2@0/shard", file.data + file.len / 2, file.len / 2));
	expect("full", 7, -1, 0, 0);
	/* What was said of the file holds under any name, and a short one ends with its last byte. */
	o.format = PT_FORMAT_COUNT;
	o.hint = hint;
	u = open_at("full", &o);
	OK(pt_upload_feed(u, file.data, file.len - 1));
	FAILS(pt_upload_publish(u, &published), EIO);
	OK(pt_upload_feed(u, file.data + file.len - 1, 1));
	OK(pt_upload_publish(u, &published));
	pt_upload_free(u);
	pt_buf_done(&file);
}
END_TEST

START_TEST(zeros_are_a_hole)
{
	struct pt_upload *u = open_at("tp=1of2@1/full", NULL);
	struct pt_buf file = file_of(PT_FORMAT_NPY, PT_DTYPE_U8, "1000,2000", 0);
	struct pt_published published;
	struct pt_view *v;
	uint8_t *data;
	size_t i;

	OK(pt_upload_feed(u, file.data, 128));
	OK(pt_upload_feed(u, NULL, 1999999));
	OK(pt_upload_feed(u, "\5", 1));
	OK(pt_upload_publish(u, &published));
	pt_upload_free(u);
	v = help_view(repo, node, "tp=1of2@1/shard");
	data = help_read(v);
	for (i = 0; i < 1000 * 1000 - 1; i++)
		ck_assert_uint_eq(data[i], 0);
	ck_assert_uint_eq(data[i], 5);
	free(data);
	pt_view_unref(v);
	pt_buf_done(&file);
}
END_TEST

START_TEST(a_fortran_ordered_array_is_stored_row_major)
{
	static const char header[] = "{'descr': '<i4', 'fortran_order': True, 'shape': (300, 70), }";
	struct pt_buf file = PT_BUF_INIT;
	uint32_t r, c;
	struct pt_view *v;
	uint32_t *data;

	pt_buf_append(&file, "\x93NUMPY\1\0", 8);
	pt_buf_append_le16(&file, 118);
	pt_buf_append_str(&file, header);
	pt_buf_append_fill(&file, ' ', 117 - strlen(header));
	pt_buf_append_u8(&file, '\n');
	for (c = 0; c < 70; c++)
		for (r = 0; r < 300; r++)
			pt_buf_append_le32(&file, r * 70 + c);
	OK(write_file("full", file.data, file.len, 1000));
	v = help_view(repo, node, "full");
	data = (uint32_t *)(void *)help_read(v);
	for (r = 0; r < 300 * 70; r++)
		ck_assert_uint_eq(data[r], r);
	free(data);
	pt_view_unref(v);
	OK(write_file("writer=1of2@0/full", file.data, file.len, 77));
	OK(write_file("writer=0of2@0/full", file.data, file.len, 77));
	v = help_view(repo, node, "full");
	data = (uint32_t *)(void *)help_read(v);
	for (r = 0; r < 300 * 70; r++)
		ck_assert_uint_eq(data[r], r);
	free(data);
	pt_view_unref(v);
	pt_buf_done(&file);
}
END_TEST

/* ---- broken files leave the revision that is there ---- */

START_TEST(broken_files_are_errors_and_harm_nothing)
{
	struct pt_buf file = file_of(PT_FORMAT_SAFETENSORS, PT_DTYPE_F32, "8,6", 2);
	struct pt_published published;
	struct pt_upload *u;
	uint64_t len;

	OK(store("full", 1));
	for (len = 0; len < file.len; len += 13)
		FAILS(write_file("full", file.data, len, 1000), EIO);
	/* Too short now: more may come. */
	u = open_at("full", NULL);
	FAILS(pt_upload_publish(u, &published), EIO);
	OK(pt_upload_feed(u, file.data, 3));
	FAILS(pt_upload_publish(u, &published), EIO);
	OK(pt_upload_feed(u, file.data + 3, 100));
	FAILS(pt_upload_publish(u, &published), EIO);
	ck_assert(!pt_upload_complete(u));
	OK(pt_upload_feed(u, file.data + 103, file.len - 103));
	ck_assert(pt_upload_complete(u));
	expect("full", 1, -1, 0, 0);                    /* not visible before publication */
	OK(pt_upload_publish(u, &published));
	ck_assert_uint_eq(published.revision, 2);
	OK(pt_upload_publish(u, &published));           /* once */
	ck_assert_uint_eq(published.revision, 2);
	FAILS(pt_upload_feed(u, "x", 1), EINVAL);
	pt_upload_free(u);
	expect("full", 2, -1, 0, 0);
	u = open_at("full", NULL);
	FAILS(pt_upload_feed(u, "garbage, not a tensor, of sufficient length to tell: " __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__
			     __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__ __FILE__, 512), EINVAL);
	FAILS(pt_upload_feed(u, file.data, 10), EINVAL);        /* for good */
	FAILS(pt_upload_publish(u, &published), EINVAL);
	pt_upload_free(u);
	expect("full", 2, -1, 0, 0);
	pt_buf_done(&file);
}
END_TEST

START_TEST(a_file_with_several_tensors_says_how_many)
{
	static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}";
	struct pt_buf file = PT_BUF_INIT;

	pt_buf_append_le64(&file, strlen(header));
	pt_buf_append_str(&file, header);
	pt_buf_append(&file, "\1\2\3\4", 4);
	FAILS(write_file("full", file.data, file.len, 10), EINVAL);
	SAYS("2 tensors");
	pt_buf_done(&file);
}
END_TEST

/* ---- tensor objects that a Mooncake store wrote ---- */

static struct pt_buf golden(const char *name)
{
	const char *src = getenv("PTIO_SRC");
	struct pt_buf file = PT_BUF_INIT;
	char path[4096], bytes[1024];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/data/mooncake/%s.bin", src ? src : ".", name);
	f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "%s", path);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	pt_buf_append(&file, bytes, n);
	return file;
}

START_TEST(every_stored_object_is_taken_at_the_path_of_its_layout_and_served_as_it_was)
{
	static const struct {
		const char *name, *write, *read;
	} objects[] = {
		{ "full", "full", "full" }, { "from", "full", "as_stored" },
		{ "tpd0_tp_0", "tp=0of2@0/shard", "tp=0of2@0/shard" }, { "tpd0_tp_1", "tp=1of2/shard", "tp=1of2@0/shard" },
		{ "tpd1_tp_0", "tp=0of2@1/shard", "tp=0of2@1/as_stored" }, { "tpd1_tp_1", "tp=1of2@1/full", "tp=1of2@1/shard" },
		{ "pard0_tp_0", "tp=0of2@0/shard", "tp=0of2@0/shard" }, { "pard0_tp_1", "tp=1of2@0/shard", "tp=1of2@0/shard" },
		{ "pard1_tp_0", "tp=0of2@1/shard", "tp=0of2@1/shard" }, { "pard1_tp_1", "tp=1of2@1/shard", "tp=1of2@1/shard" },
		{ "dptp__dp_0of2__tp_0of2_sd1", "dp=0of2/tp=0of2@1/shard", "dp=0of2/tp=0of2@1/shard" },
		{ "dptp__dp_0of2__tp_1of2_sd1", "dp=0of2/tp=1of2@1/shard", "tp=1of2@1/dp=0of2/shard" },
		{ "ep__ep_1of4_eid5", "ep=1of4e5/full", "ep=1of4e5/shard" }, { "pp__pp_1of4_sid3", "pp=1of4s3/shard", "pp=1of4s3/shard" },
		{ "wp__writer_0of2_sd0", "writer=0of2@0/full", "writer=0of2@0/shard" },
		{ "wp__writer_1of2_sd0", "writer=1of2@0/shard", "writer=1of2@0/as_stored" },
	};
	size_t i;

	for (i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct pt_buf file = golden(objects[i].name);
		struct pt_vfile *f;
		struct pt_view *v;
		uint8_t have[512];
		char key[32];

		/* The pairs of one set share a key, and become a revision. */
		snprintf(key, sizeof(key), "%.5s%zu", objects[i].name, strchr("tdwp", *objects[i].name) && objects[i].name[1] != 'p' ? 0 : i);
		node = help_node(repo, objects[i].name[0] == 'f' ? objects[i].name : key);
		OK(write_file(objects[i].write, file.data, file.len, 33));
		v = help_view(repo, node, objects[i].read);
		OK(pt_vfile_create(v, PT_FORMAT_OBJ, "w", &f));
		OK(pt_view_pin(v));
		ck_assert_uint_eq(pt_vfile_size(f), file.len);
		ck_assert_int_eq(pt_vfile_read(f, have, sizeof(have), 0), (int64_t)file.len);
		ck_assert_msg(!memcmp(have, file.data, file.len), "%s", objects[i].name);
		pt_view_unpin(v);
		pt_vfile_free(f);
		pt_view_unref(v);
		pt_buf_done(&file);
	}
}
END_TEST

START_TEST(objects_of_another_layout_are_refused)
{
	static const char *const wrong[][2] = {
		{ "tpd0_tp_0", "tp=1of2@0/shard" }, { "tpd0_tp_0", "tp=0of2@1/shard" }, { "tpd0_tp_0", "tp=0of4@0/shard" }, { "tpd0_tp_0", "full" },
		{ "tpd0_tp_0", "dp=0of2/tp=0of2@0/shard" }, { "dptp__dp_0of2__tp_0of2_sd1", "tp=0of2@1/shard" }, { "ep__ep_1of4_eid5", "ep=1of4e6/full" },
		{ "ep__ep_1of4_eid5", "full" }, { "wp__writer_0of2_sd0", "writer=1of2@0/full" }, { "dptp__dp_0of2__tp_0of2_sd1", "dp=0of2/full" },
	};
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pt_buf file = golden(wrong[i][0]);

		FAILS(write_file(wrong[i][1], file.data, file.len, 500), EINVAL);
		pt_buf_done(&file);
	}
}
END_TEST

START_TEST(attributes_are_set_before_and_after_publication)
{
	struct pt_upload *u = open_at("full", NULL);
	struct pt_buf file = file_of(PT_FORMAT_NPY, PT_DTYPE_F32, "8,6", 1);
	struct pt_published published;
	struct pt_view *v;

	OK(pt_upload_feed(u, file.data, file.len));
	OK(pt_upload_set_attrs(u, 0600, 3, 4, 12345));
	OK(pt_upload_publish(u, &published));
	v = help_view(repo, node, "full");
	ck_assert(pt_view_info(v)->mode == 0600 && pt_view_info(v)->uid == 3 && pt_view_info(v)->mtime_ns == 12345);
	pt_view_unref(v);
	OK(pt_upload_set_attrs(u, 0640, 5, 6, 777));
	v = help_view(repo, node, "full");
	ck_assert(pt_view_info(v)->mode == 0640 && pt_view_info(v)->gid == 6 && pt_view_info(v)->mtime_ns == 777);
	pt_view_unref(v);
	OK(store("full", 2));
	OK(pt_upload_set_attrs(u, 0666, 1, 1, 1));      /* superseded: nothing to touch */
	v = help_view(repo, node, "full");
	ck_assert(pt_view_info(v)->mode == 0644);
	pt_view_unref(v);
	pt_upload_free(u);
	pt_buf_done(&file);
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_reported_and_harms_nothing)
{
	struct pt_buf file = file_of(PT_FORMAT_NPY, PT_DTYPE_F32, "8,6", 2);
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT };
	struct pt_request r = help_req("writer=0of1@0/full");
	struct pt_published published;
	struct pt_upload *u;
	int64_t n;
	int rc = -1;

	OK(store("full", 1));
	for (n = 0; rc; n++) {
		ck_assert_int_lt(n, 2000);
		u = NULL;
		pt_alloc_fail_after(n);
		rc = pt_upload_open(repo, node, &r, &o, &u);
		if (!rc)
			rc = pt_upload_feed(u, file.data, file.len);
		if (!rc)
			rc = pt_upload_publish(u, &published);
		pt_alloc_fail_after(-1);
		pt_upload_free(u);
		ck_assert_msg(!rc || rc == -ENOMEM, "%lld: %d %s", (long long)n, rc, pt_fail_sentence());
		if (rc)
			expect("full", 1, -1, 0, 0);
	}
	expect("full", 2, -1, 0, 0);
	pt_buf_done(&file);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, rows_of_the_write_table);
	tcase_add_test(tc, put_is_refused_where_a_revision_is);
	tcase_add_test(tc, only_the_owned_bytes_are_stored);
	tcase_add_loop_test(tc, bytes_that_are_not_owned_are_not_looked_at, 0, 6);
	tcase_add_test(tc, every_format_in_pieces_of_any_size);
	tcase_add_test(tc, a_bare_payload_has_the_dtype_and_shape_of_the_revision_or_of_a_hint);
	tcase_add_test(tc, zeros_are_a_hole);
	tcase_add_test(tc, a_fortran_ordered_array_is_stored_row_major);
	tcase_add_test(tc, broken_files_are_errors_and_harm_nothing);
	tcase_add_test(tc, a_file_with_several_tensors_says_how_many);
	tcase_add_test(tc, every_stored_object_is_taken_at_the_path_of_its_layout_and_served_as_it_was);
	tcase_add_test(tc, objects_of_another_layout_are_refused);
	tcase_add_test(tc, attributes_are_set_before_and_after_publication);
	tcase_add_test(tc, running_out_of_memory_anywhere_is_reported_and_harms_nothing);
}

int main(void)
{
	return run_case("upload", add);
}

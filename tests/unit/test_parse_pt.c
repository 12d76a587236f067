/* unit/test_parse_pt.c - torch.save archives: what torch and others wrote is read right, everything else is refused. */
#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "format/serve.h"
#include "pt_support.h"

#define LINE 2048

static int feed_pieces(struct pt_parser *p, const uint8_t *data, size_t len, size_t piece)
{
	for (size_t off = 0; off < len;) {
		size_t n = len - off < piece ? len - off : piece;
		uint8_t *copy = malloc(n);
		int rc;

		memcpy(copy, data + off, n);
		rc = pt_parser_feed(p, copy, n);
		free(copy);
		if (rc < 0)
			return rc;
		off += n;
	}
	return 0;
}

/* Percent-encoding undone; "-" is the empty name. */
static void name_decode(const char *text, char *out)
{
	if (strcmp(text, "-") == 0)
		text = "";
	while (*text) {
		unsigned int c;

		if (*text == '%' && sscanf(text + 1, "%2x", &c) == 1) {
			*out++ = (char)c;
			text += 3;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
}

static void tensor_check(const struct keep *k, uint32_t i, const char *file, const char *line)
{
	char name[LINE], dtype[64], shape_text[256], want_name[LINE], shape[256];
	const struct pt_parse_tensor *t = &k->t[i];
	unsigned int contiguous;
	uint64_t bytes, have, elems, unit;
	uint32_t crc;
	uint8_t *out;

	ck_assert_int_eq(sscanf(line, "tensor %2047s %63s %255s %u %" SCNu64 " %" SCNx32, name, dtype, shape_text, &contiguous, &bytes, &crc), 6);
	ck_assert_msg(i < k->tensor_count, "%s: too few tensors", file);
	name_decode(name, want_name);
	ck_assert_str_eq(k->name[i], want_name);
	ck_assert_str_eq(pt_dtype_info(t->dtype)->name, dtype);
	pt_shape_format(&t->shape, shape, sizeof(shape));
	shape[strlen(shape) - 1] = '\0';
	for (char *c = shape; *c; c++)
		while (*c == ' ')
			memmove(c, c + 1, strlen(c));
	ck_assert_str_eq(shape[1] ? shape + 1 : "-", shape_text);
	ck_assert_int_eq(t->contiguous, (int)contiguous);
	ck_assert_int_eq(pt_shape_bytes(&t->shape, t->dtype, &have), 0);
	ck_assert_uint_eq(have, bytes);
	out = malloc(bytes ? bytes : 1);
	unit = pt_dtype_info(t->dtype)->bits < 8 ? 1 : pt_dtype_info(t->dtype)->bits / 8;
	elems = bytes / unit;
	pt_gather_strided(k->data[t->storage], t, 0, elems, out);
	ck_assert_msg(crc32(0, out, (uInt)bytes) == crc, "%s: tensor %s has other bytes", file, name);
	if (t->contiguous && bytes)
		ck_assert_mem_eq(k->data[t->storage] + t->storage_off, out, bytes);
	/* Any window of it is the same bytes. */
	for (uint64_t first = 0; first < elems; first += 1 + elems / 9)
		for (uint64_t n = 0; n <= elems - first; n += 1 + elems / 7) {
			uint8_t *part = malloc(n > 0 ? n * unit : 1);

			pt_gather_strided(k->data[t->storage], t, first, n, part);
			ck_assert(memcmp(part, out + first * unit, n * unit) == 0);
			free(part);
		}
	free(out);
}

static void file_check(const char *name, FILE *lines, size_t piece)
{
	struct pt_parser *p = NULL;
	struct pt_parse_sink sink;
	uint32_t count = 0;
	char line[LINE];
	struct keep k;
	uint8_t *data;
	size_t len;
	long at;

	data = data_load(name, &len);
	sink = keep_sink(&k);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	ck_assert_msg(feed_pieces(p, data, len, piece) == 0, "%s in pieces of %zu: %s", name, piece, pt_fail_sentence());
	ck_assert(pt_parser_complete(p));
	ck_assert_int_eq(k.complete, 1);
	ck_assert_int_eq(k.header_done, 1);
	ck_assert_int_eq(pt_parser_end(p), 0);
	ck_assert_uint_eq(pt_parser_fed(p), len);
	ck_assert_int_eq(pt_parser_format(p), PT_FORMAT_PT);
	for (at = ftell(lines); fgets(line, sizeof(line), lines) && strncmp(line, "tensor ", 7) == 0; at = ftell(lines))
		tensor_check(&k, count++, name, line);
	ck_assert(fseek(lines, at, SEEK_SET) == 0);
	ck_assert_msg(count == k.tensor_count, "%s: %u tensors, not %u", name, k.tensor_count, count);
	ck_assert_int_eq(pt_parser_feed(p, "", 1), -EINVAL);
	pt_parser_free(p);
	keep_done(&k);
	free(data);
}

static FILE *lines_open(const char *name)
{
	char path[4096];
	FILE *f;

	data_path(name, path);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "cannot open %s", path);
	return f;
}

static const size_t pieces[] = { 1, 7, 4096, SIZE_MAX };

START_TEST(every_file_of_torch_and_others_reads_as_written)
{
	FILE *lines = lines_open("expected.txt");
	char line[LINE], name[LINE];
	unsigned int files = 0;

	while (fgets(line, sizeof(line), lines)) {
		ck_assert_int_eq(sscanf(line, "file %2047s", name), 1);
		file_check(name, lines, pieces[_i]);
		files++;
	}
	ck_assert_uint_gt(files, 25);
	fclose(lines);
}
END_TEST

START_TEST(every_refused_file_is_refused_with_its_reason)
{
	FILE *lines = lines_open("refused.txt");
	char line[LINE], name[256], path[512];
	unsigned int files = 0;
	int at = 0;

	while (fgets(line, sizeof(line), lines)) {
		struct pt_parser *p = NULL;
		struct pt_parse_sink sink;
		struct keep k;
		uint8_t *data;
		size_t len;
		int rc;

		line[strcspn(line, "\n")] = '\0';
		ck_assert_int_eq(sscanf(line, "%255s %n", name, &at), 1);
		snprintf(path, sizeof(path), "bad/%s", name);
		data = data_load(path, &len);
		sink = keep_sink(&k);
		ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
		rc = feed_pieces(p, data, len, pieces[_i]);
		ck_assert_msg(rc == -EINVAL || rc == -EFBIG || rc == -EOPNOTSUPP, "%s: %d instead of a refusal", name, rc);
		ck_assert_msg(strstr(pt_fail_sentence(), line + at) != NULL, "%s: \"%s\" does not say \"%s\"", name, pt_fail_sentence(), line + at);
		ck_assert_int_eq(pt_parser_feed(p, "x", 1), rc);
		ck_assert(!pt_parser_complete(p));
		if (strcmp(name, "trailing.pt") != 0)
			ck_assert_int_eq(k.complete, 0);
		pt_parser_free(p);
		keep_done(&k);
		free(data);
		files++;
	}
	ck_assert_uint_gt(files, 80);
	fclose(lines);
}
END_TEST

static const char *const short_files[] = { "f32.pt", "many_113.pt", "zipfile_stream64.pt", "zipfile.pt", "crc_off.pt", "extra.pt" };

START_TEST(every_truncation_is_incomplete)
{
	size_t len;
	uint8_t *data = data_load(short_files[_i], &len);

	for (size_t n = 0; n < len; n++) {
		struct pt_parser *p = NULL;
		struct pt_parse_sink sink;
		struct keep k;

		sink = keep_sink(&k);
		ck_assert_int_eq(pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p), 0);
		ck_assert_int_eq(feed_pieces(p, data, n, SIZE_MAX), 0);
		ck_assert(!pt_parser_complete(p) && !k.complete);
		ck_assert_int_eq(pt_parser_end(p), -EINVAL);
		ck_assert(strstr(pt_fail_sentence(), "write it whole") || n == 0);
		pt_parser_free(p);
		keep_done(&k);
	}
	free(data);
}
END_TEST

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The sink's own assertions hold for whatever a mutant announces. */
START_TEST(mutants_neither_crash_nor_complete_short)
{
	size_t len;
	uint8_t *data = data_load(short_files[_i], &len);
	uint8_t *mutant = malloc(len);
	uint64_t state = 77;

	for (int round = 0; round < 600; round++) {
		struct pt_parser *p = NULL;
		struct pt_parse_sink sink;
		struct keep k;
		int rc;

		memcpy(mutant, data, len);
		for (uint64_t i = random_next(&state) % 3 + 1; i > 0; i--)
			mutant[random_next(&state) % len] = (uint8_t)random_next(&state);
		sink = keep_sink(&k);
		ck_assert_int_eq(pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p), 0);
		rc = feed_pieces(p, mutant, len, 1 + random_next(&state) % 600);
		ck_assert(rc == 0 || rc == -EINVAL || rc == -EFBIG || rc == -EOPNOTSUPP);
		ck_assert(rc == 0 || strlen(pt_fail_sentence()) > 20);
		pt_parser_free(p);
		keep_done(&k);
	}
	free(mutant);
	free(data);
}
END_TEST

static int sink_stops(void *ctx, const struct pt_parse_tensor *t)
{
	(void)t;
	return *(int *)ctx;
}

START_TEST(what_the_sink_returns_stops_the_parser)
{
	int code = -ENOSPC;
	struct pt_parse_sink sink = { .ctx = &code, .tensor = sink_stops };
	struct pt_parser *p = NULL;
	size_t len;
	uint8_t *data = data_load("f32.pt", &len);

	ck_assert_int_eq(pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p), 0);
	ck_assert_int_eq(feed_pieces(p, data, len, 4096), -ENOSPC);
	pt_parser_free(p);
	free(data);
}
END_TEST

/* A sparse copy arrives as holes: zeros without data, inside payloads and anywhere else. */
START_TEST(holes_read_as_zeros)
{
	struct pt_parse_sink sink;
	struct pt_parser *p = NULL;
	struct keep k;
	size_t len, off = 0, holes = 0;
	uint8_t *data = data_load("slice.pt", &len);

	sink = keep_sink(&k);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p), 0);
	while (off < len) {
		size_t run = 0;

		while (off + run < len && data[off + run] == 0)
			run++;
		if (run >= 2) {
			ck_assert_msg(pt_parser_feed(p, NULL, run) == 0, "%s", pt_fail_sentence());
			holes++;
		} else {
			run = 1;
			ck_assert_msg(pt_parser_feed(p, data + off, 1) == 0, "%s", pt_fail_sentence());
		}
		off += run;
	}
	ck_assert(pt_parser_complete(p));
	ck_assert_uint_gt(holes, 10);
	ck_assert_uint_eq(k.got[0], 400);
	pt_parser_free(p);
	keep_done(&k);
	free(data);
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_an_error)
{
	size_t len;
	uint8_t *data = data_load("checkpoint.pt", &len);
	bool failed = true;

	for (int64_t n = 0; failed; n++) {
		struct pt_parser *p = NULL;
		struct pt_parse_sink sink = { 0 };
		int rc;

		ck_assert_int_lt(n, 10000);
		pt_alloc_fail_after(n);
		rc = pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p);
		if (rc == 0)
			rc = pt_parser_feed(p, data, len);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
		failed = rc != 0;
		pt_parser_free(p);
	}
	free(data);
}
END_TEST

/* --- beyond 4 GiB --------------------------------------------------------- */

#define HUGE_BYTES ((uint64_t)5 << 30)

struct zip_out {
	struct pt_parser *p;
	struct pt_buf central;
	uint64_t off;
	uint32_t count;
};

static void out_feed(struct zip_out *z, const struct pt_buf *b)
{
	ck_assert(!pt_buf_failed(b));
	ck_assert_msg(pt_parser_feed(z->p, b->data, b->len) == 0, "%s", pt_fail_sentence());
	z->off += b->len;
}

/* A record as torch writes one: sizes that need it in a 64-bit field, zeros in the header, a wide descriptor behind sizes
 * and offsets from 4 GiB on. data NULL: zeros. */
static void out_record(struct zip_out *z, const char *name, const void *data, uint64_t len, uint32_t crc)
{
	bool big = len >= UINT32_MAX, far = z->off >= UINT32_MAX, wide = big || far;
	uint16_t name_len = (uint16_t)strlen(name), field = (uint16_t)(16 * big + 8 * far);
	struct pt_buf b = PT_BUF_INIT;
	uint64_t at = z->off;

	pt_buf_append_le32(&b, 0x04034b50);
	pt_buf_append_le16(&b, 0);
	pt_buf_append_le16(&b, 0x0808);
	pt_buf_append_zeros(&b, 18);
	pt_buf_append_le16(&b, name_len);
	pt_buf_append_le16(&b, (uint16_t)(wide ? 4 + field : 0));
	pt_buf_append(&b, name, name_len);
	if (wide) {
		pt_buf_append_le16(&b, 1);
		pt_buf_append_le16(&b, field);
		if (big) {
			pt_buf_append_le64(&b, len);
			pt_buf_append_le64(&b, 0);
		}
		if (far)
			pt_buf_append_le64(&b, at);
	}
	out_feed(z, &b);
	for (uint64_t off = 0; off < len;) {
		uint64_t n = data ? len : pt_size_min(len - off, ((uint64_t)1 << 30) + 17);

		ck_assert_msg(pt_parser_feed(z->p, data, n) == 0, "%s", pt_fail_sentence());
		off += n;
	}
	z->off += len;
	pt_buf_reset(&b);
	pt_buf_append_le32(&b, 0x08074b50);
	pt_buf_append_le32(&b, crc);
	if (wide) {
		pt_buf_append_le64(&b, len);
		pt_buf_append_le64(&b, len);
	} else {
		pt_buf_append_le32(&b, (uint32_t)len);
		pt_buf_append_le32(&b, (uint32_t)len);
	}
	out_feed(z, &b);
	pt_buf_done(&b);
	pt_buf_append_le32(&z->central, 0x02014b50);
	pt_buf_append_zeros(&z->central, 4);
	pt_buf_append_le16(&z->central, 0x0808);
	pt_buf_append_zeros(&z->central, 6);
	pt_buf_append_le32(&z->central, crc);
	pt_buf_append_le32(&z->central, big ? UINT32_MAX : (uint32_t)len);
	pt_buf_append_le32(&z->central, big ? UINT32_MAX : (uint32_t)len);
	pt_buf_append_le16(&z->central, name_len);
	pt_buf_append_le16(&z->central, (uint16_t)(wide ? 4 + field : 0));
	pt_buf_append_zeros(&z->central, 10);
	pt_buf_append_le32(&z->central, far ? UINT32_MAX : (uint32_t)at);
	pt_buf_append(&z->central, name, name_len);
	if (wide) {
		pt_buf_append_le16(&z->central, 1);
		pt_buf_append_le16(&z->central, field);
		if (big) {
			pt_buf_append_le64(&z->central, len);
			pt_buf_append_le64(&z->central, len);
		}
		if (far)
			pt_buf_append_le64(&z->central, at);
	}
	z->count++;
}

static void out_end(struct zip_out *z)
{
	uint64_t start = z->off, size = z->central.len;

	pt_buf_append_le32(&z->central, 0x06064b50);
	pt_buf_append_le64(&z->central, 44);
	pt_buf_append_le32(&z->central, 0x002d031e);
	pt_buf_append_zeros(&z->central, 8);
	pt_buf_append_le64(&z->central, z->count);
	pt_buf_append_le64(&z->central, z->count);
	pt_buf_append_le64(&z->central, size);
	pt_buf_append_le64(&z->central, start);
	pt_buf_append_le32(&z->central, 0x07064b50);
	pt_buf_append_le32(&z->central, 0);
	pt_buf_append_le64(&z->central, start + size);
	pt_buf_append_le32(&z->central, 1);
	pt_buf_append_le32(&z->central, 0x06054b50);
	pt_buf_append_zeros(&z->central, 4);
	pt_buf_append_le16(&z->central, (uint16_t)z->count);
	pt_buf_append_le16(&z->central, (uint16_t)z->count);
	pt_buf_append_le32(&z->central, (uint32_t)size);
	pt_buf_append_le32(&z->central, UINT32_MAX);
	pt_buf_append_le16(&z->central, 0);
	out_feed(z, &z->central);
	pt_buf_done(&z->central);
}

START_TEST(sizes_and_offsets_beyond_4_gib_are_read_as_torch_writes_them)
{
	static const char pickle[] =
		"\x80\x02](ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0" "0X\3\0\0\0cpu"
		"\x8a\5\0\0\0\x40\1tQK\0\x8a\5\0\0\0\x40\1\x85K\1\x85\x89" "ccollections\nOrderedDict\n)RtR"
		"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0" "1X\3\0\0\0cpu"
		"K\3tQK\0K\3\x85K\1\x85\x89" "ccollections\nOrderedDict\n)RtRe.";
	uint32_t crc = 0;
	struct zip_out z = { 0 };
	struct pt_parse_sink sink;
	struct keep k;

	/* The CRC of 5 GiB of zeros, by doubling. */
	if (_i == 0) {
		static const uint8_t zeros[1 << 20];
		uint32_t run = (uint32_t)crc32(0, zeros, sizeof(zeros));

		for (uint64_t n = 0; n < HUGE_BYTES; n += sizeof(zeros))
			crc = (uint32_t)crc32_combine(crc, run, sizeof(zeros));
	}
	sink = keep_sink(&k);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_PT, &sink, NULL, &z.p), 0);
	out_record(&z, "a/data.pkl", pickle, sizeof(pickle) - 1, 0);
	out_record(&z, "a/data/0", NULL, HUGE_BYTES, crc);
	out_record(&z, "a/data/1", "xyz", 3, (uint32_t)crc32(0, (const Bytef *)"xyz", 3));
	out_record(&z, "a/version", "3\n", 2, 0);
	out_end(&z);
	ck_assert(pt_parser_complete(z.p));
	ck_assert_uint_eq(k.got[0], HUGE_BYTES);
	ck_assert_uint_eq(k.bytes[1], 3);
	ck_assert_mem_eq(k.data[1], "xyz", 3);
	pt_parser_free(z.p);
	keep_done(&k);
}
END_TEST

/* --- what ptio serves ----------------------------------------------------- */

START_TEST(what_ptio_serves_is_read_back)
{
	static const uint8_t ones[1 << 17] = { 1, 2, 3 };
	struct pt_serve_tensor t[3] = {
		{ .name = "a.b", .dtype = PT_DTYPE_F32, .shape = { .ndim = 2, .dim = { 2, 3 } } },
		{ .name = "c", .dtype = PT_DTYPE_F4_E2M1, .shape = { .ndim = 2, .dim = { 2, 8 } } },
		{ .name = "d", .dtype = PT_DTYPE_U8, .shape = { .ndim = 1, .dim = { 100000 } } },
	};
	uint64_t bytes[3] = { 24, 8, 100000 };
	struct pt_served s;
	struct pt_parse_sink sink;
	struct pt_parser *p = NULL;
	struct keep k;

	if (_i == 1) {
		t[2].shape.dim[0] = bytes[2] = HUGE_BYTES;
	} else {
		t[2].crc32 = (uint32_t)crc32(0, ones, 100000);
	}
	ck_assert_int_eq(pt_serve(PT_FORMAT_PT, t, 3, 1, &s), 0);
	sink = keep_sink(&k);
	ck_assert_int_eq(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p), 0);
	for (size_t i = 0; i < s.segment_count; i++) {
		const struct pt_segment *g = &s.segments[i];
		const void *from = g->tensor < 0 ? s.literals.data + g->literal_off : g->len > sizeof(ones) ? NULL : ones;

		ck_assert_msg(pt_parser_feed(p, from, g->len) == 0, "%s", pt_fail_sentence());
	}
	ck_assert(pt_parser_complete(p));
	ck_assert_uint_eq(k.tensor_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_str_eq(k.name[i], t[i].name);
		ck_assert_int_eq(k.t[i].dtype, t[i].dtype);
		ck_assert(pt_shape_equal(&k.t[i].shape, &t[i].shape));
		ck_assert(k.t[i].contiguous);
		ck_assert_uint_eq(k.got[i], bytes[i]);
	}
	pt_parser_free(p);
	pt_served_done(&s);
	keep_done(&k);
}
END_TEST

/* --- gather --------------------------------------------------------------- */

/* Index by index, as the definition says. */
static void gather_plainly(const uint8_t *storage, const struct pt_parse_tensor *t, uint64_t first, uint64_t n, uint64_t unit, uint8_t *out)
{
	for (uint64_t e = first; e < first + n; e++) {
		uint64_t rest = e, off = 0;

		for (uint32_t i = t->shape.ndim; i-- > 0;) {
			uint64_t dim = t->shape.dim[i];

			if (t->dtype == PT_DTYPE_F4_E2M1 && i + 1 == t->shape.ndim)
				dim /= 2;
			off += rest % dim * t->stride[i];
			rest /= dim;
		}
		memcpy(out + (e - first) * unit, storage + t->storage_off + off * unit, unit);
	}
}

START_TEST(gather_equals_the_definition)
{
	static const enum pt_dtype dtypes[] = { PT_DTYPE_U8, PT_DTYPE_F16, PT_DTYPE_F32, PT_DTYPE_I64, PT_DTYPE_C128, PT_DTYPE_F4_E2M1 };
	static uint8_t storage[1 << 16], got[1 << 14], want[1 << 14];
	uint64_t state = 5;

	for (size_t i = 0; i < sizeof(storage); i++)
		storage[i] = (uint8_t)random_next(&state);
	for (int round = 0; round < 6000; round++) {
		struct pt_parse_tensor t = { .dtype = dtypes[random_next(&state) % 6] };
		uint64_t unit = pt_dtype_info(t.dtype)->bits < 8 ? 1 : pt_dtype_info(t.dtype)->bits / 8, elems = 1, first, n;

		t.shape.ndim = (uint32_t)(random_next(&state) % 5) + (t.dtype == PT_DTYPE_F4_E2M1);
		t.storage_off = unit * (random_next(&state) % 8);
		for (uint32_t i = 0; i < t.shape.ndim; i++) {
			uint64_t dim = 1 + random_next(&state) % 5;

			t.shape.dim[i] = dim;
			elems *= dim;
			if (t.dtype == PT_DTYPE_F4_E2M1 && i + 1 == t.shape.ndim)
				t.shape.dim[i] *= 2;
			t.stride[i] = random_next(&state) % 3 ? random_next(&state) % 60 : 1;
		}
		if (elems * unit > sizeof(got))
			continue;
		first = random_next(&state) % elems;
		n = random_next(&state) % (elems - first + 1);
		pt_gather_strided(storage, &t, first, n, got);
		gather_plainly(storage, &t, first, n, unit, want);
		ck_assert(memcmp(got, want, n * unit) == 0);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pt");

	tcase_add_loop_test(c, every_file_of_torch_and_others_reads_as_written, 0, 4);
	tcase_add_loop_test(c, every_refused_file_is_refused_with_its_reason, 0, 4);
	tcase_add_loop_test(c, every_truncation_is_incomplete, 0, 6);
	tcase_add_loop_test(c, mutants_neither_crash_nor_complete_short, 0, 6);
	tcase_add_test(c, what_the_sink_returns_stops_the_parser);
	tcase_add_test(c, holes_read_as_zeros);
	tcase_add_test(c, running_out_of_memory_anywhere_is_an_error);
	tcase_add_loop_test(c, sizes_and_offsets_beyond_4_gib_are_read_as_torch_writes_them, 0, 2);
	tcase_add_loop_test(c, what_ptio_serves_is_read_back, 0, 2);
	tcase_add_test(c, gather_equals_the_definition);
	return run_suite("parse_pt", &c, 1);
}

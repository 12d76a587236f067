/* Records: what is encoded comes back; cut, lengthened and changed bytes are refused or decode to something sound; memory may run out anywhere.
 * PTIO_RECORD_CORPUS=DIR writes the samples as inputs for fuzz_record. */
#include "manifest/record_small.h"
#include "manifest/set.h"
#include "manifest_help.h"

static void object_sample(struct pt_object *o, int rank, int size, int dim, uint64_t off, uint64_t ext, uint64_t other)
{
	memset(o, 0, sizeof(*o));
	memset(o->blob.id.b, 0x11 + rank, sizeof(o->blob.id.b));
	o->blob.kind = PT_BLOB_TENSOR;
	o->payload_off = 4096;
	o->box = (struct pt_box){ .ndim = 2, .off = { off, 0 }, .ext = { ext, other } };
	o->bytes = ext * other * 2;
	memset(o->hash.b, 0xa0 + rank, sizeof(o->hash.b));
	o->crc32 = 0x01020304;
	o->part = (struct pt_partition){ .rank = rank, .size = size, .dim = dim };
	o->axis_count = 2;
	o->axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = rank, .size = size, .dim = dim };
	o->axis[1] = (struct pt_axis){ .kind = PT_AXIS_EP, .rank = 1, .size = 4, .dim = -1, .has_id = true, .id = 11 };
	o->hidden = rank == 1;
}

static void manifest_sample(struct pt_buf *out)
{
	struct pt_object objects[3];
	struct pt_manifest m = { .node = 77, .revision = 5, .dtype = PT_DTYPE_BF16, .shape = { .ndim = 2, .dim = { 10, 6 } }, .set_size = 3, .set_dim = 0,
				 .written = PT_WRITTEN_TP_SHARD, .split = PT_SPLIT_CHUNK, .step = "120", .mode = 0640, .uid = 1, .gid = 2, .mtime_ns = -3,
				 .object_count = 3, .objects = objects };

	memset(m.set_id.b, 0x77, sizeof(m.set_id.b));
	ck_assert_int_eq(pt_layout_add(&m.scope_axes, &(struct pt_axis){ .kind = PT_AXIS_EP, .rank = 1, .size = 4, .dim = -1, .has_id = true, .id = 11 }), 0);
	object_sample(&objects[0], 0, 3, 0, 0, 4, 6);
	object_sample(&objects[1], 1, 3, 0, 4, 0, 6);
	object_sample(&objects[2], 2, 3, 0, 4, 6, 6);
	check_ok(pt_record_manifest_encode(&m, out));
}

static void pending_sample(struct pt_buf *out, bool known)
{
	struct pt_object objects[2];
	struct pt_pending p = { .node = 77, .dtype = PT_DTYPE_F16, .shape_known = known, .shape = { .ndim = 2, .dim = { known ? 10 : 0, 6 } }, .set_size = 4,
				.set_dim = 0, .written = known ? PT_WRITTEN_WRITER : PT_WRITTEN_TP_SHARD, .split = PT_SPLIT_BALANCED, .created_ns = 4,
				.updated_ns = 5, .object_count = 2, .objects = objects };

	object_sample(&objects[0], 0, 4, 0, 0, 2, 6);
	object_sample(&objects[1], 3, 4, 0, known ? 7 : 0, 3, 6);
	check_ok(pt_record_pending_encode(&p, out));
}

static void node_sample(struct pt_buf *out, enum pt_node_kind kind)
{
	struct pt_xattr xattr[2] = { { .name = (char *)"user.x", .value = (uint8_t *)"1\0" "2", .value_len = 3 }, { .name = (char *)"user.empty" } };
	struct pt_node n = { .id = 9, .parent = 1, .name = "a component", .kind = kind, .implicit = true, .mode = 0755, .uid = 1000, .gid = 1001, .mtime_ns = 5,
			     .ctime_ns = -6, .next_revision = 3, .split = PT_SPLIT_CHUNK, .xattrs = xattr, .xattr_count = 2, .size = 12 };

	if (kind == PT_NODE_SYMLINK)
		n.target = (char *)"step=120";
	if (kind == PT_NODE_FILE) {
		memset(n.blob.id.b, 5, sizeof(n.blob.id.b));
		n.blob.kind = PT_BLOB_PLAIN;
	}
	check_ok(pt_record_node_encode(&n, out));
}

/* Decodes and encodes again; -errno of the decoder. */
typedef int again_fn(const void *data, size_t len, struct pt_buf *out);

static int node_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_node n;
	int rc = pt_record_node_decode(data, len, &n);

	if (rc < 0)
		return rc;
	rc = pt_record_node_encode(&n, out);
	pt_node_done(&n);
	return rc;
}

static int manifest_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_manifest *m;
	int rc = pt_record_manifest_decode(data, len, &m);

	if (rc < 0)
		return rc;
	ck_assert_ptr_null(pt_set_problem(m));
	rc = pt_record_manifest_encode(m, out);
	pt_manifest_unref(m);
	return rc;
}

static int pending_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_pending *p;
	int rc = pt_record_pending_decode(data, len, &p);

	if (rc < 0)
		return rc;
	rc = pt_record_pending_encode(p, out);
	pt_pending_free(p);
	return rc;
}

static int entry_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_entry e;
	int rc = pt_record_entry_decode(data, len, &e);

	if (!rc)
		pt_record_entry_encode(&e, out);
	return rc;
}

static int blob_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_blob_rec r;
	int rc = pt_record_blob_decode(data, len, &r);

	if (!rc)
		pt_record_blob_encode(&r, out);
	return rc;
}

static int garbage_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_blob_ref *refs;
	size_t count;
	int rc = pt_record_garbage_decode(data, len, &refs, &count);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++)
		pt_record_garbage_add(out, &refs[i]);
	free(refs);
	return out->failed ? -ENOMEM : 0;
}

static int format_again(const void *data, size_t len, struct pt_buf *out)
{
	struct pt_format_rec f;
	int rc = pt_record_format_decode(data, len, &f);

	if (!rc)
		pt_record_format_encode(&f, out);
	return rc;
}

static int counter_again(const void *data, size_t len, struct pt_buf *out)
{
	uint64_t v;
	int rc = pt_record_counter_decode(data, len, &v);

	if (!rc)
		pt_record_counter_encode(v, out);
	return rc;
}

static int times_again(const void *data, size_t len, struct pt_buf *out)
{
	int64_t ns;
	int rc = pt_record_times_decode(data, len, &ns);

	if (!rc)
		pt_record_times_encode(ns, out);
	return rc;
}

#define SAMPLES 13
static const struct {
	const char *name;
	again_fn *again;
	uint8_t fuzz;                   /* the first byte of fuzz_record's input */
	bool open_ended;                /* a list: may be cut between entries */
} samples[SAMPLES] = {
	{ "node-dir", node_again, 0, false }, { "node-symlink", node_again, 0, false }, { "node-file", node_again, 0, false },
	{ "manifest", manifest_again, 3, false }, { "pending-known", pending_again, 7, false }, { "pending-shards", pending_again, 7, false },
	{ "entry", entry_again, 9, false }, { "times", times_again, 10, false }, { "object", blob_again, 11, false }, { "garbage", garbage_again, 13, true },
	{ "counter", counter_again, 14, false }, { "format", format_again, 15, false }, { "root", node_again, 0, false },
};

static void sample(int i, struct pt_buf *out)
{
	struct pt_node root = { .id = PT_NODE_ROOT, .kind = PT_NODE_DIR, .mode = 0755, .next_revision = 1 };

	switch (i) {
	case 0: node_sample(out, PT_NODE_DIR); break;
	case 1: node_sample(out, PT_NODE_SYMLINK); break;
	case 2: node_sample(out, PT_NODE_FILE); break;
	case 3: manifest_sample(out); break;
	case 4: pending_sample(out, true); break;
	case 5: pending_sample(out, false); break;
	case 6: pt_record_entry_encode(&(struct pt_entry){ .id = 5, .kind = PT_NODE_FILE }, out); break;
	case 7: pt_record_times_encode(-5, out); break;
	case 8: pt_record_blob_encode(&(struct pt_blob_rec){ .kind = PT_BLOB_TENSOR, .refs = 2, .bytes = 5000, .payload_off = 4096 }, out); break;
	case 9:
		pt_record_garbage_add(out, &(struct pt_blob_ref){ .id = { { 1 } }, .kind = PT_BLOB_TENSOR });
		pt_record_garbage_add(out, &(struct pt_blob_ref){ .id = { { 2 } }, .kind = PT_BLOB_PLAIN });
		break;
	case 10: pt_record_counter_encode(UINT64_MAX, out); break;
	case 11: pt_record_format_encode(&(struct pt_format_rec){ .version = 1, .store_id = { { 7 } }, .created_ns = 9 }, out); break;
	case 12: check_ok(pt_record_node_encode(&root, out)); break;
	}
	ck_assert(!pt_buf_failed(out));
}

START_TEST(records_come_back_as_they_were)
{
	const char *corpus = getenv("PTIO_RECORD_CORPUS");
	struct pt_buf b = PT_BUF_INIT, again = PT_BUF_INIT;
	char path[512];
	FILE *f;

	sample(_i, &b);
	check_ok(samples[_i].again(b.data, b.len, &again));
	ck_assert_uint_eq(again.len, b.len);
	ck_assert_mem_eq(again.data, b.data, b.len);
	if (corpus) {
		snprintf(path, sizeof(path), "%s/%s", corpus, samples[_i].name);
		f = fopen(path, "wb");
		ck_assert_ptr_nonnull(f);
		fputc(samples[_i].fuzz, f);
		fwrite(b.data, 1, b.len, f);
		fclose(f);
	}
	pt_buf_done(&b);
	pt_buf_done(&again);
}
END_TEST

START_TEST(cut_lengthened_and_changed_bytes_are_refused_or_sound)
{
	struct pt_buf b = PT_BUF_INIT, again = PT_BUF_INIT;
	uint8_t *copy;
	int rc;

	sample(_i, &b);
	for (size_t len = 0; len < b.len; len++) {
		copy = malloc(len ? len : 1);
		memcpy(copy, b.data, len);
		pt_buf_reset(&again);
		if (!samples[_i].open_ended || (len != 1 && len != 18))
			check_err(samples[_i].again(copy, len, &again), EIO);
		free(copy);
	}
	copy = malloc(b.len + 1);
	memcpy(copy, b.data, b.len);
	copy[b.len] = 0;
	check_err(samples[_i].again(copy, b.len + 1, &again), EIO);
	/* The version first. */
	copy[0] = 2;
	check_err(samples[_i].again(copy, b.len, &again), EIO);
	copy[0] = b.data[0];
	for (size_t at = 0; at < b.len; at++)
		for (int bit = 0; bit < 8; bit++) {
			copy[at] = b.data[at] ^ (uint8_t)(1 << bit);
			pt_buf_reset(&again);
			rc = samples[_i].again(copy, b.len, &again);
			if (rc ? rc != -EIO : again.len != b.len || memcmp(again.data, copy, b.len))
				ck_abort_msg("%s: byte %zu bit %d: %d", samples[_i].name, at, bit, rc);
			copy[at] = b.data[at];
		}
	free(copy);
	pt_buf_done(&b);
	pt_buf_done(&again);
}
END_TEST

START_TEST(memory_may_run_out_anywhere)
{
	struct pt_buf b = PT_BUF_INIT, again = PT_BUF_INIT;
	int rc = -ENOMEM;

	sample(_i, &b);
	for (int64_t n = 0; rc && n < 1000; n++) {
		pt_alloc_fail_after(n);
		rc = samples[_i].again(b.data, b.len, &again);
		pt_alloc_fail_after(-1);
		if (!rc && again.failed)
			rc = -ENOMEM;
		ck_assert(!rc || rc == -ENOMEM);
		pt_buf_done(&again);
	}
	ck_assert_int_eq(rc, 0);
	pt_buf_done(&b);
}
END_TEST

START_TEST(counts_are_bounded_by_the_bytes_at_hand)
{
	struct pt_buf b = PT_BUF_INIT, again = PT_BUF_INIT;

	/* A count of 2^32 - 1 xattrs, of objects: refused before anything is allocated for them. */
	node_sample(&b, PT_NODE_DIR);
	memset(b.data + b.len - (8 + 6 + 3 + 8 + 10) - 4, 0xff, 4);
	pt_alloc_fail_after(0);
	check_err(node_again(b.data, b.len, &again), EIO);
	pt_alloc_fail_after(-1);
	pt_buf_done(&b);
	pt_buf_done(&again);
}
END_TEST

START_TEST(covers_are_checked)
{
	struct pt_object o[3];
	struct pt_manifest m = { .dtype = PT_DTYPE_BF16, .shape = { .ndim = 2, .dim = { 10, 6 } }, .set_size = 3, .set_dim = 0, .object_count = 3, .objects = o };

#define RESET() \
	do { \
		object_sample(&o[0], 0, 3, 0, 0, 4, 6); \
		object_sample(&o[1], 1, 3, 0, 4, 2, 6); \
		object_sample(&o[2], 2, 3, 0, 6, 4, 6); \
	} while (0)
#define PROBLEM(change) \
	do { \
		RESET(); \
		ck_assert_ptr_null(pt_set_problem(&m)); \
		change; \
		ck_assert_ptr_nonnull(pt_set_problem(&m)); \
	} while (0)
	PROBLEM(o[1].box.off[0] = 5);
	PROBLEM((o[2].box.ext[0] = 3, o[2].bytes = 36));
	PROBLEM((o[2].box.ext[0] = 5, o[2].bytes = 60));
	PROBLEM(o[0].box.ext[1] = 5);
	PROBLEM(o[0].bytes++);
	PROBLEM(o[1].part.rank = 0);
	PROBLEM(o[1].part.size = 4);
	PROBLEM(o[1].part.dim = 1);
	PROBLEM(o[1].box.ndim = 1);
	PROBLEM(m.set_size = 2);
	m.set_size = 3;
	PROBLEM(m.set_dim = -1);
	m.set_dim = 0;
	PROBLEM(m.set_dim = 2);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("record");

	tcase_add_loop_test(c, records_come_back_as_they_were, 0, SAMPLES);
	tcase_add_loop_test(c, cut_lengthened_and_changed_bytes_are_refused_or_sound, 0, SAMPLES);
	tcase_add_loop_test(c, memory_may_run_out_anywhere, 0, SAMPLES);
	tcase_add_test(c, counts_are_bounded_by_the_bytes_at_hand);
	tcase_add_test(c, covers_are_checked);
	return run_suite("record", &c, 1);
}

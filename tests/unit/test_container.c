/* Claims of containers: a tensor file of several tensors is one blob, byte for byte, no payload is stored twice, each tensor is what the parser says it is, whatever it is a
 * view of, and is checked by the chunks that it lies in; and what is no tensor file can be read back as it came. Those of before are in test_container_old.c. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <zlib.h>

#include "manifest_help.h"
#include "pt_support.h"
#include "tensor/tensor.h"
#include "tree/bundle.h"
#include "tree/container.h"
#include "tree/models.h"

#define REPLACED 40

static char dir[4096];
static struct pt_repo *repo;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, &(struct pt_repo_options){ .verify = PT_VERIFY_TOUCH, .orphan_grace_ns = 1 });
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static void file_node(const char *name, struct pt_node *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0600 };

	check_ok(pt_node_create(repo, PT_NODE_ROOT, name, &attrs, ret_node));
}

static int feed_all(struct pt_container_writer *w, const uint8_t *data, size_t len, size_t step)
{
	size_t at, n;
	int rc = 0;

	for (at = 0; at < len && !rc; at += n) {
		uint8_t *copy;

		n = len - at < step ? len - at : step;
		copy = malloc(n);       /* exactly sized: sanitizers see any overrun */
		memcpy(copy, data + at, n);
		rc = pt_container_writer_feed(w, copy, n);
		free(copy);
	}
	return rc;
}

static void store(const char *name, const uint8_t *data, size_t len, size_t step, struct pt_node *ret_node)
{
	struct pt_container_writer *w;

	file_node(name, ret_node);
	check_ok(pt_container_writer_create(repo, "", &w));
	check_ok(feed_all(w, data, len, step));
	check_ok(pt_container_writer_seal(w));
	check_ok(pt_container_writer_publish(w, ret_node));
	pt_container_writer_free(w);
	pt_node_done(ret_node);
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, name, ret_node));
	ck_assert_int_eq(ret_node->kind, PT_NODE_CONTAINER);
	ck_assert_uint_eq(ret_node->size, len);
}

static void check_file(struct pt_container *c, const uint8_t *data, size_t len, size_t step)
{
	uint8_t *buf = malloc(step);
	size_t at;
	int64_t n;

	for (at = 0; at < len; at += (size_t)n) {
		n = pt_container_read(c, buf, step, at);
		ck_assert_msg(n > 0, "%s", pt_fail_sentence());
		ck_assert_mem_eq(buf, data + at, (size_t)n);
	}
	ck_assert_int_eq(pt_container_read(c, buf, step, len), 0);
	free(buf);
}

/* Every tensor of the container against what the parser keeps of the file. */
static void check_tensors(struct pt_container *c, const uint8_t *data, size_t len)
{
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_parse_sink sink;
	struct pt_parser *p;
	struct keep k;

	sink = keep_sink(&k);
	check_ok(pt_parser_create(PT_FORMAT_COUNT, &sink, NULL, &p));
	check_ok(pt_parser_feed(p, data, len));
	ck_assert_uint_eq(c->tensor_count, k.tensor_count);
	for (uint32_t i = 0; i < k.tensor_count; i++) {
		struct pt_parse_tensor t;
		struct pt_manifest *m;
		struct pt_view *v;
		uint64_t elems, unit, bytes, cut;
		uint8_t *want, *have;

		pt_container_tensor(c, i, &t);
		ck_assert_str_eq(t.name, k.name[i]);
		ck_assert_int_eq(t.dtype, k.t[i].dtype);
		check_ok(pt_container_manifest(c, i, &m, &t));
		check_ok(pt_view_of_manifest(repo, m, t.contiguous ? NULL : &t, &req, &v));
		pt_manifest_unref(m);
		bytes = pt_view_info(v)->bytes;
		unit = pt_dtype_info(t.dtype)->bits / 8;
		ck_assert(pt_shape_elems(&t.shape, &elems));
		want = malloc(bytes + 1);
		have = malloc(bytes + 1);
		pt_gather_strided(k.data[k.t[i].storage], &k.t[i], 0, unit ? elems : elems / 2, want);
		check_ok(pt_view_pin(v));
		check_ok(pt_view_read(v, have, bytes, 0));
		ck_assert_mem_eq(have, want, bytes);
		cut = bytes / 3;        /* not at an element's start */
		check_ok(pt_view_read(v, have, bytes - cut, cut));
		ck_assert_mem_eq(have, want + cut, bytes - cut);
		pt_view_unpin(v);
		pt_view_unref(v);
		free(want);
		free(have);
	}
	pt_parser_free(p);
	keep_done(&k);
}

static const char *const files[] = { "checkpoint.pt", "crc_off.pt", "dtypes_v2.pt", "dtypes_v3.pt", "expand.pt", "extra.pt", "f32.pt", "lists.pt", "many_113.pt",
				     "many_26.pt", "module.pt", "names.pt", "parameter_bare.pt", "shapes.pt", "slice.pt", "tied.pt", "views.pt", "wide.pt",
				     "zipfile_stream.pt" };

START_TEST(a_torch_file_reads_back_byte_for_byte_and_each_tensor_is_itself)
{
	static const size_t steps[] = { 1, 7, 4096, 1u << 20 };
	struct pt_container *c;
	struct pt_node node;
	size_t len;
	uint8_t *data = data_load(files[_i], &len);

	for (size_t s = len > 20000 ? 1 : 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		store("f.pt", data, len, steps[s], &node);
		check_ok(pt_container_load(repo, &node, &c));
		check_ok(pt_node_pin(repo, &node));
		check_file(c, data, len, 1000);
		check_tensors(c, data, len);
		pt_node_unpin(repo, &node);
		pt_container_unref(c);
		pt_node_done(&node);
		check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "f.pt"));
	}
	free(data);
}
END_TEST

static size_t safetensors(uint8_t *out, uint32_t tensors, uint32_t bytes_each)
{
	char *text = malloc(200 * (size_t)tensors + 100);
	size_t n = (size_t)sprintf(text, "{\"__metadata__\":{\"format\":\"pt\"}");

	for (uint32_t i = 0; i < tensors; i++)
		n += (size_t)sprintf(text + n, ",\"layer.%u.w\":{\"dtype\":\"F32\",\"shape\":[%u,2],\"data_offsets\":[%u,%u]}", i, bytes_each / 8, i * bytes_each,
				     (i + 1) * bytes_each);
	text[n++] = '}';
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(n >> (8 * i));
	memcpy(out + 8, text, n);
	help_fill(out + 8 + n, 5, 0, (uint64_t)tensors * bytes_each);
	free(text);
	return 8 + n + (size_t)tensors * bytes_each;
}

static int count_record(void *ctx, const void *key, size_t key_len, const void *value, size_t value_len, uint64_t version)
{
	(void)key, (void)key_len, (void)value, (void)value_len, (void)version;
	++*(unsigned *)ctx;
	return 0;
}

/* Records of a kind, which is the first byte of their keys. */
static unsigned records(char kind)
{
	unsigned count = 0;

	check_ok(pt_meta_scan_prefix(&pt_repo_store(repo)->meta, &kind, 1, 0, count_record, &count));
	return count;
}

START_TEST(each_payload_is_stored_once_and_goes_with_the_last_name)
{
	uint8_t *data = malloc(1u << 20);
	size_t len = safetensors(data, 100, 800);
	struct pt_gc_stats stats;
	struct pt_container *c;
	struct pt_node node;

	store("m.safetensors", data, len, 10000, &node);
	ck_assert_uint_eq(help_blobs(repo), 2);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), 2);
	ck_assert_uint_eq(records('o'), 2);
	ck_assert_uint_eq(records('h'), 1);
	ck_assert_uint_eq(records('r'), 1);
	ck_assert_uint_eq(records('x'), 0);
	check_ok(pt_container_load(repo, &node, &c));
	check_ok(pt_node_pin(repo, &node));
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "m.safetensors"));
	check_ok(pt_gc_run(repo, &stats));
	check_file(c, data, len, 65536);        /* still pinned */
	pt_node_unpin(repo, &node);
	pt_container_unref(c);
	pt_node_done(&node);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), 0);
	ck_assert_uint_eq(stats.objects_removed, 2);
	ck_assert_uint_eq(records('o') + records('h') + records('r') + records('x'), 0);
	free(data);
}
END_TEST

START_TEST(what_was_not_published_is_garbage)
{
	uint8_t *data = malloc(1u << 20);
	size_t len = safetensors(data, 70, 800);
	struct pt_container_writer *w;
	struct pt_gc_stats stats;

	check_ok(pt_container_writer_create(repo, "", &w));
	check_ok(feed_all(w, data, len, 10000));
	check_ok(pt_container_writer_seal(w));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), 2);         /* pinned */
	pt_container_writer_free(w);
	ck_assert_uint_eq(help_blobs(repo), 0);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed + stats.orphans_removed + stats.staged_removed + stats.kept_pinned, 0);
	free(data);
}
END_TEST

/* The only object of the container. */
static const struct pt_container_object *only_object(const struct pt_container *c)
{
	ck_assert(c->verbatim);
	ck_assert_uint_eq(c->object_count, 1);
	ck_assert_int_eq(c->objects[0].blob.kind, PT_BLOB_PLAIN);
	ck_assert_uint_eq(c->objects[0].payload_off, 0);
	ck_assert_uint_eq(c->objects[0].bytes, c->size);
	return &c->objects[0];
}

static int blob_open(const struct pt_blob_ref *ref, int flags)
{
	char hex[PT_ID_HEX_LEN + 1], path[4200];
	int fd;

	pt_id_hex(&ref->id, hex);
	snprintf(path, sizeof(path), "%s/objects/%.2s/%s.blob", dir, hex, hex);
	chmod(path, 0600);
	fd = open(path, flags);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

START_TEST(a_file_of_several_tensors_is_one_blob_as_it_is)
{
	static const char *const several[] = { "checkpoint.pt", "views.pt", "tied.pt", "dtypes_v3.pt", "slice.pt" };
	const struct pt_container_object *o;
	struct pt_container *c;
	struct pt_hash128 hash;
	struct pt_node node;
	uint8_t *data, *back;
	size_t len;
	int fd;

	data = data_load(several[_i], &len);
	back = malloc(len + 1);
	store("f.pt", data, len, 5000, &node);
	ck_assert_uint_eq(help_blobs(repo), 2);
	check_ok(pt_container_load(repo, &node, &c));
	o = only_object(c);
	hash = pt_hash128(data, len);
	ck_assert_mem_eq(o->hash.b, hash.b, sizeof(hash.b));
	ck_assert_uint_eq(o->crc32, crc32(0, data, (uInt)len));
	fd = blob_open(&o->blob, O_RDONLY);
	ck_assert_int_eq(pt_io_pread(fd, back, len + 1, 0), (int64_t)len);
	ck_assert_mem_eq(back, data, len);
	close(fd);
	ck_assert_uint_lt(c->literal_bytes, len);
	pt_container_unref(c);
	pt_node_done(&node);
	free(back);
	free(data);
}
END_TEST

START_TEST(a_file_of_one_whole_tensor_keeps_it_in_an_object)
{
	uint8_t *data = malloc(1u << 16);
	size_t len = safetensors(data, 1, 800);
	struct pt_parse_tensor t;
	struct pt_object object;
	struct pt_container *c;
	struct pt_node node;

	store("one.safetensors", data, len, 100, &node);
	check_ok(pt_container_load(repo, &node, &c));
	ck_assert(!c->verbatim);
	ck_assert(pt_container_single(c, &t, &object));
	ck_assert_int_eq(object.blob.kind, PT_BLOB_TENSOR);
	ck_assert_uint_eq(object.payload_off % 4096, 0);
	ck_assert_uint_eq(c->tensors[0].crc32, object.crc32);
	pt_container_unref(c);
	pt_node_done(&node);
	free(data);
}
END_TEST

#define BIG_TENSORS 40
#define BIG_BYTES (200u << 10)          /* so that chunks' bounds are inside of tensors */

struct big {
	uint8_t *data;
	size_t len, payload;            /* where the first tensor begins */
	struct pt_node node;
	struct pt_container *c;
};

static void big_store(struct big *b)
{
	b->data = malloc((BIG_TENSORS + 1) * BIG_BYTES);
	b->len = safetensors(b->data, BIG_TENSORS, BIG_BYTES);
	b->payload = b->len - BIG_TENSORS * BIG_BYTES;
	ck_assert_uint_ne(b->payload % 4096, 0);
	store("big.safetensors", b->data, b->len, 300000, &b->node);
	check_ok(pt_container_load(repo, &b->node, &b->c));
}

static void big_done(struct big *b)
{
	pt_container_unref(b->c);
	pt_node_done(&b->node);
	free(b->data);
}

static int big_read(struct big *b, uint32_t i, uint8_t *buf, uint64_t *ret_moved)
{
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_repo_counters before, after;
	struct pt_parse_tensor t;
	struct pt_manifest *m;
	struct pt_view *v;
	int rc;

	check_ok(pt_container_manifest(b->c, i, &m, &t));
	ck_assert(t.contiguous);
	ck_assert_uint_eq(m->objects[0].bytes, BIG_BYTES);
	ck_assert_uint_eq(m->objects[0].crc32, crc32(0, b->data + b->payload + (size_t)i * BIG_BYTES, BIG_BYTES));
	check_ok(pt_view_of_manifest(repo, m, NULL, &req, &v));
	pt_manifest_unref(m);
	check_ok(pt_view_pin(v));
	pt_repo_counters(repo, &before);
	rc = pt_view_read(v, buf, BIG_BYTES, 0);
	pt_repo_counters(repo, &after);
	*ret_moved = after.read_bytes_moved - before.read_bytes_moved;
	pt_view_unpin(v);
	pt_view_unref(v);
	return rc;
}

START_TEST(a_tensor_of_a_file_reads_the_chunks_that_it_lies_in_and_no_more)
{
	uint8_t *buf = malloc(BIG_BYTES);
	uint64_t first, last, moved;
	struct big b;

	big_store(&b);
	for (uint32_t i = 0; i < BIG_TENSORS; i++) {
		first = (b.payload + (size_t)i * BIG_BYTES) / PT_HASH_CHUNK;
		last = (b.payload + (size_t)(i + 1) * BIG_BYTES - 1) / PT_HASH_CHUNK;
		check_ok(big_read(&b, i, buf, &moved));
		ck_assert_mem_eq(buf, b.data + b.payload + (size_t)i * BIG_BYTES, BIG_BYTES);
		ck_assert_uint_le(moved, (last - first + 1) * PT_HASH_CHUNK);
	}
	big_done(&b);
	free(buf);
}
END_TEST

START_TEST(damage_in_a_file_is_found_in_the_tensors_that_share_the_chunk_and_in_no_other)
{
	uint8_t *buf = malloc(BIG_BYTES), byte;
	size_t at, first, last;
	uint64_t moved;
	struct big b;
	int fd, bad = 0;

	big_store(&b);
	at = b.payload + 17 * BIG_BYTES + 5;
	fd = blob_open(&only_object(b.c)->blob, O_RDWR);
	byte = (uint8_t)(b.data[at] ^ 1);
	ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
	for (uint32_t i = 0; i < BIG_TENSORS; i++) {
		first = (b.payload + (size_t)i * BIG_BYTES) / PT_HASH_CHUNK;
		last = (b.payload + (size_t)(i + 1) * BIG_BYTES - 1) / PT_HASH_CHUNK;
		if (at / PT_HASH_CHUNK < first || at / PT_HASH_CHUNK > last) {
			check_ok(big_read(&b, i, buf, &moved));
			ck_assert_mem_eq(buf, b.data + b.payload + (size_t)i * BIG_BYTES, BIG_BYTES);
			continue;
		}
		check_err(big_read(&b, i, buf, &moved), EIO);
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "big.safetensors"));
		bad++;
	}
	ck_assert_int_gt(bad, 1);
	check_err(pt_container_verify(b.c, 0, NULL, NULL), EIO);
	big_done(&b);
	free(buf);
}
END_TEST

/* A strided tensor of a file with others: only what it reaches is verified and read. */
START_TEST(a_strided_tensor_of_a_file_takes_no_more_than_it_reaches)
{
	struct pt_container_image im = { .format = PT_FORMAT_BIN, .size = 3u << 20, .verbatim = true };
	struct pt_container_segment all = { .end = im.size };
	struct pt_container_tensor t = { .dtype = PT_DTYPE_U8, .ndim = 2, .off = (2u << 20) - 7 };
	const uint64_t numbers[] = { 3, 5, 1, 3 };      /* columns of what is stored as 5 rows of 3 */
	struct pt_repo_counters before, after;
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_part part = { .mode = 0 };
	struct pt_container_object o;
	struct pt_object_writer *w;
	struct pt_parse_tensor lies;
	struct pt_container *c;
	struct pt_node node;
	struct pt_manifest *m;
	struct pt_view *v;
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_container_sealed sealed = { .size = im.size, .parts = &part, .part_count = 1 };
	uint8_t *data = malloc(im.size), have[15];

	help_fill(data, 3, 0, im.size);
	check_ok(pt_file_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, data, im.size));
	check_ok(pt_object_writer_seal(w, &part));
	o = (struct pt_container_object){ part.object.blob, 0, im.size, part.object.hash, part.object.crc32 };
	pt_buf_append(&im.objects, &o, sizeof(o));
	pt_buf_append(&im.segments, &all, sizeof(all));
	pt_buf_append(&im.tensors, &t, sizeof(t));
	pt_buf_append(&im.names, "t", 2);
	pt_buf_append(&im.numbers, numbers, sizeof(numbers));
	check_ok(pt_container_encode(&im, &bytes));
	pt_container_image_done(&im);
	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, bytes.data, bytes.len));
	check_ok(pt_plain_writer_seal(w, &sealed.blob, &sealed.blob_bytes));
	file_node("f", &node);
	check_ok(pt_container_publish(repo, &sealed, &node));
	check_ok(pt_container_load(repo, &node, &c));
	check_ok(pt_container_manifest(c, 0, &m, &lies));
	ck_assert(!lies.contiguous);
	ck_assert_uint_eq(m->objects[0].bytes, 15);
	check_ok(pt_view_of_manifest(repo, m, &lies, &req, &v));
	pt_manifest_unref(m);
	pt_repo_counters(repo, &before);
	check_ok(pt_view_pin(v));
	check_ok(pt_view_read(v, have, 15, 0));
	pt_repo_counters(repo, &after);
	for (int i = 0; i < 15; i++)
		ck_assert_uint_eq(have[i], data[t.off + (size_t)(i % 5) * 3 + (size_t)(i / 5)]);
	ck_assert_uint_le(after.read_bytes_moved - before.read_bytes_moved, 2u << 20);
	pt_view_unpin(v);
	pt_view_unref(v);
	pt_container_unref(c);
	pt_node_done(&node);
	pt_buf_done(&bytes);
	free(data);
}
END_TEST

struct copy {
	uint8_t *data;
	size_t len;
};

static int copy_out(void *ctx, const void *data, uint64_t len)
{
	struct copy *c = ctx;

	memcpy(c->data + c->len, data, len);
	c->len += len;
	return 0;
}

START_TEST(a_file_that_turns_out_to_be_none_is_read_back_as_it_came)
{
	uint8_t *data = malloc(1u << 20);
	size_t len = safetensors(data, 5, 8000), cut[] = { 5, 200, 8000, 30000 };
	struct copy c = { malloc(1u << 20), 0 };
	struct pt_container_writer *w;

	/* trailing bytes */
	memcpy(data + len, "more", 4);
	check_ok(pt_container_writer_create(repo, "", &w));
	check_err(feed_all(w, data, len + 4, 10000), EINVAL);
	ck_assert(!pt_container_writer_hopeful(w));
	check_ok(pt_container_writer_replay(w, copy_out, &c));
	ck_assert_uint_eq(c.len, len + 4);
	ck_assert_mem_eq(c.data, data, c.len);
	pt_container_writer_free(w);
	/* an early end */
	for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
		c.len = 0;
		check_ok(pt_container_writer_create(repo, "", &w));
		check_ok(feed_all(w, data, cut[i], 777));
		check_err(pt_container_writer_seal(w), EINVAL);
		check_ok(pt_container_writer_replay(w, copy_out, &c));
		ck_assert_uint_eq(c.len, cut[i]);
		ck_assert_mem_eq(c.data, data, c.len);
		pt_container_writer_free(w);
	}
	/* no tensors at all */
	c.len = 0;
	check_ok(pt_container_writer_create(repo, "", &w));
	check_ok(pt_container_writer_feed(w, "hello, this is no tensor file", 29));
	check_err(pt_container_writer_seal(w), EINVAL);
	check_ok(pt_container_writer_replay(w, copy_out, &c));
	ck_assert_uint_eq(c.len, 29);
	pt_container_writer_free(w);
	free(c.data);
	free(data);
}
END_TEST

START_TEST(damage_of_the_record_is_refused)
{
	uint8_t *data = malloc(1u << 20), *blob;
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_container *c;
	const char *names[] = { "a", "b.c" };
	struct pt_buf pickle = PT_BUF_INIT, rounds = PT_BUF_INIT;
	struct pt_container_round round = { .round = (uint64_t)1 << 32 | 9, .scope = "", .step = "7", .ranks = (const uint8_t *)"\5\1", .rank_bytes = 2, .name_count = 2 };

	pt_buf_append_str(&pickle, "shape");
	pt_bundle_round_append(&rounds, &round, names);
	check_ok(pt_bundle_encode(PT_FORMAT_PT, names, 2, &pickle, &rounds, &bytes));
	for (size_t i = 0; i < bytes.len; i++) {
		blob = malloc(bytes.len);
		memcpy(blob, bytes.data, bytes.len);
		blob[i] ^= 0x40;
		check_err(pt_container_decode(blob, bytes.len, &c), EIO);
		free(blob);
	}
	blob = malloc(bytes.len);
	memcpy(blob, bytes.data, bytes.len);
	check_ok(pt_container_decode(blob, bytes.len, &c));
	ck_assert(c->bundle);
	ck_assert_uint_eq(c->tensor_count, 2);
	ck_assert_str_eq(c->names + c->tensors[1].name, "b.c");
	ck_assert_uint_eq(c->literal_bytes, 5);
	ck_assert_mem_eq(c->literals, "shape", 5);
	ck_assert_uint_eq(c->round_count, 1);
	ck_assert_str_eq(c->rounds[0].step, "7");
	ck_assert_mem_eq(c->rounds[0].ranks, "\5\1", 2);
	ck_assert_mem_eq(c->rounds[0].names, "a\0b.c", 6);
	pt_container_unref(c);
	pt_buf_done(&pickle);
	pt_buf_done(&rounds);
	pt_buf_done(&bytes);
	free(data);
}
END_TEST

START_TEST(a_bundle_that_cannot_have_its_name_says_why)
{
	struct pt_node attrs = { .kind = PT_NODE_DIR, .mode = 0755 }, n;
	struct pt_bundle b = { .file_name = "m.pt" };
	struct pt_models *models;

	check_ok(pt_node_create(repo, PT_NODE_ROOT, "m.pt", &attrs, &n));
	pt_node_done(&n);
	check_ok(pt_models_create(repo, &models));
	check_err(pt_bundle_look(&b, models, repo, PT_NODE_ROOT), EEXIST);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "in the way"));
	pt_bundle_done(&b, repo, -EEXIST);
	pt_models_free(models);
}
END_TEST

/* A second opener of the store: each of the hidden files takes the place of the model, as a program replaces a file. */
static void *replace_all(void *ctx)
{
	struct pt_repo *other = help_open(dir, NULL, NULL);
	char name[16];
	int i;

	for (i = 0; i < REPLACED; i++) {
		snprintf(name, sizeof(name), ".m.%02d", i);
		check_ok(pt_node_rename(other, PT_NODE_ROOT, name, PT_NODE_ROOT, "m", false, false));
		usleep(3000);
	}
	pt_repo_close(other);
	__atomic_store_n((bool *)ctx, true, __ATOMIC_RELEASE);
	return NULL;
}

START_TEST(a_model_that_is_replaced_meanwhile_is_never_missing_from_its_directory)
{
	struct pt_models *models;
	struct pt_model_dir *d;
	struct pt_repo *slow;
	struct pt_node n;
	pthread_t thread;
	bool done = false;
	uint8_t *data;
	size_t len;
	char name[16];
	int i;

	data = malloc(4096);
	len = safetensors(data, 2, 64);
	for (i = -1; i < REPLACED; i++) {
		snprintf(name, sizeof(name), i < 0 ? "m" : ".m.%02d", i);
		store(name, data, len, len, &n);
		pt_node_done(&n);
	}
	slow = help_open(dir, "meta.get:delay_ms=1", NULL);
	check_ok(pt_models_create(slow, &models));
	ck_assert_int_eq(pthread_create(&thread, NULL, replace_all, &done), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		check_ok(pt_models_dir(models, PT_NODE_ROOT, &d));
		ck_assert_uint_gt(d->alias_count, 0);
		for (uint32_t a = 0; a < d->alias_count; a++)
			ck_assert_msg(!d->aliases[a].withheld, "%s: %s", d->aliases[a].name, d->aliases[a].withheld);
		pt_model_dir_unref(d);
	}
	pthread_join(thread, NULL);
	pt_models_free(models);
	pt_repo_close(slow);
	free(data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("container");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_torch_file_reads_back_byte_for_byte_and_each_tensor_is_itself, 0, sizeof(files) / sizeof(files[0]));
	tcase_add_test(t, each_payload_is_stored_once_and_goes_with_the_last_name);
	tcase_add_test(t, what_was_not_published_is_garbage);
	tcase_add_loop_test(t, a_file_of_several_tensors_is_one_blob_as_it_is, 0, 5);
	tcase_add_test(t, a_file_of_one_whole_tensor_keeps_it_in_an_object);
	tcase_add_test(t, a_tensor_of_a_file_reads_the_chunks_that_it_lies_in_and_no_more);
	tcase_add_test(t, damage_in_a_file_is_found_in_the_tensors_that_share_the_chunk_and_in_no_other);
	tcase_add_test(t, a_strided_tensor_of_a_file_takes_no_more_than_it_reaches);
	tcase_add_test(t, a_file_that_turns_out_to_be_none_is_read_back_as_it_came);
	tcase_add_test(t, damage_of_the_record_is_refused);
	tcase_add_test(t, a_bundle_that_cannot_have_its_name_says_why);
	tcase_add_test(t, a_model_that_is_replaced_meanwhile_is_never_missing_from_its_directory);
	return run_suite("container", &t, 1);
}

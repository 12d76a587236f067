/* Objects: their bytes are safetensors, hashes and CRC are right, damage is found, strided reads are exact, huge sparse ones are quick. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

#include "manifest/checked.h"
#include "manifest/internal.h"
#include "manifest/key.h"
#include "manifest_help.h"

static char dir[256];
static struct pt_repo *repo;
static uint64_t node;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
	node = help_key(repo, "m/w");
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static void reopen(enum pt_verify verify)
{
	pt_repo_close(repo);
	repo = help_open(dir, NULL, &(struct pt_repo_options){ .verify = verify });
}

static struct pt_manifest *pinned(void)
{
	struct pt_manifest *m;

	check_ok(pt_manifest_get(repo, node, "", &m));
	check_ok(pt_manifest_pin(repo, m));
	return m;
}

static void unpinned(struct pt_manifest *m)
{
	pt_manifest_unpin(repo, m);
	pt_manifest_unref(m);
}

static int blob_open(const struct pt_manifest *m, int flags)
{
	char hex[PT_ID_HEX_LEN + 1], path[512];
	int fd;

	pt_id_hex(&m->objects[0].blob.id, hex);
	snprintf(path, sizeof(path), "%s/objects/%.2s/%s.safetensors", dir, hex, hex);
	chmod(path, 0600);
	fd = open(path, flags);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

START_TEST(object_is_a_safetensors_file_with_its_story)
{
	struct pt_shape shape = help_shape2(10, 7);
	struct pt_manifest *m;
	uint8_t header[8192];
	uint64_t len;
	int fd;

	help_store(repo, node, PT_WRITTEN_TP_SHARD, &shape, 0, 1, 0, "12", 3);
	m = pinned();
	fd = blob_open(m, O_RDONLY);
	ck_assert_int_eq(pt_io_pread(fd, header, sizeof(header), 0), 4096 + 70);
	close(fd);
	len = pt_get_le64(header);
	ck_assert_uint_eq(8 + len, m->objects[0].payload_off);
	ck_assert_uint_eq(m->objects[0].payload_off, 4096);
	header[8 + len] = '\0';
	ck_assert_ptr_nonnull(strstr((char *)header + 8, "\"tensor\""));
	ck_assert_ptr_nonnull(strstr((char *)header + 8, "\"ptio.key\":\"k\""));
	ck_assert_ptr_nonnull(strstr((char *)header + 8, "\"ptio.step\":\"12\""));
	ck_assert_ptr_nonnull(strstr((char *)header + 8, "\"ptio.axes\":\"tp=0of1,dim=0\""));
	ck_assert_ptr_nonnull(strstr((char *)header + 8, "\"ptio.extent\":\"[10,7]\""));
	ck_assert_ptr_null(strstr((char *)header + 8, "ptio.global_shape"));
	unpinned(m);
}
END_TEST

/* Appended in pieces, with runs of zeros of several sizes; compared with the same bytes in memory. */
START_TEST(hashes_and_crc_do_not_depend_on_how_bytes_came)
{
	static const int64_t piece[] = { 100, -100, 5000, -70000, 1 << 20, -(3 << 20), 3000000, -1, 1, -65536, 17 };
	struct pt_part part = { .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .mode = 0644 };
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_object_writer *w;
	struct pt_manifest *m;
	struct pt_hash128 hash;
	struct pt_box box;
	uint64_t bytes = 0, at = 0, revision;
	uint8_t *all, *back;

	for (unsigned i = 0; i < sizeof(piece) / sizeof(piece[0]); i++)
		bytes += (uint64_t)llabs(piece[i]);
	all = calloc(1, bytes);
	back = malloc(bytes);
	part.shape = (struct pt_shape){ .ndim = 1, .dim = { bytes } };
	pt_shape_box(&part.shape, &box);
	spec.local = part.shape;
	spec.global = &part.shape;
	spec.box = &box;
	check_ok(pt_object_writer_create(repo, &spec, &w));
	for (unsigned i = 0; i < sizeof(piece) / sizeof(piece[0]); i++) {
		uint64_t n = (uint64_t)llabs(piece[i]);

		if (piece[i] > 0)
			help_fill(all + at, 9, at, n);
		check_ok(pt_object_writer_append(w, piece[i] > 0 ? all + at : NULL, n));
		at += n;
	}
	check_err(pt_object_writer_append(w, all, 1), EINVAL);
	check_ok(pt_object_writer_seal(w, &part));
	hash = pt_hash128(all, bytes);
	ck_assert_mem_eq(part.object.hash.b, hash.b, sizeof(hash.b));
	ck_assert_uint_eq(part.object.crc32, crc32(0, all, (uInt)bytes));
	check_ok(help_commit(repo, node, &part, true, &revision));
	m = pinned();
	check_ok(pt_object_verify(repo, m, 0, NULL, NULL));
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .len = bytes, .buf = back }, 1));
	ck_assert_mem_eq(back, all, bytes);
	unpinned(m);
	free(all);
	free(back);
}
END_TEST

START_TEST(incomplete_object_is_refused)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_F32, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_part part = { .dtype = PT_DTYPE_F32 };
	struct pt_object_writer *w;

	spec.local = help_shape2(2, 2);
	check_ok(pt_object_writer_create(repo, &spec, &w));
	check_ok(pt_object_writer_append(w, "123456789012345", 15));
	check_err(pt_object_writer_seal(w, &part), EINVAL);
	ck_assert_uint_eq(help_blobs(repo), 0);
	check_ok(pt_object_writer_create(repo, &spec, &w));
	pt_object_writer_abort(w);
	pt_object_writer_abort(NULL);
	ck_assert_uint_eq(help_blobs(repo), 0);
}
END_TEST

START_TEST(empty_and_scalar_tensors)
{
	struct pt_shape empty = help_shape2(0, 5), scalar = { .ndim = 0 };
	struct pt_manifest *m;

	help_store(repo, node, PT_WRITTEN_FULL, &empty, 0, 1, -1, NULL, 1);
	m = pinned();
	ck_assert_uint_eq(m->objects[0].bytes, 0);
	check_ok(pt_object_verify(repo, m, 0, NULL, NULL));
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .len = 0 }, 1));
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .len = 1, .buf = &empty }, 1), EINVAL);
	unpinned(m);
	help_store(repo, node, PT_WRITTEN_FULL, &scalar, 0, 1, -1, NULL, 1);
	m = pinned();
	ck_assert_uint_eq(m->objects[0].bytes, 1);
	help_check_bytes(repo, m, 1);
	unpinned(m);
}
END_TEST

START_TEST(flipped_byte_on_disk_is_found_and_named)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	uint8_t *buf = malloc(3 << 20), byte;
	struct pt_repo_counters counters;
	struct pt_manifest *m;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	check_ok(pt_manifest_get(repo, node, "", &m));
	fd = blob_open(m, O_RDWR);
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, m->objects[0].payload_off + (1 << 20) + 77), 1);
	byte ^= 4;
	check_ok(pt_io_pwrite(fd, &byte, 1, m->objects[0].payload_off + (1 << 20) + 77));
	close(fd);
	pt_manifest_unref(m);
	for (int mode = PT_VERIFY_OFF; mode <= PT_VERIFY_TOUCH; mode++) {
		reopen(mode);
		m = pinned();
		/* A chunk beside it is fine. */
		check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .len = 1000, .buf = buf }, 1));
		if (mode == PT_VERIFY_TOUCH)
			/* Other bytes of the chunk: its first touch reads it whole. */
			check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = (2 << 20) - 10, .len = 10, .buf = buf }, 1), EIO);
		else
			check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = (2 << 20) - 10, .len = 10, .buf = buf }, 1));
		if (mode != PT_VERIFY_OFF) {
			check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 5, .len = (2 << 20), .buf = buf }, 1), EIO);
			ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "'m/w'"));
			ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "chunk 1"));
			pt_repo_counters(repo, &counters);
			ck_assert_uint_ge(counters.verify_failures, 1);
			/* Smaller reads, as a kernel makes them after one that failed, do not get what is known to be damaged; what is beside it is served. */
			check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = (1 << 20) + 70, .len = 10, .buf = buf }, 1), EIO);
			check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = (2 << 20) + 5, .len = 10, .buf = buf }, 1));
		} else {
			check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = 5, .len = (2 << 20), .buf = buf }, 1));
		}
		check_err(pt_object_verify(repo, m, 0, NULL, NULL), EIO);
		unpinned(m);
	}
	free(buf);
}
END_TEST

/* What a check finds is what the bytes are now, whatever was verified before, and whether anything is verified at all. */
/* The object is a window from here on to its end. */
static void window_set(struct pt_object *o, uint64_t lead)
{
	o->hashed = pt_object_hashed(o);
	o->payload_off = pt_object_hashed_off(o) + lead;
	o->bytes = o->hashed - lead;
	o->lead = lead;
}

START_TEST(a_check_looks_at_the_bytes_each_time)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	struct pt_repo_counters before, after;
	struct pt_manifest *m;
	uint8_t byte;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	for (int mode = PT_VERIFY_OFF; mode <= PT_VERIFY_TOUCH; mode++) {
		reopen(mode);
		m = pinned();
		check_ok(pt_object_check(repo, m, 0, 0, 3 << 20));
		pt_repo_counters(repo, &before);
		check_ok(pt_object_check(repo, m, 0, (1 << 20) - 1, 2));        /* two chunks */
		pt_repo_counters(repo, &after);
		ck_assert_uint_eq(after.chunks_verified - before.chunks_verified, 2);
		check_err(pt_object_check(repo, m, 0, 3 << 20, 1), EINVAL);
		check_err(pt_object_check(repo, m, 1, 0, 1), EINVAL);
		fd = blob_open(m, O_RDWR);
		ck_assert_int_eq(pt_io_pread(fd, &byte, 1, m->objects[0].payload_off + (1 << 20) + 77), 1);
		byte ^= 4;
		check_ok(pt_io_pwrite(fd, &byte, 1, m->objects[0].payload_off + (1 << 20) + 77));
		check_ok(pt_object_check(repo, m, 0, 0, 1 << 20));
		check_err(pt_object_check(repo, m, 0, 0, 3 << 20), EIO);
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "chunk 1"));
		/* Of a window, the chunks that it lies in. */
		window_set(&m->objects[0], (1 << 20) + 100);
		check_err(pt_object_check(repo, m, 0, 0, 1), EIO);
		window_set(&m->objects[0], 0);
		byte ^= 4;
		check_ok(pt_io_pwrite(fd, &byte, 1, m->objects[0].payload_off + (1 << 20) + 77));
		check_ok(pt_object_check(repo, m, 0, 0, 3 << 20));
		close(fd);
		unpinned(m);
	}
}
END_TEST

static uint64_t index_queries(void)
{
	struct pt_meta_counters c;

	pt_meta_counters(&pt_repo_store(repo)->meta, &c);
	return c.queries;
}

static void checksums_remove(const struct pt_manifest *m)
{
	struct pt_meta_op op = { .kind = PT_META_DELETE };
	struct pt_rkey key;
	uint64_t version;

	pt_rkey_hashes(&key, &m->objects[0].blob.id);
	op.key = (struct pt_meta_key){ key.b, key.len };
	check_ok(pt_meta_commit(&pt_repo_store(repo)->meta, &op, 1, &version));
}

START_TEST(a_small_tensor_is_pinned_and_verified_without_asking_the_index)
{
	struct pt_shape shape = help_shape2(1, 1 << 20);
	struct pt_manifest *m;
	uint64_t before;
	uint8_t byte;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	reopen(PT_VERIFY_TOUCH);
	check_ok(pt_manifest_get(repo, node, "", &m));
	before = index_queries();
	check_ok(pt_manifest_pin(repo, m));
	help_check_bytes(repo, m, 1);
	ck_assert_uint_eq(index_queries(), before);
	unpinned(m);
	/* Who checks the store wants them, though. */
	m = pinned();
	check_ok(pt_object_verify(repo, m, 0, NULL, NULL));
	unpinned(m);
	m = pinned();
	checksums_remove(m);
	help_check_bytes(repo, m, 1);
	check_err(pt_object_verify(repo, m, 0, NULL, NULL), EIO);
	fd = blob_open(m, O_RDWR);
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, m->objects[0].payload_off + 77), 1);
	byte ^= 4;
	check_ok(pt_io_pwrite(fd, &byte, 1, m->objects[0].payload_off + 77));
	close(fd);
	unpinned(m);
	m = pinned();
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 5, .len = 1, .buf = &byte }, 1), EIO);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "chunk 0"));
	unpinned(m);
}
END_TEST

START_TEST(missing_object_is_an_io_error)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_manifest *m;
	uint8_t buf[16];

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	m = pinned();
	check_ok(pt_data_remove(&pt_repo_store(repo)->data, &m->objects[0].blob));
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .len = 16, .buf = buf }, 1), EIO);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "'m/w'"));
	unpinned(m);
}
END_TEST

START_TEST(bit_flipped_on_the_way_is_read_again)
{
	struct pt_shape shape = help_shape2(2, 1 << 20);
	struct pt_manifest *m;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	pt_repo_close(repo);
	repo = help_open(dir, "data.read:corrupt:times=1", &(struct pt_repo_options){ .verify = PT_VERIFY_TOUCH });
	m = pinned();
	help_check_bytes(repo, m, 1);
	unpinned(m);
}
END_TEST

/* Every way through the reader gives the same bytes: random ranges, strided rows, scattered memory, in every mode, cold and warm. */
START_TEST(ranges_are_exact_in_every_mode)
{
	struct pt_shape shape = help_shape2(1024, 3001);
	uint64_t bytes = 1024 * 3001, row;
	struct pt_object_range *range = calloc(2048, sizeof(*range));
	struct pt_repo_counters before, after;
	uint8_t *buf = malloc(bytes * 2);
	unsigned rng = 12345, count;
	struct pt_manifest *m;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	for (int mode = PT_VERIFY_OFF; mode <= PT_VERIFY_TOUCH; mode++) {
		reopen(mode);
		m = pinned();
		for (int pass = 0; pass < 24; pass++) {
			uint64_t at = 0;

			count = 0;
			if (pass % 3 == 0) {
				/* Rows of a column block, packed: neighbours in memory, strided in the object. */
				row = pass % 2 ? 40 : 2000;
				for (unsigned i = 0; i < 1024; i++, at += row)
					range[count++] = (struct pt_object_range){ .off = i * 3001ull + 100, .len = row, .buf = buf + at };
			} else if (pass % 3 == 1) {
				for (unsigned i = 0; i < 40; i++) {
					uint64_t off, len;

					rng = rng * 1103515245u + 12345u;
					off = rng % bytes;
					rng = rng * 1103515245u + 12345u;
					len = rng % (i % 4 ? 3000 : 70000);
					if (len > bytes - off)
						len = bytes - off;
					range[count++] = (struct pt_object_range){ .off = off, .len = len, .buf = buf + at };
					at += len + i % 2;
				}
			} else {
				/* The whole, cut oddly, in order. */
				for (uint64_t off = 0, n; off < bytes; off += n, at += n) {
					n = bytes - off < 300007 ? bytes - off : 300007;
					range[count++] = (struct pt_object_range){ .off = off, .len = n, .buf = buf + off };
				}
			}
			memset(buf, 0xee, bytes * 2);
			pt_repo_counters(repo, &before);
			check_ok(pt_object_read(repo, m, range, count));
			pt_repo_counters(repo, &after);
			for (unsigned i = 0; i < count; i++)
				for (uint64_t j = 0; j < range[i].len; j += range[i].len > 64 ? 37 : 1)
					if (((uint8_t *)range[i].buf)[j] != help_byte(1, range[i].off + j))
						ck_abort_msg("mode %d pass %d range %u byte %" PRIu64, mode, pass, i, j);
			/* Never more than the chunks touched. */
			ck_assert_uint_le(after.read_bytes_moved - before.read_bytes_moved, 4u << 20);
			if (pass % 3 == 2 && mode != PT_VERIFY_TOUCH)
				ck_assert_uint_eq(after.read_bytes_moved - before.read_bytes_moved, bytes);
			if (pass % 6 == 3)
				ck_assert_uint_lt(after.ranges - before.ranges, 16);    /* short rows close together: spans */
		}
		unpinned(m);
	}
	free(buf);
	free(range);
}
END_TEST

/* Reads all of it in another process's place: how many chunks that one hashed. */
static uint64_t chunks_hashed(enum pt_verify verify)
{
	struct pt_repo *other = help_open(dir, NULL, &(struct pt_repo_options){ .verify = verify });
	uint8_t *buf = malloc(3 << 20);
	struct pt_repo_counters counters;
	struct pt_manifest *m;

	check_ok(pt_manifest_get(other, node, "", &m));
	check_ok(pt_manifest_pin(other, m));
	check_ok(pt_object_read(other, m, &(struct pt_object_range){ .len = m->objects[0].bytes, .buf = buf }, 1));
	for (uint64_t i = 0; i < m->objects[0].bytes; i++)
		if (buf[i] != help_byte(1, i))
			ck_abort_msg("byte %" PRIu64, i);
	free(buf);
	pt_manifest_unpin(other, m);
	pt_manifest_unref(m);
	pt_repo_counters(other, &counters);
	ck_assert_uint_eq(counters.verify_failures, 0);
	ck_assert_uint_eq(counters.objects_proved, counters.chunks_verified ? 0 : 1);
	pt_repo_close(other);
	return counters.chunks_verified;
}

static void blob_name(char ret_path[512])
{
	char hex[PT_ID_HEX_LEN + 1];
	struct pt_manifest *m;

	check_ok(pt_manifest_get(repo, node, "", &m));
	pt_id_hex(&m->objects[0].blob.id, hex);
	snprintf(ret_path, 512, "%s/objects/%.2s/%s.safetensors", dir, hex, hex);
	pt_manifest_unref(m);
}

/* Nobody has verified it yet. */
static void unproved(void)
{
	struct pt_manifest *m;

	check_ok(pt_manifest_get(repo, node, "", &m));
	pt_data_doubt(&repo->store->data, &m->objects[0].blob);
	pt_manifest_unref(m);
}

/* The seal waits for no clock, and yet a change at once after it shows. */
START_TEST(what_was_sealed_here_was_hashed_then_and_is_not_again)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	struct pt_manifest *m;
	char path[512];
	uint8_t byte;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	if (_i) {                       /* by root, who needs no chmod, which would show as well */
		blob_name(path);
		fd = open(path, O_RDWR);
		if (fd < 0)
			return;         /* only another user */
		ck_assert_int_eq(pread(fd, &byte, 1, 4096 + 9), 1);
		byte ^= 1;
		ck_assert_int_eq(pwrite(fd, &byte, 1, 4096 + 9), 1);
		close(fd);
		m = pinned();
		check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 5, .len = 1, .buf = &byte }, 1), EIO);
		unpinned(m);
		return;
	}
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_WHOLE), 3);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
}
END_TEST

START_TEST(what_one_process_has_verified_whole_no_other_verifies)
{
	struct pt_shape shape = help_shape2(3, (1 << 20) - 5);
	struct pt_manifest *m;
	uint8_t byte;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	unproved();
	/* Not while a chunk is missing. */
	m = pinned();
	for (uint64_t off = 0; off < 2 << 20; off += 1 << 20)
		check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = off, .len = 1, .buf = &byte }, 1));
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_WHOLE), 3);           /* which tells the others */
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	unproved();
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = 2 << 20, .len = 1, .buf = &byte }, 1));
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_WHOLE), 3);           /* trusts itself only */
	unpinned(m);
	unproved();
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 3);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	/* Verifying hashes what it is told that it need not, and tells as well. */
	m = pinned();
	unproved();
	check_ok(pt_object_verify(repo, m, 0, NULL, NULL));
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	unpinned(m);
}
END_TEST

START_TEST(what_was_changed_since_is_verified_again)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	struct timespec times[2];
	struct pt_repo *other;
	struct pt_manifest *m;
	char path[512], copy[520];
	uint8_t byte, buf;
	struct stat st;
	uint64_t stamp;
	void *lent;
	int fd, to, got;
	ino_t ino;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	blob_name(path);
	m = pinned();
	fd = blob_open(m, O_RDWR);
	unpinned(m);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 3);           /* blob_open changes its mode: nobody knows what else */
	check_ok(fstat(fd, &st));
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, 4096 + (1 << 20)), 1);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, 4096 + (1 << 20)));
	if (_i == 1) {                  /* as if nothing had been */
		times[0] = st.st_atim;
		times[1] = st.st_mtim;
		check_ok(futimens(fd, times));
	}
	other = help_open(dir, NULL, NULL);
	check_ok(pt_manifest_get(other, node, "", &m));
	check_ok(pt_manifest_pin(other, m));
	check_err(pt_object_read(other, m, &(struct pt_object_range){ .off = (1 << 20) + 1, .len = 1, .buf = &buf }, 1), EIO);
	check_err(pt_object_verify(other, m, 0, NULL, NULL), EIO);
	pt_manifest_unpin(other, m);
	pt_manifest_unref(m);
	pt_repo_close(other);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, 4096 + (1 << 20)));
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 3);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
	/* A copy in its place, with all its times. */
	snprintf(copy, sizeof(copy), "%s.copy", path);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0440);
	ck_assert_int_ge(to, 0);
	check_ok(fstat(fd, &st));
	ck_assert_int_eq(copy_file_range(fd, &(off_t){ 0 }, to, NULL, (size_t)st.st_size, 0), st.st_size);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	check_ok(futimens(to, times));
	m = pinned();                   /* who had the old one open notices as well */
	stamp = pt_data_stamp(&repo->store->data, &m->objects[0].blob);
	check_ok(rename(copy, path));
	ck_assert_uint_ne(pt_data_stamp(&repo->store->data, &m->objects[0].blob), stamp);
	check_ok(pt_data_fd_get(&repo->store->data, &m->objects[0].blob, &got, &lent));
	check_ok(fstat(to, &st));
	ino = st.st_ino;
	check_ok(fstat(got, &st));
	ck_assert_uint_eq(st.st_ino, ino);
	pt_data_fd_put(&repo->store->data, lent);
	unpinned(m);
	close(to);
	close(fd);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 3);
	ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), 0);
}
END_TEST

START_TEST(what_was_verified_of_a_file_is_not_of_one_in_its_place)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	char path[512], copy[520], away[520];
	struct pt_manifest *m;
	uint8_t byte, buf;
	struct stat st;
	int fd, to;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	unproved();
	blob_name(path);
	snprintf(copy, sizeof(copy), "%s.copy", path);
	snprintf(away, sizeof(away), "%s.away", path);
	m = pinned();
	fd = blob_open(m, O_RDWR);
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0600);
	check_ok(fstat(fd, &st));
	ck_assert_int_eq(copy_file_range(fd, &(off_t){ 0 }, to, NULL, (size_t)st.st_size, 0), st.st_size);
	/* The copy is damaged in its first chunk, the file itself in its second. */
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, 4096 + 7), 1);
	byte ^= 1;
	check_ok(pt_io_pwrite(to, &byte, 1, 4096 + 7));
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, 4096 + (1 << 20)), 1);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, 4096 + (1 << 20)));
	close(to);
	close(fd);
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = 7, .len = 1, .buf = &buf }, 1));
	check_ok(rename(path, away));
	check_ok(rename(copy, path));
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = 1 << 20, .len = 1, .buf = &buf }, 1));
	ck_assert_uint_eq(buf, byte ^ 1);
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 7, .len = 1, .buf = &buf }, 1), EIO);
	unpinned(m);
}
END_TEST

/* The kernel may give back other bytes than were written without anybody's having changed the file; who finds that tells the others. */
START_TEST(damage_that_verifying_finds_is_believed_over_what_was_told)
{
	struct pt_store_options so = { .read_only = _i == 1, .faults = "" };    /* he may change nothing else */
	struct pt_shape shape = help_shape2(3, 1 << 20);
	char uri[300];
	struct pt_store *store;
	struct pt_repo *other;
	struct pt_manifest *m;
	uint64_t stamp;
	uint8_t byte;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	m = pinned();
	fd = blob_open(m, O_RDWR);
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, 4096 + 100), 1);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, 4096 + 100));
	close(fd);
	stamp = pt_data_stamp(&repo->store->data, &m->objects[0].blob);
	pt_data_prove(&repo->store->data, &m->objects[0].blob, stamp);
	snprintf(uri, sizeof(uri), "dir:%s", dir);
	check_ok(pt_store_open(uri, &so, &store));
	check_ok(pt_repo_open(store, &(struct pt_repo_options){ .verify = PT_VERIFY_TOUCH }, &other));
	check_ok(pt_manifest_pin(other, m));
	check_ok(pt_object_read(other, m, &(struct pt_object_range){ .off = 5, .len = 1, .buf = &byte }, 1));
	check_err(pt_object_verify(other, m, 0, NULL, NULL), EIO);
	check_err(pt_object_read(other, m, &(struct pt_object_range){ .off = 5, .len = 1, .buf = &byte }, 1), EIO);
	ck_assert(!pt_data_proved(&repo->store->data, &m->objects[0].blob, stamp));
	pt_manifest_unpin(other, m);
	pt_repo_close(other);
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 5, .len = 1, .buf = &byte }, 1), EIO);
	unpinned(m);
}
END_TEST

START_TEST(stores_that_cannot_tell_are_read_all_the_same)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	struct pt_store_options so = { .read_only = true, .faults = "" };
	struct pt_repo_counters counters;
	struct pt_store *store;
	struct pt_repo *other;
	struct pt_manifest *m;
	char path[300];
	int i;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	snprintf(path, sizeof(path), "%s/verified", dir);
	help_dir_remove(path);          /* as of a store from before */
	for (i = 0; i < 2; i++) {
		check_ok(pt_store_open(dir, &so, &store));
		check_ok(pt_repo_open(store, NULL, &other));
		check_ok(pt_manifest_get(other, node, "", &m));
		check_ok(pt_manifest_pin(other, m));
		help_check_bytes(other, m, 1);
		pt_manifest_unpin(other, m);
		pt_manifest_unref(m);
		pt_repo_counters(other, &counters);
		ck_assert_uint_eq(counters.chunks_verified, i ? 0 : 3);
		pt_repo_close(other);
		ck_assert_int_eq(access(path, F_OK), i - 1);
		/* It takes what others have told. */
		ck_assert_uint_eq(chunks_hashed(PT_VERIFY_TOUCH), i ? 0 : 3);
	}
}
END_TEST

/* Half of each MiB, as a rank reads its part of the rows. */
static void read_halves(uint64_t half, uint64_t *ret_moved)
{
	struct pt_object_range range[8];
	struct pt_repo_counters before, after;
	uint8_t *buf = malloc(4 << 20);
	struct pt_manifest *m = pinned();

	for (unsigned i = 0; i < 8; i++)
		range[i] = (struct pt_object_range){ .off = i * ((uint64_t)512 << 10) + half * (256 << 10), .len = 256 << 10, .buf = buf + i * (512 << 10) };
	pt_repo_counters(repo, &before);
	check_ok(pt_object_read(repo, m, range, 8));
	pt_repo_counters(repo, &after);
	*ret_moved = after.read_bytes_moved - before.read_bytes_moved;
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(((uint8_t *)range[i].buf)[1000], help_byte(1, range[i].off + 1000));
	unpinned(m);
	free(buf);
}

START_TEST(what_one_rank_has_verified_the_next_reads_alone)
{
	struct pt_shape shape = help_shape2(4, 1 << 20);
	struct pt_manifest *m;
	uint64_t moved, at;
	uint8_t byte;
	int fd;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	unproved();
	read_halves(0, &moved);
	ck_assert_uint_eq(moved, 4 << 20);
	for (int i = 0; i < 3; i++) {
		read_halves(1, &moved);
		ck_assert_uint_eq(moved, 2 << 20);
	}
	/* Written to behind our back: nothing that was seen counts. */
	check_ok(pt_manifest_get(repo, node, "", &m));
	fd = blob_open(m, O_RDWR);
	at = m->objects[0].payload_off + 77;
	pt_manifest_unref(m);
	ck_assert_int_eq(pt_io_pread(fd, &byte, 1, at), 1);
	check_ok(pt_io_pwrite(fd, &byte, 1, at));
	read_halves(1, &moved);
	ck_assert_uint_eq(moved, 4 << 20);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, at));
	m = pinned();
	check_err(pt_object_read(repo, m, &(struct pt_object_range){ .off = 100, .len = 1, .buf = &byte }, 1), EIO);
	unpinned(m);
	/* What was found damaged is looked at again by the next, and is whole now. */
	check_ok(pt_io_pread(fd, &byte, 1, 4096 + 77) - 1);
	byte ^= 1;
	check_ok(pt_io_pwrite(fd, &byte, 1, 4096 + 77));
	close(fd);
	read_halves(0, &moved);
	ck_assert_uint_eq(moved, 4 << 20);
}
END_TEST

START_TEST(what_was_verified_is_remembered_within_bounds)
{
	struct pt_object object = { .bytes = PT_OBJECT_BYTES_MAX };     /* 2 bits for each of 2^22 MiB */
	struct pt_shape shape = help_shape2(1, 1 << 20);
	struct pt_checked_object *o;
	struct pt_manifest *m;
	uint64_t begun;
	uint8_t mine;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	unproved();
	m = pinned();
	object.blob = m->objects[0].blob;
	mine = object.blob.id.b[0];     /* which is held */
	for (int i = 0; i < 10; i++) {
		object.blob.id.b[0] = (uint8_t)(mine + 1 + i);
		check_ok(pt_checked_get(repo->checked, &object, &o));
		begun = pt_checked_begin(repo, o, &m->objects[0].blob);
		ck_assert(!pt_checked_test(o, 5));
		pt_checked_set(repo, o, &m->objects[0].blob, 5, begun);
		pt_checked_put(repo->checked, o);
	}
	for (int i = 9; i >= 0; i--) {
		object.blob.id.b[0] = (uint8_t)(mine + 1 + i);
		check_ok(pt_checked_get(repo->checked, &object, &o));
		pt_checked_begin(repo, o, &m->objects[0].blob);
		ck_assert_int_eq(pt_checked_test(o, 5), i >= 3);
		ck_assert(!pt_checked_test(o, 6));
		pt_checked_put(repo->checked, o);
	}
	/* Another record of the same id, with another size, is another object. */
	object.blob.id.b[0] = (uint8_t)(mine + 1 + 9);
	object.bytes = 2 << 20;
	check_ok(pt_checked_get(repo->checked, &object, &o));
	pt_checked_put(repo->checked, o);
	unpinned(m);
}
END_TEST

START_TEST(a_record_of_a_size_that_no_object_has_takes_no_memory)
{
	struct pt_object object = { .blob = { .kind = PT_BLOB_PLAIN }, .bytes = PT_OBJECT_BYTES_MAX + 1 };
	struct pt_checked_object *o;

	check_err(pt_checked_get(repo->checked, &object, &o), EIO);
	object.bytes = 1;
	object.hashed = UINT64_C(1) << 61;
	check_err(pt_checked_get(repo->checked, &object, &o), EIO);
}
END_TEST

#define THREADS 4

static void *reading_thread(void *ctx)
{
	struct pt_manifest *m = ctx;

	for (int pass = 0; pass < 3; pass++) {
		check_ok(pt_manifest_pin(repo, m));
		help_check_bytes(repo, m, 1);
		pt_manifest_unpin(repo, m);
	}
	return NULL;
}

START_TEST(threads_share_what_has_been_verified)
{
	struct pt_shape shape = help_shape2(3, 1 << 20);
	pthread_t thread[THREADS];
	struct pt_manifest *m;

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	check_ok(pt_manifest_get(repo, node, "", &m));
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, reading_thread, m), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pt_manifest_unref(m);
}
END_TEST

START_TEST(sparse_tensor_beyond_4_gib_is_quick_and_stays_sparse)
{
	uint64_t bytes = (5ull << 30) + 12345;
	struct pt_part part = { .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .mode = 0644, .shape = { .ndim = 1, .dim = { bytes } } };
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_object_writer *w;
	struct pt_manifest *m;
	struct pt_box box;
	uint64_t revision;
	struct stat st;
	uint8_t buf[16];
	int fd;

	pt_shape_box(&part.shape, &box);
	spec.local = part.shape;
	spec.box = &box;
	spec.global = &part.shape;
	check_ok(pt_object_writer_create(repo, &spec, &w));
	check_ok(pt_object_writer_append(w, "begin", 5));
	check_ok(pt_object_writer_append(w, NULL, bytes - 8));
	check_ok(pt_object_writer_append(w, "end", 3));
	check_ok(pt_object_writer_seal(w, &part));
	check_ok(help_commit(repo, node, &part, false, &revision));
	m = pinned();
	fd = blob_open(m, O_RDONLY);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, m->objects[0].payload_off + bytes);
	ck_assert_int_lt(st.st_blocks * 512, 8 << 20);
	close(fd);
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = bytes - 4, .len = 4, .buf = buf }, 1));
	ck_assert_mem_eq(buf, "\0end", 4);
	check_ok(pt_object_read(repo, m, &(struct pt_object_range){ .off = 4ull << 30, .len = 16, .buf = buf }, 1));
	ck_assert_mem_eq(buf, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	unpinned(m);
}
END_TEST

#define STREAM_BYTES ((uint64_t)9 * 1024 * 1024 + 4321)

/* A tensor of bytes in pieces of `piece`; the first error. */
static int stream_object(uint64_t seed, uint64_t bytes, uint64_t piece, struct pt_part *part)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	uint8_t *buf = malloc(piece);
	struct pt_object_writer *w;
	uint64_t at, n;
	int rc;

	spec.local = (struct pt_shape){ .ndim = 1, .dim = { bytes } };
	rc = pt_object_writer_create(repo, &spec, &w);
	for (at = 0; rc == 0 && at < bytes; at += n) {
		n = bytes - at < piece ? bytes - at : piece;
		help_fill(buf, seed, at, n);
		rc = pt_object_writer_append(w, buf, n);
		if (rc < 0)
			pt_object_writer_abort(w);
	}
	free(buf);
	return rc < 0 ? rc : pt_object_writer_seal(w, part);
}

struct streaming {
	uint64_t seed, piece;
	int rc;
	struct pt_part part;
};

static void *streaming_thread(void *arg)
{
	struct streaming *s = arg;

	s->rc = stream_object(s->seed, STREAM_BYTES, s->piece, &s->part);
	return NULL;
}

START_TEST(many_writers_at_once_store_what_each_was_given)
{
	static const uint64_t pieces[] = { 65536, 100001, 1 << 20, 5 << 20 };
	struct streaming s[12] = { { 0 } };
	uint8_t *want = malloc(STREAM_BYTES), *got = malloc(STREAM_BYTES);
	pthread_t thread[12];
	struct pt_hash128 hash;

	for (uint64_t i = 0; i < 12; i++) {
		s[i] = (struct streaming){ .seed = i, .piece = pieces[i % 4] };
		ck_assert_int_eq(pthread_create(&thread[i], NULL, streaming_thread, &s[i]), 0);
	}
	for (uint64_t i = 0; i < 12; i++) {
		const struct pt_object *o = &s[i].part.object;

		pthread_join(thread[i], NULL);
		check_ok(s[i].rc);
		help_fill(want, i, 0, STREAM_BYTES);
		check_ok(pt_data_read(&pt_repo_store(repo)->data, &(struct pt_data_range){ .blob = o->blob, .off = o->payload_off, .len = STREAM_BYTES,
			 .buf = got }, 1));
		ck_assert(!memcmp(want, got, STREAM_BYTES));
		hash = pt_hash128(want, STREAM_BYTES);
		ck_assert(!memcmp(&hash, &o->hash, sizeof(hash)));
		ck_assert_uint_eq(o->crc32, crc32(0, want, STREAM_BYTES));
		pt_object_discard(repo, &s[i].part);
	}
	free(want);
	free(got);
}
END_TEST

static void reopen_faulty(const char *faults)
{
	pt_repo_close(repo);
	repo = help_open(dir, faults, NULL);
}

START_TEST(a_window_that_cannot_be_written_fails_the_upload)
{
	static const char *const after[] = { "0", "1", "3", "8", "9" };
	struct pt_part part = { 0 };
	char faults[64];

	snprintf(faults, sizeof(faults), "data.write:error=ENOSPC:after=%s", after[_i]);
	reopen_faulty(faults);
	check_err(stream_object(1, STREAM_BYTES, 1 << 20, &part), ENOSPC);
	ck_assert_str_ne(pt_fail_sentence(), "");
	ck_assert_uint_eq(help_blobs(repo), 0);
}
END_TEST

START_TEST(an_upload_is_given_up_while_windows_go_out)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	uint8_t *buf = calloc(1, 1 << 20);
	struct pt_object_writer *w;

	reopen_faulty("data.write:delay_ms=20");
	spec.local = (struct pt_shape){ .ndim = 1, .dim = { 64 << 20 } };
	for (int windows = 0; windows < 6; windows++) {
		check_ok(pt_object_writer_create(repo, &spec, &w));
		for (int i = 0; i < windows; i++)
			check_ok(pt_object_writer_append(w, buf, 1 << 20));
		pt_object_writer_abort(w);
		ck_assert_uint_eq(help_blobs(repo), 0);
	}
	free(buf);
}
END_TEST

/* In a process that was forked while windows of its parent went out: an upload of the parent's fails, its end and that of the repo are not waited for. */
static int forked_writer(void *ctx)
{
	struct pt_object_writer *w = ctx;
	uint8_t *buf = calloc(1, 1 << 20);
	int rc = 0;

	alarm(20);
	for (int i = 0; i < 5 && rc == 0; i++)
		rc = pt_object_writer_append(w, buf, 1 << 20);
	if (rc != -EIO || !pt_fail_sentence()[0])
		return 1;
	pt_object_writer_abort(w);
	pt_repo_close(repo);
	free(buf);
	return 0;
}

START_TEST(a_forked_process_waits_for_no_thread_of_its_parent)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_object_writer *w;
	struct pt_part part = { 0 };
	uint8_t *buf = calloc(1, 1 << 20);

	if (_i)
		reopen_faulty("data.write:delay_ms=200");
	spec.local = (struct pt_shape){ .ndim = 1, .dim = { 16 << 20 } };
	check_ok(pt_object_writer_create(repo, &spec, &w));
	for (int i = 0; i < 4; i++)
		check_ok(pt_object_writer_append(w, buf, 1 << 20));
	if (!_i)
		usleep(100000);         /* they are idle, most likely */
	ck_assert_int_eq(help_join(help_spawn(forked_writer, w)), 0);
	for (int i = 4; i < 16; i++)
		check_ok(pt_object_writer_append(w, buf, 1 << 20));
	check_ok(pt_object_writer_seal(w, &part));
	pt_object_discard(repo, &part);
	free(buf);
}
END_TEST

/* Every allocation of an upload and its commit fails in turn: an error each time, and nothing is left behind. */
START_TEST(allocation_failures_leave_nothing)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_object_writer *w;
	struct pt_published published;
	struct pt_box box;
	int rc = -ENOMEM;

	pt_shape_box(&shape, &box);
	spec.local = shape;
	spec.box = &box;
	for (int64_t n = 0; rc; n++) {
		struct pt_part part = { .dtype = PT_DTYPE_U8, .shape = shape, .written = PT_WRITTEN_FULL };

		ck_assert_int_lt(n, 1000);
		pt_alloc_fail_after(n);
		rc = pt_object_writer_create(repo, &spec, &w);
		if (!rc) {
			rc = pt_object_writer_append(w, "0123456789abcdef", 16);
			if (rc)
				pt_object_writer_abort(w);
			else
				rc = pt_object_writer_seal(w, &part);
		}
		if (!rc)
			rc = pt_commit_part(repo, node, &part, false, &published);
		pt_alloc_fail_after(-1);
		if (!rc)
			break;
		check_err(rc, ENOMEM);
		pt_object_discard(repo, &part);
		ck_assert_uint_eq(help_blobs(repo), 0);
	}
	ck_assert_uint_eq(published.revision, 1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("object");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, object_is_a_safetensors_file_with_its_story);
	tcase_add_test(c, hashes_and_crc_do_not_depend_on_how_bytes_came);
	tcase_add_test(c, incomplete_object_is_refused);
	tcase_add_test(c, empty_and_scalar_tensors);
	tcase_add_test(c, flipped_byte_on_disk_is_found_and_named);
	tcase_add_test(c, a_check_looks_at_the_bytes_each_time);
	tcase_add_test(c, missing_object_is_an_io_error);
	tcase_add_test(c, a_small_tensor_is_pinned_and_verified_without_asking_the_index);
	tcase_add_test(c, bit_flipped_on_the_way_is_read_again);
	tcase_add_test(c, ranges_are_exact_in_every_mode);
	tcase_add_test(c, what_one_rank_has_verified_the_next_reads_alone);
	tcase_add_loop_test(c, what_was_sealed_here_was_hashed_then_and_is_not_again, 0, 2);
	tcase_add_test(c, what_one_process_has_verified_whole_no_other_verifies);
	tcase_add_loop_test(c, what_was_changed_since_is_verified_again, 0, 2);
	tcase_add_test(c, what_was_verified_of_a_file_is_not_of_one_in_its_place);
	tcase_add_loop_test(c, damage_that_verifying_finds_is_believed_over_what_was_told, 0, 2);
	tcase_add_test(c, stores_that_cannot_tell_are_read_all_the_same);
	tcase_add_test(c, what_was_verified_is_remembered_within_bounds);
	tcase_add_test(c, a_record_of_a_size_that_no_object_has_takes_no_memory);
	tcase_add_test(c, threads_share_what_has_been_verified);
	tcase_add_test(c, sparse_tensor_beyond_4_gib_is_quick_and_stays_sparse);
	tcase_add_test(c, many_writers_at_once_store_what_each_was_given);
	tcase_add_loop_test(c, a_window_that_cannot_be_written_fails_the_upload, 0, 5);
	tcase_add_test(c, an_upload_is_given_up_while_windows_go_out);
	tcase_add_loop_test(c, a_forked_process_waits_for_no_thread_of_its_parent, 0, 2);
	tcase_add_test(c, allocation_failures_leave_nothing);
	return run_suite("object", &c, 1);
}

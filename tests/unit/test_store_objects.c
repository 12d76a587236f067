/* tests/unit/test_store_objects.c - the file data engine: many processes, crashes, descriptors, what is on the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/ledger.h"
#include "unit/rng.h"
#include "unit/store_support.h"

static const char *dir;
static struct pt_data data;

static void setup(void)
{
	dir = dir_make();
}

struct census {
	int sealed, staged, live;
	uint64_t sealed_bytes;          /* each must have as many; 0: any */
};

static int count_blob(void *ctx, const struct pt_blob_ref *ref, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	struct census *c = ctx;

	(void)ref, (void)mtime_ns;
	c->sealed += !staged;
	c->staged += staged;
	c->live += staged && live;
	MUST(staged || !c->sealed_bytes || bytes == c->sealed_bytes);
	return 0;
}

static struct census take_census(uint64_t sealed_bytes)
{
	struct census c = { .sealed_bytes = sealed_bytes };

	MUST_WORK(pt_data_list(&data, count_blob, &c));
	return c;
}

static int entries(const char *name)
{
	char *path = path_in(dir, name);
	DIR *d = opendir(path);
	int n = 0;

	MUST(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	free(path);
	return n;
}

static char *object_path(const struct pt_blob_ref *ref)
{
	char hex[PT_ID_HEX_LEN + 1];
	char *path = NULL;

	pt_id_hex(&ref->id, hex);
	MUST(asprintf(&path, "%s/objects/%.2s/%s.%s", dir, hex, hex, ref->kind == PT_BLOB_TENSOR ? "safetensors" : "blob") > 0);
	return path;
}

/* Of the one file there. */
static uint64_t ledger_bytes(void)
{
	char *path = path_in(dir, PT_LEDGER_DIR);
	DIR *d = opendir(path);
	uint64_t bytes = 0;
	struct stat st;

	MUST(d);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.') {
			MUST(fstatat(dirfd(d), e->d_name, &st, 0) == 0);
			bytes += (uint64_t)st.st_size;
		}
	closedir(d);
	free(path);
	return bytes;
}

static struct pt_blob_ref seal_one(struct pt_data *d, bool hashed)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	void *blob;

	MUST_WORK(pt_data_create(d, &ref, 0, &blob));
	MUST_WORK(pt_data_write(d, blob, "bytes", 5, 0));
	if (hashed)
		pt_data_hashed(d, blob);
	MUST_WORK(pt_data_seal(d, blob, 5));
	return ref;
}

START_TEST(what_was_hashed_as_it_came_is_told_and_a_sweep_forgets_what_is_gone)
{
	struct pt_blob_ref kept, other, removed, none = blob_new(PT_BLOB_TENSOR);
	uint64_t stamp, told, failed, n;
	struct pt_data second;

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_file_open(dir, &second));
	kept = seal_one(&data, true);
	other = seal_one(&data, false);
	removed = seal_one(&data, true);
	pt_data_proof_counts(&data, &told, &failed);
	ck_assert(told == 2 && failed == 0);
	stamp = pt_data_stamp(&second, &kept);
	ck_assert(stamp && pt_data_proved(&second, &kept, stamp) && !pt_data_proved(&second, &kept, stamp + 1));
	ck_assert(!pt_data_proved(&second, &other, pt_data_stamp(&second, &other)));
	ck_assert_uint_eq(pt_data_stamp(&second, &none), 0);
	second.read_only = true;
	pt_data_prove(&second, &other, pt_data_stamp(&second, &other));
	ck_assert(!pt_data_proved(&data, &other, pt_data_stamp(&data, &other)) && pt_data_proved(&data, &kept, stamp));
	/* What is opened to be read only tells of damage all the same. */
	pt_data_doubt(&second, &kept);
	ck_assert(!pt_data_proved(&data, &kept, stamp));
	pt_data_prove(&data, &kept, stamp);
	MUST_WORK(pt_data_remove(&data, &removed));
	for (n = 0; n < PT_LEDGER_SWEEP_MIN / PT_LEDGER_RECORD; n++) {
		none = blob_new(PT_BLOB_TENSOR);
		pt_data_prove(&data, &none, 1);
	}
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert(pt_data_proved(&second, &kept, stamp) && !pt_data_proved(&second, &none, 1));
	ck_assert_int_eq(entries(PT_LEDGER_DIR), 1);
	ck_assert_uint_eq(ledger_bytes(), PT_LEDGER_RECORD);
	pt_data_close(&second);
	pt_data_close(&data);
}
END_TEST

/* Stages two blobs, pins one id, says so, and waits to be killed. */
static void stage_and_wait(void *ctx, int fd)
{
	struct pt_data d;
	void *blob;

	CHILD_MUST(pt_data_file_open(dir, &d) == 0);
	for (int i = 0; i < 2; i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);

		CHILD_MUST(pt_data_create(&d, &ref, 0, &blob) == 0);
		CHILD_MUST(pt_data_write(&d, blob, "half", 4, 0) == 0);
	}
	CHILD_MUST(pt_data_pin(&d, ctx, 1) == 0);
	CHILD_MUST(write(fd, "x", 1) == 1);
	for (;;)
		pause();
}

START_TEST(what_dead_writers_staged_is_swept_and_the_living_keep_theirs)
{
	struct pt_blob_ref pins[2] = { blob_new(PT_BLOB_TENSOR), blob_new(PT_BLOB_PLAIN) };
	struct pt_blob_ref own = blob_new(PT_BLOB_TENSOR);
	bool pinned[2];
	pid_t pids[2];
	uint64_t n;
	void *blob;
	char b;

	for (int i = 0; i < 2; i++) {
		int fd;

		pids[i] = child_start(stage_and_wait, &pins[i], &fd);
		MUST(read(fd, &b, 1) == 1);
		close(fd);
	}
	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_create(&data, &own, 0, &blob));
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(take_census(0).live, 5);
	MUST_WORK(pt_data_pinned(&data, pins, 2, pinned));
	ck_assert(pinned[0] && pinned[1]);

	child_kill(pids[0]);
	ck_assert_int_eq(take_census(0).live, 3);
	ck_assert_int_eq(take_census(0).staged, 5);
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(take_census(0).staged, 3);
	MUST_WORK(pt_data_pinned(&data, pins, 2, pinned));
	ck_assert(!pinned[0] && pinned[1]);
	ck_assert_int_eq(entries("pins"), 1);

	child_kill(pids[1]);
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert_uint_eq(n, 2);
	MUST_WORK(pt_data_pinned(&data, pins, 2, pinned));
	ck_assert(!pinned[0] && !pinned[1]);
	ck_assert_int_eq(entries("pins"), 0);
	ck_assert_int_eq(entries("staging"), 1);
	MUST_WORK(pt_data_seal(&data, blob, 0));
	pt_data_close(&data);
	ck_assert_int_eq(entries("staging"), 0);
}
END_TEST

#define SEALED_BYTES 50000

static void seal_for_ever(void *ctx, int fd)
{
	static uint8_t bytes[SEALED_BYTES];
	struct pt_data d;

	(void)ctx;
	CHILD_MUST(pt_data_file_open(dir, &d) == 0);
	for (;;) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);

		pattern_fill(bytes, sizeof(bytes), ref.id.b[0]);
		CHILD_MUST(blob_put(&d, &ref, bytes, sizeof(bytes)) == 0);
		CHILD_MUST(write(fd, &ref, sizeof(ref)) == sizeof(ref));
	}
}

START_TEST(a_killed_sealer_leaves_whole_objects_only)
{
	static uint8_t want[SEALED_BYTES], got[SEALED_BYTES];
	struct rng r = { rng_seed(5) };
	struct pt_blob_ref refs[500];
	int told = 0;

	for (int round = 0; round < 8; round++) {
		int fd, wanted = told + (int)rng_between(&r, 1, 25);
		pid_t pid = child_start(seal_for_ever, NULL, &fd);
		uint64_t swept;

		while (told < wanted && read(fd, &refs[told], sizeof(refs[0])) == sizeof(refs[0]))
			told++;
		ck_assert_int_eq(told, wanted);
		usleep((useconds_t)rng_below(&r, 2000));
		child_kill(pid);
		while (told < 500 && read(fd, &refs[told], sizeof(refs[0])) == sizeof(refs[0]))
			told++;
		close(fd);
		MUST_WORK(pt_data_file_open(dir, &data));
		for (int i = 0; i < told; i++) {
			pattern_fill(want, sizeof(want), refs[i].id.b[0]);
			MUST_WORK(blob_get(&data, &refs[i], got, sizeof(got), 0));
			MUST(memcmp(want, got, sizeof(got)) == 0);
		}
		ck_assert_int_ge(take_census(SEALED_BYTES).sealed, told);
		MUST_WORK(pt_data_sweep(&data, &swept));
		ck_assert_uint_le(swept, 1);
		ck_assert_int_eq(take_census(SEALED_BYTES).staged, 0);
		pt_data_close(&data);
	}
}
END_TEST

START_TEST(a_seal_never_replaces_an_object)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_data other;
	void *first, *second;
	char b[5];

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_file_open(dir, &other));
	MUST_WORK(pt_data_create(&data, &ref, 0, &first));
	MUST_WORK(pt_data_create(&other, &ref, 0, &second));
	MUST_WORK(pt_data_write(&data, first, "first", 5, 0));
	MUST_WORK(pt_data_write(&other, second, "later", 5, 0));
	MUST_WORK(pt_data_seal(&data, first, 5));
	MUST_FAIL(EEXIST, pt_data_seal(&other, second, 5));
	MUST_WORK(blob_get(&other, &ref, b, 5, 0));
	ck_assert_mem_eq(b, "first", 5);
	ck_assert_int_eq(take_census(5).staged, 0);
	pt_data_close(&other);
	pt_data_close(&data);
}
END_TEST

START_TEST(an_upload_has_one_descriptor)
{
	void *blobs[100];
	int before = 0;

	MUST_WORK(pt_data_file_open(dir, &data));
	for (int i = 0; i < 100; i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);

		MUST_WORK(pt_data_create(&data, &ref, 0, &blobs[i]));
		if (!i)
			before = open_descriptors();         /* with that of the folder in staging/ */
	}
	ck_assert_int_eq(open_descriptors() - before, 99);
	for (int i = 0; i < 100; i++)
		if (i % 2)
			pt_data_abort(&data, blobs[i]);
		else
			MUST_WORK(pt_data_seal(&data, blobs[i], 0));
	ck_assert_int_eq(open_descriptors(), before - 1);
	pt_data_close(&data);
}
END_TEST

START_TEST(descriptors_stay_few)
{
	struct pt_blob_ref refs[400];
	char b[2];

	MUST_WORK(pt_data_file_open(dir, &data));
	for (int i = 0; i < 400; i++) {
		refs[i] = blob_new(PT_BLOB_PLAIN);
		b[0] = (char)i;
		b[1] = (char)(i >> 8);
		MUST_WORK(blob_put(&data, &refs[i], b, 2));
	}
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 400; i++) {
			MUST_WORK(blob_get(&data, &refs[i], b, 2, 0));
			MUST(b[0] == (char)i && b[1] == (char)(i >> 8));
		}
	ck_assert_int_le(open_descriptors(), 256 + 30);
	/* One that another process removes is not served for ever: it is gone for who opens it anew. */
	for (int i = 0; i < 400; i++)
		MUST_WORK(pt_data_remove(&data, &refs[i]));
	for (int i = 0; i < 400; i++)
		MUST_FAIL(ENOENT, blob_get(&data, &refs[i], b, 2, 0));
	pt_data_close(&data);
}
END_TEST

static int deleted_descriptors(void)
{
	char path[64], target[4096];
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	MUST(d);
	for (struct dirent *e; (e = readdir(d));) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%.20s", e->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		n += strstr(target, "/objects/") && strstr(target, "(deleted)");
	}
	closedir(d);
	return n;
}

START_TEST(space_of_what_others_remove_is_given_back)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	struct pt_data other;
	uint64_t n;
	char b[5];

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_file_open(dir, &other));
	MUST_WORK(blob_put(&data, &ref, "bytes", 5));
	MUST_WORK(blob_get(&data, &ref, b, 5, 0));
	MUST_WORK(pt_data_remove(&other, &ref));
	ck_assert_int_eq(deleted_descriptors(), 1);
	MUST_WORK(pt_data_sweep(&data, &n));
	ck_assert_int_eq(deleted_descriptors(), 0);
	MUST_FAIL(ENOENT, blob_get(&data, &ref, b, 5, 0));
	pt_data_close(&other);
	pt_data_close(&data);
}
END_TEST

START_TEST(objects_are_plain_files_that_nobody_writes_again)
{
	struct pt_blob_ref refs[2] = { blob_new(PT_BLOB_TENSOR), blob_new(PT_BLOB_PLAIN) };

	MUST_WORK(pt_data_file_open(dir, &data));
	for (int i = 0; i < 2; i++) {
		char *path;
		struct stat st;

		MUST_WORK(blob_put(&data, &refs[i], "bytes", 5));
		path = object_path(&refs[i]);
		MUST(stat(path, &st) == 0);
		ck_assert_int_eq(st.st_size, 5);
		ck_assert_int_eq(st.st_mode & 0227, 0);
		free(path);
	}
	pt_data_close(&data);
}
END_TEST

START_TEST(an_object_cut_short_is_refused)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	static uint8_t bytes[10000];
	char *path;

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(blob_put(&data, &ref, bytes, sizeof(bytes)));
	path = object_path(&ref);
	MUST_WORK(blob_get(&data, &ref, bytes, sizeof(bytes), 0));
	MUST(chmod(path, 0600) == 0 && truncate(path, 9000) == 0);
	/* Through the descriptor that is open, and through a new one. */
	for (int i = 0; i < 2; i++) {
		MUST_FAIL(EIO, blob_get(&data, &ref, bytes, sizeof(bytes), 0));
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "9000 bytes"));
		MUST_WORK(blob_get(&data, &ref, bytes, 9000, 0));
		pt_data_close(&data);
		MUST_WORK(pt_data_file_open(dir, &data));
	}
	pt_data_close(&data);
	free(path);
}
END_TEST

START_TEST(zeros_take_no_space)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	uint8_t *bytes = calloc(1, 8 << 20), *got = malloc(8 << 20);
	struct stat st;
	char *path;

	bytes[70000] = 1;
	bytes[(8 << 20) - 1] = 2;
	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(blob_put(&data, &ref, bytes, 8 << 20));
	MUST_WORK(blob_get(&data, &ref, got, 8 << 20, 0));
	ck_assert(memcmp(bytes, got, 8 << 20) == 0);
	path = object_path(&ref);
	MUST(stat(path, &st) == 0);
	ck_assert_int_le(st.st_blocks * 512, 1 << 20);
	pt_data_close(&data);
	free(path);
	free(bytes);
	free(got);
}
END_TEST

START_TEST(strange_files_are_left_alone)
{
	static const char *const names[] = { "objects/README", "objects/00", "staging/x", "pins/x", "pins/0123456789abcdef0123456789abcdeg" };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	bool pinned;
	uint64_t n;

	MUST_WORK(pt_data_file_open(dir, &data));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = path_in(dir, names[i]);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);

		MUST(fd >= 0);
		close(fd);
		free(path);
	}
	MUST_WORK(pt_data_sweep(&data, &n));
	MUST_WORK(pt_data_pinned(&data, &ref, 1, &pinned));
	ck_assert_int_eq(take_census(0).sealed, 0);
	ck_assert_int_eq(entries("pins"), 2);
	pt_data_close(&data);
}
END_TEST

/* Calls of write(2) and its like by this process; -1: the kernel does not count them. */
static long writes_so_far(void)
{
	FILE *f = fopen("/proc/self/io", "re");
	char line[128];
	long n = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "syscw: %ld", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

/* By another process, so to say: what it finds is in the file. */
static bool pinned_for_others(struct pt_data *others, const struct pt_blob_ref *ref)
{
	bool pinned;

	MUST_WORK(pt_data_pinned(others, ref, 1, &pinned));
	return pinned;
}

/* More than a page of pins, held and let go in any order, seen by others at each moment; on tmpfs without a system call. */
START_TEST(pins_show_to_others_as_soon_as_they_are_made)
{
	struct rng r = { rng_seed(31) };
	struct pt_blob_ref ref[600];
	bool held[600] = { false };
	struct pt_data others;
	struct statfs fs;
	long before;
	size_t at;

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_file_open(dir, &others));
	for (at = 0; at < 600; at++)
		ref[at] = blob_new(at % 2 ? PT_BLOB_PLAIN : PT_BLOB_TENSOR);
	for (int i = 0; i < 4000; i++) {
		at = rng_below(&r, 600);
		if (held[at])
			pt_data_unpin(&data, &ref[at], 1);
		else
			MUST_WORK(pt_data_pin(&data, &ref[at], 1));
		held[at] = !held[at];
		MUST(i % 16 || pinned_for_others(&others, &ref[at]) == held[at]);
	}
	for (at = 0; at < 600; at++)
		MUST(pinned_for_others(&others, &ref[at]) == held[at]);
	before = writes_so_far();
	for (at = 0; at < 600; at++)
		if (held[at])
			pt_data_unpin(&data, &ref[at], 1);
	MUST(statfs(dir, &fs) == 0);
	if (fs.f_type == TMPFS_MAGIC && before >= 0)
		ck_assert_int_eq(writes_so_far(), before);
	for (at = 0; at < 600; at++)
		MUST(!pinned_for_others(&others, &ref[at]));
	pt_data_close(&data);
	pt_data_close(&others);
	ck_assert_int_eq(entries("pins"), 0);
}
END_TEST

START_TEST(a_forked_child_is_refused)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	void *blob;
	pid_t pid;

	MUST_WORK(pt_data_file_open(dir, &data));
	MUST_WORK(pt_data_pin(&data, &ref, 1));
	pid = fork();
	if (pid == 0) {
		CHILD_MUST(pt_data_create(&data, &ref, 0, &blob) == -EIO);
		CHILD_MUST(pt_data_pin(&data, &ref, 1) == -EIO);
		_exit(0);
	}
	child_join(pid);
	pt_data_close(&data);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("file engine");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, what_dead_writers_staged_is_swept_and_the_living_keep_theirs);
	tcase_add_test(tcase, a_killed_sealer_leaves_whole_objects_only);
	tcase_add_test(tcase, a_seal_never_replaces_an_object);
	tcase_add_test(tcase, an_upload_has_one_descriptor);
	tcase_add_test(tcase, descriptors_stay_few);
	tcase_add_test(tcase, space_of_what_others_remove_is_given_back);
	tcase_add_test(tcase, objects_are_plain_files_that_nobody_writes_again);
	tcase_add_test(tcase, an_object_cut_short_is_refused);
	tcase_add_test(tcase, zeros_take_no_space);
	tcase_add_test(tcase, strange_files_are_left_alone);
	tcase_add_test(tcase, pins_show_to_others_as_soon_as_they_are_made);
	tcase_add_test(tcase, a_forked_child_is_refused);
	tcase_add_test(tcase, what_was_hashed_as_it_came_is_told_and_a_sweep_forgets_what_is_gone);
	return run_suite("store: objects", &tcase, 1);
}

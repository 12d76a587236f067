/* tests/unit/test_store_full.c - a dir: store on a filesystem that is full, read-only, or not local.
 *
 * Mounts a small tmpfs in a mount namespace of its own, so that nothing is left behind; that needs root. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "unit/store_support.h"

#define SKIPPED 77
#define TMPFS_BYTES "size=3M"

static char dir[256];

/* The one place where this program is skipped. */
static void require_tmpfs(void)
{
	const char *why = NULL;

	if (unshare(CLONE_NEWNS) < 0)
		why = "no mount namespace";
	else if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("tmpfs", dir, "tmpfs", 0, TMPFS_BYTES) < 0)
		why = "no tmpfs";
	if (!why)
		return;
	printf("SKIP: %s can be made here (%s)\n", why, strerror(errno));
	rmdir(dir);
	exit(SKIPPED);
}

static const struct pt_store_options create = { .create = true, .faults = "" };
static struct pt_store *store;
static char *path;

static void setup(void)
{
	path = path_in(dir, "store");
	mount(NULL, dir, NULL, MS_REMOUNT, NULL);
	dir_remove(path);                       /* what a failed test left */
	MUST_WORK(pt_store_open(path, &create, &store));
}

static void teardown(void)
{
	pt_store_close(store);
	dir_remove(path);
	free(path);
}

static void reopen(void)
{
	pt_store_close(store);
	MUST_WORK(pt_store_open(path, &create, &store));
}

#define BLOB_BYTES 100000

static int count_blob(void *ctx, const struct pt_blob_ref *ref, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	(void)ref, (void)mtime_ns, (void)live;
	MUST(!staged && bytes == BLOB_BYTES);
	++*(int *)ctx;
	return 0;
}

START_TEST(a_full_disk_takes_no_object_and_harms_none)
{
	static uint8_t bytes[BLOB_BYTES], got[BLOB_BYTES];
	struct pt_blob_ref refs[100];
	int n = 0, listed = 0, rc;

	for (;;) {
		MUST(n < 100);
		refs[n] = blob_new(PT_BLOB_TENSOR);
		pattern_fill(bytes, sizeof(bytes), (uint64_t)n);
		pt_fail_clear();
		rc = blob_put(&store->data, &refs[n], bytes, sizeof(bytes));
		if (rc < 0)
			break;
		n++;
	}
	ck_assert_int_eq(rc, -ENOSPC);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "free some space"));
	ck_assert_int_gt(n, 10);
	for (int again = 0; again < 2; again++) {
		listed = 0;
		MUST_WORK(pt_data_list(&store->data, count_blob, &listed));
		ck_assert_int_eq(listed, n);
		for (int i = 0; i < n; i++) {
			pattern_fill(bytes, sizeof(bytes), (uint64_t)i);
			MUST_WORK(blob_get(&store->data, &refs[i], got, sizeof(got), 0));
			MUST(memcmp(bytes, got, sizeof(got)) == 0);
		}
		reopen();
	}
	MUST_WORK(pt_data_remove(&store->data, &refs[0]));
	MUST_WORK(pt_data_remove(&store->data, &refs[1]));
	MUST_WORK(blob_put(&store->data, &refs[0], bytes, sizeof(bytes)));
}
END_TEST

START_TEST(a_full_disk_takes_no_batch_and_harms_none)
{
	static uint8_t value[5000];
	struct pt_buf b = PT_BUF_INIT;
	uint64_t seen = 0, version;
	char key[16];
	int n = 0, rc;

	for (;;) {
		MUST(n < 10000);
		snprintf(key, sizeof(key), "%05d", n);
		pattern_fill(value, sizeof(value), (uint64_t)n);
		pt_fail_clear();
		rc = meta_put(&store->meta, key, value, sizeof(value), &version);
		if (rc < 0)
			break;
		ck_assert_uint_gt(version, seen);
		seen = version;
		n++;
	}
	ck_assert_int_eq(rc, -ENOSPC);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "free some"));
	ck_assert_int_gt(n, 50);
	for (int again = 0; again < 2; again++) {
		ck_assert_uint_eq(meta_count(&store->meta), (uint64_t)n);
		for (int i = 0; i < n; i++) {
			snprintf(key, sizeof(key), "%05d", i);
			pattern_fill(value, sizeof(value), (uint64_t)i);
			MUST_WORK(pt_meta_get(&store->meta, key, strlen(key), &b, NULL));
			MUST(b.len == sizeof(value) && memcmp(b.data, value, b.len) == 0);
		}
		reopen();
	}
	pt_buf_done(&b);
	/* There is room to delete. */
	for (int i = 0; i < 20; i++) {
		struct pt_meta_op del = { .kind = PT_META_DELETE, .key = { key, 5 } };

		snprintf(key, sizeof(key), "%05d", i);
		MUST_WORK(pt_meta_commit(&store->meta, &del, 1, NULL));
	}
	reopen();
	ck_assert_uint_eq(meta_count(&store->meta), (uint64_t)(n - 20));
}
END_TEST

START_TEST(a_disk_full_of_objects_can_be_emptied)
{
	static uint8_t bytes[BLOB_BYTES];
	struct pt_blob_ref refs[100];
	char *filler = path_in(dir, "filler");
	int n, fd;

	for (n = 0; n < 100; n++) {
		refs[n] = blob_new(PT_BLOB_TENSOR);
		pattern_fill(bytes, sizeof(bytes), (uint64_t)n);
		if (blob_put(&store->data, &refs[n], bytes, sizeof(bytes)) < 0)
			break;
		if (pt_meta_commit(&store->meta, &(struct pt_meta_op){ .kind = PT_META_PUT, .key = { refs[n].id.b, 16 }, .value = bytes,
								       .value_len = 1000 }, 1, NULL) < 0)
			break;
	}
	ck_assert_int_gt(n, 5);
	fd = open(filler, O_WRONLY | O_CREAT, 0600);
	while (write(fd, bytes, 4096) > 0)
		continue;
	close(fd);
	for (int i = 0; i < n; i++) {
		MUST_WORK(pt_meta_commit(&store->meta, &(struct pt_meta_op){ .kind = PT_META_DELETE, .key = { refs[i].id.b, 16 } }, 1, NULL));
		MUST_WORK(pt_data_remove(&store->data, &refs[i]));
	}
	unlink(filler);
	free(filler);
	MUST_WORK(blob_put(&store->data, &refs[0], bytes, sizeof(bytes)));
	MUST_WORK(meta_put(&store->meta, "again", bytes, 1000, NULL));
}
END_TEST

static void fill_up(const char *filler)
{
	static uint8_t bytes[4096];
	int fd = open(filler, O_WRONLY | O_CREAT | O_APPEND, 0600);

	MUST(fd >= 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		continue;
	close(fd);
}

/* More than the log has room for beside the space kept for deleting; and whatever that leaves is wanted by others. */
START_TEST(a_full_disk_can_be_emptied_record_by_record_while_others_fill_it)
{
	static uint8_t value[1000];
	char *filler = path_in(dir, "filler");
	char key[8];

	for (int i = 0; i < 150; i++) {
		snprintf(key, sizeof(key), "%04d", i);
		MUST_WORK(meta_put(&store->meta, key, value, sizeof(value), NULL));
	}
	for (int i = 0; i < 150; i++) {
		struct pt_meta_op del = { .kind = PT_META_DELETE, .key = { key, 4 } };

		fill_up(filler);
		snprintf(key, sizeof(key), "%04d", i);
		MUST_WORK(pt_meta_commit(&store->meta, &del, 1, NULL));
	}
	ck_assert_uint_eq(meta_count(&store->meta), 0);
	unlink(filler);
	free(filler);
	MUST_WORK(meta_put(&store->meta, "again", value, sizeof(value), NULL));
}
END_TEST

START_TEST(a_store_on_a_full_disk_can_be_opened_and_read)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	char *filler = path_in(dir, "filler");
	char b;

	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	for (int again = 0; again < 3; again++) {
		pt_store_close(store);
		fill_up(filler);
		MUST_WORK(pt_store_open(path, &create, &store));
		ck_assert_uint_eq(meta_count(&store->meta), 1);
		MUST_WORK(pt_data_pin(&store->data, &ref, 1));
		MUST_WORK(blob_get(&store->data, &ref, &b, 1, 0));
		pt_data_unpin(&store->data, &ref, 1);
	}
	unlink(filler);
	free(filler);
}
END_TEST

START_TEST(a_snapshot_that_does_not_fit_leaves_nothing)
{
	static uint8_t value[300000];
	char *copy = path_in(dir, "copy.db");
	struct stat st;

	pattern_fill(value, sizeof(value), 1);
	for (int i = 0; i < 2; i++)
		MUST_WORK(meta_put(&store->meta, i ? "a" : "b", value, sizeof(value), NULL));
	reopen();
	for (int i = 0; i < 4; i++)
		MUST_WORK(meta_put(&store->meta, "c", value, sizeof(value), NULL));
	MUST_FAIL(ENOSPC, pt_meta_snapshot(&store->meta, -1, copy));
	ck_assert_int_eq(stat(copy, &st), -1);
	MUST_WORK(meta_put(&store->meta, "d", "v", 1, NULL));
	free(copy);
}
END_TEST

START_TEST(a_store_on_a_read_only_filesystem_can_be_read)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), other = blob_new(PT_BLOB_TENSOR);
	bool pinned;
	void *blob;
	char b;
	int fd;

	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	pt_store_close(store);
	MUST(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	MUST_WORK(pt_store_open(path, &(struct pt_store_options){ .faults = "" }, &store));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
	MUST_WORK(pt_data_pin(&store->data, &ref, 1));
	MUST_WORK(pt_data_pinned(&store->data, &ref, 1, &pinned));
	MUST_WORK(blob_get(&store->data, &ref, &b, 1, 0));
	pt_data_unpin(&store->data, &ref, 1);
	MUST_FAIL(EROFS, meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_FAIL(EROFS, pt_data_create(&store->data, &other, 0, &blob));
	MUST_FAIL(EROFS, pt_data_remove(&store->data, &ref));
	pt_store_close(store);

	/* Changes that only the log has cannot be taken in. */
	MUST(mount(NULL, dir, NULL, MS_REMOUNT, NULL) == 0);
	free(path);
	path = path_in(dir, "store/index.db-wal");
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	MUST(fd >= 0 && write(fd, "log", 3) == 3);
	close(fd);
	free(path);
	path = path_in(dir, "store");
	MUST(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	MUST_FAIL(EROFS, pt_store_open(path, &(struct pt_store_options){ .faults = "" }, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "read-write once"));
	MUST(mount(NULL, dir, NULL, MS_REMOUNT, NULL) == 0);
	MUST_WORK(pt_store_open(path, &create, &store));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
}
END_TEST

START_TEST(a_store_on_fuse_is_refused_unless_forced)
{
	struct pt_store_options force = { .create = true, .force = true, .faults = "" };
	struct pt_store *other;
	char *at = path_in(dir, "fuse"), options[100];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	/* A mount that nobody serves, of another user: it tells its kind and refuses all else. Without the device there is none. */
	if (fd >= 0 && mkdir(at, 0700) == 0) {
		snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, (int)getuid() + 1, (int)getgid());
		MUST(mount("test", at, "fuse", 0, options) == 0);
		MUST_FAIL(ENOTSUP, pt_store_open(at, &create, &other));
		ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "FUSE"));
		MUST_FAIL(EACCES, pt_store_open(at, &force, &other));
		MUST(umount2(at, MNT_DETACH) == 0);
		rmdir(at);
	}
	close(fd);
	free(at);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("full disk");
	const char *tmp = getenv("TMPDIR");
	int rc;

	snprintf(dir, sizeof(dir), "%s/ptio-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return EXIT_FAILURE;
	}
	require_tmpfs();
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_full_disk_takes_no_object_and_harms_none);
	tcase_add_test(tcase, a_full_disk_takes_no_batch_and_harms_none);
	tcase_add_test(tcase, a_disk_full_of_objects_can_be_emptied);
	tcase_add_test(tcase, a_full_disk_can_be_emptied_record_by_record_while_others_fill_it);
	tcase_add_test(tcase, a_store_on_a_full_disk_can_be_opened_and_read);
	tcase_add_test(tcase, a_snapshot_that_does_not_fit_leaves_nothing);
	tcase_add_test(tcase, a_store_on_a_read_only_filesystem_can_be_read);
	tcase_add_test(tcase, a_store_on_fuse_is_refused_unless_forced);
	rc = run_suite("store: full disk", &tcase, 1);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	return rc;
}

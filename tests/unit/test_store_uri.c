/* tests/unit/test_store_uri.c - stores by URI. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/store.h"
#include "unit/store_support.h"

static const struct pt_store_options create = { .create = true };
static struct pt_store *store;
static const char *dir;

static void setup(void)
{
	unsetenv("PTIO_FAULTS");
	dir = dir_make();
}

START_TEST(sizes_are_bytes_or_binary_units)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 }, { "1000", 1000 }, { "12B", 12 }, { "1K", 1024 }, { "64M", 64 << 20 }, { "2GiB", UINT64_C(2) << 30 },
		{ "3g", UINT64_C(3) << 30 }, { "1TB", UINT64_C(1) << 40 }, { "5KIB", 5120 }, { "15E", UINT64_C(15) << 60 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "", "M", "-1", "+1", " 1", "1 ", "1.5G", "1X", "1Mi", "1MiBs", "16E", "18446744073709551616", "0x10" };
	uint64_t n = 7;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		MUST_WORK(pt_size_parse(good[i].text, &n));
		ck_assert_uint_eq(n, good[i].bytes);
	}
	n = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		MUST_FAIL(EINVAL, pt_size_parse(bad[i], &n));
	ck_assert_uint_eq(n, 7);
}
END_TEST

/* Opens, uses both engines, closes. */
static void use(const char *uri, bool durable)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);

	MUST_WORK(pt_store_open(uri, &create, &store));
	ck_assert_str_eq(store->uri, uri);
	ck_assert(store->durable == durable && !store->read_only && (store->dir != NULL) == durable);
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
}

START_TEST(each_form_opens)
{
	char *path = path_in(dir, "store"), *uri = NULL;

	use("mem:1M", false);
	use("mem:1000", false);
	use(path, true);
	MUST(asprintf(&uri, "dir:%s", path) > 0);
	use(uri, true);
	MUST(chdir(dir) == 0);
	use("dir:relative", true);
	ck_assert_int_eq(access("relative/index.db", F_OK), 0);
	MUST_WORK(pt_store_open("dir:relative", NULL, &store));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
	ck_assert_int_eq(store->dir[0], '/');
	pt_store_close(store);
	pt_store_close(NULL);
	free(uri);
	free(path);
}
END_TEST

START_TEST(what_is_not_a_store_is_refused)
{
	static const char *const bad[] = { "", "relative", "mem", "mem:", "mem:x", "dir:", "http://x", "memory:1M", "Dir:/tmp" };
	char *path = path_in(dir, "file"), *absent = path_in(dir, "absent"), *below = path_in(dir, "no/such/place");
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	close(fd);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		MUST_FAIL(EINVAL, pt_store_open(bad[i], &create, &store));
	MUST_FAIL(EINVAL, pt_store_open("http://x", &create, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "mem:SIZE"));
	MUST_FAIL(ENOTDIR, pt_store_open(path, &create, &store));
	MUST_FAIL(ENOENT, pt_store_open(absent, NULL, &store));
	MUST_FAIL(ENOENT, pt_store_open(absent, &(struct pt_store_options){ .create = true, .read_only = true }, &store));
	MUST_FAIL(ENOENT, pt_store_open(below, &create, &store));
	ck_assert_int_eq(access(absent, F_OK), -1);
	MUST_FAIL(ENOTEMPTY, pt_store_open(dir, &create, &store));
	ck_assert_int_eq(unlink(path), 0);
	MUST_FAIL(ENOENT, pt_store_open(dir, NULL, &store));
	MUST_WORK(pt_store_open(dir, &create, &store));
	pt_store_close(store);
	free(path);
	free(absent);
	free(below);
}
END_TEST

START_TEST(objects_without_an_index_are_not_a_new_store)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	char *path = path_in(dir, "store"), *index = path_in(dir, "store/index.db");

	MUST_WORK(pt_store_open(path, &create, &store));
	pt_store_close(store);
	ck_assert_int_eq(unlink(index), 0);
	MUST_WORK(pt_store_open(path, &create, &store));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
	ck_assert_int_eq(unlink(index), 0);
	MUST_FAIL(EIO, pt_store_open(path, &create, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "ptio fsck --rebuild"));
	ck_assert_int_eq(truncate(index, 0), -1);
	close(open(index, O_WRONLY | O_CREAT, 0600));
	MUST_FAIL(EIO, pt_store_open(path, &create, &store));
	free(path);
	free(index);
}
END_TEST

START_TEST(the_log_of_an_index_that_is_gone_is_not_a_new_ones)
{
	char *path = path_in(dir, "store"), *index = path_in(dir, "store/index.db"), *log = path_in(dir, "store/index.db-wal");

	MUST_WORK(pt_store_open(path, &create, &store));
	pt_store_close(store);
	ck_assert_int_eq(unlink(index), 0);
	close(open(log, O_WRONLY | O_CREAT, 0600));
	MUST_FAIL(EIO, pt_store_open(path, &create, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "ptio fsck --rebuild"));
	ck_assert_int_eq(access(index, F_OK), -1);
	ck_assert_int_eq(unlink(log), 0);
	MUST_WORK(pt_store_open(path, &create, &store));
	pt_store_close(store);
	free(path);
	free(index);
	free(log);
}
END_TEST

START_TEST(a_store_opened_read_only_refuses_changes)
{
	struct pt_store_options o = { .read_only = true };
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR), other = blob_new(PT_BLOB_TENSOR);
	char *path = path_in(dir, "store");
	bool pinned;
	void *blob;
	char b;

	MUST_WORK(pt_store_open(path, &create, &store));
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
	MUST_WORK(pt_store_open(path, &o, &store));
	ck_assert(store->read_only);
	MUST_FAIL(EROFS, meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_FAIL(EROFS, pt_data_create(&store->data, &other, 0, &blob));
	MUST_FAIL(EROFS, pt_data_remove(&store->data, &ref));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
	MUST_WORK(pt_data_pin(&store->data, &ref, 1));
	MUST_WORK(pt_data_pinned(&store->data, &ref, 1, &pinned));
	ck_assert(pinned);
	MUST_WORK(blob_get(&store->data, &ref, &b, 1, 0));
	pt_store_close(store);
	free(path);
}
END_TEST

START_TEST(faults_come_from_the_options_or_the_environment)
{
	struct pt_store_options o = { .create = true, .faults = "meta.commit:error=ENOSPC" };
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);

	MUST_WORK(pt_store_open("mem:1M", &o, &store));
	MUST_FAIL(ENOSPC, meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
	setenv("PTIO_FAULTS", "data.create:error=EDQUOT", 1);
	MUST_WORK(pt_store_open("mem:1M", &create, &store));
	MUST_FAIL(EDQUOT, blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
	o.faults = "";
	MUST_WORK(pt_store_open("mem:1M", &o, &store));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	pt_store_close(store);
	setenv("PTIO_FAULTS", "nonsense", 1);
	MUST_FAIL(EINVAL, pt_store_open("mem:1M", &create, &store));
	unsetenv("PTIO_FAULTS");
}
END_TEST

START_TEST(two_stores_of_one_folder_see_each_other)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	char *path = path_in(dir, "store");
	struct pt_store *other;
	char b;

	MUST_WORK(pt_store_open(path, &create, &store));
	MUST_WORK(pt_store_open(path, &create, &other));
	MUST_WORK(blob_put(&store->data, &ref, "x", 1));
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&other->meta), 1);
	MUST_WORK(blob_get(&other->data, &ref, &b, 1, 0));
	pt_store_close(other);
	MUST_WORK(meta_put(&store->meta, "k2", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&store->meta), 2);
	pt_store_close(store);
	free(path);
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_nothing_leaks)
{
	char *path = path_in(dir, "store");
	int n, rc = -ENOMEM;

	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_store_open(_i ? "mem:1M" : path, &create, &store);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	ck_assert_int_gt(n, 5);
	pt_store_close(store);
	free(path);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("store");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(tcase, sizes_are_bytes_or_binary_units);
	tcase_add_test(tcase, each_form_opens);
	tcase_add_test(tcase, what_is_not_a_store_is_refused);
	tcase_add_test(tcase, objects_without_an_index_are_not_a_new_store);
	tcase_add_test(tcase, the_log_of_an_index_that_is_gone_is_not_a_new_ones);
	tcase_add_test(tcase, a_store_opened_read_only_refuses_changes);
	tcase_add_test(tcase, faults_come_from_the_options_or_the_environment);
	tcase_add_test(tcase, two_stores_of_one_folder_see_each_other);
	tcase_add_loop_test(tcase, each_failed_allocation_is_reported_and_nothing_leaks, 0, 2);
	return run_suite("store: URIs", &tcase, 1);
}

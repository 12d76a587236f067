/* tests/unit/test_store_refused.c - the file data engine where the system refuses a call: each failure says why, and leaves nothing open. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/store_support.h"

static const char *dir;
static struct pt_data data;
static int rename_errno, sync_dir_errno;        /* what the calls below fail with; 0: they do not */

/* In place of the C library's. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags)
{
	if (!rename_errno)
		return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
	errno = rename_errno;
	return -1;
}

int fsync(int fd)
{
	struct stat st;

	if (!sync_dir_errno || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return (int)syscall(SYS_fsync, fd);
	errno = sync_dir_errno;
	return -1;
}

static void setup(void)
{
	dir = dir_make();
	MUST_WORK(pt_data_file_open(dir, &data));
}

static void teardown(void)
{
	pt_data_close(&data);
	dir_remove(dir);
}

START_TEST(a_seal_that_is_refused_says_why)
{
	static const int refused[] = { EPERM, ELOOP, ENOSPC, EIO };
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
		void *blob;

		MUST_WORK(pt_data_create(&data, &ref, 0, &blob));
		rename_errno = refused[i];
		MUST_FAIL(refused[i], pt_data_seal(&data, blob, 0));
		ck_assert_msg(strstr(pt_fail_sentence(), "cannot seal") && strstr(pt_fail_sentence(), strerror(refused[i])), "%s", pt_fail_sentence());
		rename_errno = 0;
		MUST_FAIL(ENOENT, pt_data_stat(&data, &ref, &bytes));
	}
}
END_TEST

START_TEST(a_folder_of_objects_that_cannot_be_made_durable_is_not_left_open)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_TENSOR);
	void *blob;
	int before;

	MUST_WORK(pt_data_create(&data, &ref, 0, &blob));       /* has what the first one makes */
	pt_data_abort(&data, blob);
	before = open_descriptors();
	sync_dir_errno = EIO;
	for (int i = 0; i < 64; i++) {          /* most of them the first of their folder */
		ref = blob_new(PT_BLOB_TENSOR);
		if (pt_data_create(&data, &ref, 0, &blob) == 0)
			pt_data_abort(&data, blob);
		else
			ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "cannot make"));
	}
	sync_dir_errno = 0;
	ck_assert_int_eq(open_descriptors(), before);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("refused");

	unsetenv("PTIO_FAULTS");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, a_seal_that_is_refused_says_why);
	tcase_add_test(tcase, a_folder_of_objects_that_cannot_be_made_durable_is_not_left_open);
	return run_suite("store: calls that are refused", &tcase, 1);
}

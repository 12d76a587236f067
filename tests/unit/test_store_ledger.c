/* tests/unit/test_store_ledger.c - the ledger of what has been verified: who reads what whom told, and what of a file that is not as it should be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file_state.h"
#include "store/ledger.h"
#include "unit/rng.h"
#include "unit/store_support.h"

#define BOOT "01234567-89ab-cdef-0123-456789abcdef"
#define OTHER "11111111-89ab-cdef-0123-456789abcdef"

/* As on a filesystem that keeps times in steps of so many nanoseconds, of files that were written so long ago; 0: as they are. */
static int64_t times_step, times_ago;

static void times_cut(struct timespec *t)
{
	int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec - times_ago;

	ns -= ns % times_step;
	*t = (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

/* In the place of the C library's. */
int fstat(int fd, struct stat *st)
{
	int rc = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (rc == 0 && times_step) {
		times_cut(&st->st_mtim);
		times_cut(&st->st_ctim);
	}
	return rc;
}

static const char *dir;
static int dirfd_;
static struct pt_ledger *a, *b;         /* as two processes have it */

static void setup(void)
{
	dir = dir_make();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(dirfd_ >= 0);
	MUST_WORK(pt_ledger_create(dirfd_, BOOT, &a));
	MUST_WORK(pt_ledger_create(dirfd_, BOOT, &b));
}

static void teardown(void)
{
	pt_ledger_free(a);
	pt_ledger_free(b);
	close(dirfd_);
	dir_remove(dir);
}

static int file_open(const char *boot, int flags)
{
	char name[128];
	int fd;

	snprintf(name, sizeof(name), PT_LEDGER_DIR "/%s", boot);
	fd = openat(dirfd_, name, flags | O_CLOEXEC, 0640);
	MUST(fd >= 0);
	return fd;
}

static uint64_t file_size(void)
{
	struct stat st;
	int fd = file_open(BOOT, O_RDONLY);

	MUST(fstat(fd, &st) == 0);
	close(fd);
	return (uint64_t)st.st_size;
}

static bool all_live(void *ctx, const struct pt_blob_ref *ref)
{
	(void)ctx, (void)ref;
	return true;
}

/* Those whose id begins with an even byte. */
static bool even_live(void *ctx, const struct pt_blob_ref *ref)
{
	(void)ctx;
	return ref->id.b[0] % 2 == 0;
}

START_TEST(what_one_tells_all_know_and_only_of_that_state)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR), y = blob_new(PT_BLOB_PLAIN), other_kind = { x.id, PT_BLOB_PLAIN };
	uint64_t told, failed;
	struct pt_ledger *c;

	ck_assert(!pt_ledger_has(a, &x, 7));
	ck_assert_int_lt(faccessat(dirfd_, PT_LEDGER_DIR, F_OK, 0), 0);        /* asking makes nothing */
	pt_ledger_add(a, &x, 7);
	pt_ledger_add(a, &x, 7);
	ck_assert_uint_eq(file_size(), PT_LEDGER_RECORD);
	ck_assert(pt_ledger_has(a, &x, 7) && pt_ledger_has(b, &x, 7));
	ck_assert(!pt_ledger_has(b, &x, 8) && !pt_ledger_has(b, &x, 0) && !pt_ledger_has(b, &y, 7) && !pt_ledger_has(b, &other_kind, 7));
	/* Changed, and verified again. */
	pt_ledger_add(b, &x, 8);
	pt_ledger_add(b, &y, 9);
	ck_assert(!pt_ledger_has(a, &x, 7) && pt_ledger_has(a, &x, 8) && pt_ledger_has(a, &y, 9));
	MUST_WORK(pt_ledger_create(dirfd_, BOOT, &c));
	ck_assert(!pt_ledger_has(c, &x, 7) && pt_ledger_has(c, &x, 8) && pt_ledger_has(c, &y, 9));
	pt_ledger_free(c);
	pt_ledger_counts(b, &told, &failed);
	ck_assert_uint_eq(told, 2);
	ck_assert_uint_eq(failed, 0);
}
END_TEST

START_TEST(what_is_withdrawn_counts_for_nobody_until_it_is_verified_again)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_PLAIN);

	pt_ledger_add(a, &x, 7);
	ck_assert(pt_ledger_has(b, &x, 7));
	pt_ledger_withdraw(a, &x);
	ck_assert(!pt_ledger_has(a, &x, 7) && !pt_ledger_has(b, &x, 7));
	pt_ledger_withdraw(a, &x);
	ck_assert_uint_eq(file_size(), 2 * PT_LEDGER_RECORD);
	pt_ledger_add(b, &x, 7);
	ck_assert(pt_ledger_has(a, &x, 7));
}
END_TEST

START_TEST(another_boot_knows_nothing_of_it)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_PLAIN);
	struct pt_ledger *c;

	pt_ledger_add(a, &x, 7);
	MUST_WORK(pt_ledger_create(dirfd_, OTHER, &c));
	ck_assert(!pt_ledger_has(c, &x, 7));
	pt_ledger_free(c);
	/* This machine's own boot has a name. */
	MUST_WORK(pt_ledger_create(dirfd_, NULL, &c));
	ck_assert(!pt_ledger_has(c, &x, 7));
	pt_ledger_add(c, &x, 7);
	ck_assert(pt_ledger_has(c, &x, 7));
	pt_ledger_free(c);
	/* What is no boot's name, and might lead elsewhere, is not used as one. */
	MUST_WORK(pt_ledger_create(dirfd_, "../x", &c));
	pt_ledger_add(c, &x, 7);
	ck_assert(!pt_ledger_has(c, &x, 7));
	pt_ledger_sweep(c, all_live, NULL);
	pt_ledger_free(c);
}
END_TEST

START_TEST(what_is_no_record_is_passed)
{
	static const uint8_t garbage[] = "neither this nor that, of 41 bytes or more .............";
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR), y = blob_new(PT_BLOB_PLAIN), z = blob_new(PT_BLOB_PLAIN);
	uint8_t record[PT_LEDGER_RECORD];
	int fd;

	pt_ledger_add(a, &x, 7);
	fd = file_open(BOOT, O_RDWR | O_APPEND);
	MUST(pread(fd, record, sizeof(record), 0) == sizeof(record));
	/* Torn by a full disk; foreign; and a record with one bit wrong. */
	MUST(write(fd, record, _i) == _i);
	pt_ledger_add(a, &y, 8);
	MUST(write(fd, garbage, sizeof(garbage)) == sizeof(garbage));
	record[24] ^= 1;
	MUST(write(fd, record, sizeof(record)) == sizeof(record));
	pt_ledger_add(a, &z, 9);
	ck_assert(pt_ledger_has(b, &x, 7) && pt_ledger_has(b, &y, 8) && pt_ledger_has(b, &z, 9));
	ck_assert(!pt_ledger_has(b, &x, 6));
	/* A last one that is only half there is read when it is whole. */
	record[24] ^= 1;
	pt_ledger_add(a, &x, 10);
	MUST(write(fd, record, 20) == 20);
	ck_assert(pt_ledger_has(b, &x, 10));
	MUST(write(fd, record + 20, sizeof(record) - 20) == sizeof(record) - 20);
	ck_assert(pt_ledger_has(b, &x, 7));
	close(fd);
}
END_TEST

START_TEST(a_file_that_was_cut_or_replaced_is_read_anew)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR), y = blob_new(PT_BLOB_PLAIN);
	int fd;

	pt_ledger_add(a, &x, 7);
	pt_ledger_add(a, &y, 8);
	ck_assert(pt_ledger_has(b, &y, 8));
	fd = file_open(BOOT, O_RDWR);
	MUST(ftruncate(fd, PT_LEDGER_RECORD) == 0);
	close(fd);
	ck_assert(pt_ledger_has(b, &x, 7) && !pt_ledger_has(b, &y, 8));
	MUST(unlinkat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0) == 0);
	ck_assert(!pt_ledger_has(b, &x, 7));
	pt_ledger_add(b, &y, 9);
	ck_assert(pt_ledger_has(a, &y, 9) && !pt_ledger_has(a, &x, 7));
}
END_TEST

START_TEST(where_it_cannot_be_written_nothing_fails_and_it_is_counted)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR), y = blob_new(PT_BLOB_PLAIN);
	struct rlimit limit = { PT_LEDGER_RECORD + 10, PT_LEDGER_RECORD + 10 }, before;
	uint64_t told, failed;

	pt_ledger_add(a, &x, 7);
	switch (_i) {
	case 0:                         /* as a full disk: some of a record fits */
		signal(SIGXFSZ, SIG_IGN);
		MUST(getrlimit(RLIMIT_FSIZE, &before) == 0);
		limit.rlim_max = before.rlim_max;
		MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		break;
	case 1:                         /* no file, but something else */
		MUST(unlinkat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0) == 0 && mkdirat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0700) == 0);
		break;
	case 2:                         /* a link to what is not ours */
		MUST(unlinkat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0) == 0 && symlinkat("/dev/null", dirfd_, PT_LEDGER_DIR "/" BOOT) == 0);
		break;
	case 3:                         /* no folder */
		MUST(unlinkat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0) == 0 && unlinkat(dirfd_, PT_LEDGER_DIR, AT_REMOVEDIR) == 0 &&
		     symlinkat("/nowhere/at/all", dirfd_, PT_LEDGER_DIR) == 0);
		break;
	}
	pt_ledger_add(b, &y, 8);
	ck_assert(!pt_ledger_has(b, &y, 8));
	pt_ledger_counts(b, &told, &failed);
	ck_assert_uint_eq(told, 0);
	ck_assert_uint_eq(failed, 1);
	ck_assert_int_eq(pt_ledger_has(b, &x, 7), _i == 0);
	pt_ledger_sweep(b, all_live, NULL);
	if (_i)
		return;
	MUST(setrlimit(RLIMIT_FSIZE, &before) == 0);
	pt_ledger_add(b, &y, 8);
	ck_assert(pt_ledger_has(a, &y, 8));
}
END_TEST

START_TEST(what_is_damaged_is_withdrawn_where_no_record_has_room)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR), y = blob_new(PT_BLOB_PLAIN);
	struct rlimit limit, before;
	uint64_t told, failed;

	pt_ledger_add(a, &x, 7);
	pt_ledger_add(a, &y, 8);
	ck_assert(pt_ledger_has(b, &x, 7));
	signal(SIGXFSZ, SIG_IGN);
	MUST(getrlimit(RLIMIT_FSIZE, &before) == 0);
	limit = (struct rlimit){ 2 * PT_LEDGER_RECORD + 10 * (rlim_t)_i, before.rlim_max };
	MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	pt_ledger_withdraw(b, &x);
	MUST(setrlimit(RLIMIT_FSIZE, &before) == 0);
	ck_assert(!pt_ledger_has(a, &x, 7) && !pt_ledger_has(b, &x, 7));
	pt_ledger_counts(b, &told, &failed);
	ck_assert_uint_eq(failed, 0);
	/* Others are verified again. */
	ck_assert(!pt_ledger_has(a, &y, 8));
	pt_ledger_add(a, &y, 8);
	ck_assert(pt_ledger_has(b, &y, 8) && !pt_ledger_has(b, &x, 7));
}
END_TEST

/* Root may have somebody else's store open, who could have files made, and given to him, in any directory. */
START_TEST(a_folder_that_is_a_link_is_not_followed)
{
	struct pt_blob_ref x = blob_new(PT_BLOB_TENSOR);
	struct stat st;

	MUST(mkdirat(dirfd_, "elsewhere", 0700) == 0 && symlinkat("elsewhere", dirfd_, PT_LEDGER_DIR) == 0);
	pt_ledger_add(a, &x, 7);
	ck_assert(!pt_ledger_has(a, &x, 7));
	ck_assert_int_lt(fstatat(dirfd_, "elsewhere/" BOOT, &st, AT_SYMLINK_NOFOLLOW), 0);
	/* Nor is what is there already believed. */
	MUST(unlinkat(dirfd_, PT_LEDGER_DIR, 0) == 0);
	pt_ledger_add(a, &x, 7);
	ck_assert(pt_ledger_has(b, &x, 7));
	pt_ledger_free(b);
	MUST_WORK(pt_ledger_create(dirfd_, BOOT, &b));
	MUST(renameat(dirfd_, PT_LEDGER_DIR, dirfd_, "moved") == 0 && symlinkat("moved", dirfd_, PT_LEDGER_DIR) == 0);
	ck_assert(!pt_ledger_has(b, &x, 7));
}
END_TEST

static void write_many(struct pt_ledger *l, struct pt_blob_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		refs[i] = blob_new(PT_BLOB_TENSOR);
		refs[i].id.b[0] = i % 4 ? 1 : 0;        /* three of four are gone, for even_live */
		pt_ledger_add(l, &refs[i], i + 1);
	}
}

START_TEST(a_file_that_is_mostly_about_what_is_gone_is_written_anew)
{
	const size_t count = PT_LEDGER_SWEEP_MIN / PT_LEDGER_RECORD + 1;
	struct pt_blob_ref *refs = malloc(count * sizeof(*refs)), x = blob_new(PT_BLOB_PLAIN);
	struct stat st;

	MUST(refs);
	write_many(a, refs, count);
	MUST(fchmodat(dirfd_, PT_LEDGER_DIR "/" BOOT, 0600, 0) == 0);
	ck_assert(pt_ledger_has(b, &refs[1], 2));
	pt_ledger_sweep(a, all_live, NULL);
	ck_assert_uint_eq(file_size(), count * PT_LEDGER_RECORD);
	pt_ledger_free(a);
	MUST_WORK(pt_ledger_create(dirfd_, BOOT, &a));
	pt_ledger_sweep(a, even_live, NULL);
	ck_assert_uint_le(file_size(), (count + 3) / 4 * PT_LEDGER_RECORD);
	MUST(fstatat(dirfd_, PT_LEDGER_DIR "/" BOOT, &st, 0) == 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	/* Who had the old one open reads on in the new one, and adds to it. */
	for (size_t i = 0; i < count; i++)
		MUST(pt_ledger_has(b, &refs[i], i + 1) == (i % 4 == 0));
	pt_ledger_add(b, &x, 77);
	ck_assert(pt_ledger_has(a, &x, 77));
	free(refs);
}
END_TEST

/* Adds and withdraws, while the other one writes the file anew again and again. */
static void add_and_withdraw(void *ctx, int fd)
{
	struct pt_blob_ref *refs = ctx;
	struct pt_ledger *l;

	CHILD_MUST(pt_ledger_create(dirfd_, BOOT, &l) == 0);
	for (unsigned i = 0; i < 2000; i++) {
		pt_ledger_add(l, &refs[i], i + 1);
		if (i % 2)
			pt_ledger_withdraw(l, &refs[i]);
	}
	pt_ledger_free(l);
	CHILD_MUST(write(fd, "x", 1) == 1);
}

START_TEST(nothing_is_lost_while_another_process_writes_the_file_anew)
{
	const size_t count = PT_LEDGER_SWEEP_MIN / PT_LEDGER_RECORD + 1;
	struct pt_blob_ref *filler = malloc(count * sizeof(*filler)), refs[2000];
	pid_t pid;
	char byte;
	int fd;

	MUST(filler);
	for (unsigned i = 0; i < 2000; i++) {
		refs[i] = blob_new(PT_BLOB_PLAIN);
		refs[i].id.b[0] = 0;
	}
	pid = child_start(add_and_withdraw, refs, &fd);
	for (int round = 0; round < 4; round++) {
		write_many(a, filler, count);
		pt_ledger_sweep(a, even_live, NULL);
	}
	MUST(read(fd, &byte, 1) == 1);
	child_join(pid);
	close(fd);
	for (unsigned i = 0; i < 2000; i++)
		MUST(pt_ledger_has(b, &refs[i], i + 1) == (i % 2 == 0));
	free(filler);
}
END_TEST

START_TEST(old_files_of_other_boots_go_and_young_ones_stay)
{
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct pt_blob_ref x = blob_new(PT_BLOB_PLAIN);
	int fd;

	pt_ledger_add(a, &x, 7);
	close(file_open(OTHER, O_CREAT | O_WRONLY));
	fd = file_open("22222222-89ab-cdef-0123-456789abcdef", O_CREAT | O_WRONLY);
	MUST(futimens(fd, old) == 0);
	close(fd);
	fd = file_open(BOOT, O_RDWR);
	MUST(futimens(fd, old) == 0);
	close(fd);
	pt_ledger_sweep(b, all_live, NULL);
	ck_assert_int_eq(faccessat(dirfd_, PT_LEDGER_DIR "/" OTHER, F_OK, 0), 0);
	ck_assert_int_lt(faccessat(dirfd_, PT_LEDGER_DIR "/22222222-89ab-cdef-0123-456789abcdef", F_OK, 0), 0);
	ck_assert(pt_ledger_has(a, &x, 7));
}
END_TEST

START_TEST(it_does_not_grow_beyond_its_bound)
{
	uint8_t *zeros = calloc(1, PT_LEDGER_BYTES_MAX);
	struct pt_blob_ref x = blob_new(PT_BLOB_PLAIN), y = blob_new(PT_BLOB_PLAIN);
	uint64_t told, failed;
	int fd;

	pt_ledger_add(a, &x, 7);
	fd = file_open(BOOT, O_RDWR | O_APPEND);
	MUST(zeros && write(fd, zeros, PT_LEDGER_BYTES_MAX - 1000) == (ssize_t)PT_LEDGER_BYTES_MAX - 1000);
	close(fd);
	free(zeros);
	pt_ledger_add(b, &y, 8);
	pt_ledger_counts(b, &told, &failed);
	ck_assert(told == 0 && failed == 1 && !pt_ledger_has(a, &y, 8));
	/* For what is damaged there is room. */
	pt_ledger_withdraw(b, &x);
	ck_assert(!pt_ledger_has(a, &x, 7));
	pt_ledger_sweep(b, all_live, NULL);
	pt_ledger_add(b, &y, 8);
	ck_assert(pt_ledger_has(a, &y, 8));
	ck_assert_uint_eq(file_size(), PT_LEDGER_RECORD);
}
END_TEST

START_TEST(a_file_that_was_settled_shows_each_later_change_at_once)
{
	struct pt_file_state first, later;
	int64_t mtime;
	int fd = openat(dirfd_, "settled", O_RDWR | O_CREAT, 0640);

	MUST(fd >= 0 && write(fd, "0123456789", 10) == 10);
	ck_assert_int_eq(pt_file_state_settle(fd, &mtime), 0);
	ck_assert_int_eq(pt_file_state_get(fd, &first), 0);
	ck_assert_int_eq(first.mtime_ns, mtime);
	MUST(pwrite(fd, "x", 1, 3) == 1);
	ck_assert_int_eq(pt_file_state_get(fd, &later), 0);
	ck_assert_int_ne(later.mtime_ns, mtime);
	ck_assert_uint_ne(pt_file_state_stamp(&first), pt_file_state_stamp(&later));
	close(fd);
}
END_TEST

START_TEST(each_change_after_it_was_looked_at_shows)
{
	struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	struct pt_file_state before, after;
	int fd = openat(dirfd_, "file", O_RDWR | O_CREAT, 0640);

	MUST(fd >= 0 && write(fd, "0123456789", 10) == 10);
	ck_assert_int_eq(pt_file_state_get(fd, &before), 0);
	ck_assert_uint_eq(before.size, 10);
	ck_assert(pt_file_state_same(&before, &before));
	switch (_i) {                   /* at once after it was looked at */
	case 0:
		MUST(pwrite(fd, "x", 1, 5) == 1);
		break;
	case 1:
		MUST(ftruncate(fd, 11) == 0);
		break;
	case 2:
		MUST(pwrite(fd, "x", 1, 5) == 1 && futimens(fd, times) == 0);
		break;
	}
	ck_assert_int_eq(pt_file_state_get(fd, &after), 0);
	ck_assert(!pt_file_state_same(&before, &after));
	ck_assert_uint_ne(pt_file_state_stamp(&before), pt_file_state_stamp(&after));
	close(fd);
}
END_TEST

/* A change within the step would not show. */
START_TEST(a_time_that_is_kept_in_long_steps_tells_nothing_until_its_step_is_over)
{
	static const int64_t steps[] = { 2000000000, 1000000000, 100000000 };
	struct pt_file_state state;
	struct timespec now;
	int fd = openat(dirfd_, "file", O_RDWR | O_CREAT, 0640), rc;

	MUST(fd >= 0 && write(fd, "0123456789", 10) == 10);
	times_step = steps[_i];
	rc = pt_file_state_get(fd, &state);
	clock_gettime(CLOCK_REALTIME, &now);
	ck_assert(rc == -EAGAIN || (rc == 0 && state.ctime_ns + times_step <= (int64_t)now.tv_sec * 1000000000 + now.tv_nsec));
	times_ago = 2 * steps[0];
	ck_assert_int_eq(pt_file_state_get(fd, &state), 0);
	times_step = times_ago = 0;
	close(fd);
}
END_TEST

START_TEST(each_allocation_may_fail)
{
	struct pt_ledger *l = NULL;
	int i;

	for (i = 0; i < 100; i++) {
		pt_alloc_fail_after(i);
		if (pt_ledger_create(dirfd_, BOOT, &l) == 0)
			break;
		pt_alloc_fail_after(-1);
		ck_assert_ptr_null(l);
	}
	pt_alloc_fail_after(-1);
	ck_assert(i > 0 && l);
	pt_ledger_free(l);
	pt_ledger_free(NULL);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_one_tells_all_know_and_only_of_that_state);
	tcase_add_test(t, what_is_withdrawn_counts_for_nobody_until_it_is_verified_again);
	tcase_add_test(t, another_boot_knows_nothing_of_it);
	tcase_add_loop_test(t, what_is_no_record_is_passed, 0, PT_LEDGER_RECORD + 1);
	tcase_add_test(t, a_file_that_was_cut_or_replaced_is_read_anew);
	tcase_add_loop_test(t, where_it_cannot_be_written_nothing_fails_and_it_is_counted, 0, 4);
	tcase_add_loop_test(t, what_is_damaged_is_withdrawn_where_no_record_has_room, 0, 2);
	tcase_add_test(t, a_folder_that_is_a_link_is_not_followed);
	tcase_add_test(t, a_file_that_is_mostly_about_what_is_gone_is_written_anew);
	tcase_add_test(t, nothing_is_lost_while_another_process_writes_the_file_anew);
	tcase_add_test(t, old_files_of_other_boots_go_and_young_ones_stay);
	tcase_add_test(t, it_does_not_grow_beyond_its_bound);
	tcase_add_test(t, a_file_that_was_settled_shows_each_later_change_at_once);
	tcase_add_loop_test(t, each_change_after_it_was_looked_at_shows, 0, 3);
	tcase_add_loop_test(t, a_time_that_is_kept_in_long_steps_tells_nothing_until_its_step_is_over, 0, 3);
	tcase_add_test(t, each_allocation_may_fail);
}

int main(void)
{
	return run_case("store: ledger", add);
}

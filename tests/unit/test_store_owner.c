/* tests/unit/test_store_owner.c - a store that is somebody else's, who may put in it what he likes: no link in it is followed, and what is made in it is his. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "store/folder.h"
#include "store/snapshots.h"
#include "store/sqlite_vfs.h"
#include "unit/store_support.h"

#define OWNER 65534
#define STRANGER 65533
#define BYTES 100000

/* In the place of the C library's: a kernel before 5.6 has no openat2. */
static bool old_kernel;
static unsigned int opened_at_once;

/* It passes on six, as the C library's does, however many there are. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	static long (*real)(long number, ...);
	long a[6];
	va_list ap;
	long rc;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2 && old_kernel) {
		errno = ENOSYS;
		return -1;
	}
	if (!real)
		real = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
	rc = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	opened_at_once += number == SYS_openat2 && rc >= 0;
	return rc;
}

static const struct pt_store_options create = { .create = true, .faults = "" };
static struct pt_store *store;
static const char *dir;
static char *path, *outside;            /* the store, and what is not of it */
static int at, out;                     /* descriptors of them */
static uint8_t bytes[BYTES];

static void setup(void)
{
	dir = dir_make();
	path = path_in(dir, "store");
	outside = path_in(dir, "outside");
	MUST(mkdir(path, 0750) == 0 && mkdir(outside, 0750) == 0);
	if (geteuid() == 0)
		MUST(chown(path, OWNER, OWNER) == 0);
	at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	out = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(at >= 0 && out >= 0);
	pattern_fill(bytes, sizeof(bytes), 1);
	old_kernel = false;
	MUST_WORK(pt_store_open(path, &create, &store));
}

static void teardown(void)
{
	pt_store_close(store);
	close(at);
	close(out);
	free(path);
	free(outside);
	dir_remove(dir);
}

static void close_store(void)
{
	pt_store_close(store);
	store = NULL;
}

/* Sealed here, and told of as verified. */
static struct pt_blob_ref sealed(void)
{
	struct pt_blob_ref ref = blob_new(PT_BLOB_PLAIN);
	void *blob;

	MUST_WORK(pt_data_create(&store->data, &ref, BYTES, &blob));
	MUST_WORK(pt_data_write(&store->data, blob, bytes, BYTES, 0));
	pt_data_hashed(&store->data, blob);
	MUST_WORK(pt_data_seal(&store->data, blob, BYTES));
	return ref;
}

/* "objects/xx" of a blob. */
static void bucket_of(const struct pt_blob_ref *ref, char ret[16])
{
	char hex[PT_ID_HEX_LEN + 1];

	pt_id_hex(&ref->id, hex);
	snprintf(ret, 16, "objects/%.2s", hex);
}

static size_t entries;
static uid_t owner;

static int count_one(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	(void)name, (void)st, (void)type, (void)ftw;
	entries++;
	return 0;
}

static int owned(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
	(void)type, (void)ftw;
	entries++;
	if (st->st_uid != owner || st->st_gid != owner)
		ck_abort_msg("%s belongs to %u:%u", name, (unsigned int)st->st_uid, (unsigned int)st->st_gid);
	return 0;
}

static size_t below(const char *folder)
{
	entries = 0;
	MUST(nftw(folder, count_one, 16, FTW_PHYS) == 0);
	return entries - 1;
}

/* The name is put aside, and leads out of the store. */
static void plant(const char *name, const char *to)
{
	MUST(renameat(at, name, at, "aside") == 0 || errno == ENOENT);
	MUST(symlinkat(to, at, name) == 0);
}

static void take_back(const char *name)
{
	MUST(unlinkat(at, name, 0) == 0);
	MUST(renameat(at, "aside", at, name) == 0 || errno == ENOENT);
}

#define MUST_NAME(name) ck_assert_msg(strstr(pt_fail_sentence(), name) && strstr(pt_fail_sentence(), "symbolic link"), "%s", pt_fail_sentence())

START_TEST(what_root_makes_in_a_store_is_the_owners)
{
	struct pt_blob_ref ref;
	uint64_t swept;
	bool made;

	if (geteuid() != 0)
		return;                 /* nobody else could give it away */
	owner = OWNER;
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 5; k++)
			ref = sealed();
		MUST_WORK(meta_put(&store->meta, "k", &i, sizeof(i), NULL));
		MUST_WORK(pt_data_pin(&store->data, &ref, 1));
		MUST_WORK(pt_data_sweep(&store->data, &swept));
		MUST_WORK(pt_snapshots_make(store, &made));
		ck_assert(made);
		entries = 0;
		MUST(nftw(path, owned, 16, FTW_PHYS) == 0);
		/* The folders, the index with its log, shared memory and reserve, a snapshot, the ledger, the pins, what is staged by us. */
		ck_assert_uint_ge(entries, 6 + 4 + 1 + 1 + 1 + 1 + 5);
		close_store();
		entries = 0;
		MUST(nftw(path, owned, 16, FTW_PHYS) == 0);
		MUST_WORK(pt_store_open(path, &create, &store));
	}
}
END_TEST

/* Of a root without a store of another's: as before. */
START_TEST(in_its_own_store_everybody_makes_what_is_his)
{
	char *own = path_in(dir, "own");

	close_store();
	MUST_WORK(pt_store_open(own, &create, &store));
	sealed();
	owner = geteuid();
	entries = 0;
	if (getegid() == owner)
		MUST(nftw(own, owned, 16, FTW_PHYS) == 0);
	free(own);
}
END_TEST

static const char *const folders[] = { "objects", "staging", "pins" };

START_TEST(a_link_in_place_of_a_folder_is_refused)
{
	struct pt_blob_ref ref = sealed();

	close_store();
	plant(folders[_i], outside);
	MUST_FAIL(ELOOP, pt_store_open(path, &create, &store));
	MUST_NAME(folders[_i]);
	ck_assert_uint_eq(below(outside), 0);
	take_back(folders[_i]);
	MUST_WORK(pt_store_open(path, &create, &store));
	MUST_WORK(blob_get(&store->data, &ref, bytes, BYTES, 0));
}
END_TEST

/* What is open stays what it was. */
START_TEST(a_link_that_comes_while_the_store_is_open_leads_nowhere)
{
	struct pt_blob_ref ref = sealed(), second = blob_new(PT_BLOB_PLAIN);
	uint64_t swept;
	void *blob;

	MUST_WORK(pt_data_create(&store->data, &second, BYTES, &blob));
	MUST_WORK(pt_data_write(&store->data, blob, bytes, BYTES, 0));
	plant(folders[_i], outside);
	MUST_WORK(pt_data_seal(&store->data, blob, BYTES));
	MUST_WORK(pt_data_pin(&store->data, &ref, 1));
	MUST_WORK(blob_get(&store->data, &second, bytes, BYTES, 0));
	MUST_WORK(pt_data_sweep(&store->data, &swept));
	MUST_WORK(pt_data_remove(&store->data, &second));
	close_store();
	ck_assert_uint_eq(below(outside), 0);
}
END_TEST

static int none(void *ctx, const struct pt_blob_ref *ref, uint64_t size, int64_t mtime_ns, bool staged, bool live)
{
	(void)ctx, (void)ref, (void)size, (void)mtime_ns, (void)staged, (void)live;
	return 0;
}

START_TEST(a_link_in_place_of_a_bucket_is_refused_by_all_that_would_follow_it)
{
	struct pt_blob_ref ref = sealed(), other = ref;
	uint64_t size;
	void *blob;
	char bucket[16];

	old_kernel = _i;
	close_store();
	MUST_WORK(pt_store_open(path, &create, &store));       /* with none of them open */
	bucket_of(&ref, bucket);
	/* What it leads to holds the very file. */
	MUST(renameat(at, bucket, out, "theirs") == 0 && symlinkat("../../outside/theirs", at, bucket) == 0);
	other.id.b[15] ^= 1;
	MUST_FAIL(ELOOP, pt_data_stat(&store->data, &ref, &size));
	MUST_NAME(bucket);
	MUST_FAIL(ELOOP, blob_get(&store->data, &ref, bytes, BYTES, 0));
	MUST_NAME(bucket);
	MUST_FAIL(ELOOP, pt_data_remove(&store->data, &ref));
	MUST_NAME(bucket);
	MUST_FAIL(ELOOP, pt_data_list(&store->data, none, NULL));
	MUST_NAME(bucket);
	MUST_FAIL(ELOOP, pt_data_create(&store->data, &other, BYTES, &blob));
	MUST_NAME(bucket);
	ck_assert_uint_eq(below(outside), 2);
}
END_TEST

/* They were never of use, but what they lead to may be all that is left. */
START_TEST(a_store_with_links_in_place_of_folders_of_objects_gets_no_new_index)
{
	struct pt_blob_ref ref = sealed();
	char bucket[16];

	close_store();
	bucket_of(&ref, bucket);
	MUST(renameat(at, bucket, out, "theirs") == 0 && symlinkat("../../outside/theirs", at, bucket) == 0);
	MUST(unlinkat(at, "index.db", 0) == 0);
	MUST_FAIL(EIO, pt_store_open(path, &create, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "no index"));
	ck_assert(faccessat(at, "index.db", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}
END_TEST

START_TEST(an_object_is_read_also_where_the_kernel_cannot_open_it_in_one_call)
{
	struct pt_blob_ref ref = sealed();
	uint8_t read[BYTES];

	old_kernel = _i;
	close_store();
	MUST_WORK(pt_store_open(path, &create, &store));
	opened_at_once = 0;
	MUST_WORK(blob_get(&store->data, &ref, read, BYTES, 0));
	ck_assert(memcmp(read, bytes, BYTES) == 0 && opened_at_once == (old_kernel ? 0 : 1));
}
END_TEST

START_TEST(a_link_in_place_of_an_object_is_refused)
{
	struct pt_blob_ref ref = sealed();
	char bucket[16], hex[PT_ID_HEX_LEN + 1], name[80];

	old_kernel = _i;
	close_store();
	MUST_WORK(pt_store_open(path, &create, &store));
	bucket_of(&ref, bucket);
	pt_id_hex(&ref.id, hex);
	snprintf(name, sizeof(name), "%s/%s.blob", bucket, hex);
	MUST(renameat(at, name, out, "theirs") == 0 && symlinkat("../../../outside/theirs", at, name) == 0);
	MUST_FAIL(ELOOP, blob_get(&store->data, &ref, bytes, BYTES, 0));
	MUST_NAME(hex);
	MUST_WORK(pt_data_remove(&store->data, &ref));         /* the link, not what it leads to */
	ck_assert_uint_eq(below(outside), 1);
}
END_TEST

START_TEST(a_link_among_the_marks_of_processes_is_not_followed)
{
	char name[] = "staging/0123456789abcdef0123456789abcdef", blob[] = "0123456789abcdef0123456789abcdef.blob";
	uint64_t swept;
	bool pinned;
	struct pt_blob_ref ref = sealed();

	MUST(faccessat(out, blob, F_OK, 0) < 0);
	close(openat(out, blob, O_WRONLY | O_CREAT, 0600));
	MUST(symlinkat(outside, at, name) == 0);
	MUST_FAIL(ELOOP, pt_data_sweep(&store->data, &swept));
	MUST_NAME("0123456789abcdef");
	ck_assert_int_eq(faccessat(out, blob, F_OK, 0), 0);
	memcpy(name, "pins///", 7);
	MUST(symlinkat("../../outside/0123456789abcdef0123456789abcdef.blob", at, name) == 0);
	MUST_FAIL(ELOOP, pt_data_pinned(&store->data, &ref, 1, &pinned));
	MUST_NAME("0123456789abcdef");
	ck_assert_int_eq(faccessat(out, blob, F_OK, 0), 0);
}
END_TEST

START_TEST(a_link_in_place_of_the_snapshots_is_refused)
{
	struct pt_snapshot *all = NULL;
	size_t count;
	bool made;

	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	if (_i) {
		MUST_WORK(pt_snapshots_make(store, &made));
		MUST_WORK(meta_put(&store->meta, "k", "w", 1, NULL));
	}
	plant("snapshots", outside);
	MUST_FAIL(ELOOP, pt_snapshots_make(store, &made));
	MUST_NAME("snapshots");
	MUST_FAIL(ELOOP, pt_snapshots_list(store->dirfd, &all, &count));
	MUST_NAME("snapshots");
	ck_assert_uint_eq(below(outside), 0);
}
END_TEST

START_TEST(a_link_in_place_of_a_snapshot_is_none)
{
	struct pt_snapshot *all = NULL;
	size_t count;
	bool made;

	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	MUST_WORK(pt_snapshots_make(store, &made));
	MUST(symlinkat("/etc/passwd", at, "snapshots/index-20991201T000000Z-9.db") == 0);
	MUST_WORK(pt_snapshots_list(store->dirfd, &all, &count));
	ck_assert_uint_eq(count, 1);
	free(all);
}
END_TEST

START_TEST(a_link_in_place_of_the_index_or_of_what_is_beside_it_is_refused)
{
	static const char *const names[] = { "index.db", "index.db-wal", "index.db-shm" };
	char *theirs = path_in(outside, "index.db");
	struct stat before, after;

	close_store();
	MUST_WORK(pt_store_open(outside, &create, &store));    /* another store, which the link leads to */
	close_store();
	MUST(stat(theirs, &before) == 0);
	plant(names[_i], theirs);
	MUST_FAIL(ELOOP, pt_store_open(path, &create, &store));
	MUST_NAME(names[_i]);
	MUST(stat(theirs, &after) == 0);
	ck_assert(before.st_ino == after.st_ino && before.st_size == after.st_size && before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
		  before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
	take_back(names[_i]);
	MUST_WORK(pt_store_open(path, &create, &store));
	free(theirs);
}
END_TEST

/* A link, or a second name of the same file. */
START_TEST(what_is_in_place_of_the_reserve_keeps_its_size)
{
	struct stat st;
	int fd = openat(out, "theirs", O_RDWR | O_CREAT | O_EXCL, 0600);

	ck_assert_int_eq(write(fd, bytes, 5000), 5000);
	close_store();
	MUST(unlinkat(at, "index.db-reserve", 0) == 0);
	MUST(_i ? linkat(out, "theirs", at, "index.db-reserve", 0) == 0 : symlinkat("../outside/theirs", at, "index.db-reserve") == 0);
	MUST_WORK(pt_store_open(path, &create, &store));
	MUST(fstat(fd, &st) == 0);
	ck_assert(st.st_size == 5000 && st.st_blocks <= 16);
	close(fd);
}
END_TEST

/* SQLite's rollback journal may name another file, which it removes when it has rolled back (the format is in SQLite's fileformat2.html, "The Rollback Journal"). */
static void plant_journal(const char *names)
{
	static const uint8_t magic[8] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
	uint8_t b[512 + 4 + 256 + 16] = { 0 };
	uint32_t len = (uint32_t)strlen(names), sum = 0, words[5] = { 0, 0, 0, 512, PT_SQLITE_PAGE }, lock_page = 0x40000000 / PT_SQLITE_PAGE + 1, i;
	uint8_t *p = b + 512;
	struct stat st;
	int fd;

	MUST(fstatat(at, "index.db", &st, 0) == 0 && len < 256);
	words[2] = (uint32_t)(st.st_size / PT_SQLITE_PAGE);
	memcpy(b, magic, 8);
	for (i = 0; i < 5; i++)
		for (int k = 0; k < 4; k++)
			b[8 + i * 4 + (uint32_t)k] = (uint8_t)(words[i] >> (24 - 8 * k));
	for (i = 0; i < len; i++)
		sum += (uint32_t)(int32_t)(char)names[i];
	for (int k = 0; k < 4; k++) {
		p[k] = (uint8_t)(lock_page >> (24 - 8 * k));
		p[4 + len + (uint32_t)k] = (uint8_t)(len >> (24 - 8 * k));
		p[8 + len + (uint32_t)k] = (uint8_t)(sum >> (24 - 8 * k));
	}
	memcpy(p + 4, names, len);
	memcpy(p + 12 + len, magic, 8);
	fd = openat(at, "index.db-journal", O_WRONLY | O_CREAT | O_EXCL, 0600);
	MUST(fd >= 0 && write(fd, b, 512 + 4 + len + 16) == (ssize_t)(512 + 4 + len + 16));
	close(fd);
}

START_TEST(a_journal_that_names_a_file_removes_nothing)
{
	char *victim = path_in(outside, "precious");
	int fd = open(victim, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_eq(write(fd, "bytes", 5), 5);
	close(fd);
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	close_store();
	plant_journal(victim);
	MUST_WORK(pt_store_open(path, &create, &store));
	MUST_WORK(meta_put(&store->meta, "l", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&store->meta), 2);
	ck_assert_int_eq(access(victim, F_OK), 0);
	free(victim);
}
END_TEST

START_TEST(the_way_to_a_store_may_be_a_link)
{
	char *link = path_in(dir, "link"), *through;
	struct pt_blob_ref ref = sealed();
	bool made;

	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	close_store();
	MUST(symlink("store", link) == 0);
	through = pt_asprintf("dir:%s", link);
	MUST_WORK(pt_store_open(through, &create, &store));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
	MUST_WORK(blob_get(&store->data, &ref, bytes, BYTES, 0));
	MUST_WORK(pt_snapshots_make(store, &made));
	ck_assert(made);
	sealed();
	free(through);
	free(link);
}
END_TEST

/* New connections, copies and all else are of the store that was opened, whatever has its path by now. */
START_TEST(another_store_at_the_same_path_gets_nothing)
{
	char *moved = path_in(dir, "moved");
	struct pt_store *other;
	struct pt_blob_ref ref;
	size_t before;
	bool made;

	MUST(rename(path, moved) == 0);
	MUST_WORK(pt_store_open(path, &create, &other));
	pt_store_close(other);
	before = below(path);
	MUST_WORK(meta_put(&store->meta, "k", "v", 1, NULL));
	ck_assert_uint_eq(meta_count(&store->meta), 1);
	ref = sealed();
	MUST_WORK(pt_data_pin(&store->data, &ref, 1));
	MUST_WORK(pt_snapshots_make(store, &made));
	ck_assert(made);
	ck_assert_uint_eq(below(path), before);
	MUST(faccessat(at, "snapshots", F_OK, 0) == 0);
	free(moved);
}
END_TEST

START_TEST(root_goes_into_no_strangers_folder)
{
	if (geteuid() != 0)
		return;                 /* who has no more rights than the stranger lets him have */
	close_store();
	MUST(fchownat(at, "staging", STRANGER, STRANGER, AT_SYMLINK_NOFOLLOW) == 0);
	MUST_FAIL(EPERM, pt_store_open(path, &create, &store));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "staging"));
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "chown -R"));
	/* Its own is what it has made in stores before it gave things away. */
	MUST(fchownat(at, "staging", 0, 0, AT_SYMLINK_NOFOLLOW) == 0);
	MUST_WORK(pt_store_open(path, &create, &store));
	sealed();
}
END_TEST

/* Whoever can put another's folder where root has just made one does not get it for his own. */
START_TEST(only_what_was_just_made_is_given_away)
{
	static const mode_t modes[] = { 0750, 01777, 0770, 02750 };
	struct stat st;
	int fd;

	if (geteuid() != 0)
		return;                 /* nobody else could give it away */
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		MUST(mkdirat(at, "new", 0700) == 0);
		fd = openat(at, "new", O_RDONLY | O_DIRECTORY);
		MUST(fchmod(fd, modes[i]) == 0);
		ck_assert_int_eq(pt_folder_owner_set(at, fd), 0);
		MUST(fstat(fd, &st) == 0);
		ck_assert_uint_eq(st.st_uid, (modes[i] & 01022) ? 0 : OWNER);
		close(fd);
		MUST(unlinkat(at, "new", AT_REMOVEDIR) == 0);
	}
	MUST(mkdirat(at, "new", 0700) == 0 && fchownat(at, "new", STRANGER, STRANGER, 0) == 0);
	fd = openat(at, "new", O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(pt_folder_owner_set(at, fd), 0);
	MUST(fstat(fd, &st) == 0);
	ck_assert_uint_eq(st.st_uid, STRANGER);
	close(fd);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("owner");

	unsetenv("PTIO_FAULTS");
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, what_root_makes_in_a_store_is_the_owners);
	tcase_add_test(tcase, in_its_own_store_everybody_makes_what_is_his);
	tcase_add_loop_test(tcase, a_link_in_place_of_a_folder_is_refused, 0, 3);
	tcase_add_loop_test(tcase, a_link_that_comes_while_the_store_is_open_leads_nowhere, 0, 3);
	tcase_add_loop_test(tcase, a_link_in_place_of_a_bucket_is_refused_by_all_that_would_follow_it, 0, 2);
	tcase_add_loop_test(tcase, a_link_in_place_of_an_object_is_refused, 0, 2);
	tcase_add_test(tcase, a_store_with_links_in_place_of_folders_of_objects_gets_no_new_index);
	tcase_add_loop_test(tcase, an_object_is_read_also_where_the_kernel_cannot_open_it_in_one_call, 0, 2);
	tcase_add_test(tcase, a_link_among_the_marks_of_processes_is_not_followed);
	tcase_add_loop_test(tcase, a_link_in_place_of_the_snapshots_is_refused, 0, 2);
	tcase_add_test(tcase, a_link_in_place_of_a_snapshot_is_none);
	tcase_add_loop_test(tcase, a_link_in_place_of_the_index_or_of_what_is_beside_it_is_refused, 0, 3);
	tcase_add_loop_test(tcase, what_is_in_place_of_the_reserve_keeps_its_size, 0, 2);
	tcase_add_test(tcase, a_journal_that_names_a_file_removes_nothing);
	tcase_add_test(tcase, the_way_to_a_store_may_be_a_link);
	tcase_add_test(tcase, another_store_at_the_same_path_gets_nothing);
	tcase_add_test(tcase, root_goes_into_no_strangers_folder);
	tcase_add_test(tcase, only_what_was_just_made_is_given_away);
	return run_suite("store: of another owner", &tcase, 1);
}

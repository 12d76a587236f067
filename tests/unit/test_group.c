/* Claims of groups: parts of many keys, and the file that shows them, are published by one batch or not at all; whole tensors wait for the sets of their group. */
#include "manifest_help.h"

#define KEYS 10000

static char dir[256];
static struct pt_repo *repo;
static uint64_t parent;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
	parent = help_key(repo, "d");
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static int begin_nothing(void *ctx, bool *ret_all)
{
	(void)ctx;
	*ret_all = true;
	return 0;
}

static int file_none(void *ctx, bool finishes, struct pt_group_file *ret_file, bool *ret_writes)
{
	(void)ret_file;
	*ret_writes = false;
	*(bool *)ctx = finishes;
	return 0;
}

static const struct pt_group_calls calls = { begin_nothing, file_none };

static void add(struct pt_repo *to, struct pt_group *g, const char *name, enum pt_written written, int rank, int size, const char *step, uint64_t seed)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_part part;

	help_part(to, written, PT_DTYPE_U8, &shape, rank, size, size > 1 ? 0 : -1, step, seed, &part);
	check_ok(pt_group_add(g, name, &part));
}

/* What rank `rank` of 2 writes: shards of a and b, and rank 0 the whole c. */
static int rank_group(struct pt_repo *to, int rank, const char *step, uint64_t seed, bool *ret_finishes)
{
	struct pt_group *g;
	int rc;

	check_ok(pt_group_create(to, parent, &g));
	add(to, g, "a", PT_WRITTEN_TP_SHARD, rank, 2, step, seed);
	add(to, g, "b", PT_WRITTEN_TP_SHARD, rank, 2, step, seed + 10);
	if (rank == 0)
		add(to, g, "c", PT_WRITTEN_FULL, 0, 1, step, seed + 20);
	else
		check_ok(pt_group_follow(g, "c"));
	rc = pt_group_publish(g, &calls, ret_finishes);
	pt_group_free(g);
	return rc;
}

static uint64_t revision(const char *name)
{
	struct pt_manifest *m;
	struct pt_node n;
	uint64_t r;
	int rc;

	rc = pt_node_lookup(repo, parent, name, &n);
	if (rc == -ENOENT)
		return 0;
	check_ok(rc);
	rc = pt_manifest_get(repo, n.id, "", &m);
	pt_node_done(&n);
	if (rc == -ENOENT)
		return 0;
	check_ok(rc);
	r = m->revision;
	pt_manifest_unref(m);
	return r;
}

static int count_one(void *ctx, const struct pt_pending *p)
{
	(void)p;
	++*(unsigned *)ctx;
	return 0;
}

static unsigned pendings(void)
{
	unsigned count = 0;

	check_ok(pt_pending_list(repo, 0, count_one, &count));
	return count;
}

static int count_entry(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	(void)name, (void)id, (void)kind;
	++*(unsigned *)ctx;
	return 0;
}

static unsigned entries(void)
{
	unsigned count = 0;

	check_ok(pt_node_list(repo, parent, "", count_entry, &count));
	return count;
}

static int count_blob(void *ctx, const struct pt_blob_ref *blob, uint64_t bytes, int64_t mtime_ns, bool staged, bool live)
{
	(void)blob, (void)bytes, (void)mtime_ns, (void)staged, (void)live;
	++*(unsigned *)ctx;
	return 0;
}

static unsigned blobs(void)
{
	unsigned count = 0;

	check_ok(pt_data_list(&pt_repo_store(repo)->data, count_blob, &count));
	return count;
}

/* Loops: either rank first. */
START_TEST(whole_tensors_wait_for_the_sets_beside_them)
{
	bool finishes = true;

	check_ok(rank_group(repo, _i, NULL, 1, &finishes));
	ck_assert(!finishes);
	ck_assert(!revision("a") && !revision("b") && !revision("c"));
	ck_assert_uint_eq(pendings(), _i == 0 ? 3 : 2);
	check_ok(rank_group(repo, 1 - _i, NULL, 1, &finishes));
	ck_assert(finishes);
	ck_assert(revision("a") == 1 && revision("b") == 1 && revision("c") == 1);
	ck_assert_uint_eq(pendings(), 0);
	/* The next round leaves what is there alone until it is complete; rounds of other steps are nothing to it. */
	check_ok(rank_group(repo, 0, "7", 2, &finishes));
	check_ok(rank_group(repo, 1, "8", 3, &finishes));
	ck_assert(!finishes);
	ck_assert(revision("a") == 1 && revision("c") == 1);
	check_ok(rank_group(repo, 1, "7", 2, &finishes));
	ck_assert(finishes);
	ck_assert(revision("a") == 2 && revision("b") == 2 && revision("c") == 2);
	ck_assert_uint_eq(pendings(), 2);
}
END_TEST

START_TEST(one_bad_name_leaves_nothing_visible)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0644 }, n;
	bool finishes;
	unsigned before;

	check_ok(pt_node_create(repo, parent, "b", &attrs, &n));
	pt_node_done(&n);
	before = blobs();
	check_err(rank_group(repo, 0, NULL, 1, &finishes), ENOTDIR);
	ck_assert_ptr_nonnull(strstr(pt_fail_sentence(), "b: "));
	ck_assert_uint_eq(entries(), 1);
	ck_assert_uint_eq(pendings(), 0);
	ck_assert_uint_eq(blobs(), before);
}
END_TEST

static const char *const faults[] = { "meta.commit:error=EIO:after=1", "meta.commit:error=ENOSPC:after=1", "meta.get:error=EIO:after=9", "meta.commit:crash:after=1",
				      "meta.commit:crash-after:after=1" };

/* The first commit of a process takes a block of ids; the second is the group's. */
START_TEST(a_failure_or_crash_at_the_commit_leaves_all_or_nothing)
{
	bool finishes, whole;
	pid_t pid;
	int status;

	check_ok(rank_group(repo, 1, NULL, 1, &finishes));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct pt_repo *other = help_open(dir, faults[_i], NULL);

		_exit(rank_group(other, 0, NULL, 1, &finishes) < 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	ck_assert(WIFSIGNALED(status) ? strstr(faults[_i], "crash") != NULL : WEXITSTATUS(status) == 0);
	whole = revision("a");
	ck_assert_int_eq(whole, strstr(faults[_i], "crash-after") != NULL);
	ck_assert(!revision("b") == !whole && !revision("c") == !whole);
	ck_assert_uint_eq(pendings(), whole ? 0 : 2);
	ck_assert_uint_eq(entries(), whole ? 3 : 2);
	check_ok(rank_group(repo, 0, NULL, 1, &finishes));
	if (!whole)
		ck_assert(finishes && revision("a") == 1 && revision("c") == 1);
}
END_TEST

/* Both ranks' files of 10,000 tensors, each one batch. */
START_TEST(ten_thousand_tensors_are_one_batch)
{
	struct pt_repo_counters before, after;
	struct pt_group *g;
	char name[32];
	bool finishes;
	int rank, i;

	pt_repo_close(repo);            /* in memory: 20,000 objects made durable one by one take their time */
	repo = help_open("mem:256M", NULL, NULL);
	parent = help_key(repo, "d");
	pt_repo_counters(repo, &before);
	for (rank = 0; rank < 2; rank++) {
		check_ok(pt_group_create(repo, parent, &g));
		for (i = 0; i < KEYS; i++) {
			snprintf(name, sizeof(name), "layers.%d.weight", i);
			add(repo, g, name, PT_WRITTEN_TP_SHARD, rank, 2, NULL, (uint64_t)i);
		}
		check_ok(pt_group_publish(g, &calls, &finishes));
		ck_assert_int_eq(finishes, rank == 1);
		pt_group_free(g);
	}
	pt_repo_counters(repo, &after);
	ck_assert_uint_eq(after.commits - before.commits, KEYS);
	ck_assert_uint_eq(entries(), KEYS);
	ck_assert_uint_eq(pendings(), 0);
	ck_assert_uint_eq(revision("layers.9999.weight"), 1);
}
END_TEST

/* The group is made, looked at and published with one allocation after the other failing: nothing shows until it works. */
START_TEST(each_allocation_may_fail)
{
	struct pt_shape shape = help_shape2(4, 4);
	bool finishes, done = false;
	struct pt_group *g;
	struct pt_part part[2];
	int64_t n;
	int rc;

	for (n = 0; !done; n++) {
		ck_assert_int_lt(n, 2000);
		help_part(repo, PT_WRITTEN_TP_SHARD, PT_DTYPE_U8, &shape, 0, 2, 0, NULL, 1, &part[0]);
		help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 2, &part[1]);
		pt_alloc_fail_after(n);
		rc = pt_group_create(repo, parent, &g);
		if (rc < 0) {
			pt_alloc_fail_after(-1);
			pt_object_discard(repo, &part[0]);
			pt_object_discard(repo, &part[1]);
			continue;
		}
		rc = pt_group_add(g, "a", &part[0]);
		if (!rc)
			rc = pt_group_add(g, "c", &part[1]);
		else
			pt_object_discard(repo, &part[1]);
		if (!rc)
			rc = pt_group_publish(g, &calls, &finishes);
		pt_alloc_fail_after(-1);
		pt_group_free(g);
		if (rc < 0) {
			ck_assert_int_eq(rc, -ENOMEM);
			ck_assert_uint_eq(entries(), 0);
			ck_assert_uint_eq(pendings(), 0);
		}
		done = !rc;
	}
	ck_assert_uint_eq(pendings(), 2);
	ck_assert_uint_eq(blobs(), 2);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("group");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, whole_tensors_wait_for_the_sets_beside_them, 0, 2);
	tcase_add_test(tc, one_bad_name_leaves_nothing_visible);
	tcase_add_loop_test(tc, a_failure_or_crash_at_the_commit_leaves_all_or_nothing, 0, (int)(sizeof(faults) / sizeof(faults[0])));
	tcase_add_test(tc, ten_thousand_tensors_are_one_batch);
	tcase_add_test(tc, each_allocation_may_fail);
	return run_suite("manifest: group", &tc, 1);
}

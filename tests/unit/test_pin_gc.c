/* Pins and collection: across processes, orphans, expiry, and a crash at every operation of a commit. */
#include <signal.h>
#include <unistd.h>

#include "manifest/internal.h"
#include "manifest_help.h"

static char dir[256];
static struct pt_repo *repo;
static uint64_t node;
static const struct pt_repo_options keen = { .verify = PT_VERIFY_TOUCH, .orphan_grace_ns = 1 };

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, &keen);
	node = help_key(repo, "w");
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

struct child {
	int (*fn)(struct pt_repo *mine);
};

static int in_child(void *ctx)
{
	struct pt_repo *mine = help_open(dir, NULL, &keen);
	int ret = ((struct child *)ctx)->fn(mine);

	pt_repo_close(mine);
	return ret;
}

static int run(int (*fn)(struct pt_repo *mine))
{
	struct child child = { .fn = fn };

	return help_join(help_spawn(in_child, &child));
}

/* Collects; returns how many objects and orphans went, plus 10 for each that pins kept. */
static int collect(struct pt_repo *mine)
{
	struct pt_gc_stats stats;

	check_ok(pt_gc_run(mine, &stats));
	return (int)(stats.objects_removed + stats.orphans_removed + 10 * stats.kept_pinned);
}

static int upsert_and_collect(struct pt_repo *mine)
{
	struct pt_shape shape = help_shape2(20, 20);

	help_store(mine, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 2);
	return collect(mine);
}

START_TEST(pinned_reader_keeps_its_bytes_across_upsert_and_collection)
{
	struct pt_shape shape = help_shape2(20, 20);
	struct pt_manifest *m, *later;

	for (int r = 0; r < 3; r++)
		help_store(repo, node, PT_WRITTEN_WRITER, &shape, r, 3, 0, NULL, 1);
	check_ok(pt_manifest_get(repo, node, "", &m));
	check_ok(pt_manifest_pin(repo, m));
	check_ok(pt_manifest_pin(repo, m));
	ck_assert_int_eq(run(upsert_and_collect), 30);
	help_check_bytes(repo, m, 1);
	check_err(pt_manifest_pin(repo, m), ESTALE);
	pt_manifest_unpin(repo, m);
	ck_assert_int_eq(run(collect), 30);
	help_check_bytes(repo, m, 1);
	pt_manifest_unpin(repo, m);
	ck_assert_int_eq(run(collect), 3);
	pt_manifest_unref(m);
	check_ok(pt_manifest_get(repo, node, "", &later));
	check_ok(pt_manifest_pin(repo, later));
	help_check_bytes(repo, later, 2);
	pt_manifest_unpin(repo, later);
	pt_manifest_unref(later);
	ck_assert_uint_eq(help_blobs(repo), 1);
}
END_TEST

static int die_pinned(struct pt_repo *mine)
{
	struct pt_manifest *m;

	check_ok(pt_manifest_get(mine, node, "", &m));
	check_ok(pt_manifest_pin(mine, m));
	raise(SIGKILL);
	return 0;
}

START_TEST(pins_die_with_their_process)
{
	struct pt_shape shape = help_shape2(20, 20);

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	ck_assert_int_eq(run(die_pinned), 1000 + SIGKILL);
	ck_assert_int_eq(upsert_and_collect(repo), 1);
}
END_TEST

static int leave_orphan(struct pt_repo *mine)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_part part;

	help_part(mine, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 1, &part);
	raise(SIGKILL);
	return 0;
}

static int leave_staged(struct pt_repo *mine)
{
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_object_writer *w;

	spec.local = help_shape2(4, 4);
	check_ok(pt_object_writer_create(mine, &spec, &w));
	raise(SIGKILL);
	return 0;
}

START_TEST(what_dead_writers_leave_is_swept_and_what_live_ones_hold_is_not)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_object_spec spec = { .key = "k", .dtype = PT_DTYPE_U8, .written = PT_WRITTEN_FULL, .part = { 0, 1, -1 } };
	struct pt_object_writer *w;
	struct pt_gc_stats stats;
	struct pt_part part;
	uint64_t revision;

	ck_assert_int_eq(run(leave_orphan), 1000 + SIGKILL);
	ck_assert_int_eq(run(leave_staged), 1000 + SIGKILL);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 1, &part);
	spec.local = shape;
	check_ok(pt_object_writer_create(repo, &spec, &w));
	ck_assert_int_eq(run(collect), 1);
	ck_assert_uint_eq(help_blobs(repo), 2);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.orphans_removed + stats.staged_removed, 0);
	check_ok(help_commit(repo, node, &part, false, &revision));
	pt_object_writer_abort(w);
	ck_assert_int_eq(run(collect), 0);
	ck_assert_uint_eq(help_blobs(repo), 1);
}
END_TEST

START_TEST(orphans_younger_than_the_grace_stay)
{
	struct pt_gc_stats stats;

	ck_assert_int_eq(run(leave_orphan), 1000 + SIGKILL);
	pt_repo_close(repo);
	repo = help_open(dir, NULL, NULL);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.orphans_removed, 0);
	ck_assert_uint_eq(help_blobs(repo), 1);
}
END_TEST

START_TEST(idle_pending_sets_expire)
{
	struct pt_repo_options options = { .pending_ttl_ns = (int64_t)3600 * 1000000000 };
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_gc_stats stats;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 3, 0, NULL, 1);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 3, 0, NULL, 1);
	pt_repo_close(repo);
	repo = help_open(dir, NULL, &options);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.pending_expired, 0);
	pt_repo_close(repo);
	options.pending_ttl_ns = 1;
	repo = help_open(dir, NULL, &options);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.pending_expired, 1);
	ck_assert_uint_eq(stats.objects_removed, 2);
	ck_assert_uint_eq(help_blobs(repo), 0);
	check_ok(pt_node_rmdir(repo, PT_NODE_ROOT, "w"));
}
END_TEST

/* As if the clock had been put forward so far since the store was opened. */
static void set_clock(int64_t forward_ns)
{
	repo->clock_ahead_ns -= forward_ns;
}

START_TEST(a_clock_that_is_put_forward_makes_no_pending_set_old)
{
	struct pt_repo_options options = { .pending_ttl_ns = INT64_C(100) * 1000000 };
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_gc_stats stats;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 3, 0, NULL, 1);
	pt_repo_close(repo);
	repo = help_open(dir, NULL, &options);
	usleep(120000);                         /* by the clock it is old now, */
	set_clock(INT64_C(3600) * 1000000000);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.pending_expired, 0);
	usleep(120000);                         /* and since the clock was set, too */
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.pending_expired, 1);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 3, 0, NULL, 1);
	usleep(120000);
	set_clock(-INT64_C(3600) * 1000000000); /* back: whoever wrote it did so before that, at a later time perhaps */
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.pending_expired, 1);
}
END_TEST

/* The set is idle when the collector reads it, and gets a part before it is dropped. */
static int part_then_expire(void *ctx, const struct pt_pending *p)
{
	struct pt_shape shape = help_shape2(6, 4);

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 3, 0, NULL, 1);
	*(int *)ctx = pt_pending_expire(repo, p);
	return 1;
}

START_TEST(set_that_gets_a_part_meanwhile_does_not_expire)
{
	struct pt_shape shape = help_shape2(6, 4);
	struct pt_manifest *m;
	int rc = 0;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 3, 0, NULL, 1);
	check_ok(pt_pending_list(repo, node, part_then_expire, &rc));
	check_err(rc, ENOENT);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &shape, 2, 3, 0, NULL, 1), 1);
	check_ok(pt_manifest_get(repo, node, "", &m));
	check_ok(pt_manifest_pin(repo, m));
	help_check_bytes(repo, m, 1);
	pt_manifest_unpin(repo, m);
	pt_manifest_unref(m);
}
END_TEST

START_TEST(memory_store_keeps_the_same_rules)
{
	struct pt_shape shape = help_shape2(20, 20);
	struct pt_repo *mem = help_open("mem:1M", NULL, &keen);
	struct pt_manifest *m;
	struct pt_part part;

	node = help_key(mem, "w");
	help_store(mem, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	check_ok(pt_manifest_get(mem, node, "", &m));
	check_ok(pt_manifest_pin(mem, m));
	help_part(mem, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 1, &part);
	ck_assert_int_eq(upsert_and_collect(mem), 10);
	help_check_bytes(mem, m, 1);
	pt_manifest_unpin(mem, m);
	pt_manifest_unref(m);
	ck_assert_int_eq(collect(mem), 1);
	pt_object_discard(mem, &part);
	ck_assert_uint_eq(help_blobs(mem), 1);
	pt_repo_close(mem);
}
END_TEST

static int reader_loop(struct pt_repo *mine)
{
	struct pt_manifest *m;
	uint64_t last = 0;

	while (last < 30) {
		check_ok(pt_manifest_get(mine, node, "", &m));
		if (!pt_manifest_pin(mine, m)) {
			ck_assert_uint_ge(m->revision, last);
			last = m->revision;
			help_check_bytes(mine, m, 100 * last);
			pt_manifest_unpin(mine, m);
		}
		pt_manifest_unref(m);
	}
	return 0;
}

static int collector_loop(struct pt_repo *mine)
{
	struct pt_manifest *m;
	uint64_t last = 0;

	while (last < 30) {
		check_ok(pt_manifest_get(mine, node, "", &m));
		last = m->revision;
		pt_manifest_unref(m);
		collect(mine);
	}
	return 0;
}

START_TEST(readers_collectors_and_a_writer_at_once)
{
	struct child reader = { .fn = reader_loop }, collector = { .fn = collector_loop };
	struct pt_shape shape = help_shape2(50, 60);
	pid_t pid[4];

	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 100);
	for (int i = 0; i < 4; i++)
		pid[i] = help_spawn(in_child, i % 2 ? &collector : &reader);
	for (uint64_t r = 2; r <= 30; r++)
		for (int rank = 0; rank < 2; rank++)
			help_store(repo, node, PT_WRITTEN_WRITER, &shape, rank, 2, 0, NULL, 100 * r);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(help_join(pid[i]), 0);
	collect(repo);
	ck_assert_uint_eq(help_blobs(repo), 2);
}
END_TEST

/* A commit of four parts over an old revision, by a process that a rule of the fault layer ends. */
static int faulty_commit(void *ctx)
{
	struct pt_shape shape = help_shape2(8, 16);
	struct pt_store_options so = { .faults = ctx };
	struct pt_gc_stats stats;
	struct pt_store *store;
	struct pt_repo *mine;

	check_ok(pt_store_open(dir, &so, &store));
	check_ok(pt_repo_open(store, &keen, &mine));
	for (int rank = 0; rank < 4; rank++)
		help_store(mine, node, PT_WRITTEN_WRITER, &shape, rank, 4, 0, NULL, 20);
	check_ok(pt_gc_run(mine, &stats));
	pt_repo_close(mine);
	return 0;
}

static int drop_pending(void *ctx, const struct pt_pending *p)
{
	check_ok(pt_pending_remove(ctx, p));
	return 0;
}

static void crash_everywhere(const char *op, const char *how)
{
	struct pt_shape shape = help_shape2(8, 16);
	struct pt_gc_stats stats;
	struct pt_manifest *m;
	char faults[64];
	int status;
	bool fresh;
	int news = 0;

	for (int after = 0;; after++) {
		ck_assert_int_lt(after, 400);
		help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 10);
		pt_repo_close(repo);
		snprintf(faults, sizeof(faults), "%s:%s:after=%d", op, how, after);
		status = help_join(help_spawn(faulty_commit, faults));
		repo = help_open(dir, NULL, &keen);
		check_ok(pt_manifest_get(repo, node, "", &m));
		check_ok(pt_manifest_pin(repo, m));
		fresh = m->object_count == 4;
		ck_assert(fresh || m->object_count == 1);
		help_check_bytes(repo, m, fresh ? 20 : 10);
		pt_manifest_unpin(repo, m);
		news += fresh;
		check_ok(pt_pending_list(repo, 0, drop_pending, repo));
		check_ok(pt_gc_run(repo, &stats));
		ck_assert_uint_eq(help_blobs(repo), m->object_count);
		check_ok(pt_gc_run(repo, &stats));
		ck_assert_uint_eq(stats.objects_removed + stats.orphans_removed + stats.staged_removed + stats.kept_pinned, 0);
		help_check_bytes(repo, m, fresh ? 20 : 10);
		pt_manifest_unref(m);
		if (status != 1000 + SIGKILL)
			break;
	}
	ck_assert_int_eq(status, 0);
	ck_assert_int_ge(news, 1);
}

START_TEST(crash_before_any_index_operation)
{
	crash_everywhere("meta.*", "crash");
}
END_TEST

START_TEST(crash_after_any_index_change)
{
	crash_everywhere("meta.commit", "crash-after");
}
END_TEST

START_TEST(crash_before_any_data_operation)
{
	crash_everywhere("data.*", "crash");
}
END_TEST

START_TEST(crash_after_any_data_operation)
{
	crash_everywhere("data.*", "crash-after");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pin_gc");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, pinned_reader_keeps_its_bytes_across_upsert_and_collection);
	tcase_add_test(c, pins_die_with_their_process);
	tcase_add_test(c, what_dead_writers_leave_is_swept_and_what_live_ones_hold_is_not);
	tcase_add_test(c, orphans_younger_than_the_grace_stay);
	tcase_add_test(c, idle_pending_sets_expire);
	tcase_add_test(c, a_clock_that_is_put_forward_makes_no_pending_set_old);
	tcase_add_test(c, set_that_gets_a_part_meanwhile_does_not_expire);
	tcase_add_test(c, memory_store_keeps_the_same_rules);
	tcase_add_test(c, readers_collectors_and_a_writer_at_once);
	tcase_add_test(c, crash_before_any_index_operation);
	tcase_add_test(c, crash_after_any_index_change);
	tcase_add_test(c, crash_before_any_data_operation);
	tcase_add_test(c, crash_after_any_data_operation);
	return run_suite("pin_gc", &c, 1);
}

/* Commits: sets, shards, tags, put and upsert, replacement, racing processes. */
#include "manifest_help.h"

static char dir[256];
static struct pt_repo *repo;
static uint64_t node;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
	node = help_key(repo, "a/w");
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static int count_pending(void *ctx, const struct pt_pending *p)
{
	(void)p;
	++*(unsigned *)ctx;
	return 0;
}

static unsigned pendings(uint64_t of)
{
	unsigned count = 0;

	check_ok(pt_pending_list(repo, of, count_pending, &count));
	return count;
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

START_TEST(full_tensor_commits_at_once)
{
	struct pt_shape shape = help_shape2(37, 53);
	struct pt_manifest *m;

	check_err(pt_manifest_get(repo, node, "", &m), ENOENT);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 7), 1);
	m = pinned();
	ck_assert_uint_eq(m->revision, 1);
	ck_assert_int_eq(m->dtype, PT_DTYPE_U8);
	ck_assert(pt_shape_equal(&m->shape, &shape));
	ck_assert_uint_eq(m->object_count, 1);
	ck_assert_uint_eq(m->objects[0].payload_off % 4096, 0);
	help_check_bytes(repo, m, 7);
	check_ok(pt_object_verify(repo, m, 0, NULL, NULL));
	unpinned(m);
	ck_assert_uint_eq(pendings(0), 0);
}
END_TEST

START_TEST(set_commits_with_its_last_part_in_any_order)
{
	struct pt_shape shape = help_shape2(10, 30);
	static const int order[4] = { 2, 0, 3, 1 };
	struct pt_manifest *m;

	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &shape, order[i], 4, 0, NULL, 70), i == 3 ? 1 : 0);
	ck_assert_uint_eq(pendings(node), 0);
	m = pinned();
	ck_assert_uint_eq(m->object_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(m->objects[i].part.rank, (int)i);
	ck_assert_uint_eq(m->objects[1].box.off[0], 2);
	ck_assert_uint_eq(m->objects[1].box.ext[0], 3);
	help_check_bytes(repo, m, 70);
	unpinned(m);
}
END_TEST

START_TEST(uneven_shards_get_offsets_by_prefix_sums)
{
	static const uint64_t extent[4] = { 10, 0, 27, 5 };
	struct pt_manifest *m;

	for (int i = 3; i >= 0; i--) {
		struct pt_shape shape = help_shape2(6, extent[i]);

		ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_TP_SHARD, &shape, i, 4, 1, NULL, 1), i ? 0 : 1);
	}
	m = pinned();
	ck_assert_uint_eq(m->shape.dim[0], 6);
	ck_assert_uint_eq(m->shape.dim[1], 42);
	ck_assert_uint_eq(m->objects[2].box.off[1], 10);
	ck_assert_uint_eq(m->objects[3].box.off[1], 37);
	ck_assert_int_eq(m->split, PT_SPLIT_UNSET);
	help_check_bytes(repo, m, 1);
	unpinned(m);
}
END_TEST

START_TEST(split_rule_of_shards_is_found_and_recorded_with_the_key)
{
	static const uint64_t chunk[4] = { 10, 10, 10, 7 };
	struct pt_manifest *m;
	struct pt_node n;

	for (int i = 0; i < 4; i++) {
		struct pt_shape shape = help_shape2(chunk[i], 3);

		help_store(repo, node, PT_WRITTEN_TP_SHARD, &shape, i, 4, 0, NULL, 1);
	}
	check_ok(pt_manifest_get(repo, node, "", &m));
	ck_assert_int_eq(m->split, PT_SPLIT_CHUNK);
	pt_manifest_unref(m);
	check_ok(pt_node_get(repo, node, &n));
	ck_assert_int_eq(n.split, PT_SPLIT_CHUNK);
	pt_node_done(&n);
}
END_TEST

START_TEST(parts_that_disagree_never_mix)
{
	struct pt_shape a = help_shape2(8, 8), b = help_shape2(8, 9), c = help_shape2(16, 8);
	struct pt_part part;
	uint64_t revision;

	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &a, 0, 2, 0, NULL, 1), 0);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &b, 1, 2, 0, NULL, 1), 0);         /* another shape */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &a, 1, 2, 1, NULL, 1), 0);         /* another dim */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &a, 1, 3, 0, NULL, 1), 0);         /* another size */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &a, 1, 2, 0, "5", 1), 0);          /* another step */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_TP_SLICE, &a, 1, 2, 0, NULL, 1), 0);       /* another way */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_TP_SHARD, &a, 0, 2, 0, NULL, 1), 0);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_TP_SHARD, &b, 1, 2, 0, NULL, 1), 0);       /* the dim that is not split */
	help_part(repo, PT_WRITTEN_WRITER, PT_DTYPE_I8, &a, 1, 2, 0, NULL, 1, &part);
	check_ok(help_commit(repo, node, &part, false, &revision));                                     /* another dtype */
	ck_assert_uint_eq(revision, 0);
	ck_assert_uint_eq(pendings(node), 9);
	/* The split extent is no part of a shard's identity. */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_TP_SHARD, &c, 1, 2, 0, NULL, 1), 1);
	ck_assert_uint_eq(pendings(node), 8);
	/* And older sets can still be completed. */
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &a, 1, 2, 0, NULL, 1), 2);
	ck_assert_uint_eq(pendings(node), 7);
}
END_TEST

START_TEST(put_refuses_what_has_a_revision_and_upsert_replaces)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_part part;
	uint64_t revision;

	/* Pending siblings never matter. */
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 1);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 2, &part);
	check_ok(help_commit(repo, node, &part, true, &revision));
	ck_assert_uint_eq(revision, 1);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 3, &part);
	check_err(help_commit(repo, node, &part, true, &revision), EEXIST);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 3, &part);
	check_ok(help_commit(repo, node, &part, false, &revision));
	ck_assert_uint_eq(revision, 2);
	help_part(repo, PT_WRITTEN_WRITER, PT_DTYPE_U8, &shape, 1, 2, 0, NULL, 1, &part);
	check_err(help_commit(repo, node, &part, true, &revision), EEXIST);
}
END_TEST

START_TEST(later_part_of_a_rank_replaces_the_pending_one)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_gc_stats stats;
	struct pt_manifest *m;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 100);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 5);
	ck_assert_uint_eq(pendings(node), 1);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 1);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 2, 0, NULL, 5), 1);
	m = pinned();
	help_check_bytes(repo, m, 5);
	unpinned(m);
}
END_TEST

static int take_part(void *ctx, const struct pt_pending *p)
{
	return pt_pending_part(p, 1, ctx);
}

START_TEST(pending_part_is_served_as_its_own_box)
{
	struct pt_shape shape = help_shape2(10, 6);
	struct pt_manifest *m = NULL;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 3, 0, NULL, 40);
	check_ok(pt_pending_list(repo, node, take_part, &m));
	ck_assert(m->pending);
	ck_assert_uint_eq(m->shape.dim[0], 3);
	check_ok(pt_manifest_pin(repo, m));
	help_check_bytes(repo, m, 40);
	pt_manifest_unpin(repo, m);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 3, 0, NULL, 41);
	check_err(pt_manifest_pin(repo, m), ESTALE);
	pt_manifest_unref(m);
}
END_TEST

START_TEST(malformed_parts_are_refused)
{
	struct pt_shape shape = help_shape2(8, 8);
	struct pt_part part;
	uint64_t revision;

#define REFUSED(change) \
	help_part(repo, PT_WRITTEN_WRITER, PT_DTYPE_U8, &shape, 0, 2, 0, NULL, 1, &part); \
	change; \
	check_err(help_commit(repo, node, &part, false, &revision), EINVAL)
	REFUSED(part.object.part.rank = 2);
	REFUSED(part.object.part.size = 0);
	REFUSED(part.object.part.dim = 2);
	REFUSED(part.object.box.off[0] = 4);
	REFUSED(part.dtype = PT_DTYPE_F32);
	REFUSED(part.object.bytes--);
	REFUSED(strcpy(part.scope, "dp=0of2"));
	REFUSED(part.written = 0);
	REFUSED(part.chunk_hashes.len = 0);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 1, &part);
	check_err(help_commit(repo, node + 1000, &part, false, &revision), ENOENT);
}
END_TEST

START_TEST(scopes_are_apart)
{
	struct pt_axis dp = { .kind = PT_AXIS_DP, .rank = 1, .size = 2, .dim = -1 };
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_manifest *m;
	struct pt_part part;
	uint64_t revision;

	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 1, &part);
	part.written = PT_WRITTEN_SCOPE;
	check_ok(pt_layout_add(&part.scope_axes, &dp));
	pt_layout_format(&part.scope_axes, part.scope);
	check_ok(help_commit(repo, node, &part, true, &revision));
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 2), 2);
	check_ok(pt_manifest_get(repo, node, "dp=1of2", &m));
	ck_assert_uint_eq(m->revision, 1);
	ck_assert_int_eq(m->written, PT_WRITTEN_SCOPE);
	pt_manifest_unref(m);
	check_ok(pt_manifest_remove(repo, node, "dp=1of2"));
	check_err(pt_manifest_get(repo, node, "dp=1of2", &m), ENOENT);
	check_ok(pt_manifest_get(repo, node, "", &m));
	pt_manifest_unref(m);
}
END_TEST

START_TEST(touch_and_hide_change_the_current_revision_only)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_manifest *m, *now;

	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 1);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 1, 2, 0, NULL, 1);
	check_ok(pt_manifest_get(repo, node, "", &m));
	check_ok(pt_manifest_touch(repo, m, 0600, 1, 2, 3));
	check_ok(pt_manifest_touch(repo, m, 0640, 1, 2, 4));
	check_ok(pt_manifest_hide(repo, m, 1));
	check_ok(pt_manifest_get(repo, node, "", &now));
	ck_assert_uint_eq(now->mode, 0640);
	ck_assert_int_eq(now->mtime_ns, 4);
	ck_assert(now->objects[1].hidden && !now->objects[0].hidden);
	pt_manifest_unref(now);
	check_ok(pt_manifest_pin(repo, m));
	pt_manifest_unpin(repo, m);
	check_ok(pt_manifest_hide(repo, m, 0));
	check_err(pt_manifest_get(repo, node, "", &now), ENOENT);
	check_err(pt_manifest_hide(repo, m, 0), ESTALE);
	check_err(pt_manifest_pin(repo, m), ESTALE);
	ck_assert_uint_eq(help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 2), 2);
	check_err(pt_manifest_touch(repo, m, 0, 0, 0, 0), ESTALE);
	pt_manifest_unref(m);
}
END_TEST

#define STEPS 8
#define RANKS 4

/* Rank ctx of RANKS, every step, in a process of its own. Returns how many sets it completed. */
static int racing_writer(void *ctx)
{
	struct pt_shape shape = help_shape2(9, 5);
	int rank = (int)(intptr_t)ctx, completed = 0;
	struct pt_repo *mine = help_open(dir, NULL, NULL);
	uint64_t id = help_key(mine, "race/w");
	char step[16];

	for (int s = 0; s < STEPS; s++) {
		snprintf(step, sizeof(step), "%d", s);
		if (help_store(mine, id, PT_WRITTEN_WRITER, &shape, rank, RANKS, 0, step, 10 * (uint64_t)s))
			completed++;
	}
	pt_repo_close(mine);
	return completed;
}

START_TEST(racing_processes_commit_each_set_exactly_once)
{
	pid_t pid[RANKS];
	int completed = 0, n;
	struct pt_manifest *m;

	for (intptr_t i = 0; i < RANKS; i++)
		pid[i] = help_spawn(racing_writer, (void *)i);
	for (int i = 0; i < RANKS; i++) {
		n = help_join(pid[i]);
		ck_assert_int_lt(n, 100);
		completed += n;
	}
	ck_assert_int_eq(completed, STEPS);
	node = help_key(repo, "race/w");
	ck_assert_uint_eq(pendings(node), 0);
	m = pinned();
	ck_assert_uint_eq(m->revision, STEPS);
	help_check_bytes(repo, m, 10 * strtoull(m->step, NULL, 10));
	unpinned(m);
}
END_TEST

static int late_writer(void *ctx)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_repo *mine;

	(void)ctx;
	usleep(200000);
	mine = help_open(dir, NULL, NULL);
	help_store(mine, help_key(mine, "a/w"), PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 2);
	pt_repo_close(mine);
	return 0;
}

START_TEST(wait_sees_a_commit_of_another_process)
{
	struct pt_shape shape = help_shape2(4, 4);
	struct pt_manifest *m;
	pid_t pid;

	check_err(pt_manifest_wait(repo, node, "", 0, 10000000, &m), ETIMEDOUT);
	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	pid = help_spawn(late_writer, NULL);
	check_ok(pt_manifest_wait(repo, node, "", 1, (int64_t)20 * 1000000000, &m));
	ck_assert_uint_eq(m->revision, 2);
	pt_manifest_unref(m);
	ck_assert_int_eq(help_join(pid), 0);
}
END_TEST

/* An index whose answers get lost: the change is made, and nobody hears of it. */
static struct pt_meta_ops lossy_ops;
static const struct pt_meta_ops *whole_ops;

static void lossy_commit(void *h, const struct pt_meta_op *ops, size_t count, uint64_t *ret_version, struct pt_done *done)
{
	struct pt_wait w;

	pt_wait_init(&w);
	whole_ops->commit(h, ops, count, ret_version, &w.done);
	check_ok(pt_wait_finish(&w));
	pt_done_call(done, pt_fail(EIO, "no answer"));
}

static void answers_get_lost(bool lost)
{
	struct pt_meta *meta = &pt_repo_store(repo)->meta;

	if (lost) {
		whole_ops = meta->ops;
		lossy_ops = *meta->ops;
		lossy_ops.commit = lossy_commit;
	}
	meta->ops = lost ? &lossy_ops : whole_ops;
}

START_TEST(commit_whose_answer_is_lost_never_names_missing_bytes)
{
	struct pt_shape shape = help_shape2(20, 20);
	struct pt_published published;
	struct pt_manifest *m;
	struct pt_part part;

	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 7, &part);
	answers_get_lost(true);
	check_err(pt_commit_part(repo, node, &part, false, &published), EIO);
	pt_object_discard(repo, &part);
	answers_get_lost(false);
	m = pinned();
	ck_assert_uint_eq(m->revision, 1);
	help_check_bytes(repo, m, 7);
	unpinned(m);
}
END_TEST

START_TEST(giving_an_upload_up_keeps_the_reason)
{
	struct pt_shape shape = help_shape2(20, 20);
	struct pt_part part;
	struct pt_repo *faulty = help_open(dir, "data.remove:error=EACCES", NULL);

	help_part(faulty, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 7, &part);
	pt_fail(EINVAL, "the reason");
	pt_object_discard(faulty, &part);
	ck_assert_str_eq(pt_fail_sentence(), "the reason");
	pt_repo_close(faulty);
}
END_TEST

START_TEST(file_whose_answer_is_lost_keeps_its_contents)
{
	struct pt_node file = { .kind = PT_NODE_FILE, .mode = 0644 }, now;
	struct pt_object_writer *w;
	struct pt_blob_ref blob;
	struct pt_data_range r;
	uint64_t bytes;
	char text[5];
	int rc;

	check_ok(pt_node_create(repo, PT_NODE_ROOT, "f", &file, &now));
	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, "hello", 5));
	check_ok(pt_plain_writer_seal(w, &blob, &bytes));
	now.blob = blob;
	now.size = bytes;
	answers_get_lost(true);
	rc = pt_node_update(repo, &now);
	answers_get_lost(false);
	check_err(rc, EIO);
	pt_blob_discard(repo, &blob, rc);
	pt_node_done(&now);
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, "f", &now));
	r = (struct pt_data_range){ .blob = now.blob, .len = 5, .buf = text };
	check_ok(pt_data_read(&pt_repo_store(repo)->data, &r, 1));
	ck_assert_mem_eq(text, "hello", 5);
	pt_node_done(&now);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("commit");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, full_tensor_commits_at_once);
	tcase_add_test(c, set_commits_with_its_last_part_in_any_order);
	tcase_add_test(c, uneven_shards_get_offsets_by_prefix_sums);
	tcase_add_test(c, split_rule_of_shards_is_found_and_recorded_with_the_key);
	tcase_add_test(c, parts_that_disagree_never_mix);
	tcase_add_test(c, put_refuses_what_has_a_revision_and_upsert_replaces);
	tcase_add_test(c, later_part_of_a_rank_replaces_the_pending_one);
	tcase_add_test(c, pending_part_is_served_as_its_own_box);
	tcase_add_test(c, malformed_parts_are_refused);
	tcase_add_test(c, scopes_are_apart);
	tcase_add_test(c, touch_and_hide_change_the_current_revision_only);
	tcase_add_test(c, racing_processes_commit_each_set_exactly_once);
	tcase_add_test(c, wait_sees_a_commit_of_another_process);
	tcase_add_test(c, commit_whose_answer_is_lost_never_names_missing_bytes);
	tcase_add_test(c, file_whose_answer_is_lost_keeps_its_contents);
	tcase_add_test(c, giving_an_upload_up_keeps_the_reason);
	return run_suite("commit", &c, 1);
}

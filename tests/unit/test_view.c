/* tests/unit/test_view.c - views: which revision and box answer a request, every window of it, and as a file in every format. */
#include "format/serve.h"
#include "lib/tensor_help.h"
#include "unit/rng.h"

static struct pt_repo *repo;
static uint64_t node;

static void setup(void)
{
	repo = help_repo();
	node = help_node(repo, "a/k");
}

static void teardown(void)
{
	pt_repo_close(repo);
}

static int64_t store(const char *req, uint32_t seed)
{
	return help_store(repo, node, req, PT_DTYPE_F32, "10,6", seed);
}

static void expect(const char *req, uint32_t seed, int dim, uint64_t off, uint64_t ext)
{
	help_expect(repo, node, req, PT_DTYPE_F32, "10,6", seed, dim, off, ext);
}

START_TEST(nothing_stored_is_enoent_and_says_what_is)
{
	FAILS(help_resolve(repo, node, "full"), ENOENT);
	SAYS("there is: nothing");
	OK(store("dp=0of2/tp=0of2@1/full", 1));
	FAILS(help_resolve(repo, node, "dp=1of2/full"), ENOENT);
	SAYS("dp=0of2: tp of 2 on dim 1 (pending)");
	OK(store("dp=0of2/tp=1of2@1/full", 1));
	FAILS(help_resolve(repo, node, "ep=0of2e0/full"), ENOENT);
	SAYS("dp=0of2: tp of 2 on dim 1");
	FAILS(help_resolve(repo, node, "dp=0of2/tp=0of3@1/as_stored"), ENOENT);
	FAILS(help_resolve(repo, node, "dp=0of2/tp=0of2@0/as_stored"), ENOENT);
	FAILS(help_resolve(repo, node, "dp=0of2/tp=0of2@2/shard"), EINVAL);
	SAYS("dim 2");
}
END_TEST

START_TEST(a_bare_path_reads_the_scope_free_revision_or_the_only_scope)
{
	OK(store("ep=0of2e0/full", 3));
	expect("full", 3, -1, 0, 0);
	expect("tp=1of2@0/shard", 3, 0, 5, 5);
	FAILS(help_resolve(repo, node, "as_stored"), ENOENT);
	OK(store("ep=1of2e1/full", 4));
	FAILS(help_resolve(repo, node, "full"), EINVAL);
	SAYS("ep=0of2,expert=0");
	SAYS("ep=1of2,expert=1");
	OK(store("full", 5));
	expect("full", 5, -1, 0, 0);
	expect("ep=1of2e1/full", 4, -1, 0, 0);
}
END_TEST

START_TEST(of_several_dp_replicas_the_lowest_rank_is_read)
{
	OK(store("dp=2of4/full", 2));
	OK(store("dp=1of4/full", 1));
	OK(store("dp=3of4/full", 3));
	OK(store("dp=0of4/tp=0of2@0/full", 0));         /* pending: not complete */
	expect("full", 1, -1, 0, 0);
	expect("tp=0of2@0/shard", 1, 0, 0, 5);
	OK(store("dp=0of4/tp=1of2@0/full", 0));
	expect("full", 0, -1, 0, 0);
	FAILS(help_resolve(repo, node, "as_stored"), ENOENT);
	/* Replicas of two experts are two things. */
	OK(store("dp=0of4/ep=0of2e0/full", 9));
	FAILS(help_resolve(repo, node, "full"), EINVAL);
}
END_TEST

START_TEST(an_incomplete_set_resolves_but_does_not_open)
{
	struct pt_view *v;

	OK(store("writer=0of4@0/full", 1));
	OK(store("writer=2of4@0/full", 1));
	v = help_view(repo, node, "full");
	ck_assert(!pt_view_info(v)->complete && !pt_view_info(v)->readable && pt_view_info(v)->shape_known);
	ck_assert_uint_eq(pt_view_info(v)->bytes, 240);
	ck_assert_ptr_null(pt_view_manifest(v));
	FAILS(pt_view_pin(v), ENODATA);
	SAYS("ranks 1, 3 ");
	pt_view_unref(v);
	/* A sealed part is served while nothing is committed; also as the tp shard that it is. */
	expect("writer=2of4@0/shard", 1, 0, 5, 2);
	expect("writer=2of4@0/as_stored", 1, 0, 5, 2);
	expect("tp=2of4@0/shard", 1, 0, 5, 2);
	v = help_view(repo, node, "writer=2of4@0/shard");
	ck_assert(!pt_view_info(v)->complete && pt_view_info(v)->readable && pt_view_info(v)->exact);
	pt_view_unref(v);
	v = help_view(repo, node, "tp=0of2@0/shard");
	ck_assert(!pt_view_info(v)->readable && pt_view_info(v)->shape.dim[0] == 5);
	pt_view_unref(v);
	FAILS(help_resolve(repo, node, "writer=1of4@0/as_stored"), ENOENT);
	/* Not beside a revision. */
	OK(store("full", 7));
	expect("tp=2of4@0/shard", 7, 0, 5, 2);
	expect("full", 7, -1, 0, 0);
	FAILS(help_resolve(repo, node, "writer=2of4@0/as_stored"), ENOENT);
}
END_TEST

START_TEST(shards_of_unknown_sum_have_no_shape_before_they_are_complete)
{
	struct pt_view *v;

	OK(help_store(repo, node, "tp=1of2@0/shard", PT_DTYPE_F32, "3,6", 1));
	v = help_view(repo, node, "full");
	ck_assert(!pt_view_info(v)->shape_known && !pt_view_info(v)->readable);
	pt_view_unref(v);
	OK(help_store(repo, node, "tp=0of2@0/shard", PT_DTYPE_F32, "7,6", 1));
	v = help_view(repo, node, "full");
	ck_assert(pt_view_info(v)->complete && pt_view_info(v)->shape.dim[0] == 10);
	pt_view_unref(v);
	/* 7 + 3: the shard that the layout names is 5 rows; as_stored has what was written. */
	v = help_view(repo, node, "tp=0of2@0/shard");
	ck_assert_uint_eq(pt_view_info(v)->shape.dim[0], 5);
	ck_assert(!pt_view_info(v)->exact);
	pt_view_unref(v);
	v = help_view(repo, node, "tp=1of2@0/as_stored");
	ck_assert(pt_view_info(v)->shape.dim[0] == 3 && pt_view_info(v)->exact && pt_view_info(v)->box.off[0] == 7);
	pt_view_unref(v);
}
END_TEST

START_TEST(the_split_rule_is_recorded_and_inherited)
{
	int r;
	char text[64];

	/* 10 rows in 4: balanced 2,3,2,3; chunk 3,3,3,1 */
	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "writer=%dof4@0/full;split=chunk", r);
		OK(store(text, 1));
	}
	expect("tp=3of4@0/shard", 1, 0, 9, 1);
	expect("tp=3of4@0/shard;split=balanced", 1, 0, 7, 3);
	expect("writer=1of4@0/as_stored;split=balanced", 1, 0, 3, 3);
	OK(store("full", 2));
	expect("tp=3of4@0/shard", 2, 0, 9, 1);
	OK(store("full;split=balanced", 3));
	expect("tp=3of4@0/shard", 3, 0, 7, 3);
	/* Shards that were cut by torch.chunk say so themselves. */
	for (r = 0; r < 4; r++) {
		snprintf(text, sizeof(text), "tp=%dof4@0/shard", r);
		OK(help_store(repo, node, text, PT_DTYPE_F32, r < 3 ? "3,6" : "1,6", 4));
	}
	{
		struct pt_view *v = help_view(repo, node, "tp=3of4@0/shard");

		ck_assert(pt_view_info(v)->exact && pt_view_info(v)->shape.dim[0] == 1);
		pt_view_unref(v);
	}
}
END_TEST

START_TEST(a_hidden_object_is_gone_as_such_and_still_serves_others)
{
	struct pt_manifest *m;

	OK(store("tp=0of2@0/full", 1));
	OK(store("tp=1of2@0/full", 1));
	OK(pt_manifest_get(repo, node, "", &m));
	OK(pt_manifest_hide(repo, m, 0));
	pt_manifest_unref(m);
	FAILS(help_resolve(repo, node, "tp=0of2@0/shard"), ENOENT);
	SAYS("removed");
	FAILS(help_resolve(repo, node, "tp=0of2@0/as_stored"), ENOENT);
	expect("tp=1of2@0/shard", 1, 0, 5, 5);
	expect("tp=0of5@0/shard", 1, 0, 0, 2);
	expect("full", 1, -1, 0, 0);
}
END_TEST

START_TEST(an_open_view_keeps_its_revision_and_a_superseded_one_is_stale)
{
	struct pt_view *old, *late;
	uint8_t data[240], want[240];

	OK(store("full", 1));
	old = help_view(repo, node, "full");
	late = help_view(repo, node, "full");
	OK(pt_view_pin(old));
	OK(store("full", 2));
	FAILS(pt_view_pin(late), ESTALE);
	OK(pt_gc_run(repo, &(struct pt_gc_stats){ 0 }));
	OK(pt_view_read(old, data, 240, 0));
	help_fill(want, 240, 1);
	ck_assert_mem_eq(data, want, 240);
	pt_view_unpin(old);
	pt_view_unref(old);
	pt_view_unref(late);
	expect("full", 2, -1, 0, 0);
}
END_TEST

START_TEST(every_window_of_every_plan_is_right)
{
	static const struct {
		const char *set;
		int size, dim;
	} sets[] = { { "writer=%dof5@1/full", 5, 1 }, { "tp=%dof3@0/full", 3, 0 }, { "writer=%dof7@2/full", 7, 2 }, { "full", 1, -1 } };
	struct rng r = { rng_seed(5) };
	struct pt_shape shape = help_shape("33,40,21");
	uint64_t bytes = 33 * 40 * 21 * 2, off, len;
	uint8_t *all = malloc(bytes), *got = malloc(bytes);
	char text[64];
	size_t s;
	int i, k;

	for (s = 0; s < 4; s++) {
		struct pt_view *v;

		for (i = 0; i < sets[s].size; i++) {
			snprintf(text, sizeof(text), sets[s].set, i);
			OK(help_store(repo, node, text, PT_DTYPE_BF16, "33,40,21", (uint32_t)s));
		}
		help_fill(all, bytes, (uint32_t)s);
		v = help_view(repo, node, "full");
		ck_assert(pt_shape_equal(&pt_view_info(v)->shape, &shape));
		OK(pt_view_pin(v));
		for (k = 0; k < 300; k++) {
			off = rng_below(&r, bytes + 1);
			len = rng_below(&r, k % 3 ? 500 : bytes - off + 1);
			len = len > bytes - off ? bytes - off : len;
			memset(got, 0xee, bytes);
			OK(pt_view_read(v, got, len, off));
			ck_assert_mem_eq(got, all + off, len);
			ck_assert(len == bytes || got[len] == 0xee);
		}
		ck_assert_int_eq(pt_view_read(v, got, 2, bytes - 1), -EINVAL);
		ck_assert_int_eq(pt_view_read(v, got, UINT64_MAX, 5), -EINVAL);
		pt_view_unpin(v);
		pt_view_unref(v);
	}
	free(all);
	free(got);
}
END_TEST

/* A file's size is exact, its windows agree with the whole, and feeding it to an upload gives the same tensor: every format, every layout. */
static void check_file(const char *req, enum pt_format format, const char *again)
{
	struct pt_view *v = help_view(repo, node, req), *w;
	uint64_t other = help_node(repo, "other"), size, off;
	struct pt_upload_options o = { .format = PT_FORMAT_COUNT, .mode = 0600 };
	struct pt_request full = help_req(again);
	struct pt_published published;
	struct rng r = { 3 };
	struct pt_upload *u;
	struct pt_vfile *f;
	uint8_t *file, *piece, *a, *b;
	int i;

	OK(pt_vfile_create(v, format, "k", &f));
	ck_assert_ptr_eq(pt_vfile_view(f), v);
	OK(pt_view_pin(v));
	size = pt_vfile_size(f);
	file = malloc(size + 1);
	piece = malloc(size + 1);
	ck_assert_int_eq(pt_vfile_read(f, file, size + 100, 0), (int64_t)size);
	ck_assert_int_eq(pt_vfile_read(f, piece, 10, size), 0);
	ck_assert_int_eq(pt_vfile_read(f, piece, 10, size - 1), 1);
	for (i = 0; i < 50; i++) {
		uint64_t n;

		off = rng_below(&r, size);
		n = rng_between(&r, 1, size - off);
		ck_assert_int_eq(pt_vfile_read(f, piece, n, off), (int64_t)n);
		ck_assert_mem_eq(piece, file + off, n);
	}
	if (format == PT_FORMAT_BIN) {
		o.hint.dtype = pt_view_info(v)->dtype;
		o.hint.has_shape = true;
		o.hint.shape = pt_view_info(v)->shape;
	}
	OK(pt_upload_open(repo, other, &full, &o, &u));
	for (off = 0; off < size; off += 37)
		OK(pt_upload_feed(u, file + off, size - off < 37 ? size - off : 37));
	/* A short bare payload is told from the beginning of another format by the end of the file. */
	ck_assert(pt_upload_complete(u) || format == PT_FORMAT_BIN);
	OK(pt_upload_publish(u, &published));
	pt_upload_free(u);
	w = help_view(repo, other, again);
	ck_assert_int_eq(pt_view_info(w)->dtype, pt_view_info(v)->dtype);
	ck_assert(pt_shape_equal(&pt_view_info(w)->shape, &pt_view_info(v)->shape));
	a = help_read(v);
	b = help_read(w);
	ck_assert_mem_eq(a, b, pt_view_info(v)->bytes);
	free(a);
	free(b);
	pt_view_unref(w);
	pt_view_unpin(v);
	pt_vfile_free(f);
	pt_view_unref(v);
	free(file);
	free(piece);
}

START_TEST(files_in_every_format_come_back_as_the_tensor)
{
	int i;

	OK(store("writer=0of3@1/full", 1));
	OK(store("writer=1of3@1/full", 1));
	OK(store("writer=2of3@1/full", 1));
	for (i = 0; i < PT_FORMAT_COUNT; i++) {
		check_file("full", (enum pt_format)i, "full");
		check_file("tp=2of4@0/shard", (enum pt_format)i, "tp=2of4@0/shard");
		check_file("writer=1of3@1/shard", (enum pt_format)i, i == PT_FORMAT_OBJ ? "writer=1of3@1/shard" : "full");
	}
}
END_TEST

START_TEST(formats_that_cannot_express_a_tensor_say_so)
{
	struct pt_view *v;
	struct pt_vfile *f;

	OK(help_store(repo, node, "full", PT_DTYPE_C64, "2,2", 1));
	v = help_view(repo, node, "full");
	FAILS(pt_vfile_create(v, PT_FORMAT_OBJ, "k", &f), EOPNOTSUPP);
	pt_view_unref(v);
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_reported)
{
	struct pt_request r = help_req("tp=0of2@0/shard");
	struct pt_view *v = NULL;
	int64_t n;
	int rc = -ENOMEM;

	OK(store("writer=0of2@1/full", 1));
	OK(store("writer=1of2@1/full", 1));
	for (n = 0; rc; n++) {
		ck_assert_int_lt(n, 1000);
		pt_alloc_fail_after(n);
		rc = pt_view_resolve(repo, node, &r, &v);
		if (!rc) {
			rc = pt_view_pin(v);
			if (!rc)
				pt_view_unpin(v);
			pt_view_unref(v);
		}
		pt_alloc_fail_after(-1);
		ck_assert_msg(!rc || rc == -ENOMEM, "%lld: %d %s", (long long)n, rc, pt_fail_sentence());
	}
	expect("tp=0of2@0/shard", 1, 0, 0, 5);
}
END_TEST

START_TEST(the_description_is_json_with_all_that_is_known)
{
	struct pt_buf json = PT_BUF_INIT;

	OK(store("dp=0of2/tp=0of2@1/full", 1));
	OK(store("dp=0of2/tp=1of2@1/full", 1));
	OK(store("writer=1of3@0/full;step=7", 1));
	OK(pt_tensor_info_json(repo, node, NULL, &json));
	pt_buf_append_u8(&json, 0);
	ck_assert_ptr_nonnull(strstr((char *)json.data, "\"key\": \"a/k\""));
	ck_assert_ptr_nonnull(strstr((char *)json.data, "\"layout\": \"dp=0of2/tp=1of2,dim=1\""));
	ck_assert_ptr_nonnull(strstr((char *)json.data, "\"step\": \"7\""));
	ck_assert_ptr_nonnull(strstr((char *)json.data, "\"missing\""));
	pt_buf_done(&json);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nothing_stored_is_enoent_and_says_what_is);
	tcase_add_test(tc, a_bare_path_reads_the_scope_free_revision_or_the_only_scope);
	tcase_add_test(tc, of_several_dp_replicas_the_lowest_rank_is_read);
	tcase_add_test(tc, an_incomplete_set_resolves_but_does_not_open);
	tcase_add_test(tc, shards_of_unknown_sum_have_no_shape_before_they_are_complete);
	tcase_add_test(tc, the_split_rule_is_recorded_and_inherited);
	tcase_add_test(tc, a_hidden_object_is_gone_as_such_and_still_serves_others);
	tcase_add_test(tc, an_open_view_keeps_its_revision_and_a_superseded_one_is_stale);
	tcase_add_test(tc, every_window_of_every_plan_is_right);
	tcase_add_test(tc, files_in_every_format_come_back_as_the_tensor);
	tcase_add_test(tc, formats_that_cannot_express_a_tensor_say_so);
	tcase_add_test(tc, running_out_of_memory_anywhere_is_reported);
	tcase_add_test(tc, the_description_is_json_with_all_that_is_known);
}

int main(void)
{
	return run_case("view", add);
}

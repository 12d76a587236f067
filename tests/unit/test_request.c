/* tests/unit/test_request.c - what a path leaves out is completed from what is stored or pending, or refused with a sentence that names it
 *. */
#include "lib/tensor_help.h"

static struct pt_repo *repo;
static uint64_t node;

static void setup(void)
{
	repo = help_repo();
	node = help_node(repo, "k");
}

static void teardown(void)
{
	pt_repo_close(repo);
}

static int64_t store(const char *req)
{
	return help_store(repo, node, req, PT_DTYPE_F32, "8,6", 1);
}

static void expect_completed(const char *req, const char *want)
{
	struct pt_request r = help_req(req), w = help_req(want), out;

	OK(pt_request_complete(repo, node, &r, &out));
	ck_assert_msg(pt_layout_equal(&out.layout, &w.layout), "%s is not completed to %s", req, want);
	ck_assert_int_eq(out.has_partition, w.has_partition);
	if (w.has_partition)
		ck_assert(out.partition.rank == w.partition.rank && out.partition.size == w.partition.size && out.partition.dim == w.partition.dim);
	ck_assert_uint_eq(out.axis_count, w.axis_count);
}

static int complete(const char *req)
{
	struct pt_request r = help_req(req), out;

	return pt_request_complete(repo, node, &r, &out);
}

START_TEST(nonsense_is_refused)
{
	struct pt_request r = help_req("dp=0of2/full"), out;

	r.has_partition = true;
	r.partition = (struct pt_partition){ 0, 2, 0 };
	FAILS(pt_request_complete(repo, node, &r, &out), EINVAL);
	FAILS(complete("shard"), EINVAL);
	SAYS("tp=0of4,dim=0/shard");
	FAILS(complete("writer=2of2@0/full"), EINVAL);
	FAILS(complete("writer=0/full"), EINVAL);
}
END_TEST

START_TEST(sizes_and_ids_are_those_stored)
{
	expect_completed("dp=0/full", "dp=0of1/full");
	FAILS(complete("dp=1/full"), EINVAL);
	SAYS("dp=1ofN");
	FAILS(complete("ep=0/full"), EINVAL);
	expect_completed("ep=2of4/full", "ep=2of4e2/full");
	OK(store("dp=0of2/full"));
	expect_completed("dp=0/full", "dp=0of2/full");
	expect_completed("dp=1/full", "dp=1of2/full");
	OK(store("ep=1of4e9/full"));
	expect_completed("ep=1/full", "ep=1of4e9/full");
	expect_completed("ep=1of4/full", "ep=1of4e9/full");
	OK(store("pp=0of2s3/tp=0of2@0/full"));           /* pending counts */
	expect_completed("pp=0/tp=1of2@0/shard", "pp=0of2s3/tp=1of2@0/shard");
	OK(store("dp=0of4/full"));
	FAILS(complete("dp=0/full"), EINVAL);
	SAYS("dp=0of2");
	SAYS("dp=0of4");
	OK(store("ep=1of4e10/full"));
	FAILS(complete("ep=1of4/full"), EINVAL);
}
END_TEST

START_TEST(only_a_tp_axis_defines_the_dimension)
{
	FAILS(complete("tp=0of2/shard"), EINVAL);
	SAYS("dim=");
	OK(store("full"));
	FAILS(complete("tp=0of2/shard"), EINVAL);
	SAYS("dim=");
	OK(store("writer=0of2@1/full"));
	OK(store("writer=1of2@1/full"));
	FAILS(complete("tp=0of2/shard"), EINVAL);
	OK(complete("tp=0of2/full"));                    /* the whole needs no dim */
	OK(store("tp=0of2@1/full"));
	OK(store("tp=1of2@1/full"));
	expect_completed("tp=1of4/shard", "tp=1of4@1/shard");
}
END_TEST

START_TEST(a_defaulted_dimension_only_serves_its_own_layout)
{
	OK(store("tp=0of2/full"));
	OK(store("tp=1of2/full"));
	expect_completed("tp=1of2/shard", "tp=1of2@0/shard");
	help_expect(repo, node, "tp=1of2/shard", PT_DTYPE_F32, "8,6", 1, 0, 4, 4);
	help_expect(repo, node, "tp=1of2/as_stored", PT_DTYPE_F32, "8,6", 1, 0, 4, 4);
	help_expect(repo, node, "tp=1of2@0/as_stored", PT_DTYPE_F32, "8,6", 1, 0, 4, 4);
	FAILS(complete("tp=0of4/shard"), EINVAL);
	SAYS("dim=");
	/* A writer that names it makes it known. */
	OK(store("tp=0of2@0/full"));
	OK(store("tp=1of2@0/full"));
	expect_completed("tp=0of4/shard", "tp=0of4@0/shard");
	/* One that leaves it out then inherits it. */
	OK(store("tp=0of4/full"));
	OK(store("tp=1of4/full"));
	OK(store("tp=2of4/full"));
	OK(store("tp=3of4/full"));
	expect_completed("tp=0of8/shard", "tp=0of8@0/shard");
}
END_TEST

START_TEST(a_write_without_a_dimension_joins_the_set_that_is_there)
{
	OK(store("writer=0of2@1/full"));
	ck_assert_int_eq(store("writer=1of2/full"), 1);
	help_expect(repo, node, "full", PT_DTYPE_F32, "8,6", 1, -1, 0, 0);
	expect_completed("writer=0of2/shard", "writer=0of2@1/shard");
	FAILS(complete("writer=0of3/shard"), EINVAL);
	OK(store("tp=0of2@1/full"));
	ck_assert_int_eq(store("tp=1of2/full"), 2);
}
END_TEST

START_TEST(pending_sets_that_disagree_make_a_missing_dimension_ambiguous)
{
	OK(store("tp=0of2@0/full"));
	expect_completed("tp=0of2/shard", "tp=0of2@0/shard");
	OK(store("tp=0of2@1/full"));
	FAILS(complete("tp=0of2/shard"), EINVAL);
	SAYS("dim=");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nonsense_is_refused);
	tcase_add_test(tc, sizes_and_ids_are_those_stored);
	tcase_add_test(tc, only_a_tp_axis_defines_the_dimension);
	tcase_add_test(tc, a_defaulted_dimension_only_serves_its_own_layout);
	tcase_add_test(tc, a_write_without_a_dimension_joins_the_set_that_is_there);
	tcase_add_test(tc, pending_sets_that_disagree_make_a_missing_dimension_ambiguous);
}

int main(void)
{
	return run_case("request", add);
}

/* Claims of views for a rank: a file is of one state of everything that it is made of; each allocation on the way to one, to an .all file, and to a stored state dict may fail, and is told; nothing shows of what was not
 * published. */
#include "manifest_help.h"
#include "pt_support.h"
#include "tensor/tensor.h"
#include "tree/container.h"
#include "tree/rank_view.h"
#include "tree/shard_write.h"

static char dir[4096];
static struct pt_repo *repo;
static struct pt_models *models;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
	check_ok(pt_models_create(repo, &models));
}

static void teardown(void)
{
	pt_models_free(models);
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static struct pt_container *store(const char *name, const uint8_t *data, size_t len)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0600 }, n;
	struct pt_container_writer *w;
	struct pt_container *c;

	check_ok(pt_node_create(repo, PT_NODE_ROOT, name, &attrs, &n));
	check_ok(pt_container_writer_create(repo, "", &w));
	check_ok(pt_container_writer_feed(w, data, len));
	check_ok(pt_container_writer_seal(w));
	check_ok(pt_container_writer_publish(w, &n));
	pt_container_writer_free(w);
	pt_node_done(&n);
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, name, &n));
	check_ok(pt_models_container(models, &n, &c));
	pt_node_done(&n);
	return c;
}

static void rank_request(struct pt_request *req, int rank, int size)
{
	const struct pt_axis tp = { .kind = PT_AXIS_TP, .rank = rank, .size = size, .dim = -1 };

	*req = (struct pt_request){ .target = PT_TARGET_FULL };
	check_ok(pt_layout_add(&req->layout, &tp));
}

START_TEST(each_allocation_of_a_view_may_fail)
{
	size_t len;
	uint8_t *data = data_load("checkpoint.pt", &len);
	struct pt_container *c = store("checkpoint.pt", data, len);
	struct pt_request req;
	struct pt_many *many;
	int64_t n, views;
	int rc;

	rank_request(&req, 1, 2);
	for (views = 0; views < 2; views++) {
		for (n = 0, rc = -1; rc < 0; n++) {
			ck_assert_int_lt(n, 100000);
			pt_alloc_fail_after(n);
			rc = views ? pt_all_view(models, repo, PT_NODE_ROOT, &req, PT_FORMAT_PT, &many) : pt_rank_view(models, repo, PT_NODE_ROOT, c, &req, &many);
			pt_alloc_fail_after(-1);
			if (rc < 0)
				ck_assert_int_eq(rc, -ENOMEM);
		}
		ck_assert_ptr_null(pt_many_flat(many));
		ck_assert_uint_gt(pt_many_size(many), 0);
		pt_many_free(many);
	}
	pt_container_unref(c);
	free(data);
}
END_TEST

static int count_one(void *ctx, const char *name, uint64_t id, enum pt_node_kind kind)
{
	(void)name, (void)id, (void)kind;
	++*(unsigned *)ctx;
	return 0;
}

static int write_once(const uint8_t *data, size_t len)
{
	struct pt_upload_options attrs = { .mode = 0644 };
	struct pt_shard_writer *w;
	struct pt_request req = { .target = PT_TARGET_FULL, .has_partition = true, .partition = { 0, 2, -1 } };
	int rc;

	rc = pt_shard_writer_create(models, repo, PT_NODE_ROOT, &req, "sd.pt", &attrs, &w);
	if (rc < 0)
		return rc;
	rc = pt_shard_writer_feed(w, data, len);
	if (!rc)
		rc = pt_shard_writer_end(w);
	if (!rc)
		rc = pt_shard_writer_publish(w);
	pt_shard_writer_free(w);
	return rc;
}

START_TEST(each_allocation_of_a_state_dict_that_is_written_may_fail)
{
	size_t len;
	uint8_t *data = data_load("tied.pt", &len);
	unsigned entries;
	int64_t n;
	int rc = -1;

	for (n = 0; rc < 0; n++) {
		ck_assert_int_lt(n, 100000);
		pt_alloc_fail_after(n);
		rc = write_once(data, len);
		pt_alloc_fail_after(-1);
		entries = 0;
		check_ok(pt_node_list(repo, PT_NODE_ROOT, "", count_one, &entries));
		if (rc < 0) {
			ck_assert_int_eq(rc, -ENOMEM);
			ck_assert_uint_eq(entries, 0);
		}
	}
	ck_assert_uint_gt(entries, 1);
	free(data);
}
END_TEST

START_TEST(a_file_made_after_a_bundle_that_was_replaced_is_stale)
{
	size_t len;
	uint8_t *data = data_load("tied.pt", &len);
	struct pt_upload_options attrs = { .mode = 0644 };
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_shard_writer *w;
	struct pt_container *c;
	struct pt_many *many;
	struct pt_node n;

	for (int round = 0; round < 2; round++) {
		check_ok(pt_shard_writer_create(models, repo, PT_NODE_ROOT, &req, "sd.pt", &attrs, &w));
		check_ok(pt_shard_writer_feed(w, data, len));
		check_ok(pt_shard_writer_publish(w));
		pt_shard_writer_free(w);
		if (round)
			break;
		check_ok(pt_node_lookup(repo, PT_NODE_ROOT, "sd.pt", &n));
		check_ok(pt_models_container(models, &n, &c));
		pt_node_done(&n);
		check_ok(pt_rank_view(models, repo, PT_NODE_ROOT, c, &req, &many));
		check_ok(pt_many_pin(many));
		pt_many_unpin(many);
		pt_many_free(many);
		check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "sd.pt"));
	}
	/* All its tensors are there, but they came with another. */
	check_ok(pt_rank_view(models, repo, PT_NODE_ROOT, c, &req, &many));
	check_err(pt_many_pin(many), ESTALE);
	pt_many_free(many);
	pt_container_unref(c);
	free(data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("allocations");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, each_allocation_of_a_view_may_fail);
	tcase_add_test(t, each_allocation_of_a_state_dict_that_is_written_may_fail);
	tcase_add_test(t, a_file_made_after_a_bundle_that_was_replaced_is_stale);
	return run_suite("tree: rank views", &t, 1);
}

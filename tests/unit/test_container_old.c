/* Claims of containers: those that stores of before hold, with an object for each storage and literals around them, read as ever, are verified and collected; a container is
 * published whole or not at all, wherever its writer is cut off; and each allocation on the way in may fail. */
#include "manifest_help.h"
#include "pt_support.h"
#include "tensor/tensor.h"
#include "tree/container.h"

#define OBJECTS 5
#define BYTES 6000u
#define GAP "between"

static const struct pt_repo_options keen = { .verify = PT_VERIFY_TOUCH, .orphan_grace_ns = 1 };
static char dir[4096];
static struct pt_repo *repo;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, &keen);
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

/* Storages of BYTES, each after a literal; the even ones hold one tensor, the odd ones two, of which the second is strided. */
static void image_make(struct pt_container_image *im, struct pt_part *parts, uint8_t *ret_file)
{
	static const uint64_t numbers[] = { BYTES, BYTES / 2, 10, 20, 2, 40 };
	const struct pt_shape whole = { .ndim = 1, .dim = { BYTES } };
	struct pt_container_segment segment = { .end = 0 };
	char name[16];

	im->format = PT_FORMAT_PT;
	pt_buf_append(&im->numbers, numbers, sizeof(numbers));
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct pt_container_tensor one = { .dtype = PT_DTYPE_U8, .ndim = 1, .contiguous = true, .object = i, .dims = i % 2, .off = i % 2 ? 100 : 0 };
		struct pt_container_tensor strided = { .dtype = PT_DTYPE_U8, .ndim = 2, .object = i, .dims = 2, .off = 7 };
		struct pt_container_object object;

		help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &whole, 0, 1, -1, NULL, i, &parts[i]);
		object = (struct pt_container_object){ parts[i].object.blob, parts[i].object.payload_off, BYTES, parts[i].object.hash, parts[i].object.crc32 };
		pt_buf_append(&im->objects, &object, sizeof(object));
		segment = (struct pt_container_segment){ .end = segment.end + strlen(GAP), .off = im->literals.len, .object = PT_CONTAINER_LITERAL };
		pt_buf_append(&im->segments, &segment, sizeof(segment));
		pt_buf_append(&im->literals, GAP, strlen(GAP));
		memcpy(ret_file + segment.end - strlen(GAP), GAP, strlen(GAP));
		help_fill(ret_file + segment.end, i, 0, BYTES);
		segment = (struct pt_container_segment){ .end = segment.end + BYTES, .object = i };
		pt_buf_append(&im->segments, &segment, sizeof(segment));
		for (int k = 0; k < 1 + (int)(i % 2); k++) {
			struct pt_container_tensor *t = k ? &strided : &one;

			t->name = (uint32_t)im->names.len;
			snprintf(name, sizeof(name), "t%u.%d", (unsigned)i, k);
			pt_buf_append(&im->names, name, strlen(name) + 1);
			pt_buf_append(&im->tensors, t, sizeof(*t));
		}
	}
	im->size = segment.end;
}

static void store_old(const char *name, uint8_t *ret_file, struct pt_node *ret_node)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0600 };
	struct pt_container_image im = { .bundle = false };
	struct pt_part parts[OBJECTS] = { 0 };
	struct pt_container_sealed sealed = { .parts = parts, .part_count = OBJECTS };
	struct pt_buf bytes = PT_BUF_INIT;
	struct pt_object_writer *w;

	image_make(&im, parts, ret_file);
	sealed.size = im.size;
	check_ok(pt_container_encode(&im, &bytes));
	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, bytes.data, bytes.len));
	check_ok(pt_plain_writer_seal(w, &sealed.blob, &sealed.blob_bytes));
	check_ok(pt_node_create(repo, PT_NODE_ROOT, name, &attrs, ret_node));
	check_ok(pt_container_publish(repo, &sealed, ret_node));
	pt_node_done(ret_node);
	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, name, ret_node));
	pt_container_image_done(&im);
	pt_buf_done(&bytes);
}

static void check_tensor(struct pt_container *c, uint32_t i, const uint8_t *file)
{
	struct pt_request req = { .target = PT_TARGET_FULL };
	struct pt_parse_tensor t, lies;
	struct pt_manifest *m;
	struct pt_view *v;
	uint8_t have[BYTES], want[BYTES];
	uint64_t bytes;

	pt_container_tensor(c, i, &t);
	check_ok(pt_shape_bytes(&t.shape, t.dtype, &bytes));
	pt_gather_strided(file + t.storage * (strlen(GAP) + BYTES) + strlen(GAP), &t, 0, bytes, want);
	check_ok(pt_container_manifest(c, i, &m, &lies));
	check_ok(pt_view_of_manifest(repo, m, lies.contiguous ? NULL : &lies, &req, &v));
	pt_manifest_unref(m);
	check_ok(pt_view_pin(v));
	check_ok(pt_view_read(v, have, bytes, 0));
	ck_assert_mem_eq(have, want, bytes);
	pt_view_unpin(v);
	pt_view_unref(v);
}

START_TEST(a_container_of_many_objects_is_read_verified_and_collected)
{
	uint8_t file[OBJECTS * (BYTES + sizeof(GAP))], back[sizeof(file)];
	struct pt_gc_stats stats;
	struct pt_container *c;
	struct pt_node node;

	store_old("old.pt", file, &node);
	ck_assert_uint_eq(help_blobs(repo), OBJECTS + 1);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), OBJECTS + 1);
	check_ok(pt_container_load(repo, &node, &c));
	ck_assert(!c->verbatim);
	check_ok(pt_node_pin(repo, &node));
	ck_assert_int_eq(pt_container_read(c, back, sizeof(back), 0), (int64_t)c->size);
	ck_assert_mem_eq(back, file, c->size);
	for (uint32_t i = 0; i < c->tensor_count; i++)
		check_tensor(c, i, file);
	for (uint32_t i = 0; i < c->object_count; i++)
		check_ok(pt_container_verify(c, i, NULL, NULL));
	ck_assert_uint_eq(c->tensors[0].crc32, c->objects[0].crc32);
	ck_assert_uint_eq(c->tensors[1].crc32, 0);
	pt_node_unpin(repo, &node);
	pt_container_unref(c);
	pt_node_done(&node);
	check_ok(pt_node_rename(repo, PT_NODE_ROOT, "old.pt", PT_NODE_ROOT, "new.pt", false, false));
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "new.pt"));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), 0);
	ck_assert_uint_eq(stats.objects_removed, OBJECTS + 1);
}
END_TEST

START_TEST(a_publication_that_nobody_could_tell_of_is_done_when_it_is_repeated)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0600 }, node, now;
	struct pt_data *data = &pt_repo_store(repo)->data;
	struct pt_part part = { .mode = 0 }, again;
	struct pt_container_sealed sealed = { .size = 8, .parts = &part, .part_count = 1 };
	struct pt_object_writer *w;
	struct pt_gc_stats stats;

	check_ok(pt_file_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, "contents", 8));
	check_ok(pt_object_writer_seal(w, &part));
	check_ok(pt_plain_writer_create(repo, &w));
	check_ok(pt_object_writer_append(w, "record", 6));
	check_ok(pt_plain_writer_seal(w, &sealed.blob, &sealed.blob_bytes));
	/* The second call has pins to give back as well. */
	again = (struct pt_part){ .object = part.object };
	check_ok(pt_data_pin(data, &sealed.blob, 1));
	check_ok(pt_data_pin(data, &part.object.blob, 1));
	check_ok(pt_node_create(repo, PT_NODE_ROOT, "f", &attrs, &node));
	check_ok(pt_container_publish(repo, &sealed, &node));
	sealed.parts = &again;
	check_err(pt_container_publish(repo, &sealed, &(struct pt_node){ .id = node.id, .version = node.version - 1 }), EAGAIN);
	check_ok(pt_node_get(repo, node.id, &now));
	check_ok(pt_container_publish(repo, &sealed, &now));
	pt_node_done(&now);
	pt_node_done(&node);
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.kept_pinned, 0);
	ck_assert_uint_eq(help_blobs(repo), 2);
	check_ok(pt_node_unlink(repo, PT_NODE_ROOT, "f"));
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(stats.objects_removed, 2);
	ck_assert_uint_eq(help_blobs(repo), 0);
}
END_TEST

/* ---- written now ---- */

static int write_once(struct pt_repo *mine, const char *name, const uint8_t *data, size_t len)
{
	struct pt_container_writer *w;
	struct pt_node node;
	int rc;

	rc = pt_node_lookup(mine, PT_NODE_ROOT, name, &node);
	if (rc < 0)
		return rc;
	rc = pt_container_writer_create(mine, "", &w);
	if (!rc) {
		rc = pt_container_writer_feed(w, data, len);
		if (!rc)
			rc = pt_container_writer_seal(w);
		if (!rc)
			rc = pt_container_writer_publish(w, &node);
		pt_container_writer_free(w);
	}
	pt_node_done(&node);
	return rc;
}

static void check_is(const char *name, const uint8_t *data, size_t len)
{
	uint8_t *back = malloc(len + 1);
	struct pt_container *c;
	struct pt_node node;

	check_ok(pt_node_lookup(repo, PT_NODE_ROOT, name, &node));
	check_ok(pt_container_load(repo, &node, &c));
	check_ok(pt_node_pin(repo, &node));
	ck_assert_int_eq(pt_container_read(c, back, len + 1, 0), (int64_t)len);
	ck_assert_mem_eq(back, data, len);
	pt_node_unpin(repo, &node);
	pt_container_unref(c);
	pt_node_done(&node);
	free(back);
}

static void file_make(const char *name)
{
	struct pt_node attrs = { .kind = PT_NODE_FILE, .mode = 0600 }, node;

	check_ok(pt_node_create(repo, PT_NODE_ROOT, name, &attrs, &node));
	pt_node_done(&node);
}

struct cut_off {
	const char *faults;
	const uint8_t *data;
	size_t len;
};

static int write_and_collect(void *ctx)
{
	struct cut_off *c = ctx;
	struct pt_repo *mine = help_open(dir, c->faults, &keen);
	struct pt_gc_stats stats;

	check_ok(write_once(mine, "f", c->data, c->len));
	check_ok(pt_gc_run(mine, &stats));
	pt_repo_close(mine);
	return 0;
}

/* A file takes the place of another; its writer is ended before or after each operation. */
static void cut_off_everywhere(const char *op, const char *how)
{
	size_t old_len, len;
	uint8_t *old = data_load("tied.pt", &old_len), *data = data_load("checkpoint.pt", &len);
	struct pt_gc_stats stats;
	struct pt_node node;
	char faults[64];
	struct cut_off c = { faults, data, len };
	int status, news = 0;

	file_make("f");
	for (int after = 0;; after++) {
		ck_assert_int_lt(after, 400);
		check_ok(write_once(repo, "f", old, old_len));
		pt_repo_close(repo);
		snprintf(faults, sizeof(faults), "%s:%s:after=%d", op, how, after);
		status = help_join(help_spawn(write_and_collect, &c));
		repo = help_open(dir, NULL, &keen);
		check_ok(pt_node_lookup(repo, PT_NODE_ROOT, "f", &node));
		ck_assert(node.size == len || node.size == old_len);
		news += node.size == len;
		check_ok(pt_gc_run(repo, &stats));
		ck_assert_uint_eq(help_blobs(repo), 2);
		check_ok(pt_gc_run(repo, &stats));
		ck_assert_uint_eq(stats.objects_removed + stats.orphans_removed + stats.staged_removed + stats.kept_pinned, 0);
		check_is("f", node.size == len ? data : old, node.size);
		pt_node_done(&node);
		if (status != 1000 + SIGKILL)
			break;
	}
	ck_assert_int_eq(status, 0);
	ck_assert_int_ge(news, 1);
	free(old);
	free(data);
}

START_TEST(a_writer_that_is_cut_off_leaves_the_old_file_or_the_new_one)
{
	static const char *const where[][2] = { { "meta.*", "crash" }, { "meta.commit", "crash-after" }, { "data.*", "crash" }, { "data.*", "crash-after" } };

	cut_off_everywhere(where[_i][0], where[_i][1]);
}
END_TEST

START_TEST(each_allocation_of_a_file_that_is_written_may_fail)
{
	static const char *const names[] = { "views.pt", "parameter_bare.pt" };
	size_t len;
	uint8_t *data = data_load(names[_i], &len);
	struct pt_gc_stats stats;
	int64_t n;
	int rc = -1;

	file_make("f");
	for (n = 0; rc < 0; n++) {
		ck_assert_int_lt(n, 100000);
		pt_alloc_fail_after(n);
		rc = write_once(repo, "f", data, len);
		pt_alloc_fail_after(-1);
		if (rc < 0)
			ck_assert_int_eq(rc, -ENOMEM);
	}
	check_ok(pt_gc_run(repo, &stats));
	ck_assert_uint_eq(help_blobs(repo), 2);
	check_is("f", data, len);
	free(data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("container");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_container_of_many_objects_is_read_verified_and_collected);
	tcase_add_test(t, a_publication_that_nobody_could_tell_of_is_done_when_it_is_repeated);
	tcase_add_loop_test(t, a_writer_that_is_cut_off_leaves_the_old_file_or_the_new_one, 0, 4);
	tcase_add_loop_test(t, each_allocation_of_a_file_that_is_written_may_fail, 0, 2);
	return run_suite("containers of before, and cut off", &t, 1);
}

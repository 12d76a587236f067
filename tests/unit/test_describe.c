/* tests/unit/test_describe.c - what an object says of itself is what was written, and a header that is damaged is refused. */
#include "base/buf.h"
#include "manifest/audit.h"
#include "manifest/describe.h"
#include "unit/manifest_help.h"

static char dir[256];
static struct pt_repo *repo;

static void setup(void)
{
	help_dir_make(dir, sizeof(dir));
	repo = help_open(dir, NULL, NULL);
}

static void teardown(void)
{
	pt_repo_close(repo);
	help_dir_remove(dir);
}

static struct pt_data *data(void)
{
	return &pt_repo_store(repo)->data;
}

static void same(const struct pt_part *want, uint64_t bytes)
{
	struct pt_described d;

	check_ok(pt_object_describe(data(), &want->object.blob, bytes, &d));
	ck_assert_str_eq(d.key, "k");
	ck_assert_str_eq(d.part.step, want->step);
	ck_assert_str_eq(d.part.scope, "");
	ck_assert(d.part.written == want->written && d.part.dtype == want->dtype && pt_shape_equal(&d.part.shape, &want->shape));
	ck_assert(d.part.object.payload_off == want->object.payload_off && d.part.object.bytes == want->object.bytes);
	ck_assert(memcmp(&d.part.object.part, &want->object.part, sizeof(want->object.part)) == 0);
	ck_assert_uint_eq(d.part.object.axis_count, want->object.axis_count);
	ck_assert(want->written == PT_WRITTEN_TP_SHARD || pt_box_equal(&d.part.object.box, &want->object.box));
}

START_TEST(it_says_what_was_written)
{
	static const struct {
		enum pt_written written;
		int rank, size, dim;
		const char *step;
	} cases[] = { { PT_WRITTEN_FULL, 0, 1, -1, NULL }, { PT_WRITTEN_TP_SHARD, 1, 3, 0, "12" }, { PT_WRITTEN_TP_SLICE, 2, 3, 1, NULL },
		      { PT_WRITTEN_WRITER, 3, 4, 0, "a" } };
	struct pt_shape shape = help_shape2(10, 7);
	struct pt_part part;
	uint64_t bytes;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		help_part(repo, cases[i].written, PT_DTYPE_F32, &shape, cases[i].rank, cases[i].size, cases[i].dim, cases[i].step, i, &part);
		check_ok(pt_data_stat(data(), &part.object.blob, &bytes));
		same(&part, bytes);
		/* Another size, or another blob's header. */
		check_err(pt_object_describe(data(), &part.object.blob, bytes - 1, &(struct pt_described){ 0 }), EIO);
		pt_object_discard(repo, &part);
	}
}
END_TEST

/* A header of these bytes for a blob of this id and payload. */
static int decode(const struct pt_blob_ref *blob, const uint8_t *text, size_t len, uint64_t payload)
{
	struct pt_described d;

	memset(&d, 0, sizeof(d));
	return pt_described_decode(blob, (const char *)text, len, payload, &d);
}

START_TEST(a_header_with_a_byte_changed_is_refused_or_makes_sense)
{
	struct pt_shape shape = help_shape2(10, 7);
	struct pt_data_range range;
	struct pt_part part;
	uint8_t text[4096 - 8];
	size_t i, len, refused = 0;
	int rc;

	help_part(repo, PT_WRITTEN_TP_SLICE, PT_DTYPE_F32, &shape, 1, 3, 0, "12", 1, &part);
	ck_assert_uint_eq(part.object.payload_off, 4096);
	range = (struct pt_data_range){ .blob = part.object.blob, .off = 8, .len = sizeof(text), .buf = text };
	check_ok(pt_data_read(data(), &range, 1));
	for (len = sizeof(text); text[len - 1] == ' '; len--)
		;
	check_ok(decode(&part.object.blob, text, len, part.object.bytes));
	for (i = 0; i < len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			text[i] ^= (uint8_t)(1 << bit);
			rc = decode(&part.object.blob, text, len, part.object.bytes);
			ck_assert(rc == 0 || rc == -EIO);
			refused += rc < 0;
			text[i] ^= (uint8_t)(1 << bit);
		}
		check_err(decode(&part.object.blob, text, i, part.object.bytes), EIO);
	}
	ck_assert_uint_gt(refused, len * 4);
	check_err(decode(&part.object.blob, text, len, part.object.bytes + 4), EIO);
	pt_object_discard(repo, &part);
}
END_TEST

static void no_problem(void *ctx, const char *problem)
{
	(void)ctx;
	ck_abort_msg("%s", problem);
}

static void count_problem(void *ctx, const char *problem)
{
	(void)problem;
	++*(unsigned int *)ctx;
}

START_TEST(the_audit_counts_what_is_there_and_finds_what_is_not)
{
	struct pt_shape shape = help_shape2(10, 7);
	struct pt_manifest *m;
	unsigned int problems = 0;
	struct pt_audit audit;
	struct pt_part part;
	uint64_t node;

	node = help_key(repo, "a/b");
	help_store(repo, node, PT_WRITTEN_FULL, &shape, 0, 1, -1, NULL, 1);
	help_store(repo, node, PT_WRITTEN_WRITER, &shape, 0, 2, 0, NULL, 1);
	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 5, &part);
	check_ok(pt_repo_audit(repo, no_problem, NULL, NULL, &audit));
	ck_assert(audit.directories == 3 && audit.revisions == 1 && audit.sets == 1 && audit.objects == 2 && audit.orphans == 1 && !audit.problems);
	check_ok(pt_manifest_get(repo, node, "", &m));
	check_ok(pt_data_remove(data(), &m->objects[0].blob));
	pt_manifest_unref(m);
	check_ok(pt_repo_audit(repo, count_problem, NULL, &problems, &audit));
	ck_assert(problems == 1 && audit.problems == 1);
	pt_object_discard(repo, &part);
}
END_TEST

START_TEST(each_failed_allocation_is_reported)
{
	struct pt_shape shape = help_shape2(10, 7);
	struct pt_described d;
	struct pt_audit audit;
	struct pt_part part;
	uint64_t bytes;
	int n, rc = -ENOMEM;

	help_part(repo, PT_WRITTEN_FULL, PT_DTYPE_U8, &shape, 0, 1, -1, NULL, 5, &part);
	check_ok(pt_data_stat(data(), &part.object.blob, &bytes));
	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_object_describe(data(), &part.object.blob, bytes, &d);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	for (rc = -ENOMEM, n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_repo_audit(repo, no_problem, NULL, NULL, &audit);
		pt_alloc_fail_after(-1);
		ck_assert(rc == 0 || rc == -ENOMEM);
	}
	pt_object_discard(repo, &part);
}
END_TEST

static void add(TCase *tcase)
{
	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, it_says_what_was_written);
	tcase_add_test(tcase, a_header_with_a_byte_changed_is_refused_or_makes_sense);
	tcase_add_test(tcase, the_audit_counts_what_is_there_and_finds_what_is_not);
	tcase_add_test(tcase, each_failed_allocation_is_reported);
}

int main(void)
{
	return run_case("manifest: what objects say of themselves", add);
}

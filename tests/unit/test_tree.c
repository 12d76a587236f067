/* Unit tests of tree/tree.h: spelled directories, files inside axis directories, listed names. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/suite.h"
#include "tree/tree.h"

START_TEST(directories_of_axes_are_requests)
{
	struct pt_request r;

	ck_assert_int_eq(pt_tree_dir_parse("", &r), 0);
	ck_assert_uint_eq(r.layout.axis_count, 0);
	ck_assert(!r.has_partition);
	ck_assert_int_eq(pt_tree_dir_parse("tp=1of4,dim=2/dp=0", &r), 0);
	ck_assert_uint_eq(r.layout.axis_count, 2);
	ck_assert_int_eq(r.layout.axis[0].kind, PT_AXIS_DP);    /* canonical */
	ck_assert_int_eq(r.layout.axis[0].size, 0);
	ck_assert_int_eq(r.axis[0].kind, PT_AXIS_TP);           /* as spelled */
	ck_assert_int_eq(r.axis[0].dim, 2);
	ck_assert_int_eq(pt_tree_dir_parse("writer=3of8,dim=1,step=s7", &r), 0);
	ck_assert(r.has_partition);
	ck_assert_int_eq(r.partition.rank, 3);
	ck_assert_str_eq(r.step, "s7");
	ck_assert_int_eq(pt_tree_dir_parse("tp=0of2/tp=1of2", &r), -ENOENT);
	ck_assert_int_eq(pt_tree_dir_parse("writer=0of2/dp=0", &r), -EINVAL);
	ck_assert_int_eq(pt_tree_dir_parse("dp=0/writer=0of2", &r), -EINVAL);
	ck_assert_int_eq(pt_tree_dir_parse("plain", &r), -EINVAL);
	ck_assert_int_eq(pt_tree_dir_parse("dp=0//tp=0of2", &r), -EINVAL);
}
END_TEST

START_TEST(view_names_are_requests)
{
	enum pt_format format;
	struct pt_request r;

	ck_assert_int_eq(pt_tree_view_parse("tp=1of4", "shard.npy", &r, &format), 0);
	ck_assert_int_eq(r.target, PT_TARGET_SHARD);
	ck_assert_int_eq(format, PT_FORMAT_NPY);
	ck_assert_int_eq(pt_tree_view_parse("", "as_stored", &r, &format), 0);
	ck_assert_int_eq(r.target, PT_TARGET_AS_STORED);
	ck_assert_int_eq(format, PT_FORMAT_COUNT);
	ck_assert_int_eq(pt_tree_view_parse("", "other", &r, &format), -EINVAL);
}
END_TEST

START_TEST(files_in_axis_directories_come_back_as_they_went)
{
	static const char *const dirs[] = { "tp=0of4", "dp=0/tp=1of4,dim=0/ep=3,expert=9" };
	char component[PT_NAME_MAX + 1], dir[PT_TREE_DIR_MAX], name[PT_NAME_MAX + 1];
	const char *decoded;
	size_t i;

	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(pt_tree_component(dirs[i], ".tmpAb", component), 0);
		ck_assert(strchr(component, '/') == NULL);
		ck_assert(pt_tree_component_split(component, dir, &decoded));
		ck_assert_str_eq(dir, dirs[i]);
		ck_assert_str_eq(decoded, ".tmpAb");
	}
	ck_assert_int_eq(pt_tree_component("", "plain", component), 0);
	ck_assert_str_eq(component, "plain");
	ck_assert(!pt_tree_component_split(component, dir, &decoded));
	ck_assert_str_eq(decoded, "plain");
	memset(name, 'x', PT_NAME_MAX);
	name[PT_NAME_MAX] = '\0';
	ck_assert_int_eq(pt_tree_component("tp=0of4", name, component), -ENAMETOOLONG);
	ck_assert_int_eq(pt_tree_component("", name, component), 0);
	/* What only looks like one is an ordinary name. */
	ck_assert(!pt_tree_component_split("\1x", dir, &decoded));
	ck_assert(!pt_tree_component_split("\1\1x", dir, &decoded));
	ck_assert(!pt_tree_component_split("\1dp=0\1", dir, &decoded));
}
END_TEST

static struct pt_object objects[2];

static struct pt_manifest manifest_of(enum pt_written written)
{
	struct pt_manifest m = { .written = written, .object_count = 2, .objects = objects };
	int r;

	memset(objects, 0, sizeof(objects));
	for (r = 0; r < 2; r++) {
		objects[r].part = (struct pt_partition){ r, 2, 1 };
		objects[r].axis_count = 1;
		objects[r].axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = r, .size = 2, .dim = 1 };
	}
	return m;
}

START_TEST(each_object_has_one_listed_name)
{
	struct pt_manifest m = manifest_of(PT_WRITTEN_WRITER);
	char path[PT_TREE_LISTED_MAX];

	ck_assert_int_eq(pt_tree_object_path(&m, 1, path), 0);
	ck_assert_str_eq(path, "writer=1of2,dim=1/full");
	m = manifest_of(PT_WRITTEN_TP_SHARD);
	ck_assert_int_eq(pt_tree_object_path(&m, 0, path), 0);
	ck_assert_str_eq(path, "tp=0of2,dim=1/shard");
	m = manifest_of(PT_WRITTEN_FULL);
	ck_assert_int_eq(pt_tree_object_path(&m, 0, path), 0);
	ck_assert_str_eq(path, "full");
	strcpy(m.scope, "dp=0of2");
	m.written = PT_WRITTEN_SCOPE;
	ck_assert_int_eq(pt_tree_object_path(&m, 0, path), 0);
	ck_assert_str_eq(path, "dp=0of2/full");
}
END_TEST

static bool listed(const struct pt_manifest *m, const char *dir, const char *name, uint32_t *ret_object)
{
	enum pt_format format;
	struct pt_request r;

	ck_assert_int_eq(pt_tree_view_parse(dir, name, &r, &format), 0);
	return pt_tree_listed(m, &r, ret_object);
}

START_TEST(only_stored_names_count_as_listed)
{
	struct pt_manifest m = manifest_of(PT_WRITTEN_WRITER);
	uint32_t object = 9;

	ck_assert(listed(&m, "writer=1of2,dim=1", "full.npy", &object));
	ck_assert_uint_eq(object, 1);
	ck_assert(listed(&m, "writer=0of2", "full", &object));
	ck_assert_uint_eq(object, 0);
	ck_assert(!listed(&m, "writer=0of3", "full", &object));
	ck_assert(!listed(&m, "writer=0of2", "shard", &object));
	ck_assert(!listed(&m, "", "full", &object));
	ck_assert(!listed(&m, "tp=0of2,dim=1", "shard", &object));
	objects[1].hidden = true;
	ck_assert(!listed(&m, "writer=1of2,dim=1", "full", &object));
	m = manifest_of(PT_WRITTEN_TP_SHARD);
	ck_assert(listed(&m, "tp=1of2", "shard", &object));
	ck_assert_uint_eq(object, 1);
	ck_assert(!listed(&m, "tp=1of2,dim=0", "shard", &object));
	ck_assert(!listed(&m, "tp=1of2/dp=0", "shard", &object));
	ck_assert(!listed(&m, "tp=1of2", "full", &object));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("names");

	tcase_add_test(t, directories_of_axes_are_requests);
	tcase_add_test(t, view_names_are_requests);
	tcase_add_test(t, files_in_axis_directories_come_back_as_they_went);
	tcase_add_test(t, each_object_has_one_listed_name);
	tcase_add_test(t, only_stored_names_count_as_listed);
	return run_suite("tree", &t, 1);
}

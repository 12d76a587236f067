/* tests/unit/test_budget.c - what the control groups of a process let it have, read from trees like the kernel's. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"
#include "lib/suite.h"

#define MIB ((uint64_t)1 << 20)

static char root[] = "/tmp/ptio-budget-XXXXXX";

static void begin(void)
{
	strcpy(root + sizeof(root) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

/* A file below the root, and the directories that it is in. */
static void file(const char *path, const char *format, ...)
{
	char name[512], *at;
	va_list args;
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (at = name + sizeof(root); (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(name, 0700);
		*at = '/';
	}
	f = fopen(name, "w");
	ck_assert_ptr_nonnull(f);
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

static const char v2_mount[] = "22 1 0:20 / / rw - ext4 /dev/vda rw\n35 22 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

static struct pt_budget found(void)
{
	struct pt_budget b;

	pt_budget_find(&b, root);
	return b;
}

START_TEST(the_least_of_a_group_and_those_above_it_counts)
{
	struct pt_budget b;

	file("proc/self/cgroup", "0::/kube/pod/one\n");
	file("proc/self/mountinfo", "%s", v2_mount);
	file("proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 9000000 kB\n");
	file("sys/fs/cgroup/kube/pod/one/memory.max", "max\n");
	file("sys/fs/cgroup/kube/pod/memory.max", "%llu\n", 300ull << 20);
	file("sys/fs/cgroup/kube/pod/memory.current", "%llu\n", 260ull << 20);
	file("sys/fs/cgroup/kube/pod/memory.stat", "anon 5\nfile 999999999\ninactive_file %llu\nactive_file %llu\nshmem 7\n", 60ull << 20, 10ull << 20);
	file("sys/fs/cgroup/kube/memory.max", "%llu\n", 4096ull << 20);
	file("sys/fs/cgroup/kube/memory.current", "%llu\n", 4000ull << 20);
	b = found();
	ck_assert(b.bounded);
	ck_assert_uint_eq(pt_budget_group_limit(&b), 300 * MIB);
	ck_assert_uint_eq(pt_budget_total(&b), 300 * MIB);
	ck_assert_uint_eq(pt_budget_group_available(&b), 96 * MIB);
	ck_assert_uint_eq(pt_budget_available(&b), 96 * MIB);
	file("proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 1024 kB\n");
	ck_assert_uint_eq(pt_budget_available(&b), 1 * MIB);
	file("sys/fs/cgroup/kube/pod/one/memory.high", "%llu\n", 200ull << 20);
	file("sys/fs/cgroup/kube/pod/one/memory.current", "%llu\n", 201ull << 20);
	ck_assert_uint_eq(pt_budget_group_limit(&b), 200 * MIB);
	ck_assert_uint_eq(pt_budget_group_available(&b), 0);
}
END_TEST

START_TEST(the_memory_controller_of_version_1_counts_where_it_is_used)
{
	struct pt_budget b;

	file("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n");
	file("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,cpu\n%s", v2_mount);
	file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "%llu\n", 512ull << 20);
	file("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "%llu\n", 500ull << 20);
	file("sys/fs/cgroup/memory/box/memory.stat", "inactive_file 3\ntotal_inactive_file %llu\ntotal_active_file 0\n", 20ull << 20);
	file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	file("sys/fs/cgroup/memory/memory.usage_in_bytes", "9\n");
	b = found();
	ck_assert_uint_eq(pt_budget_group_limit(&b), 512 * MIB);
	ck_assert_uint_eq(pt_budget_group_available(&b), 32 * MIB);
}
END_TEST

/* Without a cgroup namespace /proc tells the host's path, and what is mounted is only a part of the hierarchy; with one the path begins at our own group. */
START_TEST(a_container_finds_its_own_group)
{
	struct pt_budget b;

	file("proc/self/cgroup", "0::/docker/abc\n");
	file("proc/self/mountinfo", "35 22 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	file("sys/fs/cgroup/memory.max", "%llu\n", 64ull << 20);
	b = found();
	ck_assert_uint_eq(pt_budget_group_limit(&b), 64 * MIB);
	file("proc/self/cgroup", "0::/\n");
	file("proc/self/mountinfo", "%s", v2_mount);
	b = found();
	ck_assert_uint_eq(pt_budget_group_limit(&b), 64 * MIB);
	file("proc/self/cgroup", "0::/../other\n");
	b = found();
	ck_assert_uint_eq(pt_budget_group_limit(&b), 64 * MIB);
}
END_TEST

START_TEST(what_is_not_known_does_not_bound)
{
	struct pt_budget b = found();

	ck_assert(!b.bounded);
	ck_assert_uint_eq(pt_budget_group_limit(&b), UINT64_MAX);
	ck_assert_uint_eq(pt_budget_available(&b), UINT64_MAX);
	file("proc/self/cgroup", "garbage\n::\n0::/x\n");
	file("proc/self/mountinfo", "short\n - cgroup2\n%s", v2_mount);
	file("sys/fs/cgroup/x/memory.max", "no number\n");
	b = found();
	ck_assert(!b.bounded);
	ck_assert_uint_eq(pt_budget_group_available(&b), UINT64_MAX);
	pt_budget_find(&b, "");
	ck_assert_uint_gt(pt_budget_total(&b), 0);
	ck_assert_uint_lt(pt_budget_available(&b), UINT64_MAX);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("budget");

	tcase_add_checked_fixture(tcase, begin, end);
	tcase_add_test(tcase, the_least_of_a_group_and_those_above_it_counts);
	tcase_add_test(tcase, the_memory_controller_of_version_1_counts_where_it_is_used);
	tcase_add_test(tcase, a_container_finds_its_own_group);
	tcase_add_test(tcase, what_is_not_known_does_not_bound);
	return run_suite("budget", &tcase, 1);
}

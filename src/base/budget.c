/* base/budget.c - see budget.h. Formats: proc(5), "Control Group v2" and "Memory Resource Controller" of the kernel's documentation. */
#include "base/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

#define LINE 4096

static FILE *file_open(const char *root, const char *path)
{
	char name[PT_BUDGET_PATH + 64];
	int n = snprintf(name, sizeof(name), "%s%s", root, path);

	return n > 0 && (size_t)n < sizeof(name) ? fopen(name, "re") : NULL;
}

/* ---- where our group is ---- */

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word), n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",\n");
		if (n == len && memcmp(list, word, n) == 0)
			return true;
	}
	return false;
}

/* Our group's path in its hierarchy, of /proc/self/cgroup: the memory controller's of version 1, if it is used, else that of version 2. */
static bool group_path(const char *root, bool *ret_old, char *ret_path, size_t size)
{
	FILE *f = file_open(root, "/proc/self/cgroup");
	char line[LINE], *controllers, *path;
	bool any = false;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path || strlen(path + 1) >= size)
			continue;
		*path = '\0';
		if (!has_word(controllers + 1, "memory") && (controllers[1] || any))
			continue;
		any = true;
		*ret_old = controllers[1] != '\0';
		strcpy(ret_path, path + 1);
		if (*ret_old)
			break;
	}
	if (f)
		fclose(f);
	return any;
}

/* Where that hierarchy is mounted, and which of its groups is there, of /proc/self/mountinfo. */
static bool mount_find(const char *root, bool old, char *ret_mount, char *ret_top, size_t size)
{
	FILE *f = file_open(root, "/proc/self/mountinfo");
	char line[LINE], options[LINE], type[32], *end;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		end = strstr(line, " - ");
		if (!end || sscanf(end, " - %31s %*s %4095s", type, options) != 2)
			continue;
		if (strcmp(type, old ? "cgroup" : "cgroup2") != 0 || (old && !has_word(options, "memory")))
			continue;
		*end = '\0';
		found = strlen(line) < size && sscanf(line, "%*s %*s %*s %s %s", ret_top, ret_mount) == 2;
	}
	if (f)
		fclose(f);
	return found;
}

void pt_budget_find(struct pt_budget *b, const char *root)
{
	char path[PT_BUDGET_PATH], mount[PT_BUDGET_PATH], top[PT_BUDGET_PATH], *below = path;
	size_t len;
	int n;

	*b = (struct pt_budget){ .root = root };
	if (!group_path(root, &b->old, path, sizeof(path)) || !mount_find(root, b->old, mount, top, sizeof(mount)))
		return;
	/* A container may see a part of the hierarchy only, the topmost group of which is its own. */
	len = strcmp(top, "/") == 0 ? 0 : strlen(top);
	if (strncmp(path, top, len) == 0 && (path[len] == '/' || !path[len]))
		below += len;
	else
		below = "";
	if (strstr(below, "/..") || strcmp(below, "/") == 0)
		below = "";
	n = snprintf(b->dir, sizeof(b->dir), "%s%s%s", root, mount, below);
	if (n > 0 && (size_t)n < sizeof(b->dir))
		b->top = (size_t)n - strlen(below);
	b->bounded = pt_budget_group_limit(b) != UINT64_MAX;
}

/* ---- what it allows ---- */

static bool number_read(const char *dir, const char *name, uint64_t *ret)
{
	FILE *f = file_open(dir, name);
	bool good = f && fscanf(f, "%" SCNu64, ret) == 1;

	if (f)
		fclose(f);
	return good;
}

/* Pages of files, which the kernel drops when the group needs memory. */
static uint64_t droppable(const struct pt_budget *b, const char *dir)
{
	FILE *f = file_open(dir, "/memory.stat");
	uint64_t value, sum = 0;
	char line[256], name[64];

	while (f && fgets(line, sizeof(line), f)) {
		const char *at = name;

		if (sscanf(line, "%63s %" SCNu64, name, &value) != 2)
			continue;
		if (b->old) {
			if (strncmp(name, "total_", 6) != 0)
				continue;
			at = name + 6;
		}
		if (strcmp(at, "inactive_file") == 0 || strcmp(at, "active_file") == 0)
			sum += value;
	}
	if (f)
		fclose(f);
	return sum;
}

static uint64_t limit_of(const struct pt_budget *b, const char *dir)
{
	uint64_t max = UINT64_MAX, high = UINT64_MAX;

	if (b->old)
		return number_read(dir, "/memory.limit_in_bytes", &max) && max < (uint64_t)INT64_MAX / 2 ? max : UINT64_MAX;
	number_read(dir, "/memory.max", &max);
	number_read(dir, "/memory.high", &high);
	return pt_size_min(max, high);
}

static uint64_t available_of(const struct pt_budget *b, const char *dir)
{
	uint64_t limit = limit_of(b, dir), used = 0, file;

	if (limit == UINT64_MAX || !number_read(dir, b->old ? "/memory.usage_in_bytes" : "/memory.current", &used))
		return limit;
	file = droppable(b, dir);
	used -= pt_size_min(file, used);
	return limit - pt_size_min(used, limit);
}

/* The least that our group and those above it say. */
static uint64_t least(const struct pt_budget *b, uint64_t (*fn)(const struct pt_budget *b, const char *dir))
{
	char dir[PT_BUDGET_PATH], *end;
	uint64_t min = UINT64_MAX;

	if (!b->top)
		return min;
	for (strcpy(dir, b->dir);; *end = '\0') {
		min = pt_size_min(min, fn(b, dir));
		end = strrchr(dir, '/');
		if (!end || (size_t)(end - dir) < b->top)
			return min;
	}
}

uint64_t pt_budget_group_limit(const struct pt_budget *b)
{
	return least(b, limit_of);
}

uint64_t pt_budget_group_available(const struct pt_budget *b)
{
	return least(b, available_of);
}

uint64_t pt_budget_total(const struct pt_budget *b)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t limit = pt_budget_group_limit(b), machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;

	if (!machine)
		return limit == UINT64_MAX ? 0 : limit;
	return pt_size_min(machine, limit);
}

uint64_t pt_budget_available(const struct pt_budget *b)
{
	uint64_t kib = UINT64_MAX >> 10;
	FILE *f = file_open(b->root, "/proc/meminfo");
	char line[128];

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
		;
	if (f)
		fclose(f);
	return pt_size_min(kib >= UINT64_MAX >> 10 ? UINT64_MAX : kib << 10, pt_budget_group_available(b));
}

/* tree/name.c - spelled directories and names below a key, as requests and as node components. Pure. */
#include "tree/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define SIDE_MARK '\1'
#define SIDE_SLASH '\2'

static int step_take(struct pt_request *base, const char *step)
{
	if (!step[0])
		return 0;
	if (base->step[0] && strcmp(base->step, step) != 0)
		return pt_fail(EINVAL, "the path names two steps, %s and %s: keep one", base->step, step);
	snprintf(base->step, sizeof(base->step), "%s", step);
	return 0;
}

int pt_tree_dir_append(struct pt_request *base, const struct pt_path_name *component)
{
	struct pt_request r = *base;
	int rc;

	switch (component->kind) {
	case PT_PATH_AXIS:
		if (r.has_partition)
			return pt_fail(EINVAL, "writer= stands alone: %s= cannot be below it", pt_axis_kind_name(component->axis.kind));
		if (pt_layout_find(&r.layout, component->axis.kind))
			return -ENOENT;
		rc = pt_layout_add(&r.layout, &component->axis);
		if (rc < 0)
			return rc;
		r.axis[r.axis_count++] = component->axis;
		break;
	case PT_PATH_PARTITION:
		if (r.has_partition)
			return -ENOENT;
		if (r.layout.axis_count)
			return pt_fail(EINVAL, "writer= stands alone: leave the axes out, or use tp=RofN,dim=D/full for one slice of a scope");
		r.has_partition = true;
		r.partition = component->partition;
		break;
	default:
		return -EINVAL;
	}
	rc = step_take(&r, component->step);
	if (rc < 0)
		return rc;
	if (component->split != PT_SPLIT_UNSET)
		r.split = component->split;
	*base = r;
	return 0;
}

int pt_tree_dir_parse(const char *dir, struct pt_request *ret_base)
{
	struct pt_request r = { .target = PT_TARGET_FULL };
	struct pt_path_name name;
	char part[PT_NAME_MAX + 1];
	size_t len;
	int rc;

	if (dir[0] == SIDE_MARK) {      /* an alias (fs/alias.c): its name comes first */
		dir = strchr(dir + 1, SIDE_MARK);
		if (!dir)
			return -EINVAL;
		dir++;
	}
	for (; *dir; dir += len + (dir[len] == '/')) {
		len = strcspn(dir, "/");
		if (len == 0 || len > PT_NAME_MAX)
			return -EINVAL;
		memcpy(part, dir, len);
		part[len] = '\0';
		rc = pt_path_classify(part, &name);
		if (rc < 0)
			return rc;
		rc = pt_tree_dir_append(&r, &name);
		if (rc < 0)
			return rc;
	}
	*ret_base = r;
	return 0;
}

int pt_tree_view_parse(const char *dir, const char *name, struct pt_request *ret_req, enum pt_format *ret_format)
{
	struct pt_request r;
	struct pt_path_name n;
	int rc;

	rc = pt_path_classify(name, &n);
	if (rc < 0)
		return rc;
	if (n.kind != PT_PATH_VIEW)
		return -EINVAL;
	rc = pt_tree_dir_parse(dir, &r);
	if (rc < 0)
		return rc;
	r.target = n.view == PT_PATH_FULL ? PT_TARGET_FULL : n.view == PT_PATH_SHARD ? PT_TARGET_SHARD : PT_TARGET_AS_STORED;
	*ret_req = r;
	*ret_format = n.format;
	return 0;
}

int pt_tree_component(const char *dir, const char *decoded, char ret_component[PT_NAME_MAX + 1])
{
	char text[PT_NAME_MAX + 1];
	int len;
	char *p;

	if (!dir[0])
		len = snprintf(text, sizeof(text), "%s", decoded);
	else
		len = snprintf(text, sizeof(text), "%c%s%c%s", SIDE_MARK, dir, SIDE_MARK, decoded);
	if (len < 0 || (size_t)len >= sizeof(text))
		return pt_fail(ENAMETOOLONG, "the name is too long for a file inside an axis directory: put the file beside it");
	if (dir[0])
		for (p = text + 1; *p != SIDE_MARK; p++)
			if (*p == '/')
				*p = SIDE_SLASH;
	memcpy(ret_component, text, (size_t)len + 1);
	return 0;
}

bool pt_tree_component_split(const char *component, char ret_dir[PT_TREE_DIR_MAX], const char **ret_decoded)
{
	const char *end;
	size_t i, len;

	if (component[0] == SIDE_MARK) {
		end = strchr(component + 1, SIDE_MARK);
		len = end ? (size_t)(end - component - 1) : 0;
		if (len > 0 && len < PT_TREE_DIR_MAX && end[1]) {
			for (i = 0; i < len; i++)
				ret_dir[i] = component[1 + i] == SIDE_SLASH ? '/' : component[1 + i];
			ret_dir[len] = '\0';
			*ret_decoded = end + 1;
			return true;
		}
	}
	ret_dir[0] = '\0';
	*ret_decoded = component;
	return false;
}

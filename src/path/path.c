/* path/path.c - a whole path below the mountpoint. */
#include "path/path.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "path/internal.h"

/* Appends "/part" or, to nothing, "part". */
static int append(char *text, size_t max, const char *part, const char *what)
{
	size_t have = strlen(text), add = strlen(part);

	if (have + add + (have > 0) > max)
		return pt_fail(ENAMETOOLONG, "%s of more than %zu bytes", what, max);
	if (have > 0)
		text[have++] = '/';
	memcpy(text + have, part, add + 1);
	return 0;
}

/* At most one component of a path carries them: tp, or the partition. */
static void add_step(struct pt_path *p, const struct pt_path_name *n)
{
	if (n->split != PT_SPLIT_UNSET)
		p->split = n->split;
	if (n->step[0])
		strcpy(p->step, n->step);
}

static int add_axis(struct pt_path *p, const struct pt_path_name *n)
{
	int rc;

	if (p->has_partition)
		return pt_fail(EINVAL, "writer= does not go together with axes: it stands for a writer outside any layout");
	if (pt_layout_find(&p->layout, n->axis.kind))
		return pt_fail(ENOENT, "%s= is there twice", pt_axis_kind_name(n->axis.kind));
	rc = pt_layout_add(&p->layout, &n->axis);
	if (rc < 0)
		return rc;
	p->axis[p->axis_count++] = n->axis;
	add_step(p, n);
	return 0;
}

static int add_partition(struct pt_path *p, const struct pt_path_name *n)
{
	if (p->has_partition)
		return pt_fail(ENOENT, "writer= is there twice");
	if (p->axis_count > 0)
		return pt_fail(EINVAL, "writer= does not go together with axes: it stands for a writer outside any layout");
	p->has_partition = true;
	p->partition = n->partition;
	add_step(p, n);
	return 0;
}

static int add_name(struct pt_path *p, const char *name)
{
	struct pt_path_name n;
	int rc;

	if (p->has_view || p->info)
		return pt_fail(ENOTDIR, "nothing is below a file: \"%s\"", name);
	rc = pt_path_classify(name, &n);
	if (rc < 0)
		return rc;
	switch (n.kind) {
	case PT_PATH_AXIS:
	case PT_PATH_PARTITION:
		rc = n.kind == PT_PATH_AXIS ? add_axis(p, &n) : add_partition(p, &n);
		if (rc == 0)
			rc = append(p->dir, PT_PATH_DIR_MAX, name, "axes");
		p->has_layout = true;
		return rc;
	case PT_PATH_VIEW:
		p->has_view = true;
		p->view = n.view;
		p->format = n.format;
		return 0;
	case PT_PATH_INFO:
		p->info = true;
		return 0;
	case PT_PATH_PLAIN:
		if (p->has_layout)
			return pt_fail(ENOENT, "\"%s\": below an axis there are axes, views and %s", name, PT_PATH_INFO_NAME);
		return append(p->key, PT_PATH_KEY_MAX, n.component, "a key");
	case PT_PATH_ALL:
	case PT_PATH_CONTROL:
		break;
	}
	return pt_fail(EINVAL, "\"%s\" is a name of the mounted tree; it is not in the store", name);
}

int pt_path_parse(const char *path, struct pt_path *ret_path)
{
	struct pt_path p;

	memset(&p, 0, sizeof(p));
	p.format = PT_FORMAT_COUNT;
	while (*path) {
		char name[PT_PATH_COMPONENT_MAX + 1];
		size_t len = strcspn(path, "/");
		int rc;

		if (len > PT_PATH_COMPONENT_MAX)
			return pt_fail(ENAMETOOLONG, "a name of more than %d bytes", PT_PATH_COMPONENT_MAX);
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		while (*path == '/')
			path++;
		if (len == 0)
			continue;
		rc = add_name(&p, name);
		if (rc < 0)
			return rc;
	}
	*ret_path = p;
	return 0;
}

static int append_name(char *text, const struct pt_path_name *n)
{
	char name[PT_PATH_COMPONENT_MAX + 1];
	int rc = pt_path_name_format(n, name);

	return rc < 0 ? rc : append(text, PT_PATH_TEXT_MAX, name, "a path");
}

static int append_layout(char *text, const struct pt_path *path)
{
	int rc = 0;

	for (uint32_t i = 0; i < path->layout.axis_count && i < PT_AXIS_KINDS && rc == 0; i++) {
		struct pt_path_name n = { .kind = PT_PATH_AXIS, .axis = path->layout.axis[i] };

		if (n.axis.kind == PT_AXIS_TP) {
			n.split = path->split;
			memcpy(n.step, path->step, sizeof(n.step));
		}
		rc = append_name(text, &n);
	}
	if (rc == 0 && path->has_partition) {
		struct pt_path_name n = { .kind = PT_PATH_PARTITION, .partition = path->partition, .split = path->split };

		memcpy(n.step, path->step, sizeof(n.step));
		rc = append_name(text, &n);
	}
	return rc;
}

int pt_path_format(const struct pt_path *path, char ret_text[PT_PATH_TEXT_MAX + 1])
{
	char text[PT_PATH_TEXT_MAX + 1] = "";
	struct pt_path_name leaf = { .kind = PT_PATH_INFO };
	struct pt_path again;
	int rc = 0;

	if (path->key[0])
		rc = pt_path_for_key(path->key, text);
	if (rc == 0)
		rc = append_layout(text, path);
	if (rc == 0 && path->has_view) {
		leaf = (struct pt_path_name){ .kind = PT_PATH_VIEW, .view = path->view, .format = path->format };
		rc = append_name(text, &leaf);
	} else if (rc == 0 && path->info) {
		rc = append_name(text, &leaf);
	}
	if (rc == 0)
		rc = pt_path_parse(text, &again);
	if (rc < 0)
		return rc;
	strcpy(ret_text, text);
	return 0;
}

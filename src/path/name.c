/* path/name.c - one name in the tree: axis, partition, view, or component of a key. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "path/internal.h"
#include "path/path.h"

/* Plain decimal int32 without leading zeros at *at; moves *at behind it. */
static bool take_number(const char **at, bool negative_allowed, int32_t *ret)
{
	const char *p = *at;
	bool negative = false;
	int64_t v = 0;

	if (negative_allowed && *p == '-') {
		negative = true;
		p++;
	}
	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9') || (negative && *p == '0'))
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (*p - '0');
		if (v > (int64_t)INT32_MAX + (negative ? 1 : 0))
			return false;
	}
	*ret = (int32_t)(negative ? -v : v);
	*at = p;
	return true;
}

static bool take_word(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n) != 0)
		return false;
	*at += n;
	return true;
}

static bool step_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

static bool take_step(const char **at, char ret_step[PT_PATH_STEP_MAX + 1])
{
	size_t n = 0;

	while (step_byte((*at)[n]))
		n++;
	if (n == 0 || n > PT_PATH_STEP_MAX)
		return false;
	memcpy(ret_step, *at, n);
	ret_step[n] = '\0';
	*at += n;
	return true;
}

/* ",option=value" ... to the end of the name; an empty string when done well, else what is wrong. */
static const char *take_options(const char *p, bool cuts, enum pt_axis_kind kind, struct pt_path_name *n)
{
	int32_t *dim = n->kind == PT_PATH_PARTITION ? &n->partition.dim : &n->axis.dim;

	while (*p) {
		if (cuts && take_word(&p, ",dim=")) {
			if (*dim >= 0)
				return "dim is given twice";
			if (!take_number(&p, false, dim) || *dim >= PT_DIMS_MAX)
				return "dim must be a plain number from 0 to 63";
		} else if (cuts && take_word(&p, ",step=")) {
			if (n->step[0])
				return "step is given twice";
			if (!take_step(&p, n->step))
				return "a step tag is 1 to 64 letters, digits, dots, dashes or underscores";
		} else if (cuts && take_word(&p, ",split=")) {
			if (n->split != PT_SPLIT_UNSET)
				return "split is given twice";
			if (take_word(&p, "balanced"))
				n->split = PT_SPLIT_BALANCED;
			else if (take_word(&p, "chunk"))
				n->split = PT_SPLIT_CHUNK;
			else
				return "split is balanced or chunk";
		} else if ((!cuts && kind == PT_AXIS_EP && take_word(&p, ",expert=")) ||
			   (!cuts && kind == PT_AXIS_PP && take_word(&p, ",stage="))) {
			if (n->axis.has_id)
				return "the id is given twice";
			if (!take_number(&p, true, &n->axis.id))
				return "the id must be a plain number";
			n->axis.has_id = true;
		} else {
			return "what follows the size is not an option of it";
		}
		if (*p && *p != ',')
			return "options are separated by commas";
	}
	return "";
}

static int classify_axis(const char *name, struct pt_path_name *n)
{
	const char *p = name, *wrong = "";
	bool size_optional = true, cuts = false;
	int32_t rank = 0, size = 0;

	n->kind = PT_PATH_AXIS;
	if (take_word(&p, "writer=")) {
		n->kind = PT_PATH_PARTITION;
		size_optional = false;
		cuts = true;
	} else if (take_word(&p, "tp=")) {
		n->axis.kind = PT_AXIS_TP;
		size_optional = false;
		cuts = true;
	} else if (take_word(&p, "dp=")) {
		n->axis.kind = PT_AXIS_DP;
	} else if (take_word(&p, "ep=")) {
		n->axis.kind = PT_AXIS_EP;
	} else if (take_word(&p, "pp=")) {
		n->axis.kind = PT_AXIS_PP;
	} else {
		return pt_fail(EINVAL, "\"%s\": axes are written in lower case", name);
	}
	if (!take_number(&p, false, &rank))
		wrong = "the rank must be a plain number, 0 or more, without leading zeros";
	else if (take_word(&p, "of")) {
		if (!take_number(&p, false, &size))
			wrong = "the size must be a plain number without leading zeros";
		else if (size <= 0 || rank >= size)
			wrong = "the rank must be below the size";
	} else if (!size_optional) {
		wrong = "the size is missing: write it as RANKofSIZE";
	}
	if (n->kind == PT_PATH_PARTITION) {
		n->partition.rank = rank;
		n->partition.size = size;
	} else {
		n->axis.rank = rank;
		n->axis.size = size;
	}
	if (!*wrong)
		wrong = take_options(p, cuts, n->axis.kind, n);
	if (*wrong)
		return pt_fail(EINVAL, "\"%s\": %s", name, wrong);
	return 0;
}

int pt_path_classify(const char *name, struct pt_path_name *ret_name)
{
	struct pt_path_name n;
	int rc;

	memset(&n, 0, sizeof(n));
	n.axis.dim = -1;
	n.partition.dim = -1;
	n.format = PT_FORMAT_COUNT;
	if (strlen(name) > PT_PATH_COMPONENT_MAX)
		return pt_fail(ENAMETOOLONG, "a name of more than %d bytes", PT_PATH_COMPONENT_MAX);
	if (pt_path_axis_like(name)) {
		rc = classify_axis(name, &n);
		if (rc < 0)
			return rc;
	} else if (pt_path_view_split(name, &n.view, &n.format)) {
		n.kind = PT_PATH_VIEW;
	} else if (strcmp(name, PT_PATH_INFO_NAME) == 0) {
		n.kind = PT_PATH_INFO;
	} else if (strcmp(name, PT_PATH_CONTROL_NAME) == 0) {
		n.kind = PT_PATH_CONTROL;
	} else if (strcmp(name, ".all.safetensors") == 0 || strcmp(name, ".all.pt") == 0) {
		n.kind = PT_PATH_ALL;
		n.format = pt_format_by_name(name + 5, strlen(name + 5));
	} else {
		n.kind = PT_PATH_PLAIN;
		rc = pt_path_component_decode(name, n.component);
		if (rc < 0)
			return rc;
	}
	*ret_name = n;
	return 0;
}

static int format_options(const struct pt_path_name *n, int32_t dim, char *text, size_t size)
{
	int len = 0;

	if (dim >= 0)
		len += snprintf(text + len, size - (size_t)len, ",dim=%d", (int)dim);
	if (n->split != PT_SPLIT_UNSET)
		len += snprintf(text + len, size - (size_t)len, ",split=%s", n->split == PT_SPLIT_CHUNK ? "chunk" : "balanced");
	if (n->step[0])
		len += snprintf(text + len, size - (size_t)len, ",step=%.*s", PT_PATH_STEP_MAX, n->step);
	return len;
}

int pt_path_name_format(const struct pt_path_name *n, char ret_text[PT_PATH_COMPONENT_MAX + 1])
{
	static const char *const views[] = { "full", "shard", "as_stored" };
	char text[PT_PATH_COMPONENT_MAX + 1];
	size_t size = sizeof(text);
	struct pt_path_name again;
	int len = 0, rc;

	switch (n->kind) {
	case PT_PATH_PLAIN:
		return pt_path_component_encode(n->component, ret_text);
	case PT_PATH_AXIS:
		len = snprintf(text, size, "%s=%d", pt_axis_kind_name(n->axis.kind), (int)n->axis.rank);
		if (n->axis.size > 0)
			len += snprintf(text + len, size - (size_t)len, "of%d", (int)n->axis.size);
		if (n->axis.has_id)
			len += snprintf(text + len, size - (size_t)len, ",%s=%d", n->axis.kind == PT_AXIS_EP ? "expert" : "stage",
					(int)n->axis.id);
		format_options(n, n->axis.dim, text + len, size - (size_t)len);
		break;
	case PT_PATH_PARTITION:
		len = snprintf(text, size, "writer=%dof%d", (int)n->partition.rank, (int)n->partition.size);
		format_options(n, n->partition.dim, text + len, size - (size_t)len);
		break;
	case PT_PATH_VIEW:
		if ((unsigned int)n->view >= sizeof(views) / sizeof(views[0]))
			return pt_fail(EINVAL, "%d is no view", (int)n->view);
		snprintf(text, size, "%s%s%s", views[n->view], n->format == PT_FORMAT_COUNT ? "" : ".",
			 n->format == PT_FORMAT_COUNT ? "" : pt_format_name(n->format));
		break;
	case PT_PATH_INFO:
		strcpy(text, PT_PATH_INFO_NAME);
		break;
	case PT_PATH_ALL:
		snprintf(text, size, ".all.%s", pt_format_name(n->format));
		break;
	case PT_PATH_CONTROL:
		strcpy(text, PT_PATH_CONTROL_NAME);
		break;
	default:
		return pt_fail(EINVAL, "%d is no kind of name", (int)n->kind);
	}
	/* Whatever the caller put together must mean what it says. */
	rc = pt_path_classify(text, &again);
	if (rc < 0)
		return rc;
	if (again.kind != n->kind)
		return pt_fail(EINVAL, "\"%s\" would mean something else", text);
	strcpy(ret_text, text);
	return 0;
}

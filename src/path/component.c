/* path/component.c - key components and their one spelling in the tree. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "path/internal.h"
#include "path/path.h"

/* In any case, of ASCII only: the locale must not matter. */
static bool begins_with(const char *name, const char *start)
{
	for (; *start; name++, start++)
		if (*name != *start && !(*name >= 'A' && *name <= 'Z' && *name - 'A' + 'a' == *start))
			return false;
	return true;
}

bool pt_path_axis_like(const char *name)
{
	static const char *const starts[] = { "dp=", "tp=", "ep=", "pp=", "writer=" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (begins_with(name, starts[i]))
			return true;
	return false;
}

bool pt_path_view_split(const char *name, enum pt_path_view *ret_view, enum pt_format *ret_format)
{
	static const char *const views[] = { "full", "shard", "as_stored" };

	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		size_t n = strlen(views[i]);
		enum pt_format f = PT_FORMAT_COUNT;

		if (strncmp(name, views[i], n) != 0)
			continue;
		if (name[n] == '.') {
			f = pt_format_by_name(name + n + 1, strlen(name + n + 1));
			if (f == PT_FORMAT_COUNT)
				continue;
		} else if (name[n] != '\0') {
			continue;
		}
		*ret_view = (enum pt_path_view)i;
		*ret_format = f;
		return true;
	}
	return false;
}

/* Would this component be taken for something else? */
static bool reserved(const char *c)
{
	enum pt_path_view view;
	enum pt_format format;

	return pt_path_axis_like(c) || pt_path_view_split(c, &view, &format) || strcmp(c, PT_PATH_INFO_NAME) == 0 ||
	       strcmp(c, PT_PATH_CONTROL_NAME) == 0 || strcmp(c, ".all.safetensors") == 0 || strcmp(c, ".all.pt") == 0 ||
	       strcmp(c, ".") == 0 || strcmp(c, "..") == 0;
}

static void put_hex(char out[3], unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";

	out[0] = '%';
	out[1] = digits[c >> 4];
	out[2] = digits[c & 15];
}

int pt_path_component_encode(const char *component, char ret_name[PT_PATH_COMPONENT_MAX + 1])
{
	char name[PT_PATH_COMPONENT_MAX + 1];
	bool first = reserved(component);
	size_t len = 0;

	if (*component == '\0')
		return pt_fail(EINVAL, "a key component cannot be empty");
	if (!pt_text_is_utf8(component))
		return pt_fail(EINVAL, "a key component must be valid UTF-8");
	for (const char *c = component; *c; c++) {
		bool escape = *c == '%' || first;

		if (*c == '/')
			return pt_fail(EINVAL, "a key component cannot hold a slash");
		if (len + (escape ? 3 : 1) > PT_PATH_COMPONENT_MAX)
			return pt_fail(ENAMETOOLONG, "key component \"%.40s...\" is longer than %d bytes once encoded", component,
				       PT_PATH_COMPONENT_MAX);
		if (escape) {
			put_hex(name + len, (unsigned char)*c);
			len += 3;
		} else {
			name[len++] = *c;
		}
		first = false;
	}
	name[len] = '\0';
	strcpy(ret_name, name);
	return 0;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int pt_path_component_decode(const char *name, char ret_component[PT_PATH_COMPONENT_MAX + 1])
{
	char component[PT_PATH_COMPONENT_MAX + 1], again[PT_PATH_COMPONENT_MAX + 1];
	size_t len = 0;
	int rc;

	if (strlen(name) > PT_PATH_COMPONENT_MAX)
		return pt_fail(ENAMETOOLONG, "a name of more than %d bytes", PT_PATH_COMPONENT_MAX);
	for (const char *c = name; *c; c++) {
		int hi, lo;

		if (*c != '%') {
			component[len++] = *c;
			continue;
		}
		hi = hex_value(c[1]);
		lo = hi < 0 ? -1 : hex_value(c[2]);
		if (lo < 0 || (hi == 0 && lo == 0))
			return pt_fail(EINVAL, "\"%s\" holds a percent sign that begins no escape; write it as %%25", name);
		component[len++] = (char)(hi << 4 | lo);
		c += 2;
	}
	component[len] = '\0';
	rc = pt_path_component_encode(component, again);
	if (rc < 0)
		return rc;
	if (strcmp(again, name) != 0)
		return pt_fail(EINVAL, "\"%s\" is not how this key is spelled; use \"%s\"", name, again);
	strcpy(ret_component, component);
	return 0;
}

/* Checks a key and spells it; each byte becomes three at most. */
static int key_encode(const char *key, char path[PT_PATH_ENCODED_MAX + 1])
{
	char component[PT_PATH_COMPONENT_MAX + 1], name[PT_PATH_COMPONENT_MAX + 1];
	const char *at = key;
	size_t have = 0;

	if (*key == '\0')
		return pt_fail(EINVAL, "a key cannot be empty");
	if (strnlen(key, PT_PATH_KEY_MAX + 1) > PT_PATH_KEY_MAX)
		return pt_fail(ENAMETOOLONG, "key \"%.40s...\" is longer than %d bytes", key, PT_PATH_KEY_MAX);
	for (;;) {
		size_t len = strcspn(at, "/");
		int rc;

		if (len > PT_PATH_COMPONENT_MAX)
			return pt_fail(ENAMETOOLONG, "key \"%.40s...\" has a component of more than %d bytes", key, PT_PATH_COMPONENT_MAX);
		memcpy(component, at, len);
		component[len] = '\0';
		rc = pt_path_component_encode(component, name);
		if (rc < 0)
			return pt_fail_context(rc, "key \"%.80s\"", key);
		strcpy(path + have, name);
		have += strlen(name);
		at += len;
		if (*at == '\0')
			return 0;
		path[have++] = '/';
		at++;
	}
}

int pt_path_key_check(const char *key)
{
	char path[PT_PATH_ENCODED_MAX + 1];

	return key_encode(key, path);
}

int pt_path_for_key(const char *key, char ret_path[PT_PATH_ENCODED_MAX + 1])
{
	char path[PT_PATH_ENCODED_MAX + 1];
	int rc = key_encode(key, path);

	if (rc == 0)
		strcpy(ret_path, path);
	return rc;
}

int pt_path_to_key(const char *path, char ret_key[PT_PATH_KEY_MAX + 1])
{
	char name[PT_PATH_COMPONENT_MAX + 1], component[PT_PATH_COMPONENT_MAX + 1], key[PT_PATH_KEY_MAX + 1];
	const char *at = path;
	size_t have = 0;

	for (;;) {
		size_t len = strcspn(at, "/"), add;
		int rc;

		if (len > PT_PATH_COMPONENT_MAX)
			return pt_fail(ENAMETOOLONG, "a name of more than %d bytes", PT_PATH_COMPONENT_MAX);
		memcpy(name, at, len);
		name[len] = '\0';
		rc = pt_path_component_decode(name, component);
		if (rc < 0)
			return rc;
		add = strlen(component);
		if (have + add > PT_PATH_KEY_MAX)
			return pt_fail(ENAMETOOLONG, "path \"%.40s...\" names a key of more than %d bytes", path, PT_PATH_KEY_MAX);
		memcpy(key + have, component, add + 1);
		have += add;
		at += len;
		if (*at == '\0')
			break;
		if (have == PT_PATH_KEY_MAX)
			return pt_fail(ENAMETOOLONG, "path \"%.40s...\" names a key of more than %d bytes", path, PT_PATH_KEY_MAX);
		key[have++] = '/';
		at++;
	}
	strcpy(ret_key, key);
	return 0;
}

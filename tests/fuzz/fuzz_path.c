/* tests/fuzz/fuzz_path.c - any bytes as a name, a component, a key and a path: what is taken must read back as itself. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "path/path.h"

#define TEXT_MAX 5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void same_layout(const struct pt_axis *a, const struct pt_axis *b)
{
	must(a->kind == b->kind && a->rank == b->rank && a->size == b->size && a->dim == b->dim && a->has_id == b->has_id && a->id == b->id);
}

static void fuzz_name(const char *text)
{
	char name[PT_PATH_COMPONENT_MAX + 1], back[PT_PATH_COMPONENT_MAX + 1];
	struct pt_path_name n, again;

	if (pt_path_component_encode(text, name) == 0) {
		must(pt_path_component_decode(name, back) == 0 && !strcmp(back, text));
		must(pt_path_classify(name, &n) == 0 && n.kind == PT_PATH_PLAIN && !strcmp(n.component, text));
	}
	if (pt_path_component_decode(text, back) == 0)
		must(pt_path_component_encode(back, name) == 0 && !strcmp(name, text));
	if (pt_path_classify(text, &n) < 0)
		return;
	must(pt_path_name_format(&n, name) == 0);
	must(pt_path_classify(name, &again) == 0);
	must(n.kind == again.kind && n.split == again.split && !strcmp(n.step, again.step) && n.view == again.view && n.format == again.format);
	must(!strcmp(n.component, again.component) && n.partition.rank == again.partition.rank && n.partition.size == again.partition.size &&
	     n.partition.dim == again.partition.dim);
	same_layout(&n.axis, &again.axis);
	if (n.kind == PT_PATH_PLAIN)
		must(!strcmp(name, text));
}

static void fuzz_path(const char *text)
{
	char path[PT_PATH_TEXT_MAX + 1], twice[PT_PATH_TEXT_MAX + 1];
	struct pt_path p, again;
	uint32_t i;

	if (pt_path_parse(text, &p) < 0)
		return;
	if (p.key[0])
		must(pt_path_key_check(p.key) == 0);
	must(pt_path_format(&p, path) == 0);
	must(pt_path_parse(path, &again) == 0);
	must(!strcmp(p.key, again.key) && p.layout.axis_count == again.layout.axis_count && p.axis_count == again.axis_count);
	for (i = 0; i < p.layout.axis_count; i++)
		same_layout(&p.layout.axis[i], &again.layout.axis[i]);
	must(p.has_partition == again.has_partition && p.has_layout == again.has_layout && p.has_view == again.has_view && p.info == again.info);
	must(p.split == again.split && !strcmp(p.step, again.step) && p.view == again.view && p.format == again.format);
	must(pt_path_format(&again, twice) == 0 && !strcmp(path, twice));
}

static void fuzz_key(const char *text)
{
	char path[PT_PATH_ENCODED_MAX + 1], key[PT_PATH_KEY_MAX + 1];
	struct pt_path p;

	if (pt_path_for_key(text, path) == 0) {
		must(pt_path_to_key(path, key) == 0 && !strcmp(key, text));
		must(pt_path_parse(path, &p) == 0 && !strcmp(p.key, text) && !p.has_layout && !p.has_view && !p.info);
	}
	if (pt_path_to_key(text, key) == 0)
		must(pt_path_for_key(key, path) == 0 && !strcmp(path, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size > TEXT_MAX)
		return 0;
	/* Of exactly this size, so that a byte too many is noticed. */
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	fuzz_name(text);
	fuzz_path(text);
	fuzz_key(text);
	free(text);
	return 0;
}

/* tree/model_dir.c - the index of one directory: which name leads to which tensor, and which names lead nowhere. */
#include "tree/model_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/tree.h"

void pt_model_dir_unref(struct pt_model_dir *d)
{
	uint32_t i;

	if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (i = 0; i < d->file_count; i++) {
		pt_container_unref(d->files[i].c);
		free(d->files[i].name);
		if (d->stems)
			free(d->stems[i]);
	}
	free(d->files);
	free(d->stems);
	free(d->aliases);
	pt_tp_plan_free(d->plan);
	free(d->plan_error);
	free(d->damaged);
	free(d);
}

static int alias_compare(const void *a, const void *b)
{
	const struct pt_model_alias *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : x->file != y->file ? (x->file < y->file ? -1 : 1) : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* The key that a bare tensor stands for: the file's name without its last extension. */
static char *stem_of(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && dot != name ? pt_asprintf("%.*s", (int)(dot - name), name) : pt_strdup(name);
}

int pt_model_dir_name_tensors(struct pt_model_dir *d)
{
	uint64_t total = 0;
	uint32_t f, i, n = 0;

	for (f = 0; f < d->file_count; f++)
		total += d->files[f].c->bundle ? 0 : d->files[f].c->tensor_count;
	if (total > UINT32_MAX)
		return pt_fail(EFBIG, "the directory holds too many tensors");
	d->aliases = pt_calloc(total ? total : 1, sizeof(*d->aliases));
	d->stems = pt_calloc(d->file_count ? d->file_count : 1, sizeof(*d->stems));
	if (!d->aliases || !d->stems)
		return pt_fail_nomem();
	for (f = 0; f < d->file_count; f++) {
		const struct pt_container *c = d->files[f].c;

		d->stems[f] = stem_of(d->files[f].name);
		if (!d->stems[f])
			return pt_fail_nomem();
		/* A hidden file gives none: it is one that is still being written, to be renamed onto the one whose names it must not withhold meanwhile. */
		for (i = 0; !c->bundle && d->files[f].name[0] != '.' && i < c->tensor_count; i++) {
			const char *name = c->names + c->tensors[i].name;

			d->aliases[n++] = (struct pt_model_alias){ .name = name[0] ? name : d->stems[f], .file = f, .tensor = i };
		}
	}
	d->alias_count = n;
	if (n)
		qsort(d->aliases, n, sizeof(*d->aliases), alias_compare);
	for (i = 0; i < n; i++) {
		struct pt_model_alias *a = &d->aliases[i];

		if ((i > 0 && strcmp(a->name, a[-1].name) == 0) || (i + 1 < n && strcmp(a->name, a[1].name) == 0))
			a->withheld = "another file of this directory has a tensor of that name";
		else if (pt_path_key_check(a->name) < 0)
			a->withheld = "the name cannot be a key's";
	}
	pt_fail_clear();
	return 0;
}

uint32_t pt_model_dir_from(const struct pt_model_dir *d, const char *name)
{
	uint32_t lo = 0, hi = d->alias_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (strcmp(d->aliases[mid].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct pt_model_alias *pt_model_dir_find(const struct pt_model_dir *d, const char *name)
{
	uint32_t i = pt_model_dir_from(d, name);

	return i < d->alias_count && !d->aliases[i].withheld && strcmp(d->aliases[i].name, name) == 0 ? &d->aliases[i] : NULL;
}

bool pt_model_dir_leads(const struct pt_model_dir *d, const char *name)
{
	char start[PT_KEY_MAX + 2];
	int len = snprintf(start, sizeof(start), "%s/", name);
	uint32_t i;

	if (len < 0 || (size_t)len >= sizeof(start))
		return false;
	for (i = pt_model_dir_from(d, start); i < d->alias_count && strncmp(d->aliases[i].name, start, (size_t)len) == 0; i++)
		if (!d->aliases[i].withheld)
			return true;
	return false;
}

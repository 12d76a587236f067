/* tree/many.c - many tensors as one file: the tensors that it is made of, and the pins that keep them. */
#include "tree/many.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tree/many_int.h"

int pt_many_create(struct pt_repo *repo, enum pt_format format, struct pt_many **ret_many)
{
	struct pt_many *m = pt_calloc(1, sizeof(*m));

	if (!m)
		return pt_fail_nomem();
	m->repo = repo;
	m->format = format;
	pthread_mutex_init(&m->lock, NULL);
	*ret_many = m;
	return 0;
}

static int add(struct pt_many *many, const char *name, const struct pt_many_cut *cut, struct pt_many_item **ret_item)
{
	struct pt_many_item *more;

	if (many->count == many->cap) {
		more = pt_reallocarray(many->items, many->cap ? 2 * (size_t)many->cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		many->items = more;
		many->cap = many->cap ? 2 * many->cap : 16;
	}
	*ret_item = &many->items[many->count];
	**ret_item = (struct pt_many_item){ .name = pt_strdup(name), .cut = *cut };
	if (!(*ret_item)->name)
		return pt_fail_nomem();
	many->count++;
	return 0;
}

int pt_many_add_container(struct pt_many *many, struct pt_container *c)
{
	struct pt_container **more;
	uint32_t i;

	/* Tensors come file by file. */
	for (i = many->container_count; i > 0; i--)
		if (many->containers[i - 1] == c)
			return 0;
	more = pt_reallocarray(many->containers, (size_t)many->container_count + 1, sizeof(*more));
	if (!more)
		return pt_fail_nomem();
	many->containers = more;
	more[many->container_count++] = pt_container_ref(c);
	return 0;
}

int pt_many_add_tensor(struct pt_many *many, const char *name, struct pt_container *c, uint32_t tensor, const struct pt_many_cut *cut)
{
	struct pt_many_item *item;
	int rc;

	rc = pt_many_add_container(many, c);
	if (!rc)
		rc = add(many, name, cut, &item);
	if (rc < 0)
		return rc;
	item->c = pt_container_ref(c);
	item->tensor = tensor;
	return 0;
}

int pt_many_add_revision(struct pt_many *many, const char *name, struct pt_manifest *m, const struct pt_many_cut *cut)
{
	struct pt_many_item *item;
	int rc;

	rc = add(many, name, cut, &item);
	if (!rc)
		item->m = pt_manifest_ref(m);
	return rc;
}

bool pt_many_has(const struct pt_many *many, const char *name)
{
	uint32_t i;

	for (i = 0; i < many->count; i++)
		if (strcmp(many->items[i].name, name) == 0)
			return true;
	return false;
}

uint32_t pt_many_count(const struct pt_many *many)
{
	return many->count;
}

const char *pt_many_flat(const struct pt_many *many)
{
	return many->flat;
}

int pt_many_flat_set(struct pt_many *many, const char *why)
{
	many->flat = pt_strdup(why);
	return many->flat ? 0 : pt_fail_nomem();
}

void pt_many_free(struct pt_many *many)
{
	uint32_t i;

	if (!many)
		return;
	for (i = 0; i < PT_MANY_KEPT; i++)
		pt_many_kept_drop(many->kept[i]);
	for (i = 0; i < many->count; i++) {
		free(many->items[i].name);
		pt_container_unref(many->items[i].c);
		pt_manifest_unref(many->items[i].m);
	}
	for (i = 0; i < many->container_count; i++)
		pt_container_unref(many->containers[i]);
	free(many->items);
	free(many->containers);
	free(many->held);
	free(many->item_of);
	free(many->flat);
	pt_served_done(&many->served);
	pthread_mutex_destroy(&many->lock);
	free(many);
}

uint64_t pt_many_size(const struct pt_many *many)
{
	return many->served.size;
}

uint64_t pt_many_stamp(const struct pt_many *many)
{
	return many->stamp;
}

/* ---- pins: of containers' blobs, which keep what they refer to, and of revisions ---- */

static void unpin_some(struct pt_many *many, uint32_t containers, uint32_t items)
{
	struct pt_node n = { .id = 0 };
	uint32_t i;

	for (i = 0; i < containers; i++) {
		n.blob = many->containers[i]->blob;
		pt_node_unpin(many->repo, &n);
	}
	for (i = 0; i < items; i++)
		if (many->items[i].m)
			pt_manifest_unpin(many->repo, many->items[i].m);
}

int pt_many_pin(struct pt_many *many)
{
	struct pt_node n = { .name = "" };
	uint32_t c, i = 0;
	int rc = 0;

	for (c = 0; c < many->container_count; c++) {
		n.id = many->containers[c]->node;
		n.blob = many->containers[c]->blob;
		rc = pt_node_pin(many->repo, &n);
		if (rc < 0)
			goto fail;
	}
	for (i = 0; i < many->count; i++) {
		rc = many->items[i].m ? pt_manifest_pin(many->repo, many->items[i].m) : 0;
		if (rc < 0)
			goto fail;
	}
	many->held = pt_calloc(many->container_count ? many->container_count : 1, sizeof(*many->held));
	for (c = 0; many->held && c < many->container_count; c++)
		many->held[c] = pt_container_hold(many->containers[c]);
	return 0;
fail:
	unpin_some(many, c, i);
	return rc == -ENOENT ? -ESTALE : rc;
}

void pt_many_unpin(struct pt_many *many)
{
	uint32_t i;

	pthread_mutex_lock(&many->lock);
	for (i = 0; i < PT_MANY_KEPT; i++) {
		pt_many_kept_drop(many->kept[i]);
		many->kept[i] = NULL;
	}
	pthread_mutex_unlock(&many->lock);
	for (i = 0; many->held && i < many->container_count; i++)
		pt_container_release(many->containers[i], many->held[i]);
	free(many->held);
	many->held = NULL;
	unpin_some(many, many->container_count, many->count);
}

/* tensor/known.c - collects what a node holds and says it in words. Assumes nothing about order from the manifest layer. */
#include "tensor/known.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

struct loading {
	struct pt_known *known;
	int rc;
};

static int grow(void *list, size_t count, void *ret_slot_list)
{
	void *grown;

	if (count & (count - 1)) {      /* room is kept in powers of two */
		*(void **)ret_slot_list = list;
		return 0;
	}
	grown = pt_reallocarray(list, count ? 2 * count : 1, sizeof(void *));
	if (!grown)
		return pt_fail_nomem();
	*(void **)ret_slot_list = grown;
	return 0;
}

static int take_manifest(void *ctx, struct pt_manifest *m)
{
	struct loading *l = ctx;
	struct pt_known *k = l->known;
	void *list;

	l->rc = grow(k->manifests, k->manifest_count, &list);
	if (l->rc)
		return 1;
	k->manifests = list;
	k->manifests[k->manifest_count++] = pt_manifest_ref(m);
	return 0;
}

static void pending_copy_free(struct pt_pending *p)
{
	if (!p)
		return;
	free(p->objects);
	free(p);
}

static struct pt_pending *pending_copy(const struct pt_pending *p)
{
	struct pt_pending *copy = pt_memdup(p, sizeof(*p));

	if (!copy)
		return NULL;
	copy->objects = pt_reallocarray(NULL, p->object_count ? p->object_count : 1, sizeof(*p->objects));
	if (!copy->objects) {
		free(copy);
		return NULL;
	}
	if (p->object_count)
		memcpy(copy->objects, p->objects, p->object_count * sizeof(*p->objects));
	return copy;
}

static int take_pending(void *ctx, const struct pt_pending *p)
{
	struct loading *l = ctx;
	struct pt_known *k = l->known;
	struct pt_pending *copy;
	void *list;
	size_t at;

	l->rc = grow(k->pendings, k->pending_count, &list);
	if (l->rc)
		return 1;
	k->pendings = list;
	copy = pending_copy(p);
	if (!copy) {
		l->rc = pt_fail_nomem();
		return 1;
	}
	for (at = k->pending_count; at && k->pendings[at - 1]->updated_ns < copy->updated_ns; at--)
		k->pendings[at] = k->pendings[at - 1];
	k->pendings[at] = copy;
	k->pending_count++;
	return 0;
}

static int load(struct pt_repo *repo, uint64_t node, struct pt_known *ret_known)
{
	struct pt_known k = { 0 };
	struct loading l = { .known = &k };
	int rc;

	/* Pending sets first: one that is committed between the two scans is then seen twice rather than never. */
	rc = pt_pending_list(repo, node, take_pending, &l);
	if (rc >= 0 && !l.rc)
		rc = pt_manifest_list(repo, node, take_manifest, &l);
	if (rc >= 0)
		rc = l.rc;
	if (rc < 0) {
		pt_known_done(&k);
		return rc;
	}
	*ret_known = k;
	return 0;
}

/* Both are one question to a store that is away. */
int pt_known_load(struct pt_repo *repo, uint64_t node, struct pt_known *ret_known)
{
	struct pt_repo_ahead *ahead;
	int rc = pt_repo_ahead_begin(repo, NULL, 0, &ahead);

	if (!rc)
		rc = pt_repo_ahead_content(ahead, &node, 1);
	if (!rc)
		rc = load(repo, node, ret_known);
	pt_repo_ahead_end(ahead);
	return rc;
}

int pt_known_load_scope(struct pt_repo *repo, uint64_t node, const char *scope, struct pt_known *ret_known)
{
	struct pt_known k = { 0 };
	int rc;

	k.manifests = pt_calloc(1, sizeof(*k.manifests));
	if (!k.manifests)
		return pt_fail_nomem();
	rc = pt_manifest_get(repo, node, scope, &k.manifests[0]);
	if (rc < 0) {
		free(k.manifests);
		return rc;
	}
	k.manifest_count = 1;
	*ret_known = k;
	return 0;
}

void pt_known_done(struct pt_known *k)
{
	size_t i;

	for (i = 0; i < k->manifest_count; i++)
		pt_manifest_unref(k->manifests[i]);
	for (i = 0; i < k->pending_count; i++)
		pending_copy_free(k->pendings[i]);
	free(k->manifests);
	free(k->pendings);
	memset(k, 0, sizeof(*k));
}

struct pt_manifest *pt_known_manifest(const struct pt_known *k, const char *scope)
{
	size_t i;

	for (i = 0; i < k->manifest_count; i++)
		if (!strcmp(k->manifests[i]->scope, scope))
			return k->manifests[i];
	return NULL;
}

const struct pt_pending *pt_known_pending(const struct pt_known *k, const char *scope)
{
	size_t i;

	for (i = 0; i < k->pending_count; i++)
		if (!strcmp(k->pendings[i]->scope, scope))
			return k->pendings[i];
	return NULL;
}

bool pt_written_is_tp(enum pt_written written)
{
	return written == PT_WRITTEN_TP_SHARD || written == PT_WRITTEN_TP_SLICE;
}

bool pt_objects_define_dim(const struct pt_object *objects, uint32_t count)
{
	uint32_t i, a;

	for (i = 0; i < count; i++)
		for (a = 0; a < objects[i].axis_count; a++)
			if (objects[i].axis[a].kind == PT_AXIS_TP && objects[i].axis[a].dim >= 0)
				return true;
	return false;
}

void pt_written_describe(enum pt_written written, int32_t size, int32_t dim, char *buf, size_t len)
{
	switch (written) {
	case PT_WRITTEN_TP_SHARD:
	case PT_WRITTEN_TP_SLICE:
		snprintf(buf, len, "tp of %d on dim %d", (int)size, (int)dim);
		break;
	case PT_WRITTEN_WRITER:
		snprintf(buf, len, "writer of %d on dim %d", (int)size, (int)dim);
		break;
	default:
		snprintf(buf, len, "the full tensor");
		break;
	}
}

static void describe_one(char *buf, size_t len, const char *scope, enum pt_written written, int32_t size, int32_t dim, bool pending)
{
	char cut[64];
	size_t at = strlen(buf);

	if (len - at < 2)
		return;
	pt_written_describe(written, size, dim, cut, sizeof(cut));
	snprintf(buf + at, len - at, "%s%s%s%s%s", at ? ", " : "", scope, *scope ? ": " : "", cut, pending ? " (pending)" : "");
}

void pt_known_describe(const struct pt_known *k, char *buf, size_t len)
{
	size_t i;

	buf[0] = '\0';
	for (i = 0; i < k->manifest_count; i++)
		describe_one(buf, len, k->manifests[i]->scope, k->manifests[i]->written, k->manifests[i]->set_size, k->manifests[i]->set_dim, false);
	for (i = 0; i < k->pending_count; i++)
		describe_one(buf, len, k->pendings[i]->scope, k->pendings[i]->written, k->pendings[i]->set_size, k->pendings[i]->set_dim, true);
	if (!*buf)
		snprintf(buf, len, "nothing");
}

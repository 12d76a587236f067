/* manifest/group.c - publishing the parts of many keys of one directory, and the file that shows them, by one batch.
 *
 * The keys are looked up by name when the batch is made: one that is not there yet is made by it. A part joins its pending set as in commit.c. Sets that are complete
 * with it become revisions, in the same batch, if all sets of the group are. While one waits for other parts they all wait, even as pending sets with nothing
 * missing, as whole tensors are at once, which one writer stores alone. So the batch that completes the sets finishes the whole tensors as well: its own, and those
 * that another writer has left behind under the names that it follows.
 * Groups of one process take turns, since they mostly change the same records; those of others are noticed by the compares.
 * Here are its members, and the turns; what a turn looks at is in group_look.c, what it writes in group_batch.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/cache.h"
#include "manifest/group_int.h"
#include "manifest/set.h"

#define TURN_NS ((int64_t)30 * 1000000000)
#define MEMBER_NS ((int64_t)10 * 1000000)        /* more time for more members: the loser of a race begins again */

int pt_group_create(struct pt_repo *repo, uint64_t dir_node, struct pt_group **ret_group)
{
	struct pt_group *g = pt_calloc(1, sizeof(*g));

	if (!g)
		return pt_fail_nomem();
	g->repo = repo;
	g->dir_node = dir_node;
	*ret_group = g;
	return 0;
}

static int member_new(struct pt_group *g, const char *name, struct pt_group_member **ret_m)
{
	struct pt_group_member *more, *m;

	if (g->count == g->cap) {
		more = pt_reallocarray(g->members, g->cap ? 2 * g->cap : 16, sizeof(*more));
		if (!more)
			return pt_fail_nomem();
		g->members = more;
		g->cap = g->cap ? 2 * g->cap : 16;
	}
	m = &g->members[g->count];
	memset(m, 0, sizeof(*m));
	m->name = pt_strdup(name);
	if (!m->name)
		return pt_fail_nomem();
	g->count++;
	*ret_m = m;
	return 0;
}

void pt_group_round(struct pt_group *g, const struct pt_group_round *round)
{
	g->round = round->round;
	snprintf(g->scope, sizeof(g->scope), "%s", round->scope);
	snprintf(g->step, sizeof(g->step), "%s", round->step);
	g->attrs.mode = round->mode;
	g->attrs.uid = round->uid;
	g->attrs.gid = round->gid;
	g->attrs.mtime_ns = round->mtime_ns;
	g->any = true;
}

int pt_group_add(struct pt_group *g, const char *name, struct pt_part *part)
{
	struct pt_group_member *m;
	int rc;

	rc = pt_name_check(name);
	if (!rc)
		rc = pt_set_check_part(part);
	if (!rc)
		rc = member_new(g, name, &m);
	if (rc < 0) {
		pt_object_discard(g->repo, part);
		return rc;
	}
	part->object.hidden = false;
	if (!g->any) {
		memcpy(g->scope, part->scope, sizeof(g->scope));
		memcpy(g->step, part->step, sizeof(g->step));
		g->any = true;
	}
	part->round = part->object.part.size == 1 && part->object.part.dim == -1 ? g->round : 0;
	m->part = *part;
	m->has_part = true;
	memset(part, 0, sizeof(*part));
	return 0;
}

int pt_group_follow(struct pt_group *g, const char *name)
{
	struct pt_group_member *m;
	int rc = pt_name_check(name);

	return rc < 0 ? rc : member_new(g, name, &m);
}

static void member_forget(struct pt_group_member *m)
{
	pt_node_done(&m->node);
	pt_pending_free(m->set);
	pt_manifest_unref(m->old);
	pt_manifest_unref(m->next);
	memset(&m->node, 0, sizeof(m->node));
	m->set = NULL;
	m->old = m->next = NULL;
	m->set_version = 0;
	m->born = m->replaces = false;
}

static void group_forget(struct pt_group *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		member_forget(&g->members[i]);
	pt_node_done(&g->dir);
	memset(&g->dir, 0, sizeof(g->dir));
	pt_buf_reset(&g->bytes);
	pt_buf_reset(&g->garbage);
	g->op_count = 0;
	g->failed = false;
}

void pt_group_free(struct pt_group *g)
{
	size_t i;

	if (!g)
		return;
	group_forget(g);
	for (i = 0; i < g->count; i++) {
		if (g->members[i].has_part)
			pt_object_discard(g->repo, &g->members[i].part);
		free(g->members[i].name);
	}
	pt_buf_done(&g->bytes);
	pt_buf_done(&g->garbage);
	free(g->members);
	free(g->ops);
	free(g);
}

/* ---- publishing ---- */

/* The parts are the index's, or nobody can tell whose: only the collector, which looks, may remove their blobs then. */
static void parts_gone(struct pt_group *g)
{
	size_t i;

	for (i = 0; i < g->count; i++) {
		struct pt_group_member *m = &g->members[i];

		if (!m->has_part)
			continue;
		pt_data_unpin(&g->repo->store->data, &m->part.object.blob, 1);
		pt_part_done(&m->part);
		m->has_part = false;
	}
}

static void published(struct pt_group *g, uint64_t version)
{
	size_t i;

	for (i = 0; i < g->count; i++) {
		struct pt_group_member *m = &g->members[i];

		pt_count(&g->repo->counters.parts, m->has_part);
		pt_count(&g->repo->counters.commits, m->next != NULL);
		if (m->next) {
			m->next->version = version;
			pt_cache_put(g->repo->cache, m->next);
		}
	}
}

static int publish_once(struct pt_group *g, const struct pt_group_calls *calls, void *ctx)
{
	struct pt_group_file file = { .blob_bytes = 0 };
	uint64_t version;
	bool writes = false;
	int rc;

	rc = calls->begin(ctx, &g->all);
	if (!rc)
		rc = pt_group_look(g);
	if (!rc)
		rc = calls->file(ctx, g->finishes, &file, &writes);
	if (!rc)
		rc = pt_group_batch_make(g, writes ? &file : NULL);
	if (!rc)
		rc = pt_group_batch_commit(g, &version);
	if (!rc)
		published(g, version);
	if (!rc && writes)
		pt_data_unpin(&g->repo->store->data, &file.blob, 1);
	pt_node_done(&file.node);
	group_forget(g);
	return rc;
}

int pt_group_publish(struct pt_group *g, const struct pt_group_calls *calls, void *ctx)
{
	struct pt_retry retry = { .deadline_ns = pt_time_boot_ns() + TURN_NS + (int64_t)g->count * MEMBER_NS };
	size_t count = g->count;
	int rc;

	pthread_mutex_lock(&g->repo->group_lock);
	do {
		pt_fail_clear();
		while (g->count > count)        /* what begin followed the time before */
			free(g->members[--g->count].name);
		rc = publish_once(g, calls, ctx);
	} while (pt_retry_again(&retry, &rc));
	pthread_mutex_unlock(&g->repo->group_lock);
	if (!rc || rc == -EIO)
		parts_gone(g);
	return rc;
}

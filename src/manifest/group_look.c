/* manifest/group_look.c - what a group finds in the index when its turn has come, and which of its sets become revisions. Nothing is changed here but the group. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "manifest/group_int.h"
#include "manifest/set.h"

/* The key's node, or what it will be. */
static int look_node(struct pt_group *g, struct pt_group_member *m)
{
	const struct pt_part *p = &m->part;
	int rc;

	rc = pt_node_lookup(g->repo, g->dir_node, m->name, &m->node);
	if (!rc) {
		m->born = true;
		if (m->node.kind == PT_NODE_DIR)
			return 0;
		return m->has_part ? pt_fail(ENOTDIR, "a file of that name is in the way of the key") : 0;
	}
	if (rc != -ENOENT || !m->has_part)
		return rc;
	if (!m->made) {
		rc = pt_node_id_new(g->repo, &m->made);
		if (rc < 0)
			return rc;
	}
	m->node = (struct pt_node){ .id = m->made, .parent = g->dir_node, .kind = PT_NODE_DIR, .implicit = true, .mode = 0755, .uid = p->uid, .gid = p->gid,
				    .next_revision = 1 };
	strcpy(m->node.name, m->name);
	m->node.mtime_ns = m->node.ctime_ns = pt_time_now_ns();
	return 0;
}

static int look_old(struct pt_group *g, struct pt_group_member *m)
{
	int rc = m->born ? pt_manifest_get(g->repo, m->node.id, m->has_part ? m->part.scope : g->scope, &m->old) : -ENOENT;

	return rc == -ENOENT ? 0 : rc;
}

static int look_part(struct pt_group *g, struct pt_group_member *m)
{
	int rc;

	rc = look_node(g, m);
	if (!rc)
		rc = look_old(g, m);
	if (!rc)
		rc = pt_set_load(g->repo, m->node.id, &m->part, true, &m->set, &m->set_key, &m->set_version);
	return rc < 0 ? rc : pt_set_add(m->set, &m->part.object, &m->replaces, &m->replaced);
}

struct waiting {
	const struct pt_group *group;
	struct pt_pending *found;       /* a copy of the latest */
	int rc;
};

static bool of_round(const struct pt_group *g, const struct pt_pending *p)
{
	if (strcmp(p->scope, g->scope) != 0 || strcmp(p->step, g->step) != 0)
		return false;
	if (p->set_size == 1)
		return p->round == g->round && p->object_count == 1;
	return p->set_size == (int32_t)(uint32_t)g->round && p->written == (g->round >> 32 == 1 ? PT_WRITTEN_WRITER : PT_WRITTEN_TP_SHARD);
}

static int waiting_one(void *ctx, const struct pt_pending *p)
{
	struct waiting *w = ctx;
	struct pt_pending *copy;

	if (!of_round(w->group, p) || (w->found && w->found->updated_ns >= p->updated_ns))
		return 0;
	copy = pt_memdup(p, sizeof(*p));
	if (copy)
		copy->objects = pt_memdup(p->objects, p->object_count * sizeof(*p->objects));
	if (!copy || !copy->objects) {
		free(copy);
		w->rc = pt_fail_nomem();
		return 1;
	}
	pt_pending_free(w->found);
	w->found = copy;
	return 0;
}

/* What another writer has left to wait under this name. */
static int look_waiting(struct pt_group *g, struct pt_group_member *m)
{
	struct waiting w = { .group = g };
	struct pt_hash128 identity;
	int rc;

	rc = look_node(g, m);
	if (rc < 0 || m->node.kind != PT_NODE_DIR)
		return rc == -ENOENT ? 0 : rc;
	rc = pt_pending_list(g->repo, m->node.id, waiting_one, &w);
	if (rc >= 0)
		rc = w.rc;
	m->set = w.found;
	if (rc < 0 || !m->set)
		return rc < 0 ? rc : 0;
	rc = pt_set_identity(m->set, &identity);
	if (rc < 0)
		return rc;
	pt_rkey_pending(&m->set_key, m->node.id, m->set->scope, &identity);
	m->set_version = m->set->version;
	return look_old(g, m);
}

static int finish(struct pt_group_member *m, const struct pt_part *attrs)
{
	int rc = pt_set_finish(m->set, &m->next);

	if (rc < 0)
		return rc;
	m->next->revision = m->node.next_revision;
	m->next->mode = attrs->mode;
	m->next->uid = attrs->uid;
	m->next->gid = attrs->gid;
	m->next->mtime_ns = attrs->mtime_ns ? attrs->mtime_ns : pt_time_now_ns();
	return 0;
}

int pt_group_look(struct pt_group *g)
{
	const struct pt_part *attrs = &g->attrs;
	struct pt_group_member *m = NULL;
	size_t i;
	int rc;

	rc = pt_node_get(g->repo, g->dir_node, &g->dir);
	if (rc < 0)
		return rc;
	g->finishes = g->all;
	for (i = 0; i < g->count && !rc; i++) {
		m = &g->members[i];
		if (!m->has_part)
			continue;
		attrs = &m->part;
		rc = look_part(g, m);
		if (!rc && m->set->object_count < (uint32_t)m->set->set_size)
			g->finishes = false;
	}
	for (i = 0; i < g->count && !rc && g->finishes; i++) {
		m = &g->members[i];
		if (m->has_part)
			continue;
		rc = look_waiting(g, m);
		if (!rc && g->round && (!m->set || m->set->object_count < (uint32_t)m->set->set_size))
			g->finishes = false;
	}
	for (i = 0; i < g->count && !rc; i++) {
		m = &g->members[i];
		if (m->set && g->finishes)
			rc = finish(m, attrs);
	}
	if (rc < 0 && m && rc != -EAGAIN)
		pt_fail_context(rc, "%.300s", m->name);
	return rc;
}

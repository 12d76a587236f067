/* tools/ptiod/mark.c - marks of the index: who tells them (this run of the daemon) and the highest version of a record.
 *
 * A version is that of one batch for as long as the index is not taken back, which only happens while no daemon runs (a power loss, a copy put back): so two marks of one run that are equal have
 * nothing between them. The engine's own mark says at once whether the version that was asked last still holds. */
#include <sched.h>
#include <string.h>

#include "tools/ptiod/server.h"

#define TRIES 16

/* The engine cannot tell for a moment while somebody else commits; some never can. */
static bool own_mark(struct server *s, struct pt_meta_mark *ret_own)
{
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (pt_meta_mark(&s->store->meta, ret_own))
			return true;
		sched_yield();
	}
	return false;
}

bool mark_there(struct server *s)
{
	struct pt_meta_mark own;

	return own_mark(s, &own);
}

static void fill(const struct server *s, uint64_t version, struct mark *ret_mark)
{
	memset(ret_mark, 0, sizeof(*ret_mark));
	ret_mark->known = version != 0;
	memcpy(ret_mark->instance, s->instance.b, sizeof(ret_mark->instance));
	ret_mark->version = version;
}

bool mark_known(struct server *s, struct mark *ret_mark)
{
	uint64_t version = pt_meta_version_known(&s->store->meta);

	fill(s, version, ret_mark);
	return version != 0;
}

void mark_take(struct server *s, struct mark *ret_mark)
{
	struct pt_meta_mark own;
	uint64_t version;

	/* Without marks of the engine each version would be a question, and damage of the index one that fails. */
	if (!own_mark(s, &own) || pt_meta_version(&s->store->meta, &version) < 0)
		version = 0;
	fill(s, version, ret_mark);
}

void mark_put(struct mark *mark, Ptio__Wire__Reply *reply)
{
	if (!mark->known)
		return;
	ptio__wire__mark__init(&mark->wire);
	mark->wire.instance = (ProtobufCBinaryData){ sizeof(mark->instance), mark->instance };
	mark->wire.version = mark->version;
	reply->mark = &mark->wire;
}

void mark_put_held(struct server *s, struct mark *mark, Ptio__Wire__Reply *reply)
{
	struct mark now;

	if (!mark->known)
		return;
	mark_take(s, &now);
	if (now.known && now.version == mark->version)
		mark_put(mark, reply);
}

/* format/namemap.c - open addressing with linear probing; at most half full. Hash 0 marks a free slot and is stored as 1. */
#include "format/namemap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

#define CAP_MIN 64

struct pt_namemap_slot {
	uint64_t hash;
	uint32_t value;
};

void pt_namemap_done(struct pt_namemap *m)
{
	free(m->slots);
	*m = (struct pt_namemap){ 0 };
}

static struct pt_namemap_slot *map_slot(const struct pt_namemap *m, uint64_t hash)
{
	size_t i = hash & (m->cap - 1);

	while (m->slots[i].hash != 0 && m->slots[i].hash != hash)
		i = (i + 1) & (m->cap - 1);
	return &m->slots[i];
}

static int map_grow(struct pt_namemap *m)
{
	struct pt_namemap next = { .cap = m->cap ? m->cap * 2 : CAP_MIN, .count = m->count };

	next.slots = pt_calloc(next.cap, sizeof(*next.slots));
	if (!next.slots)
		return pt_fail_nomem();
	for (size_t i = 0; i < m->cap; i++)
		if (m->slots[i].hash != 0)
			*map_slot(&next, m->slots[i].hash) = m->slots[i];
	free(m->slots);
	*m = next;
	return 0;
}

int pt_namemap_put(struct pt_namemap *m, uint64_t hash, uint32_t value, uint32_t *ret_old)
{
	struct pt_namemap_slot *s;
	int rc;

	if (hash == 0)
		hash = 1;
	if (m->count >= m->cap / 2) {
		if (m->count >= PT_NAMEMAP_MAX)
			return pt_fail(EFBIG, "the file has more than %zu names; split it", PT_NAMEMAP_MAX);
		rc = map_grow(m);
		if (rc < 0)
			return rc;
	}
	s = map_slot(m, hash);
	if (s->hash != 0) {
		if (ret_old)
			*ret_old = s->value;
		return 1;
	}
	*s = (struct pt_namemap_slot){ .hash = hash, .value = value };
	m->count++;
	return 0;
}

bool pt_namemap_find(const struct pt_namemap *m, uint64_t hash, uint32_t *ret_value)
{
	const struct pt_namemap_slot *s;

	if (m->cap == 0)
		return false;
	s = map_slot(m, hash ? hash : 1);
	if (s->hash == 0)
		return false;
	*ret_value = s->value;
	return true;
}

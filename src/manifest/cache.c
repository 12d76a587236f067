/* manifest/cache.c - a table with one place a hash value: a newcomer replaces whoever is there. Places are dropped in turn while all manifests together hold
 * more than CACHE_OBJECTS objects, which bounds memory at about 32 MiB. */
#include "manifest/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

#define CACHE_PLACES 4096
#define CACHE_OBJECTS 16384

struct pt_cache {
	pthread_mutex_t lock;           /* all below */
	struct pt_manifest *place[CACHE_PLACES];
	uint64_t objects;
	uint32_t hand;
};

int pt_cache_create(struct pt_cache **ret_cache)
{
	struct pt_cache *cache = pt_calloc(1, sizeof(*cache));

	if (!cache)
		return pt_fail_nomem();
	pthread_mutex_init(&cache->lock, NULL);
	*ret_cache = cache;
	return 0;
}

void pt_cache_free(struct pt_cache *cache)
{
	uint32_t i;

	if (!cache)
		return;
	for (i = 0; i < CACHE_PLACES; i++)
		pt_manifest_unref(cache->place[i]);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

static uint32_t cache_place(uint64_t node, const char *scope)
{
	uint64_t h = pt_hash64(scope, strlen(scope)) ^ node * 0x9e3779b97f4a7c15u;

	return (uint32_t)((h ^ h >> 32) % CACHE_PLACES);
}

struct pt_manifest *pt_cache_get(struct pt_cache *cache, uint64_t node, const char *scope, uint64_t version)
{
	uint32_t at = cache_place(node, scope);
	struct pt_manifest *m;

	pthread_mutex_lock(&cache->lock);
	m = cache->place[at];
	if (m && m->version == version && m->node == node && !strcmp(m->scope, scope))
		pt_manifest_ref(m);
	else
		m = NULL;
	pthread_mutex_unlock(&cache->lock);
	return m;
}

static void cache_drop_locked(struct pt_cache *cache, uint32_t at)
{
	if (!cache->place[at])
		return;
	cache->objects -= cache->place[at]->object_count;
	pt_manifest_unref(cache->place[at]);
	cache->place[at] = NULL;
}

void pt_cache_put(struct pt_cache *cache, struct pt_manifest *m)
{
	uint32_t at = cache_place(m->node, m->scope);

	if (m->object_count > CACHE_OBJECTS)
		return;
	pthread_mutex_lock(&cache->lock);
	cache_drop_locked(cache, at);
	while (cache->objects + m->object_count > CACHE_OBJECTS) {
		cache_drop_locked(cache, cache->hand);
		cache->hand = (cache->hand + 1) % CACHE_PLACES;
	}
	cache->place[at] = pt_manifest_ref(m);
	cache->objects += m->object_count;
	pthread_mutex_unlock(&cache->lock);
}

/* manifest/cache.h - decoded manifests by (node, scope), each with the version of the record that it came from. Thread-safe; bounded. */
#ifndef PT_MANIFEST_CACHE_H
#define PT_MANIFEST_CACHE_H

#include "manifest/record.h"

struct pt_cache;

int pt_cache_create(struct pt_cache **ret_cache);
void pt_cache_free(struct pt_cache *cache);
/* A reference to the manifest decoded from that version, or NULL. */
struct pt_manifest *pt_cache_get(struct pt_cache *cache, uint64_t node, const char *scope, uint64_t version);
/* Remembers m (takes its own reference) in place of another version. */
void pt_cache_put(struct pt_cache *cache, struct pt_manifest *m);

#endif

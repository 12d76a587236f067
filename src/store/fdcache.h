/* store/fdcache.h - open descriptors of sealed blobs: a bounded number of idle ones is kept, least recently used go first.
 *
 * A descriptor in use is never closed, so more than the bound are open only while that many are in use. Thread-safe. */
#ifndef PT_STORE_FDCACHE_H
#define PT_STORE_FDCACHE_H

#include "store/refmap.h"

struct pt_fdcache;

struct pt_fdcache_file {
	struct pt_refmap_node node;             /* first */
	struct pt_fdcache_file *newer, *older;  /* among the idle */
	int fd;
	uint64_t bytes;
	unsigned int users;
	bool forgotten;                         /* not in the map any more */
};

/* Opens a blob: a descriptor, or -errno with a sentence. Called without locks held. */
typedef int pt_fdcache_open_fn(void *ctx, const struct pt_blob_ref *ref, uint64_t *ret_bytes);

/* max: open descriptors. -ENOMEM. */
int pt_fdcache_create(size_t max, pt_fdcache_open_fn *open_fn, void *ctx, struct pt_fdcache **ret_cache);
void pt_fdcache_free(struct pt_fdcache *c);
/* Each get wants a put. */
int pt_fdcache_get(struct pt_fdcache *c, const struct pt_blob_ref *ref, struct pt_fdcache_file **ret_file);
void pt_fdcache_put(struct pt_fdcache *c, struct pt_fdcache_file *file);
/* The blob was deleted: later gets open it again. */
void pt_fdcache_forget(struct pt_fdcache *c, const struct pt_blob_ref *ref);
/* Closes idle descriptors of files that others have deleted, whose space is free only then. */
void pt_fdcache_sweep(struct pt_fdcache *c);

#endif

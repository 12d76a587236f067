/* store/refmap.h - a hash map from blob reference to a caller's struct that begins with (or contains) a node.
 *
 * Intrusive: a node is part of its owner, and may be in one map at a time. Not thread-safe. */
#ifndef PT_STORE_REFMAP_H
#define PT_STORE_REFMAP_H

#include "store/data.h"

struct pt_refmap_node {
	struct pt_refmap_node *next;
	struct pt_blob_ref ref;
};

struct pt_refmap {
	struct pt_refmap_node **buckets;
	size_t bucket_count;            /* a power of two */
	size_t count;
};

int pt_refmap_init(struct pt_refmap *m);                /* -ENOMEM */
void pt_refmap_done(struct pt_refmap *m);               /* nodes are the caller's */
struct pt_refmap_node *pt_refmap_find(const struct pt_refmap *m, const struct pt_blob_ref *ref);
/* node->ref is set and not in the map. Cannot fail: without memory to grow, chains get longer. */
void pt_refmap_insert(struct pt_refmap *m, struct pt_refmap_node *node);
void pt_refmap_remove(struct pt_refmap *m, struct pt_refmap_node *node);
/* Any node, or NULL when there is none. */
struct pt_refmap_node *pt_refmap_any(const struct pt_refmap *m);

static inline bool pt_blob_ref_equal(const struct pt_blob_ref *a, const struct pt_blob_ref *b)
{
	return a->kind == b->kind && pt_id_compare(&a->id, &b->id) == 0;
}

#endif

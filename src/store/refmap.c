/* store/refmap.c - see refmap.h. Ids are random, so their own bytes are the hash. */
#include "store/refmap.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#define BUCKETS_FIRST 64

static size_t bucket_of(const struct pt_refmap *m, const struct pt_blob_ref *ref)
{
	return (size_t)(pt_get_le64(ref->id.b) ^ pt_get_le64(ref->id.b + 8)) & (m->bucket_count - 1);
}

int pt_refmap_init(struct pt_refmap *m)
{
	m->buckets = pt_calloc(BUCKETS_FIRST, sizeof(*m->buckets));
	if (!m->buckets)
		return pt_fail_nomem();
	m->bucket_count = BUCKETS_FIRST;
	m->count = 0;
	return 0;
}

void pt_refmap_done(struct pt_refmap *m)
{
	free(m->buckets);
	m->buckets = NULL;
	m->bucket_count = 0;
	m->count = 0;
}

struct pt_refmap_node *pt_refmap_find(const struct pt_refmap *m, const struct pt_blob_ref *ref)
{
	struct pt_refmap_node *n = m->buckets[bucket_of(m, ref)];

	while (n && !pt_blob_ref_equal(&n->ref, ref))
		n = n->next;
	return n;
}

static void grow(struct pt_refmap *m)
{
	struct pt_refmap bigger = { .bucket_count = m->bucket_count * 2, .count = m->count };

	bigger.buckets = pt_calloc(bigger.bucket_count, sizeof(*bigger.buckets));
	if (!bigger.buckets)
		return;
	for (size_t i = 0; i < m->bucket_count; i++) {
		struct pt_refmap_node *n = m->buckets[i];

		while (n) {
			struct pt_refmap_node *next = n->next;
			struct pt_refmap_node **head = &bigger.buckets[bucket_of(&bigger, &n->ref)];

			n->next = *head;
			*head = n;
			n = next;
		}
	}
	free(m->buckets);
	*m = bigger;
}

void pt_refmap_insert(struct pt_refmap *m, struct pt_refmap_node *node)
{
	struct pt_refmap_node **head;

	if (m->count >= m->bucket_count)
		grow(m);
	head = &m->buckets[bucket_of(m, &node->ref)];
	node->next = *head;
	*head = node;
	m->count++;
}

void pt_refmap_remove(struct pt_refmap *m, struct pt_refmap_node *node)
{
	struct pt_refmap_node **at = &m->buckets[bucket_of(m, &node->ref)];

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	node->next = NULL;
	m->count--;
}

struct pt_refmap_node *pt_refmap_any(const struct pt_refmap *m)
{
	for (size_t i = 0; i < m->bucket_count; i++)
		if (m->buckets[i])
			return m->buckets[i];
	return NULL;
}

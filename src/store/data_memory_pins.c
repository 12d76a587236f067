/* store/data_memory_pins.c - a count for each blob that has a pin. */
#include "store/data_memory_pins.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/refmap.h"

struct pin {
	struct pt_refmap_node node;     /* first */
	uint64_t count;
};

struct pt_pin_counts {
	pthread_mutex_t lock;           /* all below */
	struct pt_refmap pins;
};

int pt_pin_counts_create(struct pt_pin_counts **ret_pins)
{
	struct pt_pin_counts *p = pt_calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return pt_fail_nomem();
	rc = pt_refmap_init(&p->pins);
	if (rc < 0) {
		free(p);
		return rc;
	}
	pthread_mutex_init(&p->lock, NULL);
	*ret_pins = p;
	return 0;
}

void pt_pin_counts_free(struct pt_pin_counts *p)
{
	struct pt_refmap_node *n;

	if (!p)
		return;
	while ((n = pt_refmap_any(&p->pins))) {
		pt_refmap_remove(&p->pins, n);
		free(n);
	}
	pt_refmap_done(&p->pins);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static void unpin_locked(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct pin *pin = (struct pin *)pt_refmap_find(&p->pins, &refs[i]);

		if (pin && --pin->count == 0) {
			pt_refmap_remove(&p->pins, &pin->node);
			free(pin);
		}
	}
}

int pt_pin_counts_pin(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count)
{
	int rc = 0;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < count; i++) {
		struct pin *pin = (struct pin *)pt_refmap_find(&p->pins, &refs[i]);

		if (!pin) {
			pin = pt_calloc(1, sizeof(*pin));
			if (!pin) {
				rc = pt_fail_nomem();
				unpin_locked(p, refs, i);
				break;
			}
			pin->node.ref = refs[i];
			pt_refmap_insert(&p->pins, &pin->node);
		}
		pin->count++;
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pt_pin_counts_unpin(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count)
{
	pthread_mutex_lock(&p->lock);
	unpin_locked(p, refs, count);
	pthread_mutex_unlock(&p->lock);
}

void pt_pin_counts_pinned(struct pt_pin_counts *p, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < count; i++)
		ret_pinned[i] = pt_refmap_find(&p->pins, &refs[i]) != NULL;
	pthread_mutex_unlock(&p->lock);
}

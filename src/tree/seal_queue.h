/* tree/seal_queue.h - sealing objects a few at a time: making one durable is mostly waiting, and a file of many small tensors has many. Internal to tree/.
 *
 * Owned by one thread; each seal runs in a thread of its own. Results come back in the order in which they were added. */
#ifndef PT_TREE_SEAL_QUEUE_H
#define PT_TREE_SEAL_QUEUE_H

#include <pthread.h>

#include "base/error.h"
#include "manifest/repo.h"

#define PT_SEAL_QUEUE 8

struct pt_seal_job {
	pthread_t thread;
	bool threaded;
	struct pt_object_writer *writer;
	struct pt_part part;
	uint32_t tag;
	int rc;
	char sentence[PT_FAIL_SENTENCE_MAX];
};

/* Zeroed to begin with. */
struct pt_seal_queue {
	struct pt_seal_job job[PT_SEAL_QUEUE];
	uint32_t first, count;
};

/* The sealed part of a job; takes it over. */
typedef int pt_seal_done_fn(void *ctx, uint32_t tag, struct pt_part *part);
/* Seals writer (used up, also on failure); when the queue is full the oldest is waited for and handed to fn. Errors are of any job before. */
int pt_seal_queue_add(struct pt_seal_queue *q, struct pt_object_writer *writer, uint32_t tag, pt_seal_done_fn *fn, void *ctx);
/* Waits for all, until one fails. */
int pt_seal_queue_drain(struct pt_seal_queue *q, pt_seal_done_fn *fn, void *ctx);
/* Waits for all and discards them. */
void pt_seal_queue_done(struct pt_seal_queue *q, struct pt_repo *repo);

#endif

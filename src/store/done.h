/* store/done.h - completion of an asynchronous store operation, and waiting for one.
 *
 * Every engine operation takes a struct pt_done and calls pt_done_call() on it exactly once, from any thread, possibly
 * before it returns. Results are written before that call. The sentence of a failure is carried over to the waiter. */
#ifndef PT_STORE_DONE_H
#define PT_STORE_DONE_H

#include <pthread.h>
#include <stdbool.h>

struct pt_meta_at;

struct pt_done {
	void (*fn)(struct pt_done *done, int rc);       /* rc: 0 or -errno */
	struct pt_meta_at *at;          /* where an engine that is away tells at which mark of the index its answer holds (store/meta.h); NULL: nobody wants to know */
};

static inline void pt_done_call(struct pt_done *done, int rc)
{
	done->fn(done, rc);
}

/* A completion to wait on; lives on the waiter's stack. */
struct pt_wait {
	struct pt_done done;            /* first: pass &w.done */
	pthread_mutex_t lock;           /* rc, ended, sentence */
	pthread_cond_t cond;
	bool ended;
	int rc;
	char sentence[1024];
};

void pt_wait_init(struct pt_wait *w);
/* Blocks until done; returns rc and restores the sentence in this thread. */
int pt_wait_finish(struct pt_wait *w);

#endif

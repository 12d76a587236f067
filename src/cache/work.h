/* cache/work.h - a few threads that run small pieces of work: read-ahead first, filling of the cache when there is no other.
 *
 * A piece of work is owned by who adds it and may be added again while it runs. Thread-safe. */
#ifndef PT_CACHE_WORK_H
#define PT_CACHE_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct pt_workers;

struct pt_work {
	void (*run)(struct pt_work *work);
	struct pt_work *next;           /* while queued; the pool's, like what follows */
	int64_t at_ns;
};

/* -ENOMEM, -EAGAIN. */
int pt_workers_create(uint32_t threads, struct pt_workers **ret_workers);
/* Threads that give way to all others. Their work holds a lock that others want for moments only, for it may be interrupted there for long. */
int pt_workers_create_idle(uint32_t threads, struct pt_workers **ret_workers);
/* Ends the threads after the work that runs; what is queued is never run. No work may be added any more. NULL is fine. */
void pt_workers_stop(struct pt_workers *w);
void pt_workers_free(struct pt_workers *w);                             /* stops first; NULL is fine */
/* The last thing that a piece of work does, if one adds: its thread goes on with it, and no other is woken when there is nothing else. */
void pt_workers_add(struct pt_workers *w, struct pt_work *work, bool urgent);
/* Its turn comes at this time of pt_time_boot_ns, after work that has waited since then. */
void pt_workers_add_at(struct pt_workers *w, struct pt_work *work, int64_t at_ns);
/* Work still queued is taken back. False: it runs or has run. */
bool pt_workers_cancel(struct pt_workers *w, struct pt_work *work);
uint32_t pt_workers_count(const struct pt_workers *w);

#endif

/* cache/work.c - threads and their two queues. */
#include "cache/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"

#define NICE 19                         /* SCHED_IDLE could keep a lock from others for long */

struct queue {
	struct pt_work *first, **end;
};

struct pt_workers {
	pthread_mutex_t lock;           /* queues, stop */
	pthread_cond_t cond;            /* of the monotonic clock */
	struct queue urgent, other;
	struct pt_work *later;          /* by their times */
	bool stop;
	bool idle;                      /* never changes */
	uint32_t count;                 /* running threads */
	pthread_t thread[];
};

static __thread const struct pt_workers *mine;          /* whose thread this is */

static struct pt_work *take(struct queue *q)
{
	struct pt_work *w = q->first;

	if (w) {
		q->first = w->next;
		if (!q->first)
			q->end = &q->first;
		w->next = NULL;
	}
	return w;
}

static bool take_back(struct queue *q, struct pt_work *work)
{
	struct pt_work **p;

	for (p = &q->first; *p; p = &(*p)->next)
		if (*p == work) {
			*p = work->next;
			if (q->end == &work->next)
				q->end = p;
			work->next = NULL;
			return true;
		}
	return false;
}

static struct pt_work *take_due(struct pt_workers *w)
{
	struct pt_work *work = w->later;

	if (!work || work->at_ns > pt_time_boot_ns())
		return NULL;
	w->later = work->next;
	work->next = NULL;
	return work;
}

static bool take_later(struct pt_workers *w, struct pt_work *work)
{
	struct pt_work **p;

	for (p = &w->later; *p && *p != work; p = &(*p)->next)
		;
	if (!*p)
		return false;
	*p = work->next;
	work->next = NULL;
	return true;
}

static void wait_locked(struct pt_workers *w)
{
	struct timespec until;

	if (!w->later) {
		pthread_cond_wait(&w->cond, &w->lock);
		return;
	}
	until = pt_time_until(w->later->at_ns - pt_time_boot_ns());
	pthread_cond_timedwait(&w->cond, &w->lock, &until);
}

static void *worker(void *arg)
{
	struct pt_workers *w = arg;
	struct pt_work *work;

	mine = w;
	if (w->idle)
		setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);        /* of this thread alone; or as all others: it is only less kind */
	pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		work = take(&w->urgent);
		if (!work)
			work = take(&w->other);
		if (!work)
			work = take_due(w);
		if (!work) {
			wait_locked(w);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		pt_fail_clear();
		work->run(work);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int create(uint32_t threads, bool idle, struct pt_workers **ret_workers)
{
	struct pt_workers *w = pt_calloc(1, sizeof(*w) + threads * sizeof(w->thread[0]));
	pthread_condattr_t monotonic;
	int err;

	if (!w)
		return pt_fail_nomem();
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
	w->idle = idle;
	w->urgent.end = &w->urgent.first;
	w->other.end = &w->other.first;
	for (; w->count < threads; w->count++) {
		err = pt_thread_start(&w->thread[w->count], worker, w);
		if (err) {
			pt_workers_free(w);
			return pt_fail(err, "cannot start a thread: %s", strerror(err));
		}
	}
	*ret_workers = w;
	return 0;
}

int pt_workers_create(uint32_t threads, struct pt_workers **ret_workers)
{
	return create(threads, false, ret_workers);
}

int pt_workers_create_idle(uint32_t threads, struct pt_workers **ret_workers)
{
	return create(threads, true, ret_workers);
}

void pt_workers_stop(struct pt_workers *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->cond);
	pthread_mutex_unlock(&w->lock);
	while (w->count)
		pthread_join(w->thread[--w->count], NULL);
}

void pt_workers_free(struct pt_workers *w)
{
	if (!w)
		return;
	pt_workers_stop(w);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->cond);
	free(w);
}

void pt_workers_add(struct pt_workers *w, struct pt_work *work, bool urgent)
{
	struct queue *q = urgent ? &w->urgent : &w->other;
	bool alone;

	pthread_mutex_lock(&w->lock);
	alone = mine == w && !w->urgent.first && !w->other.first;
	work->next = NULL;
	*q->end = work;
	q->end = &work->next;
	if (!alone)
		pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

void pt_workers_add_at(struct pt_workers *w, struct pt_work *work, int64_t at_ns)
{
	struct pt_work **p;

	pthread_mutex_lock(&w->lock);
	for (p = &w->later; *p && (*p)->at_ns <= at_ns; p = &(*p)->next)
		;
	work->at_ns = at_ns;
	work->next = *p;
	*p = work;
	if (p == &w->later)             /* before what the threads wait for */
		pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

bool pt_workers_cancel(struct pt_workers *w, struct pt_work *work)
{
	bool found;

	pthread_mutex_lock(&w->lock);
	found = take_back(&w->urgent, work) || take_back(&w->other, work) || take_later(w, work);
	pthread_mutex_unlock(&w->lock);
	return found;
}

uint32_t pt_workers_count(const struct pt_workers *w)
{
	return w->count;
}

/* tools/ptiod/watch.c - requests that wait for the index to change: one thread waits for all of them. They are beside a connection's other requests (conn.c), and the answer tells the mark:
 * a client that has one here at all times knows within a moment that what it remembers may be wrong. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"
#include "tools/ptiod/server.h"

#define SLICE_NS (NS_PER_S / 20)                /* how soon a newcomer or an end of time is seen */

/* mark: NULL: it was not asked for, since there is an error. */
static void finish(struct server *s, struct job *job, int rc, uint64_t version, struct mark *mark)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	if (rc < 0) {
		reply_error(job, rc);
	} else {
		reply.result_case = PTIO__WIRE__REPLY__RESULT_VERSION;
		reply.version = version;
		mark_put(mark, &reply);
		reply_pack(job, &reply, 0);
	}
	job_return(s, job);
}

static void finish_all(struct server *s, struct jobs *over, int rc, uint64_t version)
{
	struct mark mark = { .known = false };
	struct job *job;

	if (rc == 0 && !TAILQ_EMPTY(over))
		mark_take(s, &mark);
	while ((job = TAILQ_FIRST(over))) {
		TAILQ_REMOVE(over, job, link);
		finish(s, job, rc, version, &mark);
	}
}

/* Those whose wait is over leave. */
static void sort_out(struct server *s, int rc, uint64_t version)
{
	struct jobs over = TAILQ_HEAD_INITIALIZER(over);
	int64_t now = pt_time_boot_ns();
	struct job *job, *next;

	pthread_mutex_lock(&s->watch_lock);
	s->watch_version = version;
	for (job = TAILQ_FIRST(&s->watching); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if (rc == 0 && version <= job->request->meta_watch->seen && now < job->watch_until_ns && !s->watch_stopping)
			continue;
		TAILQ_REMOVE(&s->watching, job, link);
		TAILQ_INSERT_TAIL(&over, job, link);
	}
	pthread_mutex_unlock(&s->watch_lock);
	finish_all(s, &over, rc, version);
}

static void *watch(void *arg)
{
	struct server *s = arg;
	uint64_t version = 0;
	bool stop = false;
	int rc;

	while (!stop) {
		pthread_mutex_lock(&s->watch_lock);
		while (TAILQ_EMPTY(&s->watching) && !s->watch_stopping)
			pthread_cond_wait(&s->watch_cond, &s->watch_lock);
		stop = s->watch_stopping;
		pthread_mutex_unlock(&s->watch_lock);
		rc = pt_meta_watch(&s->store->meta, version, stop ? 0 : SLICE_NS, &version);
		sort_out(s, rc, version);
	}
	return NULL;
}

/* False: what it waits for has come meanwhile, and the watcher will not say so again; or its connection is closed. */
static bool park(struct server *s, struct job *job)
{
	bool parked;

	pthread_mutex_lock(&s->watch_lock);
	parked = s->watch_version <= job->request->meta_watch->seen && !s->watch_stopping && !__atomic_load_n(&job->conn->closed, __ATOMIC_ACQUIRE);
	if (parked) {
		TAILQ_INSERT_TAIL(&s->watching, job, link);
		pthread_cond_signal(&s->watch_cond);
	}
	pthread_mutex_unlock(&s->watch_lock);
	return parked;
}

/* A first look here and now: most watches ask for what is, or find news at once. */
void watch_add(struct server *s, struct job *job)
{
	const Ptio__Wire__MetaWatch *w = job->request->meta_watch;
	struct jobs over = TAILQ_HEAD_INITIALIZER(over);
	int64_t now = pt_time_boot_ns();
	uint64_t version;
	int rc = pt_meta_watch(&s->store->meta, w->seen, 0, &version);

	if (__builtin_add_overflow(now, (int64_t)w->timeout_ns, &job->watch_until_ns))
		job->watch_until_ns = INT64_MAX;
	if (rc == 0 && version <= w->seen && w->timeout_ns && park(s, job))
		return;
	TAILQ_INSERT_TAIL(&over, job, link);
	finish_all(s, &over, rc, version);
}

void watch_drop(struct server *s, struct conn *c)
{
	struct jobs over = TAILQ_HEAD_INITIALIZER(over);
	struct job *job, *next;

	if (!c->watching)
		return;
	pthread_mutex_lock(&s->watch_lock);
	for (job = TAILQ_FIRST(&s->watching); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->conn != c)
			continue;
		TAILQ_REMOVE(&s->watching, job, link);
		TAILQ_INSERT_TAIL(&over, job, link);
	}
	pthread_mutex_unlock(&s->watch_lock);
	while ((job = TAILQ_FIRST(&over))) {    /* nobody is there to be answered */
		TAILQ_REMOVE(&over, job, link);
		job_return(s, job);
	}
}

int watch_start(struct server *s)
{
	int rc = pt_thread_start(&s->watch_thread, watch, s);

	if (rc)
		return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
	s->watch_started = true;
	return 0;
}

void watch_stop(struct server *s)
{
	if (!s->watch_started)
		return;
	pthread_mutex_lock(&s->watch_lock);
	s->watch_stopping = true;
	pthread_cond_signal(&s->watch_cond);
	pthread_mutex_unlock(&s->watch_lock);
	pthread_join(s->watch_thread, NULL);
	s->watch_started = false;
}

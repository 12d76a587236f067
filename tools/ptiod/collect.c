/* tools/ptiod/collect.c - collecting garbage: what was superseded, what its writers left behind. A thread of its own, since a pass may take long.
 *
 * Clients collect too while they live; the daemon does when none is left. It waits a lease at first: clients of the daemon that was here before may hold what this one does
 * not know of until they have connected again. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/thread.h"
#include "manifest/repo.h"
#include "tools/ptiod/server.h"

/* Until the time, or until the end (true). */
static bool wait_locked(struct server *s, int64_t until_ns)
{
	int64_t left = until_ns - pt_time_boot_ns();
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	left = left > 0 ? left + t.tv_nsec : t.tv_nsec;
	t.tv_sec += left / NS_PER_S;
	t.tv_nsec = left % NS_PER_S;
	if (!s->collect_stopping)
		pthread_cond_timedwait(&s->collect_cond, &s->collect_lock, &t);
	return s->collect_stopping;
}

/* The store becomes the repository's. One in which nothing was ever written is left for its first client to format. */
static int open_once(struct server *s)
{
	uint64_t version = 0;
	int rc;

	if (s->repo)
		return 1;
	rc = pt_meta_watch(&s->store->meta, 0, 0, &version);
	if (rc < 0 || !version)
		return rc;
	rc = pt_repo_open(s->store, NULL, &s->repo);
	return rc < 0 ? rc : 1;
}

static void collect_now(struct server *s)
{
	struct pt_gc_stats stats = { 0 };
	int rc;

	pt_fail_clear();
	rc = open_once(s);
	if (rc > 0)
		rc = pt_gc_run(s->repo, &stats);
	if (rc < 0)
		pt_log(PT_LOG_WARN, "collecting garbage: %s", pt_fail_sentence());
	count(&s->counters.collected_objects, stats.objects_removed + stats.orphans_removed + stats.staged_removed);
	count(&s->counters.collected_bytes, stats.bytes_removed);
	count(&s->counters.collections, 1);
}

static void *collect(void *arg)
{
	struct server *s = arg;
	const int64_t every = s->options->gc_ns;
	int64_t lease = s->options->lease_ttl_ns + s->options->lease_margin_ns, at = pt_time_boot_ns() + (every > lease ? every : lease);

	pthread_mutex_lock(&s->collect_lock);
	for (;;) {
		while (pt_time_boot_ns() < at)
			if (wait_locked(s, at))
				goto out;
		pthread_mutex_unlock(&s->collect_lock);
		collect_now(s);
		at = pt_time_boot_ns() + every;
		pthread_mutex_lock(&s->collect_lock);
	}
out:
	pthread_mutex_unlock(&s->collect_lock);
	return NULL;
}

int collect_start(struct server *s)
{
	pthread_condattr_t attr;
	int rc;

	pthread_mutex_init(&s->collect_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->collect_cond, &attr);
	pthread_condattr_destroy(&attr);
	if (!s->options->gc_ns || s->options->read_only)
		return 0;
	rc = pt_thread_start(&s->collect_thread, collect, s);
	if (rc)
		return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
	s->collect_started = true;
	return 0;
}

void collect_stop(struct server *s)
{
	if (!s->collect_started)
		return;
	pthread_mutex_lock(&s->collect_lock);
	s->collect_stopping = true;
	pthread_cond_signal(&s->collect_cond);
	pthread_mutex_unlock(&s->collect_lock);
	pthread_join(s->collect_thread, NULL);
	s->collect_started = false;
}

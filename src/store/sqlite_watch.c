/* store/sqlite_watch.c - marks out of the header of SQLite's log, and waits: for this process where only it commits, else for news of the log (sqlite_news.h). */
#include "store/sqlite_watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/sqlite_news.h"
#include "store/sqlite_vfs.h"

int pt_sqlite_watch_init(struct pt_sqlite_watch *w, const char *path)
{
	pthread_condattr_t attr;

	*w = (struct pt_sqlite_watch){ .mode = PT_SQLITE_MEMORY };
	atomic_init(&w->news_fd, -1);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &attr);
	pthread_condattr_destroy(&attr);
	if (path)
		w->log = pt_asprintf("%s-wal", path);
	return path && !w->log ? pt_fail_nomem() : 0;
}

void pt_sqlite_watch_done(struct pt_sqlite_watch *w)
{
	pt_sqlite_news_done(&(struct pt_sqlite_news){ .fd = atomic_load(&w->news_fd) });
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	free(w->log);
}

void pt_sqlite_watch_start(struct pt_sqlite_watch *w, enum pt_sqlite_mode mode, struct pt_sqlite_conn *writer, uint64_t highest)
{
	w->mode = mode;
	w->highest = highest;
	w->log_header = pt_sqlite_vfs_shm(writer->db);
}

/* The header of SQLite's log ("WAL-Index Information": counter of transactions, number of frames, salts, running checksums) is what SQLite itself compares to know
 * whether somebody has committed. A writer puts the second copy before the first, so two equal copies read in order are one header. */
bool pt_sqlite_watch_mark(struct pt_sqlite_watch *w, struct pt_meta_mark *ret_mark)
{
	struct pt_meta_mark mark = { { 0 } };
	const size_t words = sizeof(mark.word) / sizeof(mark.word[0]);
	bool equal = true;
	size_t i;

	if (w->mode == PT_SQLITE_MEMORY) {
		mark.word[0] = __atomic_load_n(&w->highest, __ATOMIC_ACQUIRE);
	} else if (w->mode != PT_SQLITE_IMMUTABLE) {
		if (!w->log_header)
			return false;
		for (i = 0; i < words; i++)
			mark.word[i] = __atomic_load_n(&w->log_header[i], __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		for (i = 0; i < words; i++)
			equal = __atomic_load_n(&w->log_header[words + i], __ATOMIC_RELAXED) == mark.word[i] && equal;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	}
	if (equal)
		*ret_mark = mark;
	return equal;
}

static int64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* In memory, and of a file that nobody can change: only this process commits. */
static void wait_for_own(struct pt_sqlite_watch *w, uint64_t seen, int64_t deadline)
{
	struct timespec t = { .tv_sec = deadline / INT64_C(1000000000), .tv_nsec = deadline % INT64_C(1000000000) };
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	while (w->highest <= seen && rc == 0)
		rc = pthread_cond_timedwait(&w->cond, &w->lock, &t);
	pthread_mutex_unlock(&w->lock);
}

static bool mark_is(struct pt_sqlite_watch *w, const struct pt_meta_mark *mark)
{
	struct pt_meta_mark now;

	return pt_sqlite_watch_mark(w, &now) && memcmp(&now, mark, sizeof(now)) == 0;
}

/* mark: from before the index was asked, if there was one. Else it is asked again each time. */
static void wait_for_all(struct pt_sqlite_watch *w, const struct pt_meta_mark *mark, struct pt_sqlite_news *news, int64_t deadline)
{
	do
		pt_sqlite_news_wait(news, deadline);
	while (mark && mark_is(w, mark) && monotonic_ns() < deadline);
}

static void news_take(struct pt_sqlite_watch *w, struct pt_sqlite_news *ret_news)
{
	int fd = atomic_exchange(&w->news_fd, -1);

	if (fd >= 0)
		pt_sqlite_news_resume(ret_news, fd, atomic_load(&w->news_since_ns));
	else
		pt_sqlite_news_init(ret_news, w->log);
}

static void news_leave(struct pt_sqlite_watch *w, struct pt_sqlite_news *news)
{
	if (news->fd < 0)
		return;
	atomic_store(&w->news_since_ns, news->since_ns);
	news->fd = atomic_exchange(&w->news_fd, news->fd);
	pt_sqlite_news_done(news);      /* of another watch that ended meanwhile */
}

void pt_sqlite_watch_committed(struct pt_sqlite_watch *w, uint64_t version)
{
	pthread_mutex_lock(&w->lock);
	if (version > w->highest) {
		__atomic_store_n(&w->highest, version, __ATOMIC_RELEASE);
		pthread_cond_broadcast(&w->cond);
	}
	pthread_mutex_unlock(&w->lock);
}

int pt_sqlite_watch_wait(struct pt_sqlite_watch *w, uint64_t seen, int64_t timeout_ns, pt_sqlite_highest_fn *highest, void *ctx, uint64_t *ret_version)
{
	struct pt_sqlite_news news = { .fd = -1 };
	int64_t deadline = monotonic_ns();
	struct pt_meta_mark mark;
	uint64_t version;
	bool marked;
	int rc;

	if (__builtin_add_overflow(deadline, timeout_ns, &deadline))
		deadline = INT64_MAX;
	if (timeout_ns > 0 && w->mode == PT_SQLITE_OPEN)
		news_take(w, &news);
	for (;;) {
		marked = pt_sqlite_watch_mark(w, &mark);
		rc = highest(ctx, &version);
		if (rc < 0 || version > seen || monotonic_ns() >= deadline)
			break;
		if (w->mode == PT_SQLITE_OPEN)
			wait_for_all(w, marked ? &mark : NULL, &news, deadline);
		else
			wait_for_own(w, seen, deadline);
	}
	news_leave(w, &news);
	if (rc == 0)
		*ret_version = version;
	return rc;
}

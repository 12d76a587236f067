/* fs/news.c - noticing what others have committed, so that what the kernel was told is forgotten (told.c).
 *
 * A thread waits for the index to change: of a store that is here by its log, of one that is away by a request that the daemon answers when somebody has committed (one at a time; it is asked
 * anew every AWAY_SLICE_NS, so that a daemon that fell silent is noticed). When a connection is lost, or an answer late, all is forgotten at once, and again with the first answer afterwards: what was
 * committed meanwhile nobody has told.
 *
 * Of a store that is here whoever tells the kernel something compares marks afterwards, which costs nothing. Of one that is away that would be a round trip for each answer; there what was
 * read at a mark may be told if that is not older than what this thread has heard, and it is on the list of what was told already (pt_fs_news_missed): then the sweep for any later commit finds it. */
#include "fs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"

#define PACE_NS 20000000                /* at most so often: a sweep makes every path walk ask once more */
#define SLICE_NS 100000000              /* how soon the end is seen */
#define AWAY_SLICE_NS INT64_C(2000000000)
#define OWN_TRIES 100
#define OWN_WAIT_NS 200000L

struct pt_fs_news {
	pthread_mutex_t lock;           /* stop; heard and seen, which only the thread changes */
	pthread_t thread;
	bool started, stop;
	int64_t swept_ns;               /* the thread's */
	bool heard;                     /* of a store that is away: the connection on which `seen` was told is there, as far as one knows */
	struct pt_meta_mark seen;       /* of it: what changed up to here is being forgotten, if it was on the list */
};

static bool stopping(struct pt_fs_news *n)
{
	bool stop;

	pthread_mutex_lock(&n->lock);
	stop = n->stop;
	pthread_mutex_unlock(&n->lock);
	return stop;
}

static void nap(int64_t ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

/* What is left of the pace since the last sweep, or since the time. */
static void pace(int64_t since_ns)
{
	int64_t past = pt_time_boot_ns() - since_ns;

	if (past >= 0 && past < PACE_NS)
		nap(PACE_NS - past);
}

/* All commits between are this process's own, and have been told. Those that are in the index only since now may not have said so yet. */
static bool all_own(struct pt_fs *fs, uint64_t seen, uint64_t version)
{
	bool own = false, more = true;
	int try;

	for (try = 0; !own && more && try < OWN_TRIES; try++) {
		if (try)
			nap(OWN_WAIT_NS);
		more = pt_meta_committing(&fs->store->meta);
		own = pt_meta_own(&fs->store->meta, seen, version);
	}
	return own;
}

static void sweep(struct pt_fs *fs)
{
	struct pt_fs_news *n = fs->news;

	pace(n->swept_ns);
	n->swept_ns = pt_time_boot_ns();
	pt_fs_told_sweep(fs);
}

/* An index that cannot be asked now may have changed. */
static void *watch_here(void *arg)
{
	struct pt_fs *fs = arg;
	uint64_t seen = 0, version;
	int rc;

	while (!stopping(fs->news)) {
		rc = pt_meta_watch(&fs->store->meta, seen, SLICE_NS, &version);
		if (rc < 0) {
			pt_fail_clear();
			nap(SLICE_NS);
			sweep(fs);
		} else if (version != seen) {
			if (!seen || !all_own(fs, seen, version))
				sweep(fs);
			seen = version;
		}
	}
	return NULL;
}

/* Nobody tells. */
static void silent(struct pt_fs *fs)
{
	struct pt_fs_news *n = fs->news;

	pthread_mutex_lock(&n->lock);
	n->heard = false;
	pthread_mutex_unlock(&n->lock);
	sweep(fs);
}

static bool one_run(const struct pt_meta_mark *a, const struct pt_meta_mark *b)
{
	return memcmp(a->word, b->word, 2 * sizeof(a->word[0])) == 0;
}

/* From now on nothing older is told; then what was told before is forgotten. */
static void heard(struct pt_fs *fs, const struct pt_meta_mark *mark)
{
	struct pt_fs_news *n = fs->news;
	struct pt_meta_mark before;
	bool follows;

	pthread_mutex_lock(&n->lock);
	before = n->seen;
	follows = n->heard && one_run(&before, mark);
	n->seen = *mark;
	n->heard = true;
	pthread_mutex_unlock(&n->lock);
	if (!follows || !all_own(fs, before.word[2], mark->word[2]))
		sweep(fs);
}

static void *watch_away(void *arg)
{
	struct pt_fs *fs = arg;
	struct pt_fs_news *n = fs->news;
	struct pt_meta_mark mark;
	int64_t now;
	int rc;

	while (!stopping(n)) {
		rc = pt_meta_news(&fs->store->meta, n->heard ? n->seen.word[2] : 0, n->heard ? AWAY_SLICE_NS : 0, &mark);
		now = pt_time_boot_ns();
		if (rc < 0) {
			pt_fail_clear();
			silent(fs);
			nap(SLICE_NS);
		} else if (!n->heard || memcmp(&mark, &n->seen, sizeof(mark)) != 0) {
			heard(fs, &mark);
			pace(now);
		}
	}
	return NULL;
}

bool pt_fs_news_missed(struct pt_fs *fs, const struct pt_meta_mark *mark)
{
	struct pt_fs_news *n = fs->news;
	bool missed;

	if (!n || !fs->news_away)
		return false;
	pthread_mutex_lock(&n->lock);
	missed = !mark || !n->heard || !one_run(&n->seen, mark) || mark->word[2] < n->seen.word[2];
	pthread_mutex_unlock(&n->lock);
	return missed;
}

int pt_fs_news_start(struct pt_fs *fs)
{
	struct pt_fs_news *n = fs->news = pt_calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return pt_fail_nomem();
	pthread_mutex_init(&n->lock, NULL);
	rc = pt_thread_start(&n->thread, fs->news_away ? watch_away : watch_here, fs);
	if (rc)
		return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
	n->started = true;
	return 0;
}

void pt_fs_news_stop(struct pt_fs *fs)
{
	struct pt_fs_news *n = fs->news;

	if (!n || !n->started)
		return;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_mutex_unlock(&n->lock);
	if (fs->news_away)
		pt_meta_news_stop(&fs->store->meta);
	pthread_join(n->thread, NULL);
	n->started = false;
}

void pt_fs_news_free(struct pt_fs *fs)
{
	if (!fs->news)
		return;
	pthread_mutex_destroy(&fs->news->lock);
	free(fs->news);
	fs->news = NULL;
}

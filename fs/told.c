/* fs/told.c - what the kernel was told for a while (entry_timeout), and telling it that it is so no longer.
 *
 * An inode whose attributes the kernel may keep is on a list until the kernel is told to forget them, or forgets the inode: so the cost of a change is at most one notification
 * for each reply, however often something changes. What a commit of this process changes is told before the commit returns ("news"). What others commit is noticed by a thread
 * that watches the index (news.c), and then all attributes are forgotten ("the rest", a sweep over the whole list); whoever opens something meanwhile asks the index anyway
 * (where.c, view.c). Only attributes are forgotten, which takes no lock of an inode or directory; the next stat asks for them, and learns by ESTALE when the name leads
 * elsewhere now.
 *
 * Notifications come from a thread of their own, since an operation's handler must not wait for the kernel. It holds no lock while it tells, and no reference: an inode that goes
 * meanwhile leaves the lists, and the kernel does not know the number, or knows it as another one, which then is asked for once more than need be. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"
#include "transport.h"

#define BUCKETS 16384
#define NEWS_TRIES 20
#define NEWS_WAIT_NS 200000L
#define CALL_NS (INT64_C(1) * 1000000000)       /* the kernel takes what it is told in microseconds, unless a lock is held that it wants */
#define LATE_WAIT_MAX_NS 100000000
#define DEFAULT_S 60.0
#define DEFAULT_AWAY_S 1.0

enum { NOT_TOLD, TOLD, NEWS, REST, LATE };

struct list {
	struct pt_fs_inode *first, **end;
};

struct pt_fs_notifier {
	pthread_mutex_t lock;           /* all below, and told* of inodes */
	pthread_cond_t cond;            /* something is to be told, or was, or it is the end */
	pthread_t thread;
	bool started, stop;
	bool telling;                   /* the thread is about to call the kernel, or does */
	struct list told[BUCKETS];      /* by namespace node */
	struct list news, rest, late;   /* late: the kernel did not know the inode yet, for whoever replies was held up */
	size_t planned;                 /* on all lists: those of hangs_on_models() */
	uint64_t serial;                /* of news */
	struct pt_fs_inode *busy;       /* being told; NULL when it has gone since */
	uint64_t busy_serial;           /* of news, else 0 */
	int64_t late_ns, late_wait_ns;  /* when to try those again */
	uint32_t sweep_at, sweep_left;  /* buckets */
};

static struct list *list_of(struct pt_fs_notifier *n, const struct pt_fs_inode *i)
{
	switch (i->told) {
	case TOLD:
		return &n->told[i->node % BUCKETS];
	case NEWS:
		return &n->news;
	case REST:
		return &n->rest;
	default:
		return &n->late;
	}
}

/* A view below axes may have its dimension from the tp_plan.json beside its key; of others nothing that is told hangs on model files. Files in memory may be of many tensors. */
static bool hangs_on_models(const struct pt_fs_inode *i)
{
	return i->kind == PT_FS_WHOLE || (i->kind == PT_FS_VIEW && i->dir[0]);
}

/* node 0: of what model files may change. */
static bool is_meant(const struct pt_fs_inode *i, uint64_t node)
{
	return node ? i->node == node : hangs_on_models(i);
}

static void take_locked(struct pt_fs_notifier *n, struct pt_fs_inode *i)
{
	struct list *l;

	if (i->told == NOT_TOLD)
		return;
	l = list_of(n, i);
	*i->told_at = i->told_next;
	if (i->told_next)
		i->told_next->told_at = i->told_at;
	else
		l->end = i->told_at;
	i->told = NOT_TOLD;
	n->planned -= hangs_on_models(i);
}

static void put_locked(struct pt_fs_notifier *n, struct pt_fs_inode *i, uint8_t where)
{
	struct list *l;

	take_locked(n, i);
	i->told = where;
	n->planned += hangs_on_models(i);
	l = list_of(n, i);
	if (!l->end)
		l->end = &l->first;
	i->told_next = NULL;
	i->told_at = l->end;
	*l->end = i;
	l->end = &i->told_next;
}

void pt_fs_told(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n || (i->kind != PT_FS_DIR && i->kind != PT_FS_AXIS && i->kind != PT_FS_VIEW && i->kind != PT_FS_WHOLE))
		return;
	pthread_mutex_lock(&n->lock);
	if (i->told == NOT_TOLD)        /* else it is about to be forgotten: at worst it is asked for again */
		put_locked(n, i, TOLD);
	pthread_mutex_unlock(&n->lock);
}

void pt_fs_told_forget(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	if (i->told == NEWS)
		pthread_cond_broadcast(&n->cond);
	take_locked(n, i);
	if (n->busy == i)
		n->busy = NULL;
	pthread_mutex_unlock(&n->lock);
}

/* ---- telling ---- */

/* False: the kernel does not know the inode. */
static bool tell_once(struct pt_fs *fs, fuse_ino_t ino)
{
	return fuse_lowlevel_notify_inval_inode(fs->session, ino, -1, 0) != -ENOENT;
}

/* The kernel knows an inode a moment after the reply that names it. */
static bool tell(struct pt_fs *fs, fuse_ino_t ino, bool waited_for)
{
	bool knows = tell_once(fs, ino);
	int try;

	for (try = 1; !knows && waited_for && try < NEWS_TRIES; try++) {
		nanosleep(&(struct timespec){ .tv_nsec = NEWS_WAIT_NS }, NULL);
		knows = tell_once(fs, ino);
	}
	return knows;
}

static void tell_locked(struct pt_fs *fs, struct pt_fs_inode *i)
{
	struct pt_fs_notifier *n = fs->notifier;
	fuse_ino_t ino = pt_fs_inode_id(fs, i);
	bool news = i->told == NEWS, knows;

	n->telling = true;
	n->busy = i;
	n->busy_serial = news ? i->told_serial : 0;
	take_locked(n, i);
	pthread_mutex_unlock(&n->lock);
	knows = tell(fs, ino, news);
	pthread_mutex_lock(&n->lock);
	if (!knows && n->busy) {
		if (!n->late.first) {
			n->late_wait_ns = 2 * NEWS_WAIT_NS;
			n->late_ns = pt_time_boot_ns() + n->late_wait_ns;
		}
		put_locked(n, n->busy, LATE);
	}
	n->telling = false;
	n->busy = NULL;
	n->busy_serial = 0;
	if (news || n->stop)
		pthread_cond_broadcast(&n->cond);
}

static void late_again_locked(struct pt_fs_notifier *n, int64_t now)
{
	while (n->late.first)
		put_locked(n, n->late.first, REST);
	n->late_wait_ns = n->late_wait_ns < LATE_WAIT_MAX_NS / 2 ? n->late_wait_ns * 2 : LATE_WAIT_MAX_NS;
	n->late_ns = now + n->late_wait_ns;
}

static void sweep_bucket_locked(struct pt_fs_notifier *n)
{
	struct list *l = &n->told[n->sweep_at];

	while (l->first)
		put_locked(n, l->first, REST);
	n->sweep_at = (n->sweep_at + 1) % BUCKETS;
	n->sweep_left--;
}

/* Until something is to be told, or ns have passed. */
static void sleep_locked(struct pt_fs_notifier *n, int64_t ns)
{
	struct timespec until = pt_time_until(ns);

	pthread_cond_timedwait(&n->cond, &n->lock, &until);
}

static void *notify(void *arg)
{
	struct pt_fs *fs = arg;
	struct pt_fs_notifier *n = fs->notifier;
	int64_t now;

	pthread_mutex_lock(&n->lock);
	while (!n->stop) {
		if (n->news.first) {
			tell_locked(fs, n->news.first);
		} else if (n->rest.first) {
			tell_locked(fs, n->rest.first);
		} else if (n->sweep_left) {
			sweep_bucket_locked(n);
		} else if (n->late.first) {
			now = pt_time_boot_ns();
			if (now < n->late_ns)
				sleep_locked(n, n->late_ns - now);
			else
				late_again_locked(n, now);
		} else {
			pthread_cond_wait(&n->cond, &n->lock);
		}
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

/* ---- what this process commits ---- */

static void hurry_locked(struct pt_fs_notifier *n, struct list *l, uint64_t node, uint64_t *ret_serial)
{
	struct pt_fs_inode *i, *next;

	for (i = l->first; i; i = next) {
		next = i->told_next;
		if (!is_meant(i, node))
			continue;
		put_locked(n, i, NEWS);
		*ret_serial = i->told_serial = ++n->serial;
	}
}

/* What was told of the node (0: of what model files may change) is news from now on; a serial to wait for, 0: nothing. */
static uint64_t news_locked(struct pt_fs_notifier *n, uint64_t node)
{
	struct pt_fs_inode *i;
	uint64_t last = 0;
	size_t at;

	for (at = node ? node % BUCKETS : 0; at < (node ? node % BUCKETS + 1 : n->planned ? BUCKETS : 0); at++)
		hurry_locked(n, &n->told[at], node, &last);
	hurry_locked(n, &n->rest, node, &last);
	hurry_locked(n, &n->late, node, &last);
	/* What somebody else is waiting for, or is just being told, is not known to the kernel yet. */
	for (i = n->news.first; i && !last; i = i->told_next)
		if (is_meant(i, node))
			last = n->serial;
	if (!last && n->busy && is_meant(n->busy, node))
		last = n->busy_serial;
	return last;
}

static bool untold_locked(const struct pt_fs_notifier *n, uint64_t serial)
{
	return (n->busy_serial && n->busy_serial <= serial) || (n->news.first && n->news.first->told_serial <= serial);
}

/* A commit of this process has changed a node: what the kernel holds of it, and of what is below it, is wrong from now on. */
static void changed(void *ctx, uint64_t node)
{
	struct pt_fs *fs = ctx;
	struct pt_fs_notifier *n = fs->notifier;
	uint64_t serial;

	pthread_mutex_lock(&n->lock);
	serial = news_locked(n, node);
	if (serial)
		pthread_cond_broadcast(&n->cond);
	while (serial && !n->stop && untold_locked(n, serial))
		pthread_cond_wait(&n->cond, &n->lock);
	pthread_mutex_unlock(&n->lock);
}

/* ---- what others commit ---- */

void pt_fs_told_sweep(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;

	pthread_mutex_lock(&n->lock);
	n->sweep_left = BUCKETS;
	pthread_cond_broadcast(&n->cond);
	pthread_mutex_unlock(&n->lock);
}

/* ---- starting and ending ---- */

static int thread_start(struct pt_fs *fs)
{
	int rc = pt_thread_start(&fs->notifier->thread, notify, fs);

	if (rc)
		return pt_fail(rc, "cannot start a thread: %s", strerror(rc));
	fs->notifier->started = true;
	return 0;
}

int pt_fs_told_start(struct pt_fs *fs)
{
	struct pt_fs_notifier *n;
	pthread_condattr_t attr;
	struct pt_meta_mark mark;
	int rc;

	/* Without marks every step would have to ask the store, which is what the time is to save. */
	if (!pt_meta_mark(&fs->store->meta, &mark) || fs->options->entry_timeout == 0)
		return 0;
	fs->news_away = pt_meta_has_news(&fs->store->meta);
	fs->keeps_views = fs->news_away || !pt_fs_transport_is_remote(fs);
	fs->entry_timeout = fs->options->entry_timeout > 0 ? fs->options->entry_timeout : fs->keeps_views ? DEFAULT_S : DEFAULT_AWAY_S;
	n = fs->notifier = pt_calloc(1, sizeof(*n));
	if (!n)
		return pt_fail_nomem();
	pthread_mutex_init(&n->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&n->cond, &attr);
	pthread_condattr_destroy(&attr);
	rc = thread_start(fs);
	if (rc == 0 && fs->keeps_views)
		rc = pt_fs_news_start(fs);
	if (rc == 0)
		pt_repo_on_change(fs->repo, changed, fs);
	return rc;
}

/* A call that takes longer is held up in the kernel, where it has the connection for itself, until that ends. */
void pt_fs_told_end(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;
	struct timespec until = pt_time_until(CALL_NS);

	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->cond);
	while (n->telling && pthread_cond_timedwait(&n->cond, &n->lock, &until) == 0)
		;
	pthread_mutex_unlock(&n->lock);
}

void pt_fs_told_stop(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n)
		return;
	pt_fs_news_stop(fs);
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->cond);
	pthread_mutex_unlock(&n->lock);
	if (n->started)
		pthread_join(n->thread, NULL);
	n->started = false;
}

void pt_fs_told_free(struct pt_fs *fs)
{
	struct pt_fs_notifier *n = fs->notifier;

	if (!n)
		return;
	pt_fs_news_free(fs);
	pthread_cond_destroy(&n->cond);
	pthread_mutex_destroy(&n->lock);
	free(n);
	fs->notifier = NULL;
}

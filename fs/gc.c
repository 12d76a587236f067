/* fs/gc.c - the driver's own thread: collects what was superseded, and lets old intents expire. */
#include "fs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/thread.h"

#define GC_EVERY_NS ((int64_t)60 * 1000000000)
#define GC_AFTER_COMMIT_NS ((int64_t)5 * 1000000000)    /* gently: commits in a loop share one pass */
#define TICK_SECONDS 1
#define VAIN_NS ((int64_t)1000000000)   /* after looking for room in vain nobody does so again for that long, unless something was removed meanwhile */

struct pt_fs_gc {
	pthread_t thread;
	pthread_mutex_t lock;           /* the rest */
	pthread_cond_t cond;
	bool stop, poked;
};

bool pt_fs_gc_room(struct pt_fs *fs)
{
	uint64_t rooms = __atomic_load_n(&fs->rooms, __ATOMIC_ACQUIRE);
	uint64_t pokes = __atomic_load_n(&fs->pokes, __ATOMIC_ACQUIRE);
	struct pt_gc_stats stats = { 0 };
	bool made;

	if (!fs->options->gc || fs->options->read_only)
		return false;
	pthread_mutex_lock(&fs->room_lock);
	made = fs->rooms != rooms;
	if (!made && (!fs->room_vain_ns || fs->room_vain_pokes != pokes || pt_time_boot_ns() - fs->room_vain_ns > VAIN_NS)) {
		made = pt_gc_run(fs->repo, &stats) == 0 && stats.bytes_removed > 0;
		if (made) {
			__atomic_add_fetch(&fs->rooms, 1, __ATOMIC_RELEASE);
			fs->room_made_ns = pt_time_boot_ns();
		}
		fs->room_vain_ns = made ? 0 : pt_time_boot_ns();
		fs->room_vain_pokes = pokes;
	}
	/* The caller may have failed before a pass that ended before it came here. */
	made = made || (fs->room_made_ns && pt_time_boot_ns() - fs->room_made_ns < VAIN_NS);
	pthread_mutex_unlock(&fs->room_lock);
	return made;
}

static bool room(void *ctx)
{
	return pt_fs_gc_room(ctx);
}

static void *gc_main(void *arg)
{
	struct pt_fs *fs = arg;
	struct pt_fs_gc *g = fs->gc;
	struct pt_gc_stats stats;
	int64_t last = pt_time_boot_ns(), age;
	struct timespec until;
	bool due, tidy;

	pthread_mutex_lock(&g->lock);
	while (!g->stop) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += TICK_SECONDS;
		pthread_cond_timedwait(&g->cond, &g->lock, &until);
		age = pt_time_boot_ns() - last;
		due = !g->stop && fs->options->gc && !fs->options->read_only && (age >= GC_EVERY_NS || (g->poked && age >= GC_AFTER_COMMIT_NS));
		tidy = !due && age >= GC_EVERY_NS;      /* others collect: their removed objects are not kept open here */
		if (due)
			g->poked = false;
		pthread_mutex_unlock(&g->lock);
		pt_fs_intents_tick(fs);
		if (due) {
			pt_fail_clear();
			if (pt_gc_run(fs->repo, &stats) < 0)
				pt_log(PT_LOG_WARN, "collecting garbage: %s", pt_fail_sentence());
			last = pt_time_boot_ns();
		} else if (tidy) {
			pt_data_tidy(&fs->store->data, NULL);
			last = pt_time_boot_ns();
		}
		pthread_mutex_lock(&g->lock);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

int pt_fs_gc_start(struct pt_fs *fs)
{
	struct pt_fs_gc *g = pt_calloc(1, sizeof(*g));
	pthread_condattr_t attr;
	int err;

	if (!g)
		return pt_fail_nomem();
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);      /* setting the time stops no tick */
	pthread_cond_init(&g->cond, &attr);
	pthread_condattr_destroy(&attr);
	fs->gc = g;
	err = pt_thread_start(&g->thread, gc_main, fs);
	if (err) {
		fs->gc = NULL;
		free(g);
		return pt_fail(err, "cannot start a thread");
	}
	pt_repo_on_full(fs->repo, room, fs);
	return 0;
}

void pt_fs_gc_stop(struct pt_fs *fs)
{
	struct pt_fs_gc *g = fs->gc;

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	pthread_cond_signal(&g->cond);
	pthread_mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	fs->gc = NULL;
	pthread_mutex_destroy(&g->lock);
	pthread_cond_destroy(&g->cond);
	free(g);
}

void pt_fs_gc_poke(struct pt_fs *fs)
{
	struct pt_fs_gc *g = fs->gc;

	if (!g)
		return;
	__atomic_add_fetch(&fs->pokes, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&g->lock);
	g->poked = true;
	pthread_mutex_unlock(&g->lock);
}

/* store/fdcache.c - see fdcache.h.
 *
 * Invariants: 1. a file is in the map unless forgotten; 2. it is in the idle list exactly when it is in the map and has no users. */
#include "store/fdcache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

struct pt_fdcache {
	size_t max;
	pt_fdcache_open_fn *open_fn;
	void *ctx;
	pthread_mutex_t lock;                   /* map, the idle list, users and forgotten of all files */
	struct pt_refmap map;
	struct pt_fdcache_file *newest, *oldest;
};

int pt_fdcache_create(size_t max, pt_fdcache_open_fn *open_fn, void *ctx, struct pt_fdcache **ret_cache)
{
	struct pt_fdcache *c = pt_calloc(1, sizeof(*c));

	if (!c)
		return pt_fail_nomem();
	if (pt_refmap_init(&c->map) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->max = max;
	c->open_fn = open_fn;
	c->ctx = ctx;
	pthread_mutex_init(&c->lock, NULL);
	*ret_cache = c;
	return 0;
}

static void file_close(struct pt_fdcache_file *f)
{
	if (!f)
		return;
	close(f->fd);
	free(f);
}

void pt_fdcache_free(struct pt_fdcache *c)
{
	struct pt_refmap_node *n;

	if (!c)
		return;
	while ((n = pt_refmap_any(&c->map))) {
		pt_refmap_remove(&c->map, n);
		file_close((struct pt_fdcache_file *)n);
	}
	pt_refmap_done(&c->map);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void idle_remove_locked(struct pt_fdcache *c, struct pt_fdcache_file *f)
{
	*(f->newer ? &f->newer->older : &c->newest) = f->older;
	*(f->older ? &f->older->newer : &c->oldest) = f->newer;
	f->newer = f->older = NULL;
}

static void idle_add_locked(struct pt_fdcache *c, struct pt_fdcache_file *f)
{
	f->newer = NULL;
	f->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = f;
	c->newest = f;
}

static struct pt_fdcache_file *use_locked(struct pt_fdcache *c, const struct pt_blob_ref *ref)
{
	struct pt_fdcache_file *f = (struct pt_fdcache_file *)pt_refmap_find(&c->map, ref);

	if (f && f->users++ == 0)
		idle_remove_locked(c, f);
	return f;
}

/* One idle file out of the map when there are too many; the caller closes it without the lock. */
static struct pt_fdcache_file *evict_locked(struct pt_fdcache *c)
{
	struct pt_fdcache_file *f = c->oldest;

	if (!f || c->map.count <= c->max)
		return NULL;
	idle_remove_locked(c, f);
	pt_refmap_remove(&c->map, &f->node);
	return f;
}

int pt_fdcache_get(struct pt_fdcache *c, const struct pt_blob_ref *ref, struct pt_fdcache_file **ret_file)
{
	struct pt_fdcache_file *f, *opened, *evicted;

	pthread_mutex_lock(&c->lock);
	f = use_locked(c, ref);
	pthread_mutex_unlock(&c->lock);
	if (f) {
		*ret_file = f;
		return 0;
	}
	opened = pt_calloc(1, sizeof(*opened));
	if (!opened)
		return pt_fail_nomem();
	opened->node.ref = *ref;
	opened->fd = c->open_fn(c->ctx, ref, &opened->bytes);
	if (opened->fd < 0) {
		int rc = opened->fd;

		free(opened);
		return rc;
	}
	pthread_mutex_lock(&c->lock);
	f = use_locked(c, ref);
	if (!f) {
		f = opened;
		opened = NULL;
		f->users = 1;
		pt_refmap_insert(&c->map, &f->node);
	}
	evicted = evict_locked(c);
	pthread_mutex_unlock(&c->lock);
	file_close(opened);
	file_close(evicted);
	*ret_file = f;
	return 0;
}

void pt_fdcache_put(struct pt_fdcache *c, struct pt_fdcache_file *f)
{
	struct pt_fdcache_file *unused = NULL;

	pthread_mutex_lock(&c->lock);
	if (--f->users == 0) {
		if (f->forgotten) {
			unused = f;
		} else {
			idle_add_locked(c, f);
			unused = evict_locked(c);
		}
	}
	pthread_mutex_unlock(&c->lock);
	file_close(unused);
}

void pt_fdcache_forget(struct pt_fdcache *c, const struct pt_blob_ref *ref)
{
	struct pt_fdcache_file *unused = NULL;
	struct pt_fdcache_file *f;

	pthread_mutex_lock(&c->lock);
	f = (struct pt_fdcache_file *)pt_refmap_find(&c->map, ref);
	if (f) {
		pt_refmap_remove(&c->map, &f->node);
		f->forgotten = true;
		if (f->users == 0) {
			idle_remove_locked(c, f);
			unused = f;
		}
	}
	pthread_mutex_unlock(&c->lock);
	file_close(unused);
}

void pt_fdcache_sweep(struct pt_fdcache *c)
{
	struct pt_fdcache_file *f, *next, *gone = NULL;
	struct stat st;

	pthread_mutex_lock(&c->lock);
	for (f = c->oldest; f; f = next) {
		next = f->newer;
		if (fstat(f->fd, &st) < 0 || st.st_nlink)
			continue;
		idle_remove_locked(c, f);
		pt_refmap_remove(&c->map, &f->node);
		f->newer = gone;
		gone = f;
	}
	pthread_mutex_unlock(&c->lock);
	for (; gone; gone = next) {
		next = gone->newer;
		file_close(gone);
	}
}

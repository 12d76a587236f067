/* cache/reserve.c - memory for what is filled next: a tensor that is published again and again has the same size each time, so when a file has taken an earlier one's place, another one of
 * its size is made ready, by the threads that nobody waits for.
 *
 * Memory that was used is never used again (cache.h), and fresh memory costs more than to fill it: pages to clear, which in a virtual machine may have to be had back from its host
 * first. A file that is ready has all its pages, of zeros that this process wrote; it is in no table, holds no view's bytes, and is the first thing to go where there is no room. It is a
 * struct pt_vcache_file of which only fd, map, size, room, filled (bytes that are ready), used_ns, holds (its thread writes) and given_up (to be freed by that) are used. */
#include "cache/cache_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define RESERVE_PART 2                  /* of the cache's limit at most */
#define IDLE_NS (INT64_C(600) * 1000000000)     /* nobody publishes it any more */
#define ZEROS 65536                     /* bytes; in the processor's cache all the time */

static bool wanting(const struct pt_vcache_file *f)
{
	return f->filled < f->size && !f->holds;
}

static struct pt_vcache_file *next_locked(struct pt_vcache *c)
{
	struct pt_vcache_file *f;

	for (f = c->reserve; f && !wanting(f); f = f->hash_next)
		;
	return f;
}

static void unlink_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	struct pt_vcache_file **p;

	for (p = &c->reserve; *p != f; p = &(*p)->hash_next)
		;
	*p = f->hash_next;
	c->stats.reserve -= f->room;
}

/* One that its thread writes to is freed by that. */
static void drop_locked(struct pt_vcache *c, struct pt_vcache_file *f, struct pt_vcache_file **evicted)
{
	unlink_locked(c, f);
	if (f->holds) {
		f->given_up = true;
		return;
	}
	f->hash_next = *evicted;
	*evicted = f;
}

/* Pages of zeros. Written, not faulted in: a page fault would hold the lock of the process's memory, for long when this thread has to give way. */
static bool write_zeros(int fd, uint64_t off, uint64_t len)
{
	static const uint8_t zeros[ZEROS];
	struct iovec iov[PT_MEMORY_HUGE / ZEROS];
	ssize_t n;
	int count;

	while (len) {
		uint64_t left = pt_size_min(len, PT_MEMORY_HUGE);

		for (count = 0; left; count++) {
			iov[count] = (struct iovec){ (void *)zeros, pt_size_min(left, ZEROS) };
			left -= iov[count].iov_len;
		}
		n = pwritev(fd, iov, count, (off_t)off);
		if (n <= 0)
			return false;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return true;
}

static bool file_make(struct pt_vcache *c, struct pt_vcache_file *f)
{
	if (pt_budget_available(&c->memory.budget) / RESERVE_PART < f->room)
		return false;
	return pt_memory_map(&c->memory, f->size, &f->fd, &f->map) == 0;
}

static void reserve_some(struct pt_work *work)
{
	struct pt_vcache *c = ((struct pt_vcache_reserver *)work)->cache;
	struct pt_vcache_file *f, *dropped = NULL;
	uint64_t n = 0;
	bool good;

	pthread_mutex_lock(&c->lock);
	f = next_locked(c);
	if (!f) {
		c->reserver.busy = false;
		pthread_mutex_unlock(&c->lock);
		return;
	}
	f->holds = 1;
	n = pt_size_min(f->size - f->filled, PT_MEMORY_HUGE);
	pthread_mutex_unlock(&c->lock);
	good = (f->fd >= 0 || file_make(c, f)) && !pt_memory_short(&c->memory, n) && write_zeros(f->fd, f->filled, n);
	pthread_mutex_lock(&c->lock);
	f->holds = 0;
	f->filled += good ? n : 0;
	f->used_ns = pt_time_boot_ns();
	if (f->given_up)
		dropped = f;
	else if (!good)
		drop_locked(c, f, &dropped);
	pthread_mutex_unlock(&c->lock);
	if (dropped)
		pt_vcache_file_free(dropped);
	pt_workers_add(c->idle, work, false);
}

void pt_vcache_reserve_init(struct pt_vcache *c)
{
	c->reserver = (struct pt_vcache_reserver){ { .run = reserve_some }, c, false };
}

/* No more are ready than there are files that may be replaced. */
static bool enough_locked(const struct pt_vcache *c, uint64_t size)
{
	const struct pt_vcache_file *f;
	int64_t more = 0;

	for (f = c->lru_first; f; f = f->lru_next)
		more += f->size == size && f->work == PT_VCACHE_FILL && !f->superseded;
	for (f = c->reserve; f; f = f->hash_next)
		more -= f->size == size;
	return more <= 0;
}

void pt_vcache_reserve_locked(struct pt_vcache *c, const struct pt_vcache_file *like)
{
	uint64_t reserved = c->stats.reserve + like->room;
	struct pt_vcache_file *f;

	if (!c->idle || reserved > c->stats.limit / RESERVE_PART || reserved > c->stats.limit - c->stats.used || enough_locked(c, like->size))
		return;
	f = pt_calloc(1, sizeof(*f));
	if (!f)
		return;                 /* the next one is filled as the first was */
	f->fd = -1;
	f->size = like->size;
	f->room = like->room;
	f->used_ns = pt_time_boot_ns();
	f->hash_next = c->reserve;
	c->reserve = f;
	c->stats.reserve = reserved;
}

bool pt_vcache_reserve_wanted_locked(struct pt_vcache *c)
{
	if (c->reserver.busy || !next_locked(c))
		return false;
	c->reserver.busy = true;
	return true;
}

struct pt_vcache_file *pt_vcache_reserve_take_locked(struct pt_vcache *c, uint64_t size)
{
	struct pt_vcache_file *f;

	for (f = c->reserve; f && (f->size != size || f->filled != size || f->holds); f = f->hash_next)
		;
	if (f)
		unlink_locked(c, f);
	return f;
}

uint64_t pt_vcache_reserve_shrink_locked(struct pt_vcache *c, uint64_t room, uint64_t need, uint64_t have, struct pt_vcache_file **evicted)
{
	struct pt_vcache_file *f, *next;
	int64_t now = pt_time_boot_ns();
	uint64_t freed = 0;

	for (f = c->reserve; f; f = next) {
		next = f->hash_next;
		if (f->used_ns + IDLE_NS > now && c->stats.used + c->stats.reserve <= c->stats.limit - room && have >= need - pt_size_min(freed, need))
			continue;
		freed += f->room;
		drop_locked(c, f, evicted);
	}
	return freed;
}

void pt_vcache_reserve_done(struct pt_vcache *c)
{
	struct pt_vcache_file *f;

	while ((f = c->reserve)) {
		c->reserve = f->hash_next;
		pt_vcache_file_free(f);
	}
}

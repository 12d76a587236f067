/* cache/reserve.c - memory for what is filled next, made ready by the threads that nobody waits for: some for files of any size, since a mount is used some time after it was made, and loaded from then; and a
 * tensor that is published again and again has the same size each time, so when a file has taken an earlier one's place, another one of its size.
 *
 * Memory that was used is never used again (cache.h), and fresh memory costs more than to fill it: pages to clear, which in a virtual machine may have to be had back from its host
 * first. A file that is ready has all its pages, of zeros that this process wrote; it is in no table, holds no view's bytes, and is the first thing to go where there is no room. It is a
 * struct pt_vcache_file of which only fd, map, size, room, filled (bytes that are ready), used_ns, holds (its thread writes) and given_up (to be freed by that) are used.
 *
 * A file of any size is made of the one that suits best: cut, or made longer, and then some of its memory comes as it is filled. So they are a half, a quarter and so on of what there is to be. */
#include "cache/cache_int.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define RESERVE_PART 2                  /* of the cache's limit at most */
#define KEEP_NS (INT64_C(600) * 1000000000)     /* nobody publishes it any more, or loads anything */
#define BUSY_NS (INT64_C(20) * 1000000)         /* how long work rests while a file is being filled, which wants the memory's whole speed */
#define ANY_LEAST ((uint64_t)16 << 20)          /* smaller files are filled in no time */
#define ANY_LEFT 4                      /* such a part of all memory is left, however many mounts there are */
#define ANY_CUT 2                       /* a file takes what is at most so many times its size */
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
	uint64_t available = pt_budget_available(&c->memory.budget);

	if (available / RESERVE_PART < f->room || (f->any && available < pt_budget_total(&c->memory.budget) / ANY_LEFT + f->room))
		return false;
	return pt_memory_map(&c->memory, f->size, &f->fd, &f->map) == 0;
}

/* When the first of the reserve will not have been used for too long. 0: there is none. */
static int64_t expires_locked(const struct pt_vcache *c)
{
	const struct pt_vcache_file *f, *first = c->reserve;

	for (f = first; f; f = f->hash_next)
		if (f->used_ns < first->used_ns)
			first = f;
	return first ? first->used_ns + c->keep_ns : 0;
}

static void expire(struct pt_work *work)
{
	struct pt_vcache *c = ((struct pt_vcache_chore *)work)->cache;
	struct pt_vcache_file *dropped = NULL;
	int64_t at_ns;

	pthread_mutex_lock(&c->lock);
	pt_vcache_reserve_shrink_locked(c, 0, 0, 0, &dropped);
	at_ns = expires_locked(c);
	c->expirer.busy = at_ns != 0;
	if (at_ns)
		pt_workers_add_at(c->idle, work, at_ns);
	pthread_mutex_unlock(&c->lock);
	pt_vcache_files_free(dropped);
}

/* There is nothing to do, or not yet: others fill files. False: there is. */
static bool rests_locked(struct pt_vcache *c, struct pt_work *work)
{
	int64_t at_ns;

	if (next_locked(c)) {
		if (!c->stats.filling)
			return false;
		pt_workers_add_at(c->idle, work, pt_time_boot_ns() + BUSY_NS);
		return true;
	}
	c->reserver.busy = false;
	at_ns = expires_locked(c);
	if (at_ns && !c->expirer.busy) {
		c->expirer.busy = true;
		pt_workers_add_at(c->idle, &c->expirer.work, at_ns);
	}
	return true;
}

static void reserve_some(struct pt_work *work)
{
	struct pt_vcache *c = ((struct pt_vcache_chore *)work)->cache;
	struct pt_vcache_file *f, *dropped = NULL;
	uint64_t n = 0;
	bool good;

	pthread_mutex_lock(&c->lock);
	if (rests_locked(c, work)) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	f = next_locked(c);
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
	c->reserver = (struct pt_vcache_chore){ { .run = reserve_some }, c, false };
	c->expirer = (struct pt_vcache_chore){ { .run = expire }, c, false };
	c->keep_ns = KEEP_NS;
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

/* If there is room, as the first thing to be made ready, or, for any size, as the last one; without memory for it the next file is filled as the first was. */
static void add_locked(struct pt_vcache *c, uint64_t size, uint64_t room, bool any)
{
	struct pt_vcache_file *f, **p = &c->reserve;
	uint64_t reserved = c->stats.reserve + room;

	if (!c->idle || reserved > c->stats.limit / RESERVE_PART || reserved > c->stats.limit - c->stats.used)
		return;
	f = pt_calloc(1, sizeof(*f));
	if (!f)
		return;
	f->fd = -1;
	f->size = size;
	f->room = room;
	f->any = any;
	f->used_ns = pt_time_boot_ns();
	while (any && *p)
		p = &(*p)->hash_next;
	f->hash_next = *p;
	*p = f;
	c->stats.reserve = reserved;
}

void pt_vcache_reserve_locked(struct pt_vcache *c, const struct pt_vcache_file *like)
{
	if (!enough_locked(c, like->size))
		add_locked(c, like->size, like->room, false);
}

/* The next smaller one of those that are to be there for any size. 0: that was the last. */
static uint64_t any_next(uint64_t size)
{
	size = size / 2 & ~(PT_MEMORY_HUGE - 1);
	return size >= ANY_LEAST ? size : 0;
}

void pt_vcache_reserve_any_locked(struct pt_vcache *c)
{
	int64_t now = pt_time_boot_ns();
	struct pt_vcache_file *f;
	uint64_t size;

	for (size = any_next(c->any_bytes); size; size = any_next(size)) {
		for (f = c->reserve; f && (!f->any || f->size != size); f = f->hash_next)
			;
		if (f)
			f->used_ns = now;
		else
			add_locked(c, size, size, true);
	}
}

bool pt_vcache_reserve_wanted_locked(struct pt_vcache *c)
{
	if (c->reserver.busy || !next_locked(c))
		return false;
	c->reserver.busy = true;
	return true;
}

/* Most of what it needs, and of those that have as much the smallest one. */
static struct pt_vcache_file *any_locked(struct pt_vcache *c, uint64_t size)
{
	struct pt_vcache_file *f, *best = NULL;
	uint64_t has, best_has = 0;

	for (f = c->reserve; f; f = f->hash_next) {
		if (!f->any || f->holds || f->filled < ANY_LEAST || f->filled / ANY_CUT > size)
			continue;
		has = pt_size_min(f->filled, size);
		if (has > best_has || (has == best_has && f->size < best->size)) {
			best = f;
			best_has = has;
		}
	}
	return best;
}

struct pt_vcache_file *pt_vcache_reserve_take_locked(struct pt_vcache *c, uint64_t size, bool any)
{
	struct pt_vcache_file *f;

	for (f = c->reserve; f && (f->size != size || f->filled != size || f->holds || (f->any && !any)); f = f->hash_next)
		;
	if (!f && any)
		f = any_locked(c, size);
	if (f)
		unlink_locked(c, f);
	return f;
}

uint64_t pt_vcache_reserve_ready_locked(const struct pt_vcache *c)
{
	const struct pt_vcache_file *f;
	uint64_t bytes = 0;

	for (f = c->reserve; f; f = f->hash_next)
		bytes += f->filled;
	return bytes;
}

void pt_vcache_ready(struct pt_vcache *c, uint64_t bytes)
{
	struct pt_vcache_file *f, *next, *dropped = NULL;
	bool wanted;

	pthread_mutex_lock(&c->lock);
	c->any_bytes = pt_size_min(bytes, c->stats.limit / RESERVE_PART);
	for (f = bytes ? NULL : c->reserve; f; f = next) {
		next = f->hash_next;
		if (f->any)
			drop_locked(c, f, &dropped);
	}
	pt_vcache_reserve_any_locked(c);
	wanted = pt_vcache_reserve_wanted_locked(c);
	pthread_mutex_unlock(&c->lock);
	pt_vcache_files_free(dropped);
	if (wanted)
		pt_workers_add(c->idle, &c->reserver.work, false);
}

uint64_t pt_vcache_reserve_shrink_locked(struct pt_vcache *c, uint64_t room, uint64_t need, uint64_t have, struct pt_vcache_file **evicted)
{
	struct pt_vcache_file *f, *next;
	int64_t now = pt_time_boot_ns();
	uint64_t freed = 0;

	for (f = c->reserve; f; f = next) {
		next = f->hash_next;
		if (f->used_ns + c->keep_ns > now && c->stats.used + c->stats.reserve <= c->stats.limit - room && have >= need - pt_size_min(freed, need))
			continue;
		freed += f->holds ? 0 : f->filled;      /* its thread frees it otherwise */
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

/* store/reserve.c - stretches of memory, each ready from its front on; whoever takes some takes it off the front.
 *
 * Invariants, under the lock: 1. addr <= ready <= end, all at multiples of PT_RESERVE_UNIT; [addr, ready) is faulted in and nobody has written to it,
 * but where it is used: that was given back, and has its pages as far as the giver had them; ready is its end. 2. [ready, end) is the thread's alone, and so is dropping.
 * 3. A stretch that has nothing left is in no list, and unmapped or the takers'. */
#include "store/reserve.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

#define STRETCHES 64
#define NICE 5                          /* behind what clients wait for; more would make these wait for the lock of the process's memory, which it holds for a page */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23          /* kernel 5.14 */
#endif

struct stretch {
	uint8_t *addr, *ready, *end;
	bool used;
};

struct pt_reserve {
	uint64_t bytes;
	pt_reserve_room_fn *room;
	void *ctx;
	pthread_t thread;
	pthread_mutex_t lock;           /* all below */
	pthread_cond_t look;
	bool looked, stop;              /* there is something to look at */
	uint32_t count;
	struct stretch stretch[STRETCHES];
};

static uint64_t left(const struct stretch *s)
{
	return (uint64_t)(s->end - s->addr);
}

static uint64_t held_locked(const struct pt_reserve *r)
{
	uint64_t held = 0;

	for (uint32_t i = 0; i < r->count; i++)
		held += left(&r->stretch[i]);
	return held;
}

static void forget_locked(struct pt_reserve *r, struct stretch *s)
{
	*s = r->stretch[--r->count];
}

/* So much of the one with the least left goes back to the system, or all that it has. */
static void drop_locked(struct pt_reserve *r, uint64_t bytes)
{
	struct stretch *least = &r->stretch[0];

	for (uint32_t i = 1; i < r->count; i++)
		if (left(&r->stretch[i]) < left(least))
			least = &r->stretch[i];
	bytes = pt_size_min(bytes, left(least));
	least->end -= bytes;
	munmap(least->end, bytes);
	if (least->ready > least->end)
		least->ready = least->end;
	if (!left(least))
		forget_locked(r, least);
}

/* Address space at a multiple of the unit. */
static void add_locked(struct pt_reserve *r, uint64_t bytes)
{
	uint64_t before, space = bytes + PT_RESERVE_UNIT;
	uint8_t *p;

	if (r->count == STRETCHES)
		drop_locked(r, UINT64_MAX);
	p = mmap(NULL, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return;
	before = -(uintptr_t)p % PT_RESERVE_UNIT;
	if (before)
		munmap(p, before);
	munmap(p + before + bytes, PT_RESERVE_UNIT - before);
	p += before;
	madvise(p, bytes, MADV_HUGEPAGE);       /* a wish */
	r->stretch[r->count++] = (struct stretch){ p, p, p + bytes, false };
}

/* As much as there is room for, once half is used. */
static void fit_locked(struct pt_reserve *r, uint64_t room)
{
	uint64_t want = pt_size_min(r->bytes, room) & ~(PT_RESERVE_UNIT - 1);

	while (held_locked(r) > want)
		drop_locked(r, held_locked(r) - want);
	if (want && held_locked(r) <= want / 2)
		add_locked(r, want - held_locked(r));
}

/* Faults in one more page. false: all are, or the system cannot. */
static bool fetch_locked(struct pt_reserve *r)
{
	struct stretch *s = NULL;
	uint8_t *at;
	int rc;

	for (uint32_t i = 0; i < r->count && !s; i++)
		if (r->stretch[i].ready < r->stretch[i].end)
			s = &r->stretch[i];
	if (!s)
		return false;
	at = s->ready;
	pthread_mutex_unlock(&r->lock);
	rc = madvise(at, PT_RESERVE_UNIT, MADV_POPULATE_WRITE);
	pthread_mutex_lock(&r->lock);
	/* Only this thread drops, but takers and givers change the list. One that has all its pages may end where this one begins. */
	for (uint32_t i = 0; rc == 0 && i < r->count; i++)
		if (r->stretch[i].ready == at && at < r->stretch[i].end)
			r->stretch[i].ready += PT_RESERVE_UNIT;
	return rc == 0;
}

static void *fetch(void *arg)
{
	struct pt_reserve *r = arg;
	uint64_t room;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);        /* of this thread alone */
	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		r->looked = false;
		pthread_mutex_unlock(&r->lock);
		room = r->room(r->ctx);
		pthread_mutex_lock(&r->lock);
		fit_locked(r, room);
		while (!r->stop && !r->looked && fetch_locked(r))
			;
		while (!r->stop && !r->looked)
			pthread_cond_wait(&r->look, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

int pt_reserve_create(uint64_t bytes, pt_reserve_room_fn *room, void *ctx, struct pt_reserve **ret_reserve)
{
	struct pt_reserve *r = pt_calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return pt_fail_nomem();
	r->bytes = bytes;
	r->room = room;
	r->ctx = ctx;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->look, NULL);
	rc = pt_thread_start(&r->thread, fetch, r);
	if (rc) {
		pthread_cond_destroy(&r->look);
		pthread_mutex_destroy(&r->lock);
		free(r);
		return pt_fail(rc, "cannot make a thread: %s", strerror(rc));
	}
	*ret_reserve = r;
	return 0;
}

void pt_reserve_free(struct pt_reserve *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->look);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	while (r->count)
		drop_locked(r, UINT64_MAX);
	pthread_cond_destroy(&r->look);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void look_locked(struct pt_reserve *r)
{
	r->looked = true;
	pthread_cond_signal(&r->look);
}

void pt_reserve_look(struct pt_reserve *r)
{
	pthread_mutex_lock(&r->lock);
	look_locked(r);
	pthread_mutex_unlock(&r->lock);
}

/* Used memory first, which others would have to wait for; then the stretch with the least left. */
static bool is_better(const struct stretch *s, const struct stretch *best)
{
	return !best || (s->used != best->used ? s->used : left(s) < left(best));
}

void *pt_reserve_take(struct pt_reserve *r, uint64_t len, bool *ret_used)
{
	struct stretch *best = NULL, *s;
	void *taken = NULL;

	pthread_mutex_lock(&r->lock);
	for (s = r->stretch; s < r->stretch + r->count; s++)
		if ((uint64_t)(s->ready - s->addr) >= len && is_better(s, best))
			best = s;
	if (best) {
		taken = best->addr;
		*ret_used = best->used;
		best->addr += len;
		if (best->addr == best->end)
			forget_locked(r, best);
		look_locked(r);
	}
	pthread_mutex_unlock(&r->lock);
	return taken;
}

/* Together with its neighbours, so that what was taken piece by piece can be taken as a whole again. False: there are too many stretches. */
static bool keep_locked(struct pt_reserve *r, struct stretch given)
{
	for (uint32_t i = 0; i < r->count;) {
		struct stretch *s = &r->stretch[i];

		if (s->used && s->end == given.addr)
			given.addr = s->addr;
		else if (s->used && s->addr == given.end)
			given.end = given.ready = s->end;
		else {
			i++;
			continue;
		}
		forget_locked(r, s);
	}
	if (r->count == STRETCHES)
		return false;
	r->stretch[r->count++] = given;
	return true;
}

/* How much of len bytes there is room for. */
static uint64_t fits_locked(const struct pt_reserve *r, uint64_t len, uint64_t room)
{
	uint64_t held = held_locked(r), want = pt_size_min(r->bytes, room) & ~(PT_RESERVE_UNIT - 1);

	return held < want ? pt_size_min(len, want - held) : 0;
}

void pt_reserve_give(struct pt_reserve *r, void *memory, uint64_t len)
{
	uint64_t room, kept = 0;
	uint8_t *addr = memory;

	if ((uintptr_t)addr % PT_RESERVE_UNIT == 0 && len % PT_RESERVE_UNIT == 0) {
		room = r->room(r->ctx);
		pthread_mutex_lock(&r->lock);
		kept = fits_locked(r, len, room);
		if (kept && !keep_locked(r, (struct stretch){ addr, addr + kept, addr + kept, true }))
			kept = 0;
		pthread_mutex_unlock(&r->lock);
	}
	if (kept < len)
		munmap(addr + kept, len - kept);
}

uint64_t pt_reserve_ready(struct pt_reserve *r, uint64_t *ret_held)
{
	uint64_t ready = 0;

	pthread_mutex_lock(&r->lock);
	for (uint32_t i = 0; i < r->count; i++)
		ready += (uint64_t)(r->stretch[i].ready - r->stretch[i].addr);
	*ret_held = held_locked(r);
	pthread_mutex_unlock(&r->lock);
	return ready;
}

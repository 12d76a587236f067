/* cache/ahead.c - the windows ahead of one open file.
 *
 * A window is FREE, QUEUED (to be read, by a worker that has been told or by the reader's own thread), READING, READY, or LEFT (no longer wanted, while being read).
 * Its memory, which it may share with another reader's of the same file (share.h), is let go when it is FREE and no lease uses it. Errors are not kept: the window becomes FREE, and the reader reads for itself and gets its own error.
 *
 * Where reading is a matter of copying (the threads that read did not sleep), more of them than processors only get in each other's way: one processor is left to the
 * reader, and a request whose window is not there yet is not one that sleeps, it reads the next window that nobody has begun. Where reads are waited for, all windows are under
 * way at once, and a request reads only what it needs itself. */
#include "cache/ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

#define DEPTH_FIRST 2
#define DEPTH_MAX 8
#define DEPTH_COPY 6                    /* where reads do not sleep: what is further ahead only pushes what is next out of the processor's cache */
#define NEAR (4 * PT_BUFFER_BYTES)      /* the kernel cuts a large read up, and its pieces overtake each other by as much */
#define MISSES_MAX 4                    /* requests near by that found nothing, before they are taken for another run */
#define SLEEPY 3                        /* reads that did not sleep, before it is believed */

enum slot_state { FREE, QUEUED, READING, READY, LEFT };

struct slot {
	struct pt_work work;            /* first */
	struct pt_ahead *ahead;
	enum slot_state state;
	bool told;                      /* QUEUED: it is in the workers' queue */
	uint64_t off, len;
	uint64_t taken;                 /* bytes that were asked for */
	struct pt_share_window *window; /* held, unless FREE without leases */
	uint32_t leases;
};

struct pt_ahead {
	pthread_mutex_t lock;           /* the rest, but for what never changes */
	pthread_cond_t cond;            /* a window has been read */
	struct pt_workers *workers;
	struct pt_share *share;
	bool has_key;
	struct pt_vcache_key key;
	pt_ahead_read_fn *read;
	pt_ahead_cut_fn *cut;           /* or NULL */
	void *ctx;
	uint64_t size, align;
	uint32_t refs;
	bool closed;
	uint64_t next;                  /* where a sequential reader goes on; UINT64_MAX: nothing was asked for yet */
	uint32_t run;                   /* requests in a row */
	uint32_t misses;                /* requests near by that found nothing, since the last that did */
	uint32_t depth;
	uint32_t told;                  /* windows that workers read or have in their queue */
	uint32_t sleepy;                /* 0: the last SLEEPY reads did not sleep */
	uint64_t fetched;               /* end of the last window that was asked for */
	struct slot slot[PT_AHEAD_SLOTS];
};

static void slot_read(struct pt_work *work);

/* The window's bytes: as far into a page as in the file. */
static uint8_t *slot_data(const struct slot *s)
{
	return (uint8_t *)s->window->buffer + s->off % PT_BUFFER_PAD;
}

int pt_ahead_create(struct pt_workers *workers, struct pt_share *share, const struct pt_vcache_key *key, uint64_t size, uint64_t align, pt_ahead_read_fn *read,
		    pt_ahead_cut_fn *cut, void *ctx, struct pt_ahead **ret_ahead)
{
	struct pt_ahead *a = pt_calloc(1, sizeof(*a));
	uint32_t i;

	if (!a)
		return pt_fail_nomem();
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->cond, NULL);
	a->workers = workers;
	a->share = share;
	a->has_key = key != NULL;
	if (key)
		a->key = *key;
	a->read = read;
	a->cut = cut;
	a->ctx = ctx;
	a->size = size;
	a->align = align % PT_BUFFER_BYTES;
	a->refs = 1;
	a->next = UINT64_MAX;
	a->depth = DEPTH_FIRST;
	a->sleepy = SLEEPY;
	for (i = 0; i < PT_AHEAD_SLOTS; i++) {
		a->slot[i].work.run = slot_read;
		a->slot[i].ahead = a;
	}
	*ret_ahead = a;
	return 0;
}

static void unref_unlock(struct pt_ahead *a)
{
	bool last = --a->refs == 0;

	pthread_mutex_unlock(&a->lock);
	if (!last)
		return;
	pthread_cond_destroy(&a->cond);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void slot_empty_locked(struct slot *s)
{
	if (s->state == READY)
		s->state = FREE;
	if (s->state == FREE && !s->leases) {
		pt_share_put(s->ahead->share, s->window);
		s->window = NULL;
	}
}

/* Out of the workers' queue, if it is there. False: a worker has it. */
static bool slot_untell_locked(struct pt_ahead *a, struct slot *s)
{
	if (!s->told)
		return true;
	if (!pt_workers_cancel(a->workers, &s->work))
		return false;
	s->told = false;
	a->told--;
	return true;
}

/* Nobody will ask for it. */
static void slot_leave_locked(struct pt_ahead *a, struct slot *s)
{
	if (s->state == QUEUED && slot_untell_locked(a, s))
		s->state = FREE;
	if (s->state == READING || s->state == QUEUED)
		s->state = LEFT;
	slot_empty_locked(s);
	pthread_cond_broadcast(&a->cond);       /* who waits for it looks again */
}

/* The first window that nobody reads or has been told of. */
static struct slot *slot_first_locked(struct pt_ahead *a, bool told)
{
	struct slot *s, *first = NULL;

	for (s = a->slot; s < a->slot + PT_AHEAD_SLOTS; s++)
		if (s->state == QUEUED && (told || !s->told) && (!first || s->off < first->off))
			first = s;
	return first;
}

/* As many workers as may be at work. */
static void tell_locked(struct pt_ahead *a)
{
	uint32_t count = pt_workers_count(a->workers), limit = a->sleepy ? PT_AHEAD_SLOTS : count > 1 ? count - 1 : 1;
	struct slot *s;

	while (a->told < limit && (s = slot_first_locked(a, false))) {
		s->told = true;
		a->told++;
		pt_workers_add(a->workers, &s->work, true);
	}
}

static uint64_t sleeps(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nvcsw : 0;
}

/* Reads a window that is QUEUED and that no thread of this reader has, unless another reader of the file does so or has; without the lock meanwhile. */
static void slot_fill_locked(struct pt_ahead *a, struct slot *s)
{
	bool mine, all_read = true;
	uint64_t slept = 0;

	s->state = READING;
	pthread_mutex_unlock(&a->lock);
	mine = pt_share_begin(a->share, s->window);
	if (mine) {
		slept = sleeps();
		all_read = a->read(a->ctx, slot_data(s), s->len, s->off) == (int64_t)s->len;
		slept = sleeps() - slept;
		pt_share_end(a->share, s->window, all_read);
	}
	pthread_mutex_lock(&a->lock);
	if (slept)
		a->sleepy = SLEEPY;
	else if (mine && a->sleepy)
		a->sleepy--;
	s->state = s->state == READING && all_read ? READY : FREE;
	if (s->state == FREE)
		slot_empty_locked(s);
	pthread_cond_broadcast(&a->cond);
}

/* The window itself, unless another reader of the file has it read at this moment, and there is a later one that nobody has begun: then that, and its own turn comes again. */
static struct slot *slot_unshared_locked(struct pt_ahead *a, struct slot *own)
{
	struct slot *s, *first = NULL;

	if (!pt_share_is_reading(a->share, own->window))
		return own;
	for (s = a->slot; s < a->slot + PT_AHEAD_SLOTS; s++)
		if (s != own && s->state == QUEUED && (!first || s->off < first->off) && !pt_share_is_reading(a->share, s->window))
			first = s;
	return first && slot_untell_locked(a, first) ? first : own;
}

static void slot_read(struct pt_work *work)
{
	struct slot *s = (struct slot *)work;
	struct pt_ahead *a = s->ahead;

	pthread_mutex_lock(&a->lock);
	s->told = false;
	if (s->state == QUEUED) {
		slot_fill_locked(a, slot_unshared_locked(a, s));
	} else {
		s->state = FREE;
		slot_empty_locked(s);
		pthread_cond_broadcast(&a->cond);
	}
	a->told--;
	tell_locked(a);
	pthread_mutex_unlock(&a->lock);
}

void pt_ahead_close(struct pt_ahead *a)
{
	uint32_t i;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->closed = true;
	for (i = 0; i < PT_AHEAD_SLOTS; i++) {
		slot_leave_locked(a, &a->slot[i]);
		while (a->slot[i].state == LEFT)
			pthread_cond_wait(&a->cond, &a->lock);
	}
	unref_unlock(a);
}

static uint64_t window_end(const struct pt_ahead *a, uint64_t off)
{
	uint64_t max = pt_size_min(PT_BUFFER_BYTES, a->size - off), end;

	if (a->cut)
		end = a->cut(a->ctx, off, max);
	else
		end = off < a->align ? a->align : a->align + ((off - a->align) / PT_BUFFER_BYTES + 1) * PT_BUFFER_BYTES;
	return end > off ? pt_size_min(end, off + max) : off + max;
}

/* Windows from where the last one ended, as deep as is wanted, and in any case as far as end. */
static void fetch_locked(struct pt_ahead *a, uint64_t from, uint64_t end)
{
	uint32_t i, held = 0, depth = a->sleepy || a->depth < DEPTH_COPY ? a->depth : DEPTH_COPY;
	struct slot *s;

	for (i = 0; i < PT_AHEAD_SLOTS; i++)
		held += a->slot[i].state != FREE && a->slot[i].off + a->slot[i].len > from;
	if (a->fetched < from)
		a->fetched = from;
	for (i = 0; i < PT_AHEAD_SLOTS && (held < depth || a->fetched < end) && a->fetched < a->size; i++) {
		s = &a->slot[i];
		if (s->state != FREE || s->leases)
			continue;
		s->off = a->fetched;
		s->len = window_end(a, s->off) - s->off;
		s->window = pt_share_get(a->share, a->has_key ? &a->key : NULL, s->off, s->len);
		if (!s->window)
			break;
		s->taken = 0;
		s->state = QUEUED;
		a->fetched = s->off + s->len;
		held++;
	}
	tell_locked(a);
}

/* The window that holds off, when it is or will be there. */
static struct slot *slot_find_locked(struct pt_ahead *a, uint64_t off)
{
	struct slot *s;

	for (s = a->slot; s < a->slot + PT_AHEAD_SLOTS; s++)
		if ((s->state == QUEUED || s->state == READING || s->state == READY) && off >= s->off && off - s->off < s->len)
			return s;
	return NULL;
}

/* The same, there: read by this thread, or waited for. NULL also when it is given up meanwhile. */
static struct slot *slot_at_locked(struct pt_ahead *a, uint64_t off)
{
	struct slot *s = slot_find_locked(a, off), *mine;

	if (s && s->state != READY && a->depth < DEPTH_MAX)
		a->depth *= 2;
	while (s && s->state != READY) {
		mine = s->state == QUEUED ? s : a->sleepy ? NULL : slot_first_locked(a, true);
		if (mine && slot_untell_locked(a, mine)) {
			slot_fill_locked(a, mine);
			pt_fail_clear();
		} else {
			pthread_cond_wait(&a->cond, &a->lock);
		}
		s = slot_find_locked(a, off);
	}
	return s;
}

static bool lease_locked(struct pt_ahead *a, uint64_t off, uint64_t len, struct pt_ahead_lease *lease)
{
	struct slot *s;
	uint64_t n;

	*lease = (struct pt_ahead_lease){ 0 };
	while (len && lease->iov_count < PT_AHEAD_IOVS) {
		s = slot_at_locked(a, off);
		if (!s)
			break;
		n = pt_size_min(len, s->off + s->len - off);
		lease->iov[lease->iov_count++] = (struct iovec){ slot_data(s) + (off - s->off), n };
		lease->slots |= 1u << (s - a->slot);
		s->leases++;
		s->taken += n;
		off += n;
		len -= n;
	}
	return len == 0;
}

static void lease_end_locked(struct pt_ahead *a, const struct pt_ahead_lease *lease)
{
	uint32_t i;

	for (i = 0; i < PT_AHEAD_SLOTS; i++)
		if (lease->slots >> i & 1) {
			a->slot[i].leases--;
			if (a->slot[i].state == FREE)
				slot_empty_locked(&a->slot[i]);
		}
}

/* Whether the request goes on where the run is; else all that was fetched is dropped. */
static bool in_run_locked(struct pt_ahead *a, uint64_t off, uint64_t len)
{
	bool known = off == a->next || slot_find_locked(a, off);
	bool near = a->run && off + NEAR >= a->next && off < a->next + NEAR;
	uint32_t i;

	if (known)
		a->misses = 0;
	if (len && (known || (near && a->misses++ < MISSES_MAX))) {
		a->run++;
		return true;
	}
	a->run = a->misses = 0;
	a->fetched = 0;
	a->depth = DEPTH_FIRST;
	for (i = 0; i < PT_AHEAD_SLOTS; i++)
		slot_leave_locked(a, &a->slot[i]);
	return false;
}

/* Windows that were taken whole, or that the run has left behind. */
static void pass_locked(struct pt_ahead *a, uint64_t off)
{
	struct slot *s;

	for (s = a->slot; s < a->slot + PT_AHEAD_SLOTS; s++)
		if (s->state == READY && (s->taken >= s->len || (off > NEAR && s->off + s->len <= off - NEAR)))
			slot_empty_locked(s);
}

int pt_ahead_get(struct pt_ahead *a, uint64_t off, uint64_t len, struct pt_ahead_lease *ret_lease)
{
	struct pt_ahead_lease lease;
	bool found = false;
	uint64_t from;

	pthread_mutex_lock(&a->lock);
	from = pt_size_min(a->next, off);
	if (!in_run_locked(a, off, len)) {
		a->next = off + len;
	} else if (!a->closed) {
		a->next = pt_size_max(a->next, off + len);
		a->refs++;              /* the lock may be let go */
		pass_locked(a, off);
		fetch_locked(a, from, off + len);
		found = lease_locked(a, off, len, &lease);
		if (!found)
			lease_end_locked(a, &lease);
		pass_locked(a, off);    /* what this request used up makes room for more */
		if (!a->closed)
			fetch_locked(a, a->next, 0);
		if (!found) {
			unref_unlock(a);
			return 0;
		}
		lease.ahead = a;        /* with the reference */
		*ret_lease = lease;
	}
	pthread_mutex_unlock(&a->lock);
	return found;
}

void pt_ahead_put(struct pt_ahead_lease *lease)
{
	struct pt_ahead *a = lease->ahead;

	pthread_mutex_lock(&a->lock);
	lease_end_locked(a, lease);
	unref_unlock(a);
}

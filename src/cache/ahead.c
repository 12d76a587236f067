/* cache/ahead.c - the windows ahead of one open file.
 *
 * A window is FREE, QUEUED (a worker will read it), READING, READY, or LEFT (no longer wanted, while being read). Its buffer goes back to the pool when it is
 * FREE and no lease uses it. Errors are not kept: the window becomes FREE, and the reader reads for itself and gets its own error. */
#include "cache/ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

#define DEPTH_FIRST 2

enum slot_state { FREE, QUEUED, READING, READY, LEFT };

struct slot {
	struct pt_work work;            /* first */
	struct pt_ahead *ahead;
	enum slot_state state;
	uint64_t off, len;
	void *buffer;
	uint32_t leases;
};

struct pt_ahead {
	pthread_mutex_t lock;           /* the rest, but for what never changes */
	pthread_cond_t cond;            /* a window has been read */
	struct pt_workers *workers;
	struct pt_buffers *buffers;
	pt_ahead_read_fn *read;
	pt_ahead_cut_fn *cut;           /* or NULL */
	void *ctx;
	uint64_t size, align;
	uint32_t refs;
	bool closed;
	uint64_t next;                  /* where a sequential reader goes on; UINT64_MAX: nothing was asked for yet */
	uint32_t run;                   /* requests in a row */
	uint32_t depth;
	uint64_t fetched;               /* end of the last window that was asked for */
	struct slot slot[PT_AHEAD_SLOTS];
};

static void slot_read(struct pt_work *work);

int pt_ahead_create(struct pt_workers *workers, struct pt_buffers *buffers, uint64_t size, uint64_t align, pt_ahead_read_fn *read, pt_ahead_cut_fn *cut,
		    void *ctx, struct pt_ahead **ret_ahead)
{
	struct pt_ahead *a = pt_calloc(1, sizeof(*a));
	uint32_t i;

	if (!a)
		return pt_fail_nomem();
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->cond, NULL);
	a->workers = workers;
	a->buffers = buffers;
	a->read = read;
	a->cut = cut;
	a->ctx = ctx;
	a->size = size;
	a->align = align % PT_BUFFER_BYTES;
	a->refs = 1;
	a->next = UINT64_MAX;
	a->depth = DEPTH_FIRST;
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
	if (s->state == FREE && s->buffer && !s->leases) {
		pt_buffers_put(s->ahead->buffers, s->buffer);
		s->buffer = NULL;
	}
}

/* Nobody will ask for it. */
static void slot_leave_locked(struct pt_ahead *a, struct slot *s)
{
	if (s->state == QUEUED && pt_workers_cancel(a->workers, &s->work))
		s->state = FREE;
	if (s->state == READING || s->state == QUEUED)
		s->state = LEFT;
	slot_empty_locked(s);
	pthread_cond_broadcast(&a->cond);       /* who waits for it looks again */
}

static void slot_read(struct pt_work *work)
{
	struct slot *s = (struct slot *)work;
	struct pt_ahead *a = s->ahead;
	int64_t n = -EAGAIN;

	pthread_mutex_lock(&a->lock);
	if (s->state == QUEUED) {
		s->state = READING;
		pthread_mutex_unlock(&a->lock);
		n = a->read(a->ctx, s->buffer, s->len, s->off);
		pthread_mutex_lock(&a->lock);
	}
	s->state = s->state == READING && n >= 0 && (uint64_t)n == s->len ? READY : FREE;
	if (s->state == FREE)
		slot_empty_locked(s);
	pthread_cond_broadcast(&a->cond);
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

static void fetch_locked(struct pt_ahead *a, uint64_t from)
{
	uint32_t i, held = 0;
	struct slot *s;

	for (i = 0; i < PT_AHEAD_SLOTS; i++)
		held += a->slot[i].state != FREE;
	if (a->fetched < from)
		a->fetched = from;
	for (i = 0; i < PT_AHEAD_SLOTS && held < a->depth && a->fetched < a->size; i++) {
		s = &a->slot[i];
		if (s->state != FREE || s->leases)
			continue;
		if (!s->buffer)
			s->buffer = pt_buffers_get(a->buffers);
		if (!s->buffer)
			break;
		s->off = a->fetched;
		s->len = window_end(a, s->off) - s->off;
		s->state = QUEUED;
		a->fetched = s->off + s->len;
		held++;
		pt_workers_add(a->workers, &s->work, true);
	}
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

/* The same, waiting for it. NULL also when it is given up meanwhile. */
static struct slot *slot_at_locked(struct pt_ahead *a, uint64_t off)
{
	struct slot *s = slot_find_locked(a, off);

	if (s && s->state != READY && a->depth < PT_AHEAD_SLOTS)
		a->depth *= 2;
	while (s && s->state != READY) {
		pthread_cond_wait(&a->cond, &a->lock);
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
		lease->iov[lease->iov_count++] = (struct iovec){ (uint8_t *)s->buffer + (off - s->off), n };
		lease->slots |= 1u << (s - a->slot);
		s->leases++;
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

int pt_ahead_get(struct pt_ahead *a, uint64_t off, uint64_t len, struct pt_ahead_lease *ret_lease)
{
	struct pt_ahead_lease lease;
	bool found = false;
	uint32_t i;

	pthread_mutex_lock(&a->lock);
	if (len && (off == a->next || slot_find_locked(a, off))) {      /* requests of one reader may overtake each other */
		a->run++;
	} else {
		a->run = 0;
		a->fetched = 0;
		a->depth = DEPTH_FIRST;
		for (i = 0; i < PT_AHEAD_SLOTS; i++)
			slot_leave_locked(a, &a->slot[i]);
	}
	if (!a->run || off + len > a->next)
		a->next = off + len;
	if (a->run && !a->closed) {
		/* windows that lie behind */
		for (i = 0; i < PT_AHEAD_SLOTS; i++)
			if (a->slot[i].state == READY && a->slot[i].off + a->slot[i].len <= off)
				slot_empty_locked(&a->slot[i]);
		fetch_locked(a, off);
		found = lease_locked(a, off, len, &lease);
		if (!found)
			lease_end_locked(a, &lease);
		/* what this request used up makes room for more */
		for (i = 0; found && i < PT_AHEAD_SLOTS; i++)
			if (a->slot[i].state == READY && a->slot[i].off + a->slot[i].len <= off + len)
				slot_empty_locked(&a->slot[i]);
		fetch_locked(a, off + len);
	}
	if (found) {
		a->refs++;
		lease.ahead = a;
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

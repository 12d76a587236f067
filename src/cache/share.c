/* cache/share.c - see share.h.
 *
 * Invariants: a window has a buffer exactly when it has refs; while READING one of those who hold it is between begin and end. */
#include "cache/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

int pt_share_init(struct pt_share *s, struct pt_buffers *buffers)
{
	memset(s, 0, sizeof(*s));
	s->window = pt_calloc(buffers->max, sizeof(*s->window));
	if (!s->window)
		return pt_fail_nomem();
	s->max = buffers->max;
	s->buffers = buffers;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->cond, NULL);
	return 0;
}

void pt_share_done(struct pt_share *s)
{
	if (!s->window)
		return;
	pthread_cond_destroy(&s->cond);
	pthread_mutex_destroy(&s->lock);
	free(s->window);
	memset(s, 0, sizeof(*s));
}

static bool is_same(const struct pt_share_window *w, const struct pt_vcache_key *key, uint64_t off, uint64_t len)
{
	return w->is_shared && w->off == off && w->len == len && memcmp(&w->key, key, sizeof(*key)) == 0;
}

struct pt_share_window *pt_share_get(struct pt_share *s, const struct pt_vcache_key *key, uint64_t off, uint64_t len)
{
	struct pt_share_window *w, *found = NULL, *unused = NULL;

	pthread_mutex_lock(&s->lock);
	for (w = s->window; w < s->window + s->max && !found; w++) {
		if (!w->buffer)
			unused = unused ? unused : w;
		else if (key && is_same(w, key, off, len))
			found = w;
	}
	if (!found && unused && (unused->buffer = pt_buffers_get(s->buffers))) {
		found = unused;
		found->is_shared = key != NULL;
		if (key)
			found->key = *key;
		found->off = off;
		found->len = len;
		found->state = PT_SHARE_EMPTY;
	}
	if (found)
		found->refs++;
	pthread_mutex_unlock(&s->lock);
	return found;
}

void pt_share_put(struct pt_share *s, struct pt_share_window *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&s->lock);
	if (--w->refs == 0) {
		pt_buffers_put(s->buffers, w->buffer);
		w->buffer = NULL;
	}
	pthread_mutex_unlock(&s->lock);
}

bool pt_share_begin(struct pt_share *s, struct pt_share_window *w)
{
	bool mine;

	pthread_mutex_lock(&s->lock);
	while (w->state == PT_SHARE_READING)
		pthread_cond_wait(&s->cond, &s->lock);
	mine = w->state == PT_SHARE_EMPTY;
	if (mine)
		w->state = PT_SHARE_READING;
	else
		s->shared_bytes += w->len;
	pthread_mutex_unlock(&s->lock);
	return mine;
}

bool pt_share_is_reading(struct pt_share *s, struct pt_share_window *w)
{
	bool reading;

	pthread_mutex_lock(&s->lock);
	reading = w->state == PT_SHARE_READING;
	pthread_mutex_unlock(&s->lock);
	return reading;
}

void pt_share_end(struct pt_share *s, struct pt_share_window *w, bool all_read)
{
	pthread_mutex_lock(&s->lock);
	w->state = all_read ? PT_SHARE_READY : PT_SHARE_EMPTY;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

uint64_t pt_share_bytes(struct pt_share *s)
{
	uint64_t bytes;

	pthread_mutex_lock(&s->lock);
	bytes = s->shared_bytes;
	pthread_mutex_unlock(&s->lock);
	return bytes;
}

/* store/write_way.c - the rule of write_way.h. */
#include "store/write_way.h"

#include <string.h>

void pt_write_way_init(struct pt_write_way *w)
{
	memset(w, 0, sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
}

void pt_write_way_done(struct pt_write_way *w)
{
	pthread_mutex_destroy(&w->lock);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

bool pt_write_way_around(struct pt_write_way *w, uint64_t len)
{
	bool around;

	pthread_mutex_lock(&w->lock);
	around = len >= PT_WRITE_WAY_MIN && w->around;
	if (around)
		w->around = less(w->around, len);
	pthread_mutex_unlock(&w->lock);
	return around;
}

void pt_write_way_went_through(struct pt_write_way *w, uint64_t len, uint64_t ns)
{
	uint64_t dear;

	if (len < PT_WRITE_WAY_MIN)
		return;
	ns = pt_size_muldiv(ns, PT_MIB, len);          /* at most fourfold */
	pthread_mutex_lock(&w->lock);
	if (!w->best_ns || ns < w->best_ns)
		w->best_ns = ns;
	dear = pt_size_min(pt_size_max(2 * w->best_ns, PT_WRITE_WAY_DEAR_MIN), PT_WRITE_WAY_DEAR_MAX);
	w->through = less(w->through, len);
	if (!w->through)
		w->disk_ns = 0;
	if (ns > dear && ns > w->disk_ns) {
		w->around = PT_WRITE_WAY_AROUND;
		w->page_ns = ns;
		w->bytes = w->ns = 0;
	}
	pthread_mutex_unlock(&w->lock);
}

void pt_write_way_went_around(struct pt_write_way *w, uint64_t len, uint64_t ns)
{
	pthread_mutex_lock(&w->lock);
	w->bytes += len;
	w->ns += ns;
	if (w->bytes >= PT_WRITE_WAY_JUDGED) {
		ns = pt_size_muldiv(w->ns, PT_MIB, w->bytes);
		if (ns > w->page_ns) {
			w->around = 0;
			w->disk_ns = ns;
			w->through = PT_WRITE_WAY_THROUGH;
		}
		w->bytes = w->ns = 0;
	}
	pthread_mutex_unlock(&w->lock);
}

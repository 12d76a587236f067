/* cache/wait.c - waiting for files to be whole: whether they will be soon, by the rates of earlier ones, and whether memory for them is worth its time. */
#include "cache/cache_int.h"

#include <errno.h>

#include "base/io.h"

#define DEAR 2                          /* so many times what it takes to read is too much for memory to read it into; clearing pages takes less than reading does */
#define DEAR_SEEN (2 * PT_VCACHE_PIECE) /* bytes that tell; one piece may have met a busy moment */
#define RATE_MAX ((uint64_t)16 << 30)    /* bytes a second: no filling is faster */

/* Half of what is known is the last one's. */
void pt_vcache_rate_seen_locked(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns)
{
	double seen = ns > 0 ? (double)bytes * 1e9 / (double)ns : (double)RATE_MAX;
	uint64_t rate = seen < (double)RATE_MAX ? (uint64_t)seen + 1 : RATE_MAX;

	c->rate[work] = c->rate[work] ? c->rate[work] / 2 + rate / 2 + 1 : rate;
}

bool pt_vcache_is_dear_locked(const struct pt_vcache_file *f)
{
	return !f->whole && !f->kept && f->holds == 2 && f->memory_ns / DEAR > f->read_ns;
}

/* To go on would take longer than to read all of it from its source. */
static bool is_long_locked(const struct pt_vcache_file *f)
{
	return (double)(f->size - f->filled) * (double)(f->memory_ns + f->read_ns) > (double)f->size * (double)f->read_ns;
}

bool pt_vcache_soon(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns)
{
	uint64_t rate, *seen = &c->rate[work];

	pthread_mutex_lock(&c->lock);
	rate = *seen ? *seen : RATE_MAX;
	*seen += *seen / 16 + (*seen != 0);     /* a rate that was low once, or none at all, is tried again in the end */
	if (*seen > RATE_MAX)
		*seen = RATE_MAX;
	pthread_mutex_unlock(&c->lock);
	return (double)bytes * 1e9 <= (double)rate * (double)ns;
}

static int wait_for(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns, bool cheap)
{
	struct timespec until = pt_time_until(ns);
	bool dear = false;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!f->whole && !f->failed && rc == 0) {
		dear = cheap && f->filled >= DEAR_SEEN && pt_vcache_is_dear_locked(f) && is_long_locked(f);
		if (dear)
			break;
		rc = pthread_cond_timedwait(&c->cond, &c->lock, &until);
	}
	rc = f->whole ? 1 : f->failed ? -EAGAIN : dear ? -ENOBUFS : 0;
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int pt_vcache_file_wait(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns)
{
	return wait_for(c, f, ns, false);
}

int pt_vcache_file_wait_cheap(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns)
{
	return wait_for(c, f, ns, true);
}

void pt_vcache_file_slow(struct pt_vcache *c, enum pt_vcache_work work, uint64_t bytes, int64_t ns)
{
	pthread_mutex_lock(&c->lock);
	pt_vcache_rate_seen_locked(c, work, bytes, ns);
	pthread_mutex_unlock(&c->lock);
}

bool pt_vcache_file_dear(struct pt_vcache *c, struct pt_vcache_file *f)
{
	bool dear;

	pthread_mutex_lock(&c->lock);
	dear = pt_vcache_is_dear_locked(f);
	c->stats.dear += dear;
	pthread_mutex_unlock(&c->lock);
	return dear;
}

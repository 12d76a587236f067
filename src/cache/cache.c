/* cache/cache.c - the table of materialised files, what is evicted, and reading. fill.c fills them. */
#include "cache/cache_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/size.h"

#define IDLE_NS (INT64_C(60) * 1000000000)
#define REST_NS (INT64_C(5) * 1000000000)

int pt_vcache_create(uint64_t limit, struct pt_workers *workers, struct pt_vcache **ret_cache)
{
	struct pt_vcache *c = pt_calloc(1, sizeof(*c));
	pthread_condattr_t monotonic;

	if (!c)
		return pt_fail_nomem();
	limit &= ~(PT_MEMORY_HUGE - 1);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
	c->idle_ns = IDLE_NS;
	c->rest_ns = REST_NS;
	c->workers = workers;
	pt_vcache_reserve_init(c);
	pt_memory_open(&c->memory, limit);
	c->stats.limit = c->memory.kind == PT_MEMORY_NONE ? 0 : limit;
	*ret_cache = c;
	return 0;
}

void pt_vcache_idle(struct pt_vcache *c, struct pt_workers *workers)
{
	c->idle = workers;
}

const char *pt_vcache_memory(const struct pt_vcache *c)
{
	return pt_memory_name(&c->memory);
}

uint64_t pt_vcache_limit(const struct pt_vcache *c)
{
	return c->stats.limit;
}

bool pt_vcache_enabled(const struct pt_vcache *c)
{
	return c && c->stats.limit;
}

/* ---- the table ---- */

static struct pt_vcache_file **bucket_of(struct pt_vcache *c, const struct pt_vcache_key *key)
{
	return &c->bucket[pt_hash64(key, sizeof(*key)) % PT_VCACHE_BUCKETS];
}

struct pt_vcache_file *pt_vcache_find_locked(struct pt_vcache *c, const struct pt_vcache_key *key)
{
	struct pt_vcache_file *f;

	for (f = *bucket_of(c, key); f && memcmp(&f->key, key, sizeof(*key)) != 0; f = f->hash_next)
		;
	return f;
}

static void lru_remove_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	*(f->lru_prev ? &f->lru_prev->lru_next : &c->lru_first) = f->lru_next;
	*(f->lru_next ? &f->lru_next->lru_prev : &c->lru_last) = f->lru_prev;
	f->lru_prev = f->lru_next = NULL;
}

static void lru_add_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	f->lru_next = c->lru_first;
	*(c->lru_first ? &c->lru_first->lru_prev : &c->lru_last) = f;
	c->lru_first = f;
}

void pt_vcache_list_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	struct pt_vcache_file **b = bucket_of(c, &f->key);

	f->hash_next = *b;
	*b = f;
	lru_add_locked(c, f);
	f->listed = true;
	c->stats.used += f->room;
	c->stats.files += f->work == PT_VCACHE_FILL;
}

void pt_vcache_unlist_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	struct pt_vcache_file **p;

	if (!f->listed)
		return;
	for (p = bucket_of(c, &f->key); *p != f; p = &(*p)->hash_next)
		;
	*p = f->hash_next;
	lru_remove_locked(c, f);
	f->listed = false;
	c->stats.used -= f->room;
	c->stats.files -= f->work == PT_VCACHE_FILL;
}

void pt_vcache_file_free(struct pt_vcache_file *f)
{
	if (f->map)
		munmap(f->map, f->size);
	if (f->fd >= 0)
		close(f->fd);
	free(f->back);
	free(f);
}

void pt_vcache_files_free(struct pt_vcache_file *f)
{
	struct pt_vcache_file *next;

	for (; f; f = next) {
		next = f->hash_next;
		pt_vcache_file_free(f);
	}
}

void pt_vcache_free(struct pt_vcache *c)
{
	struct pt_vcache_file *f;

	if (!c)
		return;
	while ((f = c->lru_first)) {
		pt_vcache_unlist_locked(c, f);
		if (f->users)           /* what fillers left when their threads were ended */
			f->source.release(f->source.ctx);
		pt_vcache_file_free(f);
	}
	pt_vcache_reserve_done(c);
	pt_memory_close(&c->memory);
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void use_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	f ? c->stats.hits++ : c->stats.misses++;
	if (f)
		f->uses++;
}

void pt_vcache_use(struct pt_vcache *c, struct pt_vcache_file *f)
{
	if (!pt_vcache_enabled(c))
		return;
	pthread_mutex_lock(&c->lock);
	use_locked(c, f);
	pthread_mutex_unlock(&c->lock);
}

struct pt_vcache_file *pt_vcache_find(struct pt_vcache *c, const struct pt_vcache_key *key, bool use)
{
	struct pt_vcache_file *f;

	if (!pt_vcache_enabled(c))
		return NULL;
	pthread_mutex_lock(&c->lock);
	f = pt_vcache_find_locked(c, key);
	if (f && !f->whole)
		f = NULL;
	if (f) {
		f->holds++;
		f->used_ns = pt_time_boot_ns();
		lru_remove_locked(c, f);
		lru_add_locked(c, f);
	}
	if (use)
		use_locked(c, f);
	pthread_mutex_unlock(&c->lock);
	return f;
}

/* Out of the table, as far as nobody holds it. */
static bool superseded_drop_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	if (!f->superseded || f->holds || !f->listed)
		return false;
	pt_vcache_unlist_locked(c, f);
	c->stats.superseded++;
	return true;
}

/* Nobody but those who fill it holds it, and nobody wants the rest. */
static void unwanted_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	if (f->holds != 1 || !f->users || (f->kept && !f->superseded) || f->whole)
		return;
	f->given_up = true;
	pt_vcache_wake_locked(c, f);
}

bool pt_vcache_supersede_locked(struct pt_vcache *c, uint64_t subject, struct pt_vcache_file **evicted)
{
	struct pt_vcache_file *f, *next;
	bool any = false;

	for (f = subject ? c->lru_first : NULL; f; f = next) {
		next = f->lru_next;
		if (f->source.subject != subject)
			continue;
		any = f->superseded = true;
		unwanted_locked(c, f);
		if (superseded_drop_locked(c, f)) {
			f->hash_next = *evicted;
			*evicted = f;
		}
	}
	return any;
}

void pt_vcache_put(struct pt_vcache *c, struct pt_vcache_file *f)
{
	bool dead, reserve;

	if (!f)
		return;
	pthread_mutex_lock(&c->lock);
	f->holds--;
	if (!f->holds && f->work == PT_VCACHE_CHECK)
		pt_vcache_unlist_locked(c, f);
	superseded_drop_locked(c, f);
	dead = !f->holds && !f->listed;
	f->used_ns = pt_time_boot_ns();
	unwanted_locked(c, f);
	/* Who waited for it has read it: from now on memory for the next one is in nobody's way. */
	reserve = !f->holds && f->uses;
	if (reserve)
		pt_vcache_reserve_any_locked(c);
	reserve = reserve && pt_vcache_reserve_wanted_locked(c);
	pthread_mutex_unlock(&c->lock);
	if (dead)
		pt_vcache_file_free(f);
	if (reserve)
		pt_workers_add(c->idle, &c->reserver.work, false);
}

/* ---- room ---- */

/* With KEEP whatever nobody holds; with TRY what was read only once, at its first open, and what has not been used for some time. */
static bool evictable(const struct pt_vcache *c, const struct pt_vcache_file *f, enum pt_vcache_want want, int64_t now)
{
	if (f->holds || !f->whole)
		return false;
	return want == PT_VCACHE_KEEP || (!f->kept && f->uses <= 1) || f->used_ns + c->idle_ns <= now;
}

/* There would be room, also for `need` bytes in the memory itself, which has `have` free, if all that may be evicted were, and `gone` bytes are already. */
static bool possible_locked(struct pt_vcache *c, uint64_t room, uint64_t need, uint64_t have, uint64_t gone, int64_t now)
{
	uint64_t freed = 0;
	struct pt_vcache_file *f;

	for (f = c->lru_last; f; f = f->lru_prev)
		if (evictable(c, f, PT_VCACHE_TRY, now))
			freed += f->room;
	need -= pt_size_min(freed + gone, need);
	return c->stats.used - freed <= c->stats.limit - room && have >= need;
}

bool pt_vcache_room_locked(struct pt_vcache *c, uint64_t room, uint64_t ready, enum pt_vcache_want want, struct pt_vcache_file **evicted)
{
	struct pt_vcache_file *f, *before;
	int64_t now = pt_time_boot_ns();
	uint64_t need = room - ready + c->unfilled, have = pt_memory_free(&c->memory), freed;       /* freed: by what is evicted, unless it is mapped somewhere */

	if (room > c->stats.limit)
		return false;
	freed = pt_vcache_reserve_shrink_locked(c, room, need, have, evicted);
	if (want != PT_VCACHE_KEEP && !possible_locked(c, room, need, have, freed, now))
		return false;
	for (f = c->lru_last; f; f = before) {
		if (c->stats.used <= c->stats.limit - room && have >= need - pt_size_min(freed, need))
			break;
		before = f->lru_prev;
		if (!evictable(c, f, want, now))
			continue;
		pt_vcache_unlist_locked(c, f);
		c->stats.evictions++;
		freed += f->room;
		f->hash_next = *evicted;
		*evicted = f;
	}
	/* What a tmpfs does not have is an error later, and often has come free by then; what a control group does not have is the end. */
	return c->stats.used <= c->stats.limit - room && (!c->memory.budget.bounded || have >= need - pt_size_min(freed, need));
}

/* ---- reading ---- */

bool pt_vcache_file_whole(const struct pt_vcache_file *f)
{
	return atomic_load(&f->whole);
}

enum pt_vcache_work pt_vcache_file_work(const struct pt_vcache_file *f)
{
	return f->work;
}

int pt_vcache_file_fd(const struct pt_vcache_file *f)
{
	return f->fd;
}

uint64_t pt_vcache_progress(struct pt_vcache *c, const struct pt_vcache_key *key)
{
	struct pt_vcache_file *f;
	uint64_t filled;

	pthread_mutex_lock(&c->lock);
	f = pt_vcache_find_locked(c, key);
	filled = f ? f->filled : 0;
	pthread_mutex_unlock(&c->lock);
	return filled;
}

uint64_t pt_vcache_file_filled(struct pt_vcache *c, const struct pt_vcache_file *f)
{
	uint64_t filled;

	pthread_mutex_lock(&c->lock);
	filled = f->filled;
	pthread_mutex_unlock(&c->lock);
	return filled;
}

int pt_vcache_file_get(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len, const void **ret_data)
{
	uint64_t end;
	int rc = 0;

	if (!pt_size_add(off, len, &end) || end > f->size)
		return pt_fail(EINVAL, "a read beyond the end of a cached file");
	if (f->work == PT_VCACHE_CHECK)
		return -EAGAIN;
	if (!pt_vcache_file_whole(f) && len)
		rc = pt_vcache_fill_range(c, f, off, len);
	if (rc == 0)
		*ret_data = f->map + off;
	return rc;
}

void pt_vcache_stats(struct pt_vcache *c, struct pt_vcache_stats *ret_stats)
{
	if (!c) {
		memset(ret_stats, 0, sizeof(*ret_stats));
		return;
	}
	pthread_mutex_lock(&c->lock);
	*ret_stats = c->stats;
	ret_stats->reserve_ready = pt_vcache_reserve_ready_locked(c);
	pthread_mutex_unlock(&c->lock);
}

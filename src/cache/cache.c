/* cache/cache.c - the table of materialised files, their filling and their eviction.
 *
 * Invariants, under the lock: 1. used is the sum of `room` of all files in the table, and at most limit; 2. a file is in the table until it is evicted or
 * the last user of its source has left it failed; 3. one whose source has users is held by them together; 4. a piece is filled once: EMPTY, BUSY, DONE.
 * A piece's memory is allocated before it is written, so that a full tmpfs is an error here and no signal later. */
#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"

#define BUCKETS 256
#define FILLERS 4                       /* threads at most that fill one file */

enum piece_state { EMPTY, BUSY, DONE };

struct filler {
	struct pt_work work;            /* first: filling one more piece */
	struct pt_vcache_file *file;
};

struct pt_vcache_file {
	struct filler filler[FILLERS];
	struct pt_vcache *cache;
	struct pt_vcache_file *hash_next;
	struct pt_vcache_file *lru_prev, *lru_next;      /* files in the table; first: used last */
	struct pt_vcache_key key;
	struct pt_vcache_source source;
	uint64_t size, align, room;
	uint8_t *map;
	int fd;
	uint32_t holds;
	uint32_t users;                 /* of source: fillers queued or running, readers that fill */
	bool listed;                    /* in the table */
	bool failed;
	atomic_bool whole;
	uint64_t filled;                /* bytes */
	uint64_t piece_count, next;     /* next: where the next filler looks first */
	uint32_t *back;                 /* bytes by which each piece begins before its place; NULL: none does */
	uint8_t piece[];
};

struct pt_vcache {
	pthread_mutex_t lock;           /* everything below and in files, but for map, fd, size, which never change */
	pthread_cond_t cond;            /* a piece is done, or a filling has failed */
	struct pt_workers *workers;
	struct pt_memory memory;
	struct pt_vcache_file *bucket[BUCKETS];
	struct pt_vcache_file *lru_first, *lru_last;
	struct pt_vcache_stats stats;
	uint64_t unfilled;              /* bytes that filling files have still to take from the memory */
};

int pt_vcache_create(uint64_t limit, struct pt_workers *workers, struct pt_vcache **ret_cache)
{
	struct pt_vcache *c = pt_calloc(1, sizeof(*c));

	if (!c)
		return pt_fail_nomem();
	limit &= ~(PT_MEMORY_HUGE - 1);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->cond, NULL);
	c->workers = workers;
	pt_memory_open(&c->memory, limit);
	c->stats.limit = c->memory.kind == PT_MEMORY_NONE ? 0 : limit;
	*ret_cache = c;
	return 0;
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
	return &c->bucket[pt_hash64(key, sizeof(*key)) % BUCKETS];
}

static struct pt_vcache_file *find_locked(struct pt_vcache *c, const struct pt_vcache_key *key)
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

static void list_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	struct pt_vcache_file **b = bucket_of(c, &f->key);

	f->hash_next = *b;
	*b = f;
	lru_add_locked(c, f);
	f->listed = true;
	c->stats.used += f->room;
	c->stats.files++;
}

static void unlist_locked(struct pt_vcache *c, struct pt_vcache_file *f)
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
	c->stats.files--;
}

/* Maps of other processes keep the memory until they are gone. */
static void file_free(struct pt_vcache_file *f)
{
	if (f->map)
		munmap(f->map, f->size);
	if (f->fd >= 0)
		close(f->fd);
	free(f->back);
	free(f);
}

void pt_vcache_free(struct pt_vcache *c)
{
	struct pt_vcache_file *f;

	if (!c)
		return;
	while ((f = c->lru_first)) {
		unlist_locked(c, f);
		if (f->users)           /* what fillers left when their threads were ended */
			f->source.release(f->source.ctx);
		file_free(f);
	}
	pt_memory_close(&c->memory);
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

struct pt_vcache_file *pt_vcache_find(struct pt_vcache *c, const struct pt_vcache_key *key, bool use)
{
	struct pt_vcache_file *f;

	if (!pt_vcache_enabled(c))
		return NULL;
	pthread_mutex_lock(&c->lock);
	f = find_locked(c, key);
	if (f && !f->whole)
		f = NULL;
	if (f) {
		f->holds++;
		lru_remove_locked(c, f);
		lru_add_locked(c, f);
	}
	if (use)
		f ? c->stats.hits++ : c->stats.misses++;
	pthread_mutex_unlock(&c->lock);
	return f;
}

void pt_vcache_put(struct pt_vcache *c, struct pt_vcache_file *f)
{
	bool dead;

	if (!f)
		return;
	pthread_mutex_lock(&c->lock);
	dead = --f->holds == 0 && !f->listed;
	pthread_mutex_unlock(&c->lock);
	if (dead)
		file_free(f);
}

/* ---- room ---- */

/* Makes room for `room` more bytes; what is evicted is chained through hash_next, to be freed after unlocking. */
static bool room_locked(struct pt_vcache *c, uint64_t room, struct pt_vcache_file **evicted)
{
	struct pt_vcache_file *f, *before;
	uint64_t freed = 0;             /* by what is evicted, unless it is mapped somewhere */

	if (room > c->stats.limit)
		return false;
	for (f = c->lru_last; f; f = before) {
		if (c->stats.used <= c->stats.limit - room && pt_memory_free(&c->memory) >= room + c->unfilled - pt_size_min(freed, room + c->unfilled))
			break;
		before = f->lru_prev;
		if (f->holds || !f->whole)
			continue;
		unlist_locked(c, f);
		c->stats.evictions++;
		freed += f->room;
		f->hash_next = *evicted;
		*evicted = f;
	}
	return c->stats.used <= c->stats.limit - room;
}

static void free_evicted(struct pt_vcache_file *evicted)
{
	struct pt_vcache_file *f;

	while ((f = evicted)) {
		evicted = f->hash_next;
		file_free(f);
	}
}

/* ---- filling ---- */

static uint64_t piece_start(const struct pt_vcache_file *f, uint64_t piece)
{
	if (!piece)
		return 0;
	return piece == f->piece_count ? f->size : f->align + piece * PT_VCACHE_PIECE - (f->back ? f->back[piece] : 0);
}

static void piece_span(const struct pt_vcache_file *f, uint64_t piece, uint64_t *ret_off, uint64_t *ret_len)
{
	*ret_off = piece_start(f, piece);
	*ret_len = piece_start(f, piece + 1) - *ret_off;
}

static uint64_t piece_of(const struct pt_vcache_file *f, uint64_t off)
{
	uint64_t piece = off < f->align ? 0 : (off - f->align) / PT_VCACHE_PIECE;

	return piece + 1 < f->piece_count && off >= piece_start(f, piece + 1) ? piece + 1 : piece;
}

/* A piece that this thread, a user of the source, has marked BUSY. */
static void piece_fill(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t piece)
{
	uint64_t off, len;
	int64_t n = 0;
	bool good;

	piece_span(f, piece, &off, &len);
	good = fallocate(f->fd, 0, (off_t)off, (off_t)len) == 0;
	if (good) {
		n = f->source.read(f->source.ctx, f->map + off, len, off);
		good = n >= 0 && (uint64_t)n == len;
	}
	pthread_mutex_lock(&c->lock);
	f->piece[piece] = good ? DONE : EMPTY;
	if (good) {
		c->unfilled -= len;
		c->stats.filled_bytes += len;
		f->filled += len;
		if (f->filled == f->size) {
			atomic_store(&f->whole, true);
			c->stats.fills++;
			c->stats.filling--;
		}
	} else if (!f->failed) {
		f->failed = true;
		c->unfilled -= f->size - f->filled;
		c->stats.fills_failed++;
		c->stats.filling--;
	}
	pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
}

/* Marks a piece BUSY: the next EMPTY one. */
static bool piece_take_locked(struct pt_vcache_file *f, uint64_t *ret_piece)
{
	uint64_t i, p;

	for (i = 0, p = f->next; i < f->piece_count && !f->failed; i++, p++) {
		if (p >= f->piece_count)
			p = 0;
		if (f->piece[p] == EMPTY) {
			f->piece[p] = BUSY;
			f->next = p + 1;
			*ret_piece = p;
			return true;
		}
	}
	return false;
}

/* A user of the source leaves. The last one lets it go, and what the filling held. */
static void user_leave(struct pt_vcache *c, struct pt_vcache_file *f)
{
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --f->users == 0;
	if (last && f->failed)
		unlist_locked(c, f);
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	f->source.release(f->source.ctx);
	pt_vcache_put(c, f);
}

/* One piece a run, so that read-ahead and other files get their turn. */
static void fill_some(struct pt_work *work)
{
	struct pt_vcache_file *f = ((struct filler *)work)->file;
	struct pt_vcache *c = f->cache;
	uint64_t piece;
	bool taken;

	pthread_mutex_lock(&c->lock);
	taken = piece_take_locked(f, &piece);
	pthread_mutex_unlock(&c->lock);
	if (!taken) {                   /* others fill the last ones */
		user_leave(c, f);
		return;
	}
	piece_fill(c, f, piece);
	pt_workers_add(c->workers, work, false);
}

#define BACK_MAX ((uint64_t)1 << 20)     /* how far a piece may begin before its place */

/* Pieces begin where the source likes reads to end. */
static int pieces_cut(struct pt_vcache_file *f, const struct pt_vcache_source *source)
{
	uint64_t i, place, cut;

	if (!source->cut || f->piece_count < 2)
		return 0;
	f->back = pt_calloc(f->piece_count, sizeof(*f->back));
	if (!f->back)
		return pt_fail_nomem();
	for (i = 1; i < f->piece_count; i++) {
		place = f->align + i * PT_VCACHE_PIECE;
		cut = source->cut(source->ctx, place - BACK_MAX, BACK_MAX);
		if (cut < place && place - cut < BACK_MAX)
			f->back[i] = (uint32_t)(place - cut);
	}
	return 0;
}

static int file_new(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, const struct pt_vcache_source *source,
		    struct pt_vcache_file **ret_file)
{
	uint64_t count = (size - pt_size_min(align, size - 1) + PT_VCACHE_PIECE - 1) / PT_VCACHE_PIECE, i;
	struct pt_vcache_file *f;
	int rc;

	f = pt_calloc(1, sizeof(*f) + count);
	if (!f)
		return pt_fail_nomem();
	f->fd = -1;
	f->cache = c;
	f->key = *key;
	f->size = size;
	f->align = align;
	f->piece_count = count;
	for (i = 0; i < FILLERS; i++)
		f->filler[i] = (struct filler){ { .run = fill_some }, f };
	rc = pieces_cut(f, source);
	if (rc < 0)
		goto fail;
	f->fd = pt_memory_file(&c->memory, size);
	if (f->fd < 0) {
		rc = f->fd;
		goto fail;
	}
	f->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->map == MAP_FAILED) {
		f->map = NULL;
		rc = pt_fail_nomem();
		goto fail;
	}
	if (c->memory.kind == PT_MEMORY_MEMFD)
		madvise(f->map, size, MADV_HUGEPAGE);
	*ret_file = f;
	return 0;
fail:
	file_free(f);
	return rc;
}

int pt_vcache_fill(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, const struct pt_vcache_source *source,
		  struct pt_vcache_file **ret_file)
{
	struct pt_vcache_file *f, *fresh, *evicted = NULL;
	uint64_t room;
	uint32_t i, fillers;
	int rc;

	if (!pt_vcache_enabled(c) || !size)
		return -EOPNOTSUPP;
	if (!pt_size_align(size, PT_MEMORY_HUGE, &room) || room > c->stats.limit || align >= PT_VCACHE_PIECE || align >= size)
		return -ENOSPC;
	rc = file_new(c, key, size, align, source, &fresh);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&c->lock);
	f = find_locked(c, key);
	if (f && !f->failed) {
		f->holds++;
		rc = 1;
	} else if (f) {
		rc = -EAGAIN;           /* the last try has just failed */
	} else if (!room_locked(c, room, &evicted)) {
		c->stats.refused++;
		rc = -ENOSPC;
	} else {
		f = fresh;
		fresh = NULL;
		f->room = room;
		f->source = *source;
		fillers = pt_workers_count(c->workers);
		f->users = fillers < FILLERS ? fillers : FILLERS;
		f->holds = 2;           /* the caller's, and the users' */
		list_locked(c, f);
		c->unfilled += size;
		c->stats.filling++;
	}
	pthread_mutex_unlock(&c->lock);
	free_evicted(evicted);
	if (fresh)
		file_free(fresh);
	if (rc < 0)
		return rc;
	*ret_file = f;
	if (rc == 0)
		for (i = 0, fillers = f->users; i < fillers; i++)
			pt_workers_add(c->workers, &f->filler[i].work, false);
	return rc;
}

/* ---- reading ---- */

bool pt_vcache_file_whole(const struct pt_vcache_file *f)
{
	return atomic_load(&f->whole);
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
	f = find_locked(c, key);
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
	uint64_t end, piece;
	int rc = 0;

	if (!pt_size_add(off, len, &end) || end > f->size)
		return pt_fail(EINVAL, "a read beyond the end of a cached file");
	if (!pt_vcache_file_whole(f) && len) {
		pthread_mutex_lock(&c->lock);
		for (piece = piece_of(f, off); rc == 0 && piece <= piece_of(f, end - 1); piece++) {
			while (f->piece[piece] == BUSY)
				pthread_cond_wait(&c->cond, &c->lock);
			if (f->piece[piece] == DONE)
				continue;
			if (f->failed || !f->users) {
				rc = -EAGAIN;
				break;
			}
			f->piece[piece] = BUSY;
			f->next = piece + 1;    /* the fillers go on from here */
			f->users++;
			pthread_mutex_unlock(&c->lock);
			piece_fill(c, f, piece);
			user_leave(c, f);
			pthread_mutex_lock(&c->lock);
			rc = f->piece[piece] == DONE ? 0 : -EAGAIN;
		}
		pthread_mutex_unlock(&c->lock);
	}
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
	pthread_mutex_unlock(&c->lock);
}

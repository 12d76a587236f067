/* cache/fill.c - filling files in memory from their sources, piece by piece, by the workers and by readers who come first.
 *
 * A piece's memory is allocated before it is written, so that a full tmpfs is an error here and no signal later. */
#include "cache/cache_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#define RATE_MAX ((uint64_t)16 << 30)    /* bytes a second: no filling is faster */

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

/* Half of what is known is the last one's. */
static void rate_seen_locked(struct pt_vcache *c, uint64_t bytes, int64_t ns)
{
	double seen = ns > 0 ? (double)bytes * 1e9 / (double)ns : (double)RATE_MAX;
	uint64_t rate = seen < (double)RATE_MAX ? (uint64_t)seen + 1 : RATE_MAX;

	c->rate = c->rate ? c->rate / 2 + rate / 2 + 1 : rate;
}

/* A piece that this thread, a user of the source, has marked PT_PIECE_BUSY. */
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
	f->piece[piece] = good ? PT_PIECE_DONE : PT_PIECE_EMPTY;
	if (good) {
		c->unfilled -= f->failed ? 0 : len;     /* all that was left went when it failed */
		c->stats.filled_bytes += len;
		f->filled += len;
		if (f->filled == f->size) {
			atomic_store(&f->whole, true);
			c->stats.fills++;
			c->stats.filling--;
			rate_seen_locked(c, f->size, pt_time_boot_ns() - f->begun_ns);
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

/* Marks a piece PT_PIECE_BUSY: the next PT_PIECE_EMPTY one. */
static bool piece_take_locked(struct pt_vcache_file *f, uint64_t *ret_piece)
{
	uint64_t i, p;

	for (i = 0, p = f->next; i < f->piece_count && !f->failed && !f->given_up; i++, p++) {
		if (p >= f->piece_count)
			p = 0;
		if (f->piece[p] == PT_PIECE_EMPTY) {
			f->piece[p] = PT_PIECE_BUSY;
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
	if (last && f->given_up && !f->failed && !f->whole) {
		f->failed = true;
		c->unfilled -= f->size - f->filled;
		c->stats.given_up++;
		c->stats.filling--;
	}
	if (last && f->failed)
		pt_vcache_unlist_locked(c, f);
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	f->source.release(f->source.ctx);
	pt_vcache_put(c, f);
}

/* One piece a run, so that read-ahead and other files get their turn. */
static void fill_some(struct pt_work *work)
{
	struct pt_vcache_filler *filler = (struct pt_vcache_filler *)work;
	struct pt_vcache_file *f = filler->file;
	struct pt_vcache *c = f->cache;
	uint64_t piece;
	bool taken;

	pthread_mutex_lock(&c->lock);
	filler->busy = taken = piece_take_locked(f, &piece);
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
	for (i = 0; i < PT_VCACHE_FILLERS; i++)
		f->filler[i] = (struct pt_vcache_filler){ { .run = fill_some }, f, false };
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
	pt_vcache_file_free(f);
	return rc;
}

/* Those that have nothing to do become users; what is to be queued after unlocking, a bit each. */
static uint32_t fillers_start_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	uint32_t i, started = 0, count = pt_workers_count(c->workers);

	for (i = 0; i < PT_VCACHE_FILLERS && i < count; i++)
		if (!f->filler[i].busy) {
			f->filler[i].busy = true;
			f->users++;
			started |= 1u << i;
		}
	return started;
}

static void begin_locked(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t room, const struct pt_vcache_source *source)
{
	f->room = room;
	f->source = *source;
	f->holds = 2;                   /* the caller's, and the users' */
	f->begun_ns = f->used_ns = pt_time_boot_ns();
	pt_vcache_list_locked(c, f);
	c->unfilled += f->size;
	c->stats.filling++;
}

/* One that is there: held, and its filling goes on if it had been given up. */
static int join_locked(struct pt_vcache *c, struct pt_vcache_file *f, enum pt_vcache_want want, uint32_t *ret_started)
{
	if (f->failed)
		return -EAGAIN;         /* the last try has just failed */
	f->holds++;
	f->kept = f->kept || want == PT_VCACHE_KEEP;
	if (f->given_up && !f->whole)
		*ret_started = fillers_start_locked(c, f);
	f->given_up = false;
	return 1;
}

int pt_vcache_fill(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, enum pt_vcache_want want,
		   const struct pt_vcache_source *source, struct pt_vcache_file **ret_file)
{
	struct pt_vcache_file *f, *fresh = NULL, *evicted = NULL;
	uint32_t i, started = 0;
	uint64_t room;
	int rc;

	if (!pt_vcache_enabled(c) || !size)
		return -EOPNOTSUPP;
	if (!pt_size_align(size, PT_MEMORY_HUGE, &room) || room > c->stats.limit || align >= PT_VCACHE_PIECE || align >= size)
		return -ENOSPC;
	pthread_mutex_lock(&c->lock);
	f = pt_vcache_find_locked(c, key);
	if (!f) {                       /* made without the lock; another one may be there then */
		pthread_mutex_unlock(&c->lock);
		rc = file_new(c, key, size, align, source, &fresh);
		if (rc < 0)
			return rc;
		pthread_mutex_lock(&c->lock);
		f = pt_vcache_find_locked(c, key);
	}
	if (f) {
		rc = join_locked(c, f, want, &started);
	} else if (!pt_vcache_room_locked(c, room, want, &evicted)) {
		c->stats.refused++;
		rc = -ENOSPC;
	} else {
		f = fresh;
		fresh = NULL;
		begin_locked(c, f, room, source);
		f->kept = want == PT_VCACHE_KEEP;
		started = fillers_start_locked(c, f);
		rc = 0;
	}
	pthread_mutex_unlock(&c->lock);
	while (evicted) {
		struct pt_vcache_file *next = evicted->hash_next;

		pt_vcache_file_free(evicted);
		evicted = next;
	}
	if (fresh)
		pt_vcache_file_free(fresh);
	if (rc < 0)
		return rc;
	*ret_file = f;
	for (i = 0; i < PT_VCACHE_FILLERS; i++)
		if (started & 1u << i)
			pt_workers_add(c->workers, &f->filler[i].work, false);
	return rc;
}

int pt_vcache_fill_range(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len)
{
	uint64_t piece;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	for (piece = piece_of(f, off); rc == 0 && piece <= piece_of(f, off + len - 1); piece++) {
		while (f->piece[piece] == PT_PIECE_BUSY)
			pthread_cond_wait(&c->cond, &c->lock);
		if (f->piece[piece] == PT_PIECE_DONE)
			continue;
		if (f->failed || !f->users) {
			rc = -EAGAIN;
			break;
		}
		f->piece[piece] = PT_PIECE_BUSY;
		f->next = piece + 1;    /* the fillers go on from here */
		f->users++;
		pthread_mutex_unlock(&c->lock);
		piece_fill(c, f, piece);
		user_leave(c, f);
		pthread_mutex_lock(&c->lock);
		rc = f->piece[piece] == PT_PIECE_DONE ? 0 : -EAGAIN;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* ---- waiting ---- */

bool pt_vcache_soon(struct pt_vcache *c, uint64_t bytes, int64_t ns)
{
	uint64_t rate;

	pthread_mutex_lock(&c->lock);
	rate = c->rate ? c->rate : RATE_MAX;
	c->rate += c->rate / 16 + (c->rate != 0);       /* a rate that was low once, or none at all, is tried again in the end */
	if (c->rate > RATE_MAX)
		c->rate = RATE_MAX;
	pthread_mutex_unlock(&c->lock);
	return (double)bytes * 1e9 <= (double)rate * (double)ns;
}

/* Monotonic. */
static struct timespec until_of(int64_t ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ns / 1000000000 + (t.tv_nsec + ns % 1000000000) / 1000000000;
	t.tv_nsec = (t.tv_nsec + ns % 1000000000) % 1000000000;
	return t;
}

int pt_vcache_file_wait(struct pt_vcache *c, struct pt_vcache_file *f, int64_t ns)
{
	struct timespec until = until_of(ns);
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!f->whole && !f->failed && rc == 0)
		rc = pthread_cond_timedwait(&c->cond, &c->lock, &until);
	rc = f->whole ? 1 : f->failed ? -EAGAIN : 0;
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void pt_vcache_file_slow(struct pt_vcache *c, uint64_t bytes, int64_t ns)
{
	pthread_mutex_lock(&c->lock);
	rate_seen_locked(c, bytes, ns);
	pthread_mutex_unlock(&c->lock);
}

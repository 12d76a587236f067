/* cache/fill.c - filling files in memory from their sources, piece by piece, by the workers and by readers who come first.
 *
 * A piece's memory is allocated before it is written, so that a full tmpfs is an error here and no signal later. */
#include "cache/cache_int.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"


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

/* Bytes of these for which no memory was there when the file was made. */
static uint64_t fresh_of(const struct pt_vcache_file *f, uint64_t off, uint64_t len)
{
	return f->had < off + len ? pt_size_min(off + len - f->had, len) : 0;
}

/* ---- the account: what is only looked through takes no memory, and has counters of its own ---- */

static void began_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	if (f->work == PT_VCACHE_CHECK)
		return;
	f->unfilled = f->size - pt_size_min(f->had, f->size);
	c->unfilled += f->unfilled;
	c->stats.filling++;
}

static void gained_locked(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len)
{
	uint64_t fresh = fresh_of(f, off, len);

	f->filled += len;
	if (f->work == PT_VCACHE_CHECK) {
		c->stats.checked_bytes += len;
		return;
	}
	if (!f->failed) {               /* all that was left went then */
		f->unfilled -= fresh;
		c->unfilled -= fresh;
	}
	c->stats.filled_bytes += len;
	c->stats.reserve_filled_bytes += len - fresh;
}

static void whole_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	atomic_store(&f->whole, true);
	/* What is to disturb nobody tells nothing of how fast others are. */
	if (!c->idle || f->workers != c->idle)
		pt_vcache_rate_seen_locked(c, f->work, f->size, pt_time_boot_ns() - f->begun_ns);
	if (f->work == PT_VCACHE_CHECK) {
		c->stats.checks++;
		return;
	}
	c->stats.fills++;
	c->stats.filling--;
	if (f->replaces)
		pt_vcache_reserve_locked(c, f);
}

/* It will never be whole; *count is why. */
static void ended_locked(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t *count)
{
	f->failed = true;
	(*count)++;
	if (f->work == PT_VCACHE_CHECK)
		return;
	c->unfilled -= f->unfilled;
	f->unfilled = 0;
	c->stats.filling--;
}

/* ---- pieces ---- */

static bool piece_read(struct pt_vcache_file *f, uint64_t off, uint64_t len, int64_t *ret_memory_ns, int64_t *ret_read_ns)
{
	int64_t n, begin = pt_time_boot_ns();

	*ret_memory_ns = *ret_read_ns = 0;
	if (f->work == PT_VCACHE_CHECK)
		return f->source.check(f->source.ctx, len, off) == 0;
	if (pt_memory_take(&f->cache->memory, f->fd, f->map, off, len, fresh_of(f, off, len)) < 0)
		return false;
	*ret_memory_ns = pt_time_boot_ns() - begin;
	n = f->source.read(f->source.ctx, f->map + off, len, off);
	*ret_read_ns = pt_time_boot_ns() - begin - *ret_memory_ns;
	return n >= 0 && (uint64_t)n == len;
}

void pt_vcache_wake_locked(struct pt_vcache *c, struct pt_vcache_file *f)
{
	uint32_t i;

	for (i = 0; c->idle && i < PT_VCACHE_FILLERS; i++)
		if (pt_workers_cancel(c->idle, &f->filler[i].work))
			pt_workers_add(f->workers, &f->filler[i].work, false);
}

/* A piece that this thread, a user of the source, has marked PT_PIECE_BUSY. */
static void piece_fill(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t piece)
{
	int64_t memory_ns, read_ns;
	uint64_t off, len;
	bool good, last;

	piece_span(f, piece, &off, &len);
	good = piece_read(f, off, len, &memory_ns, &read_ns);
	pthread_mutex_lock(&c->lock);
	f->memory_ns += memory_ns;
	f->read_ns += read_ns;
	last = good && f->filled + len == f->size && !f->failed;
	if (last && f->source.finish) {         /* no other piece is under way */
		pthread_mutex_unlock(&c->lock);
		good = last = f->source.finish(f->source.ctx) == 0;
		pthread_mutex_lock(&c->lock);
	}
	f->piece[piece] = good ? PT_PIECE_DONE : PT_PIECE_EMPTY;
	if (good)
		gained_locked(c, f, off, len);
	else if (!f->failed)
		ended_locked(c, f, f->work == PT_VCACHE_CHECK ? &c->stats.checks_failed : &c->stats.fills_failed);
	if (last)
		whole_locked(c, f);
	if (f->whole || f->failed)
		pt_vcache_wake_locked(c, f);
	if (f->waiting || f->whole || f->failed || pt_vcache_is_dear_locked(f))   /* an open that waits for the whole file is not woken by each piece of it */
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
	uint64_t unwanted = 0;
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --f->users == 0;
	if (last && f->given_up && !f->failed && !f->whole)
		ended_locked(c, f, f->work == PT_VCACHE_CHECK ? &unwanted : &c->stats.given_up);
	if (last && f->failed)
		pt_vcache_unlist_locked(c, f);
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	f->source.release(f->source.ctx);
	pt_vcache_put(c, f);
}

/* When the next piece of a file may begin: who opens one reads or maps it now, and a copy is for those who come later. */
static int64_t rests_until_locked(const struct pt_vcache *c, const struct pt_vcache_file *f)
{
	int64_t longest = f->begun_ns + c->rest_ns;

	if (f->workers != c->idle || f->whole || f->failed || f->given_up)
		return 0;
	return c->quiet_ns < longest ? c->quiet_ns : longest;
}

/* One piece a run, so that read-ahead and other files get their turn. */
static void fill_some(struct pt_work *work)
{
	struct pt_vcache_filler *filler = (struct pt_vcache_filler *)work;
	struct pt_vcache_file *f = filler->file;
	struct pt_vcache *c = f->cache;
	struct pt_workers *workers;
	int64_t rest_ns;
	uint64_t piece;
	bool taken;

	pthread_mutex_lock(&c->lock);
	workers = f->workers;
	rest_ns = rests_until_locked(c, f);
	if (rest_ns > pt_time_boot_ns()) {
		c->stats.rests++;
		pt_workers_add_at(workers, work, rest_ns);      /* before whoever is to wake it has the lock */
		pthread_mutex_unlock(&c->lock);
		return;
	}
	filler->busy = taken = piece_take_locked(f, &piece);
	pthread_mutex_unlock(&c->lock);
	if (!taken) {                   /* others fill the last ones */
		user_leave(c, f);
		return;
	}
	piece_fill(c, f, piece);
	pt_workers_add(workers, work, false);
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

/* Memory for a new file: what is ready, if somebody waits for it, or what comes as it is filled. */
static int file_memory(struct pt_vcache *c, struct pt_vcache_file *f, bool waited)
{
	struct pt_vcache_file *ready;

	pthread_mutex_lock(&c->lock);
	ready = pt_vcache_reserve_take_locked(c, f->size, waited);
	pthread_mutex_unlock(&c->lock);
	if (ready && pt_memory_resize(ready->fd, &ready->map, ready->size, f->size) < 0) {
		pt_fail_clear();
		pt_vcache_file_free(ready);
		ready = NULL;
	}
	if (!ready)
		return pt_memory_map(&c->memory, f->size, &f->fd, &f->map);
	f->fd = ready->fd;
	f->map = ready->map;
	f->had = pt_size_min(ready->filled, f->size);
	free(ready);
	return 0;
}

static int file_new(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, enum pt_vcache_want want, const struct pt_vcache_source *source,
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
	f->work = source->check ? PT_VCACHE_CHECK : PT_VCACHE_FILL;
	rc = pieces_cut(f, source);
	if (rc == 0 && f->work == PT_VCACHE_FILL)
		rc = file_memory(c, f, want != PT_VCACHE_IDLE);
	if (rc < 0)
		goto fail;
	*ret_file = f;
	return 0;
fail:
	pt_vcache_file_free(f);
	return rc;
}

/* Those that have nothing to do become users; what is to be queued after unlocking, a bit each. */
static uint32_t fillers_start_locked(struct pt_vcache_file *f)
{
	uint32_t i, started = 0, count = pt_workers_count(f->workers);

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
	began_locked(c, f);
}

/* One that is there: held, and its filling goes on if it had been given up. */
static int join_locked(struct pt_vcache *c, struct pt_vcache_file *f, enum pt_vcache_want want, uint32_t *ret_started)
{
	bool hurry = false;

	if (f->failed)
		return -EAGAIN;         /* the last try has just failed */
	f->holds++;
	f->kept = f->kept || want != PT_VCACHE_TRY;
	if (want != PT_VCACHE_IDLE && f->workers != c->workers) {       /* from now on somebody waits for it */
		f->workers = c->workers;
		f->begun_ns = pt_time_boot_ns();
		hurry = true;
		pt_vcache_wake_locked(c, f);
	}
	if ((f->given_up || hurry) && !f->whole)
		*ret_started = fillers_start_locked(f);
	f->given_up = false;
	return 1;
}

int pt_vcache_fill(struct pt_vcache *c, const struct pt_vcache_key *key, uint64_t size, uint64_t align, enum pt_vcache_want want,
		   const struct pt_vcache_source *source, struct pt_vcache_file **ret_file)
{
	struct pt_vcache_file *f, *fresh = NULL, *evicted = NULL;
	struct pt_workers *workers = NULL;
	uint32_t i, started = 0;
	uint64_t room, had;
	int rc;

	if ((!pt_vcache_enabled(c) && !source->check) || !size)
		return -EOPNOTSUPP;
	if (!pt_size_align(source->check ? 0 : size, PT_MEMORY_HUGE, &room) || room > c->stats.limit || align >= PT_VCACHE_PIECE || align >= size)
		return -ENOSPC;
	pthread_mutex_lock(&c->lock);
	f = pt_vcache_find_locked(c, key);
	if (!f) {                       /* made without the lock; another one may be there then */
		pthread_mutex_unlock(&c->lock);
		rc = file_new(c, key, size, align, want, source, &fresh);
		if (rc < 0)
			return rc;
		pthread_mutex_lock(&c->lock);
		f = pt_vcache_find_locked(c, key);
	}
	had = !fresh ? 0 : fresh->had == size ? room : fresh->had & ~(PT_MEMORY_HUGE - 1);
	if (!f)
		fresh->replaces = pt_vcache_supersede_locked(c, source->subject, &evicted);
	if (f) {
		rc = join_locked(c, f, want, &started);
	} else if (room && !pt_vcache_room_locked(c, room, had, want, &evicted)) {
		c->stats.refused++;
		rc = -ENOSPC;
	} else {
		f = fresh;
		fresh = NULL;
		f->workers = want == PT_VCACHE_IDLE && c->idle ? c->idle : c->workers;
		begin_locked(c, f, room, source);
		f->kept = want != PT_VCACHE_TRY;
		started = fillers_start_locked(f);
		rc = 0;
	}
	workers = rc < 0 ? NULL : f->workers;
	pthread_mutex_unlock(&c->lock);
	pt_vcache_files_free(evicted);
	if (fresh)
		pt_vcache_file_free(fresh);
	if (rc < 0)
		return rc;
	*ret_file = f;
	for (i = 0; i < PT_VCACHE_FILLERS; i++)
		if (started & 1u << i)
			pt_workers_add(workers, &f->filler[i].work, false);
	return rc;
}

void pt_vcache_hush(struct pt_vcache *c, int64_t ns)
{
	int64_t until = pt_time_boot_ns() + ns;

	pthread_mutex_lock(&c->lock);
	if (c->quiet_ns < until)
		c->quiet_ns = until;
	pthread_mutex_unlock(&c->lock);
}

int pt_vcache_fill_range(struct pt_vcache *c, struct pt_vcache_file *f, uint64_t off, uint64_t len)
{
	uint64_t piece;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	for (piece = piece_of(f, off); rc == 0 && piece <= piece_of(f, off + len - 1); piece++) {
		f->waiting++;
		while (f->piece[piece] == PT_PIECE_BUSY)
			pthread_cond_wait(&c->cond, &c->lock);
		f->waiting--;
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

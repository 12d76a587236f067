/* tools/ptiod/window.c - pieces of memory that a client writes an upload to by RDMA. They are in the slab, which is memory outside the span that clients
 * read. On workers.
 *
 *     none -> open: the client may write -> landed: the window is closed, the bytes go to the store -> open or none
 *
 * Invariants:
 * 1. The daemon looks at a piece's bytes only when its window is closed, so that what it hashed is what it stores.
 * 2. A piece's memory goes back to the slab only when its window is closed; when closing fails it never does.
 * 3. When an upload is sealed, none of its windows is open.
 * 4. One connection has at most half of the slab, or one piece: others always find some. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/size.h"
#include "store/arena.h"
#include "tools/ptiod/server.h"

#define SLAB_MIN (2 * PT_MIB)           /* and what it is a multiple of: huge pages */

struct slab {
	uint8_t *memory;
	uint64_t bytes;
	pthread_mutex_t lock;                   /* the rest, and connections' slab_bytes; a connection's lock may be held */
	struct pt_arena *arena;
	uint64_t open;                          /* windows */
};

int slab_start(struct server *s, uint64_t span_bytes)
{
	struct slab *slab = pt_calloc(1, sizeof(*slab));
	int rc;

	if (!slab)
		return pt_fail_nomem();
	pthread_mutex_init(&slab->lock, NULL);
	slab->bytes = pt_size_max(span_bytes / 4 / SLAB_MIN * SLAB_MIN, SLAB_MIN);
	rc = pt_arena_create(slab->bytes, &slab->arena);
	s->slab = slab;
	if (rc == 0 && !(slab->memory = span_memory(slab->bytes)))
		rc = pt_fail_nomem();
	if (rc < 0)
		slab_stop(s);
	return rc;
}

void slab_stop(struct server *s)
{
	struct slab *slab = s->slab;

	if (!slab)
		return;
	if (slab->memory)
		munmap(slab->memory, slab->bytes);
	pt_arena_free(slab->arena);
	pthread_mutex_destroy(&slab->lock);
	free(slab);
	s->slab = NULL;
}

void slab_metrics(struct server *s, uint64_t *ret_bytes, uint64_t *ret_free, uint64_t *ret_open)
{
	struct slab *slab = s->slab;

	pthread_mutex_lock(&slab->lock);
	*ret_bytes = slab->bytes;
	*ret_free = pt_arena_bytes_free(slab->arena);
	*ret_open = slab->open;
	pthread_mutex_unlock(&slab->lock);
}

static void count_open(struct slab *slab, int64_t n)
{
	pthread_mutex_lock(&slab->lock);
	slab->open += (uint64_t)n;
	pthread_mutex_unlock(&slab->lock);
}

/* ---- one piece; it is this job's ---- */

static uint8_t *bytes_of(struct server *s, const struct piece *p)
{
	return s->slab->memory + pt_arena_off(p->memory);
}

static int piece_open(struct server *s, struct conn *c, struct piece *p, uint64_t bytes)
{
	int rc = 0;

	if (!p->memory) {
		pthread_mutex_lock(&s->slab->lock);
		if (c->slab_bytes && c->slab_bytes + bytes > s->slab->bytes / 2)
			rc = pt_fail(ENOSPC, "this client's uploads have their share of the daemon's memory for them");
		else
			rc = pt_arena_alloc(s->slab->arena, bytes, &p->memory);
		if (rc == 0)
			c->slab_bytes += bytes;
		pthread_mutex_unlock(&s->slab->lock);
		p->bytes = bytes;
	}
	if (rc == 0)
		rc = pt_rdma_server_open(span_rdma(s), c->rdma_token, bytes_of(s, p), p->bytes, &p->window);
	if (rc == 0)
		count_open(s->slab, 1);
	return rc;
}

static int piece_close(struct server *s, struct piece *p)
{
	int rc;

	if (!p->window.region)
		return 0;
	rc = pt_rdma_server_close(&p->window);
	count_open(s->slab, -1);
	if (rc < 0) {
		pt_log(PT_LOG_ERROR, "%s; %llu bytes stay unused", pt_fail_sentence(), (unsigned long long)p->bytes);
		p->memory = NULL;
	}
	return rc;
}

static void piece_free(struct server *s, struct conn *c, struct piece *p)
{
	if (p->memory) {
		pthread_mutex_lock(&s->slab->lock);
		pt_arena_release(s->slab->arena, p->memory);
		c->slab_bytes -= p->bytes;
		pthread_mutex_unlock(&s->slab->lock);
	}
	p->memory = NULL;
}

/* ---- the pieces of an upload ---- */

uint32_t windows_max(const struct server *s)
{
	return s->slab ? UPLOAD_PIECES : 0;
}

/* What each of an upload's pieces holds, and how many it can use: never more than the bytes that are still to come. */
static uint64_t piece_bytes(const struct upload *u)
{
	uint64_t bytes = PT_WIRE_BODY_MAX;

	if (u->size_hint && u->size_hint < bytes && !pt_size_align(u->size_hint, PT_ARENA_ALIGN, &bytes))
		bytes = PT_WIRE_BODY_MAX;
	return bytes;
}

static uint64_t pieces_wanted(const struct upload *u)
{
	uint64_t bytes = piece_bytes(u), left = u->size_hint > u->landed ? u->size_hint - u->landed : 0;

	return u->size_hint ? left / bytes + (left % bytes != 0) : UPLOAD_PIECES;
}

struct answer {
	Ptio__Wire__Pieces pieces;
	uint32_t piece[UPLOAD_PIECES], key[UPLOAD_PIECES];
	uint64_t addr[UPLOAD_PIECES], bytes[UPLOAD_PIECES];
	size_t n;
};

static void answer_add(struct answer *a, uint32_t number, const struct piece *p)
{
	a->piece[a->n] = number;
	a->key[a->n] = p->window.key;
	a->addr[a->n] = p->window.addr;
	a->bytes[a->n++] = p->bytes;
}

static void answer_send(struct answer *a, struct job *job)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;

	ptio__wire__pieces__init(&a->pieces);
	a->pieces.n_piece = a->pieces.n_key = a->pieces.n_addr = a->pieces.n_bytes = a->n;
	a->pieces.piece = a->piece;
	a->pieces.key = a->key;
	a->pieces.addr = a->addr;
	a->pieces.bytes = a->bytes;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_PIECES;
	reply.pieces = &a->pieces;
	reply_pack(job, &reply, 0);
}

/* From one state to another, for this job alone from there on. */
static bool piece_take(struct conn *c, struct upload *u, uint32_t number, enum piece_state from)
{
	bool can;

	if (number >= UPLOAD_PIECES)
		return false;
	pthread_mutex_lock(&c->lock);
	can = u->pieces[number].state == from;
	if (can)
		u->pieces[number].state = PIECE_BUSY;
	pthread_mutex_unlock(&c->lock);
	return can;
}

static void piece_put(struct conn *c, struct upload *u, uint32_t number, enum piece_state to)
{
	pthread_mutex_lock(&c->lock);
	u->pieces[number].state = to;
	pthread_mutex_unlock(&c->lock);
}

void window_open(struct server *s, struct job *job)
{
	const Ptio__Wire__Window *q = job->request->window;
	struct conn *c = job->conn;
	struct answer a = { .n = 0 };
	uint64_t wanted, bytes;
	struct upload *u;
	int rc = s->slab ? 0 : pt_fail(EOPNOTSUPP, "the daemon does not serve by RDMA");

	if (rc == 0)
		rc = upload_hold(c, q->upload, &u);
	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	pthread_mutex_lock(&c->lock);
	wanted = pt_size_min(q->pieces, pieces_wanted(u));
	bytes = piece_bytes(u);
	pthread_mutex_unlock(&c->lock);
	for (uint32_t i = 0; i < UPLOAD_PIECES && a.n < wanted; i++) {
		if (!piece_take(c, u, i, PIECE_NONE))
			continue;
		rc = piece_open(s, c, &u->pieces[i], bytes);
		if (rc == 0)
			answer_add(&a, i, &u->pieces[i]);
		else
			piece_free(s, c, &u->pieces[i]);
		piece_put(c, u, i, rc == 0 ? PIECE_OPEN : PIECE_NONE);
		if (rc < 0)
			break;
	}
	upload_release(c, u);
	if (a.n || rc == 0)
		answer_send(&a, job);
	else
		reply_error(job, rc);
}

void window_landed(struct server *s, struct job *job)
{
	const Ptio__Wire__Landed *q = job->request->landed;
	struct conn *c = job->conn;
	struct answer a = { .n = 0 };
	uint64_t others = 0;
	struct upload *u;
	struct piece *p;
	bool more;
	int rc = upload_hold(c, q->upload, &u);

	if (rc == 0 && !piece_take(c, u, q->piece, PIECE_OPEN)) {
		upload_release(c, u);
		rc = pt_fail(EINVAL, "the client wrote to a piece of memory that it was not given");
	}
	if (rc < 0) {
		reply_error(job, rc);
		return;
	}
	p = &u->pieces[q->piece];
	rc = piece_close(s, p);
	if (rc == 0 && q->len > p->bytes)
		rc = pt_fail(EINVAL, "the client wrote beyond the end of a piece of memory");
	else if (rc == 0 && pt_hash64(bytes_of(s, p), q->len) != q->xxh3)
		rc = pt_fail(EIO, "bytes of an upload were damaged on their way to the daemon; write the file again");
	if (rc == 0)
		rc = pt_data_write(&s->store->data, u->blob, bytes_of(s, p), q->len, q->off);
	pthread_mutex_lock(&c->lock);
	u->landed += rc == 0 ? q->len : 0;
	for (uint32_t i = 0; i < UPLOAD_PIECES; i++)
		others += i != q->piece && u->pieces[i].state != PIECE_NONE;
	more = rc == 0 && pieces_wanted(u) > others;
	pthread_mutex_unlock(&c->lock);
	if (rc == 0) {
		count(&s->counters.written_bytes, q->len);
		count(&s->counters.landed_bytes, q->len);
	}
	/* Without another window the client goes on with what it has, or by messages. */
	if (more && piece_open(s, c, p, p->bytes) == 0)
		answer_add(&a, q->piece, p);
	else
		piece_free(s, c, p);
	piece_put(c, u, q->piece, a.n ? PIECE_OPEN : PIECE_NONE);
	upload_release(c, u);
	if (rc < 0)
		reply_error(job, rc);
	else
		answer_send(&a, job);
}

int windows_close(struct server *s, struct conn *c, struct upload *u)
{
	int rc = 0;

	for (uint32_t i = 0; s->slab && i < UPLOAD_PIECES; i++) {
		struct piece *p = &u->pieces[i];
		int one = piece_close(s, p);

		piece_free(s, c, p);
		p->state = PIECE_NONE;
		rc = rc ? rc : one;
	}
	return rc;
}

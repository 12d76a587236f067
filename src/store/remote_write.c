/* store/remote_write.c - uploads to a daemon: by RDMA into windows that it gives each upload, else by messages.
 *
 * A write by RDMA copies its bytes into a slot of registered memory and ends. Behind it the slot's bytes go into a piece of the daemon's memory, a message
 * says that they landed, and its answer gives the piece anew. So an upload has a few pieces on their way, and waits when it has none left. What a piece
 * came to is known later: its failure is that of the next write, or of the seal.
 *
 *     slot:  free -> on its way by RDMA -> said to have landed (or sent as a message, if RDMA failed) -> free
 *     piece: none -> open -> busy -> none, and open when the daemon gives it anew
 *
 * Invariants:
 * 1. `busy` of an upload is the number of its slots on their way; the upload is there until it is 0, and sealed only then.
 * 2. A slot's bytes stay as they are while it is on its way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/size.h"
#include "store/remote_int.h"

#define PIECES 4u                               /* that are asked for */
#define SLOTS 16u
#define SLOT_BYTES PT_WIRE_BODY_MAX
#define RDMA_MIN ((uint64_t)64 << 10)           /* shorter writes are as quick by message */
#define ASK_AGAIN ((uint64_t)4 << 20)           /* bytes that go by message before windows are asked for again */

struct piece {
	enum { NONE, OPEN, BUSY } state;
	uint64_t addr, bytes;
	uint32_t key;
};

struct upload {
	struct pt_remote *remote;
	uint64_t id;                            /* at the daemon */
	/* Under the stage's lock, where there is one. */
	uint64_t by_message, ask_at;            /* bytes that went so; when to ask for windows, by that count */
	uint64_t connection;                    /* of the session that they were given on */
	struct piece pieces[PT_WIRE_PIECES_MAX];
	uint32_t busy;
	int rc;                                 /* the first failure of what was on its way */
	char sentence[512];
	bool hashed;                            /* all of it, by who writes */
	bool sealing;                           /* when busy is 0 */
	uint64_t seal_bytes;
	struct pt_done *seal_done;
};

struct slot {
	struct pt_remote_put put;               /* first */
	struct slot *next_free;
	struct upload *upload;
	uint32_t piece;
	uint64_t off, xxh3;
	uint8_t *bytes;
};

struct pt_remote_stage {
	struct pt_remote *remote;
	uint8_t *memory;
	bool registered;
	pthread_mutex_t lock;                   /* all below, and the uploads */
	pthread_cond_t changed;
	struct slot *free;
	struct slot slots[SLOTS];
};

int pt_remote_stage_create(struct pt_remote *r, struct pt_remote_stage **ret_stage)
{
	struct pt_remote_stage *st = pt_calloc(1, sizeof(*st));
	int rc = 0;

	if (!st)
		return pt_fail_nomem();
	st->remote = r;
	pthread_mutex_init(&st->lock, NULL);
	pthread_cond_init(&st->changed, NULL);
	st->memory = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (st->memory == MAP_FAILED) {
		st->memory = NULL;
		rc = pt_fail_nomem();
	} else {
		madvise(st->memory, SLOTS * SLOT_BYTES, MADV_HUGEPAGE);         /* a wish */
	}
	for (uint32_t i = 0; rc == 0 && i < SLOTS; i++) {
		st->slots[i].bytes = st->memory + i * SLOT_BYTES;
		st->slots[i].next_free = st->free;
		st->free = &st->slots[i];
	}
	if (rc < 0) {
		pt_remote_stage_free(st);
		return rc;
	}
	*ret_stage = st;
	return 0;
}

void pt_remote_stage_free(struct pt_remote_stage *st)
{
	if (!st)
		return;
	if (st->memory)
		munmap(st->memory, SLOTS * SLOT_BYTES);
	pthread_cond_destroy(&st->changed);
	pthread_mutex_destroy(&st->lock);
	free(st);
}

/* ---- messages ---- */

static int create_end(struct pt_remote_op *op, int rc)
{
	if (rc < 0)
		free(op->ret_b);
	else
		*(void **)op->ret_a = op->ret_b;
	return rc;
}

void pt_remote_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Create create = PTIO__WIRE__CREATE__INIT;
	uint8_t blob[PT_WIRE_BLOB];
	struct pt_remote *r = h;
	struct upload *u = pt_calloc(1, sizeof(*u));
	struct pt_remote_op *op = u ? pt_remote_op_get(r, done) : NULL;

	if (!op) {
		free(u);
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	u->remote = r;
	pthread_mutex_lock(&r->lock);
	u->id = ++r->next_upload;
	pthread_mutex_unlock(&r->lock);
	op->ret_a = ret_blob;
	op->ret_b = u;
	op->end = create_end;
	op->call.flags = PT_NET_RETRY;
	pt_wire_blob_put(blob, (uint8_t)ref->kind, &ref->id);
	create.upload = u->id;
	create.blob = (ProtobufCBinaryData){ sizeof(blob), blob };
	create.size_hint = size_hint;
	q.op_case = PTIO__WIRE__REQUEST__OP_CREATE;
	q.create = &create;
	pt_remote_send(op, &q);
}

static void write_send(struct pt_remote_op *op, uint64_t upload, const uint8_t *buf, uint64_t len, uint64_t off)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Write write = PTIO__WIRE__WRITE__INIT;

	op->call.body = buf;
	op->call.body_len = len;
	write.upload = upload;
	write.off = off;
	write.xxh3 = pt_hash64(buf, len);
	q.op_case = PTIO__WIRE__REQUEST__OP_WRITE;
	q.write = &write;
	pt_remote_send(op, &q);
}

static void write_by_messages(struct pt_remote *r, uint64_t id, const uint8_t *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	struct pt_remote_op *lead = pt_remote_op_get(r, done), *op;
	uint64_t max = r->session.body_max, at = 0;

	if (!lead) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	for (; len - at > max; at += max) {
		op = pt_remote_op_get(r, NULL);
		if (!op) {
			pt_remote_fail(lead, pt_fail_nomem());
			return;
		}
		op->lead = lead;
		pthread_mutex_lock(&r->lock);
		lead->left++;
		pthread_mutex_unlock(&r->lock);
		write_send(op, id, buf + at, max, off + at);
	}
	write_send(lead, id, buf + at, len - at, off + at);
}

/* ---- the end ---- */

static void seal_send(struct upload *u, uint64_t bytes, struct pt_done *done)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Seal seal = PTIO__WIRE__SEAL__INIT;
	struct pt_remote_op *op = pt_remote_op_get(u->remote, done);

	seal.upload = u->id;
	seal.bytes = bytes;
	seal.hashed = u->hashed;
	free(u);
	if (!op) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	q.op_case = PTIO__WIRE__REQUEST__OP_SEAL;
	q.seal = &seal;
	pt_remote_send(op, &q);
}

static void abort_send(struct upload *u)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Abort abort_message = PTIO__WIRE__ABORT__INIT;
	struct pt_remote_op *op = pt_remote_op_get(u->remote, NULL);

	abort_message.upload = u->id;
	free(u);
	/* Without memory the upload ends with the connection. */
	if (!op)
		return;
	q.op_case = PTIO__WIRE__REQUEST__OP_ABORT;
	q.abort = &abort_message;
	pt_remote_send(op, &q);
}

/* Nothing of it is on its way. */
static void seal_now(struct upload *u)
{
	struct pt_done *done = u->seal_done;
	int rc;

	if (!u->rc) {
		seal_send(u, u->seal_bytes, done);
		return;
	}
	rc = pt_fail(-u->rc, "%s", u->sentence);
	abort_send(u);
	pt_done_call(done, pt_fail_negative(rc));
}

void pt_remote_hashed(void *h, void *blob)
{
	struct upload *u = blob;

	(void)h;
	u->hashed = true;
}

void pt_remote_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done)
{
	struct pt_remote_stage *st = ((struct pt_remote *)h)->stage;
	struct upload *u = blob;
	bool idle = true;

	u->seal_bytes = bytes;
	u->seal_done = done;
	if (st) {
		pthread_mutex_lock(&st->lock);
		u->sealing = true;
		idle = u->busy == 0;
		pthread_mutex_unlock(&st->lock);
	}
	if (idle)
		seal_now(u);
}

/* Waits for what is on its way, so that what is created afterwards comes after the abort. */
void pt_remote_abort(void *h, void *blob)
{
	struct pt_remote_stage *st = ((struct pt_remote *)h)->stage;
	struct upload *u = blob;

	if (st) {
		pthread_mutex_lock(&st->lock);
		while (u->busy)
			pthread_cond_wait(&st->changed, &st->lock);
		pthread_mutex_unlock(&st->lock);
	}
	abort_send(u);
}

/* ---- what is on its way by RDMA ---- */

/* The slot is free, and its upload has one less on its way. */
static void slot_end(struct slot *s, int rc)
{
	struct upload *u = s->upload;
	struct pt_remote_stage *st = u->remote->stage;
	bool end;

	pthread_mutex_lock(&st->lock);
	if (rc < 0 && !u->rc) {
		u->rc = rc;
		snprintf(u->sentence, sizeof(u->sentence), "%.511s", pt_fail_sentence());
	}
	u->busy--;
	end = u->busy == 0 && u->sealing;
	s->next_free = st->free;
	st->free = s;
	pthread_cond_broadcast(&st->changed);
	pthread_mutex_unlock(&st->lock);
	if (end)
		seal_now(u);
}

static int slot_op_end(struct pt_remote_op *op, int rc)
{
	slot_end(op->ret_a, rc);
	return rc;
}

/* Pieces that the daemon gives, anew or for the first time. */
static int take_pieces(struct upload *u, const Ptio__Wire__Reply *reply)
{
	struct pt_remote_stage *st = u->remote->stage;
	const Ptio__Wire__Pieces *p = reply->pieces;

	if (reply->result_case != PTIO__WIRE__REPLY__RESULT_PIECES)
		return pt_remote_reply_bad();
	pthread_mutex_lock(&st->lock);
	for (size_t i = 0; i < p->n_piece; i++)
		u->pieces[p->piece[i]] = (struct piece){ OPEN, p->addr[i], p->bytes[i], p->key[i] };
	pthread_mutex_unlock(&st->lock);
	return 0;
}

static int landed_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	const struct slot *s = ((struct pt_remote_op *)call)->ret_a;

	return take_pieces(s->upload, reply);
}

static void put_done(struct pt_remote_put *put, int rc)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Landed landed = PTIO__WIRE__LANDED__INIT;
	struct slot *s = (struct slot *)put;
	struct upload *u = s->upload;
	struct pt_remote_op *op = pt_remote_op_get(u->remote, NULL);

	/* The piece is the daemon's again. */
	pthread_mutex_lock(&u->remote->stage->lock);
	u->pieces[s->piece].state = NONE;
	pthread_mutex_unlock(&u->remote->stage->lock);
	if (!op) {
		slot_end(s, pt_fail_nomem());
		return;
	}
	op->ret_a = s;
	op->end = slot_op_end;
	if (rc < 0) {
		write_send(op, u->id, s->bytes, put->len, s->off);
		return;
	}
	op->call.reply = landed_reply;
	landed.upload = u->id;
	landed.piece = s->piece;
	landed.off = s->off;
	landed.len = put->len;
	landed.xxh3 = s->xxh3;
	q.op_case = PTIO__WIRE__REQUEST__OP_LANDED;
	q.landed = &landed;
	pt_remote_send(op, &q);
}

/* ---- writes ---- */

static int window_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	return take_pieces(((struct pt_remote_op *)call)->ret_a, reply);
}

/* For windows. Without them an upload goes by messages, which also say what is wrong. */
static void ask(struct upload *u)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Window window = PTIO__WIRE__WINDOW__INIT;
	struct pt_net_session session;
	struct pt_remote_op *op;
	struct pt_wait w;

	pt_net_session(u->remote->client, &session);
	if (!session.pieces_max)
		return;
	op = pt_remote_op_wait(u->remote, &w);
	if (!op)
		return;
	u->connection = session.connection;
	op->ret_a = u;
	op->call.reply = window_reply;
	window.upload = u->id;
	window.pieces = session.pieces_max < PIECES ? session.pieces_max : PIECES;
	q.op_case = PTIO__WIRE__REQUEST__OP_WINDOW;
	q.window = &window;
	pt_remote_send(op, &q);
	(void)pt_wait_finish(&w);
}

static struct piece *open_piece_locked(struct upload *u)
{
	for (uint32_t i = 0; i < PT_WIRE_PIECES_MAX; i++)
		if (u->pieces[i].state == OPEN)
			return &u->pieces[i];
	return NULL;
}

/* A piece and a slot, when there are. 1: the upload has no pieces left, and none on their way. */
static int take_locked(struct pt_remote_stage *st, struct upload *u, struct slot **ret_slot)
{
	struct piece *piece;

	for (;;) {
		if (u->rc)
			return pt_fail(-u->rc, "%s", u->sentence);
		piece = open_piece_locked(u);
		if (!piece && !u->busy)
			return 1;
		if (piece && st->free)
			break;
		pthread_cond_wait(&st->changed, &st->lock);
	}
	*ret_slot = st->free;
	st->free = st->free->next_free;
	u->busy++;
	piece->state = BUSY;
	**ret_slot = (struct slot){ .put = { .addr = piece->addr, .len = piece->bytes, .key = piece->key, .connection = u->connection, .done = put_done,
					     .buf = (*ret_slot)->bytes },
				    .upload = u, .piece = (uint32_t)(piece - u->pieces), .bytes = (*ret_slot)->bytes };
	return 0;
}

/* As much as goes by RDMA. 0 or -errno; what is left of the bytes goes by message. */
static int write_by_rdma(struct pt_remote_stage *st, struct upload *u, const uint8_t **buf, uint64_t *len, uint64_t *off)
{
	struct slot *s = NULL;
	bool asks, reg;
	int rc = 0;

	pthread_mutex_lock(&st->lock);
	if (u->rc)
		rc = pt_fail(-u->rc, "%s", u->sentence);
	asks = rc == 0 && *len >= RDMA_MIN && u->by_message >= u->ask_at && !u->busy && !open_piece_locked(u);
	if (asks)
		u->ask_at = u->by_message + ASK_AGAIN;
	reg = asks && !st->registered;
	st->registered = st->registered || reg;
	pthread_mutex_unlock(&st->lock);
	if (reg)
		(void)pt_remote_rdma_register(st->remote->rdma, st->memory, SLOTS * SLOT_BYTES);
	if (asks)
		ask(u);
	while (rc == 0 && *len >= RDMA_MIN) {
		pthread_mutex_lock(&st->lock);
		rc = take_locked(st, u, &s);
		pthread_mutex_unlock(&st->lock);
		if (rc)
			break;
		s->put.len = pt_size_min(*len, pt_size_min(s->put.len, SLOT_BYTES));
		s->off = *off;
		memcpy(s->bytes, *buf, s->put.len);
		s->xxh3 = pt_hash64(s->bytes, s->put.len);
		*buf += s->put.len;
		*off += s->put.len;
		*len -= s->put.len;
		pt_remote_rdma_put(st->remote->rdma, &s->put);
	}
	pthread_mutex_lock(&st->lock);
	u->by_message += rc < 0 ? 0 : *len;
	pthread_mutex_unlock(&st->lock);
	return rc < 0 ? rc : 0;
}

void pt_remote_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done)
{
	const uint8_t *bytes = buf;
	struct pt_remote *r = h;
	struct upload *u = blob;
	int rc = 0;

	if (r->stage)
		rc = write_by_rdma(r->stage, u, &bytes, &len, &off);
	if (rc < 0 || !len)
		pt_done_call(done, rc);
	else
		write_by_messages(r, u->id, bytes, len, off, done);
}

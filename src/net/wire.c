/* net/wire.c - frame headers, the arena of decoded messages, and what is allowed in a message. */
#include "net/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"

#define BLOCK_BYTES 4080
#define ALIGN 16
#define OPS_EXTRA (PT_WIRE_OPS_MAX * (uint64_t)224)     /* a decoded operation, its key, and what decoding notes of it */

static const uint8_t magic[4] = { 'P', 'T', 'I', 'O' };

void pt_wire_header_encode(const struct pt_wire_header *h, uint8_t ret_bytes[PT_WIRE_HEADER])
{
	memcpy(ret_bytes, magic, sizeof(magic));
	pt_put_le32(ret_bytes + 4, h->message_len);
	pt_put_le64(ret_bytes + 8, h->body_len);
}

int pt_wire_header_decode(const uint8_t bytes[PT_WIRE_HEADER], uint32_t message_max, struct pt_wire_header *ret_h)
{
	struct pt_wire_header h;

	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return pt_fail(EPROTO, "the peer does not speak ptio's protocol (or one side wants TLS and the other does not)");
	h.message_len = pt_get_le32(bytes + 4);
	h.body_len = pt_get_le64(bytes + 8);
	if (h.message_len > message_max || h.body_len > PT_WIRE_BODY_MAX)
		return pt_fail(EPROTO, "the peer sent a message of %u and %llu bytes, which is more than the protocol allows", h.message_len,
			       (unsigned long long)h.body_len);
	*ret_h = h;
	return 0;
}

struct pt_wire_block {
	struct pt_wire_block *next;
	size_t room, used;              /* of the bytes that follow, which begin at a multiple of ALIGN */
};

#define BLOCK_HEAD ((sizeof(struct pt_wire_block) + ALIGN - 1) / ALIGN * ALIGN)

static void *arena_alloc(void *ctx, size_t size)
{
	struct pt_wire_arena *a = ctx;
	struct pt_wire_block *b = a->blocks;
	uint64_t want;
	size_t room;

	if (!pt_size_align(size ? size : 1, ALIGN, &want) || want > a->left)
		return NULL;
	if (!b || b->room - b->used < want) {
		room = want > BLOCK_BYTES ? want : BLOCK_BYTES;
		b = pt_malloc(BLOCK_HEAD + room);
		if (!b)
			return NULL;
		*b = (struct pt_wire_block){ .next = a->blocks, .room = room };
		a->blocks = b;
	}
	a->left -= want;
	b->used += want;
	return (uint8_t *)b + BLOCK_HEAD + b->used - want;
}

static void arena_free(void *ctx, void *p)
{
	(void)ctx, (void)p;
}

void pt_wire_arena_init(struct pt_wire_arena *a, uint64_t message_len, uint64_t extra)
{
	a->allocator = (ProtobufCAllocator){ .alloc = arena_alloc, .free = arena_free, .allocator_data = a };
	a->blocks = NULL;
	/* Short operations of a large commit take several times their bytes. */
	a->left = 2 * message_len + pt_size_min(8 * message_len, OPS_EXTRA) + extra;
}

void pt_wire_arena_done(struct pt_wire_arena *a)
{
	struct pt_wire_block *b;

	while ((b = a->blocks)) {
		a->blocks = b->next;
		free(b);
	}
}

struct buf_sink {
	ProtobufCBuffer base;
	struct pt_buf *buf;
};

static void sink_append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
	struct buf_sink *sink = (struct buf_sink *)base;

	pt_buf_append(sink->buf, data, len);
}

void pt_wire_pack(const ProtobufCMessage *message, uint64_t body_len, struct pt_buf *ret_frame)
{
	struct buf_sink sink = { .base = { .append = sink_append }, .buf = ret_frame };
	size_t at = ret_frame->len;
	struct pt_wire_header h = { .body_len = body_len };

	pt_buf_append_zeros(ret_frame, PT_WIRE_HEADER);
	protobuf_c_message_pack_to_buffer(message, &sink.base);
	if (pt_buf_failed(ret_frame))
		return;
	h.message_len = (uint32_t)(ret_frame->len - at - PT_WIRE_HEADER);
	pt_wire_header_encode(&h, ret_frame->data + at);
}

void *pt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t len, struct pt_wire_arena *arena)
{
	return protobuf_c_message_unpack(type, &arena->allocator, len, bytes);
}

/* ---- what is allowed ---- */

static int bad(const char *what)
{
	return pt_fail(EPROTO, "the peer sent a message with %s", what);
}

static int blobs_check(const ProtobufCBinaryData *blobs, uint32_t min, uint32_t max)
{
	uint32_t count = (uint32_t)(blobs->len / PT_WIRE_BLOB);

	if (blobs->len % PT_WIRE_BLOB || blobs->len / PT_WIRE_BLOB > max || count < min)
		return bad("a list of objects of the wrong length");
	for (uint32_t i = 0; i < count; i++) {
		uint8_t kind;
		struct pt_id id;

		pt_wire_blob_get(blobs, i, &kind, &id);
		if ((kind != 1 && kind != 2) || pt_id_is_zero(&id))
			return bad("an object of no kind or name");
	}
	return 0;
}

static int read_check(const Ptio__Wire__Read *r)
{
	uint64_t total = 0, end;
	uint32_t count;
	int rc = blobs_check(&r->blobs, 1, PT_WIRE_RANGES_MAX);

	if (rc < 0)
		return rc;
	count = pt_wire_blob_count(&r->blobs);
	if (r->n_blob < 1 || r->n_blob > PT_WIRE_RANGES_MAX || r->n_off != r->n_blob || r->n_len != r->n_blob)
		return bad("columns of ranges of the wrong length");
	for (size_t i = 0; i < r->n_blob; i++)
		if (r->blob[i] >= count || !pt_size_add(r->off[i], r->len[i], &end) || end > INT64_MAX || !pt_size_add(total, r->len[i], &total) ||
		    total > PT_WIRE_BODY_MAX)
			return bad("a range that makes no sense");
	return 0;
}

static int landed_check(const Ptio__Wire__Landed *l)
{
	if (l->piece >= PT_WIRE_PIECES_MAX || l->len < 1 || l->len > PT_WIRE_BODY_MAX || l->off > INT64_MAX - PT_WIRE_BODY_MAX)
		return bad("a piece of an upload that makes no sense");
	return 0;
}

static int look_check(const Ptio__Wire__MetaLook *l)
{
	if (l->n_key < 1 || l->n_key > PT_WIRE_LOOKS_MAX || l->begins.len != l->n_key)
		return bad("too few or too many look-ups");
	for (size_t i = 0; i < l->n_key; i++)
		if (l->begins.data[i] > 1 || l->key[i].len < (l->begins.data[i] ? PT_WIRE_BEGINS_MIN : 1))
			return bad("a look-up that makes no sense");
	return 0;
}

int pt_wire_request_check(const Ptio__Wire__Request *q, uint64_t body_len)
{
	if ((body_len != 0) != (q->op_case == PTIO__WIRE__REQUEST__OP_WRITE))
		return bad("bytes where none belong, or without those that do");
	switch (q->op_case) {
	case PTIO__WIRE__REQUEST__OP_META_GET:
		return q->meta_get->n_key < 1 || q->meta_get->n_key > PT_WIRE_KEYS_MAX ? bad("too few or too many keys") : 0;
	case PTIO__WIRE__REQUEST__OP_META_LOOK:
		return look_check(q->meta_look);
	case PTIO__WIRE__REQUEST__OP_META_COMMIT:
		return q->meta_commit->n_op < 1 || q->meta_commit->n_op > PT_WIRE_OPS_MAX ? bad("too few or too many operations") : 0;
	case PTIO__WIRE__REQUEST__OP_META_WATCH:
		return q->meta_watch->timeout_ns > INT64_MAX ? bad("a time that makes no sense") : 0;
	case PTIO__WIRE__REQUEST__OP_CREATE:
		return q->create->size_hint > INT64_MAX ? bad("a size that makes no sense") : blobs_check(&q->create->blob, 1, 1);
	case PTIO__WIRE__REQUEST__OP_WRITE:
		return q->write->off > INT64_MAX - PT_WIRE_BODY_MAX ? bad("an offset that makes no sense") : 0;
	case PTIO__WIRE__REQUEST__OP_WINDOW:
		return q->window->pieces < 1 || q->window->pieces > PT_WIRE_PIECES_MAX ? bad("a number of pieces that makes no sense") : 0;
	case PTIO__WIRE__REQUEST__OP_LANDED:
		return landed_check(q->landed);
	case PTIO__WIRE__REQUEST__OP_SEAL:
		return q->seal->bytes > INT64_MAX ? bad("a size that makes no sense") : 0;
	case PTIO__WIRE__REQUEST__OP_READ:
		return read_check(q->read);
	case PTIO__WIRE__REQUEST__OP_STAT:
		return blobs_check(&q->stat->blobs, 1, 1);
	case PTIO__WIRE__REQUEST__OP_REMOVE:
		return blobs_check(&q->remove->blobs, 1, 1);
	case PTIO__WIRE__REQUEST__OP_PIN:
		return blobs_check(&q->pin->blobs, 1, PT_WIRE_BLOBS_MAX);
	case PTIO__WIRE__REQUEST__OP_UNPIN:
		return blobs_check(&q->unpin->blobs, 1, PT_WIRE_BLOBS_MAX);
	case PTIO__WIRE__REQUEST__OP_LOCATE:
		return blobs_check(&q->locate->blobs, 1, PT_WIRE_RANGES_MAX);
	case PTIO__WIRE__REQUEST__OP_PINNED:
		return blobs_check(&q->pinned->blobs, 1, PT_WIRE_BLOBS_MAX);
	default:                        /* what is not known is answered as such */
		return 0;
	}
}

static int records_check(const Ptio__Wire__MetaRecords *r)
{
	if (r->n_value != r->n_version || (r->n_key && r->n_key != r->n_value))
		return bad("columns of records of different lengths");
	return 0;
}

static int entries_check(const Ptio__Wire__Entries *e)
{
	size_t count = e->blobs.len / PT_WIRE_BLOB;

	if (e->n_bytes != count || e->n_age_ns != count || e->n_flags != count)
		return bad("columns of objects of different lengths");
	return blobs_check(&e->blobs, 0, UINT32_MAX);
}

static int pieces_check(const Ptio__Wire__Pieces *p)
{
	uint64_t end;

	if (p->n_piece > PT_WIRE_PIECES_MAX || p->n_addr != p->n_piece || p->n_bytes != p->n_piece || p->n_key != p->n_piece)
		return bad("columns of pieces of the wrong length");
	for (size_t i = 0; i < p->n_piece; i++)
		if (p->piece[i] >= PT_WIRE_PIECES_MAX || p->bytes[i] < 1 || p->bytes[i] > PT_WIRE_BODY_MAX || !pt_size_add(p->addr[i], p->bytes[i], &end))
			return bad("a piece of memory that makes no sense");
	return 0;
}

int pt_wire_reply_check(const Ptio__Wire__Reply *p, uint64_t body_len)
{
	if (p->mark && (p->mark->instance.len != PT_WIRE_INSTANCE || !p->mark->version))
		return bad("a mark that makes no sense");
	if (p->error > 4095)
		return bad("an error that is none");
	if (body_len && (p->error || p->result_case != PTIO__WIRE__REPLY__RESULT__NOT_SET))
		return bad("bytes where none belong");
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_RECORDS)
		return records_check(p->records);
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_ENTRIES)
		return entries_check(p->entries);
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_PIECES)
		return pieces_check(p->pieces);
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_PLACES) {
		const Ptio__Wire__Places *l = p->places;

		if (l->n_off != l->n_bytes || l->lease_ttl_ns > INT64_MAX / 4 || l->lease_margin_ns >= l->lease_ttl_ns)
			return bad("places that make no sense");
	}
	return 0;
}

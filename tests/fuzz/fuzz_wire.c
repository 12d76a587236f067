/* tests/fuzz/fuzz_wire.c - any bytes as a message: the first chooses which, and the body's length. Whatever passes its check is walked as its users do. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static uint64_t sum;

static void touch(const ProtobufCBinaryData *b)
{
	for (size_t i = 0; i < b->len; i++)
		sum += b->data[i];
}

static void touch_blobs(const ProtobufCBinaryData *b)
{
	struct pt_id id;
	uint8_t kind;

	for (uint32_t i = 0; i < pt_wire_blob_count(b); i++) {
		pt_wire_blob_get(b, i, &kind, &id);
		must((kind == 1 || kind == 2) && !pt_id_is_zero(&id));
	}
}

static void walk_request(const Ptio__Wire__Request *q)
{
	uint64_t total = 0;

	switch (q->op_case) {
	case PTIO__WIRE__REQUEST__OP_META_GET:
		for (size_t i = 0; i < q->meta_get->n_key; i++)
			touch(&q->meta_get->key[i]);
		break;
	case PTIO__WIRE__REQUEST__OP_META_LOOK:
		must(q->meta_look->n_key <= PT_WIRE_LOOKS_MAX && q->meta_look->begins.len == q->meta_look->n_key);
		for (size_t i = 0; i < q->meta_look->n_key; i++) {
			touch(&q->meta_look->key[i]);
			must(q->meta_look->begins.data[i] <= 1);
			must(q->meta_look->key[i].len >= (q->meta_look->begins.data[i] ? PT_WIRE_BEGINS_MIN : 1));
		}
		break;
	case PTIO__WIRE__REQUEST__OP_META_COMMIT:
		must(q->meta_commit->n_op <= PT_WIRE_KEYS_MAX);
		for (size_t i = 0; i < q->meta_commit->n_op; i++) {
			touch(&q->meta_commit->op[i]->key);
			touch(&q->meta_commit->op[i]->value);
		}
		break;
	case PTIO__WIRE__REQUEST__OP_READ:
		for (size_t i = 0; i < q->read->n_blob; i++) {
			must(q->read->blob[i] < pt_wire_blob_count(&q->read->blobs));
			total += q->read->len[i];
			must(q->read->off[i] + q->read->len[i] <= INT64_MAX);
		}
		must(total <= PT_WIRE_BODY_MAX);
		touch_blobs(&q->read->blobs);
		break;
	case PTIO__WIRE__REQUEST__OP_LANDED:
		must(q->landed->piece < PT_WIRE_PIECES_MAX && q->landed->len >= 1 && q->landed->len <= PT_WIRE_BODY_MAX);
		must(q->landed->off + q->landed->len <= INT64_MAX);
		break;
	case PTIO__WIRE__REQUEST__OP_WINDOW: must(q->window->pieces >= 1 && q->window->pieces <= PT_WIRE_PIECES_MAX); break;
	case PTIO__WIRE__REQUEST__OP_LOCATE: touch_blobs(&q->locate->blobs); break;
	case PTIO__WIRE__REQUEST__OP_CREATE: touch_blobs(&q->create->blob); break;
	case PTIO__WIRE__REQUEST__OP_PIN: touch_blobs(&q->pin->blobs); break;
	case PTIO__WIRE__REQUEST__OP_UNPIN: touch_blobs(&q->unpin->blobs); break;
	case PTIO__WIRE__REQUEST__OP_PINNED: touch_blobs(&q->pinned->blobs); break;
	case PTIO__WIRE__REQUEST__OP_STAT: touch_blobs(&q->stat->blobs); break;
	case PTIO__WIRE__REQUEST__OP_REMOVE: touch_blobs(&q->remove->blobs); break;
	default: break;
	}
}

static void walk_reply(const Ptio__Wire__Reply *p)
{
	if (p->sentence)
		sum += strlen(p->sentence);
	if (p->mark) {
		must(p->mark->instance.len == PT_WIRE_INSTANCE && p->mark->version);
		touch(&p->mark->instance);
	}
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_RECORDS)
		for (size_t i = 0; i < p->records->n_value; i++) {
			sum += p->records->version[i];
			touch(&p->records->value[i]);
			if (p->records->n_key)
				touch(&p->records->key[i]);
		}
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_PIECES) {
		must(p->pieces->n_piece <= PT_WIRE_PIECES_MAX);
		for (size_t i = 0; i < p->pieces->n_piece; i++) {
			must(p->pieces->piece[i] < PT_WIRE_PIECES_MAX && p->pieces->bytes[i] >= 1 && p->pieces->bytes[i] <= PT_WIRE_BODY_MAX);
			must(p->pieces->addr[i] <= UINT64_MAX - p->pieces->bytes[i]);
			sum += p->pieces->key[i];
		}
	}
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_PLACES)
		for (size_t i = 0; i < p->places->n_off; i++)
			sum += p->places->off[i] + p->places->bytes[i];
	if (p->result_case == PTIO__WIRE__REPLY__RESULT_ENTRIES) {
		touch_blobs(&p->entries->blobs);
		for (size_t i = 0; i < p->entries->n_bytes; i++)
			sum += p->entries->bytes[i] + p->entries->flags[i];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const ProtobufCMessageDescriptor *const types[] = {
		&ptio__wire__request__descriptor, &ptio__wire__reply__descriptor, &ptio__wire__client_hello__descriptor,
		&ptio__wire__server_hello__descriptor, &ptio__wire__client_proof__descriptor, &ptio__wire__server_proof__descriptor,
	};
	struct pt_wire_arena arena;
	struct pt_wire_header h;
	uint64_t body_len;
	uint32_t type;
	void *m;

	if (size >= PT_WIRE_HEADER && pt_wire_header_decode(data, PT_WIRE_MESSAGE_MAX, &h) == 0)
		must(h.message_len <= PT_WIRE_MESSAGE_MAX && h.body_len <= PT_WIRE_BODY_MAX);
	if (size < 1)
		return 0;
	type = data[0] & 7;
	body_len = data[0] >> 3;
	if (type >= sizeof(types) / sizeof(types[0]))
		return 0;
	pt_wire_arena_init(&arena, size, type == 1 ? PT_WIRE_ARENA_REPLY : PT_WIRE_ARENA_EXTRA);
	m = pt_wire_unpack(types[type], data + 1, size - 1, &arena);
	if (m && type == 0 && pt_wire_request_check(m, body_len) == 0)
		walk_request(m);
	if (m && type == 1 && pt_wire_reply_check(m, body_len) == 0)
		walk_reply(m);
	pt_wire_arena_done(&arena);
	return 0;
}

/* net/wire.h - frames, and the messages of ptio.proto in them.
 *
 * A frame is PT_WIRE_HEADER bytes (magic "PTIO", u32 message bytes, u64 body bytes, little-endian), one protobuf message, and a body of raw bytes,
 * which only a Write and the reply to a Read have. docs/WIRE.md is the specification. Pure; thread-safe. */
#ifndef PT_NET_WIRE_H
#define PT_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "net/ptio.pb-c.h"

#define PT_WIRE_VERSION 1
#define PT_WIRE_HEADER 16
#define PT_WIRE_NONCE 32
#define PT_WIRE_MAC 32
#define PT_WIRE_INSTANCE 16                     /* bytes that name one run of a daemon */
#define PT_WIRE_BLOB 17                         /* bytes of one blob in a list */
#define PT_WIRE_HELLO_MAX 1024u                 /* bytes of a message before the peers know each other */
#define PT_WIRE_MESSAGE_MAX (72u << 20)         /* one index record of the largest size, and room */
#define PT_WIRE_BODY_MAX ((uint64_t)1 << 20)
#define PT_WIRE_RANGES_MAX 1024u
#define PT_WIRE_KEYS_MAX 128u
#define PT_WIRE_OPS_MAX 262144u
#define PT_WIRE_LOOKS_MAX 1024u
#define PT_WIRE_BEGINS_MIN 9u                   /* bytes that a group of keys has in common: what and which node they are of */
#define PT_WIRE_BLOBS_MAX 16384u
#define PT_WIRE_PIECES_MAX 16u
#define PT_WIRE_PORT 7846                       /* PTIO on a telephone */

struct pt_wire_header {
	uint32_t message_len;
	uint64_t body_len;
};

void pt_wire_header_encode(const struct pt_wire_header *h, uint8_t ret_bytes[PT_WIRE_HEADER]);
/* -EPROTO: not of this protocol, or above message_max or PT_WIRE_BODY_MAX. */
int pt_wire_header_decode(const uint8_t bytes[PT_WIRE_HEADER], uint32_t message_max, struct pt_wire_header *ret_h);

/* Memory of one decoded message, given back all at once: bounded by twice the message's length and `extra`. */
struct pt_wire_arena {
	ProtobufCAllocator allocator;
	struct pt_wire_block *blocks;
	uint64_t left;
};

#define PT_WIRE_ARENA_EXTRA ((uint64_t)256 << 10)       /* for requests */
#define PT_WIRE_ARENA_REPLY ((uint64_t)24 << 20)        /* a MiB of the shortest index records takes so much */

void pt_wire_arena_init(struct pt_wire_arena *a, uint64_t message_len, uint64_t extra);
void pt_wire_arena_done(struct pt_wire_arena *a);

/* Appends header and message; the body is the caller's to send. The buffer remembers lack of memory. */
void pt_wire_pack(const ProtobufCMessage *message, uint64_t body_len, struct pt_buf *ret_frame);
/* The message, in the arena; NULL when the bytes are not one, or want more memory than their length allows. */
void *pt_wire_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t len, struct pt_wire_arena *arena);

/* Whether every length, count and kind of a request or reply is one the protocol allows; what is found in stores is not its business. -EPROTO. */
int pt_wire_request_check(const Ptio__Wire__Request *q, uint64_t body_len);
int pt_wire_reply_check(const Ptio__Wire__Reply *p, uint64_t body_len);

static inline uint32_t pt_wire_blob_count(const ProtobufCBinaryData *blobs)
{
	return (uint32_t)(blobs->len / PT_WIRE_BLOB);
}

static inline void pt_wire_blob_get(const ProtobufCBinaryData *blobs, uint32_t i, uint8_t *ret_kind, struct pt_id *ret_id)
{
	const uint8_t *p = blobs->data + (size_t)i * PT_WIRE_BLOB;

	*ret_kind = p[0];
	for (int b = 0; b < 16; b++)
		ret_id->b[b] = p[1 + b];
}

static inline void pt_wire_blob_put(uint8_t *p, uint8_t kind, const struct pt_id *id)
{
	p[0] = kind;
	for (int b = 0; b < 16; b++)
		p[1 + b] = id->b[b];
}

#endif

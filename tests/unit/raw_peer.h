/* tests/unit/raw_peer.h - a peer that speaks the protocol by hand, and may break it. Blocking sockets with a time limit. */
#ifndef TESTS_UNIT_RAW_PEER_H
#define TESTS_UNIT_RAW_PEER_H

#include <stdint.h>

#include "net/auth.h"
#include "net/wire.h"

#define RAW_SECRET "a secret that only tests know"

struct raw {
	int fd;
	struct pt_auth auth;
	struct pt_wire_arena arena;     /* of the last message */
	uint8_t *message;
	uint64_t body_len;
};

void raw_connect(struct raw *r, uint16_t port);
void raw_close(struct raw *r);
void raw_reset(struct raw *r);          /* at once, without a goodbye */
void raw_send(struct raw *r, const ProtobufCMessage *message, const void *body, uint64_t body_len);
void raw_send_bytes(struct raw *r, const void *bytes, size_t len);
/* The next message, valid until the one after; NULL: the peer closed. Its body is read and dropped. */
void *raw_recv(struct raw *r, const ProtobufCMessageDescriptor *type);
/* Greeting up to the server's; then the proof with this secret, and the answer. */
Ptio__Wire__ServerHello *raw_hello(struct raw *r);
Ptio__Wire__ServerProof *raw_prove(struct raw *r, const char *secret);
/* Both; must succeed. */
void raw_login(struct raw *r, uint16_t port);

#endif

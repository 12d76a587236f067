/* tests/unit/raw_peer.c - the protocol by hand. */
#include "unit/raw_peer.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "unit/store_support.h"

void raw_connect(struct raw *r, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval limit = { .tv_sec = 30 };

	memset(r, 0, sizeof(*r));
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	MUST(r->fd >= 0);
	setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(r->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	MUST(connect(r->fd, (struct sockaddr *)&sin, sizeof(sin)) == 0);
}

void raw_close(struct raw *r)
{
	pt_wire_arena_done(&r->arena);
	free(r->message);
	r->message = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

void raw_reset(struct raw *r)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(r->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	raw_close(r);
}

void raw_send_bytes(struct raw *r, const void *bytes, size_t len)
{
	MUST(send(r->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

void raw_send(struct raw *r, const ProtobufCMessage *message, const void *body, uint64_t body_len)
{
	struct pt_buf frame = PT_BUF_INIT;

	pt_wire_pack(message, body_len, &frame);
	raw_send_bytes(r, frame.data, frame.len);
	if (body_len)
		raw_send_bytes(r, body, body_len);
	pt_buf_done(&frame);
}

void *raw_recv(struct raw *r, const ProtobufCMessageDescriptor *type)
{
	uint8_t header[PT_WIRE_HEADER], drop[4096];
	struct pt_wire_header h;
	void *m;

	if (recv(r->fd, header, sizeof(header), MSG_WAITALL) != (ssize_t)sizeof(header))
		return NULL;
	MUST_WORK(pt_wire_header_decode(header, PT_WIRE_MESSAGE_MAX, &h));
	pt_wire_arena_done(&r->arena);
	free(r->message);
	r->message = malloc(h.message_len + 1);
	MUST(r->message);
	if (h.message_len && recv(r->fd, r->message, h.message_len, MSG_WAITALL) != (ssize_t)h.message_len)
		return NULL;
	pt_wire_arena_init(&r->arena, h.message_len, PT_WIRE_ARENA_REPLY);
	m = pt_wire_unpack(type, r->message, h.message_len, &r->arena);
	MUST(m);
	r->body_len = h.body_len;
	for (uint64_t left = h.body_len; left;) {
		ssize_t n = recv(r->fd, drop, left < sizeof(drop) ? left : sizeof(drop), 0);

		if (n <= 0)
			return NULL;
		left -= (uint64_t)n;
	}
	return m;
}

Ptio__Wire__ServerHello *raw_hello(struct raw *r)
{
	Ptio__Wire__ClientHello hello = PTIO__WIRE__CLIENT_HELLO__INIT;
	Ptio__Wire__ServerHello *answer;

	MUST_WORK(pt_random_bytes(r->auth.client_nonce, PT_WIRE_NONCE));
	hello.version_min = hello.version_max = PT_WIRE_VERSION;
	hello.nonce = (ProtobufCBinaryData){ PT_WIRE_NONCE, r->auth.client_nonce };
	raw_send(r, &hello.base, NULL, 0);
	answer = raw_recv(r, &ptio__wire__server_hello__descriptor);
	MUST(answer && answer->nonce.len == PT_WIRE_NONCE);
	memcpy(r->auth.server_nonce, answer->nonce.data, PT_WIRE_NONCE);
	r->auth.version = answer->version;
	return answer;
}

Ptio__Wire__ServerProof *raw_prove(struct raw *r, const char *secret)
{
	Ptio__Wire__ClientProof proof = PTIO__WIRE__CLIENT_PROOF__INIT;
	struct pt_secret s = { .len = strlen(secret) };
	uint8_t mac[PT_WIRE_MAC];

	memcpy(s.bytes, secret, s.len);
	MUST_WORK(pt_id_random(&r->auth.session));
	MUST_WORK(pt_auth_proof(&s, &r->auth, PT_AUTH_CLIENT, mac));
	proof.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
	proof.session = (ProtobufCBinaryData){ sizeof(r->auth.session.b), r->auth.session.b };
	raw_send(r, &proof.base, NULL, 0);
	return raw_recv(r, &ptio__wire__server_proof__descriptor);
}

void raw_login(struct raw *r, uint16_t port)
{
	Ptio__Wire__ServerProof *p;

	raw_connect(r, port);
	raw_hello(r);
	p = raw_prove(r, RAW_SECRET);
	MUST(p && !p->error && p->session);
}

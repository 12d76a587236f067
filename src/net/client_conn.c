/* net/client_conn.c - the bytes of a client's connection: handshake, frames out, frames in. All of it on the owner's thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "net/client_int.h"

#define DISCARD_BYTES 65536
#define IOV_MAX_HERE 64
#define KEEP_MESSAGE (64u << 10)                /* a larger buffer is given back after its message */

static void enter(struct pt_net_client *c, enum pt_conn_state state)
{
	c->state = state;
	c->state_since_ns = c->heard_ns = pt_time_boot_ns();
}

void pt_conn_close(struct pt_net_client *c)
{
	pt_stream_close(&c->stream);
	pt_buf_reset(&c->hello);
	c->hello.failed = false;
	c->out = NULL;
	c->out_done = 0;
	c->in_header_got = c->in_message_got = 0;
	c->in_body = false;
	c->in_call = NULL;
	free(c->in_message);
	c->in_message = NULL;
	c->in_room = 0;
	enter(c, PT_CONN_DOWN);
}

int pt_conn_connected(struct pt_net_client *c)
{
	Ptio__Wire__ClientHello hello = PTIO__WIRE__CLIENT_HELLO__INIT;
	int fd = c->stream.fd;
	int rc = pt_addr_connected(fd);

	if (rc < 0)
		return rc;
	c->stream.fd = -1;
	rc = pt_stream_open(&c->stream, fd, c->tls);
	if (rc == 0)
		rc = pt_random_bytes(c->auth.client_nonce, sizeof(c->auth.client_nonce));
	if (rc < 0)
		return rc;
	hello.version_min = hello.version_max = PT_WIRE_VERSION;
	hello.nonce = (ProtobufCBinaryData){ PT_WIRE_NONCE, c->auth.client_nonce };
	pt_wire_pack(&hello.base, 0, &c->hello);
	enter(c, PT_CONN_HELLO);
	return pt_buf_failed(&c->hello) ? pt_fail_nomem() : 0;
}

/* ---- out ---- */

/* What is left of a call's frame and body. */
static int out_iov(const struct pt_net_client *c, struct iovec iov[2])
{
	const struct pt_net_call *call = c->out;
	uint64_t done = c->out_done;
	int n = 0;

	if (done < call->frame.len) {
		iov[n++] = (struct iovec){ call->frame.data + done, call->frame.len - done };
		done = 0;
	} else {
		done -= call->frame.len;
	}
	if (done < call->body_len)
		iov[n++] = (struct iovec){ (uint8_t *)call->body + done, call->body_len - done };
	return n;
}

/* A daemon that ends the connection before it has said anything may speak TLS where we do not, or the other way round. */
static int64_t greeted(const struct pt_net_client *c, int64_t n)
{
	char said[PT_FAIL_SENTENCE_MAX];

	if (n != -ECONNRESET || c->state != PT_CONN_HELLO || strstr(pt_fail_sentence(), "TLS"))
		return n;
	snprintf(said, sizeof(said), "%s", pt_fail_sentence());
	return pt_fail(ECONNRESET, "%s, before the daemon said anything; see that %s (ptiod --tls, and PTIO_TLS=1 here)", said,
		       c->tls ? "it speaks TLS as this side does" : "it does not speak TLS, as this side does not");
}

static int send_hello(struct pt_net_client *c)
{
	while (c->out_done < c->hello.len) {
		struct iovec iov = { c->hello.data + c->out_done, c->hello.len - c->out_done };
		int64_t n = greeted(c, pt_stream_send(&c->stream, &iov, 1));

		if (n < 0)
			return n == -EAGAIN ? -EAGAIN : (int)n;
		c->out_done += (uint64_t)n;
	}
	pt_buf_reset(&c->hello);
	c->out_done = 0;
	return 0;
}

int pt_conn_out(struct pt_net_client *c)
{
	struct iovec iov[2];
	int64_t n;
	int rc;

	if (c->hello.len) {
		rc = send_hello(c);
		if (rc < 0)
			return rc == -EAGAIN ? 0 : rc;
	}
	while (c->state == PT_CONN_UP) {
		if (!c->out) {
			c->out = pt_client_next(c);
			c->out_done = 0;
		}
		if (!c->out)
			return 0;
		n = pt_stream_send(&c->stream, iov, out_iov(c, iov));
		if (n < 0)
			return n == -EAGAIN ? 0 : (int)n;
		c->out_done += (uint64_t)n;
		__atomic_add_fetch(&c->bytes_out, (uint64_t)n, __ATOMIC_RELAXED);
		if (c->out_done == c->out->frame.len + c->out->body_len)
			c->out = NULL;
	}
	return 0;
}

/* ---- in ---- */

static int got_hello(struct pt_net_client *c, const Ptio__Wire__ServerHello *h)
{
	Ptio__Wire__ClientProof proof = PTIO__WIRE__CLIENT_PROOF__INIT;
	uint8_t mac[PT_WIRE_MAC];
	int rc = 0;

	if (h->version != PT_WIRE_VERSION)
		return pt_fail(EPROTO, "the daemon speaks version %u of the protocol and this program version %d; use the same release of ptio on both sides",
			       h->version_own, PT_WIRE_VERSION);
	if (h->nonce.len != PT_WIRE_NONCE)
		return pt_fail(EPROTO, "the daemon's greeting is malformed");
	if (h->secret_wanted && !c->secret.len)
		return pt_fail(EACCES, "the daemon wants a shared secret; give its file (secret_file=, or PTIO_SECRET_FILE)");
	if (!h->secret_wanted && c->secret.len)
		return pt_fail(EACCES, "the daemon runs without a secret, so it cannot prove who it is; leave the secret file out if that is meant");
	c->auth.version = h->version;
	c->auth.session = c->session_id;
	memcpy(c->auth.server_nonce, h->nonce.data, PT_WIRE_NONCE);
	if (c->secret.len) {
		rc = pt_auth_proof(&c->secret, &c->auth, PT_AUTH_CLIENT, mac);
		proof.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
	}
	if (rc < 0)
		return rc;
	proof.session = (ProtobufCBinaryData){ sizeof(c->session_id.b), c->session_id.b };
	pt_wire_pack(&proof.base, 0, &c->hello);
	c->proof_ns = pt_time_boot_ns();
	enter(c, PT_CONN_PROOF);
	return pt_buf_failed(&c->hello) ? pt_fail_nomem() : pt_conn_out(c);
}

/* A store that nobody has opened yet has no identity: it is none that the client knows. */
static int check_session(struct pt_net_client *c, const Ptio__Wire__Session *s)
{
	struct pt_id store = { { 0 } }, known;

	if (!s || (s->store.len && s->store.len != sizeof(store.b)) || !s->calls_max || s->body_max < 4096 || s->body_max > PT_WIRE_BODY_MAX ||
	    s->bytes_max < s->body_max || !s->ranges_max || s->ranges_max > PT_WIRE_RANGES_MAX || s->lease_ttl_ns > INT64_MAX / 4 ||
	    s->lease_margin_ns >= s->lease_ttl_ns)
		return pt_fail(EPROTO, "the daemon's limits make no sense");
	if (s->store.len)
		memcpy(store.b, s->store.data, s->store.len);
	pthread_mutex_lock(&c->lock);
	known = c->store_id;
	if (pt_id_is_zero(&known))
		c->store_id = store;
	pthread_mutex_unlock(&c->lock);
	if (pt_id_is_zero(&known) || pt_id_compare(&known, &store) == 0)
		return 0;
	return pt_fail(EIO, "the daemon at %s serves %s store than before; open it anew, or name only replicas of one store", c->addrs[c->addr].text,
		       pt_id_is_zero(&store) ? "another, empty," : "another");
}

/* Where its connection manager is: at the address that the daemon tells, else at that of this connection. */
static void rdma_peer(struct pt_net_session *session, const ProtobufCBinaryData *address)
{
	struct sockaddr_storage *sa = &session->rdma_peer;
	struct sockaddr_in *four = (struct sockaddr_in *)sa;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)sa;

	*sa = session->peer;
	if (address->len == sizeof(four->sin_addr)) {
		memset(sa, 0, sizeof(*sa));
		sa->ss_family = AF_INET;
		memcpy(&four->sin_addr, address->data, address->len);
	} else if (address->len == sizeof(six->sin6_addr)) {
		memset(sa, 0, sizeof(*sa));
		sa->ss_family = AF_INET6;
		memcpy(&six->sin6_addr, address->data, address->len);
	}
	if (sa->ss_family == AF_INET)
		four->sin_port = htons(session->rdma_port);
	else
		six->sin6_port = htons(session->rdma_port);
}

static int got_proof(struct pt_net_client *c, const Ptio__Wire__ServerProof *p)
{
	const Ptio__Wire__Session *s = p->session;
	bool known = false;
	int rc;

	if (p->error)
		return pt_fail(p->error > 0 && p->error < 4096 ? p->error : EPROTO, "%s", p->sentence);
	if (c->secret.len && !pt_auth_proof_ok(&c->secret, &c->auth, PT_AUTH_SERVER, p->mac.data, p->mac.len))
		return pt_fail(EACCES, "the daemon could not prove that it knows the secret; see that both sides have the same secret file");
	rc = check_session(c, s);
	if (rc < 0)
		return rc;
	c->calls_max = s->calls_max;
	c->bytes_max = s->bytes_max;
	c->ttl_ns = (int64_t)s->lease_ttl_ns;
	c->margin_ns = (int64_t)s->lease_margin_ns;
	c->renewed_ns = c->proof_ns;
	__atomic_store_n(&c->lease_until_ns, c->proof_ns + c->ttl_ns - c->margin_ns, __ATOMIC_RELEASE);
	pthread_mutex_lock(&c->lock);
	known = s->resumed && c->established && c->epoch == s->epoch;
	if (!c->established) {
		c->session.meta_durable = s->meta_durable;
		c->session.data_durable = s->data_durable;
		c->session.read_only = s->read_only;
	}
	c->session.ranges_max = s->ranges_max;
	c->session.looks_max = s->looks_max < PT_WIRE_LOOKS_MAX ? s->looks_max : PT_WIRE_LOOKS_MAX;
	c->session.marks = s->marks;
	c->session.watches = s->marks && s->watches;
	c->session.ops_max = s->ops_max ? s->ops_max : PT_WIRE_KEYS_MAX;
	c->session.body_max = s->body_max;
	c->session.lease_ttl_ns = c->ttl_ns;
	c->session.connection++;
	c->session.rdma_port = s->rdma_port <= 65535 && s->rdma_token.len == sizeof(c->session.rdma_token) ? (uint16_t)s->rdma_port : 0;
	if (c->session.rdma_port)
		memcpy(c->session.rdma_token, s->rdma_token.data, sizeof(c->session.rdma_token));
	/* What cannot be written to a piece goes in one message (store/remote_write.c). */
	c->session.pieces_max = c->session.rdma_port && s->pieces_max <= PT_WIRE_PIECES_MAX && s->body_max == PT_WIRE_BODY_MAX ? s->pieces_max : 0;
	c->session.peer = c->addrs[c->addr].sa;
	rdma_peer(&c->session, &s->rdma_address);
	pthread_mutex_unlock(&c->lock);
	c->epoch = s->epoch;
	enter(c, PT_CONN_UP);
	pt_client_up(c, known, s->resumed);
	return 0;
}

static int got_handshake(struct pt_net_client *c)
{
	const bool hello = c->state == PT_CONN_HELLO;
	struct pt_wire_arena arena;
	void *m;
	int rc;

	if (c->in.body_len)
		return pt_fail(EPROTO, "the daemon's greeting is malformed");
	pt_wire_arena_init(&arena, c->in.message_len, PT_WIRE_ARENA_EXTRA);
	m = pt_wire_unpack(hello ? &ptio__wire__server_hello__descriptor : &ptio__wire__server_proof__descriptor, c->in_message, c->in.message_len, &arena);
	if (!m)
		rc = pt_fail(EPROTO, "the daemon's greeting is malformed");
	else
		rc = hello ? got_hello(c, m) : got_proof(c, m);
	pt_wire_arena_done(&arena);
	return rc;
}

/* One reply whose message is complete. Sets up where its body goes. */
static int got_reply(struct pt_net_client *c)
{
	struct pt_wire_arena arena;
	struct pt_net_call *call;
	Ptio__Wire__Reply *p;
	int rc = 0;

	pt_wire_arena_init(&arena, c->in.message_len, PT_WIRE_ARENA_REPLY);
	p = pt_wire_unpack(&ptio__wire__reply__descriptor, c->in_message, c->in.message_len, &arena);
	if (!p)
		rc = pt_fail(EPROTO, "the daemon sent a malformed reply");
	if (rc == 0)
		rc = pt_wire_reply_check(p, c->in.body_len);
	if (rc < 0)
		goto out;
	call = pt_client_find(c, p->id);
	c->in_call = call;
	c->in_body = c->in.body_len > 0;
	c->in_body_got = 0;
	if (!call)
		goto out;
	if (p->error) {
		c->in_call = NULL;
		pt_client_end(c, call, pt_fail((int)p->error, "%s", p->sentence));
		goto out;
	}
	if (call->into_len != c->in.body_len) {
		rc = pt_fail(EPROTO, "the daemon sent %llu bytes where %llu were asked for", (unsigned long long)c->in.body_len,
			     (unsigned long long)call->into_len);
		goto out;
	}
	if (call->reply) {
		int verdict = call->reply(call, p);

		if (verdict < 0) {
			c->in_call = NULL;
			pt_client_end(c, call, verdict);
			goto out;
		}
	}
	if (!c->in_body && !p->more)
		pt_client_end(c, call, 0);
out:
	pt_wire_arena_done(&arena);
	return rc;
}

/* 1: got something, 0: would block. */
static int recv_into(struct pt_net_client *c, const struct iovec *iov, int count, uint64_t *got)
{
	int64_t n = greeted(c, pt_stream_recv(&c->stream, iov, count));

	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return (int)n;
	*got = (uint64_t)n;
	c->heard_ns = pt_time_boot_ns();
	__atomic_add_fetch(&c->bytes_in, (uint64_t)n, __ATOMIC_RELAXED);
	return 1;
}

/* The parts of the call's buffers that the body has not filled yet. */
static int body_iov(const struct pt_net_client *c, struct iovec *iov)
{
	uint64_t skip = c->in_body_got;
	int n = 0;

	for (int i = 0; i < c->in_call->into_count && n < IOV_MAX_HERE; i++) {
		const struct iovec *v = &c->in_call->into[i];

		if (skip >= v->iov_len) {
			skip -= v->iov_len;
			continue;
		}
		iov[n++] = (struct iovec){ (uint8_t *)v->iov_base + skip, v->iov_len - skip };
		skip = 0;
	}
	return n;
}

static int in_body(struct pt_net_client *c)
{
	uint8_t discard[DISCARD_BYTES];
	struct iovec iov[IOV_MAX_HERE];
	uint64_t got = 0;
	int n = 1, rc;

	if (c->in_call)
		n = body_iov(c, iov);
	else
		iov[0] = (struct iovec){ discard, pt_size_min(sizeof(discard), c->in.body_len - c->in_body_got) };
	rc = recv_into(c, iov, n, &got);
	if (rc <= 0)
		return rc;
	c->in_body_got += got;
	if (c->in_body_got < c->in.body_len)
		return 1;
	c->in_body = false;
	if (c->in_call)
		pt_client_end(c, c->in_call, 0);
	c->in_call = NULL;
	return 1;
}

static int in_message(struct pt_net_client *c)
{
	struct iovec iov = { c->in_message + c->in_message_got, c->in.message_len - c->in_message_got };
	uint64_t got = 0;
	int rc = 1;

	if (iov.iov_len) {
		rc = recv_into(c, &iov, 1, &got);
		if (rc <= 0)
			return rc;
		c->in_message_got += (uint32_t)got;
		if (c->in_message_got < c->in.message_len)
			return 1;
	}
	rc = c->state == PT_CONN_UP ? got_reply(c) : got_handshake(c);
	c->in_header_got = c->in_message_got = 0;
	if (c->in_room > KEEP_MESSAGE) {
		free(c->in_message);
		c->in_message = NULL;
		c->in_room = 0;
	}
	return rc < 0 ? rc : 1;
}

static int in_header(struct pt_net_client *c)
{
	struct iovec iov = { c->in_header + c->in_header_got, PT_WIRE_HEADER - c->in_header_got };
	uint8_t *grown;
	uint64_t got = 0;
	int rc = recv_into(c, &iov, 1, &got);

	if (rc <= 0)
		return rc;
	c->in_header_got += got;
	if (c->in_header_got < PT_WIRE_HEADER)
		return 1;
	rc = pt_wire_header_decode(c->in_header, c->state == PT_CONN_UP ? PT_WIRE_MESSAGE_MAX : PT_WIRE_HELLO_MAX, &c->in);
	if (rc < 0)
		return rc;
	if (c->in.message_len > c->in_room || !c->in_message) {
		grown = pt_realloc(c->in_message, c->in.message_len + 1u);
		if (!grown)
			return pt_fail_nomem();
		c->in_message = grown;
		c->in_room = c->in.message_len;
	}
	/* An empty message is complete. */
	return c->in.message_len ? 1 : in_message(c);
}

int pt_conn_in(struct pt_net_client *c)
{
	int turns = 64;                         /* then deadlines are looked at */
	int rc;

	do {
		if (c->in_body)
			rc = in_body(c);
		else if (c->in_header_got == PT_WIRE_HEADER)
			rc = in_message(c);
		else
			rc = in_header(c);
	} while (rc > 0 && --turns);
	return rc < 0 ? rc : 0;
}

/* tools/ptiod/handshake.c - who is there: greeting, proof of the secret, session. Nothing of the store is told before. On the loop. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "manifest/key.h"
#include "manifest/record_small.h"
#include "tools/ptiod/server.h"

static int send_message(struct conn *c, const ProtobufCMessage *message)
{
	struct out *o = out_create();

	if (!o)
		return pt_fail_nomem();
	pt_wire_pack(message, 0, &o->frame);
	if (pt_buf_failed(&o->frame)) {
		out_free(c->server, o);
		return pt_fail_nomem();
	}
	o->bytes = o->frame.len;
	conn_enqueue(c, o);
	return 0;
}

/* At most one line a second: strangers do not fill the log. */
static void log_refusal(const struct conn *c, const char *why)
{
	static uint64_t untold;
	static int64_t last_ns;
	int64_t now = pt_time_boot_ns();

	if (last_ns && now - last_ns < NS_PER_S) {
		untold++;
		return;
	}
	if (untold)
		pt_log(PT_LOG_WARN, "%s was not let in: %s (nor were %llu others since the last such line)", c->peer, why, (unsigned long long)untold);
	else
		pt_log(PT_LOG_WARN, "%s was not let in: %s", c->peer, why);
	last_ns = now;
	untold = 0;
}

static int refuse(struct conn *c, int err, const char *sentence)
{
	Ptio__Wire__ServerProof proof = PTIO__WIRE__SERVER_PROOF__INIT;

	log_refusal(c, sentence);
	proof.error = err;
	proof.sentence = (char *)sentence;
	c->goodbye = true;
	return send_message(c, &proof.base);
}

static int got_hello(struct conn *c, const Ptio__Wire__ClientHello *h)
{
	Ptio__Wire__ServerHello hello = PTIO__WIRE__SERVER_HELLO__INIT;
	int rc;

	if (h->nonce.len != PT_WIRE_NONCE)
		return pt_fail(EPROTO, "its greeting is malformed");
	hello.version_own = PT_WIRE_VERSION;
	if (h->version_min > PT_WIRE_VERSION || h->version_max < PT_WIRE_VERSION) {
		log_refusal(c, "it speaks another version of the protocol; install the same release of ptio on both sides");
		c->goodbye = true;
		return send_message(c, &hello.base);
	}
	memcpy(c->auth.client_nonce, h->nonce.data, PT_WIRE_NONCE);
	rc = pt_random_bytes(c->auth.server_nonce, PT_WIRE_NONCE);
	if (rc < 0)
		return rc;
	c->auth.version = hello.version = PT_WIRE_VERSION;
	hello.nonce = (ProtobufCBinaryData){ PT_WIRE_NONCE, c->auth.server_nonce };
	hello.secret_wanted = c->server->secret.len > 0;
	c->state = CONN_PROOF;
	return send_message(c, &hello.base);
}

static int got_proof(struct conn *c, const Ptio__Wire__ClientProof *p)
{
	struct server *s = c->server;
	struct session *ses;
	bool resumed;

	if (p->session.len != sizeof(c->auth.session.b))
		return pt_fail(EPROTO, "its proof is malformed");
	memcpy(c->auth.session.b, p->session.data, sizeof(c->auth.session.b));
	if (s->secret.len && !pt_auth_proof_ok(&s->secret, &c->auth, PT_AUTH_CLIENT, p->mac.data, p->mac.len)) {
		count(&s->counters.auth_failures, 1);
		return refuse(c, EACCES, "the secret is wrong; see that both sides have the same secret file");
	}
	if (s->draining)
		return refuse(c, EIO, "the daemon is stopping");
	if (s->conn_count - s->stranger_count >= s->options->clients_max)
		return refuse(c, EIO, "the daemon serves as many clients as it may; raise its max-clients");
	ses = session_get(s, &c->auth.session, &resumed);
	if (!ses || ses->left)
		return refuse(c, EIO, "the daemon has no room for another session; try again later");
	s->stranger_count--;
	c->session = ses;
	if (!ses->conn) {
		ses->conn = c;
		conn_welcome(c, resumed);
		return 0;
	}
	/* The old connection of this session is dead, though we had not noticed: it ends first. */
	c->state = CONN_PARKED;
	if (ses->waiting)
		conn_close(ses->waiting, NULL);
	ses->waiting = c;
	conn_close(ses->conn, "it has connected anew");
	return 0;
}

/* The identity of a store that has been written to; asked for until there is one. */
static void learn_store_id(struct server *s)
{
	struct pt_buf value = PT_BUF_INIT;
	struct pt_format_rec rec;
	struct pt_rkey key;
	uint64_t version;

	if (!pt_id_is_zero(&s->store_id))
		return;
	pt_rkey_counter(&key, "format");
	if (pt_meta_get(&s->store->meta, key.b, key.len, &value, &version) == 0 && version && pt_record_format_decode(value.data, value.len, &rec) == 0)
		s->store_id = rec.store_id;
	pt_buf_done(&value);
}

void conn_welcome(struct conn *c, bool resumed)
{
	Ptio__Wire__ServerProof proof = PTIO__WIRE__SERVER_PROOF__INIT;
	Ptio__Wire__Session info = PTIO__WIRE__SESSION__INIT;
	struct server *s = c->server;
	uint8_t mac[PT_WIRE_MAC];

	learn_store_id(s);
	session_renew(c->session);
	if (!pt_id_is_zero(&s->store_id))
		info.store = (ProtobufCBinaryData){ sizeof(s->store_id.b), s->store_id.b };
	info.meta_durable = s->store->meta.ops->durable;
	info.data_durable = s->store->data.ops->durable;
	info.read_only = s->options->read_only;
	info.resumed = resumed;
	info.epoch = c->session->epoch;
	info.lease_ttl_ns = (uint64_t)s->options->lease_ttl_ns;
	info.lease_margin_ns = (uint64_t)s->options->lease_margin_ns;
	info.calls_max = CALLS_MAX;
	info.bytes_max = BYTES_MAX;
	info.body_max = PT_WIRE_BODY_MAX;
	info.ranges_max = PT_WIRE_RANGES_MAX;
	info.ops_max = PT_WIRE_OPS_MAX;
	info.looks_max = PT_WIRE_LOOKS_MAX;
	info.marks = info.watches = mark_there(s);
	span_admit(s, c);
	if (s->span) {
		info.rdma_port = span_port(s);
		info.pieces_max = windows_max(s);
		info.rdma_address = span_address(s);
		info.rdma_token = (ProtobufCBinaryData){ sizeof(c->rdma_token), c->rdma_token };
	}
	proof.session = &info;
	if (s->secret.len) {
		if (pt_auth_proof(&s->secret, &c->auth, PT_AUTH_SERVER, mac) < 0) {
			conn_close(c, pt_fail_sentence());
			return;
		}
		proof.mac = (ProtobufCBinaryData){ sizeof(mac), mac };
	}
	c->state = CONN_OPEN;
	c->since_ns = pt_time_boot_ns();
	pt_log(PT_LOG_INFO, "client %s is there", c->peer);
	if (send_message(c, &proof.base) < 0)
		conn_close(c, pt_fail_sentence());
}

void conn_unpark(struct conn *c)
{
	c->session->conn = c;
	conn_welcome(c, true);
	conn_pump(c);
}

int conn_handshake(struct conn *c)
{
	bool hello = c->state == CONN_HELLO;
	struct pt_wire_arena arena;
	void *m;
	int rc;

	pt_wire_arena_init(&arena, c->header.message_len, PT_WIRE_ARENA_EXTRA);
	m = pt_wire_unpack(hello ? &ptio__wire__client_hello__descriptor : &ptio__wire__client_proof__descriptor, c->message, c->header.message_len, &arena);
	if (!m)
		rc = pt_fail(EPROTO, "its greeting is malformed");
	else
		rc = hello ? got_hello(c, m) : got_proof(c, m);
	pt_wire_arena_done(&arena);
	if (rc < 0)
		log_refusal(c, pt_fail_sentence());
	return rc;
}

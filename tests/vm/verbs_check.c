/* tests/vm/verbs_check.c - whether the test VM's RDMA devices do what ptio's own tests there rely on. Nothing of ptio is used, so that a failure here
 * is the rig's, and one elsewhere is not.
 *
 * A thread serves at 10.77.0.1 with regions of memory; main() connects to it from 10.77.0.2 and tries one-sided reads and writes. What the server offers
 * comes with the connection. Threads and events, no polling: two busy sides would starve the one kernel thread that moves the data. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdio.h>

#ifndef HAVE_RDMA
int main(void)
{
	printf("built without librdmacm\n");
	return 77;
}
#else

#include <arpa/inet.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define REGION   (4u << 20)
#define SGES     8u
#define PIECE    4099u          /* bytes of a scatter entry; on no boundary */
#define WAIT_MS  5000

static int passed, failed;

#define MUST(x) must((x), #x, __LINE__)
#define CHECK(name, x) check((x), name)

static void must(bool ok, const char *what, int line)
{
	if (ok)
		return;
	printf("verbs_check.c:%d: %s: %m\n%d passed, %d failed\n", line, what, passed, failed + 1);
	fflush(stdout);
	_exit(1);
}

static void check(bool ok, const char *name)
{
	printf("%s: %s\n", ok ? "ok" : "FAILED", name);
	ok ? passed++ : failed++;
}

/* What the server tells in the private data of a connection: its memory, and the keys to it. */
struct offer {
	uint64_t open, closed, fixed;           /* addresses: to read and write; the same, to be revoked; to read only */
	uint32_t open_key, closed_key, fixed_key;
};

/* ---- the server ---- */

struct server {
	const char *address;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *open, *closed, *fixed;
	struct offer offer;
	uint8_t *memory;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool revoke, revoked;                   /* under lock: asked for, done */
	uint16_t port;
};

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
	} else {
		MUST(inet_pton(AF_INET6, text, &v6->sin6_addr) == 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
	}
	return ss;
}

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)((at * 2654435761u) >> 13);
}

/* The next event of a channel, which must be this one. Returns its id. */
static struct rdma_cm_id *expect(struct rdma_event_channel *events, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	MUST(rdma_get_cm_event(events, &e) == 0);
	if (e->event != type)
		printf("%s (status %d) in place of %s\n", rdma_event_str(e->event), e->status, rdma_event_str(type));
	MUST(e->event == type);
	id = e->id;
	MUST(rdma_ack_cm_event(e) == 0);
	return id;
}

static void queue_pair(struct rdma_cm_id *id, struct ibv_comp_channel *channel)
{
	struct ibv_qp_init_attr init = { .cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = SGES, .max_recv_sge = 1 }, .qp_type = IBV_QPT_RC };

	MUST(init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 32, NULL, channel, 0));
	MUST(rdma_create_qp(id, NULL, &init) == 0);
}

static void queue_pair_free(struct rdma_cm_id *id)
{
	struct ibv_cq *cq = id->send_cq ? id->send_cq : id->qp->send_cq;

	rdma_destroy_qp(id);
	MUST(ibv_destroy_cq(cq) == 0);
}

static void serve_regions(struct server *s)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	MUST(s->open = ibv_reg_mr(s->id->pd, s->memory, REGION, all));
	MUST(s->closed = ibv_reg_mr(s->id->pd, s->memory, REGION, all));
	MUST(s->fixed = ibv_reg_mr(s->id->pd, s->memory, REGION, IBV_ACCESS_REMOTE_READ));
	s->offer = (struct offer){ (uintptr_t)s->memory, (uintptr_t)s->memory, (uintptr_t)s->memory, s->open->rkey, s->closed->rkey, s->fixed->rkey };
}

/* One connection after the other, each with regions of its own; the client says when to revoke one. Ends when the listener does. */
static void *serve(void *arg)
{
	struct server *s = arg;
	struct rdma_conn_param param = { .private_data = &s->offer, .private_data_len = sizeof(s->offer), .responder_resources = 16, .initiator_depth = 16 };

	for (;;) {
		struct rdma_cm_event *e;
		enum rdma_cm_event_type type;

		MUST(rdma_get_cm_event(s->events, &e) == 0);
		type = e->event;
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			bool last = e->param.conn.private_data_len && ((const char *)e->param.conn.private_data)[0] == 'q';

			s->id = e->id;
			MUST(rdma_ack_cm_event(e) == 0);
			if (last) {
				MUST(rdma_reject(s->id, NULL, 0) == 0);
				MUST(rdma_destroy_id(s->id) == 0);
				return NULL;
			}
			queue_pair(s->id, NULL);
			serve_regions(s);
			MUST(rdma_accept(s->id, &param) == 0);
			expect(s->events, RDMA_CM_EVENT_ESTABLISHED);
			pthread_mutex_lock(&s->lock);
			while (!s->revoke)
				pthread_cond_wait(&s->changed, &s->lock);
			MUST(ibv_dereg_mr(s->closed) == 0);
			s->revoke = false;
			s->revoked = true;
			pthread_cond_broadcast(&s->changed);
			pthread_mutex_unlock(&s->lock);
		} else {
			MUST(rdma_ack_cm_event(e) == 0);
			if (type != RDMA_CM_EVENT_DISCONNECTED)
				continue;
			queue_pair_free(s->id);
			MUST(ibv_dereg_mr(s->open) == 0 && ibv_dereg_mr(s->fixed) == 0);
			MUST(rdma_destroy_id(s->id) == 0);
		}
	}
}

static void server_start(struct server *s, const char *address, pthread_t *ret_thread)
{
	struct sockaddr_storage ss = address_of(address, 0);

	s->address = address;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	MUST(s->memory = malloc(REGION));
	for (uint64_t i = 0; i < REGION; i++)
		s->memory[i] = pattern(i);
	MUST(s->events = rdma_create_event_channel());
	MUST(rdma_create_id(s->events, &s->listener, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(s->listener, (struct sockaddr *)&ss) == 0);
	MUST(rdma_listen(s->listener, 8) == 0);
	s->port = ntohs(rdma_get_src_port(s->listener));
	MUST(pthread_create(ret_thread, NULL, serve, s) == 0);
}

/* ---- the client ---- */

struct client {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr;
	struct offer offer;
	uint8_t *memory;
};

/* Goes as far as the answer to connect, and returns what that is. hello: NULL or private data. */
static enum rdma_cm_event_type client_try(struct client *c, const char *from, const char *to, uint16_t port, const char *hello)
{
	struct sockaddr_storage src = address_of(from, 0), dst = address_of(to, port);
	/* On rxe a retry_count of 7 means for ever. */
	struct rdma_conn_param param = { .private_data = hello, .private_data_len = hello ? 1 : 0, .responder_resources = 16, .initiator_depth = 16,
					 .retry_count = 6, .rnr_retry_count = 6 };
	struct rdma_cm_event *e;
	enum rdma_cm_event_type type;

	MUST(c->events = rdma_create_event_channel());
	MUST(rdma_create_id(c->events, &c->id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(c->id, (struct sockaddr *)&src, (struct sockaddr *)&dst, WAIT_MS) == 0);
	expect(c->events, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(c->id, WAIT_MS) == 0);
	expect(c->events, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(c->channel = ibv_create_comp_channel(c->id->verbs));
	queue_pair(c->id, c->channel);
	MUST(rdma_connect(c->id, &param) == 0);
	MUST(rdma_get_cm_event(c->events, &e) == 0);
	type = e->event;
	if (type == RDMA_CM_EVENT_ESTABLISHED) {
		MUST(e->param.conn.private_data_len >= sizeof(c->offer));
		memcpy(&c->offer, e->param.conn.private_data, sizeof(c->offer));
	}
	MUST(rdma_ack_cm_event(e) == 0);
	return type;
}

static void client_connect(struct client *c, const char *from, const struct server *s)
{
	MUST(client_try(c, from, s->address, s->port, NULL) == RDMA_CM_EVENT_ESTABLISHED);
	MUST(c->memory = calloc(1, REGION));
	MUST(c->mr = ibv_reg_mr(c->id->pd, c->memory, REGION, IBV_ACCESS_LOCAL_WRITE));
}

static void client_free(struct client *c, bool connected)
{
	if (connected)
		rdma_disconnect(c->id);
	queue_pair_free(c->id);
	if (c->mr)
		MUST(ibv_dereg_mr(c->mr) == 0);
	MUST(ibv_destroy_comp_channel(c->channel) == 0);
	MUST(rdma_destroy_id(c->id) == 0);
	rdma_destroy_event_channel(c->events);
	free(c->memory);
	*c = (struct client){ 0 };
}

/* One work request between remote memory and `count` pieces of our own; returns how it ended. */
static enum ibv_wc_status transfer(struct client *c, enum ibv_wr_opcode opcode, uint64_t remote, uint32_t key, struct ibv_sge *sges, int count)
{
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = sges, .num_sge = count, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_cq *cq = c->id->qp->send_cq, *woken;
	struct ibv_wc wc;
	void *ctx;
	int n;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = key;
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	MUST(ibv_post_send(c->id->qp, &wr, &bad) == 0);
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
		MUST(ibv_get_cq_event(c->channel, &woken, &ctx) == 0);
		ibv_ack_cq_events(woken, 1);
		MUST(ibv_req_notify_cq(cq, 0) == 0);
	}
	MUST(n == 1);
	return wc.status;
}

static struct ibv_sge piece(const struct client *c, uint64_t at, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)c->memory + at, len, c->mr->lkey };
}

/* Pieces of our memory, backwards and with gaps. */
static void scattered(const struct client *c, struct ibv_sge *sges)
{
	for (uint64_t i = 0; i < SGES; i++)
		sges[i] = piece(c, (SGES - 1 - i) * 2 * PIECE, PIECE);
}

/* ---- the claims ---- */

static bool read_of(struct client *c, uint64_t at, uint32_t len)
{
	struct ibv_sge sge = piece(c, 0, len);

	memset(c->memory, 0, REGION);
	if (transfer(c, IBV_WR_RDMA_READ, c->offer.open + at, c->offer.open_key, &sge, 1) != IBV_WC_SUCCESS)
		return false;
	for (uint64_t i = 0; i < len; i++)
		if (c->memory[i] != pattern(at + i))
			return false;
	return len == REGION || c->memory[len] == 0;
}

static bool read_scattered(struct client *c)
{
	struct ibv_sge sges[SGES];

	memset(c->memory, 0, REGION);
	scattered(c, sges);
	if (transfer(c, IBV_WR_RDMA_READ, c->offer.open + 17, c->offer.open_key, sges, SGES) != IBV_WC_SUCCESS)
		return false;
	for (uint64_t i = 0; i < SGES; i++) {
		const uint8_t *p = c->memory + (SGES - 1 - i) * 2 * PIECE;

		for (uint64_t k = 0; k < PIECE; k++)
			if (p[k] != pattern(17 + i * PIECE + k))
				return false;
		if (p[PIECE] != 0)
			return false;
	}
	return true;
}

static bool write_gathered(struct client *c, const struct server *s)
{
	struct ibv_sge sges[SGES];
	const uint64_t at = 1000003;
	bool right = true;

	for (uint64_t i = 0; i < SGES; i++)
		memset(c->memory + (SGES - 1 - i) * 2 * PIECE, (int)(i + 1), PIECE);
	scattered(c, sges);
	if (transfer(c, IBV_WR_RDMA_WRITE, c->offer.open + at, c->offer.open_key, sges, SGES) != IBV_WC_SUCCESS)
		return false;
	for (uint64_t i = 0; i < SGES * PIECE; i++)
		right = right && s->memory[at + i] == i / PIECE + 1;
	right = right && s->memory[at - 1] == pattern(at - 1) && s->memory[at + SGES * PIECE] == pattern(at + SGES * PIECE);
	for (uint64_t i = 0; i < SGES * PIECE; i++)
		s->memory[at + i] = pattern(at + i);
	return right;
}

static void revoke_one(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->revoke = true;
	s->revoked = false;
	pthread_cond_broadcast(&s->changed);
	while (!s->revoked)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

enum misuse { READ_REVOKED, WRITE_REVOKED, WRITE_FIXED, READ_BEYOND };

/* A connection ends with its first error, so each misuse has one of its own. */
static bool refused(struct server *s, enum misuse misuse)
{
	struct client c = { 0 };
	struct ibv_sge sge;
	bool used = true, right;

	client_connect(&c, "10.77.0.2", s);
	sge = piece(&c, 0, 100);
	if (misuse == READ_REVOKED || misuse == WRITE_REVOKED)
		used = transfer(&c, misuse == READ_REVOKED ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, c.offer.closed, c.offer.closed_key, &sge, 1) ==
			IBV_WC_SUCCESS || misuse == WRITE_REVOKED;
	else if (misuse == WRITE_FIXED)
		used = transfer(&c, IBV_WR_RDMA_READ, c.offer.fixed, c.offer.fixed_key, &sge, 1) == IBV_WC_SUCCESS;
	revoke_one(s);
	memset(c.memory, 0xee, 100);
	switch (misuse) {
	case READ_REVOKED:
		right = transfer(&c, IBV_WR_RDMA_READ, c.offer.closed, c.offer.closed_key, &sge, 1) == IBV_WC_REM_ACCESS_ERR && c.memory[0] == 0xee;
		break;
	case WRITE_REVOKED:
		right = transfer(&c, IBV_WR_RDMA_WRITE, c.offer.closed + 5000, c.offer.closed_key, &sge, 1) == IBV_WC_REM_ACCESS_ERR;
		break;
	case WRITE_FIXED:
		right = transfer(&c, IBV_WR_RDMA_WRITE, c.offer.fixed + 5000, c.offer.fixed_key, &sge, 1) == IBV_WC_REM_ACCESS_ERR;
		break;
	default:
		right = transfer(&c, IBV_WR_RDMA_READ, c.offer.open + REGION - 99, c.offer.open_key, &sge, 1) == IBV_WC_REM_ACCESS_ERR;
	}
	right = right && s->memory[5000] == pattern(5000) && s->memory[5099] == pattern(5099);
	client_free(&c, true);
	return used && right;
}

static void conversation(const char *family, const char *from, const char *to)
{
	struct server s = { 0 };
	struct client c = { 0 };
	pthread_t thread;
	char name[80];

	server_start(&s, to, &thread);
	client_connect(&c, from, &s);
	snprintf(name, sizeof(name), "%s: connected to the other device", family);
	CHECK(name, strcmp(ibv_get_device_name(c.id->verbs->device), ibv_get_device_name(s.id->verbs->device)) != 0);
	for (uint32_t len = 1; len <= REGION; len = len * 5 + 3) {
		snprintf(name, sizeof(name), "%s: a read of %u bytes brings them and no others", family, len);
		CHECK(name, read_of(&c, len % 5000 <= REGION - len ? len % 5000 : 0, len));
	}
	snprintf(name, sizeof(name), "%s: a read scatters into %u pieces", family, SGES);
	CHECK(name, read_scattered(&c));
	snprintf(name, sizeof(name), "%s: a write gathers %u pieces", family, SGES);
	CHECK(name, write_gathered(&c, &s));
	revoke_one(&s);
	client_free(&c, true);
	if (strcmp(family, "IPv4") == 0) {
		CHECK("a read with a revoked key is refused", refused(&s, READ_REVOKED));
		CHECK("a write with a revoked key is refused and changes nothing", refused(&s, WRITE_REVOKED));
		CHECK("a write to a region for reading is refused and changes nothing", refused(&s, WRITE_FIXED));
		CHECK("a read beyond the end is refused", refused(&s, READ_BEYOND));
	}
	CHECK("a server can refuse a connection", client_try(&c, from, to, s.port, "q") == RDMA_CM_EVENT_REJECTED);
	client_free(&c, false);
	MUST(pthread_join(thread, NULL) == 0);
	MUST(rdma_destroy_id(s.listener) == 0);
	rdma_destroy_event_channel(s.events);
	free(s.memory);
	CHECK("where nobody listens a connection is refused", client_try(&c, from, to, s.port, NULL) == RDMA_CM_EVENT_REJECTED);
	client_free(&c, false);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(120);
	conversation("IPv4", "10.77.0.2", "10.77.0.1");
	conversation("IPv6", "fd77::2", "fd77::1");
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
#endif

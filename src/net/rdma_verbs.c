/* net/rdma_verbs.c - the client's side of one-sided reads and writes. With rdma_verbs_server.c all that touches libibverbs and librdmacm.
 *
 * A client's READs are posted up to `depth` at once, each with a slot that has the list of local pieces. One that cannot go straight takes a stretch of a
 * registered ring, the bounce buffer. Every SIGNAL_EVERY-th is signalled, and whichever may have to be waited for; completion of one says that all before are complete, as an RC
 * queue works in order. So stretches are given back in the order they were taken: the ring's `taken` and `given` only grow, modulo its size. */
#include "config.h"

#include "net/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"

#ifdef HAVE_RDMA

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "net/rdma_costs.h"
#include "net/rdma_hello.h"

#define DEPTH_MAX 32u
#define READ_BYTES ((uint64_t)1 << 20)          /* of one READ */
#define RING_BYTES (8 * READ_BYTES)
#define PIECES_MAX 32u
#define SIGNAL_EVERY 8u
#define RETRIES 6                               /* 7 would be for ever on some devices */
#define RNR_RETRIES 6

/* ---- the client ---- */

struct slot {
	struct pt_rdma_read read;
	struct pt_rdma_piece pieces[PIECES_MAX];
	uint8_t *bounce;
	uint64_t taken;                         /* of the ring, with it */
	bool direct;                            /* the device wrote into the pieces */
};

struct pt_rdma {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *bounce_mr;
	uint8_t *bounce;
	uint64_t taken, given;
	struct slot slots[DEPTH_MAX];
	uint32_t depth;
	struct pt_rdma_costs costs;
	struct pt_rdma_hello span;
	struct pt_rdma_end end;
	struct pt_rdma_counters counters;       /* relaxed atomics */
};

static int fail_call(const char *what)
{
	return pt_fail(EIO, "RDMA: %s failed: %s", what, strerror(errno));
}

/* Waits for one CM event of this kind. */
static int await_event(struct rdma_event_channel *channel, enum rdma_cm_event_type want, int64_t until_ns, struct pt_rdma_hello *ret_hello)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *e;
	int64_t left = until_ns - pt_time_boot_ns();
	int rc = 0;

	if (left < 0 || poll(&p, 1, (int)(left / 1000000) + 1) <= 0)
		return pt_fail(EIO, "RDMA: no answer while connecting");
	if (rdma_get_cm_event(channel, &e) < 0)
		return fail_call("rdma_get_cm_event");
	if (e->event == want) {
		if (ret_hello && e->param.conn.private_data_len >= PT_RDMA_HELLO_BYTES)
			rc = pt_rdma_hello_decode(e->param.conn.private_data, ret_hello);
		else if (ret_hello)
			rc = pt_fail(EIO, "RDMA: the peer is no ptio daemon");
	} else if (e->event == RDMA_CM_EVENT_REJECTED) {
		rc = pt_fail(EACCES, "RDMA: the daemon refused the connection");
	} else {
		rc = pt_fail(EIO, "RDMA: cannot connect (%s)", rdma_event_str(e->event));
	}
	rdma_ack_cm_event(e);
	return rc;
}

static int make_queue(struct pt_rdma *r)
{
	struct ibv_device_attr attr;
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC };

	if (ibv_query_device(r->id->verbs, &attr))
		return fail_call("ibv_query_device");
	r->depth = DEPTH_MAX < (uint32_t)attr.max_qp_wr ? DEPTH_MAX : (uint32_t)attr.max_qp_wr;
	r->costs.pieces_max = PIECES_MAX < (uint32_t)attr.max_sge_rd ? PIECES_MAX : (uint32_t)attr.max_sge_rd;
	if ((uint32_t)attr.max_sge < r->costs.pieces_max)
		r->costs.pieces_max = (uint32_t)attr.max_sge;
	r->costs.read_max = r->costs.bounce_max = READ_BYTES;
	snprintf(r->end.device, sizeof(r->end.device), "%s", ibv_get_device_name(r->id->verbs->device));
	r->end.port = r->id->port_num;
	r->end.gid = -1;
	r->pd = ibv_alloc_pd(r->id->verbs);
	r->channel = r->pd ? ibv_create_comp_channel(r->id->verbs) : NULL;
	r->cq = r->channel ? ibv_create_cq(r->id->verbs, (int)r->depth + 8, NULL, r->channel, 0) : NULL;
	if (!r->cq)
		return fail_call("making a completion queue");
	if (fcntl(r->channel->fd, F_SETFL, O_NONBLOCK) < 0 || ibv_req_notify_cq(r->cq, 0))
		return fail_call("ibv_req_notify_cq");
	qp.send_cq = qp.recv_cq = r->cq;
	qp.cap.max_send_wr = r->depth;
	qp.cap.max_recv_wr = 1;
	qp.cap.max_send_sge = r->costs.pieces_max;
	qp.cap.max_recv_sge = 1;
	if (rdma_create_qp(r->id, r->pd, &qp))
		return fail_call("rdma_create_qp");
	r->bounce = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->bounce == MAP_FAILED) {
		r->bounce = NULL;
		return pt_fail_nomem();
	}
	r->bounce_mr = ibv_reg_mr(r->pd, r->bounce, RING_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!r->bounce_mr)
		return fail_call("ibv_reg_mr (raise the limit of locked memory: ulimit -l)");
	return 0;
}

/* The GID that the connection manager took. */
static void learn_gid(struct pt_rdma *r)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(r->id->qp, &attr, IBV_QP_AV, &init) == 0 && attr.ah_attr.is_global)
		r->end.gid = attr.ah_attr.grh.sgid_index;
}

int pt_rdma_connect(const struct sockaddr *sa, socklen_t sa_len, const struct sockaddr *bind_to, const uint8_t token[PT_RDMA_TOKEN], int64_t timeout_ns,
		    struct pt_rdma **ret_rdma)
{
	struct rdma_conn_param param = { .private_data = token, .private_data_len = PT_RDMA_TOKEN, .responder_resources = 0, .initiator_depth = 16,
					 .retry_count = RETRIES, .rnr_retry_count = RNR_RETRIES };
	int64_t until = pt_time_boot_ns() + timeout_ns;
	struct pt_rdma *r = pt_calloc(1, sizeof(*r));
	int ms = (int)(timeout_ns / 1000000);
	struct ibv_device_attr attr;
	int rc = 0;

	(void)sa_len;
	if (!r)
		return pt_fail_nomem();
	pt_rdma_costs_usual(&r->costs);
	r->events = rdma_create_event_channel();
	if (!r->events) {
		free(r);
		return pt_fail(EOPNOTSUPP, "there is no RDMA device here");
	}
	if (rdma_create_id(r->events, &r->id, NULL, RDMA_PS_TCP))
		rc = fail_call("rdma_create_id");
	if (rc == 0 && rdma_resolve_addr(r->id, (struct sockaddr *)bind_to, (struct sockaddr *)sa, ms))
		rc = fail_call("rdma_resolve_addr");
	if (rc == 0)
		rc = await_event(r->events, RDMA_CM_EVENT_ADDR_RESOLVED, until, NULL);
	if (rc == 0 && rdma_resolve_route(r->id, ms))
		rc = fail_call("rdma_resolve_route");
	if (rc == 0)
		rc = await_event(r->events, RDMA_CM_EVENT_ROUTE_RESOLVED, until, NULL);
	if (rc == 0)
		rc = make_queue(r);
	if (rc == 0 && ibv_query_device(r->id->verbs, &attr) == 0 && attr.max_qp_init_rd_atom < 16)
		param.initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	if (rc == 0 && rdma_connect(r->id, &param))
		rc = fail_call("rdma_connect");
	if (rc == 0)
		rc = await_event(r->events, RDMA_CM_EVENT_ESTABLISHED, until, &r->span);
	if (rc == 0)
		learn_gid(r);
	if (rc < 0) {
		pt_rdma_close(r);
		return rc;
	}
	*ret_rdma = r;
	return 0;
}

void pt_rdma_close(struct pt_rdma *r)
{
	if (!r)
		return;
	if (r->id && r->id->qp) {
		rdma_disconnect(r->id);
		rdma_destroy_qp(r->id);
	}
	if (r->bounce_mr)
		ibv_dereg_mr(r->bounce_mr);
	if (r->cq)
		ibv_destroy_cq(r->cq);
	if (r->channel)
		ibv_destroy_comp_channel(r->channel);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	if (r->id)
		rdma_destroy_id(r->id);
	if (r->events)
		rdma_destroy_event_channel(r->events);
	if (r->bounce)
		munmap(r->bounce, RING_BYTES);
	free(r);
}

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

static int post(struct pt_rdma *r, uint64_t number, bool signal)
{
	struct slot *s = &r->slots[number % r->depth];
	struct ibv_sge sge[PIECES_MAX];
	struct ibv_send_wr wr = { .wr_id = number, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				  .send_flags = signal ? IBV_SEND_SIGNALED : 0 };
	struct ibv_send_wr *bad;

	if (s->direct) {
		for (uint32_t i = 0; i < s->read.piece_count; i++)
			sge[i] = (struct ibv_sge){ (uintptr_t)s->pieces[i].buf, (uint32_t)s->pieces[i].len, s->pieces[i].key };
		wr.num_sge = (int)s->read.piece_count;
	} else {
		sge[0] = (struct ibv_sge){ (uintptr_t)s->bounce, (uint32_t)s->read.len, r->bounce_mr->lkey };
	}
	wr.wr.rdma.remote_addr = r->span.addr + s->read.remote;
	wr.wr.rdma.rkey = r->span.key;
	if (ibv_post_send(r->id->qp, &wr, &bad))
		return fail_call("ibv_post_send");
	add(&r->counters.requests, 1);
	add(&r->counters.bytes_read, s->read.len);
	return 0;
}

/* Copies out of a slot what did not go straight. */
static void land(struct pt_rdma *r, const struct pt_rdma_plan *plan, uint64_t number)
{
	struct slot *s = &r->slots[number % r->depth];
	const uint8_t *at = s->bounce;

	r->given = s->taken;
	if (s->direct)
		return;
	add(&r->counters.bounced_bytes, s->read.len);
	if (s->read.bounce) {
		pt_rdma_plan_copy(plan, &s->read, s->bounce);
		return;
	}
	for (uint32_t i = 0; i < s->read.piece_count; i++) {
		memcpy(s->pieces[i].buf, at, s->pieces[i].len);
		at += s->pieces[i].len;
	}
}

/* Waits until a signalled request is complete: *ret_number, and all before it. */
static int await_completion(struct pt_rdma *r, int64_t deadline_ns, uint64_t *ret_number)
{
	struct pollfd p[2] = { { .fd = r->channel->fd, .events = POLLIN }, { .fd = r->events->fd, .events = POLLIN } };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;
	int n;

	for (;;) {
		int64_t left = deadline_ns - pt_time_boot_ns();

		n = ibv_poll_cq(r->cq, 1, &wc);
		if (n < 0)
			return fail_call("ibv_poll_cq");
		if (n == 1 && wc.status != IBV_WC_SUCCESS)
			return pt_fail(EIO, "RDMA: an access to the daemon's memory failed: %s", ibv_wc_status_str(wc.status));
		if (n == 1) {
			*ret_number = wc.wr_id;
			return 0;
		}
		if (left <= 0)
			return pt_fail(EIO, "RDMA: an access to the daemon's memory did not end in time");
		if (poll(p, 2, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
			return fail_call("poll");
		if (p[1].revents)
			return pt_fail(EIO, "RDMA: the connection was lost");
		if (ibv_get_cq_event(r->channel, &cq, &ctx) == 0)
			ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(r->cq, 0))
			return fail_call("ibv_req_notify_cq");
	}
}

/* Takes the next len bytes of the ring that are in one piece; false: they are not free yet. A shorter stretch fits wherever a longer one does. */
static bool ring_take(struct pt_rdma *r, uint64_t len, uint8_t **ret_at)
{
	uint64_t at = r->taken % RING_BYTES, skip = at + len > RING_BYTES ? RING_BYTES - at : 0;

	if (r->taken + skip + len - r->given > RING_BYTES)
		return false;
	if (ret_at) {
		r->taken += skip;
		*ret_at = r->bounce + r->taken % RING_BYTES;
		r->taken += len;
	}
	return true;
}

/* Fills the slot of the next READ, which there is. */
static void prepare(struct pt_rdma *r, struct pt_rdma_plan *plan, uint64_t number)
{
	struct slot *s = &r->slots[number % r->depth];

	pt_rdma_plan_next(plan, s->pieces, &s->read);
	s->direct = !s->read.bounce;
	for (uint32_t i = 0; s->direct && i < s->read.piece_count; i++)
		s->direct = s->pieces[i].key != 0;
}

/* A stretch of the ring for it, if it wants one. */
static bool place(struct pt_rdma *r, uint64_t number)
{
	struct slot *s = &r->slots[number % r->depth];

	if (!s->direct && !ring_take(r, s->read.len, &s->bounce))
		return false;
	s->taken = r->taken;
	return true;
}

int pt_rdma_read(struct pt_rdma *r, struct pt_rdma_range *ranges, uint32_t count, int64_t deadline_ns)
{
	uint64_t posted = 0, landed = 0, number = 0;
	struct pt_rdma_plan plan;
	bool planned = false;                   /* the slot of number `posted` is filled */
	int rc = 0;

	for (uint32_t i = 0; i < count; i++)
		add(&r->counters.bytes_asked, ranges[i].len);
	pt_rdma_plan_init(&plan, ranges, count, &r->costs);
	while (rc == 0 && (planned || !pt_rdma_plan_ended(&plan) || landed < posted)) {
		while (rc == 0 && posted - landed < r->depth && (planned || !pt_rdma_plan_ended(&plan))) {
			if (!planned)
				prepare(r, &plan, posted);
			planned = !place(r, posted);
			if (planned)
				break;
			/* The one before a wait is signalled, and one in SIGNAL_EVERY. */
			rc = post(r, posted, pt_rdma_plan_ended(&plan) || posted + 1 - landed == r->depth || (posted + 1) % SIGNAL_EVERY == 0 ||
						     !ring_take(r, READ_BYTES, NULL));
			posted++;
		}
		if (rc == 0)
			rc = await_completion(r, deadline_ns, &number);
		for (; rc == 0 && landed <= number; landed++)
			land(r, &plan, landed);
	}
	return rc;
}

void pt_rdma_costs(const struct pt_rdma *r, struct pt_rdma_costs *ret_costs)
{
	*ret_costs = r->costs;
}

void pt_rdma_costs_set(struct pt_rdma *r, const struct pt_rdma_costs *prices)
{
	r->costs.request_ns = prices->request_ns;
	r->costs.byte_ps = prices->byte_ps;
	r->costs.copy_ps = prices->copy_ps;
}

static int post_write(struct pt_rdma *r, const struct pt_rdma_put *put, uint64_t number, bool signal)
{
	struct ibv_sge sge = { (uintptr_t)put->buf, (uint32_t)put->len, put->key };
	struct ibv_send_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = signal ? IBV_SEND_SIGNALED : 0 };
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = put->addr;
	wr.wr.rdma.rkey = put->remote_key;
	return ibv_post_send(r->id->qp, &wr, &bad) ? fail_call("ibv_post_send") : 0;
}

int pt_rdma_write(struct pt_rdma *r, const struct pt_rdma_put *puts, uint32_t count, int64_t deadline_ns)
{
	uint64_t posted = 0, landed = 0, number = 0;
	int rc = 0;

	while (rc == 0 && landed < count) {
		for (; rc == 0 && posted < count && posted - landed < r->depth; posted++)
			rc = post_write(r, &puts[posted], posted, posted + 1 == count || posted + 1 - landed == r->depth);
		if (rc == 0)
			rc = await_completion(r, deadline_ns, &number);
		landed = rc == 0 ? number + 1 : landed;
	}
	return rc;
}

uint64_t pt_rdma_span(const struct pt_rdma *r)
{
	return r->span.bytes;
}

int pt_rdma_register(struct pt_rdma *r, void *addr, uint64_t len, void **ret_region, uint32_t *ret_key)
{
	struct ibv_mr *mr = ibv_reg_mr(r->pd, addr, len, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		return fail_call("ibv_reg_mr");
	*ret_region = mr;
	*ret_key = mr->lkey;
	return 0;
}

void pt_rdma_unregister(void *region)
{
	if (region)
		ibv_dereg_mr(region);
}

void pt_rdma_end(const struct pt_rdma *r, struct pt_rdma_end *ret_end)
{
	*ret_end = r->end;
}

void pt_rdma_counters(struct pt_rdma *r, struct pt_rdma_counters *ret_counters)
{
	ret_counters->requests = __atomic_load_n(&r->counters.requests, __ATOMIC_RELAXED);
	ret_counters->bytes_read = __atomic_load_n(&r->counters.bytes_read, __ATOMIC_RELAXED);
	ret_counters->bytes_asked = __atomic_load_n(&r->counters.bytes_asked, __ATOMIC_RELAXED);
	ret_counters->bounced_bytes = __atomic_load_n(&r->counters.bounced_bytes, __ATOMIC_RELAXED);
}

#else

int pt_rdma_connect(const struct sockaddr *sa, socklen_t sa_len, const struct sockaddr *bind_to, const uint8_t token[PT_RDMA_TOKEN], int64_t timeout_ns,
		    struct pt_rdma **ret_rdma)
{
	(void)sa, (void)sa_len, (void)bind_to, (void)token, (void)timeout_ns, (void)ret_rdma;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA; install librdmacm-dev and build it again");
}

void pt_rdma_close(struct pt_rdma *r)
{
	(void)r;
}

int pt_rdma_read(struct pt_rdma *r, struct pt_rdma_range *ranges, uint32_t count, int64_t deadline_ns)
{
	(void)r, (void)ranges, (void)count, (void)deadline_ns;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

void pt_rdma_costs(const struct pt_rdma *r, struct pt_rdma_costs *ret_costs)
{
	(void)r;
	memset(ret_costs, 0, sizeof(*ret_costs));
}

void pt_rdma_costs_set(struct pt_rdma *r, const struct pt_rdma_costs *prices)
{
	(void)r, (void)prices;
}

int pt_rdma_write(struct pt_rdma *r, const struct pt_rdma_put *puts, uint32_t count, int64_t deadline_ns)
{
	(void)r, (void)puts, (void)count, (void)deadline_ns;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

uint64_t pt_rdma_span(const struct pt_rdma *r)
{
	(void)r;
	return 0;
}

int pt_rdma_register(struct pt_rdma *r, void *addr, uint64_t len, void **ret_region, uint32_t *ret_key)
{
	(void)r, (void)addr, (void)len, (void)ret_region, (void)ret_key;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

void pt_rdma_unregister(void *region)
{
	(void)region;
}

void pt_rdma_end(const struct pt_rdma *r, struct pt_rdma_end *ret_end)
{
	(void)r;
	memset(ret_end, 0, sizeof(*ret_end));
}

void pt_rdma_counters(struct pt_rdma *r, struct pt_rdma_counters *ret_counters)
{
	(void)r;
	memset(ret_counters, 0, sizeof(*ret_counters));
}

#endif

/* net/rdma_verbs.c - a client's one-sided reads and writes.
 *
 * READs are posted up to `depth` at once, each with a slot that has the list of local pieces. One that cannot go straight takes a stretch of a registered ring, the
 * bounce buffer. Every SIGNAL_EVERY-th is signalled, and whichever may have to be waited for; completion of one says that all before are complete, as an RC queue
 * works in order. So stretches are given back in the order they were taken: the ring's `taken` and `given` only grow, modulo its size. */
#include <poll.h>

#include "base/io.h"
#include "net/rdma_verbs_int.h"

#define SIGNAL_EVERY 8u

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
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
			return pt_rdma_fail_call("ibv_poll_cq");
		if (n == 1 && wc.status != IBV_WC_SUCCESS)
			return pt_fail(EIO, "RDMA: an access to the daemon's memory failed: %s", ibv_wc_status_str(wc.status));
		if (n == 1) {
			*ret_number = wc.wr_id;
			return 0;
		}
		if (left <= 0)
			return pt_fail(EIO, "RDMA: an access to the daemon's memory did not end in time");
		if (poll(p, 2, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
			return pt_rdma_fail_call("poll");
		if (p[1].revents)
			return pt_fail(EIO, "RDMA: the connection was lost");
		if (ibv_get_cq_event(r->channel, &cq, &ctx) == 0)
			ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(r->cq, 0))
			return pt_rdma_fail_call("ibv_req_notify_cq");
	}
}

/* ---- reads ---- */

static int post(struct pt_rdma *r, uint64_t number, bool signal)
{
	struct pt_rdma_slot *s = &r->slots[number % r->depth];
	struct ibv_sge sge[PT_RDMA_PIECES_MAX];
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
		return pt_rdma_fail_call("ibv_post_send");
	add(&r->counters.requests, 1);
	add(&r->counters.bytes_read, s->read.len);
	return 0;
}

/* Copies out of a slot what did not go straight. */
static void land(struct pt_rdma *r, const struct pt_rdma_plan *plan, uint64_t number)
{
	struct pt_rdma_slot *s = &r->slots[number % r->depth];
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

/* Takes the next len bytes of the ring that are in one piece; false: they are not free yet. A shorter stretch fits wherever a longer one does. */
static bool ring_take(struct pt_rdma *r, uint64_t len, uint8_t **ret_at)
{
	uint64_t at = r->taken % PT_RDMA_RING_BYTES, skip = at + len > PT_RDMA_RING_BYTES ? PT_RDMA_RING_BYTES - at : 0;

	if (r->taken + skip + len - r->given > PT_RDMA_RING_BYTES)
		return false;
	if (ret_at) {
		r->taken += skip;
		*ret_at = r->bounce + r->taken % PT_RDMA_RING_BYTES;
		r->taken += len;
	}
	return true;
}

/* Fills the slot of the next READ, which there is. */
static void prepare(struct pt_rdma *r, struct pt_rdma_plan *plan, uint64_t number)
{
	struct pt_rdma_slot *s = &r->slots[number % r->depth];

	pt_rdma_plan_next(plan, s->pieces, &s->read);
	s->direct = !s->read.bounce;
	for (uint32_t i = 0; s->direct && i < s->read.piece_count; i++)
		s->direct = s->pieces[i].key != 0;
}

/* A stretch of the ring for it, if it wants one. */
static bool place(struct pt_rdma *r, uint64_t number)
{
	struct pt_rdma_slot *s = &r->slots[number % r->depth];

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
						     !ring_take(r, PT_RDMA_READ_BYTES, NULL));
			posted++;
		}
		if (rc == 0)
			rc = await_completion(r, deadline_ns, &number);
		for (; rc == 0 && landed <= number; landed++)
			land(r, &plan, landed);
	}
	return rc;
}

/* ---- writes ---- */

static int post_write(struct pt_rdma *r, const struct pt_rdma_put *put, uint64_t number, bool signal)
{
	struct ibv_sge sge = { (uintptr_t)put->buf, (uint32_t)put->len, put->key };
	struct ibv_send_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = signal ? IBV_SEND_SIGNALED : 0 };
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = put->addr;
	wr.wr.rdma.rkey = put->remote_key;
	return ibv_post_send(r->id->qp, &wr, &bad) ? pt_rdma_fail_call("ibv_post_send") : 0;
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

/* ---- prices and counters ---- */

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

void pt_rdma_counters(struct pt_rdma *r, struct pt_rdma_counters *ret_counters)
{
	ret_counters->requests = __atomic_load_n(&r->counters.requests, __ATOMIC_RELAXED);
	ret_counters->bytes_read = __atomic_load_n(&r->counters.bytes_read, __ATOMIC_RELAXED);
	ret_counters->bytes_asked = __atomic_load_n(&r->counters.bytes_asked, __ATOMIC_RELAXED);
	ret_counters->bounced_bytes = __atomic_load_n(&r->counters.bounced_bytes, __ATOMIC_RELAXED);
}

/* net/rdma_verbs_conn.c - a client's connection: made by the connection manager, with its queue, its bounce buffer, and the memory that is registered with it. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/io.h"
#include "net/rdma_verbs_int.h"

#define RETRIES 6                               /* 7 would be for ever on some devices */
#define RNR_RETRIES 6

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
		return pt_rdma_fail_call("rdma_get_cm_event");
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
		return pt_rdma_fail_call("ibv_query_device");
	r->depth = PT_RDMA_DEPTH_MAX < (uint32_t)attr.max_qp_wr ? PT_RDMA_DEPTH_MAX : (uint32_t)attr.max_qp_wr;
	r->costs.pieces_max = PT_RDMA_PIECES_MAX < (uint32_t)attr.max_sge_rd ? PT_RDMA_PIECES_MAX : (uint32_t)attr.max_sge_rd;
	if ((uint32_t)attr.max_sge < r->costs.pieces_max)
		r->costs.pieces_max = (uint32_t)attr.max_sge;
	r->costs.read_max = r->costs.bounce_max = PT_RDMA_READ_BYTES;
	snprintf(r->end.device, sizeof(r->end.device), "%s", ibv_get_device_name(r->id->verbs->device));
	r->end.port = r->id->port_num;
	r->end.gid = -1;
	r->pd = ibv_alloc_pd(r->id->verbs);
	r->channel = r->pd ? ibv_create_comp_channel(r->id->verbs) : NULL;
	r->cq = r->channel ? ibv_create_cq(r->id->verbs, (int)r->depth + 8, NULL, r->channel, 0) : NULL;
	if (!r->cq)
		return pt_rdma_fail_call("making a completion queue");
	if (fcntl(r->channel->fd, F_SETFL, O_NONBLOCK) < 0 || ibv_req_notify_cq(r->cq, 0))
		return pt_rdma_fail_call("ibv_req_notify_cq");
	qp.send_cq = qp.recv_cq = r->cq;
	qp.cap.max_send_wr = r->depth;
	qp.cap.max_recv_wr = 1;
	qp.cap.max_send_sge = r->costs.pieces_max;
	qp.cap.max_recv_sge = 1;
	if (rdma_create_qp(r->id, r->pd, &qp))
		return pt_rdma_fail_call("rdma_create_qp");
	r->bounce = mmap(NULL, PT_RDMA_RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->bounce == MAP_FAILED) {
		r->bounce = NULL;
		return pt_fail_nomem();
	}
	r->bounce_mr = ibv_reg_mr(r->pd, r->bounce, PT_RDMA_RING_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!r->bounce_mr)
		return pt_rdma_fail_call("ibv_reg_mr (raise the limit of locked memory: ulimit -l)");
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
		rc = pt_rdma_fail_call("rdma_create_id");
	if (rc == 0 && rdma_resolve_addr(r->id, (struct sockaddr *)bind_to, (struct sockaddr *)sa, ms))
		rc = pt_rdma_fail_call("rdma_resolve_addr");
	if (rc == 0)
		rc = await_event(r->events, RDMA_CM_EVENT_ADDR_RESOLVED, until, NULL);
	if (rc == 0 && rdma_resolve_route(r->id, ms))
		rc = pt_rdma_fail_call("rdma_resolve_route");
	if (rc == 0)
		rc = await_event(r->events, RDMA_CM_EVENT_ROUTE_RESOLVED, until, NULL);
	if (rc == 0)
		rc = make_queue(r);
	if (rc == 0 && ibv_query_device(r->id->verbs, &attr) == 0 && attr.max_qp_init_rd_atom < 16)
		param.initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	if (rc == 0 && rdma_connect(r->id, &param))
		rc = pt_rdma_fail_call("rdma_connect");
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
		munmap(r->bounce, PT_RDMA_RING_BYTES);
	free(r);
}

uint64_t pt_rdma_span(const struct pt_rdma *r)
{
	return r->span.bytes;
}

void pt_rdma_end(const struct pt_rdma *r, struct pt_rdma_end *ret_end)
{
	*ret_end = r->end;
}

int pt_rdma_register(struct pt_rdma *r, void *addr, uint64_t len, void **ret_region, uint32_t *ret_key)
{
	struct ibv_mr *mr = ibv_reg_mr(r->pd, addr, len, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		return pt_rdma_fail_call("ibv_reg_mr");
	*ret_region = mr;
	*ret_key = mr->lkey;
	return 0;
}

void pt_rdma_unregister(void *region)
{
	if (region)
		ibv_dereg_mr(region);
}

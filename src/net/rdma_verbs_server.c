/* net/rdma_verbs_server.c - the daemon's side: one span, registered for remote reading with each device that clients come through, and the
 * connections; and windows that they may write to. One thread takes the connection manager's events; the data never passes here. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "net/rdma_verbs_int.h"

#define READS_AT_ONCE 16                        /* of one connection, if the device can */

/* One device, by its context. Kept until stop. */
struct device {
	LIST_ENTRY(device) link;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;                      /* nothing ever completes here */
	struct ibv_mr *mr;
	uint8_t reads_max;
};

struct peer {
	LIST_ENTRY(peer) link;
	struct rdma_cm_id *id;
	struct device *device;
	uint8_t token[PT_RDMA_TOKEN];
};

struct pt_rdma_server {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	void *memory;
	uint64_t bytes;
	pt_rdma_admit_fn *admit;
	void *ctx;
	int stop_fd;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock;                   /* peers */
	LIST_HEAD(, peer) peers;
	LIST_HEAD(, device) devices;            /* the thread's */
};

static void device_free(struct device *d)
{
	if (d->mr)
		ibv_dereg_mr(d->mr);
	if (d->cq)
		ibv_destroy_cq(d->cq);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	free(d);
}

static struct device *device_get(struct pt_rdma_server *s, struct ibv_context *verbs)
{
	struct ibv_device_attr attr;
	struct device *d;

	LIST_FOREACH(d, &s->devices, link)
		if (d->verbs == verbs)
			return d;
	d = pt_calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->verbs = verbs;
	d->reads_max = 1;
	if (ibv_query_device(verbs, &attr) == 0)
		d->reads_max = (uint8_t)(attr.max_qp_rd_atom < READS_AT_ONCE ? attr.max_qp_rd_atom : READS_AT_ONCE);
	d->pd = ibv_alloc_pd(verbs);
	d->cq = d->pd ? ibv_create_cq(verbs, 1, NULL, NULL, 0) : NULL;
	d->mr = d->cq ? ibv_reg_mr(d->pd, s->memory, s->bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ) : NULL;
	if (!d->mr) {
		device_free(d);
		return NULL;
	}
	LIST_INSERT_HEAD(&s->devices, d, link);
	return d;
}

/* A request to connect: whoever knows a token gets a queue and is told where the span is. */
static void greet(struct pt_rdma_server *s, struct rdma_cm_event *e)
{
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct rdma_conn_param param = { .initiator_depth = 0, .rnr_retry_count = 6 };
	uint8_t hello_bytes[PT_RDMA_HELLO_BYTES];
	struct pt_rdma_hello hello;
	struct peer *p = NULL;
	struct device *d;

	if (e->param.conn.private_data_len < PT_RDMA_TOKEN || !s->admit(s->ctx, e->param.conn.private_data))
		goto reject;
	d = device_get(s, e->id->verbs);
	p = d ? pt_calloc(1, sizeof(*p)) : NULL;
	if (!p)
		goto reject;
	qp.send_cq = qp.recv_cq = d->cq;
	if (rdma_create_qp(e->id, d->pd, &qp))
		goto reject;
	p->id = e->id;
	p->device = d;
	memcpy(p->token, e->param.conn.private_data, PT_RDMA_TOKEN);
	hello = (struct pt_rdma_hello){ .addr = (uintptr_t)s->memory, .bytes = s->bytes, .key = d->mr->rkey };
	pt_rdma_hello_encode(&hello, hello_bytes);
	param.private_data = hello_bytes;
	param.private_data_len = sizeof(hello_bytes);
	param.responder_resources = e->param.conn.responder_resources < d->reads_max ? e->param.conn.responder_resources : d->reads_max;
	/* Under the lock: the peer may ask for a window as soon as it is accepted. */
	pthread_mutex_lock(&s->lock);
	if (rdma_accept(e->id, &param)) {
		pthread_mutex_unlock(&s->lock);
		rdma_destroy_qp(e->id);
		goto reject;
	}
	e->id->context = p;
	LIST_INSERT_HEAD(&s->peers, p, link);
	pthread_mutex_unlock(&s->lock);
	return;
reject:
	free(p);
	rdma_reject(e->id, NULL, 0);
}

/* Frees the queue; the id is destroyed once its event is acknowledged. */
static void part(struct pt_rdma_server *s, struct peer *p)
{
	pthread_mutex_lock(&s->lock);
	LIST_REMOVE(p, link);
	pthread_mutex_unlock(&s->lock);
	rdma_destroy_qp(p->id);
	free(p);
}

static void take_event(struct pt_rdma_server *s)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *gone = NULL;

	if (rdma_get_cm_event(s->events, &e) < 0)
		return;
	switch (e->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		greet(s, e);
		if (!e->id->qp)
			gone = e->id;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (e->id != s->listener && e->id->context != s) {
			gone = e->id;
			rdma_disconnect(gone);
			part(s, e->id->context);
		}
		break;
	default:
		break;
	}
	rdma_ack_cm_event(e);
	if (gone)
		rdma_destroy_id(gone);
}

static void *serve(void *arg)
{
	struct pt_rdma_server *s = arg;
	struct pollfd p[2] = { { .fd = s->events->fd, .events = POLLIN }, { .fd = s->stop_fd, .events = POLLIN } };

	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (p[1].revents)
			return NULL;
		if (p[0].revents)
			take_event(s);
	}
}

int pt_rdma_server_start(const struct sockaddr *sa, socklen_t sa_len, void *memory, uint64_t bytes, pt_rdma_admit_fn *admit, void *ctx,
			 struct pt_rdma_server **ret_server)
{
	struct pt_rdma_server *s = pt_calloc(1, sizeof(*s));
	struct ibv_device **devices;
	int rc = 0, count = 0;

	(void)sa_len;
	if (!s)
		return pt_fail_nomem();
	s->memory = memory;
	s->bytes = bytes;
	s->admit = admit;
	s->ctx = ctx;
	pthread_mutex_init(&s->lock, NULL);
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	devices = ibv_get_device_list(&count);
	if (devices)
		ibv_free_device_list(devices);
	if (count <= 0)
		rc = pt_fail(EOPNOTSUPP, "there is no RDMA device here");
	if (rc == 0 && !(s->events = rdma_create_event_channel()))
		rc = pt_fail(EOPNOTSUPP, "there is no RDMA connection manager here: %s", strerror(errno));
	if (rc == 0 && rdma_create_id(s->events, &s->listener, s, RDMA_PS_TCP))
		rc = pt_rdma_fail_call("rdma_create_id");
	if (rc == 0 && rdma_bind_addr(s->listener, (struct sockaddr *)sa))
		rc = pt_rdma_fail_call("binding the address");
	/* Registering takes its time, so not while the first client waits. An address of all devices has none yet. */
	if (rc == 0 && s->listener->verbs && !device_get(s, s->listener->verbs))
		rc = pt_rdma_fail_call("registering the arena (raise the limit of locked memory: ulimit -l)");
	if (rc == 0 && rdma_listen(s->listener, 64))
		rc = pt_rdma_fail_call("rdma_listen");
	if (rc == 0) {
		rc = pt_thread_start(&s->thread, serve, s);
		rc = rc ? pt_fail(rc, "cannot start a thread: %s", strerror(rc)) : 0;
		s->started = rc == 0;
	}
	if (rc < 0) {
		pt_rdma_server_stop(s);
		return rc;
	}
	*ret_server = s;
	return 0;
}

void pt_rdma_server_drop(struct pt_rdma_server *s, const uint8_t token[PT_RDMA_TOKEN])
{
	struct peer *p;

	pthread_mutex_lock(&s->lock);
	/* Its queue is in error from here on; the thread frees it at the event. */
	LIST_FOREACH(p, &s->peers, link)
		if (memcmp(p->token, token, PT_RDMA_TOKEN) == 0)
			rdma_disconnect(p->id);
	pthread_mutex_unlock(&s->lock);
}

int pt_rdma_server_open(struct pt_rdma_server *s, const uint8_t token[PT_RDMA_TOKEN], void *memory, uint64_t bytes, struct pt_rdma_window *ret_window)
{
	struct device *d = NULL;
	struct ibv_mr *mr;
	struct peer *p;

	pthread_mutex_lock(&s->lock);
	/* The newest connection is first. */
	LIST_FOREACH(p, &s->peers, link)
		if (memcmp(p->token, token, PT_RDMA_TOKEN) == 0) {
			d = p->device;
			break;
		}
	pthread_mutex_unlock(&s->lock);
	if (!d)
		return pt_fail(ENOTCONN, "the client has no RDMA connection");
	mr = ibv_reg_mr(d->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		return pt_rdma_fail_call("registering a window (raise the limit of locked memory: ulimit -l)");
	*ret_window = (struct pt_rdma_window){ mr, (uintptr_t)memory, mr->rkey };
	return 0;
}

int pt_rdma_server_close(struct pt_rdma_window *window)
{
	int rc = window->region ? ibv_dereg_mr(window->region) : 0;

	window->region = NULL;
	return rc ? pt_fail(EIO, "RDMA: a window cannot be revoked: %s", strerror(rc)) : 0;
}

const char *pt_rdma_server_device(const struct pt_rdma_server *s, uint32_t *ret_port)
{
	*ret_port = s->listener->verbs ? s->listener->port_num : 0;
	return s->listener->verbs ? ibv_get_device_name(s->listener->verbs->device) : "";
}

void pt_rdma_server_stop(struct pt_rdma_server *s)
{
	uint64_t one = 1;
	struct device *d;
	struct peer *p;
	ssize_t n;

	if (!s)
		return;
	if (s->started) {
		n = write(s->stop_fd, &one, sizeof(one));
		(void)n;
		pthread_join(s->thread, NULL);
	}
	while ((p = LIST_FIRST(&s->peers))) {
		struct rdma_cm_id *id = p->id;

		rdma_disconnect(id);
		part(s, p);
		rdma_destroy_id(id);
	}
	if (s->listener)
		rdma_destroy_id(s->listener);
	while ((d = LIST_FIRST(&s->devices))) {
		LIST_REMOVE(d, link);
		device_free(d);
	}
	if (s->events)
		rdma_destroy_event_channel(s->events);
	close(s->stop_fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

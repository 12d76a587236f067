/* store/remote.c - the session that both remote engines share, and operations on it. */
#include "store/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/remote_int.h"

#define FREE_OPS 64

int pt_remote_reply_bad(void)
{
	return pt_fail(EIO, "the daemon's answer does not fit the question; use the same release of ptio on both sides");
}

void pt_remote_mark(struct pt_remote_op *op, const Ptio__Wire__Reply *p)
{
	if (!op->at)
		return;
	*op->at = (struct pt_meta_at){ .marked = p->mark != NULL };
	if (!p->mark)
		return;
	/* By meta.h: who tells it, and the version. */
	memcpy(op->at->mark.word, p->mark->instance.data, PT_WIRE_INSTANCE);
	op->at->mark.word[2] = p->mark->version;
}

struct pt_remote_op *pt_remote_op_get(struct pt_remote *r, struct pt_done *done)
{
	struct pt_remote_op *op;
	struct pt_buf frame = PT_BUF_INIT;

	pthread_mutex_lock(&r->lock);
	op = r->free_ops;
	if (op) {
		r->free_ops = op->next_free;
		r->free_count--;
	}
	pthread_mutex_unlock(&r->lock);
	if (op)
		frame = op->call.frame;
	else
		op = pt_malloc(sizeof(*op));
	if (!op)
		return NULL;
	memset(op, 0, offsetof(struct pt_remote_op, iov));
	op->call.frame = frame;
	op->remote = r;
	op->done = done;
	op->at = done ? done->at : NULL;
	op->lead = op;
	op->left = 1;
	return op;
}

void pt_remote_op_put(struct pt_remote_op *op)
{
	struct pt_remote *r = op->remote;

	/* A large frame is not kept. */
	if (op->call.frame.cap > 65536)
		pt_buf_done(&op->call.frame);
	pthread_mutex_lock(&r->lock);
	if (r->free_count < FREE_OPS) {
		op->next_free = r->free_ops;
		r->free_ops = op;
		r->free_count++;
		op = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	if (op) {
		pt_buf_done(&op->call.frame);
		free(op);
	}
}

/* One request has ended; with the last one its operation does. */
static void op_done(struct pt_net_call *call, int rc)
{
	struct pt_remote_op *op = (struct pt_remote_op *)call;
	struct pt_remote_op *lead = op->lead;
	struct pt_remote *r = op->remote;
	struct pt_done *done;
	bool last;

	if (op->end)
		rc = op->end(op, rc);
	pthread_mutex_lock(&r->lock);
	if (rc < 0 && lead->rc == 0) {
		lead->rc = rc;
		snprintf(lead->sentence, sizeof(lead->sentence), "%.511s", pt_fail_sentence());
	}
	last = --lead->left == 0;
	pthread_mutex_unlock(&r->lock);
	if (op != lead)
		pt_remote_op_put(op);
	if (!last)
		return;
	done = lead->done;
	rc = lead->rc;
	if (rc < 0)
		pt_fail(-rc, "%s", lead->sentence);
	pt_remote_op_put(lead);
	if (done)
		pt_done_call(done, rc);
}

void pt_remote_fail(struct pt_remote_op *op, int rc)
{
	op_done(&op->call, rc);
}

void pt_remote_send(struct pt_remote_op *op, Ptio__Wire__Request *request)
{
	int rc;

	op->call.done = op_done;
	rc = pt_net_pack(op->remote->client, &op->call, request);
	if (rc < 0)
		op_done(&op->call, rc);
	else
		pt_net_submit(op->remote->client, &op->call);
}

struct pt_remote_op *pt_remote_op_wait(struct pt_remote *r, struct pt_wait *w)
{
	pt_wait_init(w);
	return pt_remote_op_get(r, &w->done);
}

static void remote_free(struct pt_remote *r)
{
	struct pt_remote_op *op;

	pt_remote_rdma_stop(r->rdma);
	pt_net_client_close(r->client);
	pt_remote_stage_free(r->stage);
	while ((op = r->free_ops)) {
		r->free_ops = op->next_free;
		pt_buf_done(&op->call.frame);
		free(op);
	}
	pt_remote_pins_done(r);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->pin_order);
	free(r);
}

struct leave {
	struct pt_net_call call;        /* first */
	struct pt_wait wait;
};

static void leave_done(struct pt_net_call *call, int rc)
{
	pt_done_call(&((struct leave *)call)->wait.done, rc);
}

/* Tells the daemon, so that pins go now and not with their lease. Without a connection there is nobody to tell. */
static void say_goodbye(struct pt_remote *r)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;
	struct leave leave = { .call = { .done = leave_done } };
	struct pt_net_status status;

	pt_net_status(r->client, &status);
	if (!status.connected)
		return;
	q.op_case = PTIO__WIRE__REQUEST__OP_LEAVE;
	q.leave = &nothing;
	pt_wait_init(&leave.wait);
	leave.call.extra_ns = 2000000000 - pt_net_timeout_ns(r->client);
	if (leave.call.extra_ns > 0)
		leave.call.extra_ns = 0;
	if (pt_net_pack(r->client, &leave.call, &q) < 0)
		pt_done_call(&leave.wait.done, -ENOMEM);
	else
		pt_net_submit(r->client, &leave.call);
	pt_wait_finish(&leave.wait);
	pt_buf_done(&leave.call.frame);
}

void pt_remote_unref(struct pt_remote *r)
{
	bool last;

	pthread_mutex_lock(&r->lock);
	last = --r->engines == 0;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	say_goodbye(r);
	remote_free(r);
}

int pt_remote_open(const char *hosts, const struct pt_remote_options *o, struct pt_meta *ret_meta, struct pt_data *ret_data, bool *ret_read_only)
{
	struct pt_secret secret = { .len = 0 };
	struct pt_net_options net = { .hosts = hosts, .secret = &secret, .tls = o->tls, .timeout_ns = o->timeout_ns, .forgotten = pt_remote_pins_restore };
	struct pt_remote *r = pt_calloc(1, sizeof(*r));
	pthread_mutexattr_t recursive;
	int rc = 0;

	if (!r)
		return pt_fail_nomem();
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&r->pin_order, &recursive);
	pthread_mutexattr_destroy(&recursive);
	r->timeout_ns = o->timeout_ns > 0 ? o->timeout_ns : INT64_C(30000000000);
	r->options = o;
	net.ctx = r;
	rc = pt_refmap_init(&r->pins);
	if (rc == 0 && o->secret_file && *o->secret_file)
		rc = pt_secret_load(o->secret_file, &secret);
	if (rc == 0)
		rc = pt_net_client_open(&net, &r->client);
	pt_secret_wipe(&secret);
	if (rc < 0) {
		remote_free(r);
		return rc;
	}
	pt_net_session(r->client, &r->session);
	if (o->transport != PT_REMOTE_TCP) {
		rc = pt_remote_rdma_start(r, o->transport == PT_REMOTE_RDMA, &r->rdma);
		if (rc < 0) {
			remote_free(r);
			return rc;
		}
	}
	if (r->rdma && pt_remote_stage_create(r, &r->stage) < 0)
		r->stage = NULL;
	r->options = NULL;
	r->engines = 2;
	*ret_meta = (struct pt_meta){ .ops = &pt_remote_meta_ops[r->session.meta_durable], .h = r };
	ret_data->ops = &pt_remote_data_ops[r->session.data_durable];
	ret_data->h = r;
	ret_data->read_only = false;
	*ret_read_only = r->session.read_only;
	return 0;
}

void pt_remote_known(const struct pt_data *data, const struct pt_id *store)
{
	if (data->ops == &pt_remote_data_ops[0] || data->ops == &pt_remote_data_ops[1])
		pt_net_store_known(((struct pt_remote *)data->h)->client, store);
}

bool pt_remote_status(const struct pt_data *data, struct pt_net_status *ret_status)
{
	if (data->ops != &pt_remote_data_ops[0] && data->ops != &pt_remote_data_ops[1])
		return false;
	pt_net_status(((struct pt_remote *)data->h)->client, ret_status);
	return true;
}

bool pt_remote_tcp_info(const struct pt_data *data, struct pt_remote_tcp_status *ret_status)
{
	const struct pt_remote *r = data->h;

	if (data->ops != &pt_remote_data_ops[0] && data->ops != &pt_remote_data_ops[1])
		return false;
	ret_status->reads = __atomic_load_n(&r->tcp.reads, __ATOMIC_RELAXED);
	ret_status->bytes_read = __atomic_load_n(&r->tcp.bytes_read, __ATOMIC_RELAXED);
	return true;
}

bool pt_remote_rdma_info(const struct pt_data *data, struct pt_remote_rdma_status *ret_status)
{
	const struct pt_remote *r = data->h;

	if ((data->ops != &pt_remote_data_ops[0] && data->ops != &pt_remote_data_ops[1]) || !r->rdma)
		return false;
	pt_remote_rdma_status(r->rdma, ret_status);
	return true;
}

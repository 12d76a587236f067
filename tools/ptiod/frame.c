/* tools/ptiod/frame.c - bytes from a client, put together to frames, and frames to jobs. On the loop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tools/ptiod/server.h"

#define TURNS 64                                /* of one connection before the next has its turn */

/* 1, or -ENOMEM. */
static int answer(struct conn *c, const Ptio__Wire__Reply *reply)
{
	struct out *o = out_create();

	if (!o)
		return pt_fail_nomem();
	pt_wire_pack(&reply->base, 0, &o->frame);
	if (pt_buf_failed(&o->frame)) {
		out_free(c->server, o);
		return pt_fail_nomem();
	}
	o->bytes = o->frame.len;
	conn_enqueue(c, o);
	return 1;
}

static int answer_lease(struct conn *c, uint64_t id)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	Ptio__Wire__Lease lease = PTIO__WIRE__LEASE__INIT;

	session_renew(c->session);
	reply.id = id;
	reply.result_case = PTIO__WIRE__REPLY__RESULT_LEASE;
	reply.lease = &lease;
	lease.epoch = c->session->epoch;
	return answer(c, &reply);
}

/* A mark that has to be asked for is a worker's job: 0. */
static int answer_mark(struct conn *c, uint64_t id)
{
	Ptio__Wire__Reply reply = PTIO__WIRE__REPLY__INIT;
	struct mark mark;

	if (!mark_known(c->server, &mark))
		return 0;
	reply.id = id;
	mark_put(&mark, &reply);
	return answer(c, &reply);
}

static int answer_again(struct conn *c, const struct pt_buf *frame)
{
	struct out *o = out_create();

	if (!o)
		return pt_fail_nomem();
	pt_buf_append(&o->frame, frame->data, frame->len);
	if (pt_buf_failed(&o->frame)) {
		out_free(c->server, o);
		return pt_fail_nomem();
	}
	o->bytes = o->frame.len;
	conn_enqueue(c, o);
	return 0;
}

/* What the loop answers by itself: 1, or -errno. 0: it is a job. */
static int answer_here(struct conn *c, const Ptio__Wire__Request *q)
{
	const struct pt_buf *frame;
	int rc;

	switch (q->op_case) {
	case PTIO__WIRE__REQUEST__OP_LEAVE:
		c->session->left = true;
		c->goodbye = true;
		return answer_lease(c, q->id);
	case PTIO__WIRE__REQUEST__OP_RENEW:
		return answer_lease(c, q->id);
	case PTIO__WIRE__REQUEST__OP_META_MARK:
		return answer_mark(c, q->id);
	case PTIO__WIRE__REQUEST__OP_META_COMMIT:
	case PTIO__WIRE__REQUEST__OP_REMOVE:
		frame = session_recall(c->session, q->id);
		rc = frame ? answer_again(c, frame) : 0;
		return rc < 0 ? rc : frame != NULL;
	default:
		return 0;
	}
}

static int request(struct conn *c)
{
	struct job *job = job_create(c, JOB_REQUEST);
	int rc = 0;

	if (job)
		job->out = out_create();
	if (!job || !job->out) {
		job_free(c->server, job);
		return pt_fail_nomem();
	}
	pt_wire_arena_init(&job->arena, c->header.message_len, PT_WIRE_ARENA_EXTRA);
	job->request = pt_wire_unpack(&ptio__wire__request__descriptor, c->message, c->header.message_len, &job->arena);
	if (!job->request)
		rc = pt_fail(EPROTO, "it sent a malformed request");
	if (rc == 0)
		rc = pt_wire_request_check(job->request, c->header.body_len);
	if (rc == 0)
		rc = answer_here(c, job->request);
	count(&c->server->counters.requests, 1);
	if (rc) {
		job_free(c->server, job);
		return rc < 0 ? rc : 0;
	}
	job->session = c->session;
	job->body = c->body;
	c->body = NULL;
	job->body_len = c->header.body_len;
	job->cost_in = c->header.message_len + job->body_len;
	if (job->request->op_case == PTIO__WIRE__REQUEST__OP_READ)
		for (size_t i = 0; i < job->request->read->n_len; i++)
			job->cost_out += job->request->read->len[i];
	c->bytes_in += job->cost_in;
	TAILQ_INSERT_TAIL(&c->queue, job, link);
	c->queued++;
	return 0;
}

static int complete(struct conn *c)
{
	int rc = c->state == CONN_OPEN ? request(c) : conn_handshake(c);

	free(c->message);
	free(c->body);
	c->message = c->body = NULL;
	c->header_got = 0;
	c->message_got = c->body_got = 0;
	return rc;
}

static int header_complete(struct conn *c)
{
	int rc = pt_wire_header_decode(c->header_bytes, c->state == CONN_OPEN ? PT_WIRE_MESSAGE_MAX : PT_WIRE_HELLO_MAX, &c->header);

	if (rc == 0 && c->state != CONN_OPEN && c->header.body_len)
		rc = pt_fail(EPROTO, "its greeting is malformed");
	if (rc < 0)
		return rc;
	c->message = pt_malloc(c->header.message_len + 1u);
	if (c->message && c->header.body_len)
		c->body = pt_malloc(c->header.body_len);
	return c->message && (c->body || !c->header.body_len) ? 0 : pt_fail_nomem();
}

/* One call of the socket. 1: there may be more, 0: would block. */
static int turn(struct conn *c)
{
	struct iovec iov[3];
	uint64_t got, part;
	int64_t n;
	int count_iov = 0;

	if (c->header_got < PT_WIRE_HEADER)
		iov[count_iov++] = (struct iovec){ c->header_bytes + c->header_got, PT_WIRE_HEADER - c->header_got };
	if (c->message && c->message_got < c->header.message_len)
		iov[count_iov++] = (struct iovec){ c->message + c->message_got, c->header.message_len - c->message_got };
	if (c->body && c->body_got < c->header.body_len)
		iov[count_iov++] = (struct iovec){ c->body + c->body_got, c->header.body_len - c->body_got };
	n = pt_stream_recv(&c->stream, iov, count_iov);
	if (n == -EAGAIN)
		return 0;
	if (n < 0)
		return (int)n;
	got = (uint64_t)n;
	count(&c->server->counters.bytes_in, got);
	if (c->header_got < PT_WIRE_HEADER) {
		c->header_got += got;
		if (c->header_got < PT_WIRE_HEADER)
			return 1;
		n = header_complete(c);
		if (n < 0)
			return (int)n;
		got = 0;
	}
	part = pt_size_min(got, c->header.message_len - c->message_got);
	c->message_got += part;
	c->body_got += got - part;
	if (c->message_got == c->header.message_len && c->body_got == c->header.body_len) {
		n = complete(c);
		return n < 0 ? (int)n : 1;
	}
	return 1;
}

int conn_read(struct conn *c)
{
	int rc = 1;

	for (int turns = 0; rc > 0 && turns < TURNS && conn_may_read(c); turns++)
		rc = turn(c);
	return rc < 0 ? rc : 0;
}

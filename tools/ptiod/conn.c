/* tools/ptiod/conn.c - one connection: its jobs, its replies, its end. On the loop.
 *
 * Invariants:
 * 1. bytes_in is the sum of cost_in over its jobs; bytes_out that of cost_out over its running jobs and of bytes over its replies on their way.
 * 2. Nothing is read while too much waits: a peer that sends without end, or does not take its replies, only stops itself.
 * 3. A closed connection is freed when none of its jobs is out and its uploads are dropped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "tools/ptiod/server.h"

#define HTTP_NS (5 * NS_PER_S)
#define STALLED_NS (60 * NS_PER_S)              /* a peer that takes nothing of its replies for so long is gone */

struct conn *conn_create(struct server *s, int fd, const char *peer, bool http)
{
	struct conn *c = pt_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->server = s;
	c->http = http;
	c->since_ns = pt_time_boot_ns();
	TAILQ_INIT(&c->queue);
	TAILQ_INIT(&c->outs);
	LIST_INIT(&c->uploads);
	pthread_mutex_init(&c->lock, NULL);
	memcpy(c->peer, peer, strnlen(peer, sizeof(c->peer) - 1));
	if (pt_stream_open(&c->stream, fd, http ? NULL : s->tls) < 0) {
		pthread_mutex_destroy(&c->lock);
		free(c);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&s->conns, c, link);
	if (http)
		s->http_count++;
	else
		s->conn_count++;
	return c;
}

/* What runs one by one, in the order it came: it changes what pins and uploads there are, or asks. */
static bool is_ordered(const struct job *job)
{
	switch (job->request->op_case) {
	case PTIO__WIRE__REQUEST__OP_PIN:
	case PTIO__WIRE__REQUEST__OP_UNPIN:
	case PTIO__WIRE__REQUEST__OP_PINNED:
	case PTIO__WIRE__REQUEST__OP_CREATE:
	case PTIO__WIRE__REQUEST__OP_ABORT: return true;
	default: return false;
	}
}

bool conn_may_read(const struct conn *c)
{
	if (c->state == CONN_HELLO || c->state == CONN_PROOF)
		return !c->goodbye;
	return c->state == CONN_OPEN && !c->goodbye && c->queued + c->running + c->watching < CALLS_MAX + 8 && c->bytes_in <= BYTES_MAX && c->bytes_out <= 2 * BYTES_MAX;
}

static bool is_watch(const struct job *job)
{
	return job->kind == JOB_REQUEST && job->request->op_case == PTIO__WIRE__REQUEST__OP_META_WATCH;
}

static uint32_t *counter_of(struct conn *c, const struct job *job)
{
	return is_watch(job) ? &c->watching : &c->running;
}

/* The first that may run now. */
static struct job *next_job(struct conn *c)
{
	struct job *job;

	if (c->bytes_out > BYTES_MAX)
		return NULL;
	TAILQ_FOREACH(job, &c->queue, link)
		if (is_watch(job) ? c->watching < WATCHES_MAX : c->running < RUNNING_MAX && (!c->ordered || !is_ordered(job)))
			return job;
	return NULL;
}

static void dispatch(struct conn *c)
{
	struct job *job;

	while ((job = next_job(c))) {
		TAILQ_REMOVE(&c->queue, job, link);
		c->queued--;
		++*counter_of(c, job);
		c->bytes_out += job->cost_out;
		if (is_ordered(job)) {
			c->ordered = true;
			c->session->busy++;
		}
		job_submit(c->server, job);
	}
}

/* 1: all is out, 0: the socket is full. */
static int flush(struct conn *c)
{
	struct out *o;
	uint64_t moved = 0;
	int rc = 1;

	while (rc > 0 && (o = TAILQ_FIRST(&c->outs))) {
		rc = out_send(o, &c->stream, &moved);
		if (rc <= 0)
			break;
		TAILQ_REMOVE(&c->outs, o, link);
		c->bytes_out -= o->bytes;
		out_free(c->server, o);
	}
	if (moved) {
		count(&c->server->counters.bytes_out, moved);
		if (c->state == CONN_OPEN)
			c->since_ns = pt_time_boot_ns();
	}
	return rc;
}

void conn_pump(struct conn *c)
{
	uint32_t events = 0;
	int rc = 0;

	if (c->state == CONN_CLOSED)
		return;
	dispatch(c);
	rc = flush(c);
	if (rc < 0) {
		conn_close(c, pt_fail_sentence());
		return;
	}
	if (rc == 1 && c->goodbye) {
		conn_close(c, NULL);
		return;
	}
	dispatch(c);
	if (conn_may_read(c) || c->http) {
		events |= EPOLLIN;
		if (pt_stream_pending(&c->stream))
			c->server->again = true;
	}
	if (!TAILQ_EMPTY(&c->outs) || c->stream.want_write)
		events |= EPOLLOUT;
	conn_events(c, events);
}

void conn_enqueue(struct conn *c, struct out *o)
{
	if (TAILQ_EMPTY(&c->outs) && c->state == CONN_OPEN)
		c->since_ns = pt_time_boot_ns();
	TAILQ_INSERT_TAIL(&c->outs, o, link);
	c->bytes_out += o->bytes;
}

/* ---- the end ---- */

static void drop_queue(struct conn *c)
{
	struct job *job;
	struct out *o;

	while ((job = TAILQ_FIRST(&c->queue))) {
		TAILQ_REMOVE(&c->queue, job, link);
		c->bytes_in -= job->cost_in;
		job_free(c->server, job);
	}
	c->queued = 0;
	while ((o = TAILQ_FIRST(&c->outs))) {
		TAILQ_REMOVE(&c->outs, o, link);
		out_free(c->server, o);
	}
}

/* Its uploads first, by a worker; then its session is free for the next connection. */
static void leave_if_idle(struct conn *c)
{
	struct server *s = c->server;
	struct session *ses = c->session;
	struct conn *next;

	if (c->running || c->watching)
		return;
	if (!LIST_EMPTY(&c->uploads)) {
		struct job *job = job_create(c, JOB_DROP_UPLOADS);

		if (job) {
			c->running++;
			job_submit(s, job);
			return;
		}
		uploads_drop(s, c);
	}
	if (ses && ses->conn == c) {
		next = ses->waiting;
		ses->conn = NULL;
		ses->waiting = NULL;
		if (next)
			conn_unpark(next);
	} else if (ses && ses->waiting == c) {
		ses->waiting = NULL;
	}
	TAILQ_REMOVE(&s->conns, c, link);
	TAILQ_INSERT_TAIL(&s->dead, c, link);
}

void conn_free(struct conn *c)
{
	free(c->message);
	free(c->body);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void conn_close(struct conn *c, const char *why)
{
	struct server *s = c->server;

	if (c->state == CONN_CLOSED)
		return;
	if (c->state == CONN_OPEN)
		pt_log(PT_LOG_INFO, "client %s is gone%s%s", c->peer, why ? ": " : "", why ? why : "");
	else if (c->state != CONN_PARKED && !c->http)
		s->stranger_count--;
	c->state = CONN_CLOSED;
	__atomic_store_n(&c->closed, true, __ATOMIC_RELEASE);
	if (c->http)
		s->http_count--;
	else
		s->conn_count--;
	conn_events(c, 0);
	span_drop(s, c);
	pt_stream_close(&c->stream);
	drop_queue(c);
	watch_drop(s, c);
	leave_if_idle(c);
}

void conn_tick(struct conn *c, int64_t now)
{
	if (c->http ? now >= c->since_ns + HTTP_NS : (c->state == CONN_HELLO || c->state == CONN_PROOF) && now >= c->since_ns + HELLO_NS)
		conn_close(c, NULL);
	else if (c->state == CONN_OPEN && !TAILQ_EMPTY(&c->outs) && now >= c->since_ns + STALLED_NS)
		conn_close(c, "it did not take what it asked for");
}

/* ---- jobs that are back ---- */

static bool is_once(const struct job *job)
{
	return job->request->op_case == PTIO__WIRE__REQUEST__OP_META_COMMIT || job->request->op_case == PTIO__WIRE__REQUEST__OP_REMOVE;
}

void conn_job_back(struct conn *c, struct job *job)
{
	struct server *s = c->server;

	--*counter_of(c, job);
	c->bytes_in -= job->cost_in;
	c->bytes_out -= job->cost_out;
	if (job->kind == JOB_REQUEST) {
		if (is_ordered(job)) {
			c->ordered = false;
			c->session->busy--;
		}
		if (is_once(job) && job->rc == 0)
			session_remember(c->session, job->request->id, &job->out->frame);
		if (c->state == CONN_OPEN && job->rc == 0) {
			conn_enqueue(c, job->out);
			job->out = NULL;
		}
	}
	if (job->rc < 0)
		conn_close(c, "there is no memory for a reply");
	job_free(s, job);
	if (c->state == CONN_CLOSED)
		leave_if_idle(c);
	else
		conn_pump(c);
}

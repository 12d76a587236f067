/* net/client_call.c - the calls of a client: from their submission to their end, but for the bytes (client_conn.c).
 *
 * Invariants:
 * 1. A call is in `queue` (state QUEUED) or in `sent` (SENT), or it is the submitter's (IDLE).
 * 2. `out` and `in_call` are in `sent`, or NULL. A call that ends while its frame is half out takes the connection with it, since its memory goes.
 * 3. sent_calls and sent_bytes are the sums over `sent`, without those that wait aside: one is there at all times, and a call above the limits goes out when there is no
 *    other. Above the daemon's limits only by one call, or by renewals and pins. */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/io.h"
#include "net/client_int.h"

#define AWAY_NS PT_NS_PER_S                     /* what calls wait for a daemon for which others have waited in vain */

static uint64_t cost_of(const struct pt_net_call *call)
{
	return call->frame.len + call->body_len + call->into_len;
}

static int no_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	(void)call, (void)reply;
	return 0;
}

int pt_net_pack(struct pt_net_client *c, struct pt_net_call *call, Ptio__Wire__Request *request)
{
	pthread_mutex_lock(&c->lock);
	call->id = request->id = ++c->next_id;
	pthread_mutex_unlock(&c->lock);
	pt_buf_reset(&call->frame);
	pt_wire_pack(&request->base, call->body_len, &call->frame);
	if (pt_buf_failed(&call->frame)) {
		pt_buf_done(&call->frame);
		return pt_fail_nomem();
	}
	if (call->frame.len - PT_WIRE_HEADER > PT_WIRE_MESSAGE_MAX)
		return pt_fail(E2BIG, "a request of %zu bytes is more than a daemon takes (%u); change less at once", call->frame.len, PT_WIRE_MESSAGE_MAX);
	return 0;
}

void pt_net_submit(struct pt_net_client *c, struct pt_net_call *call)
{
	const bool aside = call->flags & PT_NET_ASIDE;
	bool closing, refused;

	if (!call->reply)
		call->reply = no_reply;
	call->sent_before = false;
	pthread_mutex_lock(&c->lock);
	call->hurried = c->in_vain && !c->status.connected;
	call->attempts = c->attempts;
	call->deadline_ns = pt_time_boot_ns() + call->extra_ns + (call->hurried && c->timeout_ns > AWAY_NS ? AWAY_NS : c->timeout_ns);
	closing = c->closing;
	refused = closing || (aside && (c->aside_stopped || !c->status.connected));
	if (!refused) {
		call->state = PT_NET_QUEUED;
		if (call->flags & PT_NET_FRONT)
			TAILQ_INSERT_HEAD(&c->queue, call, link);
		else
			TAILQ_INSERT_TAIL(&c->queue, call, link);
		++*(aside ? &c->status.asides : &c->status.calls);
	}
	pthread_mutex_unlock(&c->lock);
	if (refused)
		call->done(call, closing ? pt_fail(EIO, "the store is being closed") : pt_fail(EIO, "there is no connection to a ptio daemon"));
	else if (!pthread_equal(pthread_self(), c->thread))
		pt_client_wake(c);
}

/* ---- in and out of sent ---- */

static void link_sent(struct pt_net_client *c, struct pt_net_call *call)
{
	TAILQ_INSERT_TAIL(&c->sent, call, link);
	if (call->flags & PT_NET_ASIDE)
		return;
	c->sent_calls++;
	c->sent_bytes += cost_of(call);
}

static void unlink_sent(struct pt_net_client *c, struct pt_net_call *call)
{
	TAILQ_REMOVE(&c->sent, call, link);
	if (!(call->flags & PT_NET_ASIDE)) {
		c->sent_calls--;
		c->sent_bytes -= cost_of(call);
	}
	if (c->in_call == call)
		c->in_call = NULL;
}

void pt_client_end(struct pt_net_client *c, struct pt_net_call *call, int rc)
{
	unlink_sent(c, call);
	call->state = PT_NET_IDLE;
	call->done(call, rc);
}

struct pt_net_call *pt_client_find(struct pt_net_client *c, uint64_t id)
{
	struct pt_net_call *call;

	TAILQ_FOREACH(call, &c->sent, link)
		if (call->id == id)
			return call;
	return NULL;
}

struct pt_net_call *pt_client_next(struct pt_net_client *c)
{
	struct pt_net_call *call;

	pthread_mutex_lock(&c->lock);
	call = TAILQ_FIRST(&c->queue);
	if (call && !(call->flags & PT_NET_FRONT) && c->sent_calls &&
	    (c->sent_calls >= c->calls_max || c->sent_bytes + cost_of(call) > c->bytes_max))
		call = NULL;
	if (call)
		TAILQ_REMOVE(&c->queue, call, link);
	pthread_mutex_unlock(&c->lock);
	if (!call)
		return NULL;
	call->state = PT_NET_SENT;
	call->sent_ns = pt_time_boot_ns();
	call->sent_before = true;
	link_sent(c, call);
	return call;
}

/* ---- many at once ---- */

/* Those that are in neither list any more. Each end may be told another sentence, so that it is said anew. */
static void end_each(struct pt_net_calls *over, const char *why)
{
	struct pt_net_call *call;

	while ((call = TAILQ_FIRST(over))) {
		TAILQ_REMOVE(over, call, link);
		call->state = PT_NET_IDLE;
		call->done(call, pt_fail(EIO, "%s", why));
	}
}

/* Those that nobody waits for, out of the queue. */
static void take_asides(struct pt_net_client *c, struct pt_net_calls *over)
{
	struct pt_net_call *call, *next;

	pthread_mutex_lock(&c->lock);
	for (call = TAILQ_FIRST(&c->queue); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->flags & PT_NET_ASIDE) {
			TAILQ_REMOVE(&c->queue, call, link);
			TAILQ_INSERT_TAIL(over, call, link);
		}
	}
	pthread_mutex_unlock(&c->lock);
}

void pt_net_aside_stop(struct pt_net_client *c)
{
	pthread_mutex_lock(&c->lock);
	c->aside_stopped = true;
	pthread_mutex_unlock(&c->lock);
	pt_client_wake(c);
}

/* One that is half out goes when the rest is, or with its time. */
void pt_client_end_aside(struct pt_net_client *c)
{
	struct pt_net_calls over = TAILQ_HEAD_INITIALIZER(over);
	struct pt_net_call *call, *next;
	bool stopped;

	pthread_mutex_lock(&c->lock);
	stopped = c->aside_stopped;
	pthread_mutex_unlock(&c->lock);
	if (!stopped)
		return;
	take_asides(c, &over);
	end_each(&over, "the store is being closed");
	for (call = TAILQ_FIRST(&c->sent); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->flags & PT_NET_ASIDE && call != c->out)
			pt_client_end(c, call, pt_fail(EIO, "the store is being closed"));
	}
}

void pt_client_requeue(struct pt_net_client *c, const char *why)
{
	struct pt_net_calls again = TAILQ_HEAD_INITIALIZER(again), over = TAILQ_HEAD_INITIALIZER(over);
	struct pt_net_call *call;

	take_asides(c, &over);
	while ((call = TAILQ_FIRST(&c->sent))) {
		unlink_sent(c, call);
		if (call != &c->renew && (call->flags & (PT_NET_RETRY | PT_NET_ONCE)))
			TAILQ_INSERT_TAIL(&again, call, link);
		else
			TAILQ_INSERT_TAIL(&over, call, link);
	}
	TAILQ_FOREACH(call, &again, link) {
		call->state = PT_NET_QUEUED;
		if (call->restart)
			call->restart(call);
	}
	pthread_mutex_lock(&c->lock);
	TAILQ_CONCAT(&again, &c->queue, link);
	TAILQ_CONCAT(&c->queue, &again, link);
	pthread_mutex_unlock(&c->lock);
	end_each(&over, why);
}

void pt_client_end_unknown(struct pt_net_client *c)
{
	struct pt_net_calls over = TAILQ_HEAD_INITIALIZER(over);
	struct pt_net_call *call, *next;

	pthread_mutex_lock(&c->lock);
	for (call = TAILQ_FIRST(&c->queue); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->sent_before && (call->flags & PT_NET_ONCE)) {
			TAILQ_REMOVE(&c->queue, call, link);
			TAILQ_INSERT_TAIL(&over, call, link);
		}
	}
	pthread_mutex_unlock(&c->lock);
	end_each(&over, "the daemon went away while it made a change, which it may have made or not; look, and repeat it if need be");
}

/* Its time is over; or it was made when the daemon had long been away, and since then no host could be reached. */
static bool is_late_locked(const struct pt_net_client *c, const struct pt_net_call *call, int64_t now)
{
	return call->deadline_ns <= now || (call->hurried && c->attempts > call->attempts + c->addr_count);
}

void pt_client_end_late_queued(struct pt_net_client *c, int64_t now)
{
	struct pt_net_calls over = TAILQ_HEAD_INITIALIZER(over);
	struct pt_net_call *call, *next;
	char why[PT_FAIL_SENTENCE_MAX];

	pthread_mutex_lock(&c->lock);
	for (call = TAILQ_FIRST(&c->queue); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (is_late_locked(c, call, now)) {
			TAILQ_REMOVE(&c->queue, call, link);
			TAILQ_INSERT_TAIL(&over, call, link);
		}
	}
	if (TAILQ_EMPTY(&over)) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (c->state != PT_CONN_UP)
		c->in_vain = true;
	snprintf(why, sizeof(why), "no ptio daemon answered within %lld s (%.500s); see that it runs and can be reached", (long long)(c->timeout_ns / PT_NS_PER_S),
		 *c->last_error ? c->last_error : "it is busy");
	pthread_mutex_unlock(&c->lock);
	end_each(&over, why);
}

bool pt_client_end_late_sent(struct pt_net_client *c, int64_t now)
{
	struct pt_net_call *call, *next;
	bool keep = true;

	for (call = TAILQ_FIRST(&c->sent); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (call->deadline_ns > now)
			continue;
		if (c->out == call) {
			keep = false;
			c->out = NULL;
		}
		pt_client_end(c, call, pt_fail(EIO, "the ptio daemon at %s did not answer within %lld s; see what it is busy with", c->addrs[c->addr].text,
					       (long long)(c->timeout_ns / PT_NS_PER_S)));
	}
	return keep;
}

void pt_client_end_all(struct pt_net_client *c)
{
	struct pt_net_call *call;

	while ((call = TAILQ_FIRST(&c->sent)))
		pt_client_end(c, call, pt_fail(EIO, "the store is being closed"));
	end_each(&c->queue, "the store is being closed");
}

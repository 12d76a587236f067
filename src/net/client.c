/* net/client.c - calls of a client, the thread that owns its connection, and what happens when that is lost.
 *
 * Invariants:
 * 1. A call is in `queue` (state QUEUED) or in `sent` (SENT), or it is the submitter's (IDLE).
 * 2. `out` and `in_call` are in `sent`, or NULL. A call that ends while its frame is half out takes the connection with it, since its memory goes.
 * 3. sent_calls and sent_bytes are the sums over `sent`; above the daemon's limits only by one call, or by renewals and pins. */
#include "net/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "net/client_int.h"

#define TIMEOUT_NS (30 * PT_NS_PER_S)
#define CONNECT_NS (5 * PT_NS_PER_S)
#define BACKOFF_MIN_NS (PT_NS_PER_S / 20)
#define BACKOFF_MAX_NS PT_NS_PER_S
#define AWAY_NS PT_NS_PER_S                     /* what calls wait for a daemon for which others have waited in vain */

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static uint64_t cost_of(const struct pt_net_call *call)
{
	return call->frame.len + call->body_len + call->into_len;
}

static void wake(struct pt_net_client *c)
{
	uint64_t one = 1;
	ssize_t n = write(c->wake_fd, &one, sizeof(one));

	(void)n;                        /* full: it is awake */
}

/* ---- calls ---- */

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
	bool closing;

	if (!call->reply)
		call->reply = no_reply;
	call->sent_before = false;
	pthread_mutex_lock(&c->lock);
	call->hurried = c->in_vain && !c->status.connected;
	call->attempts = c->attempts;
	call->deadline_ns = pt_time_boot_ns() + call->extra_ns + (call->hurried && c->timeout_ns > AWAY_NS ? AWAY_NS : c->timeout_ns);
	closing = c->closing;
	if (!closing) {
		call->state = PT_NET_QUEUED;
		if (call->flags & PT_NET_FRONT)
			TAILQ_INSERT_HEAD(&c->queue, call, link);
		else
			TAILQ_INSERT_TAIL(&c->queue, call, link);
		c->status.calls++;
	}
	pthread_mutex_unlock(&c->lock);
	if (closing)
		call->done(call, pt_fail(EIO, "the store is being closed"));
	else if (!pthread_equal(pthread_self(), c->thread))
		wake(c);
}

static void unlink_sent(struct pt_net_client *c, struct pt_net_call *call)
{
	TAILQ_REMOVE(&c->sent, call, link);
	c->sent_calls--;
	c->sent_bytes -= cost_of(call);
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
	TAILQ_INSERT_TAIL(&c->sent, call, link);
	c->sent_calls++;
	c->sent_bytes += cost_of(call);
	return call;
}

/* ---- renewals ---- */

static int renew_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	struct pt_net_client *c = (struct pt_net_client *)((char *)call - offsetof(struct pt_net_client, renew));

	if (reply->result_case != PTIO__WIRE__REPLY__RESULT_LEASE)
		return pt_fail(EPROTO, "the daemon's answer does not fit the question");
	__atomic_store_n(&c->lease_until_ns, call->sent_ns + c->ttl_ns - c->margin_ns, __ATOMIC_RELEASE);
	if (reply->lease->epoch != c->epoch) {
		c->epoch = reply->lease->epoch;
		if (c->forgotten)
			c->forgotten(c->ctx);
	}
	return 0;
}

static void renew_done(struct pt_net_call *call, int rc)
{
	struct pt_net_client *c = (struct pt_net_client *)((char *)call - offsetof(struct pt_net_client, renew));

	(void)rc;
	c->renew_out = false;
}

/* Also keeps the connection honest: while calls wait, something is to be heard now and then. */
static int64_t renew_at(const struct pt_net_client *c)
{
	int64_t at = c->renewed_ns + c->ttl_ns / 3;

	if (!TAILQ_EMPTY(&c->sent) && c->heard_ns + c->timeout_ns / 4 < at)
		at = c->heard_ns + c->timeout_ns / 4;
	return at;
}

static void renew(struct pt_net_client *c, int64_t now)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Nothing nothing = PTIO__WIRE__NOTHING__INIT;

	if (c->renew_out || now < renew_at(c))
		return;
	c->renew.flags = PT_NET_FRONT;
	c->renew.reply = renew_reply;
	c->renew.done = renew_done;
	q.op_case = PTIO__WIRE__REQUEST__OP_RENEW;
	q.renew = &nothing;
	c->renewed_ns = now;
	if (pt_net_pack(c, &c->renew, &q) < 0)
		return;
	c->renew_out = true;
	pt_net_submit(c, &c->renew);
}

bool pt_net_lease_holds(struct pt_net_client *c)
{
	return pt_time_boot_ns() < __atomic_load_n(&c->lease_until_ns, __ATOMIC_ACQUIRE);
}

/* ---- connections lost and made ---- */

static void note_failure_locked(struct pt_net_client *c, int rc)
{
	c->last_rc = rc;
	snprintf(c->last_error, sizeof(c->last_error), "%s: %s", c->addrs[c->addr].text, pt_fail_sentence());
	c->attempts++;
	c->status.connected = false;
	pthread_cond_broadcast(&c->decided);
}

/* Begins to look the names up. Not before there was a session: whoever opens the client waits for its first answers. */
static void look_up(struct pt_net_client *c)
{
	bool established;

	pthread_mutex_lock(&c->lock);
	established = c->established;
	pthread_mutex_unlock(&c->lock);
	if (established && !c->resolve && pt_resolve_start(c->hosts, c->wake_fd, &c->resolve) < 0)
		c->resolve = NULL;
}

/* What was sent goes back to the queue's front, in order, if it may be sent again; else it ends. The thread's sentence says why. */
static void lost(struct pt_net_client *c, int rc)
{
	struct pt_net_calls again = TAILQ_HEAD_INITIALIZER(again), over = TAILQ_HEAD_INITIALIZER(over);
	bool was_up = c->state == PT_CONN_UP;
	struct pt_net_call *call;
	char why[512];

	snprintf(why, sizeof(why), "%s", pt_fail_sentence());
	pthread_mutex_lock(&c->lock);
	note_failure_locked(c, rc);
	pthread_mutex_unlock(&c->lock);
	pt_conn_close(c);
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
	while ((call = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, call, link);
		call->state = PT_NET_IDLE;
		call->done(call, pt_fail(EIO, "%s", why));
	}
	/* The same daemon first, at once; then each in turn; a pause after a round. In each round the names are looked up anew: a daemon may be back elsewhere. */
	if (was_up) {
		c->round = 0;
		c->retry_at_ns = pt_time_boot_ns();
		look_up(c);
		return;
	}
	c->round++;
	c->addr = (c->addr + 1) % c->addr_count;
	if (c->addr == 0)
		look_up(c);
	c->retry_at_ns = pt_time_boot_ns();
	if (c->round >= c->addr_count) {
		int64_t pause = BACKOFF_MIN_NS << (c->round / c->addr_count < 6 ? c->round / c->addr_count : 6);

		c->retry_at_ns += pause < BACKOFF_MAX_NS ? pause : BACKOFF_MAX_NS;
	}
}

/* What a look-up that has ended found is used from now on. An attempt at an address that is none any more ends. */
static void take_addresses(struct pt_net_client *c)
{
	struct pt_addr *addrs = NULL, *old = c->addrs;
	size_t count = 0, at = 0;
	bool gone;

	if (!c->resolve || !pt_resolve_take(c->resolve, &addrs, &count))
		return;
	c->resolve = NULL;
	if (!addrs)
		return;
	while (at < count && (addrs[at].len != old[c->addr].len || memcmp(&addrs[at].sa, &old[c->addr].sa, addrs[at].len) != 0))
		at++;
	gone = at == count;
	pthread_mutex_lock(&c->lock);
	c->addrs = addrs;
	c->addr_count = count;
	c->addr = gone ? 0 : at;
	pthread_mutex_unlock(&c->lock);
	free(old);
	if (gone && c->state != PT_CONN_DOWN && c->state != PT_CONN_UP) {
		lost(c, pt_fail(EIO, "its name leads to another address now"));
		c->addr = 0;
	}
	if (gone && c->state == PT_CONN_DOWN)
		c->retry_at_ns = pt_time_boot_ns();
}

/* Calls that may have been done already, when nobody remembers whether they were. */
static void end_unknown(struct pt_net_client *c)
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
	while ((call = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, call, link);
		call->state = PT_NET_IDLE;
		call->done(call, pt_fail(EIO, "the daemon went away while it made a change, which it may have made or not; look, and repeat it if need be"));
	}
}

void pt_client_up(struct pt_net_client *c, bool known, bool resumed)
{
	bool first;

	c->round = 0;
	if (!resumed)
		end_unknown(c);
	pthread_mutex_lock(&c->lock);
	first = !c->established;
	c->established = true;
	c->in_vain = false;
	c->status.connected = true;
	c->status.connects++;
	snprintf(c->status.peer, sizeof(c->status.peer), "%s", c->addrs[c->addr].text);
	pthread_cond_broadcast(&c->decided);
	pthread_mutex_unlock(&c->lock);
	if (!known && !first && c->forgotten)
		c->forgotten(c->ctx);
}

static void start(struct pt_net_client *c)
{
	int rc = pt_addr_connect(&c->addrs[c->addr], &c->stream.fd);

	if (rc < 0) {
		lost(c, rc);
		return;
	}
	c->state = PT_CONN_CONNECTING;
	c->state_since_ns = pt_time_boot_ns();
}

/* Who asks although the daemon is known to be away is worth an attempt before its time. */
static int64_t retry_at(struct pt_net_client *c)
{
	bool asked;

	pthread_mutex_lock(&c->lock);
	asked = c->in_vain && !TAILQ_EMPTY(&c->queue);
	pthread_mutex_unlock(&c->lock);
	return asked ? sooner(c->retry_at_ns, c->state_since_ns + BACKOFF_MIN_NS) : c->retry_at_ns;
}

/* ---- time ---- */

/* Its time is over; or it was made when the daemon had long been away, and since then no host could be reached. */
static bool is_late_locked(const struct pt_net_client *c, const struct pt_net_call *call, int64_t now)
{
	return call->deadline_ns <= now || (call->hurried && c->attempts > call->attempts + c->addr_count);
}

static void end_late_queued(struct pt_net_client *c, int64_t now)
{
	struct pt_net_calls over = TAILQ_HEAD_INITIALIZER(over);
	struct pt_net_call *call, *next;
	char why[600];

	pthread_mutex_lock(&c->lock);
	for (call = TAILQ_FIRST(&c->queue); call; call = next) {
		next = TAILQ_NEXT(call, link);
		if (is_late_locked(c, call, now)) {
			TAILQ_REMOVE(&c->queue, call, link);
			TAILQ_INSERT_TAIL(&over, call, link);
		}
	}
	if (!TAILQ_EMPTY(&over) && c->state != PT_CONN_UP)
		c->in_vain = true;
	snprintf(why, sizeof(why), "%.500s", c->last_error);
	pthread_mutex_unlock(&c->lock);
	while ((call = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, call, link);
		call->state = PT_NET_IDLE;
		call->done(call, pt_fail(EIO, "no ptio daemon answered within %lld s (%s); see that it runs and can be reached",
					 (long long)(c->timeout_ns / PT_NS_PER_S), *why ? why : "it is busy"));
	}
}

/* Ends sent calls whose time is over. False: the connection must go too. */
static bool end_late_sent(struct pt_net_client *c, int64_t now)
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

/* When something is to be looked at again, if nothing happens before. */
static int64_t next_time(struct pt_net_client *c, int64_t now)
{
	int64_t at = now + 60 * PT_NS_PER_S;
	struct pt_net_call *call;

	switch (c->state) {
	case PT_CONN_DOWN: at = sooner(at, retry_at(c)); break;
	case PT_CONN_CONNECTING:
	case PT_CONN_HELLO:
	case PT_CONN_PROOF: at = sooner(at, c->state_since_ns + sooner(CONNECT_NS, c->timeout_ns)); break;
	case PT_CONN_UP:
		at = sooner(at, c->renew_out ? at : renew_at(c));
		if (!TAILQ_EMPTY(&c->sent))
			at = sooner(at, c->heard_ns + c->timeout_ns / 2);
	}
	TAILQ_FOREACH(call, &c->sent, link)
		at = sooner(at, call->deadline_ns);
	pthread_mutex_lock(&c->lock);
	TAILQ_FOREACH(call, &c->queue, link)
		at = sooner(at, call->deadline_ns);
	pthread_mutex_unlock(&c->lock);
	return at;
}

static void look_at_time(struct pt_net_client *c, int64_t now)
{
	int64_t silent_since;

	end_late_queued(c, now);
	if (!end_late_sent(c, now)) {
		lost(c, pt_fail(EIO, "the daemon does not take what is sent to it"));
		return;
	}
	if (c->state == PT_CONN_DOWN && now >= retry_at(c)) {
		start(c);
	} else if (c->state != PT_CONN_DOWN && c->state != PT_CONN_UP && now >= c->state_since_ns + sooner(CONNECT_NS, c->timeout_ns)) {
		lost(c, pt_fail(EIO, "no answer"));
	} else if (c->state == PT_CONN_UP) {
		if (!TAILQ_EMPTY(&c->sent)) {
			silent_since = c->heard_ns;
			if (TAILQ_FIRST(&c->sent)->sent_ns > silent_since)
				silent_since = TAILQ_FIRST(&c->sent)->sent_ns;
			if (now >= silent_since + c->timeout_ns / 2) {
				lost(c, pt_fail(EIO, "the daemon fell silent"));
				return;
			}
		}
		renew(c, now);
	}
}

/* ---- the owner ---- */

static void move_bytes(struct pt_net_client *c, short events)
{
	int rc = 0;

	if (c->state == PT_CONN_CONNECTING) {
		if (!(events & (POLLOUT | POLLERR | POLLHUP)))
			return;
		rc = pt_conn_connected(c);
	}
	if (rc == 0 && c->state >= PT_CONN_HELLO)
		rc = pt_conn_out(c);
	if (rc == 0 && c->state >= PT_CONN_HELLO && ((events & (POLLIN | POLLERR | POLLHUP)) || c->stream.ssl))
		rc = pt_conn_in(c);
	if (rc == 0 && c->state == PT_CONN_UP)
		rc = pt_conn_out(c);
	if (rc < 0)
		lost(c, rc);
}

static short wanted(struct pt_net_client *c)
{
	bool more;

	if (c->state == PT_CONN_DOWN)
		return 0;
	if (c->state == PT_CONN_CONNECTING)
		return POLLOUT;
	more = c->hello.len || c->out || c->stream.want_write;
	return (short)(POLLIN | (more ? POLLOUT : 0));
}

static void *owner(void *arg)
{
	struct pt_net_client *c = arg;
	struct pollfd fds[2] = { { .fd = c->wake_fd, .events = POLLIN } };
	uint64_t count;
	bool closing = false;

	while (!closing) {
		int64_t now = pt_time_boot_ns(), wait;

		take_addresses(c);
		look_at_time(c, now);
		move_bytes(c, 0);
		wait = next_time(c, now) - pt_time_boot_ns();
		fds[1] = (struct pollfd){ .fd = c->state == PT_CONN_DOWN ? -1 : c->stream.fd, .events = wanted(c) };
		if (c->state >= PT_CONN_HELLO && pt_stream_pending(&c->stream))
			wait = 0;
		if (ppoll(fds, 2, &(struct timespec){ wait > 0 ? wait / PT_NS_PER_S : 0, wait > 0 ? wait % PT_NS_PER_S : 0 }, NULL) > 0 && fds[0].revents) {
			ssize_t n = read(c->wake_fd, &count, sizeof(count));

			(void)n;
		}
		if (c->state != PT_CONN_DOWN && fds[1].revents)
			move_bytes(c, fds[1].revents);
		pthread_mutex_lock(&c->lock);
		closing = c->closing;
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

/* What is left when the owner has ended. */
static void end_all(struct pt_net_client *c)
{
	struct pt_net_call *call;

	while ((call = TAILQ_FIRST(&c->sent)))
		pt_client_end(c, call, pt_fail(EIO, "the store is being closed"));
	while ((call = TAILQ_FIRST(&c->queue))) {
		TAILQ_REMOVE(&c->queue, call, link);
		call->state = PT_NET_IDLE;
		call->done(call, pt_fail(EIO, "the store is being closed"));
	}
}

static void client_free(struct pt_net_client *c)
{
	pt_conn_close(c);
	pt_buf_done(&c->hello);
	pt_buf_done(&c->renew.frame);
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pt_tls_free(c->tls);
	pt_resolve_drop(c->resolve);
	free(c->addrs);
	free(c->hosts);
	pt_secret_wipe(&c->secret);
	pthread_cond_destroy(&c->decided);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* The thread takes no signals: they are the program's, and a broken connection is no reason for SIGPIPE. */
static int start_owner(struct pt_net_client *c)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&c->thread, NULL, owner, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? pt_fail(rc, "cannot start a thread: %s", strerror(rc)) : 0;
}

/* The first session, or the reason why there is none with any of the hosts. */
static int wait_decided(struct pt_net_client *c)
{
	int64_t until = pt_time_boot_ns() + c->timeout_ns;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->established && c->attempts < c->addr_count && pt_time_boot_ns() < until) {
		struct timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec++;
		pthread_cond_timedwait(&c->decided, &c->lock, &t);
	}
	if (!c->established)
		rc = pt_fail(c->last_rc == -EACCES ? EACCES : EIO, "cannot use a ptio daemon: %s", *c->last_error ? c->last_error : "no answer");
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int pt_net_client_open(const struct pt_net_options *o, struct pt_net_client **ret_client)
{
	struct pt_net_client *c = pt_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return pt_fail_nomem();
	TAILQ_INIT(&c->queue);
	TAILQ_INIT(&c->sent);
	c->stream.fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->decided, NULL);
	c->timeout_ns = o->timeout_ns > 0 ? o->timeout_ns : TIMEOUT_NS;
	c->forgotten = o->forgotten;
	c->ctx = o->ctx;
	if (o->secret)
		c->secret = *o->secret;
	c->status.transport = o->tls ? "tcp+tls" : "tcp";
	c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = c->wake_fd < 0 ? pt_fail(errno, "cannot make an eventfd: %s", strerror(errno)) : 0;
	if (rc == 0)
		rc = pt_id_random(&c->session_id);
	if (rc == 0 && o->tls)
		rc = pt_tls_create(&c->secret, false, &c->tls);
	if (rc == 0 && !(c->hosts = pt_strdup(o->hosts)))
		rc = pt_fail_nomem();
	if (rc == 0)
		rc = pt_addr_resolve(o->hosts, &c->addrs, &c->addr_count);
	if (rc == 0)
		rc = start_owner(c);
	if (rc < 0) {
		client_free(c);
		return rc;
	}
	rc = wait_decided(c);
	if (rc < 0) {
		pt_net_client_close(c);
		return rc;
	}
	*ret_client = c;
	return 0;
}

void pt_net_client_close(struct pt_net_client *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_mutex_unlock(&c->lock);
	wake(c);
	pthread_join(c->thread, NULL);
	end_all(c);
	client_free(c);
}

void pt_net_session(struct pt_net_client *c, struct pt_net_session *ret_session)
{
	pthread_mutex_lock(&c->lock);
	*ret_session = c->session;
	pthread_mutex_unlock(&c->lock);
}

void pt_net_status(struct pt_net_client *c, struct pt_net_status *ret_status)
{
	pthread_mutex_lock(&c->lock);
	*ret_status = c->status;
	snprintf(ret_status->last_error, sizeof(ret_status->last_error), "%.299s", c->last_error);
	pthread_mutex_unlock(&c->lock);
}

int64_t pt_net_timeout_ns(const struct pt_net_client *c)
{
	return c->timeout_ns;
}

/* net/client.c - a client: its opening and its end, and the thread that owns its connection, which waits for bytes and for the times at which something is due. */
#include "net/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/thread.h"
#include "net/client_int.h"

#define TIMEOUT_NS (30 * PT_NS_PER_S)
#define CONNECT_NS (5 * PT_NS_PER_S)

void pt_client_wake(struct pt_net_client *c)
{
	uint64_t one = 1;
	ssize_t n = write(c->wake_fd, &one, sizeof(one));

	(void)n;                        /* full: it is awake */
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

/* ---- time ---- */

/* When something is to be looked at again, if nothing happens before. */
static int64_t next_time(struct pt_net_client *c, int64_t now)
{
	int64_t at = now + 60 * PT_NS_PER_S;
	struct pt_net_call *call;

	switch (c->state) {
	case PT_CONN_DOWN: at = pt_client_sooner(at, pt_client_retry_at(c)); break;
	case PT_CONN_CONNECTING:
	case PT_CONN_HELLO:
	case PT_CONN_PROOF: at = pt_client_sooner(at, c->state_since_ns + pt_client_sooner(CONNECT_NS, c->timeout_ns)); break;
	case PT_CONN_UP:
		at = pt_client_sooner(at, c->renew_out ? at : renew_at(c));
		if (!TAILQ_EMPTY(&c->sent))
			at = pt_client_sooner(at, c->heard_ns + c->timeout_ns / 2);
	}
	TAILQ_FOREACH(call, &c->sent, link)
		at = pt_client_sooner(at, call->deadline_ns);
	pthread_mutex_lock(&c->lock);
	TAILQ_FOREACH(call, &c->queue, link)
		at = pt_client_sooner(at, call->deadline_ns);
	pthread_mutex_unlock(&c->lock);
	return at;
}

static void look_at_time(struct pt_net_client *c, int64_t now)
{
	int64_t silent_since;

	pt_client_end_late_queued(c, now);
	if (!pt_client_end_late_sent(c, now)) {
		pt_client_lost(c, pt_fail(EIO, "the daemon does not take what is sent to it"));
		return;
	}
	if (c->state == PT_CONN_DOWN && now >= pt_client_retry_at(c)) {
		pt_client_connect(c);
	} else if (c->state != PT_CONN_DOWN && c->state != PT_CONN_UP && now >= c->state_since_ns + pt_client_sooner(CONNECT_NS, c->timeout_ns)) {
		pt_client_lost(c, pt_fail(EIO, "no answer"));
	} else if (c->state == PT_CONN_UP) {
		if (!TAILQ_EMPTY(&c->sent)) {
			silent_since = c->heard_ns;
			if (TAILQ_FIRST(&c->sent)->sent_ns > silent_since)
				silent_since = TAILQ_FIRST(&c->sent)->sent_ns;
			if (now >= silent_since + c->timeout_ns / 2) {
				pt_client_lost(c, pt_fail(EIO, "the daemon fell silent"));
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
		pt_client_lost(c, rc);
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

		pt_client_take_addresses(c);
		pt_client_end_aside(c);
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
	int rc;

	rc = pt_thread_start(&c->thread, owner, c);
	return rc ? pt_fail(rc, "cannot start a thread: %s", strerror(rc)) : 0;
}

/* The first session, or the reason why there is none with any of the hosts. */
static int wait_decided(struct pt_net_client *c)
{
	int64_t until = pt_time_boot_ns() + c->timeout_ns;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->established && c->attempts < c->addr_count && pt_time_boot_ns() < until) {
		struct timespec t = pt_time_until(INT64_C(1000000000));

		pthread_cond_timedwait(&c->decided, &c->lock, &t);
	}
	if (!c->established)
		rc = pt_fail(c->last_rc == -EACCES ? EACCES : EIO, "cannot use a ptio daemon: %s", *c->last_error ? c->last_error : "no answer");
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int pt_net_client_open(const struct pt_net_options *o, struct pt_net_client **ret_client)
{
	pthread_condattr_t monotonic;
	struct pt_net_client *c = pt_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return pt_fail_nomem();
	TAILQ_INIT(&c->queue);
	TAILQ_INIT(&c->sent);
	c->stream.fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->decided, &monotonic);
	pthread_condattr_destroy(&monotonic);
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
	pt_client_wake(c);
	pthread_join(c->thread, NULL);
	pt_client_end_all(c);
	client_free(c);
}

void pt_net_store_known(struct pt_net_client *c, const struct pt_id *store)
{
	pthread_mutex_lock(&c->lock);
	if (pt_id_is_zero(&c->store_id))
		c->store_id = *store;
	pthread_mutex_unlock(&c->lock);
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
	ret_status->bytes_in = __atomic_load_n(&c->bytes_in, __ATOMIC_RELAXED);
	ret_status->bytes_out = __atomic_load_n(&c->bytes_out, __ATOMIC_RELAXED);
	snprintf(ret_status->last_error, sizeof(ret_status->last_error), "%.299s", c->last_error);
	pthread_mutex_unlock(&c->lock);
}

int64_t pt_net_timeout_ns(const struct pt_net_client *c)
{
	return c->timeout_ns;
}

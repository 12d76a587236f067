/* tools/ptiod/loop.c - the loop: sockets, signals, times, and what workers give back. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <fcntl.h>

#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "tools/ptiod/server.h"

#define ACCEPTS 32                              /* a round */
#define HTTP_MAX 64u
#define EVENTS 64
#define TICK_NS (NS_PER_S / 2)

void conn_events(struct conn *c, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = c };
	struct server *s = c->server;

	if (c->stream.fd < 0 || (c->registered && c->state != CONN_CLOSED && c->events == events))
		return;
	if (c->state == CONN_CLOSED) {
		if (c->registered)
			epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->stream.fd, NULL);
		c->registered = false;
		return;
	}
	if (epoll_ctl(s->epoll_fd, c->registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->stream.fd, &ev) == 0) {
		c->registered = true;
		c->events = events;
	}
}

static int watch_fd(struct server *s, int fd, void *tag)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = tag };

	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return pt_fail(errno, "cannot wait for a descriptor: %s", strerror(errno));
	return 0;
}

static void say_listening(int fd, const char *what)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	char text[PT_ADDR_TEXT_MAX];

	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return;
	pt_addr_format((struct sockaddr *)&sa, text, sizeof(text));
	pt_log(PT_LOG_INFO, "listening on %s (%s)", text, what);
}

static int listen_on(struct server *s, const char *where)
{
	struct pt_addr *addrs;
	size_t count;
	int rc = pt_addr_resolve(where, &addrs, &count);

	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (s->options->insecure && !pt_addr_is_loopback(&addrs[i]))
			rc = pt_fail(EINVAL, "without a secret (--insecure) only loopback addresses may be listened on, and %s is none; give --secret-file", where);
		else if (s->listen_count == sizeof(s->listen_fds) / sizeof(s->listen_fds[0]))
			rc = pt_fail(EINVAL, "too many addresses to listen on");
		if (rc == 0)
			rc = pt_addr_listen(&addrs[i], &s->listen_fds[s->listen_count]);
		if (rc == 0)
			rc = watch_fd(s, s->listen_fds[s->listen_count], &s->listen_fds[s->listen_count]);
		if (rc == 0)
			s->listen_count++;
	}
	free(addrs);
	return rc;
}

static int listen_http(struct server *s)
{
	struct pt_addr *addrs;
	size_t count;
	int rc = pt_addr_resolve(s->options->http, &addrs, &count);

	if (rc < 0)
		return rc;
	rc = pt_addr_listen(&addrs[0], &s->http_fd);
	if (rc == 0)
		rc = watch_fd(s, s->http_fd, &s->http_fd);
	free(addrs);
	return rc;
}

/* By RDMA at the first address, with the port that it has now. */
static int start_span(struct server *s)
{
	struct pt_addr addr = { .len = sizeof(addr.sa) };
	uint16_t port;
	int rc;

	if (strcmp(s->options->rdma, "no") == 0)
		return 0;
	if (getsockname(s->listen_fds[0], (struct sockaddr *)&addr.sa, &addr.len) < 0)
		return pt_fail(errno, "cannot tell the address that is listened on: %s", strerror(errno));
	port = ntohs(addr.sa.ss_family == AF_INET ? ((struct sockaddr_in *)&addr.sa)->sin_port : ((struct sockaddr_in6 *)&addr.sa)->sin6_port);
	rc = span_start(s, &addr, port);
	if (rc == 0)
		span_say(s, &addr);
	else if (strcmp(s->options->rdma, "auto") == 0 && !s->options->rdma_device && !s->options->rdma_port && !s->options->rdma_gid)
		rc = 0;
	return rc;
}

int server_listen(struct server *s)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signal_fd < 0)
		return pt_fail(errno, "cannot make a signalfd: %s", strerror(errno));
	rc = watch_fd(s, s->signal_fd, &s->signal_fd);
	if (rc == 0)
		rc = watch_fd(s, s->wake_fd, &s->wake_fd);
	for (size_t i = 0; rc == 0 && i < s->options->listen_count; i++)
		rc = listen_on(s, s->options->listen[i]);
	if (rc == 0 && s->options->http)
		rc = listen_http(s);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->listen_count; i++)
		say_listening(s->listen_fds[i], s->tls ? "tcp+tls" : "tcp");
	rc = start_span(s);
	if (rc < 0)
		return rc;
	if (s->http_fd >= 0)
		say_listening(s->http_fd, "http");
	return 0;
}

/* The stranger that has been here longest makes room: proofs take milliseconds. */
static void drop_stranger(struct server *s)
{
	struct conn *c;

	TAILQ_FOREACH(c, &s->conns, link)
		if (!c->http && (c->state == CONN_HELLO || c->state == CONN_PROOF)) {
			count(&s->counters.refused, 1);
			conn_close(c, NULL);
			return;
		}
}

static void accept_some(struct server *s, int listen_fd, bool http)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		char peer[PT_ADDR_TEXT_MAX];
		struct conn *c;
		int fd = accept4(listen_fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		count(&s->counters.connections, 1);
		if (http ? s->http_count >= HTTP_MAX : false) {
			count(&s->counters.refused, 1);
			close(fd);
			continue;
		}
		pt_addr_tune(fd);
		pt_addr_format((struct sockaddr *)&sa, peer, sizeof(peer));
		c = conn_create(s, fd, peer, http);
		if (!c)
			continue;
		if (!http && ++s->stranger_count > STRANGERS_MAX)
			drop_stranger(s);
		conn_pump(c);
	}
}

static void take_back(struct server *s)
{
	struct jobs back = TAILQ_HEAD_INITIALIZER(back);
	struct job *job;
	uint64_t n;
	ssize_t got = read(s->wake_fd, &n, sizeof(n));

	(void)got;
	pthread_mutex_lock(&s->back_lock);
	TAILQ_CONCAT(&back, &s->back, link);
	pthread_mutex_unlock(&s->back_lock);
	while ((job = TAILQ_FIRST(&back))) {
		TAILQ_REMOVE(&back, job, link);
		s->jobs_out--;
		if (job->conn)
			conn_job_back(job->conn, job);
		else
			job_free(s, job);
	}
}

static void stop_listening(struct server *s)
{
	for (size_t i = 0; i < s->listen_count; i++)
		close(s->listen_fds[i]);
	s->listen_count = 0;
}

static void reopen_log(struct server *s)
{
	int fd;

	if (!s->options->log_file)
		return;
	fd = open(s->options->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0) {
		pt_log(PT_LOG_ERROR, "cannot open the log %s anew: %s", s->options->log_file, strerror(errno));
		return;
	}
	dup2(fd, STDERR_FILENO);
	close(fd);
	pt_log(PT_LOG_INFO, "log opened anew");
}

/* True: stop at once. */
static bool take_signals(struct server *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGHUP) {
			reopen_log(s);
			continue;
		}
		if (s->draining)
			return true;
		pt_log(PT_LOG_INFO, "stopping: waiting for %u requests and for uploads, at most %lld s", s->jobs_out, (long long)(s->options->drain_ns / NS_PER_S));
		notify("STOPPING=1");
		__atomic_store_n(&s->draining, true, __ATOMIC_RELAXED);
		s->drain_until_ns = pt_time_boot_ns() + s->options->drain_ns;
		stop_listening(s);
	}
	return false;
}

/* Nothing that a client would miss is under way. */
static bool is_drained(struct server *s)
{
	struct conn *c;
	bool busy = false;

	TAILQ_FOREACH(c, &s->conns, link) {
		pthread_mutex_lock(&c->lock);
		busy = busy || c->upload_count || c->queued || c->running || !TAILQ_EMPTY(&c->outs);
		pthread_mutex_unlock(&c->lock);
	}
	return !busy;
}

static void free_dead(struct server *s)
{
	struct conn *c;

	while ((c = TAILQ_FIRST(&s->dead))) {
		TAILQ_REMOVE(&s->dead, c, link);
		conn_free(c);
	}
}

static void serve_conn(struct conn *c, uint32_t events)
{
	int rc = 0;

	if (c->state == CONN_CLOSED)
		return;
	if (c->http) {
		http_read(c);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		if (conn_may_read(c))
			rc = conn_read(c);
		else if (events & (EPOLLHUP | EPOLLERR))
			rc = pt_fail(ECONNRESET, "it closed the connection");
	}
	if (rc < 0)
		conn_close(c, pt_fail_sentence());
	else
		conn_pump(c);
}

static void serve_pending(struct server *s)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->state != CONN_CLOSED && pt_stream_pending(&c->stream) && conn_may_read(c)) {
			serve_conn(c, EPOLLIN);
			/* Serving one may end others, so the walk begins again with the next round. */
			s->again = true;
			return;
		}
	}
}

static int64_t tick(struct server *s, int64_t now)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->state != CONN_CLOSED)
			conn_tick(c, now);
	}
	return sessions_tick(s, now);
}

static void serve_event(struct server *s, const struct epoll_event *ev, bool *stop)
{
	void *tag = ev->data.ptr;

	if (tag == &s->wake_fd)
		take_back(s);
	else if (tag == &s->signal_fd)
		*stop = take_signals(s) || *stop;
	else if (tag == &s->http_fd)
		accept_some(s, s->http_fd, true);
	else if ((int *)tag >= s->listen_fds && (int *)tag < s->listen_fds + 16)
		accept_some(s, *(int *)tag, false);
	else
		serve_conn(tag, ev->events);
}

static void close_all(struct server *s)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&s->conns); c; c = next) {
		next = TAILQ_NEXT(c, link);
		conn_close(c, NULL);
	}
	free_dead(s);
}

int server_run(struct server *s)
{
	struct epoll_event events[EVENTS];
	int64_t next = 0, ticked = 0;
	bool stop = false;
	int n;

	while (!stop) {
		int64_t now = pt_time_boot_ns(), wait = next - now;

		if (wait > TICK_NS || s->draining)
			wait = s->draining ? NS_PER_S / 50 : TICK_NS;
		if (wait < 0 || s->again)
			wait = 0;
		n = epoll_wait(s->epoll_fd, events, EVENTS, (int)((wait + 999999) / 1000000));
		for (int i = 0; i < n; i++)
			serve_event(s, &events[i], &stop);
		if (s->again) {
			s->again = false;
			serve_pending(s);
		}
		now = pt_time_boot_ns();
		if (now >= next || now >= ticked + TICK_NS) {
			next = tick(s, now);
			ticked = now;
		}
		free_dead(s);
		if (s->draining && (now >= s->drain_until_ns || is_drained(s)))
			stop = true;
	}
	/* Jobs that are out come back before what they hold is freed. */
	close_all(s);
	while (s->jobs_out) {
		n = epoll_wait(s->epoll_fd, events, EVENTS, 100);
		for (int i = 0; i < n; i++)
			if (events[i].data.ptr == &s->wake_fd)
				take_back(s);
		free_dead(s);
	}
	stop_listening(s);
	pt_log(PT_LOG_INFO, "stopped");
	return 0;
}

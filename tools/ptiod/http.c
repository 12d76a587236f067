/* tools/ptiod/http.c - GET /metrics and /healthz, one answer a connection. On the loop. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "store/snapshots.h"
#include "tools/ptiod/server.h"

#define REQUEST_MAX 4096u

static void metric(struct pt_buf *b, const char *name, const char *type, const char *help, uint64_t value)
{
	pt_buf_printf(b, "# HELP ptiod_%s %s\n# TYPE ptiod_%s %s\nptiod_%s %llu\n", name, help, name, type, name, (unsigned long long)value);
}

void http_metrics(struct server *s, struct pt_buf *b)
{
	uint64_t pins = 0, uploads = 0, queued = 0, watches = 0;
	struct pt_snapshots_counters snapshots;
	struct session *ses;
	struct conn *c;

	LIST_FOREACH(ses, &s->sessions, link)
		pins += session_pin_count(ses);
	TAILQ_FOREACH(c, &s->conns, link) {
		pthread_mutex_lock(&c->lock);
		uploads += c->upload_count;
		pthread_mutex_unlock(&c->lock);
		queued += c->queued;
		watches += c->watching;
	}
	metric(b, "clients", "gauge", "Clients that are connected.", s->conn_count - s->stranger_count);
	metric(b, "sessions", "gauge", "Sessions, with those whose client is away.", s->session_count);
	metric(b, "pins", "gauge", "Objects that clients hold.", pins);
	metric(b, "uploads", "gauge", "Uploads that are open.", uploads);
	metric(b, "requests_waiting", "gauge", "Requests that wait for a worker.", queued);
	metric(b, "requests_running", "gauge", "Requests that workers or the watcher have.", s->jobs_out);
	metric(b, "watches", "gauge", "Requests that wait for the index to change.", watches);
	metric(b, "connections_total", "counter", "Connections that were accepted.", counted(&s->counters.connections));
	metric(b, "refused_total", "counter", "Connections that were closed for want of room.", counted(&s->counters.refused));
	metric(b, "auth_failures_total", "counter", "Peers that did not know the secret.", counted(&s->counters.auth_failures));
	metric(b, "requests_total", "counter", "Requests of clients.", counted(&s->counters.requests));
	metric(b, "received_bytes_total", "counter", "Bytes received from clients.", counted(&s->counters.bytes_in));
	metric(b, "sent_bytes_total", "counter", "Bytes sent to clients.", counted(&s->counters.bytes_out));
	metric(b, "read_bytes_total", "counter", "Bytes of objects that clients read.", counted(&s->counters.read_bytes));
	metric(b, "written_bytes_total", "counter", "Bytes of objects that clients wrote.", counted(&s->counters.written_bytes));
	metric(b, "pins_expired_total", "counter", "Pins whose lease ran out.", counted(&s->counters.pins_expired));
	metric(b, "collections_total", "counter", "Passes that collected garbage.", counted(&s->counters.collections));
	metric(b, "collected_objects_total", "counter", "Objects that they removed.", counted(&s->counters.collected_objects));
	pt_snapshots_count(s->snapshots, &snapshots);
	metric(b, "index_snapshots_total", "counter", "Copies of the index that were made.", snapshots.made);
	metric(b, "index_snapshots_given_up_total", "counter", "Those that were not made for want of room, or failed.", snapshots.given_up);
	metric(b, "collected_bytes_total", "counter", "Bytes of superseded ones.", counted(&s->counters.collected_bytes));
	if (s->span) {
		uint64_t bytes, free_bytes, objects, loads;

		span_metrics(s, &bytes, &free_bytes, &objects, &loads);
		metric(b, "arena_bytes", "gauge", "Bytes of the arena that is read by RDMA.", bytes);
		metric(b, "arena_free_bytes", "gauge", "Bytes of it that hold nothing.", free_bytes);
		metric(b, "arena_objects", "gauge", "Objects in it.", objects);
		metric(b, "arena_loads_total", "counter", "Objects that were loaded into it.", loads);
	}
	if (s->slab) {
		uint64_t bytes, free_bytes, open;

		slab_metrics(s, &bytes, &free_bytes, &open);
		metric(b, "upload_memory_bytes", "gauge", "Bytes of memory for uploads by RDMA.", bytes);
		metric(b, "upload_memory_free_bytes", "gauge", "Bytes of it that no upload holds.", free_bytes);
		metric(b, "upload_windows", "gauge", "Pieces of it that clients may write to.", open);
		metric(b, "landed_bytes_total", "counter", "Bytes of objects that clients wrote by RDMA.", counted(&s->counters.landed_bytes));
	}
	metric(b, "durable", "gauge", "1 if what is stored survives the daemon.", s->store->durable);
}

static void respond(struct conn *c, const char *status, const char *type, struct pt_buf *body)
{
	struct out *o = out_create();

	if (!o) {
		conn_close(c, NULL);
		return;
	}
	pt_buf_printf(&o->frame, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", status, type, body->len);
	pt_buf_append(&o->frame, body->data, body->len);
	if (pt_buf_failed(&o->frame) || pt_buf_failed(body)) {
		out_free(c->server, o);
		conn_close(c, NULL);
		return;
	}
	o->bytes = o->frame.len;
	c->goodbye = true;
	conn_enqueue(c, o);
}

static bool is_get(const uint8_t *request, const char *path)
{
	size_t n = strlen(path);

	return memcmp(request, "GET ", 4) == 0 && strncmp((const char *)request + 4, path, n) == 0 && (request[4 + n] == ' ' || request[4 + n] == '?');
}

static void serve(struct conn *c)
{
	struct server *s = c->server;
	struct pt_buf body = PT_BUF_INIT;

	count(&s->counters.http_requests, 1);
	if (is_get(c->message, "/metrics")) {
		http_metrics(s, &body);
		respond(c, "200 OK", "text/plain; version=0.0.4", &body);
	} else if (is_get(c->message, "/healthz")) {
		pt_buf_append_str(&body, s->draining ? "stopping\n" : "ok\n");
		respond(c, s->draining ? "503 Service Unavailable" : "200 OK", "text/plain", &body);
	} else {
		pt_buf_append_str(&body, "there are /metrics and /healthz\n");
		respond(c, "404 Not Found", "text/plain", &body);
	}
	pt_buf_done(&body);
}

void http_read(struct conn *c)
{
	struct iovec iov;
	int64_t n;

	if (c->goodbye) {
		conn_pump(c);
		return;
	}
	if (!c->message) {
		c->message = pt_calloc(1, REQUEST_MAX + 1);
		if (!c->message) {
			conn_close(c, NULL);
			return;
		}
	}
	iov = (struct iovec){ c->message + c->message_got, REQUEST_MAX - c->message_got };
	n = pt_stream_recv(&c->stream, &iov, 1);
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		conn_close(c, NULL);
		return;
	}
	c->message_got += (uint64_t)n;
	if (memmem(c->message, c->message_got, "\r\n\r\n", 4))
		serve(c);
	else if (c->message_got == REQUEST_MAX)
		conn_close(c, NULL);
	conn_pump(c);
}

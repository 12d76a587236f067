/* store/remote_rdma.c - the RDMA connection to a daemon. Reads of its objects: where each object is comes over TCP once, and is kept while its lease holds; the bytes
 * come without the daemon's doing.
 *
 * One thread owns the connection and the places; others queue reads to it. What cannot go this way (no connection, an object that does not fit the
 * daemon's arena, a lease that ran out while it was read) goes by TCP, so nothing is ever wrong, only slower. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/size.h"
#include "net/addr.h"
#include "net/rdma.h"
#include "net/rdma_costs.h"
#include "net/rdma_device.h"
#include "store/remote_int.h"

#define CONNECT_NS INT64_C(3000000000)
#define PAUSE_NS INT64_C(2000000000)            /* between attempts to connect */
#define READ_NS INT64_C(5000000000)             /* without an end a read, or a write, goes by TCP instead */
#define PUTS_MAX 32u                            /* of one call */
#define MEASURE_NS INT64_C(20000000)            /* on each connection, for its prices: no more is begun then */
#define PLACES_MAX 65536u

struct place {
	struct pt_refmap_node node;             /* first */
	uint64_t off, bytes;                    /* in the daemon's span */
	int64_t until_ns;                       /* trusted until then */
};

struct read {
	TAILQ_ENTRY(read) link;
	const struct pt_data_range *ranges;
	size_t count;
	struct pt_done *done;
	bool locate;                            /* only finds the places; fails instead of going by TCP */
};

struct region {
	LIST_ENTRY(region) link;
	uint8_t *addr;
	uint64_t len;
	void *mr;                               /* with the connection that is; NULL: not yet */
	uint32_t key;
};

struct pt_remote_rdma {
	struct pt_remote *remote;
	struct pt_rdma_where where;             /* the device that was named, or else */
	struct sockaddr_storage bind_to;        /* the address that was */
	bool has_bind;
	bool costs_told;
	struct pt_rdma_costs costs;             /* if so */
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;                   /* queue, puts, stopping, regions, status */
	pthread_cond_t cond;
	TAILQ_HEAD(, read) queue;
	STAILQ_HEAD(puts, pt_remote_put) puts;
	bool stopping;
	LIST_HEAD(, region) regions;
	struct pt_remote_rdma_status status;
	/* The thread's. */
	struct pt_rdma *rdma;
	struct pt_rdma_counters counted;        /* of it, that are in status already */
	uint64_t connection;                    /* of the session that it belongs to */
	int64_t retry_at_ns;
	struct pt_refmap places;
	struct pt_rdma_range *ranges;
	size_t range_room;
};

/* ---- places ---- */

static void places_clear(struct pt_remote_rdma *p)
{
	struct pt_refmap_node *n;

	while (p->places.buckets && (n = pt_refmap_any(&p->places))) {
		pt_refmap_remove(&p->places, n);
		free(n);
	}
}

static int locate_reply(struct pt_net_call *call, const Ptio__Wire__Reply *reply)
{
	struct pt_remote_op *op = (struct pt_remote_op *)call;
	struct place *place = op->ret_a;
	const Ptio__Wire__Places *l = reply->places;

	if (reply->result_case != PTIO__WIRE__REPLY__RESULT_PLACES || l->n_off != 1)
		return pt_remote_reply_bad();
	place->off = l->off[0];
	place->bytes = l->bytes[0];
	place->until_ns = call->sent_ns + (int64_t)(l->lease_ttl_ns - l->lease_margin_ns);
	return 0;
}

/* Asks the daemon, which loads the object if need be. */
static int locate(struct pt_remote_rdma *p, const struct pt_blob_ref *ref, struct place *place)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Blobs blobs = PTIO__WIRE__BLOBS__INIT;
	uint8_t blob[PT_WIRE_BLOB];
	struct pt_wait w;
	struct pt_remote_op *op = pt_remote_op_wait(p->remote, &w);

	if (!op)
		return pt_fail_nomem();
	op->ret_a = place;
	op->call.flags = PT_NET_RETRY;
	op->call.reply = locate_reply;
	pt_wire_blob_put(blob, (uint8_t)ref->kind, &ref->id);
	blobs.blobs = (ProtobufCBinaryData){ sizeof(blob), blob };
	q.op_case = PTIO__WIRE__REQUEST__OP_LOCATE;
	q.locate = &blobs;
	pt_remote_send(op, &q);
	return pt_wait_finish(&w);
}

static int place_get(struct pt_remote_rdma *p, const struct pt_blob_ref *ref, struct place **ret_place)
{
	struct place *place = (struct place *)pt_refmap_find(&p->places, ref);
	int rc;

	if (place && pt_time_boot_ns() + READ_NS < place->until_ns) {
		*ret_place = place;
		return 0;
	}
	if (!place) {
		if (p->places.count >= PLACES_MAX)
			return pt_fail(EAGAIN, "more places than are kept");
		place = pt_calloc(1, sizeof(*place));
		if (!place)
			return pt_fail_nomem();
		place->node.ref = *ref;
		pt_refmap_insert(&p->places, &place->node);
	}
	rc = locate(p, ref, place);
	if (rc < 0) {
		pt_refmap_remove(&p->places, &place->node);
		free(place);
		return rc;
	}
	*ret_place = place;
	return 0;
}

/* ---- the connection ---- */

/* Adds what the connection has done since; under the lock. */
static void count_locked(struct pt_remote_rdma *p)
{
	struct pt_rdma_counters now;

	if (!p->rdma)
		return;
	pt_rdma_counters(p->rdma, &now);
	p->status.requests += now.requests - p->counted.requests;
	p->status.bytes_read += now.bytes_read - p->counted.bytes_read;
	p->status.bytes_asked += now.bytes_asked - p->counted.bytes_asked;
	p->status.bounced_bytes += now.bounced_bytes - p->counted.bounced_bytes;
	p->counted = now;
}

static void disconnect(struct pt_remote_rdma *p)
{
	struct region *region;

	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link) {
		pt_rdma_unregister(region->mr);
		region->mr = NULL;
		region->key = 0;
	}
	count_locked(p);
	p->status.connected = false;
	pthread_mutex_unlock(&p->lock);
	pt_rdma_close(p->rdma);
	p->rdma = NULL;
	memset(&p->counted, 0, sizeof(p->counted));
	places_clear(p);
}

/* What reads are planned by from now on: as told, else as measured, else as usual. */
static int set_prices(struct pt_remote_rdma *p, const char **ret_from)
{
	struct pt_rdma_times times;
	struct pt_rdma_costs costs;
	int rc;

	if (p->costs_told) {
		pt_rdma_costs_set(p->rdma, &p->costs);
		*ret_from = "told";
		return 0;
	}
	rc = pt_rdma_measure(p->rdma, MEASURE_NS, &times);
	pt_rdma_counters(p->rdma, &p->counted);         /* nobody asked for these reads */
	if (rc < 0)
		return rc;
	pt_rdma_costs_from_times(&times, &costs);
	pt_rdma_costs_set(p->rdma, &costs);
	*ret_from = times.one_ns && times.many_ns && times.large_ns ? "measured" : "usual";
	return 0;
}

/* The address of the device to use, if one was chosen. */
static int bind_address(const struct pt_remote_rdma *p, int family, struct sockaddr_storage *ret_sa, bool *ret_bound)
{
	socklen_t len;

	*ret_bound = true;
	if (*p->where.device)
		return pt_rdma_where_address(&p->where, family, ret_sa, &len);
	*ret_sa = p->bind_to;
	*ret_bound = p->has_bind;
	return 0;
}

/* What was named is what is used: an address may be that of two GIDs, or of two devices. */
static int check_end(const struct pt_remote_rdma *p, const struct pt_rdma_end *end)
{
	const struct pt_rdma_where *w = &p->where;

	if (!*w->device || (strcmp(w->device, end->device) == 0 && (!w->port || w->port == end->port) && (w->gid < 0 || end->gid < 0 || w->gid == end->gid)))
		return 0;
	return pt_fail(ENODEV, "the connection manager uses GID %d of %s, port %u, for the address of what was named (%s); name that, or change its addresses", end->gid,
		       end->device, end->port, w->device);
}

/* A connection for the session as it is now. */
static int connected(struct pt_remote_rdma *p)
{
	struct pt_net_session session;
	struct sockaddr_storage sa;
	struct sockaddr_storage from;
	struct pt_rdma_costs costs;
	struct pt_rdma_end end;
	struct region *region;
	const char *costs_from;
	bool bound = false;
	int rc;

	pt_net_session(p->remote->client, &session);
	if (p->rdma && p->connection == session.connection)
		return 0;
	if (p->rdma)
		disconnect(p);
	if (pt_time_boot_ns() < p->retry_at_ns)
		return -EAGAIN;
	p->retry_at_ns = pt_time_boot_ns() + PAUSE_NS;
	if (!session.rdma_port)
		return pt_fail(EOPNOTSUPP, "the daemon does not serve by RDMA");
	sa = session.rdma_peer;
	rc = bind_address(p, sa.ss_family, &from, &bound);
	if (rc == 0)
		rc = pt_rdma_connect((struct sockaddr *)&sa, sizeof(sa), bound ? (struct sockaddr *)&from : NULL, session.rdma_token, CONNECT_NS, &p->rdma);
	if (rc < 0)
		return rc;
	p->connection = session.connection;
	pt_rdma_end(p->rdma, &end);
	rc = check_end(p, &end);
	if (rc == 0)
		rc = set_prices(p, &costs_from);
	if (rc < 0) {
		disconnect(p);
		return rc;
	}
	pt_rdma_costs(p->rdma, &costs);
	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link)
		if (pt_rdma_register(p->rdma, region->addr, region->len, &region->mr, &region->key) < 0)
			region->key = 0;
	p->status.connected = true;
	p->status.connects++;
	p->status.request_ns = costs.request_ns;
	p->status.byte_ps = costs.byte_ps;
	p->status.copy_ps = costs.copy_ps;
	p->status.costs_from = costs_from;
	snprintf(p->status.device, sizeof(p->status.device), "%s", end.device);
	p->status.port = end.port;
	p->status.gid = end.gid;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static bool holds(const uint8_t *addr, uint64_t bytes, const void *buf, uint64_t len)
{
	return (const uint8_t *)buf >= addr && len <= bytes && (uint64_t)((const uint8_t *)buf - addr) <= bytes - len;
}

/* The region that was found last, for the many ranges of one read. Its memory is the caller's of the read, so it stays registered. */
struct found {
	const uint8_t *addr;
	uint64_t len;
	uint32_t key;
};

/* The key of the registered region that holds these bytes; 0: none does. */
static uint32_t key_of(struct pt_remote_rdma *p, const void *buf, uint64_t len, struct found *found)
{
	const struct region *region;

	if (found->key && holds(found->addr, found->len, buf, len))
		return found->key;
	found->key = 0;
	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link)
		if (region->key && holds(region->addr, region->len, buf, len)) {
			*found = (struct found){ region->addr, region->len, region->key };
			break;
		}
	pthread_mutex_unlock(&p->lock);
	return found->key;
}

/* ---- reads ---- */

static int prepare(struct pt_remote_rdma *p, const struct read *rd, int64_t *ret_until_ns)
{
	struct found found = { .key = 0 };
	struct place *place = NULL;
	int64_t until = INT64_MAX;
	int rc;

	if (rd->count > p->range_room) {
		struct pt_rdma_range *grown = pt_reallocarray(p->ranges, rd->count, sizeof(*grown));

		if (!grown)
			return pt_fail_nomem();
		p->ranges = grown;
		p->range_room = rd->count;
	}
	for (size_t i = 0; i < rd->count; i++) {
		const struct pt_data_range *r = &rd->ranges[i];

		if (!place || !pt_blob_ref_equal(&place->node.ref, &r->blob)) {
			rc = place_get(p, &r->blob, &place);
			if (rc < 0)
				return rc;
			until = place->until_ns < until ? place->until_ns : until;
		}
		if (r->len > place->bytes || r->off > place->bytes - r->len || place->off > pt_rdma_span(p->rdma) ||
		    place->bytes > pt_rdma_span(p->rdma) - place->off)
			return pt_fail(EIO, "bytes beyond the end of an object");
		p->ranges[i] = (struct pt_rdma_range){ place->off + r->off, r->len, r->buf, r->len ? key_of(p, r->buf, r->len, &found) : 0 };
	}
	*ret_until_ns = until;
	return 0;
}

static int read_now(struct pt_remote_rdma *p, const struct read *rd)
{
	int64_t until = 0;
	int rc = connected(p);

	if (rc < 0)
		return rc;
	if (p->places.count >= PLACES_MAX)
		places_clear(p);
	if (rd->count > UINT32_MAX)
		return -E2BIG;
	rc = prepare(p, rd, &until);
	if (rc < 0 || rd->locate)
		return rc;
	rc = pt_rdma_read(p->rdma, p->ranges, (uint32_t)rd->count, pt_time_boot_ns() + READ_NS);
	if (rc < 0) {
		disconnect(p);
		return rc;
	}
	/* The memory was the object's for certain only while the lease held. */
	return pt_time_boot_ns() < until ? 0 : -ESTALE;
}

/* ---- writes ---- */

static int write_now(struct pt_remote_rdma *p, struct pt_remote_put *const *puts, uint32_t count)
{
	struct pt_rdma_put rdma[PUTS_MAX];
	struct found found = { .key = 0 };
	int rc = connected(p);

	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		rdma[i] = (struct pt_rdma_put){ puts[i]->buf, puts[i]->len, key_of(p, puts[i]->buf, puts[i]->len, &found), puts[i]->addr, puts[i]->key };
		if (!rdma[i].key || puts[i]->connection != p->connection)
			rc = pt_fail(ENOTCONN, "the RDMA connection that a window was given on is no more");
	}
	if (rc == 0) {
		rc = pt_rdma_write(p->rdma, rdma, count, pt_time_boot_ns() + READ_NS);
		/* Before the buffers are anybody else's. */
		if (rc < 0)
			disconnect(p);
	}
	return rc;
}

/* Those that were queued, all at once; those of a connection that is gone fail together with others, and go by TCP. */
static void write_all(struct pt_remote_rdma *p, struct puts *queued)
{
	struct pt_remote_put *puts[PUTS_MAX], *put;
	uint64_t bytes;
	uint32_t count;
	int rc;

	while (!STAILQ_EMPTY(queued)) {
		bytes = 0;
		for (count = 0; count < PUTS_MAX && (put = STAILQ_FIRST(queued)); count++) {
			STAILQ_REMOVE_HEAD(queued, link);
			puts[count] = put;
			bytes += put->len;
		}
		rc = write_now(p, puts, count);
		pthread_mutex_lock(&p->lock);
		if (rc == 0) {
			p->status.writes += count;
			p->status.bytes_written += bytes;
		} else {
			p->status.write_fallbacks += count;
		}
		pthread_mutex_unlock(&p->lock);
		for (uint32_t i = 0; i < count; i++)
			puts[i]->done(puts[i], rc);
	}
}

void pt_remote_rdma_put(struct pt_remote_rdma *p, struct pt_remote_put *put)
{
	pthread_mutex_lock(&p->lock);
	STAILQ_INSERT_TAIL(&p->puts, put, link);
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

static void *own(void *arg)
{
	struct pt_remote_rdma *p = arg;
	struct read *rd;
	struct puts puts;
	bool stop;
	int rc;

	for (;;) {
		STAILQ_INIT(&puts);
		pthread_mutex_lock(&p->lock);
		while (!(rd = TAILQ_FIRST(&p->queue)) && STAILQ_EMPTY(&p->puts) && !p->stopping)
			pthread_cond_wait(&p->cond, &p->lock);
		if (rd)
			TAILQ_REMOVE(&p->queue, rd, link);
		STAILQ_CONCAT(&puts, &p->puts);
		stop = !rd && STAILQ_EMPTY(&puts);
		pthread_mutex_unlock(&p->lock);
		if (stop)
			return NULL;
		write_all(p, &puts);
		if (!rd)
			continue;
		rc = read_now(p, rd);
		pthread_mutex_lock(&p->lock);
		if (!rd->locate && rc == 0)
			p->status.reads++;
		else if (!rd->locate)
			p->status.fallbacks++;
		count_locked(p);
		pthread_mutex_unlock(&p->lock);
		if (rc == 0 || rd->locate)
			pt_done_call(rd->done, rc);
		else
			pt_remote_read_tcp(p->remote, rd->ranges, rd->count, rd->done);
		free(rd);
	}
}

static void submit(struct pt_remote_rdma *p, const struct pt_data_range *ranges, size_t count, bool locate, struct pt_done *done)
{
	struct read *rd = pt_malloc(sizeof(*rd));

	if (!rd) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	*rd = (struct read){ .ranges = ranges, .count = count, .done = done, .locate = locate };
	pthread_mutex_lock(&p->lock);
	TAILQ_INSERT_TAIL(&p->queue, rd, link);
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

void pt_remote_rdma_read(struct pt_remote_rdma *p, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	submit(p, ranges, count, false, done);
}

bool pt_remote_rdma_direct(struct pt_remote_rdma *p, const struct pt_blob_ref *ref)
{
	struct pt_data_range range = { .blob = *ref };
	struct pt_wait w;

	pt_wait_init(&w);
	submit(p, &range, 1, true, &w.done);
	return pt_wait_finish(&w) == 0;
}

int pt_remote_rdma_register(struct pt_remote_rdma *p, void *addr, uint64_t len)
{
	struct region *region = pt_calloc(1, sizeof(*region));

	if (!region)
		return pt_fail_nomem();
	region->addr = addr;
	region->len = len;
	pthread_mutex_lock(&p->lock);
	/* Not having it is only slower. */
	if (p->status.connected && pt_rdma_register(p->rdma, addr, len, &region->mr, &region->key) < 0)
		region->key = 0;
	LIST_INSERT_HEAD(&p->regions, region, link);
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void pt_remote_rdma_unregister(struct pt_remote_rdma *p, void *addr)
{
	struct region *region;

	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link)
		if (region->addr == addr) {
			LIST_REMOVE(region, link);
			pt_rdma_unregister(region->mr);
			free(region);
			break;
		}
	pthread_mutex_unlock(&p->lock);
}

void pt_remote_rdma_status(struct pt_remote_rdma *p, struct pt_remote_rdma_status *ret_status)
{
	pthread_mutex_lock(&p->lock);
	*ret_status = p->status;
	pthread_mutex_unlock(&p->lock);
}

/* ---- start and stop ---- */

/* must: until the timeout. */
static int connect_first(struct pt_remote_rdma *p, bool must)
{
	int64_t until = pt_time_boot_ns() + p->remote->timeout_ns, left;
	int rc;

	for (;;) {
		rc = connected(p);
		if (rc == 0 || !must || rc == -EOPNOTSUPP || rc == -EACCES || rc == -ENODEV || p->retry_at_ns >= until)
			return rc;
		left = p->retry_at_ns - pt_time_boot_ns();
		if (left > 0)
			nanosleep(&(struct timespec){ left / 1000000000, left % 1000000000 }, NULL);
	}
}

int pt_remote_rdma_start(struct pt_remote *r, bool must, struct pt_remote_rdma **ret_rdma)
{
	struct pt_remote_rdma *p = pt_calloc(1, sizeof(*p));
	const struct pt_remote_options *o = r->options;
	char bind_text[PT_ADDR_TEXT_MAX];
	struct in6_addr six;
	struct pt_addr *addrs;
	socklen_t len;
	size_t count;
	int rc;

	if (!p)
		return pt_fail_nomem();
	p->remote = r;
	TAILQ_INIT(&p->queue);
	STAILQ_INIT(&p->puts);
	LIST_INIT(&p->regions);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->cond, NULL);
	rc = pt_refmap_init(&p->places);
	if (rc == 0)
		rc = pt_rdma_where_parse(o->rdma_device, o->rdma_port, o->rdma_gid, &p->where);
	/* What is named wrongly is said now, also where there may be no need of it. */
	if (rc == 0 && *p->where.device)
		rc = pt_rdma_where_address(&p->where, r->session.rdma_peer.ss_family, &p->bind_to, &len);
	else if (rc == 0 && o->rdma_bind && *o->rdma_bind) {
		/* It has no port, so that IPv6 needs no brackets. */
		snprintf(bind_text, sizeof(bind_text), inet_pton(AF_INET6, o->rdma_bind, &six) == 1 ? "[%s]" : "%s", o->rdma_bind);
		rc = pt_addr_resolve(bind_text, &addrs, &count);
		if (rc == 0) {
			p->bind_to = addrs[0].sa;
			if (p->bind_to.ss_family == AF_INET)
				((struct sockaddr_in *)&p->bind_to)->sin_port = 0;
			else
				((struct sockaddr_in6 *)&p->bind_to)->sin6_port = 0;
			p->has_bind = true;
			free(addrs);
		}
	}
	if (rc == 0 && o->rdma_costs && *o->rdma_costs) {
		rc = pt_rdma_costs_parse(o->rdma_costs, &p->costs);
		p->costs_told = true;
	}
	if (rc < 0) {
		pt_remote_rdma_stop(p);
		return rc;
	}
	rc = connect_first(p, must);
	if (rc < 0 && rc != -ENODEV && !must) {
		bool later = r->session.rdma_port && rc != -EOPNOTSUPP;

		if (!later) {
			pt_remote_rdma_stop(p);
			*ret_rdma = NULL;
			return 0;
		}
		rc = 0;
	}
	if (rc == 0) {
		rc = pthread_create(&p->thread, NULL, own, p);
		rc = rc ? pt_fail(rc, "cannot start a thread: %s", strerror(rc)) : 0;
		p->started = rc == 0;
	}
	if (rc < 0) {
		pt_remote_rdma_stop(p);
		return rc;
	}
	*ret_rdma = p;
	return 0;
}

void pt_remote_rdma_stop(struct pt_remote_rdma *p)
{
	struct region *region;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
	if (p->started)
		pthread_join(p->thread, NULL);
	disconnect(p);
	while ((region = LIST_FIRST(&p->regions))) {
		LIST_REMOVE(region, link);
		free(region);
	}
	pt_refmap_done(&p->places);
	free(p->ranges);
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

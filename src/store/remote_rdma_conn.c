/* store/remote_rdma_conn.c - the RDMA connection to a daemon: which device and address it goes by, what its reads cost, and the memory that is registered with it.
 *
 * There is one for each session of the TCP connection, which gives the token for it. An attempt that failed is not made again at once. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "net/addr.h"
#include "store/remote_rdma_int.h"

#define CONNECT_NS INT64_C(3000000000)
#define PAUSE_NS INT64_C(2000000000)            /* between attempts to connect */
#define MEASURE_NS INT64_C(20000000)            /* on each connection, for its prices: no more is begun then */

/* ---- what was named ---- */

/* The address to connect from. */
static int bind_parse(struct pt_remote_rdma *p, const char *text)
{
	char bind_text[PT_ADDR_TEXT_MAX];
	struct pt_addr *addrs;
	struct in6_addr six;
	size_t count;
	int rc;

	/* It has no port, so that IPv6 needs no brackets. */
	snprintf(bind_text, sizeof(bind_text), inet_pton(AF_INET6, text, &six) == 1 ? "[%s]" : "%s", text);
	rc = pt_addr_resolve(bind_text, &addrs, &count);
	if (rc < 0)
		return rc;
	p->bind_to = addrs[0].sa;
	if (p->bind_to.ss_family == AF_INET)
		((struct sockaddr_in *)&p->bind_to)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&p->bind_to)->sin6_port = 0;
	p->has_bind = true;
	free(addrs);
	return 0;
}

int pt_remote_rdma_options(struct pt_remote_rdma *p, const struct pt_remote_options *o)
{
	socklen_t len;
	int rc = pt_rdma_where_parse(o->rdma_device, o->rdma_port, o->rdma_gid, &p->where);

	if (rc == 0 && *p->where.device)
		rc = pt_rdma_where_address(&p->where, p->remote->session.rdma_peer.ss_family, &p->bind_to, &len);
	else if (rc == 0 && o->rdma_bind && *o->rdma_bind)
		rc = bind_parse(p, o->rdma_bind);
	if (rc == 0 && o->rdma_costs && *o->rdma_costs) {
		rc = pt_rdma_costs_parse(o->rdma_costs, &p->costs);
		p->costs_told = true;
	}
	return rc;
}

/* ---- made and lost ---- */

void pt_remote_rdma_count_locked(struct pt_remote_rdma *p)
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

void pt_remote_rdma_disconnect(struct pt_remote_rdma *p)
{
	struct pt_remote_region *region;

	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link) {
		pt_rdma_unregister(region->mr);
		region->mr = NULL;
		region->key = 0;
	}
	pt_remote_rdma_count_locked(p);
	p->status.connected = false;
	pthread_mutex_unlock(&p->lock);
	pt_rdma_close(p->rdma);
	p->rdma = NULL;
	memset(&p->counted, 0, sizeof(p->counted));
	pt_remote_places_clear(p);
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

int pt_remote_rdma_connected(struct pt_remote_rdma *p)
{
	struct pt_net_session session;
	struct sockaddr_storage sa;
	struct sockaddr_storage from;
	struct pt_rdma_costs costs;
	struct pt_rdma_end end;
	struct pt_remote_region *region;
	const char *costs_from;
	bool bound = false;
	int rc;

	pt_net_session(p->remote->client, &session);
	if (p->rdma && p->connection == session.connection)
		return 0;
	if (p->rdma)
		pt_remote_rdma_disconnect(p);
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
		pt_remote_rdma_disconnect(p);
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

/* ---- registered memory ---- */

static bool holds(const uint8_t *addr, uint64_t bytes, const void *buf, uint64_t len)
{
	return (const uint8_t *)buf >= addr && len <= bytes && (uint64_t)((const uint8_t *)buf - addr) <= bytes - len;
}

uint32_t pt_remote_rdma_key_of(struct pt_remote_rdma *p, const void *buf, uint64_t len, struct pt_remote_found *found)
{
	const struct pt_remote_region *region;

	if (found->key && holds(found->addr, found->len, buf, len))
		return found->key;
	found->key = 0;
	pthread_mutex_lock(&p->lock);
	LIST_FOREACH(region, &p->regions, link)
		if (region->key && holds(region->addr, region->len, buf, len)) {
			*found = (struct pt_remote_found){ region->addr, region->len, region->key };
			break;
		}
	pthread_mutex_unlock(&p->lock);
	return found->key;
}

int pt_remote_rdma_register(struct pt_remote_rdma *p, void *addr, uint64_t len)
{
	struct pt_remote_region *region = pt_calloc(1, sizeof(*region));

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
	struct pt_remote_region *region;

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

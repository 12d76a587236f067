/* net/rdma_device.c - see rdma_device.h. */
#include "config.h"

#include "net/rdma_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static int number(const char *what, const char *text, unsigned long max, unsigned long *ret_n)
{
	char *end;

	errno = 0;
	*ret_n = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || *ret_n > max)
		return pt_fail(EINVAL, "%s is a number up to %lu, not \"%s\"", what, max, text);
	return 0;
}

int pt_rdma_where_parse(const char *device, const char *port, const char *gid, struct pt_rdma_where *ret_where)
{
	struct pt_rdma_where w = { .gid = -1 };
	unsigned long n;
	int rc = 0;

	if ((!device || !*device) && ((port && *port) || (gid && *gid)))
		return pt_fail(EINVAL, "an RDMA port or GID is one of a device; name the device, too");
	if (device && strlen(device) >= sizeof(w.device))
		return pt_fail(EINVAL, "\"%.80s\" is too long for the name of an RDMA device", device);
	if (device)
		snprintf(w.device, sizeof(w.device), "%s", device);
	if (port && *port) {
		rc = number("an RDMA port", port, 255, &n);
		if (rc == 0 && n == 0)
			rc = pt_fail(EINVAL, "RDMA ports are counted from 1");
		if (rc == 0)
			w.port = (uint32_t)n;
	}
	if (rc == 0 && gid && *gid) {
		rc = number("the index of an RDMA GID", gid, 65535, &n);
		if (rc == 0)
			w.gid = (int32_t)n;
	}
	if (rc == 0)
		*ret_where = w;
	return rc;
}

#ifdef HAVE_RDMA

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#define GIDS_MAX 1024

static bool is_mapped(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

static bool is_link_local(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw);
}

static int family_of(const union ibv_gid *gid)
{
	return is_mapped(gid) ? AF_INET : AF_INET6;
}

static void gid_text(const union ibv_gid *gid, char *ret_text, size_t room)
{
	if (is_mapped(gid))
		inet_ntop(AF_INET, gid->raw + 12, ret_text, (socklen_t)room);
	else
		inet_ntop(AF_INET6, gid->raw, ret_text, (socklen_t)room);
}

static void address_of(const struct ibv_gid_entry *e, struct sockaddr_storage *ret_sa, socklen_t *ret_len)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret_sa;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_sa;

	memset(ret_sa, 0, sizeof(*ret_sa));
	if (is_mapped(&e->gid)) {
		four->sin_family = AF_INET;
		memcpy(&four->sin_addr, e->gid.raw + 12, 4);
		*ret_len = sizeof(*four);
		return;
	}
	six->sin6_family = AF_INET6;
	memcpy(&six->sin6_addr, e->gid.raw, 16);
	if (is_link_local(&e->gid))
		six->sin6_scope_id = e->ndev_ifindex;
	*ret_len = sizeof(*six);
}

static void add(char *text, size_t room, const char *piece)
{
	size_t len = strlen(text);

	snprintf(text + len, room - len, "%s%s", len ? ", " : "", piece);
}

static int no_device(const char *name, struct ibv_device **devices, int count)
{
	char there[512] = "";

	for (int i = 0; i < count; i++)
		add(there, sizeof(there), ibv_get_device_name(devices[i]));
	if (!count)
		return pt_fail(ENODEV, "there is no RDMA device \"%s\" here, and no other", name);
	return pt_fail(ENODEV, "there is no RDMA device \"%s\" here; there %s %s", name, count == 1 ? "is" : "are", there);
}

/* What there is, for a choice that fits none. */
static int no_gid(const struct pt_rdma_where *w, int family, const struct ibv_gid_entry *e, ssize_t count)
{
	const char *kind = family == AF_INET ? " with an IPv4 address, which the peer has" : family == AF_INET6 ? " with an IPv6 address, which the peer has" : "";
	char there[600] = "", one[INET6_ADDRSTRLEN + 60], address[INET6_ADDRSTRLEN], which[60] = "";

	for (ssize_t i = 0; i < count; i++) {
		gid_text(&e[i].gid, address, sizeof(address));
		snprintf(one, sizeof(one), "%u of port %u (%s)", e[i].gid_index, e[i].port_num, address);
		add(there, sizeof(there), one);
	}
	if (w->gid >= 0)
		snprintf(which, sizeof(which), " %d", w->gid);
	if (w->port)
		snprintf(which + strlen(which), sizeof(which) - strlen(which), " of port %u", w->port);
	return pt_fail(ENODEV, "%s has no GID%s%s; it has %s", w->device, which, kind, *there ? there : "none");
}

static bool fits(const struct pt_rdma_where *w, int family, const struct ibv_gid_entry *e)
{
	if ((w->port && e->port_num != w->port) || (family != AF_UNSPEC && family_of(&e->gid) != family))
		return false;
	return w->gid >= 0 ? e->gid_index == (uint32_t)w->gid : !is_link_local(&e->gid);
}

static int choose(const struct pt_rdma_where *w, struct ibv_context *verbs, int family, struct sockaddr_storage *ret_sa, socklen_t *ret_len)
{
	struct ibv_gid_entry *e = pt_calloc(GIDS_MAX, sizeof(*e));
	const struct ibv_gid_entry *best = NULL;
	struct ibv_device_attr attr;
	ssize_t count;
	int rc = 0;

	if (!e)
		return pt_fail_nomem();
	count = ibv_query_gid_table(verbs, e, GIDS_MAX, 0);
	if (count < 0)
		rc = pt_fail(EIO, "cannot read the GIDs of %s: %s", w->device, strerror((int)-count));
	else if (w->port && ibv_query_device(verbs, &attr) == 0 && w->port > attr.phys_port_cnt)
		rc = pt_fail(ENODEV, "%s has %u port%s, so no port %u", w->device, attr.phys_port_cnt, attr.phys_port_cnt == 1 ? "" : "s", w->port);
	/* Of entries with one address the connection manager takes RoCE v2. */
	for (ssize_t i = 0; rc == 0 && i < count; i++)
		if (fits(w, family, &e[i]) && (!best || (best->gid_type != IBV_GID_TYPE_ROCE_V2 && e[i].gid_type == IBV_GID_TYPE_ROCE_V2)))
			best = &e[i];
	if (rc == 0 && !best)
		rc = no_gid(w, family, e, count);
	if (rc == 0 && best->gid_type == IBV_GID_TYPE_IB)
		rc = pt_fail(ENODEV, "%s is InfiniBand, where GIDs are no addresses; choose it by the address of its network interface (PTIO_RDMA_BIND, --listen)",
			     w->device);
	if (rc == 0)
		address_of(best, ret_sa, ret_len);
	free(e);
	return rc;
}

int pt_rdma_where_address(const struct pt_rdma_where *w, int family, struct sockaddr_storage *ret_sa, socklen_t *ret_len)
{
	int count = 0, at = 0, rc;
	struct ibv_device **devices = ibv_get_device_list(&count);
	struct ibv_context *verbs;

	if (!devices)
		count = 0;
	while (at < count && strcmp(ibv_get_device_name(devices[at]), w->device) != 0)
		at++;
	if (at == count) {
		rc = no_device(w->device, devices, count);
	} else {
		verbs = ibv_open_device(devices[at]);
		rc = verbs ? choose(w, verbs, family, ret_sa, ret_len) :
			     pt_fail(EIO, "cannot open the RDMA device %s: %s", w->device, strerror(errno));
		if (verbs)
			ibv_close_device(verbs);
	}
	if (devices)
		ibv_free_device_list(devices);
	return rc;
}

#else

int pt_rdma_where_address(const struct pt_rdma_where *w, int family, struct sockaddr_storage *ret_sa, socklen_t *ret_len)
{
	(void)family, (void)ret_sa, (void)ret_len;
	return pt_fail(EOPNOTSUPP, "%s: this ptio was built without RDMA; install librdmacm-dev and build it again", w->device);
}

#endif

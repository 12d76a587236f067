/* net/rdma_none.c - net/rdma.h where there is no librdmacm: no connection comes about, so that little of it is ever called. */
#include "net/rdma.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "net/rdma_costs.h"

/* ---- the daemon's side ---- */

int pt_rdma_server_start(const struct sockaddr *sa, socklen_t sa_len, void *memory, uint64_t bytes, pt_rdma_admit_fn *admit, void *ctx,
			 struct pt_rdma_server **ret_server)
{
	(void)sa, (void)sa_len, (void)memory, (void)bytes, (void)admit, (void)ctx, (void)ret_server;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA; install librdmacm-dev and build it again");
}

void pt_rdma_server_drop(struct pt_rdma_server *s, const uint8_t token[PT_RDMA_TOKEN])
{
	(void)s, (void)token;
}

int pt_rdma_server_open(struct pt_rdma_server *s, const uint8_t token[PT_RDMA_TOKEN], void *memory, uint64_t bytes, struct pt_rdma_window *ret_window)
{
	(void)s, (void)token, (void)memory, (void)bytes, (void)ret_window;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

int pt_rdma_server_close(struct pt_rdma_window *window)
{
	(void)window;
	return 0;
}

const char *pt_rdma_server_device(const struct pt_rdma_server *s, uint32_t *ret_port)
{
	(void)s;
	*ret_port = 0;
	return "";
}

void pt_rdma_server_stop(struct pt_rdma_server *s)
{
	(void)s;
}

/* ---- the client's side ---- */

int pt_rdma_connect(const struct sockaddr *sa, socklen_t sa_len, const struct sockaddr *bind_to, const uint8_t token[PT_RDMA_TOKEN], int64_t timeout_ns,
		    struct pt_rdma **ret_rdma)
{
	(void)sa, (void)sa_len, (void)bind_to, (void)token, (void)timeout_ns, (void)ret_rdma;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA; install librdmacm-dev and build it again");
}

void pt_rdma_close(struct pt_rdma *r)
{
	(void)r;
}

int pt_rdma_read(struct pt_rdma *r, struct pt_rdma_range *ranges, uint32_t count, int64_t deadline_ns)
{
	(void)r, (void)ranges, (void)count, (void)deadline_ns;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

void pt_rdma_costs(const struct pt_rdma *r, struct pt_rdma_costs *ret_costs)
{
	(void)r;
	memset(ret_costs, 0, sizeof(*ret_costs));
}

void pt_rdma_costs_set(struct pt_rdma *r, const struct pt_rdma_costs *prices)
{
	(void)r, (void)prices;
}

int pt_rdma_write(struct pt_rdma *r, const struct pt_rdma_put *puts, uint32_t count, int64_t deadline_ns)
{
	(void)r, (void)puts, (void)count, (void)deadline_ns;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

uint64_t pt_rdma_span(const struct pt_rdma *r)
{
	(void)r;
	return 0;
}

int pt_rdma_register(struct pt_rdma *r, void *addr, uint64_t len, void **ret_region, uint32_t *ret_key)
{
	(void)r, (void)addr, (void)len, (void)ret_region, (void)ret_key;
	return pt_fail(EOPNOTSUPP, "this ptio was built without RDMA");
}

void pt_rdma_unregister(void *region)
{
	(void)region;
}

void pt_rdma_end(const struct pt_rdma *r, struct pt_rdma_end *ret_end)
{
	(void)r;
	memset(ret_end, 0, sizeof(*ret_end));
}

void pt_rdma_counters(struct pt_rdma *r, struct pt_rdma_counters *ret_counters)
{
	(void)r;
	memset(ret_counters, 0, sizeof(*ret_counters));
}

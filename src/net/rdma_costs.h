/* net/rdma_costs.h - what a work request and a byte cost on a connection: told, measured, or taken as usual. All but measuring is pure. */
#ifndef PT_NET_RDMA_COSTS_H
#define PT_NET_RDMA_COSTS_H

#include "net/rdma_plan.h"

/* Of an ordinary 100 Gbit/s device; what is not measured is taken so. */
#define PT_RDMA_REQUEST_NS 1500u
#define PT_RDMA_BYTE_PS 80u
#define PT_RDMA_COPY_PS 100u

/* The usual prices; limits (pieces_max and the like) are 0. */
void pt_rdma_costs_usual(struct pt_rdma_costs *ret_costs);
/* "REQUEST_NS,BYTE_PS,COPY_PS" into the prices of ret_costs, which keeps its limits. -EINVAL. */
int pt_rdma_costs_parse(const char *text, struct pt_rdma_costs *ret_costs);

/* Times of one connection; those of 0 were not taken. */
struct pt_rdma_times {
	uint64_t one_ns;                /* one READ of a few bytes, from posting to completion */
	uint64_t many_ns;               /* `many` such READs, posted together */
	uint64_t many;
	uint64_t large_ns;              /* one READ of large_bytes */
	uint64_t large_bytes;
	uint64_t copy_ns;               /* copying copy_bytes */
	uint64_t copy_bytes;
};

/* Prices from times, what the first of many READs takes being no price of each:
 *   request_ns = (many_ns - one_ns) / (many - 1),  byte_ps = 1000 * (large_ns - one_ns) / large_bytes,  copy_ps = 1000 * copy_ns / copy_bytes
 * each inside PT_RDMA_*_MIN and _MAX, and as usual where a time is missing. Limits are kept. */
#define PT_RDMA_REQUEST_NS_MIN 50u
#define PT_RDMA_REQUEST_NS_MAX 200000u
#define PT_RDMA_BYTE_PS_MIN 5u
#define PT_RDMA_BYTE_PS_MAX 200000u
#define PT_RDMA_COPY_PS_MIN 10u
#define PT_RDMA_COPY_PS_MAX 20000u
void pt_rdma_costs_from_times(const struct pt_rdma_times *times, struct pt_rdma_costs *ret_costs);

/* Takes the times on a connection that nobody else uses: a few dozen READs of the daemon's span. Each is taken once; more often, and with
 * larger READs, only before limit_ns have passed. Without memory to read into all are 0. -EIO: a READ failed, and the connection with it. */
struct pt_rdma;
int pt_rdma_measure(struct pt_rdma *rdma, int64_t limit_ns, struct pt_rdma_times *ret_times);

#endif

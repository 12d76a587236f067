/* net/rdma_costs.h - what a work request and a byte cost on a connection: told, measured, or taken as usual. Pure. */
#ifndef PT_NET_RDMA_COSTS_H
#define PT_NET_RDMA_COSTS_H

#include "net/rdma_plan.h"

/* Of an ordinary 100 Gbit/s device; what is not measured is taken so. */
#define PT_RDMA_REQUEST_NS 1500u
#define PT_RDMA_BYTE_PS 80u
#define PT_RDMA_COPY_PS 100u

enum pt_rdma_costs_from { PT_RDMA_COSTS_USUAL, PT_RDMA_COSTS_TOLD, PT_RDMA_COSTS_MEASURED };

/* The usual prices; limits (pieces_max and the like) are 0. */
void pt_rdma_costs_usual(struct pt_rdma_costs *ret_costs);
/* "REQUEST_NS,BYTE_PS,COPY_PS" into the prices of ret_costs, which keeps its limits. -EINVAL. */
int pt_rdma_costs_parse(const char *text, struct pt_rdma_costs *ret_costs);

#endif

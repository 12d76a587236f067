/* net/rdma_plan.h - ranges of remote memory to work requests: which READs, and what is copied afterwards. Pure.
 *
 * Ranges that follow each other in remote memory become one READ with a list of local pieces. Ranges with gaps between them are either READs of their
 * own, or one READ of the whole span into a bounce buffer and copies out of it, whichever is cheaper by the prices (rdma_costs.h):
 *   separate:  requests * request_ns + bytes * byte_ps / 1000
 *   one span:  request_ns + span * byte_ps / 1000 + bytes * copy_ps / 1000 */
#ifndef PT_NET_RDMA_PLAN_H
#define PT_NET_RDMA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pt_rdma_range {
	uint64_t remote;                /* address in the daemon's memory */
	uint64_t len;
	void *buf;
	uint32_t key;                   /* of buf's registration; ranges of different keys are never one piece */
};

struct pt_rdma_costs {
	uint64_t request_ns;            /* of one work request */
	uint64_t byte_ps;               /* of moving one byte, in picoseconds */
	uint64_t copy_ps;               /* of copying one */
	uint32_t pieces_max;            /* of one request's list (max_sge_rd) */
	uint64_t read_max;              /* bytes of one READ */
	uint64_t bounce_max;            /* bytes of the bounce buffer; 0: there is none */
};

struct pt_rdma_piece {
	void *buf;
	uint64_t len;
	uint32_t key;
};

/* One READ. Into pieces, or when bounce is set into the bounce buffer, from which ranges [first, first + count) are copied. */
struct pt_rdma_read {
	uint64_t remote, len;
	uint32_t first, count;          /* ranges that it serves, whole or in part */
	uint32_t piece, piece_count;    /* in the plan's pieces; unused with bounce */
	bool bounce;
};

struct pt_rdma_plan {
	const struct pt_rdma_range *ranges;
	uint32_t range_count;
	struct pt_rdma_costs costs;
	uint32_t at;                    /* next range */
	uint64_t done;                  /* bytes of it that are behind */
};

void pt_rdma_plan_init(struct pt_rdma_plan *plan, const struct pt_rdma_range *ranges, uint32_t count, const struct pt_rdma_costs *costs);
/* The next READ: 1, or 0 at the end. pieces has room for costs.pieces_max. */
int pt_rdma_plan_next(struct pt_rdma_plan *plan, struct pt_rdma_piece *pieces, struct pt_rdma_read *ret_read);
bool pt_rdma_plan_ended(struct pt_rdma_plan *plan);
/* After a bounce READ has completed. */
void pt_rdma_plan_copy(const struct pt_rdma_plan *plan, const struct pt_rdma_read *read, const void *bounce);

#endif

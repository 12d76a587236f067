/* net/rdma_verbs_int.h - what the files share that touch libibverbs and librdmacm: rdma_verbs.c (a client's reads and writes), rdma_verbs_conn.c (its
 * connection) and rdma_verbs_server.c. */
#ifndef PT_NET_RDMA_VERBS_INT_H
#define PT_NET_RDMA_VERBS_INT_H

#include <errno.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#include "base/error.h"
#include "net/rdma.h"
#include "net/rdma_costs.h"
#include "net/rdma_hello.h"

#define PT_RDMA_DEPTH_MAX 32u
#define PT_RDMA_READ_BYTES ((uint64_t)1 << 20)          /* of one READ */
#define PT_RDMA_RING_BYTES (8 * PT_RDMA_READ_BYTES)
#define PT_RDMA_PIECES_MAX 32u

struct pt_rdma_slot {
	struct pt_rdma_read read;
	struct pt_rdma_piece pieces[PT_RDMA_PIECES_MAX];
	uint8_t *bounce;
	uint64_t taken;                         /* of the ring, with it */
	bool direct;                            /* the device wrote into the pieces */
};

struct pt_rdma {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *bounce_mr;
	uint8_t *bounce;
	uint64_t taken, given;
	struct pt_rdma_slot slots[PT_RDMA_DEPTH_MAX];
	uint32_t depth;
	struct pt_rdma_costs costs;
	struct pt_rdma_hello span;
	struct pt_rdma_end end;
	struct pt_rdma_counters counters;       /* relaxed atomics */
};

/* By errno. */
static inline int pt_rdma_fail_call(const char *what)
{
	return pt_fail(EIO, "RDMA: %s failed: %s", what, strerror(errno));
}

#endif

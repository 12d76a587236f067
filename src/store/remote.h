/* store/remote.h - a store that a ptiod exports, as a meta and a data engine over one session (docs/WIRE.md).
 *
 * Both engines retry by themselves what does no harm when done twice, through lost connections, until the timeout; then -EIO. An upload belongs to one
 * connection: when that is lost its writes and its seal fail with -EIO. A commit whose connection is lost is done once, or ends with -EIO when nobody
 * can tell. Pins are kept by leases that the session renews; a blob that went while no lease held is -EIO to read, never other bytes. */
#ifndef PT_STORE_REMOTE_H
#define PT_STORE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/client.h"
#include "store/data.h"
#include "store/meta.h"

struct pt_remote_options {
	const char *secret_file;        /* NULL: none */
	bool tls;
	int64_t timeout_ns;             /* 0: 30 s */
	enum { PT_REMOTE_AUTO, PT_REMOTE_TCP, PT_REMOTE_RDMA } transport;       /* of reads; RDMA: opening fails without it */
	const char *rdma_bind;          /* address of the local device to use, which chooses port and GID too; NULL: as routed */
	const char *rdma_device, *rdma_port, *rdma_gid;         /* the same by name (net/rdma_device.h), which goes before rdma_bind; NULL: not given */
	const char *rdma_costs;         /* "REQUEST_NS,BYTE_PS,COPY_PS" to plan reads by (net/rdma_costs.h); NULL: as they are */
};

struct pt_remote_rdma_status {
	bool connected;
	char device[64];                                        /* and what of it is used; port 0: not known yet */
	uint32_t port;
	int32_t gid;
	uint64_t connects, reads, fallbacks;                    /* reads that went by RDMA; that had to go by TCP */
	uint64_t requests, bytes_read, bytes_asked, bounced_bytes;      /* work requests, and what they moved for what was asked */
	uint64_t request_ns, byte_ps, copy_ps;                  /* what reads are planned by */
	const char *costs_from;                                 /* "told", "measured" or "usual" */
	uint64_t writes, bytes_written, write_fallbacks;        /* pieces of uploads that went by RDMA; that had to go by TCP after all */
};

/* Payload of reads that went by TCP, RDMA's fallbacks among them. */
struct pt_remote_tcp_status {
	uint64_t reads, bytes_read;
};

/* -EACCES wrong secret, -EIO nobody there. The engines close the session when both are closed; ret_read_only: the daemon refuses changes. */
int pt_remote_open(const char *hosts, const struct pt_remote_options *options, struct pt_meta *ret_meta, struct pt_data *ret_data, bool *ret_read_only);
/* Of the session below a remote data engine, and of its RDMA connection; false: there is none. */
bool pt_remote_rdma_info(const struct pt_data *data, struct pt_remote_rdma_status *ret_status);
bool pt_remote_tcp_info(const struct pt_data *data, struct pt_remote_tcp_status *ret_status);
/* Which store it is; nothing where there is no session below. */
void pt_remote_known(const struct pt_data *data, const struct pt_id *store);
bool pt_remote_status(const struct pt_data *data, struct pt_net_status *ret_status);

#endif

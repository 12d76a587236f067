/* net/rdma.h - one-sided reads and writes of a daemon's memory over RC connections made with librdmacm. All verbs are in
 * rdma_verbs.c, rdma_verbs_conn.c and rdma_verbs_server.c; rdma_none.c stands in for them.
 *
 * The daemon registers one span of memory for remote reading and accepts connections whose private data is a token that it knows; it tells them the
 * span's address and key. Its processor has no part in the reads. For writes it opens windows elsewhere, each until it is closed. Built without librdmacm, every call is -EOPNOTSUPP. */
#ifndef PT_NET_RDMA_H
#define PT_NET_RDMA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/rdma_plan.h"

#define PT_RDMA_TOKEN 16

/* ---- the daemon's side ---- */
struct pt_rdma_server;

/* Whether the token may connect; by the server's thread. */
typedef bool pt_rdma_admit_fn(void *ctx, const uint8_t token[PT_RDMA_TOKEN]);

/* memory: stays the caller's, and there until stop. -EOPNOTSUPP: no device here. */
int pt_rdma_server_start(const struct sockaddr *sa, socklen_t sa_len, void *memory, uint64_t bytes, pt_rdma_admit_fn *admit, void *ctx,
			 struct pt_rdma_server **ret_server);
/* Ends the connection that came with the token; nothing can be read through it afterwards. */
void pt_rdma_server_drop(struct pt_rdma_server *server, const uint8_t token[PT_RDMA_TOKEN]);
/* Of the device that it listens on, by the address; "" and 0: all. */
const char *pt_rdma_server_device(const struct pt_rdma_server *server, uint32_t *ret_port);
void pt_rdma_server_stop(struct pt_rdma_server *server);        /* NULL is fine; all windows are closed */

/* Memory that clients of one device may write to, with the key. */
struct pt_rdma_window {
	void *region;                   /* NULL: closed */
	uint64_t addr;
	uint32_t key;
};

/* For the client that connected with the token. Thread-safe, as is close. -ENOTCONN: it is not connected; -EIO. */
int pt_rdma_server_open(struct pt_rdma_server *server, const uint8_t token[PT_RDMA_TOKEN], void *memory, uint64_t bytes, struct pt_rdma_window *ret_window);
/* After it nobody writes there: the device refuses the key. -EIO: somebody still might, and the memory must not be used for anything else. */
int pt_rdma_server_close(struct pt_rdma_window *window);

/* ---- the client's side ---- */
struct pt_rdma;

struct pt_rdma_counters {
	uint64_t requests, bytes_read, bytes_asked, bounced_bytes;
};

/* bind_to: an address of the local device to use, or NULL. -EOPNOTSUPP no device; -EIO, -EACCES (refused). Waits at most timeout_ns. */
int pt_rdma_connect(const struct sockaddr *sa, socklen_t sa_len, const struct sockaddr *bind_to, const uint8_t token[PT_RDMA_TOKEN], int64_t timeout_ns,
		    struct pt_rdma **ret_rdma);
void pt_rdma_close(struct pt_rdma *rdma);                       /* NULL is fine */
/* Reads all ranges; `remote` counts from the start of the daemon's span. Buffers that are registered are read into straight, others through bounce buffers
 * of the connection. One caller at a time. After a failure the connection is of no use. -EIO. */
int pt_rdma_read(struct pt_rdma *rdma, struct pt_rdma_range *ranges, uint32_t count, int64_t deadline_ns);
/* What reads are planned by: limits of the device and prices. Set prices before reads; limits stay. */
void pt_rdma_costs(const struct pt_rdma *rdma, struct pt_rdma_costs *ret_costs);
void pt_rdma_costs_set(struct pt_rdma *rdma, const struct pt_rdma_costs *prices);

/* Bytes of ours, in registered memory, for a window of the daemon's. */
struct pt_rdma_put {
	const void *buf;
	uint64_t len;
	uint32_t key;                   /* of buf's registration */
	uint64_t addr;
	uint32_t remote_key;
};

/* All of them are in the daemon's memory when it returns 0. One caller at a time, reads included. After a failure the connection is of no use, and only
 * when it is closed the buffers are free. -EIO. */
int pt_rdma_write(struct pt_rdma *rdma, const struct pt_rdma_put *puts, uint32_t count, int64_t deadline_ns);
/* The daemon's span. */
uint64_t pt_rdma_span(const struct pt_rdma *rdma);
/* A caller's memory, for reads straight into it. -EIO. */
int pt_rdma_register(struct pt_rdma *rdma, void *addr, uint64_t len, void **ret_region, uint32_t *ret_key);
void pt_rdma_unregister(void *region);
/* What the connection uses here. */
struct pt_rdma_end {
	char device[64];                /* its name */
	uint32_t port;
	int32_t gid;                    /* index in the port's table; -1: unknown */
};
void pt_rdma_end(const struct pt_rdma *rdma, struct pt_rdma_end *ret_end);
void pt_rdma_counters(struct pt_rdma *rdma, struct pt_rdma_counters *ret_counters);

#endif

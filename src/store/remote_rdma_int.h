/* store/remote_rdma_int.h - what the parts of the RDMA connection share: remote_rdma.c (its thread, reads and writes), remote_rdma_conn.c (the connection, and the memory
 * that is registered with it) and remote_rdma_place.c (where objects are).
 *
 * One thread owns the connection and the places; all functions here are called by it, or while it does not run. */
#ifndef PT_STORE_REMOTE_RDMA_INT_H
#define PT_STORE_REMOTE_RDMA_INT_H

#include "net/rdma.h"
#include "net/rdma_costs.h"
#include "net/rdma_device.h"
#include "store/remote_int.h"

#define PT_REMOTE_RDMA_NS INT64_C(5000000000)   /* without an end a read, or a write, goes by TCP instead */
#define PT_REMOTE_PLACES_MAX 65536u

struct pt_remote_place {
	struct pt_refmap_node node;             /* first */
	uint64_t off, bytes;                    /* in the daemon's span */
	int64_t until_ns;                       /* trusted until then */
};

struct pt_remote_rdma_job {
	TAILQ_ENTRY(pt_remote_rdma_job) link;
	const struct pt_data_range *ranges;
	size_t count;
	struct pt_done *done;
	bool locate;                            /* only finds the places; fails instead of going by TCP */
};

struct pt_remote_region {
	LIST_ENTRY(pt_remote_region) link;
	uint8_t *addr;
	uint64_t len;
	void *mr;                               /* with the connection that is; NULL: not yet */
	uint32_t key;
};

/* The region that was found last, for the many ranges of one read. Its memory is the caller's of the read, so it stays registered. */
struct pt_remote_found {
	const uint8_t *addr;
	uint64_t len;
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
	TAILQ_HEAD(, pt_remote_rdma_job) queue;
	STAILQ_HEAD(pt_remote_puts, pt_remote_put) puts;
	bool stopping;
	LIST_HEAD(, pt_remote_region) regions;
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

/* remote_rdma_place.c */
void pt_remote_places_clear(struct pt_remote_rdma *p);
/* The place of the object, for long enough to read it; the daemon is asked, and loads it, if need be. */
int pt_remote_place_get(struct pt_remote_rdma *p, const struct pt_blob_ref *ref, struct pt_remote_place **ret_place);

/* remote_rdma_conn.c */
/* Takes the device, the address and the prices that the options name. -EINVAL and so on: they are wrong, whether or not they will be needed. */
int pt_remote_rdma_options(struct pt_remote_rdma *p, const struct pt_remote_options *o);
/* A connection for the session as it is now. */
int pt_remote_rdma_connected(struct pt_remote_rdma *p);
void pt_remote_rdma_disconnect(struct pt_remote_rdma *p);
/* Adds what the connection has done since; under the lock. */
void pt_remote_rdma_count_locked(struct pt_remote_rdma *p);
/* The key of the registered region that holds these bytes; 0: none does. */
uint32_t pt_remote_rdma_key_of(struct pt_remote_rdma *p, const void *buf, uint64_t len, struct pt_remote_found *found);

#endif

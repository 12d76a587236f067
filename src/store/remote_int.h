/* store/remote_int.h - what the two remote engines share: the session, operations under way, pins. */
#ifndef PT_STORE_REMOTE_INT_H
#define PT_STORE_REMOTE_INT_H

#include <pthread.h>
#include <sys/queue.h>

#include "net/client.h"
#include "store/refmap.h"
#include "store/remote.h"

#define PT_REMOTE_RANGES 256            /* of one request */

struct pt_remote {
	struct pt_net_client *client;
	struct pt_net_session session;
	int64_t timeout_ns;
	const struct pt_remote_options *options;        /* only while it is opened */
	struct pt_remote_rdma *rdma;    /* NULL: TCP only */
	struct pt_remote_tcp_status tcp; /* atomics */
	struct pt_remote_stage *stage;  /* NULL: uploads go by messages */
	/* In the order they are taken. */
	pthread_mutex_t pin_order;      /* held from a pin's count to its submission; recursive: that may fail at once, which undoes the count */
	pthread_mutex_t lock;           /* all below */
	uint32_t engines;               /* open ones */
	struct pt_remote_op *free_ops;
	uint32_t free_count;
	uint64_t next_upload;
	struct pt_refmap pins;          /* struct pt_remote_pin */
};

struct pt_remote_pin {
	struct pt_refmap_node node;     /* first */
	uint64_t count;
};

/* One request, and where its answer goes. Recycled. */
struct pt_remote_op {
	struct pt_net_call call;        /* first */
	struct pt_remote *remote;
	struct pt_remote_op *next_free;
	struct pt_done *done;           /* NULL: nobody waits */
	struct pt_meta_at *at;          /* of done */
	/* Before done, on the thread that ends the call; may change rc. NULL: nothing. */
	int (*end)(struct pt_remote_op *op, int rc);
	/* An operation of several requests ends with its last one. lead: the first; left, rc and sentence are the lead's, under the remote's lock. */
	struct pt_remote_op *lead;
	uint32_t left;
	int rc;
	char sentence[512];
	/* Whatever the kind of request needs. */
	void *ret_a, *ret_b;
	const struct pt_data_range *ranges;
	const struct pt_blob_ref *refs;
	size_t count;
	uint64_t number, until;
	struct iovec iov[PT_REMOTE_RANGES];
};

extern const struct pt_meta_ops pt_remote_meta_ops[2];          /* by durability */
extern const struct pt_data_ops pt_remote_data_ops[2];

/* A fresh operation, its lead itself. NULL without memory. */
struct pt_remote_op *pt_remote_op_get(struct pt_remote *r, struct pt_done *done);
/* Gives up one that was not sent. */
void pt_remote_op_put(struct pt_remote_op *op);
/* Packs and submits; a failure ends the operation as an answer would. */
void pt_remote_send(struct pt_remote_op *op, Ptio__Wire__Request *request);
/* Ends one that was not sent, as if by an answer. */
void pt_remote_fail(struct pt_remote_op *op, int rc);
/* An operation that the caller waits for. */
struct pt_remote_op *pt_remote_op_wait(struct pt_remote *r, struct pt_wait *w);
void pt_remote_unref(struct pt_remote *r);                      /* one engine less */
int pt_remote_reply_bad(void);
/* The mark that an answer tells, to whoever wants it. */
void pt_remote_mark(struct pt_remote_op *op, const Ptio__Wire__Reply *p);

/* remote_pin.c */
void pt_remote_pin(void *h, const struct pt_blob_ref *refs, size_t count, struct pt_done *done);
void pt_remote_unpin(void *h, const struct pt_blob_ref *refs, size_t count);
void pt_remote_pinned(void *h, const struct pt_blob_ref *refs, size_t count, bool *ret_pinned, struct pt_done *done);
void pt_remote_pins_restore(void *ctx);
bool pt_remote_is_pinned(struct pt_remote *r, const struct pt_blob_ref *ref);
void pt_remote_pins_done(struct pt_remote *r);

/* remote_rdma.c: reads that go by RDMA where they can, else by TCP. */
struct pt_remote_rdma;

/* must: -errno when the first connection fails; else it is tried again now and then. ret is NULL where there can be none (no device, none at the daemon). */
int pt_remote_rdma_start(struct pt_remote *r, bool must, struct pt_remote_rdma **ret_rdma);
void pt_remote_rdma_stop(struct pt_remote_rdma *p);
/* Whether reads of the blob go by RDMA now, out of memory that the daemon has verified. */
bool pt_remote_rdma_direct(struct pt_remote_rdma *p, const struct pt_blob_ref *ref);
void pt_remote_rdma_read(struct pt_remote_rdma *p, const struct pt_data_range *ranges, size_t count, struct pt_done *done);
int pt_remote_rdma_register(struct pt_remote_rdma *p, void *addr, uint64_t len);
void pt_remote_rdma_unregister(struct pt_remote_rdma *p, void *addr);
/* Our bytes into a window of the daemon's; its thread calls done, when the bytes are there (0) or certainly are not touched any more (-errno). */
struct pt_remote_put {
	STAILQ_ENTRY(pt_remote_put) link;
	const void *buf;                /* in registered memory */
	uint64_t len, addr;
	uint32_t key;                   /* the window's */
	uint64_t connection;            /* of the session, on which the window was given */
	void (*done)(struct pt_remote_put *put, int rc);
};
void pt_remote_rdma_put(struct pt_remote_rdma *p, struct pt_remote_put *put);
void pt_remote_rdma_status(struct pt_remote_rdma *p, struct pt_remote_rdma_status *ret_status);

/* remote_write.c */
int pt_remote_stage_create(struct pt_remote *r, struct pt_remote_stage **ret_stage);
void pt_remote_stage_free(struct pt_remote_stage *stage);       /* nothing is on its way; NULL is fine */
void pt_remote_create(void *h, const struct pt_blob_ref *ref, uint64_t size_hint, void **ret_blob, struct pt_done *done);
void pt_remote_write(void *h, void *blob, const void *buf, uint64_t len, uint64_t off, struct pt_done *done);
void pt_remote_hashed(void *h, void *blob);
void pt_remote_seal(void *h, void *blob, uint64_t bytes, struct pt_done *done);
void pt_remote_abort(void *h, void *blob);

/* remote_read.c */
void pt_remote_read_tcp(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done);
void pt_remote_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done);

#endif

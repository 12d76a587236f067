/* cache/ahead.h - reading ahead of a sequential reader: the next windows of its file are fetched by other threads while it takes the last one.
 *
 * Begins with the second request in a row; how far it goes doubles whenever the reader's window was not there yet, up to 8 windows. The reader's own thread reads windows, too, rather than
 * wait. Requests may overtake each other by a few MiB; one from elsewhere drops what was fetched. Replies are made in place from the windows. Thread-safe. */
#ifndef PT_CACHE_AHEAD_H
#define PT_CACHE_AHEAD_H

#include <stdint.h>
#include <sys/uio.h>

#include "cache/share.h"
#include "cache/work.h"

#define PT_AHEAD_SLOTS 16               /* up to 8 ahead of the reader, the others in use by it */
#define PT_AHEAD_IOVS 4                 /* windows that one reply is made from */

struct pt_ahead;

/* All of len, or -errno. */
typedef int64_t pt_ahead_read_fn(void *ctx, void *buf, uint64_t len, uint64_t off);

/* Where a window that begins at off had best end: after off, at most max bytes later. Called with the lock held. */
typedef uint64_t pt_ahead_cut_fn(void *ctx, uint64_t off, uint64_t max);

/* read is called by the workers and by pt_ahead_get until close, cut by pt_ahead_get. align: where windows begin, modulo their size, when cut is NULL.
 * key: of what is read, so that windows that begin and end alike are shared with others who read it; NULL: they are not. -ENOMEM. */
int pt_ahead_create(struct pt_workers *workers, struct pt_share *share, const struct pt_vcache_key *key, uint64_t size, uint64_t align, pt_ahead_read_fn *read,
		    pt_ahead_cut_fn *cut, void *ctx, struct pt_ahead **ret_ahead);
/* Waits for reads under way; read is not called any more. Leases stay good. */
void pt_ahead_close(struct pt_ahead *a);

struct pt_ahead_lease {
	struct pt_ahead *ahead;         /* referenced */
	uint32_t slots;                 /* bits: in use by this lease */
	int iov_count;
	struct iovec iov[PT_AHEAD_IOVS]; /* the bytes that were asked for */
};

/* 1: the bytes are in the lease, to be given back; 0: they were not fetched ahead, read them (off + len is within the file). */
int pt_ahead_get(struct pt_ahead *a, uint64_t off, uint64_t len, struct pt_ahead_lease *ret_lease);
void pt_ahead_put(struct pt_ahead_lease *lease);

#endif

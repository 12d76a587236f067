/* store/remote_read.c - ranged reads from a daemon: cut into requests of bounded size, all sent at once, the answers scattered into the caller's memory. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "store/remote_int.h"

/* One request being put together. */
struct builder {
	struct pt_remote_op *op;
	uint64_t bytes;
	uint32_t n, blob_count, ranges_max;
	uint32_t blob[PT_REMOTE_RANGES];
	uint64_t off[PT_REMOTE_RANGES], len[PT_REMOTE_RANGES];
	uint8_t blobs[PT_REMOTE_RANGES * PT_WIRE_BLOB];
	const struct pt_blob_ref *last;
};

/* A blob that is pinned and yet gone: its lease ran out while the connection was lost. */
static int read_end(struct pt_remote_op *op, int rc)
{
	if (rc == -ENOENT)
		for (size_t i = 0; i < op->count; i++)
			if (pt_remote_is_pinned(op->remote, &op->ranges[i].blob))
				return pt_fail(EIO, "an object was removed while the lease on it had run out; open the file again");
	return rc;
}

static void send_read(struct builder *b, const struct pt_data_range *ranges, size_t count)
{
	Ptio__Wire__Request q = PTIO__WIRE__REQUEST__INIT;
	Ptio__Wire__Read read = PTIO__WIRE__READ__INIT;

	read.blobs = (ProtobufCBinaryData){ b->blob_count * PT_WIRE_BLOB, b->blobs };
	read.n_blob = read.n_off = read.n_len = b->n;
	read.blob = b->blob;
	read.off = b->off;
	read.len = b->len;
	q.op_case = PTIO__WIRE__REQUEST__OP_READ;
	q.read = &read;
	b->op->ranges = ranges;
	b->op->count = count;
	b->op->end = read_end;
	b->op->call.flags = PT_NET_RETRY;
	b->op->call.into = b->op->iov;
	b->op->call.into_count = (int)b->n;
	b->op->call.into_len = b->bytes;
	pt_remote_send(b->op, &q);
}

static void add(struct builder *b, const struct pt_data_range *r, uint64_t at, uint64_t len)
{
	if (!b->last || !pt_blob_ref_equal(b->last, &r->blob)) {
		pt_wire_blob_put(b->blobs + b->blob_count++ * PT_WIRE_BLOB, (uint8_t)r->blob.kind, &r->blob.id);
		b->last = &r->blob;
	}
	b->blob[b->n] = b->blob_count - 1;
	b->off[b->n] = r->off + at;
	b->len[b->n] = len;
	b->op->iov[b->n] = (struct iovec){ (uint8_t *)r->buf + at, len };
	b->n++;
	b->bytes += len;
}

static void reset(struct builder *b, struct pt_remote_op *op)
{
	b->op = op;
	b->bytes = 0;
	b->n = b->blob_count = 0;
	b->last = NULL;
}

/* The lead is the last request to be sent, so that the operation cannot end before all are. */
void pt_remote_read_tcp(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	struct pt_remote *r = h;
	struct pt_remote_op *lead = pt_remote_op_get(r, done), *op;
	uint64_t body_max = r->session.body_max, bytes = 0;
	struct builder b;
	size_t first = 0;
	int rc = 0;

	if (!lead) {
		pt_done_call(done, pt_fail_nomem());
		return;
	}
	for (size_t i = 0; i < count; i++)
		bytes += ranges[i].len;
	__atomic_add_fetch(&r->tcp.reads, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&r->tcp.bytes_read, bytes, __ATOMIC_RELAXED);
	b.ranges_max = r->session.ranges_max < PT_REMOTE_RANGES ? r->session.ranges_max : PT_REMOTE_RANGES;
	reset(&b, lead);
	for (size_t i = 0; i < count && rc == 0; i++) {
		uint64_t at = 0;

		for (;;) {
			uint64_t len = pt_size_min(ranges[i].len - at, body_max - b.bytes);

			if (b.n < b.ranges_max && (len || at == ranges[i].len)) {
				add(&b, &ranges[i], at, len);
				at += len;
				if (at == ranges[i].len)
					break;
				continue;
			}
			/* Full: it goes out under an operation of its own, and the lead begins anew. */
			op = pt_remote_op_get(r, NULL);
			if (!op) {
				rc = pt_fail_nomem();
				break;
			}
			memcpy(op->iov, lead->iov, b.n * sizeof(op->iov[0]));
			op->lead = lead;
			pthread_mutex_lock(&r->lock);
			lead->left++;
			pthread_mutex_unlock(&r->lock);
			b.op = op;
			send_read(&b, ranges + first, i - first + (at > 0));
			first = i;
			reset(&b, lead);
		}
	}
	if (rc < 0)
		pt_remote_fail(lead, rc);
	else
		send_read(&b, ranges + first, count - first);
}

void pt_remote_read(void *h, const struct pt_data_range *ranges, size_t count, struct pt_done *done)
{
	struct pt_remote *r = h;

	if (r->rdma)
		pt_remote_rdma_read(r->rdma, ranges, count, done);
	else
		pt_remote_read_tcp(h, ranges, count, done);
}

/* net/rdma_hello.h - what a daemon says when it accepts an RDMA connection: where its span is. 24 bytes of the connection manager's private data. */
#ifndef PT_NET_RDMA_HELLO_H
#define PT_NET_RDMA_HELLO_H

#include <errno.h>

#include "base/buf.h"
#include "base/error.h"

#define PT_RDMA_HELLO_BYTES 24
#define PT_RDMA_HELLO_MAGIC 0x4f495450u         /* "PTIO" */

struct pt_rdma_hello {
	uint64_t addr, bytes;
	uint32_t key;
};

static inline void pt_rdma_hello_encode(const struct pt_rdma_hello *h, uint8_t ret[PT_RDMA_HELLO_BYTES])
{
	pt_put_le32(ret, PT_RDMA_HELLO_MAGIC);
	pt_put_le32(ret + 4, h->key);
	pt_put_le64(ret + 8, h->addr);
	pt_put_le64(ret + 16, h->bytes);
}

static inline int pt_rdma_hello_decode(const void *data, struct pt_rdma_hello *ret_h)
{
	const uint8_t *p = data;

	if (pt_get_le32(p) != PT_RDMA_HELLO_MAGIC)
		return pt_fail(EIO, "RDMA: the peer is no ptio daemon");
	ret_h->key = pt_get_le32(p + 4);
	ret_h->addr = pt_get_le64(p + 8);
	ret_h->bytes = pt_get_le64(p + 16);
	return 0;
}

#endif

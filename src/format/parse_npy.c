/* format/parse_npy.c - npy versions 1.0, 2.0 and 3.0: magic, header length, dict literal, payload.
 *
 * Big-endian elements are turned round as they pass, pieces may cut them anywhere. Fortran order becomes strides. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/npy_header.h"
#include "format/parse_int.h"

#define TEXT_MAX 65535                  /* numpy refuses more than 10000 characters */
#define SWAP_BYTES 4096

struct npy {
	struct pt_parse_ctx *ctx;
	struct pt_buf head;             /* magic, length, text */
	uint64_t want;                  /* bytes of it that are known to come */
	bool in_data;
	uint32_t storage;
	uint64_t bytes;                 /* of the payload */
	uint64_t off;                   /* payload bytes delivered */
	uint32_t swap_bytes;
	uint8_t part[8];                /* beginning of an element cut by a piece's end */
	uint32_t part_len;
	uint8_t swapped[SWAP_BYTES];
};

static int npy_create(struct pt_parse_ctx *ctx, void **ret_state)
{
	struct npy *n = pt_calloc(1, sizeof(*n));

	if (!n)
		return pt_fail_nomem();
	n->ctx = ctx;
	n->want = 8;
	*ret_state = n;
	return 0;
}

/* Fortran order differs from C order only where two dimensions have more than one element. */
static bool order_matters(const struct pt_shape *s)
{
	uint32_t i, large = 0;

	for (i = 0; i < s->ndim; i++) {
		if (s->dim[i] == 0)
			return false;
		large += s->dim[i] > 1;
	}
	return large > 1;
}

static int read_text(struct npy *n, size_t prefix)
{
	struct pt_parse_tensor t = { .name = "", .contiguous = true };
	struct pt_npy_header h;
	uint64_t file_size = n->ctx->hint.file_size, step = 1;
	uint32_t i;
	int rc;

	rc = pt_npy_header_read((const char *)n->head.data + prefix, n->head.len - prefix, n->ctx->hint.dtype, &h);
	if (rc)
		return rc;
	rc = pt_shape_bytes(&h.shape, h.dtype, &n->bytes);
	if (rc)
		return pt_fail_context(-EINVAL, "the npy header");
	if (file_size && (file_size < n->head.len || file_size - n->head.len != n->bytes))
		return pt_fail(EINVAL, "the npy header describes a file of %llu bytes, this one has %llu",
			       (unsigned long long)(n->head.len + n->bytes), (unsigned long long)file_size);
	n->swap_bytes = h.swap_bytes;
	t.dtype = h.dtype;
	t.shape = h.shape;
	if (h.fortran && order_matters(&h.shape)) {
		t.contiguous = false;
		for (i = 0; i < h.shape.ndim; i++) {
			t.stride[i] = step;
			step *= h.shape.dim[i];
		}
	}
	rc = pt_parse_storage(n->ctx, n->bytes, &n->storage);
	t.storage = n->storage;
	if (!rc)
		rc = pt_parse_tensor(n->ctx, &t);
	if (!rc)
		rc = pt_parse_header_done(n->ctx);
	n->in_data = true;
	return rc;
}

static int feed_head(struct npy *n, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	const uint8_t *p;
	size_t prefix;

	*ret_used = pt_parse_collect(&n->head, n->want, data, len);
	if (pt_buf_failed(&n->head))
		return pt_fail_nomem();
	if (n->head.len < n->want)
		return 0;
	p = n->head.data;
	if (memcmp(p, "\x93NUMPY", 6) != 0)
		return pt_fail(EINVAL, "this is no npy file: it does not begin with \"\\x93NUMPY\"");
	if (p[6] < 1 || p[6] > 3 || p[7] != 0)
		return pt_fail(EINVAL, "npy version %u.%u is unknown; save the array again with numpy.save", p[6], p[7]);
	prefix = p[6] == 1 ? 10 : 12;
	if (n->want == 8) {
		n->want = prefix;
	} else if (n->want == prefix) {
		n->want = prefix == 10 ? pt_get_le16(p + 8) : pt_get_le32(p + 8);
		if (n->want > TEXT_MAX)
			return pt_fail(EFBIG, "the npy header has %llu bytes; at most %d are taken", (unsigned long long)n->want, TEXT_MAX);
		if (!n->want)
			return pt_fail(EINVAL, "the npy header is empty; save the array again with numpy.save");
		n->want += prefix;
	} else {
		return read_text(n, prefix);
	}
	return 0;
}

static void reverse(uint8_t *to, const uint8_t *from, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		to[i] = from[n - 1 - i];
}

static int deliver(struct npy *n, const uint8_t *data, uint64_t len)
{
	int rc = pt_parse_data(n->ctx, n->storage, n->off, data, len);

	if (!rc)
		n->off += len;
	return rc;
}

/* As many of data's bytes as suit, units reversed. */
static int feed_swapped(struct npy *n, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	uint32_t w = n->swap_bytes;
	uint64_t take, i;

	if (n->part_len || len < w) {
		take = pt_size_min(len, w - n->part_len);
		if (data)
			memcpy(n->part + n->part_len, data, take);
		else
			memset(n->part + n->part_len, 0, take);
		n->part_len += (uint32_t)take;
		*ret_used = take;
		if (n->part_len < w)
			return 0;
		n->part_len = 0;
		reverse(n->swapped, n->part, w);
		return deliver(n, n->swapped, w);
	}
	if (!data) {
		*ret_used = len - len % w;
		return deliver(n, NULL, *ret_used);
	}
	take = pt_size_min(len - len % w, SWAP_BYTES);
	for (i = 0; i < take; i += w)
		reverse(n->swapped + i, data + i, w);
	*ret_used = take;
	return deliver(n, n->swapped, take);
}

static int npy_feed(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct npy *n = state;
	int rc;

	if (!n->in_data) {
		rc = feed_head(n, data, len, ret_used);
	} else {
		len = pt_size_min(len, n->bytes - n->off - n->part_len);
		if (n->swap_bytes) {
			rc = feed_swapped(n, data, len, ret_used);
		} else {
			rc = deliver(n, data, len);
			*ret_used = len;
		}
	}
	if (rc || !n->in_data || n->off < n->bytes)
		return rc;
	return pt_parse_complete(n->ctx);
}

static int npy_end(void *state)
{
	struct npy *n = state;

	if (!n->in_data)
		return pt_fail(EINVAL, "the npy file ended inside its header, after %zu bytes", n->head.len);
	return pt_fail(EINVAL, "the npy file ended after %llu of %llu payload bytes", (unsigned long long)(n->off + n->part_len),
		       (unsigned long long)n->bytes);
}

static void npy_free(void *state)
{
	struct npy *n = state;

	if (!n)
		return;
	pt_buf_done(&n->head);
	free(n);
}

const struct pt_parse_ops pt_parse_ops_npy = {
	.format = PT_FORMAT_NPY,
	.create = npy_create,
	.feed = npy_feed,
	.end = npy_end,
	.free = npy_free,
};

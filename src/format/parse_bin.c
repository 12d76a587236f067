/* format/parse_bin.c - plain payload bytes: dtype and shape come from the hint, the size must be exactly theirs. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/parse_int.h"

struct bin {
	struct pt_parse_ctx *ctx;
	uint64_t bytes;                 /* of the payload */
	uint64_t seen;
	bool announced;
	uint32_t storage;
};

static int bin_create(struct pt_parse_ctx *ctx, void **ret_state)
{
	struct bin *b;
	uint64_t bytes;
	int rc;

	if (ctx->hint.dtype == PT_DTYPE_INVALID || !ctx->hint.has_shape)
		return pt_fail(EINVAL, "plain bytes do not say their dtype and shape; set user.ptio.dtype and user.ptio.shape first (ptio put: --dtype, --shape)");
	rc = pt_shape_bytes(&ctx->hint.shape, ctx->hint.dtype, &bytes);
	if (rc)
		return rc == -EOVERFLOW ? pt_fail(EFBIG, "the shape set for these plain bytes is too large for a tensor") : rc;
	b = pt_calloc(1, sizeof(*b));
	if (!b)
		return pt_fail_nomem();
	b->ctx = ctx;
	b->bytes = bytes;
	*ret_state = b;
	return 0;
}

static int announce(struct bin *b)
{
	struct pt_parse_tensor t = { .name = "", .dtype = b->ctx->hint.dtype, .shape = b->ctx->hint.shape, .contiguous = true };
	int rc;

	b->announced = true;
	rc = pt_parse_storage(b->ctx, b->bytes, &b->storage);
	if (rc)
		return rc;
	t.storage = b->storage;
	rc = pt_parse_tensor(b->ctx, &t);
	return rc ? rc : pt_parse_header_done(b->ctx);
}

static int bin_feed(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used)
{
	struct bin *b = state;
	uint64_t take = pt_size_min(len, b->bytes - b->seen);
	int rc;

	if (!take)
		return pt_fail(EINVAL, "dtype and shape say an empty tensor, but bytes were written; set user.ptio.shape to what is written");
	if (!b->announced) {
		rc = announce(b);
		if (rc)
			return rc;
	}
	rc = pt_parse_data(b->ctx, b->storage, b->seen, data, take);
	if (rc)
		return rc;
	b->seen += take;
	*ret_used = take;
	return b->seen == b->bytes ? pt_parse_complete(b->ctx) : 0;
}

/* An empty tensor has no byte that could complete it. */
static int bin_end(void *state)
{
	struct bin *b = state;
	int rc;

	if (b->bytes)
		return pt_fail(EINVAL, "dtype and shape say %llu bytes, but the file ended after %llu", (unsigned long long)b->bytes,
			       (unsigned long long)b->seen);
	rc = b->announced ? 0 : announce(b);
	return rc ? rc : pt_parse_complete(b->ctx);
}

static void bin_free(void *state)
{
	free(state);
}

const struct pt_parse_ops pt_parse_ops_bin = {
	.format = PT_FORMAT_BIN,
	.create = bin_create,
	.feed = bin_feed,
	.end = bin_end,
	.free = bin_free,
};

/* fuzz/fuzz_pt.c - the torch.save parser. The last byte chooses the pieces; whatever is announced must hold for what follows. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "format/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STORAGES_MAX 256

static struct {
	uint64_t bytes[STORAGES_MAX], got[STORAGES_MAX];
	uint32_t storage_count;
	int header_done, complete;
} seen;

static void require(bool ok)
{
	if (!ok)
		abort();
}

static int on_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	(void)ctx;
	require(storage == seen.storage_count && !seen.header_done);
	if (storage < STORAGES_MAX)
		seen.bytes[storage] = bytes;
	seen.storage_count++;
	return 0;
}

static int on_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	uint64_t bytes, extent = 0, storage_bytes;

	(void)ctx;
	require(!seen.header_done && t->storage < seen.storage_count && strlen(t->name) < 1 << 17);
	require(pt_shape_bytes(&t->shape, t->dtype, &bytes) == 0);
	if (t->storage >= STORAGES_MAX)
		return 0;
	storage_bytes = seen.bytes[t->storage];
	require(t->storage_off <= storage_bytes);
	if (t->contiguous) {
		require(bytes <= storage_bytes - t->storage_off);
	} else if (bytes > 0) {
		uint64_t unit = pt_dtype_info(t->dtype)->bits < 8 ? 1 : pt_dtype_info(t->dtype)->bits / 8, part;

		for (uint32_t i = 0; i < t->shape.ndim; i++) {
			uint64_t dim = t->shape.dim[i];

			if (t->dtype == PT_DTYPE_F4_E2M1 && i + 1 == t->shape.ndim)
				dim /= 2;
			require(pt_size_mul(dim - 1, t->stride[i], &part) && pt_size_add(extent, part, &extent));
		}
		require(extent < (storage_bytes - t->storage_off) / unit);
	}
	if (bytes > 0 && bytes < 1 << 16 && storage_bytes < 1 << 16) {
		uint8_t *storage = calloc(1, storage_bytes), *out = malloc(bytes);
		uint64_t unit = pt_dtype_info(t->dtype)->bits < 8 ? 1 : pt_dtype_info(t->dtype)->bits / 8;

		pt_gather_strided(storage, t, 0, bytes / unit, out);
		pt_gather_strided(storage, t, bytes / unit / 2, bytes / unit - bytes / unit / 2, out);
		free(storage);
		free(out);
	}
	return 0;
}

static int on_header_done(void *ctx)
{
	(void)ctx;
	seen.header_done = 1;
	return 0;
}

static int on_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	(void)ctx;
	(void)data;
	require(seen.header_done && !seen.complete && storage < seen.storage_count && len > 0);
	if (storage < STORAGES_MAX) {
		require(off == seen.got[storage] && len <= seen.bytes[storage] - off);
		seen.got[storage] += len;
	}
	return 0;
}

static int on_complete(void *ctx)
{
	(void)ctx;
	for (uint32_t i = 0; i < seen.storage_count && i < STORAGES_MAX; i++)
		require(seen.got[i] == seen.bytes[i]);
	seen.complete = 1;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_parse_sink sink = { .storage = on_storage, .tensor = on_tensor, .header_done = on_header_done, .data = on_data,
				      .complete = on_complete };
	size_t piece = size > 0 ? data[size - 1] % 64 * 3 + 1 : 1;
	struct pt_parser *p = NULL;
	int rc = 0;

	memset(&seen, 0, sizeof(seen));
	if (pt_parser_create(PT_FORMAT_PT, &sink, NULL, &p) < 0)
		return 0;
	for (size_t off = 0; off < size && rc == 0; off += piece)
		rc = pt_parser_feed(p, data + off, size - off < piece ? size - off : piece);
	require(rc == 0 || strlen(pt_fail_sentence()) > 0);
	require(pt_parser_complete(p) == (seen.complete && rc == 0));
	if (rc == 0)
		require((pt_parser_end(p) == 0) == pt_parser_complete(p));
	pt_parser_free(p);
	return 0;
}

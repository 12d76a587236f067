/* tests/fuzz/format_fuzz.h - feeds a fuzz input to a parser and checks what the sink is told.
 *
 * Byte 0 of the input chooses the size of the pieces (low 3 bits), whether the format is forced (8), whether pieces of zeros go in as
 * holes (16) and the dtype that the hint names (high 3 bits); byte 1, when not 0, which allocation fails. The file follows. */
#ifndef PT_FUZZ_FORMAT_FUZZ_H
#define PT_FUZZ_FORMAT_FUZZ_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/parse.h"

#define FUZZ_STORAGES 64

struct fuzz_seen {
	uint32_t storages;
	uint64_t bytes[FUZZ_STORAGES], got[FUZZ_STORAGES];
	int header_done, complete;
};

static inline void fuzz_require(int true_thing)
{
	if (!true_thing)
		abort();
}

static inline int fuzz_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct fuzz_seen *s = ctx;

	fuzz_require(!s->header_done && storage == s->storages && bytes <= ((uint64_t)1 << 62));
	if (storage < FUZZ_STORAGES)
		s->bytes[storage] = bytes;
	s->storages++;
	return 0;
}

static inline int fuzz_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct fuzz_seen *s = ctx;
	uint64_t bytes;

	fuzz_require(!s->header_done && t->storage < s->storages && t->name && strlen(t->name) < 100000000);
	fuzz_require(pt_shape_bytes(&t->shape, t->dtype, &bytes) == 0);
	if (t->contiguous && t->storage < FUZZ_STORAGES)
		fuzz_require(t->storage_off + bytes <= s->bytes[t->storage]);
	return 0;
}

static inline int fuzz_header_done(void *ctx)
{
	struct fuzz_seen *s = ctx;

	fuzz_require(s->header_done++ == 0);
	return 0;
}

static inline int fuzz_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct fuzz_seen *s = ctx;
	volatile uint8_t last = 0;

	fuzz_require(s->header_done && storage < s->storages && len > 0);
	if (data)
		last = ((const uint8_t *)data)[len - 1];
	(void)last;
	if (storage < FUZZ_STORAGES) {
		fuzz_require(off == s->got[storage] && off + len <= s->bytes[storage]);
		s->got[storage] += len;
	}
	return 0;
}

static inline int fuzz_complete(void *ctx)
{
	struct fuzz_seen *s = ctx;
	uint32_t i;

	fuzz_require(s->header_done && s->complete++ == 0);
	for (i = 0; i < s->storages && i < FUZZ_STORAGES; i++)
		fuzz_require(s->got[i] == s->bytes[i]);
	return 0;
}

static inline int fuzz_all_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return n == 0;
}

/* shape: what the hint says, or NULL. */
static inline int fuzz_parse_shaped(enum pt_format format, const struct pt_shape *shape, const uint8_t *data, size_t size)
{
	static const size_t pieces[8] = { 1, 2, 3, 7, 64, 311, 4096, SIZE_MAX };
	static const enum pt_dtype hints[8] = {
		PT_DTYPE_INVALID, PT_DTYPE_BF16, PT_DTYPE_F8_E4M3FN, PT_DTYPE_F8_E8M0, PT_DTYPE_U8, PT_DTYPE_F32, PT_DTYPE_C128, PT_DTYPE_F4_E2M1,
	};
	struct fuzz_seen seen = { 0 };
	struct pt_parse_sink sink = {
		.ctx = &seen, .storage = fuzz_storage, .tensor = fuzz_tensor, .header_done = fuzz_header_done, .data = fuzz_data,
		.complete = fuzz_complete,
	};
	struct pt_parse_hint hint = { 0 };
	struct pt_parser *p = NULL;
	size_t piece, n;
	bool holes;
	int rc;

	if (size < 2)
		return 0;
	piece = pieces[data[0] & 7];
	hint.dtype = hints[data[0] >> 5];
	hint.has_shape = shape != NULL;
	if (shape)
		hint.shape = *shape;
	holes = data[0] & 16;
	if (!(data[0] & 8))
		format = PT_FORMAT_COUNT;
	if (data[1])
		pt_alloc_fail_after(data[1] - 1);
	rc = pt_parser_create(format, &sink, &hint, &p);
	for (data += 2, size -= 2; !rc && size; data += n, size -= n) {
		n = size < piece ? size : piece;
		rc = pt_parser_feed(p, holes && fuzz_all_zero(data, n) ? NULL : data, n);
	}
	if (p) {
		if (!rc)
			rc = pt_parser_end(p);
		fuzz_require((rc == 0) == pt_parser_complete(p));
		fuzz_require(rc != 0 || seen.complete);
		fuzz_require(rc == 0 || pt_parser_end(p) < 0);
	}
	pt_parser_free(p);
	pt_alloc_fail_after(-1);
	return 0;
}

static inline int fuzz_parse(enum pt_format format, const uint8_t *data, size_t size)
{
	return fuzz_parse_shaped(format, NULL, data, size);
}

#endif

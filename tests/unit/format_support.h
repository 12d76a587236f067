/* tests/unit/format_support.h - what the format tests share: served files as one piece of memory, and a sink that records all
 * that a parser says. */
#ifndef PT_TEST_FORMAT_SUPPORT_H
#define PT_TEST_FORMAT_SUPPORT_H

#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "format/parse.h"
#include "format/serve.h"
#include "lib/suite.h"

static inline struct pt_shape shape_of(uint32_t ndim, ...)
{
	struct pt_shape s = { .ndim = ndim };
	va_list ap;
	uint32_t i;

	va_start(ap, ndim);
	for (i = 0; i < ndim; i++)
		s.dim[i] = (uint64_t)va_arg(ap, int);
	va_end(ap);
	return s;
}

/* The file's bytes, payload[i] being tensor i's; checks that the segments are in order and without a gap. */
static inline void assemble(const struct pt_served *s, const void *const *payload, struct pt_buf *ret_file)
{
	struct pt_buf file = PT_BUF_INIT;
	size_t i;

	for (i = 0; i < s->segment_count; i++) {
		const struct pt_segment *g = &s->segments[i];

		ck_assert_uint_eq(g->off, file.len);
		ck_assert_uint_gt(g->len, 0);
		if (g->tensor >= 0) {
			pt_buf_append(&file, payload[g->tensor], g->len);
		} else {
			ck_assert_uint_le(g->literal_off + g->len, s->literals.len);
			pt_buf_append(&file, s->literals.data + g->literal_off, g->len);
		}
	}
	ck_assert(!pt_buf_failed(&file));
	ck_assert_uint_eq(file.len, s->size);
	*ret_file = file;
}

#define SEEN_MAX 64

struct seen_tensor {
	char name[64];
	enum pt_dtype dtype;
	struct pt_shape shape;
	uint32_t storage;
	uint64_t storage_off;
	bool contiguous;
	uint64_t stride[PT_DIMS_MAX];
	bool has_obj;
	struct pt_obj obj;
};

struct seen {
	uint32_t storages, tensors;
	uint64_t storage_bytes[SEEN_MAX];
	struct pt_buf storage[SEEN_MAX];
	struct seen_tensor tensor[SEEN_MAX];
	int header_done, complete;
	int fail_data;                  /* error to return from data() */
};

static inline int seen_storage(void *ctx, uint32_t storage, uint64_t bytes)
{
	struct seen *s = ctx;

	ck_assert(!s->header_done);
	ck_assert_uint_eq(storage, s->storages);
	if (s->storages == SEEN_MAX)
		return -ENOSPC;
	s->storage_bytes[s->storages++] = bytes;
	return 0;
}

static inline int seen_tensor(void *ctx, const struct pt_parse_tensor *t)
{
	struct seen *s = ctx;
	struct seen_tensor *n;

	ck_assert(!s->header_done);
	ck_assert_uint_lt(t->storage, s->storages);
	if (s->tensors == SEEN_MAX)
		return -ENOSPC;
	n = &s->tensor[s->tensors++];
	snprintf(n->name, sizeof(n->name), "%s", t->name);
	n->dtype = t->dtype;
	n->shape = t->shape;
	n->storage = t->storage;
	n->storage_off = t->storage_off;
	n->contiguous = t->contiguous;
	memcpy(n->stride, t->stride, sizeof(n->stride));
	n->has_obj = t->obj != NULL;
	if (t->obj)
		n->obj = *t->obj;
	return 0;
}

static inline int seen_header_done(void *ctx)
{
	struct seen *s = ctx;

	ck_assert_int_eq(s->header_done++, 0);
	return 0;
}

static inline int seen_data(void *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len)
{
	struct seen *s = ctx;

	ck_assert_int_eq(s->header_done, 1);
	ck_assert_uint_lt(storage, s->storages);
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_eq(off, s->storage[storage].len);
	ck_assert_uint_le(off + len, s->storage_bytes[storage]);
	if (s->fail_data)
		return s->fail_data;
	if (data)
		pt_buf_append(&s->storage[storage], data, len);
	else
		pt_buf_append_zeros(&s->storage[storage], len);
	return 0;
}

static inline int seen_complete(void *ctx)
{
	struct seen *s = ctx;
	uint32_t i;

	ck_assert_int_eq(s->header_done, 1);
	ck_assert_int_eq(s->complete++, 0);
	for (i = 0; i < s->storages; i++)
		ck_assert_uint_eq(s->storage[i].len, s->storage_bytes[i]);
	return 0;
}

static inline struct pt_parse_sink seen_sink(struct seen *s)
{
	return (struct pt_parse_sink){
		.ctx = s, .storage = seen_storage, .tensor = seen_tensor, .header_done = seen_header_done, .data = seen_data,
		.complete = seen_complete,
	};
}

static inline void seen_done(struct seen *s)
{
	uint32_t i;

	for (i = 0; i < SEEN_MAX; i++)
		pt_buf_done(&s->storage[i]);
	memset(s, 0, sizeof(*s));
}

/* Feeds a whole file in pieces of `piece` bytes and ends it; returns the verdict. s is set up afresh; seen_done() it. */
static inline int parse_all(enum pt_format format, const struct pt_parse_hint *hint, const void *data, size_t len, size_t piece, struct seen *s)
{
	const uint8_t *p = data;
	struct pt_parse_sink sink = seen_sink(s);
	struct pt_parser *parser;
	size_t at = 0;
	int rc;

	memset(s, 0, sizeof(*s));
	rc = pt_parser_create(format, &sink, hint, &parser);
	if (rc)
		return rc;
	while (!rc && at < len) {
		size_t n = len - at < piece ? len - at : piece;
		uint8_t *copy = malloc(n);              /* its own block, so that a sanitizer sees an overrun */

		memcpy(copy, p + at, n);
		pt_fail_clear();
		rc = pt_parser_feed(parser, copy, n);
		free(copy);
		at += n;
		if (rc) {
			ck_assert_str_ne(pt_fail_sentence(), "");
			ck_assert(!pt_parser_complete(parser));
			ck_assert_int_eq(pt_parser_feed(parser, p, 1), rc);
			ck_assert_int_eq(pt_parser_end(parser), rc);
		}
	}
	if (!rc) {
		pt_fail_clear();
		rc = pt_parser_end(parser);
		ck_assert_int_eq(rc == 0, s->complete);
		ck_assert_int_eq(rc == 0, pt_parser_complete(parser));
		if (rc)
			ck_assert_str_ne(pt_fail_sentence(), "");
		else
			ck_assert_uint_eq(pt_parser_fed(parser), len);
	}
	pt_parser_free(parser);
	return rc;
}

static const size_t piece_sizes[] = { 1, 2, 7, 64, 4096 };
#define PIECE_SIZES (sizeof(piece_sizes) / sizeof(piece_sizes[0]))

/* No prefix of a good file is complete, one byte more is refused, and no change of a byte does worse than a refusal. */
static inline void check_robust(enum pt_format format, const struct pt_parse_hint *hint, const struct pt_buf *file)
{
	struct seen s;
	struct pt_buf longer = PT_BUF_INIT;
	unsigned int seed = 1;
	size_t i;
	int k;

	for (i = 0; i < file->len; i++) {
		ck_assert_int_ne(parse_all(format, hint, file->data, i, 4096, &s), 0);
		ck_assert_int_eq(s.complete, 0);
		seen_done(&s);
	}
	pt_buf_append(&longer, file->data, file->len);
	pt_buf_append_u8(&longer, 0);
	for (i = 0; i < PIECE_SIZES; i++) {
		ck_assert_int_eq(parse_all(format, hint, longer.data, longer.len, piece_sizes[i], &s), -EINVAL);
		seen_done(&s);
	}
	for (k = 0; k < 3000; k++) {
		int changes = 1 + k % 3;

		memcpy(longer.data, file->data, file->len);
		while (changes--)
			longer.data[(size_t)rand_r(&seed) % (file->len < 512 ? file->len : 512)] = (uint8_t)rand_r(&seed);
		parse_all(format, hint, longer.data, file->len, piece_sizes[(size_t)k % PIECE_SIZES], &s);
		seen_done(&s);
	}
	pt_buf_done(&longer);
}

#endif

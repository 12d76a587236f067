/* format/parse_int.h - what the parser's front end (parse.c) and the format parsers (parse_*.c) agree on. Internal to format/.
 *
 * The front end owns the context, recognises the format, holds the first error for good and refuses bytes after the end.
 * A format parser is a state made by its ops; it calls the sink only through the helpers below. */
#ifndef PT_FORMAT_PARSE_INT_H
#define PT_FORMAT_PARSE_INT_H

#include "base/buf.h"
#include "format/parse.h"

struct pt_parse_ctx {
	struct pt_parse_sink sink;
	struct pt_parse_hint hint;
	uint64_t fed;                   /* file offset of the byte that the next feed starts with; kept by the front end */
	uint32_t storage_count;         /* announced so far */
	bool header_done;
	bool complete;
};

struct pt_parse_ops {
	enum pt_format format;
	/* ctx outlives the state. */
	int (*create)(struct pt_parse_ctx *ctx, void **ret_state);
	/* Takes the next bytes, len > 0; data NULL: that many zeros. Takes as many as suit it, at least one, and says how many in
	 * *ret_used; the front end calls again with the rest. Never called after it failed or after ctx->complete is set. */
	int (*feed)(void *state, const uint8_t *data, uint64_t len, uint64_t *ret_used);
	/* The stream ended before ctx->complete: -EINVAL with a sentence that says what is missing (or, for an empty payload
	 * without a header, completes it). */
	int (*end)(void *state);
	void (*free)(void *state);      /* NULL is fine */
};

extern const struct pt_parse_ops pt_parse_ops_pt;               /* parse_pt.c */
extern const struct pt_parse_ops pt_parse_ops_safetensors;      /* parse_safetensors.c */
extern const struct pt_parse_ops pt_parse_ops_npy;              /* parse_npy.c */
extern const struct pt_parse_ops pt_parse_ops_bin;              /* parse_bin.c */
extern const struct pt_parse_ops pt_parse_ops_obj;              /* parse_obj.c */

/* Each passes on what the sink returns (0 or -errno; a positive value counts as 0). */
int pt_parse_storage(struct pt_parse_ctx *ctx, uint64_t bytes, uint32_t *ret_index);
int pt_parse_tensor(struct pt_parse_ctx *ctx, const struct pt_parse_tensor *t);
int pt_parse_header_done(struct pt_parse_ctx *ctx);
/* len 0 is nothing. */
int pt_parse_data(struct pt_parse_ctx *ctx, uint32_t storage, uint64_t off, const void *data, uint64_t len);
/* Sets ctx->complete when the sink agrees. */
int pt_parse_complete(struct pt_parse_ctx *ctx);

/* Moves bytes (zeros when data is NULL) into buf until it holds want of them; returns how many were taken.
 * The buffer grows by what arrives. Check pt_buf_failed(). */
uint64_t pt_parse_collect(struct pt_buf *buf, uint64_t want, const uint8_t *data, uint64_t len);

#endif

/* tensor/slice.h - the owned part of a tensor's row-major bytes, picked out of a stream of all of them. Internal to tensor/. */
#ifndef PT_TENSOR_SLICE_H
#define PT_TENSOR_SLICE_H

#include <stdint.h>

#include "layout/box.h"

#define PT_SLICE_STAGE (64u << 10)

/* Gets the owned bytes in order; data NULL: zeros. 0 or -errno, which stops the feed. */
typedef int pt_slice_out_fn(void *ctx, const void *data, uint64_t len);

/* A box that is whole in every dimension but at most one. Bytes come in periods; of each, [start, start + run) is owned. */
struct pt_slice {
	uint64_t period, start, run;    /* bytes; period 0: there are no bytes at all */
	uint64_t total;                 /* bytes of the stream */
	uint64_t pos;                   /* bytes seen */
	pt_slice_out_fn *out;
	void *ctx;
	uint8_t *stage;                 /* gathers runs that are small; made when needed */
	uint32_t staged;
};

/* -EINVAL: the box is no part of the shape, is cut in two dimensions, or would cut an fp4 byte. */
int pt_slice_init(struct pt_slice *s, const struct pt_shape *shape, enum pt_dtype dtype, const struct pt_box *box, pt_slice_out_fn *out, void *ctx);
/* Next bytes of the stream. -EINVAL beyond its end. Skipped bytes are never touched. */
int pt_slice_feed(struct pt_slice *s, const void *data, uint64_t len);
/* Hands out what is still staged; call it once all is fed. */
int pt_slice_flush(struct pt_slice *s);
void pt_slice_done(struct pt_slice *s);

#endif

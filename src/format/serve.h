/* format/serve.h - the file bytes of tensors in a format: synthesised pieces around payloads.
 *
 * A served file is a list of segments in file order: literal bytes, or a payload that the caller fetches. Sizes are exact
 * before any payload byte is known. The bytes are a pure function of the arguments. Layouts:
 *   pt: docs/SPEC.md "PT1" (stored zip, data.pkl first, payload of 64 KiB and more at multiples of 4096)
 *   safetensors: as save_file writes (metadata {"format":"pt"}, padded to 8)
 *   npy: as numpy writes;  bin: the payload;  obj: 304-byte header and payload. */
#ifndef PT_FORMAT_SERVE_H
#define PT_FORMAT_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/format.h"
#include "layout/axis.h"
#include "layout/box.h"

struct pt_serve_tensor {
	const char *name;               /* UTF-8; used by safetensors (and by pt when as_dict) */
	enum pt_dtype dtype;
	struct pt_shape shape;          /* of the payload */
	/* obj only: */
	struct pt_shape global_shape;
	struct pt_layout axes;          /* axis_count 0: FULL */
	struct pt_axis axes_in_order[PT_AXIS_KINDS];    /* the caller's order, axes.axis_count of them */
	/* pt only: CRC-32 of the payload when known, else 0 */
	uint32_t crc32;
};

struct pt_segment {
	uint64_t off;                   /* in the file */
	uint64_t len;                   /* > 0 */
	int32_t tensor;                 /* index of the tensor whose payload this is, or -1: literal */
	uint64_t literal_off;           /* literal: where its bytes are in pt_served.literals */
};

struct pt_served {
	uint64_t size;                  /* of the file */
	struct pt_segment *segments;    /* sorted by off, contiguous */
	size_t segment_count;
	struct pt_buf literals;
};

/* EOPNOTSUPP: the format cannot express dtype (sentence names both), or ndim > 8 for obj, > 64 for npy.
 * EINVAL: count != 1 for npy, bin, obj. EFBIG: header beyond the format's limit. ENOMEM.
 * as_dict (pt): a dict of names even for one tensor; else a bare tensor when count is 1. */
int pt_serve(enum pt_format format, const struct pt_serve_tensor *tensors, size_t count, int as_dict, struct pt_served *ret_served);
/* A pt file whose data.pkl is given; storage i is the payload of tensors[i] (names are not used). */
int pt_serve_with_pickle(const struct pt_serve_tensor *tensors, size_t count, const struct pt_buf *pickle, struct pt_served *ret_served);
void pt_served_done(struct pt_served *s);
/* The segment that holds file offset off (binary search); off < size. */
size_t pt_served_find(const struct pt_served *s, uint64_t off);

/* Header of a stored native object: a safetensors file with one tensor called "tensor", `metadata` pairs (name, value, ... NULL)
 * in its __metadata__, space-padded so that the payload starts at a multiple of 4096. complex128 is stored as F64 with a trailing
 * dimension of 2. Returns the header's bytes. */
int pt_serve_object_header(enum pt_dtype dtype, const struct pt_shape *shape, const char *const *metadata, struct pt_buf *ret_header);

#endif

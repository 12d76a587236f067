/* SPDX-License-Identifier: Apache-2.0 */
/* ptio/ranges.h - low level: byte ranges of tensor objects, straight into registered memory.
 *
 * Offsets count the bytes of the object as ptio_get_into writes it: 304 bytes of header, then the payload. Destinations are counted from the
 * buffer, and may reach to the end of the registered region that it lies in. Ranges fail one by one; keys are not read at one moment together. */
#ifndef PTIO_RANGES_H
#define PTIO_RANGES_H

#include "ptio/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ptio;

struct ptio_range {
	uint64_t src_off;                       /* in the object */
	uint64_t dst_off;                       /* in the buffer */
	uint64_t size;
	int64_t result;                         /* out: size, or -EINVAL beyond the object or the region, -ENOENT, -ENODATA, -EIO, ... */
};

/* Ranges of one key. */
struct ptio_range_key {
	const char *key;
	const struct ptio_read_target *target;  /* NULL: as_stored */
	struct ptio_range *ranges;
	size_t range_count;
};

/* Keys that are read into one buffer. */
struct ptio_range_row {
	struct ptio_range_key *keys;
	size_t key_count;
};

/* 0, or the first failure of a range; every range has its result. */
PTIO_API int ptio_get_into_ranges(struct ptio *p, void *buffer, struct ptio_range_key *key);
/* Row i goes to buffers[i]. 0 even if ranges failed (look at their results); -EINVAL, and every result -EINVAL, when the counts differ. */
PTIO_API int ptio_batch_get_into_ranges(struct ptio *p, void *const *buffers, size_t buffer_count, struct ptio_range_row *rows, size_t row_count);

#ifdef __cplusplus
}
#endif

#endif

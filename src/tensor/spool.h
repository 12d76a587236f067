/* tensor/spool.h - an unlinked temporary file that holds a strided tensor's storage until it can be gathered. Internal to tensor/. */
#ifndef PT_TENSOR_SPOOL_H
#define PT_TENSOR_SPOOL_H

#include <stdint.h>

#include "format/parse.h"
#include "tensor/slice.h"

struct pt_spool {
	int fd;                         /* -1: none */
	uint64_t bytes;
};

/* In dir if it allows that (NULL: none), else in TMPDIR, else /tmp. bytes: of the storage. */
int pt_spool_open(struct pt_spool *s, const char *dir, uint64_t bytes);
/* data NULL: zeros. */
int pt_spool_write(struct pt_spool *s, const void *data, uint64_t len, uint64_t off);
/* The tensor's row-major bytes, in windows of bounded memory. -EINVAL: it reaches outside the storage. */
int pt_spool_gather(struct pt_spool *s, const struct pt_parse_tensor *t, pt_slice_out_fn *out, void *ctx);
void pt_spool_done(struct pt_spool *s);

/* The same from memory of `bytes` bytes. */
int pt_strided_gather(const void *storage, uint64_t bytes, const struct pt_parse_tensor *t, pt_slice_out_fn *out, void *ctx);

#endif

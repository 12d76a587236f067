/* SPDX-License-Identifier: Apache-2.0 */
/* ptio/tp.h - the older calls for plain tensor parallelism: the writer passes the full tensor, and all slices are stored.
 *
 * The slices of one call are one set, so that readers never see those of two calls together. tp_size 1 or less: the tensor is stored and read
 * whole. The `pub` forms of the tensor API are these: replica settings mean nothing here. */
#ifndef PTIO_TP_H
#define PTIO_TP_H

#include "ptio/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ptio;

PTIO_API int ptio_put_with_tp(struct ptio *p, const char *key, const struct ptio_tensor *t, int32_t tp_size, int32_t split_dim);
PTIO_API int ptio_upsert_with_tp(struct ptio *p, const char *key, const struct ptio_tensor *t, int32_t tp_size, int32_t split_dim);
/* From a FULL tensor object of exactly size bytes. */
PTIO_API int ptio_put_with_tp_from(struct ptio *p, const char *key, const void *object, uint64_t size, int32_t tp_size, int32_t split_dim);
PTIO_API int ptio_batch_put_with_tp(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
				    int32_t tp_size, int32_t split_dim, int *ret_codes);
PTIO_API int ptio_batch_put_with_tp_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
					 const uint64_t *sizes, size_t size_count, int32_t tp_size, int32_t split_dim, int *ret_codes);
/* Shard rank of tp_size along split_dim, whatever size and dimension are stored. */
PTIO_API int ptio_get_with_tp(struct ptio *p, const char *key, int32_t rank, int32_t tp_size, int32_t split_dim, struct ptio_tensor *ret_t);
PTIO_API int64_t ptio_get_into_with_tp(struct ptio *p, const char *key, int32_t rank, int32_t tp_size, int32_t split_dim, void *buf, uint64_t size,
				       struct ptio_tensor *ret_t);
PTIO_API int ptio_batch_get_into_with_tp(struct ptio *p, const char *const *keys, size_t key_count, void *const *bufs, size_t buf_count,
					 const uint64_t *sizes, size_t size_count, int32_t rank, int32_t tp_size, int32_t split_dim, int64_t *ret_results);

#ifdef __cplusplus
}
#endif

#endif

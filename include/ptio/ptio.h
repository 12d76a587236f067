/* SPDX-License-Identifier: Apache-2.0 */
/* ptio/ptio.h - sharded tensors by name: put them in whatever parallel layout the writer has, get them in the one the reader wants.
 *
 * Functions return 0 (or a count) or -errno, and leave a sentence for people in ptio_last_error(). Codes:
 *   -EINVAL     nonsense: bad axes, axes together with a writer partition, lists of different lengths, a malformed object, a buffer that is NULL,
 *               not registered or too small, an empty key  (the tensor API's -600)
 *   -ENOENT     nothing of that name, or not in that layout or scope  (absent, -704)
 *   -ENODATA    the set is not complete yet  (absent, -703)
 *   -EEXIST     put of what has a revision already  (-705; upstream's put returns 0 and stores nothing)
 *   -EOPNOTSUPP a dtype or shape that a tensor object (or safetensors) cannot express
 *   -ENOSPC, -EDQUOT, -EROFS  as on a filesystem  (-200)
 *   -EIO        damage, or the store failed  (-800, -801)
 *   -ENOMEM
 * A handle may be used by any number of threads at once. */
#ifndef PTIO_PTIO_H
#define PTIO_PTIO_H

#include "ptio/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ptio;

enum ptio_verify { PTIO_VERIFY_TOUCH = 0, PTIO_VERIFY_WHOLE = 1, PTIO_VERIFY_OFF = 2 };

struct ptio_options {
	int read_only;                          /* refuse every change */
	int create;                             /* make a dir: store that is not there */
	int force;                              /* allow a dir: store on a network filesystem */
	enum ptio_verify verify;                /* which reads are checked against their hashes */
};

/* uri: "/path", "dir:/path", "mem:SIZE". options NULL: defaults. -EINVAL not a URI, -ENOENT no such store, -ENOTSUP. */
PTIO_API int ptio_open(const char *uri, const struct ptio_options *options, struct ptio **ret_p);
/* NULL is fine. No call may be running. */
PTIO_API void ptio_close(struct ptio *p);
/* This thread's last failure as a sentence; "" when there was none. Valid until the thread's next call. */
PTIO_API const char *ptio_last_error(void);

/* ---- writing ----
 * What is stored, by request (DESIGN "Writes"):
 *   none                   the caller passes the full tensor; it is stored whole
 *   [tp]                   the caller passes its shard
 *   [dp] [ep] [pp] ...     any tensor, whole, in that scope
 *   scope axes with tp     the full tensor; only the slice of this tp rank is stored, in that scope
 *   writer partition       the full tensor; only that slice is stored
 * put fails with -EEXIST when (key, scope) has a revision; upsert replaces it. A set becomes readable, and a revision, with its last part. */
PTIO_API int ptio_put(struct ptio *p, const char *key, const struct ptio_tensor *t, const struct ptio_write *how);
PTIO_API int ptio_upsert(struct ptio *p, const char *key, const struct ptio_tensor *t, const struct ptio_write *how);
/* From a complete tensor object (304-byte header and payload, exactly size bytes) in memory. It is FULL, and the slice that the request names is stored
 * (with [tp] alone, too); a SHARD is taken for [tp] alone, when its axes are those of the request. */
PTIO_API int ptio_put_from(struct ptio *p, const char *key, const void *object, uint64_t size, const struct ptio_write *how);
PTIO_API int ptio_upsert_from(struct ptio *p, const char *key, const void *object, uint64_t size, const struct ptio_write *how);

/* Batches: ret_codes gets key_count results, each as of the single call; keys may repeat. Returns 0, or -EINVAL when the call as a whole is
 * refused (counts differ, axes and writer partitions both given): then nothing is stored and every code is -EINVAL. how NULL: full tensors. */
PTIO_API int ptio_batch_put(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
			    const struct ptio_batch_write *how, int *ret_codes);
PTIO_API int ptio_batch_upsert(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_tensor *tensors, size_t tensor_count,
			       const struct ptio_batch_write *how, int *ret_codes);
PTIO_API int ptio_batch_put_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
				 const uint64_t *sizes, size_t size_count, const struct ptio_batch_write *how, int *ret_codes);
PTIO_API int ptio_batch_upsert_from(struct ptio *p, const char *const *keys, size_t key_count, const void *const *objects, size_t object_count,
				    const uint64_t *sizes, size_t size_count, const struct ptio_batch_write *how, int *ret_codes);

/* ---- reading ---- */
/* Allocates ret_t->data; ptio_tensor_done frees it. */
PTIO_API int ptio_get(struct ptio *p, const char *key, const struct ptio_read_target *target, struct ptio_tensor *ret_t);
/* Writes a tensor object, payload first and header last, so that a header says that the payload is there; on failure the payload area may be
 * dirty. [buf, buf + size) must lie in one registered region. Returns the object's bytes. ret_t NULL, or gets dtype, shape and
 * data (inside buf, not to be freed). */
PTIO_API int64_t ptio_get_into(struct ptio *p, const char *key, const struct ptio_read_target *target, void *buf, uint64_t size, struct ptio_tensor *ret_t);
/* targets NULL with target_count 0: as_stored for all. Results one a key: codes of ptio_get; bytes or -errno of ptio_get_into. Returns 0, or
 * -EINVAL (and every result -EINVAL) when counts differ. Tensors of failed keys are empty. */
PTIO_API int ptio_batch_get(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
			    struct ptio_tensor *ret_tensors, int *ret_codes);
PTIO_API int ptio_batch_get_into(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
				 void *const *bufs, size_t buf_count, const uint64_t *sizes, size_t size_count, int64_t *ret_results);

/* ---- telling ---- */
struct ptio_description {
	int complete;                           /* 0: a pending set answers */
	int readable;
	int shape_known;
	enum ptio_dtype dtype;
	uint32_t ndim;
	uint64_t shape[PTIO_DIMS_MAX];          /* of what the target reads */
	uint64_t global_shape[PTIO_DIMS_MAX];
	uint64_t offset[PTIO_DIMS_MAX];         /* of the target's box in the global tensor */
	uint64_t payload_bytes;
	uint64_t object_bytes;                  /* as a tensor object; 0 where it cannot be one */
	uint64_t revision;                      /* 0: pending */
	uint32_t axis_count;                    /* axes it is served with, in order; 0: FULL */
	struct ptio_axis axes[PTIO_AXES_MAX];
};

/* What a read of this target would give. */
PTIO_API int ptio_describe(struct ptio *p, const char *key, const struct ptio_read_target *target, struct ptio_description *ret_d);
/* Many at once: of a store on another machine in a few round trips, however many keys there are. targets NULL with target_count 0: as_stored for all. ret_codes gets
 * one code a key; descriptions of failed keys are zeros. Returns 0, or -EINVAL (and every code -EINVAL) when counts differ. */
PTIO_API int ptio_batch_describe(struct ptio *p, const char *const *keys, size_t key_count, const struct ptio_read_target *targets, size_t target_count,
				 struct ptio_description *ret_descriptions, int *ret_codes);
/* All that is known of a key, as JSON text for free(): scopes, objects, pending sets and what they miss. */
PTIO_API int ptio_describe_json(struct ptio *p, const char *key, char **ret_json);
/* Bytes of the tensor object that ptio_get_into would write. */
PTIO_API int ptio_object_size(struct ptio *p, const char *key, const struct ptio_read_target *target, uint64_t *ret_size);
/* Keys that begin with prefix ("" for all) and have a revision or a pending set, in the order of their components. Return 0 to go on, 1 to stop. */
typedef int ptio_list_fn(void *ctx, const char *key, int complete);
PTIO_API int ptio_list(struct ptio *p, const char *prefix, ptio_list_fn *fn, void *ctx);
/* Removes every revision and pending set of a key (keys below it stay), or only those of one scope (dp, ep, pp axes). -ENOENT. */
PTIO_API int ptio_remove(struct ptio *p, const char *key, const struct ptio_parallelism *scope);

/* ---- buffers that reads into memory target ---- */
/* -EEXIST: it overlaps a registered region. */
PTIO_API int ptio_register_buffer(struct ptio *p, void *addr, uint64_t len);
/* addr as registered. -ENOENT. */
PTIO_API int ptio_unregister_buffer(struct ptio *p, void *addr);

/* ---- files ---- */
/* Writes a target as a safetensors file that holds one tensor named by the key. path NULL: a file named like the key (slashes become
 * underscores) in the working directory. An existing file is replaced, at once. */
PTIO_API int ptio_save_safetensors(struct ptio *p, const char *key, const struct ptio_read_target *target, const char *path);
/* Stores the one tensor of a safetensors file as key, whole, replacing what is there; ret_t (NULL: not wanted) gets it. */
PTIO_API int ptio_load_safetensors(struct ptio *p, const char *key, const char *path, struct ptio_tensor *ret_t);

#ifdef __cplusplus
}
#endif

#include "ptio/ranges.h"
#include "ptio/tp.h"

#endif

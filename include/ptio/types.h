/* SPDX-License-Identifier: Apache-2.0 */
/* ptio/types.h - plain structs of requests and tensors, and the names of dtypes, axes and read modes.
 *
 * Sizes and offsets are bytes unless a name says otherwise. Structs that are passed in may be on the stack; nothing is kept after the call. */
#ifndef PTIO_TYPES_H
#define PTIO_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "ptio/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PTIO_DIMS_MAX 64
#define PTIO_AXES_MAX 4
#define PTIO_STEP_MAX 64                        /* bytes of a step tag */
#define PTIO_OBJECT_HEADER 304                  /* bytes before the payload of a tensor object */

/* Values never change; new ones are appended. */
enum ptio_dtype {
	PTIO_DTYPE_INVALID = 0,
	PTIO_BOOL = 1,
	PTIO_U8, PTIO_I8, PTIO_U16, PTIO_I16, PTIO_U32, PTIO_I32, PTIO_U64, PTIO_I64,
	PTIO_F16, PTIO_BF16, PTIO_F32, PTIO_F64, PTIO_C64, PTIO_C128,
	PTIO_F8_E4M3FN, PTIO_F8_E5M2, PTIO_F8_E4M3FNUZ, PTIO_F8_E5M2FNUZ, PTIO_F8_E8M0,
	PTIO_F4_E2M1                            /* two elements a byte; shapes count elements */
};

/* "bfloat16"; NULL for a value that is no dtype. */
PTIO_API const char *ptio_dtype_name(enum ptio_dtype dtype);
/* PTIO_DTYPE_INVALID when unknown. */
PTIO_API enum ptio_dtype ptio_dtype_by_name(const char *name);
/* Bits of an element (4 to 128), 0 for a value that is no dtype. */
PTIO_API uint32_t ptio_dtype_bits(enum ptio_dtype dtype);

/* One tensor in memory. Passed in: dtype, ndim, shape, data, bytes; strided only if strides (in elements) are given. Returned by ptio_get and its kin:
 * data is row-major and owned by the caller, who frees it with ptio_tensor_done. */
struct ptio_tensor {
	enum ptio_dtype dtype;
	uint32_t ndim;                          /* 0: a scalar */
	uint64_t shape[PTIO_DIMS_MAX];          /* elements */
	int strided;                            /* not 0: stride says where elements are; else row-major */
	uint64_t stride[PTIO_DIMS_MAX];         /* elements */
	void *data;                             /* NULL is fine when bytes is 0 */
	uint64_t bytes;                         /* at data: what shape and dtype make, or, strided, at least as far as the last element */
};

PTIO_API void ptio_tensor_done(struct ptio_tensor *t);

enum ptio_axis_kind { PTIO_DP = 0, PTIO_TP = 1, PTIO_EP = 2, PTIO_PP = 3, PTIO_AXIS_UNKNOWN = -1 };

/* "dp", "TP", ...: whatever the case. PTIO_AXIS_UNKNOWN for others, which every call refuses. */
PTIO_API enum ptio_axis_kind ptio_axis_kind_by_name(const char *name);

/* One parallel coordinate. tp must give a split_dim, ep an expert_id, pp a stage_id; the others must not have them. */
struct ptio_axis {
	enum ptio_axis_kind kind;
	int32_t rank;                           /* 0 <= rank < size */
	int32_t size;                           /* > 0 */
	int has_split_dim, has_expert_id, has_stage_id;
	int32_t split_dim;
	int32_t expert_id;
	int32_t stage_id;
};

/* One to four axes, each kind once, in the caller's order: the order is kept in object headers and never matters otherwise. */
struct ptio_parallelism {
	const struct ptio_axis *axes;
	uint32_t axis_count;
};

/* A writer that holds the full tensor and stores only slice `rank` of `size` along split_dim. */
struct ptio_writer_partition {
	int32_t rank;
	int32_t size;
	int32_t split_dim;
};

/* How a dimension that does not divide is cut. UNSET: as the key's revision was, else balanced. */
enum ptio_split { PTIO_SPLIT_UNSET = 0, PTIO_SPLIT_BALANCED = 1, PTIO_SPLIT_CHUNK = 2 };

enum ptio_read_mode { PTIO_AS_STORED = 0, PTIO_SHARD = 1, PTIO_FULL = 2 };

/* "as_stored", "SHARD", ...: whatever the case. -1: unknown. */
PTIO_API int ptio_read_mode_by_name(const char *name);

/* What a reader wants. A NULL target is as_stored without axes. shard needs axes (or a writer partition, to read that slice). */
struct ptio_read_target {
	enum ptio_read_mode mode;
	const struct ptio_parallelism *parallelism;     /* NULL: none */
	const struct ptio_writer_partition *writer;     /* NULL: none; never with parallelism */
	enum ptio_split split;
};

/* What a writer passes beside the tensor. NULL: a full tensor. Parallelism together with a writer partition is refused. */
struct ptio_write {
	const struct ptio_parallelism *parallelism;
	const struct ptio_writer_partition *writer;
	enum ptio_split split;
	/* Ties the parts of a set together: parts with different tags never make one revision. NULL: no tag; then writers that
	 * repeat a key must not begin a round before all have finished the last (use a barrier). */
	const char *step;
};

/* The same for a batch: arrays of one entry a key, or count 0. A NULL entry means "full" for that key. */
struct ptio_batch_write {
	const struct ptio_parallelism *const *parallelisms;
	size_t parallelism_count;
	const struct ptio_writer_partition *const *writers;
	size_t writer_count;
	enum ptio_split split;
	const char *step;
};

static inline struct ptio_axis ptio_axis_dp(int32_t rank, int32_t size)
{
	struct ptio_axis a = { PTIO_DP, rank, size, 0, 0, 0, 0, 0, 0 };

	return a;
}

static inline struct ptio_axis ptio_axis_tp(int32_t rank, int32_t size, int32_t split_dim)
{
	struct ptio_axis a = { PTIO_TP, rank, size, 1, 0, 0, split_dim, 0, 0 };

	return a;
}

static inline struct ptio_axis ptio_axis_ep(int32_t rank, int32_t size, int32_t expert_id)
{
	struct ptio_axis a = { PTIO_EP, rank, size, 0, 1, 0, 0, expert_id, 0 };

	return a;
}

static inline struct ptio_axis ptio_axis_pp(int32_t rank, int32_t size, int32_t stage_id)
{
	struct ptio_axis a = { PTIO_PP, rank, size, 0, 0, 1, 0, 0, stage_id };

	return a;
}

#ifdef __cplusplus
}
#endif

#endif

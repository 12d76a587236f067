/* format/obj.h - tensor objects (304-byte header) and the 96-byte manifests beside them, byte by byte (docs/SPEC.md). Pure. */
#ifndef PT_FORMAT_OBJ_H
#define PT_FORMAT_OBJ_H

#include <stdint.h>
#include <stddef.h>

#include "layout/axis.h"
#include "layout/box.h"

#define PT_OBJ_HEADER 304
#define PT_OBJ_MANIFEST 96
#define PT_OBJ_DIMS_MAX 8
#define PT_OBJ_AXES_MAX 4

struct pt_obj_axis {
	int32_t kind;                   /* 0 dp, 1 tp, 2 ep, 3 pp, 4 reserved */
	int32_t axis_index;
	int32_t rank, count, split_dim;
	int32_t id;                     /* ep: expert, pp: stage, else 0 */
	int64_t extent;                 /* local extent along split_dim, or 0 */
};

struct pt_obj {
	enum pt_dtype dtype;
	int full;                       /* 1 FULL, 0 SHARD */
	uint64_t data_offset;
	uint64_t data_bytes;
	struct pt_shape global_shape, local_shape;
	uint32_t axis_count;
	struct pt_obj_axis axis[PT_OBJ_AXES_MAX];       /* stored order */
};

struct pt_obj_manifest {
	int32_t dtype_code;
	int32_t split_dim;
	int32_t shard_count;
	struct pt_shape global_shape;
};

/* object_len: the whole object's bytes, or UINT64_MAX when not known yet (then data_offset + data_bytes counts).
 * buf holds at least min(object_len, 304) bytes. Checks rules 1..12; -EINVAL with a sentence naming the rule. */
int pt_obj_decode(const void *buf, size_t buf_len, uint64_t object_len, struct pt_obj *ret_obj);
/* Axes to a canonical layout. -EINVAL: duplicate kinds, kind 4, or contradictory (FULL with axes or global != local, SHARD
 * without axes, local > global): such an object is readable as stored but no source for others. */
int pt_obj_layout(const struct pt_obj *obj, struct pt_layout *ret_layout);
/* -EOPNOTSUPP: dtype without a code, more than 8 dims or 4 axes. data_offset is written as 304. */
int pt_obj_encode(const struct pt_obj *obj, uint8_t ret_header[PT_OBJ_HEADER]);
int pt_obj_manifest_decode(const void *buf, size_t len, struct pt_obj_manifest *ret_m);
void pt_obj_manifest_encode(const struct pt_obj_manifest *m, uint8_t ret_bytes[PT_OBJ_MANIFEST]);

#endif

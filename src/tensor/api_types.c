/* tensor/api_types.c - public names and requests, and the internal ones that they mean. Pure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"
#include "tensor/api_int.h"

_Static_assert((int)PTIO_F4_E2M1 == (int)PT_DTYPE_F4_E2M1 && (int)PTIO_C128 == (int)PT_DTYPE_C128, "public dtypes are the internal ones");
_Static_assert((int)PTIO_SPLIT_CHUNK == (int)PT_SPLIT_CHUNK, "public split rules are the internal ones");
_Static_assert((int)PTIO_PP == (int)PT_AXIS_PP && PTIO_AXES_MAX == PT_AXIS_KINDS, "public axis kinds are the internal ones");
_Static_assert(PTIO_DIMS_MAX == PT_DIMS_MAX && PTIO_STEP_MAX == PT_STEP_MAX && PTIO_OBJECT_HEADER == PT_OBJ_HEADER, "public limits are the internal ones");

const char *ptio_dtype_name(enum ptio_dtype dtype)
{
	const struct pt_dtype_info *info = pt_dtype_info((enum pt_dtype)dtype);

	return info ? info->name : NULL;
}

enum ptio_dtype ptio_dtype_by_name(const char *name)
{
	return name ? (enum ptio_dtype)pt_dtype_by_name(name) : PTIO_DTYPE_INVALID;
}

uint32_t ptio_dtype_bits(enum ptio_dtype dtype)
{
	const struct pt_dtype_info *info = pt_dtype_info((enum pt_dtype)dtype);

	return info ? info->bits : 0;
}

enum ptio_axis_kind ptio_axis_kind_by_name(const char *name)
{
	int kind;

	for (kind = 0; name && kind < PT_AXIS_KINDS; kind++)
		if (!strcasecmp(name, pt_axis_kind_name((enum pt_axis_kind)kind)))
			return (enum ptio_axis_kind)kind;
	return PTIO_AXIS_UNKNOWN;
}

int ptio_read_mode_by_name(const char *name)
{
	static const char *const names[] = { [PTIO_AS_STORED] = "as_stored", [PTIO_SHARD] = "shard", [PTIO_FULL] = "full" };
	int mode;

	for (mode = 0; name && mode < 3; mode++)
		if (!strcasecmp(name, names[mode]))
			return mode;
	return -1;
}

void ptio_tensor_done(struct ptio_tensor *t)
{
	if (!t)
		return;
	free(t->data);
	memset(t, 0, sizeof(*t));
}

/* ---- keys ---- */

int pt_api_key_check(const char *key)
{
	if (!key || !*key)
		return pt_fail(EINVAL, "the key is empty: give the tensor a name");
	if (strlen(key) > PT_KEY_MAX)
		return pt_fail(EINVAL, "the key has %zu bytes: at most %d are allowed", strlen(key), PT_KEY_MAX);
	if (!pt_text_is_utf8(key))
		return pt_fail(EINVAL, "the key is not UTF-8");
	return 0;
}

/* ---- requests ---- */

static int axis_in(const struct ptio_axis *in, struct pt_axis *ret)
{
	struct pt_axis a = { .kind = (enum pt_axis_kind)in->kind, .rank = in->rank, .size = in->size, .dim = -1 };
	const char *name;

	if ((int)in->kind < 0 || (int)in->kind >= PT_AXIS_KINDS)
		return pt_fail(EINVAL, "%d is no axis kind: dp, tp, ep and pp are", (int)in->kind);
	name = pt_axis_kind_name(a.kind);
	if (in->size <= 0)
		return pt_fail(EINVAL, "%s: size %d must be 1 or more", name, (int)in->size);
	if (!in->has_split_dim != (in->kind != PTIO_TP))
		return pt_fail(EINVAL, in->kind == PTIO_TP ? "%s: give the split_dim" : "%s: only tp splits a dimension, so leave split_dim out", name);
	if (!in->has_expert_id != (in->kind != PTIO_EP))
		return pt_fail(EINVAL, in->kind == PTIO_EP ? "%s: give the expert_id" : "%s: only ep takes an expert_id", name);
	if (!in->has_stage_id != (in->kind != PTIO_PP))
		return pt_fail(EINVAL, in->kind == PTIO_PP ? "%s: give the stage_id" : "%s: only pp takes a stage_id", name);
	if (in->has_split_dim) {
		if (in->split_dim < 0 || in->split_dim >= PT_DIMS_MAX)
			return pt_fail(EINVAL, "tp: split_dim %d is outside the tensor", (int)in->split_dim);
		a.dim = in->split_dim;
	}
	if (in->has_expert_id || in->has_stage_id) {
		a.has_id = true;
		a.id = in->has_expert_id ? in->expert_id : in->stage_id;
	}
	*ret = a;
	return 0;
}

static int parallelism_in(const struct ptio_parallelism *in, struct pt_request *req)
{
	uint32_t i;
	int rc;

	if (!in->axis_count || in->axis_count > PT_AXIS_KINDS || !in->axes)
		return pt_fail(EINVAL, "a parallelism of %u axes: give 1 to %d", (unsigned)in->axis_count, PT_AXIS_KINDS);
	for (i = 0; i < in->axis_count; i++) {
		rc = axis_in(&in->axes[i], &req->axis[i]);
		if (!rc)
			rc = pt_layout_add(&req->layout, &req->axis[i]);
		if (rc)
			return rc;
	}
	req->axis_count = in->axis_count;
	return pt_layout_check_complete(&req->layout);
}

static int common_in(const struct ptio_parallelism *parallelism, const struct ptio_writer_partition *writer, enum ptio_split split,
		     struct pt_request *req)
{
	if (parallelism && writer)
		return pt_fail(EINVAL, "axes together with a writer partition: give one of them");
	if ((int)split < 0 || split > PTIO_SPLIT_CHUNK)
		return pt_fail(EINVAL, "%d is no split rule", (int)split);
	req->split = (enum pt_split)split;
	if (writer) {
		if (writer->size <= 0 || writer->rank < 0 || writer->rank >= writer->size || writer->split_dim < 0 || writer->split_dim >= PT_DIMS_MAX)
			return pt_fail(EINVAL, "writer partition %d of %d on dim %d makes no sense (ranks count from 0)", (int)writer->rank,
				       (int)writer->size, (int)writer->split_dim);
		req->has_partition = true;
		req->partition = (struct pt_partition){ .rank = writer->rank, .size = writer->size, .dim = writer->split_dim };
	}
	return parallelism ? parallelism_in(parallelism, req) : 0;
}

int pt_api_request_read(const struct ptio_read_target *target, struct pt_request *ret_req)
{
	struct pt_request req = { .target = PT_TARGET_AS_STORED };
	int rc;

	if (target) {
		rc = common_in(target->parallelism, target->writer, target->split, &req);
		if (rc)
			return rc;
		switch (target->mode) {
		case PTIO_AS_STORED:
			req.target = PT_TARGET_AS_STORED;
			break;
		case PTIO_SHARD:
			req.target = PT_TARGET_SHARD;
			break;
		case PTIO_FULL:
			req.target = PT_TARGET_FULL;
			break;
		default:
			return pt_fail(EINVAL, "%d is no read mode: as_stored, shard and full are", (int)target->mode);
		}
	}
	*ret_req = req;
	return 0;
}

int pt_api_request_write(const struct ptio_write *how, bool from, struct pt_request *ret_req)
{
	struct pt_request req = { .target = PT_TARGET_FULL };
	int rc;

	if (how) {
		rc = common_in(how->parallelism, how->writer, how->split, &req);
		if (rc)
			return rc;
		if (how->step && strlen(how->step) > PT_STEP_MAX)
			return pt_fail(EINVAL, "the step tag has %zu bytes: at most %d are allowed", strlen(how->step), PT_STEP_MAX);
		if (how->step)
			memcpy(req.step, how->step, strlen(how->step) + 1);
		/* A lone tp axis takes the caller's shard; every other cut takes the full tensor. */
		if (!from && req.layout.axis_count == 1 && req.layout.axis[0].kind == PT_AXIS_TP)
			req.target = PT_TARGET_SHARD;
	}
	*ret_req = req;
	return 0;
}

void pt_api_axis_out(const struct pt_axis *a, struct ptio_axis *ret_axis)
{
	struct ptio_axis out = { .kind = (enum ptio_axis_kind)a->kind, .rank = a->rank, .size = a->size };

	if (a->kind == PT_AXIS_TP) {
		out.has_split_dim = 1;
		out.split_dim = a->dim;
	} else if (a->kind == PT_AXIS_EP) {
		out.has_expert_id = 1;
		out.expert_id = a->has_id ? a->id : a->rank;
	} else if (a->kind == PT_AXIS_PP) {
		out.has_stage_id = 1;
		out.stage_id = a->has_id ? a->id : a->rank;
	}
	*ret_axis = out;
}

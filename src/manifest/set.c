/* manifest/set.c - the rules of a set.
 *
 * A set is (node, scope, how written, size, dim, dtype, step, split, global shape). For shard writes nobody knows the global
 * extent of the split dimension before all shards are there, so it is left out; it is then the sum of the shards' extents in rank order,
 * and each shard's offset the sum of those of lower ranks. */
#include "manifest/set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "manifest/record_small.h"

static bool written_whole(enum pt_written w)
{
	return w == PT_WRITTEN_FULL || w == PT_WRITTEN_SCOPE;
}

static int check_scope(const struct pt_part *part)
{
	char text[PT_LAYOUT_TEXT_MAX];
	int rc;

	rc = pt_layout_check_complete(&part->scope_axes);
	if (rc < 0)
		return rc;
	if (pt_layout_find(&part->scope_axes, PT_AXIS_TP))
		return pt_fail(EINVAL, "a tp axis cuts a tensor, so it cannot be part of a scope");
	pt_layout_format(&part->scope_axes, text);
	if (strcmp(text, part->scope))
		return pt_fail(EINVAL, "scope text '%.200s' is not that of its axes, '%s'", part->scope, text);
	if (part->written == PT_WRITTEN_SCOPE && !part->scope_axes.axis_count)
		return pt_fail(EINVAL, "a scope write needs a dp, ep or pp axis");
	if ((part->written == PT_WRITTEN_FULL || part->written == PT_WRITTEN_WRITER) && part->scope_axes.axis_count)
		return pt_fail(EINVAL, "a full tensor or a writer's slice has no scope, yet '%s' is given", text);
	return 0;
}

static int check_box(struct pt_part *part)
{
	struct pt_object *o = &part->object;
	struct pt_box want;
	uint64_t bytes;
	struct pt_shape local;
	int rc;

	rc = pt_shape_bytes(&part->shape, part->dtype, &bytes);
	if (rc < 0)
		return rc;
	if (written_whole(part->written)) {
		o->part = (struct pt_partition){ .rank = 0, .size = 1, .dim = -1 };
		pt_shape_box(&part->shape, &want);
	} else {
		if (o->part.size < 1 || o->part.size > PT_SET_MAX || o->part.rank < 0 || o->part.rank >= o->part.size)
			return pt_fail(EINVAL, "part %" PRId32 " of %" PRId32 " makes no sense (ranks count from 0, sizes up to %d)",
				       o->part.rank, o->part.size, PT_SET_MAX);
		if (o->part.dim < 0 || (uint32_t)o->part.dim >= part->shape.ndim)
			return pt_fail(EINVAL, "dimension %" PRId32 " is outside a tensor of %" PRIu32 " dimensions", o->part.dim, part->shape.ndim);
		if (part->written == PT_WRITTEN_TP_SHARD) {
			pt_shape_box(&part->shape, &want);
			o->box = want;
		} else {
			rc = pt_shard_box(&part->shape, part->dtype, &o->part, part->split, &want);
			if (rc < 0)
				return rc;
		}
	}
	if (!pt_box_equal(&o->box, &want))
		return pt_fail(EINVAL, "the part's box is not the one that rank %" PRId32 " of %" PRId32 " owns", o->part.rank, o->part.size);
	pt_box_shape(&o->box, &local);
	rc = pt_shape_bytes(&local, part->dtype, &bytes);
	if (rc < 0)
		return rc;
	if (bytes != o->bytes)
		return pt_fail(EINVAL, "the part holds %" PRIu64 " bytes, but its box %" PRIu64, o->bytes, bytes);
	if (!part->shared && part->chunk_hashes.len != (o->bytes + PT_HASH_CHUNK - 1) / PT_HASH_CHUNK * 8)
		return pt_fail(EINVAL, "the part's checksums do not fit its %" PRIu64 " bytes", o->bytes);
	if (o->payload_off % 4096 || pt_id_is_zero(&o->blob.id) || o->axis_count > PT_AXIS_KINDS)
		return pt_fail(EINVAL, "the part is not a sealed object");
	return 0;
}

int pt_set_check_part(struct pt_part *part)
{
	int rc;

	if (part->written < PT_WRITTEN_FULL || part->written > PT_WRITTEN_WRITER)
		return pt_fail(EINVAL, "%d is no way to write a part", (int)part->written);
	if (part->split > PT_SPLIT_CHUNK)
		return pt_fail(EINVAL, "%d is no split rule", (int)part->split);
	if (part->split == PT_SPLIT_UNSET && part->written != PT_WRITTEN_TP_SHARD)
		part->split = PT_SPLIT_BALANCED;
	if (!memchr(part->step, 0, sizeof(part->step)) || !memchr(part->scope, 0, sizeof(part->scope)))
		return pt_fail(EINVAL, "a step tag has at most %d bytes", PT_STEP_MAX);
	rc = check_scope(part);
	return rc < 0 ? rc : check_box(part);
}

int pt_set_create(uint64_t node, const struct pt_part *part, struct pt_pending **ret_set)
{
	struct pt_pending *set = pt_calloc(1, sizeof(*set));
	int rc;

	if (!set)
		return pt_fail_nomem();
	rc = pt_id_random(&set->set_id);
	if (rc < 0) {
		free(set);
		return rc;
	}
	set->node = node;
	memcpy(set->scope, part->scope, sizeof(set->scope));
	set->scope_axes = part->scope_axes;
	set->dtype = part->dtype;
	set->shape = part->shape;
	set->written = part->written;
	set->set_size = part->object.part.size;
	set->set_dim = part->object.part.dim;
	set->shape_known = part->written != PT_WRITTEN_TP_SHARD;
	if (!set->shape_known)
		set->shape.dim[set->set_dim] = 0;
	set->split = part->split;
	memcpy(set->step, part->step, sizeof(set->step));
	set->round = part->round;
	*ret_set = set;
	return 0;
}

int pt_set_identity(const struct pt_pending *set, struct pt_hash128 *ret_identity)
{
	struct pt_buf b = PT_BUF_INIT;
	uint32_t d;

	pt_buf_append_u8(&b, PT_RECORD_VERSION);
	pt_buf_append_u8(&b, (uint8_t)set->written);
	pt_buf_append_u8(&b, (uint8_t)set->dtype);
	pt_buf_append_u8(&b, (uint8_t)set->split);
	pt_buf_append_le32(&b, (uint32_t)set->set_size);
	pt_buf_append_le32(&b, (uint32_t)set->set_dim);
	pt_buf_append_lenstr(&b, set->step, (uint32_t)strlen(set->step));
	pt_buf_append_le32(&b, set->shape.ndim);
	for (d = 0; d < set->shape.ndim; d++)
		pt_buf_append_le64(&b, set->shape.dim[d]);
	if (set->round)
		pt_buf_append_le64(&b, set->round);
	if (pt_buf_failed(&b)) {
		pt_buf_done(&b);
		return pt_fail_nomem();
	}
	*ret_identity = pt_hash128(b.data, b.len);
	pt_buf_done(&b);
	return 0;
}

int pt_set_add(struct pt_pending *set, const struct pt_object *object, bool *ret_replaced, struct pt_blob_ref *ret_old)
{
	struct pt_object *objects;
	uint32_t at = 0;

	while (at < set->object_count && set->objects[at].part.rank < object->part.rank)
		at++;
	if (at < set->object_count && set->objects[at].part.rank == object->part.rank) {
		*ret_old = set->objects[at].blob;
		*ret_replaced = true;
		set->objects[at] = *object;
		return 0;
	}
	objects = pt_reallocarray(set->objects, (size_t)set->object_count + 1, sizeof(*objects));
	if (!objects)
		return pt_fail_nomem();
	memmove(objects + at + 1, objects + at, (set->object_count - at) * sizeof(*objects));
	objects[at] = *object;
	set->objects = objects;
	set->object_count++;
	*ret_replaced = false;
	return 0;
}

/* The rule that cuts the shape just so; UNSET when none does. */
static enum pt_split split_found(const struct pt_manifest *m)
{
	enum pt_split split;
	uint64_t off, ext;
	uint32_t i, d = (uint32_t)m->set_dim;

	for (split = PT_SPLIT_BALANCED; split <= PT_SPLIT_CHUNK; split++) {
		for (i = 0; i < m->object_count; i++) {
			pt_shard_range(m->shape.dim[d], (int32_t)i, m->set_size, split, &off, &ext);
			if (off != m->objects[i].box.off[d] || ext != m->objects[i].box.ext[d])
				break;
		}
		if (i == m->object_count)
			return split;
	}
	return PT_SPLIT_UNSET;
}

static int place_shards(struct pt_manifest *m)
{
	uint32_t i, d = (uint32_t)m->set_dim;
	uint64_t at = 0, bytes;
	int rc;

	for (i = 0; i < m->object_count; i++) {
		m->objects[i].box.off[d] = at;
		if (!pt_size_add(at, m->objects[i].box.ext[d], &at))
			return pt_fail(EINVAL, "the shards' extents along dimension %" PRIu32 " sum to more than 2^64", d);
	}
	m->shape.dim[d] = at;
	rc = pt_shape_bytes(&m->shape, m->dtype, &bytes);
	if (rc < 0)
		return pt_fail(EINVAL, "the shards together are more than one tensor may hold");
	if (m->split == PT_SPLIT_UNSET)
		m->split = split_found(m);
	return 0;
}

int pt_set_finish(const struct pt_pending *set, struct pt_manifest **ret_m)
{
	struct pt_manifest *m = pt_calloc(1, sizeof(*m));
	const char *problem;
	int rc = 0;

	if (!m)
		return pt_fail_nomem();
	m->refs = 1;
	m->node = set->node;
	memcpy(m->scope, set->scope, sizeof(m->scope));
	m->scope_axes = set->scope_axes;
	m->set_id = set->set_id;
	m->dtype = set->dtype;
	m->shape = set->shape;
	m->written = set->written;
	m->set_size = set->set_size;
	m->set_dim = set->set_dim;
	m->split = set->split;
	memcpy(m->step, set->step, sizeof(m->step));
	m->objects = pt_memdup(set->objects, set->object_count * sizeof(*m->objects));
	if (!m->objects) {
		rc = pt_fail_nomem();
		goto fail;
	}
	m->object_count = set->object_count;
	if (!set->shape_known)
		rc = place_shards(m);
	if (rc < 0)
		goto fail;
	problem = pt_set_problem(m);
	if (problem) {
		rc = pt_fail(EINVAL, "the parts do not make one tensor: %s", problem);
		goto fail;
	}
	*ret_m = m;
	return 0;
fail:
	pt_manifest_unref(m);
	return rc;
}

/* One box's part of the cover: [at, at + its extent) of the split dimension and all of the others. */
static const char *object_problem(const struct pt_manifest *m, uint32_t i, uint64_t *at)
{
	const struct pt_object *o = &m->objects[i];
	struct pt_shape local;
	uint64_t bytes;
	uint32_t d;

	if (o->part.rank != (int32_t)i || o->part.size != m->set_size || o->part.dim != m->set_dim)
		return "a rank is missing or twice";
	if (!pt_box_within(&o->box, &m->shape))
		return "a box is outside the shape";
	for (d = 0; d < m->shape.ndim; d++) {
		if ((int32_t)d == m->set_dim) {
			if (o->box.off[d] != *at)
				return "the boxes leave a gap or overlap";
			*at += o->box.ext[d];
		} else if (o->box.off[d] || o->box.ext[d] != m->shape.dim[d]) {
			return "a box does not span a dimension that is not split";
		}
	}
	pt_box_shape(&o->box, &local);
	if (pt_shape_bytes(&local, m->dtype, &bytes) < 0 || bytes != o->bytes)
		return "an object's bytes are not those of its box";
	return NULL;
}

const char *pt_set_problem(const struct pt_manifest *m)
{
	const char *problem;
	uint64_t at = 0;
	uint32_t i;

	if (m->set_size < 1 || m->set_size > PT_SET_MAX || m->object_count != (uint32_t)m->set_size)
		return "the number of objects is not the set's size";
	if (m->set_dim < -1 || (m->set_dim >= 0 && (uint32_t)m->set_dim >= m->shape.ndim) || (m->set_dim < 0 && m->set_size > 1))
		return "the split dimension is outside the shape";
	for (i = 0; i < m->object_count; i++) {
		problem = object_problem(m, i, &at);
		if (problem)
			return problem;
	}
	if (m->set_dim >= 0 && at != m->shape.dim[m->set_dim])
		return "the boxes do not reach the end of the split dimension";
	return NULL;
}

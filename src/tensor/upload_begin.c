/* tensor/upload_begin.c - what a file's tensor becomes: the whole, a slice, or a shard; the object that is written for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tensor/upload_int.h"

struct target {
	struct pt_shape global;         /* TP_SHARD: the shard's own */
	struct pt_box own;              /* what of the file's tensor is stored, in its own coordinates */
	struct pt_box box;              /* of the global tensor */
	bool box_known;
};

static int disagree(const struct pt_layout *have, const char *want)
{
	char text[PT_LAYOUT_TEXT_MAX];

	pt_layout_format(have, text);
	return pt_fail(EINVAL, "the tensor object says that it is %s, but it is written as %s: write each object at the path of its layout", text,
		       *want ? want : "the whole tensor");
}

/* A dimension that the path left out is the one that the object names. */
static void adopt_dim(struct pt_upload *u, const struct pt_layout *have)
{
	const struct pt_axis *tp = pt_layout_find(have, PT_AXIS_TP);
	uint32_t i;

	if (!tp || !u->dim_defaulted)
		return;
	u->cut.dim = tp->dim;
	if (u->req.has_partition)
		u->req.partition.dim = tp->dim;
	for (i = 0; i < u->req.layout.axis_count; i++)
		if (u->req.layout.axis[i].kind == PT_AXIS_TP)
			u->req.layout.axis[i].dim = tp->dim;
	for (i = 0; i < u->req.axis_count; i++)
		if (u->req.axis[i].kind == PT_AXIS_TP)
			u->req.axis[i].dim = tp->dim;
	u->dim_defaulted = false;
}

/* A SHARD object: its axes must be those of the request; it knows its global shape, so it is stored as a slice of it. */
static int target_of_shard(struct pt_upload *u, const struct pt_obj *obj, const struct pt_layout *have, struct target *t)
{
	char want[PT_LAYOUT_TEXT_MAX];
	struct pt_layout layout = u->req.layout;
	struct pt_shape cut_shape;
	int rc;

	adopt_dim(u, have);
	layout = u->req.layout;
	if (u->req.has_partition) {
		layout.axis_count = 1;
		layout.axis[0] = (struct pt_axis){ .kind = PT_AXIS_TP, .rank = u->cut.rank, .size = u->cut.size, .dim = u->cut.dim };
	}
	pt_layout_format(&layout, want);
	if (!pt_layout_equal(have, &layout))
		return disagree(have, want);
	pt_shape_box(&obj->local_shape, &t->own);
	t->global = obj->global_shape;
	t->box_known = true;
	if (u->written == PT_WRITTEN_SCOPE) {           /* pt_obj_layout saw that global and local agree */
		t->box = t->own;
		return 0;
	}
	rc = pt_shard_box(&t->global, obj->dtype, &u->cut, u->split, &t->box);
	if (rc)
		return rc;
	pt_box_shape(&t->box, &cut_shape);
	if (!pt_shape_equal(&cut_shape, &obj->local_shape))
		return pt_fail(EINVAL, "the tensor object's local shape is not what rank %d of %d owns of its global shape on dim %d", (int)u->cut.rank,
			       (int)u->cut.size, (int)u->cut.dim);
	if (u->written == PT_WRITTEN_TP_SHARD)
		u->written = PT_WRITTEN_TP_SLICE;
	return 0;
}

static int target_of_tensor(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, struct target *t)
{
	int rc;

	t->global = *shape;
	pt_shape_box(shape, &t->own);
	switch (u->written) {
	case PT_WRITTEN_TP_SHARD:
		if (u->cut.dim < 0 || (uint32_t)u->cut.dim >= shape->ndim)
			return pt_fail(EINVAL, "dim %d is outside the shard's %u dimensions", (int)u->cut.dim, (unsigned)shape->ndim);
		return 0;
	case PT_WRITTEN_TP_SLICE:
	case PT_WRITTEN_WRITER:
		rc = pt_shard_box(shape, dtype, &u->cut, u->split, &t->own);
		if (rc)
			return rc;
		break;
	default:
		break;
	}
	t->box = t->own;
	t->box_known = true;
	return 0;
}

static int slice_out(void *ctx, const void *data, uint64_t len)
{
	struct pt_upload *u = ctx;

	return pt_object_writer_append(u->writer, data, len);
}

/* In the order of the request. */
static uint32_t object_axes(const struct pt_upload *u, struct pt_axis axes[PT_AXIS_KINDS])
{
	uint32_t i;

	memcpy(axes, u->req.axis_count ? u->req.axis : u->req.layout.axis, PT_AXIS_KINDS * sizeof(*axes));
	for (i = 0; i < u->req.layout.axis_count; i++)
		if (axes[i].kind == PT_AXIS_TP && u->dim_defaulted)
			axes[i].dim = -1;
	return u->req.layout.axis_count;
}

static int writer_create(struct pt_upload *u, enum pt_dtype dtype, const struct target *t)
{
	struct pt_object_spec spec = { .dtype = dtype, .written = u->written, .part = u->cut, .step = u->req.step };
	struct pt_axis axes[PT_AXIS_KINDS];
	char key[PT_KEY_MAX + 1];
	int rc;

	rc = u->options.new_key ? 0 : pt_node_key(u->repo, u->node, key);
	if (rc < 0)
		return rc;
	spec.key = u->options.new_key ? u->options.new_key : key;
	pt_box_shape(&t->own, &spec.local);
	if (t->box_known) {
		spec.global = &t->global;
		spec.box = &t->box;
	}
	spec.axis_count = object_axes(u, axes);
	spec.axes = axes;
	return pt_object_writer_create(u->repo, &spec, &u->writer);
}

static int target_decide(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_obj *obj, struct target *t)
{
	struct pt_layout have = { 0 };
	uint64_t bytes;
	int rc;

	rc = pt_shape_bytes(shape, dtype, &bytes);
	if (!rc && obj)
		rc = pt_obj_layout(obj, &have);
	if (rc)
		return rc;
	if (obj && have.axis_count)
		return target_of_shard(u, obj, &have, t);
	if (u->object_only)
		return pt_fail(EINVAL, "writer=.../shard takes only a tensor object (.obj) that is this slice; write the full tensor to writer=%dof%d,dim=%d/full",
			       (int)u->cut.rank, (int)u->cut.size, (int)u->cut.dim);
	return target_of_tensor(u, dtype, shape, t);
}

static void part_begin(struct pt_upload *u, enum pt_dtype dtype, const struct target *t)
{
	u->part.dtype = dtype;
	u->part.shape = t->global;
	u->part.written = u->written;
	u->part.split = u->split;
	u->state = UPLOAD_BEGUN;
}

int pt_upload_begin(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_obj *obj)
{
	struct target t = { .box_known = false };
	int rc;

	rc = target_decide(u, dtype, shape, obj, &t);
	if (!rc)
		rc = pt_slice_init(&u->slice, shape, dtype, &t.own, slice_out, u);
	if (!rc)
		rc = writer_create(u, dtype, &t);
	if (rc)
		return rc;
	part_begin(u, dtype, &t);
	return 0;
}

int pt_upload_begin_stored(struct pt_upload *u, enum pt_dtype dtype, const struct pt_shape *shape, const struct pt_object *object)
{
	struct target t = { .box_known = false };
	struct pt_object *o = &u->part.object;
	struct pt_box whole;
	int rc;

	rc = target_decide(u, dtype, shape, NULL, &t);
	if (rc)
		return rc;
	pt_shape_box(shape, &whole);
	if (!pt_box_equal(&t.own, &whole))
		return pt_fail(EXDEV, "only a slice of the file's tensor is stored here, so it is not moved but copied: cp does, and mv");
	rc = pt_data_pin(&pt_repo_store(u->repo)->data, &object->blob, 1);
	if (rc < 0)
		return rc;
	*o = *object;
	o->part = u->cut;
	o->axis_count = object_axes(u, o->axis);
	o->hidden = false;
	if (t.box_known)
		o->box = t.box;
	u->part.shared = true;
	part_begin(u, dtype, &t);
	return 0;
}

int pt_upload_seal(struct pt_upload *u)
{
	struct pt_object_writer *w = u->writer;
	int rc;

	if (!u->part.shared) {
		rc = pt_slice_flush(&u->slice);
		if (rc)
			return rc;
		u->writer = NULL;
		rc = pt_object_writer_seal(w, &u->part);
		if (rc < 0)
			return rc;
	}
	memcpy(u->part.step, u->req.step, sizeof(u->part.step));
	memcpy(u->part.scope, u->scope, sizeof(u->part.scope));
	u->part.scope_axes = u->scope_axes;
	u->part.mode = u->options.mode;
	u->part.uid = u->options.uid;
	u->part.gid = u->options.gid;
	u->part.mtime_ns = u->options.mtime_ns;
	u->state = UPLOAD_SEALED;
	return 0;
}

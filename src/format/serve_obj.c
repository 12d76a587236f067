/* format/serve_obj.c - a tensor as a tensor object: 304-byte header in front of the payload. */
#include "format/obj.h"
#include "format/serve_int.h"

int pt_serve_obj(const struct pt_serve_tensor *t, uint64_t bytes, struct pt_serve_builder *b)
{
	struct pt_obj o = {
		.dtype = t->dtype, .full = t->axes.axis_count == 0, .data_offset = PT_OBJ_HEADER, .data_bytes = bytes,
		.local_shape = t->shape, .axis_count = t->axes.axis_count,
	};
	uint8_t header[PT_OBJ_HEADER];
	uint32_t i;
	int rc;

	o.global_shape = o.full ? t->shape : t->global_shape;
	for (i = 0; i < o.axis_count && i < PT_OBJ_AXES_MAX; i++) {
		const struct pt_axis *a = &t->axes_in_order[i];
		bool cuts = a->kind == PT_AXIS_TP && a->dim >= 0 && (uint32_t)a->dim < t->shape.ndim;

		o.axis[i] = (struct pt_obj_axis){
			.kind = (int32_t)a->kind, .axis_index = (int32_t)i, .rank = a->rank, .count = a->size,
			.split_dim = cuts ? a->dim : -1, .extent = cuts ? (int64_t)t->shape.dim[a->dim] : 0,
		};
		if (a->kind == PT_AXIS_EP || a->kind == PT_AXIS_PP)
			o.axis[i].id = a->has_id ? a->id : a->rank;
	}
	rc = pt_obj_encode(&o, header);
	if (rc)
		return rc;
	pt_buf_append(&b->out.literals, header, sizeof(header));
	pt_serve_payload(b, 0, bytes);
	return 0;
}

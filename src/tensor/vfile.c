/* tensor/vfile.c - a view in a file format: synthesised bytes around the planned payload. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "format/serve.h"
#include "tensor/tensor.h"

struct pt_vfile {
	struct pt_view *view;
	struct pt_served served;
};

int pt_vfile_create(struct pt_view *v, enum pt_format format, const char *name, struct pt_vfile **ret_f)
{
	const struct pt_view_info *info = pt_view_info(v);
	struct pt_serve_tensor t = { .name = name, .dtype = info->dtype, .shape = info->shape, .global_shape = info->global_shape };
	struct pt_vfile *f;
	uint32_t i;
	int rc;

	if (!info->shape_known)
		return pt_fail(ENODATA, "the shape is not known before the set is complete");
	for (i = 0; i < info->axis_count; i++) {
		rc = pt_layout_add(&t.axes, &info->axis[i]);
		if (rc)
			return rc;
		t.axes_in_order[i] = info->axis[i];
	}
	if (info->exact && pt_view_manifest(v))
		t.crc32 = pt_view_manifest(v)->objects[info->object].crc32;
	f = pt_calloc(1, sizeof(*f));
	if (!f)
		return pt_fail_nomem();
	rc = pt_serve(format, &t, 1, 0, &f->served);
	if (rc) {
		free(f);
		return rc;
	}
	f->view = pt_view_ref(v);
	*ret_f = f;
	return 0;
}

void pt_vfile_free(struct pt_vfile *f)
{
	if (!f)
		return;
	pt_served_done(&f->served);
	pt_view_unref(f->view);
	free(f);
}

uint64_t pt_vfile_size(const struct pt_vfile *f)
{
	return f->served.size;
}

uint64_t pt_vfile_payload_off(const struct pt_vfile *f)
{
	size_t s;

	for (s = 0; s < f->served.segment_count; s++)
		if (f->served.segments[s].tensor >= 0)
			return f->served.segments[s].off;
	return f->served.size;
}

struct pt_view *pt_vfile_view(const struct pt_vfile *f)
{
	return f->view;
}

uint64_t pt_vfile_cut(struct pt_vfile *f, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < f->served.size ? f->served.size - off : 0), from;
	const struct pt_segment *seg;

	if (end == f->served.size)
		return end;
	seg = &f->served.segments[pt_served_find(&f->served, end)];
	if (seg->tensor < 0 || end == seg->off)
		return end;
	from = off > seg->off ? off : seg->off;
	return seg->off + pt_view_cut(f->view, from - seg->off, end - from);
}

int64_t pt_vfile_read(struct pt_vfile *f, void *buf, uint64_t len, uint64_t off)
{
	uint8_t *out = buf;
	uint64_t left;
	size_t s;
	int rc;

	if (off >= f->served.size)
		return 0;
	len = pt_size_min(pt_size_min(len, f->served.size - off), INT64_MAX);
	for (left = len, s = pt_served_find(&f->served, off); left; s++) {
		const struct pt_segment *seg = &f->served.segments[s];
		uint64_t in = off - seg->off, n = pt_size_min(left, seg->len - in);

		if (seg->tensor < 0) {
			memcpy(out, f->served.literals.data + seg->literal_off + in, n);
		} else {
			rc = pt_view_read(f->view, out, n, in);
			if (rc < 0)
				return rc;
		}
		out += n;
		off += n;
		left -= n;
	}
	return (int64_t)len;
}

/* tree/many_read.c - the bytes of many tensors as one file: those of its header, and those of tensors, through views that are made when first wanted. Some are kept
 * ready, as reads mostly go on where the last one ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tree/many_int.h"

void pt_many_kept_drop(struct pt_view *v)
{
	if (!v)
		return;
	pt_view_unprepare(v);
	pt_view_unref(v);
}

static int view_make(struct pt_many *many, const struct pt_many_item *item, struct pt_view **ret_view)
{
	struct pt_parse_tensor t = { .contiguous = true };
	struct pt_manifest *m = NULL;
	struct pt_box box;
	int rc;

	if (item->c) {
		rc = pt_container_manifest(item->c, item->tensor, &m, &t);
		if (rc < 0)
			return rc;
	} else {
		m = pt_manifest_ref(item->m);
	}
	pt_shape_box(&m->shape, &box);
	if (item->cut.dim >= 0) {
		box.off[item->cut.dim] = item->cut.off;
		box.ext[item->cut.dim] = item->cut.ext;
	}
	rc = pt_view_of_box(many->repo, m, t.contiguous ? NULL : &t, &box, ret_view);
	pt_manifest_unref(m);
	return rc;
}

/* Prepared for the caller, who unprepares it and gives the reference back. */
static int view_get(struct pt_many *many, uint32_t index, struct pt_view **ret_view)
{
	struct pt_view *v = NULL, *old;
	uint32_t i;
	int rc;

	pthread_mutex_lock(&many->lock);
	for (i = 0; i < PT_MANY_KEPT && !v; i++)
		if (many->kept[i] && many->kept_item[i] == index)
			v = pt_view_ref(many->kept[i]);
	pthread_mutex_unlock(&many->lock);
	if (v) {
		rc = pt_view_prepare(v);
		if (rc < 0)
			pt_view_unref(v);
		else
			*ret_view = v;
		return rc;
	}
	rc = view_make(many, &many->items[index], &v);
	if (rc < 0)
		return rc;
	rc = pt_view_prepare(v);
	if (!rc) {
		rc = pt_view_prepare(v);        /* once for the caller, once for being kept */
		if (rc < 0)
			pt_view_unprepare(v);
	}
	if (rc < 0) {
		pt_view_unref(v);
		return rc;
	}
	pthread_mutex_lock(&many->lock);
	i = many->kept_next++ % PT_MANY_KEPT;
	old = many->kept[i];
	many->kept[i] = pt_view_ref(v);
	many->kept_item[i] = index;
	pthread_mutex_unlock(&many->lock);
	pt_many_kept_drop(old);
	*ret_view = v;
	return 0;
}

uint64_t pt_many_read_end(struct pt_many *many, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < many->served.size ? many->served.size - off : 0), from;
	const struct pt_segment *seg;
	const struct pt_many_item *item;
	struct pt_view *v;
	uint32_t index;

	if (end == many->served.size)
		return end;
	seg = &many->served.segments[pt_served_find(&many->served, end)];
	if (seg->tensor < 0 || end == seg->off)
		return end;
	index = many->item_of ? many->item_of[seg->tensor] : (uint32_t)seg->tensor;
	item = &many->items[index];
	if (item->c && !item->c->tensors[item->tensor].contiguous)      /* read as a whole, whatever is asked for */
		return end;
	if (view_get(many, index, &v) < 0) {
		pt_fail_clear();
		return end;
	}
	from = off > seg->off ? off : seg->off;
	end = seg->off + pt_view_cut(v, from - seg->off, end - from);
	pt_view_unprepare(v);
	pt_view_unref(v);
	return end;
}

int64_t pt_many_read(struct pt_many *many, void *buf, uint64_t len, uint64_t off)
{
	struct pt_view *v;
	uint8_t *out = buf;
	uint64_t left;
	size_t s;
	int rc;

	if (off >= many->served.size)
		return 0;
	len = pt_size_min(pt_size_min(len, many->served.size - off), INT64_MAX);
	for (left = len, s = pt_served_find(&many->served, off); left; s++) {
		const struct pt_segment *seg = &many->served.segments[s];
		uint64_t in = off - seg->off, n = pt_size_min(left, seg->len - in);

		if (seg->tensor < 0) {
			memcpy(out, many->served.literals.data + seg->literal_off + in, n);
		} else {
			uint32_t item = many->item_of ? many->item_of[seg->tensor] : (uint32_t)seg->tensor;

			rc = view_get(many, item, &v);
			if (rc < 0)
				return rc;
			rc = pt_view_read(v, out, n, in);
			pt_view_unprepare(v);
			pt_view_unref(v);
			if (rc < 0)
				return pt_fail_context(rc, "%s", many->items[item].name);
		}
		out += n;
		off += n;
		left -= n;
	}
	return (int64_t)len;
}

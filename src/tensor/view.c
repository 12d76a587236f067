/* tensor/view.c - reading a resolved view: windows of its payload, planned piece by piece from the objects of one revision.
 *
 * A read holds bounded arrays of ranges. Pieces that lie close together are joined where they are read (manifest/object_read.c), by what the engine makes of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tensor/view_int.h"

#define BATCH 1024                      /* ranges read in one call */

struct pt_view *pt_view_ref(struct pt_view *v)
{
	__atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
	return v;
}

void pt_view_unref(struct pt_view *v)
{
	if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL))
		return;
	pt_plan_free(v->plan);
	pt_strided_free(v->strided);
	pt_manifest_unref(v->m);
	pthread_mutex_destroy(&v->lock);
	free(v->missing);
	free(v);
}

const struct pt_view_info *pt_view_info(const struct pt_view *v)
{
	return &v->info;
}

struct pt_manifest *pt_view_manifest(const struct pt_view *v)
{
	return v->m;
}

static int plan_create(const struct pt_view *v, struct pt_plan **ret_plan)
{
	struct pt_box target, *sources;
	uint64_t unit = 0, source_unit;
	uint32_t i;
	int rc;

	rc = pt_box_pack(&v->info.box, v->m->dtype, &target, &unit);
	if (rc)
		return rc;
	sources = pt_reallocarray(NULL, v->m->object_count ? v->m->object_count : 1, sizeof(*sources));
	if (!sources)
		return pt_fail_nomem();
	for (i = 0; !rc && i < v->m->object_count; i++)
		rc = pt_box_pack(&v->m->objects[i].box, v->m->dtype, &sources[i], &source_unit);
	if (!rc)
		rc = pt_plan_create(&target, unit, sources, v->m->object_count, ret_plan);
	/* A committed revision covers its shape exactly; a gap or overlap is damage. */
	if (rc == -ENODATA || rc == -EINVAL)
		rc = pt_fail_context(-EIO, "revision %llu does not add up, run ptio verify", (unsigned long long)v->m->revision);
	free(sources);
	return rc;
}

int pt_view_prepare(struct pt_view *v)
{
	int rc = 0;

	if (!v->info.readable)
		return pt_fail(ENODATA, "%s", v->missing);
	if (v->info.exact)
		return 0;
	pthread_mutex_lock(&v->lock);
	if (v->strided)
		rc = pt_strided_open(v);
	else if (!v->plan)
		rc = plan_create(v, &v->plan);
	pthread_mutex_unlock(&v->lock);
	return rc;
}

void pt_view_unprepare(struct pt_view *v)
{
	pthread_mutex_lock(&v->lock);
	if (v->strided)
		pt_strided_close(v);
	pthread_mutex_unlock(&v->lock);
}

int pt_view_pin(struct pt_view *v)
{
	int rc;

	if (!v->info.readable)
		return pt_fail(ENODATA, "%s", v->missing);
	rc = pt_manifest_pin(v->repo, v->m);
	if (rc)
		return rc;
	rc = pt_view_prepare(v);
	if (rc)
		pt_manifest_unpin(v->repo, v->m);
	return rc;
}

void pt_view_unpin(struct pt_view *v)
{
	pt_view_unprepare(v);
	pt_manifest_unpin(v->repo, v->m);
}

/* ---- reading ---- */

static int read_planned(struct pt_view *v, uint8_t *out, uint64_t len, uint64_t off)
{
	struct pt_object_range want[BATCH];
	struct pt_range ranges[BATCH];
	struct pt_plan_cursor cursor;
	size_t count, i;
	int rc = 0;

	pt_plan_seek(v->plan, off, len, &cursor);
	while (rc >= 0 && (count = pt_plan_next(&cursor, ranges, BATCH)) > 0) {
		for (i = 0; i < count; i++)
			want[i] = (struct pt_object_range){ .object = ranges[i].source, .off = ranges[i].src_off, .len = ranges[i].len,
							    .buf = out + (ranges[i].dst_off - off) };
		rc = pt_object_read(v->repo, v->m, want, count);
	}
	return rc < 0 ? rc : 0;
}

/* How far into a chunk this byte of an object's payload is. */
static uint64_t into_chunk(const struct pt_view *v, uint32_t object, uint64_t off)
{
	return (v->m->objects[object].lead + off) % PT_HASH_CHUNK;
}

/* The ranges of a planned view that lead up to end: one, and the cut is at its last chunk; two, and it is where the second object begins; more, and it is at a whole chunk of
 * the view's own bytes. */
static uint64_t planned_cut(const struct pt_view *v, uint64_t off, uint64_t end)
{
	struct pt_plan_cursor cursor;
	struct pt_range at, r[3];
	uint64_t into;
	size_t count;

	pt_plan_seek(v->plan, end, 1, &cursor);
	if (pt_plan_next(&cursor, &at, 1) == 0)
		return end;
	into = into_chunk(v, at.source, at.src_off);
	if (!into)
		return end;
	if (into >= end - off)
		into = end - off;
	pt_plan_seek(v->plan, end - into, into, &cursor);
	count = pt_plan_next(&cursor, r, 3);
	if (count == 1 && r[0].source == at.source && r[0].src_off + into == at.src_off)
		return end - into;
	if (count == 2)
		return into_chunk(v, r[1].source, r[1].src_off) ? end : r[1].dst_off;
	/* Short pieces: where all extents are round, so are the offsets of the chunks that they are in. */
	into = end % PT_HASH_CHUNK;
	return into < end - off ? end - into : end;
}

uint64_t pt_view_cut(struct pt_view *v, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < v->info.bytes ? v->info.bytes - off : 0), cut = end;

	if (end == v->info.bytes || v->strided)
		return end;
	if (v->info.exact)
		cut = end - pt_size_min(into_chunk(v, v->info.object, end), end - off);
	else if (v->plan)
		cut = planned_cut(v, off, end);
	return cut > off ? cut : end;
}

int pt_view_read(struct pt_view *v, void *buf, uint64_t len, uint64_t off)
{
	struct pt_object_range want;
	uint64_t end;
	int rc;

	if (!pt_size_add(off, len, &end) || end > v->info.bytes)
		return pt_fail(EINVAL, "a read of [%llu, +%llu) goes beyond the view's %llu bytes", (unsigned long long)off, (unsigned long long)len,
			       (unsigned long long)v->info.bytes);
	if (!len)
		return 0;
	if (v->strided)
		return pt_strided_read(v, buf, len, off);
	if (!v->info.exact)
		return read_planned(v, buf, len, off);
	want = (struct pt_object_range){ .object = v->info.object, .off = off, .len = len, .buf = buf };
	rc = pt_object_read(v->repo, v->m, &want, 1);
	return rc < 0 ? rc : 0;
}

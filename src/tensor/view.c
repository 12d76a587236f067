/* tensor/view.c - reading a resolved view: windows of its payload, planned piece by piece from the objects of one revision.
 *
 * A read holds a bounded array of ranges, and for finely strided sources a bounce buffer of at most BOUNCE_MAX. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "tensor/view_int.h"

#define BATCH 1024                      /* ranges read in one call */
#define SMALL_PIECE (4 * PT_KIB)        /* pieces below this are fetched together with the gaps between them */
#define BOUNCE_MAX (4 * PT_MIB)
#define LOOK_BACK 256                   /* spans: sources that take turns within a row */

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

/* Ranges of one source with small gaps between them become one read into the bounce buffer. */
struct bounce {
	uint8_t *buf;
	uint64_t used;
	struct {
		uint64_t src_off, src_end;
		uint64_t at;            /* in buf */
		uint32_t source;
	} span[BATCH];
	size_t span_count;
	uint32_t span_of[BATCH];        /* which span holds range i */
};

static bool joins(const struct bounce *b, size_t s, const struct pt_range *r)
{
	return b->span[s].source == r->source && r->src_off >= b->span[s].src_end && r->src_off - b->span[s].src_end <= SMALL_PIECE;
}

/* Lays the spans out; how many of the ranges fit into the bounce buffer. */
static size_t bounce_arrange(struct bounce *b, const struct pt_range *ranges, size_t count)
{
	size_t i, s;
	uint64_t total = 0;

	b->span_count = 0;
	for (i = 0; i < count; i++) {
		const struct pt_range *r = &ranges[i];
		uint64_t more;

		/* Sources take turns within a row, so the last span of the same source is one of the latest. */
		for (s = b->span_count; s > 0 && !joins(b, s - 1, r); s--)
			if (b->span_count - s == LOOK_BACK) {
				s = 0;
				break;
			}
		more = s ? r->src_off + r->len - b->span[s - 1].src_end : r->len;
		if (i && total + more > BOUNCE_MAX)
			break;
		total += more;
		if (!s) {
			s = ++b->span_count;
			b->span[s - 1].source = r->source;
			b->span[s - 1].src_off = r->src_off;
		}
		b->span[s - 1].src_end = r->src_off + r->len;
		b->span_of[i] = (uint32_t)(s - 1);
	}
	b->used = 0;
	for (s = 0; s < b->span_count; s++) {
		b->span[s].at = b->used;
		b->used += b->span[s].src_end - b->span[s].src_off;
	}
	return i;
}

static int read_bounced(struct pt_view *v, struct bounce *b, const struct pt_range *ranges, size_t count, uint8_t *out, uint64_t base)
{
	struct pt_object_range want[BATCH];
	size_t done = 0, fit, i;
	int rc;

	while (done < count) {
		fit = bounce_arrange(b, ranges + done, count - done);
		for (i = 0; i < b->span_count; i++)
			want[i] = (struct pt_object_range){ .object = b->span[i].source, .off = b->span[i].src_off,
							    .len = b->span[i].src_end - b->span[i].src_off, .buf = b->buf + b->span[i].at };
		rc = pt_object_read(v->repo, v->m, want, b->span_count);
		if (rc < 0)
			return rc;
		for (i = 0; i < fit; i++) {
			const struct pt_range *r = &ranges[done + i];

			memcpy(out + (r->dst_off - base), b->buf + b->span[b->span_of[i]].at + (r->src_off - b->span[b->span_of[i]].src_off), r->len);
		}
		done += fit;
	}
	return 0;
}

static int read_direct(struct pt_view *v, const struct pt_range *ranges, size_t count, uint8_t *out, uint64_t base)
{
	struct pt_object_range want[BATCH];
	size_t i;
	int rc;

	for (i = 0; i < count; i++)
		want[i] = (struct pt_object_range){ .object = ranges[i].source, .off = ranges[i].src_off, .len = ranges[i].len,
						    .buf = out + (ranges[i].dst_off - base) };
	rc = pt_object_read(v->repo, v->m, want, count);
	return rc < 0 ? rc : 0;
}

static int read_planned(struct pt_view *v, uint8_t *out, uint64_t len, uint64_t off)
{
	struct pt_range ranges[BATCH];
	struct pt_plan_cursor cursor;
	struct bounce *b = NULL;
	uint64_t bytes;
	size_t count, i;
	int rc = 0;

	pt_plan_seek(v->plan, off, len, &cursor);
	while (!rc && (count = pt_plan_next(&cursor, ranges, BATCH)) > 0) {
		for (i = 0, bytes = 0; i < count; i++)
			bytes += ranges[i].len;
		/* An engine that joins pieces itself gets them as they are. */
		if (count < 4 || bytes / count >= SMALL_PIECE ||
		    pt_data_direct(&pt_repo_store(v->repo)->data, &v->m->objects[ranges[0].source].blob)) {
			rc = read_direct(v, ranges, count, out, off);
			continue;
		}
		if (!b) {
			b = pt_malloc(sizeof(*b));
			if (!b)
				return pt_fail_nomem();
			/* BATCH ranges of less than SMALL_PIECE on average: none is larger than the buffer. */
			_Static_assert(BATCH * SMALL_PIECE <= BOUNCE_MAX, "a batch fits");
			b->buf = pt_malloc(BOUNCE_MAX);
			if (!b->buf) {
				free(b);
				return pt_fail_nomem();
			}
		}
		rc = read_bounced(v, b, ranges, count, out, off);
	}
	if (b)
		free(b->buf);
	free(b);
	return rc;
}

/* The ranges of a planned view that lead up to end: one, and the cut is at its last chunk; two, and it is where the second object begins. */
static uint64_t planned_cut(const struct pt_view *v, uint64_t off, uint64_t end)
{
	struct pt_plan_cursor cursor;
	struct pt_range r[3];
	uint64_t into;

	pt_plan_seek(v->plan, end, 1, &cursor);
	if (pt_plan_next(&cursor, r, 1) == 0)
		return end;
	into = r[0].src_off % PT_HASH_CHUNK;
	if (!into)
		return end;
	if (into >= end - off)
		into = end - off;
	pt_plan_seek(v->plan, end - into, into, &cursor);
	switch (pt_plan_next(&cursor, r, 3)) {
	case 1:
		return end - into;
	case 2:
		return r[1].src_off % PT_HASH_CHUNK ? end : r[1].dst_off;
	default:
		return end;
	}
}

uint64_t pt_view_cut(struct pt_view *v, uint64_t off, uint64_t max)
{
	uint64_t end = off + pt_size_min(max, off < v->info.bytes ? v->info.bytes - off : 0), cut = end;

	if (end == v->info.bytes || v->strided)
		return end;
	if (v->info.exact)
		cut = end - end % PT_HASH_CHUNK;
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

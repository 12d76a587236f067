/* plan/plan.c - making a plan: sources are clipped to the target, dimensions reduced, cells laid out and checked. */
#include "plan/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/size.h"
#include "plan/cells.h"

/* What a first look at the sources gives: how many are used, how much they hold, and how dimensions are reduced. A reduced
 * dimension stands for the original ones first..last; those between that are not of extent 1 were joined. */
struct survey {
	uint64_t held;                          /* bytes of the target that the sources hold, saturating */
	uint32_t used;
	uint32_t ndim;
	uint32_t first[PT_DIMS_MAX];
	uint32_t last[PT_DIMS_MAX];
	uint64_t inner[PT_DIMS_MAX];            /* the target's elements in a step along `first` */
};

/* Bytes and strides of a row-major payload; no strides when it is empty. False beyond PT_TENSOR_BYTES_MAX. */
static bool box_layout(const struct pt_box *box, uint64_t unit, uint64_t *ret_strides, uint64_t *ret_bytes)
{
	uint64_t bytes = unit, elems = 1, end;
	uint32_t d;

	for (d = 0; d < box->ndim; d++)
		if (!pt_size_mul(elems, box->ext[d], &elems) || !pt_size_add(box->off[d], box->ext[d], &end))
			return false;
	if (!pt_size_mul(elems, unit, &bytes) || bytes > PT_TENSOR_BYTES_MAX)
		return false;
	*ret_bytes = bytes;
	if (!bytes)
		return true;
	bytes = unit;
	for (d = box->ndim; d-- > 0;) {
		ret_strides[d] = bytes;
		bytes *= box->ext[d];
	}
	return true;
}

/* The part of a source that lies in the target and the strides of its payload: 1; 0 when there is none. */
static int source_clip(const struct pt_box *target, uint64_t unit, const struct pt_box *source, size_t i,
		       struct pt_box *ret_clip, uint64_t *ret_strides)
{
	uint64_t bytes;

	if (!pt_box_intersect(target, source, ret_clip))
		return 0;
	if (!box_layout(source, unit, ret_strides, &bytes))
		return pt_fail(EOVERFLOW, "source %zu has 2^62 bytes or more", i);
	return 1;
}

static uint64_t box_elems(const struct pt_box *box)
{
	uint64_t elems = 1;
	uint32_t d;

	for (d = 0; d < box->ndim; d++)
		elems *= box->ext[d];
	return elems;
}

static int survey_sources(struct pt_plan *plan, const struct pt_box *target, const struct pt_box *sources,
			  struct survey *ret_survey)
{
	struct survey s = { .held = 0 };
	uint64_t stride[PT_DIMS_MAX];
	uint32_t wide[PT_DIMS_MAX], wide_count = 0, d, w;       /* dimensions of extent > 1 */
	bool join[PT_DIMS_MAX];                                 /* wide[w] can be joined with wide[w + 1] */
	struct pt_box clip;
	size_t i;
	int rc;

	for (d = 0; d < target->ndim; d++) {
		if (target->ext[d] > 1) {
			join[wide_count] = true;
			wide[wide_count++] = d;
		}
	}
	for (i = 0; i < plan->source_count; i++) {
		if (sources[i].ndim != target->ndim)
			return pt_fail(EINVAL, "source %zu has %" PRIu32 " dimensions, the target %" PRIu32,
				       i, sources[i].ndim, target->ndim);
		rc = plan->bytes ? source_clip(target, plan->unit, &sources[i], i, &clip, stride) : 0;
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		plan->used[i / 8] |= (uint8_t)(1u << i % 8);
		s.used++;
		if (!pt_size_add(s.held, box_elems(&clip) * plan->unit, &s.held))
			s.held = UINT64_MAX;
		for (w = 0; w + 1 < wide_count; w++) {
			uint32_t a = wide[w], b = wide[w + 1];

			if (clip.ext[b] != target->ext[b] || stride[a] != stride[b] * target->ext[b])
				join[w] = false;
		}
	}
	for (w = 0; w < wide_count; w++) {
		if (w && join[w - 1]) {
			s.last[s.ndim - 1] = wide[w];
			s.inner[s.ndim - 1] *= target->ext[wide[w]];
		} else {
			s.first[s.ndim] = s.last[s.ndim] = wide[w];
			s.inner[s.ndim] = 1;
			s.ndim++;
		}
	}
	*ret_survey = s;
	return 0;
}

static void target_reduce(struct pt_plan *plan, const struct pt_box *target, const struct survey *s)
{
	uint64_t stride = plan->unit;
	uint32_t d;

	plan->ndim = s->ndim;
	for (d = s->ndim; d-- > 0;) {
		plan->dim[d] = target->ext[s->first[d]] * s->inner[d];
		plan->stride[d] = stride;
		stride *= plan->dim[d];
	}
}

static void cell_make(struct pt_plan *plan, uint32_t at, size_t source, const struct pt_box *target, const struct pt_box *box,
		      const struct pt_box *clip, const uint64_t *stride, const struct survey *s)
{
	struct plan_cell *cell = &plan->cells[at];
	uint64_t *off = plan->geometry + (size_t)at * 3 * plan->ndim, *ext = off + plan->ndim, *src_stride = ext + plan->ndim;
	uint32_t d;

	cell->source = (uint32_t)source;
	cell->src_base = 0;
	for (d = 0; d < box->ndim; d++)
		cell->src_base += (clip->off[d] - box->off[d]) * stride[d];
	for (d = 0; d < plan->ndim; d++) {
		off[d] = (clip->off[s->first[d]] - target->off[s->first[d]]) * s->inner[d];
		ext[d] = clip->ext[s->first[d]] * s->inner[d];
		src_stride[d] = stride[s->last[d]];
	}
	/* The outermost dimension from which on both payloads run on alike. */
	d = plan->ndim;
	while (d && src_stride[d - 1] == plan->stride[d - 1] && (d == plan->ndim || ext[d] == plan->dim[d]))
		d--;
	cell->run_dim = d;
	cell->run_start = d < plan->ndim ? off[d] * plan->stride[d] : 0;
	cell->run_len = d < plan->ndim ? ext[d] * plan->stride[d] : plan->unit;
}

static int cells_make(struct pt_plan *plan, const struct pt_box *target, const struct pt_box *sources, const struct survey *s)
{
	uint64_t stride[PT_DIMS_MAX];
	struct pt_box clip;
	size_t i, words;
	uint32_t at = 0;

	if (__builtin_mul_overflow((size_t)s->used, (size_t)3 * plan->ndim, &words))
		return pt_fail_nomem();
	plan->cells = pt_calloc(s->used, sizeof(*plan->cells));
	plan->geometry = pt_reallocarray(NULL, words, sizeof(*plan->geometry));
	plan->nodes = pt_calloc(s->used, sizeof(*plan->nodes));
	if (!plan->cells || !plan->geometry || !plan->nodes)
		return pt_fail_nomem();
	plan->cell_count = s->used;
	for (i = 0; i < plan->source_count; i++) {
		if (!pt_plan_uses(plan, i))
			continue;
		source_clip(target, plan->unit, &sources[i], i, &clip, stride);
		cell_make(plan, at++, i, target, &sources[i], &clip, stride, s);
	}
	return 0;
}

static void hints_make(struct pt_plan *plan)
{
	uint64_t at[PT_DIMS_MAX];
	uint32_t i;

	for (i = 0; i < plan->cell_count; i++) {
		memcpy(at, plan_cell_off(plan, i), plan->ndim * sizeof(at[0]));
		plan->cells[i].hint = plan_run_skip(plan, i, at) ? plan_tree_find(plan, at) : i;
	}
}

static int plan_make(struct pt_plan *plan, const struct pt_box *target, const struct pt_box *sources)
{
	struct survey s;
	int rc;

	rc = survey_sources(plan, target, sources, &s);
	if (rc < 0 || !plan->bytes)
		return rc;
	if (s.used) {
		target_reduce(plan, target, &s);
		rc = cells_make(plan, target, sources, &s);
		if (rc < 0)
			return rc;
		/* Disjoint cells that hold as many bytes as the target cover it. */
		rc = plan_tree_build(plan);
		if (rc < 0)
			return rc;
	}
	if (s.held < plan->bytes)
		return pt_fail(ENODATA, "the sources hold %" PRIu64 " of the target's %" PRIu64 " bytes: parts are missing",
			       s.held, plan->bytes);
	hints_make(plan);
	return 0;
}

int pt_plan_create(const struct pt_box *target, uint64_t unit, const struct pt_box *sources, size_t source_count,
		   struct pt_plan **ret_plan)
{
	uint64_t stride[PT_DIMS_MAX];
	struct pt_plan *plan;
	int rc;

	if (target->ndim > PT_DIMS_MAX)
		return pt_fail(EINVAL, "a target of %" PRIu32 " dimensions: at most %d are supported", target->ndim, PT_DIMS_MAX);
	if (!unit)
		return pt_fail(EINVAL, "an element of no bytes cannot be planned");
	if (source_count > UINT32_MAX)
		return pt_fail(EINVAL, "%zu sources: at most 2^32 - 1 are supported", source_count);
	plan = pt_calloc(1, sizeof(*plan));
	if (!plan)
		return pt_fail_nomem();
	plan->unit = unit;
	plan->source_count = source_count;
	plan->used = pt_calloc(source_count / 8 + 1, 1);
	if (!plan->used) {
		rc = pt_fail_nomem();
		goto fail;
	}
	if (!box_layout(target, unit, stride, &plan->bytes)) {
		rc = pt_fail(EOVERFLOW, "the target has 2^62 bytes or more");
		goto fail;
	}
	rc = plan_make(plan, target, sources);
	if (rc < 0)
		goto fail;
	*ret_plan = plan;
	return 0;
fail:
	pt_plan_free(plan);
	return rc;
}

void pt_plan_free(struct pt_plan *plan)
{
	if (!plan)
		return;
	free(plan->nodes);
	free(plan->geometry);
	free(plan->cells);
	free(plan->used);
	free(plan);
}

uint64_t pt_plan_bytes(const struct pt_plan *plan)
{
	return plan->bytes;
}

int pt_plan_uses(const struct pt_plan *plan, size_t source)
{
	return source < plan->source_count && (plan->used[source / 8] >> source % 8 & 1);
}

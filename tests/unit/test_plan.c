/* tests/unit/test_plan.c - the planner against a reference that looks at every byte by itself. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "lib/suite.h"
#include "plan/plan.h"
#include "unit/tiling.h"

#define CASES 100000
#define ELEMS_MAX 512
#define UNIT_MAX 3
#define BYTES_MAX (ELEMS_MAX * UNIT_MAX)

static uint64_t seed;

/* ck_assert_*() makes a system call each time, which is too slow for hundreds of millions of checks. */
#define MUST(condition) \
	do { \
		if (!(condition)) \
			ck_abort_msg("not true: %s", #condition); \
	} while (0)

struct byte_at {
	uint32_t source;
	uint64_t src_off;
};

/* Where each byte of the target lies, index by index: -ENODATA and -EINVAL as the planner promises. */
static int reference(const struct pt_box *target, uint64_t unit, const struct pt_box *sources, size_t count,
		     struct byte_at *ret_bytes, uint64_t *ret_len)
{
	uint64_t elems = 1, i, b, rest, linear, at[PT_DIMS_MAX];
	int holders, missing = 0;
	uint32_t d;
	size_t s;

	for (d = 0; d < target->ndim; d++)
		elems *= target->ext[d];
	for (i = 0; i < elems; i++) {
		rest = i;
		for (d = target->ndim; d-- > 0;) {
			at[d] = target->off[d] + rest % target->ext[d];
			rest /= target->ext[d];
		}
		holders = 0;
		for (s = 0; s < count; s++) {
			linear = 0;
			for (d = 0; d < target->ndim; d++) {
				if (at[d] < sources[s].off[d] || at[d] - sources[s].off[d] >= sources[s].ext[d])
					break;
				linear = linear * sources[s].ext[d] + at[d] - sources[s].off[d];
			}
			if (d < target->ndim)
				continue;
			holders++;
			for (b = 0; b < unit; b++)
				ret_bytes[i * unit + b] = (struct byte_at){ (uint32_t)s, linear * unit + b };
		}
		if (holders > 1)
			return -EINVAL;
		if (!holders)
			missing = 1;
	}
	*ret_len = elems * unit;
	return missing ? -ENODATA : 0;
}

static void check_window(const struct pt_plan *plan, const struct byte_at *bytes, uint64_t total, uint64_t off, uint64_t len,
			 size_t max)
{
	uint64_t pos = off < total ? off : total, end = len < total - pos ? pos + len : total, n, start;
	struct pt_plan_cursor cursor;
	struct pt_range range[64];
	size_t count, i;

	pt_plan_seek(plan, off, len, &cursor);
	while ((count = pt_plan_next(&cursor, range, max))) {
		MUST(count <= max);
		for (i = 0; i < count; i++) {
			start = pos;
			MUST(pos < end);
			/* As long as the reference says, and no longer. */
			for (n = 1; pos + n < end && bytes[pos + n].source == bytes[pos].source &&
			     bytes[pos + n].src_off == bytes[pos].src_off + n; n++)
				;
			MUST(range[i].dst_off == start);
			MUST(range[i].source == bytes[pos].source);
			MUST(range[i].src_off == bytes[pos].src_off);
			MUST(range[i].len == n);
			pos += n;
		}
	}
	MUST(pos == end);
	MUST(!pt_plan_next(&cursor, range, max));
}

static void check_case(struct rng *r, const struct pt_box *target, uint64_t unit, const struct pt_box *sources, size_t count)
{
	static struct byte_at bytes[BYTES_MAX];
	struct pt_plan *plan = NULL;
	uint64_t total = 0, off, len;
	int want, got, i;
	size_t s;

	want = reference(target, unit, sources, count, bytes, &total);
	got = pt_plan_create(target, unit, sources, count, &plan);
	if (got != want)
		ck_abort_msg("pt_plan_create: %d, the reference says %d", got, want);
	if (got < 0) {
		MUST(!plan);
		return;
	}
	MUST(pt_plan_bytes(plan) == total);
	for (s = 0; s < count; s++) {
		struct pt_box both;

		MUST(pt_plan_uses(plan, s) == (total && pt_box_intersect(target, &sources[s], &both)));
	}
	check_window(plan, bytes, total, 0, UINT64_MAX, rng_between(r, 1, 64));
	if (total <= 24) {
		for (off = 0; off <= total + 1; off++)
			for (len = 0; len <= total + 1 - off; len++)
				check_window(plan, bytes, total, off, len, 1 + (off + len) % 3);
	} else {
		for (i = 0; i < 6; i++)
			check_window(plan, bytes, total, rng_below(r, total + 2), rng_below(r, total + 2), rng_between(r, 1, 9));
	}
	pt_plan_free(plan);
}

/* Ten loops, so that each is a test by itself and a failure names its seed. */
START_TEST(every_range_is_what_the_reference_says)
{
	struct rng r = { seed + (uint64_t)_i * 1000003 };
	static struct tiling t;
	struct pt_shape shape;
	struct pt_box target;
	uint64_t unit, pick;
	int i;

	for (i = 0; i < CASES / 10; i++) {
		tiling_shape(&r, 6, ELEMS_MAX, &shape);
		tiling_make(&r, &shape, (enum tiling_kind)rng_below(&r, TILING_KINDS), &t);
		if (rng_below(&r, 2))
			tiling_shuffle(&r, &t);
		tiling_target(&r, &shape, &target);
		unit = rng_between(&r, 1, UNIT_MAX);
		check_case(&r, &target, unit, t.box, t.count);
		/* One fewer, or one twice, or one that is larger. */
		pick = rng_below(&r, t.count);
		switch (rng_below(&r, 8)) {
		case 0:
			t.box[pick] = t.box[--t.count];
			check_case(&r, &target, unit, t.box, t.count);
			break;
		case 1:
			if (t.count < TILING_MAX) {
				t.box[t.count++] = t.box[pick];
				check_case(&r, &target, unit, t.box, t.count);
			}
			break;
		case 2:
			if (shape.ndim) {
				t.box[pick].ext[rng_below(&r, shape.ndim)]++;
				check_case(&r, &target, unit, t.box, t.count);
			}
			break;
		}
	}
}
END_TEST

static struct pt_box box_of(uint32_t ndim, const uint64_t *off, const uint64_t *ext)
{
	struct pt_box box = { .ndim = ndim };

	memcpy(box.off, off, ndim * sizeof(*off));
	memcpy(box.ext, ext, ndim * sizeof(*ext));
	return box;
}

#define BOX2(o0, o1, e0, e1) box_of(2, (const uint64_t[]){ o0, o1 }, (const uint64_t[]){ e0, e1 })

START_TEST(a_pinwheel_is_planned_though_no_plane_separates_it)
{
	struct rng r = { seed };
	struct pt_box target = BOX2(0, 0, 3, 3);
	struct pt_box sources[] = {
		BOX2(0, 0, 1, 2), BOX2(0, 2, 2, 1), BOX2(2, 1, 1, 2), BOX2(1, 0, 2, 1), BOX2(1, 1, 1, 1),
	};
	struct pt_plan *plan = NULL;

	check_case(&r, &target, 2, sources, 5);
	sources[4] = BOX2(0, 1, 1, 1);          /* as many bytes, but one is doubled and one missing */
	ck_assert_int_eq(pt_plan_create(&target, 2, sources, 5, &plan), -EINVAL);
	ck_assert_ptr_null(plan);
}
END_TEST

START_TEST(whole_rows_merge_into_one_range)
{
	struct pt_box target = BOX2(2, 0, 4, 8), source = BOX2(0, 0, 6, 8), wide = BOX2(0, 0, 6, 9);
	struct pt_plan_cursor cursor;
	struct pt_range range[8];
	struct pt_plan *plan;

	ck_assert_int_eq(pt_plan_create(&target, 4, &source, 1, &plan), 0);
	pt_plan_seek(plan, 0, UINT64_MAX, &cursor);
	ck_assert_uint_eq(pt_plan_next(&cursor, range, 8), 1);
	ck_assert_uint_eq(range[0].len, 4 * 8 * 4);
	ck_assert_uint_eq(range[0].src_off, 2 * 8 * 4);
	pt_plan_free(plan);

	ck_assert_int_eq(pt_plan_create(&target, 4, &wide, 1, &plan), 0);
	pt_plan_seek(plan, 0, UINT64_MAX, &cursor);
	ck_assert_uint_eq(pt_plan_next(&cursor, range, 8), 4);
	ck_assert_uint_eq(range[1].src_off, 3 * 9 * 4);
	pt_plan_free(plan);
}
END_TEST

START_TEST(terabytes_are_planned_by_arithmetic)
{
	/* 2^20 x 2^20 elements of 2 bytes, read as a column block out of row blocks. */
	const uint64_t n = (uint64_t)1 << 20;
	struct pt_box target = BOX2(0, n / 2, n, n / 4), sources[8];
	struct pt_plan_cursor cursor;
	struct pt_range range[2];
	struct pt_plan *plan;
	int i;

	for (i = 0; i < 8; i++)
		sources[i] = BOX2((uint64_t)i * n / 8, 0, n / 8, n);
	ck_assert_int_eq(pt_plan_create(&target, 2, sources, 8, &plan), 0);
	ck_assert_uint_eq(pt_plan_bytes(plan), n * (n / 4) * 2);
	/* Row 5 n / 8 + 7 belongs to source 5. */
	pt_plan_seek(plan, (5 * n / 8 + 7) * (n / 4) * 2 + 10, n / 2, &cursor);
	ck_assert_uint_eq(pt_plan_next(&cursor, range, 2), 2);
	ck_assert_uint_eq(range[0].source, 5);
	ck_assert_uint_eq(range[0].src_off, 7 * n * 2 + n + 10);
	ck_assert_uint_eq(range[0].len, n / 2 - 10);
	ck_assert_uint_eq(range[1].src_off, 8 * n * 2 + n);
	ck_assert_uint_eq(range[1].len, 10);
	pt_plan_free(plan);
}
END_TEST

START_TEST(sixty_four_dimensions_are_planned)
{
	struct pt_box target = { .ndim = 64 }, sources[2];
	struct pt_plan_cursor cursor;
	struct pt_range range;
	struct pt_plan *plan;
	uint64_t count = 0, bytes = 0;
	uint32_t d;

	for (d = 0; d < 64; d++)
		target.ext[d] = d % 4 ? 1 : 2;          /* 2^16 elements */
	sources[0] = sources[1] = target;
	sources[0].ext[60] = sources[1].ext[60] = 1;    /* the last dimension that counts */
	sources[1].off[60] = 1;
	ck_assert_int_eq(pt_plan_create(&target, 8, sources, 2, &plan), 0);
	pt_plan_seek(plan, 0, UINT64_MAX, &cursor);
	while (pt_plan_next(&cursor, &range, 1)) {
		ck_assert_uint_eq(range.source, count % 2);
		ck_assert_uint_eq(range.src_off, count / 2 * 8);
		bytes += range.len;
		count++;
	}
	ck_assert_uint_eq(count, 1 << 16);
	ck_assert_uint_eq(bytes, 8 << 16);
	pt_plan_free(plan);
}
END_TEST

START_TEST(sixty_four_dimensions_of_two_overflow)
{
	struct pt_box target = { .ndim = 64 };
	struct pt_plan *plan = NULL;
	uint32_t d;

	for (d = 0; d < 64; d++)
		target.ext[d] = 2;
	ck_assert_int_eq(pt_plan_create(&target, 1, &target, 1, &plan), -EOVERFLOW);
	target.ndim = 62;
	ck_assert_int_eq(pt_plan_create(&target, 1, &target, 1, &plan), -EOVERFLOW);
	target.ndim = 61;
	ck_assert_int_eq(pt_plan_create(&target, 1, &target, 1, &plan), 0);
	pt_plan_free(plan);
}
END_TEST

START_TEST(nonsense_is_refused)
{
	struct pt_box target = BOX2(0, 0, 2, 2), line = box_of(1, (const uint64_t[]){ 0 }, (const uint64_t[]){ 4 });
	struct pt_box huge = BOX2(0, 0, UINT64_MAX, 2), far = BOX2(UINT64_MAX, 0, 2, 2), none = BOX2(0, 0, 0, UINT64_MAX);
	struct pt_plan *plan = NULL;

	ck_assert_int_eq(pt_plan_create(&target, 1, &line, 1, &plan), -EINVAL);
	ck_assert_int_eq(pt_plan_create(&target, 0, &target, 1, &plan), -EINVAL);
	ck_assert_int_eq(pt_plan_create(&target, 1, &huge, 1, &plan), -EOVERFLOW);
	ck_assert_int_eq(pt_plan_create(&target, 1, NULL, 0, &plan), -ENODATA);
	ck_assert_int_eq(pt_plan_create(&target, 1, &far, 1, &plan), -ENODATA);
	ck_assert_int_eq(pt_plan_create(&huge, 1, &huge, 1, &plan), -EOVERFLOW);
	ck_assert_int_eq(pt_plan_create(&far, 1, &far, 1, &plan), -EOVERFLOW);
	ck_assert_ptr_null(plan);
	/* An empty target needs nothing, and a source of no elements gives nothing. */
	ck_assert_int_eq(pt_plan_create(&none, 1, NULL, 0, &plan), 0);
	ck_assert_uint_eq(pt_plan_bytes(plan), 0);
	pt_plan_free(plan);
	ck_assert_int_eq(pt_plan_create(&target, 1, &none, 1, &plan), -ENODATA);
}
END_TEST

/* Strips cut off alternately at the left and at the top: planes that each separate one box only. */
START_TEST(thousands_of_sources_stay_shallow)
{
	enum { N = 4000 };
	struct pt_box *sources = calloc(N, sizeof(*sources)), target, rest = BOX2(0, 0, N, N);
	struct pt_plan_cursor cursor;
	struct pt_range range;
	struct pt_plan *plan = NULL;
	struct rng r = { seed };
	uint64_t pos, row, column;
	int i;

	ck_assert_ptr_nonnull(sources);
	target = rest;
	for (i = 0; i < N - 1; i++) {
		int d = i % 2;

		sources[i] = rest;
		sources[i].ext[d] = 1;
		rest.off[d]++;
		rest.ext[d]--;
	}
	sources[N - 1] = rest;
	ck_assert_int_eq(pt_plan_create(&target, 1, sources, N, &plan), 0);
	for (i = 0; i < 100000; i++) {
		pos = rng_below(&r, (uint64_t)N * N);
		row = pos / N;
		column = pos % N;
		pt_plan_seek(plan, pos, 1, &cursor);
		MUST(pt_plan_next(&cursor, &range, 1) == 1);
		MUST(range.src_off == (row - sources[range.source].off[0]) * sources[range.source].ext[1] +
				  column - sources[range.source].off[1]);
		MUST(row - sources[range.source].off[0] < sources[range.source].ext[0]);
		MUST(column - sources[range.source].off[1] < sources[range.source].ext[1]);
	}
	pt_plan_free(plan);
	free(sources);
}
END_TEST

START_TEST(each_failed_allocation_is_reported_and_nothing_leaks)
{
	struct pt_box target = BOX2(0, 0, 4, 4), sources[] = { BOX2(0, 0, 4, 1), BOX2(0, 1, 4, 3) };
	struct pt_plan *plan = NULL;
	int n, rc = -ENOMEM;

	for (n = 0; rc < 0; n++) {
		pt_alloc_fail_after(n);
		rc = pt_plan_create(&target, 1, sources, 2, &plan);
		pt_alloc_fail_after(-1);
		ck_assert(!rc || rc == -ENOMEM);
	}
	ck_assert_int_gt(n, 4);
	pt_plan_free(plan);
	pt_plan_free(NULL);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("plan");

	seed = rng_seed(20240607);
	tcase_add_loop_test(tcase, every_range_is_what_the_reference_says, 0, 10);
	tcase_add_test(tcase, a_pinwheel_is_planned_though_no_plane_separates_it);
	tcase_add_test(tcase, whole_rows_merge_into_one_range);
	tcase_add_test(tcase, terabytes_are_planned_by_arithmetic);
	tcase_add_test(tcase, sixty_four_dimensions_are_planned);
	tcase_add_test(tcase, sixty_four_dimensions_of_two_overflow);
	tcase_add_test(tcase, nonsense_is_refused);
	tcase_add_test(tcase, thousands_of_sources_stay_shallow);
	tcase_add_test(tcase, each_failed_allocation_is_reported_and_nothing_leaks);
	return run_suite("plan", &tcase, 1);
}

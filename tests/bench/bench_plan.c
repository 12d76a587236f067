/* tests/bench/bench_plan.c - what planning costs: nanoseconds a range and a seek, by dimensions, sources and batch.
 *
 * Each row plans a target cut otherwise than its sources, walks windows of it, and prints the mean of all ranges. Run by
 * `make bench-plan`; figures are for comparison on one machine. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "layout/axis.h"
#include "plan/plan.h"

#define SOURCES_MAX 65536
#define BATCH_MAX 256
#define RANGES_WANTED 20000000          /* a row */
#define SEEKS 1000000

static struct pt_box *sources;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "bench_plan: %s: %s\n", what, pt_fail_sentence());
	exit(1);
}

/* Cuts dims a and b (a == b: only one) into na x nb blocks. */
static size_t cut(const struct pt_shape *shape, uint32_t a, int32_t na, uint32_t b, int32_t nb)
{
	size_t n = 0;
	int32_t i, j;

	for (i = 0; i < na; i++) {
		for (j = 0; j < nb; j++) {
			pt_shape_box(shape, &sources[n]);
			pt_shard_range(shape->dim[b], j, nb, PT_SPLIT_BALANCED, &sources[n].off[b], &sources[n].ext[b]);
			pt_shard_range(shape->dim[a], i, na, PT_SPLIT_BALANCED, &sources[n].off[a], &sources[n].ext[a]);
			n++;
		}
	}
	return n;
}

static uint64_t walk(const struct pt_plan *plan, uint64_t window, size_t batch, uint64_t limit)
{
	struct pt_range ranges[BATCH_MAX];
	struct pt_plan_cursor cursor;
	uint64_t count = 0, off = 0;
	size_t n;

	while (count < limit) {
		pt_plan_seek(plan, off, window, &cursor);
		while (count < limit && (n = pt_plan_next(&cursor, ranges, batch)))
			count += n;
		off += window;
		if (off >= pt_plan_bytes(plan))
			off = 0;
	}
	return count;
}

static void row(const char *what, const struct pt_shape *shape, size_t count, const struct pt_box *target)
{
	static const struct {
		uint64_t window;
		size_t batch;
	} runs[] = { { UINT64_MAX, BATCH_MAX }, { 1 << 20, BATCH_MAX }, { 1 << 17, 16 }, { UINT64_MAX, 1 } };
	struct pt_plan_cursor cursor;
	struct pt_range range;
	struct pt_plan *plan;
	double start, made, seeks;
	uint64_t n, x = 1;
	size_t i;

	start = now_ns();
	if (pt_plan_create(target, 2, sources, count, &plan) < 0)
		die(what);
	made = now_ns() - start;
	start = now_ns();
	for (i = 0; i < SEEKS; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		pt_plan_seek(plan, (x >> 11) % pt_plan_bytes(plan), 4096, &cursor);
		pt_plan_next(&cursor, &range, 1);
	}
	seeks = (now_ns() - start) / SEEKS;
	printf("%-34s %2" PRIu32 " dims %6zu sources %9.1f us make %6.1f ns seek ", what, shape->ndim, count, made / 1e3, seeks);
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		start = now_ns();
		n = walk(plan, runs[i].window, runs[i].batch, RANGES_WANTED / (runs[i].batch == 1 ? 4 : 1));
		printf("%7.1f", (now_ns() - start) / (double)n);
	}
	printf("\n");
	pt_plan_free(plan);
}

/* The part of a tensor that rank 1 of 2 has along a dimension. */
static struct pt_box half(const struct pt_shape *shape, uint32_t dim)
{
	const struct pt_partition part = { .rank = 1, .size = 2, .dim = (int32_t)dim };
	struct pt_box box;

	if (pt_shard_box(shape, PT_DTYPE_BF16, &part, PT_SPLIT_BALANCED, &box) < 0)
		die("shard");
	return box;
}

int main(void)
{
	struct pt_shape matrix = { .ndim = 2, .dim = { 8192, 8192 } };
	struct pt_shape experts = { .ndim = 3, .dim = { 64, 2048, 1024 } };
	struct pt_shape six = { .ndim = 6, .dim = { 8, 8, 16, 16, 32, 64 } };
	struct pt_box whole, target;

	sources = calloc(SOURCES_MAX, sizeof(*sources));
	if (!sources)
		return 1;
	printf("nanoseconds a range with window/batch: all/256, 1 MiB/256, 128 KiB/16, all/1\n");
	pt_shape_box(&matrix, &whole);
	target = half(&matrix, 1);
	row("rows stored, columns read", &matrix, cut(&matrix, 0, 4, 0, 1), &target);
	row("rows stored, columns read", &matrix, cut(&matrix, 0, 64, 0, 1), &target);
	row("columns stored, full read", &matrix, cut(&matrix, 1, 4, 1, 1), &whole);
	row("columns stored, full read", &matrix, cut(&matrix, 1, 64, 1, 1), &whole);
	row("columns stored, full read", &matrix, cut(&matrix, 1, 1024, 1, 1), &whole);
	row("blocks stored, full read", &matrix, cut(&matrix, 0, 8, 1, 8), &whole);
	row("blocks stored, full read", &matrix, cut(&matrix, 0, 256, 1, 256), &whole);
	pt_shape_box(&experts, &whole);
	target = half(&experts, 2);
	row("experts by rows, columns read", &experts, cut(&experts, 1, 8, 1, 1), &target);
	row("experts by columns, full read", &experts, cut(&experts, 2, 8, 2, 1), &whole);
	pt_shape_box(&six, &whole);
	row("middle dimension cut, full read", &six, cut(&six, 3, 4, 3, 1), &whole);
	row("two dimensions cut, full read", &six, cut(&six, 1, 4, 5, 4), &whole);
	target = half(&six, 4);
	row("two dimensions cut, half read", &six, cut(&six, 1, 4, 5, 4), &target);
	free(sources);
	return 0;
}

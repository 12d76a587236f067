/* tests/unit/cache_fixture.h - a cache with two threads, and files in it. */
#ifndef TESTS_UNIT_CACHE_FIXTURE_H
#define TESTS_UNIT_CACHE_FIXTURE_H

#include <stdio.h>

#include "cache/cache_int.h"
#include "cache_source.h"

static bool __attribute__((unused)) cuts;               /* fill()'s source likes reads to end at a CUT */
static uint64_t __attribute__((unused)) subject;        /* of what fill() makes */

static inline int64_t piece_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	if (off % CUT)
		__atomic_add_fetch(&cut_read_bad, 1, __ATOMIC_RELAXED);
	return source_read(ctx, buf, len, off);
}

static inline void source_release(void *ctx)
{
	struct source *s = ctx;

	atomic_fetch_add(&s->releases, 1);
}

static struct pt_workers *workers;
static struct pt_vcache *cache;

static inline void begin(uint64_t limit)
{
	ck_assert_int_eq(pt_workers_create(2, &workers), 0);
	ck_assert_int_eq(pt_vcache_create(limit, workers, &cache), 0);
	ck_assert(pt_vcache_enabled(cache) == (limit > 0));
}

static inline void end(void)
{
	pt_workers_stop(workers);
	pt_vcache_free(cache);
	pt_workers_free(workers);
}

static enum pt_vcache_want want = PT_VCACHE_KEEP;

static inline int fill(uint64_t id, uint64_t size, uint64_t align, struct source *s, struct pt_vcache_file **ret)
{
	struct pt_vcache_key key = { { id } };
	struct pt_vcache_source source = { .read = cuts ? piece_read : source_read, .cut = cuts ? cut : NULL, .release = source_release, .ctx = s, .subject = subject };

	return pt_vcache_fill(cache, &key, size, align, want, &source, ret);
}

static inline void wait_whole(const struct pt_vcache_file *f)
{
	while (!pt_vcache_file_whole(f))
		usleep(200);
}

static inline void wait_released(struct source *s)
{
	while (!atomic_load(&s->releases))
		usleep(200);
}

static inline struct pt_vcache_stats stats(void)
{
	struct pt_vcache_stats s;

	pt_vcache_stats(cache, &s);
	return s;
}

/* A file of one line, as the kernel shows what it knows. */
static inline void line_write(const char *dir, const char *name, const char *line)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "%s\n", line);
	ck_assert_int_eq(fclose(f), 0);
}

/* A control group of our own, of which limit and use are files. */
static inline void group_write(const char *dir, const char *name, uint64_t value)
{
	char line[32];

	snprintf(line, sizeof(line), "%llu", (unsigned long long)value);
	line_write(dir, name, line);
}

#endif

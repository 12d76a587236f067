/* tests/unit/cache_source.h - what caches are filled from: bytes that tell where they are. */
#ifndef TESTS_UNIT_CACHE_SOURCE_H
#define TESTS_UNIT_CACHE_SOURCE_H

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "base/error.h"

#define MIB ((uint64_t)1 << 20)

/* Bytes that tell where they are; a source that counts, and can be held up or made to fail. */
struct source {
	uint64_t seed;
	atomic_int reads, releases;
	atomic_bool fails;
	atomic_bool held;
};

static inline uint8_t byte_at(uint64_t seed, uint64_t off)
{
	return (uint8_t)((off * 31 + (off >> 12) * 7 + seed) & 0xff);
}

#define CUT 700001

static uint64_t __attribute__((unused)) cut_read_bad;   /* reads that did not keep to it */
static inline uint64_t cut(void *ctx, uint64_t off, uint64_t max)
{
	(void)ctx;
	return off + max < (off / CUT + 1) * CUT ? off + max : (off / CUT + 1) * CUT;
}

static inline int64_t source_read(void *ctx, void *buf, uint64_t len, uint64_t off)
{
	struct source *s = ctx;
	uint8_t *out = buf;
	uint64_t i;

	atomic_fetch_add(&s->reads, 1);
	while (atomic_load(&s->held))
		usleep(100);
	if (atomic_load(&s->fails))
		return pt_fail(EIO, "the source fails");
	for (i = 0; i < len; i++)
		out[i] = byte_at(s->seed, off + i);
	return (int64_t)len;
}

static inline void check_bytes(const uint8_t *got, uint64_t seed, uint64_t off, uint64_t len)
{
	uint64_t i;

	for (i = 0; i < len && got[i] == byte_at(seed, off + i); i++)
		;
	ck_assert_msg(i == len, "byte %llu is wrong", (unsigned long long)(off + i));
}

#endif

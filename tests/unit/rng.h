/* tests/unit/rng.h - repeatable random numbers. The seed is printed; PTIO_TEST_SEED sets another one. */
#ifndef TESTS_UNIT_RNG_H
#define TESTS_UNIT_RNG_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);         /* splitmix64 */

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 <= result < n. */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

static inline uint64_t rng_between(struct rng *r, uint64_t low, uint64_t high)
{
	return low + rng_below(r, high - low + 1);
}

static inline uint64_t rng_seed(uint64_t preset)
{
	const char *text = getenv("PTIO_TEST_SEED");
	uint64_t seed = text && *text ? strtoull(text, NULL, 0) : preset;

	printf("seed %llu (PTIO_TEST_SEED sets another)\n", (unsigned long long)seed);
	return seed;
}

#endif

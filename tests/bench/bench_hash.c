/* tests/bench/bench_hash.c - what hashing costs: each of the three hashes of an object by itself, and all in one pass, as a writer makes them. Run by `make bench-hash`; MiB and
 * rounds may be given (64, 9). Medians, GB/s of processor time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/size.h"

#define ROUNDS_MAX 99

static uint8_t *data, *copy;
static uint64_t len, sink;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void by_chunk(void)
{
	for (uint64_t at = 0; at < len; at += PT_HASH_CHUNK)
		sink += pt_hash64(data + at, PT_HASH_CHUNK);
}

static void whole(void)
{
	sink += pt_hash128(data, len).b[0];
}

static void crc(void)
{
	sink += pt_crc32(0, data, len);
}

/* One after the other, each over all of the bytes. */
static void three(void)
{
	by_chunk();
	whole();
	crc();
}

/* In one pass, step bytes at a time. */
static void one_pass(uint64_t step)
{
	struct pt_buf chunks = PT_BUF_INIT;
	struct pt_hash128 hash;
	struct pt_hasher *h;
	uint32_t c = 0;

	if (pt_hasher_create(&h) < 0)
		exit(1);
	for (uint64_t at = 0; at < len; at += step) {
		pt_hasher_update(h, data + at, step);
		c = pt_crc32(c, data + at, step);
	}
	if (pt_hasher_finish(h, &hash, &chunks) < 0)
		exit(1);
	sink += hash.b[0] + c;
	pt_buf_done(&chunks);
	pt_hasher_free(h);
}

static void pass_16k(void) { one_pass(16 * PT_KIB); }
static void pass_32k(void) { one_pass(32 * PT_KIB); }
static void pass_64k(void) { one_pass(64 * PT_KIB); }
static void pass_256k(void) { one_pass(256 * PT_KIB); }
static void pass_1m(void) { one_pass(PT_MIB); }
static void moved(void) { memcpy(copy, data, len); }

static const struct {
	const char *name;
	void (*fn)(void);
} ways[] = {
	{ "memcpy", moved },
	{ "XXH3-64 of each MiB", by_chunk },
	{ "XXH3-128", whole },
	{ "CRC-32", crc },
	{ "all three, one after the other", three },
	{ "all three, 16 KiB at a time", pass_16k },
	{ "all three, 32 KiB at a time", pass_32k },
	{ "all three, 64 KiB at a time", pass_64k },
	{ "all three, 256 KiB at a time", pass_256k },
	{ "all three, 1 MiB at a time", pass_1m },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static int order(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 9;
	static double seconds[WAYS][ROUNDS_MAX];

	len = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) * PT_MIB;
	data = malloc(len);
	copy = malloc(len);
	if (!data || !copy || !rounds || rounds > ROUNDS_MAX)
		return 1;
	for (uint64_t i = 0; i < len / 8; i++)
		memcpy(data + 8 * i, &(uint64_t){ i * UINT64_C(0x9e3779b97f4a7c15) }, 8);
	memset(copy, 1, len);
	for (unsigned r = 0; r < rounds; r++)
		for (size_t w = 0; w < WAYS; w++) {
			double begin = now();

			ways[w].fn();
			seconds[w][r] = now() - begin;
		}
	for (size_t w = 0; w < WAYS; w++) {
		qsort(seconds[w], rounds, sizeof(double), order);
		printf("%-32s %6.1f GB/s\n", ways[w].name, (double)len / seconds[w][rounds / 2] / 1e9);
	}
	free(data);
	free(copy);
	return sink == 1;
}

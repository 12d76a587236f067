/* base/hash_zeros.c - XXH3 (xxhash's doc/xxhash_spec.md, "XXH3 Algorithm") of zeros.
 *
 * For each stripe of 64 bytes a lane adds the product of the two halves of its secret word, xored with the input; of zeros that is a constant. A block of 16 stripes so
 * adds one constant, and is then scrambled. What is left are a few operations for each block and lane, where hashing does some hundred. Looks into the library's
 * state: hash.c compares versions, and results, before it trusts this. */
#define XXH_INLINE_ALL                  /* for the secret and the layout of the state */
#include <xxhash.h>

#include "base/hash_zeros.h"

#include <string.h>

#define LANES 8
#define STRIPES ((unsigned)(PT_HASH_BLOCK / 64))
#define PRIME UINT64_C(0x9e3779b1)

static uint64_t secret_word(size_t off)
{
	return XXH_readLE64(XXH3_kSecret + off);
}

void pt_hash_zeros_skip(void *state, uint64_t blocks)
{
	uint64_t acc[LANES], key[LANES], rest[LANES], block[LANES], i;
	XXH3_state_t *s = state;
	unsigned lane, stripe;

	for (lane = 0; lane < LANES; lane++) {
		rest[lane] = block[lane] = 0;
		for (stripe = 0; stripe < STRIPES; stripe++) {
			uint64_t w = secret_word(8 * stripe + 8 * lane), add = (w & UINT32_MAX) * (w >> 32);

			block[lane] += add;
			rest[lane] += stripe >= s->nbStripesSoFar ? add : 0;
		}
		key[lane] = secret_word(sizeof(XXH3_kSecret) - 64 + 8 * lane);
		acc[lane] = s->acc[lane] + rest[lane];
	}
	for (i = 0; i < blocks; i++)
		for (lane = 0; lane < LANES; lane++)
			acc[lane] = ((acc[lane] ^ acc[lane] >> 47 ^ key[lane]) * PRIME) + block[lane];
	for (lane = 0; lane < LANES; lane++)
		s->acc[lane] = acc[lane] - rest[lane];
	s->totalLen += blocks * PT_HASH_BLOCK;
}

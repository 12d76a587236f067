/* base/hash_zeros.h - a state of XXH3 after many more zeros, by arithmetic instead of reading them. */
#ifndef PT_BASE_HASH_ZEROS_H
#define PT_BASE_HASH_ZEROS_H

#include <stdint.h>

#define PT_HASH_BLOCK ((uint64_t)1024)  /* bytes that XXH3 takes between two scramblings, with the default secret */

/* state: an XXH3_state_t without a seed, of libxxhash at the version of its header, whose last 4096 bytes were zeros. As if `blocks` times PT_HASH_BLOCK zeros had been added. */
void pt_hash_zeros_skip(void *state, uint64_t blocks);

#endif

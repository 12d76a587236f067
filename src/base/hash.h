/* base/hash.h - XXH3 over payloads: 64 bits a chunk of 1 MiB, 128 bits for the whole. */
#ifndef PT_BASE_HASH_H
#define PT_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PT_HASH_CHUNK ((uint64_t)1 << 20)

struct pt_hash128 {
	uint8_t b[16];          /* canonical (big-endian) XXH3-128 */
};

/* CRC-32 of zip and PNG, going on from crc (0 at first). */
uint32_t pt_crc32(uint32_t crc, const void *data, uint64_t len);
uint64_t pt_hash64(const void *data, size_t len);
struct pt_hash128 pt_hash128(const void *data, size_t len);

/* Incremental: feeds bytes in order, appends one u64 (little-endian) to `chunks` for each full or last chunk. */
struct pt_hasher;

int pt_hasher_create(struct pt_hasher **ret_h);                 /* -ENOMEM */
void pt_hasher_free(struct pt_hasher *h);
void pt_hasher_update(struct pt_hasher *h, const void *data, uint64_t len);
void pt_hasher_zeros(struct pt_hasher *h, uint64_t len);       /* len zero bytes, without a buffer of that size */
/* Ends the stream. ret_chunks gets 8 bytes a chunk (none for an empty stream), owned by the caller. -ENOMEM. */
int pt_hasher_finish(struct pt_hasher *h, struct pt_hash128 *ret_whole, struct pt_buf *ret_chunks);

#endif

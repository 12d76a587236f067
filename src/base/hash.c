/* base/hash.c - XXH3 through libxxhash; the hasher keeps one state for the whole and one for the open chunk. */
#include "config.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#ifdef HAVE_XXH_DISPATCH
#include <xxh_x86dispatch.h>            /* from here on XXH3_* are those that look at the processor */
#endif

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash_zeros.h"
#include "base/size.h"

#define ZEROS_LEN ((size_t)64 << 10)

struct pt_hasher {
	XXH3_state_t *whole;
	XXH3_state_t *chunk;
	uint64_t in_chunk;              /* bytes of the open chunk so far */
	uint64_t zero_chunk;            /* hash of a chunk of zeros, once known */
	bool zero_chunk_known;
	struct pt_buf chunks;
};

static const uint8_t zeros[ZEROS_LEN];

uint64_t pt_hash64(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

static struct pt_hash128 hash128_canonical(XXH128_hash_t h)
{
	XXH128_canonical_t canonical;
	struct pt_hash128 ret;

	XXH128_canonicalFromHash(&canonical, h);
	memcpy(ret.b, canonical.digest, sizeof(ret.b));
	return ret;
}

struct pt_hash128 pt_hash128(const void *data, size_t len)
{
	return hash128_canonical(XXH3_128bits(data, len));
}

int pt_hasher_create(struct pt_hasher **ret_h)
{
	struct pt_hasher *h = pt_calloc(1, sizeof(*h));

	if (!h)
		return pt_fail_nomem();
	h->whole = XXH3_createState();
	h->chunk = XXH3_createState();
	if (!h->whole || !h->chunk) {
		pt_hasher_free(h);
		return pt_fail_nomem();
	}
	XXH3_128bits_reset(h->whole);
	XXH3_64bits_reset(h->chunk);
	*ret_h = h;
	return 0;
}

void pt_hasher_free(struct pt_hasher *h)
{
	if (!h)
		return;
	XXH3_freeState(h->whole);
	XXH3_freeState(h->chunk);
	pt_buf_done(&h->chunks);
	free(h);
}

static void hasher_chunk_end(struct pt_hasher *h)
{
	pt_buf_append_le64(&h->chunks, XXH3_64bits_digest(h->chunk));
	XXH3_64bits_reset(h->chunk);
	h->in_chunk = 0;
}

void pt_hasher_update(struct pt_hasher *h, const void *data, uint64_t len)
{
	const uint8_t *p = data;
	uint64_t n;

	while (len) {
		n = pt_size_min(len, PT_HASH_CHUNK - h->in_chunk);
		XXH3_128bits_update(h->whole, p, n);
		if (n == PT_HASH_CHUNK) {
			pt_buf_append_le64(&h->chunks, XXH3_64bits(p, n));
		} else {
			XXH3_64bits_update(h->chunk, p, n);
			h->in_chunk += n;
			if (h->in_chunk == PT_HASH_CHUNK)
				hasher_chunk_end(h);
		}
		p += n;
		len -= n;
	}
}

#define SKIP_AFTER ((size_t)4096)       /* zeros that are hashed before others are skipped */

static pthread_once_t skip_once = PTHREAD_ONCE_INIT;
static bool skip_works;

/* Skipping is arithmetic on the library's own state: the same version as its header's, and the same hashes as without. */
static void skip_check(void)
{
	XXH3_state_t *plain = XXH3_createState(), *skipped = XXH3_createState();
	bool good = plain && skipped && XXH_versionNumber() == XXH_VERSION_NUMBER;
	size_t before, n;

	for (before = 0; good && before < 3000; before += 331) {
		XXH3_128bits_reset(plain);
		XXH3_128bits_reset(skipped);
		XXH3_128bits_update(plain, "before", before ? 6 : 0);
		XXH3_128bits_update(skipped, "before", before ? 6 : 0);
		for (n = 0; n < before + SKIP_AFTER + 7 * PT_HASH_BLOCK; n++)
			XXH3_128bits_update(plain, zeros, 1);
		XXH3_128bits_update(skipped, zeros, before + SKIP_AFTER);
		pt_hash_zeros_skip(skipped, 7);
		good = XXH128_isEqual(XXH3_128bits_digest(plain), XXH3_128bits_digest(skipped));
		XXH3_128bits_update(plain, "after", 5);
		XXH3_128bits_update(skipped, "after", 5);
		good = good && XXH128_isEqual(XXH3_128bits_digest(plain), XXH3_128bits_digest(skipped));
	}
	XXH3_freeState(plain);
	XXH3_freeState(skipped);
	skip_works = good;
}

static void whole_zeros(struct pt_hasher *h, uint64_t len)
{
	uint64_t blocks, n;

	if (len >= 2 * PT_HASH_CHUNK) {
		pthread_once(&skip_once, skip_check);
		if (skip_works) {
			XXH3_128bits_update(h->whole, zeros, SKIP_AFTER);
			blocks = (len - SKIP_AFTER) / PT_HASH_BLOCK;
			pt_hash_zeros_skip(h->whole, blocks);
			len -= SKIP_AFTER + blocks * PT_HASH_BLOCK;
		}
	}
	for (; len; len -= n) {
		n = pt_size_min(len, ZEROS_LEN);
		XXH3_128bits_update(h->whole, zeros, n);
	}
}

/* Whole chunks of zeros at a chunk's start: their hash is computed once. */
static void zero_chunks(struct pt_hasher *h, uint64_t count)
{
	uint64_t done;

	whole_zeros(h, count * PT_HASH_CHUNK);
	if (!h->zero_chunk_known) {
		for (done = 0; done < PT_HASH_CHUNK; done += ZEROS_LEN)
			XXH3_64bits_update(h->chunk, zeros, ZEROS_LEN);
		h->zero_chunk = XXH3_64bits_digest(h->chunk);
		h->zero_chunk_known = true;
		XXH3_64bits_reset(h->chunk);
	}
	for (; count; count--)
		pt_buf_append_le64(&h->chunks, h->zero_chunk);
}

void pt_hasher_zeros(struct pt_hasher *h, uint64_t len)
{
	uint64_t n;

	while (len) {
		if (!h->in_chunk && len >= PT_HASH_CHUNK) {
			zero_chunks(h, len / PT_HASH_CHUNK);
			len %= PT_HASH_CHUNK;
			continue;
		}
		n = pt_size_min(pt_size_min(len, ZEROS_LEN), PT_HASH_CHUNK - h->in_chunk);
		pt_hasher_update(h, zeros, n);
		len -= n;
	}
}

int pt_hasher_finish(struct pt_hasher *h, struct pt_hash128 *ret_whole, struct pt_buf *ret_chunks)
{
	if (h->in_chunk)
		hasher_chunk_end(h);
	if (pt_buf_failed(&h->chunks))
		return pt_fail_nomem();
	*ret_whole = hash128_canonical(XXH3_128bits_digest(h->whole));
	*ret_chunks = h->chunks;
	h->chunks = (struct pt_buf)PT_BUF_INIT;
	return 0;
}

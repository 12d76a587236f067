/* base/crc.c - CRC-32 of zip: by libdeflate (or zlib), and long runs by carry-less products of 64 bytes at a time where the processor has them (x86 with AVX-512 and VPCLMULQDQ).
 *
 * The method is that of Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), bit-reflected: 16 bytes are moved
 * D bits ahead by the products of their halves with x^(D+32) and x^(D-32) modulo the polynomial, and added to what is there. What is left in the end are 16 bytes with the
 * same remainder, which the library takes. Results are compared with the library's before the method is used. */
#include "config.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdbool.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

#include "base/size.h"

#define FOLD_MIN 1024u                  /* shorter runs are the library's; at least 256 */

static uint32_t crc_by_library(uint32_t crc, const uint8_t *p, uint64_t len)
{
#ifdef HAVE_LIBDEFLATE
	return len ? libdeflate_crc32(crc, p, (size_t)len) : crc;
#else
	uint64_t n;

	for (; len; p += n, len -= n) {
		n = pt_size_min(len, (uint64_t)1 << 30);
		crc = (uint32_t)crc32(crc, p, (uInt)n);
	}
	return crc;
#endif
}

#ifdef __x86_64__

#define POLYNOMIAL UINT32_C(0xedb88320) /* reflected */
#define FOLD __attribute__((target("avx512f,vpclmulqdq,pclmul")))

static pthread_once_t fold_once = PTHREAD_ONCE_INIT;
static bool fold_works;
static int64_t far[2], near[2], lane[2];        /* what moves bytes by 2048, 512 and 128 bits */

/* x^n modulo the polynomial, reflected, in the place that a product of 64 bits wants. */
static int64_t power(uint32_t n)
{
	uint32_t r = UINT32_C(1) << 31;

	for (; n; n--)
		r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
	return (int64_t)((uint64_t)r << 1);
}

static void powers(uint32_t bits, int64_t ret_k[2])
{
	ret_k[0] = power(bits + 32);
	ret_k[1] = power(bits - 32);
}

static FOLD inline __m512i spread(const int64_t k[2])
{
	return _mm512_set_epi64(k[1], k[0], k[1], k[0], k[1], k[0], k[1], k[0]);
}

/* Four times 16 bytes moved, and added. */
static FOLD inline __m512i fold(__m512i moved, __m512i k, __m512i add)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(moved, k, 0x00), _mm512_clmulepi64_epi128(moved, k, 0x11), add, 0x96);
}

static FOLD inline __m128i fold_lane(__m128i moved, __m128i add)
{
	__m128i k = _mm_set_epi64x(lane[1], lane[0]);

	return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(moved, k, 0x00), _mm_clmulepi64_si128(moved, k, 0x11)), add);
}

/* len: a multiple of 256, not 0. */
static FOLD uint32_t crc_by_folds(uint32_t crc, const uint8_t *p, uint64_t len)
{
	__m512i k = spread(far), z[4];
	uint8_t rest[16];
	__m128i x;

	for (int i = 0; i < 4; i++)
		z[i] = _mm512_loadu_si512(p + 64 * i);
	z[0] = _mm512_xor_si512(z[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
	for (p += 256, len -= 256; len; p += 256, len -= 256)
		for (int i = 0; i < 4; i++)
			z[i] = fold(z[i], k, _mm512_loadu_si512(p + 64 * i));
	k = spread(near);
	for (int i = 1; i < 4; i++)
		z[i] = fold(z[i - 1], k, z[i]);
	x = fold_lane(_mm512_extracti32x4_epi32(z[3], 0), _mm512_extracti32x4_epi32(z[3], 1));
	x = fold_lane(x, _mm512_extracti32x4_epi32(z[3], 2));
	x = fold_lane(x, _mm512_extracti32x4_epi32(z[3], 3));
	_mm_storeu_si128((__m128i *)(void *)rest, x);
	return crc_by_library(UINT32_MAX, rest, sizeof(rest));
}

static void fold_check(void)
{
	uint8_t bytes[4096];
	bool good;

	good = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
	powers(2048, far);
	powers(512, near);
	powers(128, lane);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * UINT32_C(2654435761) >> 24);
	for (uint32_t len = 256; good && len <= sizeof(bytes); len += 256)
		good = crc_by_folds(len, bytes, len) == crc_by_library(len, bytes, len);
	fold_works = good;
}

uint32_t pt_crc32(uint32_t crc, const void *data, uint64_t len)
{
	const uint8_t *p = data;
	uint64_t folded = len & ~(uint64_t)255;

	if (len < FOLD_MIN)
		return crc_by_library(crc, p, len);
	pthread_once(&fold_once, fold_check);
	if (!fold_works)
		return crc_by_library(crc, p, len);
	return crc_by_library(crc_by_folds(crc, p, folded), p + folded, len - folded);
}

#else

uint32_t pt_crc32(uint32_t crc, const void *data, uint64_t len)
{
	return crc_by_library(crc, data, len);
}

#endif

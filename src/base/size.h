/* base/size.h - checked arithmetic on sizes and offsets (bytes unless a name says otherwise).
 *
 * Each function returns false and leaves *ret alone when the exact result does not fit. */
#ifndef PT_BASE_SIZE_H
#define PT_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PT_KIB ((uint64_t)1 << 10)
#define PT_MIB ((uint64_t)1 << 20)
#define PT_GIB ((uint64_t)1 << 30)

/* Largest byte count of one tensor: below 2^62. */
#define PT_TENSOR_BYTES_MAX (((uint64_t)1 << 62) - 1)

static inline bool pt_size_add(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t r;

	if (__builtin_add_overflow(a, b, &r))
		return false;
	*ret = r;
	return true;
}

static inline bool pt_size_mul(uint64_t a, uint64_t b, uint64_t *ret)
{
	uint64_t r;

	if (__builtin_mul_overflow(a, b, &r))
		return false;
	*ret = r;
	return true;
}

/* Rounds up to a multiple of align, a power of two. */
static inline bool pt_size_align(uint64_t a, uint64_t align, uint64_t *ret)
{
	uint64_t r;

	if (!pt_size_add(a, align - 1, &r))
		return false;
	*ret = r & ~(align - 1);
	return true;
}

static inline uint64_t pt_size_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t pt_size_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* floor(a * b / c) without overflow in between; c > 0 and b <= c. */
static inline uint64_t pt_size_muldiv(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

#endif

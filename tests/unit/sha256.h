/* tests/unit/sha256.h - SHA-256 (FIPS 180-4) for golden vectors, so that the suite needs no crypto library. */
#ifndef PT_TEST_SHA256_H
#define PT_TEST_SHA256_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline uint32_t sha256_rotate(uint32_t v, int n)
{
	return v >> n | v << (32 - n);
}

static inline uint32_t sha256_root_bits(int prime, int cube)
{
	/* First 32 bits of the fraction of the square or cube root, by long division on integers. */
	unsigned __int128 want = (unsigned __int128)prime << (cube ? 96 : 64);
	uint64_t r = 0, bit;

	for (bit = (uint64_t)1 << 36; bit; bit >>= 1) {
		unsigned __int128 t = r | bit;

		if ((cube ? t * t * t : t * t) <= want)
			r |= bit;
	}
	return (uint32_t)r;
}

static inline int sha256_next_prime(int p)
{
	int d;

	do {
		p++;
		for (d = 2; d < p && p % d; d++)
			;
	} while (d < p);
	return p;
}

static inline void sha256_block(uint32_t h[8], const uint32_t k[64], const uint8_t *p)
{
	uint32_t w[64], s[8];
	int i;

	for (i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (; i < 64; i++)
		w[i] = w[i - 16] + (sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
		       (sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof(s));
	for (i = 0; i < 64; i++) {
		uint32_t t1 = s[7] + (sha256_rotate(s[4], 6) ^ sha256_rotate(s[4], 11) ^ sha256_rotate(s[4], 25)) +
			      ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
		uint32_t t2 = (sha256_rotate(s[0], 2) ^ sha256_rotate(s[0], 13) ^ sha256_rotate(s[0], 22)) +
			      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += t1;
		s[0] = t1 + t2;
	}
	for (i = 0; i < 8; i++)
		h[i] += s[i];
}

static inline void sha256_hex(const void *data, size_t len, char ret_hex[65])
{
	const uint8_t *p = data;
	uint8_t tail[128] = { 0 };
	uint32_t h[8], k[64];
	size_t left = len, tail_len;
	int i, prime = 1;

	for (i = 0; i < 64; i++) {
		prime = sha256_next_prime(prime);
		k[i] = sha256_root_bits(prime, 1);
		if (i < 8)
			h[i] = sha256_root_bits(prime, 0);
	}
	for (; left >= 64; left -= 64, p += 64)
		sha256_block(h, k, p);
	if (left)
		memcpy(tail, p, left);
	tail[left] = 0x80;
	tail_len = left < 56 ? 64 : 128;
	for (i = 0; i < 8; i++)
		tail[tail_len - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
	sha256_block(h, k, tail);
	if (tail_len == 128)
		sha256_block(h, k, tail + 64);
	for (i = 0; i < 8; i++)
		snprintf(ret_hex + 8 * i, 9, "%08x", h[i]);
}

#endif

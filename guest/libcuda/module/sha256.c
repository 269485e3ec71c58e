/* SPDX-License-Identifier: Apache-2.0 */
#include "module/sha256.h"

#include <endian.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t roots[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned int n)
{
	return x >> n | x << (32 - n);
}

static void spread(uint32_t w[64], const uint8_t block[64])
{
	memcpy(w, block, 64);
	for (int t = 0; t < 16; t++)
		w[t] = be32toh(w[t]);
	for (int t = 16; t < 64; t++) {
		uint32_t a = w[t - 15], b = w[t - 2];

		w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

/* Instead of moving along, the eight words are named anew in each round: unrolled, they stay in registers. */
#define WORD(n) s[((n)-t) & 7]

static void mix(uint32_t state[8], const uint8_t block[64])
{
	uint32_t w[64], s[8];

	spread(w, block);
	memcpy(s, state, sizeof(s));
#pragma GCC unroll 64
	for (int t = 0; t < 64; t++) {
		uint32_t a = WORD(0), b = WORD(1), c = WORD(2), e = WORD(4), f = WORD(5), g = WORD(6);
		uint32_t add = WORD(7) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) +
			       roots[t] + w[t];

		WORD(3) += add;
		WORD(7) = add + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void libcuda_sha256_start(struct libcuda_sha256 *sha)
{
	/* of the square roots of the first eight primes */
	*sha = (struct libcuda_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
						 0x1f83d9ab, 0x5be0cd19}};
}

void libcuda_sha256_add(struct libcuda_sha256 *sha, const void *data, size_t size)
{
	const uint8_t *from = data;

	while (size) {
		size_t used = sha->length % 64, n = 64 - used < size ? 64 - used : size;

		memcpy(sha->block + used, from, n);
		if (used + n == 64)
			mix(sha->state, sha->block);
		sha->length += n;
		from += n;
		size -= n;
	}
}

void libcuda_sha256_end(struct libcuda_sha256 *sha, uint8_t digest[LIBCUDA_SHA256_BYTES])
{
	static const uint8_t padding[64] = {0x80};
	uint64_t bits = htobe64(sha->length * 8);
	uint32_t word;

	libcuda_sha256_add(sha, padding, 1 + (119 - sha->length % 64) % 64);
	libcuda_sha256_add(sha, &bits, sizeof(bits));
	for (int i = 0; i < 8; i++) {
		word = htobe32(sha->state[i]);
		memcpy(digest + 4 * i, &word, 4);
	}
}

void libcuda_sha256(const void *data, size_t size, uint8_t digest[LIBCUDA_SHA256_BYTES])
{
	struct libcuda_sha256 sha;

	libcuda_sha256_start(&sha);
	libcuda_sha256_add(&sha, data, size);
	libcuda_sha256_end(&sha, digest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Integer code as password crackers have: MD5 and SHA-256, all rounds unrolled, of one candidate a thread. */
#include "check.h"

#define COUNT 4096
#define WANTED 1234u

__host__ __device__ static inline unsigned int left(unsigned int x, int n)
{
	return x << n | x >> (32 - n);
}

__constant__ unsigned int rounds[64];
__constant__ unsigned int sines[64];

/* The first 32 bits of the fractional parts that the two functions take their constants from. */
static unsigned int sine(int i)
{
	double s = fabs(sin(i + 1.0));

	return (unsigned int)(s * 4294967296.0);
}

static unsigned int root(int i)
{
	int prime = 1;

	for (int found = -1; found < i;) {
		bool is_prime = true;

		prime++;
		for (int d = 2; d * d <= prime; d++)
			is_prime &= prime % d != 0;
		found += is_prime;
	}
	return (unsigned int)((cbrt((double)prime) - floor(cbrt((double)prime))) * 4294967296.0);
}

template <typename Table> __host__ __device__ static unsigned int md5(unsigned int word, const Table &k)
{
	const int turns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
	unsigned int w[16] = {word, 0x80}, a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;

	w[14] = 32;
#pragma unroll
	for (int i = 0; i < 64; i++) {
		unsigned int f = i < 16 ? (b & c) | (~b & d) : i < 32 ? (d & b) | (~d & c) : i < 48 ? b ^ c ^ d : c ^ (b | ~d);
		int g = i < 16 ? i : i < 32 ? (5 * i + 1) % 16 : i < 48 ? (3 * i + 5) % 16 : 7 * i % 16;

		f += a + k[i] + w[g];
		a = d;
		d = c;
		c = b;
		b += left(f, turns[i / 16][i % 4]);
	}
	return a + 0x67452301;
}

template <typename Table> __host__ __device__ static unsigned int sha256(unsigned int word, const Table &k)
{
	unsigned int w[64] = {word, 0x80000000};
	unsigned int s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	w[15] = 32;
#pragma unroll
	for (int i = 0; i < 64; i++) {
		unsigned int t1, t2;

		if (i >= 16) {
			unsigned int x = w[i - 15], y = w[i - 2];

			w[i] = w[i - 16] + w[i - 7] + (left(x, 25) ^ left(x, 14) ^ x >> 3) +
			       (left(y, 15) ^ left(y, 13) ^ y >> 10);
		}
		t1 = s[7] + (left(s[4], 26) ^ left(s[4], 21) ^ left(s[4], 7)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
		t2 = (left(s[0], 30) ^ left(s[0], 19) ^ left(s[0], 10)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
#pragma unroll
		for (int n = 7; n; n--)
			s[n] = s[n - 1];
		s[4] += t1;
		s[0] = t1 + t2;
	}
	return s[0] + 0x6a09e667;
}

__global__ void search_md5(unsigned int wanted, unsigned int *found)
{
	unsigned int candidate = blockIdx.x * blockDim.x + threadIdx.x;

	if (md5(candidate, sines) == wanted)
		*found = candidate;
}

__global__ void search_sha256(unsigned int wanted, unsigned int *found)
{
	unsigned int candidate = blockIdx.x * blockDim.x + threadIdx.x;

	if (sha256(candidate, rounds) == wanted)
		*found = candidate;
}

int main(void)
{
	unsigned int *found = managed<unsigned int>(2), k[64], t[64];

	for (int i = 0; i < 64; i++) {
		k[i] = root(i);
		t[i] = sine(i);
	}
	expect(k[0] == 0x428a2f98 && t[0] == 0xd76aa478, "constants");
	CHECK(cudaMemcpyToSymbol(rounds, k, sizeof(k)));
	CHECK(cudaMemcpyToSymbol(sines, t, sizeof(t)));
	search_md5<<<COUNT / 256, 256>>>(md5(WANTED, t), found);
	search_sha256<<<COUNT / 256, 256>>>(sha256(WANTED, k), found + 1);
	CHECK(cudaDeviceSynchronize());
	expect(found[0] == WANTED && found[1] == WANTED, "candidates");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/sha256-x86.h"

#include <cpuid.h>
#include <immintrin.h>

#include "module/sha256.h"

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))
#define CREDITS_A_FENCE __attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline

static bool look_at_processor(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3))
		return false;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_SHA;
}

bool libcuda_sha256_is_fast(void)
{
	enum { UNKNOWN, SLOW, FAST };
	static _Atomic int known; /* several threads may look: they see the same */

	if (known == UNKNOWN)
		known = look_at_processor() ? FAST : SLOW;
	return known == FAST;
}

/* One text's: the eight words as the instructions want them, and the last 16 of the message. */
struct lane {
	__m128i abef, cdgh, words[4];
};

CREDITS_A_FENCE void load_state(struct lane *l, const uint32_t state[8])
{
	__m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	__m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);

	l->abef = _mm_alignr_epi8(cdab, efgh, 8);
	l->cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
}

CREDITS_A_FENCE void store_state(const struct lane *l, uint32_t state[8])
{
	__m128i feba = _mm_shuffle_epi32(l->abef, 0x1b), dchg = _mm_shuffle_epi32(l->cdgh, 0xb1);

	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/* The four words of the message that rounds 4 * i to 4 * i + 3 add. */
CREDITS_A_FENCE __m128i next_words(struct lane *l, const uint8_t *block, int i)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i *w = l->words;

	if (i < 4) {
		w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)block + i), swap);
	} else {
		__m128i seven = _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4);

		w[i & 3] = _mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]), seven);
		w[i & 3] = _mm_sha256msg2_epu32(w[i & 3], w[(i + 3) & 3]);
	}
	return w[i & 3];
}

CREDITS_A_FENCE void four_rounds(struct lane *l, const uint8_t *block, int i)
{
	const __m128i *roots = (const __m128i *)libcuda_sha256_roots;
	__m128i add = _mm_add_epi32(next_words(l, block, i), _mm_loadu_si128(roots + i));

	l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, add);
	l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(add, 0x0e));
}

/* Unrolled, so that all is in registers. */
CREDITS_A_FENCE void mix(struct lane *lanes, const uint8_t *const *blocks, int texts, size_t offset)
{
	struct lane before[2];

#pragma GCC unroll 2
	for (int t = 0; t < texts; t++)
		before[t] = lanes[t];
#pragma GCC unroll 32
	for (int n = 0; n < 16 * texts; n++)
		four_rounds(&lanes[n % texts], blocks[n % texts] + offset, n / texts);
#pragma GCC unroll 2
	for (int t = 0; t < texts; t++) {
		lanes[t].abef = _mm_add_epi32(lanes[t].abef, before[t].abef);
		lanes[t].cdgh = _mm_add_epi32(lanes[t].cdgh, before[t].cdgh);
	}
}

WITH_SHA void libcuda_sha256_x86(uint32_t state[8], const uint8_t *blocks, size_t count)
{
	struct lane l;

	load_state(&l, state);
	for (size_t n = 0; n < count; n++)
		mix(&l, &blocks, 1, n * 64);
	store_state(&l, state);
}

WITH_SHA void libcuda_sha256_x86_two(uint32_t *const states[2], const uint8_t *const blocks[2], size_t count)
{
	struct lane lanes[2];

	for (int t = 0; t < 2; t++)
		load_state(&lanes[t], states[t]);
	for (size_t n = 0; n < count; n++)
		mix(lanes, blocks, 2, n * 64);
	for (int t = 0; t < 2; t++)
		store_state(&lanes[t], states[t]);
}

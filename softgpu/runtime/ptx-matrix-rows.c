/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of eight rows of 16 bytes, of which lane l holds four bytes of row l / 4. */
#include <string.h>

#include "runtime/ptx-matrix.h"

#define LANES 32
#define ROW_BYTES 16

void ptx_rt_rows_load(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t transpose,
		      const uint64_t *addresses, uint32_t *registers, uint32_t thread)
{
	for (unsigned m = 0; m < count; m++) {
		uint16_t cells[8][8], *out = (uint16_t *)(registers + m * LANES);

		for (unsigned r = 0; r < 8; r++)
			memcpy(cells[r],
			       ptx_check_span(ctx, site, addresses[m * 8 + r], ROW_BYTES, ROW_BYTES, thread + m * 8 + r),
			       ROW_BYTES);
		for (unsigned r = 0; r < 8; r++)
			for (unsigned c = 0; c < 8; c++)
				out[r * 8 + c] = transpose ? cells[c][r] : cells[r][c];
	}
}

/* 16 numbers of 6 or 4 bits, one after the other, to the low bits of a byte each. */
static void widen(const uint8_t *from, unsigned bits, uint8_t *to)
{
	uint64_t low, high = 0;

	memcpy(&low, from, 8);
	memcpy(&high, from + 8, 4);
	for (unsigned n = 0; n < 16; n++) {
		to[n] = low & ((1u << bits) - 1);
		low = low >> bits | high << (64 - bits);
		high >>= bits;
	}
}

void ptx_rt_rows_widen(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t bits, const uint64_t *addresses,
		       uint32_t *registers, uint32_t thread)
{
	for (unsigned n = 0; n < count * 8; n++)
		widen(ptx_check_span(ctx, site, addresses[n], ROW_BYTES, ROW_BYTES, thread + n), bits,
		      (uint8_t *)registers + n * ROW_BYTES);
}

void ptx_rt_rows_store(struct ptx_context *ctx, uint32_t site, uint32_t count, uint32_t transpose,
		       const uint64_t *addresses, const uint32_t *registers, uint32_t thread)
{
	for (unsigned m = 0; m < count; m++) {
		const uint16_t *in = (const uint16_t *)(registers + m * LANES);

		for (unsigned r = 0; r < 8; r++) {
			uint16_t *row = (uint16_t *)(void *)ptx_check_span(ctx, site, addresses[m * 8 + r], ROW_BYTES,
									   ROW_BYTES, thread + m * 8 + r);

			for (unsigned c = 0; c < 8; c++)
				row[c] = transpose ? in[c * 8 + r] : in[r * 8 + c];
		}
	}
}

void ptx_rt_rows_transpose(const uint32_t *in, uint32_t *out)
{
	const uint16_t *from = (const uint16_t *)in;
	uint16_t *to = (uint16_t *)out;

	for (unsigned r = 0; r < 8; r++)
		for (unsigned c = 0; c < 8; c++)
			to[r * 8 + c] = from[c * 8 + r];
}

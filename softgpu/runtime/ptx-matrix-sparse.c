/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of a sparse matrix A. Each 4 bits describe one chunk of a row: 2 numbers of tf32, 4 of 16 or 8 bits, or
 * 8 of 4 bits, of which A has half. They are two indices of 2 bits each, the lower bits first: of numbers; of pairs of
 * numbers of 4 bits; of the 16-bit halves of a tf32 number, which are 0 and 1 or 2 and 3.
 */
#include "runtime/ptx-matrix.h"

#define LANES 32

/* How many numbers of a row, before half of them are left out, a chunk has. */
static unsigned chunk_size(unsigned bits)
{
	return bits == 32 ? 2 : bits == 4 ? 8 : 4;
}

unsigned ptx_sparse_lanes(unsigned k, unsigned element)
{
	return k / chunk_size(ptx_element_bits[element]) / 4;
}

/*
 * Four lanes have rows g and g + 8. With numbers of 16 bits or more a lane has four chunks of both rows, else it has
 * eight chunks of one row.
 */
static unsigned chunk_metadata(unsigned bits, const uint32_t *quad, unsigned upper, unsigned chunk)
{
	if (bits >= 16)
		return quad[chunk / 4] >> (16 * upper + 4 * (chunk % 4)) & 15;
	return quad[chunk / 8 * 2 + upper] >> 4 * (chunk % 8) & 15;
}

struct ptx_mma ptx_sparse_held(const struct ptx_mma *o, uint32_t flags, const uint32_t *registers, uint8_t *rows)
{
	unsigned bits = ptx_element_bits[o->a], size = chunk_size(bits);
	unsigned first = (flags >> PTX_MMA_SELECTOR & 3) * ptx_sparse_lanes(o->k, o->a);
	struct ptx_mma held = *o;

	held.k /= 2;
	registers += ptx_fragment_registers(held.m, held.k, held.a) * LANES + first;
	for (unsigned i = 0; i < o->m; i++)
		for (unsigned chunk = 0; chunk < o->k / size; chunk++) {
			unsigned code = chunk_metadata(bits, registers + i % 8 * 4, i / 8, chunk);

			for (unsigned s = 0; s < size / 2; s++) {
				unsigned at = size == 8   ? (code >> s / 2 * 2 & 3) * 2 + s % 2
					      : size == 4 ? code >> 2 * s & 3
							  : code >> 1 & 1;

				*rows++ = (uint8_t)(chunk * size + at);
			}
		}
	return held;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "private/md2.h"

#include <string.h>

#define BLOCK 16
#define ROUNDS 18
#define HMAC_MAX 4096

/* The permutation that RFC 1319 builds from the digits of pi. */
static const uint8_t pi_table[256] = {
	41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,   243, 192, 199,
	115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212, 224, 22,  103, 66,  111, 24,
	138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160, 251, 245, 142, 187, 47,  238, 122, 169, 104,
	121, 145, 21,  178, 7,   63,  148, 194, 16,  137, 11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,
	53,  62,  204, 231, 191, 247, 151, 3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,
	170, 198, 79,  184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,
	100, 113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246, 28,  70,
	97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249, 206, 186, 197, 234, 38,
	44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193,
	171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254,
	59,  0,   29,  57,  242, 239, 183, 14,  102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,
	80,  180, 143, 237, 31,  26,  219, 153, 141, 51,  159, 17,  131, 20,
};

struct md2 {
	uint8_t state[BLOCK], checksum[BLOCK];
};

static void compress(uint8_t state[BLOCK], const uint8_t block[BLOCK])
{
	uint8_t x[3 * BLOCK], t = 0;

	memcpy(x, state, BLOCK);
	memcpy(x + BLOCK, block, BLOCK);
	for (int i = 0; i < BLOCK; i++)
		x[2 * BLOCK + i] = state[i] ^ block[i];
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(x); i++)
			t = x[i] ^= pi_table[t];
		t = (uint8_t)(t + round);
	}
	memcpy(state, x, BLOCK);
}

static void take_block(struct md2 *m, const uint8_t block[BLOCK])
{
	uint8_t last = m->checksum[BLOCK - 1];

	for (int i = 0; i < BLOCK; i++)
		last = m->checksum[i] ^= pi_table[block[i] ^ last];
	compress(m->state, block);
}

void libcuda_md2(const void *data, size_t bytes, uint8_t digest[LIBCUDA_MD2_BYTES])
{
	const uint8_t *p = data;
	struct md2 m = {0};
	uint8_t last[BLOCK];
	size_t rest = bytes % BLOCK;

	for (size_t i = 0; i + BLOCK <= bytes; i += BLOCK)
		take_block(&m, p + i);
	/* padding: n bytes of value n, 1 to 16 of them */
	memset(last, (int)(BLOCK - rest), BLOCK);
	if (rest)
		memcpy(last, p + bytes - rest, rest);
	take_block(&m, last);
	memcpy(last, m.checksum, BLOCK);
	compress(m.state, last);
	memcpy(digest, m.state, LIBCUDA_MD2_BYTES);
}

void libcuda_hmac_md2(const uint8_t key[LIBCUDA_MD2_BYTES], const void *data, size_t bytes,
		      uint8_t digest[LIBCUDA_MD2_BYTES])
{
	uint8_t buffer[BLOCK + HMAC_MAX];

	if (bytes > HMAC_MAX)
		bytes = HMAC_MAX;
	for (int i = 0; i < BLOCK; i++)
		buffer[i] = key[i] ^ 0x36;
	memcpy(buffer + BLOCK, data, bytes);
	libcuda_md2(buffer, BLOCK + bytes, digest);
	for (int i = 0; i < BLOCK; i++)
		buffer[i] = key[i] ^ 0x5c;
	memcpy(buffer + BLOCK, digest, LIBCUDA_MD2_BYTES);
	libcuda_md2(buffer, 2 * BLOCK, digest);
}

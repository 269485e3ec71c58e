/* SPDX-License-Identifier: Apache-2.0 */
/* A processor without instructions for it, in place of sha256-x86.c. */
#include <stdlib.h>

#include "guest/libcuda/module/sha256-x86.h"
#include "guest/libcuda/module/sha256.h"

bool libcuda_sha256_is_fast(void)
{
	return false;
}

void libcuda_sha256_x86(uint32_t state[8], const uint8_t *blocks, size_t count)
{
	abort();
}

void libcuda_sha256_x86_two(uint32_t *const states[2], const uint8_t *const blocks[2], size_t count)
{
	abort();
}

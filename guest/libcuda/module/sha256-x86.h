/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of whole blocks of 64 bytes with the processor's own instructions, if libcuda_sha256_is_fast(). */
#ifndef VCUDA_SHA256_X86_H
#define VCUDA_SHA256_X86_H

#include <stddef.h>
#include <stdint.h>

void libcuda_sha256_x86(uint32_t state[8], const uint8_t *blocks, size_t count);

/* Of two texts side by side: each instruction of one has to wait for the one before it, and the other's go on then. */
void libcuda_sha256_x86_two(uint32_t *const states[2], const uint8_t *const blocks[2], size_t count);

extern const uint32_t libcuda_sha256_roots[64];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4). The library links nothing that has it. */
#ifndef VCUDA_SHA256_H
#define VCUDA_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define LIBCUDA_SHA256_BYTES 32

struct libcuda_sha256 {
	uint32_t state[8];
	uint64_t length; /* so far, in bytes */
	uint8_t block[64];
};

void libcuda_sha256_start(struct libcuda_sha256 *sha);
void libcuda_sha256_add(struct libcuda_sha256 *sha, const void *data, size_t size);
void libcuda_sha256_end(struct libcuda_sha256 *sha, uint8_t digest[LIBCUDA_SHA256_BYTES]);

/* All at once. */
void libcuda_sha256(const void *data, size_t size, uint8_t digest[LIBCUDA_SHA256_BYTES]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* MD2 (RFC 1319) and HMAC over it, with MD2's block of 16 bytes: NVIDIA's runtime checks a driver's answer with it. */
#ifndef VCUDA_MD2_H
#define VCUDA_MD2_H

#include <stddef.h>
#include <stdint.h>

#define LIBCUDA_MD2_BYTES 16

void libcuda_md2(const void *data, size_t bytes, uint8_t digest[LIBCUDA_MD2_BYTES]);

/* `bytes` at most 4096. */
void libcuda_hmac_md2(const uint8_t key[LIBCUDA_MD2_BYTES], const void *data, size_t bytes,
		      uint8_t digest[LIBCUDA_MD2_BYTES]);

#endif

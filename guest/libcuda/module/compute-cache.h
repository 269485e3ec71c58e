/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache that NVRTC and nvJitLink use through one of the driver's private tables: PTX and machine code that they
 * compiled, found by a key. The entries are files of the guest. After a miss the code is compiled again.
 *
 * CUDA_CACHE_DISABLE, CUDA_CACHE_MAXSIZE and CUDA_CACHE_PATH are obeyed as CUDA documents them. The files of NVIDIA's
 * driver have another format, so the entries are in a folder of their own.
 */
#ifndef VCUDA_COMPUTE_CACHE_H
#define VCUDA_COMPUTE_CACHE_H

#include <stdint.h>

#include "protocol/cuda-abi.h"

struct libcuda_compute_key;

enum {
	LIBCUDA_COMPUTE_ASSEMBLE = 1,  /* to machine code */
	LIBCUDA_COMPUTE_TRANSLATE = 2, /* intermediate code to what the compiler wants next: PTX with NVRTC */
};

/*
 * The key is made of all that a compiler gives: which stage it is about to do, what goes into it, its options,
 * "HOST64", when the compiler was built, the architecture's number, and 1 if that ends with an "a".
 * CUDA_ERROR_NOT_SUPPORTED: there is no cache, or not for this; the compiler does without it then.
 */
CUresult libcuda_compute_key(struct libcuda_compute_key **key, uint32_t stage, const void *input, uint32_t size,
			     const char *options, const char *host, const char *build, uint32_t architecture,
			     uint32_t flag);
CUresult libcuda_compute_key_free(struct libcuda_compute_key *key);

/* *data is for libcuda_compute_free(). `zero` was 0 in every observed call; anything else is refused. */
CUresult libcuda_compute_load(const struct libcuda_compute_key *key, uintptr_t zero, void **data, uint32_t *size);
CUresult libcuda_compute_store(const struct libcuda_compute_key *key, uintptr_t zero, const void *data, uint32_t size);
CUresult libcuda_compute_free(void *data);

#endif

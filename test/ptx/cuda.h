/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver that is found at run time: NVIDIA's on a machine with a GPU, ours under `vcuda run`. */
#ifndef TEST_PTX_CUDA_H
#define TEST_PTX_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/cuda-abi.h"

/* Opens libcuda.so.1, or the file $PTX_LIBCUDA, and makes a context on device 0. Ends the process if it cannot. */
void cuda_open(void);

/* After an error that ends a context: a new one. Everything of the old one is gone. */
void cuda_reopen(void);

/* Device memory; ends the process if there is none left. */
CUdeviceptr cuda_allocate(size_t bytes);
void cuda_free(CUdeviceptr memory);
void cuda_write(CUdeviceptr to, const void *from, size_t bytes);

struct cuda_shape {
	unsigned blocks[3], threads[3];
};

/*
 * Loads `text`, launches its function `test` with the pointers as parameters and waits. *step says which of the three
 * failed.
 */
CUresult cuda_run(const char *text, const struct cuda_shape *shape, const CUdeviceptr *pointers, unsigned count,
		  const char **step);
CUresult cuda_read(void *to, CUdeviceptr from, size_t bytes);

/* After cuda_run() failed to load: what the compiler said. May be empty. */
const char *cuda_log(void);

#endif

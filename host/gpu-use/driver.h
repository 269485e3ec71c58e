/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of this host by the numbers of the CUDA driver, with NVIDIA's management library. Not thread-safe. */
#ifndef VCUDA_GPU_USE_DRIVER_H
#define VCUDA_GPU_USE_DRIVER_H

#include <stdbool.h>

#include "protocol/ipc/gpu-use.h"

/* Returns the number of GPUs; 0: there is nothing to read, and `*why` says why, NULL where there is no GPU. */
unsigned int gpus_open(const char **why);

/* Whether the library says whose kernels run, on any GPU. */
bool gpus_know_samples(void);

/* Both fill in a message. False: the library does not say now, or there is no new sample. */
bool gpus_read_memory(unsigned int gpu, struct vcuda_gpu_use *to);
bool gpus_read_samples(unsigned int gpu, struct vcuda_gpu_use *to);

#endif

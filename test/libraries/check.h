/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that call NVIDIA's libraries and compare what comes back with plain C. */
#ifndef LIBRARIES_CHECK_H
#define LIBRARIES_CHECK_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"

static inline void *device_memory(size_t bytes)
{
	void *p;

	OK(cudaMalloc(&p, bytes));
	return p;
}

static inline void *to_device(const void *from, size_t bytes)
{
	void *p = device_memory(bytes);

	OK(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
	return p;
}

static inline void from_device(void *to, const void *from, size_t bytes)
{
	OK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

/* The same small numbers in every run, between -2 and 2, with few digits: sums of products are exact in float. */
static inline double number(size_t i)
{
	return (double)((int)((i * 2654435761u >> 7) % 17) - 8) / 4;
}

#endif

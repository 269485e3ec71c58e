/* SPDX-License-Identifier: Apache-2.0 */
/* The code that all examples share: check each CUDA call, name the device, print the result in the last line. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>

static int finish(bool passed)
{
	printf("Test %s\n", passed ? "PASSED" : "FAILED");
	return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void check(cudaError_t error, const char *what, int line)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "line %d: %s: %s (%s, %d)\n", line, what, cudaGetErrorString(error), cudaGetErrorName(error),
		(int)error);
	exit(finish(false));
}

#define CHECK(call) check((call), #call, __LINE__)

static void print_device(void)
{
	struct cudaDeviceProp prop;
	int device;

	CHECK(cudaGetDevice(&device));
	CHECK(cudaGetDeviceProperties(&prop, device));
	printf("Device: %s\n", prop.name);
}

#endif

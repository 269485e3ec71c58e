/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of two devices in place of libcuda.so.1: it counts what the runtime asks of it and remembers the last launch
 * and copy. */
#ifndef TEST_CUDART_FAKE_H
#define TEST_CUDART_FAKE_H

#include "protocol/cuda-runtime-abi.h"

struct fake_launch {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	void **params;
	unsigned char buffer[64]; /* of `extra` */
	size_t buffer_size;
	unsigned int attributes;
};

extern struct fake {
	unsigned int calls; /* of any kind */
	unsigned int inits, retains, resets, loads, unloads, kernels, launches, stream_syncs;
	CUresult load_result, sync_result;
	const void *image; /* of the last load */
	struct fake_launch launch;
	CUstream stream; /* of the last asynchronous copy or fill */
} fake;

/* The primary context of a device, and one that only the driver API knows. */
CUcontext fake_primary(int device);
CUcontext fake_context(void);

/* Every library has these. */
#define FAKE_KERNEL "kernel"
#define FAKE_OTHER_KERNEL "other"
#define FAKE_VARIABLE "variable"
#define FAKE_VARIABLE_BYTES 16
#define FAKE_MANAGED "managed"

extern unsigned char fake_variable[FAKE_VARIABLE_BYTES];
CUfunction fake_function(const char *name);

#endif

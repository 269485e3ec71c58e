/* SPDX-License-Identifier: Apache-2.0 */
/* Launches in two steps, for graphs: checked and packed now, issued later and more than once. */
#ifndef VCUDA_LAUNCH_H
#define VCUDA_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

struct libcuda_context;
struct libcuda_function_entry;

struct libcuda_launch {
	CUfunction function;
	unsigned int grid[3], block[3], shared;
	bool cooperative;
	uint8_t cluster[3]; /* blocks, 0: none was asked for */
};

/*
 * Checks a launch in a context and packs its parameters, which the caller frees. `pointers`, if not NULL, is
 * set to an array of the parameters' addresses in there, in the same allocation.
 */
CUresult libcuda_launch_pack(struct libcuda_context *context, const struct libcuda_launch *launch, void **params,
			     void **extra, uint8_t **packed, void ***pointers);

/*
 * Takes the dimensions of a cluster. CUDA_ERROR_NOT_SUPPORTED: of more than one block, which the device does not have.
 */
CUresult libcuda_launch_set_cluster(struct libcuda_launch *launch, CUdevice dev, unsigned int x, unsigned int y,
				    unsigned int z);

/* Whether the function is there in the context, and how many bytes of parameters it has. */
bool libcuda_launch_is_there(struct libcuda_context *context, const struct libcuda_launch *launch,
			     uint32_t *param_bytes);

/* Whether the function was launched before in the context, and launches need not be waited for. */
bool libcuda_launch_is_known(struct libcuda_context *context, const struct libcuda_launch *launch,
			     uint32_t *param_bytes);

/* The dimensions of a cluster, 8 bits each. */
static inline uint32_t libcuda_launch_cluster(const struct libcuda_launch *launch)
{
	return launch->cluster[0] | (uint32_t)launch->cluster[1] << 8 | (uint32_t)launch->cluster[2] << 16;
}

/* Finds the function in the context, and checks the launch. */
CUresult libcuda_launch_check(struct libcuda_context *context, const struct libcuda_launch *launch,
			      struct libcuda_function_entry **entry);

/* Packs the parameters of a launch that was checked, and issues it on a resolved stream. `params` or `extra` is as for
 * cuLaunchKernel(). */
CUresult libcuda_launch_params(const struct call_options *how, const struct libcuda_launch *launch,
			       struct libcuda_function_entry *entry, CUstream resolved, void **params, void **extra);

/* Issues it on a resolved stream. */
CUresult libcuda_launch_issue(const struct call_options *how, const struct libcuda_launch *launch, CUstream resolved,
			      const uint8_t *packed);

#endif

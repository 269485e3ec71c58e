/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cooperative launch on each of several devices. The driver's groups of all these grids (multi_grid of CUDA 12 and
 * earlier) are not made: the kernels meet by memory that all of them reach.
 */
#include <stdlib.h>

#include "core/capture.h"
#include "core/context.h"
#include "core/device.h"
#include "core/request.h"
#include "graph/cross-context.h"
#include "launch/launch.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

#define FLAGS                                                                                                          \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |                                                     \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

struct part {
	struct libcuda_launch launch;
	struct libcuda_function_entry *entry;
	struct call_options how;
	CUstream stream; /* resolved */
};

static bool is_alike(const CUDA_LAUNCH_PARAMS *a, const CUDA_LAUNCH_PARAMS *b)
{
	return a->gridDimX == b->gridDimX && a->gridDimY == b->gridDimY && a->gridDimZ == b->gridDimZ &&
	       a->blockDimX == b->blockDimX && a->blockDimY == b->blockDimY && a->blockDimZ == b->blockDimZ &&
	       a->sharedMemBytes == b->sharedMemBytes;
}

static CUdevice device_of(const struct part *p)
{
	return libcuda_request_context(&p->how)->device;
}

static CUresult prepare(struct part *p, const CUDA_LAUNCH_PARAMS *l)
{
	CUresult result;

	if (!l->hStream || l->hStream == CU_STREAM_LEGACY || l->hStream == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	p->launch = (struct libcuda_launch){
		.function = l->function,
		.grid = {l->gridDimX, l->gridDimY, l->gridDimZ},
		.block = {l->blockDimX, l->blockDimY, l->blockDimZ},
		.shared = l->sharedMemBytes,
		.cooperative = true,
	};
	p->stream = l->hStream;
	result = libcuda_stream_visit(&p->stream, &p->how);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_refuses(libcuda_request_context(&p->how), p->stream);
	if (result == CUDA_SUCCESS)
		result = libcuda_launch_check(libcuda_request_context(&p->how), &p->launch, &p->entry);
	return result;
}

/* Work that any of the streams gets later runs after all work that the streams have now. */
static CUresult meet(const struct part *parts, unsigned int count)
{
	struct libcuda_context *first = libcuda_request_context(&parts[0].how);
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 1; i < count && result == CUDA_SUCCESS; i++)
		result = libcuda_streams_order(parts[i].stream, libcuda_request_context(&parts[i].how), parts[0].stream,
					       first);
	for (unsigned int i = 1; i < count && result == CUDA_SUCCESS; i++)
		result = libcuda_streams_order(parts[0].stream, first, parts[i].stream,
					       libcuda_request_context(&parts[i].how));
	return result;
}

/* `parts` has room for `count`. Nothing is launched unless all of it can be. */
static CUresult launch(struct part *parts, const CUDA_LAUNCH_PARAMS *launches, unsigned int count, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = is_alike(&launches[i], &launches[0]) ? prepare(&parts[i], &launches[i])
							      : CUDA_ERROR_INVALID_VALUE;
		for (unsigned int j = 0; j < i && result == CUDA_SUCCESS; j++)
			if (device_of(&parts[i]) == device_of(&parts[j]))
				result = CUDA_ERROR_INVALID_DEVICE;
	}
	if (result == CUDA_SUCCESS && !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC))
		result = meet(parts, count);
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = libcuda_launch_params(&parts[i].how, &parts[i].launch, parts[i].entry, parts[i].stream,
					       launches[i].kernelParams, NULL);
	if (result == CUDA_SUCCESS && !(flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC))
		result = meet(parts, count);
	return result;
}

VCUDA_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count,
							   unsigned int flags)
{
	CUresult result = libcuda_require_context();
	struct part *parts;

	if (result != CUDA_SUCCESS)
		return result;
	if (!launches || !count || count > (unsigned int)libcuda_device_count() || (flags & ~FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	parts = calloc(count, sizeof(*parts));
	if (!parts)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = launch(parts, launches, count, flags);
	free(parts);
	return result;
}

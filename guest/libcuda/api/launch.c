/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: commands of a stream, or nodes of the graph that the stream captures. */
#include "launch/launch.h"

#include "core/capture.h"
#include "core/context.h"
#include "common/log.h"
#include "core/init.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static bool captured(const struct call_options *how, const struct libcuda_launch *l, CUstream resolved, void **params,
		     void **extra, CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
			       .reserved0 = {l->cooperative, (int)libcuda_launch_cluster(l)}};

	p.kernel = (CUDA_KERNEL_NODE_PARAMS){
		.func = l->function,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared,
		.kernelParams = params,
		.extra = extra,
	};
	return libcuda_capture_takes(how, resolved, &p, result);
}

static CUresult launch_resolved(const struct call_options *how, const struct libcuda_launch *l, CUstream stream,
				void **params, void **extra)
{
	struct libcuda_function_entry *e;
	CUresult result = libcuda_launch_check(libcuda_request_context(how), l, &e);

	if (result != CUDA_SUCCESS || (libcuda_capture_any() && captured(how, l, stream, params, extra, &result)))
		return result;
	return libcuda_launch_params(how, l, e, stream, params, extra);
}

static CUresult launch(const struct libcuda_launch *l, CUstream stream, void **params, void **extra)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	return launch_resolved(&how, l, stream, params, extra);
}

VCUDA_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
				     unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
				     void **params, void **extra)
{
	struct libcuda_launch l = {.function = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};

	return launch(&l, stream, params, extra);
}

VCUDA_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
						unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
						CUstream stream, void **params)
{
	struct libcuda_launch l = {
		.function = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared, .cooperative = true};

	return launch(&l, stream, params, NULL);
}

/* Attributes that are hints, or that this system obeys by doing more than they ask, are taken; others refuse the
 * launch. */
static CUresult take_attribute(struct libcuda_launch *l, CUdevice dev, const CUlaunchAttribute *a)
{
	switch (a->id) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		l->cooperative = a->value.cooperative;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return libcuda_launch_set_cluster(l, dev, a->value.clusterDim.x, a->value.clusterDim.y,
						  a->value.clusterDim.z);
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
		return CUDA_SUCCESS;
	default:
		vcuda_log_once("launch attribute %d is not supported yet", (int)a->id);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult launch_ex(const CUlaunchConfig *c, CUstream stream, CUfunction f, void **params, void **extra)
{
	struct libcuda_launch l = {
		.function = f,
		.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
		.block = {c->blockDimX, c->blockDimY, c->blockDimZ},
		.shared = c->sharedMemBytes,
	};
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	if (c->numAttrs && !c->attrs)
		result = CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < c->numAttrs && result == CUDA_SUCCESS; i++)
		result = take_attribute(&l, libcuda_request_context(&how)->device, &c->attrs[i]);
	if (result == CUDA_SUCCESS)
		result = launch_resolved(&how, &l, stream, params, extra);
	return result;
}

VCUDA_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	return config ? launch_ex(config, config->hStream, f, params, extra) : libcuda_invalid_value();
}

/* ---- the same with per-thread default streams ---- */

VCUDA_EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	return config ? launch_ex(config, LIBCUDA_PER_THREAD(config->hStream), f, params, extra)
		      : libcuda_invalid_value();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: what a guest must know of a function, and launches. */
#include <stddef.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/activity.h"
#include "session/session.h"
#include "queue/stage-queue.h"

CUresult vcuda_handle_vcudaFunctionInfo(struct worker_session *s, struct vcuda_args_vcudaFunctionInfo *a)
{
	vcuda_function_info *info = &a->info;

	if (!s->ops->cuFuncGetAttribute || !s->ops->cuFuncGetParamInfo)
		return worker_unsupported(s, VCUDA_OP_vcudaFunctionInfo);
	for (int i = 0; i < VCUDA_FUNCTION_ATTRIBUTES; i++)
		info->attribute_results[i] =
			s->ops->cuFuncGetAttribute(&info->attributes[i], (CUfunction_attribute)i, a->func);
	/* The driver answers CUDA_ERROR_INVALID_VALUE past the last parameter: that is how their number is found. */
	for (size_t i = 0; i <= VCUDA_FUNCTION_PARAMS; i++) {
		size_t offset, size;

		if (s->ops->cuFuncGetParamInfo(a->func, i, &offset, &size) != CUDA_SUCCESS)
			return CUDA_SUCCESS;
		if (i == VCUDA_FUNCTION_PARAMS)
			break;
		info->params[i].offset = (uint32_t)offset;
		info->params[i].size = (uint32_t)size;
		info->param_count++;
		if (offset + size > info->param_bytes)
			info->param_bytes = (uint32_t)(offset + size);
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The driver takes a cooperative launch's parameters one by one only. */
static CUresult launch_cooperative(struct worker_session *s, const struct vcuda_args_vcudaLaunchKernel *a)
{
	void *params[VCUDA_FUNCTION_PARAMS];
	size_t offset, size, count = 0;

	if (!s->ops->cuLaunchCooperativeKernel || !s->ops->cuFuncGetParamInfo)
		return CUDA_ERROR_NOT_SUPPORTED;
	while (count < VCUDA_FUNCTION_PARAMS &&
	       s->ops->cuFuncGetParamInfo(a->f, count, &offset, &size) == CUDA_SUCCESS) {
		if (offset > a->paramBytes || size > a->paramBytes - offset)
			return CUDA_ERROR_INVALID_VALUE;
		params[count++] = a->params + offset;
	}
	return s->ops->cuLaunchCooperativeKernel(a->f, a->gridDimX, a->gridDimY, a->gridDimZ, a->blockDimX,
						 a->blockDimY, a->blockDimZ, a->sharedMemBytes, a->hStream, params);
}

static CUresult launch(struct worker_session *s, struct vcuda_args_vcudaLaunchKernel *a)
{
	size_t bytes = a->paramBytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};

	if (a->cooperative)
		return launch_cooperative(s, a);
	if (!s->ops->cuLaunchKernel)
		return worker_unsupported(s, VCUDA_OP_vcudaLaunchKernel);
	return s->ops->cuLaunchKernel(a->f, a->gridDimX, a->gridDimY, a->gridDimZ, a->blockDimX, a->blockDimY,
				      a->blockDimZ, a->sharedMemBytes, a->hStream, NULL, bytes ? extra : NULL);
}

/* The kernel's time does not count what the stream waits for. */
CUresult vcuda_handle_vcudaLaunchKernel(struct worker_session *s, struct vcuda_args_vcudaLaunchKernel *a)
{
	CUresult result;

	worker_stage_queue_precede(s, a->hStream);
	worker_activity_begin(s, a->hStream);
	result = launch(s, a);
	worker_activity_end(s, a->hStream);
	return result;
}

/* ---- clusters ---- */

/* The first members of a CUlaunchConfig, for launches and for occupancy queries. */
#define SHAPE_OF(a)                                                                                                    \
	.gridDimX = (a)->gridDimX, .gridDimY = (a)->gridDimY, .gridDimZ = (a)->gridDimZ, .blockDimX = (a)->blockDimX,  \
	.blockDimY = (a)->blockDimY, .blockDimZ = (a)->blockDimZ, .sharedMemBytes = (a)->sharedMemBytes

static CUlaunchAttribute cluster_attribute(unsigned int x, unsigned int y, unsigned int z)
{
	CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};

	a.value.clusterDim.x = x;
	a.value.clusterDim.y = y;
	a.value.clusterDim.z = z;
	return a;
}

CUresult vcuda_handle_vcudaLaunchClusters(struct worker_session *s, struct vcuda_args_vcudaLaunchClusters *a)
{
	size_t bytes = a->paramBytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUlaunchAttribute attributes[2] = {cluster_attribute(a->clusterDimX, a->clusterDimY, a->clusterDimZ),
					   {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
	CUlaunchConfig config = {SHAPE_OF(a),
				 .hStream = a->hStream,
				 .attrs = attributes,
				 .numAttrs = a->cooperative ? 2 : 1};

	attributes[1].value.cooperative = 1;
	if (!s->ops->cuLaunchKernelEx)
		return worker_unsupported(s, VCUDA_OP_vcudaLaunchClusters);
	return s->ops->cuLaunchKernelEx(&config, a->f, NULL, bytes ? extra : NULL);
}

CUresult vcuda_handle_vcudaOccupancyMaxActiveClusters(struct worker_session *s,
						      struct vcuda_args_vcudaOccupancyMaxActiveClusters *a)
{
	CUlaunchAttribute attribute = cluster_attribute(a->clusterDimX, a->clusterDimY, a->clusterDimZ);
	const CUlaunchConfig config = {SHAPE_OF(a),
				       .attrs = &attribute,
				       .numAttrs = a->clusterDimX ? 1 : 0};

	if (!s->ops->cuOccupancyMaxActiveClusters)
		return worker_unsupported(s, VCUDA_OP_vcudaOccupancyMaxActiveClusters);
	return s->ops->cuOccupancyMaxActiveClusters(&a->numClusters, a->func, (void *)&config);
}

CUresult vcuda_handle_vcudaOccupancyMaxPotentialClusterSize(struct worker_session *s,
							    struct vcuda_args_vcudaOccupancyMaxPotentialClusterSize *a)
{
	const CUlaunchConfig config = {SHAPE_OF(a)};

	if (!s->ops->cuOccupancyMaxPotentialClusterSize)
		return worker_unsupported(s, VCUDA_OP_vcudaOccupancyMaxPotentialClusterSize);
	return s->ops->cuOccupancyMaxPotentialClusterSize(&a->clusterSize, a->func, (void *)&config);
}

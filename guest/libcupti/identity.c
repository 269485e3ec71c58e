/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of contexts, streams and devices, as records have them. */
#include "cupti.h"

#include <sys/types.h>

CUPTI_EXPORT cupti_result cuptiGetDeviceId(CUcontext context, uint32_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();
	CUdevice device;

	if (!number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	if (recorder->context_device(context, &device) != CUDA_SUCCESS)
		return cupti_done(CUPTI_ERROR_INVALID_CONTEXT);
	*number = (uint32_t)device;
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiGetContextId(CUcontext context, uint32_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	return cupti_done(recorder->context_number(context, number) == CUDA_SUCCESS ? CUPTI_SUCCESS
										    : CUPTI_ERROR_INVALID_CONTEXT);
}

static cupti_result stream_number(CUcontext context, CUstream stream, uint32_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	return cupti_done(recorder->stream_number(context, stream, number) == CUDA_SUCCESS
				  ? CUPTI_SUCCESS
				  : CUPTI_ERROR_INVALID_STREAM);
}

CUPTI_EXPORT cupti_result cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *number)
{
	return stream_number(context, stream, number);
}

CUPTI_EXPORT cupti_result cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *number)
{
	return stream_number(context, per_thread && !stream ? CU_STREAM_PER_THREAD : stream, number);
}

/* ---- graphs ---- */

CUPTI_EXPORT cupti_result cuptiGetGraphId(CUgraph graph, uint32_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!graph || !number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	*number = recorder->graph_number(graph);
	return cupti_done(*number ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CUPTI_EXPORT cupti_result cuptiGetGraphExecId(CUgraphExec exec, uint32_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!exec || !number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	*number = recorder->exec_number(exec);
	return cupti_done(*number ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CUPTI_EXPORT cupti_result cuptiGetGraphNodeId(CUgraphNode node, uint64_t *number)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!node || !number)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	*number = recorder->node_number(node);
	return cupti_done(*number ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

/* ---- devices and threads ---- */

/* Every device that libcuda.so.1 has can be recorded. */
CUPTI_EXPORT cupti_result cuptiDeviceSupported(CUdevice device, int *supported)
{
	const struct vcuda_profile_table *recorder = cupti_recorder();

	if (!supported)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!recorder)
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	if (!recorder->device_info(device))
		return cupti_done(CUPTI_ERROR_INVALID_DEVICE);
	*supported = 1;
	return CUPTI_SUCCESS;
}

/* Records have the system's numbers of threads. */
CUPTI_EXPORT cupti_result cuptiGetThreadIdType(uint32_t *type)
{
	if (!type)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*type = 1;
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiSetThreadIdType(uint32_t type)
{
	return cupti_done(type == 1 ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_SUPPORTED);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, host functions in them, and their capture. */
#include <stdlib.h>

#include "old/old.h"

CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	CUDART_CALL(cuStreamCreate(stream, flags));
}

CUDART_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	CUDART_CALL(cuStreamCreateWithPriority(stream, flags, priority));
}

CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	CUDART_CALL(cuStreamDestroy_v2(stream));
}

CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	CUDART_CALL(cuStreamSynchronize(stream));
}

CUDART_API cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	return cudaStreamSynchronize(cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	CUDART_CALL(cuStreamQuery(stream));
}

CUDART_API cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return cudaStreamQuery(cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	CUDART_CALL(cuStreamWaitEvent(stream, event, flags));
}

CUDART_API cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	return cudaStreamWaitEvent(cudart_per_thread(stream), event, flags);
}

CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	CUDART_CALL(cuStreamGetPriority(stream, priority));
}

CUDART_API cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int *priority)
{
	return cudaStreamGetPriority(cudart_per_thread(stream), priority);
}

CUDART_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
	CUDART_CALL(cuStreamGetFlags(stream, flags));
}

CUDART_API cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int *flags)
{
	return cudaStreamGetFlags(cudart_per_thread(stream), flags);
}

CUDART_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	CUDART_CALL(cuStreamGetId(stream, id));
}

CUDART_API cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long *id)
{
	return cudaStreamGetId(cudart_per_thread(stream), id);
}

CUDART_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	CUDART_CALL(cuStreamGetDevice(stream, device));
}

CUDART_API cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int *device)
{
	return cudaStreamGetDevice(cudart_per_thread(stream), device);
}

CUDART_API cudaError_t cudaStreamCopyAttributes(cudaStream_t destination, cudaStream_t source)
{
	CUDART_CALL(cuStreamCopyAttributes(destination, source));
}

CUDART_API cudaError_t cudaStreamCopyAttributes_ptsz(cudaStream_t destination, cudaStream_t source)
{
	return cudaStreamCopyAttributes(cudart_per_thread(destination), cudart_per_thread(source));
}

CUDART_API cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
					      cudaLaunchAttributeValue *value)
{
	CUDART_CALL(cuStreamGetAttribute(stream, (CUstreamAttrID)attribute, (CUstreamAttrValue *)value));
}

CUDART_API cudaError_t cudaStreamGetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID attribute,
						   cudaLaunchAttributeValue *value)
{
	return cudaStreamGetAttribute(cudart_per_thread(stream), attribute, value);
}

CUDART_API cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
					      const cudaLaunchAttributeValue *value)
{
	CUDART_CALL(cuStreamSetAttribute(stream, (CUstreamAttrID)attribute, (const CUstreamAttrValue *)value));
}

CUDART_API cudaError_t cudaStreamSetAttribute_ptsz(cudaStream_t stream, cudaLaunchAttributeID attribute,
						   const cudaLaunchAttributeValue *value)
{
	return cudaStreamSetAttribute(cudart_per_thread(stream), attribute, value);
}

CUDART_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *address, size_t bytes, unsigned int flags)
{
	CUDART_CALL(cuStreamAttachMemAsync(stream, cudart_address(address), bytes, flags));
}

CUDART_API cudaError_t cudaStreamAttachMemAsync_ptsz(cudaStream_t stream, void *address, size_t bytes,
						     unsigned int flags)
{
	return cudaStreamAttachMemAsync(cudart_per_thread(stream), address, bytes, flags);
}

/* A callback of a program that knows other numbers for errors. */
struct old_callback {
	cudaStreamCallback_t callback;
	void *user;
};

static void translate_callback(CUstream stream, CUresult status, void *user)
{
	struct old_callback old = *(struct old_callback *)user;

	free(user);
	old.callback(stream, cudart_number((cudaError_t)status), old.user);
}

static cudaError_t add_old_callback(cudaStream_t stream, cudaStreamCallback_t callback, void *user, unsigned int flags)
{
	struct old_callback *old = malloc(sizeof(*old));
	CUresult result;

	if (!old)
		return cudaErrorMemoryAllocation;
	*old = (struct old_callback){callback, user};
	result = cuStreamAddCallback(stream, translate_callback, old, flags);
	if (result)
		free(old);
	return (cudaError_t)result;
}

/* The two callback types differ in the name of the status only: it is an int with the same numbers in both. */
CUDART_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *user,
					     unsigned int flags)
{
	CUDART_TRY(cudart_enter());
	if (cudart_version < VERSION_ERRORS && callback)
		return cudart_record(add_old_callback(stream, callback, user, flags));
	return cudart_result(cuStreamAddCallback(stream, (CUstreamCallback)(void *)callback, user, flags));
}

CUDART_API cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback, void *user,
						  unsigned int flags)
{
	return cudaStreamAddCallback(cudart_per_thread(stream), callback, user, flags);
}

CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
	CUDART_CALL(cuLaunchHostFunc(stream, function, user));
}

CUDART_API cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void *user)
{
	return cudaLaunchHostFunc(cudart_per_thread(stream), function, user);
}

CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	CUDART_CALL(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

CUDART_API cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return cudaStreamIsCapturing(cudart_per_thread(stream), status);
}

CUDART_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	CUDART_CALL(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
}

CUDART_API cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	return cudaStreamBeginCapture(cudart_per_thread(stream), mode);
}

CUDART_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	CUDART_CALL(cuStreamEndCapture(stream, graph));
}

CUDART_API cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph)
{
	return cudaStreamEndCapture(cudart_per_thread(stream), graph);
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
						   unsigned long long *id, cudaGraph_t *graph,
						   const cudaGraphNode_t **dependencies,
						   const cudaGraphEdgeData **edges, size_t *count)
{
	CUDART_CALL(cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph,
					      dependencies, (const CUgraphEdgeData **)edges, count));
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
							unsigned long long *id, cudaGraph_t *graph,
							const cudaGraphNode_t **dependencies,
							const cudaGraphEdgeData **edges, size_t *count)
{
	return cudaStreamGetCaptureInfo_v3(cudart_per_thread(stream), status, id, graph, dependencies, edges, count);
}

CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	CUDART_CALL(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, host functions in them, and their capture. */
#include <stdlib.h>

#include "error-number.h"
#include "twins.h"

CUDART_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
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

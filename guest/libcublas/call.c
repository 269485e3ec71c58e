/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the routines: blas-guest.c, which is generated, has the functions. */
#include <string.h>

#include "handle.h"

int blas_status(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return BLAS_SUCCESS;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return BLAS_ALLOC_FAILED;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_HANDLE:
		return BLAS_INVALID_VALUE;
	case CUDA_ERROR_NOT_SUPPORTED:
		return BLAS_NOT_SUPPORTED;
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_CONTEXT:
		return BLAS_NOT_INITIALIZED;
	default:
		return BLAS_EXECUTION_FAILED;
	}
}

int blas_enter(const struct blas_handle *handle)
{
	CUcontext current;
	CUresult result = cuCtxGetCurrent(&current);

	if (result == CUDA_SUCCESS && !current)
		result = cuCtxSetCurrent(handle->context);
	return blas_status(result);
}

void blas_begin(struct blas_call *call, void *handle, unsigned int function, bool wide)
{
	call->handle = handle;
	call->function = function;
	call->count = 0;
	call->wide = wide;
	call->status = handle ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
	call->result = NULL;
}

void blas_word(struct blas_call *call, uint64_t word)
{
	call->words[call->count++] = word;
}

static bool by_address(const struct blas_call *call)
{
	return call->handle && call->handle->pointer_mode == BLAS_POINTER_DEVICE;
}

void blas_scalar(struct blas_call *call, const void *scalar, unsigned int which)
{
	uint64_t *words = &call->words[call->count];

	call->count += 2;
	words[0] = words[1] = 0;
	if (!scalar && !call->status)
		call->status = BLAS_INVALID_VALUE;
	else if (by_address(call))
		words[0] = (uint64_t)(uintptr_t)scalar;
	else if (scalar)
		memcpy(words, scalar, vcuda_blas_routines[call->function].scalars[which]);
}

void blas_result(struct blas_call *call, void *result)
{
	call->result = result;
	if (!result && !call->status)
		call->status = BLAS_INVALID_VALUE;
	blas_word(call, by_address(call) ? (uint64_t)(uintptr_t)result : 0);
}

static unsigned int flags_of(const struct blas_call *call)
{
	return (call->handle->pointer_mode == BLAS_POINTER_DEVICE ? VCUDA_BLAS_DEVICE : 0) |
	       (call->wide ? VCUDA_BLAS_WIDE : 0) | (call->handle->atomics_mode ? VCUDA_BLAS_ATOMICS : 0) |
	       (unsigned int)call->handle->math_mode << VCUDA_BLAS_MATH_SHIFT;
}

static int send_and_wait(struct blas_call *call)
{
	const struct vcuda_blas_routine *r = &vcuda_blas_routines[call->function];
	uint64_t value[VCUDA_BLAS_VALUE_WORDS];
	CUresult result =
		cuVcudaBlasValue(call->handle->stream, call->function, flags_of(call), call->count, call->words, value);

	if (result == CUDA_SUCCESS)
		memcpy(call->result, value, call->wide && r->family->gives_index ? sizeof(int64_t) : r->result);
	return blas_status(result);
}

int blas_end(struct blas_call *call)
{
	const struct vcuda_blas_routine *r = &vcuda_blas_routines[call->function];
	int status = call->status;

	if (!status && !vcuda_blas_check(r, call->words))
		status = BLAS_INVALID_VALUE;
	if (!status)
		status = blas_enter(call->handle);
	if (!status && call->result && !by_address(call))
		status = send_and_wait(call);
	else if (!status)
		status = blas_status(
			cuVcudaBlas(call->handle->stream, call->function, flags_of(call), call->count, call->words));
	blas_log_call(r->name, status);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by libcublas and libcublasLt: states, and the calling thread's context. */
#include "status.h"

#include "protocol/cuda-functions.h"

static const struct {
	const char *name, *text;
} states[] = {
	[BLAS_SUCCESS] = {"CUBLAS_STATUS_SUCCESS", "success"},
	[BLAS_NOT_INITIALIZED] = {"CUBLAS_STATUS_NOT_INITIALIZED",
				  "there is no handle, no device, or no BLAS on the host"},
	[BLAS_ALLOC_FAILED] = {"CUBLAS_STATUS_ALLOC_FAILED", "memory has run out"},
	[BLAS_INVALID_VALUE] = {"CUBLAS_STATUS_INVALID_VALUE", "an argument has a value that it cannot have"},
	[BLAS_ARCH_MISMATCH] = {"CUBLAS_STATUS_ARCH_MISMATCH", "the device cannot do this"},
	[BLAS_MAPPING_ERROR] = {"CUBLAS_STATUS_MAPPING_ERROR", "memory of the device could not be reached"},
	[BLAS_EXECUTION_FAILED] = {"CUBLAS_STATUS_EXECUTION_FAILED", "the device failed to do it"},
	[BLAS_INTERNAL_ERROR] = {"CUBLAS_STATUS_INTERNAL_ERROR", "an error inside of the library"},
	[BLAS_NOT_SUPPORTED] = {"CUBLAS_STATUS_NOT_SUPPORTED", "this is not supported"},
	[BLAS_LICENSE_ERROR] = {"CUBLAS_STATUS_LICENSE_ERROR", "a licence is missing"},
};

static bool is_known(int status)
{
	return status >= 0 && (size_t)status < sizeof(states) / sizeof(states[0]) && states[status].name;
}

const char *blas_status_name(int status)
{
	return is_known(status) ? states[status].name : "unknown status";
}

const char *blas_status_text(int status)
{
	return is_known(status) ? states[status].text : "a status that this library does not know";
}

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

int blas_context(CUcontext *context)
{
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuCtxGetCurrent(context);
	/* As the runtime does for a thread that has chosen no device. */
	if (result == CUDA_SUCCESS && !*context) {
		result = cuDevicePrimaryCtxRetain(context, 0);
		if (result == CUDA_SUCCESS)
			result = cuCtxSetCurrent(*context);
	}
	return result == CUDA_ERROR_OUT_OF_MEMORY ? BLAS_ALLOC_FAILED : result ? BLAS_NOT_INITIALIZED : BLAS_SUCCESS;
}

int blas_enter(CUcontext context)
{
	CUcontext current;
	CUresult result = cuCtxGetCurrent(&current);

	if (result == CUDA_SUCCESS && !current)
		result = cuCtxSetCurrent(context);
	return blas_status(result);
}

int blas_property(int version, int type, int *value)
{
	if (!value || type < 0 || type > 2)
		return BLAS_INVALID_VALUE;
	*value = type == 0 ? version / 10000 : type == 1 ? version / 100 % 100 : version % 100;
	return BLAS_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"

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

BLAS_API const char *cublasGetStatusName(int status)
{
	return is_known(status) ? states[status].name : "unknown status";
}

BLAS_API const char *cublasGetStatusString(int status)
{
	return is_known(status) ? states[status].text : "a status that this library does not know";
}

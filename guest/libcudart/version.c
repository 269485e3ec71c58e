/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, the driver's entry points by name, and the profiler's switch. */
#include "runtime.h"
#include "version.h"

CUDART_API cudaError_t cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return cudart_record(cudaErrorInvalidValue);
	*version = cudart_version;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaDriverGetVersion(int *version)
{
	if (!version)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_result(cuDriverGetVersion(version));
}

cudaError_t cudart_driver_function(const char *symbol, void **function, unsigned int version, unsigned long long flags,
				   enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	CUresult result;

	if (!symbol || !function)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_init());
	result = cuGetProcAddress_v2(symbol, function, (int)version, flags, &found);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	/* With a status the caller learns there that a name is missing; the call itself has succeeded. */
	if (status && result == CUDA_ERROR_NOT_FOUND) {
		*function = NULL;
		return cudaSuccess;
	}
	return cudart_result(result);
}

static cudaError_t entry_point(const char *symbol, void **function, unsigned int version, unsigned long long flags,
			       enum cudaDriverEntryPointQueryResult *status, cuuint64_t default_flags)
{
	return cudart_driver_function(symbol, function, version, flags == cudaEnableDefault ? default_flags : flags,
				      status);
}

CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
							unsigned long long flags,
							enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, function, version, flags, status, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}

CUDART_API cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **function, unsigned int version,
							     unsigned long long flags,
							     enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, function, version, flags, status, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

CUDART_API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
					       enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, function, (unsigned int)cudart_version, flags, status,
			   CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}

CUDART_API cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **function, unsigned long long flags,
						    enum cudaDriverEntryPointQueryResult *status)
{
	return entry_point(symbol, function, (unsigned int)cudart_version, flags, status,
			   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

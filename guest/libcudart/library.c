/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of device code that a program loads itself. Options have the same numbers in both APIs. */
#include "runtime.h"

CUDART_API cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit_options,
					   void **jit_values, unsigned int jit_count, enum cudaLibraryOption *options,
					   void **values, unsigned int count)
{
	CUDART_CALL(cuLibraryLoadData(library, code, (CUjit_option *)jit_options, jit_values, jit_count,
				      (CUlibraryOption *)options, values, count));
}

CUDART_API cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path,
					       enum cudaJitOption *jit_options, void **jit_values,
					       unsigned int jit_count, enum cudaLibraryOption *options, void **values,
					       unsigned int count)
{
	CUDART_CALL(cuLibraryLoadFromFile(library, path, (CUjit_option *)jit_options, jit_values, jit_count,
					  (CUlibraryOption *)options, values, count));
}

CUDART_API cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
	CUDART_CALL(cuLibraryUnload(library));
}

CUDART_API cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
	CUDART_CALL(cuLibraryGetKernel(kernel, library, name));
}

CUDART_API cudaError_t cudaLibraryGetKernelCount(unsigned int *count, cudaLibrary_t library)
{
	CUDART_CALL(cuLibraryGetKernelCount(count, library));
}

CUDART_API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int count, cudaLibrary_t library)
{
	CUDART_CALL(cuLibraryEnumerateKernels(kernels, count, library));
}

CUDART_API cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
	CUDART_CALL(cuLibraryGetGlobal((CUdeviceptr *)address, bytes, library, name));
}

CUDART_API cudaError_t cudaLibraryGetManaged(void **address, size_t *bytes, cudaLibrary_t library, const char *name)
{
	CUDART_CALL(cuLibraryGetManaged((CUdeviceptr *)address, bytes, library, name));
}

CUDART_API cudaError_t cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *name)
{
	CUDART_CALL(cuLibraryGetUnifiedFunction(function, library, name));
}

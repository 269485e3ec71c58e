/* SPDX-License-Identifier: Apache-2.0 */
/* The log, which is the driver's. */
#include "runtime.h"

CUDART_API cudaError_t cudaLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *callback)
{
	return cudart_record((cudaError_t)cuLogsRegisterCallback(function, data, callback));
}

CUDART_API cudaError_t cudaLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	return cudart_record((cudaError_t)cuLogsUnregisterCallback(callback));
}

CUDART_API cudaError_t cudaLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
	return cudart_record((cudaError_t)cuLogsCurrent(iterator, flags));
}

CUDART_API cudaError_t cudaLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
	return cudart_record((cudaError_t)cuLogsDumpToFile(iterator, path, flags));
}

CUDART_API cudaError_t cudaLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	return cudart_record((cudaError_t)cuLogsDumpToMemory(iterator, buffer, size, flags));
}

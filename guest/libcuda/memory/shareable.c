/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory of several processes. */
#include "memory/shareable.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/allocation.h"
#include "core/request.h"
#include "memory/memory.h"
#include "core/context.h"
#include "protocol/guest-calls.h"
#include "common/log.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

bool libcuda_shareable_type(CUmemAllocationHandleType type)
{
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return true;
	vcuda_log_once("shareable handles other than file descriptors are not supported");
	return false;
}

CUresult libcuda_shareable_give(const CUipcMemHandle *handle, void *to)
{
	int fd = memfd_create("vcuda-handle", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (write(fd, handle, sizeof(*handle)) != sizeof(*handle) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*(int *)to = fd;
	return CUDA_SUCCESS;
}

bool libcuda_shareable_read(int fd, CUipcMemHandle *handle)
{
	return pread(fd, handle, sizeof(*handle), 0) == sizeof(*handle);
}

VCUDA_EXPORT CUresult cuMemExportToShareableHandle(void *to, CUmemGenericAllocationHandle handle,
						   CUmemAllocationHandleType type, unsigned long long flags)
{
	vcuda_allocation allocation = (vcuda_allocation)(uintptr_t)handle;
	CUresult result = libcuda_require_init();
	CUipcMemHandle shared;
	unsigned int types;

	libcuda_memory_is_watched = true;
	if (result != CUDA_SUCCESS)
		return result;
	if (!to || flags || libcuda_allocation_find(handle, NULL, &types) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_shareable_type(type))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!(types & type))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemExport(&shared, allocation);
	return result == CUDA_SUCCESS ? libcuda_shareable_give(&shared, to) : result;
}

VCUDA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from,
						     CUmemAllocationHandleType type)
{
	CUresult result = libcuda_require_init();
	vcuda_allocation allocation;
	CUipcMemHandle shared;

	libcuda_memory_is_watched = true;
	if (result != CUDA_SUCCESS)
		return result;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_shareable_type(type))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!libcuda_shareable_read((int)(intptr_t)from, &shared))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemImport(&allocation, shared);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_allocation_add(allocation, libcuda_context_current() ? libcuda_context_current()->device : 0,
				      (unsigned int)type, handle);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory of several processes. */
#include "memory/shareable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/allocation.h"
#include "core/device.h"
#include "core/request.h"
#include "memory/memory.h"
#include "core/context.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "common/share.h"
#include "guest/client/session.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

bool libcuda_shareable_type(CUmemAllocationHandleType type)
{
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return true;
	vcuda_log_once("shareable handles other than file descriptors are not supported");
	return false;
}

/* Makes a sealed file with the handle. The memory that the handle names ends with this process. */
static CUresult give_file(const CUipcMemHandle *handle, void *to)
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

_Static_assert(sizeof(CUipcMemHandle) == sizeof(struct vcuda_share_handle), "CUDA says how large handles are");

CUresult libcuda_shareable_give(const CUipcMemHandle *handle, void *to)
{
	struct client_transport *t = client_session.transport;
	struct vcuda_share_handle h;
	uint64_t name[2];
	int fd, err;

	memcpy(&h, handle, sizeof(h));
	if (!vcuda_share_is_kept(&h))
		return give_file(handle, to);
	memcpy(name, h.key, sizeof(name));
	fd = t->ops->export_descriptor(t, name, (const uint8_t *)&h);
	if (fd == -EOPNOTSUPP)
		return give_file(handle, to);
	if (fd >= 0) {
		*(int *)to = fd;
		return CUDA_SUCCESS;
	}
	err = client_session_check(fd);
	if (err)
		return (CUresult)err;
	vcuda_log_once("no descriptor of exported memory can be made: %s", strerror(-fd));
	/* Another thread has released it. */
	return fd == -ENOENT ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

bool libcuda_shareable_read(int fd, CUipcMemHandle *handle)
{
	return client_export_read(fd, handle, sizeof(*handle));
}

static CUresult export(void *to, CUmemGenericAllocationHandle handle, const struct libcuda_allocation *made,
		       CUmemAllocationHandleType type)
{
	CUipcMemHandle shared;
	CUresult result;

	if (!libcuda_shareable_type(type))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!(made->handle_types & type))
		return CUDA_ERROR_INVALID_VALUE;
	if (made->memory)
		return libcuda_host_memory_export(made->memory, to);
	result = vcuda_call_vcudaMemExport(&shared, (vcuda_allocation)(uintptr_t)handle);
	return result == CUDA_SUCCESS ? libcuda_shareable_give(&shared, to) : result;
}

VCUDA_EXPORT CUresult cuMemExportToShareableHandle(void *to, CUmemGenericAllocationHandle handle,
						   CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult result = libcuda_require_init();
	struct libcuda_allocation made;

	libcuda_memory_is_watched = true;
	if (result != CUDA_SUCCESS)
		return result;
	if (!to || flags || libcuda_allocation_begin(handle, &made) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	result = export(to, handle, &made, type);
	libcuda_allocation_end(handle);
	return result;
}

static CUresult check_host(const struct libcuda_allocation *made)
{
	size_t granularity;
	CUresult result;

	if (!(libcuda_host.features & VCUDA_FEATURE_HOST_MEMORY))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = vcuda_call_vcudaMemGranularity(&granularity, libcuda_device_host(0), CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	return result == CUDA_SUCCESS && made->bytes % granularity ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult add_host(const struct libcuda_allocation *made, CUmemGenericAllocationHandle *handle)
{
	CUresult result = check_host(made);

	if (result == CUDA_SUCCESS)
		return libcuda_allocation_add(NULL, made, handle);
	libcuda_host_memory_free(made->memory);
	return result;
}

VCUDA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from,
						     CUmemAllocationHandleType type)
{
	struct libcuda_allocation made = {.handle_types = (unsigned int)type, .is_imported = true};
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
	result = libcuda_host_memory_import((int)(intptr_t)from, &made.location, &made.bytes, &made.memory);
	if (result != CUDA_ERROR_INVALID_VALUE)
		return result == CUDA_SUCCESS ? add_host(&made, handle) : result;
	if (!libcuda_shareable_read((int)(intptr_t)from, &shared))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemImport(&allocation, shared);
	if (result != CUDA_SUCCESS)
		return result;
	made.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE,
					libcuda_context_current() ? libcuda_context_current()->device : 0};
	return libcuda_allocation_add(allocation, &made, handle);
}

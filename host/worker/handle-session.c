/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: hello and device information. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend-load.h"
#include "handlers.h"
#include "log.h"
#include "roster-slot.h"
#include "session.h"
#include "worker.h"

struct vcuda_backend vcuda_worker_loaded;

/*
 * Variables of the guest process that the driver obeys and that can do no harm here. Others name files or libraries of the host
 * (CUDA_CACHE_PATH, CUDA_INJECTION64_PATH) or are the guest library's own business (CUDA_VISIBLE_DEVICES).
 */
static const char *const environment_allowed[] = {
	"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_MODULE_DATA_LOADING", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT",
};

/* `text` is lines NAME=VALUE. */
static void take_environment(const char *text)
{
	char *copy = strdup(text), *rest = copy, *line;

	while (copy && (line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = 0;
		for (size_t i = 0; i < sizeof(environment_allowed) / sizeof(environment_allowed[0]); i++)
			if (!strcmp(line, environment_allowed[i]))
				setenv(line, value, 1);
	}
	free(copy);
}

CUresult vcuda_handle_vcudaHello(struct vcuda_session *s, struct vcuda_args_vcudaHello *a)
{
	vcuda_host_info *info = &a->info;

	if (!s->ops) {
		take_environment(a->environment);
		if (!vcuda_backend_load(&vcuda_worker_loaded, vcuda_worker_backend))
			return CUDA_ERROR_NO_DEVICE;
		s->ops = vcuda_worker_loaded.ops;
		if (vcuda_worker_loaded.count_memory)
			vcuda_worker_loaded.count_memory(vcuda_roster_bytes());
		if (vcuda_worker_loaded.share_scope && vcuda_roster_is_vm())
			vcuda_worker_loaded.share_scope(vcuda_roster_same_guest);
	}
	info->minor = VCUDA_PROTOCOL_MINOR;
	info->pid = (uint32_t)getpid();
	info->arena_start = VCUDA_ARENA_START;
	info->arena_length = VCUDA_ARENA_LENGTH;
	strncpy(info->backend, s->ops->name, sizeof(info->backend) - 1);
	info->range_count = vcuda_worker_loaded.range_count;
	memcpy(info->ranges, vcuda_worker_loaded.ranges, sizeof(info->ranges));
	if (s->ops->cuDriverGetVersion)
		s->ops->cuDriverGetVersion(&info->driver_version);
	return s->ops->cuDeviceGetCount(&info->device_count);
}

CUresult vcuda_handle_vcudaDeviceInfo(struct vcuda_session *s, struct vcuda_args_vcudaDeviceInfo *a)
{
	const struct vcuda_backend_ops *ops = s->ops;
	vcuda_device_info *info = &a->info;
	size_t total = 0;
	CUresult result;

	result = ops->cuDeviceGetName(info->name, sizeof(info->name), a->dev);
	if (result == CUDA_SUCCESS)
		result = ops->cuDeviceTotalMem_v2(&total, a->dev);
	if (result == CUDA_SUCCESS)
		result = ops->cuDeviceGetUuid_v2(&info->uuid, a->dev);
	if (result == CUDA_SUCCESS && ops->cuDeviceGetPCIBusId)
		result = ops->cuDeviceGetPCIBusId(info->pci_bus_id, sizeof(info->pci_bus_id), a->dev);
	info->total_memory = total;
	for (int i = 0; i < VCUDA_DEVICE_ATTRIBUTES; i++)
		info->attribute_results[i] = ops->cuDeviceGetAttribute(&info->attributes[i], (CUdevice_attribute)i, a->dev);
	if (!ops->cuIpcGetEventHandle)
		info->attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 0;
	/* what a guest sends as a descriptor is a handle of the other form to us */
	info->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] =
		ops->cuMemExportToShareableHandle &&
		info->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED];
	return result;
}

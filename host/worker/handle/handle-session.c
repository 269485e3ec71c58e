/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: hello and device information. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handle/handle-host-access.h"
#include "process/backend-load.h"
#include "process/channel-serve.h"
#include "protocol/handlers.h"
#include "common/log.h"
#include "queue/fences.h"
#include "queue/turn.h"
#include "session/keeper.h"
#include "session/ledger.h"
#include "session/worker-table-slot.h"
#include "session/session.h"
#include "process/warm.h"
#include "process/worker.h"
#include "common/trace-point.h"
#include "host/sandbox/sandbox.h"

/*
 * Variables of the guest process that the driver obeys and that can do no harm here. Others name files or libraries of
 * the host (CUDA_CACHE_PATH, CUDA_INJECTION64_PATH) or are the guest library's own business (CUDA_VISIBLE_DEVICES,
 * CUDA_DEVICE_ORDER, CUDA_LAUNCH_BLOCKING).
 */
static const char *const environment_allowed[] = {
	"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_MODULE_DATA_LOADING", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT",
};

/* Does with each of `text`, lines NAME=VALUE, that may be obeyed. Returns whether that was true of one. */
static bool any_variable(const char *text, bool (*does)(const char *name, const char *value))
{
	char *copy = strdup(text), *rest = copy, *line;
	bool any = false;

	while (copy && (line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = 0;
		for (size_t i = 0; i < sizeof(environment_allowed) / sizeof(environment_allowed[0]); i++)
			if (!strcmp(line, environment_allowed[i]))
				any |= does(line, value);
	}
	free(copy);
	return any;
}

static bool take(const char *name, const char *value)
{
	return !setenv(name, value, 1);
}

static bool differs(const char *name, const char *value)
{
	const char *own = getenv(name);

	return !own || strcmp(own, value);
}

/*
 * A driver that was loaded in advance has read its variables: a guest process with other ones gets this worker as if it
 * had not been warm, and so does one for which the context that was made has failed.
 */
static void be_fit_for(const char *environment)
{
	int err;

	if (!any_variable(environment, differs) && worker_warm_is_sound())
		return;
	err = worker_channel_restart();
	vcuda_log("cannot run itself again: %s", strerror(-err));
}

static bool load(struct worker_session *s, const char *environment)
{
	static bool greeted;

	if (worker_warm_started() && !greeted)
		be_fit_for(environment);
	greeted = true;
	if (!worker_warm_started())
		any_variable(environment, take);
	if (!worker_warm_backend())
		return false;
	if (!sandbox_close(strcmp(worker_loaded.ops->name, "cpu") ? SANDBOX_CUDA : SANDBOX_CPU))
		_exit(1);
	vcuda_trace_point("worker: sandbox has its second stage");
	s->release = worker_loaded.release;
	s->restore = worker_loaded.restore;
	s->has_shared = worker_loaded.has_shared;
	if (worker_loaded.takes_turns && !worker_turn_start(s, worker_ledger_turns())) {
		vcuda_log("cannot start a thread");
		_exit(1);
	}
	s->watcher = worker_loaded.takes_turns ? &worker_turn_watcher : NULL;
	s->ops = worker_loaded.ops;
	/* The software GPU's memory is the host's. */
	if (worker_loaded.count_memory) {
		worker_loaded.count_memory(worker_table_bytes());
		worker_ledger_count_host();
	}
	if (worker_loaded.tell_work)
		worker_loaded.tell_work(worker_table_at_work());
	if (worker_loaded.share_scope && worker_table_is_vm())
		worker_loaded.share_scope(worker_table_same_guest);
	if (worker_loaded.share_keeper)
		worker_loaded.share_keeper(worker_keeper_exchange);
	return true;
}

CUresult vcuda_handle_vcudaHello(struct worker_session *s, struct vcuda_args_vcudaHello *a)
{
	vcuda_host_info *info = &a->info;

	if (!s->ops && !load(s, a->environment))
		return CUDA_ERROR_NO_DEVICE;
	info->minor = VCUDA_PROTOCOL_MINOR;
	info->pid = (uint32_t)getpid();
	info->arena_start = WORKER_ARENA_START;
	info->arena_length = WORKER_ARENA_LENGTH;
	strncpy(info->backend, s->ops->name, sizeof(info->backend) - 1);
	info->range_count = worker_loaded.range_count;
	memcpy(info->ranges, worker_loaded.ranges, sizeof(info->ranges));
	if (s->ops->cuDriverGetVersion)
		s->ops->cuDriverGetVersion(&info->driver_version);
	info->features = (worker_host_access_is_there(s) ? VCUDA_FEATURE_HOST_MEMORY : 0) |
			 (s->ops->hostPlace ? VCUDA_FEATURE_PLACES : 0);
	worker_fences_offer(s);
	return s->ops->cuDeviceGetCount(&info->device_count);
}

/*
 * A PCI domain that machines seldom have: those of firmware are small, those of Intel's VMD begin at 0x10000, and
 * Hyper-V picks a number of 16 bits. In a guest the host's address may be that of another device of the guest, which
 * programs then look for in /sys.
 */
#define PCI_DOMAIN 0x7CDA

static void put_attribute(vcuda_device_info *info, CUdevice_attribute attribute, int value)
{
	info->attributes[attribute] = value;
	info->attribute_results[attribute] = CUDA_SUCCESS;
}

/* An address that is the device's each time, and no other device's. */
static void give_pci_address(vcuda_device_info *info, CUdevice dev)
{
	snprintf(info->pci_bus_id, sizeof(info->pci_bus_id), "%04X:%02X:00.0", PCI_DOMAIN, (dev + 1) & 0xff);
	put_attribute(info, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, PCI_DOMAIN);
	put_attribute(info, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, (dev + 1) & 0xff);
	put_attribute(info, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0);
}

CUresult vcuda_handle_vcudaDeviceInfo(struct worker_session *s, struct vcuda_args_vcudaDeviceInfo *a)
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
	/* A program of this machine finds a real GPU in /sys. */
	if (!strcmp(ops->name, "cpu") || worker_table_is_vm())
		give_pci_address(info, a->dev);
	if (!ops->cuIpcGetEventHandle)
		info->attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 0;
	/* what a guest sends as a descriptor is a handle of the other form to us */
	info->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] =
		ops->cuMemExportToShareableHandle &&
		info->attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED];
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: what libnvidia-ml asks. Nothing of it needs a context. */
#include <stdlib.h>
#include <string.h>

#include "protocol/handlers.h"
#include "host/backend-cuda/nvml.h"
#include "session/worker-table-slot.h"
#include "session/session.h"
#include "session/dispatch.h"

/* Limit for the listed processes of the host, all guests together. */
#define HOST_PROCESSES 4096

static bool is_cuda(const struct worker_session *s)
{
	return !strcmp(s->ops->name, "cuda");
}

CUresult vcuda_handle_vcudaSystemInfo(struct worker_session *s, struct vcuda_args_vcudaSystemInfo *a)
{
	if (is_cuda(s))
		backend_nvml_driver_version(a->info.driver_version, sizeof(a->info.driver_version));
	return CUDA_SUCCESS;
}

/* With a GPU the host's library knows how much memory each worker has, and on which device. */
static uint64_t find(const struct backend_process *all, int count, const struct vcuda_worker_table_slot *slot)
{
	for (int i = 0; i < count; i++)
		if (all[i].pid == (uint32_t)atomic_load(&slot->worker))
			return all[i].bytes;
	return 0;
}

static bool has_memory(const struct vcuda_worker_table_slot *slot)
{
	for (unsigned int i = 0; i < VCUDA_CPU_DEVICES_MOST; i++)
		if (atomic_load(&slot->bytes[i]))
			return true;
	return false;
}

static void list(struct vcuda_args_vcudaProcesses *a, const struct backend_process *host, int host_count,
		 bool counted)
{
	const struct vcuda_worker_table_slot *slot;
	unsigned int at = 0;

	for (a->count = 0; a->count < a->room && (slot = worker_table_next(&at));) {
		uint64_t bytes = counted          ? atomic_load(&slot->bytes[a->dev])
				 : host_count < 0 ? UINT64_MAX
						  : find(host, host_count, slot);

		/*
		 * A process without memory here has its memory on another device: each process with a context on a GPU
		 * has some.
		 */
		if (!bytes && (!counted || has_memory(slot)))
			continue;
		a->pids[a->count] = slot->pid;
		a->bytes[a->count++] = bytes;
	}
}

CUresult vcuda_handle_vcudaProcesses(struct worker_session *s, struct vcuda_args_vcudaProcesses *a)
{
	struct backend_process *host = NULL;
	char id[16] = "";
	int count = -1;

	if (!a->room || a->room > VCUDA_PROCESSES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_cuda(s) && (a->dev < 0 || a->dev >= VCUDA_CPU_DEVICES_MOST))
		return CUDA_ERROR_INVALID_DEVICE;
	if (is_cuda(s)) {
		host = calloc(HOST_PROCESSES, sizeof(*host));
		if (host && s->ops->cuDeviceGetPCIBusId &&
		    s->ops->cuDeviceGetPCIBusId(id, sizeof(id), a->dev) == CUDA_SUCCESS)
			count = backend_nvml_processes(id, host, HOST_PROCESSES);
	}
	list(a, host, count, !is_cuda(s));
	free(host);
	return CUDA_SUCCESS;
}

/* ---- peers ---- */

/* NVML's nvmlGpuP2PStatus_t and nvmlGpuP2PCapsIndex_t. */
enum { P2P_OK, P2P_NOT_SUPPORTED = 5 };
enum p2p_capability { P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PCI, P2P_CAPABILITIES };

/* CUDA's answer. CUDA knows neither link. A device reaches itself. */
static int cuda_peer_status(struct worker_session *s, CUdevice dev, CUdevice peer, unsigned int capability)
{
	CUdevice_P2PAttribute attribute = capability == P2P_ATOMICS ? CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED
								    : CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
	int has = dev == peer;

	if (capability == P2P_NVLINK || capability == P2P_PCI)
		return P2P_NOT_SUPPORTED;
	if (!has && s->ops->cuDeviceGetP2PAttribute)
		s->ops->cuDeviceGetP2PAttribute(&has, attribute, dev, peer);
	return has ? P2P_OK : P2P_NOT_SUPPORTED;
}

CUresult vcuda_handle_vcudaPeerStatus(struct worker_session *s, struct vcuda_args_vcudaPeerStatus *a)
{
	char ids[2][16] = {"", ""};
	CUresult result;

	if (!s->ops->cuDeviceGetPCIBusId)
		return worker_unsupported(s, VCUDA_OP_vcudaPeerStatus);
	result = s->ops->cuDeviceGetPCIBusId(ids[0], sizeof(ids[0]), a->dev);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuDeviceGetPCIBusId(ids[1], sizeof(ids[1]), a->peer);
	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned int i = 0; i < P2P_CAPABILITIES; i++)
		if (!is_cuda(s) || !backend_nvml_peer_status(ids[0], ids[1], i, &a->status[i]))
			a->status[i] = cuda_peer_status(s, a->dev, a->peer, i);
	return CUDA_SUCCESS;
}

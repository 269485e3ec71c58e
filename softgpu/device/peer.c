/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices: each reaches the other's memory at its address, and with all atomic operations. */
#include "device/context.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/memory.h"
#include "device/registry.h"

/* The index of a context's id, or peer_count. A later context at the same address has another id. */
static unsigned int find(const struct CUctx_st *context, uint64_t id)
{
	unsigned int i;

	for (i = 0; i < context->peer_count && context->peers[i] != id; i++)
		continue;
	return i;
}

bool softgpu_peer_has(const struct CUctx_st *context, const struct CUctx_st *peer)
{
	return find(context, peer->id) < context->peer_count;
}

void softgpu_peers_drop(struct CUctx_st *context)
{
	free(context->peers);
	context->peers = NULL;
	context->peer_count = 0;
	if (context->map)
		softgpu_map_put(context->map);
	context->map = NULL;
}

/* Gives the current context, with the lock, if the other context is alive. */
static CUresult enter(struct CUctx_st **context, const struct CUctx_st *peer)
{
	CUresult result = softgpu_enter(context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_registry_has(peer, SOFTGPU_CONTEXT) || !peer->alive)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	return CUDA_SUCCESS;
}

static CUresult add(struct CUctx_st *context, const struct CUctx_st *peer)
{
	uint64_t *more = realloc(context->peers, (context->peer_count + 1) * sizeof(*more));

	if (!more)
		return CUDA_ERROR_OUT_OF_MEMORY;
	more[context->peer_count++] = peer->id;
	context->peers = more;
	softgpu_memory_changed();
	return CUDA_SUCCESS;
}

CUresult softgpu_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct CUctx_st *c;
	CUresult result;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = enter(&c, peerContext);
	if (result != CUDA_SUCCESS)
		return result;
	if (c->device == peerContext->device)
		return softgpu_leave(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	if (softgpu_peer_has(c, peerContext))
		return softgpu_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	return softgpu_leave(add(c, peerContext));
}

CUresult softgpu_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct CUctx_st *c;
	CUresult result = enter(&c, peerContext);
	unsigned int i;

	if (result != CUDA_SUCCESS)
		return result;
	i = find(c, peerContext->id);
	if (i == c->peer_count)
		return softgpu_leave(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	c->peers[i] = c->peers[--c->peer_count];
	softgpu_memory_changed();
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	CUresult result = softgpu_device_check(dev);

	if (result == CUDA_SUCCESS)
		result = softgpu_device_check(peerDev);
	if (result != CUDA_SUCCESS)
		return result;
	if (!canAccessPeer)
		return CUDA_ERROR_INVALID_VALUE;
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

/* CUDA_SUCCESS for two devices that are not the same. */
static CUresult check_pair(CUdevice one, CUdevice other)
{
	CUresult result = softgpu_device_check(one);

	if (result == CUDA_SUCCESS)
		result = softgpu_device_check(other);
	return result == CUDA_SUCCESS && one == other ? CUDA_ERROR_INVALID_DEVICE : result;
}

CUresult softgpu_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
					 CUdevice dstDevice)
{
	static const int values[] = {
		[CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK] = 0, /* all pairs are equal */
		[CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED] = 1,
		[CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED] = 1,
		[CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED] = 1,
		[CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED] = 0,
	};
	CUresult result;

	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!value || (int)attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
	    (size_t)attrib >= sizeof(values) / sizeof(values[0]))
		return CUDA_ERROR_INVALID_VALUE;
	result = check_pair(srcDevice, dstDevice);
	if (result == CUDA_SUCCESS)
		*value = values[attrib];
	return result;
}

CUresult softgpu_cuDeviceGetP2PAtomicCapabilities(unsigned *capabilities, const CUatomicOperation *operations,
						  unsigned count, CUdevice srcDevice, CUdevice dstDevice)
{
	CUresult result;

	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!capabilities || !operations || !count)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_pair(srcDevice, dstDevice);
	/* The memory of all devices is the host's. */
	return result == CUDA_SUCCESS
		       ? softgpu_cuDeviceGetHostAtomicCapabilities(capabilities, operations, count, srcDevice)
		       : result;
}

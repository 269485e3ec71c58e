/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices of one program: what one may do with the other's memory. */
#include "core/peer.h"

#include "guest/client/call.h"
#include "core/context.h"
#include "core/device.h"
#include "protocol/guest-calls.h"

VCUDA_EXPORT CUresult cuDeviceCanAccessPeer(int *yes, CUdevice dev, CUdevice peer)
{
	CUresult result = vcuda_require_device(dev);

	if (result == CUDA_SUCCESS)
		result = vcuda_require_device(peer);
	return result != CUDA_SUCCESS
		       ? result
		       : vcuda_call_cuDeviceCanAccessPeer(yes, vcuda_device_host(dev), vcuda_device_host(peer));
}

VCUDA_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst)
{
	CUresult result = vcuda_require_device(src);

	if (result == CUDA_SUCCESS)
		result = vcuda_require_device(dst);
	if (result == CUDA_SUCCESS && src == dst)
		result = CUDA_ERROR_INVALID_DEVICE;
	return result != CUDA_SUCCESS ? result
				      : vcuda_call_cuDeviceGetP2PAttribute(value, (int)attrib, vcuda_device_host(src),
									   vcuda_device_host(dst));
}

/* ---- copies ---- */

static bool is_other(CUcontext handle)
{
	return handle && handle != vcuda_context_handle(vcuda_context_current());
}

CUresult vcuda_peer_begin(CUcontext to, CUcontext from, bool async)
{
	CUresult result = CUDA_SUCCESS;

	if ((to && !vcuda_context_find(to)) || (from && !vcuda_context_find(from)))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (async)
		return CUDA_SUCCESS;
	if (is_other(to))
		result = cuCtxSynchronize_v2(to);
	if (result == CUDA_SUCCESS && is_other(from) && from != to)
		result = cuCtxSynchronize_v2(from);
	return result;
}

CUresult vcuda_peer_end(CUcontext to, CUcontext from, CUstream stream, CUresult result)
{
	if (result != CUDA_SUCCESS || (!is_other(to) && !is_other(from)))
		return result;
	return cuStreamSynchronize(stream);
}

/* ---- access ---- */

/* Both ends are contexts that can be used; `other` is set to the worker's name of the peer. */
static CUresult check_peer(CUcontext handle, CUcontext *other)
{
	struct vcuda_context *current = vcuda_context_current(), *peer;
	CUresult result = vcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	peer = handle ? vcuda_context_find(handle) : NULL;
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = vcuda_context_usable(peer);
	if (result == CUDA_SUCCESS)
		*other = peer->id;
	return result;
}

VCUDA_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUcontext other;
	CUresult result = check_peer(peer, &other);

	if (result == CUDA_SUCCESS && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? vcuda_call_cuCtxEnablePeerAccess(other, flags) : result;
}

VCUDA_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUcontext other;
	CUresult result = check_peer(peer, &other);

	return result == CUDA_SUCCESS ? vcuda_call_cuCtxDisablePeerAccess(other) : result;
}

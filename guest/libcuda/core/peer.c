/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices of one program: what one may do with the other's memory. */
#include "core/peer.h"

#include "guest/client/call.h"
#include "core/context.h"
#include "protocol/guest-calls.h"

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

CUresult vcuda_resolve_context(CUcontext given, CUcontext *resolved)
{
	struct vcuda_context *peer = given ? vcuda_context_find(given) : NULL;
	CUresult result;

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = vcuda_context_usable(peer);
	if (result == CUDA_SUCCESS)
		*resolved = peer->id;
	return result;
}

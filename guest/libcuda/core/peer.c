/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices of one program: what one may do with the other's memory. */
#include "core/request.h"
#include "core/context.h"
#include "protocol/guest-calls.h"

/* ---- access ---- */

CUresult vcuda_resolve_context(CUcontext given, CUcontext *resolved)
{
	struct libcuda_context *peer = given ? libcuda_context_find(given) : NULL;
	CUresult result;

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = libcuda_context_usable(peer);
	if (result == CUDA_SUCCESS)
		*resolved = peer->calls.id;
	return result;
}

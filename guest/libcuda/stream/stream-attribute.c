/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of streams. Those that are known are hints, which cost nothing to take and nothing to ignore. */
#include "core/attribute-value.h"
#include "core/request.h"
#include "core/object.h"
#include "stream/stream.h"
#include "protocol/cuda-functions.h"

static CUresult check(CUstream *stream, CUstreamAttrID attribute)
{
	CUresult result = libcuda_stream_enter(stream);

	if (result != CUDA_SUCCESS)
		return result;
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

VCUDA_EXPORT CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
	CUresult result = check(&stream, attribute);

	return result == CUDA_SUCCESS && !value ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Returns the initial value of the attribute. */
VCUDA_EXPORT CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
	CUresult result = check(&stream, attribute);
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_attribute_clear(value, attribute);
	if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY && o)
		value->priority = o->priority;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
	CUresult result = libcuda_stream_enter(&to);

	return result == CUDA_SUCCESS ? libcuda_stream_enter(&from) : result;
}

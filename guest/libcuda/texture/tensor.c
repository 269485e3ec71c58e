/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps, the descriptions of tensors for a GPU's memory accelerator. The driver of the host writes a map, once
 * for each description that the program makes. A map goes to kernels as a parameter or in memory like any other bytes.
 */
#include <string.h>

#include "core/request.h"
#include "core/context.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"

#define MAP_ALIGNMENT 64

_Static_assert(sizeof(vcuda_tensor_map) == sizeof(CUtensorMap), "CUDA says how large they are");

static CUresult check(const CUtensorMap *map)
{
	CUresult result = libcuda_require_init();
	struct libcuda_context *context = libcuda_context_current();

	if (result != CUDA_SUCCESS)
		return result;
	if (!map || (uintptr_t)map % MAP_ALIGNMENT)
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_device_attribute(context ? context->device : 0, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED))
		return CUDA_SUCCESS;
	vcuda_log_once("cuTensorMap*() are not supported: the device has no memory accelerator for tensors");
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The members that all kinds share; false: an argument is missing, or the rank is too large. */
static bool describe(vcuda_tensor *t, const void *address, const cuuint64_t *dim, const cuuint64_t *strides,
		     const cuuint32_t *steps)
{
	if (!address || !dim || !steps || !t->rank || t->rank > VCUDA_TENSOR_RANK || (t->rank > 1 && !strides))
		return false;
	t->address = (uintptr_t)address;
	memcpy(t->dim, dim, t->rank * sizeof(*dim));
	if (t->rank > 1)
		memcpy(t->strides, strides, (t->rank - 1) * sizeof(*strides));
	memcpy(t->steps, steps, t->rank * sizeof(*steps));
	return true;
}

static CUresult encode(CUtensorMap *map, const vcuda_tensor *t)
{
	vcuda_tensor_map made;
	CUresult result = vcuda_call_vcudaTensorEncode(*t, &made);

	if (result == CUDA_SUCCESS)
		memcpy(map, &made, sizeof(made));
	return result;
}

VCUDA_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, cuuint32_t rank, void *address,
					     const cuuint64_t *dim, const cuuint64_t *strides, const cuuint32_t *box,
					     const cuuint32_t *steps, int interleave, int swizzle, int promotion,
					     int fill)
{
	vcuda_tensor t = {.kind = VCUDA_TENSOR_TILED,
			  .type = type,
			  .rank = rank,
			  .interleave = interleave,
			  .swizzle = swizzle,
			  .promotion = promotion,
			  .fill = fill};
	CUresult result = check(map);

	if (result != CUDA_SUCCESS)
		return result;
	if (!box || !describe(&t, address, dim, strides, steps))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(t.box, box, rank * sizeof(*box));
	return encode(map, &t);
}

VCUDA_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, int type, cuuint32_t rank, void *address,
					      const cuuint64_t *dim, const cuuint64_t *strides, const int *lower,
					      const int *upper, cuuint32_t channels, cuuint32_t pixels,
					      const cuuint32_t *steps, int interleave, int swizzle, int promotion,
					      int fill)
{
	vcuda_tensor t = {.kind = VCUDA_TENSOR_IM2COL,
			  .type = type,
			  .rank = rank,
			  .channels = channels,
			  .pixels = pixels,
			  .interleave = interleave,
			  .swizzle = swizzle,
			  .promotion = promotion,
			  .fill = fill};
	CUresult result = check(map);

	if (result != CUDA_SUCCESS)
		return result;
	if (rank < 3 || !lower || !upper || !describe(&t, address, dim, strides, steps))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(t.lower, lower, (rank - 2) * sizeof(*lower));
	memcpy(t.upper, upper, (rank - 2) * sizeof(*upper));
	return encode(map, &t);
}

VCUDA_EXPORT CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, int type, cuuint32_t rank, void *address,
						  const cuuint64_t *dim, const cuuint64_t *strides, int lower,
						  int upper, cuuint32_t channels, cuuint32_t pixels,
						  const cuuint32_t *steps, int interleave, int mode, int swizzle,
						  int promotion, int fill)
{
	vcuda_tensor t = {.kind = VCUDA_TENSOR_IM2COL_WIDE,
			  .type = type,
			  .rank = rank,
			  .lower = {lower},
			  .upper = {upper},
			  .channels = channels,
			  .pixels = pixels,
			  .interleave = interleave,
			  .mode = mode,
			  .swizzle = swizzle,
			  .promotion = promotion,
			  .fill = fill};
	CUresult result = check(map);

	if (result != CUDA_SUCCESS)
		return result;
	if (!describe(&t, address, dim, strides, steps))
		return CUDA_ERROR_INVALID_VALUE;
	return encode(map, &t);
}

VCUDA_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
	CUresult result = check(map);
	vcuda_tensor_map made, before;

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&before, map, sizeof(before));
	result = vcuda_call_vcudaTensorReplaceAddress(before, (uintptr_t)address, &made);
	if (result == CUDA_SUCCESS)
		memcpy(map, &made, sizeof(made));
	return result;
}

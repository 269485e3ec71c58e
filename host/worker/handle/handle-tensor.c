/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: what a GPU's memory accelerator is told of tensors. Only numbers go in and only a kernel uses what comes
 * out, with the rights that it has anyway.
 */
#include <string.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

static CUresult encode(struct worker_session *s, vcuda_tensor *t, CUtensorMap *map)
{
	const struct vcuda_backend_ops *ops = s->ops;
	void *address = (void *)(uintptr_t)t->address;

	switch (t->kind) {
	case VCUDA_TENSOR_TILED:
		if (!ops->cuTensorMapEncodeTiled)
			return worker_unsupported(s, VCUDA_OP_vcudaTensorEncode);
		return ops->cuTensorMapEncodeTiled(map, t->type, t->rank, address, t->dim, t->strides, t->box, t->steps,
						   t->interleave, t->swizzle, t->promotion, t->fill);
	case VCUDA_TENSOR_IM2COL:
		if (!ops->cuTensorMapEncodeIm2col)
			return worker_unsupported(s, VCUDA_OP_vcudaTensorEncode);
		return ops->cuTensorMapEncodeIm2col(map, t->type, t->rank, address, t->dim, t->strides, t->lower, t->upper,
						    t->channels, t->pixels, t->steps, t->interleave, t->swizzle,
						    t->promotion, t->fill);
	case VCUDA_TENSOR_IM2COL_WIDE:
		if (!ops->cuTensorMapEncodeIm2colWide)
			return worker_unsupported(s, VCUDA_OP_vcudaTensorEncode);
		return ops->cuTensorMapEncodeIm2colWide(map, t->type, t->rank, address, t->dim, t->strides, t->lower[0],
							t->upper[0], t->channels, t->pixels, t->steps, t->interleave,
							t->mode, t->swizzle, t->promotion, t->fill);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult vcuda_handle_vcudaTensorEncode(struct worker_session *s, struct vcuda_args_vcudaTensorEncode *a)
{
	CUtensorMap map;
	CUresult result;

	if (!a->tensor.rank || a->tensor.rank > VCUDA_TENSOR_RANK)
		return CUDA_ERROR_INVALID_VALUE;
	result = encode(s, &a->tensor, &map);
	if (result == CUDA_SUCCESS)
		memcpy(&a->map, &map, sizeof(map));
	return result;
}

CUresult vcuda_handle_vcudaTensorReplaceAddress(struct worker_session *s, struct vcuda_args_vcudaTensorReplaceAddress *a)
{
	CUtensorMap map;
	CUresult result;

	if (!s->ops->cuTensorMapReplaceAddress)
		return worker_unsupported(s, VCUDA_OP_vcudaTensorReplaceAddress);
	memcpy(&map, &a->before, sizeof(map));
	result = s->ops->cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)a->address);
	if (result == CUDA_SUCCESS)
		memcpy(&a->map, &map, sizeof(map));
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: texture and surface references of a driver that has them. The guest keeps what was said of a reference and
 * says it all again at each change, so that it has no id of its own: it is its module's, by name.
 */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "handle/resource.h"
#include "session/session.h"

static bool has_border(const CUDA_TEXTURE_DESC *t)
{
	return t->addressMode[0] == CU_TR_ADDRESS_MODE_BORDER || t->addressMode[1] == CU_TR_ADDRESS_MODE_BORDER ||
	       t->addressMode[2] == CU_TR_ADDRESS_MODE_BORDER;
}

static CUresult set_mipmaps(const struct vcuda_backend_ops *ops, void *ref, const CUDA_TEXTURE_DESC *t)
{
	CUresult result = ops->cuTexRefSetMipmapFilterMode(ref, (int)t->mipmapFilterMode);

	if (result == CUDA_SUCCESS)
		result = ops->cuTexRefSetMipmapLevelBias(ref, t->mipmapLevelBias);
	if (result == CUDA_SUCCESS)
		result = ops->cuTexRefSetMipmapLevelClamp(ref, t->minMipmapLevelClamp, t->maxMipmapLevelClamp);
	return result;
}

static CUresult set_sampling(const struct vcuda_backend_ops *ops, void *ref, CUDA_TEXTURE_DESC *t)
{
	CUresult result = ops->cuTexRefSetFlags(ref, t->flags);

	for (int i = 0; i < 3 && result == CUDA_SUCCESS; i++)
		result = ops->cuTexRefSetAddressMode(ref, i, (int)t->addressMode[i]);
	if (result == CUDA_SUCCESS)
		result = ops->cuTexRefSetFilterMode(ref, (int)t->filterMode);
	if (result == CUDA_SUCCESS && t->maxAnisotropy)
		result = ops->cuTexRefSetMaxAnisotropy(ref, t->maxAnisotropy);
	if (result == CUDA_SUCCESS && has_border(t) && ops->cuTexRefSetBorderColor)
		result = ops->cuTexRefSetBorderColor(ref, t->borderColor);
	return result;
}

static CUresult set_linear(const struct vcuda_backend_ops *ops, void *ref, const CUDA_RESOURCE_DESC *r)
{
	CUresult result = ops->cuTexRefSetFormat(ref, (int)r->res.linear.format, (int)r->res.linear.numChannels);
	size_t offset;

	if (result != CUDA_SUCCESS)
		return result;
	return ops->cuTexRefSetAddress_v2(&offset, ref, r->res.linear.devPtr, r->res.linear.sizeInBytes);
}

static CUresult set_resource(const struct vcuda_backend_ops *ops, void *ref, const CUDA_RESOURCE_DESC *r)
{
	CUDA_ARRAY_DESCRIPTOR flat;

	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return ops->cuTexRefSetArray(ref, r->res.array.hArray, CU_TRSA_OVERRIDE_FORMAT);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return ops->cuTexRefSetMipmappedArray(ref, r->res.mipmap.hMipmappedArray, CU_TRSA_OVERRIDE_FORMAT);
	case CU_RESOURCE_TYPE_LINEAR:
		return set_linear(ops, ref, r);
	default:
		flat = (CUDA_ARRAY_DESCRIPTOR){r->res.pitch2D.width, r->res.pitch2D.height, r->res.pitch2D.format,
					       r->res.pitch2D.numChannels};
		return ops->cuTexRefSetAddress2D_v3(ref, &flat, r->res.pitch2D.devPtr, r->res.pitch2D.pitchInBytes);
	}
}

static bool has_textures(const struct vcuda_backend_ops *ops)
{
	return ops->cuModuleGetTexRef && ops->cuTexRefSetFlags && ops->cuTexRefSetAddressMode &&
	       ops->cuTexRefSetFilterMode && ops->cuTexRefSetMaxAnisotropy && ops->cuTexRefSetMipmapFilterMode &&
	       ops->cuTexRefSetMipmapLevelBias && ops->cuTexRefSetMipmapLevelClamp && ops->cuTexRefSetFormat &&
	       ops->cuTexRefSetAddress_v2 && ops->cuTexRefSetAddress2D_v3 && ops->cuTexRefSetArray &&
	       ops->cuTexRefSetMipmappedArray;
}

CUresult vcuda_handle_vcudaReferenceFind(struct worker_session *s, struct vcuda_args_vcudaReferenceFind *a)
{
	void *ref;

	if (!has_textures(s->ops) || !s->ops->cuModuleGetSurfRef)
		return worker_unsupported(s, VCUDA_OP_vcudaReferenceFind);
	return a->surface ? s->ops->cuModuleGetSurfRef(&ref, a->hmod, a->name)
			  : s->ops->cuModuleGetTexRef(&ref, a->hmod, a->name);
}

CUresult vcuda_handle_vcudaTextureBind(struct worker_session *s, struct vcuda_args_vcudaTextureBind *a)
{
	CUDA_RESOURCE_DESC resource;
	CUresult result;
	void *ref;

	if (!has_textures(s->ops))
		return worker_unsupported(s, VCUDA_OP_vcudaTextureBind);
	result = worker_resource_resolve(s, &a->resource, &resource);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuModuleGetTexRef(&ref, a->hmod, a->name);
	if (result == CUDA_SUCCESS)
		result = set_sampling(s->ops, ref, &a->descriptor);
	if (result == CUDA_SUCCESS && resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		result = set_mipmaps(s->ops, ref, &a->descriptor);
	return result == CUDA_SUCCESS ? set_resource(s->ops, ref, &resource) : result;
}

CUresult vcuda_handle_vcudaSurfaceBind(struct worker_session *s, struct vcuda_args_vcudaSurfaceBind *a)
{
	CUresult result;
	void *ref;

	if (!s->ops->cuModuleGetSurfRef || !s->ops->cuSurfRefSetArray)
		return worker_unsupported(s, VCUDA_OP_vcudaSurfaceBind);
	if (!a->array)
		return CUDA_ERROR_INVALID_HANDLE;
	result = s->ops->cuModuleGetSurfRef(&ref, a->hmod, a->name);
	return result == CUDA_SUCCESS ? s->ops->cuSurfRefSetArray(ref, a->array, 0) : result;
}

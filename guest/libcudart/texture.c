/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface objects: the runtime's descriptions to the driver's, and back. */
#include <string.h>

#include "array.h"
#include "texture.h"

_Static_assert(sizeof(struct cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC), "the two APIs share views");

static cudaError_t to_driver(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *d)
{
	memset(d, 0, sizeof(*d));
	d->resType = (CUresourcetype)r->resType;
	d->flags = r->flags;
	switch (r->resType) {
	case cudaResourceTypeArray:
		d->res.array.hArray = cudart_array(r->res.array.array);
		return cudaSuccess;
	case cudaResourceTypeMipmappedArray:
		d->res.mipmap.hMipmappedArray = cudart_mipmapped(r->res.mipmap.mipmap);
		return cudaSuccess;
	case cudaResourceTypeLinear:
		d->res.linear.devPtr = cudart_address(r->res.linear.devPtr);
		d->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
		return cudart_format(&r->res.linear.desc, &d->res.linear.format, &d->res.linear.numChannels);
	case cudaResourceTypePitch2D:
		d->res.pitch2D.devPtr = cudart_address(r->res.pitch2D.devPtr);
		d->res.pitch2D.width = r->res.pitch2D.width;
		d->res.pitch2D.height = r->res.pitch2D.height;
		d->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
		return cudart_format(&r->res.pitch2D.desc, &d->res.pitch2D.format, &d->res.pitch2D.numChannels);
	}
	return cudaErrorInvalidValue;
}

static cudaError_t from_driver(const CUDA_RESOURCE_DESC *d, struct cudaResourceDesc *r)
{
	memset(r, 0, sizeof(*r));
	r->resType = (enum cudaResourceType)d->resType;
	r->flags = d->flags;
	switch (d->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		r->res.array.array = (cudaArray_t)d->res.array.hArray;
		return cudaSuccess;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		r->res.mipmap.mipmap = (cudaMipmappedArray_t)d->res.mipmap.hMipmappedArray;
		return cudaSuccess;
	case CU_RESOURCE_TYPE_LINEAR:
		r->res.linear.devPtr = (void *)(uintptr_t)d->res.linear.devPtr;
		r->res.linear.sizeInBytes = d->res.linear.sizeInBytes;
		return cudart_channel_desc(d->res.linear.format, d->res.linear.numChannels, &r->res.linear.desc);
	case CU_RESOURCE_TYPE_PITCH2D:
		r->res.pitch2D.devPtr = (void *)(uintptr_t)d->res.pitch2D.devPtr;
		r->res.pitch2D.width = d->res.pitch2D.width;
		r->res.pitch2D.height = d->res.pitch2D.height;
		r->res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
		return cudart_channel_desc(d->res.pitch2D.format, d->res.pitch2D.numChannels, &r->res.pitch2D.desc);
	}
	return cudaErrorInvalidValue;
}

/* The runtime's flags are fields. */
static CUDA_TEXTURE_DESC sampling_to_driver(const struct cudaTextureDesc *t)
{
	CUDA_TEXTURE_DESC d = {
		.filterMode = (CUfilter_mode)t->filterMode,
		.maxAnisotropy = t->maxAnisotropy,
		.mipmapFilterMode = (CUfilter_mode)t->mipmapFilterMode,
		.mipmapLevelBias = t->mipmapLevelBias,
		.minMipmapLevelClamp = t->minMipmapLevelClamp,
		.maxMipmapLevelClamp = t->maxMipmapLevelClamp,
	};

	for (int n = 0; n < 3; n++)
		d.addressMode[n] = (CUaddress_mode)t->addressMode[n];
	memcpy(d.borderColor, t->borderColor, sizeof(d.borderColor));
	if (t->readMode == cudaReadModeElementType)
		d.flags |= CU_TRSF_READ_AS_INTEGER;
	if (t->normalizedCoords)
		d.flags |= CU_TRSF_NORMALIZED_COORDINATES;
	if (t->sRGB)
		d.flags |= CU_TRSF_SRGB;
	if (t->disableTrilinearOptimization)
		d.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
	if (t->seamlessCubemap)
		d.flags |= CU_TRSF_SEAMLESS_CUBEMAP;
	return d;
}

static void sampling_from_driver(const CUDA_TEXTURE_DESC *d, struct cudaTextureDesc *t)
{
	*t = (struct cudaTextureDesc){
		.filterMode = (enum cudaTextureFilterMode)d->filterMode,
		.readMode = d->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat,
		.sRGB = !!(d->flags & CU_TRSF_SRGB),
		.normalizedCoords = !!(d->flags & CU_TRSF_NORMALIZED_COORDINATES),
		.maxAnisotropy = d->maxAnisotropy,
		.mipmapFilterMode = (enum cudaTextureFilterMode)d->mipmapFilterMode,
		.mipmapLevelBias = d->mipmapLevelBias,
		.minMipmapLevelClamp = d->minMipmapLevelClamp,
		.maxMipmapLevelClamp = d->maxMipmapLevelClamp,
		.disableTrilinearOptimization = !!(d->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION),
		.seamlessCubemap = !!(d->flags & CU_TRSF_SEAMLESS_CUBEMAP),
	};
	for (int n = 0; n < 3; n++)
		t->addressMode[n] = (enum cudaTextureAddressMode)d->addressMode[n];
	memcpy(t->borderColor, d->borderColor, sizeof(t->borderColor));
}

/* False: the driver has to say what is wrong with the resource. */
static bool format_of(const CUDA_RESOURCE_DESC *r, CUarray_format *format)
{
	CUarray array = r->res.array.hArray;
	CUDA_ARRAY3D_DESCRIPTOR a;
	size_t element;

	switch (r->resType) {
	case CU_RESOURCE_TYPE_LINEAR:
		*format = r->res.linear.format;
		return true;
	case CU_RESOURCE_TYPE_PITCH2D:
		*format = r->res.pitch2D.format;
		return true;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		if (cuMipmappedArrayGetLevel(&array, r->res.mipmap.hMipmappedArray, 0) != CUDA_SUCCESS)
			return false;
		break;
	case CU_RESOURCE_TYPE_ARRAY:
		break;
	default:
		return false;
	}
	if (cudart_array_info((cudaArray_const_t)array, &a, &element))
		return false;
	*format = a.Format;
	return true;
}

/*
 * Texels that are filtered must be floats afterwards, and those that become fractions of 1 must be integers of 8 or 16
 * bits. NVIDIA's runtime checks the filter first.
 */
static cudaError_t check_modes(const CUDA_RESOURCE_DESC *r, const struct cudaTextureDesc *t)
{
	CUarray_format format;
	bool floats, wide;

	if (!format_of(r, &format))
		return cudaSuccess;
	floats = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT;
	wide = format == CU_AD_FORMAT_SIGNED_INT32 || format == CU_AD_FORMAT_UNSIGNED_INT32;
	if (t->filterMode == cudaFilterModeLinear && (wide || (t->readMode == cudaReadModeElementType && !floats)))
		return cudaErrorInvalidFilterSetting;
	if (t->readMode == cudaReadModeNormalizedFloat && (wide || floats))
		return cudaErrorInvalidNormSetting;
	return cudaSuccess;
}

cudaError_t cudart_create_texture(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
				  const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view)
{
	CUDA_RESOURCE_VIEW_DESC driver_view;
	CUDA_RESOURCE_DESC r;
	CUDA_TEXTURE_DESC t;
	cudaError_t error = cudart_enter();

	if (!error)
		error = to_driver(resource, &r);
	if (!error)
		error = check_modes(&r, texture);
	if (error)
		return error;
	t = sampling_to_driver(texture);
	if (view)
		memcpy(&driver_view, view, sizeof(driver_view));
	return (cudaError_t)cuTexObjectCreate(object, &r, &t, view ? &driver_view : NULL);
}

CUDART_API cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
					       const struct cudaTextureDesc *texture,
					       const struct cudaResourceViewDesc *view)
{
	if (!object || !resource || !texture)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(cudart_create_texture(object, resource, texture, view));
}

cudaError_t cudart_texture_resource(struct cudaResourceDesc *resource, cudaTextureObject_t object)
{
	CUDA_RESOURCE_DESC r;
	cudaError_t error = cudart_enter();

	if (!error)
		error = (cudaError_t)cuTexObjectGetResourceDesc(&r, object);
	return error ? error : from_driver(&r, resource);
}

CUDART_API cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource, cudaTextureObject_t object)
{
	return cudart_record(resource ? cudart_texture_resource(resource, object) : cudaErrorInvalidValue);
}

cudaError_t cudart_texture_sampling(struct cudaTextureDesc *texture, cudaTextureObject_t object)
{
	CUDA_TEXTURE_DESC t;
	cudaError_t error = cudart_enter();

	if (!error)
		error = (cudaError_t)cuTexObjectGetTextureDesc(&t, object);
	if (!error)
		sampling_from_driver(&t, texture);
	return error;
}

CUDART_API cudaError_t cudaGetTextureObjectTextureDesc_v2(struct cudaTextureDesc *texture, cudaTextureObject_t object)
{
	return cudart_record(texture ? cudart_texture_sampling(texture, object) : cudaErrorInvalidValue);
}

cudaError_t cudart_texture_view(struct cudaResourceViewDesc *view, cudaTextureObject_t object)
{
	CUDA_RESOURCE_VIEW_DESC v;
	cudaError_t error = cudart_enter();

	if (!error)
		error = (cudaError_t)cuTexObjectGetResourceViewDesc(&v, object);
	if (!error)
		memcpy(view, &v, sizeof(*view));
	return error;
}

CUDART_API cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *view,
							    cudaTextureObject_t object)
{
	return cudart_record(view ? cudart_texture_view(view, object) : cudaErrorInvalidValue);
}

cudaError_t cudart_create_surface(cudaSurfaceObject_t *object, const struct cudaResourceDesc *resource)
{
	CUDA_RESOURCE_DESC r;
	cudaError_t error = cudart_enter();

	if (!error)
		error = to_driver(resource, &r);
	return error ? error : (cudaError_t)cuSurfObjectCreate(object, &r);
}

CUDART_API cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const struct cudaResourceDesc *resource)
{
	if (!object || !resource)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(cudart_create_surface(object, resource));
}

cudaError_t cudart_surface_resource(struct cudaResourceDesc *resource, cudaSurfaceObject_t object)
{
	CUDA_RESOURCE_DESC r;
	cudaError_t error = cudart_enter();

	if (!error)
		error = (cudaError_t)cuSurfObjectGetResourceDesc(&r, object);
	return error ? error : from_driver(&r, resource);
}

CUDART_API cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource, cudaSurfaceObject_t object)
{
	return cudart_record(resource ? cudart_surface_resource(resource, object) : cudaErrorInvalidValue);
}

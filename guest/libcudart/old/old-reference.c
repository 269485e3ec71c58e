/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references, which CUDA 12 dropped: variables of the program that kernels name and the host binds
 * memory to. The driver's do the work. An object of today's kind is made and dropped at once, for its checks and its
 * description in the driver's terms.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "array.h"
#include "register.h"
#include "texture.h"

/* The begin of a program's `texture<...>`, of CUDA 9 to 11. The first two lack disableTrilinearOptimization. */
struct texture_reference {
	int normalized;
	enum cudaTextureFilterMode filterMode;
	enum cudaTextureAddressMode addressMode[3];
	struct cudaChannelFormatDesc channelDesc;
	int sRGB;
	unsigned int maxAnisotropy;
	enum cudaTextureFilterMode mipmapFilterMode;
	float mipmapLevelBias;
	float minMipmapLevelClamp;
	float maxMipmapLevelClamp;
	int disableTrilinearOptimization;
	int reserved[14];
};

_Static_assert(sizeof(struct texture_reference) == 124, "as in NVIDIA's headers");

struct reference {
	bool surface;
	bool normalized_float; /* how a texture reads integers, from the type of the variable */
	_Atomic bool bound;
	size_t offset;
};

static void add_reference(void **handle, const void *host, const char *name, bool surface, bool normalized_float)
{
	struct symbol *symbol = cudart_add_symbol(handle, host, name, SYMBOL_REFERENCE);

	/* Without memory it cannot be bound, and binding says so. */
	symbol->reference = malloc(sizeof(*symbol->reference));
	if (symbol->reference)
		*symbol->reference = (struct reference){.surface = surface, .normalized_float = normalized_float};
}

/* `device` is the name in the device code, despite its type in NVIDIA's header; `name` is that in the source. */
CUDART_API void __cudaRegisterTexture(void **handle, const struct texture_reference *host, const char *device,
				      const char *name, int dimensions, int normalized_float, int ext)
{
	add_reference(handle, host, device, false, normalized_float);
}

CUDART_API void __cudaRegisterSurface(void **handle, const void *host, const char *device, const char *name,
				      int dimensions, int ext)
{
	add_reference(handle, host, device, true, false);
}

static struct symbol *find(const void *host, bool surface)
{
	struct symbol *symbol = symbol_find(host);

	if (!symbol || symbol->kind != SYMBOL_REFERENCE || !symbol->reference)
		return NULL;
	return symbol->reference->surface == surface ? symbol : NULL;
}

/* ---- textures ---- */

static cudaError_t find_texture(struct symbol *symbol, CUtexref *ref)
{
	CUmodule module;
	cudaError_t error = cudart_reference_module(symbol, &module);
	CUresult result;

	if (error)
		return error;
	result = cuModuleGetTexRef(ref, module, symbol->name);
	return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidTexture : (cudaError_t)result;
}

static CUresult set_sampling(CUtexref ref, const CUDA_TEXTURE_DESC *t)
{
	CUresult result = cuTexRefSetFlags(ref, t->flags);

	for (int n = 0; n < 3 && !result; n++)
		result = cuTexRefSetAddressMode(ref, n, t->addressMode[n]);
	if (!result)
		result = cuTexRefSetFilterMode(ref, t->filterMode);
	if (!result)
		result = cuTexRefSetMaxAnisotropy(ref, t->maxAnisotropy);
	if (!result)
		result = cuTexRefSetMipmapFilterMode(ref, t->mipmapFilterMode);
	if (!result)
		result = cuTexRefSetMipmapLevelBias(ref, t->mipmapLevelBias);
	return result ? result : cuTexRefSetMipmapLevelClamp(ref, t->minMipmapLevelClamp, t->maxMipmapLevelClamp);
}

static CUresult set_resource(CUtexref ref, const CUDA_RESOURCE_DESC *r)
{
	CUDA_ARRAY_DESCRIPTOR flat;
	CUresult result;

	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return cuTexRefSetArray(ref, r->res.array.hArray, CU_TRSA_OVERRIDE_FORMAT);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return cuTexRefSetMipmappedArray(ref, r->res.mipmap.hMipmappedArray, CU_TRSA_OVERRIDE_FORMAT);
	case CU_RESOURCE_TYPE_LINEAR:
		result = cuTexRefSetFormat(ref, r->res.linear.format, (int)r->res.linear.numChannels);
		if (result)
			return result;
		return cuTexRefSetAddress_v2(NULL, ref, r->res.linear.devPtr, r->res.linear.sizeInBytes);
	default:
		flat = (CUDA_ARRAY_DESCRIPTOR){r->res.pitch2D.width, r->res.pitch2D.height, r->res.pitch2D.format,
					       r->res.pitch2D.numChannels};
		return cuTexRefSetAddress2D_v3(ref, &flat, r->res.pitch2D.devPtr, r->res.pitch2D.pitchInBytes);
	}
}

/* As the object is. Unbound first: nothing in between is to be bound. */
static cudaError_t bind_as(struct symbol *symbol, cudaTextureObject_t object)
{
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUtexref ref;
	cudaError_t error = find_texture(symbol, &ref);
	CUresult result;

	if (error)
		return error;
	result = cuTexObjectGetResourceDesc(&resource, object);
	if (!result)
		result = cuTexObjectGetTextureDesc(&texture, object);
	if (!result)
		result = cuTexRefSetAddress_v2(NULL, ref, 0, 0);
	if (!result)
		result = set_sampling(ref, &texture);
	return (cudaError_t)(result ? result : set_resource(ref, &resource));
}

static cudaError_t bind_texture(const struct texture_reference *host, const struct cudaResourceDesc *resource,
				size_t offset)
{
	struct symbol *symbol = find(host, false);
	struct cudaTextureDesc texture;
	cudaTextureObject_t object;
	cudaError_t error;

	if (!symbol)
		return cudaErrorInvalidTexture;
	texture = (struct cudaTextureDesc){
		.addressMode = {host->addressMode[0], host->addressMode[1], host->addressMode[2]},
		.filterMode = host->filterMode,
		.readMode = symbol->reference->normalized_float ? cudaReadModeNormalizedFloat : cudaReadModeElementType,
		.sRGB = host->sRGB,
		.normalizedCoords = host->normalized,
		.maxAnisotropy = host->maxAnisotropy,
		.mipmapFilterMode = host->mipmapFilterMode,
		.mipmapLevelBias = host->mipmapLevelBias,
		.minMipmapLevelClamp = host->minMipmapLevelClamp,
		.maxMipmapLevelClamp = host->maxMipmapLevelClamp,
	};
	error = cudart_create_texture(&object, resource, &texture, NULL);
	if (error)
		return error;
	error = bind_as(symbol, object);
	cuTexObjectDestroy(object);
	if (error)
		return error;
	symbol->reference->offset = offset;
	symbol->reference->bound = true;
	return cudaSuccess;
}

/*
 * Rounds `address` down to the alignment of textures. *offset gets the difference. If `offset` is NULL, an unaligned
 * address is an error.
 */
static cudaError_t align(size_t *offset, const void *address, uintptr_t *aligned)
{
	CUdevice device;
	int alignment = 1;
	cudaError_t error = cudart_enter();

	if (!error)
		error = cudart_current_device(&device);
	if (!error)
		error = (cudaError_t)cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device);
	if (error)
		return error;
	*aligned = (uintptr_t)address / (unsigned int)alignment * (unsigned int)alignment;
	if (offset)
		*offset = (uintptr_t)address - *aligned;
	return offset || *aligned == (uintptr_t)address ? cudaSuccess : cudaErrorInvalidValue;
}

/* Programs may leave the size to be "all there is", which is UINT_MAX: the rest of the allocation, then. */
static cudaError_t bind_linear(size_t *offset, const struct texture_reference *texture, const void *address,
			       const struct cudaChannelFormatDesc *desc, size_t bytes)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear};
	uintptr_t aligned;
	CUdeviceptr base;
	size_t all;
	cudaError_t error;

	if (!texture || !address || !desc)
		return cudaErrorInvalidValue;
	error = align(offset, address, &aligned);
	if (!error)
		error = (cudaError_t)cuMemGetAddressRange_v2(&base, &all, cudart_address(address));
	if (error)
		return error;
	all -= (uintptr_t)address - base;
	resource.res.linear.devPtr = (void *)aligned;
	resource.res.linear.desc = *desc;
	resource.res.linear.sizeInBytes = (bytes < all ? bytes : all) + ((uintptr_t)address - aligned);
	return bind_texture(texture, &resource, (uintptr_t)address - aligned);
}

CUDART_API cudaError_t cudaBindTexture(size_t *offset, const struct texture_reference *texture, const void *address,
				       const struct cudaChannelFormatDesc *desc, size_t bytes)
{
	return cudart_record(bind_linear(offset, texture, address, desc, bytes));
}

CUDART_API cudaError_t cudaBindTexture2D(size_t *offset, const struct texture_reference *texture, const void *address,
					 const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
					 size_t pitch)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypePitch2D};
	uintptr_t aligned;

	if (!texture || !address || !desc)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(align(offset, address, &aligned));
	resource.res.pitch2D.devPtr = (void *)aligned;
	resource.res.pitch2D.desc = *desc;
	resource.res.pitch2D.width = width;
	resource.res.pitch2D.height = height;
	resource.res.pitch2D.pitchInBytes = pitch;
	return cudart_record(bind_texture(texture, &resource, (uintptr_t)address - aligned));
}

CUDART_API cudaError_t cudaBindTextureToArray(const struct texture_reference *texture, cudaArray_t array,
					      const struct cudaChannelFormatDesc *desc)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray, .res.array.array = array};

	if (!texture || !array || !desc)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(bind_texture(texture, &resource, 0));
}

CUDART_API cudaError_t cudaBindTextureToMipmappedArray(const struct texture_reference *texture,
						       cudaMipmappedArray_t array,
						       const struct cudaChannelFormatDesc *desc)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeMipmappedArray, .res.mipmap.mipmap = array};

	if (!texture || !array || !desc)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(bind_texture(texture, &resource, 0));
}

CUDART_API cudaError_t cudaUnbindTexture(const struct texture_reference *texture)
{
	struct symbol *symbol = find(texture, false);
	CUtexref ref;

	if (!symbol)
		return cudart_record(cudaErrorInvalidTexture);
	if (!symbol->reference->bound)
		return cudaSuccess;
	CUDART_TRY(cudart_enter());
	CUDART_TRY(find_texture(symbol, &ref));
	CUDART_TRY((cudaError_t)cuTexRefSetAddress_v2(NULL, ref, 0, 0));
	symbol->reference->bound = false;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const struct texture_reference *texture)
{
	struct symbol *symbol = find(texture, false);

	if (!offset)
		return cudart_record(cudaErrorInvalidValue);
	if (!symbol)
		return cudart_record(cudaErrorInvalidTexture);
	if (!symbol->reference->bound)
		return cudart_record(cudaErrorInvalidTextureBinding);
	*offset = symbol->reference->offset;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGetTextureReference(const struct texture_reference **texture, const void *symbol)
{
	if (!texture)
		return cudart_record(cudaErrorInvalidValue);
	if (!find(symbol, false))
		return cudart_record(cudaErrorInvalidTexture);
	*texture = symbol;
	return cudaSuccess;
}

/* ---- surfaces ---- */

CUDART_API cudaError_t cudaBindSurfaceToArray(const void *surface, cudaArray_const_t array,
					      const struct cudaChannelFormatDesc *desc)
{
	struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray, .res.array.array = (cudaArray_t)array};
	struct symbol *symbol = find(surface, true);
	cudaSurfaceObject_t object;
	CUDA_RESOURCE_DESC checked;
	cudaError_t error;
	CUmodule module;
	CUsurfref ref;

	if (!array || !desc)
		return cudart_record(cudaErrorInvalidValue);
	if (!symbol)
		return cudart_record(cudaErrorInvalidSurface);
	CUDART_TRY(cudart_create_surface(&object, &resource));
	error = (cudaError_t)cuSurfObjectGetResourceDesc(&checked, object);
	cuSurfObjectDestroy(object);
	if (!error)
		error = cudart_reference_module(symbol, &module);
	if (!error)
		error = (cudaError_t)cuModuleGetSurfRef(&ref, module, symbol->name);
	if (!error)
		error = (cudaError_t)cuSurfRefSetArray(ref, checked.res.array.hArray, 0);
	return cudart_record(error);
}

CUDART_API cudaError_t cudaGetSurfaceReference(const void **surface, const void *symbol)
{
	if (!surface)
		return cudart_record(cudaErrorInvalidValue);
	if (!find(symbol, true))
		return cudart_record(cudaErrorInvalidSurface);
	*surface = symbol;
	return cudaSuccess;
}

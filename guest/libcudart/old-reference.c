/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references, which CUDA 12 dropped: variables of the program that kernels name and the host binds
 * memory to. Binding makes an object of today's kind. On the software GPU a reference is a variable of the device code
 * that holds the object's handle (ptx-parse-body.c), so that the driver needs to know nothing else; a real GPU has no
 * such variable, and there binding is refused.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "register.h"
#include "texture.h"

/* What a program's `texture<...>` begins with. Of CUDA 9 to 11; the first two lack disableTrilinearOptimization. */
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
	bool normalized_float;     /* how integers are read, which is in the type of the variable */
	unsigned long long object; /* 0: not bound */
	size_t offset;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

static cudaError_t destroy(const struct reference *reference, unsigned long long object)
{
	if (!object)
		return cudaSuccess;
	return (cudaError_t)(reference->surface ? cuSurfObjectDestroy(object) : cuTexObjectDestroy(object));
}

/*
 * Binds to an object, or to none, and ends the one before. Launches take what is bound when they are made; here kernels
 * look when they run, so those that were launched are waited for.
 */
static cudaError_t rebind(struct symbol *symbol, unsigned long long object, size_t offset)
{
	struct reference *reference = symbol->reference;
	unsigned long long before;
	CUdeviceptr address;
	cudaError_t error = cudart_reference_address(symbol, &address);

	if (error == cudaErrorInvalidSymbol) {
		fprintf(stderr, "vcuda: %s cannot be bound: a real GPU takes texture and surface objects only\n",
			symbol->name);
		error = cudaErrorNotSupported;
	}
	if (!error)
		error = (cudaError_t)cuCtxSynchronize();
	if (error)
		return error;
	pthread_mutex_lock(&lock);
	before = reference->object;
	error = (cudaError_t)cuMemcpyHtoD_v2(address, &object, sizeof(object));
	if (!error) {
		reference->object = object;
		reference->offset = offset;
	}
	pthread_mutex_unlock(&lock);
	return error ? error : destroy(reference, before);
}

/* ---- textures ---- */

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
	error = rebind(symbol, object, offset);
	if (error)
		cuTexObjectDestroy(object);
	return error;
}

/* Textures begin at aligned addresses: what lies before `address` the program is told, or it is an error. */
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

	if (!symbol)
		return cudart_record(cudaErrorInvalidTexture);
	if (!symbol->reference->object)
		return cudaSuccess;
	CUDART_TRY(cudart_enter());
	return cudart_record(rebind(symbol, 0, 0));
}

CUDART_API cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const struct texture_reference *texture)
{
	struct symbol *symbol = find(texture, false);

	if (!offset)
		return cudart_record(cudaErrorInvalidValue);
	if (!symbol)
		return cudart_record(cudaErrorInvalidTexture);
	if (!symbol->reference->object)
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
	cudaError_t error;

	if (!array || !desc)
		return cudart_record(cudaErrorInvalidValue);
	if (!symbol)
		return cudart_record(cudaErrorInvalidSurface);
	CUDART_TRY(cudart_create_surface(&object, &resource));
	error = rebind(symbol, object, 0);
	if (error)
		cuSurfObjectDestroy(object);
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

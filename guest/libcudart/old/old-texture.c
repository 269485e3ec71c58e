/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptions of textures and surfaces of CUDA 9 to 12. They begin as today's do: CUDA 13 has put reserved bytes
 * and flags behind resources and views, CUDA 12 and 11 one member each behind the way of sampling.
 */
#include <string.h>

#include "runtime.h"
#include "texture.h"

#define RESOURCE_BYTES 64
#define VIEW_BYTES offsetof(struct cudaResourceViewDesc, reserved)
#define SAMPLING_BYTES_12 sizeof(struct cudaTextureDesc)
#define SAMPLING_BYTES_11 offsetof(struct cudaTextureDesc, seamlessCubemap)
#define SAMPLING_BYTES_10 offsetof(struct cudaTextureDesc, disableTrilinearOptimization)

_Static_assert(VIEW_BYTES == 48 && SAMPLING_BYTES_12 == 72 && SAMPLING_BYTES_11 == 68 && SAMPLING_BYTES_10 == 64,
	       "as they were");

static cudaError_t create_texture(cudaTextureObject_t *object, const void *resource, const void *texture,
				  size_t texture_bytes, const void *view)
{
	struct cudaResourceDesc r = {0};
	struct cudaTextureDesc t = {0};
	struct cudaResourceViewDesc v = {0};

	if (!object || !resource || !texture)
		return cudaErrorInvalidValue;
	memcpy(&r, resource, RESOURCE_BYTES);
	memcpy(&t, texture, texture_bytes);
	if (view)
		memcpy(&v, view, VIEW_BYTES);
	return cudart_create_texture(object, &r, &t, view ? &v : NULL);
}

CUDART_API cudaError_t cudaCreateTextureObject_12(cudaTextureObject_t *object, const void *resource,
						  const void *texture, const void *view)
{
	return cudart_record(create_texture(object, resource, texture, SAMPLING_BYTES_12, view));
}

CUDART_API cudaError_t cudaCreateTextureObject_11(cudaTextureObject_t *object, const void *resource,
						  const void *texture, const void *view)
{
	return cudart_record(create_texture(object, resource, texture, SAMPLING_BYTES_11, view));
}

CUDART_API cudaError_t cudaCreateTextureObject_10(cudaTextureObject_t *object, const void *resource,
						  const void *texture, const void *view)
{
	return cudart_record(create_texture(object, resource, texture, SAMPLING_BYTES_10, view));
}

static cudaError_t get_sampling(void *texture, size_t bytes, cudaTextureObject_t object)
{
	struct cudaTextureDesc now;
	cudaError_t error = texture ? cudart_texture_sampling(&now, object) : cudaErrorInvalidValue;

	if (!error)
		memcpy(texture, &now, bytes);
	return error;
}

CUDART_API cudaError_t cudaGetTextureObjectTextureDesc_11(void *texture, cudaTextureObject_t object)
{
	return cudart_record(get_sampling(texture, SAMPLING_BYTES_11, object));
}

CUDART_API cudaError_t cudaGetTextureObjectTextureDesc_10(void *texture, cudaTextureObject_t object)
{
	return cudart_record(get_sampling(texture, SAMPLING_BYTES_10, object));
}

CUDART_API cudaError_t cudaGetTextureObjectResourceDesc_12(void *resource, cudaTextureObject_t object)
{
	struct cudaResourceDesc now;

	if (!resource)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_texture_resource(&now, object));
	memcpy(resource, &now, RESOURCE_BYTES);
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGetTextureObjectResourceViewDesc_12(void *view, cudaTextureObject_t object)
{
	struct cudaResourceViewDesc now;

	if (!view)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_texture_view(&now, object));
	memcpy(view, &now, VIEW_BYTES);
	return cudaSuccess;
}

CUDART_API cudaError_t cudaCreateSurfaceObject_12(cudaSurfaceObject_t *object, const void *resource)
{
	struct cudaResourceDesc r = {0};

	if (!object || !resource)
		return cudart_record(cudaErrorInvalidValue);
	memcpy(&r, resource, RESOURCE_BYTES);
	return cudart_record(cudart_create_surface(object, &r));
}

CUDART_API cudaError_t cudaGetSurfaceObjectResourceDesc_12(void *resource, cudaSurfaceObject_t object)
{
	struct cudaResourceDesc now;

	if (!resource)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_surface_resource(&now, object));
	memcpy(resource, &now, RESOURCE_BYTES);
	return cudaSuccess;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects. Their values are the device's, because kernels use them; what destroys one is the
 * worker's id for it. How they were made is kept here for queries. Values of one context may be those of another.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "memory/array.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "texture/texture.h"

#define BUCKETS 256

struct texture {
	unsigned long long object;
	bool surface;
	struct libcuda_context *context;
	uint64_t generation; /* the context's, when it was made */
	void *id;            /* the worker's: a vcuda_texture or vcuda_surface */
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC descriptor;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
	struct texture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct texture *buckets[BUCKETS];

static struct texture **bucket_of(unsigned long long object)
{
	return &buckets[(object * 0x9e3779b97f4a7c15ull) >> 56];
}

/* Finds the current context's object, and frees entries of ended generations on the way. */
static struct texture **find_locked(unsigned long long object, bool surface)
{
	struct libcuda_context *c = libcuda_context_current();
	struct texture **at = bucket_of(object), *t;

	while ((t = *at)) {
		if (t->generation != atomic_load(&t->context->generation)) {
			*at = t->next;
			free(t);
		} else if (t->object == object && t->surface == surface && t->context == c) {
			break;
		} else {
			at = &t->next;
		}
	}
	return at;
}

/* Takes the record over. */
static void add(struct texture *t)
{
	struct texture **at;

	t->context = libcuda_context_current();
	t->generation = atomic_load(&t->context->generation);
	pthread_mutex_lock(&lock);
	at = bucket_of(t->object);
	t->next = *at;
	*at = t;
	pthread_mutex_unlock(&lock);
}

static bool copy_out(unsigned long long object, bool surface, struct texture *to)
{
	struct texture *t;

	pthread_mutex_lock(&lock);
	t = *find_locked(object, surface);
	if (t)
		*to = *t;
	pthread_mutex_unlock(&lock);
	return t;
}

static bool take(unsigned long long object, bool surface, struct texture *to)
{
	struct texture **at, *t;

	pthread_mutex_lock(&lock);
	at = find_locked(object, surface);
	t = *at;
	if (t) {
		*to = *t;
		*at = t->next;
		free(t);
	}
	pthread_mutex_unlock(&lock);
	return t;
}

CUresult libcuda_texture_resource(const CUDA_RESOURCE_DESC *d, vcuda_resource *r)
{
	*r = (vcuda_resource){.type = d->resType, .flags = d->flags};
	if (d->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (d->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		r->array = (uintptr_t)d->res.array.hArray;
		return libcuda_array_find(d->res.array.hArray) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		r->array = (uintptr_t)d->res.mipmap.hMipmappedArray;
		return libcuda_object_find(LIBCUDA_OBJECT_MIPMAPPED, d->res.mipmap.hMipmappedArray)
			       ? CUDA_SUCCESS
			       : CUDA_ERROR_INVALID_HANDLE;
	case CU_RESOURCE_TYPE_LINEAR:
		r->address = d->res.linear.devPtr;
		r->format = d->res.linear.format;
		r->channels = d->res.linear.numChannels;
		r->bytes = d->res.linear.sizeInBytes;
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		r->address = d->res.pitch2D.devPtr;
		r->format = d->res.pitch2D.format;
		r->channels = d->res.pitch2D.numChannels;
		r->width = d->res.pitch2D.width;
		r->height = d->res.pitch2D.height;
		r->pitch = d->res.pitch2D.pitchInBytes;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return libcuda_texel_bytes((CUarray_format)r->format, r->channels) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *resource,
					const CUDA_TEXTURE_DESC *descriptor, const CUDA_RESOURCE_VIEW_DESC *view)
{
	CUresult result = libcuda_require_context();
	static const CUDA_RESOURCE_VIEW_DESC no_view;
	vcuda_texture id;
	vcuda_resource r;
	struct texture *t;

	if (result != CUDA_SUCCESS)
		return result;
	if (!object || !resource || !descriptor)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_texture_resource(resource, &r);
	if (result != CUDA_SUCCESS)
		return result;
	t = calloc(1, sizeof(*t));
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaTextureCreate(&id, object, r, *descriptor, view != NULL, view ? *view : no_view);
	if (result != CUDA_SUCCESS) {
		free(t);
		return result;
	}
	t->object = *object;
	t->id = id;
	t->resource = *resource;
	t->descriptor = *descriptor;
	t->has_view = view;
	t->view = view ? *view : no_view;
	add(t);
	return CUDA_SUCCESS;
}

/* As the driver does (doc/reference/driver-behaviour.md): what is no object is destroyed without a word. */
VCUDA_EXPORT CUresult cuTexObjectDestroy(CUtexObject object)
{
	CUresult result = libcuda_require_context();
	struct texture t;

	if (result != CUDA_SUCCESS)
		return result;
	return take(object, false, &t) ? vcuda_call_vcudaTextureDestroy(t.id) : CUDA_SUCCESS;
}

static CUresult find(unsigned long long object, bool surface, const void *to, struct texture *t)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	return to && copy_out(object, surface, t) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject object)
{
	struct texture t;
	CUresult result = find(object, false, resource, &t);

	if (result == CUDA_SUCCESS)
		*resource = t.resource;
	return result;
}

VCUDA_EXPORT CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *descriptor, CUtexObject object)
{
	struct texture t;
	CUresult result = find(object, false, descriptor, &t);

	if (result == CUDA_SUCCESS)
		*descriptor = t.descriptor;
	return result;
}

VCUDA_EXPORT CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view, CUtexObject object)
{
	struct texture t;
	CUresult result = find(object, false, view, &t);

	if (result == CUDA_SUCCESS && !t.has_view)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*view = t.view;
	return result;
}

VCUDA_EXPORT CUresult cuSurfObjectCreate(CUsurfObject *object, const CUDA_RESOURCE_DESC *resource)
{
	CUresult result = libcuda_require_context();
	vcuda_surface id;
	vcuda_resource r;
	struct texture *t;

	if (result != CUDA_SUCCESS)
		return result;
	if (!object || !resource || resource->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_texture_resource(resource, &r);
	if (result != CUDA_SUCCESS)
		return result;
	t = calloc(1, sizeof(*t));
	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaSurfaceCreate(&id, object, r);
	if (result != CUDA_SUCCESS) {
		free(t);
		return result;
	}
	t->object = *object;
	t->surface = true;
	t->id = id;
	t->resource = *resource;
	add(t);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuSurfObjectDestroy(CUsurfObject object)
{
	CUresult result = libcuda_require_context();
	struct texture t;

	if (result != CUDA_SUCCESS)
		return result;
	return take(object, true, &t) ? vcuda_call_vcudaSurfaceDestroy(t.id) : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject object)
{
	struct texture t;
	CUresult result = find(object, true, resource, &t);

	if (result == CUDA_SUCCESS)
		*resource = t.resource;
	return result;
}

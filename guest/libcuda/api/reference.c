/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references, which CUDA 12 dropped but its driver still has: variables of a module that kernels
 * name and the program binds memory to. The settings of a reference are kept here. Each change sends all settings to
 * NVIDIA's driver. On the software GPU a reference is a variable of the device code that holds the handle of a texture
 * or surface object (ptx-parse-body.c). A change makes a new object.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/init.h"
#include "core/request.h"
#include "memory/array.h"
#include "module/function.h"
#include "core/context.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "guest/client/session.h"
#include "texture/texture.h"

struct reference {
	struct reference *next;
	CUmodule module;
	char *name;
	bool surface, bound;
	CUDA_RESOURCE_DESC resource; /* if it is bound */
	CUDA_TEXTURE_DESC texture;
	CUarray_format format; /* of linear memory, which may be bound before this is said */
	unsigned int channels;
	CUdeviceptr variable; /* the software GPU's */
	unsigned long long object;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reference *references;

/* ---- which there are ---- */

static bool is_alive(const struct reference *r)
{
	return libcuda_object_find(LIBCUDA_OBJECT_MODULE, r->module);
}

static void drop_object(bool surface, unsigned long long object)
{
	if (object && surface)
		cuSurfObjectDestroy(object);
	else if (object)
		cuTexObjectDestroy(object);
}

/* Removes the references of modules that are gone. The caller holds the lock. */
static void throw_out(void)
{
	for (struct reference **at = &references, *r; (r = *at);) {
		if (is_alive(r)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		drop_object(r->surface, r->object);
		free(r->name);
		free(r);
	}
}

static struct reference *find_name(CUmodule module, const char *name, bool surface)
{
	struct reference *r;

	for (r = references; r && (r->module != module || r->surface != surface || strcmp(r->name, name)); r = r->next)
		continue;
	return r;
}

static CUresult look_up(struct reference *r)
{
	CUresult result;
	size_t bytes;

	if (libcuda_host_is_gpu())
		return vcuda_call_vcudaReferenceFind(r->module, r->name, r->surface);
	result = cuModuleGetGlobal_v2(&r->variable, &bytes, r->module, r->name);
	return result == CUDA_SUCCESS && bytes != sizeof(r->object) ? CUDA_ERROR_NOT_FOUND : result;
}

static CUresult get_locked(struct reference **found, CUmodule module, const char *name, bool surface)
{
	struct reference *r;
	CUresult result;

	throw_out();
	*found = find_name(module, name, surface);
	if (*found)
		return CUDA_SUCCESS;
	r = calloc(1, sizeof(*r));
	if (r)
		*r = (struct reference){.module = module, .name = strdup(name), .surface = surface, .channels = 1};
	result = r && r->name ? look_up(r) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		if (r)
			free(r->name);
		free(r);
		return result;
	}
	r->format = CU_AD_FORMAT_FLOAT;
	r->next = references;
	*found = references = r;
	return CUDA_SUCCESS;
}

static CUresult get(void *to, CUmodule module, const char *name, bool surface)
{
	CUresult result = libcuda_require_context();
	struct reference *r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!to || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_object_find(LIBCUDA_OBJECT_MODULE, module))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&lock);
	result = get_locked(&r, module, name, surface);
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		*(struct reference **)to = r;
	return result;
}

VCUDA_EXPORT CUresult cuModuleGetTexRef(CUtexref *ref, CUmodule module, const char *name)
{
	return get(ref, module, name, false);
}

VCUDA_EXPORT CUresult cuModuleGetSurfRef(CUsurfref *ref, CUmodule module, const char *name)
{
	return get(ref, module, name, true);
}

static CUresult find(const void *ref, bool surface, struct reference **found)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	for (*found = references; *found && *found != ref;)
		*found = (*found)->next;
	if (!*found || (*found)->surface != surface || !is_alive(*found))
		result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- binding ---- */

static CUresult make_object(const struct reference *r, unsigned long long *object)
{
	*object = 0;
	if (!r->bound)
		return CUDA_SUCCESS;
	return r->surface ? cuSurfObjectCreate(object, &r->resource)
			  : cuTexObjectCreate(object, &r->resource, &r->texture, NULL);
}

/* Launches take what is bound when they are made; here kernels look when they run, so those that were launched are
 * waited for. */
static CUresult bind_object(struct reference *r)
{
	unsigned long long before = r->object, object;
	CUresult made = make_object(r, &object), result = cuCtxSynchronize();

	if (made != CUDA_SUCCESS)
		object = 0;
	if (result == CUDA_SUCCESS)
		result = cuMemcpyHtoD_v2(r->variable, &object, sizeof(object));
	if (result != CUDA_SUCCESS)
		return result;
	r->object = object;
	drop_object(r->surface, before);
	return made;
}

static CUresult bind_by_host(const struct reference *r)
{
	vcuda_resource resource;
	CUresult result;

	/* No kernel may use it until it is bound again. */
	if (!r->bound)
		return CUDA_SUCCESS;
	result = libcuda_texture_resource(&r->resource, &resource);
	if (result != CUDA_SUCCESS)
		return result;
	if (r->surface)
		return vcuda_call_vcudaSurfaceBind(r->module, r->name, r->resource.res.array.hArray);
	return vcuda_call_vcudaTextureBind(r->module, r->name, resource, r->texture);
}

static CUresult bind(struct reference *r)
{
	if (r->bound && r->resource.resType == CU_RESOURCE_TYPE_LINEAR) {
		r->resource.res.linear.format = r->format;
		r->resource.res.linear.numChannels = r->channels;
	}
	return libcuda_host_is_gpu() ? bind_by_host(r) : bind_object(r);
}

/* A reference may be described after it was bound, and until it is whole mean nothing: a kernel that uses it then
 * fails. */
static CUresult changed(struct reference *r)
{
	CUresult result = r->bound ? bind(r) : CUDA_SUCCESS;

	return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
}

static CUresult bind_to(struct reference *r, const CUDA_RESOURCE_DESC *resource)
{
	r->bound = resource;
	if (resource)
		r->resource = *resource;
	return resource ? changed(r) : bind(r);
}

/* ---- memory ---- */

static CUresult bind_array(void *ref, bool surface, CUarray array)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	CUDA_ARRAY3D_DESCRIPTOR of;
	struct reference *r;
	CUresult result = find(ref, surface, &r);

	if (result == CUDA_SUCCESS)
		result = cuArray3DGetDescriptor_v2(&of, array);
	if (result != CUDA_SUCCESS)
		return result;
	r->format = of.Format;
	r->channels = of.NumChannels;
	return bind_to(r, &d);
}

VCUDA_EXPORT CUresult cuTexRefSetArray(CUtexref ref, CUarray array, unsigned int flags)
{
	return bind_array(ref, false, array);
}

VCUDA_EXPORT CUresult cuSurfRefSetArray(CUsurfref ref, CUarray array, unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : bind_array(ref, true, array);
}

VCUDA_EXPORT CUresult cuTexRefSetMipmappedArray(CUtexref ref, CUmipmappedArray array, unsigned int flags)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, .res.mipmap.hMipmappedArray = array};
	struct reference *r;
	CUresult result = find(ref, false, &r);

	if (result == CUDA_SUCCESS && !libcuda_object_find(LIBCUDA_OBJECT_MIPMAPPED, array))
		result = CUDA_ERROR_INVALID_HANDLE;
	return result == CUDA_SUCCESS ? bind_to(r, &d) : result;
}

/* Textures begin at aligned addresses. *offset gets the distance of `dptr`; without `offset` it is an error. */
VCUDA_EXPORT CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref ref, CUdeviceptr dptr, size_t bytes)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_LINEAR};
	struct reference *r;
	CUresult result = find(ref, false, &r);
	size_t before;

	if (result != CUDA_SUCCESS)
		return result;
	before = dptr % (unsigned int)libcuda_device_attribute(libcuda_context_current()->device,
							       CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
	if (before && !offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (offset)
		*offset = before;
	d.res.linear.devPtr = dptr - before;
	d.res.linear.sizeInBytes = bytes + before;
	return bind_to(r, dptr ? &d : NULL);
}

VCUDA_EXPORT CUresult cuTexRefSetAddress2D_v3(CUtexref ref, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr,
					      size_t pitch)
{
	CUDA_RESOURCE_DESC d = {.resType = CU_RESOURCE_TYPE_PITCH2D};
	struct reference *r;
	CUresult result = find(ref, false, &r);

	if (result != CUDA_SUCCESS)
		return result;
	if (!desc || !dptr)
		return CUDA_ERROR_INVALID_VALUE;
	d.res.pitch2D.devPtr = dptr;
	d.res.pitch2D.format = r->format = desc->Format;
	d.res.pitch2D.numChannels = r->channels = desc->NumChannels;
	d.res.pitch2D.width = desc->Width;
	d.res.pitch2D.height = desc->Height;
	d.res.pitch2D.pitchInBytes = pitch;
	return bind_to(r, &d);
}

VCUDA_EXPORT CUresult cuTexRefSetAddress2D_v2(CUtexref ref, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr,
					      size_t pitch)
{
	return cuTexRefSetAddress2D_v3(ref, desc, dptr, pitch);
}

/* ---- how it is read ---- */

/* Finds `r`, does what the statements say, and gives `gives`. */
#define WITH_REFERENCE(name, parameters, valid, statements, gives)                                                     \
	VCUDA_EXPORT CUresult name parameters                                                                          \
	{                                                                                                              \
		struct reference *r;                                                                                   \
		CUresult result = find(ref, false, &r);                                                                \
                                                                                                                       \
		if (result == CUDA_SUCCESS && !(valid))                                                                \
			result = CUDA_ERROR_INVALID_VALUE;                                                             \
		if (result != CUDA_SUCCESS)                                                                            \
			return result;                                                                                 \
		statements;                                                                                            \
		return gives;                                                                                          \
	}

/* A setter binds again. */
#define SETTER(name, parameters, valid, statements) WITH_REFERENCE(name, parameters, valid, statements, changed(r))

SETTER(cuTexRefSetFormat, (CUtexref ref, CUarray_format format, int channels),
       channels == 1 || channels == 2 || channels == 4, (r->format = format, r->channels = (unsigned int)channels))
SETTER(cuTexRefSetAddressMode, (CUtexref ref, int dim, CUaddress_mode mode), dim >= 0 && dim < 3,
       r->texture.addressMode[dim] = mode)
SETTER(cuTexRefSetFilterMode, (CUtexref ref, CUfilter_mode mode), true, r->texture.filterMode = mode)
SETTER(cuTexRefSetMipmapFilterMode, (CUtexref ref, CUfilter_mode mode), true, r->texture.mipmapFilterMode = mode)
SETTER(cuTexRefSetMipmapLevelBias, (CUtexref ref, float bias), true, r->texture.mipmapLevelBias = bias)
SETTER(cuTexRefSetMipmapLevelClamp, (CUtexref ref, float least, float most), true,
       (r->texture.minMipmapLevelClamp = least, r->texture.maxMipmapLevelClamp = most))
SETTER(cuTexRefSetMaxAnisotropy, (CUtexref ref, unsigned int most), true, r->texture.maxAnisotropy = most)
SETTER(cuTexRefSetBorderColor, (CUtexref ref, float *color), color,
       memcpy(r->texture.borderColor, color, sizeof(r->texture.borderColor)))
SETTER(cuTexRefSetFlags, (CUtexref ref, unsigned int flags), true, r->texture.flags = flags)

/* ---- questions ---- */

/* Functions that write an answer to the program's pointer. */
#define GETTER(name, parameters, valid, statements) WITH_REFERENCE(name, parameters, valid, statements, CUDA_SUCCESS)

static bool is_bound_to(const struct reference *r, CUresourcetype type)
{
	return r->bound && r->resource.resType == type;
}

static bool is_memory(const struct reference *r)
{
	return is_bound_to(r, CU_RESOURCE_TYPE_LINEAR) || is_bound_to(r, CU_RESOURCE_TYPE_PITCH2D);
}

/* clang-format off */
/* Both begin with the address. */
GETTER(cuTexRefGetAddress_v2, (CUdeviceptr *dptr, CUtexref ref), dptr && is_memory(r),
       *dptr = r->resource.res.linear.devPtr)
GETTER(cuTexRefGetArray, (CUarray *array, CUtexref ref), array && is_bound_to(r, CU_RESOURCE_TYPE_ARRAY),
       *array = r->resource.res.array.hArray)
GETTER(cuTexRefGetMipmappedArray, (CUmipmappedArray *array, CUtexref ref),
       array && is_bound_to(r, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY), *array = r->resource.res.mipmap.hMipmappedArray)
GETTER(cuTexRefGetAddressMode, (CUaddress_mode *mode, CUtexref ref, int dim), mode && dim >= 0 && dim < 3,
       *mode = r->texture.addressMode[dim])
GETTER(cuTexRefGetFilterMode, (CUfilter_mode *mode, CUtexref ref), mode, *mode = r->texture.filterMode)
GETTER(cuTexRefGetFormat, (CUarray_format *format, int *channels, CUtexref ref), format || channels,
       (format ? (void)(*format = r->format) : (void)0, channels ? (void)(*channels = (int)r->channels) : (void)0))
GETTER(cuTexRefGetMipmapFilterMode, (CUfilter_mode *mode, CUtexref ref), mode, *mode = r->texture.mipmapFilterMode)
GETTER(cuTexRefGetMipmapLevelBias, (float *bias, CUtexref ref), bias, *bias = r->texture.mipmapLevelBias)
GETTER(cuTexRefGetMipmapLevelClamp, (float *least, float *most, CUtexref ref), least && most,
       (*least = r->texture.minMipmapLevelClamp, *most = r->texture.maxMipmapLevelClamp))
GETTER(cuTexRefGetMaxAnisotropy, (int *most, CUtexref ref), most, *most = (int)r->texture.maxAnisotropy)
GETTER(cuTexRefGetBorderColor, (float *color, CUtexref ref), color,
       memcpy(color, r->texture.borderColor, sizeof(r->texture.borderColor)))
GETTER(cuTexRefGetFlags, (unsigned int *flags, CUtexref ref), flags, *flags = r->texture.flags)
/* clang-format on */

VCUDA_EXPORT CUresult cuSurfRefGetArray(CUarray *array, CUsurfref ref)
{
	struct reference *r;
	CUresult result = find(ref, true, &r);

	if (result == CUDA_SUCCESS && (!array || !r->bound))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*array = r->resource.res.array.hArray;
	return result;
}

/* A function of CUDA 1 to 3 (launch-frame.c). All functions of a module see its references: nothing is left to do. */
VCUDA_EXPORT CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref ref)
{
	struct libcuda_function_entry *e;
	struct reference *r;
	CUresult result = find(ref, false, &r);

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), function, &e);
	return result != CUDA_SUCCESS || unit == CU_PARAM_TR_DEFAULT ? result : CUDA_ERROR_INVALID_VALUE;
}

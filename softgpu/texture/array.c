/* SPDX-License-Identifier: Apache-2.0 */
#include "texture/array.h"

#include <stdlib.h>

#include "common/log.h"
#include "device/device.h"
#include "device/memory.h"
#include "device/registry.h"
#include "texture/texture.h"

#define ROW_ALIGNMENT 16

#define KNOWN_FLAGS                                                                                                    \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER)

bool softgpu_array_format(CUarray_format format, unsigned int channels, enum ptx_format *to, unsigned int *texel_bytes)
{
	static const struct {
		CUarray_format format;
		uint8_t to, bytes;
	} formats[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, PTX_FORMAT_U8, 1},   {CU_AD_FORMAT_UNSIGNED_INT16, PTX_FORMAT_U16, 2},
		{CU_AD_FORMAT_UNSIGNED_INT32, PTX_FORMAT_U32, 4}, {CU_AD_FORMAT_SIGNED_INT8, PTX_FORMAT_S8, 1},
		{CU_AD_FORMAT_SIGNED_INT16, PTX_FORMAT_S16, 2},   {CU_AD_FORMAT_SIGNED_INT32, PTX_FORMAT_S32, 4},
		{CU_AD_FORMAT_HALF, PTX_FORMAT_F16, 2},           {CU_AD_FORMAT_FLOAT, PTX_FORMAT_F32, 4},
	};

	if (channels != 1 && channels != 2 && channels != 4)
		return false;
	for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++) {
		if (formats[n].format != format)
			continue;
		*to = formats[n].to;
		*texel_bytes = formats[n].bytes * channels;
		return true;
	}
	return false;
}

static bool within(const CUDA_ARRAY3D_DESCRIPTOR *d, size_t width, size_t height, size_t depth)
{
	return d->Width <= width && d->Height <= height && d->Depth <= depth;
}

/* The valid combinations of sizes, and their limits. */
static bool size_is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED;

	if (!d->Width)
		return false;
	if (d->Flags & CUDA_ARRAY3D_CUBEMAP)
		return d->Width == d->Height && (layered ? d->Depth && d->Depth % 6 == 0 : d->Depth == 6) &&
		       within(d, SOFTGPU_MAX_LAYERED, SOFTGPU_MAX_LAYERED, SOFTGPU_MAX_CUBE_LAYERS);
	if (layered)
		return d->Depth && within(d, SOFTGPU_MAX_LAYERED, SOFTGPU_MAX_LAYERED, SOFTGPU_MAX_LAYERS);
	if (d->Depth)
		return d->Height && within(d, SOFTGPU_MAX_3D, SOFTGPU_MAX_3D, SOFTGPU_MAX_3D);
	return d->Height ? within(d, SOFTGPU_MAX_2D_WIDTH, SOFTGPU_MAX_2D_HEIGHT, 0) : within(d, SOFTGPU_MAX_1D, 0, 0);
}

static uint32_t at_level(size_t size, unsigned int level)
{
	size >>= level;
	return size ? (uint32_t)size : 1;
}

/* Places the levels one behind the other; their data are offsets until there is memory. False: too large. */
static bool lay_out(struct CUmipmappedArray_st *s, uint64_t *bytes)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &s->descriptor;
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);

	*bytes = 0;
	for (unsigned int n = 0; n < s->count; n++) {
		struct ptx_level *l = &s->levels[n].level;
		uint64_t size;

		s->levels[n].storage = s;
		l->width = at_level(d->Width, n);
		l->height = at_level(d->Height, n);
		l->slices = layered ? (uint32_t)d->Depth : at_level(d->Depth, n);
		l->pitch = ((uint64_t)l->width * s->texel_bytes + ROW_ALIGNMENT - 1) & ~(uint64_t)(ROW_ALIGNMENT - 1);
		l->slice_bytes = l->pitch * l->height;
		l->data = (uint8_t *)(uintptr_t)*bytes;
		if (__builtin_mul_overflow(l->slice_bytes, l->slices, &size) ||
		    __builtin_add_overflow(*bytes, size, bytes))
			return false;
	}
	return true;
}

static unsigned int most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool layered = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	size_t size = d->Width > d->Height ? d->Width : d->Height;
	unsigned int levels = 1;

	if (!layered && d->Depth > size)
		size = d->Depth;
	while (size >>= 1)
		levels++;
	return levels;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (d->Flags & ~(unsigned int)KNOWN_FLAGS) {
		vcuda_log("arrays with the flags 0x%x (depth textures, interoperability, sparse and deferred memory) are "
			"not supported",
			d->Flags & ~(unsigned int)KNOWN_FLAGS);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return size_is_valid(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void forget(struct CUmipmappedArray_st *s)
{
	for (unsigned int n = 0; n < s->count; n++)
		softgpu_registry_remove(&s->levels[n]);
	if (s->mipmapped)
		softgpu_registry_remove(s);
	vcuda_list_remove(&s->owned.node);
	free(s);
}

/* The memory goes with the context's. */
static void end_array(struct softgpu_owned *owned)
{
	forget(container_of(owned, struct CUmipmappedArray_st, owned));
}

static bool record(struct CUmipmappedArray_st *s)
{
	bool ok = !s->mipmapped || softgpu_registry_add(s, SOFTGPU_MIPMAPPED);

	for (unsigned int n = 0; n < s->count && ok; n++)
		ok = softgpu_registry_add(&s->levels[n], SOFTGPU_ARRAY);
	return ok;
}

static CUresult create(const CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped, unsigned int levels,
		       struct CUmipmappedArray_st **storage)
{
	struct CUmipmappedArray_st *s;
	struct CUctx_st *c;
	uint64_t bytes;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	result = check(d);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	s = calloc(1, sizeof(*s));
	if (!s)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	s->context = c;
	s->descriptor = *d;
	s->mipmapped = mipmapped;
	s->count = levels < most_levels(d) ? levels : most_levels(d);
	s->owned.end = end_array;
	vcuda_list_add(&s->owned.node, &c->owned);
	result = CUDA_ERROR_INVALID_VALUE;
	if (!s->count || s->count > PTX_TEXTURE_LEVELS ||
	    !softgpu_array_format(d->Format, d->NumChannels, &s->format, &s->texel_bytes))
		goto fail;
	result = CUDA_ERROR_OUT_OF_MEMORY;
	if (!lay_out(s, &bytes) || softgpu_memory_alloc(c, bytes, SOFTGPU_ARRAY_MEMORY, &s->address) != CUDA_SUCCESS)
		goto fail;
	for (unsigned int n = 0; n < s->count; n++)
		s->levels[n].level.data = (uint8_t *)((uintptr_t)s->levels[n].level.data + s->address);
	if (!record(s)) {
		softgpu_memory_drop(c, s->address);
		goto fail;
	}
	*storage = s;
	return softgpu_leave(CUDA_SUCCESS);

fail:
	forget(s);
	return softgpu_leave(result);
}

/* Work that is queued may still use it. */
static CUresult destroy(struct CUctx_st *c, struct CUmipmappedArray_st *s, const void *handle, enum softgpu_kind kind)
{
	struct softgpu_scope scope = {.context = c, .last = softgpu_submitted()};
	CUresult result = softgpu_context_wait(c, &scope);
	uint64_t address;

	if (result != CUDA_SUCCESS)
		return result;
	/* another thread may have done so meanwhile */
	if (!softgpu_registry_has(handle, kind))
		return CUDA_ERROR_INVALID_HANDLE;
	address = s->address;
	softgpu_textures_lose_array(s);
	forget(s);
	/*
	 * Work that another thread submitted meanwhile may have started; work that is submitted from now on does not
	 * find the array.
	 */
	scope.last = softgpu_submitted();
	result = softgpu_context_wait(c, &scope);
	if (result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
		softgpu_memory_drop(c, address);
	return result;
}

struct CUarray_st *softgpu_array_find(const struct CUctx_st *context, CUarray handle)
{
	return softgpu_registry_has(handle, SOFTGPU_ARRAY) && handle->storage->context == context ? handle : NULL;
}

struct CUmipmappedArray_st *softgpu_mipmapped_find(const struct CUctx_st *context, CUmipmappedArray handle)
{
	return softgpu_registry_has(handle, SOFTGPU_MIPMAPPED) && handle->context == context ? handle : NULL;
}

CUresult softgpu_cuArray3DCreate_v2(CUarray *pHandle, void *pAllocateArray)
{
	struct CUmipmappedArray_st *s;
	CUresult result;

	if (!pHandle || !pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	result = create(pAllocateArray, false, 1, &s);
	if (result == CUDA_SUCCESS)
		*pHandle = &s->levels[0];
	return result;
}

CUresult softgpu_cuArrayDestroy(CUarray hArray)
{
	struct CUarray_st *array;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	array = softgpu_array_find(c, hArray);
	if (!array || array->storage->mipmapped)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	return softgpu_leave(destroy(c, array->storage, array, SOFTGPU_ARRAY));
}

CUresult softgpu_cuMipmappedArrayCreate(CUmipmappedArray *pHandle, void *pMipmappedArrayDesc, unsigned numMipmapLevels)
{
	if (!pHandle || !pMipmappedArrayDesc)
		return CUDA_ERROR_INVALID_VALUE;
	return create(pMipmappedArrayDesc, true, numMipmapLevels, pHandle);
}

CUresult softgpu_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct CUmipmappedArray_st *s;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	s = softgpu_mipmapped_find(c, hMipmappedArray);
	return softgpu_leave(s ? destroy(c, s, s, SOFTGPU_MIPMAPPED) : CUDA_ERROR_INVALID_HANDLE);
}

CUresult softgpu_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level)
{
	struct CUmipmappedArray_st *s;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	s = softgpu_mipmapped_find(c, hMipmappedArray);
	if (!s)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!pLevelArray || level >= s->count)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*pLevelArray = &s->levels[level];
	return softgpu_leave(CUDA_SUCCESS);
}

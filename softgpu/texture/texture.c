/* SPDX-License-Identifier: Apache-2.0 */
#include "texture/texture.h"

#include <stdlib.h>
#include <string.h>

#include "texture/array.h"
#include "device/device.h"
#include "device/memory.h"
#include "common/log.h"

#define ADDRESS_ALIGNMENT 512
#define PITCH_ALIGNMENT 32
#define FEWEST_SLOTS 64
#define MAX_TEXTURES ((1u << PTX_HANDLE_INDEX) - 2)

/* The object's handle and the kernels' view of it come first; kernels hold references. */
struct texture {
	struct ptx_texture ptx;
	struct CUctx_st *context;
	struct softgpu_owned owned;                   /* by the context */
	const struct CUmipmappedArray_st *array;  /* NULL: linear memory, or an array that is gone */
	uint64_t address, bytes;                  /* linear memory */
	unsigned int refs;                        /* one for the object itself, and one for each map that names it */
};

static struct texture **slots;
static size_t slot_count, slot_room;
static uint64_t serial; /* the part of a handle that is another one for a while */

/* The last map, its context, and the version of the table of memory that it was made from. */
static struct softgpu_texture_map *current;
static const struct CUctx_st *current_context;
static uint64_t current_version;

static void forget_map(void)
{
	if (current)
		softgpu_texture_map_put(current);
	current = NULL;
}

static void put(const struct ptx_texture *ptx)
{
	struct texture *t = (struct texture *)(uintptr_t)ptx;

	if (--t->refs == 0)
		free(t);
}

void softgpu_texture_map_put(struct softgpu_texture_map *map)
{
	if (--map->refs)
		return;
	for (size_t n = 0; n < map->table.count; n++)
		if (map->entries[n])
			put(map->entries[n]);
	free(map);
}

/* Whether there is something behind it now. */
static bool is_alive(const struct texture *t)
{
	if (t->array || !t->bytes)
		return t->array;
	return softgpu_range_spans(t->address, t->bytes, false);
}

static bool has_textures(const struct CUctx_st *context)
{
	for (size_t n = 0; n < slot_count; n++)
		if (slots[n] && slots[n]->context == context)
			return true;
	return false;
}

bool softgpu_texture_map_get(struct CUctx_st *context, struct softgpu_texture_map **map)
{
	struct softgpu_texture_map *m;

	*map = NULL;
	if (current && current_context == context && current_version == softgpu_memory_version()) {
		current->refs++;
		*map = current;
		return true;
	}
	if (!has_textures(context))
		return true;
	m = calloc(1, sizeof(*m) + slot_count * sizeof(m->entries[0]));
	if (!m)
		return false;
	m->table = (struct ptx_texture_table){slot_count, m->entries};
	for (size_t n = 0; n < slot_count; n++) {
		if (!slots[n] || slots[n]->context != context || !is_alive(slots[n]))
			continue;
		slots[n]->refs++;
		m->entries[n] = &slots[n]->ptx;
	}
	forget_map();
	m->refs = 2;
	*map = current = m;
	current_context = context;
	current_version = softgpu_memory_version();
	return true;
}

/* ---- creation ---- */

static const CUarray_format view_formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
					      CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
					      CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
					      CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};

static CUresult set_format(struct ptx_texture *t, CUarray_format format, unsigned int channels)
{
	enum ptx_format found;
	unsigned int bytes;

	if (!softgpu_array_format(format, channels, &found, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	t->format = (uint8_t)found;
	t->channels = (uint8_t)channels;
	t->texel_bytes = (uint8_t)bytes;
	return CUDA_SUCCESS;
}

static void take_array(struct texture *t, const struct CUmipmappedArray_st *s, unsigned int first, unsigned int count)
{
	t->array = s;
	t->ptx.format = (uint8_t)s->format;
	t->ptx.channels = (uint8_t)s->descriptor.NumChannels;
	t->ptx.texel_bytes = (uint8_t)s->texel_bytes;
	t->ptx.volume = s->descriptor.Depth && !(s->descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
	t->ptx.levels = count;
	for (unsigned int n = 0; n < count; n++)
		t->ptx.level[n] = s->levels[first + n].level;
}

/* Linear memory, of one row or of several. */
static CUresult take_memory(struct texture *t, CUdeviceptr address, size_t width, size_t height, size_t pitch)
{
	if (!width || !height || address % ADDRESS_ALIGNMENT)
		return CUDA_ERROR_INVALID_VALUE;
	t->address = address;
	t->bytes = (height - 1) * pitch + width * t->ptx.texel_bytes;
	if (!softgpu_range_spans(address, t->bytes, false))
		return CUDA_ERROR_INVALID_VALUE;
	t->ptx.levels = 1;
	t->ptx.level[0] = (struct ptx_level){
		(uint8_t *)(uintptr_t)address, (uint32_t)width, (uint32_t)height, 1, pitch, t->bytes,
	};
	return CUDA_SUCCESS;
}

/*
 * One row. The row may extend past its allocation: NVIDIA's driver creates such textures, and programs size them
 * generously. Memory behind the allocation has no texels: fetches read zero.
 */
static CUresult take_linear(struct texture *t, CUdeviceptr address, size_t bytes)
{
	uint32_t texel = t->ptx.texel_bytes;

	t->ptx.linear_memory = true;
	if (bytes / texel > SOFTGPU_MAX_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	return take_memory(t, address, softgpu_range_reach(address, bytes) / texel, 1, 0);
}

static CUresult take_resource(struct CUctx_st *c, struct texture *t, const CUDA_RESOURCE_DESC *r)
{
	struct CUmipmappedArray_st *mipmapped;
	struct CUarray_st *array;
	CUresult result;

	switch (r->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		array = softgpu_array_find(c, r->res.array.hArray);
		if (!array)
			return CUDA_ERROR_INVALID_HANDLE;
		take_array(t, array->storage, (unsigned int)(array - array->storage->levels), 1);
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		mipmapped = softgpu_mipmapped_find(c, r->res.mipmap.hMipmappedArray);
		if (!mipmapped)
			return CUDA_ERROR_INVALID_HANDLE;
		take_array(t, mipmapped, 0, mipmapped->count);
		return CUDA_SUCCESS;
	case CU_RESOURCE_TYPE_LINEAR:
		result = set_format(&t->ptx, r->res.linear.format, r->res.linear.numChannels);
		if (result != CUDA_SUCCESS)
			return result;
		return take_linear(t, r->res.linear.devPtr, r->res.linear.sizeInBytes);
	case CU_RESOURCE_TYPE_PITCH2D:
		result = set_format(&t->ptx, r->res.pitch2D.format, r->res.pitch2D.numChannels);
		if (result != CUDA_SUCCESS)
			return result;
		if (r->res.pitch2D.pitchInBytes > SOFTGPU_MAX_PITCHED_BYTES ||
		    r->res.pitch2D.pitchInBytes % PITCH_ALIGNMENT || r->res.pitch2D.height > SOFTGPU_MAX_PITCHED_HEIGHT ||
		    r->res.pitch2D.width > r->res.pitch2D.pitchInBytes / t->ptx.texel_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		return take_memory(t, r->res.pitch2D.devPtr, r->res.pitch2D.width, r->res.pitch2D.height,
				   r->res.pitch2D.pitchInBytes);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult take_view(struct texture *t, const CUDA_RESOURCE_VIEW_DESC *v)
{
	struct ptx_texture *p = &t->ptx;
	unsigned int texel = p->texel_bytes, levels = v->lastMipmapLevel - v->firstMipmapLevel + 1;
	CUresult result;

	if (!t->array)
		return CUDA_ERROR_INVALID_VALUE;
	if (v->format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1) {
		vcuda_log("resource views of compressed formats are not supported");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (v->format != CU_RES_VIEW_FORMAT_NONE) {
		unsigned int n = (unsigned int)v->format - 1;

		result = set_format(p, view_formats[n / 3], 1u << n % 3);
		if (result != CUDA_SUCCESS || p->texel_bytes != texel)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (v->width != p->level[0].width || (v->height && v->height != p->level[0].height) ||
	    v->lastMipmapLevel < v->firstMipmapLevel || v->lastMipmapLevel >= p->levels ||
	    v->lastLayer < v->firstLayer || v->lastLayer >= p->level[0].slices)
		return CUDA_ERROR_INVALID_VALUE;
	memmove(&p->level[0], &p->level[v->firstMipmapLevel], levels * sizeof(p->level[0]));
	p->levels = levels;
	/* of a volume there is only all */
	for (unsigned int n = 0; n < levels && !p->volume; n++) {
		p->level[n].data += v->firstLayer * p->level[n].slice_bytes;
		p->level[n].slices = v->lastLayer - v->firstLayer + 1;
	}
	return CUDA_SUCCESS;
}

/* Clamps and biases of levels become numbers of few bits, which NaN is 0 in. */
static float number_of(float x)
{
	return x == x ? x : 0;
}

static CUresult take_sampling(struct texture *t, const CUDA_TEXTURE_DESC *d)
{
	const unsigned int known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
				   CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
	struct ptx_texture *p = &t->ptx;
	bool floats = p->format >= PTX_FORMAT_F16, wide = p->format == PTX_FORMAT_U32 || p->format == PTX_FORMAT_S32;

	p->as_float = floats || (!wide && !(d->flags & CU_TRSF_READ_AS_INTEGER));
	p->normalized_coords = d->flags & CU_TRSF_NORMALIZED_COORDINATES;
	p->srgb = d->flags & CU_TRSF_SRGB;
	p->filter = d->filterMode == CU_TR_FILTER_MODE_LINEAR && !p->linear_memory;
	p->filter_levels = d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
	p->bias = number_of(d->mipmapLevelBias);
	p->least = number_of(d->minMipmapLevelClamp);
	p->most = number_of(d->maxMipmapLevelClamp);
	memcpy(&p->border, d->borderColor, sizeof(p->border));
	for (unsigned int n = 0; n < 3; n++) {
		if ((unsigned int)d->addressMode[n] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
		p->address[n] = (uint8_t)d->addressMode[n];
	}
	if (d->flags & ~known || (unsigned int)d->filterMode > CU_TR_FILTER_MODE_LINEAR ||
	    (unsigned int)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->levels > 1 && !p->normalized_coords)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->filter && d->flags & CU_TRSF_SEAMLESS_CUBEMAP && t->array &&
	    t->array->descriptor.Flags & CUDA_ARRAY3D_CUBEMAP) {
		vcuda_log("filtering over the edges of cubemaps is not supported");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/* Each face of a cubemap is clamped at its edges. */
static void clamp_faces(struct texture *t)
{
	if (t->array && t->array->descriptor.Flags & CUDA_ARRAY3D_CUBEMAP)
		t->ptx.address[0] = t->ptx.address[1] = PTX_CLAMP;
}

/* Slots are used in turn, so that the handle of an object that is gone comes back late. */
static bool find_slot(size_t *slot)
{
	static size_t next;
	size_t tries = 0;

	while (tries < slot_count && slots[(next + tries) % slot_count])
		tries++;
	*slot = tries == slot_count || slot_count < FEWEST_SLOTS ? slot_count : (next + tries) % slot_count;
	next = *slot + 1;
	if (*slot == slot_room) {
		size_t room = slot_room ? slot_room * 2 : FEWEST_SLOTS;
		struct texture **bigger = room <= MAX_TEXTURES * 2ull ? realloc(slots, room * sizeof(*slots)) : NULL;

		if (!bigger)
			return false;
		slots = bigger;
		slot_room = room;
	}
	if (*slot >= MAX_TEXTURES)
		return false;
	if (*slot == slot_count)
		slots[slot_count++] = NULL;
	return true;
}

static void drop(struct texture *t)
{
	slots[(t->ptx.handle & ((1u << PTX_HANDLE_INDEX) - 1)) - 1] = NULL;
	vcuda_list_remove(&t->owned.node);
	put(&t->ptx);
	forget_map();
}

static void end_texture(struct softgpu_owned *owned)
{
	drop(container_of(owned, struct texture, owned));
}

/* Takes the object over. */
static CUresult publish(struct CUctx_st *c, struct texture *t, unsigned long long *handle)
{
	size_t slot;

	if (!ptx_texture_prepare(&t->ptx) || !find_slot(&slot)) {
		free(t);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	t->context = c;
	t->refs = 1;
	/* Machine code has handles of 32 bits. */
	t->ptx.handle = (uint32_t)(++serial << PTX_HANDLE_INDEX) | (slot + 1);
	slots[slot] = t;
	t->owned.end = end_texture;
	vcuda_list_add(&t->owned.node, &c->owned);
	forget_map();
	*handle = t->ptx.handle;
	return CUDA_SUCCESS;
}

static struct texture *find(const struct CUctx_st *c, uint64_t handle, bool surface)
{
	uint64_t slot = (handle & ((1u << PTX_HANDLE_INDEX) - 1)) - 1;
	struct texture *t = slot < slot_count ? slots[slot] : NULL;

	return t && t->ptx.handle == handle && t->ptx.surface == surface && t->context == c ? t : NULL;
}

/* Queued work may still use the object. */
static CUresult destroy(uint64_t handle, bool surface)
{
	struct softgpu_scope scope = {.last = 0};
	struct texture *t;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!find(c, handle, surface))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	scope = (struct softgpu_scope){.context = c, .last = softgpu_submitted()};
	result = softgpu_context_wait(c, &scope);
	t = result == CUDA_SUCCESS ? find(c, handle, surface) : NULL;
	if (t)
		drop(t);
	return softgpu_leave(result);
}

void softgpu_textures_lose_array(const struct CUmipmappedArray_st *array)
{
	for (size_t n = 0; n < slot_count; n++)
		if (slots[n] && slots[n]->array == array)
			slots[n]->array = NULL;
	forget_map();
}

CUresult softgpu_cuTexObjectCreate(CUtexObject *pTexObject, void *pResDesc, void *pTexDesc, void *pResViewDesc)
{
	struct texture *t;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pTexObject || !pResDesc || !pTexDesc)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	t = calloc(1, sizeof(*t));
	if (!t)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = take_resource(c, t, pResDesc);
	if (result == CUDA_SUCCESS && pResViewDesc)
		result = take_view(t, pResViewDesc);
	if (result == CUDA_SUCCESS)
		result = take_sampling(t, pTexDesc);
	if (result != CUDA_SUCCESS) {
		free(t);
		return softgpu_leave(result);
	}
	clamp_faces(t);
	t->ptx.row = t->array && !t->array->descriptor.Height;
	return softgpu_leave(publish(c, t, pTexObject));
}

CUresult softgpu_cuTexObjectDestroy(CUtexObject texObject)
{
	return destroy(texObject, false);
}

CUresult softgpu_cuSurfObjectCreate(CUsurfObject *pSurfObject, void *pResDesc)
{
	const CUDA_RESOURCE_DESC *r = pResDesc;
	struct texture *t;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pSurfObject || !r || r->resType != CU_RESOURCE_TYPE_ARRAY)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	t = calloc(1, sizeof(*t));
	if (!t)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	t->ptx.surface = true;
	result = take_resource(c, t, r);
	if (result != CUDA_SUCCESS) {
		free(t);
		return softgpu_leave(result);
	}
	return softgpu_leave(publish(c, t, pSurfObject));
}

CUresult softgpu_cuSurfObjectDestroy(CUsurfObject surfObject)
{
	return destroy(surfObject, true);
}

/* The width is the same for all formats. */
CUresult softgpu_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels,
						CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);
	struct ptx_texture texture;

	if (result == CUDA_SUCCESS)
		result = maxWidthInElements ? set_format(&texture, format, numChannels) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*maxWidthInElements = SOFTGPU_MAX_LINEAR;
	return result;
}

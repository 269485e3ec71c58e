/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays. Their descriptions are kept here, and all queries are answered from them. */
#include "memory/array.h"

#include "core/capture.h"
#include "core/init.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "core/object.h"

/* Arrays whose memory the application brings itself; nothing that could bring it is there. */
#define LATER_MEMORY (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

struct libcuda_object *libcuda_array_find(CUarray array)
{
	return libcuda_object_find(LIBCUDA_OBJECT_ARRAY, array);
}

size_t libcuda_texel_bytes(CUarray_format format, unsigned int channels)
{
	if (channels != 1 && channels != 2 && channels != 4)
		return 0;
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return channels;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2ul * channels;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4ul * channels;
	default:
		return 0;
	}
}

static CUresult check(const void *to, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!to || !d)
		return CUDA_ERROR_INVALID_VALUE;
	if (d->Flags & LATER_MEMORY) {
		vcuda_log_once("arrays with sparse or deferred memory are not supported");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (libcuda_texel_bytes(d->Format, d->NumChannels))
		return CUDA_SUCCESS;
	/* 3 channels are those of formats with several planes */
	if (d->NumChannels < 1 || d->NumChannels > 4)
		return CUDA_ERROR_INVALID_VALUE;
	vcuda_log_once("arrays of this format (0x%x, %u channels) are not supported", (unsigned int)d->Format,
		       d->NumChannels);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static struct libcuda_object *record(enum libcuda_object_kind kind, const void *handle, const void *parent,
				     const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	struct libcuda_object *o = libcuda_object_add(kind, handle, libcuda_context_current(), parent);

	if (o) {
		o->array = *d;
		o->levels = levels;
	}
	return o;
}

VCUDA_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUresult result = check(array, d);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = vcuda_call_vcudaArrayCreate(array, *d);
	if (result != CUDA_SUCCESS)
		return result;
	if (record(LIBCUDA_OBJECT_ARRAY, *array, NULL, d, 1))
		return CUDA_SUCCESS;
	vcuda_call_cuArrayDestroy(*array);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VCUDA_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR three;

	if (!d)
		return libcuda_invalid_value();
	three = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return cuArray3DCreate_v2(array, &three);
}

VCUDA_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o = libcuda_array_find(array);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	/* A level goes with its mipmapped array. */
	if (!o || o->parent)
		return CUDA_ERROR_INVALID_HANDLE;
	result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(o->context);
	libcuda_object_drop(array);
	return vcuda_call_cuArrayDestroy_with(&how, array);
}

static CUresult find(CUarray array, const void *to, struct libcuda_object **o)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	*o = libcuda_array_find(array);
	if (!*o)
		return CUDA_ERROR_INVALID_HANDLE;
	return to ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array)
{
	struct libcuda_object *o;
	CUresult result = find(array, d, &o);

	if (result == CUDA_SUCCESS)
		*d = o->array;
	return result;
}

VCUDA_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray array)
{
	struct libcuda_object *o;
	CUresult result = find(array, d, &o);

	if (result == CUDA_SUCCESS)
		*d = (CUDA_ARRAY_DESCRIPTOR){o->array.Width, o->array.Height, o->array.Format, o->array.NumChannels};
	return result;
}

/* No array here has planes, sparse or deferred memory, and of others these questions are an error. */
static CUresult is_not_such(CUarray array, const void *to)
{
	struct libcuda_object *o;
	CUresult result = find(array, to, &o);

	return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}

VCUDA_EXPORT CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index)
{
	return is_not_such(array, plane);
}

VCUDA_EXPORT CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, CUarray array)
{
	return is_not_such(array, properties);
}

VCUDA_EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array,
						   CUdevice device)
{
	return is_not_such(array, requirements);
}

/* ---- mipmapped arrays ---- */

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

VCUDA_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *mipmapped, const CUDA_ARRAY3D_DESCRIPTOR *d,
					     unsigned int levels)
{
	CUresult result = check(mipmapped, d);

	if (result != CUDA_SUCCESS)
		return result;
	if (!levels)
		return CUDA_ERROR_INVALID_VALUE;
	levels = levels < most_levels(d) ? levels : most_levels(d);
	result = vcuda_call_vcudaMipmappedArrayCreate(mipmapped, *d, levels);
	if (result != CUDA_SUCCESS)
		return result;
	if (record(LIBCUDA_OBJECT_MIPMAPPED, *mipmapped, NULL, d, levels))
		return CUDA_SUCCESS;
	vcuda_call_cuMipmappedArrayDestroy(*mipmapped);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

VCUDA_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_MIPMAPPED, mipmapped);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	how = libcuda_context_options(o->context);
	libcuda_object_drop(mipmapped);
	return vcuda_call_cuMipmappedArrayDestroy_with(&how, mipmapped);
}

static size_t at_level(size_t size, unsigned int level)
{
	return size && !(size >> level) ? 1 : size >> level;
}

VCUDA_EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmapped, unsigned int level)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_MIPMAPPED, mipmapped);
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (result != CUDA_SUCCESS)
		return result;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!array || level >= o->levels)
		return CUDA_ERROR_INVALID_VALUE;
	d = o->array;
	d.Width = at_level(d.Width, level);
	d.Height = at_level(d.Height, level);
	if (!(d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
		d.Depth = at_level(d.Depth, level);
	result = vcuda_call_cuMipmappedArrayGetLevel(array, mipmapped, level);
	if (result != CUDA_SUCCESS)
		return result;
	return record(LIBCUDA_OBJECT_ARRAY, *array, mipmapped, &d, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult mipmapped_is_not_such(CUmipmappedArray mipmapped, const void *to)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_object_find(LIBCUDA_OBJECT_MIPMAPPED, mipmapped))
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *properties,
							  CUmipmappedArray mipmapped)
{
	return mipmapped_is_not_such(mipmapped, properties);
}

VCUDA_EXPORT CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
							    CUmipmappedArray mipmapped, CUdevice device)
{
	return mipmapped_is_not_such(mipmapped, requirements);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays and mipmapped arrays. */
#include "array.h"

#include <string.h>

static CUarray_format format_of(int bits, enum cudaChannelFormatKind kind)
{
	static const struct {
		int bits;
		enum cudaChannelFormatKind kind;
		CUarray_format format;
	} formats[] = {
		{8, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT8},
		{16, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT16},
		{32, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT32},
		{8, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT8},
		{16, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT16},
		{32, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT32},
		{16, cudaChannelFormatKindFloat, CU_AD_FORMAT_HALF},
		{32, cudaChannelFormatKindFloat, CU_AD_FORMAT_FLOAT},
	};

	for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++)
		if (formats[n].bits == bits && formats[n].kind == kind)
			return formats[n].format;
	return (CUarray_format)0;
}

cudaError_t cudart_format(const struct cudaChannelFormatDesc *desc, CUarray_format *format, unsigned int *channels)
{
	const int bits[4] = {desc->x, desc->y, desc->z, desc->w};

	*format = format_of(desc->x, desc->f);
	*channels = 0;
	while (*channels < 4 && bits[*channels])
		++*channels;
	if (!*format || (*channels != 1 && *channels != 2 && *channels != 4))
		return cudaErrorInvalidChannelDescriptor;
	for (unsigned int n = 0; n < 4; n++)
		if (bits[n] != (n < *channels ? desc->x : 0))
			return cudaErrorInvalidChannelDescriptor;
	return cudaSuccess;
}

static int bits_of(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 8;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 16;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 32;
	}
	return 0;
}

cudaError_t cudart_channel_desc(CUarray_format format, unsigned int channels, struct cudaChannelFormatDesc *desc)
{
	int bits = bits_of(format);
	bool is_float = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT;

	if (!bits)
		return cudaErrorInvalidChannelDescriptor;
	*desc = (struct cudaChannelFormatDesc){
		bits,
		channels > 1 ? bits : 0,
		channels > 2 ? bits : 0,
		channels > 3 ? bits : 0,
		is_float                                                      ? cudaChannelFormatKindFloat
		: format >= CU_AD_FORMAT_SIGNED_INT8 && format < CU_AD_FORMAT_HALF ? cudaChannelFormatKindSigned
										 : cudaChannelFormatKindUnsigned,
	};
	return cudaSuccess;
}

cudaError_t cudart_array_info(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *d, size_t *element)
{
	cudaError_t error = (cudaError_t)cuArray3DGetDescriptor_v2(d, cudart_array(array));

	if (!error)
		*element = (size_t)bits_of(d->Format) / 8 * d->NumChannels;
	return error;
}

static cudaError_t describe(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent, unsigned int flags,
			    CUDA_ARRAY3D_DESCRIPTOR *d)
{
	*d = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
	return desc ? cudart_format(desc, &d->Format, &d->NumChannels) : cudaErrorInvalidValue;
}

static cudaError_t make_array(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
			      unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (!array)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY(describe(desc, extent, flags, &d));
	return cudart_result(cuArray3DCreate_v2((CUarray *)array, &d));
}

CUDART_API cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
				       size_t height, unsigned int flags)
{
	return make_array(array, desc, (struct cudaExtent){width, height, 0}, flags);
}

CUDART_API cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
					 struct cudaExtent extent, unsigned int flags)
{
	return make_array(array, desc, extent, flags);
}

CUDART_API cudaError_t cudaFreeArray(cudaArray_t array)
{
	if (!array)
		return cudaSuccess;
	CUDART_CALL(cuArrayDestroy(cudart_array(array)));
}

CUDART_API cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
					unsigned int *flags, cudaArray_t array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	size_t element;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_array_info(array, &d, &element));
	if (desc)
		CUDART_TRY(cudart_channel_desc(d.Format, d.NumChannels, desc));
	if (extent)
		*extent = (struct cudaExtent){d.Width, d.Height, d.Depth};
	if (flags)
		*flags = d.Flags;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
	if (!desc)
		return cudart_record(cudaErrorInvalidValue);
	return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

/* ---- mipmapped arrays ---- */

CUDART_API cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
						struct cudaExtent extent, unsigned int levels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (!array)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY(describe(desc, extent, flags, &d));
	return cudart_result(cuMipmappedArrayCreate((CUmipmappedArray *)array, &d, levels));
}

CUDART_API cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
	if (!array)
		return cudaSuccess;
	CUDART_CALL(cuMipmappedArrayDestroy(cudart_mipmapped(array)));
}

CUDART_API cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *level, cudaMipmappedArray_const_t array,
						  unsigned int number)
{
	if (!level)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_CALL(cuMipmappedArrayGetLevel((CUarray *)level, cudart_mipmapped(array), number));
}

/* ---- textures of linear memory ---- */

CUDART_API cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *width, const struct cudaChannelFormatDesc *desc,
							    int device)
{
	CUarray_format format;
	unsigned int channels;

	if (!width || !desc)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(device));
	CUDART_TRY(cudart_format(desc, &format, &channels));
	return cudart_result(cuDeviceGetTexture1DLinearMaxWidth(width, format, channels, device));
}

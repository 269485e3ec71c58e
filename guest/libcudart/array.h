/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by arrays, their copies and textures: channel descriptors, and the driver's handles of arrays. */
#ifndef CUDART_ARRAY_H
#define CUDART_ARRAY_H

#include "order.h"

static inline CUarray cudart_array(cudaArray_const_t array)
{
	return (CUarray)(uintptr_t)array;
}

static inline CUmipmappedArray cudart_mipmapped(cudaMipmappedArray_const_t array)
{
	return (CUmipmappedArray)(uintptr_t)array;
}

/* cudaErrorInvalidChannelDescriptor where the driver has no such format. */
cudaError_t cudart_format(const struct cudaChannelFormatDesc *desc, CUarray_format *format, unsigned int *channels);
cudaError_t cudart_channel_desc(CUarray_format format, unsigned int channels, struct cudaChannelFormatDesc *desc);

/* The descriptor with which an array was made, and the bytes of an element. */
cudaError_t cudart_array_info(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *descriptor, size_t *element);

#endif

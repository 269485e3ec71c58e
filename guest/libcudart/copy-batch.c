/* SPDX-License-Identifier: Apache-2.0 */
/* Many copies or ranges in one call. The structures of the two APIs are the same. */
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout");
_Static_assert(sizeof(void *) == sizeof(CUdeviceptr), "one layout");

struct cudaMemcpy3DBatchOp;

/* The driver writes to none of them. */
#define ADDRESSES(p) ((CUdeviceptr *)(uintptr_t)(p))

CUDART_API cudaError_t cudaMemcpyBatchAsync(void *const *to, const void *const *from, const size_t *sizes, size_t count,
					    struct cudaMemcpyAttributes *attributes, size_t *first,
					    size_t attribute_count, cudaStream_t stream)
{
	CUDART_CALL(cuMemcpyBatchAsync_v2(ADDRESSES(to), ADDRESSES(from), (size_t *)(uintptr_t)sizes, count,
					  (CUmemcpyAttributes *)attributes, first, attribute_count, stream));
}

CUDART_API cudaError_t cudaMemcpyBatchAsync_ptsz(void *const *to, const void *const *from, const size_t *sizes,
						 size_t count, struct cudaMemcpyAttributes *attributes, size_t *first,
						 size_t attribute_count, cudaStream_t stream)
{
	return cudaMemcpyBatchAsync(to, from, sizes, count, attributes, first, attribute_count,
				    cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaMemcpy3DBatchAsync(size_t count, struct cudaMemcpy3DBatchOp *ops, unsigned long long flags,
					      cudaStream_t stream)
{
	CUDART_CALL(cuMemcpy3DBatchAsync_v2(count, (CUDA_MEMCPY3D_BATCH_OP *)ops, flags, stream));
}

CUDART_API cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t count, struct cudaMemcpy3DBatchOp *ops,
						   unsigned long long flags, cudaStream_t stream)
{
	return cudaMemcpy3DBatchAsync(count, ops, flags, cudart_per_thread(stream));
}

/* ---- as CUDA 12 had them: they tell which copy was wrong ---- */

CUDART_API cudaError_t cudaMemcpyBatchAsync_12(void **to, void **from, size_t *sizes, size_t count,
					       struct cudaMemcpyAttributes *attributes, size_t *first,
					       size_t attribute_count, size_t *failed, cudaStream_t stream)
{
	CUDART_CALL(cuMemcpyBatchAsync(ADDRESSES(to), ADDRESSES(from), sizes, count, (CUmemcpyAttributes *)attributes,
				       first, attribute_count, failed, stream));
}

CUDART_API cudaError_t cudaMemcpyBatchAsync_12_ptsz(void **to, void **from, size_t *sizes, size_t count,
						    struct cudaMemcpyAttributes *attributes, size_t *first,
						    size_t attribute_count, size_t *failed, cudaStream_t stream)
{
	return cudaMemcpyBatchAsync_12(to, from, sizes, count, attributes, first, attribute_count, failed,
				       cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaMemcpy3DBatchAsync_12(size_t count, struct cudaMemcpy3DBatchOp *ops, size_t *failed,
						 unsigned long long flags, cudaStream_t stream)
{
	CUDART_CALL(cuMemcpy3DBatchAsync(count, (CUDA_MEMCPY3D_BATCH_OP *)ops, failed, flags, stream));
}

CUDART_API cudaError_t cudaMemcpy3DBatchAsync_12_ptsz(size_t count, struct cudaMemcpy3DBatchOp *ops, size_t *failed,
						      unsigned long long flags, cudaStream_t stream)
{
	return cudaMemcpy3DBatchAsync_12(count, ops, failed, flags, cudart_per_thread(stream));
}

/* ---- ranges ---- */

CUDART_API cudaError_t cudaMemPrefetchBatchAsync(void **addresses, size_t *sizes, size_t count,
						 struct cudaMemLocation *places, size_t *first, size_t place_count,
						 unsigned long long flags, cudaStream_t stream)
{
	CUDART_CALL(cuMemPrefetchBatchAsync(ADDRESSES(addresses), sizes, count, (CUmemLocation *)places, first,
					    place_count, flags, stream));
}

CUDART_API cudaError_t cudaMemPrefetchBatchAsync_ptsz(void **addresses, size_t *sizes, size_t count,
						      struct cudaMemLocation *places, size_t *first, size_t place_count,
						      unsigned long long flags, cudaStream_t stream)
{
	return cudaMemPrefetchBatchAsync(addresses, sizes, count, places, first, place_count, flags,
					 cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaMemDiscardBatchAsync(void **addresses, size_t *sizes, size_t count, unsigned long long flags,
						cudaStream_t stream)
{
	CUDART_CALL(cuMemDiscardBatchAsync(ADDRESSES(addresses), sizes, count, flags, stream));
}

CUDART_API cudaError_t cudaMemDiscardBatchAsync_ptsz(void **addresses, size_t *sizes, size_t count,
						     unsigned long long flags, cudaStream_t stream)
{
	return cudaMemDiscardBatchAsync(addresses, sizes, count, flags, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **addresses, size_t *sizes, size_t count,
							   struct cudaMemLocation *places, size_t *first,
							   size_t place_count, unsigned long long flags,
							   cudaStream_t stream)
{
	CUDART_CALL(cuMemDiscardAndPrefetchBatchAsync(ADDRESSES(addresses), sizes, count, (CUmemLocation *)places,
						      first, place_count, flags, stream));
}

CUDART_API cudaError_t cudaMemDiscardAndPrefetchBatchAsync_ptsz(void **addresses, size_t *sizes, size_t count,
								struct cudaMemLocation *places, size_t *first,
								size_t place_count, unsigned long long flags,
								cudaStream_t stream)
{
	return cudaMemDiscardAndPrefetchBatchAsync(addresses, sizes, count, places, first, place_count, flags,
						   cudart_per_thread(stream));
}

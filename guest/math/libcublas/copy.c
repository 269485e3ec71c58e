/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and matrices between the host's memory and the device's: rows of a two-dimensional copy. */
#include "handle.h"

struct side {
	const void *p;
	int64_t pitch; /* elements */
	bool device;
};

static void describe(CUDA_MEMCPY2D *c, const struct side *from, const struct side *to, int64_t element)
{
	c->srcMemoryType = from->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	c->dstMemoryType = to->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	c->srcHost = from->p;
	c->srcDevice = (CUdeviceptr)(uintptr_t)from->p;
	c->dstHost = (void *)(uintptr_t)to->p;
	c->dstDevice = (CUdeviceptr)(uintptr_t)to->p;
	c->srcPitch = (size_t)(from->pitch * element);
	c->dstPitch = (size_t)(to->pitch * element);
}

/* `runs` runs of `run` elements; without gaps they are one. `async`: in `stream`. */
static int copy(int64_t run, int64_t runs, int64_t element, struct side from, struct side to, bool async,
		CUstream stream)
{
	CUDA_MEMCPY2D c = {0};

	if (run == from.pitch && run == to.pitch) {
		run *= runs;
		from.pitch = to.pitch = run;
		runs = 1;
	}
	describe(&c, &from, &to, element);
	c.WidthInBytes = (size_t)(run * element);
	c.Height = (size_t)runs;
	return async ? cuMemcpy2DAsync_v2(&c, stream) : cuMemcpy2DUnaligned_v2(&c);
}

static int status_of(CUresult result)
{
	return result == CUDA_SUCCESS               ? BLAS_SUCCESS
	       : result == CUDA_ERROR_INVALID_VALUE ? BLAS_MAPPING_ERROR
						    : blas_status(result);
}

static int vector(int64_t n, int64_t element, struct side from, struct side to, bool async, CUstream stream)
{
	if (n < 0 || element < 1 || from.pitch < 1 || to.pitch < 1)
		return BLAS_INVALID_VALUE;
	return n ? status_of(copy(1, n, element, from, to, async, stream)) : BLAS_SUCCESS;
}

static int matrix(int64_t rows, int64_t columns, int64_t element, struct side from, struct side to, bool async,
		  CUstream stream)
{
	if (rows < 0 || columns < 0 || element < 1 || from.pitch < 1 || to.pitch < 1 || from.pitch < rows ||
	    to.pitch < rows)
		return BLAS_INVALID_VALUE;
	return rows && columns ? status_of(copy(rows, columns, element, from, to, async, stream)) : BLAS_SUCCESS;
}

#define SIDES(p, p_pitch, q, q_pitch, set)                                                                             \
	(struct side){p, p_pitch, !(set)}, (struct side)                                                               \
	{                                                                                                              \
		q, q_pitch, set                                                                                        \
	}

#define COPIES(Name, set, integer, tail)                                                                               \
	BLAS_API int cublas##Name##Vector##tail(integer n, integer size, const void *x, integer incx, void *y,         \
						integer incy)                                                          \
	{                                                                                                              \
		return vector(n, size, SIDES(x, incx, y, incy, set), false, NULL);                                     \
	}                                                                                                              \
	BLAS_API int cublas##Name##VectorAsync##tail(integer n, integer size, const void *x, integer incx, void *y,    \
						     integer incy, CUstream stream)                                    \
	{                                                                                                              \
		return vector(n, size, SIDES(x, incx, y, incy, set), true, stream);                                    \
	}                                                                                                              \
	BLAS_API int cublas##Name##Matrix##tail(integer rows, integer columns, integer size, const void *a,            \
						integer lda, void *b, integer ldb)                                     \
	{                                                                                                              \
		return matrix(rows, columns, size, SIDES(a, lda, b, ldb, set), false, NULL);                           \
	}                                                                                                              \
	BLAS_API int cublas##Name##MatrixAsync##tail(integer rows, integer columns, integer size, const void *a,       \
						     integer lda, void *b, integer ldb, CUstream stream)               \
	{                                                                                                              \
		return matrix(rows, columns, size, SIDES(a, lda, b, ldb, set), true, stream);                          \
	}

/* clang-format off */
COPIES(Set, true, int, )
COPIES(Get, false, int, )
COPIES(Set, true, int64_t, _64)
COPIES(Get, false, int64_t, _64)
/* clang-format on */

/* SPDX-License-Identifier: Apache-2.0 */
/* Many copies, and many ranges, in one call. */
#include "test/local/api.h"

enum { N = 1000 };

static CUstream stream;

static void fill(uint32_t *p, uint32_t seed)
{
	for (uint32_t i = 0; i < N; i++)
		p[i] = seed * 1000003 + i;
}

static void lines(void)
{
	static uint32_t pageable[N], back[N];
	uint32_t *pinned, *back_pinned;
	CUdeviceptr a, b, c;
	CUmemcpyAttributes attributes[2] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
					    {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
					     .flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}};
	size_t sizes[3] = {N * 4, N * 4, N * 4}, first[2] = {0, 1}, fail = 77;
	CUdeviceptr to[3], from[3];

	OK(cuMemHostAlloc((void **)&pinned, N * 4, 0));
	OK(cuMemHostAlloc((void **)&back_pinned, N * 4, 0));
	OK(cuMemAlloc_v2(&a, N * 4));
	OK(cuMemAlloc_v2(&b, N * 4));
	OK(cuMemAlloc_v2(&c, N * 4));
	fill(pageable, 1);
	fill(pinned, 2);
	OK(cuMemsetD32Async(c, 5, N, stream));
	to[0] = a, to[1] = b, to[2] = (CUdeviceptr)back_pinned;
	from[0] = (CUdeviceptr)pageable, from[1] = (CUdeviceptr)pinned, from[2] = c;
	OK(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, first, 2, stream));
	/* Sources that were to be read during the call may change now. */
	fill(pinned, 9);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(back, a, N * 4));
	CHECK(!memcmp(back, pageable, N * 4));
	OK(cuMemcpyDtoH_v2(back, b, N * 4));
	fill(pinned, 2);
	CHECK(!memcmp(back, pinned, N * 4));
	CHECK(back_pinned[0] == 5 && back_pinned[N - 1] == 5);
	/* An error in one copy is found before any copy is made. */
	memset(back_pinned, 0, N * 4);
	to[0] = (CUdeviceptr)back_pinned, from[0] = a, sizes[1] = N * 4 + 4;
	GIVES(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, first, 2, &fail, stream), CUDA_ERROR_INVALID_VALUE);
	CHECK(fail == 1);
	sizes[1] = N * 4;
	first[1] = 3;
	GIVES(cuMemcpyBatchAsync(to, from, sizes, 3, attributes, first, 2, &fail, stream), CUDA_ERROR_INVALID_VALUE);
	CHECK(fail == SIZE_MAX);
	first[1] = 0;
	GIVES(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, first, 2, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, first, 0, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, first, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	GIVES(cuMemcpyBatchAsync_v2(to, from, sizes, 3, attributes, first, 1, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(stream));
	CHECK(back_pinned[0] == 0);
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
	OK(cuMemFree_v2(c));
}

static CUmemcpy3DOperand at_pointer(const void *p, size_t row, size_t layer)
{
	CUmemcpy3DOperand o = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};

	o.op.ptr.ptr = (CUdeviceptr)p;
	o.op.ptr.rowLength = row;
	o.op.ptr.layerHeight = layer;
	return o;
}

static CUmemcpy3DOperand in_array(CUarray array, size_t x, size_t y, size_t z)
{
	CUmemcpy3DOperand o = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY};

	o.op.array.array = array;
	o.op.array.offset = (CUoffset3D){x, y, z};
	return o;
}

/* Parts of a box to an array and back to somewhere else. */
static void boxes(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {8, 6, 4, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
	static uint32_t src[5][7][9], dst[4][6][8];
	CUDA_MEMCPY3D_BATCH_OP ops[2];
	CUarray array;

	for (uint32_t i = 0; i < sizeof(src) / 4; i++)
		(&src[0][0][0])[i] = i;
	OK(cuArray3DCreate_v2(&array, &d));
	/* Rows of 9 and layers of 7, of which a box of 3 x 2 x 2 goes to (4, 3, 1). */
	ops[0] = (CUDA_MEMCPY3D_BATCH_OP){at_pointer(&src[1][2][3], 9, 7), in_array(array, 4, 3, 1), {3, 2, 2},
					  CU_MEMCPY_SRC_ACCESS_ORDER_ANY, 0};
	ops[1] = (CUDA_MEMCPY3D_BATCH_OP){at_pointer(&src[0][0][0], 9, 7), in_array(array, 0, 0, 0), {2, 2, 1},
					  CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, 0};
	OK(cuMemcpy3DBatchAsync_v2(2, ops, 0, stream));
	ops[0] = (CUDA_MEMCPY3D_BATCH_OP){in_array(array, 4, 3, 1), at_pointer(&dst[2][0][1], 8, 6), {3, 2, 2},
					  CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 0};
	ops[1] = (CUDA_MEMCPY3D_BATCH_OP){in_array(array, 0, 0, 0), at_pointer(dst, 0, 0), {2, 2, 1},
					  CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, 0};
	OK(cuMemcpy3DBatchAsync_v2(2, ops, 0, stream));
	OK(cuStreamSynchronize(stream));
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 2; y++)
			for (int x = 0; x < 3; x++)
				CHECK(dst[2 + z][y][1 + x] == src[1 + z][2 + y][3 + x]);
	CHECK((&dst[0][0][0])[0] == src[0][0][0] && (&dst[0][0][0])[2] == src[0][1][0]); /* tightly packed */
	ops[1].extent.depth = 0;
	GIVES(cuMemcpy3DBatchAsync_v2(2, ops, 0, stream), CUDA_ERROR_INVALID_VALUE);
	ops[1].extent.depth = 1;
	ops[1].dst.op.ptr.rowLength = 1;
	GIVES(cuMemcpy3DBatchAsync_v2(2, ops, 0, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpy3DBatchAsync_v2(1, ops, 1, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpy3DBatchAsync_v2(1, ops, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuArrayDestroy(array));
}

static void ranges(void)
{
	CUmemLocation places[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
	size_t sizes[2] = {4096, 8192}, first[2] = {0, 1};
	CUdeviceptr managed[2], plain;
	int concurrent, where;

	OK(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
	OK(cuMemAllocManaged(&managed[0], sizes[0], CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocManaged(&managed[1], sizes[1], CU_MEM_ATTACH_GLOBAL));
	if (!concurrent) {
		GIVES(cuMemDiscardBatchAsync(managed, sizes, 2, 0, stream), CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	OK(cuMemPrefetchBatchAsync(managed, sizes, 2, places, first, 2, 0, stream));
	OK(cuMemRangeGetAttribute(&where, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed[0], 4096));
	CHECK(where == 0);
	OK(cuMemRangeGetAttribute(&where, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed[1], 4096));
	CHECK(where == CU_DEVICE_CPU);
	OK(cuMemDiscardBatchAsync(managed, sizes, 2, 0, stream));
	OK(cuMemDiscardAndPrefetchBatchAsync(managed, sizes, 2, places, first, 1, 0, stream));
	OK(cuMemRangeGetAttribute(&where, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, managed[1], 4096));
	CHECK(where == 0);
	OK(cuMemAlloc_v2(&plain, 4096));
	managed[1] = plain;
	GIVES(cuMemDiscardBatchAsync(managed, sizes, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPrefetchBatchAsync(managed, sizes, 1, places, first, 2, 0, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPrefetchBatchAsync(managed, sizes, 1, places, first, 1, 1, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemDiscardBatchAsync(managed, sizes, 1, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(plain));
}

void api_batches(void)
{
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	lines();
	boxes();
	ranges();
}

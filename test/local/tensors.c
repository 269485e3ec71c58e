/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for the memory accelerator: on a GPU that has one a kernel reads tiles through them; others refuse. */
#include "api.h"

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, cuuint32_t rank, void *address, const cuuint64_t *dim,
				const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, int interleave,
				int swizzle, int promotion, int fill);
CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, int type, cuuint32_t rank, void *address, const cuuint64_t *dim,
				 const cuuint64_t *strides, const int *lower, const int *upper, cuuint32_t channels,
				 cuuint32_t pixels, const cuuint32_t *steps, int interleave, int swizzle, int promotion,
				 int fill);
CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address);

enum { TYPE_UINT32 = 2, TYPE_FLOAT16 = 6, WIDTH = 64, HEIGHT = 40, BOX = 16 };

/* Block of 256 threads: the box at (x, y) through shared memory to `to`. */
static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
			  ".visible .entry box(.param .align 64 .b8 map[128], .param .u64 to, .param .u32 x, .param .u32 y)\n"
			  "{\n"
			  "	.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
			  "	.shared .align 128 .b8 tile[1024];\n"
			  "	.shared .align 8 .b64 arrived;\n"
			  "	mov.b64 %rd1, map;\n"
			  "	cvta.param.u64 %rd2, %rd1;\n"
			  "	ld.param.u64 %rd3, [to];\n"
			  "	ld.param.u32 %r4, [x];\n"
			  "	ld.param.u32 %r5, [y];\n"
			  "	mov.u32 %r1, %tid.x;\n"
			  "	mov.u32 %r2, tile;\n"
			  "	mov.u32 %r3, arrived;\n"
			  "	setp.ne.u32 %p1, %r1, 0;\n"
			  "	@%p1 bra READY;\n"
			  "	mbarrier.init.shared::cta.b64 [%r3], 1;\n"
			  "	fence.proxy.async;\n"
			  "	mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r3], 1024;\n"
			  "	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
			  " [%r2], [%rd2, {%r4, %r5}], [%r3];\n"
			  "READY:\n"
			  "	bar.sync 0;\n"
			  "WAIT:\n"
			  "	mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n"
			  "	@!%p2 bra WAIT;\n"
			  "	shl.b32 %r6, %r1, 2;\n"
			  "	add.u32 %r2, %r2, %r6;\n"
			  "	ld.shared.u32 %r7, [%r2];\n"
			  "	cvt.u64.u32 %rd5, %r6;\n"
			  "	add.u64 %rd3, %rd3, %rd5;\n"
			  "	st.global.u32 [%rd3], %r7;\n"
			  "	ret;\n"
			  "}\n";

static CUtensorMap map;

static CUresult encode(CUdeviceptr address, cuuint32_t rank, cuuint32_t *box)
{
	static const cuuint64_t dim[] = {WIDTH, HEIGHT}, strides[] = {WIDTH * 4};
	static const cuuint32_t steps[] = {1, 1};

	return cuTensorMapEncodeTiled(&map, TYPE_UINT32, rank, (void *)(uintptr_t)address, dim, strides, box, steps, 0, 0,
				      0, 0);
}

/* What lies outside of the tensor is read as zero. */
static void check_box(CUfunction function, CUdeviceptr to, unsigned int x, unsigned int y, unsigned int first)
{
	void *params[] = {&map, &to, &x, &y};
	unsigned int read[BOX * BOX];

	OK(cuLaunchKernel(function, 1, 1, 1, BOX * BOX, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(read, to, sizeof(read)));
	for (unsigned int i = 0; i < BOX * BOX; i++) {
		unsigned int column = x + i % BOX, row = y + i / BOX;

		CHECK(read[i] == (column < WIDTH && row < HEIGHT ? first + row * WIDTH + column : 0));
	}
}

static void tiles(void)
{
	cuuint32_t box[] = {BOX, BOX};
	static unsigned int values[2 * HEIGHT * WIDTH];
	CUdeviceptr tensors, to;
	CUfunction function;
	CUmodule module;

	for (unsigned int i = 0; i < 2 * HEIGHT * WIDTH; i++)
		values[i] = i + 1;
	OK(cuMemAlloc_v2(&tensors, sizeof(values)));
	OK(cuMemAlloc_v2(&to, BOX * BOX * 4));
	OK(cuMemcpyHtoD_v2(tensors, values, sizeof(values)));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, "box"));
	OK(encode(tensors, 2, box));
	check_box(function, to, 0, 0, 1);
	check_box(function, to, 20, 7, 1);
	check_box(function, to, WIDTH - 4, HEIGHT - 4, 1);
	OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)(tensors + sizeof(values) / 2)));
	check_box(function, to, 20, 7, 1 + HEIGHT * WIDTH);
}

static void images(void)
{
	static const cuuint64_t dim[] = {64, 16, 16, 2}, strides[] = {128, 2048, 32768};
	static const int lower[] = {0, 0}, upper[] = {0, 0};
	static const cuuint32_t steps[] = {1, 1, 1, 1};
	CUtensorMap before = map;
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, 65536));
	OK(cuTensorMapEncodeIm2col(&map, TYPE_FLOAT16, 4, (void *)(uintptr_t)p, dim, strides, lower, upper, 64, 64, steps, 0,
				   3, 0, 0));
	CHECK(memcmp(&before, &map, sizeof(map)));
}

/* An error leaves the program's as it was. */
static void mistakes(void)
{
	cuuint32_t box[] = {BOX, BOX}, large[] = {1024, 1024};
	CUtensorMap before = map;

	GIVES(encode(0x1000, 0, box), CUDA_ERROR_INVALID_VALUE);
	GIVES(encode(0x1000, 6, box), CUDA_ERROR_INVALID_VALUE);
	GIVES(encode(0x1000, 2, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(encode(0x1004, 2, box), CUDA_ERROR_INVALID_VALUE);
	GIVES(encode(0x1000, 2, large), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTensorMapReplaceAddress(NULL, (void *)0x1000), CUDA_ERROR_INVALID_VALUE);
	CHECK(!memcmp(&before, &map, sizeof(map)));
}

int main(void)
{
	cuuint32_t box[] = {BOX, BOX};
	CUcontext context;
	int has;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
	if (has) {
		tiles();
		images();
		mistakes();
	} else {
		GIVES(encode(0x1000, 2, box), CUDA_ERROR_NOT_SUPPORTED);
		GIVES(cuTensorMapReplaceAddress(&map, (void *)0x1000), CUDA_ERROR_NOT_SUPPORTED);
	}
	puts("tensors: passed");
	return 0;
}

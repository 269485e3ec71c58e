/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

/*
 * add(p, k): p[i] += k, a thread a word. meet(p, n): one block counts at p + 0 and waits there until n have counted,
 * and then p[1 + n'] is how many had before; it gives up, and p[1 + n'] stays, after 2^28 looks.
 */
static const char ptx[] =
	".version 7.0\n.target sm_60\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 k)\n{\n"
	".reg .b32 %r<6>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nld.param.u32 %r5, [k];\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
	"mad.lo.u32 %r1, %r1, %r2, %r3;\nmul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\n"
	"ld.global.u32 %r4, [%l1];\nadd.u32 %r4, %r4, %r5;\nst.global.u32 [%l1], %r4;\nret;\n}\n"
	".visible .entry meet(.param .u64 p, .param .u32 n)\n{\n"
	".reg .pred %q; .reg .b32 %r<6>; .reg .b64 %l<4>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [n];\n"
	"atom.global.sys.add.u32 %r2, [%l1], 1;\nmov.u32 %r4, 0;\n"
	"look: ld.volatile.global.u32 %r3, [%l1];\nsetp.ge.u32 %q, %r3, %r1;\n@%q bra met;\n"
	"add.u32 %r4, %r4, 1;\nsetp.lt.u32 %q, %r4, 268435456;\n@%q bra look;\nret;\n"
	"met: mul.wide.u32 %l2, %r2, 4;\nadd.u64 %l3, %l1, %l2;\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%l3 + 4], %r2;\n"
	"membar.sys;\nret;\n}\n";

struct device devices[MOST];
int device_count;

static void open_device(int i)
{
	struct device *d = &devices[i];
	CUmodule module;

	OK(cuDevicePrimaryCtxRetain(&d->context, i));
	OK(cuCtxSetCurrent(d->context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&d->add, module, "add"));
	OK(cuModuleGetFunction(&d->meet, module, "meet"));
	OK(cuMemAlloc_v2(&d->memory, BYTES));
	OK(cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING));
}

void open_devices(void)
{
	OK(cuInit(0));
	OK(cuDeviceGetCount(&device_count));
	CHECK(device_count >= 2);
	device_count = device_count > MOST ? MOST : device_count;
	for (int i = device_count - 1; i >= 0; i--)
		open_device(i);
}

void use(int device)
{
	OK(cuCtxSetCurrent(devices[device].context));
}

void fill(CUdeviceptr p, uint32_t first)
{
	static uint32_t words[WORDS];

	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = first + i;
	OK(cuMemcpyHtoD_v2(p, words, BYTES));
}

void expect(CUdeviceptr p, uint32_t first)
{
	static __thread uint32_t words[WORDS];

	memset(words, 0xee, BYTES);
	OK(cuMemcpyDtoH_v2(words, p, BYTES));
	for (uint32_t i = 0; i < WORDS; i++) {
		if (words[i] != first + i)
			fprintf(stderr, "word %u is %u and not %u\n", i, words[i], first + i);
		CHECK(words[i] == first + i);
	}
}

void add(int device, CUdeviceptr p, uint32_t k)
{
	void *params[] = {&p, &k};

	use(device);
	OK(cuLaunchKernel(devices[device].add, WORDS / 256, 1, 1, 256, 1, 1, 0, devices[device].stream, params, NULL));
}

CUresult finish(int device)
{
	use(device);
	return cuStreamSynchronize(devices[device].stream);
}

void reaches(int device, CUdeviceptr p)
{
	CUcontext before;

	OK(cuCtxGetCurrent(&before));
	fill(p, 100);
	add(device, p, 11);
	OK(finish(device));
	OK(cuCtxSetCurrent(before));
	expect(p, 111);
}

void faults(int device, CUdeviceptr p)
{
	add(device, p, 11);
	GIVES(finish(device), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuStreamQuery(devices[device].stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int owner(CUdeviceptr p)
{
	int ordinal = -1;

	OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	return ordinal;
}

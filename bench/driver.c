/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>

#define DEFINE(name, parameters) CUresult(*name) parameters;
DRIVER_FUNCTIONS(DEFINE)

CUdevice driver_device;

/* The short kernel's sum has no closed form that a compiler would find, and is stored so that it is not left out. */
const char driver_ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry empty(.param .u64 p)\n{\nret;\n}\n"
	".visible .entry short(.param .u64 p)\n{\n"
	".reg .u32 %x, %i;\n.reg .u64 %p;\n.reg .pred %q;\n"
	"ld.param.u64 %p, [p];\nmov.u32 %x, %tid.x;\nmov.u32 %i, 0;\n"
	"again:\nmad.lo.u32 %x, %x, 1664525, 1013904223;\nadd.u32 %i, %i, 1;\n"
	"setp.lt.u32 %q, %i, 2000;\n@%q bra again;\n"
	"setp.eq.u64 %q, %p, 0;\n@%q bra done;\nst.global.u32 [%p], %x;\n"
	"done:\nret;\n}\n"
	".visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
	".reg .u32 %i, %d, %t, %n;\n.reg .u64 %a, %b, %c, %o;\n.reg .f32 %x, %y;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [a];\nld.param.u64 %b, [b];\nld.param.u64 %c, [c];\nld.param.u32 %n, [n];\n"
	"mov.u32 %i, %ctaid.x;\nmov.u32 %d, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %i, %i, %d, %t;\n"
	"setp.ge.u32 %q, %i, %n;\n@%q bra done;\nmul.wide.u32 %o, %i, 4;\n"
	"add.u64 %a, %a, %o;\nadd.u64 %b, %b, %o;\nadd.u64 %c, %c, %o;\n"
	"ld.global.f32 %x, [%a];\nld.global.f32 %y, [%b];\nadd.f32 %x, %x, %y;\nst.global.f32 [%c], %x;\n"
	"done:\nret;\n}\n";

void driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "no CUDA driver: %s\n", dlerror());
		exit(1);
	}
#define LOOK_UP(name, parameters)                                                                                      \
	*(void **)&name = dlsym(library, #name);                                                                       \
	if (!name) {                                                                                                   \
		fprintf(stderr, "this CUDA driver has no %s\n", #name);                                                \
		exit(1);                                                                                               \
	}
	DRIVER_FUNCTIONS(LOOK_UP)
}

void driver_start(void)
{
	CUcontext context;

	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&driver_device, 0), "cuDeviceGet");
	check(cuDevicePrimaryCtxRetain(&context, driver_device), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

CUfunction driver_kernel(enum kernel kernel)
{
	static const char *const names[KERNELS] = {"empty", "short", "vector_add"};
	static CUfunction functions[KERNELS];
	CUmodule module;

	if (functions[kernel])
		return functions[kernel];
	check(cuModuleLoadData(&module, driver_ptx), "cuModuleLoadData");
	for (int k = 0; k < KERNELS; k++)
		check(cuModuleGetFunction(&functions[k], module, names[k]), "cuModuleGetFunction");
	return functions[kernel];
}

void driver_launch(enum kernel kernel, CUstream stream)
{
	uint64_t argument = 0;
	void *parameters[] = {&argument};

	check(cuLaunchKernel(driver_kernel(kernel), 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL), "cuLaunchKernel");
}

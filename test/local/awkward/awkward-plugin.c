/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a kernel and a variable, for programs that open and close such. Built with several FACTORs. */
#include <stddef.h>

#include "protocol/cuda-runtime-abi.h"
#include "test/local/image.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **fatbin);
void __cudaUnregisterFatBinary(void **fatbin);
void __cudaRegisterFunction(void **fatbin, const char *host, char *device, const char *name, int limit, void *thread,
			    void *block, void *block_size, void *grid_size, int *warp);
void __cudaRegisterVar(void **fatbin, char *host, char *address, const char *name, int external, size_t bytes,
		       int constant, int global);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t at, enum cudaMemcpyKind kind);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream);

/* *p = FACTOR * v + base */
IMAGE(image, ".version 6.0\n.target sm_30\n.address_size 64\n"
	     ".visible .global .align 4 .u32 base = 100;\n"
	     ".visible .entry scale(.param .u64 p, .param .u32 v) {\n"
	     "  .reg .u64 %a, %b; .reg .u32 %v, %w;\n"
	     "  ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; mov.u64 %b, base; ld.global.u32 %w, [%b];\n"
	     "  mad.lo.u32 %v, %v, " TEXT(FACTOR) ", %w;\n"
						  "  cvta.to.global.u64 %a, %a; st.global.u32 [%a], %v;\n"
						  "  ret;\n}\n");

static void **fatbin;
static char scale, base;

__attribute__((constructor)) static void load(void)
{
	fatbin = __cudaRegisterFatBinary(&image_wrapper);
	__cudaRegisterFunction(fatbin, &scale, "scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(fatbin, &base, "base", "base", 0, 4, 0, 0);
	__cudaRegisterFatBinaryEnd(fatbin);
}

__attribute__((destructor)) static void unload(void)
{
	__cudaUnregisterFatBinary(fatbin);
}

/* FACTOR * v + 100, then what follows from another base. -1: an error. */
__attribute__((visibility("default"))) int awkward_plugin(unsigned int v, unsigned int other_base)
{
	const dim3 one = {1, 1, 1};
	unsigned int results[2];
	void *p, *args[] = {&p, &v};

	if (cudaMalloc(&p, 4))
		return -1;
	for (int i = 0; i < 2; i++) {
		if (cudaLaunchKernel(&scale, one, one, args, 0, NULL) ||
		    cudaMemcpy(&results[i], p, 4, cudaMemcpyDeviceToHost) ||
		    cudaMemcpyToSymbol(&base, &other_base, 4, 0, cudaMemcpyHostToDevice))
			return -1;
	}
	if (cudaFree(p) || results[0] != v * FACTOR + 100)
		return -1;
	return (int)results[1];
}

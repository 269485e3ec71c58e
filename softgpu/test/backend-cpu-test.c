/* SPDX-License-Identifier: Apache-2.0 */
#include "softgpu/test/backend-cpu-test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const struct vcuda_backend_ops *cuda;

const char backend_ptx[BACKEND_PTX_BYTES] =
	".version 7.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .global .align 4 .u32 counter = 7;\n"
	".const .align 4 .f32 scale = 0f3FC00000;\n"
	/* a[i] += b[i] for i < n */
	".visible .entry add(.param .u64 add_a, .param .u64 add_b, .param .u32 add_n)\n"
	"{\n"
	"	.reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<8>;\n"
	"	ld.param.u64 %rd1, [add_a];\n"
	"	ld.param.u64 %rd2, [add_b];\n"
	"	ld.param.u32 %r2, [add_n];\n"
	"	mov.u32 %r3, %ctaid.x;\n"
	"	mov.u32 %r4, %ntid.x;\n"
	"	mov.u32 %r5, %tid.x;\n"
	"	mad.lo.s32 %r1, %r3, %r4, %r5;\n"
	"	setp.ge.s32 %p, %r1, %r2;\n"
	"	@%p bra DONE;\n"
	"	cvta.to.global.u64 %rd3, %rd1;\n"
	"	cvta.to.global.u64 %rd4, %rd2;\n"
	"	mul.wide.s32 %rd5, %r1, 4;\n"
	"	add.s64 %rd6, %rd3, %rd5;\n"
	"	add.s64 %rd7, %rd4, %rd5;\n"
	"	ld.global.f32 %f1, [%rd6];\n"
	"	ld.global.f32 %f2, [%rd7];\n"
	"	add.f32 %f3, %f1, %f2;\n"
	"	st.global.f32 [%rd6], %f3;\n"
	"DONE:\n"
	"	ret;\n"
	"}\n"
	/* *p = v */
	".visible .entry store(.param .u64 store_p, .param .u32 store_v)\n"
	"{\n"
	"	.reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [store_p];\n"
	"	ld.param.u32 %r1, [store_v];\n"
	"	st.volatile.global.u32 [%rd1], %r1;\n"
	"	ret;\n"
	"}\n"
	/* counter++ in each thread */
	".visible .entry count()\n"
	"{\n"
	"	.reg .b32 %r<2>;\n"
	"	atom.global.add.u32 %r1, [counter], 1;\n"
	"	ret;\n"
	"}\n"
	/* while (!*p) */
	".visible .entry spin(.param .u64 spin_p)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [spin_p];\n"
	"AGAIN:\n"
	"	ld.volatile.global.u32 %r1, [%rd1];\n"
	"	setp.eq.u32 %p, %r1, 0;\n"
	"	@%p bra AGAIN;\n"
	"	ret;\n"
	"}\n";

int make_context(void **state)
{
	CUcontext context;

	assert_int_equal(cuda->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	*state = context;
	return 0;
}

int destroy_context(void **state)
{
	assert_int_equal(cuda->cuCtxDestroy_v2(*state), CUDA_SUCCESS);
	return 0;
}

CUdeviceptr alloc(size_t bytes)
{
	CUdeviceptr p = 0;

	assert_int_equal(cuda->cuMemAlloc_v2(&p, bytes), CUDA_SUCCESS);
	assert_int_equal(p % 256, 0);
	return p;
}

CUmodule load(void)
{
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, backend_ptx), CUDA_SUCCESS);
	return module;
}

CUfunction function(CUmodule module, const char *name)
{
	CUfunction f;

	assert_int_equal(cuda->cuModuleGetFunction(&f, module, name), CUDA_SUCCESS);
	return f;
}

CUstream stream(unsigned int flags)
{
	CUstream s;

	assert_int_equal(cuda->cuStreamCreateWithPriority(&s, flags, 0), CUDA_SUCCESS);
	return s;
}

CUresult launch(CUfunction f, unsigned int grid, unsigned int block, CUstream s, void **params)
{
	return cuda->cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, params, NULL);
}

CUresult launch_store(CUfunction f, CUstream s, uint64_t address, uint32_t value)
{
	void *params[] = {&address, &value};

	return launch(f, 1, 1, s, params);
}

uint32_t *shared_word(void)
{
	uint32_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(cuda->cuMemHostRegister_v2(p, 4096, 0), CUDA_SUCCESS);
	return p;
}

CUresult launch_spin(CUfunction f, CUstream s, uint32_t *word)
{
	uint64_t address = (uint64_t)(uintptr_t)word;
	void *params[] = {&address};

	return launch(f, 1, 1, s, params);
}

void open_gate(uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

void start_device(void)
{
	/* A lost wake-up shows as a hang, which the test ends. */
	alarm(600);
	setenv("VCUDA_CPU_MEMORY", "64M", 1);
	setenv("VCUDA_CPU_BLOCK_MEMORY", "64M", 1);
	setenv("VCUDA_CPU_THREADS", "3", 1);
	unsetenv("VCUDA_CPU_COMPUTE");
	cuda = vcuda_backend_cpu();
}

void init_device(void)
{
	start_device();
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		abort();
}

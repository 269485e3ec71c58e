/* SPDX-License-Identifier: Apache-2.0 */
/* Modules from end to end: what the compiler makes of PTX, and the driver's linker. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static CUdeviceptr memory;
static CUcontext context;

/* Runs `name`(memory, value) with one thread, which has a result for the host. */
static uint32_t result_of(CUmodule module, const char *name, uint32_t value)
{
	void *params[] = {&memory, &value};
	uint32_t out;
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&out, memory, sizeof(out)));
	return out;
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 p, .param .u32 v)\n{\n.reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %l;\n" \
	"ld.param.u64 %l, [p];\nld.param.u32 %r1, [v];\ncvt.rn.f32.s32 %f1, %r1;\n" body                               \
	"st.global.b32 [%l], %r2;\nret;\n}\n"

/* LLVM makes calls of a C library of what it is given: a worker has them all. */
static void library_functions(void)
{
	static const char ptx[] =
		HEAD KERNEL("both", "sin.approx.f32 %f2, %f1;\ncos.approx.f32 %f3, %f1;\nadd.f32 %f2, %f2, %f3;\n"
				    "mov.b32 %r2, %f2;\n")
			KERNEL("power", "ex2.approx.f32 %f2, %f1;\nmov.b32 %r2, %f2;\n");
	CUmodule module;

	OK(cuModuleLoadData(&module, ptx));
	CHECK(fabsf(float_of(result_of(module, "both", 3)) - sinf(3) - cosf(3)) < 1e-5f);
	CHECK(float_of(result_of(module, "power", (uint32_t)-3)) == 0.125f);
	OK(cuModuleUnload(module));
}

#define CALL(name)                                                                                                     \
	"{\n.param .b32 in;\nst.param.b32 [in], %r1;\n.param .b32 out;\ncall.uni (out), " name ", (in);\n"             \
	"ld.param.b32 %r2, [out];\n}\n"
#define FUNCTION(words, name, body)                                                                                    \
	words " .func (.param .b32 r) " name "(.param .b32 a)\n{\n.reg .b32 %x<4>; .reg .b64 %y;\n"                    \
	      "ld.param.b32 %x1, [a];\n" body "st.param.b32 [r], %x1;\nret;\n}\n"

/* The module uses another module's twice and bias, and has a weak `choice` that another one replaces. */
static const char caller[] = HEAD
	".extern .func (.param .b32 r) twice(.param .b32 a);\n"
	".extern .global .align 4 .u32 bias;\n.global .align 4 .u32 own = 1;\n" FUNCTION(".weak", "choice",
											 "add.u32 %x1, %x1, 1000;\n")
		KERNEL("calls", CALL("twice") "ld.global.u32 %r3, [bias];\nadd.u32 %r2, %r2, %r3;\n"
					      "ld.global.u32 %r3, [own];\nadd.u32 %r2, %r2, %r3;\n")
			KERNEL("chooses", CALL("choice"));
static const char callee[] =
	HEAD ".visible .global .align 4 .u32 bias = 70;\n.global .align 4 .u32 own = 500;\n" FUNCTION(
		".visible", "twice", "add.u32 %x1, %x1, %x1;\nld.global.u32 %x2, [own];\nadd.u32 %x1, %x1, %x2;\n")
		FUNCTION(".visible", "choice", "add.u32 %x1, %x1, 2000;\n");

/* The options that the program passes: an option's place in `values` is its place in the list. */
enum { TIME, INFO, INFO_SIZE, ERRORS, ERRORS_SIZE, REGISTERS, OPTIONS };

struct told {
	CUjit_option options[OPTIONS];
	void *values[OPTIONS];
	char info[64], errors[512];
};

static void ask(struct told *t)
{
	static const CUjit_option options[OPTIONS] = {CU_JIT_WALL_TIME,
						      CU_JIT_INFO_LOG_BUFFER,
						      CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
						      CU_JIT_ERROR_LOG_BUFFER,
						      CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
						      CU_JIT_MAX_REGISTERS};

	memcpy(t->options, options, sizeof(options));
	memset(t->info, 'x', sizeof(t->info));
	memset(t->errors, 'x', sizeof(t->errors));
	t->values[INFO] = t->info;
	t->values[INFO_SIZE] = (void *)sizeof(t->info);
	t->values[ERRORS] = t->errors;
	t->values[ERRORS_SIZE] = (void *)sizeof(t->errors);
	t->values[REGISTERS] = (void *)(uintptr_t)32;
}

static float time_of(const struct told *t)
{
	float ms;

	memcpy(&ms, &t->values[TIME], sizeof(ms));
	return ms;
}

static void add(CUlinkState link, const char *ptx)
{
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)ptx, strlen(ptx) + 1, "part", 0, NULL, NULL));
}

static void links(void)
{
	CUlinkState link;
	struct told told;
	CUmodule module;
	CUdeviceptr bias;
	uint32_t value;
	size_t bytes;
	void *image;

	ask(&told);
	OK(cuLinkCreate_v2(OPTIONS, told.options, told.values, &link));
	add(link, caller);
	add(link, callee);
	OK(cuLinkComplete(link, &image, &bytes));
	CHECK(!told.errors[0] && !told.info[0] && !told.values[ERRORS_SIZE] && time_of(&told) > 0);
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	CHECK(result_of(module, "calls", 4) == 2 * 4 + 500 + 70 + 1);
	CHECK(result_of(module, "chooses", 4) == 2004);
	/* extern and visible are one variable */
	OK(cuModuleGetGlobal_v2(&bias, &bytes, module, "bias"));
	OK(cuMemcpyDtoH_v2(&value, bias, sizeof(value)));
	CHECK(bytes == 4 && value == 70);
	value = 7000;
	OK(cuMemcpyHtoD_v2(bias, &value, sizeof(value)));
	CHECK(result_of(module, "calls", 1) == 7503);
	OK(cuModuleUnload(module));
	/* alone, weak is good enough; a GPU's driver refuses a module with a function that is nowhere, used or not */
	if (is_software()) {
		OK(cuModuleLoadData(&module, caller));
		CHECK(result_of(module, "chooses", 4) == 1004);
		OK(cuModuleUnload(module));
	}
}

static const char bad[] = HEAD ".visible .entry k()\n{\nadd.u32 nowhere, 1, 2;\n}\n";
/* a register that is wider than its instruction's type */
static const char wide[] = HEAD ".visible .entry k()\n{\n.reg .b64 %l;\nadd.u32 %l, 1, 2;\n}\n";

static void says_what_is_wrong(void)
{
	struct told told;
	CUlibrary library;
	CUmodule module;

	ask(&told);
	CHECK(cuModuleLoadDataEx(&module, bad, OPTIONS, told.options, told.values) == CUDA_ERROR_INVALID_PTX);
	CHECK(strstr(told.errors, "nowhere") && strstr(told.errors, "line 6"));
	CHECK((uintptr_t)told.values[ERRORS_SIZE] == strlen(told.errors) && !told.info[0]);
	ask(&told);
	told.values[ERRORS_SIZE] = (void *)10;
	/* a GPU's driver compiles a library when it is used */
	if (is_software()) {
		GIVES(cuLibraryLoadData(&library, bad, told.options, told.values, OPTIONS, NULL, NULL, 0),
		      CUDA_ERROR_INVALID_PTX);
		CHECK(strlen(told.errors) == 9 && (uintptr_t)told.values[ERRORS_SIZE] == 9);
	}
	ask(&told);
	OK(cuModuleLoadDataEx(&module, callee, OPTIONS, told.options, told.values));
	CHECK(!told.errors[0] && !told.values[ERRORS_SIZE]);
	OK(cuModuleUnload(module));
	told.options[REGISTERS] = CU_JIT_NUM_OPTIONS;
	CHECK(cuModuleLoadDataEx(&module, caller, OPTIONS, told.options, told.values) == CUDA_ERROR_INVALID_VALUE);
}

/* Each part is compiled when it is added, and what is wrong with it can be read then. */
static void says_what_is_wrong_with_parts(void)
{
	CUdeviceptr bias;
	struct told told;
	CUlinkState link;
	CUmodule module;
	size_t bytes;
	void *image;

	ask(&told);
	OK(cuLinkCreate_v2(OPTIONS, told.options, told.values, &link));
	CHECK(!told.errors[0] && !told.info[0]);
	add(link, caller);
	CHECK(!told.errors[0]);
	GIVES(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)bad, sizeof(bad), "part", 0, NULL, NULL),
	      CUDA_ERROR_INVALID_PTX);
	CHECK(strstr(told.errors, "nowhere") && strstr(told.errors, "line 6"));
	if (is_software()) {
		/* the others are there still; who has the words learns how many there are at the end */
		GIVES(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)wide, sizeof(wide), "wide", 0, NULL, NULL),
		      CUDA_ERROR_INVALID_PTX);
		CHECK(strstr(told.errors, "nowhere") && strstr(told.errors, "wide: line 7"));
		CHECK((uintptr_t)told.values[ERRORS_SIZE] == sizeof(told.errors));
		GIVES(cuLinkAddData_v2(link, CU_JIT_INPUT_OBJECT, (void *)bad, 4, "o", 0, NULL, NULL),
		      CUDA_ERROR_INVALID_IMAGE);
		GIVES(cuLinkAddData_v2(link, CU_JIT_INPUT_CUBIN, (void *)"\177ELF", 4, "o", 0, NULL, NULL),
		      CUDA_ERROR_NOT_SUPPORTED);
		CHECK(strstr(told.errors, "a cubin"));
		add(link, callee);
		OK(cuLinkComplete(link, &image, &bytes));
		CHECK((uintptr_t)told.values[ERRORS_SIZE] == strlen(told.errors) && time_of(&told) > 0);
		OK(cuModuleLoadData(&module, image));
		OK(cuModuleGetGlobal_v2(&bias, &bytes, module, "bias"));
		OK(cuModuleUnload(module));
	}
	OK(cuLinkDestroy(link));
}

/* A link that is not destroyed ends with its context; the program still has to destroy its handle. */
static void ends_with_its_context(void)
{
	CUlinkState link;
	CUcontext other;
	size_t bytes;
	void *image;

	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	add(link, callee);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(context));
	GIVES(cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_HANDLE);
	OK(cuLinkDestroy(link));
	GIVES(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
}

static CUlinkState of_all;

static void *adds_until_it_is_gone(void *data)
{
	CUresult result = CUDA_SUCCESS;

	OK(cuCtxSetCurrent(context));
	while (result == CUDA_SUCCESS)
		result = cuLinkAddData_v2(of_all, CU_JIT_INPUT_PTX, (void *)callee, sizeof(callee), "t", 0, NULL, NULL);
	CHECK(result == CUDA_ERROR_INVALID_HANDLE);
	return data;
}

/* Calls on one link come one after the other, and those that come too late find none. */
static void destroys_beside_others(void)
{
	pthread_t threads[4];

	for (int round = 0; round < 10; round++) {
		OK(cuLinkCreate_v2(0, NULL, NULL, &of_all));
		for (int i = 0; i < 4; i++)
			CHECK(!pthread_create(&threads[i], NULL, adds_until_it_is_gone, NULL));
		usleep(3000);
		OK(cuLinkDestroy(of_all));
		for (int i = 0; i < 4; i++)
			CHECK(!pthread_join(threads[i], NULL));
	}
}

/* As cudaCGSynchronize() of the device runtime library does: each thread turns what another block's wrote, twice. */
static void waits_for_the_grid(void)
{
	static const char turns[] = HEAD
		".extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle (.param .b32 a);\n"
		".extern .func (.param .b32 r) __cuda_syscall_CGS_sync (.param .b64 a, .param .b32 b);\n"
		".visible .entry turns(.param .u64 p, .param .u32 one)\n{\n"
		".reg .b64 %h, %p, %q, %d; .reg .b32 %i, %j, %k, %n, %x, %one; .reg .pred %some;\n"
		"ld.param.u64 %p, [p]; ld.param.u32 %one, [one]; mov.u32 %k, 0;\n"
		"mov.u32 %i, %ctaid.x; mov.u32 %j, %ntid.x; mov.u32 %n, %nctaid.x; mul.lo.u32 %n, %n, %j;\n"
		"mov.u32 %x, %tid.x; mad.lo.u32 %i, %i, %j, %x; mul.wide.u32 %d, %i, 4; add.u64 %q, %p, %d;\n"
		"sub.u32 %j, %n, %i; sub.u32 %j, %j, 1; mul.wide.u32 %d, %j, 4; add.u64 %p, %p, %d;\n"
		"st.global.u32 [%q], %i; setp.ne.u32 %some, %x, 0;\n"
		"{ .param .b32 a; st.param.b32 [a], 1; .param .b64 r;\n"
		"call.uni (r), __cuda_syscall_CGS_get_intrinsic_handle, (a); ld.param.b64 %h, [r]; }\n"
		"AGAIN: bar.sync 0; setp.eq.u32 %some, %one, 0; @%some bra CALL;\n"
		"setp.ne.u32 %some, %x, 0; @%some bra MET;\n"
		"CALL: { .param .b64 a; st.param.b64 [a], %h; .param .b32 b; st.param.b32 [b], %one; .param .b32 r;\n"
		"call (r), __cuda_syscall_CGS_sync, (a, b); ld.param.b32 %x, [r]; }\n"
		"mov.u32 %x, %tid.x;\n"
		"MET: bar.sync 0; setp.ne.u32 %some, %k, 0; @%some bra WRITE;\n"
		"mov.u32 %k, 1; ld.volatile.global.u32 %j, [%p]; bra AGAIN;\n"
		"WRITE: st.global.u32 [%q], %j; ret;\n}\n";
	uint32_t out[256], one;
	CUdeviceptr p;
	void *params[] = {&p, &one}, *image;
	CUfunction kernel;
	CUlinkState link;
	CUmodule module;
	size_t bytes;

	OK(cuMemAlloc_v2(&p, sizeof(out)));
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	add(link, turns);
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	OK(cuModuleGetFunction(&kernel, module, "turns"));
	for (one = 0; one < 2; one++) {
		OK(cuMemsetD8_v2(p, 0xff, sizeof(out)));
		OK(cuLaunchCooperativeKernel(kernel, 4, 1, 1, 64, 1, 1, 0, NULL, params));
		OK(cuMemcpyDtoH_v2(out, p, sizeof(out)));
		for (uint32_t i = 0; i < 256; i++)
			CHECK(out[i] == 255 - i);
	}
	OK(cuModuleUnload(module));
	OK(cuMemFree_v2(p));
}

/* Files are read when they are added. */
static void links_files(void)
{
	char path[] = "/tmp/vcuda-modules-XXXXXX";
	int file = mkstemp(path);
	CUlinkState link;
	CUmodule module;
	size_t bytes;
	void *image;

	CHECK(file >= 0 && write(file, callee, strlen(callee)) == (ssize_t)strlen(callee));
	close(file);
	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
	unlink(path);
	add(link, caller);
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	CHECK(result_of(module, "calls", 4) == 579);
	OK(cuModuleUnload(module));
}

/* Threads from 5 on fail; each says so. */
static void fails_an_assertion(void)
{
	static const char ptx[] =
		HEAD ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n,\n"
		     ".param .b64 s);\n"
		     ".global .align 1 .b8 what[6] = {120, 32, 60, 32, 53, 0};\n" /* x < 5 */
		     ".global .align 1 .b8 where[5] = {97, 46, 99, 117, 0};\n"    /* a.cu */
		     ".global .align 1 .b8 who[2] = {107, 0};\n"                  /* k */
		     ".visible .entry k()\n{\n.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %l<4>;\n"
		     "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p, %r1, 5;\n@%p bra DONE;\n"
		     "mov.u64 %l1, what;\ncvta.global.u64 %l1, %l1;\nmov.u64 %l2, where;\ncvta.global.u64 %l2, %l2;\n"
		     "mov.u64 %l3, who;\ncvta.global.u64 %l3, %l3;\n"
		     "{\n.param .b64 a; st.param.b64 [a], %l1;\n.param .b64 b; st.param.b64 [b], %l2;\n"
		     ".param .b32 c; st.param.b32 [c], 77;\n.param .b64 d; st.param.b64 [d], %l3;\n"
		     ".param .b64 e; st.param.b64 [e], 1;\ncall.uni __assertfail, (a, b, c, d, e);\n}\n"
		     "DONE:\nret;\n}\n";
	CUmodule module;
	CUfunction f;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "k"));
	OK(cuLaunchKernel(f, 1, 1, 1, 4, 2, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
	OK(cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ASSERT);
	GIVES(cuMemFree_v2(memory), CUDA_ERROR_ASSERT);
}

/* More names than one message holds, each of them as long as C++ makes them. */
enum { MANY = 200, LONG = 2000 };

static char *many_kernels(void)
{
	char *text = malloc(MANY * (LONG + 100) + 100), *at = text;

	at += sprintf(at, HEAD);
	for (int i = 0; i < MANY; i++)
		at += sprintf(at, ".visible .entry k%d_%0*d()\n{\nret;\n}\n", i, LONG, i);
	return text;
}

static void check_name(const char *name, int *seen)
{
	int number;

	CHECK(sscanf(name, "k%d_", &number) == 1 && number >= 0 && number < MANY && strlen(name) > LONG);
	CHECK(!seen[number]++);
}

static void lists_functions(void)
{
	int seen[MANY] = {0}, seen_kernels[MANY] = {0};
	CUfunction functions[MANY + 1] = {0}, same;
	CUkernel kernels[MANY + 1] = {0}, same_kernel;
	char *ptx = many_kernels();
	CUlibrary library;
	CUmodule module;
	const char *name;
	unsigned int n;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunctionCount(&n, module));
	CHECK(n == MANY);
	OK(cuModuleEnumerateFunctions(functions, 3, module));
	CHECK(functions[2] && !functions[3]);
	OK(cuModuleEnumerateFunctions(functions, MANY + 1, module));
	CHECK(functions[MANY - 1] && !functions[MANY]);
	for (int i = 0; i < MANY; i++) {
		OK(cuFuncGetName(&name, functions[i]));
		check_name(name, seen);
	}
	OK(cuModuleGetFunction(&same, module, name));
	CHECK(same == functions[MANY - 1]);
	OK(cuLaunchKernel(functions[7], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuModuleUnload(module));
	GIVES(cuModuleGetFunctionCount(&n, module), CUDA_ERROR_INVALID_HANDLE);
	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernelCount(&n, library));
	CHECK(n == MANY);
	OK(cuLibraryEnumerateKernels(kernels, MANY + 1, library));
	for (int i = 0; i < MANY; i++) {
		OK(cuKernelGetName(&name, kernels[i]));
		check_name(name, seen_kernels);
	}
	OK(cuLibraryGetKernel(&same_kernel, library, name));
	CHECK(same_kernel == kernels[MANY - 1]);
	OK(cuLibraryUnload(library));
	GIVES(cuLibraryEnumerateKernels(kernels, 1, library), CUDA_ERROR_INVALID_HANDLE);
	free(ptx);
}

static _Atomic(CUmodule) at_hand;

static void *enumerates(void *data)
{
	CUfunction functions[MANY];

	OK(cuCtxSetCurrent(context));
	for (CUmodule module; (module = at_hand);)
		cuModuleEnumerateFunctions(functions, MANY, module);
	return data;
}

/* Names are those of the module, or there is an error: no call reads a module that another thread unloads. */
static void unloads_beside_enumeration(void)
{
	char *ptx = many_kernels();
	CUmodule module, last;
	pthread_t thread;

	OK(cuModuleLoadData(&module, ptx));
	at_hand = module;
	CHECK(!pthread_create(&thread, NULL, enumerates, NULL));
	for (int round = 0; round < 30; round++) {
		last = module;
		OK(cuModuleLoadData(&module, ptx));
		at_hand = module;
		OK(cuModuleUnload(last));
	}
	at_hand = NULL;
	CHECK(!pthread_join(thread, NULL));
	OK(cuModuleUnload(module));
	OK(cuCtxSynchronize());
	free(ptx);
}

/* More threads than the program has said that a kernel has: no lack of anything, the launch is wrong. */
static void launch_bounds(void)
{
	static const char ptx[] = HEAD ".visible .entry few(.param .u64 p)\n.maxntid 128, 1, 1\n{\nret;\n}\n";
	void *params[] = {&memory};
	CUmodule module;
	CUfunction few;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&few, module, "few"));
	/* Before a first launch, and after it. */
	for (int i = 0; i < 2; i++) {
		GIVES(cuLaunchKernel(few, 1, 1, 1, 64, 3, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
		OK(cuLaunchKernel(few, 1, 1, 1, 64, 2, 1, 0, NULL, params, NULL));
	}
	OK(cuCtxSynchronize());
	OK(cuModuleUnload(module));
}

int main(int argc, char **argv)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, 4096));
	if (argc == 2 && !strcmp(argv[1], "assert")) {
		fails_an_assertion();
		return 0;
	}
	library_functions();
	launch_bounds();
	links();
	says_what_is_wrong();
	says_what_is_wrong_with_parts();
	ends_with_its_context();
	links_files();
	/* a GPU's driver has these for its own library only */
	if (is_software())
		waits_for_the_grid();
	if (is_software()) /* not known for a GPU's driver: the same part many times */
		destroys_beside_others();
	lists_functions();
	if (is_software()) /* a GPU's driver is not made for that: the program's worker ends */
		unloads_beside_enumeration();
	OK(cuMemFree_v2(memory));
	printf("modules: passed\n");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are translated when they are first used: over a fake translator, fake-sass/fake-sass.c. */
#include "softgpu/test/backend-cpu-test.h"

#include <string.h>

#include "common/log.h"
#include "softgpu/test/sass-sample.h"

static char text_log[4096];

static void begin_log(void)
{
	memset(text_log, 0, sizeof(text_log));
	vcuda_log_capture(text_log, sizeof(text_log));
}

static void expect_log(const char *part)
{
	vcuda_log_capture(NULL, 0);
	if (!strstr(text_log, part))
		fail_msg("the log has no `%s`: %s", part, text_log);
}

static CUmodule load_sample(void)
{
	struct sass_sample s = sass_sample();
	CUmodule module;

	vcuda_cpu_set_image_bound(sizeof(s));
	assert_int_equal(cuda->cuModuleLoadData(&module, &s), CUDA_SUCCESS);
	return module;
}

/* The number that a kernel stores. */
static uint32_t run(CUfunction f)
{
	CUdeviceptr p = alloc(4);
	void *params[] = {&p};
	uint32_t number;

	assert_int_equal(launch(f, 1, 1, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&number, p, 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	return number;
}

static uint32_t counter(CUmodule module)
{
	CUdeviceptr p;
	uint32_t number;

	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "counter"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&number, p, 4), CUDA_SUCCESS);
	return number;
}

/* All kernels have the variables of the module, with the values of its outline. */
static void shared_variables(void **state)
{
	CUmodule module = load_sample();
	CUfunction f = function(module, "shared");

	(void)state;
	assert_ptr_equal(function(module, "shared"), f);
	assert_int_equal(run(f), 10 + 4);
	assert_int_equal(run(f), 11 + 4);
	assert_int_equal(counter(module), 12);
	assert_int_equal(run(function(module, "own")), 12 + 5);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* Two modules of a cubin have variables of their own. */
static void two_modules(void **state)
{
	CUmodule a = load_sample(), b = load_sample();

	(void)state;
	run(function(a, "shared"));
	assert_int_equal(counter(a), 11);
	assert_int_equal(counter(b), 10);
	assert_int_equal(run(function(b, "own")), 10 + 5);
	assert_int_equal(cuda->cuModuleUnload(a), CUDA_SUCCESS);
	assert_int_equal(run(function(b, "shared")), 10 + 4);
	assert_int_equal(cuda->cuModuleUnload(b), CUDA_SUCCESS);
}

static uint32_t run_in(CUlibrary library, CUcontext context)
{
	CUkernel kernel;

	assert_int_equal(cuda->cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "shared"), CUDA_SUCCESS);
	return run((CUfunction)kernel);
}

/* A library's module in each context translates the kernel for itself. */
static void libraries(void **state)
{
	struct sass_sample s = sass_sample();
	CUlibrary library;
	CUcontext second;

	assert_int_equal(cuda->cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(sizeof(s));
	assert_int_equal(cuda->cuLibraryLoadData(&library, &s, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(run_in(library, *state), 10 + 4);
	assert_int_equal(run_in(library, second), 10 + 4);
	assert_int_equal(run_in(library, *state), 11 + 4);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(second), CUDA_SUCCESS);
}

/* A kernel whose text is wrong is refused when it is launched; others of the module run. */
static void refused(const char *name, const char *why)
{
	CUmodule module = load_sample();
	CUdeviceptr p = 0;
	void *params[] = {&p};
	CUfunction f;

	begin_log();
	f = function(module, name);
	expect_log(why);
	begin_log();
	assert_int_equal(launch(f, 1, 1, NULL, params), CUDA_ERROR_NOT_SUPPORTED);
	expect_log("the instruction `its code` is not supported");
	assert_int_equal(run(function(module, "shared")), 10 + 4);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void wrong_texts(void **state)
{
	(void)state;
	refused("invalid", "cannot translate the machine code of kernel invalid: line 10 of the PTX");
	refused("different", "the variables of a translated kernel are not those of its module");
	refused("missing", "there is no kernel missing in its translation");
}

/* A context that ends takes its translated kernels along. */
static void end_of_context(void **state)
{
	CUcontext context;

	(void)state;
	assert_int_equal(cuda->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	run(function(load_sample(), "own"));
	assert_int_equal(cuda->cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(shared_variables), IN_CONTEXT(two_modules),    IN_CONTEXT(libraries),
		IN_CONTEXT(wrong_texts),      IN_CONTEXT(end_of_context),
	};

	start_device();
	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

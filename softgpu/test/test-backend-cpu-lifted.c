/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are translated when they are first used: over a fake translator, fake-sass/fake-sass.c. */
#include "softgpu/test/backend-cpu-test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/meter.h"
#include "softgpu/test/sass-sample.h"

void vcuda_cpu_meter(const struct vcuda_meter *to);

#define BLOCKS 8

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

/* A kernel that the translator refuses has no text, and its launch says why. */
static void refused_kernel(void **state)
{
	CUmodule module = load_sample();
	CUfunction f = function(module, "refused");
	CUdeviceptr p = 0;
	void *params[] = {&p};
	int bytes;

	(void)state;
	assert_int_equal(cuda->cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f), CUDA_SUCCESS);
	for (unsigned int n = 0; n < 2; n++) {
		begin_log();
		assert_int_equal(launch(f, 1, 1, NULL, params), CUDA_ERROR_NOT_SUPPORTED);
		expect_log("cannot compile kernel refused: the instruction `HGMMA at 0x120` is not supported");
	}
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void no_memory(void **state)
{
	CUmodule module = load_sample();
	CUfunction f;

	(void)state;
	for (unsigned int n = 0; n < 2; n++)
		assert_int_equal(cuda->cuModuleGetFunction(&f, module, "memory"), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(run(function(module, "shared")), 10 + 4);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* A fault names the instruction of the machine code. `number`: which of the kernel's faults. */
static void faults_at(CUcontext before, const char *name, uint32_t number, const char *expected)
{
	int log_file = memfd_create("log", 0), terminal = dup(STDERR_FILENO);
	char text[1000] = "";
	CUcontext ending;
	CUfunction f;
	CUdeviceptr p;
	void *params[] = {&p};
	CUresult result;

	assert_int_equal(cuda->cuCtxCreate_v2(&ending, 0, 0), CUDA_SUCCESS);
	f = function(load_sample(), name);
	p = alloc(4);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(p, &number, 4), CUDA_SUCCESS);
	/* the line is another thread's */
	dup2(log_file, STDERR_FILENO);
	launch(f, 1, 1, NULL, params);
	result = cuda->cuCtxSynchronize();
	dup2(terminal, STDERR_FILENO);
	assert_int_not_equal(result, CUDA_SUCCESS);
	assert_true(pread(log_file, text, sizeof(text) - 1, 0) > 0);
	if (!strstr(text, expected))
		fail_msg("the log has no `%s`: %s", expected, text);
	close(log_file);
	close(terminal);
	cuda->cuCtxDestroy_v2(ending);
	assert_int_equal(cuda->cuCtxSetCurrent(before), CUDA_SUCCESS);
}

static void offsets_of_faults(void **state)
{
	faults_at(*state, "faults", 1,
		  "kernel faults: illegal address: a store of 4 bytes at 0x10 (global), block (0,0,0), "
		  "thread (0,0,0), offset 0x1230 of the machine code\n");
	faults_at(*state, "faults", 2,
		  "kernel faults: trap, block (0,0,0), thread (0,0,0), offset 0x4560 of `callee` in the machine "
		  "code\n");
	faults_at(*state, "faults", 3, ", offset 0x789a0 of `other` in the machine code\n");
	faults_at(*state, "faults", 4, ", offset 0x7890 of `callee` in the machine code\n");
}

/* ---- the tenant's memory ---- */

static uint64_t most_code = UINT64_MAX;
static bool has_room = true;
static unsigned int refused_modules;

static bool take(unsigned int gpu, uint64_t bytes)
{
	(void)gpu;
	(void)bytes;
	return true;
}

static void give(unsigned int gpu, uint64_t bytes)
{
	(void)gpu;
	(void)bytes;
}

static bool no_limit(unsigned int gpu, uint64_t *limit, uint64_t *left)
{
	(void)gpu;
	(void)limit;
	(void)left;
	return false;
}

static bool is_limited(void)
{
	return false;
}

static bool host_room(uint64_t bytes)
{
	(void)bytes;
	return has_room;
}

static void in_files(int64_t bytes)
{
	(void)bytes;
}

static void queue(uint64_t *commands, uint64_t *bytes)
{
	*commands = *bytes = UINT64_MAX;
}

static uint64_t modules(void)
{
	return most_code;
}

static void queue_refused(void)
{
}

static void module_refused(void)
{
	refused_modules++;
}

static const struct vcuda_meter meter = {take,     give,  no_limit, is_limited,    host_room,
					 in_files, queue, modules,  queue_refused, module_refused};

/* Whether the text of a kernel fits beside its module's. */
static bool text_fits(const char *name)
{
	struct sass_sample s = sass_sample();
	CUfunction f;
	CUmodule module;
	CUresult result;

	vcuda_cpu_set_image_bound(sizeof(s));
	if (cuda->cuModuleLoadData(&module, &s) != CUDA_SUCCESS)
		return false;
	result = cuda->cuModuleGetFunction(&f, module, name);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	if (result != CUDA_SUCCESS)
		assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
	return result == CUDA_SUCCESS;
}

/* Texts of kernels count as modules do, until the kernel is refused or its module ends. */
static void metered_texts(void **state)
{
	CUmodule module;

	(void)state;
	refused_modules = 0;
	for (most_code = sizeof(struct sass_sample); !text_fits("own"); most_code += 16)
		;
	assert_true(refused_modules > 1);
	for (unsigned int n = 0; n < 10; n++)
		assert_true(text_fits("own"));
	module = load_sample();
	function(module, "invalid");
	function(module, "different");
	function(module, "missing");
	function(module, "refused");
	assert_int_equal(run(function(module, "own")), 10 + 5);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	most_code = UINT64_MAX;
}

static void *library_symbol(const char *name)
{
	void *library = dlopen("libvcuda-sass.so", RTLD_NOW | RTLD_NOLOAD), *symbol;

	assert_non_null(library);
	symbol = dlsym(library, name);
	assert_non_null(symbol);
	dlclose(library);
	return symbol;
}

/* The translator asks the tenant's limit. */
static void translator_asks(void **state)
{
	bool (**ask)(uint64_t) = library_symbol("fake_sass_room");

	(void)state;
	assert_non_null(*ask);
	assert_true((*ask)(1));
	has_room = false;
	assert_false((*ask)(1));
	has_room = true;
}

/* ---- other threads, while a kernel is translated ---- */

static CUcontext context;
static CUmodule slow_module;
static CUfunction other_function;
static CUresult other_result;
static pthread_t other;
static bool other_has_ended;

static void set_hook(void (*hook)(void))
{
	*(void (**)(void))library_symbol("fake_sass_hook") = hook;
}

static void *allocate(void *argument)
{
	CUdeviceptr p;

	(void)argument;
	cuda->cuCtxSetCurrent(context);
	other_result = cuda->cuMemAlloc_v2(&p, 4);
	if (other_result == CUDA_SUCCESS)
		other_result = cuda->cuMemFree_v2(p);
	return NULL;
}

/* The calls of another thread end before the translation does. */
static void call_meanwhile(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_create(&other, NULL, allocate, NULL);
	other_has_ended = !pthread_timedjoin_np(other, NULL, &until);
}

static void calls_meanwhile(void **state)
{
	context = *state;
	slow_module = load_sample();
	set_hook(call_meanwhile);
	assert_int_equal(run(function(slow_module, "slow")), 5);
	set_hook(NULL);
	assert_true(other_has_ended);
	assert_int_equal(other_result, CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(slow_module), CUDA_SUCCESS);
}

/* Time for the other thread to wait. A shorter one would let the test pass, and not see what it is for. */
static void wait_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void *get_slow(void *argument)
{
	(void)argument;
	cuda->cuCtxSetCurrent(context);
	other_result = cuda->cuModuleGetFunction(&other_function, slow_module, "slow");
	return NULL;
}

static unsigned int translations;

static void get_meanwhile(void)
{
	if (translations++)
		return;
	pthread_create(&other, NULL, get_slow, NULL);
	wait_a_little();
}

/* Two threads that ask for one kernel get one function, which is translated once. */
static void same_kernel(void **state)
{
	CUfunction f;

	context = *state;
	slow_module = load_sample();
	set_hook(get_meanwhile);
	f = function(slow_module, "slow");
	set_hook(NULL);
	pthread_join(other, NULL);
	assert_int_equal(other_result, CUDA_SUCCESS);
	assert_ptr_equal(other_function, f);
	assert_int_equal(translations, 1);
	assert_int_equal(run(f), 5);
	assert_int_equal(cuda->cuModuleUnload(slow_module), CUDA_SUCCESS);
}

static void *unload(void *argument)
{
	(void)argument;
	cuda->cuCtxSetCurrent(context);
	other_result = cuda->cuModuleUnload(slow_module);
	return NULL;
}

static void unload_meanwhile(void)
{
	pthread_create(&other, NULL, unload, NULL);
	wait_a_little();
}

/* A module that is unloaded stays until the translation has ended, and has no function then. */
static void unloaded_meanwhile(void **state)
{
	CUfunction f;

	context = *state;
	slow_module = load_sample();
	set_hook(unload_meanwhile);
	assert_int_equal(cuda->cuModuleGetFunction(&f, slow_module, "slow"), CUDA_ERROR_INVALID_HANDLE);
	set_hook(NULL);
	pthread_join(other, NULL);
	assert_int_equal(other_result, CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(slow_module), CUDA_ERROR_INVALID_HANDLE);
}

static CUlibrary slow_library;

static void *unload_library(void *argument)
{
	(void)argument;
	other_result = cuda->cuLibraryUnload(slow_library);
	return NULL;
}

static void unload_library_meanwhile(void)
{
	pthread_create(&other, NULL, unload_library, NULL);
	wait_a_little();
}

static void library_unloaded_meanwhile(void **state)
{
	struct sass_sample s = sass_sample();
	CUkernel kernel;
	CUfunction f;

	(void)state;
	vcuda_cpu_set_image_bound(sizeof(s));
	assert_int_equal(cuda->cuLibraryLoadData(&slow_library, &s, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, slow_library, "slow"), CUDA_SUCCESS);
	set_hook(unload_library_meanwhile);
	assert_int_equal(cuda->cuKernelGetFunction(&f, kernel), CUDA_ERROR_INVALID_HANDLE);
	set_hook(NULL);
	pthread_join(other, NULL);
	assert_int_equal(other_result, CUDA_SUCCESS);
}

/* A kernel that calls the device runtime. Each block of a cooperative launch sees what all have added. */
static void device_runtime(void **state)
{
	CUmodule module = load_sample();
	CUdeviceptr p = alloc(BLOCKS * 4);
	void *params[] = {&p};
	uint32_t numbers[BLOCKS];

	(void)state;
	assert_int_equal(
		cuda->cuLaunchCooperativeKernel(function(module, "meets"), BLOCKS, 1, 1, 1, 1, 1, 0, NULL, params),
		CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(numbers, p, sizeof(numbers)), CUDA_SUCCESS);
	for (unsigned int n = 0; n < BLOCKS; n++)
		assert_int_equal(numbers[n], 10 + BLOCKS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	/* without a cooperative launch, a fault that names the function */
	faults_at(*state, "meets", 0, "offset 0x0 of `__cuda_syscall_CGS_sync` in the machine code");
}

/* A context that ends takes its translated kernels along. */
static void end_of_context(void **state)
{
	CUcontext ending;

	(void)state;
	assert_int_equal(cuda->cuCtxCreate_v2(&ending, 0, 0), CUDA_SUCCESS);
	run(function(load_sample(), "own"));
	assert_int_equal(cuda->cuCtxDestroy_v2(ending), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(shared_variables),   IN_CONTEXT(two_modules),
		IN_CONTEXT(libraries),          IN_CONTEXT(wrong_texts),
		IN_CONTEXT(end_of_context),     IN_CONTEXT(refused_kernel),
		IN_CONTEXT(no_memory),          IN_CONTEXT(metered_texts),
		IN_CONTEXT(offsets_of_faults),  IN_CONTEXT(translator_asks),
		IN_CONTEXT(calls_meanwhile),    IN_CONTEXT(same_kernel),
		IN_CONTEXT(unloaded_meanwhile), IN_CONTEXT(library_unloaded_meanwhile),
		IN_CONTEXT(device_runtime),
	};

	start_device();
	vcuda_cpu_meter(&meter);
	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

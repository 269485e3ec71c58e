/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime library over a fake driver: what it keeps itself. The first test must run first: nothing has been called
 * before it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/cuda-functions.h"
#include "test-cudart-fake.h"

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
			    void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
		       int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext, size_t size,
			      int constant, int global);
char __cudaInitModule(void **handle);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
			       cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
				    cudaStream_t stream);
cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host, void **args);
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t cudaSetupArgument(const void *argument, size_t bytes, size_t offset);
cudaError_t cudaLaunch(const void *host);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host);
cudaError_t cudaFuncGetName(const char **name, const void *host);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaMalloc(void **address, size_t bytes);
cudaError_t cudaFree(void *address);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
				 cudaStream_t stream);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
			       enum cudaMemcpyKind kind);
cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol);
cudaError_t cudaMemset3D(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaGraphCreate(void *graph, unsigned int flags);

static const dim3 one = {1, 1, 1};
static char host_kernel, host_other, host_missing, host_variable, host_unknown;
static void *host_managed;
static struct {
	uint32_t magic, version;
	void *data, *extra;
} wrapper = {0x466243b1, 1, NULL, NULL};
static void **fatbin;

static void add_function(void **handle, char *host, const char *name)
{
	__cudaRegisterFunction(handle, host, host, name, -1, NULL, NULL, NULL, NULL, NULL);
}

static void test_registering_calls_nobody(void **state)
{
	fatbin = __cudaRegisterFatBinary(&wrapper);
	add_function(fatbin, &host_kernel, FAKE_KERNEL);
	add_function(fatbin, &host_other, FAKE_OTHER_KERNEL);
	add_function(fatbin, &host_missing, "no such kernel");
	__cudaRegisterVar(fatbin, &host_variable, NULL, FAKE_VARIABLE, 0, FAKE_VARIABLE_BYTES, 0, 0);
	__cudaRegisterManagedVar(fatbin, &host_managed, NULL, FAKE_MANAGED, 0, 8, 0, 0);
	__cudaRegisterFatBinaryEnd(fatbin);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(fake.calls, 0);
}

static void test_devices_need_no_context(void **state)
{
	struct cudaDeviceProp prop;
	int value;

	assert_int_equal(cudaGetDeviceCount(&value), cudaSuccess);
	assert_int_equal(value, 2);
	assert_int_equal(cudaGetDevice(&value), cudaSuccess);
	assert_int_equal(value, 0);
	assert_int_equal(cudaGetDeviceProperties(&prop, 1), cudaSuccess);
	assert_string_equal(prop.name, "second");
	assert_int_equal(prop.totalGlobalMem, (size_t)2 << 33);
	assert_int_equal(prop.warpSize, 1010);
	assert_int_equal(prop.maxGridSize[2], 1007);
	assert_int_equal(prop.memPitch, 1011);
	assert_int_equal(prop.hostNumaMultinodeIpcSupported, 1143);
	assert_int_equal(cudaGetDeviceProperties(&prop, 2), cudaErrorInvalidDevice);
	assert_int_equal(cudaDeviceGetAttribute(&value, 9999, 0), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	assert_int_equal(fake.inits, 1);
	assert_int_equal(fake.retains, 0);
}

static void test_launch(void **state)
{
	int number = 7;
	void *args[] = {&number};
	dim3 grid = {1, 2, 3}, block = {4, 5, 6};
	cudaStream_t stream = (cudaStream_t)0x1000;

	assert_int_equal(cudaLaunchKernel(&host_other, grid, block, args, 99, stream), cudaSuccess);
	assert_ptr_equal(fake.launch.function, fake_function(FAKE_OTHER_KERNEL));
	assert_int_equal(fake.launch.grid[1], 2);
	assert_int_equal(fake.launch.block[2], 6);
	assert_int_equal(fake.launch.shared, 99);
	assert_ptr_equal(fake.launch.stream, stream);
	assert_ptr_equal(fake.launch.params, args);
	assert_ptr_equal(fake.image, &wrapper);
	assert_int_equal(cudaLaunchKernel(&host_other, one, one, args, 0, NULL), cudaSuccess);
	assert_int_equal(fake.loads, 1);
	assert_int_equal(fake.kernels, 1);
	assert_int_equal(fake.retains, 1);
	assert_int_equal(cudaLaunchKernel(&host_other, one, one, args, (size_t)1 << 32, NULL), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void test_launch_by_handle(void **state)
{
	cudaLaunchConfig_t config = {
		.gridDim = {8, 1, 1}, .blockDim = {32, 1, 1}, .dynamicSmemBytes = 64, .numAttrs = 2};
	cudaKernel_t kernel;

	assert_int_equal(__cudaGetKernel(&kernel, &host_kernel), cudaSuccess);
	assert_int_equal(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), cudaSuccess);
	assert_ptr_equal(fake.launch.function, fake_function(FAKE_KERNEL));
	assert_ptr_equal(fake.launch.stream, NULL);
	assert_int_equal(__cudaLaunchKernel_ptsz(kernel, one, one, NULL, 0, NULL), cudaSuccess);
	assert_ptr_equal(fake.launch.stream, cudaStreamPerThread);
	/* The API takes a handle wherever it takes a host function. */
	assert_int_equal(cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), cudaSuccess);
	assert_int_equal(cudaLaunchKernelExC(&config, kernel, NULL), cudaSuccess);
	assert_int_equal(fake.launch.grid[0], 8);
	assert_int_equal(fake.launch.shared, 64);
	assert_int_equal(fake.launch.attributes, 2);
}

static void test_unknown_functions(void **state)
{
	struct cudaFuncAttributes attributes;
	cudaKernel_t kernel = NULL;
	const char *name;

	assert_int_equal(cudaLaunchKernel(&host_unknown, one, one, NULL, 0, NULL), cudaErrorInvalidResourceHandle);
	assert_int_equal(__cudaLaunchKernel(NULL, one, one, NULL, 0, NULL), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaFuncGetAttributes(&attributes, &host_unknown), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaFuncGetAttributes(&attributes, NULL), cudaErrorInvalidDeviceFunction);
	assert_int_equal(cudaLaunchKernel(&host_missing, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
	assert_int_equal(__cudaGetKernel(&kernel, &host_missing), cudaErrorInvalidDeviceFunction);
	assert_null(kernel);
	assert_int_equal(__cudaLaunchKernel(kernel, one, one, NULL, 0, NULL), cudaErrorInvalidDeviceFunction);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
	assert_int_equal(cudaFuncGetAttributes(&attributes, &host_kernel), cudaSuccess);
	assert_int_equal(attributes.maxThreadsPerBlock, 1);
	assert_int_equal(attributes.sharedSizeBytes, 2);
	assert_int_equal(attributes.nonPortableClusterSizeAllowed, 15);
	assert_int_equal(cudaFuncGetName(&name, &host_kernel), cudaSuccess);
	assert_string_equal(name, FAKE_KERNEL);
}

static void test_call_configurations_nest(void **state)
{
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;

	assert_int_equal(__cudaPushCallConfiguration((dim3){1, 2, 3}, (dim3){4, 5, 6}, 7, (cudaStream_t)8), 0);
	assert_int_equal(__cudaPushCallConfiguration((dim3){9, 1, 1}, (dim3){10, 1, 1}, 11, NULL), 0);
	assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
	assert_int_equal(grid.x, 9);
	assert_int_equal(shared, 11);
	assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
	assert_int_equal(grid.z, 3);
	assert_int_equal(block.y, 5);
	assert_ptr_equal(stream, (cudaStream_t)8);
	assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
	for (int i = 0; i < 32; i++)
		assert_int_equal(__cudaPushCallConfiguration(one, one, 0, NULL), 0);
	assert_int_not_equal(__cudaPushCallConfiguration(one, one, 0, NULL), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
	cudaGetLastError();
}

static void test_legacy_launch(void **state)
{
	int number = 5;
	double real = 2.5;

	assert_int_equal(cudaSetupArgument(&number, sizeof(number), 0), cudaErrorMissingConfiguration);
	assert_int_equal(cudaLaunch(&host_kernel), cudaErrorMissingConfiguration);
	assert_int_equal(cudaConfigureCall((dim3){2, 1, 1}, (dim3){64, 1, 1}, 12, NULL), cudaSuccess);
	assert_int_equal(cudaSetupArgument(&number, sizeof(number), 0), cudaSuccess);
	assert_int_equal(cudaSetupArgument(&real, sizeof(real), 8), cudaSuccess);
	assert_int_equal(cudaSetupArgument(&real, sizeof(real), 4089), cudaErrorInvalidValue);
	assert_int_equal(cudaSetupArgument(&real, sizeof(real), SIZE_MAX), cudaErrorInvalidValue);
	/* An argument that is itself the result of a launch. */
	assert_int_equal(cudaConfigureCall(one, one, 0, NULL), cudaSuccess);
	assert_int_equal(cudaLaunch(&host_other), cudaSuccess);
	assert_int_equal(fake.launch.buffer_size, 0);
	assert_int_equal(cudaLaunch(&host_kernel), cudaSuccess);
	assert_ptr_equal(fake.launch.function, fake_function(FAKE_KERNEL));
	assert_null(fake.launch.params);
	assert_int_equal(fake.launch.buffer_size, 16);
	assert_memory_equal(fake.launch.buffer, &number, sizeof(number));
	assert_memory_equal(fake.launch.buffer + 8, &real, sizeof(real));
	assert_int_equal(fake.launch.block[0], 64);
	assert_int_equal(cudaConfigureCall(one, one, 0, NULL), cudaSuccess);
	assert_int_equal(cudaLaunch(&host_unknown), cudaErrorInvalidDeviceFunction);
	cudaGetLastError();
}

static void test_variables(void **state)
{
	unsigned char data[FAKE_VARIABLE_BYTES] = {1, 2, 3, 4};
	size_t size;

	assert_int_equal(cudaGetSymbolSize(&size, &host_variable), cudaSuccess);
	assert_int_equal(size, FAKE_VARIABLE_BYTES);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 4, 12, cudaMemcpyHostToDevice), cudaSuccess);
	assert_memory_equal(fake_variable + 12, data, 4);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 5, 12, cudaMemcpyHostToDevice),
			 cudaErrorInvalidValue);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 1, SIZE_MAX, cudaMemcpyHostToDevice),
			 cudaErrorInvalidValue);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 1, 0, cudaMemcpyDeviceToHost),
			 cudaErrorInvalidMemcpyDirection);
	/* checked in this order: symbol, whether there are bytes to copy, range, kind */
	assert_int_equal(cudaMemcpyToSymbol(&host_unknown, data, 1, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidSymbol);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 0, 99, cudaMemcpyDeviceToHost), cudaSuccess);
	assert_int_equal(cudaMemcpyToSymbol(&host_variable, data, 5, 12, cudaMemcpyDeviceToHost),
			 cudaErrorInvalidValue);
	assert_int_equal(cudaMemcpyToSymbol(&host_unknown, data, 1, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
	assert_int_equal(cudaMemcpyToSymbol(&host_kernel, data, 1, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
	assert_true(__cudaInitModule(fatbin));
	assert_non_null(host_managed);
	assert_int_equal(cudaGetSymbolSize(&size, &host_managed), cudaSuccess);
	assert_int_equal(size, 8);
	assert_true(__cudaInitModule(fatbin));
	size = 0;
	assert_int_equal(cudaGetSymbolSize(&size, host_managed), cudaSuccess);
	assert_int_equal(size, 8);
	cudaGetLastError();
}

static void *other_thread(void *error)
{
	assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
	assert_int_equal(cudaSetDevice(7), cudaErrorInvalidDevice);
	*(cudaError_t *)error = cudaPeekAtLastError();
	return NULL;
}

static void test_last_error(void **state)
{
	cudaError_t other;
	pthread_t thread;

	assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, &other), 0);
	pthread_join(thread, NULL);
	assert_int_equal(other, cudaErrorInvalidDevice);
	assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
	assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
	assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
	assert_int_equal(cudaGraphCreate(NULL, 0), cudaErrorNotSupported);
	assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
	assert_string_equal(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
	assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
	assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
	assert_string_equal(cudaGetErrorString(cudaErrorApiFailureBase), "api failure base");
}

/* The driver remembers what has become of a context; the runtime remembers the last error until it is read. */
static void test_context_errors_come_back(void **state)
{
	fake.sync_result = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	assert_int_equal(cudaPeekAtLastError(), cudaErrorIllegalAddress);
	fake.sync_result = CUDA_SUCCESS;
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
}

static void *use_after_reset(void *barrier)
{
	void *memory;

	assert_int_equal(cudaMalloc(&memory, 8), cudaSuccess);
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	assert_int_equal(cudaFree(memory), cudaSuccess);
	return NULL;
}

/* A context that another thread reset is made anew where it is still current. */
static void test_reset_reaches_other_threads(void **state)
{
	pthread_barrier_t barrier;
	pthread_t thread;
	unsigned int retains;

	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(pthread_create(&thread, NULL, use_after_reset, &barrier), 0);
	pthread_barrier_wait(&barrier);
	retains = fake.retains;
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	assert_int_equal(fake.retains, retains + 1);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(fake.retains, retains + 1);
	pthread_barrier_destroy(&barrier);
}

static void test_current_device(void **state)
{
	unsigned int retains = fake.retains;
	int device;

	assert_int_equal(cudaSetDevice(1), cudaSuccess);
	assert_int_equal(fake.retains, retains + 1);
	assert_int_equal(cudaGetDevice(&device), cudaSuccess);
	assert_int_equal(device, 1);
	/* The context that the driver API made current counts. */
	assert_int_equal(cuCtxSetCurrent(fake_primary(0)), CUDA_SUCCESS);
	assert_int_equal(cudaGetDevice(&device), cudaSuccess);
	assert_int_equal(device, 0);
	assert_int_equal(cuCtxSetCurrent(fake_context()), CUDA_SUCCESS);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(cudaGetDevice(&device), cudaSuccess);
	assert_int_equal(device, 1);
	assert_int_equal(fake.retains, retains + 1);
	assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static void test_copies_and_fills(void **state)
{
	unsigned int syncs = fake.stream_syncs;
	char from[4] = "abc", to[4], box[2 * 3 * 8];

	assert_int_equal(cudaMemcpy(to, from, 4, (enum cudaMemcpyKind)5), cudaErrorInvalidMemcpyDirection);
	assert_int_equal(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice), cudaSuccess);
	assert_int_equal(cudaMemcpy(to, from, 4, cudaMemcpyDeviceToHost), cudaSuccess);
	assert_string_equal(to, "abc");
	assert_int_equal(fake.stream_syncs, syncs);
	assert_int_equal(cudaMemcpy_ptds(to, from, 4, cudaMemcpyHostToDevice), cudaSuccess);
	assert_int_equal(fake.stream_syncs, syncs + 1);
	assert_ptr_equal(fake.stream, cudaStreamPerThread);
	assert_int_equal(cudaMemcpyAsync_ptsz(to, from, 4, cudaMemcpyHostToDevice, (cudaStream_t)0x50), cudaSuccess);
	assert_ptr_equal(fake.stream, (cudaStream_t)0x50);
	assert_int_equal(fake.stream_syncs, syncs + 1);
	/* A box of 2 x 2 x 2 bytes in rows of 8, slices of 3 rows. */
	memset(box, 0, sizeof(box));
	assert_int_equal(cudaMemset3D((struct cudaPitchedPtr){box, 8, 8, 3}, 1, (struct cudaExtent){2, 2, 2}),
			 cudaSuccess);
	for (int i = 0; i < (int)sizeof(box); i++)
		assert_int_equal(box[i], i % 8 < 2 && i / 8 % 3 < 2);
	cudaGetLastError();
}

static void test_fatbin_that_fails_to_load(void **state)
{
	static char host;
	void **handle = __cudaRegisterFatBinary(&wrapper);

	add_function(handle, &host, FAKE_KERNEL);
	fake.load_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
	assert_int_equal(cudaLaunchKernel(&host, one, one, NULL, 0, NULL), cudaErrorNoKernelImageForDevice);
	fake.load_result = CUDA_SUCCESS;
	assert_int_equal(cudaLaunchKernel(&host, one, one, NULL, 0, NULL), cudaSuccess);
	/* dlclose() of a library with kernels. */
	__cudaUnregisterFatBinary(handle);
	assert_int_equal(fake.unloads, 1);
	assert_int_equal(cudaLaunchKernel(&host, one, one, NULL, 0, NULL), cudaErrorInvalidResourceHandle);
	cudaGetLastError();
}

static void test_many_symbols(void **state)
{
	enum { COUNT = 20000 };
	static char hosts[COUNT];
	void **handle = __cudaRegisterFatBinary(&wrapper);
	unsigned int launches = fake.launches;

	for (int i = 0; i < COUNT; i++)
		add_function(handle, &hosts[i], i % 2 ? FAKE_KERNEL : FAKE_OTHER_KERNEL);
	for (int i = 0; i < COUNT; i += 77) {
		assert_int_equal(cudaLaunchKernel(&hosts[i], one, one, NULL, 0, NULL), cudaSuccess);
		assert_ptr_equal(fake.launch.function, fake_function(i % 2 ? FAKE_KERNEL : FAKE_OTHER_KERNEL));
		launches++;
	}
	assert_int_equal(fake.launches, launches);
	__cudaUnregisterFatBinary(handle);
	for (int i = 0; i < COUNT; i += 77)
		assert_int_equal(cudaLaunchKernel(&hosts[i], one, one, NULL, 0, NULL), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaLaunchKernel(&host_kernel, one, one, NULL, 0, NULL), cudaSuccess);
	cudaGetLastError();
}

/*
 * The handlers of a program that unregister its fatbins run at its end, when the worker may be gone: they must not call
 * the driver.
 */
static void finish_like_a_program(void)
{
	unsigned int unloads = fake.unloads;

	__cudaUnregisterFatBinary(fatbin);
	if (fake.unloads != unloads)
		_exit(3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registering_calls_nobody),
		cmocka_unit_test(test_devices_need_no_context),
		cmocka_unit_test(test_launch),
		cmocka_unit_test(test_launch_by_handle),
		cmocka_unit_test(test_unknown_functions),
		cmocka_unit_test(test_call_configurations_nest),
		cmocka_unit_test(test_legacy_launch),
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_last_error),
		cmocka_unit_test(test_context_errors_come_back),
		cmocka_unit_test(test_reset_reaches_other_threads),
		cmocka_unit_test(test_current_device),
		cmocka_unit_test(test_copies_and_fills),
		cmocka_unit_test(test_fatbin_that_fails_to_load),
		cmocka_unit_test(test_many_symbols),
	};

	/* As start-up code does, before anything is used: so it runs last. */
	atexit(finish_like_a_program);
	return cmocka_run_group_tests_name("cudart", tests, NULL, NULL);
}

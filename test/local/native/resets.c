/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The effect of cudaDeviceReset: it resets the primary context that is current in the calling thread, and its handle
 * stays current. NVIDIA's runtimes of 11.8, 12.9, 13.0 and 13.5 answer so (after a fault: asked of 13.0). usage: resets
 * [LIBCUDART]
 */
#include <pthread.h>

#include "protocol/cuda-runtime-abi.h"
#include "test/local/native/native.h"

static void *runtime;

#define RUNTIME(name, ...) ((int (*)())function(runtime, #name))(__VA_ARGS__)

static bool is_active(void)
{
	unsigned int flags;
	int active = -1;

	CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	return active == 1;
}

static CUcontext current(void)
{
	CUcontext context = NULL;

	CALL(cuCtxGetCurrent, &context);
	return context;
}

static void *reset_unused(void *nothing)
{
	expect("thread that did not use CUDA: reset", RUNTIME(cudaDeviceReset), 0);
	expect("thread that did not use CUDA: a context is current", current() != NULL, false);
	expect("thread that did not use CUDA: primary is active", is_active(), true);
	return nothing;
}

static void *reset_used(void *nothing)
{
	expect("thread with a device: cudaSetDevice", RUNTIME(cudaSetDevice, 0), 0);
	expect("thread with a device: reset", RUNTIME(cudaDeviceReset), 0);
	expect("thread with a device: a context is current", current() != NULL, true);
	expect("thread with a device: primary is active", is_active(), false);
	return nothing;
}

static void in_thread(void *(*probe)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, probe, NULL))
		exit(2);
	pthread_join(thread, NULL);
}

static void threads(void)
{
	void *memory;

	expect("malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
	in_thread(reset_unused);
	expect("free after another thread's empty reset", RUNTIME(cudaFree, memory), 0);
	expect("malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
	in_thread(reset_used);
	expect("malloc after another thread's reset", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
}

static void again(void)
{
	CUcontext before = current();
	void *memory;

	expect("reset", RUNTIME(cudaDeviceReset), 0);
	expect("the same context is current", before && current() == before, true);
	expect("primary is active", is_active(), false);
	expect("second reset", RUNTIME(cudaDeviceReset), 0);
	expect("second reset: primary is active", is_active(), false);
	expect("malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
	expect("malloc: the same context is current", current() == before, true);
}

static void other_context(void)
{
	CUcontext other = NULL;
	void *memory;

	expect("malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
	expect("cuCtxCreate", CALL(cuCtxCreate_v2, &other, 0, 0), 0);
	expect("other context: reset", RUNTIME(cudaDeviceReset), 0);
	expect("other context: is current", other && current() == other, true);
	expect("other context: primary is active", is_active(), true);
	expect("cuCtxDestroy", CALL(cuCtxDestroy_v2, other), 0);
	expect("other context: free", RUNTIME(cudaFree, memory), 0);
	expect("cuCtxSetCurrent(NULL)", CALL(cuCtxSetCurrent, NULL), 0);
	expect("no context: reset", RUNTIME(cudaDeviceReset), 0);
	expect("no context: primary is active", is_active(), true);
}

/* In a child, since the runtime has not used the context. */
static void drivers_primary(const void *nothing, void *answers)
{
	int *answer = answers;
	CUcontext context;
	void *memory;

	(void)nothing;
	CALL(cuInit, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, 0);
	CALL(cuCtxSetCurrent, context);
	answer[0] = RUNTIME(cudaDeviceReset);
	answer[1] = is_active();
	answer[2] = RUNTIME(cudaMalloc, &memory, (size_t)100);
	answer[3] = current() == context;
}

/* A reset does not end what a kernel's fault has ended. */
static void after_fault(void)
{
	CUfunction trap;
	CUmodule module;
	void *memory;

	expect("malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), 0);
	NEED(cuModuleLoadData, &module,
	     ".version 6.3\n.target sm_52\n.address_size 64\n.visible .entry t()\n{\ntrap;\nret;\n}\n");
	NEED(cuModuleGetFunction, &trap, module, "t");
	NEED(cuLaunchKernel, trap, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	expect("fault: synchronize", RUNTIME(cudaDeviceSynchronize), cudaErrorLaunchFailure);
	expect("fault: malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), cudaErrorLaunchFailure);
	expect("fault: reset", RUNTIME(cudaDeviceReset), 0);
	expect("reset after a fault: malloc", RUNTIME(cudaMalloc, &memory, (size_t)100), cudaErrorDevicesUnavailable);
	expect("reset after a fault: synchronize", RUNTIME(cudaDeviceSynchronize), cudaErrorDevicesUnavailable);
	expect("reset after a fault: free", RUNTIME(cudaFree, NULL), cudaErrorDevicesUnavailable);
}

int main(int argc, char **argv)
{
	const char *library = argc > 1 ? argv[1] : "libcudart.so.13";
	int answer[4] = {-1, -1, -1, -1};

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	runtime = dlopen(library, RTLD_NOW);
	if (!cuda || !runtime) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	in_child(drivers_primary, NULL, answer, sizeof(answer));
	expect("the driver's primary: reset", answer[0], 0);
	expect("the driver's primary: is active", answer[1], false);
	expect("the driver's primary: malloc", answer[2], 0);
	expect("the driver's primary: is current", answer[3], true);
	expect("reset of nothing", RUNTIME(cudaDeviceReset), 0);
	expect("reset of nothing: primary is active", is_active(), false);
	expect("reset of nothing: a context is current", current() != NULL, false);
	threads();
	again();
	other_context();
	after_fault();
	printf("%s: %d probes, %d differ\n", library, probes, different);
	return different ? 1 : 0;
}

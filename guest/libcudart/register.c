/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start-up code of programs registers here; see register.h. A fatbin becomes a driver library, which is good for
 * every context, at the first use of one of its symbols.
 *
 * Programs unregister in their exit handlers. By then the driver need not be told: the end of the process frees
 * everything, and the worker may be gone. Only a fatbin that leaves earlier, with dlclose(), is unloaded.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "register.h"
#include "symbol-table.h"

const char *cudaGetErrorString(cudaError_t error);

struct fatbin {
	void *wrapper; /* first: the program holds a pointer to this pointer */
	pthread_mutex_t lock;
	CUlibrary library; /* under `lock` until set, then constant */
	struct symbol *symbols;
};

/* Set by an exit handler that is registered later than those of the program, so that it runs before them. */
static atomic_bool exiting;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void note_exit(void)
{
	atomic_store(&exiting, true);
}

static void watch_exit(void)
{
	atexit(note_exit);
}

static cudaError_t load(struct fatbin *fatbin, CUlibrary *library)
{
	CUlibraryOption options[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
	void *values[] = {(void *)1};
	CUresult result = CUDA_SUCCESS;

	pthread_once(&watch_once, watch_exit);
	pthread_mutex_lock(&fatbin->lock);
	if (!fatbin->library)
		result = cuLibraryLoadData(&fatbin->library, fatbin->wrapper, NULL, NULL, 0, options, values, 1);
	if (result)
		fatbin->library = NULL;
	*library = fatbin->library;
	pthread_mutex_unlock(&fatbin->lock);
	return (cudaError_t)result;
}

static cudaError_t load_kernel(struct symbol *symbol, CUkernel *kernel)
{
	CUlibrary library;
	CUresult result;
	cudaError_t error;

	*kernel = atomic_load_explicit(&symbol->kernel, memory_order_acquire);
	if (*kernel)
		return cudaSuccess;
	error = cudart_enter();
	if (!error)
		error = load(symbol->fatbin, &library);
	if (error)
		return error;
	result = cuLibraryGetKernel(kernel, library, symbol->name);
	if (result == CUDA_ERROR_NOT_FOUND)
		return cudaErrorInvalidDeviceFunction;
	if (result)
		return (cudaError_t)result;
	atomic_store_explicit(&symbol->kernel, *kernel, memory_order_release);
	return cudaSuccess;
}

cudaError_t cudart_kernel_or_handle(const void *host_or_handle, CUkernel *kernel, bool *is_handle)
{
	struct symbol *symbol = symbol_find(host_or_handle);
	bool registered = symbol && symbol->kind == SYMBOL_KERNEL;

	if (is_handle)
		*is_handle = !registered;
	if (registered)
		return load_kernel(symbol, kernel);
	*kernel = (CUkernel)(uintptr_t)host_or_handle;
	return host_or_handle ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t cudart_kernel(const void *host, CUkernel *kernel)
{
	bool is_handle;
	cudaError_t error = cudart_kernel_or_handle(host, kernel, &is_handle);

	return is_handle ? cudaErrorInvalidDeviceFunction : error;
}

cudaError_t cudart_launchable(const void *host_or_handle, CUfunction *function)
{
	CUkernel kernel;
	cudaError_t error = cudart_kernel_or_handle(host_or_handle, &kernel, NULL);

	/* The driver takes a kernel wherever it takes a function. */
	*function = (CUfunction)(void *)kernel;
	return error;
}

const char *cudart_kernel_name(const void *host)
{
	struct symbol *symbol = symbol_find(host);

	return symbol && symbol->kind == SYMBOL_KERNEL ? symbol->name : NULL;
}

static cudaError_t variable_address(struct symbol *symbol, CUdeviceptr *address, size_t *bytes)
{
	CUlibrary library;
	CUresult result;
	cudaError_t error = load(symbol->fatbin, &library);

	if (error)
		return error;
	if (symbol->kind == SYMBOL_VARIABLE)
		result = cuLibraryGetGlobal(address, bytes, library, symbol->name);
	else
		result = cuLibraryGetManaged(address, bytes, library, symbol->name);
	return result == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : (cudaError_t)result;
}

cudaError_t cudart_symbol_address(const void *host, CUdeviceptr *address, size_t *bytes)
{
	struct symbol *symbol = symbol_find(host);

	if (!symbol || symbol->kind == SYMBOL_KERNEL || symbol->kind == SYMBOL_REFERENCE)
		return cudaErrorInvalidSymbol;
	return variable_address(symbol, address, bytes);
}

cudaError_t cudart_reference_module(struct symbol *symbol, CUmodule *module)
{
	CUlibrary library;
	cudaError_t error = load(symbol->fatbin, &library);

	return error ? error : (cudaError_t)cuLibraryGetModule(module, library);
}

CUDART_API cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
	CUdeviceptr device;
	size_t bytes;

	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_symbol_address(symbol, &device, &bytes));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr device;

	if (!size)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	return cudart_record(cudart_symbol_address(symbol, &device, size));
}

/* ---- what the program's start-up code calls ---- */

static void no_memory(void)
{
	fprintf(stderr, "vcuda: out of memory while the program registered its device code\n");
	abort();
}

CUDART_API void **__cudaRegisterFatBinary(void *wrapper)
{
	struct fatbin *fatbin = calloc(1, sizeof(*fatbin));

	if (!fatbin)
		no_memory();
	fatbin->wrapper = wrapper;
	pthread_mutex_init(&fatbin->lock, NULL);
	return &fatbin->wrapper;
}

CUDART_API void __cudaRegisterFatBinaryEnd(void **handle)
{
}

struct symbol *cudart_add_symbol(void **handle, const void *host, const char *name, enum symbol_kind kind)
{
	struct fatbin *fatbin = (struct fatbin *)(void *)handle;
	struct symbol *symbol = calloc(1, sizeof(*symbol));

	if (!symbol)
		no_memory();
	symbol->host = host;
	symbol->name = strdup(name);
	symbol->kind = kind;
	symbol->fatbin = fatbin;
	pthread_mutex_lock(&fatbin->lock);
	symbol->of_fatbin = fatbin->symbols;
	fatbin->symbols = symbol;
	pthread_mutex_unlock(&fatbin->lock);
	if (!symbol->name || !symbol_insert(symbol))
		no_memory();
	return symbol;
}

CUDART_API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				       int thread_limit, void *thread, void *block, dim3 *block_size, dim3 *grid_size,
				       int *warp_size)
{
	cudart_add_symbol(handle, host, name, SYMBOL_KERNEL);
}

CUDART_API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
				  int constant, int global)
{
	cudart_add_symbol(handle, host, name, SYMBOL_VARIABLE);
}

CUDART_API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
					 size_t size, int constant, int global)
{
	cudart_add_symbol(handle, host, name, SYMBOL_MANAGED);
}

/*
 * The program asks for this before the host first touches a managed variable: its pointers get their values. A program
 * goes on with null pointers after a failure, so the reason is said here. From then on it also names the variables by
 * where they are.
 */
CUDART_API char __cudaInitModule(void **handle)
{
	struct fatbin *fatbin = (struct fatbin *)(void *)handle;
	cudaError_t error = cudart_record(cudart_enter());

	for (struct symbol *symbol = fatbin->symbols; symbol && !error; symbol = symbol->of_fatbin) {
		CUdeviceptr address;
		size_t bytes;

		if (symbol->kind != SYMBOL_MANAGED)
			continue;
		error = cudart_record(variable_address(symbol, &address, &bytes));
		if (error) {
			fprintf(stderr, "vcuda: the managed variable %s has no memory: %s\n", symbol->name,
				cudaGetErrorString(error));
			break;
		}
		*(void **)(uintptr_t)symbol->host = (void *)(uintptr_t)address;
		if (!symbol_find((void *)(uintptr_t)address))
			cudart_add_symbol(handle, (void *)(uintptr_t)address, symbol->name, SYMBOL_MANAGED_MEMORY);
	}
	return !error;
}

/* Relaxed, so that a capture elsewhere does not refuse the unload: closing a shared library reports no error. */
static void unload(CUlibrary library)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	cuThreadExchangeStreamCaptureMode(&mode);
	cuLibraryUnload(library);
	cuThreadExchangeStreamCaptureMode(&mode);
}

CUDART_API void __cudaUnregisterFatBinary(void **handle)
{
	struct fatbin *fatbin = (struct fatbin *)(void *)handle;
	struct symbol *symbol, *next;

	if (!fatbin)
		return;
	/* Other threads may still run while the process exits: leave them what they hold. */
	if (atomic_load(&exiting))
		return;
	for (symbol = fatbin->symbols; symbol; symbol = next) {
		next = symbol->of_fatbin;
		symbol_remove(symbol);
		free(symbol->name);
		free(symbol->reference);
		free(symbol);
	}
	if (fatbin->library)
		unload(fatbin->library);
	pthread_mutex_destroy(&fatbin->lock);
	free(fatbin);
}

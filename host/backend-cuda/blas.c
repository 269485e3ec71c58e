/* SPDX-License-Identifier: Apache-2.0 */
/* The host's cuBLAS. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <stdio.h>

#include "blas-call.h"
#include "handles.h"
#include "common/log.h"

static const char *const libraries[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};

/* Functions that set a handle up, all (handle, int) but the first two. */
static struct {
	int (*get_version)(void *handle, int *version);
	int (*set_stream)(void *handle, CUstream stream);
	int (*set_pointer_mode)(void *handle, int mode);
	int (*set_atomics)(void *handle, int mode);
	int (*set_math)(void *handle, int mode);
} cublas;

static struct backend_handles handles = {.create_name = "cublasCreate", .lock = PTHREAD_MUTEX_INITIALIZER};
static void *library;

static void *find(const char *name)
{
	void *function = dlsym(library, name);

	if (!function)
		vcuda_log("the host's cuBLAS has no %s", name);
	return function;
}

static void load(void)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !library; i++)
		library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		vcuda_log("no cuBLAS for guests: the host lacks libcublas.so.13, .12 and .11 (NVIDIA's package "
			  "libcublas-13-0, or "
			  "any toolkit)");
		return;
	}
	handles.create = (int (*)(void **))find("cublasCreate_v2");
	handles.destroy = (int (*)(void *))find("cublasDestroy_v2");
	cublas.get_version = (int (*)(void *, int *))find("cublasGetVersion_v2");
	cublas.set_stream = (int (*)(void *, CUstream))find("cublasSetStream_v2");
	cublas.set_pointer_mode = (int (*)(void *, int))find("cublasSetPointerMode_v2");
	cublas.set_atomics = (int (*)(void *, int))find("cublasSetAtomicsMode");
	cublas.set_math = (int (*)(void *, int))find("cublasSetMathMode");
	if (!handles.destroy || !cublas.get_version || !cublas.set_stream || !cublas.set_pointer_mode ||
	    !cublas.set_atomics || !cublas.set_math)
		handles.create = NULL;
}

CUresult backend_blas_result(int status)
{
	switch (status) {
	case CUBLAS_STATUS_SUCCESS:
		return CUDA_SUCCESS;
	case CUBLAS_STATUS_ALLOC_FAILED:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case CUBLAS_STATUS_INVALID_VALUE:
		return CUDA_ERROR_INVALID_VALUE;
	case CUBLAS_STATUS_NOT_INITIALIZED:
	case CUBLAS_STATUS_ARCH_MISMATCH:
	case CUBLAS_STATUS_NOT_SUPPORTED:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

void backend_blas_forget(CUcontext context)
{
	backend_handles_forget(&handles, context);
}

static int set_up(struct backend_handle *h, CUstream stream, uint32_t flags)
{
	int status = CUBLAS_STATUS_SUCCESS;

	if (h->set && h->stream == stream && h->flags == flags)
		return CUBLAS_STATUS_SUCCESS;
	h->set = false;
	if ((status = cublas.set_stream(h->handle, stream)) != CUBLAS_STATUS_SUCCESS ||
	    (status = cublas.set_pointer_mode(h->handle, flags & VCUDA_BLAS_DEVICE ? 1 : 0)) != CUBLAS_STATUS_SUCCESS ||
	    (status = cublas.set_atomics(h->handle, flags & VCUDA_BLAS_ATOMICS ? 1 : 0)) != CUBLAS_STATUS_SUCCESS ||
	    (status = cublas.set_math(h->handle, (int)(flags >> VCUDA_BLAS_MATH_SHIFT))) != CUBLAS_STATUS_SUCCESS)
		return status;
	h->stream = stream;
	h->flags = flags;
	h->set = true;
	return CUBLAS_STATUS_SUCCESS;
}

static CUresult open_library(struct backend_handle *h, uint64_t *value)
{
	int version = 0, status = cublas.get_version(h->handle, &version);

	*value = (uint64_t)version;
	return backend_blas_result(status);
}

/* The function of the guest's name, looked up once, and NULL where the library has none. */
static void (*function_of(uint32_t number, bool wide))(void)
{
	static char none;
	static void *_Atomic found[VCUDA_BLAS_LIMIT][2];
	void *function = found[number][wide];
	char name[64];

	if (!function) {
		snprintf(name, sizeof(name), "%s%s", vcuda_blas_routines[number].name, wide ? "_64" : "");
		function = find(name);
		if (!function)
			function = &none;
		found[number][wide] = function;
	}
	return function == &none ? NULL : (void (*)(void))function;
}

static CUresult call(struct backend_handle *h, CUstream stream, uint32_t number, uint32_t flags, const uint64_t *words,
		     void *value)
{
	_Alignas(16)
		uint64_t result[VCUDA_BLAS_VALUE_WORDS] = {0}; /* cuBLAS takes that of a double complex for granted */
	static _Atomic bool said[VCUDA_BLAS_LIMIT];
	const struct vcuda_blas_family *family = vcuda_blas_routines[number].family;
	bool wide = flags & VCUDA_BLAS_WIDE;
	void (*function)(void) = function_of(number, wide);
	int status;

	if (!function)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* NVIDIA's getriBatched() has no scalars, and crashes where they are the device's. */
	if (family->batch >= 0 && !family->has_scalars)
		flags &= ~(uint32_t)VCUDA_BLAS_DEVICE;
	status = set_up(h, stream, flags);
	if (status == CUBLAS_STATUS_SUCCESS)
		status =
			backend_blas_calls[number](function, h->handle, words, flags & VCUDA_BLAS_DEVICE, wide, result);
	if (status != CUBLAS_STATUS_SUCCESS && !atomic_exchange(&said[number], true))
		vcuda_log("cuBLAS: %s gave status %d", vcuda_blas_routines[number].name, status);
	if (value)
		memcpy(value, result, sizeof(result));
	return backend_blas_result(status);
}

static CUresult blas(CUstream stream, uint32_t number, uint32_t flags, void *words, void *value)
{
	static pthread_once_t loaded = PTHREAD_ONCE_INIT;
	struct backend_handle *h;
	CUresult result;

	pthread_once(&loaded, load);
	result = handles.create ? backend_handles_take(&handles, &h) : CUDA_ERROR_NOT_SUPPORTED;
	if (result != CUDA_SUCCESS)
		return result;
	result = number == VCUDA_BLAS_OPEN ? open_library(h, value) : call(h, stream, number, flags, words, value);
	backend_handles_put(&handles, h);
	return result;
}

void backend_blas_init(struct vcuda_backend_ops *ops)
{
	ops->blas = blas;
}

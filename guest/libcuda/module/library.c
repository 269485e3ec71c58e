/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: modules that belong to no context, and their kernels. */
#include <stdlib.h>

#include "core/capture.h"
#include "core/request.h"
#include "module/file.h"
#include "module/function.h"
#include "protocol/guest-calls.h"
#include "module/image.h"
#include "memory/memory.h"
#include "core/object.h"
#include "memory/managed-mirror.h"

struct loaded {
	CUlibrary library;
	uint32_t managed; /* variables without memory */
};

static CUresult load(void *to, vcuda_image image)
{
	struct loaded *loaded = to;

	return vcuda_call_cuLibraryLoadData(&loaded->library, image, &loaded->managed);
}

static CUresult load_image(CUlibrary *library, const void *data, size_t bytes, const struct libcuda_jit *jit)
{
	struct loaded loaded;
	CUresult result = libcuda_image_load(data, bytes, jit, load, &loaded);

	if (result != CUDA_SUCCESS)
		return result;
	*library = loaded.library;
	result = libcuda_managed_place(*library, loaded.managed, NULL);
	if (result == CUDA_SUCCESS && !libcuda_object_add(LIBCUDA_OBJECT_LIBRARY, *library, NULL, NULL))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		return result;
	libcuda_memory_drop_owner(*library);
	vcuda_call_cuLibraryUnload(*library);
	return result;
}

/*
 * NVIDIA's driver loads libraries lazily: a library whose data is no image is there, and can be unloaded. All that
 * needs the image answers CUDA_ERROR_INVALID_IMAGE. The handle is the address of the record's own byte; the worker has
 * no such library.
 */
static CUresult add_broken(CUlibrary *library)
{
	void *handle = malloc(1);
	struct libcuda_object *o = handle ? libcuda_object_add(LIBCUDA_OBJECT_LIBRARY, handle, NULL, NULL) : NULL;

	if (!o) {
		free(handle);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->data = handle;
	o->release = free;
	*library = handle;
	return CUDA_SUCCESS;
}

/* The library's own options promise that the image stays: it is shipped now in any case. */
VCUDA_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
					unsigned int jit_count, CUlibraryOption *options, void **values,
					unsigned int count)
{
	const struct libcuda_jit told = {jit_count, jit, jit_values};
	CUresult result = libcuda_require_init();
	const void *data;
	size_t bytes;

	if (result != CUDA_SUCCESS)
		return result;
	if (!library || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_jit_start(&told);
	if (result == CUDA_SUCCESS)
		result = libcuda_image_find(code, &data, &bytes);
	if (result == CUDA_ERROR_INVALID_IMAGE && code && libcuda_loads_lazily())
		return add_broken(library);
	return result != CUDA_SUCCESS ? result : load_image(library, data, bytes, &told);
}

VCUDA_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
					    unsigned int jit_count, CUlibraryOption *options, void **values,
					    unsigned int count)
{
	const struct libcuda_jit told = {jit_count, jit, jit_values};
	CUresult result = libcuda_require_init();
	size_t bytes, room;
	const void *data;
	void *file;

	if (result != CUDA_SUCCESS)
		return result;
	if (!library || !path || (count && !options))
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_jit_start(&told);
	if (result == CUDA_SUCCESS)
		result = libcuda_file_read(path, &file, &room);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_image_in_file(file, room, &data, &bytes);
	if (result == CUDA_SUCCESS)
		result = load_image(library, data, bytes, &told);
	free(file);
	return result;
}

/* Also CUDA_ERROR_INVALID_IMAGE: the library is there, and broken. */
static CUresult require_library(CUlibrary library)
{
	CUresult result = libcuda_require_init();
	struct libcuda_object *o;

	if (result != CUDA_SUCCESS)
		return result;
	o = libcuda_object_find(LIBCUDA_OBJECT_LIBRARY, library);
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	return o->data ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	CUresult result = require_library(library);
	bool broken = result == CUDA_ERROR_INVALID_IMAGE;

	if (result == CUDA_SUCCESS || broken)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	libcuda_object_drop(library);
	if (broken)
		return CUDA_SUCCESS;
	libcuda_memory_drop_owner(library);
	return vcuda_call_cuLibraryUnload(library);
}

VCUDA_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	CUresult result = require_library(library);

	if (result != CUDA_SUCCESS)
		return result;
	if (!kernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuLibraryGetKernel(kernel, library, name);
	return result != CUDA_SUCCESS ? result
				      : libcuda_function_add(LIBCUDA_OBJECT_KERNEL, *kernel, NULL, library, name);
}

VCUDA_EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	CUresult result = require_library(library);

	if (result == CUDA_SUCCESS)
		result = libcuda_require_context();
	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_call_cuLibraryGetModule(module, library);
	if (result == CUDA_SUCCESS &&
	    !libcuda_object_add(LIBCUDA_OBJECT_MODULE, *module, libcuda_context_current(), library))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}

VCUDA_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	CUresult result = require_library(library);
	CUdeviceptr address;
	size_t size;

	if (result == CUDA_SUCCESS)
		result = libcuda_require_context();
	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuLibraryGetGlobal(&address, &size, library, name);
	if (result == CUDA_SUCCESS)
		result = libcuda_memory_add_global(address, size, library, libcuda_context_current());
	if (result != CUDA_SUCCESS)
		return result;
	if (dptr)
		*dptr = address;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

/* No device here shares functions with the host (CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS). */
VCUDA_EXPORT CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *name)
{
	CUresult result = require_library(library);

	if (result != CUDA_SUCCESS)
		return result;
	return function && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

/* The same in every context, so that none needs to be current. */
VCUDA_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	CUresult result = require_library(library);
	CUdeviceptr address;
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuLibraryGetManaged(&address, &size, library, name);
	if (result == CUDA_SUCCESS && libcuda_mirror_possible())
		result = libcuda_mirror_add(address, size, library, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	if (dptr)
		*dptr = address;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	CUresult result = libcuda_require_init();
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_KERNEL, kernel);

	if (result != CUDA_SUCCESS)
		return result;
	if (!library)
		return CUDA_ERROR_INVALID_VALUE;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	*library = (CUlibrary)(uintptr_t)o->parent;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_KERNEL, kernel);
	struct libcuda_function_entry *e;

	if (result != CUDA_SUCCESS)
		return result;
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	result = libcuda_function_lookup(libcuda_context_current(), (CUfunction)kernel, &e);
	if (result != CUDA_SUCCESS)
		return result;
	*function = atomic_load(&e->function);
	if (*function)
		return CUDA_SUCCESS;
	result = vcuda_call_cuKernelGetFunction(function, kernel);
	if (result == CUDA_SUCCESS)
		result = libcuda_function_add(LIBCUDA_OBJECT_FUNCTION, *function, libcuda_context_current(),
					      (void *)(uintptr_t)o->parent, libcuda_function_of(o)->name);
	if (result == CUDA_SUCCESS) {
		libcuda_function_found(*function);
		atomic_store(&e->function, *function);
	}
	return result;
}

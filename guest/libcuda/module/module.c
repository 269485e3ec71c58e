/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/capture.h"
#include "core/request.h"
#include "module/file.h"
#include "module/function.h"
#include "protocol/guest-calls.h"
#include "module/image.h"
#include "memory/memory.h"
#include "core/object.h"

struct loaded {
	CUmodule module;
	uint32_t managed; /* variables without memory */
};

static CUresult load(void *to, vcuda_image image)
{
	struct loaded *loaded = to;

	return vcuda_call_cuModuleLoadData(&loaded->module, image, &loaded->managed);
}

static CUresult load_image(CUmodule *module, const void *data, size_t bytes, const struct libcuda_jit *jit)
{
	struct loaded loaded;
	CUresult result = libcuda_image_load(data, bytes, jit, load, &loaded);

	if (result != CUDA_SUCCESS)
		return result;
	*module = loaded.module;
	result = libcuda_managed_place(*module, loaded.managed, libcuda_context_current());
	if (result == CUDA_SUCCESS &&
	    !libcuda_object_add(LIBCUDA_OBJECT_MODULE, *module, libcuda_context_current(), NULL))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		return result;
	libcuda_memory_drop_owner(*module);
	vcuda_call_cuModuleUnload(*module);
	return result;
}

VCUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options,
					 void **values)
{
	const struct libcuda_jit jit = {count, options, values};
	CUresult result = libcuda_require_context();
	const void *data;
	size_t bytes;

	if (result == CUDA_SUCCESS)
		result = module ? libcuda_jit_start(&jit) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = libcuda_image_find(image, &data, &bytes);
	return result != CUDA_SUCCESS ? result : load_image(module, data, bytes, &jit);
}

VCUDA_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

VCUDA_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatbin)
{
	return cuModuleLoadData(module, fatbin);
}

VCUDA_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	CUresult result = libcuda_require_context();
	size_t bytes, room;
	const void *data;
	void *file;

	if (result != CUDA_SUCCESS)
		return result;
	if (!module || !path)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_file_read(path, &file, &room);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_image_in_file(file, room, &data, &bytes);
	if (result == CUDA_SUCCESS)
		result = load_image(module, data, bytes, &(struct libcuda_jit){0});
	free(file);
	return result;
}

VCUDA_EXPORT CUresult cuModuleUnload(CUmodule module)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_MODULE, module);
	struct libcuda_context *home = o ? o->context : NULL;
	CUresult result = libcuda_require_context_or(home);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (!home)
		return CUDA_ERROR_INVALID_HANDLE;
	result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(home);
	libcuda_object_drop(module);
	libcuda_memory_drop_owner(module);
	return vcuda_call_cuModuleUnload_with(&how, module);
}

/* Functions and variables are of the module's context, which need not be the current one. */
CUresult libcuda_module_list_function(CUfunction *function, CUmodule module, const char *name)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_MODULE, module);
	struct libcuda_context *home = o ? o->context : NULL;
	CUresult result = libcuda_require_context_or(home);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (!function || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!home)
		return CUDA_ERROR_INVALID_HANDLE;
	how = libcuda_context_options(home);
	result = vcuda_call_cuModuleGetFunction_with(&how, function, module, name);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_function_add(LIBCUDA_OBJECT_FUNCTION, *function, home, module, name);
}

VCUDA_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = libcuda_module_list_function(function, module, name);

	if (result == CUDA_SUCCESS)
		libcuda_function_found(*function);
	return result;
}

VCUDA_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module, const char *name)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_MODULE, module);
	struct libcuda_context *home = o ? o->context : NULL;
	CUresult result = libcuda_require_context_or(home);
	struct call_options how;
	CUdeviceptr address;
	size_t size;

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!home)
		return CUDA_ERROR_INVALID_HANDLE;
	how = libcuda_context_options(home);
	result = vcuda_call_cuModuleGetGlobal_v2_with(&how, &address, &size, module, name);
	if (result == CUDA_SUCCESS)
		result = libcuda_memory_add_global(address, size, module, home);
	if (result != CUDA_SUCCESS)
		return result;
	if (dptr)
		*dptr = address;
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, function);
	struct libcuda_context *home = o && o->context ? o->context : libcuda_context_current();
	CUresult result = libcuda_require_context_or(home);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	if (!o || !home)
		return o ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
	how = libcuda_context_options(home);
	result = vcuda_call_cuFuncGetModule_with(&how, module, function);
	if (result == CUDA_SUCCESS && !libcuda_object_add(LIBCUDA_OBJECT_MODULE, *module, home, NULL))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}

/* The values are EAGER, LAZY and DEFAULT, which is LAZY. */
bool libcuda_loads_lazily(void)
{
	const char *wanted = getenv("CUDA_MODULE_LOADING");

	return !wanted || strcmp(wanted, "EAGER");
}

VCUDA_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = libcuda_loads_lazily() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lists functions of a module and kernels of a library. The worker tells their names; each is then looked up. */
#include "module/enumerate.h"

#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "module/function.h"
#include "ring/ring.h"
#include "guest/client/stage.h"

/* The differences between a module and a library. */
struct kind {
	enum libcuda_object_kind object;
	CUresult (*names)(const void *owner, uint32_t first, uint32_t block, size_t bytes, uint32_t *count,
			  uint32_t *total);
	CUresult (*look_up)(void **function, const void *owner, const char *name);
};

static CUresult names_of_module(const void *owner, uint32_t first, uint32_t block, size_t bytes, uint32_t *count,
				uint32_t *total)
{
	return vcuda_call_vcudaModuleNames((CUmodule)owner, first, block, bytes, count, total);
}

static CUresult names_of_library(const void *owner, uint32_t first, uint32_t block, size_t bytes, uint32_t *count,
				 uint32_t *total)
{
	return vcuda_call_vcudaLibraryNames((CUlibrary)owner, first, block, bytes, count, total);
}

static CUresult function_of_module(void **function, const void *owner, const char *name)
{
	return libcuda_module_list_function((CUfunction *)function, (CUmodule)owner, name);
}

static CUresult kernel_of_library(void **kernel, const void *owner, const char *name)
{
	return cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)owner, name);
}

static const struct kind module_kind = {LIBCUDA_OBJECT_MODULE, names_of_module, function_of_module};
static const struct kind library_kind = {LIBCUDA_OBJECT_LIBRARY, names_of_library, kernel_of_library};

static CUresult check(const struct kind *kind, const void *owner, const void *result_place)
{
	CUresult result = kind == &module_kind ? libcuda_require_context() : libcuda_require_init();
	struct libcuda_object *o;

	if (result != CUDA_SUCCESS)
		return result;
	if (!result_place)
		return CUDA_ERROR_INVALID_VALUE;
	o = libcuda_object_find(kind->object, owner);
	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	/* a library that is broken */
	return kind == &library_kind && o->data ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

static CUresult count(const struct kind *kind, unsigned int *total, const void *owner)
{
	CUresult result = check(kind, owner, total);
	uint32_t none;

	return result == CUDA_SUCCESS ? kind->names(owner, 0, 0, 0, &none, total) : result;
}

/* Fetches the names from `first` on, as many as a staging block holds. *copy is the caller's to free. */
static CUresult fetch(const struct kind *kind, const void *owner, uint32_t first, char **copy, uint32_t *given)
{
	uint32_t total;
	void *memory;
	uint32_t block = client_stage_take(&memory);
	CUresult result = kind->names(owner, first, block, VCUDA_STAGE_BLOCK_BYTES, given, &total);

	*copy = result == CUDA_SUCCESS ? malloc(VCUDA_STAGE_BLOCK_BYTES + 1) : NULL;
	if (*copy) {
		memcpy(*copy, memory, VCUDA_STAGE_BLOCK_BYTES);
		(*copy)[VCUDA_STAGE_BLOCK_BYTES] = 0;
	} else if (result == CUDA_SUCCESS) {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	client_stage_give(block);
	return result;
}

static CUresult enumerate(const struct kind *kind, void **functions, unsigned int wanted, const void *owner)
{
	CUresult result = check(kind, owner, functions);
	uint32_t given = 1;

	for (uint32_t done = 0; result == CUDA_SUCCESS && done < wanted && given;) {
		char *names = NULL, *name;

		result = fetch(kind, owner, done, &names, &given);
		name = names;
		for (uint32_t i = 0; result == CUDA_SUCCESS && i < given && done < wanted; i++) {
			result = kind->look_up(&functions[done++], owner, name);
			name += strlen(name) + 1;
		}
		free(names);
	}
	return result;
}

VCUDA_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *total, CUmodule module)
{
	return count(&module_kind, total, module);
}

VCUDA_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int wanted, CUmodule module)
{
	return enumerate(&module_kind, (void **)functions, wanted, module);
}

VCUDA_EXPORT CUresult cuLibraryGetKernelCount(unsigned int *total, CUlibrary library)
{
	return count(&library_kind, total, library);
}

VCUDA_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int wanted, CUlibrary library)
{
	return enumerate(&library_kind, (void **)kernels, wanted, library);
}

CUresult libcuda_for_each_function(CUmodule module, void (*take)(void *data, CUfunction function), void *data)
{
	CUfunction *functions;
	unsigned int total;
	CUresult result = cuModuleGetFunctionCount(&total, module);

	if (result != CUDA_SUCCESS)
		return result;
	functions = calloc(total + 1, sizeof(*functions));
	if (!functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuModuleEnumerateFunctions(functions, total, module);
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < total && functions[i]; i++)
		take(data, functions[i]);
	free(functions);
	return result;
}

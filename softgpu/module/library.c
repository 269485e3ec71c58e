/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "module/jit-log.h"
#include "module/module.h"
#include "device/registry.h"

struct CUlib_st {
	struct softgpu_image image;   /* to make the module of another context, or of the same after a reset */
	struct softgpu_program spare; /* parsed and in no module yet; count 0: none */
	struct vcuda_list modules; /* a module for each context that uses the library */
	struct vcuda_list kernels;
	struct softgpu_managed managed;
};

/* `max_registers`: the caller's bound, 0 if there is none. */
static CUresult load(CUlibrary *library, const void *code, unsigned int max_registers)
{
	struct CUlib_st *l = calloc(1, sizeof(*l));
	CUresult result;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	vcuda_list_init(&l->modules);
	vcuda_list_init(&l->kernels);
	result = softgpu_image_read(code, softgpu_device()->code, &l->image);
	if (result != CUDA_SUCCESS)
		goto free_library;
	l->image.max_registers = softgpu_register_bound(l->image.max_registers, max_registers);
	result = softgpu_program_parse(&l->image, &l->spare);
	if (result != CUDA_SUCCESS)
		goto free_image;
	result = softgpu_managed_list(&l->spare, &l->managed);
	if (result != CUDA_SUCCESS)
		goto free_managed;
	softgpu_lock();
	if (!softgpu_registry_add(l, SOFTGPU_LIBRARY)) {
		result = softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
		goto free_managed;
	}
	*library = l;
	return softgpu_leave(CUDA_SUCCESS);

free_managed:
	softgpu_managed_free(&l->managed);
	softgpu_program_free(&l->spare);
free_image:
	softgpu_image_free(&l->image);
free_library:
	free(l);
	return result;
}

CUresult softgpu_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
			       unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	struct softgpu_jit_log log;
	CUresult result;

	/* The library's options say that `code` stays, which is not needed. */
	if (!softgpu_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!library)
		return CUDA_ERROR_INVALID_VALUE;
	result = softgpu_jit_log_begin(&log, numJitOptions, jitOptions, jitOptionsValues);
	if (result != CUDA_SUCCESS)
		return result;
	result = load(library, code, softgpu_jit_max_registers(numJitOptions, jitOptions, jitOptionsValues));
	softgpu_jit_log_end(&log);
	return result;
}

/* Waits for what the contexts of the modules have. False: the library is not there, or has gone meanwhile. */
static bool settle(CUlibrary library)
{
	for (unsigned int i = 0; softgpu_registry_has(library, SOFTGPU_LIBRARY); i++) {
		struct vcuda_list *at = library->modules.next;

		for (unsigned int j = 0; j < i && at != &library->modules; j++)
			at = at->next;
		if (at == &library->modules)
			return true;
		softgpu_module_settle(container_of(at, struct CUmod_st, in_library)->context);
	}
	return false;
}

CUresult softgpu_cuLibraryUnload(CUlibrary library)
{
	softgpu_lock();
	if (!settle(library))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	softgpu_registry_remove(library);
	while (!vcuda_list_empty(&library->kernels)) {
		struct CUkern_st *k = container_of(library->kernels.next, struct CUkern_st, node);

		softgpu_registry_remove(k);
		vcuda_list_remove(&k->node);
		free(k->name);
		free(k);
	}
	while (!vcuda_list_empty(&library->modules))
		softgpu_module_unload(container_of(library->modules.next, struct CUmod_st, in_library));
	softgpu_unlock();
	softgpu_managed_free(&library->managed);
	softgpu_program_free(&library->spare);
	softgpu_image_free(&library->image);
	free(library);
	return CUDA_SUCCESS;
}

/* A parsed form of the library to look names up in. */
static CUresult parsed(struct CUlib_st *l, struct softgpu_program **program)
{
	if (l->spare.count == 0 && !vcuda_list_empty(&l->modules)) {
		*program = &container_of(l->modules.next, struct CUmod_st, in_library)->program;
		return CUDA_SUCCESS;
	}
	*program = &l->spare;
	return l->spare.count ? CUDA_SUCCESS : softgpu_program_parse(&l->image, &l->spare);
}

CUresult softgpu_library_managed(struct CUlib_st *l, struct softgpu_managed **managed, const struct softgpu_program **program)
{
	struct softgpu_program *found;
	CUresult result = parsed(l, &found);

	*managed = &l->managed;
	*program = found;
	return result;
}

/* The library's module in a context, made at the first use. */
static CUresult module_in(struct CUlib_st *l, struct CUctx_st *context, struct CUmod_st **module)
{
	CUresult result;

	if (l->managed.placed < l->managed.count)
		return CUDA_ERROR_NOT_READY;
	vcuda_list_for_each (node, &l->modules) {
		*module = container_of(node, struct CUmod_st, in_library);
		if ((*module)->context == context)
			return CUDA_SUCCESS;
	}
	/* Parsed with the lock held: only in a program's second context. */
	result = l->spare.count ? CUDA_SUCCESS : softgpu_program_parse(&l->image, &l->spare);
	if (result == CUDA_SUCCESS)
		result = softgpu_module_make(context, l, &l->managed, &l->spare, module);
	if (result == CUDA_SUCCESS)
		vcuda_list_add(&(*module)->in_library, &l->modules);
	return result;
}

static CUresult enter_library(CUlibrary handle, struct CUctx_st **context)
{
	CUresult result = softgpu_enter(context);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_registry_has(handle, SOFTGPU_LIBRARY) ? CUDA_SUCCESS : softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

static CUresult find_kernel(struct CUlib_st *l, const char *name, struct CUkern_st **kernel)
{
	struct softgpu_program *program;
	struct CUkern_st *k;
	CUresult result;

	vcuda_list_for_each (node, &l->kernels) {
		*kernel = container_of(node, struct CUkern_st, node);
		if (!strcmp((*kernel)->name, name))
			return CUDA_SUCCESS;
	}
	result = parsed(l, &program);
	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_program_kernel(program, name))
		return CUDA_ERROR_NOT_FOUND;
	k = calloc(1, sizeof(*k));
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->library = l;
	k->name = strdup(name);
	k->max_dynamic = -1;
	k->carveout = -2;
	if (!k->name || !softgpu_registry_add(k, SOFTGPU_KERNEL)) {
		free(k->name);
		free(k);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	vcuda_list_add(&k->node, &l->kernels);
	*kernel = k;
	return CUDA_SUCCESS;
}

/* Needs no context, as the library needs none. */
CUresult softgpu_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	if (!softgpu_registry_has(library, SOFTGPU_LIBRARY))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	return softgpu_leave(find_kernel(library, name, pKernel));
}

CUresult softgpu_codeNames(void *owner, uint32_t first, void *to, size_t bytes, uint32_t *count, uint32_t *total)
{
	const struct softgpu_program *program = NULL;
	struct softgpu_program *of_library;
	CUresult result = CUDA_ERROR_INVALID_HANDLE;

	softgpu_lock();
	if (softgpu_registry_has(owner, SOFTGPU_LIBRARY)) {
		result = parsed(owner, &of_library);
		program = of_library;
	} else if (softgpu_registry_has(owner, SOFTGPU_MODULE)) {
		result = CUDA_SUCCESS;
		program = &((struct CUmod_st *)owner)->program;
	}
	if (result == CUDA_SUCCESS)
		result = softgpu_program_names(program, first, to, bytes, count, total);
	return softgpu_leave(result);
}

CUresult softgpu_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct CUctx_st *c;
	CUresult result = enter_library(library, &c);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_leave(pMod ? module_in(library, c, pMod) : CUDA_ERROR_INVALID_VALUE);
}

CUresult softgpu_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	struct CUmod_st *module;
	struct CUctx_st *c;
	CUresult result = enter_library(library, &c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	result = module_in(library, c, &module);
	if (result == CUDA_SUCCESS)
		result = softgpu_module_global(module, name, dptr, bytes);
	return softgpu_leave(result);
}

CUresult softgpu_kernel_function(struct CUkern_st *k, struct CUctx_st *context, struct CUfunc_st **function)
{
	struct CUmod_st *module;
	CUresult result;

	if (k->function && k->context_id == context->id) {
		*function = k->function;
		return CUDA_SUCCESS;
	}
	result = module_in(k->library, context, &module);
	if (result == CUDA_SUCCESS)
		result = softgpu_module_function(module, k->name, function);
	if (result != CUDA_SUCCESS)
		return result;
	/* Another thread may have begun to unload the library meanwhile. */
	if (!softgpu_registry_has(k, SOFTGPU_KERNEL) || k->library != module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	if (k->max_dynamic >= 0)
		(*function)->max_dynamic = k->max_dynamic;
	if (k->carveout >= -1)
		(*function)->carveout = k->carveout;
	k->function = *function;
	k->context_id = context->id;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pFunc)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!softgpu_registry_has(kernel, SOFTGPU_KERNEL))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	return softgpu_leave(softgpu_kernel_function(kernel, c, pFunc));
}

CUresult softgpu_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
	struct CUfunc_st *function;
	struct CUctx_st *c;
	CUresult result = softgpu_device_check(dev);

	if (result == CUDA_SUCCESS)
		result = softgpu_enter(&c);
	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_registry_has(kernel, SOFTGPU_KERNEL))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	result = softgpu_kernel_function(kernel, c, &function);
	if (result == CUDA_SUCCESS)
		result = softgpu_function_set(function, attrib, val);
	if (result == CUDA_SUCCESS && attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		kernel->max_dynamic = val;
	if (result == CUDA_SUCCESS && attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
		kernel->carveout = val;
	return softgpu_leave(result);
}

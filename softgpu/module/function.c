/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and their attributes, and how many blocks of one fit a multiprocessor. */
#include <stdlib.h>

#include "device/device.h"
#include "module/lifted.h"
#include "module/module.h"
#include "device/registry.h"

/* Directives win. Without any, the largest block fits a multiprocessor. */
static unsigned int count_registers(const struct CUmod_st *m, const struct ptx_kernel_info *info)
{
	unsigned int most = softgpu_device()->block_registers / SOFTGPU_MAX_THREADS_PER_BLOCK, wanted;

	if (info->is_bounded)
		return info->registers;
	wanted = softgpu_register_bound(m->program.max_registers, info->registers);
	return wanted < most ? wanted : most;
}

/*
 * A kernel of machine code is translated now. Where that fails, the function has the kernel of the outline, whose launch
 * fails.
 */
static CUresult find_code(struct CUfunc_st *f)
{
	CUresult result = CUDA_SUCCESS;

	if (f->module->program.code)
		result = softgpu_lifted_make(f->module, ptx_kernel_info(f->named)->name, &f->lifted, &f->kernel,
					     &f->refusal);
	if (!f->kernel)
		f->kernel = f->named;
	f->info = ptx_kernel_info(f->kernel);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_SUCCESS;
}

/* Whether a module is as it was before the lock was dropped. */
static CUresult module_state(const struct CUmod_st *m)
{
	return softgpu_registry_has(m, SOFTGPU_MODULE) ? softgpu_context_state(m->context) : CUDA_ERROR_INVALID_HANDLE;
}

/* Static shared memory that counts: not what a GPU reserves beside the block's limit. */
static size_t static_shared(const struct CUfunc_st *f)
{
	return f->info->static_shared - f->info->reserved_shared;
}

/* The function is complete but for its handle. */
static void set_limits(struct CUfunc_st *f)
{
	int bytes = (int)static_shared(f);

	f->max_dynamic = bytes < SOFTGPU_SHARED_PER_BLOCK ? SOFTGPU_SHARED_PER_BLOCK - bytes : 0;
	f->registers = count_registers(f->module, f->info);
	f->carveout = -1;
}

/* May drop the lock. The caller has a reference to the module. */
static CUresult make(struct CUmod_st *m, struct ptx_kernel *named, struct CUfunc_st **function)
{
	struct CUfunc_st *f = calloc(1, sizeof(*f));
	CUresult result;

	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*f = (struct CUfunc_st){.module = m, .named = named, .in_making = true};
	vcuda_list_add(&f->node, &m->functions);
	result = find_code(f);
	f->in_making = false;
	if (result == CUDA_SUCCESS)
		result = module_state(m);
	if (result == CUDA_SUCCESS && !softgpu_registry_add(f, SOFTGPU_FUNCTION))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		set_limits(f);
		*function = f;
		return CUDA_SUCCESS;
	}
	vcuda_list_remove(&f->node);
	softgpu_lifted_free(m->context, f->lifted);
	free(f->refusal);
	free(f);
	return result;
}

static struct CUfunc_st *find_made(const struct CUmod_st *m, const struct ptx_kernel *named)
{
	vcuda_list_for_each (node, &m->functions) {
		struct CUfunc_st *f = container_of(node, struct CUfunc_st, node);

		if (f->named == named)
			return f;
	}
	return NULL;
}

/* Makes the function, or waits until another thread has made it. */
static CUresult await(struct CUmod_st *m, struct ptx_kernel *named, struct CUfunc_st **function)
{
	struct CUfunc_st *f;
	CUresult result;

	m->refs++;
	while ((f = find_made(m, named)) && f->in_making)
		softgpu_wait_any();
	result = f ? module_state(m) : make(m, named, &f);
	softgpu_module_put(m);
	if (result == CUDA_SUCCESS)
		*function = f;
	return result;
}

CUresult softgpu_module_function(struct CUmod_st *m, const char *name, struct CUfunc_st **function)
{
	struct ptx_kernel *named = softgpu_program_kernel(&m->program, name);
	struct CUfunc_st *f;

	if (!m->complete)
		return CUDA_ERROR_NOT_READY;
	if (!named)
		return CUDA_ERROR_NOT_FOUND;
	f = find_made(m, named);
	if (!f || f->in_making)
		return await(m, named, function);
	*function = f;
	return CUDA_SUCCESS;
}

CUresult softgpu_function_find(struct CUctx_st *context, CUfunction handle, struct CUfunc_st **function)
{
	if (softgpu_registry_has(handle, SOFTGPU_KERNEL))
		return softgpu_kernel_function((struct CUkern_st *)handle, context, function);
	if (!softgpu_registry_has(handle, SOFTGPU_FUNCTION) || handle->module->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	*function = handle;
	return CUDA_SUCCESS;
}

static CUresult enter_function(CUfunction handle, struct CUfunc_st **function)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_function_find(c, handle, function);
	return result == CUDA_SUCCESS ? result : softgpu_leave(result);
}

static unsigned int max_threads(const struct CUfunc_st *f)
{
	return f->info->max_threads ? f->info->max_threads : SOFTGPU_MAX_THREADS_PER_BLOCK;
}

static CUresult get(const struct CUfunc_st *f, CUfunction_attribute attribute, int *value)
{
	const struct ptx_kernel_info *info = f->info;

	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)max_threads(f);
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)static_shared(f);
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)softgpu_module_constants(f->module);
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)info->local_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)f->registers;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION: /* the virtual architecture that it was compiled for */
		*value = (int)info->target_sm;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = (int)softgpu_device()->architecture;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = f->max_dynamic;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = f->carveout;
		break;
	case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		*value = 0;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult softgpu_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(hfunc, &f);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_leave(pi ? get(f, attrib, pi) : CUDA_ERROR_INVALID_VALUE);
}

CUresult softgpu_function_set(struct CUfunc_st *f, CUfunction_attribute attribute, int value)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || (size_t)value + static_shared(f) > softgpu_device()->most_shared)
			return CUDA_ERROR_INVALID_VALUE;
		f->max_dynamic = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		if (value < -1 || value > 100)
			return CUDA_ERROR_INVALID_VALUE;
		f->carveout = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
	case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
	case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
	case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
		return CUDA_ERROR_NOT_SUPPORTED; /* the device has no clusters */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult softgpu_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(hfunc, &f);

	return result == CUDA_SUCCESS ? softgpu_leave(softgpu_function_set(f, attrib, value)) : result;
}

/* A hint about caches that are not this device's to divide. */
CUresult softgpu_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(hfunc, &f);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_leave((unsigned int)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS
										: CUDA_ERROR_INVALID_VALUE);
}

CUresult softgpu_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(hfunc, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (!hmod)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*hmod = f->module;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(func, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (!paramOffset || paramIndex >= f->info->param_count)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*paramOffset = f->info->params[paramIndex].offset;
	if (paramSize)
		*paramSize = f->info->params[paramIndex].size;
	return softgpu_leave(CUDA_SUCCESS);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * By local and shared memory: each multiprocessor has its part of the half of all blocks' memory that blocks beside
 * others may have (PTX_HALF), or of one block.
 */
static size_t blocks_by_memory(const struct CUfunc_st *f, unsigned int threads, size_t shared)
{
	uint64_t own = f->info->local_bytes * (uint64_t)threads + shared;
	uint64_t part = softgpu_device()->block_memory / 2 / softgpu_device()->threads;
	size_t most = softgpu_device()->sm_blocks;

	return own <= part / most ? most : own < part ? part / own : 1;
}

static size_t round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/*
 * A warp has registers of one part of the multiprocessor, in steps of 256. Hardware compares a block with the limit as
 * if it had as many warps in each of four parts.
 */
static size_t blocks_by_registers(const struct CUfunc_st *f, size_t warps)
{
	const struct softgpu_device *d = softgpu_device();
	size_t each = round_up((size_t)SOFTGPU_WARP * (f->registers ? f->registers : 1), 256);

	if (each * round_up(warps, 4) > d->block_registers)
		return 0;
	return d->sm_registers / d->sm_parts / each * d->sm_parts / warps;
}

/* Blocks by what the attributes promise of a multiprocessor: threads in whole warps, registers, shared memory. */
size_t softgpu_function_blocks_per_sm(const struct CUfunc_st *f, unsigned int threads, size_t dynamic)
{
	const struct softgpu_device *d = softgpu_device();
	size_t warps = (threads + SOFTGPU_WARP - 1) / SOFTGPU_WARP, shared = static_shared(f) + dynamic;
	size_t taken = round_up(shared + d->reserved_shared, d->shared_unit);
	size_t blocks = least(d->sm_blocks, d->sm_threads / (warps * SOFTGPU_WARP));

	if (threads > max_threads(f) || shared > d->most_shared)
		return 0;
	blocks = least(blocks, blocks_by_memory(f, threads, shared));
	blocks = least(blocks, blocks_by_registers(f, warps));
	return taken ? least(blocks, d->sm_shared / taken) : blocks;
}

CUresult softgpu_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
								      size_t dynamicSMemSize, unsigned flags)
{
	struct CUfunc_st *f;
	CUresult result = enter_function(func, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (!numBlocks || blockSize <= 0 || (flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	/* Larger than any device's; kept from overflowing the sum. */
	dynamicSMemSize = least(dynamicSMemSize, softgpu_device()->sm_shared);
	*numBlocks = (int)softgpu_function_blocks_per_sm(f, (unsigned int)blockSize, dynamicSMemSize);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
							 int blockSize)
{
	size_t each, taken;
	struct CUfunc_st *f;
	CUresult result = enter_function(func, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0 ||
	    softgpu_function_blocks_per_sm(f, (unsigned int)blockSize, 0) < (size_t)numBlocks)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	taken = static_shared(f);
	each = softgpu_device()->sm_shared / (size_t)numBlocks / softgpu_device()->shared_unit *
	       softgpu_device()->shared_unit;
	each = least(each - softgpu_device()->reserved_shared, softgpu_device()->most_shared);
	*dynamicSmemSize = each > taken ? each - taken : 0;
	return softgpu_leave(CUDA_SUCCESS);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver submits a kernel in less time from a graph. Setting the parameters of an instantiated graph of one
 * kernel and launching the graph takes 2.1 to 2.6 us; cuLaunchKernel() takes 3.8 to 4.3. A wait for the kernel ends 2
 * us earlier (H100, driver 580; doc/reference/performance.md). The driver copies the parameters at the graph's launch,
 * so the next launch's can be set at once; a stream takes as many graphs as launches. So each kernel has such a graph
 * in each stream where it is launched often. One graph for a whole stream would be slower than launches: setting
 * another kernel in a node takes longer.
 *
 * Not for kernels with clusters of their own, whose shape a node keeps, nor in streams with a priority, which a node
 * does not take from its stream. Nor for launches with a part of the parameters: it is not known what a node does with
 * the rest. A launch that the graph refuses goes through cuLaunchKernel(), and has its error.
 */
#include "launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * After so many launches there is a graph: to make one takes as long as is saved by then, some 40 us, and 128 KiB of the
 * GPU. The first of a process takes 0.4 ms.
 */
#define MANY 32
#define FIRST_MANY 256

/* Each has a place by its handles, and shares it with others that have the same: one of them has a graph. */
#define CACHE_ENTRIES 128

struct cached_launch {
	pthread_mutex_t lock;
	CUcontext context; /* NULL: the entry is free */
	_Atomic(CUstream) stream; /* changes under the lock */
	CUfunction function;
	unsigned int launches;
	bool refused; /* the kernel cannot have a graph */
	size_t param_bytes; /* of the kernel that has a graph */
	void *graph, *exec, *node;
};

static struct vcuda_backend_ops driver;
static struct cached_launch launch_cache[CACHE_ENTRIES];
static _Atomic unsigned int launches; /* launches of all kernels, until one has a graph */
static _Atomic bool any_graph;

static struct cached_launch *entry_of(CUcontext context, CUstream stream, CUfunction f)
{
	const uint64_t spread = 0x9e3779b97f4a7c15u;
	uint64_t key = (uintptr_t)context;

	key = key * spread ^ (uintptr_t)stream;
	key = key * spread ^ (uintptr_t)f;
	return &launch_cache[(key * spread >> 32) * CACHE_ENTRIES >> 32];
}

/* ---- with the lock of the place held ---- */

static void drop(struct cached_launch *k)
{
	if (k->exec)
		driver.cuGraphExecDestroy(k->exec);
	if (k->graph)
		driver.cuGraphDestroy(k->graph);
	k->context = NULL;
	k->stream = NULL;
	k->function = NULL;
	k->launches = 0;
	k->refused = false;
	k->graph = k->exec = k->node = NULL;
}

static bool has_clusters(CUfunction f)
{
	int value = 0;

	for (int i = CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET; i <= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH; i++)
		if (driver.cuFuncGetAttribute(&value, (CUfunction_attribute)i, f) == CUDA_SUCCESS && value)
			return true;
	return false;
}

static size_t param_bytes(CUfunction f)
{
	size_t offset, size, bytes = 0;

	for (size_t i = 0; driver.cuFuncGetParamInfo(f, i, &offset, &size) == CUDA_SUCCESS; i++)
		if (offset + size > bytes)
			bytes = offset + size;
	return bytes;
}

static bool gives_all(const struct cached_launch *k, void *const *extra)
{
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
		if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			return *(const size_t *)extra[1] >= k->param_bytes;
	return true;
}

static bool make(struct cached_launch *k, CUDA_KERNEL_NODE_PARAMS *params)
{
	int priority = 0;

	k->param_bytes = param_bytes(k->function);
	if (gives_all(k, params->extra) && driver.cuStreamGetPriority(k->stream, &priority) == CUDA_SUCCESS &&
	    !priority && !has_clusters(k->function) && driver.cuGraphCreate(&k->graph, 0) == CUDA_SUCCESS &&
	    driver.cuGraphAddKernelNode_v2(&k->node, k->graph, NULL, 0, params) == CUDA_SUCCESS &&
	    driver.cuGraphInstantiateWithFlags(&k->exec, k->graph, 0) == CUDA_SUCCESS) {
		atomic_store(&any_graph, true);
		return true;
	}
	k->exec = NULL;
	k->refused = true;
	return false;
}

static bool is_worth_while(struct cached_launch *k)
{
	bool for_first = atomic_load_explicit(&any_graph, memory_order_relaxed) ||
			 atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed) >= FIRST_MANY;

	return ++k->launches > MANY && for_first;
}

static bool launch_cached(struct cached_launch *k, CUDA_KERNEL_NODE_PARAMS *params)
{
	if (k->refused || !is_worth_while(k) || (k->exec && !gives_all(k, params->extra)))
		return false;
	if (k->exec ? driver.cuGraphExecKernelNodeSetParams_v2(k->exec, k->node, params) != CUDA_SUCCESS
		    : !make(k, params))
		return false;
	return driver.cuGraphLaunch(k->exec, k->stream) == CUDA_SUCCESS;
}

/* ---- launches ---- */

/* NULL: another kernel has the place, or another thread uses it. */
static struct cached_launch *enter(CUcontext context, CUstream stream, CUfunction f)
{
	struct cached_launch *k = entry_of(context, stream, f);

	if (pthread_mutex_trylock(&k->lock))
		return NULL;
	if (k->context == context && k->stream == stream && k->function == f)
		return k;
	if (!k->exec) {
		drop(k);
		k->context = context;
		k->stream = stream;
		k->function = f;
		return k;
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* After a launch that failed: counts from 0 again, since a graph of it could do what a launch must not. */
static void start_again(struct cached_launch *k, CUcontext context, CUstream stream, CUfunction f)
{
	if (enter(context, stream, f) != k)
		return;
	if (!k->exec)
		k->launches = 0;
	pthread_mutex_unlock(&k->lock);
}

static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
		       unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)
{
	CUDA_KERNEL_NODE_PARAMS p = {.func = f,
				     .gridDimX = gx,
				     .gridDimY = gy,
				     .gridDimZ = gz,
				     .blockDimX = bx,
				     .blockDimY = by,
				     .blockDimZ = bz,
				     .sharedMemBytes = shared,
				     .kernelParams = params,
				     .extra = extra};
	CUcontext context = NULL;
	struct cached_launch *k = NULL;
	bool launched = false;
	CUresult result;

	if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context)
		k = enter(context, stream, f);
	if (k) {
		launched = launch_cached(k, &p);
		pthread_mutex_unlock(&k->lock);
	}
	if (launched)
		return CUDA_SUCCESS;
	result = driver.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
	if (result != CUDA_SUCCESS && k)
		start_again(k, context, stream, f);
	return result;
}

/* ---- what ends, or changes, before a graph that names it ---- */

static void drop_all(void)
{
	for (struct cached_launch *k = launch_cache; k < launch_cache + CACHE_ENTRIES; k++) {
		pthread_mutex_lock(&k->lock);
		drop(k);
		pthread_mutex_unlock(&k->lock);
	}
}

/* Another stream's place may be locked by a launch that waits for room in that stream. */
static CUresult destroy_stream(CUstream stream)
{
	for (struct cached_launch *k = launch_cache; k < launch_cache + CACHE_ENTRIES; k++) {
		if (atomic_load(&k->stream) != stream)
			continue;
		pthread_mutex_lock(&k->lock);
		if (atomic_load(&k->stream) == stream)
			drop(k);
		pthread_mutex_unlock(&k->lock);
	}
	return driver.cuStreamDestroy_v2(stream);
}

/* Which functions are in there is not known here. */
static CUresult unload_module(CUmodule module)
{
	drop_all();
	return driver.cuModuleUnload(module);
}

static CUresult unload_library(CUlibrary library)
{
	drop_all();
	return driver.cuLibraryUnload(library);
}

/* The node takes what a function's shared memory may be from the function each time, but not its clusters. */
static void before_attribute(CUfunction_attribute attribute)
{
	if (attribute >= CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET)
		drop_all();
}

static CUresult set_attribute(CUfunction f, CUfunction_attribute attribute, int value)
{
	before_attribute(attribute);
	return driver.cuFuncSetAttribute(f, attribute, value);
}

static CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	before_attribute(attribute);
	return driver.cuKernelSetAttribute(attribute, value, kernel, device);
}

/* Stacks may be larger than they were. */
static CUresult set_limit(CUlimit limit, size_t value)
{
	drop_all();
	return driver.cuCtxSetLimit(limit, value);
}

void backend_launch_forget(void)
{
	drop_all();
}

void backend_launch_init(struct vcuda_backend_ops *ops)
{
	driver = *ops;
	for (unsigned int i = 0; i < CACHE_ENTRIES; i++)
		pthread_mutex_init(&launch_cache[i].lock, NULL);
	if (!ops->cuLaunchKernel || !ops->cuCtxGetCurrent || !ops->cuStreamGetPriority || !ops->cuFuncGetAttribute ||
	    !ops->cuGraphCreate || !ops->cuGraphAddKernelNode_v2 || !ops->cuGraphInstantiateWithFlags ||
	    !ops->cuGraphExecKernelNodeSetParams_v2 || !ops->cuGraphLaunch || !ops->cuGraphExecDestroy ||
	    !ops->cuGraphDestroy || !ops->cuStreamDestroy_v2 || !ops->cuModuleUnload || !ops->cuLibraryUnload ||
	    !ops->cuFuncSetAttribute || !ops->cuKernelSetAttribute || !ops->cuCtxSetLimit || !ops->cuFuncGetParamInfo)
		return;
	ops->cuLaunchKernel = launch;
	ops->cuStreamDestroy_v2 = destroy_stream;
	ops->cuModuleUnload = unload_module;
	ops->cuLibraryUnload = unload_library;
	ops->cuFuncSetAttribute = set_attribute;
	ops->cuKernelSetAttribute = set_kernel_attribute;
	ops->cuCtxSetLimit = set_limit;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: checked here from what is known of the function and the device, so that they need not wait; the first one
 * of a function does, because it may have to be compiled, and one that cannot be, whose error is the driver's.
 */
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "core/device.h"
#include "module/function.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "ring/ring.h"
#include "stream/stream.h"
#include "core/thread.h"

/* Parameters up to here are packed on the stack. */
#define SMALL_PARAMS 4096

/* CUDA's own bound of a kernel's parameters. */
#define MAX_PARAMS 32764

static bool within(const unsigned int size[3], CUdevice dev, CUdevice_attribute first)
{
	for (int i = 0; i < 3; i++)
		if (!size[i] || size[i] > (unsigned int)libcuda_device_attribute(dev, first + i))
			return false;
	return true;
}

static CUresult check(const struct libcuda_launch *l, const struct libcuda_function_entry *e, CUdevice dev)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	int limit;

	if (!within(l->grid, dev, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) ||
	    !within(l->block, dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
	    threads > (uint64_t)libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK))
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < 3; i++)
		if (l->cluster[i] && l->grid[i] % l->cluster[i])
			return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_function_attribute(e, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit) == CUDA_SUCCESS &&
	    l->shared > (unsigned int)limit)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/*
 * More threads than the function's blocks can have is an invalid value where the program has set that bound itself
 * (__launch_bounds__), and a lack of resources where its registers do: the driver knows which.
 */
static bool is_too_large(const struct libcuda_launch *l, const struct libcuda_function_entry *e)
{
	int limit;

	return libcuda_function_attribute(e, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limit) == CUDA_SUCCESS &&
	       l->block[0] * l->block[1] * l->block[2] > (unsigned int)limit;
}

/*
 * `extra` is a list of keys and values: the application has packed the parameters itself. *bytes: how many bytes of
 * them it gives. As natively, fewer than all will do: NCCL's kernels have one parameter of 4096, of which NCCL gives
 * those that the kernel reads. The rest would be copied from thread to thread for nothing.
 */
static CUresult find_packed(void **extra, const vcuda_function_info *info, const uint8_t **params, size_t *bytes)
{
	const size_t *size = NULL;

	*params = NULL;
	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*params = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	*bytes = size ? *size : 0;
	if (*bytes > info->param_bytes)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	return !info->param_bytes || (*params && *bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pack(const vcuda_function_info *info, void **params, uint8_t *to)
{
	memset(to, 0, info->param_bytes);
	for (uint32_t i = 0; i < info->param_count; i++) {
		if (!params[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(to + info->params[i].offset, params[i], info->params[i].size);
	}
	return CUDA_SUCCESS;
}

static bool launches_block(void)
{
	static _Atomic int known; /* 1 no, 2 yes */
	const char *v;

	if (!known) {
		v = getenv("CUDA_LAUNCH_BLOCKING");
		known = v && *v && strcmp(v, "0") ? 2 : 1;
	}
	return known == 2;
}

/* `bytes` may be fewer than all parameters have. */
static CUresult call(const struct call_options *how, const struct libcuda_launch *l, CUstream stream,
		     const uint8_t *params, uint32_t bytes)
{
	if (!l->cluster[0])
		return vcuda_call_vcudaLaunchKernel_with(how, l->function, l->grid[0], l->grid[1], l->grid[2],
							 l->block[0], l->block[1], l->block[2], l->shared, stream,
							 l->cooperative, bytes, params);
	return vcuda_call_vcudaLaunchClusters_with(how, l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
						   l->block[1], l->block[2], l->cluster[0], l->cluster[1],
						   l->cluster[2], l->shared, stream, l->cooperative, bytes,
						   params);
}

/* Whether the device takes such a cluster is known after the first launch with it. */
static bool is_new_cluster(const struct libcuda_launch *l, const struct libcuda_function_entry *e)
{
	return l->cluster[0] && atomic_load_explicit(&e->cluster, memory_order_relaxed) != libcuda_launch_cluster(l);
}

static void note_launched(const struct libcuda_launch *l, struct libcuda_function_entry *e)
{
	atomic_store(&e->launched, true);
	if (l->cluster[0])
		atomic_store(&e->cluster, libcuda_launch_cluster(l));
}

static CUresult submit(const struct call_options *how, const struct libcuda_launch *l, struct libcuda_function_entry *e,
		       CUstream stream, const uint8_t *params, size_t bytes)
{
	struct call_options options = *how;
	bool first = !atomic_load_explicit(&e->launched, memory_order_relaxed) || is_new_cluster(l, e);
	CUresult result;

	options.wait = first || is_too_large(l, e);
	result = call(&options, l, stream, params, (uint32_t)bytes);
	if (first && result == CUDA_SUCCESS)
		note_launched(l, e);
	return result == CUDA_SUCCESS && launches_block() ? libcuda_stream_wait(how, stream) : result;
}

static CUresult submit_params(const struct call_options *how, const struct libcuda_launch *l,
			      struct libcuda_function_entry *e, CUstream stream, void **params)
{
	uint8_t small[SMALL_PARAMS], *buffer = small;
	CUresult result;

	if (e->info.param_bytes > SMALL_PARAMS) {
		buffer = malloc(e->info.param_bytes);
		if (!buffer)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = pack(&e->info, params, buffer);
	if (result == CUDA_SUCCESS)
		result = submit(how, l, e, stream, buffer, e->info.param_bytes);
	if (buffer != small)
		free(buffer);
	return result;
}

bool libcuda_launch_is_there(struct libcuda_context *context, const struct libcuda_launch *l, uint32_t *param_bytes)
{
	struct libcuda_function_entry *e;

	if (libcuda_function_lookup_here(context, l->function, &e) != CUDA_SUCCESS)
		return false;
	*param_bytes = e->info.param_bytes;
	return true;
}

bool libcuda_launch_is_known(struct libcuda_context *context, const struct libcuda_launch *l, uint32_t *param_bytes)
{
	struct libcuda_function_entry *e;

	if (launches_block() || libcuda_function_lookup_here(context, l->function, &e) != CUDA_SUCCESS)
		return false;
	*param_bytes = e->info.param_bytes;
	return atomic_load(&e->launched);
}

CUresult libcuda_launch_issue(const struct call_options *how, const struct libcuda_launch *l, CUstream resolved,
			      const uint8_t *packed)
{
	struct libcuda_function_entry *e;
	CUresult result = libcuda_function_lookup_here(libcuda_request_context(how), l->function, &e);

	return result == CUDA_SUCCESS ? submit(how, l, e, resolved, packed, e->info.param_bytes) : result;
}

CUresult libcuda_launch_pack(struct libcuda_context *context, const struct libcuda_launch *l, void **params,
			     void **extra, uint8_t **packed, void ***pointers)
{
	struct libcuda_function_entry *e;
	CUresult result = libcuda_context_usable(context);
	const uint8_t *from;
	size_t given = 0;
	uint8_t *to;
	size_t room;

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(context, l->function, &e);
	if (result == CUDA_SUCCESS)
		result = check(l, e, e->context->device);
	if (result == CUDA_SUCCESS && is_too_large(l, e))
		result = CUDA_ERROR_INVALID_VALUE; /* all that CUDA has for a node that cannot be */
	if (result != CUDA_SUCCESS)
		return result;
	if (e->info.param_bytes > MAX_PARAMS || (params && extra) || (e->info.param_count && !params && !extra))
		return CUDA_ERROR_INVALID_VALUE;
	room = (e->info.param_bytes + 7u) & ~7u;
	to = calloc(1, room + (e->info.param_count + 1) * sizeof(void *));
	if (!to)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (params)
		result = pack(&e->info, params, to);
	else if (extra)
		result = find_packed(extra, &e->info, &from, &given);
	if (result != CUDA_SUCCESS) {
		free(to);
		return result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ? CUDA_ERROR_INVALID_VALUE : result;
	}
	if (given)
		memcpy(to, from, given);
	*packed = to;
	*pointers = (void **)(to + room);
	for (uint32_t i = 0; i < e->info.param_count; i++)
		(*pointers)[i] = to + e->info.params[i].offset;
	return CUDA_SUCCESS;
}

/* All blocks of the grid must fit the device at once, so that they can wait for one another. */
static CUresult check_cooperative(const struct libcuda_launch *l, CUdevice dev)
{
	CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *, CUfunction, int, size_t, unsigned int);
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	CUresult result;
	int each;

	if (!libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&each, l->function, (int)(l->block[0] * l->block[1] * l->block[2]), l->shared, 0);
	/* The launch itself reports other errors. */
	if (result == CUDA_SUCCESS && each > 0 &&
	    blocks > (uint64_t)each *
			     (unsigned int)libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

CUresult libcuda_launch_check(struct libcuda_context *context, const struct libcuda_launch *l,
			      struct libcuda_function_entry **e)
{
	CUresult result = libcuda_function_lookup_here(context, l->function, e);

	if (result == CUDA_SUCCESS && l->cooperative)
		result = check_cooperative(l, (*e)->context->device);
	return result == CUDA_SUCCESS ? check(l, *e, (*e)->context->device) : result;
}

/* The driver takes a cooperative launch's parameters one by one only, unless it has clusters. */
static bool worker_takes_part(const struct libcuda_launch *l)
{
	return (!l->cooperative || l->cluster[0]) && client_session.transport->host_minor >= 2;
}

/* The application gives the first `bytes` of the parameters. */
static __attribute__((noinline)) CUresult submit_whole(const struct call_options *how, const struct libcuda_launch *l,
						      struct libcuda_function_entry *e, CUstream resolved,
						      const uint8_t *packed, size_t bytes)
{
	uint8_t whole[MAX_PARAMS];

	memcpy(whole, packed, bytes);
	memset(whole + bytes, 0, e->info.param_bytes - bytes);
	return submit(how, l, e, resolved, whole, e->info.param_bytes);
}

CUresult libcuda_launch_params(const struct call_options *how, const struct libcuda_launch *l,
			       struct libcuda_function_entry *e, CUstream resolved, void **params, void **extra)
{
	const uint8_t *packed;
	CUresult result;
	size_t bytes;

	if (e->info.param_bytes > MAX_PARAMS || (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (!extra && !e->info.param_count)
		return submit(how, l, e, resolved, NULL, 0);
	if (params)
		return submit_params(how, l, e, resolved, params);
	if (!extra)
		return CUDA_ERROR_INVALID_VALUE;
	result = find_packed(extra, &e->info, &packed, &bytes);
	if (result != CUDA_SUCCESS)
		return result;
	if (bytes < e->info.param_bytes && !worker_takes_part(l))
		return submit_whole(how, l, e, resolved, packed, bytes);
	return submit(how, l, e, resolved, packed, bytes);
}

CUresult libcuda_launch_set_cluster(struct libcuda_launch *l, CUdevice dev, unsigned int x, unsigned int y,
				    unsigned int z)
{
	if (!x || !y || !z || x > 255 || y > 255 || z > 255)
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (!libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)) {
		if (x == 1 && y == 1 && z == 1)
			return CUDA_SUCCESS;
		vcuda_log_once("a launch with clusters of blocks is refused: the device has none");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	l->cluster[0] = (uint8_t)x;
	l->cluster[1] = (uint8_t)y;
	l->cluster[2] = (uint8_t)z;
	return CUDA_SUCCESS;
}

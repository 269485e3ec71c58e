/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel launches. Everything that can be refused is refused by the call itself, what the compiler does not know
 * included: the calling thread compiles. A fault while the kernel runs makes its context fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/callee.h"
#include "module/condition.h"
#include "device/device.h"
#include "module/fault.h"
#include "module/heap.h"
#include "kernel.h"
#include "common/log.h"
#include "device/memory.h"
#include "module/module.h"
#include "device/stream.h"
#include "texture/texture.h"
#include "device/time-limit.h"

#define MAX_CHUNK 16
#define MOST_BLOCKS 256
#define PARAM_ALIGN 128 /* of what a kernel may have as a parameter: a tensor map */

struct launch {
	struct softgpu_op op;
	struct ptx_launch ptx;
	struct softgpu_timer timer;
	struct softgpu_map *map; /* taken when the kernel starts, as the textures are */
	uint64_t view;           /* softgpu_context_view() at that time */
	struct softgpu_texture_map *textures;
	struct CUmod_st *module;
	uint64_t reserved;          /* of the memory of blocks, for all blocks of a cooperative launch */
	struct CUfunc_st *function; /* which the module has */
	unsigned char *params;      /* in room[] */
	unsigned char room[];
};

struct shape {
	uint32_t grid[3], block[3];
	size_t dynamic_shared;
	bool cooperative;
};

/* The workspace of a cooperative launch, where its blocks meet: a count, 4 bytes from the start. */
#define WORKSPACE_BYTES 64

static bool launch_start(struct softgpu_op *op)
{
	struct launch *l = (struct launch *)op;

	softgpu_timer_start(&l->timer, op->stream->context);
	l->map = softgpu_map_get(op->stream->context);
	l->view = softgpu_context_view(op->stream->context);
	if (!l->map || !softgpu_texture_map_get(op->stream->context, &l->textures)) {
		softgpu_context_fail(op->stream->context, CUDA_ERROR_OUT_OF_MEMORY);
		return false;
	}
	l->ptx.memory = &l->map->map;
	l->ptx.textures = l->textures ? &l->textures->table : NULL;
	return true;
}

static void launch_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct launch *l = (struct launch *)op;
	struct CUctx_st *context = op->stream->context;
	struct ptx_fault fault = {0};

	if (!__atomic_load_n(&context->cancel, __ATOMIC_RELAXED)) {
		softgpu_timer_touch(&l->timer);
		if (ptx_run_blocks(&l->ptx, unit, count, &fault))
			return;
		softgpu_lock();
		/* Blocks that were cancelled after a fault have nothing to add to it. */
		if (softgpu_context_fail(context, softgpu_fault_result(fault.kind)) || softgpu_timer_expired(&l->timer))
			softgpu_fault_report(l->function, &fault);
		softgpu_unlock();
	}
	softgpu_op_abandon(op);
}

/* Blocks that wait for one another must not wait for memory. */
static CUresult reserve(struct launch *l)
{
	uint64_t bytes = l->op.units * ptx_launch_memory(&l->ptx);

	if (!ptx_reserve_memory(bytes))
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	l->reserved = bytes;
	return CUDA_SUCCESS;
}

static void unreserve(const struct launch *l)
{
	if (l->reserved)
		ptx_unreserve_memory(l->reserved);
}

static void launch_finish(struct softgpu_op *op)
{
	struct launch *l = (struct launch *)op;

	if (l->timer.context)
		softgpu_timer_stop(&l->timer);
	unreserve(l);
	if (l->map)
		softgpu_map_put(l->map);
	if (l->textures)
		softgpu_texture_map_put(l->textures);
	if (l->ptx.workspace)
		softgpu_memory_drop(op->stream->context, l->ptx.workspace);
	softgpu_module_put(l->module);
	free(l);
}

static void print(void *device, const char *text, size_t length)
{
	(void)device;
	fwrite(text, 1, length, stdout);
}

static enum ptx_stray stray(void *device, const struct ptx_fault *fault)
{
	const struct launch *l = device;

	return softgpu_fault_judge(l->op.stream->context, l->function, fault);
}

static bool is_known_stray(void *device, uint64_t address, uint64_t bytes, bool write)
{
	const struct launch *l = device;

	return softgpu_fault_is_known(l->function, l->view, address, bytes, write);
}

static enum ptx_fault_kind callee(void *device, uint64_t address, const struct ptx_binary **binary)
{
	struct launch *l = device;

	return softgpu_callee_find(l->module, address, l->ptx.block, &l->timer, binary);
}

static CUresult check_shape(const struct CUfunc_st *f, const struct shape *s)
{
	const uint32_t *g = s->grid, *b = s->block;
	uint64_t threads = (uint64_t)b[0] * b[1];

	if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2])
		return CUDA_ERROR_INVALID_VALUE;
	if (g[0] > SOFTGPU_MAX_GRID_X || g[1] > SOFTGPU_MAX_GRID_YZ || g[2] > SOFTGPU_MAX_GRID_YZ)
		return CUDA_ERROR_INVALID_VALUE;
	if (b[0] > SOFTGPU_MAX_THREADS_PER_BLOCK || b[1] > SOFTGPU_MAX_THREADS_PER_BLOCK || b[2] > SOFTGPU_MAX_BLOCK_Z)
		return CUDA_ERROR_INVALID_VALUE;
	threads *= b[2];
	if (f->info->local_bytes > SOFTGPU_LOCAL_PER_THREAD)
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > SOFTGPU_MAX_THREADS_PER_BLOCK || (f->info->max_threads && threads > f->info->max_threads))
		return CUDA_ERROR_INVALID_VALUE;
	return s->dynamic_shared <= (size_t)f->max_dynamic ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Finds the buffer of an `extra` list. */
static CUresult read_extra(void **extra, const void **buffer, size_t *bytes)
{
	*buffer = NULL;
	*bytes = 0;
	for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
			memcpy(bytes, extra[1], sizeof(*bytes));
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	return *buffer || *bytes == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_params(const struct ptx_kernel_info *info, void **params, void **extra, unsigned char *to)
{
	const void *buffer;
	size_t bytes, needed = 0;
	CUresult result;

	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < info->param_count; i++) {
		size_t end = info->params[i].offset + info->params[i].size;

		if (params && !params[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (params)
			memcpy(to + info->params[i].offset, params[i], info->params[i].size);
		needed = end > needed ? end : needed;
	}
	if (params || needed == 0)
		return CUDA_SUCCESS;
	if (!extra)
		return CUDA_ERROR_INVALID_VALUE;
	result = read_extra(extra, &buffer, &bytes);
	if (result != CUDA_SUCCESS || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	/* The rest is 0. */
	memcpy(to, buffer, bytes < needed ? bytes : needed);
	return CUDA_SUCCESS;
}

/*
 * The function compiled for a block shape. May drop the lock, because compiling takes long: the caller looks its
 * context and stream up again. The module stays until softgpu_module_put().
 */
static CUresult compile(struct CUfunc_st *f, const uint32_t block[3], const struct ptx_binary **binary)
{
	struct ptx_error error = {0};
	enum ptx_status status;

	if (f->refusal) {
		vcuda_log("cannot compile kernel %s: the instruction `%s` is not supported", f->info->name, f->refusal);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	f->module->refs++;
	if (f->prepared && !memcmp(f->prepared_block, block, sizeof(f->prepared_block))) {
		*binary = f->prepared;
		return CUDA_SUCCESS;
	}
	softgpu_unlock();
	status = ptx_kernel_prepare(f->kernel, block, binary, &error);
	softgpu_lock();
	if (status != PTX_OK) {
		char what[256];

		snprintf(what, sizeof(what), "cannot compile kernel %s", f->info->name);
		softgpu_module_put(f->module);
		return softgpu_compile_error(status, what, &error);
	}
	f->prepared = *binary;
	memcpy(f->prepared_block, block, sizeof(f->prepared_block));
	return CUDA_SUCCESS;
}

static bool claim(void *owner, uint64_t *index)
{
	return softgpu_op_claim(&((struct launch *)owner)->op, index);
}

/* The launch may wait for another kernel, or a copy, for which no thread is left. */
static uint64_t stalled(void *owner)
{
	uint64_t rest;

	(void)owner;
	softgpu_lock();
	rest = softgpu_worker_stalled();
	softgpu_unlock();
	return rest;
}

/* A GPU that grids which wait for themselves are written for has so many multiprocessors. */
#define USUAL_MULTIPROCESSORS 132

/*
 * The blocks that one thread of the host may have of a kernel while all of them wait: together as many as a usual GPU
 * would hold, as far as a quarter of the memory of blocks goes, so that other kernels can still run. At least as many
 * as the device is said to hold.
 */
static uint32_t most_waiting(const struct launch *l, uint64_t occupancy)
{
	uint64_t threads = softgpu_device()->threads, each = ptx_launch_memory(&l->ptx);
	uint64_t room = softgpu_device()->block_memory / 4 / (each ? each : 1) / threads;
	uint64_t usual = (occupancy * USUAL_MULTIPROCESSORS + threads - 1) / threads;

	usual = usual < room ? usual : room;
	return (uint32_t)(usual > occupancy ? usual : occupancy);
}

/*
 * Threads claim blocks that may wait for one another one by one, when they have room for one more. All blocks of a
 * cooperative launch are started; of other launches, as many as most_waiting() says.
 */
static void let_wait(struct launch *l, const struct CUfunc_st *f, const struct shape *s)
{
	const uint32_t *b = s->block;
	unsigned int threads = softgpu_device()->threads;

	l->op.chunk = l->op.most = 1;
	l->ptx.claim = claim;
	l->ptx.stalled = stalled;
	l->ptx.owner = l;
	l->ptx.share = s->cooperative ? (uint32_t)((l->op.units + threads - 1) / threads) : 1;
	l->ptx.resident =
		s->cooperative
			? (uint32_t)l->op.units
			: most_waiting(l, softgpu_function_blocks_per_sm(f, b[0] * b[1] * b[2], s->dynamic_shared));
}

/* Blocks claimed at a time: few claims for many small blocks, and still work for all threads. */
static uint64_t chunk(uint64_t blocks)
{
	uint64_t n = blocks / (softgpu_device()->threads * 16u);

	return n < 1 ? 1 : n > MAX_CHUNK ? MAX_CHUNK : n;
}

/* Blocks that go through memory side by side are claimed so. */
static void let_stride(struct launch *l)
{
	uint64_t side = ptx_launch_side(&l->ptx), n = l->op.units / (softgpu_device()->threads * 4u);

	if (side == 1)
		return;
	n = n < side ? n : side;
	l->op.chunk = l->op.chunk > n ? l->op.chunk : n;
	l->op.in_rows = true;
}

static struct launch *make(struct CUfunc_st *f, const struct shape *s)
{
	static uint64_t serial;
	size_t bytes = sizeof(struct launch) + f->info->param_bytes + PARAM_ALIGN;
	struct launch *l = calloc(1, bytes);

	if (!l)
		return NULL;
	l->op.bytes = bytes;
	l->op.start = launch_start;
	l->op.run = launch_run;
	l->op.finish = launch_finish;
	l->op.units = (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
	l->op.chunk = chunk(l->op.units);
	l->op.most = MOST_BLOCKS;
	l->module = f->module;
	memcpy(l->ptx.grid, s->grid, sizeof(s->grid));
	memcpy(l->ptx.block, s->block, sizeof(s->block));
	l->ptx.dynamic_shared = s->dynamic_shared;
	l->params = l->room + (-(uintptr_t)l->room & (PARAM_ALIGN - 1));
	l->ptx.params = l->params;
	l->function = f;
	l->ptx.device = l;
	l->ptx.print = print;
	l->ptx.stray = stray;
	l->ptx.is_known_stray = is_known_stray;
	l->ptx.callee = callee;
	l->ptx.multiprocessors = softgpu_device()->threads;
	l->ptx.serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	return l;
}

static CUresult provide_heap(struct CUctx_st *c, struct launch *l)
{
	struct softgpu_heap *heap;
	CUresult result = softgpu_heap_get(c, &heap);

	if (result != CUDA_SUCCESS)
		return result;
	l->ptx.heap = heap;
	l->ptx.allocate = softgpu_heap_allocate;
	l->ptx.release = softgpu_heap_release;
	return CUDA_SUCCESS;
}

/* All blocks must be on the device at once. */
static CUresult check_cooperative(const struct CUfunc_st *f, const struct shape *s)
{
	const uint32_t *g = s->grid, *b = s->block;
	uint64_t most = (uint64_t)softgpu_function_blocks_per_sm(f, b[0] * b[1] * b[2], s->dynamic_shared) *
			softgpu_device()->threads;

	return (uint64_t)g[0] * g[1] > most || (uint64_t)g[0] * g[1] * g[2] > most
		       ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		       : CUDA_SUCCESS;
}

/* One block has to fit into the memory of blocks; all of a cooperative launch have to. */
static CUresult check_memory(const struct launch *l, bool cooperative)
{
	static bool told;
	uint64_t each = ptx_launch_memory(&l->ptx), most = softgpu_device()->block_memory;

	if (each > most) {
		if (!told)
			vcuda_log("kernel %s: a block needs %llu MiB, VCUDA_CPU_BLOCK_MEMORY is %llu MiB",
				  l->function->info->name, (unsigned long long)(each >> 20),
				  (unsigned long long)(most >> 20));
		told = true;
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	}
	return cooperative && l->op.units > most / each ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

static CUresult launch(struct CUctx_st *c, struct CUfunc_st *f, const struct shape *s, CUstream handle, void **params,
		       void **extra)
{
	struct CUstream_st *stream;
	CUresult result = check_shape(f, s);
	struct launch *l;

	if (result == CUDA_SUCCESS && s->cooperative)
		result = check_cooperative(f, s);
	if (result != CUDA_SUCCESS)
		return result;
	l = make(f, s);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = copy_params(f->info, params, extra, l->params);
	if (result == CUDA_SUCCESS && f->info->uses_heap)
		result = provide_heap(c, l);
	if (result != CUDA_SUCCESS)
		goto free_launch;
	softgpu_context_get(c);
	result = compile(f, s->block, &l->ptx.binary);
	if (result != CUDA_SUCCESS)
		goto put_context;
	/* Another thread may have ended the context or the stream meanwhile. */
	result = softgpu_context_state(c);
	stream = result == CUDA_SUCCESS ? softgpu_stream_find(c, handle) : NULL;
	if (!stream) {
		result = result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_HANDLE : result;
		goto put_module;
	}
	result = check_memory(l, s->cooperative);
	if (result != CUDA_SUCCESS)
		goto put_module;
	/* Only a kernel of a graph sets conditions; in another one it faults. */
	l->ptx.decide = stream->inner ? softgpu_condition_set : NULL;
	l->ptx.cancel = &c->cancel;
	if (ptx_binary_waits(l->ptx.binary))
		let_wait(l, f, s);
	else
		let_stride(l);
	if (s->cooperative)
		result = reserve(l);
	if (result == CUDA_SUCCESS && s->cooperative)
		result = softgpu_memory_alloc(c, WORKSPACE_BYTES, SOFTGPU_VARIABLE, &l->ptx.workspace);
	if (result != CUDA_SUCCESS)
		goto unreserve;
	softgpu_submit(stream, &l->op, false);
	softgpu_context_put(c);
	return CUDA_SUCCESS;

unreserve:
	unreserve(l);
put_module:
	softgpu_module_put(l->module);
put_context:
	softgpu_context_put(c);
free_launch:
	free(l);
	return result;
}

static CUresult enter_launch(CUfunction f, const struct shape *shape, CUstream stream, void **params, void **extra)
{
	struct CUfunc_st *function;
	struct CUctx_st *c;
	CUresult result = softgpu_enter_with(&c, sizeof(struct launch));

	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_function_find(c, f, &function);
	if (result == CUDA_SUCCESS && !softgpu_stream_find(c, stream))
		result = CUDA_ERROR_INVALID_HANDLE;
	if (result == CUDA_SUCCESS)
		result = launch(c, function, shape, stream, params, extra);
	return softgpu_leave(result);
}

CUresult softgpu_cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
				unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
				CUstream hStream, void **kernelParams, void **extra)
{
	struct shape shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, false};

	return enter_launch(f, &shape, hStream, kernelParams, extra);
}

CUresult softgpu_cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
					   unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
					   unsigned sharedMemBytes, CUstream hStream, void **kernelParams)
{
	struct shape shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, true};

	return enter_launch(f, &shape, hStream, kernelParams, NULL);
}

CUresult softgpu_launch_pack(CUfunction f, void **params, void **extra, void **packed, size_t *bytes)
{
	struct CUfunc_st *function;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_function_find(c, f, &function);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	*bytes = function->info->param_bytes;
	*packed = calloc(1, *bytes + 1);
	return softgpu_leave(*packed ? copy_params(function->info, params, extra, *packed) : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult softgpu_launch_packed(CUfunction f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
			       bool cooperative, CUstream stream, void *packed, size_t bytes)
{
	struct shape shape = {.dynamic_shared = shared, .cooperative = cooperative};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};

	memcpy(shape.grid, grid, sizeof(shape.grid));
	memcpy(shape.block, block, sizeof(shape.block));
	return enter_launch(f, &shape, stream, NULL, extra);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernel.h promises about kernels: their binaries, one for each block shape, made when they are first asked for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx-compile.h"

/* What a GPU has. */
#define MAX_LOCAL (512u << 10)

/* Kernels are compiled one at a time: LLVM's contexts are private, but the tables of a module are not. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

/* One version of a kernel; the caller holds the lock. */
static enum ptx_status compile(struct ptx_binary *binary, bool masked, ptx_code *code, uint64_t *stack,
			       struct ptx_error *error)
{
	struct ptx_module *module = binary->kernel->function->module;
	LLVMMemoryBufferRef object;
	enum ptx_status status;
	char name[40];
	struct ptx_version version = {name, binary->lanes, masked};

	snprintf(name, sizeof(name), "ptx_kernel_%u", module->versions++);
	status = ptx_compile(binary->body, binary->lowering, &version, &object, stack, error);
	if (status == PTX_OK && !ptx_jit_link(module, object, name, code, error))
		status = PTX_NO_MEMORY;
	return status;
}

static bool analyse(struct ptx_body *body, unsigned *lanes)
{
	if (!ptx_body_inline(body) || !ptx_body_blocks(body) || !ptx_body_order(body) || !ptx_body_live(body))
		return false;
	return ptx_body_width(body, lanes);
}

static enum ptx_status compile_full(struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_binary *binary,
				    struct ptx_error *error)
{
	struct ptx_body *body = calloc(1, sizeof(*body));
	struct ptx_lowering *low;
	enum ptx_status status;

	if (!body)
		return PTX_NO_MEMORY;
	body->arena.limit = 1ull << 30;
	body->function = kernel->function;
	body->error = error;
	memcpy(body->blockdim, blockdim, sizeof(body->blockdim));
	body->threads = blockdim[0] * blockdim[1] * blockdim[2];
	body->static_shared = kernel->info.static_shared;
	binary->body = body;
	low = binary->lowering = ptx_alloc(&body->arena, sizeof(*low));
	if (!low || !analyse(body, &binary->lanes))
		return body->status ? body->status : PTX_NO_MEMORY;
	/* local memory of neighbouring threads stays aligned */
	body->local_bytes = (body->local_bytes + 15) & ~15ull;
	if (body->local_bytes > MAX_LOCAL) {
		ptx_error_set(error, body->function->line, "`%s` needs more than %u KiB of local memory per thread",
			      kernel->info.name, MAX_LOCAL >> 10);
		return PTX_NOT_SUPPORTED;
	}
	if (!prepare_lowering(body, low, binary->lanes))
		return body->status;
	status = compile(binary, false, &binary->full, &binary->full_stack, error);
	binary->sites = low->site_list;
	binary->site_count = low->site_count;
	binary->static_shared = body->static_shared;
	binary->local_stride = body->local_bytes;
	binary->frame_bytes = low->frame_bytes + 4ull * body->block_count;
	/* a loop may wait for another warp of the block */
	binary->fibers = binary->lanes > 1 && (body->has_barrier || body->has_waits);
	binary->zero_frame = body->block_count > PTX_MAX_BLOCKS_IN_REGISTERS;
	return status;
}

static enum ptx_status compile_masked(struct ptx_binary *binary, struct ptx_error *error)
{
	ptx_code code;
	enum ptx_status status = compile(binary, true, &code, &binary->masked_stack, error);

	if (status == PTX_OK)
		__atomic_store_n(&binary->masked, code, __ATOMIC_RELEASE);
	return status;
}

void ptx_binary_free(struct ptx_binary *binary)
{
	if (binary->body)
		ptx_arena_free(&binary->body->arena);
	free(binary->body);
	free(binary);
}

static bool good_block(const struct ptx_kernel *kernel, const uint32_t d[3], struct ptx_error *error)
{
	uint64_t threads = 1;

	for (unsigned n = 0; n < 3; n++)
		threads = d[n] && d[n] <= 1024 ? threads * d[n] : 0;
	if (threads && threads <= 1024)
		return true;
	ptx_error_set(error, 0, "`%s`: a block of %u x %u x %u threads is not possible", kernel->info.name, d[0], d[1],
		      d[2]);
	return false;
}

enum ptx_status ptx_kernel_prepare(struct ptx_kernel *kernel, const uint32_t blockdim[3],
				   const struct ptx_binary **binary, struct ptx_error *error)
{
	enum ptx_status status = PTX_OK;
	struct ptx_binary *b;

	memset(error, 0, sizeof(*error));
	*binary = NULL;
	if (!good_block(kernel, blockdim, error))
		return PTX_INVALID;
	pthread_mutex_lock(&compiling);
	for (b = kernel->binaries; b; b = b->next)
		if (!memcmp(b->blockdim, blockdim, sizeof(b->blockdim)))
			break;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (b) {
			memcpy(b->blockdim, blockdim, sizeof(b->blockdim));
			b->threads = blockdim[0] * blockdim[1] * blockdim[2];
			b->kernel = kernel;
			status = compile_full(kernel, blockdim, b, error);
		} else {
			status = PTX_NO_MEMORY;
		}
		if (status == PTX_OK) {
			b->next = kernel->binaries;
			kernel->binaries = b;
		} else if (b) {
			ptx_binary_free(b);
			b = NULL;
		}
	}
	pthread_mutex_unlock(&compiling);
	if (status == PTX_NO_MEMORY)
		ptx_error_set(error, 0, "out of memory while compiling `%s`", kernel->info.name);
	*binary = b;
	return status;
}

enum ptx_status ptx_binary_complete(struct ptx_binary *binary, struct ptx_error *error)
{
	enum ptx_status status = PTX_OK;

	memset(error, 0, sizeof(*error));
	pthread_mutex_lock(&compiling);
	if (!binary->masked)
		status = compile_masked(binary, error);
	pthread_mutex_unlock(&compiling);
	return status;
}

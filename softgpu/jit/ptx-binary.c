/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of kernel.h: their binaries, one for each block shape, made at the first launch with it. Compiling holds
 * no lock: a thread waits only for a binary that it needs and that another thread makes.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "jit/ptx-compile.h"
#include "jit/ptx-tier.h"
#include "jit/ptx-version.h"

static struct ptx_module *module_of(const struct ptx_binary *binary)
{
	return binary->kernel->function->module;
}

void ptx_binary_publish(struct ptx_binary *binary, bool masked, struct ptx_machine_code *code)
{
	struct ptx_machine_code **place = masked ? &binary->masked : &binary->full;

	code->older = *place;
	__atomic_store_n(place, code, __ATOMIC_RELEASE);
}

static void free_code(struct ptx_machine_code *code)
{
	for (struct ptx_machine_code *older; code; code = older) {
		older = code->older;
		free(code);
	}
}

void ptx_binary_free(struct ptx_binary *binary)
{
	free_code(binary->full);
	free_code(binary->masked);
	free(binary->sites);
	free(binary->offsets);
	free(binary);
}

static void free_module_code(struct ptx_module *module)
{
	for (uint32_t k = 0; k < module->kernel_count; k++)
		for (struct ptx_binary *b = module->kernels[k].binaries, *next; b; b = next) {
			next = b->next;
			ptx_binary_free(b);
		}
	ptx_jit_destroy(module->jit);
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

static bool complete(struct ptx_binary *binary)
{
	struct ptx_module *module = module_of(binary);
	struct ptx_version version = {.masked = true, .checked = ptx_version_is_checked()};
	enum ptx_status status = PTX_OK;
	struct ptx_machine_code *code;
	struct ptx_error error = {0};

	pthread_mutex_lock(&module->lock);
	while (binary->completing)
		pthread_cond_wait(&module->changed, &module->lock);
	if (!binary->masked) {
		binary->completing = true;
		pthread_mutex_unlock(&module->lock);
		status = ptx_version_make(binary, &version, true, false, &code, &error);
		pthread_mutex_lock(&module->lock);
		binary->completing = false;
		if (status == PTX_OK)
			ptx_binary_publish(binary, true, code);
		pthread_cond_broadcast(&module->changed);
	}
	pthread_mutex_unlock(&module->lock);
	if (status != PTX_OK)
		vcuda_log("cannot compile kernel %s for parts of its warps: line %u of the PTX: %s",
			  binary->kernel->info.name, error.line, *error.text ? error.text : "out of memory");
	return status == PTX_OK;
}

struct ptx_binary *ptx_binary_new(struct ptx_kernel *kernel, const uint32_t blockdim[3])
{
	struct ptx_binary *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	memcpy(b->blockdim, blockdim, sizeof(b->blockdim));
	b->threads = blockdim[0] * blockdim[1] * blockdim[2];
	b->kernel = kernel;
	b->line = kernel->function->line;
	b->complete = complete;
	b->improve = ptx_tier_improve;
	return b;
}

/* The caller holds the module's lock. A better binary comes in front of the one that it replaces. */
static void enter(struct ptx_binary *b)
{
	module_of(b)->free_code = free_module_code;
	b->next = b->kernel->binaries;
	b->kernel->binaries = b;
}

void ptx_binary_replace(struct ptx_binary *first, struct ptx_binary *better)
{
	pthread_mutex_lock(&module_of(first)->lock);
	better->state = PTX_BINARY_READY;
	enter(better);
	__atomic_store_n(&first->better, better, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&module_of(first)->lock);
}

/* The binary for a block shape, new if need be. The caller holds the module's lock. */
static struct ptx_binary *find(struct ptx_kernel *kernel, const uint32_t blockdim[3])
{
	struct ptx_binary *b;

	for (b = kernel->binaries; b; b = b->next)
		if (!memcmp(b->blockdim, blockdim, sizeof(b->blockdim)))
			return b;
	b = ptx_binary_new(kernel, blockdim);
	if (b)
		enter(b);
	return b;
}

/* Compiles the full version without the lock. A lack of memory may pass; other failures stay. */
static void fill(struct ptx_binary *b)
{
	struct ptx_module *module = module_of(b);
	struct ptx_version version = {.checked = ptx_version_is_checked()};
	struct ptx_machine_code *code;
	struct ptx_error error = {0};
	enum ptx_status status;

	b->state = PTX_BINARY_BUSY;
	pthread_mutex_unlock(&module->lock);
	status = ptx_version_make(b, &version, true, true, &code, &error);
	pthread_mutex_lock(&module->lock);
	if (status == PTX_OK) {
		b->scalar = version.scalar;
		ptx_binary_publish(b, false, code);
		b->state = PTX_BINARY_READY;
	} else {
		b->state = PTX_BINARY_FAILED;
		b->status = status;
		b->error = error;
	}
	pthread_cond_broadcast(&module->changed);
}

enum ptx_status ptx_kernel_prepare(struct ptx_kernel *kernel, const uint32_t blockdim[3],
				   const struct ptx_binary **binary, struct ptx_error *error)
{
	struct ptx_module *module = kernel->function->module;
	enum ptx_status status = PTX_OK;
	struct ptx_binary *b;

	memset(error, 0, sizeof(*error));
	*binary = NULL;
	if (!good_block(kernel, blockdim, error))
		return PTX_INVALID;
	pthread_mutex_lock(&module->lock);
	b = find(kernel, blockdim);
	if (b && (b->state == PTX_BINARY_NEW || (b->state == PTX_BINARY_FAILED && b->status == PTX_NO_MEMORY)))
		fill(b);
	while (b && b->state == PTX_BINARY_BUSY)
		pthread_cond_wait(&module->changed, &module->lock);
	if (!b) {
		status = PTX_NO_MEMORY;
	} else if (b->state == PTX_BINARY_FAILED) {
		status = b->status;
		*error = b->error;
	} else {
		*binary = b;
	}
	pthread_mutex_unlock(&module->lock);
	if (status == PTX_NO_MEMORY)
		ptx_error_set(error, 0, "out of memory while compiling `%s`", kernel->info.name);
	return status;
}

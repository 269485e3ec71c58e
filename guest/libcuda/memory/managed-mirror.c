/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/managed-mirror.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/arena.h"
#include "core/request.h"
#include "core/context.h"
#include "core/hooks.h"
#include "core/init.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "memory/range.h"
#include "ring/ring.h"
#include "guest/client/section.h"
#include "guest/client/stage.h"

#define PAGE 4096ull

struct mirror {
	uint64_t start;
	size_t bytes;
	uint8_t *twin; /* the contents of both sides when they were last made equal */
	uint8_t *room; /* for what comes from the device */
	struct mirror *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mirror *mirrors;

/* Copies go through a stream that waits for no other, in any context: the memory is the same in all. */
static struct libcuda_context *home;
static uint64_t home_generation;
static CUstream stream;

/* Kernels may have written since: those of a context, or of several. */
static struct libcuda_context *writer;
static bool writers;

/* One block is kept for this: a copy that waits for one could wait for copies that wait for this. */
static void *stage;
static uint32_t block;

bool libcuda_mirror_possible(void)
{
	return libcuda_host_is_gpu();
}

/* ---- pages ---- */

static bool is_shared(const struct mirror *s, uint64_t page)
{
	for (const struct mirror *o = mirrors; o; o = o->next)
		if (o != s && o->start < page + PAGE && page < o->start + o->bytes)
			return true;
	return false;
}

/* The pages that no other variable has part of; only the outer ones can be shared. */
static void own_pages(const struct mirror *s, uint64_t *start, uint64_t *end)
{
	*start = s->start & ~(PAGE - 1);
	*end = (s->start + s->bytes + PAGE - 1) & ~(PAGE - 1);
	if (is_shared(s, *start))
		*start += PAGE;
	if (*end > *start && is_shared(s, *end - PAGE))
		*end -= PAGE;
}

/* Where the address space is kept free for the device nothing of the program's is; elsewhere there may be. */
static bool map(const struct mirror *s)
{
	uint64_t start, end;
	void *p;
	int how;

	own_pages(s, &start, &end);
	if (start >= end)
		return true;
	how = libcuda_arena_is_reserved(start, end) ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	p = mmap((void *)start, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | how, -1, 0);
	if (p == (void *)start)
		return true;
	if (p != MAP_FAILED)
		munmap(p, end - start);
	return false;
}

static void unmap(const struct mirror *s)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	uint64_t start, end;

	own_pages(s, &start, &end);
	if (start >= end)
		return;
	if (libcuda_arena_is_reserved(start, end))
		mmap((void *)start, end - start, PROT_NONE, flags, -1, 0);
	else
		munmap((void *)start, end - start);
}

/* ---- copies; with the lock held ---- */

/* Calls of this file, in `home`. */
static struct call_options in_home(void)
{
	return (struct call_options){.context = &home->calls, .internal = true};
}

/* Chooses `home`, which may become `context`. False: no context can copy. */
static bool find_home(struct libcuda_context *context)
{
	struct call_options options = {.internal = true};

	if (home && home_generation == atomic_load(&home->generation))
		return true;
	home = NULL;
	if (!context)
		return false;
	options.context = &context->calls;
	if (vcuda_call_cuStreamCreateWithPriority_with(&options, &stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS) {
		home = context;
		home_generation = atomic_load(&home->generation);
	}
	return home;
}

/* A context that has failed copies nothing more: the next command's takes its place. */
static CUresult leave_home(CUresult result)
{
	if (result != CUDA_SUCCESS)
		home = NULL;
	return result;
}

static CUresult to_device(uint64_t to, const uint8_t *from, size_t bytes)
{
	const struct call_options options = in_home();
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0, part; done < bytes && result == CUDA_SUCCESS; done += part) {
		part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;
		client_section_enter();
		memcpy(stage, from + done, part);
		client_section_leave();
		result = vcuda_call_vcudaStageHtoD_with(&options, to + done, block, part, stream, 1);
	}
	return result;
}

static CUresult from_device(uint8_t *to, uint64_t from, size_t bytes)
{
	const struct call_options options = in_home();
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0, part; done < bytes && result == CUDA_SUCCESS; done += part) {
		part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;
		result = vcuda_call_vcudaStageDtoH_with(&options, from + done, block, part, stream, 1);
		if (result == CUDA_SUCCESS)
			memcpy(to + done, stage, part);
	}
	return result;
}

/* Finds the first run of bytes from `at` on that the program has changed; false: there is none. */
static bool next_change(const struct mirror *s, size_t *at, size_t *bytes)
{
	const uint8_t *now = (const uint8_t *)s->start;
	size_t end;

	while (*at < s->bytes && now[*at] == s->twin[*at])
		(*at)++;
	for (end = *at; end < s->bytes && now[end] != s->twin[end];)
		end++;
	*bytes = end - *at;
	return *bytes;
}

/* Copies only bytes that the program has written, so that other bytes keep the device's values. */
static CUresult push(struct mirror *s)
{
	CUresult result = CUDA_SUCCESS;
	size_t bytes;

	if (!memcmp((const void *)s->start, s->twin, s->bytes))
		return CUDA_SUCCESS;
	for (size_t at = 0; result == CUDA_SUCCESS && next_change(s, &at, &bytes); at += bytes) {
		memcpy(s->room + at, (const void *)(s->start + at), bytes);
		result = to_device(s->start + at, s->room + at, bytes);
		if (result == CUDA_SUCCESS)
			memcpy(s->twin + at, s->room + at, bytes);
	}
	return result;
}

static CUresult pull(struct mirror *s)
{
	uint8_t *now = (uint8_t *)s->start;
	CUresult result = from_device(s->room, s->start, s->bytes);

	if (result != CUDA_SUCCESS || !memcmp(s->room, s->twin, s->bytes))
		return result;
	for (size_t i = 0; i < s->bytes; i++)
		if (s->room[i] != s->twin[i])
			now[i] = s->twin[i] = s->room[i];
	return CUDA_SUCCESS;
}

static void each(struct libcuda_context *context, CUresult (*one)(struct mirror *s))
{
	CUresult result = CUDA_SUCCESS;

	if (find_home(context))
		for (struct mirror *s = mirrors; s && result == CUDA_SUCCESS; s = s->next)
			result = one(s);
	leave_home(result);
}

/* ---- commands ---- */

static bool is_wait(unsigned int op)
{
	return op == VCUDA_OP_cuStreamSynchronize || op == VCUDA_OP_cuEventSynchronize ||
	       op == VCUDA_OP_cuCtxSynchronize || op == VCUDA_OP_cuStreamQuery || op == VCUDA_OP_cuEventQuery;
}

static void before_command(unsigned int op, struct libcuda_context *context)
{
	if (!vcuda_call_table[op].context)
		return;
	pthread_mutex_lock(&lock);
	each(context, push);
	if (!is_wait(op)) {
		writers |= writer && writer != context;
		writer = context;
	}
	pthread_mutex_unlock(&lock);
}

/* A wait for a stream is none for others: only a context's ends what may be written, and a context alone. */
static void after_command(unsigned int op, struct libcuda_context *context, bool waited, CUresult result)
{
	bool query = op == VCUDA_OP_cuStreamQuery || op == VCUDA_OP_cuEventQuery;

	if (!vcuda_call_table[op].context || (query && result != CUDA_SUCCESS))
		return;
	if (!is_wait(op) && !vcuda_call_table[op].waits && !waited)
		return;
	pthread_mutex_lock(&lock);
	if (writer)
		each(context, pull);
	if (op == VCUDA_OP_cuCtxSynchronize && result == CUDA_SUCCESS && !writers && writer == context)
		writer = NULL;
	pthread_mutex_unlock(&lock);
}

static const struct libcuda_mirror_ops ops = {.before = before_command, .after = after_command};

/* With the lock held. */
static void set_hook(void)
{
	atomic_store(&libcuda_mirror_hook, mirrors ? &ops : NULL);
}

/* ---- variables ---- */

static struct mirror *find(uint64_t address)
{
	struct mirror *s;

	for (s = mirrors; s && s->start != address; s = s->next)
		continue;
	return s;
}

static void free_mirror(struct mirror *s)
{
	if (!s)
		return;
	free(s->twin);
	free(s->room);
	free(s);
}

static CUresult refuse(uint64_t address, const char *why)
{
	vcuda_log("the __managed__ variable at %#llx is not supported: %s", (unsigned long long)address, why);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* With what it holds on the device: there both are equal. */
static CUresult fill(struct mirror *s, struct libcuda_context *context)
{
	CUresult result;

	if (!find_home(context))
		return refuse(s->start, "no context can copy it");
	result = leave_home(from_device(s->twin, s->start, s->bytes));
	if (result != CUDA_SUCCESS)
		return result;
	if (!map(s))
		return refuse(s->start, "the program has other memory at its address");
	memcpy((void *)s->start, s->twin, s->bytes);
	s->next = mirrors;
	mirrors = s;
	return CUDA_SUCCESS;
}

static CUresult add_locked(uint64_t address, size_t bytes, struct libcuda_context *calling)
{
	struct mirror *s = calloc(1, sizeof(*s));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (s) {
		*s = (struct mirror){.start = address, .bytes = bytes, .twin = malloc(bytes), .room = malloc(bytes)};
		if (s->twin && s->room)
			result = fill(s, calling);
	}
	if (result != CUDA_SUCCESS)
		free_mirror(s);
	return result;
}

/*
 * The context for the copies of a thread that has none: runtimes ask for variables before they have one. It stays
 * retained. The caller does not hold the lock, since a thread that ends a context drops its variables.
 */
static struct libcuda_context *primary(void)
{
	CUcontext handle;

	return cuDevicePrimaryCtxRetain(&handle, 0) == CUDA_SUCCESS ? libcuda_context_find(handle) : NULL;
}

CUresult libcuda_mirror_add(uint64_t address, size_t bytes, const void *owner, struct libcuda_context *context)
{
	struct libcuda_range r = {.start = address,
				  .bytes = bytes,
				  .kind = LIBCUDA_RANGE_MIRROR,
				  .owner = (uintptr_t)owner,
				  .context = context};
	struct libcuda_context *calling = context ? context : libcuda_context_current();
	CUresult result = CUDA_SUCCESS;
	bool there;

	if (!calling)
		calling = primary();
	pthread_mutex_lock(&lock);
	if (!stage)
		block = client_stage_take_kept(&stage);
	there = find(address);
	if (!there)
		result = add_locked(address, bytes, calling);
	set_hook();
	pthread_mutex_unlock(&lock);
	if (there || result != CUDA_SUCCESS || libcuda_range_add(&r))
		return result;
	libcuda_mirror_drop(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void libcuda_mirror_drop(uint64_t address)
{
	struct mirror **at, *s;

	pthread_mutex_lock(&lock);
	for (at = &mirrors; *at && (*at)->start != address;)
		at = &(*at)->next;
	s = *at;
	if (s) {
		*at = s->next;
		unmap(s);
	}
	set_hook();
	pthread_mutex_unlock(&lock);
	free_mirror(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a program: variables of modules, managed variables, host memory that the worker maps, too. Sizes are
 * in bytes. Results are CUDA's codes; libcuda_pinned_error() makes one of -errno of the transport. A range belongs to
 * the table of ranges (range.h) from the moment that a function records it there.
 */
#ifndef VCUDA_MEMORY_H
#define VCUDA_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"
#include "memory/allocation.h"
#include "memory/range.h"

/* Set once memory of this process is other processes' too, or once the program asks for it
 * (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS): a synchronous copy is complete when its function returns. */
extern _Atomic bool libcuda_memory_is_watched;

/* A variable of a module or library that was handed out; forgotten with its owner. */
CUresult libcuda_memory_add_global(uint64_t address, uint64_t bytes, const void *owner,
				   struct libcuda_context *context);
void libcuda_memory_drop_owner(const void *owner);

/*
 * managed.c: gives each of the `count` __managed__ variables of a module or library that was just loaded its memory.
 * They are forgotten with `context` (NULL: none, a library's) and with their owner, also after a failure.
 */
CUresult libcuda_managed_place(const void *owner, uint32_t count, struct libcuda_context *context);

/* pointer.c: what cuMemMap() has mapped at the address, if the device of the current context has access. */
bool libcuda_memory_is_mapped(uint64_t address, struct libcuda_mapping *mapping);

/* pinned.c: ends the worker's use of a host range that was taken out of the table; an arena range goes back to the
 * arena. */
CUresult libcuda_pinned_release(const struct libcuda_range *range);

/* pinned.c: new memory that both sides use at the same address, recorded as a range of `kind`. */
CUresult libcuda_pinned_alloc(struct libcuda_context *context, void **pp, size_t bytes, enum libcuda_range_kind kind,
			      unsigned int flags);

/* pinned.c: the same for a range that has all but its place, which is set. */
CUresult libcuda_pinned_create(struct libcuda_range *range);

/* pinned.c: the same as the memory of a __managed__ variable, which is registered by placing it. */
CUresult libcuda_pinned_variable(const void *owner, uint32_t index, size_t bytes, struct libcuda_context *context);

/* CUDA's error for an error of the transport's mapping functions, with a line that says what to do where the user can
 * do something. */
CUresult libcuda_pinned_error(int err, uint64_t address, uint64_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of functions and kernels, asked for once for each context, so that launches are checked and packed here.
 */
#ifndef VCUDA_FUNCTION_H
#define VCUDA_FUNCTION_H

#include "core/object.h"
#include "protocol/types.h"

#define LIBCUDA_OCCUPANCY_ANSWERS 8

/* The worker's answer about a function's occupancy. It holds until a function's attributes change. */
struct libcuda_occupancy {
	uint64_t changes; /* libcuda_function_changes() + 1 then; 0: nothing is here */
	size_t shared;
	unsigned int flags;
	int block_size, blocks;
};

/* A function in one context. */
struct libcuda_function_entry {
	struct libcuda_context *context;
	uint64_t generation;          /* of the context */
	_Atomic bool launched;        /* once: it is compiled, later launches need not wait */
	_Atomic bool loaded;          /* by cuFuncLoad() */
	_Atomic uint32_t cluster;     /* the last one that it was launched with: 8 bits a dimension */
	_Atomic(CUfunction) function; /* of a kernel: what cuKernelGetFunction() gives */
	struct libcuda_occupancy occupancy[LIBCUDA_OCCUPANCY_ANSWERS]; /* under a lock of occupancy.c */
	unsigned int oldest;
	_Atomic(struct libcuda_frame *) frame; /* NULL, or launch-frame.c's; freed with this */
	vcuda_function_info info;
	struct libcuda_function_entry *next;
};

struct libcuda_function {
	char *name;
	_Atomic bool found; /* by its name or kernel, for which NVIDIA's driver loads it; a list of functions does not */
	_Atomic(struct libcuda_function_entry *) entries; /* grows at its head; read without a lock */
};

/* The function behind the record of a function or kernel, which may be NULL. NULL: the function is not known. */
static inline struct libcuda_function *libcuda_function_of(const struct libcuda_object *object)
{
	return object ? object->data : NULL;
}

/*
 * Records a function or kernel that the worker handed out. name may be NULL: then it is not known.
 * CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult libcuda_function_add(enum libcuda_object_kind kind, const void *handle, struct libcuda_context *context,
			      const void *parent, const char *name);

/* cuModuleGetFunction() for a list, which does not load the function. */
CUresult libcuda_module_list_function(CUfunction *function, CUmodule module, const char *name);

/* Notes that a program has found a function. */
void libcuda_function_found(CUfunction handle);

/* Whether functions are loaded at their first use: CUDA_MODULE_LOADING. */
bool libcuda_loads_lazily(void);

/* The entry of a function in its own context, or of a kernel in `context`. CUDA_ERROR_INVALID_HANDLE: neither exists.
 */
CUresult libcuda_function_lookup(struct libcuda_context *context, CUfunction handle,
				 struct libcuda_function_entry **entry);

/* The same for a launch, which also refuses a function of another context than `context`. */
CUresult libcuda_function_lookup_here(struct libcuda_context *context, CUfunction handle,
				      struct libcuda_function_entry **entry);

/* Counts changes of functions' attributes. A kernel's are its function's too, so one count does for all. */
uint64_t libcuda_function_changes(void);

/* An attribute as the worker gave it. */
CUresult libcuda_function_attribute(const struct libcuda_function_entry *entry, CUfunction_attribute attribute,
				    int *value);

#endif

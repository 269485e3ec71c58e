/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of functions and kernels: asked for once for each context, so that launches are checked and packed
 * here. */
#ifndef VCUDA_FUNCTION_H
#define VCUDA_FUNCTION_H

#include "core/object.h"
#include "protocol/types.h"

#define VCUDA_OCCUPANCY_ANSWERS 8

/* What the worker said of a function's occupancy, while no function's attributes changed. */
struct vcuda_occupancy {
	uint64_t changes; /* vcuda_function_changes() + 1 then; 0: nothing is here */
	size_t shared;
	unsigned int flags;
	int block_size, blocks;
};

/* A function in one context. */
struct vcuda_function_entry {
	struct vcuda_context *context;
	uint64_t life;                /* of the context */
	_Atomic bool launched;        /* once: it is compiled, later launches need not wait */
	_Atomic uint32_t cluster;     /* the last one that it was launched with: 8 bits a dimension */
	_Atomic(CUfunction) function; /* of a kernel: what cuKernelGetFunction() gives */
	struct vcuda_occupancy occupancy[VCUDA_OCCUPANCY_ANSWERS]; /* under a lock of occupancy.c */
	unsigned int oldest;
	_Atomic(struct vcuda_frame *) frame; /* NULL, or launch-frame.c's; freed with this */
	vcuda_function_info info;
	struct vcuda_function_entry *next;
};

struct vcuda_function {
	char *name;
	_Atomic(struct vcuda_function_entry *) entries; /* grows at its head; read without a lock */
};

/* The function behind the record of a function or kernel, which may be NULL. NULL: the function is not known. */
static inline struct vcuda_function *vcuda_function_of(const struct vcuda_object *object)
{
	return object ? object->data : NULL;
}

/*
 * Records a function or kernel that the worker handed out. name may be NULL: then it is not known.
 * CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult vcuda_function_add(enum vcuda_object_kind kind, const void *handle, struct vcuda_context *context,
			    const void *parent, const char *name);

/* The entry of a function in its own context, or of a kernel in `context`. CUDA_ERROR_INVALID_HANDLE: neither exists.
 */
CUresult vcuda_function_lookup(struct vcuda_context *context, CUfunction handle, struct vcuda_function_entry **entry);

/* The same for a launch, which also refuses a function of another context than `context`. */
CUresult vcuda_function_lookup_here(struct vcuda_context *context, CUfunction handle,
				    struct vcuda_function_entry **entry);

/* How often attributes of functions have changed. A kernel's are its function's too, so one count does for all. */
uint64_t vcuda_function_changes(void);

/* An attribute as the worker gave it. */
CUresult vcuda_function_attribute(const struct vcuda_function_entry *entry, CUfunction_attribute attribute, int *value);

#endif

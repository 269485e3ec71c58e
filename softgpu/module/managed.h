/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __managed__ variables: they are in host memory, at one address for the program and for kernels. The caller of the
 * back end gives that memory, because it alone knows where both sides can have it (backend.h: managedCount,
 * managedBytes, managedPlace, managedDrop). So a module or a library with such variables cannot be used when it is
 * loaded, but once each has its place:
 *
 * - a place is given once, and has the variable's initial value from then on;
 * - the caller that gave it takes it back with managedDrop, at any time: kernels that still use the variable then fault;
 * - a library's variables are the same ones in each context that uses it. Where an initial value is the address of a
 *   variable that each context has for itself, that of the first one counts.
 *
 * All calls with the lock held unless they say otherwise.
 */
#ifndef VCUDA_CPU_MANAGED_H
#define VCUDA_CPU_MANAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops.h"

struct softgpu_program;
struct CUlib_st;

struct softgpu_managed_variable {
	unsigned int part; /* of the program */
	size_t index;      /* in the part */
	uint64_t address;  /* 0: it has none yet */
};

struct softgpu_managed {
	uint32_t count, placed;
	bool relocated; /* addresses that are initial values are there */
	struct softgpu_managed_variable *variables;
};

/*
 * The variables of a program that was parsed; the list must be all zero, and is to be freed also after an error. No lock
 * needed.
 */
CUresult softgpu_managed_list(const struct softgpu_program *program, struct softgpu_managed *managed);
void softgpu_managed_free(struct softgpu_managed *managed);

/* library.c: a library's, and a program to look them up in. */
CUresult softgpu_library_managed(struct CUlib_st *library, struct softgpu_managed **managed,
			     const struct softgpu_program **program);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of machine code. Each is a PTX module of its own, made when a program first asks for the kernel, with the
 * variables of the program's module. With the lock held.
 */
#ifndef VCUDA_CPU_LIFTED_H
#define VCUDA_CPU_LIFTED_H

#include "module/code-map.h"
#include "module/module.h"

struct softgpu_lifted;

/*
 * Translates the kernel of that name. Drops the lock meanwhile: the caller has a reference to the module. *kernel is as
 * long there as the result. NULL: the kernel is refused for *refusal, which the caller frees. Else an error, with a
 * line in the log.
 */
CUresult softgpu_lifted_make(struct CUmod_st *module, const char *name, struct softgpu_lifted **lifted,
			     struct ptx_kernel **kernel, char **refusal);

/* The map of its text. NULL: there is none, as `lifted` is NULL. */
const struct softgpu_code_map *softgpu_lifted_map(const struct softgpu_lifted *lifted);

/* No launch of the kernel is left. NULL: nothing. */
void softgpu_lifted_free(struct CUctx_st *context, struct softgpu_lifted *lifted);

#endif

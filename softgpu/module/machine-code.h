/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code of programs without PTX, which libvcuda-sass.so translates to PTX. The library may be missing. No lock
 * needed.
 */
#ifndef VCUDA_CPU_MACHINE_CODE_H
#define VCUDA_CPU_MACHINE_CODE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/fatbin.h"
#include "ops.h"

/* The entry with the highest rank is translated. 0: this entry is not, and an entry without a kind is not. */
unsigned int softgpu_machine_code_rank(const struct fatbin_entry *entry);

/* Opens the library at the first call. False: it is not installed, and the log says so. */
bool softgpu_machine_code_opens(void);

/* For a message, after "PTX": " only", or which machine code is taken as well. */
const char *softgpu_machine_code_taken(void);

/* The bytes of the cubin at `data` by its headers, within `bound` unless that is 0. 0: no cubin. */
size_t softgpu_machine_code_bytes(const void *data, size_t bound);

/* A cubin whose kernels are translated one by one, when they are first used. Counted references; thread-safe. */
struct softgpu_machine_code;

/*
 * Takes a cubin that malloc() gave, also after an error. *outline, which the caller frees, is its PTX without the code of
 * kernels. Only once the library is open. Else the driver's error for such a file, with a line in the log.
 */
CUresult softgpu_machine_code_open(void *cubin, size_t bytes, struct softgpu_machine_code **code, char **outline,
				   size_t *length);
struct softgpu_machine_code *softgpu_machine_code_get(struct softgpu_machine_code *code);
void softgpu_machine_code_put(struct softgpu_machine_code *code); /* NULL: nothing */
size_t softgpu_machine_code_size(const struct softgpu_machine_code *code);

/*
 * The PTX of one kernel, which the caller frees, with all variables of the outline in the same order. NULL: the kernel
 * is refused for *refusal, such as "HGMMA at 0x120", which the caller frees.
 */
CUresult softgpu_machine_code_kernel(const struct softgpu_machine_code *code, const char *name, char **text,
				     size_t *length, char **refusal);

#endif

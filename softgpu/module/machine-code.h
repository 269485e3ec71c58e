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

/* How many bytes the cubin at `data` has by its headers, within `bound` unless that is 0. 0: it is none. */
size_t softgpu_machine_code_bytes(const void *data, size_t bound);

/*
 * The PTX of a cubin, which the caller frees. Only once the library is open. Else the driver's error for such a file,
 * with a line in the log.
 */
CUresult softgpu_machine_code_text(const void *cubin, size_t bytes, char **text, size_t *length);

#endif

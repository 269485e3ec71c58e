/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler of the software GPU: the builds of this library and of LLVM, and the processor. */
#ifndef VCUDA_BACKEND_CPU_PTX_COMPILER_H
#define VCUDA_BACKEND_CPU_PTX_COMPILER_H

#include <stdbool.h>
#include <stdint.h>

#define PTX_COMPILER_ID_BYTES 32
/* The keys of a compiler's entries in the cache begin with so many bytes of its id. */
#define PTX_COMPILER_MARK_BYTES 4

struct ptx_compiler {
	uint8_t id[PTX_COMPILER_ID_BYTES]; /* SHA-256 */
	char text[160];                    /* for messages */
	bool is_known;                     /* false: a build has no id, and no machine code is kept */
};

/* Found at the first call; lives as long as the process. Thread-safe. */
const struct ptx_compiler *ptx_compiler(void);

#endif

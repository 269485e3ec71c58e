/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_BACKEND_CPU_PTX_SHARED_H
#define VCUDA_BACKEND_CPU_PTX_SHARED_H

#include "ptx-ir.h"

/* Gives each kernel of a parsed module its shared variables, and info.static_shared their sum. False: no memory. */
bool ptx_shared_place(struct ptx_module *module);

/* Where a variable lies in the shared memory of this kernel's blocks. */
uint64_t ptx_shared_offset(const struct ptx_kernel *kernel, const struct ptx_symbol *symbol);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of kernels: hashes of all that a kernel's machine code depends on in its module. Kernels of two modules with
 * the same content have the same machine code, so that a program that was built anew finds its unchanged kernels in the
 * cache.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_CONTENT_H
#define VCUDA_BACKEND_CPU_PTX_CONTENT_H

#include "front/ptx-ir.h"

/*
 * Sets the content of each kernel of a module all of whose bodies and shared variables are known; `texts` are the
 * module's. False: there is no memory.
 */
bool ptx_content_find(struct ptx_module *module, const struct ptx_text *texts);

#endif

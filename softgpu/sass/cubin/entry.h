/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a kernel in PTX, and a kernel that is refused when it is compiled. */
#ifndef VCUDA_SASS_ENTRY_H
#define VCUDA_SASS_ENTRY_H

#include "sass/cubin/cubin.h"
#include "sass/cubin/text.h"

/*
 * Adds `.visible .entry NAME(...)` and the bounds of its blocks. Parameter number N is `param_N`, an array of bytes
 * that is at the same offset as in the machine code. The body, in braces, is to follow.
 */
void sass_entry_add_head(struct sass_text *text, const struct sass_function *function);

/*
 * Adds a whole kernel. A launch of it fails, and the log names what is not supported: `name`, such as "HGMMA at 0x120".
 */
void sass_entry_add_refused(struct sass_text *text, const struct sass_function *function, const char *name);

#endif

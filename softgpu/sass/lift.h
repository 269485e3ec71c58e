/* SPDX-License-Identifier: Apache-2.0 */
/* From the machine code of one kernel to PTX. */
#ifndef VCUDA_SASS_LIFT_H
#define VCUDA_SASS_LIFT_H

#include <stdbool.h>
#include <stddef.h>

#include "sass/cubin.h"
#include "sass/text.h"

/*
 * Adds a kernel with all that it calls to `out`. False: it cannot be expressed, and `error`, of `room` bytes, names what
 * is not supported, such as "HGMMA at 0x120". `out` may have a part of the kernel then.
 */
bool sass_lift(const struct sass_cubin *cubin, const struct sass_function *function, struct sass_text *out, char *error,
	       size_t room);

#endif

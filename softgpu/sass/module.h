/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX text of a cubin, or of a part of it. */
#ifndef VCUDA_SASS_MODULE_H
#define VCUDA_SASS_MODULE_H

#include "sass/cubin/cubin.h"

/*
 * The text of what `kernel` says (sass.h), which ends with a NUL and is freed by the caller. It has all variables, in
 * the order of the cubin, so that constants that are placed one behind the other have the offsets of constant bank 3.
 * 0; -ENOTSUP: there is no text for it; -ENOSYS: `kernel` cannot be expressed in PTX; -ENOMEM. `error`, of `room`
 * bytes, says why. In a text of all kernels, the launch of one that cannot be expressed fails.
 */
int sass_module_text(const struct sass_cubin *cubin, const char *kernel, char **text, size_t *length, char *error,
		     size_t room);

#endif

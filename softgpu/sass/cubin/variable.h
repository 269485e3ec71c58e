/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a cubin in PTX. */
#ifndef VCUDA_SASS_VARIABLE_H
#define VCUDA_SASS_VARIABLE_H

#include "sass/cubin/cubin.h"
#include "sass/cubin/text.h"

/*
 * Adds all variables, with their values or without, and declarations of those that other modules have. False: `error`
 * says why.
 */
bool sass_variables_add(struct sass_text *text, const struct sass_cubin *cubin, bool values, char *error, size_t room);

#endif

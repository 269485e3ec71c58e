/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of a cubin's functions, from the sections whose names begin with .nv.info. */
#ifndef VCUDA_SASS_CUBIN_INFO_H
#define VCUDA_SASS_CUBIN_INFO_H

#include "sass/cubin/cubin-file.h"
#include "sass/cubin/cubin.h"

/* The attributes of one function. False: they are malformed, and the file's error says so. */
bool sass_info_function(struct sass_file *file, const struct sass_section *info, struct sass_function *function);

/*
 * The attributes of all functions, each of which names a symbol. `by_section` has the function of each section's code,
 * or NULL. Called after sass_info_function().
 */
bool sass_info_module(struct sass_file *file, const struct sass_section *info, struct sass_function *const *by_section);

/* The attributes that say which devices run the code. */
bool sass_info_compat(struct sass_file *file, const struct sass_section *info);

/* Computes the stack from all attributes of a function. */
void sass_info_finish(struct sass_function *f, unsigned int architectureunction);

#endif

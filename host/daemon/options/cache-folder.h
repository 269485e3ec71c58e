/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of compiled code: a VM has its own, so that no other VM reads, evicts or times it. */
#ifndef VCUDA_CACHE_FOLDER_H
#define VCUDA_CACHE_FOLDER_H

#include <stdbool.h>

#include "options/options.h"

#define DAEMON_CACHE_VARIABLES 2
#define DAEMON_CACHE_NAME_BYTES 65

/* Whether a folder may have that name: letters, digits, and . _ - behind the first. */
bool daemon_cache_is_name(const char *name);

/* The name of a VM's folder: that of "--cache", or by its socket. Not for "--cache shared". */
void daemon_cache_name(const struct daemon_options *options, char name[DAEMON_CACHE_NAME_BYTES]);

/*
 * Makes the folder, with folders in it that belong to `options->user` if it is set, and sets `variables` to
 * "VCUDA_CACHE=..." and, unless the environment has CUDA_CACHE_PATH, "CUDA_CACHE_PATH=..."; the others are NULL. None
 * where workers share the user's folder: without a VM, with
 * "--cache shared", without a home. The strings stay valid. Not thread-safe.
 */
void daemon_cache_variables(const struct daemon_options *options, const char *variables[DAEMON_CACHE_VARIABLES]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables of a worker. */
#ifndef VCUDA_WORKER_ENVIRONMENT_H
#define VCUDA_WORKER_ENVIRONMENT_H

#include "options/options.h"

/*
 * The variables for a worker. Makes the folders of the worker's cache. The caller frees the array with free(); the
 * strings are valid until the next call and are not the caller's. NULL: out of memory.
 */
char **daemon_worker_environment(const struct daemon_options *options);

#endif

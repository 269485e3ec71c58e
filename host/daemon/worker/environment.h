/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_WORKER_ENVIRONMENT_H
#define VCUDA_WORKER_ENVIRONMENT_H

#include "options/options.h"

/*
 * The variables that concern a worker, with the folders of its cache, which it makes. For free(); the strings are not
 * the caller's, and are valid until the next call. NULL: out of memory.
 */
char **daemon_worker_environment(const struct daemon_options *options);

#endif

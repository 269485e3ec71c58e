/* SPDX-License-Identifier: Apache-2.0 */
/* vcudad's part of its workers' sandbox (host/sandbox), before the first worker starts. */
#ifndef VCUDA_DAEMON_SANDBOX_H
#define VCUDA_DAEMON_SANDBOX_H

#include "options/options.h"

/*
 * Says what the kernel lacks, chooses whether workers have mappers, makes NVIDIA's device nodes, and takes this process
 * out of the host's namespaces as far as it may. The process has one thread. -EOPNOTSUPP, logged: --sandbox=strict, and
 * something is missing.
 */
int daemon_sandbox_prepare(struct daemon_options *options);

#endif

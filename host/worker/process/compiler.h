/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler of the software GPU, in processes of its own: what a kernel's compilation may take has a limit, and a
 * crash there ends that compilation alone. It is no boundary against a compiler that is taken over, whose code the
 * worker runs.
 */
#ifndef VCUDA_WORKER_COMPILER_H
#define VCUDA_WORKER_COMPILER_H

#include "protocol/compiler.h"

struct worker_mappings;

/*
 * Starts the spawner (compile-spawner.h) as a copy of this process, which has loaded what `compile` needs and may start
 * processes. Memory of the guest does not stay in the copy. 0 or -errno.
 */
int worker_compiler_start(vcuda_compile compile, const struct worker_mappings *mappings);

extern const struct vcuda_compiler worker_compiler;

#endif

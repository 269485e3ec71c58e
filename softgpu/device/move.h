/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that work may be using goes on in a file. */
#ifndef VCUDA_CPU_MOVE_H
#define VCUDA_CPU_MOVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whole pages of device memory become those of `fd` from `offset` on, with what is in them; their addresses stay. Kernels and copies may run: who writes there meanwhile waits, and no store is lost. With the lock held, as all
 * the while. False: nothing has changed.
 */
bool softgpu_move_to_file(uint64_t address, uint64_t bytes, int fd, uint64_t offset);

#endif

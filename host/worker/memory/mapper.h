/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's side of the mapper (protocol/ipc/mapper.h), which maps the VM's RAM on the worker's behalf. One thread
 * at a time calls the functions.
 */
#ifndef VCUDA_WORKER_MAPPER_H
#define VCUDA_WORKER_MAPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/mapping.h"

/*
 * Makes the mapper, while the process has one thread and its first descriptors, and after the sandbox's first stage:
 * from outside of it the mapper could not be told that the worker has ended. 0 or -errno.
 */
int worker_mapper_start(void);
bool worker_mapper_is_there(void);

/*
 * Maps the extents one after another, from address on. The mapper does it, or the worker where there is no mapper. 0 or
 * -errno; then some of them may be mapped.
 */
int worker_mapper_map(uint64_t address, const struct worker_mapping_extent *extents, unsigned int count, bool writable);

/* The worker becomes a local one: vcudad has the mapper end. */
void worker_mapper_end(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of the host's memory that all workers of this vcudad have together (--max-host-memory): of a control group
 * in which all workers are, and vcudad is not. When the group has reached its limit the kernel kills a worker.
 *
 *   version 2: memory.max of vcudad's group in worker-group.h. A group lends the memory controller to the groups in it
 *              only if it has no processes of its own: vcudad moves to a group of its own then.
 *   version 1: memory.limit_in_bytes of a group that workers enter before exec.
 *
 * The kernel charges shared memory, which a VM's RAM is, to the group that touches a page first. So the group's limit
 * is the quota and the RAM of the VM. The limit counts swapped memory too, where the kernel can count it.
 */
#ifndef VCUDA_MEMORY_GROUP_H
#define VCUDA_MEMORY_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

#define DAEMON_HOST_MEMORY_NO_LIMIT ((uint64_t)INT64_MAX)

/*
 * After daemon_worker_groups_open(). Without a limit, version 1 has no group, and daemon_memory_group_set() fails
 * later. 0 or -errno, having said what to do.
 */
int daemon_memory_group_open(struct daemon_loop *loop, uint64_t limit);

/* After daemon_worker_groups_close(). */
void daemon_memory_group_close(void);

/* In a worker before its exec. 0 or -errno. */
int daemon_memory_group_enter(void);

/* 0; -EOPNOTSUPP: no limit can be set now; -EBUSY: the workers have more than that. */
int daemon_memory_group_set(uint64_t limit);

/*
 * The VM has so many bytes of RAM now. A lower limit that follows from that holds as soon as the workers have no more
 * than it.
 */
void daemon_memory_group_guest(uint64_t bytes);

/* Returns the memory that the kernel charges to the workers, in bytes; UINT64_MAX: it is not known. */
uint64_t daemon_memory_group_used(void);

/* Returns the bytes that the workers can still have; UINT64_MAX: there is no limit. */
uint64_t daemon_memory_group_left(void);

/*
 * Whether the kernel has killed one more process at the limit. To be asked once for each worker that was killed by
 * SIGKILL.
 */
bool daemon_memory_group_has_killed(void);

/*
 * Keeps the host's memory for `bytes` that a worker is about to write. False: the limit of the group, or the memory
 * that the host has, has no room for them and all that is reserved.
 */
bool daemon_memory_reserve(uint64_t bytes);
void daemon_memory_unreserve(uint64_t bytes);

#endif

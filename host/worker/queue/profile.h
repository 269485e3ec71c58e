/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of what the dispatcher does, for a guest that asks (protocol/profile-rows.h). Thread-safe. */
#ifndef VCUDA_WORKER_PROFILE_H
#define VCUDA_WORKER_PROFILE_H

#include <stdint.h>

/* A command of kind `op`, less than VCUDA_OP_LIMIT, took so long; or 0 and the bytes in the ring. */
void worker_profile_add(unsigned int op, uint64_t value);

#endif

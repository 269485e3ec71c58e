/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of NVIDIA's driver that save and restore another process (cuCheckpointProcess*). Not thread-safe. */
#ifndef VCUDA_CHECKPOINT_DRIVER_H
#define VCUDA_CHECKPOINT_DRIVER_H

#include <stdbool.h>
#include <sys/types.h>

/* False: there is no driver that does it, and the log says why. */
bool driver_open(void);

/*
 * The process, whose work has ended, has no device memory afterwards, or has it again. Each works from the state that
 * an interrupted call has left. False: the driver refuses it, as the log says, and the process is as it was.
 */
bool driver_release(pid_t process);
bool driver_restore(pid_t process);

/* As driver_restore(), with two devices in each other's place. */
bool driver_move(pid_t process, unsigned int from, unsigned int to);

#endif

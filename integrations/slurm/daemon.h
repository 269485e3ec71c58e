/* SPDX-License-Identifier: Apache-2.0 */
/* The vcudad of a job. */
#ifndef VCUDA_SLURM_DAEMON_H
#define VCUDA_SLURM_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

#include "settings.h"
#include "state.h"

/* A vcudad whose log is not empty leaves it here. */
#define DAEMON_LOG_FOLDER "/var/log/vcuda"

/*
 * Starts the vcudad of the job, with the device and quotas of `state`, and waits until the job's user can connect, or
 * until `deadline`. Returns 0, or -1 with a line in Slurm's log; what was started is there still.
 */
int daemon_start(const struct settings *settings, const char *node, uint32_t job, uid_t uid, const struct state *state,
		 int64_t deadline);

/*
 * Ends the vcudad, if `state` has one, and its workers. Returns 0, or -1, with a line, where it does not end within
 * half a minute.
 */
int daemon_end(uint32_t job, const struct state *state);

/* Removes the socket, and a log without a line. */
void daemon_remove_files(const char *node, uint32_t job);

#endif

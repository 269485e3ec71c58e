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
 * Starts the vcudad of the job, with the device and quotas of `state`, and waits until the job's user can connect.
 * Returns 0, or -1 with a line in Slurm's log; daemon_stop() clears up then, too.
 */
int daemon_start(const struct settings *settings, const char *node, uint32_t job, uid_t uid, const struct state *state);

/* Ends the vcudad and its workers, and removes its socket. Returns 0, or -1 where it does not end, with a line. */
int daemon_stop(const char *node, uint32_t job, const struct state *state);

#endif

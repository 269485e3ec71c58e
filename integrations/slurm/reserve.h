/* SPDX-License-Identifier: Apache-2.0 */
/* Which job has which slices of a node. */
#ifndef VCUDA_SLURM_RESERVE_H
#define VCUDA_SLURM_RESERVE_H

#include <stdint.h>

#include "settings.h"
#include "state.h"

/* A prolog or an epilog. */
struct job {
	const char *node;
	uint32_t number;
	int64_t ask_until;  /* no question to slurmctld begins later */
	int64_t wait_until; /* the end of a wait for the lock, and for a vcudad that starts */
};

/*
 * Gives the job `wanted` slices of one of the node's `devices`, and writes its file, with the slices or with a refusal,
 * which is in `state` then. Where there is no room, files of jobs that have ended give way. Returns 0, or -1 with a
 * line in Slurm's log: nothing was given. No question and no end of a vcudad is waited for under the node's lock.
 */
int reserve_slices(const struct job *job, const struct settings *settings, unsigned int devices, unsigned int wanted,
		   struct state *state);

/*
 * Ends the vcudad of the job `number`, if it has one, and removes its files. Returns 0, also where there is nothing or
 * where another prolog of that job has written the file since; or -1 with a line in Slurm's log.
 */
int reserve_end(const struct job *job, uint32_t number);

#endif

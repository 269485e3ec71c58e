/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slices of the jobs of a node: a file /run/vcuda/slurm/NODE/ID.job for each job. Root writes it, all may read it.
 *
 * A file is written as a whole. A job has its slices as long as the file is there. A file that cannot be read is an
 * error, since its job may have slices and a vcudad: it is neither skipped nor removed.
 */
#ifndef VCUDA_SLURM_STATE_H
#define VCUDA_SLURM_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STATE_FOLDER "/run/vcuda/slurm"
#define STATE_PATH 320 /* bytes of the longest path below */

struct state {
	unsigned int device, slices;
	unsigned int device_slices; /* as plugstack.conf said when the job began: slices of a device, and */
	uint64_t slice_memory;      /* bytes of a slice */
	uint64_t reserved;          /* when the job got the slices, in ns of CLOCK_BOOTTIME */
	pid_t pid;                  /* of vcudad; 0: it has not begun */
	unsigned long long started; /* when it began, as /proc/PID/stat says */
	char refusal[200];          /* not empty: why the job has no device. The rest is 0 then */
};

/* Writes the path STATE_FOLDER/NODE/ID + `suffix`. */
void state_path(char path[STATE_PATH], const char *node, uint32_t job, const char *suffix);

/* Returns 1, or 0 where the job has no file, or -1, with a line in Slurm's log, where the file cannot be read. */
int state_read(const char *node, uint32_t job, struct state *state);

/* 0 or -errno. */
int state_write(const char *node, uint32_t job, const struct state *state);
void state_remove(const char *node, uint32_t job);

/* Makes the node's folder. 0 or -errno. */
int state_prepare(const char *node);

/* Waits for the node's lock until `deadline`. Returns a descriptor whose close() gives the lock back, or -errno. */
int state_lock(const char *node, int64_t deadline);

/* Calls `call` for each job with a file, until it returns -1. Returns 0, or -1: the calls were not for all. */
int state_each(const char *node, int (*call)(uint32_t job, const struct state *state, void *argument), void *argument);

/* When the process began, in ticks since the machine's start, or 0 where there is no such process. */
unsigned long long state_process_start(pid_t pid);

#endif

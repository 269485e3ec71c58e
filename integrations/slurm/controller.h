/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to slurmctld about jobs and nodes. The answers are the controller's own: no job can change them, as it can
 * its environment.
 */
#ifndef VCUDA_SLURM_CONTROLLER_H
#define VCUDA_SLURM_CONTROLLER_H

#include <stdint.h>

/*
 * The slices that the job has on the node, 0 for a job without any or one that has ended; -1, with a line in Slurm's
 * log, if the controller does not say. Asks again until `deadline`; one question takes up to two times Slurm's
 * MessageTimeout.
 */
int controller_job_slices(uint32_t job, const char *node, int64_t deadline);

/* The slices that the node has in all, or -1, as above. */
int controller_node_slices(const char *node, int64_t deadline);

/* 1: the job has ended, or does not have the node any more; -1: the controller does not answer. Asks once. */
int controller_job_is_gone(uint32_t job, const char *node);

#endif

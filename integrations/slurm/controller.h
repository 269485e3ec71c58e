/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to slurmctld about jobs and nodes. The answers are the controller's own: no job can change them, as it can
 * its environment.
 */
#ifndef VCUDA_SLURM_CONTROLLER_H
#define VCUDA_SLURM_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The slices that the job has on the node, 0 for a job without any or one that has ended; -1, with a line in Slurm's
 * log, if the controller does not say. Waits almost a minute for a controller that does not answer.
 */
int controller_job_slices(uint32_t job, const char *node);

/* The slices that the node has in all, or -1, as above. */
int controller_node_slices(const char *node);

/* The job has ended, or does not have the node any more. False also where the controller does not answer. */
bool controller_job_is_gone(uint32_t job, const char *node);

#endif

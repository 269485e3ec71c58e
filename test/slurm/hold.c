/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds back slurmctld's answers about a job: while /run/hold/JOB is there. A question that waits has the file
 * /run/hold/JOB.asked. The linker puts the function in front of Slurm's, in a plug-in of the tests.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <slurm/slurm.h>

extern __typeof__(slurm_load_job) __real_slurm_load_job, __wrap_slurm_load_job;

int __wrap_slurm_load_job(job_info_msg_t **message, uint32_t job, uint16_t flags)
{
	char hold[64], asked[sizeof(hold) + 8];
	int status = __real_slurm_load_job(message, job, flags), error = errno;

	snprintf(hold, sizeof(hold), "/run/hold/%" PRIu32, job);
	snprintf(asked, sizeof(asked), "%s.asked", hold);
	while (!access(hold, F_OK)) {
		close(open(asked, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		usleep(10000);
	}
	errno = error;
	return status;
}

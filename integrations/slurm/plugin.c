/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in of Slurm that gives a job with --gres=vcuda:N a part of one device: N slices of its memory and time.
 *
 * On a node, before the job and as root, the plug-in asks slurmctld for N, chooses a device and starts a vcudad for the
 * job, which holds the quotas. In the job's processes, as their user, it only says where the vcudad's socket is. After
 * the job, as root again, it ends the vcudad. doc/howto/slurm.md says how Slurm is set up.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller.h"
#include "daemon.h"
#include "deadline.h"
#include "reserve.h"
#include "settings.h"
#include "state.h"

/* Slurm finds these by name; all else is ours alone. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>

SPANK_PLUGIN(vcuda, 1)
#pragma GCC visibility pop

/*
 * A prolog asks slurmctld until ASK_MS, and a question may go on for two times Slurm's MessageTimeout, 10 s. From
 * START_MS on it only ends what it has started, within 30 s. doc/howto/slurm.md names the sum, two minutes.
 */
#define ASK_MS 50000
#define START_MS 90000

#define LIBRARIES_BYTES 32768 /* of the longest LD_LIBRARY_PATH of a job */

/* slurmd sets the variable for the programs that it starts. The environment of a job is another one. */
static bool find_job(spank_t spank, struct job *job)
{
	job->ask_until = deadline_after(ASK_MS);
	job->wait_until = deadline_after(START_MS);
	job->node = getenv("SLURMD_NODENAME");
	return job->node && *job->node && !strchr(job->node, '/') &&
	       spank_get_item(spank, S_JOB_ID, &job->number) == ESPANK_SUCCESS;
}

/* ---- before the job, as root ---- */

/* Devices that are all of the node's slices; 0, with a line in Slurm's log: these are no whole number of devices. */
static unsigned int count_devices(const struct job *job, unsigned int slices)
{
	int all = controller_node_slices(job->node, job->ask_until);

	if (all > 0 && (unsigned int)all % slices == 0)
		return (unsigned int)all / slices;
	if (all >= 0)
		slurm_error("vcuda: node %s has %d slices, which is no multiple of slices=%u (plugstack.conf)",
			    job->node, all, slices);
	return 0;
}

/* An error drains the node. A job that only finds no room is no error: its processes end with a line. */
int slurm_spank_job_prolog(spank_t spank, int argc, char **argv)
{
	struct settings settings;
	struct job job;
	struct state state;
	unsigned int devices;
	int wanted, status;
	uid_t uid;

	if (settings_read(&settings, argc, argv))
		return -1;
	if (!find_job(spank, &job) || spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS) {
		slurm_error("vcuda: slurmd does not say which job this is, or on which node");
		return -1;
	}
	/* A prolog that was killed leaves its file, and the job may come again. */
	if (reserve_end(&job, job.number))
		return -1;
	wanted = controller_job_slices(job.number, job.node, job.ask_until);
	if (wanted <= 0)
		return wanted;
	devices = count_devices(&job, settings.slices);
	if (!devices)
		return -1;
	status = state_prepare(job.node);
	if (status) {
		slurm_error("vcuda: the folder " STATE_FOLDER "/%s cannot be made: %s", job.node, strerror(-status));
		return -1;
	}
	if (reserve_slices(&job, &settings, devices, (unsigned int)wanted, &state))
		return -1;
	if (*state.refusal || !daemon_start(&settings, job.node, job.number, uid, &state, job.wait_until))
		return 0;
	reserve_end(&job, job.number);
	return -1;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char **argv)
{
	struct job job;

	return find_job(spank, &job) ? reserve_end(&job, job.number) : -1;
}

/* ---- in the job's processes, as their user ---- */

/* A connection would have vcudad start a worker, and /proc may be hidden from users. */
static bool has_daemon(const struct state *state)
{
	return state->pid > 0 && (!kill(state->pid, 0) || errno == EPERM);
}

/* The first of a step's processes on the node speaks for all. Its line goes to the job's standard error. */
static int refuse(spank_t spank, const char *text)
{
	int task;

	if (spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && !task)
		slurm_spank_log("vcuda: %s", text);
	return -1;
}

/* LD_LIBRARY_PATH, an empty text where there is none. Returns 0, or -1: there is no room for it. */
static int read_libraries(spank_t spank, char *value, size_t size)
{
	spank_err_t error = spank_getenv(spank, "LD_LIBRARY_PATH", value, (int)size);

	if (error == ESPANK_NOSPACE)
		return -1;
	if (error != ESPANK_SUCCESS)
		*value = '\0';
	return 0;
}

/* The path behind its first entry, if that is `folder`, or NULL. */
static const char *behind(const char *path, const char *folder)
{
	const size_t length = strlen(folder);

	if (strncmp(path, folder, length) || (path[length] && path[length] != ':'))
		return NULL;
	return path[length] ? path + length + 1 : path + length;
}

/* Variables of another job, whose environment this job was submitted with. */
static void forget_other_job(spank_t spank, const char *folder)
{
	char value[STATE_PATH], libraries[LIBRARIES_BYTES];
	const char *others;

	if (spank_getenv(spank, "VCUDA_SOCKET", value, sizeof(value)) != ESPANK_SUCCESS ||
	    strncmp(value, STATE_FOLDER "/", sizeof(STATE_FOLDER)))
		return;
	spank_unsetenv(spank, "VCUDA_SOCKET");
	spank_unsetenv(spank, "VCUDA_TRANSPORT");
	others = read_libraries(spank, libraries, sizeof(libraries)) ? NULL : behind(libraries, folder);
	if (others && *others)
		spank_setenv(spank, "LD_LIBRARY_PATH", others, 1);
	else if (others)
		spank_unsetenv(spank, "LD_LIBRARY_PATH");
}

static int add_libraries(spank_t spank, const char *folder)
{
	char before[LIBRARIES_BYTES], value[sizeof(before) + 4096];

	if (read_libraries(spank, before, sizeof(before)))
		return -1;
	if (behind(before, folder))
		return 0;
	snprintf(value, sizeof(value), "%s%s%s", folder, *before ? ":" : "", before);
	return spank_setenv(spank, "LD_LIBRARY_PATH", value, 1) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	struct settings settings;
	struct job job;
	struct state state;
	char socket[STATE_PATH];
	int found;

	if (settings_read(&settings, argc, argv) || !find_job(spank, &job))
		return -1;
	found = state_read(job.node, job.number, &state);
	if (!found) {
		forget_other_job(spank, settings.libraries);
		return 0;
	}
	if (found < 0)
		return refuse(spank, "the job's file in " STATE_FOLDER " cannot be read");
	if (*state.refusal)
		return refuse(spank, state.refusal);
	if (!has_daemon(&state))
		return refuse(spank, "the vcudad of this job has ended (" DAEMON_LOG_FOLDER " of the node says why)");
	state_path(socket, job.node, job.number, "/socket");
	if (add_libraries(spank, settings.libraries))
		return refuse(spank, "LD_LIBRARY_PATH of the job is longer than 32 KiB");
	if (spank_setenv(spank, "VCUDA_SOCKET", socket, 1) || spank_setenv(spank, "VCUDA_TRANSPORT", "local", 1))
		return refuse(spank, "the job's environment has no room for our variables");
	return 0;
}

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
#include "settings.h"
#include "state.h"

/* Slurm finds these by name; all else is ours alone. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>

SPANK_PLUGIN(vcuda, 1)
#pragma GCC visibility pop

struct place {
	const char *node;
	uint32_t job;
};

/* slurmd sets the variable for the programs that it starts. The environment of a job is another one. */
static bool find_place(spank_t spank, struct place *place)
{
	place->node = getenv("SLURMD_NODENAME");
	return place->node && *place->node && !strchr(place->node, '/') &&
	       spank_get_item(spank, S_JOB_ID, &place->job) == ESPANK_SUCCESS;
}

/* ---- before the job, as root ---- */

struct device {
	unsigned int used; /* slices */
	uint32_t other;    /* a job whose slices have another size than plugstack.conf says now; 0: there is none */
};

struct use {
	const struct place *place;
	const struct settings *settings;
	struct device *devices;
	unsigned int count;
};

static void add(uint32_t job, const struct state *state, void *argument)
{
	struct use *use = argument;
	struct device *device;

	if (job == use->place->job || !state->slices || state->device >= use->count)
		return;
	device = &use->devices[state->device];
	device->used += state->slices;
	if (state->device_slices != use->settings->slices || state->slice_memory != use->settings->slice_memory)
		device->other = job;
}

/* A node that lost its power or its slurmd may have files of jobs that have ended since. */
static void end_if_gone(uint32_t job, const struct state *state, void *argument)
{
	struct use *use = argument;

	if (job != use->place->job && state->slices && controller_job_is_gone(job, use->place->node)) {
		slurm_info("vcuda: job %u has ended without its epilog: its slices are free", job);
		if (!daemon_stop(use->place->node, job, state))
			state_remove(use->place->node, job);
	}
}

static unsigned int free_slices(const struct use *use, unsigned int device)
{
	const struct device *d = &use->devices[device];

	return !d->other && d->used < use->settings->slices ? use->settings->slices - d->used : 0;
}

/*
 * The device with the fewest free slices that are enough, so that large jobs find room; use->count: there is none.
 * Returns 0, or -1 where the use of the devices is not known.
 */
static int choose(struct use *use, unsigned int wanted, unsigned int *device)
{
	unsigned int least = use->settings->slices + 1;

	*device = use->count;
	memset(use->devices, 0, use->count * sizeof(*use->devices));
	if (state_each(use->place->node, add, use))
		return -1;
	for (unsigned int i = 0; i < use->count; i++) {
		if (free_slices(use, i) < wanted || free_slices(use, i) >= least)
			continue;
		least = free_slices(use, i);
		*device = i;
	}
	return 0;
}

static void describe_use(const struct use *use, unsigned int wanted, char *text, size_t size)
{
	size_t length;

	if (wanted > use->settings->slices) {
		snprintf(text, size, "%u slices are more than a device has: at most --gres=vcuda:%u", wanted,
			 use->settings->slices);
		return;
	}
	snprintf(text, size, "no device of node %s has %u free slices; free are", use->place->node, wanted);
	for (unsigned int i = 0; i < use->count; i++) {
		length = strlen(text);
		snprintf(text + length, size - length, "%s %u", i ? "," : "", free_slices(use, i));
		length = strlen(text);
		if (use->devices[i].other)
			snprintf(text + length, size - length, " (job %u has slices of another size)",
				 use->devices[i].other);
	}
}

/* Writes the job's file: its slices, or why it has none. */
static int reserve(struct use *use, unsigned int wanted, struct state *state)
{
	const struct settings *settings = use->settings;
	unsigned int device;
	int status;

	if (choose(use, wanted, &device))
		return -1;
	if (device == use->count && wanted <= settings->slices &&
	    (state_each(use->place->node, end_if_gone, use) || choose(use, wanted, &device)))
		return -1;
	*state = (struct state){0};
	if (device < use->count) {
		state->device = device;
		state->slices = wanted;
		state->device_slices = settings->slices;
		state->slice_memory = settings->slice_memory;
	} else {
		describe_use(use, wanted, state->refusal, sizeof(state->refusal));
		slurm_info("vcuda: job %u is refused: %s", use->place->job, state->refusal);
	}
	status = state_write(use->place->node, use->place->job, state);
	if (status)
		slurm_error("vcuda: job %u: its file in " STATE_FOLDER " cannot be written: %s", use->place->job,
			    strerror(-status));
	return status;
}

static int reserve_locked(const struct place *place, const struct settings *settings, unsigned int devices,
			  unsigned int wanted, struct state *state)
{
	struct use use = {.place = place, .settings = settings, .count = devices};
	int lock = state_lock(place->node), status = -1;

	if (lock < 0) {
		slurm_error("vcuda: job %u: cannot take the lock in " STATE_FOLDER ": %s", place->job, strerror(-lock));
		return -1;
	}
	use.devices = calloc(devices, sizeof(*use.devices));
	if (use.devices)
		status = reserve(&use, wanted, state);
	free(use.devices);
	close(lock);
	return status;
}

/* Ends all that the job has on the node. */
static int release(const struct place *place)
{
	struct state state;
	int found = state_read(place->node, place->job, &state);

	if (found <= 0)
		return found;
	if (!*state.refusal && daemon_stop(place->node, place->job, &state))
		return -1;
	state_remove(place->node, place->job);
	return 0;
}

/* Devices that are all of the node's slices; 0, with a line in Slurm's log: these are no whole number of devices. */
static unsigned int count_devices(const struct place *place, unsigned int slices)
{
	int all = controller_node_slices(place->node);

	if (all > 0 && (unsigned int)all % slices == 0)
		return (unsigned int)all / slices;
	if (all >= 0)
		slurm_error("vcuda: node %s has %d slices, which is no multiple of slices=%u (plugstack.conf)",
			    place->node, all, slices);
	return 0;
}

/* An error drains the node. A job that only finds no room is no error: its processes end with a line. */
int slurm_spank_job_prolog(spank_t spank, int argc, char **argv)
{
	struct settings settings;
	struct place place;
	struct state state;
	unsigned int devices;
	int wanted, status;
	uid_t uid;

	if (settings_read(&settings, argc, argv))
		return -1;
	if (!find_place(spank, &place) || spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS) {
		slurm_error("vcuda: slurmd does not say which job this is, or on which node");
		return -1;
	}
	/* A prolog that was killed leaves its file, and the job may come again. */
	if (release(&place))
		return -1;
	wanted = controller_job_slices(place.job, place.node);
	if (wanted <= 0)
		return wanted;
	devices = count_devices(&place, settings.slices);
	if (!devices)
		return -1;
	status = state_prepare(place.node);
	if (status) {
		slurm_error("vcuda: the folder " STATE_FOLDER "/%s cannot be made: %s", place.node, strerror(-status));
		return -1;
	}
	if (reserve_locked(&place, &settings, devices, (unsigned int)wanted, &state))
		return -1;
	if (*state.refusal)
		return 0;
	if (!daemon_start(&settings, place.node, place.job, uid, &state))
		return 0;
	release(&place);
	return -1;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char **argv)
{
	struct place place;

	return find_place(spank, &place) ? release(&place) : -1;
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

/* Variables of another job, whose environment this job was submitted with. */
static void forget_other_job(spank_t spank)
{
	char value[STATE_PATH];

	if (spank_getenv(spank, "VCUDA_SOCKET", value, sizeof(value)) == ESPANK_SUCCESS &&
	    !strncmp(value, STATE_FOLDER "/", sizeof(STATE_FOLDER))) {
		spank_unsetenv(spank, "VCUDA_SOCKET");
		spank_unsetenv(spank, "VCUDA_TRANSPORT");
	}
}

static int add_libraries(spank_t spank, const char *folder)
{
	char before[32768], value[sizeof(before) + 4096];
	const size_t length = strlen(folder);

	if (spank_getenv(spank, "LD_LIBRARY_PATH", before, sizeof(before)) != ESPANK_SUCCESS || !*before)
		return spank_setenv(spank, "LD_LIBRARY_PATH", folder, 1);
	if (!strncmp(before, folder, length) && (!before[length] || before[length] == ':'))
		return ESPANK_SUCCESS;
	snprintf(value, sizeof(value), "%s:%s", folder, before);
	return spank_setenv(spank, "LD_LIBRARY_PATH", value, 1);
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	struct settings settings;
	struct place place;
	struct state state;
	char socket[STATE_PATH];
	int found;

	if (settings_read(&settings, argc, argv) || !find_place(spank, &place))
		return -1;
	found = state_read(place.node, place.job, &state);
	if (!found) {
		forget_other_job(spank);
		return 0;
	}
	if (found < 0)
		return refuse(spank, "the job's file in " STATE_FOLDER " cannot be read");
	if (*state.refusal)
		return refuse(spank, state.refusal);
	if (!has_daemon(&state))
		return refuse(spank, "the vcudad of this job has ended (" DAEMON_LOG_FOLDER " of the node says why)");
	state_path(socket, place.node, place.job, "/socket");
	if (spank_setenv(spank, "VCUDA_SOCKET", socket, 1) || spank_setenv(spank, "VCUDA_TRANSPORT", "local", 1) ||
	    add_libraries(spank, settings.libraries))
		return refuse(spank, "the job's environment has no room for our variables");
	return 0;
}

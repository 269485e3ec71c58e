/* SPDX-License-Identifier: Apache-2.0 */
#include "reserve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "controller.h"
#include "daemon.h"
#include "deadline.h"

struct device {
	unsigned int used; /* slices */
	uint32_t other;    /* a job whose slices have another size than plugstack.conf says now; 0: there is none */
};

/* A job other than our own, with slices. */
struct holder {
	uint32_t job;
	struct state state;
};

struct use {
	const struct job *job;
	const struct settings *settings;
	struct device *devices;
	unsigned int device_count;
	struct holder *holders;
	size_t holder_count;
};

static int lock_node(const struct job *job)
{
	int lock = state_lock(job->node, job->wait_until);

	if (lock < 0)
		slurm_error("vcuda: job %u: cannot take the lock in " STATE_FOLDER "/%s: %s", job->number, job->node,
			    strerror(-lock));
	return lock;
}

static int add_holder(uint32_t number, const struct state *state, void *argument)
{
	struct use *use = argument;
	struct holder *holders;
	struct device *device;

	if (number == use->job->number || !state->slices)
		return 0;
	holders = realloc(use->holders, (use->holder_count + 1) * sizeof(*holders));
	if (!holders)
		return -1;
	use->holders = holders;
	holders[use->holder_count++] = (struct holder){.job = number, .state = *state};
	if (state->device >= use->device_count)
		return 0;
	device = &use->devices[state->device];
	device->used += state->slices;
	if (state->device_slices != use->settings->slices || state->slice_memory != use->settings->slice_memory)
		device->other = number;
	return 0;
}

static unsigned int free_slices(const struct use *use, unsigned int device)
{
	const struct device *d = &use->devices[device];

	return !d->other && d->used < use->settings->slices ? use->settings->slices - d->used : 0;
}

/*
 * The device with the fewest free slices that are enough, so that large jobs find room; device_count: there is none.
 * Returns 0, or -1 where the use of the devices is not known.
 */
static int choose(struct use *use, unsigned int wanted, unsigned int *device)
{
	unsigned int least = use->settings->slices + 1;

	*device = use->device_count;
	memset(use->devices, 0, use->device_count * sizeof(*use->devices));
	use->holder_count = 0;
	if (state_each(use->job->node, add_holder, use))
		return -1;
	for (unsigned int i = 0; i < use->device_count; i++) {
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
	snprintf(text, size, "no device of node %s has %u free slices; free are", use->job->node, wanted);
	for (unsigned int i = 0; i < use->device_count; i++) {
		length = strlen(text);
		snprintf(text + length, size - length, "%s %u", i ? "," : "", free_slices(use, i));
		length = strlen(text);
		if (use->devices[i].other)
			snprintf(text + length, size - length, " (job %u has slices of another size)",
				 use->devices[i].other);
	}
}

/* Tells a reservation of a job from one of the same job before. */
static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Writes the job's file. Returns 1, or 0 where there is no room and `may_refuse` is false, or -1. */
static int reserve(struct use *use, unsigned int wanted, bool may_refuse, struct state *state)
{
	unsigned int device;
	int status;

	if (choose(use, wanted, &device))
		return -1;
	*state = (struct state){0};
	if (device < use->device_count) {
		state->device = device;
		state->slices = wanted;
		state->device_slices = use->settings->slices;
		state->slice_memory = use->settings->slice_memory;
		state->reserved = now();
	} else if (may_refuse) {
		describe_use(use, wanted, state->refusal, sizeof(state->refusal));
		slurm_info("vcuda: job %u is refused: %s", use->job->number, state->refusal);
	} else {
		return 0;
	}
	status = state_write(use->job->node, use->job->number, state);
	if (!status)
		return 1;
	slurm_error("vcuda: job %u: its file in " STATE_FOLDER " cannot be written: %s", use->job->number,
		    strerror(-status));
	return -1;
}

static int reserve_locked(struct use *use, unsigned int wanted, bool may_refuse, struct state *state)
{
	int lock = lock_node(use->job), status;

	if (lock < 0)
		return -1;
	status = reserve(use, wanted, may_refuse, state);
	close(lock);
	return status;
}

/* `state` is what the job's file said. */
static int end_job(const struct job *job, uint32_t number, struct state state)
{
	struct state read;
	int lock, found;

	for (;;) {
		if (daemon_end(number, &state))
			return -1;
		lock = lock_node(job);
		if (lock < 0)
			return -1;
		found = state_read(job->node, number, &read);
		if (found <= 0 || read.reserved != state.reserved || read.pid == state.pid)
			break;
		/* The same prolog has started its vcudad since. */
		close(lock);
		state = read;
	}
	if (found > 0 && read.reserved == state.reserved) {
		daemon_remove_files(job->node, number);
		state_remove(job->node, number);
	}
	close(lock);
	return found < 0 ? -1 : 0;
}

/* A node that lost its power or its slurmd may have files of jobs that have ended since. */
static void end_gone(const struct use *use)
{
	const struct job *job = use->job;
	int gone = 0;

	for (size_t i = 0; i < use->holder_count && gone >= 0 && deadline_left(job->ask_until); i++) {
		const struct holder *holder = &use->holders[i];

		gone = controller_job_is_gone(holder->job, job->node);
		if (gone > 0 && !end_job(job, holder->job, holder->state))
			slurm_info("vcuda: job %u has ended without its epilog: its slices are free", holder->job);
	}
}

int reserve_slices(const struct job *job, const struct settings *settings, unsigned int devices, unsigned int wanted,
		   struct state *state)
{
	struct use use = {.job = job, .settings = settings, .device_count = devices};
	int status = -1;

	use.devices = calloc(devices, sizeof(*use.devices));
	if (use.devices)
		status = reserve_locked(&use, wanted, wanted > settings->slices, state);
	if (!status) {
		end_gone(&use);
		status = reserve_locked(&use, wanted, true, state);
	}
	free(use.holders);
	free(use.devices);
	return status > 0 ? 0 : -1;
}

int reserve_end(const struct job *job, uint32_t number)
{
	struct state state;
	int found = state_read(job->node, number, &state);

	return found > 0 ? end_job(job, number, state) : found;
}

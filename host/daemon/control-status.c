/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "control.h"
#include "keeper/keeper.h"
#include "limits/ledger.h"
#include "limits/turns.h"
#include "options/quotas.h"
#include "ring/ring.h"
#include "worker/gates.h"
#include "worker/memory-group.h"
#include "worker/overcommit.h"

static void note_most(struct daemon_worker *worker, void *argument)
{
	uint64_t *most = argument, bytes = daemon_ledger_row_most_granted(&worker->ledger);

	if (bytes > *most)
		*most = bytes;
}

/* The largest use of a GPU's memory by one guest process. */
static uint64_t most_of_a_process(const struct daemon_control *control)
{
	struct daemon_context *context, *after;
	uint64_t most = 0;

	vcuda_list_for_each_safe (context, after, &control->vhost->device.contexts, struct daemon_context, entry)
		if (context->worker)
			note_most(context->worker, &most);
	daemon_local_each(control->local, note_most, &most);
	return most;
}

/* The used part of a quota; UINT64_MAX: vcudad does not know. */
static uint64_t used(const struct daemon_control *control, enum daemon_quota quota)
{
	switch (quota) {
	case DAEMON_QUOTA_CONTEXTS:
		return control->vhost->device.count + control->local->count;
	case DAEMON_QUOTA_PINNED:
		return control->vhost->device.quota.pinned;
	case DAEMON_QUOTA_HOST_MEMORY:
		return daemon_memory_group_used();
	case DAEMON_QUOTA_DEVICE_MEMORY:
		return daemon_ledger_most_granted();
	case DAEMON_QUOTA_PROCESS_DEVICE_MEMORY:
		return most_of_a_process(control);
	default:
		return UINT64_MAX;
	}
}

static void write_quota(const struct daemon_control *control, enum daemon_quota quota, FILE *answer)
{
	const struct daemon_quota_kind *kind = daemon_quota_kind(quota);
	uint64_t in_use = used(control, quota);

	fprintf(answer, "quota name=%s unit=%s", kind->name, kind->is_size ? "bytes" : "count");
	if (in_use != UINT64_MAX)
		fprintf(answer, " used=%llu", (unsigned long long)in_use);
	fprintf(answer, " limit=%llu refused=%llu\n", (unsigned long long)daemon_quota_get(control->options, quota),
		(unsigned long long)daemon_quota_refusals(quota));
}

static void write_worker(const struct daemon_worker *worker, FILE *answer)
{
	const struct daemon_worker_log *log = &worker->log;

	if (worker->gate.failure)
		fprintf(answer, " pause-failure=%s", worker->gate.failure);
	fprintf(answer, " worker=%d age=%llu device-memory=%llu log-dropped=%llu", (int)worker->pid,
		(unsigned long long)(daemon_now() - worker->guest.since) / 1000,
		(unsigned long long)daemon_ledger_row_granted(&worker->ledger),
		(unsigned long long)(log->reported + log->lines.dropped));
}

static const char *state_of_worker(const struct daemon_worker *worker)
{
	const struct daemon_gate *gate = &worker->gate;

	if (worker->ending)
		return "ending";
	/* For another VM, and neither by the operator nor by the guest. */
	if (daemon_gate_needed(gate) == DAEMON_GATE_OPEN && gate->wanted != DAEMON_GATE_OPEN)
		return gate->level == gate->wanted ? "out" : "going-out";
	if (gate->asked == DAEMON_GATE_OPEN && gate->held != DAEMON_GATE_OPEN && gate->level == gate->wanted)
		return worker->detach.flags & VCUDA_PROCESS_DETACHED ? "detached"
		       : gate->level == DAEMON_GATE_RELEASED         ? "checkpointed"
								     : "locked";
	if (gate->level == DAEMON_GATE_RELEASED)
		return gate->wanted == DAEMON_GATE_RELEASED ? "released" : "restoring";
	if (gate->wanted == DAEMON_GATE_RELEASED)
		return gate->level == DAEMON_GATE_OPEN ? "pausing" : "releasing";
	if (gate->wanted == DAEMON_GATE_CLOSED)
		return gate->level == DAEMON_GATE_OPEN ? "pausing" : "paused";
	return "running";
}

static const char *state_of(const struct daemon_context *context)
{
	if (!context->worker)
		return "lost";
	if (context->forgotten)
		return "ending";
	return context->ready || context->worker->gate.wanted != DAEMON_GATE_OPEN ? state_of_worker(context->worker)
										  : "starting";
}

/*
 * Bytes of commands that the guest process has written and its worker has not taken. The guest may write anything
 * there: for display.
 */
static uint64_t count_queued(const struct daemon_context *context)
{
	struct daemon_memory *memory = &context->device->memory;
	uint64_t tail, head;

	if (!context->worker || context->forgotten ||
	    !daemon_memory_read(memory, &tail, context->shared + offsetof(struct vcuda_shm, tail), sizeof(tail)) ||
	    !daemon_memory_read(memory, &head, context->shared + offsetof(struct vcuda_shm, head), sizeof(head)))
		return 0;
	return tail - head <= VCUDA_RING_BYTES ? tail - head : 0;
}

static void write_context(const struct daemon_context *context, FILE *answer)
{
	uint64_t pinned = 0;
	uint32_t i;

	for (i = 0; i < context->mappings.count; i++)
		pinned += context->mappings.mappings[i].length;
	fprintf(answer, "process kind=vm pid=%u uid=%u state=%s mappings=%u pinned=%llu queue=%llu", context->pid,
		context->uid, state_of(context), context->mappings.count, (unsigned long long)pinned,
		(unsigned long long)count_queued(context));
	if (context->worker)
		write_worker(context->worker, answer);
	fputc('\n', answer);
}

static void write_local(struct daemon_worker *worker, void *answer)
{
	fprintf(answer, "process kind=local pid=%u uid=%u state=%s", worker->guest.pid, worker->guest.uid,
		state_of_worker(worker));
	write_worker(worker, answer);
	fputc('\n', answer);
}

static void write_exports(const struct daemon_keeper_exports *exports, void *answer)
{
	fprintf(answer, "exports kind=%s", exports->guest == DAEMON_KEEPER_VM ? "vm" : "local");
	if (exports->guest != DAEMON_KEEPER_VM)
		fprintf(answer, " uid=%llu", (unsigned long long)exports->guest);
	fprintf(answer, " gpu=%u count=%llu memory=%llu\n", exports->gpu, (unsigned long long)exports->count,
		(unsigned long long)exports->bytes);
}

/* The value ends with the line. */
static void write_path(const char *key, const char *path, FILE *answer)
{
	if (!path)
		return;
	fprintf(answer, "%s ", key);
	for (; *path; path++)
		fputc((unsigned char)*path < 0x20 ? '?' : *path, answer);
	fputc('\n', answer);
}

static void write_overcommit(const struct daemon_options *options, FILE *answer)
{
	struct daemon_overcommit_state state;

	daemon_overcommit_state(&state);
	fprintf(answer,
		"overcommit %llu\nmin-device-memory %llu\nmemory-state %s\nmemory-granted %llu\nmemory-wait %llu\n"
		"memory-times-out %llu\n",
		(unsigned long long)(state.capacity ? state.capacity : options->overcommit),
		(unsigned long long)options->min_device_memory, state.place, (unsigned long long)state.granted,
		(unsigned long long)state.wait, (unsigned long long)state.times);
}

static void write_share(const struct daemon_options *options, FILE *answer)
{
	struct daemon_turns_time time = daemon_turns_time();

	fprintf(answer, "share %u\nturns %s\nturns-wanted %llu\nturns-had %llu\n", options->share, daemon_turns_state(),
		(unsigned long long)time.wanted_ns / 1000, (unsigned long long)time.had_ns / 1000);
}

void daemon_control_status(struct daemon_control *control, FILE *answer)
{
	const struct daemon_options *options = control->options;
	struct daemon_device *device = &control->vhost->device;
	struct daemon_context *context, *after;
	enum daemon_quota quota;

	fprintf(answer, "ok\nname %s\npid %d\nversion " VCUDA_VERSION "\nuptime %llu\n", options->name, (int)getpid(),
		(unsigned long long)(daemon_now() - control->started) / 1000);
	write_path("vhost-socket", options->vhost_socket, answer);
	write_path("local-socket", options->socket, answer);
	if (options->vhost_socket)
		fprintf(answer, "vm %s\n", control->vhost->fd >= 0 ? "connected" : "absent");
	if (options->socket)
		fprintf(answer, "waiting %u\n", control->local->waiting_count);
	if (options->share)
		write_share(options, answer);
	if (options->overcommit)
		write_overcommit(options, answer);
	for (quota = 0; quota < DAEMON_QUOTAS; quota++)
		write_quota(control, quota, answer);
	vcuda_list_for_each_safe (context, after, &device->contexts, struct daemon_context, entry)
		write_context(context, answer);
	daemon_memory_trim(&device->memory);
	daemon_local_each(control->local, write_local, answer);
	daemon_keepers_each_export(write_exports, answer);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "worker/gates.h"
#include "worker/worker.h"

/* The states of a process have the numbers of the levels. */
_Static_assert((int)DAEMON_GATE_OPEN == (int)VCUDA_PROCESS_RUNNING, "");
_Static_assert((int)DAEMON_GATE_CLOSED == (int)VCUDA_PROCESS_LOCKED, "");
_Static_assert((int)DAEMON_GATE_RELEASED == (int)VCUDA_PROCESS_CHECKPOINTED, "");

static const struct {
	enum daemon_gate_level from, to;
} steps[VCUDA_PROCESS_ACTIONS] = {
	[VCUDA_PROCESS_LOCK] = {DAEMON_GATE_OPEN, DAEMON_GATE_CLOSED},
	[VCUDA_PROCESS_CHECKPOINT] = {DAEMON_GATE_CLOSED, DAEMON_GATE_RELEASED},
	[VCUDA_PROCESS_RESTORE] = {DAEMON_GATE_RELEASED, DAEMON_GATE_CLOSED},
	[VCUDA_PROCESS_UNLOCK] = {DAEMON_GATE_CLOSED, DAEMON_GATE_OPEN},
};

/* Both gates belong to one guest process. A VM's process may have the number of a local program. */
static bool is_of_process(const struct daemon_gate *gate, const struct daemon_gate *other)
{
	const struct daemon_worker *one = container_of(gate, struct daemon_worker, gate),
				   *two = container_of(other, struct daemon_worker, gate);

	if (gate == other)
		return true;
	return *gate->guest_pid == *other->guest_pid && one->ops == two->ops &&
	       !daemon_detach_is_ownerless(&one->detach) && !daemon_detach_is_ownerless(&two->detach);
}

uint32_t daemon_gate_errno(const char *failure)
{
	static const struct {
		const char *word;
		int error;
	} errors[] = {
		{"memory", ENOMEM}, {"host-memory", ENOMEM}, {"quota", ENOMEM},      {"file", ENOSPC},
		{"driver", EIO},    {"checkpoint", EIO},     {"shared", EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (!strcmp(errors[i].word, failure))
			return (uint32_t)errors[i].error;
	/* A command, the device or the worker does not come to its end. */
	return ETIMEDOUT;
}

struct daemon_gate_state daemon_gate_state(const struct daemon_gate *gate)
{
	struct daemon_gate_state sum = {0};
	struct daemon_gate *other, *after;
	bool holds = false;

	vcuda_list_for_each_safe (other, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!is_of_process(other, gate))
			continue;
		if (other->holds && !holds)
			sum.state = other->held_before;
		else if (!holds && other->held > sum.state)
			sum.state = other->held;
		holds |= other->holds;
		sum.failure = other->held_failure ? other->held_failure : sum.failure;
	}
	sum.state |= holds ? VCUDA_PROCESS_STEP : 0;
	return sum;
}

static void begin(struct daemon_gate *gate, enum daemon_gate_level held)
{
	gate->held_before = gate->held;
	gate->held = held;
	gate->holds = true;
	gate->held_group = daemon_gates.groups;
	/* The memory of a VM that is out stays released. */
	if (!daemon_gates.out)
		gate->wanted = daemon_gate_needed(gate);
}

int daemon_gate_act(struct daemon_gate *gate, enum vcuda_process_action action, uint32_t ms)
{
	enum daemon_gate_level from = steps[action].from, to = steps[action].to;
	struct daemon_gate *other, *after;

	if (daemon_gate_state(gate).state != from)
		return -EBADFD;
	daemon_gates.groups++;
	vcuda_list_for_each_safe (other, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!is_of_process(other, gate))
			continue;
		other->held_failure = 0;
		/* A pause that is under way has said how long it waits. */
		if (action == VCUDA_PROCESS_LOCK && other->wanted <= other->level)
			other->ms = ms;
		if (to > from ? other->held < to : other->held > to)
			begin(other, to);
	}
	/* The first step of a gate may fail at once, and with it the steps of all. */
	vcuda_list_for_each_safe (other, after, &daemon_gates.all, struct daemon_gate, entry)
		if (is_of_process(other, gate))
			daemon_gate_step(other);
	daemon_gate_tell_change();
	return 0;
}

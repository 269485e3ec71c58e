/* SPDX-License-Identifier: Apache-2.0 */
/* Failed steps of gates: gates that are to fail together go back together. */
#include "common/log.h"
#include "worker/gates.h"

static void give_pause_up(struct daemon_gate *gate)
{
	gate->group = 0;
	gate->asked = gate->before < gate->level ? gate->before : gate->level;
	gate->gives_up = true;
}

/* The gates of a pause or an eviction. */
static void end_pause(struct daemon_gate *failed, bool evicts)
{
	struct daemon_gate *gate, *after;
	uint32_t group = failed->group;

	if (evicts) {
		daemon_gates.out = false;
		daemon_gates.stayed = true;
	}
	if (evicts || (group && group == daemon_gates.group))
		daemon_gates.level = daemon_gates.before;
	give_pause_up(failed);
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (group && gate->group == group)
			give_pause_up(gate);
}

/* The gates of the guest's step. */
static void end_hold(const struct daemon_gate *failed, const char *failure)
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (gate->held_group != failed->held_group)
			continue;
		gate->held = gate->held_before < gate->level ? gate->held_before : gate->level;
		gate->held_failure = daemon_gate_errno(failure);
		gate->holds = false;
		gate->gives_up = true;
	}
}

/* None of their levels rises, so that none of them fails at once. While the VM is out they stay out. */
static void step_back(const struct daemon_gate *failed)
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!gate->gives_up)
			continue;
		gate->gives_up = false;
		if (gate == failed || !daemon_gates.out)
			daemon_gate_set_wanted(gate, daemon_gate_needed(gate));
	}
}

/* A pause that wants more than the gate's level fails, and so does a step of the guest's. */
void daemon_gate_fail(struct daemon_gate *failed, const char *failure)
{
	bool evicts = failed->group && failed->group == daemon_gates.out_group, holds = failed->held > failed->level;
	bool pauses = evicts || !holds || failed->asked > failed->level;

	if (pauses)
		failed->failure = failure;
	if (evicts)
		vcuda_log_peer("guest process %u cannot leave its memory to other VMs (%s): its VM keeps the memory",
			       *failed->guest_pid, failure);
	else
		vcuda_log_peer("guest process %u cannot be paused (%s): this process, and what was to be paused with "
			       "it, go on",
			       *failed->guest_pid, failure);
	if (pauses)
		end_pause(failed, evicts);
	if (holds || failed->holds)
		end_hold(failed, failure);
	step_back(failed);
}

/* The memory is where it was. */
void daemon_gate_fail_restore(struct daemon_gate *gate, const char *failure)
{
	gate->failure = failure;
	gate->wanted = DAEMON_GATE_RELEASED;
	if (gate->holds && gate->held < gate->held_before) {
		gate->held = gate->held_before;
		gate->held_failure = daemon_gate_errno(failure);
		gate->holds = false;
	} else {
		if (gate->holds)
			end_hold(gate, failure);
		if (!daemon_gates.changed)
			gate->asked = DAEMON_GATE_RELEASED;
		gate->gives_up = false;
		step_back(gate);
	}
	vcuda_log_peer("guest process %u cannot have its device memory back (%s): it stays paused, and %s",
		       *gate->guest_pid, failure,
		       daemon_gates.changed ? "vcudad tries again" : "`vcuda resume` tries again");
}

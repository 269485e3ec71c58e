/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/gates.h"

void daemon_gate_watch(void (*changed)(void))
{
	daemon_gates.changed = changed;
}

/* A pause that is under way, or comes meanwhile, fails with the eviction: the level before that pause counts. */
static void keep_levels(void)
{
	struct daemon_gate *gate, *after;

	if (!daemon_gate_pauses(daemon_gates.group))
		daemon_gates.before = daemon_gates.level;
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (!daemon_gate_pauses(gate->group))
			gate->before = gate->asked;
}

void daemon_gate_evict(uint32_t ms)
{
	struct daemon_gate *gate, *after;

	keep_levels();
	daemon_gates.out_group = ++daemon_gates.groups;
	daemon_gates.out = true;
	daemon_gates.stayed = daemon_gates.resumed = false;
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		gate->group = daemon_gates.out_group;
		gate->ms = ms;
		gate->wanted = DAEMON_GATE_RELEASED;
	}
	/* The first step of a gate may fail at once, and with it the steps of all. */
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		daemon_gate_step(gate);
	daemon_gate_tell_change();
}

/* The gate has a step to make, or is making a step back that cannot be cancelled. */
static bool is_moving(const struct daemon_gate *gate)
{
	return gate->level < gate->wanted || (gate->waits && gate->level == DAEMON_GATE_RELEASED);
}

bool daemon_gate_is_out(void)
{
	return daemon_gates.out && !daemon_gate_any(is_moving);
}

bool daemon_gate_has_stayed(void)
{
	return daemon_gates.stayed;
}

void daemon_gate_admit(void)
{
	struct daemon_gate *gate, *after;

	daemon_gates.out = daemon_gates.stayed = daemon_gates.resumed = false;
	daemon_gates.out_group = 0;
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		gate->group = 0;
		gate->failure = NULL;
		gate->before = DAEMON_GATE_OPEN;
		daemon_gate_set_wanted(gate, daemon_gate_needed(gate));
	}
	daemon_gate_tell_change();
}

void daemon_gate_retry(void)
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (daemon_gates.out || gate->wanted < DAEMON_GATE_RELEASED ||
		    daemon_gate_needed(gate) == DAEMON_GATE_RELEASED)
			continue;
		gate->failure = NULL;
		daemon_gate_set_wanted(gate, daemon_gate_needed(gate));
	}
	daemon_gate_tell_change();
}

static bool is_released(const struct daemon_gate *gate)
{
	return gate->level == DAEMON_GATE_RELEASED && daemon_gate_needed(gate) < DAEMON_GATE_RELEASED;
}

bool daemon_gate_is_in(void)
{
	return !daemon_gates.out && !daemon_gate_any(is_released);
}

static bool is_stuck(const struct daemon_gate *gate)
{
	return is_released(gate) && gate->wanted == DAEMON_GATE_RELEASED;
}

bool daemon_gate_is_stuck(void)
{
	return !daemon_gates.out && daemon_gate_any(is_stuck);
}

static bool is_in_use(const struct daemon_gate *gate)
{
	return gate->asked == DAEMON_GATE_OPEN || is_moving(gate) ||
	       (gate->level < DAEMON_GATE_RELEASED && daemon_gate_memory(gate));
}

bool daemon_gate_leave(void)
{
	if (daemon_gates.out || daemon_gates.level == DAEMON_GATE_OPEN || vcuda_list_empty(&daemon_gates.all) ||
	    daemon_gate_any(is_in_use))
		return false;
	daemon_gates.out = true;
	daemon_gates.stayed = false;
	daemon_gates.out_group = 0;
	return true;
}

bool daemon_gate_is_resumed(void)
{
	return daemon_gates.resumed;
}

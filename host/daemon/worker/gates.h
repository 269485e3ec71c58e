/* SPDX-License-Identifier: Apache-2.0 */
/* The gates of all workers, for gate.c and gate-eviction.c. All functions belong to the loop's thread. */
#ifndef VCUDA_DAEMON_GATES_H
#define VCUDA_DAEMON_GATES_H

#include "protocol/ipc/gate.h"
#include "worker/gate.h"

struct daemon_gates {
	struct vcuda_list all;
	enum daemon_gate_level level; /* of all of them, and of those to come */
	enum daemon_gate_level before;
	uint32_t groups, group, ms; /* group: of the pause of all */
	void (*changed)(void);      /* NULL: there is no overcommit */
	bool out, stayed, resumed;  /* of the VM: it must be out; it could not; it must come in */
	uint32_t out_group;         /* of the gates that go out */
};

extern struct daemon_gates daemon_gates;

bool daemon_gate_any(bool (*is)(const struct daemon_gate *gate));

/* Begins the next step to the wanted level, unless a step is under way. A step may fail at once and change others. */
void daemon_gate_step(struct daemon_gate *gate);
void daemon_gate_set_wanted(struct daemon_gate *gate, enum daemon_gate_level wanted);

void daemon_gate_tell_change(void);

/* A request is under way. */
bool daemon_gate_is_busy(const struct daemon_gate *gate);

/*
 * Sends VCUDA_GATE_DETACH or ATTACH with a descriptor, which stays the caller's, or -1, through a gate that is not
 * busy. ATTACH without a descriptor may also wait until the gate is not busy. A worker that does not answer is killed,
 * but not before its memory could have moved: a host that is short of memory is slow.
 */
void daemon_gate_tell(struct daemon_gate *gate, enum vcuda_gate_type type, int file);

/* A pause of these gates is under way: one of them has not reached its level. */
bool daemon_gate_pauses(uint32_t group);

/* The level that the operator and the guest ask for. */
enum daemon_gate_level daemon_gate_needed(const struct daemon_gate *gate);

/*
 * The gate's step to a higher level has failed, for which `failure` is the word: what wants more than the gate's level
 * fails, the pause or eviction and the guest's step each by itself, in all of its gates.
 */
void daemon_gate_fail(struct daemon_gate *failed, const char *failure);

/* The released memory has not come back, and is where it was. */
void daemon_gate_fail_restore(struct daemon_gate *gate, const char *failure);

/* The errno that the guest gets for the word of a failure. */
uint32_t daemon_gate_errno(const char *failure);

/* The device memory that the worker was granted, in bytes. */
uint64_t daemon_gate_memory(const struct daemon_gate *gate);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which VM may run work on the device, and for how long: weighted turns with deficits.
 *
 * While at most one VM has work, all may run. Otherwise one VM runs at a time, until no two have had work for
 * TURNS_LINGER quanta: bursts of work are no way around the turns. In each round a VM earns its part of the quantum,
 * and its turn is as long as its credit. The time from the begin of a turn until nothing of the VM runs any more, while
 * another VM waits, is taken off the credit, which carries over: a kernel that does not end with the turn is paid back.
 * A running kernel cannot be preempted. So the next turn begins when nothing of the last VM runs, or after TURNS_DRAIN
 * quanta: then both are on the device, and each is charged its part of the time. A running kernel may itself wait for
 * work that has not begun. So a VM that is overdue has a short turn every TURNS_AGAIN quanta.
 *
 * A VM that pauses in its turn goes on with it, unless another one has had a turn meanwhile. A VM that owes time does
 * not take the device in such a pause (TURNS_PAUSE); while nothing is on the device, time pays what is owed.
 *
 * Times are nanoseconds of one clock. No function blocks, none is thread-safe.
 */
#ifndef VCUDA_ARBITER_TURNS_H
#define VCUDA_ARBITER_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"

#define TURNS_QUANTUM_NS 40000000ull

/* The shortest turn. A VM with a smaller part of the quantum has its turn in every few rounds only. */
#define TURNS_LEAST_NS 2000000ull

/*
 * The time from the begin of a turn until the VM's work begins: messages, and processes that wake up. A turn is longer
 * by that, and the VM is not charged for that, since a small share would lose the larger part of its turns otherwise.
 * It takes 0.3 to 0.4 ms (doc/howto/operate.md).
 */
#define TURNS_START_NS 300000ull

/*
 * In quanta: how long the next VM waits for what runs, how far a credit can fall, how long turns go on without two VMs
 * that have work, and how often a VM that is overdue has a short turn. Kernels of half a second are
 * waited for: beside one, a GPU gives a program whose kernels are short little (doc/reference/driver-behaviour.md).
 */
#define TURNS_DRAIN 15
#define TURNS_DEBT 20
#define TURNS_LINGER 10
#define TURNS_AGAIN 10

/* A part of a quantum: after so long without work a VM does not pause any more, but has none. */
#define TURNS_PAUSE 8

/* A VM. The fields are those of turns.c, but for `owner`. */
struct turns_vm {
	struct vcuda_list entry; /* entry in the list of all VMs, in the order of turns */
	void *owner;
	uint32_t share;
	bool active;   /* has work */
	bool may_run;  /* was told so, and not to hold since */
	bool drains;   /* was told to hold, and something of it runs */
	bool overdue;  /* and is not waited for any more, until it has drained */
	bool rests;    /* had no work any more in its turn, and no VM has had one since */
	uint32_t turn; /* the number of the last HOLD */
	uint64_t held_since, turn_began;
	int64_t credit;
};

struct turns {
	struct vcuda_list vms;
	struct turns_vm *holder; /* the VM that has the turn; NULL: all may run, or one drains */
	bool exclusive;          /* turns are taken */
	uint64_t charged_until, turn_end, quantum;
	uint64_t several_at; /* the last time that several VMs had work */
	/*
	 * Tells a VM that it may run, or must hold: the latter is answered by turns_drained() with the same number.
	 * Whether turns are taken, as `exclusive` says, is also told to each VM when it changes.
	 */
	void (*tell)(struct turns_vm *vm, bool may_run, uint32_t turn);
};

void turns_init(struct turns *turns, uint64_t quantum, void (*tell)(struct turns_vm *vm, bool may_run, uint32_t turn));

/* The shares of all other VMs with work together, at most UINT32_MAX. */
uint32_t turns_share_of_others(const struct turns *turns, const struct turns_vm *vm);

/* The VM is told at once whether it may run. */
void turns_add(struct turns *turns, struct turns_vm *vm, uint32_t share, void *owner, uint64_t now);
void turns_remove(struct turns *turns, struct turns_vm *vm, uint64_t now);

void turns_set_active(struct turns *turns, struct turns_vm *vm, bool active, uint64_t now);
void turns_drained(struct turns *turns, struct turns_vm *vm, uint32_t turn, uint64_t now);

/* The number of VMs with work on the device that did not end with their turns. */
unsigned int turns_overdue(const struct turns *turns);

/* Acts on all that is due. Returns the latest time of the next call; UINT64_MAX: not before another call. */
uint64_t turns_step(struct turns *turns, uint64_t now);

#endif

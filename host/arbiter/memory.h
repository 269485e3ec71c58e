/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which VMs have their memory on the device, where all VMs together may have more memory than the device.
 *
 * A VM is in or out as a whole. A VM that is in has a grant. No grant is made by which the grants of all VMs that are
 * not out exceed the capacity, but for a VM that has the device alone. They may exceed it when VMs register or when a
 * smaller capacity counts: then VMs go out. A want is the number of bytes that a VM needs altogether: more than its
 * grant, or its memory back after it went out. Wants are served in their order. If a want does not fit, VMs go out for
 * it: idle VMs before others and the longest idle one first, then the one with the largest grant beyond its minimum,
 * then the one that came in first.
 *
 * A VM that has come in, or whose growth has waited for its place in the order, is not chosen during its lease, nor is
 * a VM for some time after it could not go out. The lease is MEMORY_LEASE times as long as ways out and in have taken,
 * within bounds: the VM's own ways after a return, the longest of all VMs after growth. Up to the upper bound moves
 * take at most a part of 1 / (1 + MEMORY_LEASE) of the device's time, but for growth that ends leases. The lease of an
 * idle VM ends early, and at once where its growth waits: the growth is all that its processes do.
 *
 * A command that waits for its VM to come in may be an allocation, which is known when the VM is in. Growth within
 * MEMORY_ARRIVAL_NS of a return, or of growth, so has the place of that want: a VM whose want came later comes in
 * later. Until then no return is served beside a VM that has waited, for the room may be needed. So a command waits for
 * one lease of each other VM, whatever it allocates (memory_longest_wait()).
 *
 * A VM that waits for memory can go out itself, because its processes wait in front of their gates. If two VMs grow at
 * once, the first want is served, and the other VM goes out for it with its want; that one comes in when the lease
 * ends. Growth that waits in vain, since no other VM can go out, is refused. A return waits for as long as the other
 * VMs cannot go out: a VM whose work does not end keeps its memory. No livelock: each VM that came in has its lease,
 * and in it no other VM can take its memory. Growth that fits is granted without regard to earlier wants, but for the
 * room that VMs on their way out leave to the first want.
 *
 * Times are nanoseconds of one clock. No function blocks, none is thread-safe.
 */
#ifndef VCUDA_ARBITER_MEMORY_H
#define VCUDA_ARBITER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"

#define MEMORY_LEASE 9
#define MEMORY_LEAST_LEASE_NS 2000000000ull
#define MEMORY_MOST_LEASE_NS 600000000000ull

/* The longest time of a way out or in that counts: this, and MEMORY_MOVE_NS for each byte. */
#define MEMORY_MOVE_LEAST_NS 10000000000ull
#define MEMORY_MOVE_NS 20ull

/* Without work for so long a VM has no lease any more. */
#define MEMORY_IDLE_NS 1000000000ull

/* Growth so soon after its VM has come in is that of the command for which the VM has come in. */
#define MEMORY_ARRIVAL_NS 200000000ull

/* A VM that could not go out is not chosen for so long. */
#define MEMORY_HELD_NS 30000000000ull

/* After the start nothing is decided for so long: all VMs must have reported their memory. */
#define MEMORY_SETTLE_NS 1000000000ull

enum memory_state { MEMORY_IN, MEMORY_GOING_OUT, MEMORY_OUT, MEMORY_COMING_IN };

enum memory_word {
	MEMORY_GRANT,  /* the VM has `bytes` now; if it is out, it comes in */
	MEMORY_REFUSE, /* the want of `bytes` */
	MEMORY_GO_OUT, /* answered by memory_went_out() or memory_failed() */
};

/* A VM. The fields are those of memory.c, but for `owner`. */
struct memory_vm {
	struct vcuda_list entry;
	void *owner;
	uint64_t capacity, minimum; /* as the VM says */
	uint64_t bytes;             /* the VM's grant; for a VM that is out: its bytes elsewhere */
	uint64_t want, spare;       /* 0: no want */
	uint64_t order;             /* of the wants */
	enum memory_state state;
	bool active;
	bool waits;  /* the want was not served when it came */
	bool waited; /* the want that was granted last did not fit at once */
	uint64_t idle_since, in_since, lease_until, held_until;
	uint64_t out_ns, in_ns; /* durations of its last moves out and in */
};

struct memory {
	struct vcuda_list vms;
	uint64_t begin, order;
	void (*tell)(struct memory_vm *vm, enum memory_word word, uint64_t bytes);
};

void memory_init(struct memory *memory, uint64_t now,
		 void (*tell)(struct memory_vm *vm, enum memory_word word, uint64_t bytes));

/*
 * `bytes`: what the VM has, on the device or, with `out`, elsewhere. The capacity of all is the smallest that one of
 * them says. False, and nothing has changed: the minimums of all VMs would exceed it.
 */
bool memory_add(struct memory *memory, struct memory_vm *vm, const struct memory_vm *said, bool out, uint64_t now);
void memory_remove(struct memory *memory, struct memory_vm *vm);

void memory_set_active(struct memory_vm *vm, bool active, uint64_t now);

/*
 * The VM needs `bytes`, and would take `spare` beyond them. Replaces an earlier want. Each has one answer. 0: the VM
 * wants nothing any more, which is answered at once by a refusal of 0.
 */
void memory_want(struct memory *memory, struct memory_vm *vm, uint64_t bytes, uint64_t spare, uint64_t now);

/* The VM needs no more than `bytes` of its grant. */
void memory_have(struct memory_vm *vm, uint64_t bytes);

/*
 * The VM has gone out or come in, which a VM may also do by itself. `took`: the time of the move in ns. `bytes`: its
 * memory elsewhere, whose return is never refused. Called again if these have become more.
 */
void memory_went_out(struct memory_vm *vm, uint64_t bytes, uint64_t took);
void memory_came_in(struct memory_vm *vm, uint64_t took, uint64_t now);

/* The VM cannot go out: it is in. */
void memory_failed(struct memory_vm *vm, uint64_t now);

/*
 * The connection to a VM that is not out is lost. The VM may still run: until memory_remove() its memory counts. It
 * gets no messages.
 */
void memory_lose(struct memory_vm *vm);

/* Acts on all that is due. Returns the latest time of the next call; UINT64_MAX: not before another call. */
uint64_t memory_step(struct memory *memory, uint64_t now);

/* The smallest capacity of all VMs; UINT64_MAX: there is no VM. */
uint64_t memory_capacity(const struct memory *memory);

/*
 * How long a VM that is out waits, if each other VM has its lease before, no way out or in takes longer than the
 * longest so far, and each VM can go out. A command waits for its own VM's ways besides. The wait is longer where a VM
 * whose growth waits has other work, which keeps its lease: by another lease for each such VM.
 */
uint64_t memory_longest_wait(const struct memory *memory);

#endif

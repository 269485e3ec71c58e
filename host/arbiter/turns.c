/* SPDX-License-Identifier: Apache-2.0 */
#include "turns.h"

#include <stddef.h>

static void set_may_run(struct turns *turns, struct turns_vm *vm, bool may_run, uint64_t now)
{
	if (vm->may_run == may_run)
		return;
	vm->may_run = may_run;
	vm->drains = !may_run;
	if (may_run) {
		vm->turn_began = now;
	} else {
		vm->held_since = now;
		vm->turn++;
	}
	turns->tell(vm, may_run, vm->turn);
}

static bool is_on_device(const struct turns_vm *vm)
{
	return vm->may_run || vm->drains;
}

static bool anyone_waits(const struct turns *turns)
{
	vcuda_list_for_each (entry, &turns->vms) {
		const struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		if (vm->active && !vm->may_run)
			return true;
	}
	return false;
}

/* Time in which nothing is on the device pays what the VMs owe that wait. */
static void pay(struct turns *turns, int64_t time)
{
	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		if (vm->active && vm->credit < 0)
			vm->credit = vm->credit + time < 0 ? vm->credit + time : 0;
	}
}

/* Divides the time since the last call among the VMs that had the device, where another VM waited for it. */
static void charge(struct turns *turns, uint64_t now)
{
	int64_t time = (int64_t)(now - turns->charged_until), lowest = -(int64_t)(TURNS_DEBT * turns->quantum);
	int64_t count = 0;

	turns->charged_until = now;
	if (!anyone_waits(turns))
		return;
	vcuda_list_for_each (entry, &turns->vms)
		count += is_on_device(container_of(entry, struct turns_vm, entry));
	if (!count) {
		pay(turns, time);
		return;
	}
	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		if (is_on_device(vm))
			vm->credit -= time / count;
		if (vm->credit < lowest)
			vm->credit = lowest;
	}
}

static unsigned int count_active(const struct turns *turns, uint64_t *shares)
{
	unsigned int count = 0;

	*shares = 0;
	vcuda_list_for_each (entry, &turns->vms) {
		const struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		count += vm->active;
		*shares += vm->active ? vm->share : 0;
	}
	return count;
}

uint32_t turns_share_of_others(const struct turns *turns, const struct turns_vm *vm)
{
	uint64_t shares;

	count_active(turns, &shares);
	shares -= vm->active ? vm->share : 0;
	return shares < UINT32_MAX ? (uint32_t)shares : UINT32_MAX;
}

static void open_all(struct turns *turns, uint64_t now)
{
	struct turns_vm *holder = turns->holder;

	turns->exclusive = false;
	turns->holder = NULL;
	/* The holder may run already: tell it that it runs without a turn from now on. */
	if (holder)
		turns->tell(holder, true, holder->turn);
	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		/* A debt stays. */
		if (vm->credit > 0)
			vm->credit = 0;
		vm->overdue = false;
		set_may_run(turns, vm, true, now);
	}
}

static void hold_all(struct turns *turns, uint64_t now)
{
	turns->exclusive = true;
	vcuda_list_for_each (entry, &turns->vms)
		set_may_run(turns, container_of(entry, struct turns_vm, entry), false, now);
}

static void end_turn(struct turns *turns, uint64_t now)
{
	turns->holder->rests = !turns->holder->active;
	set_may_run(turns, turns->holder, false, now);
	turns->holder = NULL;
}

/* When the next turn may begin although something of earlier ones runs; 0: nothing does that is waited for. */
static uint64_t wait_for_drain(struct turns *turns, uint64_t now)
{
	uint64_t until = 0;

	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);
		uint64_t end = vm->held_since + TURNS_DRAIN * turns->quantum;

		if (!vm->drains || vm->overdue)
			continue;
		vm->overdue = end <= now;
		if (!vm->overdue && end > until)
			until = end;
	}
	return until;
}

static void begin_turn(struct turns *turns, struct turns_vm *vm, uint64_t length, uint64_t now)
{
	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *other = container_of(entry, struct turns_vm, entry);

		if (other->rests && !other->active && other->credit > 0)
			other->credit = 0;
		other->rests = false;
	}
	turns->holder = vm;
	turns->turn_end = now + length;
	set_may_run(turns, vm, true, now);
}

static bool can_have_turn(const struct turns_vm *vm)
{
	return vm->active && !vm->drains;
}

/* The shares of the VMs that can have a turn in this round. */
static uint64_t count_able(const struct turns *turns)
{
	uint64_t shares = 0;

	vcuda_list_for_each (entry, &turns->vms) {
		const struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		shares += can_have_turn(vm) ? vm->share : 0;
	}
	return shares;
}

/*
 * A round is shorter without the turns of VMs that are overdue. These earn so much less: it is what the device gives
 * them beside the others that they are charged for.
 */
static void earn(const struct turns *turns, struct turns_vm *vm, uint64_t shares, uint64_t able)
{
	int64_t part = (int64_t)(turns->quantum * vm->share / shares);
	int64_t most = part > (int64_t)TURNS_LEAST_NS ? part : (int64_t)TURNS_LEAST_NS;

	if (vm->drains)
		part = part * (int64_t)able / (int64_t)shares;
	vm->credit += part ? part : 1;
	if (vm->credit > most)
		vm->credit = most;
}

/* True: the VM keeps the rest of its turn, since no other VM has had a turn meanwhile. */
static bool goes_on(const struct turns_vm *vm)
{
	return vm->rests && vm->credit >= (int64_t)TURNS_LEAST_NS;
}

/*
 * A turn for the only VM with work, which earns nothing by that. A VM that owes time waits a little: another one that
 * pauses for a moment would wait for what it begins. Returns when the turn can begin; 0: it has begun.
 */
static uint64_t choose_only(struct turns *turns, struct turns_vm *vm, uint64_t now)
{
	uint64_t owes = vm->credit < 0 ? (uint64_t)-vm->credit : 0;
	uint64_t most = turns->quantum / TURNS_PAUSE, from = turns->several_at + (owes < most ? owes : most);

	if (from > now)
		return from;
	begin_turn(turns, vm, vm->credit > (int64_t)TURNS_LEAST_NS ? (uint64_t)vm->credit : TURNS_LEAST_NS, now);
	return 0;
}

/*
 * Gives VM after VM its part of a quantum until one can have a turn. Each goes to the end of the order then, with a
 * turn or without one: in a round each earns one part. Returns when a turn can begin if none has; UINT64_MAX: not by
 * time alone.
 */
static uint64_t choose(struct turns *turns, unsigned int active, uint64_t shares, uint64_t now)
{
	struct turns_vm *any = NULL;
	uint64_t able = count_able(turns);

	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);

		if (can_have_turn(vm) && (!any || goes_on(vm)))
			any = vm;
	}
	if (any && active == 1)
		return choose_only(turns, any, now);
	if (any && goes_on(any))
		begin_turn(turns, any, (uint64_t)any->credit, now);
	while (any && !turns->holder) {
		struct turns_vm *vm = container_of(turns->vms.next, struct turns_vm, entry);

		vcuda_list_remove(&vm->entry);
		vcuda_list_add(&vm->entry, &turns->vms);
		if (!vm->active)
			continue;
		earn(turns, vm, shares, able);
		if (can_have_turn(vm) && vm->credit >= (int64_t)TURNS_LEAST_NS) {
			vm->credit += TURNS_START_NS;
			begin_turn(turns, vm, (uint64_t)vm->credit, now);
		}
	}
	return UINT64_MAX;
}

/* Gives a VM that is overdue its short turn. Returns when the next one of those is due; UINT64_MAX: there is none. */
static uint64_t choose_overdue(struct turns *turns, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	vcuda_list_for_each (entry, &turns->vms) {
		struct turns_vm *vm = container_of(entry, struct turns_vm, entry);
		uint64_t due = vm->turn_began + TURNS_AGAIN * turns->quantum;

		if (!vm->active || !vm->drains || !vm->overdue)
			continue;
		if (due <= now) {
			begin_turn(turns, vm, TURNS_LEAST_NS, now);
			return turns->turn_end;
		}
		next = due < next ? due : next;
	}
	return next;
}

/* The part of turns_step() for VMs that take turns. */
static uint64_t take_turns(struct turns *turns, unsigned int active, uint64_t shares, uint64_t now)
{
	bool others = active > (turns->holder && turns->holder->active);
	uint64_t until, from = UINT64_MAX;

	if (turns->holder && others && (!turns->holder->active || now >= turns->turn_end))
		end_turn(turns, now);
	if (turns->holder)
		return others ? turns->turn_end : UINT64_MAX;
	until = wait_for_drain(turns, now);
	if (until)
		return until;
	until = choose_overdue(turns, now);
	if (!turns->holder)
		from = choose(turns, active, shares, now);
	if (turns->holder)
		return turns->turn_end;
	return from < until ? from : until;
}

unsigned int turns_overdue(const struct turns *turns)
{
	unsigned int count = 0;

	vcuda_list_for_each (entry, &turns->vms)
		count += container_of(entry, struct turns_vm, entry)->overdue &&
			 container_of(entry, struct turns_vm, entry)->drains;
	return count;
}

uint64_t turns_step(struct turns *turns, uint64_t now)
{
	unsigned int active;
	uint64_t shares, until, open;

	charge(turns, now);
	active = count_active(turns, &shares);
	if (active > 1)
		turns->several_at = now;
	open = active > 1 ? UINT64_MAX : turns->several_at + TURNS_LINGER * turns->quantum;
	if (active <= 1 && (!turns->exclusive || open <= now)) {
		open_all(turns, now);
		return UINT64_MAX;
	}
	if (!turns->exclusive)
		hold_all(turns, now);
	until = take_turns(turns, active, shares, now);
	return until < open ? until : open;
}

void turns_init(struct turns *turns, uint64_t quantum, void (*tell)(struct turns_vm *vm, bool may_run, uint32_t turn))
{
	*turns = (struct turns){.quantum = quantum, .tell = tell};
	vcuda_list_init(&turns->vms);
}

void turns_add(struct turns *turns, struct turns_vm *vm, uint32_t share, void *owner, uint64_t now)
{
	charge(turns, now);
	*vm = (struct turns_vm){.share = share, .owner = owner, .may_run = !turns->exclusive};
	vcuda_list_add(&vm->entry, &turns->vms);
	turns->tell(vm, vm->may_run, vm->turn);
}

void turns_remove(struct turns *turns, struct turns_vm *vm, uint64_t now)
{
	charge(turns, now);
	if (turns->holder == vm)
		turns->holder = NULL;
	vcuda_list_remove(&vm->entry);
}

void turns_set_active(struct turns *turns, struct turns_vm *vm, bool active, uint64_t now)
{
	charge(turns, now);
	/* A VM without work earns nothing, and keeps what it owes. Its turn goes on if it has work again soon. */
	if (!active && vm->credit > 0 && vm != turns->holder && !vm->rests)
		vm->credit = 0;
	vm->active = active;
}

void turns_drained(struct turns *turns, struct turns_vm *vm, uint32_t turn, uint64_t now)
{
	charge(turns, now);
	if (turn == vm->turn && !vm->may_run)
		vm->drains = vm->overdue = false;
}

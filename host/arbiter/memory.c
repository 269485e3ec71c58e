/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stddef.h>

static struct memory_vm *vm_of(struct vcuda_list *entry)
{
	return container_of(entry, struct memory_vm, entry);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t memory_capacity(const struct memory *memory)
{
	uint64_t capacity = UINT64_MAX;

	vcuda_list_for_each (entry, &memory->vms)
		capacity = least(capacity, vm_of(entry)->capacity);
	return capacity;
}

static uint64_t sum_of_minimums(const struct memory *memory)
{
	uint64_t sum = 0;

	vcuda_list_for_each (entry, &memory->vms)
		sum += vm_of(entry)->minimum;
	return sum;
}

static uint64_t used(const struct memory *memory)
{
	uint64_t sum = 0;

	vcuda_list_for_each (entry, &memory->vms)
		sum += vm_of(entry)->state == MEMORY_OUT ? 0 : vm_of(entry)->bytes;
	return sum;
}

static uint64_t going_out(const struct memory *memory)
{
	uint64_t sum = 0;

	vcuda_list_for_each (entry, &memory->vms)
		sum += vm_of(entry)->state == MEMORY_GOING_OUT ? vm_of(entry)->bytes : 0;
	return sum;
}

static uint64_t lease_of(const struct memory_vm *vm)
{
	return least(MEMORY_MOST_LEASE_NS, most(MEMORY_LEAST_LEASE_NS, MEMORY_LEASE * (vm->out_ns + vm->in_ns)));
}

static uint64_t longest_lease(const struct memory *memory)
{
	uint64_t longest = 0;

	vcuda_list_for_each (entry, &memory->vms)
		longest = most(longest, lease_of(vm_of(entry)));
	return longest;
}

/* vcudad ends a worker that takes longer. */
static uint64_t move_ns(const struct memory_vm *vm, uint64_t took)
{
	return least(took, MEMORY_MOVE_LEAST_NS + least(vm->bytes, UINT64_MAX / 2 / MEMORY_MOVE_NS) * MEMORY_MOVE_NS);
}

static bool is_growth(const struct memory_vm *vm)
{
	return vm->want > vm->bytes;
}

/* A VM without work that waits for growth has no use for its lease. */
static uint64_t lease_end(const struct memory_vm *vm)
{
	uint64_t idle = is_growth(vm) ? 0 : MEMORY_IDLE_NS;

	return vm->active ? vm->lease_until : least(vm->lease_until, vm->idle_since + idle);
}

/* From when on a VM that is in may be told to go out. */
static uint64_t evictable_at(const struct memory_vm *vm)
{
	return most(lease_end(vm), vm->held_until);
}

/* ---- wants ---- */

/* Bytes that the want takes beyond what the VM, which is in or out, has on the device. */
static uint64_t need_of(const struct memory_vm *vm)
{
	return vm->state == MEMORY_OUT ? vm->want : minus(vm->want, vm->bytes);
}

static bool can_be_served(const struct memory_vm *vm)
{
	return vm->want && (vm->state == MEMORY_IN || vm->state == MEMORY_OUT);
}

/* The VM's part of the device, if all others have no more than their minimums. */
static uint64_t most_of(const struct memory *memory, const struct memory_vm *vm)
{
	return minus(memory_capacity(memory), sum_of_minimums(memory) - vm->minimum);
}

static void refuse(struct memory *memory, struct memory_vm *vm)
{
	uint64_t bytes = vm->want;

	vm->want = 0;
	vm->waits = false;
	memory->tell(vm, MEMORY_REFUSE, bytes);
}

static void grant(struct memory *memory, struct memory_vm *vm)
{
	uint64_t need = need_of(vm), left = minus(memory_capacity(memory), used(memory));
	uint64_t spare = least(vm->spare, least(minus(left, need), minus(most_of(memory, vm), vm->want)));

	vm->bytes = most(vm->want, vm->state == MEMORY_OUT ? 0 : vm->bytes) + (need ? spare : 0);
	vm->want = 0;
	vm->waited = vm->waits;
	vm->waits = false;
	if (vm->state == MEMORY_OUT)
		vm->state = MEMORY_COMING_IN;
	memory->tell(vm, MEMORY_GRANT, vm->bytes);
}

/* A VM whose memory fits on no device with that capacity has the device alone. */
static bool fits(const struct memory *memory, const struct memory_vm *vm)
{
	uint64_t in_use = used(memory), need = need_of(vm);

	return need <= minus(memory_capacity(memory), in_use) || !need || (!in_use && !is_growth(vm));
}

static struct memory_vm *first_want(const struct memory *memory)
{
	struct memory_vm *first = NULL;

	vcuda_list_for_each (entry, &memory->vms) {
		struct memory_vm *vm = vm_of(entry);

		if (can_be_served(vm) && (!first || vm->order < first->order))
			first = vm;
	}
	return first;
}

/*
 * Growth until this time is that of the command for which the VM has come in, or grown. 0: the VM is out, or has had no
 * want.
 */
static uint64_t arrived_at(const struct memory_vm *vm)
{
	if (!vm->order)
		return 0;
	if (vm->state == MEMORY_COMING_IN)
		return UINT64_MAX;
	return vm->state == MEMORY_IN ? vm->in_since + MEMORY_ARRIVAL_NS : 0;
}

/* A VM that has waited before it came in may need the room that a return would take. Returns when that is known. */
static uint64_t others_arrived_at(const struct memory *memory, const struct memory_vm *vm)
{
	uint64_t at = 0;

	if (vm->state != MEMORY_OUT)
		return 0;
	vcuda_list_for_each (entry, &memory->vms)
		if (vm_of(entry) != vm && vm_of(entry)->waited)
			at = most(at, arrived_at(vm_of(entry)));
	return at;
}

/* ---- who goes out ---- */

static bool holds_memory(const struct memory_vm *vm)
{
	return vm->bytes && vm->state != MEMORY_OUT && vm->state != MEMORY_GOING_OUT;
}

static bool is_better_victim(const struct memory_vm *vm, const struct memory_vm *than, uint64_t now)
{
	uint64_t idle = vm->active ? 0 : now - vm->idle_since, idle_than = than->active ? 0 : now - than->idle_since;
	uint64_t surplus = minus(vm->bytes, vm->minimum), surplus_than = minus(than->bytes, than->minimum);

	if (idle != idle_than)
		return idle > idle_than;
	return surplus != surplus_than ? surplus > surplus_than : vm->in_since < than->in_since;
}

/* The VMs that may go out for a want, now or later. */
struct victims {
	struct memory_vm *best; /* the best of the VMs that may go out now; NULL: none may */
	uint64_t now_bytes;     /* bytes of the VMs that may go out now */
	uint64_t later_bytes;   /* bytes of the VMs that may go out later, without those that have failed to */
	uint64_t next;          /* time at which one more VM may go out; UINT64_MAX: not known */
};

static struct victims find_victims(const struct memory *memory, const struct memory_vm *wants, uint64_t now)
{
	struct victims found = {.next = UINT64_MAX};

	vcuda_list_for_each (entry, &memory->vms) {
		struct memory_vm *vm = vm_of(entry);

		if (vm == wants || !holds_memory(vm))
			continue;
		if (vm->state == MEMORY_IN && evictable_at(vm) <= now) {
			found.now_bytes += vm->bytes;
			if (!found.best || is_better_victim(vm, found.best, now))
				found.best = vm;
			continue;
		}
		if (vm->held_until <= now)
			found.later_bytes += vm->bytes;
		if (vm->state == MEMORY_IN)
			found.next = least(found.next, evictable_at(vm));
	}
	return found;
}

static void send_out(struct memory *memory, struct memory_vm *vm)
{
	vm->state = MEMORY_GOING_OUT;
	memory->tell(vm, MEMORY_GO_OUT, 0);
}

/* Has VMs go out until the want fits; none, as long as it would not fit then. Returns when to look again. */
static uint64_t make_room(struct memory *memory, struct memory_vm *vm, uint64_t now)
{
	uint64_t capacity = memory_capacity(memory), lacks, coming;

	for (;;) {
		struct victims found = find_victims(memory, vm, now);
		uint64_t in_use = used(memory);

		coming = minus(capacity, in_use - going_out(memory));
		lacks = minus(least(need_of(vm), is_growth(vm) ? UINT64_MAX : capacity), coming);
		if (!lacks)
			return UINT64_MAX;
		if (found.now_bytes < lacks && is_growth(vm) && found.now_bytes + found.later_bytes < lacks)
			refuse(memory, vm);
		if (found.now_bytes < lacks || !vm->want)
			return found.next;
		send_out(memory, found.best);
	}
}

static unsigned int count_holders(const struct memory *memory)
{
	unsigned int count = 0;

	vcuda_list_for_each (entry, &memory->vms)
		count += holds_memory(vm_of(entry));
	return count;
}

/* memory_lose() */
static bool any_is_lost(const struct memory *memory)
{
	vcuda_list_for_each (entry, &memory->vms)
		if (vm_of(entry)->capacity == UINT64_MAX)
			return true;
	return false;
}

/*
 * VMs may have more than there is: when they register with another arbiter, or when a smaller capacity counts. Returns
 * when to look again.
 */
static uint64_t end_excess(struct memory *memory, uint64_t now)
{
	/* A lost VM that registers again may be counted twice meanwhile. */
	if (any_is_lost(memory))
		return UINT64_MAX;
	while (count_holders(memory) > 1 && used(memory) - going_out(memory) > memory_capacity(memory)) {
		struct victims found = find_victims(memory, NULL, now);

		if (!found.best)
			return found.next;
		send_out(memory, found.best);
	}
	return UINT64_MAX;
}

/*
 * Growth that has waited is like a return: the next want would take the memory away unused. The ways of a VM that grows
 * say little of the next ones.
 */
static void serve_first(struct memory *memory, struct memory_vm *vm, uint64_t now)
{
	bool has_waited = vm->waits, grows = is_growth(vm);

	grant(memory, vm);
	if (!has_waited || !grows)
		return;
	if (vm->state == MEMORY_IN)
		vm->in_since = vm->idle_since = now;
	vm->lease_until = most(vm->lease_until, now + longest_lease(memory));
}

/* Growth that fits, of VMs whose wants are not the first. The first want keeps the room that VMs going out leave. */
static void serve_others(struct memory *memory, const struct memory_vm *first)
{
	vcuda_list_for_each (entry, &memory->vms) {
		struct memory_vm *vm = vm_of(entry);
		uint64_t leaves = going_out(memory), taken = used(memory) - leaves + need_of(vm);

		if (!can_be_served(vm) || vm->state != MEMORY_IN || !fits(memory, vm))
			continue;
		if (!leaves || need_of(first) <= minus(memory_capacity(memory), taken))
			grant(memory, vm);
	}
}

static void note_waits(struct memory *memory)
{
	vcuda_list_for_each (entry, &memory->vms)
		vm_of(entry)->waits = vm_of(entry)->want;
}

static void refuse_impossible(struct memory *memory)
{
	vcuda_list_for_each (entry, &memory->vms) {
		struct memory_vm *vm = vm_of(entry);

		if (can_be_served(vm) && is_growth(vm) && vm->want > most_of(memory, vm))
			refuse(memory, vm);
	}
}

uint64_t memory_step(struct memory *memory, uint64_t now)
{
	struct memory_vm *vm;
	uint64_t next = UINT64_MAX;

	if (now < memory->begin)
		return memory->begin;
	refuse_impossible(memory);
	while ((vm = first_want(memory))) {
		uint64_t arrived = others_arrived_at(memory, vm);

		if (arrived <= now && fits(memory, vm)) {
			serve_first(memory, vm, now);
			continue;
		}
		next = arrived > now ? arrived : make_room(memory, vm, now);
		if (vm->want)
			break;
	}
	if (vm)
		serve_others(memory, vm);
	note_waits(memory);
	return least(next, end_excess(memory, now));
}

/* ---- what VMs say ---- */

void memory_init(struct memory *memory, uint64_t now,
		 void (*tell)(struct memory_vm *vm, enum memory_word word, uint64_t bytes))
{
	*memory = (struct memory){.begin = now + MEMORY_SETTLE_NS, .tell = tell};
	vcuda_list_init(&memory->vms);
}

bool memory_add(struct memory *memory, struct memory_vm *vm, const struct memory_vm *said, bool out, uint64_t now)
{
	uint64_t capacity = least(memory_capacity(memory), said->capacity), minimums = sum_of_minimums(memory);

	if (minimums > capacity || said->minimum > capacity - minimums)
		return false;
	*vm = (struct memory_vm){.owner = said->owner,
				 .capacity = said->capacity,
				 .minimum = said->minimum,
				 .bytes = said->bytes,
				 .state = out ? MEMORY_OUT : MEMORY_IN,
				 .idle_since = now,
				 .in_since = now};
	vcuda_list_add(&vm->entry, &memory->vms);
	return true;
}

void memory_remove(struct memory *memory, struct memory_vm *vm)
{
	vcuda_list_remove(&vm->entry);
}

void memory_set_active(struct memory_vm *vm, bool active, uint64_t now)
{
	if (vm->active && !active)
		vm->idle_since = now;
	vm->active = active;
}

void memory_want(struct memory *memory, struct memory_vm *vm, uint64_t bytes, uint64_t spare, uint64_t now)
{
	if (!bytes) {
		vm->want = 0;
		refuse(memory, vm);
		return;
	}
	/* A VM that wants more than before keeps its place. */
	if (!vm->want && arrived_at(vm) <= now)
		vm->order = ++memory->order;
	vm->want = bytes;
	vm->spare = spare;
}

void memory_have(struct memory_vm *vm, uint64_t bytes)
{
	vm->bytes = least(vm->bytes, bytes);
}

void memory_went_out(struct memory_vm *vm, uint64_t bytes, uint64_t took)
{
	vm->state = MEMORY_OUT;
	vm->bytes = bytes;
	vm->out_ns = move_ns(vm, took);
	/* One that growth gives with the return is later than this. */
	vm->lease_until = 0;
}

void memory_came_in(struct memory_vm *vm, uint64_t took, uint64_t now)
{
	/* A VM that has been told to go out may not have read that yet. */
	if (vm->state != MEMORY_GOING_OUT)
		vm->state = MEMORY_IN;
	vm->in_ns = move_ns(vm, took);
	vm->in_since = vm->idle_since = now;
	vm->lease_until = most(vm->lease_until, now + lease_of(vm));
}

void memory_failed(struct memory_vm *vm, uint64_t now)
{
	if (vm->state == MEMORY_OUT)
		return;
	vm->state = MEMORY_IN;
	vm->held_until = now + MEMORY_HELD_NS;
}

void memory_lose(struct memory_vm *vm)
{
	vm->capacity = UINT64_MAX;
	vm->minimum = vm->want = vm->order = vm->held_until = 0;
	vm->waits = false;
	/* The VM's memory is in use, and the VM cannot be told to go out. */
	vm->state = MEMORY_COMING_IN;
}

uint64_t memory_longest_wait(const struct memory *memory)
{
	uint64_t longest = 0, count = 0;

	vcuda_list_for_each (entry, &memory->vms) {
		struct memory_vm *vm = vm_of(entry);

		longest = most(longest, longest_lease(memory) + vm->out_ns + vm->in_ns);
		count++;
	}
	return count ? (count - 1) * longest : 0;
}

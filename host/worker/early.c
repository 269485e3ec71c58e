/* SPDX-License-Identifier: Apache-2.0 */
#include "early.h"

#include <time.h>

#include "calls.h"

/* What is not done is not asked for again for as long: some commands are issued meanwhile. */
#define PAUSE_NS 2000

static struct {
	struct vcuda_early early[VCUDA_SLOTS]; /* copies: the guest may change its own behind our back */
	uint64_t not_before[VCUDA_SLOTS];
	uint64_t answered[VCUDA_SLOTS]; /* seq of the last one */
	uint64_t open;                  /* a bit for each slot with one */
	uint32_t last;                  /* that was looked at: they have their turns */
} asked;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint16_t vcuda_early_question(uint16_t op)
{
	switch (op) {
	case VCUDA_OP_cuStreamSynchronize:
		return VCUDA_OP_cuStreamQuery;
	case VCUDA_OP_cuEventSynchronize:
		return VCUDA_OP_cuEventQuery;
	default:
		return 0;
	}
}

static bool is_sound(const struct vcuda_command *c, uint32_t slot)
{
	return c->size == sizeof(struct vcuda_early) - offsetof(struct vcuda_early, command) &&
	       c->flags == VCUDA_COMMAND_SYNC && c->slot == slot &&
	       (vcuda_early_question(c->op) || c->op == VCUDA_OP_cuStreamQuery || c->op == VCUDA_OP_cuEventQuery);
}

static void look_for_new(struct vcuda_consumer *c)
{
	for (uint64_t bits = vcuda_consumer_asked_early(c); bits; bits &= bits - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(bits);

		vcuda_consumer_early(c, slot, &asked.early[slot]);
		if (!is_sound(&asked.early[slot].command, slot))
			continue;
		asked.not_before[slot] = 0;
		asked.open |= 1ull << slot;
	}
}

const struct vcuda_early *vcuda_early_next(struct vcuda_consumer *c)
{
	uint64_t now;

	look_for_new(c);
	if (!asked.open)
		return NULL;
	now = now_ns();
	for (uint32_t i = 1; i <= VCUDA_SLOTS; i++) {
		uint32_t slot = (asked.last + i) % VCUDA_SLOTS;

		if (!(asked.open >> slot & 1) || asked.early[slot].after > c->head || asked.not_before[slot] > now)
			continue;
		asked.last = slot;
		return &asked.early[slot];
	}
	return NULL;
}

void vcuda_early_leave(const struct vcuda_early *early)
{
	asked.open &= ~(1ull << early->command.slot);
}

void vcuda_early_answered(const struct vcuda_early *early)
{
	vcuda_early_leave(early);
	asked.answered[early->command.slot] = early->command.seq;
}

void vcuda_early_put_off(const struct vcuda_early *early)
{
	asked.not_before[early->command.slot] = now_ns() + PAUSE_NS;
}

/*
 * The guest uses a slot again when it has its answer. So all commands of a slot up to the last one that was answered
 * early have their answers; and what is asked for in the slot of another one is that command itself.
 */
bool vcuda_early_was_answered(struct vcuda_consumer *c, const struct vcuda_command *command)
{
	if (command->seq <= asked.answered[command->slot])
		return true;
	asked.open &= ~(1ull << command->slot);
	vcuda_consumer_unask_early(c, command->slot);
	return false;
}

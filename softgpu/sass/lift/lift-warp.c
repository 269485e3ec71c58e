/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a warp's lanes together, and barriers. */
#include <stdio.h>

#include "sass/lift/lifting.h"

struct value present_lanes(struct lift *l)
{
	struct value v = temporary(l, TEMPORARY_32);

	emit(l, "activemask.b32 %s", v.text);
	return v;
}

struct value active_lanes(struct lift *l)
{
	struct value v = present_lanes(l);

	return l->guard[0] ? compute32(l, "vote.sync.ballot.b32", "%s, %s", guard_value(l).text, v.text) : v;
}

/* The number of instructions between a question of the compiler's own and the jump that depends on its answer. */
#define QUESTION 64

/* VOTE of PT: the lanes that are here. */
static bool asks_who_is_here(const struct sass_instr *i)
{
	return i->form->function == SASS_LIFT_VOTE && i->field[SASS_F_PC] == SASS_PT && !i->field[SASS_F_PC_NOT];
}

enum { REDUX_OR = 1 };

/* The compiler compares masks of lanes with MATCH, R2UR and REDUX.OR. */
static bool may_be_question(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_VOTE:
		return asks_who_is_here(i);
	case SASS_LIFT_REDUX:
		return i->field[SASS_F_OPERATION] == REDUX_OR;
	case SASS_LIFT_MATCH:
		return true;
	default:
		return false;
	}
}

/* Whether `next` takes the result of MATCH as a mask of lanes. Then MATCH is the program's. */
static bool takes_mask(const struct lift *l, const struct sass_instr *match, const struct sass_instr *next)
{
	if (match->form->function != SASS_LIFT_MATCH)
		return false;
	if (next->form->function == SASS_LIFT_WARPSYNC && l->cubin->architecture >= 90)
		return next->field[SASS_F_SOURCE] == match->d;
	if (next->form->function == SASS_LIFT_WARPSYNC)
		return next->b.kind == SASS_REGISTER && next->b.reg == match->d;
	return next->form->function == SASS_LIFT_REDUX && next->a.reg == match->d;
}

/* Whether the operation is a part of a question which lanes are here: BRA.DIV or BRA.CONV follows. */
static bool is_question(const struct lift *l, const struct sass_instr *i)
{
	uint32_t first = i->address / SASS_BYTES + 1, count = l->function->bytes / SASS_BYTES;
	struct sass_instr next;
	char error[8];

	if (!may_be_question(i))
		return false;
	for (uint32_t n = first; n < count && n < first + QUESTION && !l->target[n]; n++) {
		if (!sass_decode(l->function->code + (size_t)n * SASS_BYTES, n * SASS_BYTES, &next, error,
				 sizeof(error)) ||
		    takes_mask(l, i, &next) || next.form->function == SASS_LIFT_BSYNC)
			return false;
		if (next.form->function == SASS_LIFT_BRA)
			return next.field[SASS_F_MODE] >= 2;
		if (next.form->function == SASS_LIFT_CALL || next.form->function == SASS_LIFT_EXIT ||
		    next.form->function == SASS_LIFT_RET || next.form->function == SASS_LIFT_WARPSYNC)
			return next.form->function == SASS_LIFT_WARPSYNC && next.field[SASS_F_EXCLUSIVE];
	}
	return false;
}

/* The number of instructions between those of an atomic that the compiler does once for all lanes that are here. */
#define ATOMIC_INSTRUCTIONS 64

/* The next instruction, before lanes can come or leave. */
static bool next_of_atomic(const struct lift *l, struct sass_instr *i)
{
	uint32_t n = i->address / SASS_BYTES + 1;
	char error[8];

	if (n >= l->function->bytes / SASS_BYTES || l->target[n] ||
	    !sass_decode(l->function->code + (size_t)n * SASS_BYTES, n * SASS_BYTES, i, error, sizeof(error)))
		return false;
	switch (i->form->function) {
	case SASS_LIFT_BRA:
	case SASS_LIFT_BRX:
	case SASS_LIFT_BSYNC:
	case SASS_LIFT_CALL:
	case SASS_LIFT_CALL_ABS:
	case SASS_LIFT_EXIT:
	case SASS_LIFT_RET:
	case SASS_LIFT_WARPSYNC:
		return false;
	default:
		return true;
	}
}

/* Whether a vote of PT chooses the lane that does an atomic: FLO takes its result. */
static bool chooses_lane(const struct lift *l, const struct sass_instr *vote)
{
	struct sass_instr i = *vote;

	if (!asks_who_is_here(vote))
		return false;
	for (unsigned int n = 0; n < ATOMIC_INSTRUCTIONS && next_of_atomic(l, &i); n++)
		if (i.form->function == SASS_LIFT_FLO && i.b.reg == vote->d)
			return true;
	return false;
}

static bool is_before_choice(const struct lift *l)
{
	struct sass_instr i = *l->i;

	for (unsigned int n = 0; n < ATOMIC_INSTRUCTIONS && next_of_atomic(l, &i); n++)
		if (chooses_lane(l, &i))
			return true;
	return false;
}

/* REDUX of such an atomic: the lane for it is chosen in the same block. */
static bool is_of_atomic(const struct lift *l)
{
	return l->i->form->function == SASS_LIFT_REDUX && (l->voted || is_before_choice(l));
}

/*
 * The lanes of a common operation: those of the compiler's mask, if it has one. Without a mask the compiler knows that
 * all lanes are together, unless it asks which ones are.
 */
static struct value active(struct lift *l)
{
	bool asks = asks_who_is_here(l->i);

	if (asks && (!l->members.text[0] || !chooses_lane(l, l->i)))
		return active_lanes(l);
	if (l->members.text[0])
		return l->members;
	if (l->guard[0] || is_question(l, l->i) || is_of_atomic(l))
		return active_lanes(l);
	return compute32(l, "mov.b32", "0xffffffff");
}

void forget_members(struct lift *l)
{
	l->members.text[0] = 0;
	l->exclusive = l->voted = false;
}

void set_members(struct lift *l, struct value members)
{
	l->uses_members = true;
	l->members = value_of("%%members");
	emit_guarded(l, "mov.b32 %%members, %s", members.text);
}

/* The lanes that WARPSYNC names. From sm_90 on the register is elsewhere, and there is none for all lanes. */
static bool named_members(struct lift *l, const struct sass_instr *i, struct value *members)
{
	struct sass_operand source = {.kind = SASS_REGISTER, .reg = (uint8_t)i->field[SASS_F_SOURCE]};

	if (l->cubin->architecture < 90) {
		bool more = i->b.kind == SASS_REGISTER && i->field[SASS_F_TARGET] >> 6; /* beside the register */

		if (more || i->field[SASS_F_EXCLUSIVE_90] || i->field[SASS_F_NEAR] || source.reg)
			return refuse(l, " with a form of sm_90");
		*members = in_register(l, source_bits(l, &i->b));
	} else if (i->b.kind == SASS_REGISTER) {
		*members = in_register(l, source_bits(l, &source));
	} else if (i->b.kind == SASS_IMMEDIATE) {
		*members = compute32(l, "mov.b32", "-1");
	} else {
		return refuse(l, " with a form before sm_90");
	}
	return true;
}

/*
 * Behind WARPSYNC the named lanes are here, and other lanes may be here as well. Lanes whose guard does not hold have
 * not waited for the named ones. Behind WARPSYNC.EXCLUSIVE the named lanes are alone up to BSYNC. WARPSYNC.COLLECTIVE
 * of sm_90 has the bit that EXCLUSIVE had before. Its lanes are alone up to ENDCOLLECTIVE.
 */
bool lift_warpsync(struct lift *l, const struct sass_instr *i)
{
	bool collective = l->cubin->architecture >= 90 && i->field[SASS_F_EXCLUSIVE],
	     exclusive = !collective && (i->field[SASS_F_EXCLUSIVE] || i->field[SASS_F_EXCLUSIVE_90]);
	struct value members, here;

	if (!named_members(l, i, &members))
		return false;
	if (exclusive && !l->exclusive)
		l->outer_members = l->members;
	if (collective) {
		set_members(l, members);
	} else if (exclusive) {
		l->members = compute32(l, "mov.b32", "%s", members.text);
	} else {
		emit_guarded(l, "bar.warp.sync %s", members.text);
		here = l->members.text[0] && !l->exclusive ? l->members : present_lanes(l);
		if (l->guard[0])
			members = compute32(l, "selp.b32", "%s, 0, %s", members.text, guard_value(l).text);
		l->members = compute32(l, "or.b32", "%s, %s", members.text, here.text);
	}
	l->exclusive = exclusive;
	l->voted = false;
	return true;
}

/* The lanes that WARPSYNC.EXCLUSIVE kept away are here again. */
bool lift_bsync(struct lift *l, const struct sass_instr *i)
{
	(void)i;
	if (l->exclusive)
		l->members = l->outer_members;
	l->exclusive = l->voted = false;
	return true;
}

bool lift_endcollective(struct lift *l, const struct sass_instr *i)
{
	(void)i;
	forget_members(l);
	return true;
}

/* One of the lanes that are here: its number, and the predicate whether it is this one. */
bool lift_elect(struct lift *l, const struct sass_instr *i)
{
	struct value members = active(l), is = temporary(l, TEMPORARY_PREDICATE), r = temporary(l, TEMPORARY_32);

	emit_guarded(l, "elect.sync %s|%s, %s", r.text, is.text, members.text);
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], is);
	write_32(l, i->d, r);
	return true;
}

enum { SHFL_IDX, SHFL_UP, SHFL_DOWN, SHFL_BFLY };

bool lift_shfl(struct lift *l, const struct sass_instr *i)
{
	static const char *const modes[] = {"idx", "up", "down", "bfly"};
	struct value a = in_register(l, source_bits(l, &i->a)), lane, clamp, members,
		     is = temporary(l, TEMPORARY_PREDICATE), r = temporary(l, TEMPORARY_32);

	lane = i->b.kind ? in_register(l, source_bits(l, &i->b)) : value_of("%u", (unsigned int)i->field[SASS_F_LANE]);
	clamp = i->c.kind ? in_register(l, source_bits(l, &i->c))
			  : value_of("0x%x", (unsigned int)i->field[SASS_F_CLAMP]);
	members = active(l);
	emit_guarded(l, "shfl.sync.%s.b32 %s|%s, %s, %s, %s, %s", modes[i->field[SASS_F_MODE]], r.text, is.text, a.text,
		     lane.text, clamp.text, members.text);
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], is);
	write_32(l, i->d, r);
	return true;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_EQ };

bool lift_vote(struct lift *l, const struct sass_instr *i)
{
	int64_t mode = i->field[SASS_F_MODE];
	struct value p = predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]), members = active(l),
		     ballot, is;

	ballot = temporary(l, TEMPORARY_32);
	emit_guarded(l, "vote.sync.ballot.b32 %s, %s, %s", ballot.text, p.text, members.text);
	if (i->field[SASS_F_P0] != SASS_PT) {
		if (mode == VOTE_ANY)
			is = compute_predicate(l, "setp.ne.u32", "%s, 0", ballot.text);
		else
			is = compute_predicate(l, "setp.eq.u32", "%s, %s", ballot.text, members.text);
		if (mode == VOTE_EQ)
			is = combine(l, 1, is, compute_predicate(l, "setp.eq.u32", "%s, 0", ballot.text));
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], is);
	}
	write_32(l, i->d, ballot);
	l->voted |= !l->guard[0] && chooses_lane(l, i);
	return true;
}

bool lift_match(struct lift *l, const struct sass_instr *i)
{
	bool wide = i->field[SASS_F_PAIR], any = i->field[SASS_F_ANY];
	struct value a = wide ? source_64(l, &i->a) : in_register(l, source_bits(l, &i->a)), members = active(l),
		     r = temporary(l, TEMPORARY_32), is;
	const char *type = wide ? "b64" : "b32";

	if (any) {
		emit_guarded(l, "match.any.sync.%s %s, %s, %s", type, r.text, a.text, members.text);
	} else {
		is = temporary(l, TEMPORARY_PREDICATE);
		emit_guarded(l, "match.all.sync.%s %s|%s, %s, %s", type, r.text, is.text, a.text, members.text);
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], is);
	}
	write_32(l, i->d, r);
	return true;
}

bool lift_redux(struct lift *l, const struct sass_instr *i)
{
	static const char *const names[] = {"and.b32", "or.b32", "xor.b32", "add", "min", "max", NULL, NULL};
	int64_t operation = i->field[SASS_F_OPERATION];
	struct value a = in_register(l, source_bits(l, &i->a)), members = active(l), r = temporary(l, TEMPORARY_32);

	if (!names[operation])
		return refuse(l, " of operation %u", (unsigned int)operation);
	emit_guarded(l, "redux.sync.%s%s %s, %s, %s", names[operation],
		     operation < 3             ? ""
		     : i->field[SASS_F_SIGNED] ? ".s32"
					       : ".u32",
		     r.text, a.text, members.text);
	write_32(l, i->d, r);
	if (operation == REDUX_OR && !l->guard[0] && i->d < SASS_URZ)
		l->mask_of[i->d] = compute32(l, "mov.b32", "%s", a.text);
	return true;
}

/* ---- barriers ---- */

enum { BAR_SYNC, BAR_ARV, BAR_RED, BAR_SCAN };
enum { RED_POPC, RED_AND, RED_OR };

/*
 * BAR.RED leaves its result in the barrier, where B2R.RESULT finds it. Here two registers of the kernel have the number
 * of lanes and the predicate.
 */
static bool reduce(struct lift *l, const struct sass_instr *i, struct value id, struct value threads)
{
	struct value p = predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]);
	int64_t operation = i->field[SASS_F_OPERATION];
	char barrier[64];

	l->uses_result = true;
	snprintf(barrier, sizeof(barrier), "%s%s%s", id.text, threads.text[0] ? ", " : "", threads.text);
	switch (operation) {
	case RED_POPC:
		emit_guarded(l, "bar.red.popc.u32 %%result, %s, %s", barrier, p.text);
		emit_guarded(l, "setp.ne.u32 %%resultp, %%result, 0");
		return true;
	case RED_AND:
	case RED_OR:
		emit_guarded(l, "bar.red.%s.pred %%resultp, %s, %s", operation == RED_AND ? "and" : "or", barrier,
			     p.text);
		emit_guarded(l, "selp.b32 %%result, 1, 0, %%resultp");
		return true;
	default:
		return refuse(l, " of operation %u", (unsigned int)operation);
	}
}

/* `threads`: empty: all of the block. */
static bool wait_at(struct lift *l, const struct sass_instr *i, struct value id, struct value threads)
{
	switch (i->field[SASS_F_MODE]) {
	case BAR_SYNC:
		emit_guarded(l, "bar.sync %s%s%s", id.text, threads.text[0] ? ", " : "", threads.text);
		return true;
	case BAR_ARV:
		emit_guarded(l, "bar.arrive %s, %s", id.text, threads.text);
		return true;
	case BAR_RED:
		return reduce(l, i, id, threads);
	default:
		return refuse(l, " in mode %u", (unsigned int)i->field[SASS_F_MODE]);
	}
}

bool lift_bar(struct lift *l, const struct sass_instr *i)
{
	struct value id, threads = {.text = ""};

	id = i->b.kind ? in_register(l, source_bits(l, &i->b)) : value_of("%u", (unsigned int)i->field[SASS_F_ID]);
	if (i->field[SASS_F_THREADS])
		threads = value_of("%u", (unsigned int)i->field[SASS_F_THREADS]);
	return wait_at(l, i, id, threads);
}

/* The register has the number of threads. */
bool lift_bar_count(struct lift *l, const struct sass_instr *i)
{
	return wait_at(l, i, value_of("%u", (unsigned int)i->field[SASS_F_ID]), in_register(l, source_bits(l, &i->b)));
}

/* The register has the barrier in its lower half, and the number of threads in its upper half. */
bool lift_bar_both(struct lift *l, const struct sass_instr *i)
{
	struct value both = in_register(l, source_bits(l, &i->b)), id, threads;

	id = compute32(l, "and.b32", "%s, 0xffff", both.text);
	threads = compute32(l, "bfe.u32", "%s, 16, 12", both.text);
	return wait_at(l, i, id, threads);
}

bool lift_b2r(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_WHAT] != 1)
		return refuse(l, " of what is no result");
	l->uses_result = true;
	write_32(l, i->d, value_of("%%result"));
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], value_of("%%resultp"));
	return true;
}

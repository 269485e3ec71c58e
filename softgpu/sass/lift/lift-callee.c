/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions by their addresses, where the function is in another section than the kernel: a table of NCCL's
 * has hundreds of functions, of which a kernel calls a few. Each such function is an entry of its own, as
 * common/sass-callee.h says. Before the call the caller stores all its registers in local memory behind the stack,
 * and loads all of them after the call. The callee does the opposite. So one place serves calls of any depth.
 */
#include <string.h>

#include "sass/lift/lifting.h"

/* Calls have what CUDA gives them by default. */
#define CALL_BYTES 1024

/* The limit of what a kernel and its callees are known to need. */
#define MOST_BYTES (128u << 10)

/* Offsets behind the stack. RETURNED: whether the function has returned; else the thread has exited. */
enum { RETURNED = 0, PREDICATES = 4, REGISTERS = 16, UNIFORM = REGISTERS + 4 * 256, PLACE_BYTES = UNIFORM + 4 * 64 };

#define PREDICATE_COUNT 7 /* of either kind */

/* NVIDIA's rules of calls: R1, and R20 with R21. */
enum { STACK_POINTER = 1, RETURN_ADDRESS = 20 };

/* All kernels and callees of a cubin have the same bytes, because they share local memory. */
static uint32_t stack_bytes(const struct lift *l)
{
	uint32_t most = l->cubin->most_frame_bytes;

	most = most < MOST_BYTES ? most : MOST_BYTES;
	return ((2 * most + 15) & ~15u) + CALL_BYTES;
}

uint32_t frame_of(const struct lift *l)
{
	if (l->calls_addresses)
		return stack_bytes(l);
	return ((l->function->frame_bytes + 15) & ~15u) + (l->calls ? CALL_BYTES : 0);
}

uint32_t local_bytes_of(const struct lift *l)
{
	uint32_t frame = frame_of(l);

	return l->calls_addresses ? frame + PLACE_BYTES : frame ? frame : 16;
}

static unsigned int general_count(const struct lift *l)
{
	return l->cubin->most_registers && l->cubin->most_registers < SASS_RZ ? l->cubin->most_registers : SASS_RZ;
}

static void store(struct lift *l, unsigned int place, struct value v)
{
	emit(l, "st.local.b32 [%%local64+%u], %s", stack_bytes(l) + place, v.text);
}

static void load(struct lift *l, struct value to, unsigned int place)
{
	emit(l, "ld.local.b32 %s, [%%local64+%u]", to.text, stack_bytes(l) + place);
}

static void store_registers(struct lift *l)
{
	struct value bits = value_of("0");

	l->uses_local = true;
	for (unsigned int n = 0; n < general_count(l); n++)
		store(l, REGISTERS + 4 * n, register_name(l, false, n));
	for (unsigned int n = 0; n < SASS_URZ; n++)
		store(l, UNIFORM + 4 * n, register_name(l, true, n));
	for (unsigned int n = 0; n < 2 * PREDICATE_COUNT; n++) {
		struct value is = named_predicate(l, n >= PREDICATE_COUNT, n % PREDICATE_COUNT);
		struct value bit = compute32(l, "selp.b32", "%u, 0, %s", 1u << n, is.text);

		bits = compute32(l, "or.b32", "%s, %s", bit.text, bits.text);
	}
	store(l, PREDICATES, bits);
}

static void load_registers(struct lift *l)
{
	struct value bits = temporary(l, TEMPORARY_32);

	l->uses_local = true;
	for (unsigned int n = 0; n < general_count(l); n++)
		load(l, register_result(l, false, n), REGISTERS + 4 * n);
	for (unsigned int n = 0; n < SASS_URZ; n++)
		load(l, register_result(l, true, n), UNIFORM + 4 * n);
	load(l, bits, PREDICATES);
	for (unsigned int n = 0; n < 2 * PREDICATE_COUNT; n++) {
		struct value bit = compute32(l, "and.b32", "%s, %u", bits.text, 1u << n);
		struct value to = named_predicate_result(l, n >= PREDICATE_COUNT, n % PREDICATE_COUNT);

		emit(l, "setp.ne.u32 %s, %s, 0", to.text, bit.text);
	}
	forget_all_pairs(l);
}

void call_address(struct lift *l, struct value address)
{
	struct value returned = temporary(l, TEMPORARY_32), exited;
	unsigned int number = l->labels++;
	char guard[sizeof(l->guard)];

	/* the callee may use it */
	l->uses_shared = true;
	store_registers(l);
	store(l, RETURNED, value_of("0"));
	sass_text_add(&l->body, "\t{\n\t.param .b64 $vcuda_a%u;\n", number);
	emit(l, "st.param.b64 [$vcuda_a%u], %s", number, in_register_64(l, address).text);
	sass_text_add(&l->body, "\tcall " VCUDA_SASS_CALL ", ($vcuda_a%u);\n\t}\n", number);
	load(l, returned, RETURNED);
	exited = compute_predicate(l, "setp.eq.u32", "%s, 0", returned.text);
	emit(l, "@%s exit", exited.text);
	/* another way through the instruction may leave the registers as they are */
	memcpy(guard, l->guard, sizeof(guard));
	strcpy(l->guard, "@%pt ");
	load_registers(l);
	memcpy(l->guard, guard, sizeof(guard));
}

/*
 * Offsets of no instructions: places for the accesses of registers before the first one. An instruction's reads are of
 * the values before its writes, so that both have a place.
 */
#define LOADS (UINT32_MAX - 1)
#define COPIES UINT32_MAX

void callee_begin(struct lift *l)
{
	webs_begin(l->webs, instance_of(l), LOADS);
	l->instr = (struct sass_instr){.guard = SASS_PT};
	l->i = &l->instr;
	load_registers(l);
	webs_begin(l->webs, instance_of(l), COPIES);
	l->entry_stack = compute32(l, "mov.b32", "%s", register_name(l, false, STACK_POINTER).text);
	for (unsigned int n = 0; n < 2; n++)
		l->entry_return[n] = compute32(l, "mov.b32", "%s", register_name(l, false, RETURN_ADDRESS + n).text);
}

/* The function may have called itself: that call has returned to the same stack pointer and address as it was made
 * with. */
struct value is_return_to_caller(struct lift *l, struct value low, struct value high)
{
	struct value is, next;

	is = compute_predicate(l, "setp.eq.u32", "%s, %s", register_name(l, false, STACK_POINTER).text,
			       l->entry_stack.text);
	next = compute_predicate(l, "setp.eq.u32", "%s, %s", low.text, l->entry_return[0].text);
	is = combine(l, 0, is, next);
	next = compute_predicate(l, "setp.eq.u32", "%s, %s", high.text, l->entry_return[1].text);
	return combine(l, 0, is, next);
}

void callee_return(struct lift *l, struct value p)
{
	unsigned int end = l->labels++;

	if (!is_text(p, "%pt"))
		emit(l, "@!%s bra $vcuda_E%u", p.text, end);
	store_registers(l);
	store(l, RETURNED, value_of("1"));
	emit(l, "exit");
	if (!is_text(p, "%pt"))
		sass_text_add(&l->body, "$vcuda_E%u:\n", end);
}

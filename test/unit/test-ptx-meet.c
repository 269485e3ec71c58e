/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that is left from its middle: each lane goes round it some times of its own before it comes through the
 * middle, and does that so often as all others.
 */
#include "../ptx/harness.h"

#define ROUNDS 5

/* How often a thread goes round without coming through the middle, each time. */
static uint32_t turns(uint32_t thread)
{
	return in32[2 * thread] % 7;
}

/* %x adds up 1000 of a way around the middle and 1 of the one through it, which is a register with either. */
#define LOOP(middle)                                                                                                   \
	REGISTERS ".reg .b32 %a, %b, %x, %i, %j, %way;\nmul.wide.u32 %l3, %r1, 4;\n" LOAD32                            \
		  "rem.u32 %a, %a, 7;\nmov.b32 %x, %r1;\nmov.b32 %i, 0;\nmov.b32 %j, 0;\n"                             \
		  "loop:\nsetp.lt.u32 %p1, %i, %a;\nmov.b32 %way, 1000;\n@%p1 bra around;\n" middle                    \
		  "add.u32 %j, %j, 1;\nsetp.eq.u32 %p2, %j, 5;\nmov.b32 %i, -1;\nmov.b32 %way, 1;\n@%p2 bra done;\n"   \
		  "around:\nadd.u32 %x, %x, %way;\nadd.u32 %i, %i, 1;\nbra loop;\n"                                    \
		  "done:\nst.global.b32 [%l3], %x;\nret;\n}\n"

static void run(const char *text)
{
	for (uint32_t n = 0; n < 2 * THREADS; n++)
		in32[n] = n * 2654435761u >> 5;
	run_binary(text, 32);
}

static void registers(void **state)
{
	(void)state;
	run(LOOP(""));
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(out32[t], t + 1000 * turns(t) * ROUNDS + ROUNDS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

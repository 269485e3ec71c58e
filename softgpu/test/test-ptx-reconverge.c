/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop that is left from its middle: each lane goes round it some times of its own before it comes through the
 * middle, and does that so often as all others.
 */
#include "softgpu/test/harness.h"

#define ROUNDS 5
#define LANES 32

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

/* Lanes that come to the middle first wait there for those that they name: all, or the other one of a pair. */
static void exchanges(void **state)
{
	const char *const texts[] = {
		LOOP("shfl.sync.bfly.b32 %r2, %x, 1, 31, -1;\nmad.lo.u32 %x, %r2, 3, %x;\n"),
		LOOP("and.b32 %r2, %r1, 30;\nshl.b32 %r3, 3, %r2;\n"
		     "shfl.sync.bfly.b32 %r2, %x, 1, 31, %r3;\nmad.lo.u32 %x, %r2, 3, %x;\n"),
	};

	(void)state;
	for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); n++) {
		uint32_t x[THREADS], before[THREADS];

		run(texts[n]);
		for (uint32_t t = 0; t < THREADS; t++)
			x[t] = t;
		for (uint32_t round = 0; round < ROUNDS; round++) {
			for (uint32_t t = 0; t < THREADS; t++)
				before[t] = x[t] += 1000 * turns(t);
			for (uint32_t t = 0; t < THREADS; t++)
				x[t] += 3 * before[t ^ 1] + (round + 1 < ROUNDS);
		}
		assert_memory_equal(out32, x, sizeof(x));
	}
}

static void votes(void **state)
{
	(void)state;
	run(LOOP("setp.lt.u32 %p3, %a, 3;\nvote.sync.ballot.b32 %r2, %p3, -1;\nadd.u32 %x, %x, %r2;\nbar.warp.sync "
		 "-1;\n"));
	for (uint32_t t = 0; t < THREADS; t++) {
		uint32_t ballot = 0;

		for (uint32_t l = 0; l < LANES; l++)
			ballot |= (uint32_t)(turns(t / LANES * LANES + l) < 3) << l;
		assert_int_equal(out32[t], t + (1000 * turns(t) + ballot) * ROUNDS + ROUNDS - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
		cmocka_unit_test(exchanges),
		cmocka_unit_test(votes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

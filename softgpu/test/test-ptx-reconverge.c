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

/*
 * The lower half of the lanes votes alone, and then with all lanes, by one instruction. The upper half, which waits
 * there, does not take part in the first vote.
 */
static void masks(void **state)
{
	(void)state;
	run(REGISTERS ".reg .b32 %a, %b, %x, %i, %j, %m, %most;\nmul.wide.u32 %l3, %r1, 4;\n" LOAD32
		      "rem.u32 %a, %a, 7;\nmov.b32 %x, 0;\nmov.b32 %i, 0;\nmov.b32 %j, 0;\nmov.u32 %r4, %laneid;\n"
		      "setp.lt.u32 %p4, %r4, 16;\nselp.b32 %most, 10, 5, %p4;\n"
		      "loop:\nsetp.lt.u32 %p1, %i, %a;\n@%p1 bra around;\n"
		      "and.b32 %r5, %j, 1;\nsetp.eq.and.u32 %p2, %r5, 0, %p4;\nselp.b32 %m, 0xffff, -1, %p2;\n"
		      "and.b32 %r5, %r4, 1;\nsetp.eq.or.u32 %p3, %r5, 1, %p2;\n"
		      "vote.sync.ballot.b32 %r2, %p3, %m;\nmad.lo.u32 %x, %x, 3, %r2;\n"
		      "add.u32 %j, %j, 1;\nsetp.eq.u32 %p2, %j, %most;\nmov.b32 %i, -1;\n@%p2 bra done;\n"
		      "around:\nadd.u32 %i, %i, 1;\nbra loop;\n"
		      "done:\nst.global.b32 [%l3], %x;\nret;\n}\n");
	for (uint32_t t = 0; t < THREADS; t++) {
		uint32_t x = 0;

		for (uint32_t round = 0; round < ROUNDS; round++) {
			if (t % LANES < 16)
				x = x * 3 + 0xffff;
			x = x * 3 + 0xaaaaaaaa;
		}
		assert_int_equal(out32[t], x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
		cmocka_unit_test(exchanges),
		cmocka_unit_test(votes),
		cmocka_unit_test(masks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

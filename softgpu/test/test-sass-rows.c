/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that NVIDIA's assembler makes of no PTX of the other tests (softgpu/test/seen-forms.py finds them). Each
 * runs in a kernel that is encoded by hand, by the layouts of sass-forms.table, and leaves a number.
 */
#include "softgpu/test/harness.h"
#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"

#define MOST 24 /* instructions of a kernel */

/* Parts of an instruction: the lower and the upper 64 bits. */
#define ALWAYS (UINT64_C(7) << 12)
#define D(r) ((uint64_t)(r) << 16)
#define A(r) ((uint64_t)(r) << 24)
#define B(r) ((uint64_t)(r) << 32)
#define OFFSET(bytes) ((uint64_t)(bytes) << 40)
#define HIGH(bit, value) ((uint64_t)(value) << ((bit)-64))
#define WORD_32 HIGH(73, 4)
#define WIDE HIGH(72, 1)
#define NO_RESULT HIGH(81, 7) /* a predicate that is not written */
#define UNIFORM HIGH(91, 1)
#define RZ 255
#define URZ 63

struct program {
	struct sass_sample sample;
	uint64_t text[2 * (MOST + 2)];
	size_t count;
};

static uint32_t memory[8];

static void add(struct program *p, uint64_t low, uint64_t high)
{
	assert_true(p->count < MOST);
	p->text[2 * p->count] = low;
	p->text[2 * p->count++ + 1] = high;
}

static void number(struct program *p, bool uniform, unsigned int d, uint32_t value)
{
	add(p, (uniform ? 0x882 : 0x802) | ALWAYS | D(d) | B(value), uniform ? 0 : 15 << 8);
}

/* MOV Rd, URu */
static void from_uniform(struct program *p, unsigned int d, unsigned int u)
{
	add(p, 0xc02 | ALWAYS | D(d) | B(u), UNIFORM | 15 << 8);
}

/* STG of Rb to a word of the memory, whose address is in R2 and R3. */
static void store(struct program *p, unsigned int word, unsigned int b)
{
	add(p, 0x386 | ALWAYS | A(2) | B(b) | OFFSET(4 * word), WIDE | WORD_32);
}

/* R2, R3: the memory's address. R4 to R7 and UR4 to UR7: numbers. */
static struct program begin(void)
{
	struct program p = {.sample = sass_sample()};
	static const uint32_t numbers[] = {0x12345678, 0x9abcdef0, 12, 4};

	for (unsigned int half = 0; half < 2; half++)
		add(&p, 0xa02 | ALWAYS | D(2 + half) | (uint64_t)(SAMPLE_PARAM_BASE + 8 + 4 * half) << 38, 0xf00);
	for (unsigned int n = 0; n < 4; n++) {
		number(&p, false, 4 + n, numbers[n]);
		number(&p, true, 4 + n, numbers[n]);
	}
	return p;
}

/* The kind of the fault, or none. */
static int run_to_end(struct program *p)
{
	uint64_t params[2] = {0, (uintptr_t)memory};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params, .memory = &map, .print = print};
	size_t bytes = (p->count + 2) * 2 * sizeof(uint64_t), length;
	char error[300], *text;
	struct ptx_error why;
	struct ptx_fault fault = {.kind = PTX_FAULT_NONE};
	struct ptx_module *m;
	struct ptx_kernel *k;

	memcpy(p->text + 2 * p->count, p->sample.text, sizeof(p->sample.text));
	p->sample.sections[SAMPLE_TEXT].sh_offset = offsetof(struct program, text);
	p->sample.sections[SAMPLE_TEXT].sh_size = bytes;
	p->sample.symbols[SAMPLE_KERNEL].st_size = bytes;
	if (vcuda_sass_to_ptx(p, sizeof(*p), NULL, &text, &length, error, sizeof(error)))
		fail_msg("%s", error);
	m = load(text);
	k = ptx_module_find_kernel(m, "k");
	assert_non_null(k);
	if (ptx_kernel_prepare(k, l.block, &l.binary, &why) != PTX_OK)
		fail_msg("line %u: %s\n%s", why.line, why.text, text);
	map.count = 0;
	add_range(memory, sizeof(memory), true);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault) == (fault.kind == PTX_FAULT_NONE));
	ptx_module_destroy(m);
	free(text);
	return (int)fault.kind;
}

static void run(struct program *p)
{
	assert_int_equal(run_to_end(p), PTX_FAULT_NONE);
}

/* ---- the uniform datapath ---- */

static void gives(const char *name, uint64_t low, uint64_t high, uint32_t want)
{
	struct program p = begin();

	memset(memory, 0xee, sizeof(memory));
	add(&p, low | ALWAYS | D(8), high | UNIFORM);
	from_uniform(&p, 0, 8);
	store(&p, 0, 0);
	run(&p);
	if (memory[0] != want)
		fail_msg("%s gives %08x, not %08x", name, memory[0], want);
}

static void uniform(void **state)
{
	const uint32_t a = 0x12345678, b = 0x9abcdef0;

	(void)state;
	/* bytes 0x78, 0xf0, 0x34 and 0xbc, by a selector in place of UR5's number */
	gives("UPRMT", 0x896 | A(4) | B(0x6240), HIGH(64, 5), 0xbc34f078);
	gives("USGXT", 0x29a | A(5) | B(6), HIGH(73, 1), 0xfffffef0);
	gives("USGXT.U32", 0x29a | A(5) | B(6), 0, 0xef0);
	gives("UBMSK", 0x29b | A(7) | B(6), 0, 0xfff0);
	gives("UIMAD", 0x2a4 | A(4) | B(5), HIGH(64, 7) | NO_RESULT | HIGH(87, 15), a * b + 4);
	gives("UIMAD.HI.U32", 0x2a7 | A(4) | B(5), HIGH(64, URZ) | NO_RESULT | HIGH(87, 15),
	      (uint32_t)((uint64_t)a * b >> 32));
	gives("UIMAD.HI", 0x2a7 | A(4) | B(5), HIGH(64, URZ) | HIGH(73, 1) | NO_RESULT | HIGH(87, 15),
	      (uint32_t)((int64_t)(int32_t)a * (int32_t)b >> 32));
	gives("UBREV", 0x2be | B(4), 0, 0x1e6a2c48);
	gives("UPOPC", 0x2bf | B(5), 0, (uint32_t)__builtin_popcount(b));
}

/* UPLOP3 of three true inputs gives the last bit of the table to UP0, and USEL chooses by it. */
static void uniform_tables(void **state)
{
	(void)state;
	for (unsigned int set = 0; set < 2; set++) {
		struct program p = begin();

		add(&p, 0x000000000000789c, set ? 0x0bf0f070 : 0x0bf0e070);
		add(&p, 0x287 | ALWAYS | D(8) | A(4) | B(5), UNIFORM | HIGH(87, 0));
		from_uniform(&p, 0, 8);
		store(&p, 0, 0);
		run(&p);
		assert_int_equal(memory[0], set ? 0x12345678 : 0x9abcdef0);
	}
}

/* R2UR UR8, R5 */
static void to_uniform(void **state)
{
	struct program p = begin();

	(void)state;
	add(&p, 0x3c2 | ALWAYS | D(8) | A(5), NO_RESULT);
	from_uniform(&p, 0, 8);
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 0x9abcdef0);
}

/* ---- memory ---- */

/* STL [UR7], R5; LDL R0, [4] */
static void local_memory(void **state)
{
	struct program p = begin();

	(void)state;
	add(&p, 0x987 | ALWAYS | A(RZ) | B(5), HIGH(64, 7) | WORD_32 | UNIFORM);
	add(&p, 0x983 | ALWAYS | D(0) | A(RZ) | B(URZ) | OFFSET(4), WORD_32 | UNIFORM);
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 0x9abcdef0);
}

static void atomics(void **state)
{
	struct program p = begin();
	float before = 1.5f, after;

	(void)state;
	memcpy(&memory[4], &before, 4);
	memory[5] = 10;
	memory[6] = 12;
	/* ATOM.E.ADD.F32 R0, [R2.64+16], R8, as the assembler makes it for sm_90: UR4 is the descriptor */
	number(&p, false, 8, 0x40200000);
	add(&p, 0x9a2 | ALWAYS | D(0) | A(2) | B(8) | OFFSET(16),
	    HIGH(64, 0xc4) | WIDE | HIGH(73, 9) | NO_RESULT | UNIFORM);
	/* RED.E.ADD [R2+20], R6 */
	add(&p, 0x38e | ALWAYS | A(2) | B(6) | OFFSET(20), WIDE);
	/* ATOM.E.CAS R9, [R2+24], R6, R7 */
	add(&p, 0x38b | ALWAYS | D(9) | A(2) | B(6) | OFFSET(24), HIGH(64, 7) | WIDE | NO_RESULT);
	store(&p, 0, 0);
	store(&p, 1, 9);
	run(&p);
	memcpy(&after, &memory[4], 4);
	assert_true(after == 4.0f);
	assert_memory_equal(&memory[0], &before, 4);
	assert_int_equal(memory[5], 22);
	assert_int_equal(memory[1], 12);
	assert_int_equal(memory[6], 4);
}

/* An atomic sum in the fourth word, by the address of a register and UR4. */
static void atomic_of_sum(unsigned int opcode, unsigned int a, uint64_t bits, uint32_t before, uint32_t more,
			  uint32_t want)
{
	struct program p = begin();

	number(&p, false, 8, 8);
	number(&p, false, 9, 0x9abcdef0);
	number(&p, false, 10, more);
	number(&p, true, 4, 8);
	number(&p, true, 5, 0);
	for (unsigned int half = 0; half < 2 && a == 8; half++)
		add(&p, 0x3c2 | ALWAYS | D(4 + half) | A(2 + half), NO_RESULT); /* R2UR */
	add(&p, opcode | ALWAYS | D(0) | A(a) | B(10) | OFFSET(4), HIGH(64, 4) | bits | WIDE | NO_RESULT | UNIFORM);
	store(&p, 0, 0);
	memory[3] = before;
	run(&p);
	assert_int_equal(memory[0], before);
	assert_int_equal(memory[3], want);
}

/* ATOM and ATOMG with [R2.64+UR4+4], and with [R8.U32+UR4+4]. */
static void atomics_of_sums(void **state)
{
	static const struct {
		unsigned int opcode;
		bool is_float;
	} atomics[] = {{0x98a, false}, {0x9a8, false}, {0x9a2, true}, {0x9a3, true}};

	(void)state;
	for (unsigned int n = 0; n < 4; n++) {
		uint64_t type = atomics[n].is_float ? HIGH(73, 9) : 0;
		/* 1.5 + 2.5 = 4 */
		uint32_t before = atomics[n].is_float ? 0x3fc00000 : 10, more = atomics[n].is_float ? 0x40200000 : 12;
		uint32_t want = atomics[n].is_float ? 0x40800000 : 22;

		atomic_of_sum(atomics[n].opcode, 2, HIGH(70, 1) | type, before, more, want);
		atomic_of_sum(atomics[n].opcode, 8, type, before, more, want);
	}
}

/* ATOMS.POPC.INC.32 twice, as the assembler makes it of red.shared.add of 1, and a load of the word. */
static void counts(void **state)
{
	struct program p = begin();

	(void)state;
	add(&p, 0x388 | ALWAYS | A(RZ) | B(RZ), WORD_32);
	for (unsigned int n = 0; n < 2; n++)
		add(&p, 0x00000000ffff7f8c, 0x0d00003f);
	add(&p, 0x984 | ALWAYS | D(0) | A(RZ) | B(URZ), WORD_32 | UNIFORM);
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 2);
}

/* LDGSTS of a word of the memory, and the word in shared memory at this offset. */
static void copies(unsigned int opcode, unsigned int from, unsigned int u, uint64_t bits, unsigned int offset,
		   uint32_t want)
{
	struct program p = begin();

	number(&p, false, 8, 8);
	number(&p, false, 9, 0x9abcdef0);
	number(&p, false, 10, 16);
	for (unsigned int half = 0; half < 2; half++)
		add(&p, 0x3c2 | ALWAYS | D(8 + half) | A(2 + half), NO_RESULT);
	number(&p, true, 5, 0);
	number(&p, true, 4, 8);
	add(&p, opcode | ALWAYS | D(10) | A(from) | B(4) | (uint64_t)4 << 44,
	    HIGH(64, u) | bits | WORD_32 | HIGH(81, 1) | HIGH(87, 7) | UNIFORM);
	add(&p, 0x9af | ALWAYS, 0);                     /* LDGDEPBAR */
	add(&p, 0x91a | ALWAYS | UINT64_C(1) << 47, 0); /* DEPBAR.LE SB0, 0 */
	add(&p, 0x984 | ALWAYS | D(0) | A(RZ) | B(URZ) | OFFSET(offset), WORD_32 | UNIFORM);
	store(&p, 0, 0);
	for (uint32_t n = 0; n < 8; n++)
		memory[n] = 100 + n;
	run(&p);
	assert_int_equal(memory[0], want);
}

static void copies_with_uniform(void **state)
{
	(void)state;
	copies(0xfae, 2, 4, HIGH(70, 1), 20, 103); /* LDGSTS [R10+4], [R2.64+UR4+4] */
	copies(0xfae, 8, 8, 0, 20, 103);           /* LDGSTS [R10+4], [R8.U32+UR8+4] */
	copies(0xdae, 2, 4, HIGH(70, 1), 28, 101); /* LDGSTS [R10+UR4+4], [R2.64+4] */
}

/* ---- control ---- */

/* R2P PR, R8, 0x7f; P2R R0, PR, RZ, 0x7f */
static void predicates(void **state)
{
	struct program p = begin();

	(void)state;
	number(&p, false, 8, 0x2d);
	add(&p, 0x804 | ALWAYS | A(8) | B(0x7f), 0);
	add(&p, 0x803 | ALWAYS | D(0) | A(RZ) | B(0x7f), 0);
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 0x2d);
}

/* BRA.CONV of sm_75 over VOTE.ALL P0, P1, which the lanes of a warp that is not whole do. */
static void votes_of_a_part(void **state)
{
	struct program p = begin();

	(void)state;
	p.sample.head.e_flags = 75 << 8;
	number(&p, false, 8, 2);
	add(&p, 0x804 | ALWAYS | A(8) | B(0x7f), 0); /* R2P PR, R8, 0x7f */
	add(&p, 0x947 | ALWAYS | B(3 | 16 / 4 << 2), HIGH(87, 7));
	add(&p, 0x806 | ALWAYS | D(RZ), HIGH(87, 1));
	add(&p, 0x803 | ALWAYS | D(0) | A(RZ) | B(0x7f), 0); /* P2R R0, PR, RZ, 0x7f */
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 3);
}

/* WARPSYNC of a lane that is not there, whose guard does not hold, and VOTE.ALL P0, P1. */
static void votes_behind_guard(void **state)
{
	struct program p = begin();

	(void)state;
	number(&p, false, 8, 2);
	add(&p, 0x804 | ALWAYS | A(8) | B(0x7f), 0);            /* R2P PR, R8, 0x7f */
	add(&p, 0x348 | UINT64_C(2) << 12 | B(8), HIGH(87, 7)); /* @P2 WARPSYNC R8 */
	add(&p, 0x806 | ALWAYS | D(RZ), HIGH(87, 1));
	add(&p, 0x803 | ALWAYS | D(0) | A(RZ) | B(0x7f), 0); /* P2R R0, PR, RZ, 0x7f */
	store(&p, 0, 0);
	run(&p);
	assert_int_equal(memory[0], 3);
}

/* Instructions without an effect here, and KILL, which ends the thread. */
static void ends(void **state)
{
	struct program p = begin();

	(void)state;
	memory[1] = 5;
	add(&p, 0x38f | ALWAYS | A(2), 0); /* CCTL */
	add(&p, 0x956 | ALWAYS, 0);        /* BMOV */
	store(&p, 0, 6);
	add(&p, 0x95b | ALWAYS, HIGH(87, 7));
	store(&p, 1, 6);
	run(&p);
	assert_int_equal(memory[0], 12);
	assert_int_equal(memory[1], 5);
}

/* BPT.TRAP */
static void traps(void **state)
{
	struct program p = begin();

	(void)state;
	add(&p, 0x000000040000795c, 0x00300000);
	assert_int_equal(run_to_end(&p), PTX_FAULT_TRAP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uniform),         cmocka_unit_test(uniform_tables),
		cmocka_unit_test(to_uniform),      cmocka_unit_test(local_memory),
		cmocka_unit_test(atomics),         cmocka_unit_test(counts),
		cmocka_unit_test(predicates),      cmocka_unit_test(ends),
		cmocka_unit_test(traps),           cmocka_unit_test(copies_with_uniform),
		cmocka_unit_test(votes_of_a_part), cmocka_unit_test(votes_behind_guard),
		cmocka_unit_test(atomics_of_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

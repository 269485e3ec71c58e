/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX of single instructions that NVIDIA's assembler makes of no PTX of the other tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/sass-callee.h"
#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"

/* The caller frees it. */
static char *text_of(const void *cubin, size_t bytes)
{
	char error[300], *text = NULL;
	size_t length;

	if (vcuda_sass_to_ptx(cubin, bytes, NULL, &text, &length, error, sizeof(error)))
		fail_msg("%s", error);
	return text;
}

/* The PTX of the instruction, with EXIT behind it. */
static char *lifted(uint64_t low, uint64_t high)
{
	struct sass_sample s = sass_sample();

	s.text[2] = s.text[0];
	s.text[3] = s.text[1];
	s.text[0] = low;
	s.text[1] = high;
	return text_of(&s, sizeof(s));
}

/* UPLOP3.LUT UP0, UPT, UPT, UPT, UPT, 0x80, 0x0, as ptxas 13.5 makes it for sm_80, and with bit 91. */
static void uniform_tables(void **state)
{
	static const uint64_t high[] = {0x000fc60003f0f070, 0x000fc6000bf0f070};

	(void)state;
	for (int n = 0; n < 2; n++) {
		char *text = lifted(0x000000000000789c, high[n]);

		assert_non_null(strstr(text, "mov.pred %up0_0, "));
		assert_null(strstr(text, "mov.pred %p0_0, "));
		free(text);
	}
}

/* PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0 */
static void tables(void **state)
{
	char *text = lifted(0x000000000000781c, 0x000fc60003f0f070);

	(void)state;
	assert_non_null(strstr(text, "mov.pred %p0_0, "));
	assert_null(strstr(text, "%up0"));
	free(text);
}

/* BRXU UR14 -0x35a0, of a kernel without jump tables; the same without the bit of uniform registers. */
static void uniform_jump(void **state)
{
	char *text = lifted(0xffffca600e007958, 0x000fea000b83ffff);

	(void)state;
	assert_null(strstr(text, "vcuda_unsupported"));
	assert_non_null(strstr(text, "\ttrap;\n"));
	free(text);
	text = lifted(0xffffca600e007958, 0x000fea000383ffff);
	assert_non_null(strstr(text, "vcuda_unsupported BRXU 000fea000383ffffffffca600e007958 at 0"));
	free(text);
}

/* WARPSYNC P2, R9, and without the predicate. */
static void predicated_warpsync(void **state)
{
	char *text = lifted(0x0000000900007348, 0x000fe80001000000);

	(void)state;
	assert_non_null(strstr(text, "vcuda_unsupported WARPSYNC"));
	free(text);
	text = lifted(0x0000000900007348, 0x000fe80003800000);
	assert_non_null(strstr(text, "bar.warp.sync %r9_0;"));
	free(text);
}

/* TEX, TXD, TLD, TXQ and TLD4, whose results the next accesses need or not (NODEP). */
static void independent_accesses(void **state)
{
	static const uint64_t accesses[][2] = {
		{0xe800000204027361, 0x004f4200019e09ff}, {0xe0005a0004047b60, 0x000f4200019e09ff},
		{0xa80000080404736d, 0x004f4200001e0f06}, {0xa0005a0804047b6c, 0x000f4200001e0f06},
		{0xb800000608087367, 0x004f4200009e2f0a}, {0xb0005a0004047b66, 0x000f4200009e2f06},
		{0x0800000006087370, 0x004f4200000004ff}, {0x00005a0004047b6f, 0x000f4200000004ff},
		{0x3800000206087364, 0x004f4200019e0f0a}, {0x30005a0504047b63, 0x000f4200019e0f06}};

	(void)state;
	for (unsigned int n = 0; n < sizeof(accesses) / sizeof(accesses[0]); n++) {
		char *text = lifted(accesses[n][0], accesses[n][1]),
		     *without = lifted(accesses[n][0], accesses[n][1] | UINT64_C(1) << 26);

		assert_string_equal(text, without);
		free(without);
		free(text);
	}
}

/* BAR.SYNC 3, R4; BAR.ARV 15, R86 */
static void barriers_of_some_threads(void **state)
{
	char *text = lifted(0x00c000040000791d, 0x004fec0000000000);

	(void)state;
	assert_non_null(strstr(text, "bar.sync 3, %r4_0;"));
	free(text);
	text = lifted(0x03c000560000091d | 7 << 12, 0x0005ec0000002000);
	assert_non_null(strstr(text, "bar.arrive 15, %r86_0;"));
	free(text);
}

/* BAR.SYNC R4, R4, which has the barrier in its lower half and the threads in its upper one; BAR.SYNC R4, 64 */
static void barriers_by_register(void **state)
{
	char *text = lifted(0x000000040000731d, 0x000fec0000000000);

	(void)state;
	assert_non_null(strstr(text, "and.b32 %t0, %r4_0, 0xffff;"));
	assert_non_null(strstr(text, "bfe.u32 %t1, %r4_0, 16, 12;"));
	assert_non_null(strstr(text, "bar.sync %t0, %t1;"));
	free(text);
	text = lifted(0x000100040000751d, 0x004fec0000000000);
	assert_non_null(strstr(text, "bar.sync %r4_0, 64;"));
	free(text);
}

/* FMUL.D2 R0, R2, R3 and FMUL.M8.FTZ.SAT R0, R2, R3: rounded once. */
static void scaled_products(void **state)
{
	char *text = lifted(0x0000000302007220, 0x004fca0000300000);

	(void)state;
	assert_non_null(strstr(text, ", 0d3fe0000000000000;"));
	assert_non_null(strstr(text, "cvt.rn.f32.f64 "));
	free(text);
	text = lifted(0x0000000302007220, 0x004fca0000712000);
	assert_non_null(strstr(text, ", 0d4020000000000000;"));
	assert_non_null(strstr(text, "cvt.rn.ftz.sat.f32.f64 "));
	free(text);
}

/* UP2UR UR15, UPR, URZ, 0x4 */
static void uniform_predicates(void **state)
{
	char *text = lifted(0x000000043f0f7883, 0x000fe20008000000);

	(void)state;
	assert_non_null(strstr(text, "0x4, 0, %up2_0;"));
	assert_non_null(strstr(text, "%u15_0, "));
	free(text);
}

/* DMMA.884 R4, -R38, |R42|, -R4 */
static void signs_of_matrices(void **state)
{
	char *text = lifted(0x4000002a2604723f, 0x060f620000000904);

	(void)state;
	assert_non_null(strstr(text, "mov.b64 %d2, {%r38_0, %r39_0};\n\tneg.f64 %d3, %d2;"));
	assert_non_null(strstr(text, "mov.b64 %d4, {%r42_0, %r43_0};\n\tabs.f64 %d5, %d4;"));
	assert_non_null(strstr(text, "{%d3}, {%d5}, {%d7, %d9};"));
	free(text);
}

/* Products of matrices, with and without metadata. */
static void products(void **state)
{
	static const struct {
		uint64_t low, high;
		const char *part;
	} samples[] = {
		{0x0000000804047237, 0x000ff6000078540c, "\tmma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {"},
		{0x0004028c8804723c, 0x042fe20000005a04, "\tmma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {"},
		{0x0004024c4804723c, 0x044fe20000081a04, "\tmma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {"},
		{0x000008908c047237, 0x042fe20000645504,
		 "\tmma.sp.sync.aligned.m16n8k64.row.col.satfinite.s32.s8.s8.s32 {"},
		{0x000002080404723c, 0x000ff6000000180c, "vcuda_unsupported HMMA with metadata at 0"},
		{0x0001000804047237, 0x000ff6000078540c, "vcuda_unsupported IMMA with metadata at 0"},
		{0x000000080404723c, 0x000ff6000000120c, "vcuda_unsupported HMMA of a shape at 0"},
		{0x000000080404723c, 0x000ff6000008520c, "vcuda_unsupported HMMA of a shape at 0"},
		{0x0000000804047237, 0x000ff6000040550c, "vcuda_unsupported IMMA of a shape at 0"},
		{0x0000000804047237, 0x000ff60000585d0c, "vcuda_unsupported IMMA of a shape at 0"},
		{0x0000000804047237, 0x000ff6000060540c, "vcuda_unsupported IMMA of a shape at 0"},
	};

	(void)state;
	for (size_t n = 0; n < sizeof(samples) / sizeof(samples[0]); n++) {
		char *text = lifted(samples[n].low, samples[n].high);

		if (!strstr(text, samples[n].part))
			fail_msg("`%s` is not in the text: %s", samples[n].part, text);
		free(text);
	}
}

/* ---- addresses of shared memory ---- */

/* A cubin whose kernel has more instructions. */
struct long_sample {
	struct sass_sample sample;
	uint64_t text[2 * 6];
};

#define NO_GUARD (UINT64_C(7) << 12)
#define OF_32_BITS (UINT64_C(4) << 9)
#define WITH_UNIFORM (UINT64_C(1) << 27)

/* LDS Rd, [Ra+URu+offset] */
static void add_load(uint64_t *text, unsigned int d, unsigned int a, unsigned int u, unsigned int offset)
{
	text[0] = 0x984 | NO_GUARD | (uint64_t)d << 16 | (uint64_t)a << 24 | (uint64_t)u << 32 | (uint64_t)offset << 40;
	text[1] = OF_32_BITS | WITH_UNIFORM;
}

/* MOV Rd, 8; UMOV URd, 8 */
static void add_number(uint64_t *text, bool uniform, unsigned int d)
{
	text[0] = (uniform ? 0x882 : 0x802) | NO_GUARD | (uint64_t)d << 16 | UINT64_C(8) << 32;
	text[1] = uniform ? 0 : 15 << 8;
}

/* How often the sum with the base of shared memory is computed for two loads, with `between` between them. */
static unsigned int sums(const uint64_t *between)
{
	struct long_sample s = {.sample = sass_sample()};
	char error[300], *text;
	const char *at;
	unsigned int count = 0;
	size_t length;

	add_load(s.text, 4, 2, 4, 0);
	memcpy(s.text + 2, between, 16);
	add_load(s.text + 4, 5, 2, 4, 16);
	memcpy(s.text + 6, s.sample.text, 32);
	s.sample.sections[SAMPLE_TEXT].sh_offset = offsetof(struct long_sample, text);
	s.sample.sections[SAMPLE_TEXT].sh_size = 10 * sizeof(uint64_t);
	s.sample.symbols[SAMPLE_KERNEL].st_size = 10 * sizeof(uint64_t);
	if (vcuda_sass_to_ptx(&s, sizeof(s), NULL, &text, &length, error, sizeof(error)))
		fail_msg("%s", error);
	for (at = text; (at = strstr(at, ", %shared, ")); at++)
		count++;
	free(text);
	return count;
}

/* The loads have one address unless a register of the address is written between them. */
static void kept_addresses(void **state)
{
	uint64_t between[2];

	(void)state;
	add_number(between, false, 6);
	assert_int_equal(sums(between), 1);
	add_number(between, true, 6);
	assert_int_equal(sums(between), 1);
	add_number(between, false, 2);
	assert_int_equal(sums(between), 2);
	add_number(between, true, 4);
	assert_int_equal(sums(between), 2);
	/* a load into the register of its own address */
	add_load(between, 2, 2, 4, 32);
	assert_int_equal(sums(between), 2);
}

/* ---- a grid that waits for itself ---- */

/* This instruction first, and parameters where the architecture has them. `external`: a function that is not there. */
static char *text_with(unsigned int architecture, uint64_t low, uint64_t high, const char *external)
{
	struct {
		struct sass_sample sample;
		char strings[sizeof(SAMPLE_SYMBOL_NAMES) + 60];
	} s = {.sample = sass_sample()};

	s.sample.text[2] = s.sample.text[0];
	s.sample.text[3] = s.sample.text[1];
	s.sample.text[0] = low;
	s.sample.text[1] = high;
	s.sample.head.e_flags = architecture << 8;
	if (architecture == 90)
		s.sample.kernel_info[2] = 0x210 | 16u << 16;
	/* bank 4 has the address of this function in place of vprintf() */
	memcpy(s.strings, SAMPLE_SYMBOL_NAMES, sizeof(SAMPLE_SYMBOL_NAMES));
	strcpy(s.strings + sizeof(SAMPLE_SYMBOL_NAMES), external);
	s.sample.symbols[SAMPLE_PRINT].st_name = sizeof(SAMPLE_SYMBOL_NAMES);
	s.sample.sections[SAMPLE_STRINGS].sh_offset = offsetof(typeof(s), strings);
	s.sample.sections[SAMPLE_STRINGS].sh_size = sizeof(s.strings);
	return text_of(&s, sizeof(s));
}

static void constant(unsigned int architecture, unsigned int offset, const char *expected)
{
	/* MOV R7, c[0x0][offset] */
	char *text = text_with(architecture, 0x0000000000077a02 | (uint64_t)offset << 38, 0xf00, "vprintf");

	if (!strstr(text, expected))
		fail_msg("sm_%u, 0x%x: `%s` is not in the text: %s", architecture, offset, expected, text);
	free(text);
}

/* The driver's registers in bank 0. Only those of the workspace of a cooperative launch are known. */
static void environment(void **state)
{
	(void)state;
	for (unsigned int architecture = 75; architecture <= 86; architecture += 11) {
		constant(architecture, 0x8c, ", %envreg1;");
		constant(architecture, 0x90, ", %envreg2;");
		constant(architecture, 0x88, "vcuda_unsupported MOV with constant c[0][0x88] at 0");
		constant(architecture, 0x94, "vcuda_unsupported MOV with constant c[0][0x94] at 0");
		constant(architecture, 0x48, "vcuda_unsupported MOV with constant c[0][0x48] at 0");
	}
	constant(90, 0x44, ", %envreg1;");
	constant(90, 0x48, ", %envreg2;");
	constant(90, 0x40, "vcuda_unsupported MOV with constant c[0][0x40] at 0");
	constant(90, 0x4c, "vcuda_unsupported MOV with constant c[0][0x4c] at 0");
	constant(90, 0x8c, "vcuda_unsupported MOV with constant c[0][0x8c] at 0");
}

/* The number of a word of bank 4, of which the last word has an address; LDC.64 R8, c[0x4][R4]. */
static void numbers(void **state)
{
	struct sass_sample s = sass_sample();
	static const struct {
		uint64_t low, high;
		const char *expected;
	} loads[] = {
		{0x0100000000077a02, 0xf00, "0x8877665544332211;"}, /* MOV R7, c[0x4][0x0] */
		{0x0100010000077a02, 0xf00, "0x8877665544332211;"}, /* MOV R7, c[0x4][0x4] */
		{0x0100020000077a02, 0xf00, "0x7f000008;"}, /* MOV R7, c[0x4][0x8] */
		{0x0100040000077a02, 0xf00, "vcuda_unsupported MOV with constant c[4][0x10]"}, /* behind the bank */
		{0x0100000004087b82, 0xa00, "selp.b64 %d2, 0x8877665544332211, %d1, "},
	};

	(void)state;
	s.bank4[0] = 0x8877665544332211;
	s.sections[SAMPLE_BANK4_REL].sh_size = sizeof(s.bank4_rel[0]);
	for (size_t n = 0; n < sizeof(loads) / sizeof(loads[0]); n++) {
		char *text;

		s.text[0] = loads[n].low;
		s.text[1] = loads[n].high;
		text = text_of(&s, sizeof(s));
		if (!strstr(text, loads[n].expected))
			fail_msg("`%s` is not in the text: %s", loads[n].expected, text);
		free(text);
	}
}

/* LEPC R10, of sm_80; LEPC R20 of an instruction behind the next one, of sm_90. Both have the number of the section. */
static void addresses_of_code(void **state)
{
	char *text = text_with(80, 0x00000000000a734e, 0x000fe20000000000, "vprintf");

	(void)state;
	assert_non_null(strstr(text, "0x8000000600000000;"));
	free(text);
	text = text_with(90, 0x000000001014794e, 0x000fce0000000000, "vprintf");
	assert_non_null(strstr(text, "0x8000000600000020;"));
	free(text);
}

/* The address of bank 0 or, for sm_90, of the parameters in it. */
static void parameters(void **state)
{
	struct sass_sample s = sass_sample();
	char *text;

	(void)state;
	constant(80, 0x40, "\tmov.b64 %d0, $vcuda_p0;\n\tcvta.param.u64 %d1, %d0;\n\tsub.u64 %d2, %d1, 352;\n");
	constant(80, 0x44, "\tsub.u64 %d2, %d1, 352;\n");
	constant(90, 0x198, "\tmov.b64 %d0, $vcuda_p0;\n\tcvta.param.u64 %d1, %d0;\n\tsub.u64 %d2, %d1, 0;\n");
	constant(90, 0x19c, "\tsub.u64 %d2, %d1, 0;\n");
	/* both parameters become attributes that are not known */
	s.kernel_info[4] = s.kernel_info[8] = SAMPLE_SIZED(0x7e, 12);
	s.text[2] = s.text[0];
	s.text[3] = s.text[1];
	s.text[0] = 0x0000100000077a02;
	s.text[1] = 0xf00;
	text = text_of(&s, sizeof(s));
	if (!strstr(text, "vcuda_unsupported MOV with the address of parameters that are not there at 0"))
		fail_msg("not refused: %s", text);
	free(text);
}

static void calls(const char *function, const char *first, const char *second)
{
	/* CALL.ABS.NOINC R2 */
	char *text = text_with(80, 0x0000000002007343, 0x03c00000, function);

	if (!strstr(text, first) || !strstr(text, second))
		fail_msg("`%s` or `%s` is not in the text: %s", first, second, text);
	free(text);
}

/* Functions of the device runtime are declared, and get their arguments of the registers from R4 on. */
static void device_runtime(void **state)
{
	(void)state;
	calls("__cuda_syscall_CGS_get_intrinsic_handle",
	      "\n.extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 a);\n",
	      "), __cuda_syscall_CGS_get_intrinsic_handle, (");
	calls("__cuda_syscall_CGS_sync",
	      "\n.extern .func (.param .b32 r) __cuda_syscall_CGS_sync(.param .b64 a, .param .b32 b);\n",
	      "_1], %r6_0;\n");
	/* of a group of several grids */
	calls("__cuda_syscall_CGS_get_size", "vcuda_unsupported CALL.ABS of __cuda_syscall_CGS_get_size at 0",
	      ".entry k(");
}

/* ---- time ---- */

#define MANY 60000u

/* An instruction with a target: the opcode, with `low` and `high` bits, at the nth place. */
static void add_jump(uint64_t *text, unsigned int n, unsigned int to, uint64_t low, uint64_t high)
{
	int64_t words = ((int64_t)to - n - 1) * 4;

	text[2 * n] = low | NO_GUARD | (uint64_t)words << 34;
	text[2 * n + 1] = high | UINT64_C(7) << 23 | ((uint64_t)words >> 30 & 0x3ffff);
}

/*
 * BRA.CONV over all that follows, calls of what is behind them, and additions there: what jumps over a call, and what
 * the call leads to, is found without a search for each of them.
 */
static void many_calls(void **state)
{
	size_t bytes = sizeof(struct sass_sample) + 16ul * (MANY + 2), length;
	struct sass_sample *s = calloc(1, bytes);
	uint64_t *code = (uint64_t *)(s + 1);
	char error[300], *text = NULL;

	(void)state;
	assert_non_null(s);
	*s = sass_sample();
	for (unsigned int n = 0; n < MANY; n++) {
		if (n < MANY / 3) {
			add_jump(code, n, MANY, 0x947 | UINT64_C(3) << 32, UINT64_C(1) << 27);
		} else if (n < MANY / 3 * 2) {
			add_jump(code, n, MANY / 3 * 2, 0x944, 0);
		} else { /* FADD R4, R4, R4 */
			code[2 * n] = 0x0000000404047221;
			code[2 * n + 1] = 0;
		}
	}
	memcpy(code + 2ul * MANY, s->text, 32);
	s->sections[SAMPLE_TEXT].sh_offset = sizeof(*s);
	s->sections[SAMPLE_TEXT].sh_size = 16ul * (MANY + 2);
	s->symbols[SAMPLE_KERNEL].st_size = 16ul * (MANY + 2);
	vcuda_sass_to_ptx(s, bytes, NULL, &text, &length, error, sizeof(error));
	free(text);
	free(s);
}

/* Loads of shared memory and jumps that go back 126 instructions: searches of the loops end. Behind them: no form. */
static void many_loops(void **state)
{
	const unsigned int count = (1u << 20) - 2;
	size_t bytes = sizeof(struct sass_sample) + 16ul * count, length;
	struct sass_sample *s = calloc(1, bytes);
	uint64_t *code = (uint64_t *)(s + 1);
	char error[300], *text = NULL;
	clock_t start = clock();

	(void)state;
	assert_non_null(s);
	*s = sass_sample();
	for (unsigned int n = 0; n < count - 1; n++) {
		if (n % 100 == 5) { /* LDS R4, [RZ] */
			code[2 * n] = 0x00000000ff047984;
			code[2 * n + 1] = 0x800;
		} else {
			add_jump(code, n, n > 126 ? n - 126 : 0, 0x947, 0);
		}
	}
	code[2ul * count - 1] = ~0ul;
	s->sections[SAMPLE_TEXT].sh_offset = sizeof(*s);
	s->sections[SAMPLE_TEXT].sh_size = s->symbols[SAMPLE_KERNEL].st_size = 16ul * count;
	vcuda_sass_to_ptx(s, bytes, NULL, &text, &length, error, sizeof(error));
	assert_true(clock() - start < 15 * CLOCKS_PER_SEC);
	free(text);
	free(s);
}

/* Loads at an index of bank 4, which has many numbers: each load is compared with all of them. */
static void many_numbers(void **state)
{
	enum { LOADS = 4000, NUMBERS = 1 << 13 };
	struct {
		struct sass_sample sample;
		uint64_t code[2 * LOADS + 4], numbers[NUMBERS];
	} *s = calloc(1, sizeof(*s));
	char error[300], *text = NULL;
	clock_t start = clock();
	size_t length;

	(void)state;
	assert_non_null(s);
	s->sample = sass_sample();
	for (unsigned int n = 0; n < LOADS; n++) { /* LDC.64 R4, c[0x4][R4] */
		s->code[2 * n] = 0x0100000004047b82;
		s->code[2 * n + 1] = 0xa00;
	}
	memcpy(s->code + 2 * LOADS, s->sample.text, 32);
	for (unsigned int n = 0; n < NUMBERS; n++)
		s->numbers[n] = n + 1;
	s->sample.sections[SAMPLE_TEXT].sh_offset = offsetof(__typeof__(*s), code);
	s->sample.sections[SAMPLE_TEXT].sh_size = s->sample.symbols[SAMPLE_KERNEL].st_size = sizeof(s->code);
	s->sample.sections[SAMPLE_BANK4].sh_offset = offsetof(__typeof__(*s), numbers);
	s->sample.sections[SAMPLE_BANK4].sh_size = sizeof(s->numbers);
	s->sample.sections[SAMPLE_BANK4_REL].sh_size = 0;
	vcuda_sass_to_ptx(s, sizeof(*s), NULL, &text, &length, error, sizeof(error));
	if (text && !strstr(text, "vcuda_unsupported LDC in a kernel with too many jumps through registers"))
		fail_msg("%.2000s", text);
	assert_true(clock() - start < 15 * CLOCKS_PER_SEC);
	free(text);
	free(s);
}

/* The PTX of some instructions with EXIT behind them, from `from` on. The caller frees it. */
static char *lifted_from(const uint64_t *code, size_t words, const char *from)
{
	struct {
		struct sass_sample sample;
		uint64_t text[16];
	} s = {.sample = sass_sample()};
	size_t bytes = (words + 4) * sizeof(*code);
	char *text;
	size_t at;

	assert_true(bytes <= sizeof(s.text));
	memcpy(s.text, code, words * sizeof(*code));
	memcpy(s.text + words, s.sample.text, sizeof(s.sample.text));
	s.sample.sections[SAMPLE_TEXT].sh_offset = offsetof(__typeof__(s), text);
	s.sample.sections[SAMPLE_TEXT].sh_size = s.sample.symbols[SAMPLE_KERNEL].st_size = bytes;
	text = text_of(&s, sizeof(s));
	assert_non_null(strstr(text, from));
	at = (size_t)(strstr(text, from) - text);
	memmove(text, text + at, strlen(text + at) + 1);
	return text;
}

#define MATCH_ANY 0x00000000030473a1, 0x000ea400000e8000 /* R4, of R3 */
#define VOTE_PT 0x0000000000047886, 0x000fe200038e0100   /* UR4 */
#define UFLO 0x00000004000472bd, 0x000fe200080e0000      /* UR4, of UR4 */
#define REDUX_SUM 0x000000000a0673c4, 0x000e24000000c000 /* UR6, of R10 */
#define EXCLUSIVE 0x0000000300007348, 0x000fea0003c00000 /* WARPSYNC.EXCLUSIVE R3 */
#define WARPSYNC 0x0000000300007348, 0x000fea0003800000  /* R3 */
#define BSYNC 0x0000000000007941, 0x000fea0003800000

/* The PTX behind `from` has the statements `lanes`. */
static void has_lanes(const uint64_t *code, size_t words, const char *from, const char *lanes)
{
	char *text = lifted_from(code, words, from);

	if (!strstr(text, lanes))
		fail_msg("no `%s` in %s", lanes, text);
	free(text);
}

#define HAS_LANES(from, lanes, ...)                                                                                    \
	has_lanes((const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), from, lanes)

/* Behind WARPSYNC other lanes may be here as well, and not between WARPSYNC.EXCLUSIVE and BSYNC. */
static void lanes_of_operations(void **state)
{
	(void)state;
	HAS_LANES("// 0\n", "mov.b32 %t0, 0xffffffff;\n\tmatch.any.sync.b32 %t1, %r3_0, %t0;", MATCH_ANY);
	HAS_LANES("// 10\n", "match.any.sync.b32 %t1, %r3_0, %t0;", EXCLUSIVE, MATCH_ANY);
	HAS_LANES("// 20\n", "mov.b32 %t1, 0xffffffff;\n\tmatch.any.sync.b32 %t2, %r3_0, %t1;", EXCLUSIVE, BSYNC,
		  MATCH_ANY);
	HAS_LANES("// 0\n",
		  "activemask.b32 %t0;\n\tor.b32 %t1, %r3_0, %t0;\n\t// 10\n\tmatch.any.sync.b32 %t2, %r3_0, %t1;",
		  WARPSYNC, MATCH_ANY);
}

/* An atomic that the compiler does once for all lanes that are here: VOTE and REDUX have the same lanes. */
static void lanes_of_atomics(void **state)
{
	(void)state;
	HAS_LANES("// 10\n", "mov.b32 %t2, 0xffffffff;\n\tredux.sync.add.u32 %t3, %r10_0, %t2;", MATCH_ANY, REDUX_SUM);
	HAS_LANES("// 10\n", "activemask.b32 %t2;\n\tredux.sync.add.u32 %t3, %r10_0, %t2;", VOTE_PT, REDUX_SUM, UFLO);
	HAS_LANES("// 0\n", "activemask.b32 %t0;\n\tredux.sync.add.u32 %t1, %r10_0, %t0;", REDUX_SUM, VOTE_PT, UFLO);
	HAS_LANES("// 10\n", "vote.sync.ballot.b32 %t1, %pt, %t0;", EXCLUSIVE, VOTE_PT, UFLO);
	/* a vote for other purposes */
	HAS_LANES("// 0\n", "mov.b32 %t0, 0xffffffff;\n\tredux.sync.add.u32 %t1, %r10_0, %t0;", REDUX_SUM, VOTE_PT);
}

#define REDUX_OR(r) 0x00000000000673c4 | (uint64_t)(r) << 24, 0x000e260000004000 /* UR6, of Rr */
#define BRA_DIV 0x000000020600c947, 0x001fea000b800000                           /* @!P4 BRA.DIV UR6, to the next one */

/*
 * MATCH for the program has all lanes, also where its result is the mask of the next operation. MATCH that compares the
 * masks of lanes has those that are here.
 */
static void lanes_of_questions(void **state)
{
	(void)state;
	HAS_LANES("// 0\n", "mov.b32 %t0, 0xffffffff;\n\tmatch.any.sync.b32 %t1, %r3_0, %t0;", MATCH_ANY, REDUX_OR(4),
		  BRA_DIV);
	HAS_LANES("// 0\n", "activemask.b32 %t0;\n\tmatch.any.sync.b32 %t1, %r3_0, %t0;", MATCH_ANY, REDUX_OR(3),
		  BRA_DIV);
	/* a mask without the lanes that are here */
	HAS_LANES("// 10\n",
		  "\tnot.b32 %t5, %members;\n\tand.b32 %t6, %t4, %t5;\n\tsetp.ne.u32 %q3, %t6, 0;\n\t@%q3 bra ",
		  REDUX_OR(3), BRA_DIV);
}

/* MOV R4, c[0x0][0x120], the address of the reserved shared memory, which is the kernel's: not in a function's code. */
static void reserved_memory_of_functions(void **state)
{
	struct sass_sample s = sass_sample();
	char name[64], error[300], *text = NULL;
	size_t length;

	(void)state;
	s.text[2] = s.text[0];
	s.text[3] = s.text[1];
	s.text[0] = 0x0000480000047a02;
	s.text[1] = 0xf00;
	text = text_of(&s, sizeof(s));
	assert_non_null(strstr(text, "$vcuda_reserved["));
	free(text);
	s.symbols[SAMPLE_KERNEL].st_other = 0;
	assert_true(vcuda_sass_callee(vcuda_sass_address(SAMPLE_TEXT, 0), name, sizeof(name)));
	assert_int_not_equal(vcuda_sass_to_ptx(&s, sizeof(s), name, &text, &length, error, sizeof(error)), 0);
	assert_non_null(strstr(error, "MOV of reserved shared memory in a function that is called by its address at 0"));
}

/* ATOMS.ADD of R31, without and with a result: only the latter may wait for other threads. */
static void atomics_without_result(void **state)
{
	char *text = lifted(0x0004001fffff738c, 0x0003e20000000000);

	(void)state;
	assert_non_null(strstr(text, "\tred.relaxed.cta.shared.add.u32 ["));
	assert_null(strstr(text, "\tatom."));
	free(text);
	text = lifted(0x0004001fff04738c, 0x0003e20000000000);
	assert_non_null(strstr(text, "\tatom.relaxed.cta.shared.add.u32 "));
	free(text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(uniform_tables),
		cmocka_unit_test(tables),
		cmocka_unit_test(independent_accesses),
		cmocka_unit_test(barriers_of_some_threads),
		cmocka_unit_test(barriers_by_register),
		cmocka_unit_test(predicated_warpsync),
		cmocka_unit_test(scaled_products),
		cmocka_unit_test(uniform_predicates),
		cmocka_unit_test(signs_of_matrices),
		cmocka_unit_test(uniform_jump),
		cmocka_unit_test(kept_addresses),
		cmocka_unit_test(environment),
		cmocka_unit_test(parameters),
		cmocka_unit_test(numbers),
		cmocka_unit_test(addresses_of_code),
		cmocka_unit_test(device_runtime),
		cmocka_unit_test(many_calls),
		cmocka_unit_test(many_loops),
		cmocka_unit_test(many_numbers),
		cmocka_unit_test(lanes_of_operations),
		cmocka_unit_test(lanes_of_atomics),
		cmocka_unit_test(lanes_of_questions),
		cmocka_unit_test(atomics_without_result),
		cmocka_unit_test(reserved_memory_of_functions),
		cmocka_unit_test(products),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

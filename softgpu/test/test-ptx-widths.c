/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers an instruction takes: what ptxas refuses is refused with both types named, and registers that are
 * larger than the type, where that is allowed, hold what the PTX ISA says.
 */
#include "softgpu/test/harness.h"

#define KERNEL                                                                                                         \
	".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .align 16 .b8 p[64])\n{\n"          \
	".reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %l<9>; .reg .b128 %q<9>;"       \
	".reg .u16 %uh<9>; .reg .u32 %u<9>; .reg .s64 %sl<9>; .reg .f16 %e<9>; .reg .f16x2 %ee<9>; .reg .f32 %f<9>;"   \
	".reg .f64 %d<9>; .reg .v2 .f32 %v<9>; .shared .align 16 .b8 area[64];\n"
#define LINE 8

static enum ptx_status compile(const char *instruction, struct ptx_error *error)
{
	struct ptx_module *module;
	char text[4096];
	enum ptx_status status;

	snprintf(text, sizeof(text), "%s\n%s\nret;\n}\n", KERNEL, instruction);
	status = ptx_module_create(text, strlen(text), &module, error);
	ptx_module_destroy(module);
	return status;
}

/* The instruction, and a part of the message. */
static const char *const refused[][2] = {
	/* sizes */
	{"add.s32 %l1, %r2, %r3;", "`add.s32`: operand 1 is a .b64 register, which does not agree with .s32"},
	{"add.s32 %r1, %h2, %r3;", "operand 2 is a .b16 register, which does not agree with .s32"},
	{"add.s64 %r1, %l2, %l3;", "operand 1 is a .b32"},
	{"add.u64 %l1, %l2, %r3;", "operand 3 is a .b32"},
	{"sub.s16 %h1, %r2, %h3;", "operand 2 is a .b32"},
	{"mul.wide.s32 %l4, %h1, 4;", "operand 2 is a .b16"},
	{"mul.wide.s32 %l4, %l6, 4;", "operand 2 is a .b64"},
	{"mul.wide.s32 %r4, %r6, 4;", "operand 1 is a .b32 register, which does not agree with .s64"},
	{"mul.wide.u16 %l4, %h6, 4;", "operand 1 is a .b64 register, which does not agree with .u32"},
	{"mad.wide.u32 %l4, %r6, 4, %r5;", "operand 4 is a .b32 register, which does not agree with .u64"},
	{"shl.b64 %l1, %l2, %l3;", "operand 3 is a .b64 register, which does not agree with .u32"},
	{"shr.s64 %l1, %r2, %r3;", "operand 2 is a .b32"},
	{"shf.l.wrap.b32 %r1, %r2, %r3, %l4;", "operand 4"},
	{"bfe.u64 %l1, %l2, %r3, %l4;", "operand 4 is a .b64"},
	{"bfi.b32 %r1, %r2, %r3, %h4, %r5;", "operand 4 is a .b16"},
	{"popc.b64 %l1, %l2;", "operand 1 is a .b64 register, which does not agree with .u32"},
	{"clz.b32 %r1, %l2;", "operand 2 is a .b64"},
	{"setp.lt.s32 %p1, %l2, %r3;", "operand 2 is a .b64"},
	{"selp.b64 %l1, %l2, %r3, %p1;", "operand 3 is a .b32"},
	{"mov.u32 %r1, %l2;", "operand 2 is a .b64"},
	{"mov.b64 %l1, {%r2, %h3};", "operand 2 is 2 .b16 registers, which do not make up a .b64"},
	{"mov.b32 %r1, {%h2, %h3, %h4, %h5};", "operand 2 is 4 .b16"},
	{"mov.b64 {%r1, %l2}, %l3;", "operand 1 is 2 .b64"},
	{"lop3.b32 %r1, %r2, %h3, %r4, 0x80;", "operand 3 is a .b16"},
	{"atom.global.add.u32 %l1, [%l2], %r3;", "operand 1 is a .b64"},
	{"red.global.add.u64 [%l2], %r3;", "operand 2 is a .b32"},
	{"atom.global.cas.b64 %l1, [%l2], %l3, %r4;", "operand 4 is a .b32"},
	{"shfl.sync.idx.b32 %l1, %l2, 0, 31, -1;", "operand 1 is a .b64"},
	{"vote.sync.ballot.b32 %l1, %p2, -1;", "operand 1 is a .b64"},
	{"bar.sync %l1;", "operand 1 is a .b64 register, which does not agree with .u32"},
	{"bar.red.popc.u32 %l1, 0, %p1;", "operand 1 is a .b64"},
	{"bar.red.popc.u32 %r1, 0, %r2, %r3;", "operand 4 is a .b32 register, which does not agree with .pred"},
	{"fma.rn.f64 %d1, %d2, %f3, %d4;", "operand 3 is a .f32"},
	{"add.f16x2 %r1, %r2, %h3;", "operand 3 is a .b16"},
	{"redux.sync.add.s32 %l1, %r2, -1;", "operand 1 is a .b64"},
	{"mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %l2;", "operand 3 is a .b64"},
	{"mbarrier.try_wait.shared.b64 %p1, [%r1], %r2;", "operand 3 is a .b32"},
	{"cp.async.bulk.global.shared::cta.bulk_group [%l1], [%r1], %l2;", "operand 3 is a .b64"},
	{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%l1,%l2,%l3,%l4}, {%r1,%r2}, "
	 "{%f1,%f2,%f3,%f4};",
	 "operand 2 is a .b64"},
	{"vadd.s32.s32.s32 %r1, %l2, %r3;", "operand 2 is a .b64"},
	/* smaller than what is loaded, stored or converted; larger where only those may be */
	{"ld.global.u32 %h1, [%l2];", "operand 1 is a .b16 register, which does not agree with .u32 or larger"},
	{"ld.global.b64 %r1, [%l2];", "operand 1 is a .b32"},
	{"st.global.u16 [%l2], %c1;", "operand 2 is a .b8"},
	{"st.global.v2.u32 [%l2], {%r1, %h2};", "operand 2 is a .b16"},
	{"ld.global.v2.u8 {%r1, %h2}, [%l2];", "operand 1 is a .b16"},
	{"cvt.u64.u32 %l1, %h2;", "operand 2 is a .b16 register, which does not agree with .u32 or larger"},
	{"cvt.u32.u64 %h1, %l2;", "operand 1 is a .b16"},
	{"atom.global.exch.b128 %q1, [%l1], %l2;", "operand 3 is a .b64"},
	/* kinds */
	{"add.s32 %f1, %r2, %r3;", "operand 1 is a .f32 register, which does not agree with .s32"},
	{"add.f32 %f1, %u2, %f3;", "operand 2 is a .u32 register, which does not agree with .f32"},
	{"add.f64 %d1, %d2, %sl3;", "operand 3 is a .s64"},
	{"add.f16 %e1, %e2, %uh3;", "operand 3 is a .u16"},
	{"abs.bf16 %h1, %uh2;", "operand 2 is a .u16"},
	{"fma.rn.bf16x2 %r1, %r2, %ee3, %r4;", "operand 3 is a .f16x2"},
	{"mov.u32 %r1, %f2;", "operand 2 is a .f32"},
	{"ld.global.u32 %f1, [%l2];", "operand 1 is a .f32"},
	{"ld.global.f32 %u1, [%l2];", "operand 1 is a .u32"},
	{"ld.global.f32 %d1, [%l2];", "operand 1 is a .f64"},
	{"ld.global.u32 %r1, [%f2];", "operand 2 is a .f32 register"},
	{"ld.global.u32 %r1, [%p2];", "operand 2 is a .pred"},
	{"st.global.b32 [%l1], %p2;", "operand 2 is a .pred"},
	{"cvt.rn.f32.s32 %u1, %r2;", "operand 1 is a .u32"},
	{"cvt.rn.bf16.f32 %r1, %f2;", "operand 1 is a .b32"},
	{"selp.b32 %r1, %r2, %r3, %r4;", "operand 4 is a .b32 register, which does not agree with .pred"},
	{"setp.eq.s32 %r1, %r2, %r3;", "operand 1 is a .b32"},
	{"setp.eq.s32 %p1|%r1, %r2, %r3;", "operand 1 is a .b32"},
	{"and.b32 %r1, %p2, %r3;", "operand 2 is a .pred"},
	{"and.pred %p1, %p2, %r3;", "operand 3 is a .b32"},
	{"not.pred %ee1, %p2;", "operand 1 is a .f16x2"},
	{"match.all.sync.b32 %r1|%r2, %r3, -1;", "operand 1 is a .b32 register, which does not agree with .pred"},
	{"slct.b32.f32 %r1, %r2, %r3, %u4;", "operand 4 is a .u32 register, which does not agree with .f32"},
	{"tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%l1, {%l2}];", "operand 3 is a .b64"},
	/* numbers of operands that the name tells */
	{"cp.async.cg.shared.global.L2::cache_hint [%r1], [%l1], 16;", "cannot have 3 operands"},
};

/* Instructions that ptxas accepts, and that a strict check would refuse. */
static const char *const taken[] = {
	"add.s32 %u1, %ee2, %r3;",
	"abs.f32 %r1, %f2;",
	"and.b32 %f1, %u2, %ee3;",
	"mov.b32 %f1, %u2;",
	"mov.b32 %ee1, {%e2, %e3};",
	"mov.b32 {%h1, _}, %f1;",
	"mov.b128 %q1, {%r1, %r2, %r3, %r4};",
	"ld.global.v2.u8 {%h1, %h2}, [%l1];",
	"ld.global.v4.s8 {%r1, %u2, %r3, _}, [%l1];",
	"ld.global.v2.f32 {%u1, %r2}, [%l1];",
	"ld.global.v2.f32 %v1, [%l1];",
	"ld.global.b8 %f1, [%l1];",
	"ld.global.b16 %d1, [%l1+2];",
	"ld.global.u32 %r1, [%h1];",
	"ld.global.u32 %r1, [%sl1];",
	"ld.shared.u32 %r1, [%l1];",
	"st.global.u8 [%l1], %sl2;",
	"ld.global.u32 %q1, [%l1];",
	"cvt.u16.u8 %h1, %l2;",
	"cvt.rn.f16.f32 %l1, %f2;",
	"cvt.rn.f16x2.f32 %l1, %f2, %l3;",
	"cvt.rn.f16x2.e4m3x2 %r1, %h2;",
	"cvt.rn.satfinite.e2m1x2.f32 %c1, %f2, %f3;",
	"add.f32.bf16 %f1, %uh2, %f3;",
	"slct.f32.s32 %f1, %r2, %f3, %u4;",
	"set.eq.u32.f16x2 %r1, %ee2, %r3;",
	"setp.eq.f16x2 %p1|%p2, %ee2, %r3;",
	"shfl.sync.idx.b32 %f1|%p1, %f2, %r3, %r4, -1;",
	"lop3.or.b32 %r1|%p1, %r2, %r3, %r4, 0x80, %p2;",
	"bar.red.and.pred %p1, 0, 32, !%p2;",
	"atom.global.add.f32 %r1, [%l1], %f2;",
	"atom.global.exch.b32 %f1, [%l1], %u2;",
	"elect.sync _|%p1, -1;",
	"cp.async.cg.shared.global [%r1], [%l1], 16, %p1;",
	"cp.async.cg.shared.global.L2::cache_hint [%r1], [%l1], 16, %r2, %l2;",
	"cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.cp_mask [%l1], [%r1], %r2, %l2, %h1;",
	"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%l1], %r1;",
	"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%l2}, {%d3}, {%l4}, {%d1,%l2};",
	"{\n.reg.b32 a, b;\n.reg.v2.f32 c;\nadd.u32 a, a, b;\n}",
};

static void mismatches_are_refused(void **state)
{
	struct ptx_error error;

	(void)state;
	for (size_t n = 0; n < sizeof(refused) / sizeof(refused[0]); n++) {
		error.text[0] = 0;
		if (compile(refused[n][0], &error) != PTX_INVALID)
			fail_msg("`%s`: %s", refused[n][0], error.text[0] ? error.text : "was taken");
		if (error.line != LINE || !strstr(error.text, refused[n][1]))
			fail_msg("line %u: `%s` lacks `%s`", error.line, error.text, refused[n][1]);
	}
}

static void matches_are_taken(void **state)
{
	struct ptx_error error;

	(void)state;
	for (size_t n = 0; n < sizeof(taken) / sizeof(taken[0]); n++)
		if (compile(taken[n], &error) != PTX_OK)
			fail_msg("`%s`: %s", taken[n], error.text);
}

#define IN "mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\n"
#define OUT "mul.wide.u32 %l4, %r1, 8;\nadd.s64 %l6, %l1, %l4;\n"

W64(w_s8, (int64_t)(int8_t)a)
W64(w_u8, (uint8_t)a)
W64(w_s16, (int64_t)(int16_t)a)
W64(w_u16, (uint16_t)a)
W64(w_s32, (int64_t)(int32_t)a)
W64(w_u32, (uint32_t)a)
W64(w_bytes, (uint64_t)(int64_t)(int8_t)a + (uint8_t)(a >> 8))
W64(w_byte_kept, (b & ~0xffull) | (a & 0xff))
W64(w_half_kept, (b & ~0xffffull) | (a & 0xffff))
W64(w_word_kept, (b & ~0xffffffffull) | (uint32_t)a)
W64(w_pair_kept, (b & ~0xffffull) | (a & 0xff) << 8 | (b & 0xff))
W64(w_narrow, (int64_t)(int8_t)a)
W64(w_s8_of_word, (uint32_t)(int32_t)(int8_t)a)

/* Registers that are larger than what is loaded, stored or converted. */
static void larger_registers(void **state)
{
	(void)state;
	check64("ld.s8", HEAD64(IN "ld.global.s8 %x, [%l5];\n"), w_s8);
	check64("ld.u8", HEAD64(IN "ld.global.u8 %x, [%l5];\n"), w_u8);
	check64("ld.b8", HEAD64(IN "ld.global.b8 %d1, [%l5];\nmov.b64 %x, %d1;\n"), w_u8);
	check64("ld.s16", HEAD64(IN "ld.global.s16 %x, [%l5];\n"), w_s16);
	check64("ld.b16", HEAD64(IN "ld.global.b16 %x, [%l5];\n"), w_u16);
	check64("ld.s32", HEAD64(IN "ld.global.s32 %x, [%l5];\n"), w_s32);
	check64("ld.f32", HEAD64(IN "ld.global.f32 %x, [%l5];\n"), w_u32);
	check64("ld.v2.s8",
		HEAD64(IN "ld.global.v2.s8 {%x, %l7}, [%l5];\nand.b64 %l7, %l7, 255;\nadd.u64 %x, %x, %l7;\n"),
		w_bytes);
	check64("ld.s8 into 32 bits", HEAD64(IN "ld.global.s8 %r5, [%l5];\ncvt.u64.u32 %x, %r5;\n"), w_s8_of_word);
	check64("st.u8", HEAD64(OUT "st.global.u64 [%l6], %b;\nst.global.u8 [%l6], %a;\nld.global.u64 %x, [%l6];\n"),
		w_byte_kept);
	check64("st.b16", HEAD64(OUT "st.global.u64 [%l6], %b;\nst.global.b16 [%l6], %a;\nld.global.u64 %x, [%l6];\n"),
		w_half_kept);
	check64("st.f32", HEAD64(OUT "st.global.u64 [%l6], %b;\nst.global.f32 [%l6], %a;\nld.global.u64 %x, [%l6];\n"),
		w_word_kept);
	check64("st.v2.s8",
		HEAD64(OUT "st.global.u64 [%l6], %b;\nst.global.v2.s8 [%l6], {%b, %a};\nld.global.u64 %x, [%l6];\n"),
		w_pair_kept);
	check64("cvt.s64.s32", HEAD64("cvt.s64.s32 %x, %a;\n"), w_s32);
	check64("cvt.u64.u16", HEAD64("cvt.u64.u16 %x, %a;\n"), w_u16);
	check64("cvt.s64.s8", HEAD64("cvt.s64.s8 %x, %a;\n"), w_s8);
	check64("cvt.s8.s64", HEAD64("cvt.s8.s64 %x, %a;\n"), w_narrow);
	check64("cvt.u8.u64", HEAD64("cvt.u8.u64 %x, %a;\n"), w_u8);
	check64("cvt.s16.s32", HEAD64("cvt.s16.s32 %x, %a;\n"), w_s16);
	check64("cvt.u16.u32", HEAD64("cvt.u16.u32 %x, %a;\n"), w_u16);
}

/* Forms that no target of ptxas has. */
static const char *const unknown[] = {
	"add.cc.u16 %uh1, %uh2, %uh3;",
	"add.cc.sat.s32 %r1, %r2, %r3;",
	"abs.ftz.f64 %d1, %d2;",
	"add.sat.f64 %d1, %d2, %d3;",
	"add.rn.rz.f32 %f1, %f2, %f3;",
	"mul.sat.bf16 %h1, %h2, %h3;",
	"mul.s32 %r1, %r2, %r3;",
	"fma.f32 %f1, %f2, %f3, %f4;",
	"setp.lt.gt.s32 %p1, %r2, %r3;",
	"mov.f16 %e1, %e2;",
	"ld.global.f16 %e1, [%l1];",
	"selp.f16 %e1, %e2, %e3, %p1;",
	"atom.global.and.u32 %r1, [%l1], %r2;",
	"atom.global.add.s64 %l1, [%l1], %l2;",
	"redux.sync.add.b32 %r1, %r2, -1;",
	"alloca.b64 %l1, %l2;",
	"ex2.f32 %f1, %f2;",
};

static void forms_are_refused(void **state)
{
	struct ptx_module *module;
	struct ptx_error error;
	char text[4096];

	(void)state;
	for (size_t n = 0; n < sizeof(unknown) / sizeof(unknown[0]); n++) {
		snprintf(text, sizeof(text), "%s\n%s\nret;\n}\n", KERNEL, unknown[n]);
		if (ptx_module_create(text, strlen(text), &module, &error) != PTX_INVALID)
			fail_msg("`%s` was taken", unknown[n]);
	}
}

#define EIGHT(at)                                                                                                      \
	REGISTERS ".reg .b32 %w<8>;\nadd.s64 %l5, %l2, " at ";\n"                                                      \
		  "ld.global.v8.b32 {%w0, %w1, %w2, %w3, %w4, %w5, %w6, %w7}, [%l5];\nst.global.b32 [%l1], "           \
		  "%w7;\nret;\n}\n"

/* One access of 32 bytes, and aligned as such. */
static void eight_words(void **state)
{
	static _Alignas(64) uint32_t in[32], out[4];
	void *params[2] = {out, in};
	struct ptx_fault fault = {0};
	struct ptx_module *m;

	(void)state;
	map.count = 0;
	add_range(in, sizeof(in), false);
	add_range(out, sizeof(out), true);
	for (unsigned n = 0; n < 32; n++)
		in[n] = n;
	m = load(EIGHT("32"));
	assert_true(launch(m, 1, 1, 1, 0, params, &fault));
	assert_int_equal(out[0], 15);
	ptx_module_destroy(m);
	m = load(EIGHT("16"));
	assert_false(launch(m, 1, 1, 1, 0, params, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_MISALIGNED);
	assert_int_equal(fault.bytes, 32);
	assert_ptr_equal((void *)(uintptr_t)fault.address, in + 4);
	ptx_module_destroy(m);
}

/* A copy that runs out of memory says how much it was to copy. */
static void bulk_bytes(void **state)
{
	static _Alignas(64) uint32_t in[32], out[4];
	void *params[2] = {out, in};
	struct ptx_fault fault = {0};
	struct ptx_module *m = load(
		".version 9.0\n.target sm_90a\n.address_size 64\n"
		".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .b64 %l<4>;\n.reg .b32 %r<2>;\n"
		".shared .align 16 .b8 area[256];\nld.param.u64 %l1, [p_out];\nmov.u32 %r1, area;\n"
		"cp.async.bulk.global.shared::cta.bulk_group [%l1], [%r1], 208;\nret;\n}\n");

	(void)state;
	assert_false(launch(m, 1, 1, 1, 0, params, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(fault.bytes, 208);
	ptx_module_destroy(m);
}

/* A rounding instruction must name its mode, except for the first devices, which had one mode only. */
static void test_first_devices(void **state)
{
	static const char *const names[] = {"mad.f32 %f1, %f1, %f1, %f1", "div.f32 %f1, %f1, %f1", "rcp.f32 %f1, %f1",
					    "sqrt.f32 %f1, %f1", "sin.f32 %f1, %f1"};
	const uint32_t block[3] = {1, 1, 1};
	const struct ptx_binary *binary;

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		for (int old = 0; old < 2; old++) {
			struct ptx_error error = {0};
			struct ptx_module *m = NULL;
			char text[300];

			snprintf(
				text, sizeof(text),
				".version %s\n.target %s\n.entry k()\n{\n.reg .f32 %%f<2>;\nmov.f32 %%f1, 0f3F800000;\n"
				"%s;\nexit;\n}\n",
				old ? "1.4" : "7.0", old ? "sm_10" : "sm_75", names[n]);
			assert_int_equal(ptx_module_create(text, strlen(text), &m, &error),
					 old ? PTX_OK : PTX_INVALID);
			if (!old)
				continue;
			assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_OK);
			ptx_module_destroy(m);
		}
	}
}

/* Until ISA 3.1 mad.f32 alone did not, for any device: it rounds to nearest. */
static void test_old_sums(void **state)
{
	static const char head[] = "\n.target sm_20\n.address_size 64\n.entry k(.param .u64 out)\n{\n.reg .f32 %f<2>;\n.reg .b64 %l;\n"
				   "ld.param.u64 %l, [out];\nld.global.f32 %f0, [%l];\n";
	struct ptx_error error = {0};
	struct ptx_fault fault;
	struct ptx_module *m;
	char text[512];
	static _Alignas(64) float out;
	void *params[1] = {&out};

	snprintf(text, sizeof(text), ".version 3.1%smad.f32 %%f1, %%f0, %%f0, %%f0;\nst.global.f32 [%%l], %%f1;\nret;\n}\n", head);
	out = 1.0f / 3;
	map.count = 0;
	add_range(&out, sizeof(out), true);
	m = load(text);
	assert_true(launch(m, 1, 1, 1, 0, params, &fault));
	assert_true(out == fmaf(1.0f / 3, 1.0f / 3, 1.0f / 3));
	ptx_module_destroy(m);
	for (unsigned n = 0; n < 2; n++) {
		snprintf(text, sizeof(text), ".version %s%s%s %%f1, %%f0, %%f0, %%f0;\nret;\n}\n", n ? "3.1" : "3.2", head,
			 n ? "fma.f32" : "mad.f32");
		assert_int_equal(ptx_module_create(text, strlen(text), &m, &error), PTX_INVALID);
	}
}

/* A body is read as its own text says, also when it is read after a text for a later device. */
static void test_mixed_devices(void **state)
{
	static const char old[] =
		".version 1.4\n.target sm_10\n.entry a()\n{\n.reg .f32 %f<2>;\nmov.f32 %f1, 0f3F800000;\n"
		"mad.f32 %f1, %f1, %f1, %f1;\nexit;\n}\n";
	static const char later[] = ".version 7.0\n.target sm_75\n.address_size 64\n.entry b()\n{\nexit;\n}\n";
	const struct ptx_text texts[] = {{old, sizeof(old) - 1}, {later, sizeof(later) - 1}};
	const uint32_t block[3] = {1, 1, 1};
	const struct ptx_binary *binary;
	struct ptx_error error = {0};
	struct ptx_module *m = NULL;

	assert_int_equal(ptx_module_link(texts, 2, &m, &error), PTX_OK);
	assert_int_equal(ptx_kernel_prepare(ptx_module_find_kernel(m, "a"), block, &binary, &error), PTX_OK);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_devices),
		cmocka_unit_test(test_old_sums),
		cmocka_unit_test(test_mixed_devices),
		cmocka_unit_test(mismatches_are_refused),
		cmocka_unit_test(matches_are_taken),
		cmocka_unit_test(larger_registers),
		cmocka_unit_test(forms_are_refused),
		cmocka_unit_test(eight_words),
		cmocka_unit_test(bulk_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* PTX for the tests, written by hand in the dialect that compilers emit. */
#ifndef VCUDA_TEST_PTX_SAMPLES_H
#define VCUDA_TEST_PTX_SAMPLES_H

#define PTX_HEAD ".version 9.0\n.target sm_100\n.address_size 64\n"
/* With the instructions of that architecture alone. A device takes no such text for another architecture. */
#define PTX_HEAD_A ".version 9.0\n.target sm_100a\n.address_size 64\n"

static const char sample_vector_add[] = PTX_HEAD
	".visible .entry add(\n"
	"	.param .u64 add_param_0,\n	.param .u64 add_param_1,\n	.param .u64 add_param_2,\n	.param .u32 add_param_3\n)\n"
	"{\n"
	"	.reg .pred 	%p<2>;\n	.reg .f32 	%f<4>;\n	.reg .b32 	%r<6>;\n	.reg .b64 	%rd<11>;\n\n"
	"	ld.param.u64 	%rd1, [add_param_0];\n	ld.param.u64 	%rd2, [add_param_1];\n"
	"	ld.param.u64 	%rd3, [add_param_2];\n	ld.param.u32 	%r2, [add_param_3];\n"
	"	mov.u32 	%r3, %ntid.x;\n	mov.u32 	%r4, %ctaid.x;\n	mov.u32 	%r5, %tid.x;\n"
	"	mad.lo.s32 	%r1, %r3, %r4, %r5;\n	setp.ge.s32 	%p1, %r1, %r2;\n	@%p1 bra 	$L__BB0_2;\n"
	"	cvta.to.global.u64 	%rd4, %rd1;\n	mul.wide.s32 	%rd5, %r1, 4;\n	add.s64 	%rd6, %rd4, %rd5;\n"
	"	cvta.to.global.u64 	%rd7, %rd2;\n	add.s64 	%rd8, %rd7, %rd5;\n	ld.global.f32 	%f1, [%rd8];\n"
	"	ld.global.f32 	%f2, [%rd6];\n	add.f32 	%f3, %f2, %f1;\n	cvta.to.global.u64 	%rd9, %rd3;\n"
	"	add.s64 	%rd10, %rd9, %rd5;\n	st.global.f32 	[%rd10], %f3;\n\n$L__BB0_2:\n	ret;\n}\n";

/* Sums 0..n-1 over the block in shared memory with a tree of barriers; loops, divergence, a function, a local array. */
static const char sample_block_sum[] = PTX_HEAD
	".global .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};\n"
	".global .align 8 .u64 pointer = generic(table);\n"
	".func (.param .b32 r) pick(.param .b32 k)\n{\n	.reg .b32 %r<4>;\n	.reg .b64 %l<4>;\n"
	"	ld.param.u32 %r1, [k];\n	and.b32 %r1, %r1, 3;\n	mul.wide.u32 %l1, %r1, 4;\n"
	"	ld.global.u64 %l2, [pointer];\n	add.s64 %l2, %l2, %l1;\n	ld.u32 %r2, [%l2];\n"
	"	st.param.b32 [r], %r2;\n	ret;\n}\n"
	".visible .entry sum(.param .u64 out)\n{\n"
	"	.shared .align 4 .b8 s[4096];\n	.local .align 4 .b8 mine[16];\n"
	"	.reg .pred %p<4>;\n	.reg .b32 %r<20>;\n	.reg .b64 %l<8>;\n"
	"	mov.u32 %r1, %tid.x;\n	mov.u64 %l4, mine;\n	st.local.u32 [%l4+8], %r1;\n"
	"	{\n	.param .b32 a;\n	st.param.b32 [a], %r1;\n	.param .b32 v;\n	call.uni (v), pick, (a);\n"
	"	ld.param.b32 %r2, [v];\n	}\n	ld.local.u32 %r3, [%l4+8];\n	add.s32 %r2, %r2, %r3;\n"
	"	shl.b32 %r4, %r1, 2;\n	mov.u32 %r5, s;\n	add.s32 %r6, %r5, %r4;\n	st.shared.u32 [%r6], %r2;\n"
	"	mov.u32 %r7, %ntid.x;\n"
	"$loop:\n	bar.sync 0;\n	shr.u32 %r7, %r7, 1;\n	setp.eq.u32 %p1, %r7, 0;\n	@%p1 bra $done;\n"
	"	setp.ge.u32 %p2, %r1, %r7;\n	@%p2 bra $loop;\n"
	"	shl.b32 %r8, %r7, 2;\n	add.s32 %r9, %r6, %r8;\n	ld.shared.u32 %r10, [%r9];\n"
	"	ld.shared.u32 %r11, [%r6];\n	add.s32 %r12, %r10, %r11;\n	st.shared.u32 [%r6], %r12;\n	bra.uni $loop;\n"
	"$done:\n	setp.ne.u32 %p3, %r1, 0;\n	@%p3 bra $end;\n	ld.param.u64 %l1, [out];\n"
	"	cvta.to.global.u64 %l1, %l1;\n	ld.shared.u32 %r13, [s];\n	st.global.u32 [%l1], %r13;\n$end:\n	ret;\n}\n";

#endif

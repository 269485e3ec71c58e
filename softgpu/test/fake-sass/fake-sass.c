/* SPDX-License-Identifier: Apache-2.0 */
/* A libvcuda-sass.so whose texts do not come of machine code: test-backend-cpu-lifted.c and
 * test-backend-cpu-callee.c say what each is for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sass/sass.h"

#define HEAD ".version 9.0\n.target sm_80\n.address_size 64\n"
#define VARIABLES(first, second)                                                                                       \
	".visible .const .align 4 .u32 numbers[2]" first ";\n.visible .global .align 4 .u32 counter[1]" second ";\n"
#define REFUSED(name) ".visible .entry " name "(.param .u64 p) { .pragma \"vcuda_unsupported its code\"; ret; }\n"
/* Stores a register that `code` gives a value. */
#define KERNEL(name, code)                                                                                             \
	".visible .entry " name                                                                                        \
	"(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %l<4>; .reg .pred %p<2>;\nld.param.u64 %l1, [p];\n" code       \
	"\nst.global.u32 [%l1], %r1;\nret;\n}\n"

/* Local memory of the kernel `calls` and of its callees: whether a callee has returned, and its argument and result. */
#define LOCAL(words) ".local .align 4 .b32 frame[" words "];\n"
#define CALL "{ .param .b64 a; st.param.b64 [a], %l2; call " VCUDA_SASS_CALL ", (a); }\n"
#define DECLARE_CALL ".extern .func " VCUDA_SASS_CALL "(.param .b64 a);\n"
#define OWN_SHARED ".extern .shared .align 16 .b8 shared[];\n"
#define CALLEE(section, words, code)                                                                                   \
	HEAD DECLARE_CALL OWN_SHARED VARIABLES(                                                                        \
		"", "") ".visible .entry $vcuda_callee_" section "()\n{\n"                                             \
			".pragma \"vcuda_callee\";\n.reg .b32 %r<9>; .reg .b64 %l<4>; .reg .pred %p<2>;\n" LOCAL(      \
				words) "ld.local.u32 %r1, [frame+4];\nmov.u32 %r2, %tid.x;\n" code                     \
				       "st.local.u32 [frame+4], %r1;\nst.local.u32 [frame], 1;\nret;\n}\n"

static const struct {
	const char *kernel, *text;
} texts[] = {
	{VCUDA_SASS_OUTLINE, HEAD VARIABLES(" = {3, 4}", " = {10}") REFUSED("shared") REFUSED("own") REFUSED("invalid")
				     REFUSED("different") REFUSED("missing") REFUSED("refused") REFUSED("memory")
					     REFUSED("slow") REFUSED("faults") REFUSED("meets") REFUSED("calls")},
	/*
	 * Thread n of the grid calls the function at the address p[n], of 8 bytes, with its number in the block, and
	 * stores the result in the lower half.
	 */
	{"calls",
	 HEAD DECLARE_CALL OWN_SHARED VARIABLES(
		 "",
		 "") ".visible .entry calls(.param .u64 p)\n{\n"
		     ".reg .b32 %r<9>; .reg .b64 %l<9>; .reg .pred %p<2>;\n" LOCAL(
			     "8") "ld.param.u64 %l1, [p];\nmov.u32 %r2, %tid.x;\nmov.u32 %r4, %ctaid.x;\nmov.u32 %r5, "
				  "%ntid.x;\n"
				  "mad.lo.u32 %r6, %r4, %r5, %r2;\nmul.wide.u32 %l3, %r6, 8;\nadd.u64 %l1, %l1, %l3;\n"
				  "ld.global.u64 %l2, [%l1];\nst.local.u32 [frame+4], %r2;\nst.local.u32 [frame], "
				  "0;\n" CALL "ld.local.u32 %r3, [frame];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 exit;\n"
				  "ld.local.u32 %r1, [frame+4];\nst.global.u32 [%l1], %r1;\nret;\n}\n"},
	{"$vcuda_callee_1", CALLEE("1", "8", "mad.lo.u32 %r1, %r1, 2, 1;\n")},
	/* The number of the thread 32 further, behind a barrier. */
	{"$vcuda_callee_2", CALLEE("2", "8",
				   "mov.u32 %r3, shared;\nmad.lo.u32 %r4, %r2, 4, %r3;\n"
				   "st.shared.u32 [%r4], %r1;\nbar.sync 0;\nmov.u32 %r5, %ntid.x;\n"
				   "add.u32 %r6, %r2, 32;\nrem.u32 %r6, %r6, %r5;\n"
				   "mad.lo.u32 %r4, %r6, 4, %r3;\nld.shared.u32 %r1, [%r4];\n")},
	/* Odd threads exit. */
	{"$vcuda_callee_3", CALLEE("3", "8",
				   "and.b32 %r3, %r2, 1;\nsetp.eq.u32 %p1, %r3, 1;\n@%p1 exit;\n"
				   "mov.u32 %r1, 7;\n")},
	/* 3 n, by recursion. */
	{"$vcuda_callee_4", CALLEE("4", "8",
				   "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\nsub.u32 %r1, %r1, 1;\n"
				   "st.local.u32 [frame+4], %r1;\nmov.u64 %l2, 0x8000000400000000;\n" CALL
				   "ld.local.u32 %r1, [frame+4];\nadd.u32 %r1, %r1, 3;\nDONE:\n")},
	{"$vcuda_callee_6", CALLEE("6", "8", "\t// 40 sixth\ntrap;\n")},
	/* The first thread of each block adds 1 to the counter, which is 10 at first, and waits for the other blocks.
	 */
	{"$vcuda_callee_8", CALLEE("8", "8",
				   "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra DONE;\nmov.u32 %r3, %nctaid.x;\n"
				   "atom.global.add.u32 %r4, [counter], 1;\nAGAIN:\n"
				   "ld.volatile.global.u32 %r4, [counter];\nsub.u32 %r4, %r4, 10;\n"
				   "setp.lt.u32 %p1, %r4, %r3;\n@%p1 bra AGAIN;\nDONE:\nmov.u32 %r1, 8;\n")},
	{"$vcuda_callee_7", CALLEE("7", "80", "")},
	/* Calls itself twice, 60 calls deep. */
	{"$vcuda_callee_9", CALLEE("9", "8", "ld.local.u32 %r3, [frame+8];\nsetp.gt.u32 %p1, %r3, 60;\n@%p1 bra DONE;\n"
					     "add.u32 %r3, %r3, 1;\nst.local.u32 [frame+8], %r3;\n"
					     "mov.u64 %l2, 0x8000000900000000;\n" CALL CALL
					     "ld.local.u32 %r3, [frame+8];\nsub.u32 %r3, %r3, 1;\n"
					     "st.local.u32 [frame+8], %r3;\nDONE:\n")},
	/* Takes long to translate. */
	{"$vcuda_callee_10", CALLEE("10", "8", "mov.u32 %r1, 10;\n")},
	/* With a parameter. */
	{"$vcuda_callee_11", HEAD VARIABLES("", "") ".visible .entry $vcuda_callee_11(.param .u64 p)\n{\n"
						    ".pragma \"vcuda_callee\";\n" LOCAL("8") "st.local.u32 [frame], 1;\nret;\n}\n"},
	{"shared", HEAD VARIABLES("", "") KERNEL("shared", "atom.global.add.u32 %r1, [counter], 1;\n"
							   "ld.const.u32 %r2, [numbers+4];\nadd.u32 %r1, %r1, %r2;")},
	{"own", HEAD VARIABLES("", "") ".const .align 8 .u64 table[2] = {generic(counter), 5};\n" KERNEL(
			"own", "ld.const.u64 %l2, [table];\nld.u32 %r1, [%l2];\n"
			       "ld.const.u32 %r2, [table+8];\nadd.u32 %r1, %r1, %r2;")},
	{"invalid", HEAD VARIABLES("", "") KERNEL("invalid", "add.u32 %r1, %r2;")},
	{"different", HEAD ".visible .global .align 4 .u32 counter[1];\n" KERNEL("different", "mov.u32 %r1, 1;")},
	/* The mark of each instruction is before it. */
	{"faults",
	 HEAD VARIABLES("", "") KERNEL("faults", "\t// 0\nld.global.u32 %r2, [%l1];\nsetp.eq.u32 %p1, %r2, 1;\n"
						 "\t// 1230\nmov.u64 %l2, 16;\n@%p1 st.global.u32 [%l2], %r2;\n"
						 "\t// 4560 callee\nsetp.eq.u32 %p1, %r2, 2;\n@%p1 trap;\n"
						 "\t// 789a0 other\nsetp.eq.u32 %p1, %r2, 3;\n@%p1 trap;\n"
						 "\t// 7890 callee\nsetp.eq.u32 %p1, %r2, 4;\n@%p1 trap;\n"
						 "\t// 1240\n")},
	/* Calls the device runtime, which the text does not have. Each block adds 1, and waits for the others. */
	{"meets",
	 HEAD ".extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 a);\n"
	      ".extern .func (.param .b32 r) __cuda_syscall_CGS_sync(.param .b64 a, .param .b32 b);\n" VARIABLES("", "")
		      KERNEL("meets", "\t// 0\nmov.u32 %r2, %ctaid.x;\nmul.wide.u32 %l2, %r2, 4;\n"
				      "add.u64 %l1, %l1, %l2;\natom.global.add.u32 %r3, [counter], 1;\n"
				      "{ .param .b32 a; st.param.b32 [a], 1; .param .b64 r;\n"
				      "call (r), __cuda_syscall_CGS_get_intrinsic_handle, (a);\n"
				      "ld.param.b64 %l3, [r]; }\n"
				      "{ .param .b64 a; st.param.b64 [a], %l3; .param .b32 b; st.param.b32 [b], 0;\n"
				      ".param .b32 r;\ncall (r), __cuda_syscall_CGS_sync, (a, b);\n"
				      "ld.param.b32 %r3, [r]; }\n"
				      "ld.volatile.global.u32 %r1, [counter];\nadd.u32 %r1, %r1, %r3;\n")},
	{"missing", HEAD VARIABLES("", "")},
	{"slow", HEAD VARIABLES("", "") KERNEL("slow", "mov.u32 %r1, 5;")},
};

/* Called while the kernel `slow`, or the callee that takes long, is translated; NULL: nothing. */
__attribute__((visibility("default"))) void (*fake_sass_hook)(void);

/* The argument of vcuda_sass_ask_for_memory(). */
__attribute__((visibility("default"))) bool (*fake_sass_room)(uint64_t bytes);

__attribute__((visibility("default"))) void vcuda_sass_ask_for_memory(bool (*room)(uint64_t bytes))
{
	fake_sass_room = room;
}

static int refuse(const char *kernel, char *error, size_t room)
{
	bool is_refused = !strcmp(kernel, "refused") || !strcmp(kernel, "$vcuda_callee_5");

	if (!strcmp(kernel, "memory"))
		return -ENOMEM;
	snprintf(error, room, "%s", is_refused ? "HGMMA at 0x120" : "no text for it");
	return is_refused ? -ENOSYS : -EINVAL;
}

__attribute__((visibility("default"))) int vcuda_sass_to_ptx(const void *cubin, size_t bytes, const char *kernel,
							     char **text, size_t *length, char *error, size_t room)
{
	(void)cubin;
	if (fake_sass_hook && (!strcmp(kernel, "slow") || !strcmp(kernel, "$vcuda_callee_10")))
		fake_sass_hook();
	for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]) && bytes; n++) {
		if (strcmp(texts[n].kernel, kernel))
			continue;
		*text = strdup(texts[n].text);
		*length = strlen(texts[n].text);
		return *text ? 0 : -ENOMEM;
	}
	return refuse(kernel, error, room);
}

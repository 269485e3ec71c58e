/* SPDX-License-Identifier: Apache-2.0 */
/* A libvcuda-sass.so whose texts do not come of machine code: test-backend-cpu-lifted.c says what each is for. */
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

static const struct {
	const char *kernel, *text;
} texts[] = {
	{VCUDA_SASS_OUTLINE, HEAD VARIABLES(" = {3, 4}", " = {10}") REFUSED("shared") REFUSED("own") REFUSED("invalid")
				     REFUSED("different") REFUSED("missing") REFUSED("refused") REFUSED("memory")
					     REFUSED("slow") REFUSED("faults") REFUSED("meets")},
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

/* Called while the kernel `slow` is translated; NULL: nothing. */
__attribute__((visibility("default"))) void (*fake_sass_hook)(void);

/* The argument of vcuda_sass_ask_for_memory(). */
__attribute__((visibility("default"))) bool (*fake_sass_room)(uint64_t bytes);

__attribute__((visibility("default"))) void vcuda_sass_ask_for_memory(bool (*room)(uint64_t bytes))
{
	fake_sass_room = room;
}

static int refuse(const char *kernel, char *error, size_t room)
{
	if (!strcmp(kernel, "memory"))
		return -ENOMEM;
	snprintf(error, room, "%s", strcmp(kernel, "refused") ? "no text for it" : "HGMMA at 0x120");
	return strcmp(kernel, "refused") ? -EINVAL : -ENOSYS;
}

__attribute__((visibility("default"))) int vcuda_sass_to_ptx(const void *cubin, size_t bytes, const char *kernel,
							     char **text, size_t *length, char *error, size_t room)
{
	(void)cubin;
	if (fake_sass_hook && !strcmp(kernel, "slow"))
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

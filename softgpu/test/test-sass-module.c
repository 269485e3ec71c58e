/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX text of a cubin, over a lifter that writes an empty body, or refuses the kernel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sass/cubin/entry.h"
#include "softgpu/sass/lift/lift.h"
#include "softgpu/sass/module.h"
#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"

static const char *refusal; /* NULL: the kernel is lifted */

int sass_lift(const struct sass_cubin *cubin, const struct sass_function *function, struct sass_text *out, char *error,
	      size_t room)
{
	assert_non_null(cubin);
	sass_entry_add_head(out, function);
	sass_text_put(out, "{\nret;\n}\n");
	if (refusal)
		snprintf(error, room, "%s", refusal);
	return refusal ? -ENOTSUP : 0;
}

/* The text of a sample; NULL: an error, which is in `why`. */
static char why[300];
static const char *part; /* the kernel, or what sass.h says; NULL: all */
static int result;

static char *text_of(const struct sass_sample *s)
{
	char *text = NULL;
	size_t length = 0;

	result = vcuda_sass_to_ptx(s, sizeof(*s), part, &text, &length, why, sizeof(why));
	if (!result)
		assert_int_equal(strlen(text), length);
	return result ? NULL : text;
}

static void has(const char *text, const char *expected)
{
	if (!strstr(text, expected))
		fail_msg("`%s` is not in the text:\n%s", expected, text);
}

static void whole_text(void **state)
{
	struct sass_sample s = sass_sample();
	char *text = text_of(&s);

	(void)state;
	assert_string_equal(
		text, ".version 9.0\n.target sm_80\n.address_size 64\n"
		      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
		      ".extern .global .align 8 .u32 counter[1];\n"
		      ".const .align 8 .u32 vcuda_gap_8_0[2];\n"
		      ".visible .const .align 8 .u32 table[5] = {0x30201};\n"
		      ".const .align 4 .u32 vcuda_gap_8_28[1];\n"
		      ".visible .global .align 8 .u32 counter[1] = {7};\n"
		      ".visible .global .align 8 .u64 pointer[1] = {generic(counter)+2};\n"
		      ".visible .global .align 8 .u32 room[100];\n"
		      ".visible .entry k(\n\t.param .align 16 .b8 $vcuda_p0[4],\n\t.param .align 8 .b8 $vcuda_p1[8])\n"
		      ".maxntid 128, 2, 1\n.maxnreg 24\n{\nret;\n}\n");
	free(text);
}

/* The outline has the values, and a kernel alone the code: their variables are the same, in the same order. */
static void parts(void **state)
{
	struct sass_sample s = sass_sample();
	char *text;

	(void)state;
	part = VCUDA_SASS_OUTLINE;
	text = text_of(&s);
	has(text, ".visible .global .align 8 .u32 counter[1] = {7};\n");
	has(text, ".maxnreg 24\n{\n.pragma \"vcuda_unsupported machine code that was not translated\";\nret;\n}\n");
	free(text);
	part = "k";
	text = text_of(&s);
	has(text, ".const .align 8 .u32 vcuda_gap_8_0[2];\n"
		  ".visible .const .align 8 .u32 table[5];\n"
		  ".const .align 4 .u32 vcuda_gap_8_28[1];\n"
		  ".visible .global .align 8 .u32 counter[1];\n"
		  ".visible .global .align 8 .u64 pointer[1];\n"
		  ".visible .global .align 8 .u32 room[100];\n"
		  ".visible .entry k(");
	has(text, ".maxnreg 24\n{\nret;\n}\n");
	free(text);
	part = "other";
	text = text_of(&s);
	has(text, "room[100]");
	assert_null(strstr(text, ".entry"));
	free(text);
	part = NULL;
}

/* Nothing of what the lifter began is left, and its words cannot end the string that they are in. */
static void refused_kernel(void **state)
{
	struct sass_sample s = sass_sample();
	char *text;

	(void)state;
	refusal = "HG\"MMA\n at 0x10\\";
	text = text_of(&s);
	has(text, ".maxnreg 24\n{\n.pragma \"vcuda_unsupported HG'MMA' at 0x10'\";\nret;\n}\n");
	assert_null(strstr(strstr(text, ".entry k") + 1, ".entry k"));
	free(text);
	/* alone it has no text */
	part = "k";
	assert_null(text_of(&s));
	assert_int_equal(result, -ENOSYS);
	assert_string_equal(why, refusal);
	part = refusal = NULL;
}

/* A cluster of several blocks is known before the kernel is lifted. */
static void clusters(void **state)
{
	struct sass_sample s = sass_sample();
	char *text;

	(void)state;
	s.kernel_info[12] = SAMPLE_SIZED(0x3d, 12);
	s.kernel_info[13] = 2;
	s.kernel_info[14] = 1;
	text = text_of(&s);
	has(text, "vcuda_unsupported clusters of more than one block");
	free(text);
	s.kernel_info[13] = 1;
	text = text_of(&s);
	assert_null(strstr(text, "vcuda_unsupported"));
	free(text);
}

static void initial_values(void **state)
{
	struct sass_sample s = sass_sample();
	char *text;

	(void)state;
	/* of a size for bytes only, with zeroes at the end */
	s.symbols[SAMPLE_TABLE].st_size = 19;
	text = text_of(&s);
	has(text, ".u8 table[19] = {1, 2, 3};\n");
	has(text, ".u8 vcuda_gap_8_27[5];\n");
	free(text);
	/* the address of code, and of what another module has */
	s = sass_sample();
	s.data_rela[0].r_info = ELF64_R_INFO((uint64_t)SAMPLE_KERNEL, 4);
	text = text_of(&s);
	has(text, ".u64 pointer[1] = {0x8000000600000002};\n");
	free(text);
	/* as libcudadevrt has it */
	s.data_rela[0].r_info = ELF64_R_INFO((uint64_t)SAMPLE_KERNEL, 35);
	text = text_of(&s);
	has(text, ".u64 pointer[1] = {0x8000000600000002};\n");
	free(text);
	s = sass_sample();
	s.symbols[SAMPLE_COUNTER].st_shndx = SHN_UNDEF;
	text = text_of(&s);
	has(text, ".extern .global .align 8 .b8 counter[];\n");
	has(text, "{generic(counter)+2}");
	free(text);
	s = sass_sample();
	s.data_rela[0].r_addend = -4;
	text = text_of(&s);
	has(text, "{generic(counter)-4}");
	free(text);
}

static void refused_values(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	s.data_rela[0].r_offset = 9;
	assert_null(text_of(&s));
	has(why, "`pointer` of the machine code has an address that is not a whole number of 64 bits");
	s = sass_sample();
	s.data_rela[0].r_info = ELF64_R_INFO((uint64_t)SAMPLE_COUNTER, 3);
	assert_null(text_of(&s));
	has(why, "`pointer` of the machine code has a relocation of an unknown kind");
	s.data_rela[0].r_info = ELF64_R_INFO((uint64_t)SAMPLE_COUNTER, 35);
	assert_null(text_of(&s));
	has(why, "a relocation of an unknown kind");
	s = sass_sample();
	s.data_rela[0].r_info = ELF64_R_INFO((uint64_t)SAMPLE_PRINT, 4);
	assert_null(text_of(&s));
	has(why, "a function that the module does not have");
}

static void refused_files(void **state)
{
	struct sass_sample s = sass_sample();

	(void)state;
	s.head.e_flags = 100u << 8;
	assert_null(text_of(&s));
	assert_int_equal(result, -ENOTSUP);
	has(why, "sm_100 is not supported: compile it for sm_80, or to PTX");
	s.head.e_flags = 90u << 8 | 8;
	assert_null(text_of(&s));
	has(why, "sm_90a is not supported");
	s = sass_sample();
	s.head.e_type = ET_REL;
	assert_null(text_of(&s));
	assert_int_equal(result, -ENOTSUP);
	has(why, "not linked");
	s = sass_sample();
	s.head.e_machine = 0;
	assert_null(text_of(&s));
	assert_int_equal(result, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts),         cmocka_unit_test(whole_text),     cmocka_unit_test(refused_kernel),
		cmocka_unit_test(clusters),      cmocka_unit_test(initial_values), cmocka_unit_test(refused_values),
		cmocka_unit_test(refused_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

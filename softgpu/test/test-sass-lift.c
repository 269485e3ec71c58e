/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX of single instructions that NVIDIA's assembler makes of no PTX of the other tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "softgpu/sass/sass.h"
#include "softgpu/test/sass-sample.h"

/* The PTX of the instruction, with EXIT behind it. The caller frees it. */
static char *lifted(uint64_t low, uint64_t high)
{
	struct sass_sample s = sass_sample();
	char error[300], *text;
	size_t length;

	s.text[2] = s.text[0];
	s.text[3] = s.text[1];
	s.text[0] = low;
	s.text[1] = high;
	if (vcuda_sass_to_ptx(&s, sizeof(s), NULL, &text, &length, error, sizeof(error)))
		fail_msg("%s", error);
	return text;
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(uniform_tables),
		cmocka_unit_test(tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

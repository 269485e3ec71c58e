/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into each cmocka program: VCUDA_TEST_CASE=PATTERN in the environment runs only the cases of that name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

__attribute__((constructor)) static void filter_cases(void)
{
	const char *pattern = getenv("VCUDA_TEST_CASE");

	if (pattern)
		cmocka_set_test_filter(pattern);
}

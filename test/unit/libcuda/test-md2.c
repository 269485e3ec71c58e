/* SPDX-License-Identifier: Apache-2.0 */
/* MD2 against the test suite of RFC 1319. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "guest/libcuda/private/md2.h"

static const char *hex(const uint8_t digest[LIBCUDA_MD2_BYTES])
{
	static char text[2 * LIBCUDA_MD2_BYTES + 1];

	for (int i = 0; i < LIBCUDA_MD2_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return text;
}

static void rfc_1319_suite(void **state)
{
	static const char *const suite[][2] = {
		{"", "8350e5a3e24c153df2275c9f80692773"},
		{"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
		{"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
		{"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
		{"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
		 "d5976f79d83d3a0dc9806c3c66f3efd8"},
	};
	uint8_t digest[LIBCUDA_MD2_BYTES];

	for (size_t i = 0; i < sizeof(suite) / sizeof(suite[0]); i++) {
		libcuda_md2(suite[i][0], strlen(suite[i][0]), digest);
		assert_string_equal(hex(digest), suite[i][1]);
	}
}

static void hmac_depends_on_key_and_message(void **state)
{
	uint8_t a[LIBCUDA_MD2_BYTES], b[LIBCUDA_MD2_BYTES], c[LIBCUDA_MD2_BYTES], key[LIBCUDA_MD2_BYTES] = {1}, other[LIBCUDA_MD2_BYTES] = {2};

	libcuda_hmac_md2(key, "message", 7, a);
	libcuda_hmac_md2(other, "message", 7, b);
	libcuda_hmac_md2(key, "massage", 7, c);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, c, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rfc_1319_suite),
		cmocka_unit_test(hmac_depends_on_key_and_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against the examples of FIPS 180 and nettle, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <nettle/sha2.h>

#include "guest/libcuda/module/sha256.h"

static const char *hex(const uint8_t digest[LIBCUDA_SHA256_BYTES])
{
	static char text[2 * LIBCUDA_SHA256_BYTES + 1];

	for (int i = 0; i < LIBCUDA_SHA256_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return text;
}

static void examples(void **state)
{
	static const char *const suite[][2] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
		{"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
		 "mnopqrstnopqrstu",
		 "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
	};
	uint8_t digest[LIBCUDA_SHA256_BYTES];

	for (size_t i = 0; i < sizeof(suite) / sizeof(suite[0]); i++) {
		libcuda_sha256(suite[i][0], strlen(suite[i][0]), digest);
		assert_string_equal(hex(digest), suite[i][1]);
	}
}

/* A million times "a", in pieces of all lengths up to two blocks. */
static void million(void **state)
{
	uint8_t digest[LIBCUDA_SHA256_BYTES];
	struct libcuda_sha256 sha;
	char piece[130];
	size_t left = 1000000;

	memset(piece, 'a', sizeof(piece));
	libcuda_sha256_start(&sha);
	for (size_t n = 0; left; n = (n + 1) % sizeof(piece)) {
		size_t size = n < left ? n : left;

		libcuda_sha256_add(&sha, piece, size);
		left -= size;
	}
	libcuda_sha256_end(&sha, digest);
	assert_string_equal(hex(digest), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Lengths that do not fit into the last block. */
static void lengths(void **state)
{
	static const char *const suite[] = {
		[55] = "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
		[56] = "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
		[63] = "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34",
		[64] = "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
	};
	uint8_t digest[LIBCUDA_SHA256_BYTES];
	char text[64];

	memset(text, 'a', sizeof(text));
	for (size_t n = 0; n <= sizeof(text); n++) {
		if (!suite[n])
			continue;
		libcuda_sha256(text, n, digest);
		assert_string_equal(hex(digest), suite[n]);
	}
}

#define MOST 1200

/* No two places of it are alike. */
static uint8_t text[MOST + 64];

static void fill(void)
{
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
}

static void by_nettle(const uint8_t *data, size_t size, uint8_t digest[LIBCUDA_SHA256_BYTES])
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	sha256_update(&ctx, size, data);
	sha256_digest(&ctx, LIBCUDA_SHA256_BYTES, digest);
}

static void every_length(void **state)
{
	uint8_t digest[LIBCUDA_SHA256_BYTES], right[LIBCUDA_SHA256_BYTES];

	for (size_t n = 0; n <= MOST; n++) {
		/* at every place in a line as well */
		libcuda_sha256(text + n % 64, n, digest);
		by_nettle(text + n % 64, n, right);
		assert_memory_equal(digest, right, sizeof(right));
	}
}

/* Pieces of which some end in a block and some are several. */
static void pieces(void **state)
{
	uint8_t digest[LIBCUDA_SHA256_BYTES], right[LIBCUDA_SHA256_BYTES];

	by_nettle(text, MOST, right);
	for (size_t piece = 1; piece <= MOST; piece++) {
		struct libcuda_sha256 sha;

		libcuda_sha256_start(&sha);
		for (size_t at = 0; at < MOST; at += piece)
			libcuda_sha256_add(&sha, text + at, MOST - at < piece ? MOST - at : piece);
		libcuda_sha256_end(&sha, digest);
		assert_memory_equal(digest, right, sizeof(right));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples),     cmocka_unit_test(million), cmocka_unit_test(lengths),
		cmocka_unit_test(every_length), cmocka_unit_test(pieces),
	};

	fill();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of the wire: alignment, sticky errors, lengths that overflow, strings, the capped arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/wire.h"

static void test_pad(void **state)
{
	(void)state;
	assert_int_equal(vcuda_wire_pad(0), 0);
	assert_int_equal(vcuda_wire_pad(1), 8);
	assert_int_equal(vcuda_wire_pad(8), 8);
	assert_int_equal(vcuda_wire_pad(9), 16);
}

static void test_lengths_saturate(void **state)
{
	(void)state;
	assert_int_equal(vcuda_wire_product(6, 7), 42);
	assert_int_equal(vcuda_wire_product(0, UINT64_MAX), 0);
	assert_true(vcuda_wire_product(1ull << 32, 1ull << 32) == UINT64_MAX);
	assert_true(vcuda_wire_product(UINT64_MAX, 2) == UINT64_MAX);
	assert_int_equal(vcuda_wire_array(3, 4), 16);
	assert_true(vcuda_wire_array(UINT64_MAX, 1) == (size_t)1 << 40);
	assert_true(vcuda_wire_array((1ull << 62) + 1, 4) == (size_t)1 << 40);
}

static void test_words(void **state)
{
	uint64_t buffer[2];
	struct vcuda_writer w = vcuda_writer_init(buffer, sizeof(buffer));
	struct vcuda_reader r = vcuda_reader_init(buffer, sizeof(buffer));
	const uint8_t little_endian[] = {8, 7, 6, 5, 4, 3, 2, 1};

	(void)state;
	vcuda_writer_put_word(&w, 0x0102030405060708);
	vcuda_writer_put_word(&w, (uint64_t)-5);
	assert_false(w.error);
	assert_memory_equal(buffer, little_endian, 8);
	assert_true(vcuda_reader_get_word(&r) == 0x0102030405060708);
	assert_int_equal(vcuda_reader_get_i32(&r), -5);
	assert_true(vcuda_reader_finished(&r));
}

static void test_writer_error_is_sticky(void **state)
{
	uint64_t buffer[2] = {0};
	struct vcuda_writer w = vcuda_writer_init(buffer, 8);

	(void)state;
	vcuda_writer_put_bytes(&w, "123456789", 9);
	assert_true(w.error);
	vcuda_writer_put_word(&w, 1);
	assert_true(w.error);
	assert_ptr_equal(w.at, buffer);
	assert_int_equal(buffer[0], 0);
	w = vcuda_writer_init(buffer, 8);
	vcuda_writer_put_bytes(&w, "", SIZE_MAX);
	assert_true(w.error);
	w = vcuda_writer_init(buffer, 8);
	vcuda_writer_put_array(&w, "", (1ull << 61) + 1, 8);
	assert_true(w.error);
}

static void test_padding_is_zero(void **state)
{
	uint8_t buffer[8];
	struct vcuda_writer w = vcuda_writer_init(buffer, sizeof(buffer));

	(void)state;
	memset(buffer, 0xff, sizeof(buffer));
	vcuda_writer_put_bytes(&w, "abc", 3);
	assert_memory_equal(buffer, "abc\0\0\0\0\0", 8);
}

static void test_reader_error_is_sticky(void **state)
{
	const uint64_t buffer[2] = {42, 43};
	struct vcuda_reader r = vcuda_reader_init(buffer, 15);

	(void)state;
	assert_int_equal(vcuda_reader_get_word(&r), 42);
	assert_int_equal(vcuda_reader_get_word(&r), 0);
	assert_true(r.error);
	r.end++;
	assert_int_equal(vcuda_reader_get_word(&r), 0);
	assert_false(vcuda_reader_finished(&r));
}

static void test_narrow(void **state)
{
	const uint64_t buffer[] = {1ull << 32, 0x80000000, (uint64_t)INT32_MIN - 1, (uint64_t)INT32_MIN};
	struct vcuda_reader r = vcuda_reader_init(&buffer[0], 8);

	(void)state;
	vcuda_reader_get_u32(&r);
	assert_true(r.error);
	r = vcuda_reader_init(&buffer[1], 8);
	vcuda_reader_get_i32(&r);
	assert_true(r.error);
	r = vcuda_reader_init(&buffer[1], 8);
	assert_true(vcuda_reader_get_u32(&r) == 0x80000000);
	assert_false(r.error);
	r = vcuda_reader_init(&buffer[2], 8);
	vcuda_reader_get_i32(&r);
	assert_true(r.error);
	r = vcuda_reader_init(&buffer[3], 8);
	assert_true(vcuda_reader_get_i32(&r) == INT32_MIN);
	assert_false(r.error);
}

static void test_array_overflow(void **state)
{
	const uint64_t buffer[2] = {0};
	const struct {
		uint64_t count;
		size_t size;
	} bad[] = {{3, 8},          {UINT64_MAX, 1},         {UINT64_MAX - 6, 1}, {(1ull << 61) + 1, 8},
		   {1ull << 63, 2}, {UINT64_MAX, UINT64_MAX}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct vcuda_reader r = vcuda_reader_init(buffer, sizeof(buffer));

		assert_null(vcuda_reader_get_array(&r, bad[i].count, bad[i].size));
		assert_true(r.error);
	}
}

static struct vcuda_reader string_reader(uint64_t *buffer, uint64_t bytes, const char *text)
{
	buffer[0] = bytes;
	memcpy(&buffer[1], text, 8);
	return vcuda_reader_init(buffer, 16);
}

static void test_strings(void **state)
{
	uint64_t buffer[2];
	struct vcuda_reader r = string_reader(buffer, 4, "abc\0\0\0\0");

	(void)state;
	assert_string_equal(vcuda_reader_get_string(&r), "abc");
	assert_true(vcuda_reader_finished(&r));
	r = string_reader(buffer, 1, "\0\0\0\0\0\0\0");
	assert_string_equal(vcuda_reader_get_string(&r), "");
	assert_false(r.error);
}

static void test_bad_strings(void **state)
{
	const struct {
		uint64_t bytes;
		const char *text;
	} bad[] = {
		{0, "abc\0\0\0\0"},  /* no room for its NUL */
		{3, "abcdefg"},      /* no NUL */
		{4, "a\0b\0\0\0\0"}, /* a NUL inside */
		{9, "abcdefg"},      /* longer than what is there */
		{UINT64_MAX, "abc\0\0\0\0"},
		{1ull << 63, "abc\0\0\0\0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		uint64_t buffer[2];
		struct vcuda_reader r = string_reader(buffer, bad[i].bytes, bad[i].text);

		assert_string_equal(vcuda_reader_get_string(&r), "");
		assert_true(r.error);
	}
}

static void test_arena(void **state)
{
	_Alignas(8) uint8_t memory[32];
	struct vcuda_arena arena = {memory, memory + sizeof(memory)};
	struct vcuda_reader r = vcuda_reader_init(memory, 0);
	uint8_t *p;

	(void)state;
	memset(memory, 0xff, sizeof(memory));
	p = vcuda_arena_array(&arena, &r, 3, 3);
	assert_ptr_equal(p, memory);
	for (int i = 0; i < 9; i++)
		assert_int_equal(p[i], 0);
	assert_int_equal(memory[16], 0xff);
	assert_ptr_equal(vcuda_arena_array(&arena, &r, 2, 8), memory + 16);
	assert_false(r.error);
	assert_null(vcuda_arena_array(&arena, &r, 1, 1));
	assert_true(r.error);
	r.error = false;
	arena.at = memory;
	assert_null(vcuda_arena_array(&arena, &r, UINT64_MAX, 1));
	assert_true(r.error);
	r.error = false;
	assert_null(vcuda_arena_array(&arena, &r, (1ull << 61) + 1, 8));
	assert_true(r.error);
}

/* An arena that is not a multiple of 8 long never gives what its padding would not fit. */
static void test_arena_odd_end(void **state)
{
	_Alignas(8) uint8_t memory[12];
	struct vcuda_arena arena = {memory, memory + sizeof(memory)};
	struct vcuda_reader r = vcuda_reader_init(memory, 0);

	(void)state;
	assert_null(vcuda_arena_array(&arena, &r, 12, 1));
	assert_true(r.error);
	assert_ptr_equal(arena.at, memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pad),
		cmocka_unit_test(test_lengths_saturate),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_writer_error_is_sticky),
		cmocka_unit_test(test_padding_is_zero),
		cmocka_unit_test(test_reader_error_is_sticky),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_array_overflow),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_bad_strings),
		cmocka_unit_test(test_arena),
		cmocka_unit_test(test_arena_odd_end),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}

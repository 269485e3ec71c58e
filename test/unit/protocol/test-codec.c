/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated codec, call by call: round trip of arguments and reply, every truncation, every word corrupted.
 *
 * The encoded bytes end right before an inaccessible page, so that a read past them ends the test even without a
 * sanitizer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "codec-test.h"
#include "ring/ring.h"
#include "test/seed.h"

#define ROUNDS 4
#define BUFFER_BYTES VCUDA_COMMAND_MAX
#define ARENA_BYTES (256u * 1024)

static uint32_t seed;
static uint8_t *guarded_end; /* BUFFER_BYTES before it are ours, what follows is inaccessible */

/* One round of one call: what was sent, what arrives, and the memory of both. */
struct round {
	const struct codec_case *c;
	bool reply;
	void *sent, *got;
	void *sent_memory, *got_memory;
	struct vcuda_arena sent_arena;
	uint8_t encoded[BUFFER_BYTES];
	size_t bytes;
};

static struct vcuda_arena arena_of(void *memory)
{
	return (struct vcuda_arena){memory, (uint8_t *)memory + ARENA_BYTES};
}

static void encode(struct round *r, const void *args)
{
	struct vcuda_writer w =
		vcuda_writer_init(r->encoded, r->reply ? VCUDA_REPLY_MAX : BUFFER_BYTES - sizeof(struct vcuda_command));

	if (r->reply)
		r->c->encode_reply(&w, args);
	else
		r->c->encode(&w, args);
	assert_false(w.error);
	r->bytes = (size_t)(w.at - r->encoded);
}

/* Decodes `bytes` bytes of the encoding, with the word at `word` replaced. True if all of it was read and made sense.
 */
static bool decode(struct round *r, size_t bytes, const size_t *word, uint64_t value)
{
	uint8_t *at = guarded_end - bytes;
	struct vcuda_reader reader = vcuda_reader_init(at, bytes);
	struct vcuda_arena arena = arena_of(r->got_memory);

	memcpy(at, r->encoded, bytes);
	if (word)
		memcpy(at + *word, &value, sizeof(value));
	memset(r->got, 0, r->c->args_size);
	if (r->reply)
		r->c->decode_reply(&reader, &arena, r->sent, r->got);
	else
		r->c->decode(&reader, &arena, r->got);
	assert_true(reader.at <= reader.end);
	return vcuda_reader_finished(&reader);
}

static void check_round_trip(struct round *r)
{
	encode(r, r->sent);
	if (!r->reply)
		assert_int_equal(r->bytes, r->c->size(r->sent));
	assert_int_equal(r->bytes % 8, 0);
	assert_true(decode(r, r->bytes, NULL, 0));
	assert_true(r->c->equal(r->sent, r->got, r->reply));
}

static void check_truncations(struct round *r)
{
	for (size_t bytes = 0; bytes < r->bytes; bytes++)
		assert_false(decode(r, bytes, NULL, 0));
}

/* A word too many is as wrong as one too few. */
static void check_surplus(struct round *r)
{
	memset(r->encoded + r->bytes, 0, 8);
	assert_false(decode(r, r->bytes + 8, NULL, 0));
}

static void check_corruptions(struct round *r)
{
	const uint64_t values[] = {
		0,          1,         7,          255,        0x7fffffff,     0x80000000,        0xffffffff,
		1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 6, 0x2000000000000001};
	uint8_t original[BUFFER_BYTES];
	size_t bytes = r->bytes;

	memcpy(original, r->encoded, bytes);
	for (size_t word = 0; word < bytes; word += 8) {
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			if (!decode(r, bytes, &word, values[i]))
				continue;
			if (r->reply)
				continue;
			/* The corrupted bytes decode, so they must be the encoding of the result. */
			assert_int_equal(r->c->size(r->got), bytes);
			encode(r, r->got);
			assert_int_equal(r->bytes, bytes);
			memcpy(r->encoded, original, bytes);
		}
	}
}

/* The call's outputs need room in the worker's arena: without any, the sticky error is set and nothing is written. */
static void check_no_memory(struct round *r)
{
	struct vcuda_reader reader = vcuda_reader_init(r->encoded, r->bytes);
	struct vcuda_arena arena = {0};

	memset(r->got, 0, r->c->args_size);
	r->c->decode(&reader, &arena, r->got);
	assert_ptr_equal(arena.at, arena.end);
}

/* A writer without room sets its error and writes nothing past its end. */
static void check_no_room(struct round *r)
{
	for (size_t bytes = 0; bytes < r->bytes; bytes += 8) {
		struct vcuda_writer w = vcuda_writer_init(guarded_end - bytes, bytes);

		if (r->reply)
			r->c->encode_reply(&w, r->sent);
		else
			r->c->encode(&w, r->sent);
		assert_true(w.error);
	}
}

/* Zeroed; a tensor's description in it needs 128 bytes of alignment. */
static void *make_args(const struct codec_case *c)
{
	size_t bytes = (c->args_size + 127) & ~(size_t)127;
	void *args = aligned_alloc(128, bytes);

	assert_non_null(args);
	return memset(args, 0, bytes);
}

static void test_call(void **state)
{
	const struct codec_case *c = *state;
	struct round *r = calloc(1, sizeof(*r));
	struct codec_random random = {test_seed_state(seed)};

	assert_non_null(r);
	r->c = c;
	/* The worker and the guest zero the struct before they fill it; the padding of structs inside is then equal
	 * too. */
	r->sent = make_args(c);
	r->got = make_args(c);
	r->sent_memory = malloc(ARENA_BYTES);
	r->got_memory = malloc(ARENA_BYTES);
	assert_true(r->sent && r->got && r->sent_memory && r->got_memory);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		r->reply = i % 2;
		r->sent_arena = arena_of(r->sent_memory);
		memset(r->sent, 0, c->args_size);
		c->fill(&random, &r->sent_arena, r->sent);
		check_round_trip(r);
		check_truncations(r);
		check_surplus(r);
		check_corruptions(r);
		check_no_room(r);
		if (!r->reply)
			check_no_memory(r);
	}
	free(r->sent_memory);
	free(r->got_memory);
	free(r->sent);
	free(r->got);
	free(r);
}

static int make_guard(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory = mmap(NULL, BUFFER_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (memory == MAP_FAILED)
		return -1;
	guarded_end = memory + BUFFER_BYTES;
	return mprotect(guarded_end, page, PROT_NONE);
}

int main(void)
{
	struct CMUnitTest *tests = calloc(codec_case_count, sizeof(*tests));
	int failed;

	if (!tests)
		return 1;
	seed = test_seed();
	for (size_t i = 0; i < codec_case_count; i++) {
		tests[i].name = codec_cases[i].name;
		tests[i].test_func = test_call;
		tests[i].initial_state = (void *)(uintptr_t)&codec_cases[i];
	}
	failed = _cmocka_run_group_tests("codec", tests, codec_case_count, make_guard, NULL);
	free(tests);
	return failed;
}

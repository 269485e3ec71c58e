/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes for the generated decoders of every call and for the ring's consumer.
 *
 * Input: a byte that says what is fuzzed, a byte for the call, then the bytes.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "test/unit/protocol/codec-test.h"
#include "ring/ring.h"

#define ARENA_BYTES (128u * 1024)

enum target { ARGUMENTS, REPLY, RING, TARGETS };

static uint8_t arena_memory[ARENA_BYTES] __attribute__((aligned(8)));
static uint64_t encoded[VCUDA_COMMAND_MAX / 8];

static struct vcuda_arena new_arena(void)
{
	return (struct vcuda_arena){arena_memory, arena_memory + sizeof(arena_memory)};
}

/* Commands are 8-byte aligned in the worker's copy. */
static void *aligned_copy(const uint8_t *data, size_t bytes)
{
	void *copy = malloc(bytes ? bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, data, bytes);
	return copy;
}

static void fuzz_arguments(const struct codec_case *c, const uint8_t *data, size_t bytes)
{
	void *copy = aligned_copy(data, bytes), *args = calloc(1, c->args_size);
	struct vcuda_reader r = vcuda_reader_init(copy, bytes);
	struct vcuda_arena arena = new_arena();
	struct vcuda_writer w;

	if (!args)
		abort();
	c->decode(&r, &arena, args);
	if (vcuda_reader_finished(&r) && bytes <= sizeof(encoded)) {
		/* Arguments that decode must encode to the same bytes. */
		w = vcuda_writer_init(encoded, sizeof(encoded));
		c->encode(&w, args);
		if (w.error || (size_t)(w.at - (uint8_t *)encoded) != bytes || c->size(args) != bytes)
			abort();
	}
	free(args);
	free(copy);
}

static void fuzz_reply(const struct codec_case *c, const uint8_t *data, size_t bytes)
{
	void *copy = aligned_copy(data, bytes), *sent = calloc(1, c->args_size), *args = calloc(1, c->args_size);
	struct vcuda_reader r = vcuda_reader_init(copy, bytes);
	struct codec_random random = {bytes + 1};
	struct vcuda_arena arena = new_arena();

	if (!sent || !args)
		abort();
	c->fill(&random, &arena, sent);
	c->decode_reply(&r, &arena, sent, args);
	free(args);
	free(sent);
	free(copy);
}

/* A producer that writes what it likes, indices included, while the consumer looks. */
static void fuzz_ring(const uint8_t *data, size_t bytes)
{
	static _Alignas(4096) uint8_t memory[VCUDA_SHM_BYTES];
	static uint64_t command[VCUDA_COMMAND_MAX / 8];
	struct vcuda_shm *shm = (struct vcuda_shm *)memory;
	struct vcuda_consumer consumer;
	uint64_t words[2] = {0};
	size_t at, n;

	if (bytes < sizeof(words))
		return;
	memcpy(words, data, sizeof(words));
	data += sizeof(words);
	bytes -= sizeof(words);
	vcuda_consumer_init(&consumer, memory);
	consumer.head = words[0] & ~7ull;
	atomic_store(&shm->tail, words[1] % 4 ? consumer.head + words[1] % (VCUDA_RING_BYTES + 64) : words[1]);
	at = consumer.head % VCUDA_RING_BYTES;
	n = VCUDA_RING_BYTES - at < bytes ? VCUDA_RING_BYTES - at : bytes;
	memcpy(memory + VCUDA_RING_OFFSET + at, data, n);
	memcpy(memory + VCUDA_RING_OFFSET, data + n, bytes - n < at ? bytes - n : at);
	while ((n = (size_t)vcuda_consumer_take(&consumer, command)), (int)n > 0)
		if (n > VCUDA_COMMAND_MAX || n % 8 || ((struct vcuda_command *)command)->size != n)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct codec_case *c;

	if (bytes < 2)
		return 0;
	c = &codec_cases[data[1] % codec_case_count];
	switch (data[0] % TARGETS) {
	case ARGUMENTS:
		fuzz_arguments(c, data + 2, bytes - 2);
		break;
	case REPLY:
		fuzz_reply(c, data + 2, bytes - 2);
		break;
	default:
		fuzz_ring(data + 2, bytes - 2);
	}
	return 0;
}

static size_t seed_ring(struct codec_random *random, uint8_t *to)
{
	uint64_t head = codec_random_word(random) % VCUDA_RING_BYTES, tail = codec_random_word(random);
	size_t at = 16;

	memcpy(to, &head, 8);
	memcpy(to + 8, &tail, 8);
	while (at < 2048) {
		uint32_t size = codec_random_word(random) % 4 ? 32 + codec_random_word(random) % 20 * 8 : 8;
		uint16_t op = size < 32 ? 0 : 1;

		memcpy(to + at, &size, 4);
		memcpy(to + at + 4, &op, 2);
		at += size;
	}
	return at;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	struct codec_random random = {number + 1ull};
	struct vcuda_writer w = vcuda_writer_init(encoded, sizeof(encoded));
	struct vcuda_arena arena = new_arena();
	const struct codec_case *c;
	size_t bytes;
	void *args;

	buffer[0] = (uint8_t)(number % TARGETS);
	buffer[1] = (uint8_t)(number / TARGETS % codec_case_count);
	if (buffer[0] == RING)
		return 2 + seed_ring(&random, buffer + 2);
	c = &codec_cases[buffer[1]];
	args = calloc(1, c->args_size);
	if (!args)
		abort();
	c->fill(&random, &arena, args);
	if (buffer[0] == REPLY)
		c->encode_reply(&w, args);
	else
		c->encode(&w, args);
	free(args);
	bytes = (size_t)(w.at - (uint8_t *)encoded);
	if (w.error || bytes + 2 > room)
		return 0;
	memcpy(buffer + 2, encoded, bytes);
	return bytes + 2;
}

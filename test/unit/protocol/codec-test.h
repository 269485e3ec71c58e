/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generated codec tests: one struct codec_case a call (see emit_codec_test_c() in protocol/generate.py), filled
 * with random arguments. test-codec.c runs them.
 */
#ifndef CODEC_TEST_H
#define CODEC_TEST_H

#include "protocol/types.h"
#include "protocol/wire.h"

struct codec_random {
	uint64_t state; /* never 0 */
};

struct codec_case {
	const char *name;
	size_t args_size; /* of struct vcuda_args_NAME, which every `a` below is */
	size_t (*size)(const void *a);
	void (*fill)(struct codec_random *random, struct vcuda_arena *arena, void *a);
	bool (*equal)(const void *a, const void *b, bool reply); /* the inputs; reply: the outputs */
	void (*encode)(struct vcuda_writer *w, const void *a);
	void (*encode_reply)(struct vcuda_writer *w, const void *a);
	void (*decode)(struct vcuda_reader *r, struct vcuda_arena *arena, void *a);
	void (*decode_reply)(struct vcuda_reader *r, struct vcuda_arena *arena, const void *sent, void *a);
};

extern const struct codec_case codec_cases[];
extern const size_t codec_case_count;

uint64_t codec_random_word(struct codec_random *random);
uint64_t codec_random_length(struct codec_random *random); /* small enough for a product of two to fit a command */
void codec_random_bytes(struct codec_random *random, void *to, size_t bytes);
const char *codec_random_string(struct codec_random *random, struct vcuda_arena *arena);

/* Memory for count elements, random; zeroed where `random` is NULL. Never NULL. */
void *codec_random_array(struct codec_random *random, struct vcuda_arena *arena, uint64_t count, size_t size);

#endif

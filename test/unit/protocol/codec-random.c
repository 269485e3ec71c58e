/* SPDX-License-Identifier: Apache-2.0 */
#include "codec-test.h"

#include <stdlib.h>
#include <string.h>

uint64_t codec_random_word(struct codec_random *random)
{
	random->state ^= random->state << 13;
	random->state ^= random->state >> 7;
	random->state ^= random->state << 17;
	return random->state;
}

uint64_t codec_random_length(struct codec_random *random)
{
	return codec_random_word(random) % 20;
}

void codec_random_bytes(struct codec_random *random, void *to, size_t bytes)
{
	uint8_t *p = to;

	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)codec_random_word(random);
}

void *codec_random_array(struct codec_random *random, struct vcuda_arena *arena, uint64_t count, size_t size)
{
	void *p = arena->at;
	size_t bytes = count * size;

	if (vcuda_wire_pad(bytes) > (size_t)(arena->end - arena->at))
		abort(); /* a call with more arrays than the test's arena has room for */
	arena->at += vcuda_wire_pad(bytes);
	memset(p, 0, bytes);
	if (random)
		codec_random_bytes(random, p, bytes);
	return p;
}

const char *codec_random_string(struct codec_random *random, struct vcuda_arena *arena)
{
	size_t length = codec_random_length(random);
	char *s = codec_random_array(NULL, arena, length + 1, 1);

	for (size_t i = 0; i < length; i++)
		s[i] = (char)(1 + codec_random_word(random) % 255);
	return s;
}

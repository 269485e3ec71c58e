/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed all at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/ptx-ir.h"

struct ptx_chunk {
	struct ptx_chunk *next;
	size_t used, size;
	_Alignas(16) unsigned char bytes[];
};

static bool (*has_room)(uint64_t bytes);

void ptx_ask_for_memory(bool (*room)(uint64_t bytes))
{
	has_room = room;
}

bool ptx_has_room(uint64_t bytes)
{
	return !has_room || has_room(bytes);
}

void *ptx_alloc(struct ptx_arena *arena, size_t bytes)
{
	struct ptx_chunk *chunk = arena->chunks;
	size_t size = (bytes + 15) & ~(size_t)15;
	void *result;

	if (bytes > arena->limit || size > arena->limit - arena->used)
		return NULL;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = size > 65536 ? size : 65536;

		if (!ptx_has_room(sizeof(*chunk) + room))
			return NULL;
		chunk = calloc(1, sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		chunk->size = room;
		chunk->next = arena->chunks;
		arena->chunks = chunk;
	}
	result = chunk->bytes + chunk->used;
	chunk->used += size;
	arena->used += size;
	return result;
}

char *ptx_strndup(struct ptx_arena *arena, const char *text, size_t length)
{
	char *copy = ptx_alloc(arena, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

void ptx_arena_free(struct ptx_arena *arena)
{
	struct ptx_chunk *chunk = arena->chunks, *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	arena->chunks = NULL;
	arena->used = 0;
}

struct ptx_arena_scope ptx_arena_scope_begin(const struct ptx_arena *arena)
{
	return (struct ptx_arena_scope){arena->chunks, arena->chunks ? arena->chunks->used : 0, arena->used};
}

void ptx_arena_scope_end(struct ptx_arena *arena, struct ptx_arena_scope scope)
{
	struct ptx_chunk *chunk;

	while (arena->chunks != scope.chunk) {
		chunk = arena->chunks;
		arena->chunks = chunk->next;
		free(chunk);
	}
	chunk = scope.chunk;
	if (chunk) {
		memset(chunk->bytes + scope.chunk_used, 0, chunk->used - scope.chunk_used);
		chunk->used = scope.chunk_used;
	}
	arena->used = scope.used;
}

void *ptx_grow(struct ptx_arena *arena, void **array, uint32_t *count, uint32_t *room, size_t element)
{
	if (*count == *room) {
		uint32_t more = *room ? *room * 2 : 16;
		void *bigger = more > *room ? ptx_alloc(arena, (size_t)more * element) : NULL;

		if (!bigger)
			return NULL;
		if (*count)
			memcpy(bigger, *array, *count * element);
		*array = bigger;
		*room = more;
	}
	return (char *)*array + (*count)++ * element;
}

/* A message has the two ends of a longer name: templates have names of kilobytes, behind which the reason would be
 * lost. */
#define NAME_BEGIN 60
#define NAME_END 20

static void shorten_names(char *text)
{
	char *end;

	for (char *begin = text; (begin = strchr(begin, '`')) && (end = strchr(begin + 1, '`')); begin = end + 1) {
		char *from = end - NAME_END, *to = begin + 1 + NAME_BEGIN;

		if (end - begin - 1 <= NAME_BEGIN + NAME_END + 3)
			continue;
		memcpy(to, "...", 3);
		memmove(to + 3, from, strlen(from) + 1);
		end = to + 3 + NAME_END;
	}
}

void ptx_error_set_list(struct ptx_error *error, unsigned line, const char *format, va_list args)
{
	char *whole;

	if (error->text[0])
		return;
	error->line = line;
	if (vasprintf(&whole, format, args) < 0) {
		snprintf(error->text, sizeof(error->text), "%s", format);
		return;
	}
	shorten_names(whole);
	snprintf(error->text, sizeof(error->text), "%s", whole);
	free(whole);
}

void ptx_error_set(struct ptx_error *error, unsigned line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ptx_error_set_list(error, line, format, args);
	va_end(args);
}

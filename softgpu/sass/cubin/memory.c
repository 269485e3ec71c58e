/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/memory.h"

#include <stdlib.h>

static bool (*has_room)(uint64_t bytes);

void sass_ask_for_memory(bool (*room)(uint64_t bytes))
{
	has_room = room;
}

static bool fits(uint64_t count, size_t size)
{
	uint64_t bytes;

	return !__builtin_mul_overflow(count, size, &bytes) && bytes <= SIZE_MAX && (!has_room || has_room(bytes));
}

void *sass_allocate(uint64_t count, size_t size)
{
	return fits(count, size) ? calloc(count, size) : NULL;
}

void *sass_reallocate(void *old, uint64_t count, size_t size)
{
	return fits(count, size) ? realloc(old, count * size) : NULL;
}

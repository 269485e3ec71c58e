/* SPDX-License-Identifier: Apache-2.0 */
#include "module/code-map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/memory.h"
#include "sass/sass.h"

#define NAME_BYTES 100

/* An instruction: its first line, its offset, and the place of its function's name; 0: the kernel. */
struct mark {
	uint32_t line, offset, name;
};

struct softgpu_code_map {
	uint32_t count;
	uint32_t name_bytes;
	char *names; /* behind the marks, each with its NUL */
	struct mark marks[];
};

struct reader {
	const char *at, *end;
	uint32_t line;
};

/* Reads what follows the mark. sscanf() looks for the end of its string first, which may be far behind the line. */
static bool read_mark(const char *at, const char *stop, struct mark *m, char name[NAME_BYTES])
{
	char line[NAME_BYTES + 20];
	size_t length = (size_t)(stop - at);

	length = length < sizeof(line) ? length : sizeof(line) - 1;
	memcpy(line, at, length);
	line[length] = 0;
	*name = 0;
	return sscanf(line, "%8x%*1[ ]%99[A-Za-z0-9_$]", &m->offset, name) >= 1;
}

/* Goes to the next comment that marks an instruction. `name` gets the name of its function, or nothing. */
static bool next_mark(struct reader *r, struct mark *m, char name[NAME_BYTES])
{
	const size_t mark = strlen(VCUDA_SASS_MARK);

	while (r->at < r->end) {
		const char *line = r->at, *stop = memchr(line, '\n', (size_t)(r->end - line));

		stop = stop ? stop : r->end;
		r->at = stop < r->end ? stop + 1 : r->end;
		r->line++;
		if ((size_t)(stop - line) < mark || memcmp(line, VCUDA_SASS_MARK, mark))
			continue;
		*m = (struct mark){.line = r->line};
		if (read_mark(line + mark, stop, m, name))
			return true;
	}
	return false;
}

/* The name is the one that was added last, or it is added. */
static uint32_t place_name(struct softgpu_code_map *map, uint32_t last, const char *name)
{
	uint32_t place = map->name_bytes;

	if (!*name)
		return 0;
	if (last && !strcmp(map->names + last, name))
		return last;
	strcpy(map->names + place, name);
	map->name_bytes += (uint32_t)strlen(name) + 1;
	return place;
}

static size_t bytes_of(uint32_t count, size_t names)
{
	return sizeof(struct softgpu_code_map) + count * sizeof(struct mark) + names;
}

struct softgpu_code_map *softgpu_code_map_make(const char *text, size_t length)
{
	char name[NAME_BYTES], before[NAME_BYTES] = "";
	struct reader first = {text, text + length, 0}, second = first;
	struct softgpu_code_map *map;
	size_t names = 1, bytes;
	struct mark m;
	uint32_t count = 0, last = 0;

	for (; next_mark(&first, &m, name); count++) {
		names += *name && strcmp(name, before) ? strlen(name) + 1 : 0;
		if (*name)
			memcpy(before, name, sizeof(before));
	}
	bytes = bytes_of(count, names);
	map = softgpu_host_room(bytes) ? calloc(1, bytes) : NULL;
	if (!map)
		return NULL;
	map->names = (char *)&map->marks[count];
	map->name_bytes = 1;
	while (next_mark(&second, &m, name)) {
		m.name = place_name(map, last, name);
		last = m.name ? m.name : last;
		map->marks[map->count++] = m;
	}
	return map;
}

void softgpu_code_map_free(struct softgpu_code_map *map)
{
	free(map);
}

uint64_t softgpu_code_map_bytes(const struct softgpu_code_map *map)
{
	return bytes_of(map->count, map->name_bytes);
}

bool softgpu_code_map_find(const struct softgpu_code_map *map, uint32_t line, uint32_t *offset, const char **function)
{
	uint32_t low = 0, high = map->count;
	const struct mark *m;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (map->marks[middle].line <= line)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	m = &map->marks[low - 1];
	*offset = m->offset;
	*function = m->name ? map->names + m->name : NULL;
	return true;
}

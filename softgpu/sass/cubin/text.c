/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/text.h"
#include "sass/cubin/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sass_text_no_memory(struct sass_text *t)
{
	t->failed = t->no_memory = true;
}

/* Room for so many characters more, and a NUL. */
static bool make_room(struct sass_text *t, size_t more)
{
	size_t room = t->room ? t->room : 4096;
	char *bigger;

	if (t->failed || more >= SASS_TEXT_BYTES - t->length)
		t->failed = true;
	if (t->failed)
		return false;
	while (room <= t->length + more)
		room *= 2;
	if (room == t->room)
		return true;
	bigger = sass_reallocate(t->data, room, 1);
	if (!bigger) {
		sass_text_no_memory(t);
		return false;
	}
	t->data = bigger;
	t->room = room;
	return true;
}

void sass_text_add(struct sass_text *t, const char *format, ...)
{
	va_list args, again;
	int length;

	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	if (length < 0)
		t->failed = true;
	else if (make_room(t, (size_t)length)) {
		vsnprintf(t->data + t->length, (size_t)length + 1, format, again);
		t->length += (size_t)length;
	}
	va_end(again);
	va_end(args);
}

void sass_text_put(struct sass_text *t, const char *string)
{
	size_t length = strlen(string);

	if (!make_room(t, length))
		return;
	memcpy(t->data + t->length, string, length + 1);
	t->length += length;
}

void sass_text_cut(struct sass_text *t, size_t length)
{
	if (length >= t->length)
		return;
	t->length = length;
	t->data[length] = 0;
}

bool sass_is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

bool sass_is_name(const char *name)
{
	bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z');

	/* with any other character before it, a name has two characters at least */
	if (!letter && !((*name == '_' || *name == '$') && name[1]))
		return false;
	for (const char *at = name + 1; *at; at++)
		if (!sass_is_name_character(*at))
			return false;
	return true;
}

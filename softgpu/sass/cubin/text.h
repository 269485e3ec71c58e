/* SPDX-License-Identifier: Apache-2.0 */
/* PTX text that grows. After a failure the text takes nothing more, so that one check at the end is enough. */
#ifndef VCUDA_SASS_TEXT_H
#define VCUDA_SASS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct sass_text {
	char *data; /* ends with a NUL, if there is any; the owner frees it */
	size_t length, room;
	bool failed;    /* there was no memory, or the text is larger than SASS_TEXT_BYTES */
	bool no_memory; /* it was the former */
};

/* The limit of a text. */
#define SASS_TEXT_BYTES ((size_t)256 << 20)

void sass_text_add(struct sass_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* There is no memory to make more of the text. */
void sass_text_no_memory(struct sass_text *text);

/* Adds a string that is not a format. */
void sass_text_put(struct sass_text *text, const char *string);

/* Takes back all behind the first `length` characters. */
void sass_text_cut(struct sass_text *text, size_t length);

/* Whether PTX has such names, and such characters in names. */
bool sass_is_name(const char *name);
bool sass_is_name_character(char c);

#endif

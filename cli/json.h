/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON to a stream. The caller keeps objects and arrays in order; `name` is NULL in an array and at the top. */
#ifndef VCUDA_CLI_JSON_H
#define VCUDA_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool follows; /* a comma goes before the next value */
	bool lines;   /* a line for each value, indented */
	unsigned int depth;
};

/* `bracket`: '{' or '[', and '}' or ']'. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

void json_number(struct json *json, const char *name, uint64_t value);

/* NULL is written as null. Bytes that are not UTF-8 are written as U+FFFD. */
void json_text(struct json *json, const char *name, const char *value);

#endif

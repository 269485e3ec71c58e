/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <string.h>

/* The length of the UTF-8 sequence that begins here; 0: there is none. Takes neither long forms nor surrogates. */
static size_t sequence_length(const unsigned char *s)
{
	size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90))
		return 0;
	return length;
}

static void write_string(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s) {
		size_t length = sequence_length(s);

		if (!length)
			fputs("\\ufffd", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else
			fwrite(s, 1, length, out);
		s += length ? length : 1;
	}
	fputc('"', out);
}

static void begin_line(const struct json *json)
{
	fputc('\n', json->out);
	for (unsigned int i = 0; i < json->depth; i++)
		fputs("  ", json->out);
}

static void begin(struct json *json, const char *name)
{
	if (json->follows)
		fputs(json->lines ? "," : ", ", json->out);
	if (json->lines && json->depth)
		begin_line(json);
	json->follows = true;
	if (!name)
		return;
	write_string(json->out, name);
	fputs(": ", json->out);
}

void json_open(struct json *json, const char *name, char bracket)
{
	begin(json, name);
	fputc(bracket, json->out);
	json->follows = false;
	json->depth++;
}

void json_close(struct json *json, char bracket)
{
	json->depth--;
	if (json->lines && json->follows)
		begin_line(json);
	fputc(bracket, json->out);
	json->follows = true;
}

void json_number(struct json *json, const char *name, uint64_t value)
{
	begin(json, name);
	fprintf(json->out, "%llu", (unsigned long long)value);
}

void json_text(struct json *json, const char *name, const char *value)
{
	begin(json, name);
	if (value)
		write_string(json->out, value);
	else
		fputs("null", json->out);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "kernel-text.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool expect_all;

static unsigned value_bytes(const struct value_type *type)
{
	return type->bits < 8 ? 1 : type->bits / 8;
}

static bool has_bound(const struct ptx_case *c)
{
	return c->bound.relative || c->bound.absolute;
}

static unsigned kept_values(const struct ptx_case *c)
{
	return expect_all ? TUPLES : has_bound(c) ? 192 : 64;
}

static uint32_t group_hash(const struct value_type *type, const uint64_t *column, unsigned first)
{
	uint64_t hash = 0;

	for (unsigned n = first; n < first + EXPECT_GROUP; n++)
		hash = value_mix(hash ^ value_canonical(type, column[n]));
	return (uint32_t)hash;
}

uint8_t *expect_pack(const struct ptx_case *c, const uint64_t *results, size_t *size)
{
	uint8_t *bytes = calloc(c->result_count, TUPLES * 8), *to = bytes;

	for (unsigned n = 0; n < c->result_count; n++, results += TUPLES) {
		unsigned kept = kept_values(c), length = value_bytes(c->results[n]);

		for (unsigned k = 0; k < kept; k++, to += length) {
			uint64_t value = value_canonical(c->results[n], results[k]);

			memcpy(to, &value, length);
		}
		for (unsigned k = kept; k < TUPLES && !has_bound(c); k += EXPECT_GROUP, to += 4) {
			uint32_t hash = group_hash(c->results[n], results, k);

			memcpy(to, &hash, 4);
		}
	}
	*size = (size_t)(to - bytes);
	return bytes;
}

void expect_print(FILE *out, uint64_t key, const uint8_t *bytes, size_t size)
{
	fprintf(out, "%016" PRIx64 " ", key);
	for (size_t n = 0; n < size; n += 3) {
		uint32_t three = (uint32_t)bytes[n] << 16;

		three |= n + 1 < size ? (uint32_t)bytes[n + 1] << 8 : 0;
		three |= n + 2 < size ? bytes[n + 2] : 0;
		for (unsigned k = 0; k < 4; k++)
			fputc(n + k > size ? '=' : digits[three >> (18 - 6 * k) & 63], out);
	}
	fputc('\n', out);
}

static uint8_t *decode(const char *text, size_t length, size_t *size)
{
	uint8_t *bytes = malloc(length + 3);
	uint32_t bits = 0;
	unsigned have = 0;

	*size = 0;
	for (size_t n = 0; n < length && text[n] != '='; n++) {
		const char *at = strchr(digits, text[n]);

		if (!at || !text[n]) {
			free(bytes);
			return NULL;
		}
		bits = bits << 6 | (uint32_t)(at - digits);
		have += 6;
		if (have >= 8) {
			have -= 8;
			bytes[(*size)++] = (uint8_t)(bits >> have);
		}
	}
	return bytes;
}

bool expect_read(const char *path, struct expect_file *file)
{
	char *text = read_text(path), *at = text;

	*file = (struct expect_file){0};
	while (at && *at) {
		size_t length = strcspn(at, "\n");
		struct expectation e = {0};
		int skip = 0;

		if (sscanf(at, "%" SCNx64 " %n", &e.key, &skip) < 1 || !skip ||
		    !(e.bytes = decode(at + skip, length - (size_t)skip, &e.size))) {
			fprintf(stderr, "%s: line %u is damaged\n", path, file->count + 1);
			free(text);
			return false;
		}
		file->lines = realloc(file->lines, (file->count + 1) * sizeof(e));
		file->lines[file->count++] = e;
		at += length + (at[length] != 0);
	}
	free(text);
	return true;
}

const struct expectation *expect_find(const struct expect_file *file, uint64_t key)
{
	for (unsigned n = 0; n < file->count; n++)
		if (file->lines[n].key == key)
			return &file->lines[n];
	return NULL;
}

static void describe_inputs(FILE *out, const struct ptx_case *c, unsigned tuple)
{
	char text[80];

	for (unsigned n = 0; n < c->operand_count; n++)
		fprintf(out, "%s %c=%s", n ? "," : "", "abcx"[n],
			value_print(c->operands[n], value_input(c->operands[n], n, tuple), text, sizeof(text)));
}

static bool say(const struct ptx_case *c, unsigned result, unsigned tuple, uint64_t want, uint64_t got, char *text,
		size_t size)
{
	char a[80], b[80];
	FILE *out = fmemopen(text, size, "w");

	fprintf(out, "tuple %u,", tuple);
	describe_inputs(out, c, tuple);
	fprintf(out, ": %c is %s, not %s", "defg"[result], value_print(c->results[result], got, a, sizeof(a)),
		value_print(c->results[result], want, b, sizeof(b)));
	fclose(out);
	return true;
}

static bool column_differs(const struct ptx_case *c, unsigned result, const uint64_t *column, const uint8_t **at,
			   char *text, size_t size)
{
	unsigned kept = kept_values(c), length = value_bytes(c->results[result]);

	for (unsigned k = 0; k < kept; k++, *at += length) {
		uint64_t want = 0;

		memcpy(&want, *at, length);
		if (!value_same(c->results[result], &c->bound, column[k], want))
			return say(c, result, k, want, column[k], text, size);
	}
	for (unsigned k = kept; k < TUPLES && !has_bound(c); k += EXPECT_GROUP, *at += 4) {
		uint32_t want;

		memcpy(&want, *at, 4);
		if (group_hash(c->results[result], column, k) == want)
			continue;
		snprintf(text, size, "%c is wrong in one of the tuples %u to %u (only a hash of them is recorded)",
			 "defg"[result], k, k + EXPECT_GROUP - 1);
		return true;
	}
	return false;
}

bool expect_differs(const struct ptx_case *c, const uint64_t *results, const struct expectation *e, char *text,
		    size_t size)
{
	const uint8_t *at = e->bytes;
	size_t want;
	uint8_t *bytes = expect_pack(c, results, &want);

	free(bytes);
	if (e->size != want) {
		snprintf(text, size, "%zu bytes are recorded, not %zu", e->size, want);
		return true;
	}
	for (unsigned n = 0; n < c->result_count; n++)
		if (column_differs(c, n, results + n * TUPLES, &at, text, size))
			return true;
	return false;
}

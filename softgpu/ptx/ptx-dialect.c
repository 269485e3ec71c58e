/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/ptx-dialect.h"

#include <stdint.h>
#include <string.h>

#include "ptx/ptx-lex.h"

/* The version that a target came with: facts of the PTX ISA. A family's code and what is for one target came later. */
static const struct {
	uint16_t target, version, a, f;
} targets[] = {
	{20, 20, 0, 0},    {21, 20, 0, 0},    {30, 30, 0, 0},    {32, 40, 0, 0},    {35, 31, 0, 0},    {37, 41, 0, 0},
	{50, 40, 0, 0},    {52, 41, 0, 0},    {53, 42, 0, 0},    {60, 50, 0, 0},    {61, 50, 0, 0},    {62, 50, 0, 0},
	{70, 60, 0, 0},    {72, 61, 0, 0},    {75, 63, 0, 0},    {80, 70, 0, 0},    {86, 71, 0, 0},    {87, 74, 0, 0},
	{88, 73, 0, 0},    {89, 78, 0, 0},    {90, 78, 80, 0},   {100, 86, 86, 88}, {103, 88, 88, 88}, {110, 90, 90, 90},
	{120, 87, 87, 88}, {121, 88, 88, 88},
};

unsigned ptx_dialect_version(double number)
{
	return number >= 1 && number < 100 ? (unsigned)(number * 10 + 0.5) : 0;
}

bool ptx_dialect_target(struct ptx_dialect *dialect, const char *text, size_t length)
{
	unsigned target = 0;
	size_t at;

	if (length < 5 || length > 8 || memcmp(text, "sm_", 3))
		return false;
	for (at = 3; at < length && text[at] >= '0' && text[at] <= '9'; at++)
		target = 10 * target + (unsigned)(text[at] - '0');
	if (at == 3 || at + 1 < length || (at < length && text[at] != 'a' && text[at] != 'f'))
		return false;
	dialect->target = target;
	dialect->suffix = at < length ? text[at] : 0;
	return true;
}

bool ptx_dialect_has_target(const struct ptx_dialect *d)
{
	for (size_t n = 0; n < sizeof(targets) / sizeof(targets[0]); n++)
		if (targets[n].target == d->target)
			return d->version >= (d->suffix == 'a'   ? targets[n].a
					      : d->suffix == 'f' ? targets[n].f
								 : targets[n].version);
	return true;
}

void ptx_dialect_read(struct ptx_dialect *d, const char *text, size_t length)
{
	struct ptx_lexer lexer = {text, text + length, 1};
	struct ptx_token token;
	double number;

	memset(d, 0, sizeof(*d));
	ptx_lex_next(&lexer, &token);
	if (!ptx_token_is(&token, ".version"))
		return;
	ptx_lex_next(&lexer, &token);
	if (token.kind == PTX_TOK_DOUBLE) {
		memcpy(&number, &token.value, sizeof(number));
		d->version = ptx_dialect_version(number);
	}
	d->version_line = token.line;
	ptx_lex_next(&lexer, &token);
	if (!ptx_token_is(&token, ".target"))
		return;
	ptx_lex_next(&lexer, &token);
	d->target_line = token.line;
	ptx_dialect_target(d, token.text, token.length);
}

bool ptx_dialect_runs(unsigned target, char suffix, unsigned device)
{
	if (suffix == 'a')
		return target == device;
	if (suffix == 'f')
		return target / 10 == device / 10 && target <= device;
	return target <= device;
}

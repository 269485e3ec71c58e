/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/ptx-dialect.h"

#include <string.h>

#include "architecture.h"
#include "ptx/ptx-lex.h"

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
	const struct softgpu_architecture *a = softgpu_architecture(d->target);
	unsigned since;

	if (!d->target)
		return true;
	if (!a)
		return false;
	since = d->suffix == 'a' ? a->version_a : d->suffix == 'f' ? a->version_f : a->version;
	return since && d->version >= since;
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

/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens. A name keeps its dots, so that `ld.global.v2.f32`, `%tid.x` and `.reg` are one token each. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx-lex.h"

enum { LETTER = 1, DIGIT = 2, SIGN = 4, BLANK = 8, PUNCTUATION = 16 }; /* SIGN: _ $ .; MARK: a token of its own */

static const unsigned char classes[256] = {
	['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['0' ... '9'] = DIGIT, ['_'] = SIGN,  ['$'] = SIGN,
	['.'] = SIGN,           [' '] = BLANK,          ['\t' ... '\r'] = BLANK,
	['('] = PUNCTUATION,           [')'] = PUNCTUATION,           ['['] = PUNCTUATION,           [']'] = PUNCTUATION,  ['{'] = PUNCTUATION,
	['}'] = PUNCTUATION,           [','] = PUNCTUATION,           [';'] = PUNCTUATION,           [':'] = PUNCTUATION,  ['<'] = PUNCTUATION,
	['>'] = PUNCTUATION,           ['='] = PUNCTUATION,           ['|'] = PUNCTUATION,           ['+'] = PUNCTUATION,  ['-'] = PUNCTUATION,
	['!'] = PUNCTUATION,           ['@'] = PUNCTUATION,           ['*'] = PUNCTUATION,           ['/'] = PUNCTUATION,  ['%'] = PUNCTUATION,
	['&'] = PUNCTUATION,           ['^'] = PUNCTUATION,           ['~'] = PUNCTUATION,           ['?'] = PUNCTUATION,
};

static bool is(char c, unsigned kinds)
{
	return classes[(unsigned char)c] & kinds;
}

/* %r1; a % alone is an operator */
static bool starts_name(const struct ptx_lexer *lx)
{
	char next = lx->at + 1 < lx->end ? lx->at[1] : 0;

	return is(*lx->at, LETTER | SIGN) || (*lx->at == '%' && next != '.' && is(next, LETTER | DIGIT | SIGN));
}

static bool name_part(char c)
{
	return is(c, LETTER | DIGIT | SIGN);
}

static void skip_blank(struct ptx_lexer *lx)
{
	while (lx->at < lx->end) {
		char c = *lx->at;

		if (c == '\n') {
			lx->line++;
			lx->at++;
		} else if (is(c, BLANK)) {
			lx->at++;
		} else if (c == '/' && lx->at + 1 < lx->end && lx->at[1] == '/') {
			while (lx->at < lx->end && *lx->at != '\n')
				lx->at++;
		} else if (c == '/' && lx->at + 1 < lx->end && lx->at[1] == '*') {
			lx->at += 2;
			while (lx->at < lx->end && !(lx->at[0] == '*' && lx->at + 1 < lx->end && lx->at[1] == '/'))
				lx->line += *lx->at++ == '\n';
			lx->at = lx->end - lx->at > 2 ? lx->at + 2 : lx->end;
		} else {
			return;
		}
	}
}

static void lex_decimal_float(struct ptx_token *token)
{
	char digits[64];
	size_t length = token->length < sizeof(digits) - 1 ? token->length : sizeof(digits) - 1;
	double value;

	memcpy(digits, token->text, length);
	digits[length] = 0;
	value = strtod(digits, NULL);
	memcpy(&token->value, &value, sizeof(value));
	token->kind = PTX_TOK_DOUBLE;
}

static bool lex_digits(struct ptx_token *token, const char *at, const char *end, unsigned base)
{
	uint64_t value = 0;

	if (at == end)
		return false;
	for (; at < end; at++) {
		unsigned digit = is(*at, DIGIT) ? (unsigned)(*at - '0')
							     : (unsigned)(tolower((unsigned char)*at) - 'a') + 10;

		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return false;
		value = value * base + digit;
	}
	token->value = value;
	return true;
}

static void lex_number(struct ptx_lexer *lx, struct ptx_token *token)
{
	const char *start = lx->at, *end;
	bool fraction = false;
	bool hex = lx->end - start > 1 && start[0] == '0' && strchr("xXfFdD", start[1]);

	while (lx->at < lx->end) {
		char c = *lx->at;

		if (!hex && c == '.')
			fraction = true;
		else if (!hex && (c == '+' || c == '-') && tolower((unsigned char)lx->at[-1]) == 'e' && lx->at > start)
			fraction = true;
		else if (!is(c, LETTER | DIGIT))
			break;
		else if (!hex && (c == 'e' || c == 'E'))
			fraction = true;
		lx->at++;
	}
	end = lx->at;
	token->length = (size_t)(end - start);
	if (fraction) {
		lex_decimal_float(token);
		return;
	}
	token->kind = PTX_TOK_INT;
	if (end - start > 2 && start[0] == '0' && strchr("fFdD", start[1])) {
		bool single = tolower((unsigned char)start[1]) == 'f';

		token->kind = single ? PTX_TOK_SINGLE : PTX_TOK_DOUBLE;
		if (end - start - 2 != (single ? 8 : 16) || !lex_digits(token, start + 2, end, 16))
			token->kind = PTX_TOK_BAD;
		return;
	}
	if (end - start > 1 && (end[-1] == 'U' || end[-1] == 'u'))
		end--;
	if (hex ? !lex_digits(token, start + 2, end, 16)
	    : end - start > 2 && start[0] == '0' && tolower((unsigned char)start[1]) == 'b'
		    ? !lex_digits(token, start + 2, end, 2)
		    : !lex_digits(token, start, end, start[0] == '0' && end - start > 1 ? 8 : 10))
		token->kind = PTX_TOK_BAD;
}

void ptx_lex_next(struct ptx_lexer *lx, struct ptx_token *token)
{
	char c;

	skip_blank(lx);
	*token = (struct ptx_token){.line = lx->line, .text = lx->at};
	if (lx->at >= lx->end)
		return;
	c = *lx->at;
	if (is(c, DIGIT) || (c == '.' && lx->end - lx->at > 1 && is(lx->at[1], DIGIT))) {
		lex_number(lx, token);
	} else if (starts_name(lx)) {
		do {
			lx->at += *lx->at == ':' ? 2 : 1;
			/* shared::cta, L1::evict_last: "::" goes on, a single ':' ends a label */
		} while (lx->at < lx->end && (name_part(*lx->at) || (lx->end - lx->at > 2 && lx->at[0] == ':' &&
								     lx->at[1] == ':' && name_part(lx->at[2]))));
		token->kind = PTX_TOK_NAME;
	} else if (c == '"') {
		const char *close = memchr(lx->at + 1, '"', (size_t)(lx->end - lx->at - 1));
		const char *newline = close ? memchr(lx->at, '\n', (size_t)(close - lx->at)) : NULL;

		token->kind = close && !newline ? PTX_TOK_STRING : PTX_TOK_BAD;
		lx->at = close && !newline ? close + 1 : lx->end;
	} else {
		token->kind = is(c, PUNCTUATION) ? (unsigned char)c : PTX_TOK_BAD;
		lx->at++;
	}
	token->length = (size_t)(lx->at - token->text);
}

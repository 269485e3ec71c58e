/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of PTX to tokens. A token points into the text, which the caller keeps. ptx_lex_next() never fails: PTX_TOK_BAD
 * is text that is no token, and the end gives PTX_TOK_END again and again. Lines count from the caller's first number.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_LEX_H
#define VCUDA_BACKEND_CPU_PTX_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum ptx_token_kind {
	PTX_TOK_END = 0,
	/* Punctuation is its own character. */
	PTX_TOK_NAME = 256, /* identifiers, registers, directives (leading dot) and instructions with all modifiers */
	PTX_TOK_INT,
	PTX_TOK_SINGLE, /* value: bits of an f32 */
	PTX_TOK_DOUBLE, /* value: bits of an f64 */
	PTX_TOK_STRING,
	PTX_TOK_BAD,
};

struct ptx_token {
	int kind;
	unsigned line;
	const char *text;
	size_t length;
	uint64_t value;
};

struct ptx_lexer {
	const char *at, *end;
	unsigned line;
};

void ptx_lex_next(struct ptx_lexer *lexer, struct ptx_token *token);

/* In the header, so that the compiler folds the length of a constant. */
static inline bool ptx_token_is(const struct ptx_token *token, const char *text)
{
	return token->kind == PTX_TOK_NAME && strlen(text) == token->length &&
	       !memcmp(text, token->text, token->length);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions whose names are small grammars: shapes, several types, words in fixed places. A row lists the words that
 * may be written; the emitter looks at them, and refuses what does not belong together. Rows of one name stand together,
 * names in order; the row with the longest name that fits is taken.
 */
#include <string.h>

#include "ptx-opcodes.h"

#define EFFECT (PTX_F_EFFECT | PTX_F_WORDS)
#define WARP (EFFECT | PTX_F_WARP)
#define SHAPE(id) PTX_SHAPE_##id
#define WMMA_SHAPES "m16n16k16 m8n32k16 m32n8k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 "
#define WMMA_TYPES "f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32 "
#define SPACE "global shared shared::cta "

static const struct {
	struct ptx_opcode op;
	const char *words;
} rows[] = {
	{{"ldmatrix", 0, 0, 2, 2, SHAPE(VARYING), WARP | PTX_F_SITE, emit_matrix_rows, 0},
	 "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"},
	{{"mma", 0, 0, 4, 4, SHAPE(VARYING), WARP, emit_mma, 0},
	 "sync aligned m8n8k4 m16n8k4 m16n8k8 m16n8k16 m8n8k16 m16n8k32 m8n8k32 m16n8k64 m8n8k128 m16n8k128 m16n8k256 "
	 "row col satfinite xor and popc f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32 e4m3 e5m2 rn"},
	{{"movmatrix", 0, 0, 2, 2, SHAPE(VARYING), WARP, emit_movmatrix, 0}, "sync aligned m8n8 trans b16"},
	{{"stmatrix", 0, 0, 2, 2, SHAPE(NONE), WARP | PTX_F_SITE | PTX_F_WRITE | PTX_F_NO_DST, emit_matrix_rows, 1},
	 "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"},
	{{"wmma.load", 0, 0, 2, 3, SHAPE(VARYING), WARP | PTX_F_SITE, emit_tile_load, 0},
	 "a b c sync aligned row col " SPACE WMMA_SHAPES WMMA_TYPES},
	{{"wmma.mma", 0, 0, 4, 4, SHAPE(VARYING), WARP, emit_mma, 1},
	 "sync aligned row col satfinite xor and popc rn " WMMA_SHAPES WMMA_TYPES},
	{{"wmma.store", 0, 0, 2, 3, SHAPE(NONE), WARP | PTX_F_SITE | PTX_F_WRITE | PTX_F_NO_DST, emit_tile_store, 0},
	 "d sync aligned row col " SPACE WMMA_SHAPES WMMA_TYPES},
};

#define COUNT (sizeof(rows) / sizeof(rows[0]))

size_t ptx_word_next(const char **at, const char **word)
{
	const char *start = *at, *end;

	while (*start == '.' || *start == ' ')
		start++;
	for (end = start; *end && *end != '.' && *end != ' '; end++)
		;
	*word = start;
	*at = end;
	return (size_t)(end - start);
}

const char *ptx_words_of(const struct ptx_instr *i)
{
	return i->name + strlen(i->op->name);
}

static bool has(const char *list, const char *wanted, size_t length)
{
	const char *word;
	size_t n;

	while ((n = ptx_word_next(&list, &word)))
		if (n == length && !memcmp(word, wanted, n))
			return true;
	return false;
}

bool ptx_word(const struct ptx_instr *i, const char *word)
{
	return has(ptx_words_of(i), word, strlen(word));
}

static bool all_known(const char *name, const char *list)
{
	const char *word;
	size_t n;

	while ((n = ptx_word_next(&name, &word)))
		if (!has(list, word, n))
			return false;
	return true;
}

const struct ptx_opcode *ptx_words_find(const char *name, size_t length, bool *known)
{
	const struct ptx_opcode *best = NULL;
	size_t longest = 0;

	*known = false;
	for (size_t r = 0; r < COUNT; r++) {
		size_t n = strlen(rows[r].op.name);

		if (n > length || n < longest || memcmp(rows[r].op.name, name, n) || (name[n] && name[n] != '.'))
			continue;
		if (n > longest)
			*known = false;
		/* of several rows of one name the first that knows all words */
		if (best && n == longest && *known)
			continue;
		longest = n;
		best = &rows[r].op;
		*known = all_known(name + n, rows[r].words);
	}
	return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction tests of one family, from a .ptxt file:
 *
 *   # a comment
 *   target sm_90                                  the operand of .target; sm_80 without it
 *   threads 8 4 4                                 the shape of a block, 128 threads; 128 1 1 without it
 *   module {{ TEXT }}                             PTX before the kernel
 *   b32 = b32 b32 : add.<u32|s32|sat.s32>         results = operands : instruction
 *   b32 pred = b32 : shfl.sync.up.b32 $d|$e, $a, 1, 0, -1;
 *   f32 = f32 : rcp.approx.f32 ~ 2.4e-7           a bound of the relative error
 *   f32 = f32 : sin.approx.f32 ~ 0 1e-6           and of the absolute one
 *   b32 = b32 : {{ several lines }}
 *
 * Each choice in <|> makes a test of its own. In a text with $, results are $d, $e, $f, $g, operands $a, $b, $c, $x;
 * without, it is an instruction's name, followed by all of them. A text has a PTX scope of its own. %in and %out are
 * taken; %tuple is the number of the thread in the grid, %own the address of 64 bytes of its own in global memory.
 */
#ifndef TEST_PTX_CASE_H
#define TEST_PTX_CASE_H

#include "value.h"

#define CASE_VALUES 4

struct ptx_case {
	char *text;
	const struct value_type *results[CASE_VALUES], *operands[CASE_VALUES];
	unsigned result_count, operand_count, line;
	struct value_bound bound;
	bool may_refuse;
	uint64_t key; /* of the text and the types */
};

struct case_file {
	struct ptx_case *cases;
	unsigned count;
	char target[32];
	unsigned threads[3];
	char *module;
};

/* Returns false after it said what is wrong with the file. */
bool case_file_read(const char *path, struct case_file *file);

/* All of a file's bytes and a NUL, for free(); NULL: it cannot be read. */
char *read_text(const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes machine code of sm_75 to sm_90: an instruction has 128 bits. sass-forms.table has the forms. An instruction
 * with a set bit that its form does not have is unknown, so that no meaning is overlooked. Thread-safe.
 */
#ifndef VCUDA_CPU_SASS_DECODE_H
#define VCUDA_CPU_SASS_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sass-forms.h"

#define SASS_BYTES 16 /* of an instruction */
#define SASS_RZ 255   /* the general register that is zero */
#define SASS_URZ 63   /* the uniform register that is zero */
#define SASS_PT 7     /* the predicate that is true */

enum sass_kind { SASS_ALU, SASS_UALU, SASS_OP };

/* Flags of a source in a form. */
enum sass_source_flags { SASS_HAS = 1, SASS_NEGATE = 2, SASS_ABSOLUTE = 4, SASS_HALF = 8 };

struct sass_form_field {
	uint8_t field; /* enum sass_field */
	uint8_t low, width, is_signed;
	int8_t value; /* the only known one; -1: any */
};

struct sass_form {
	const char *name;
	uint8_t function;   /* enum sass_function_id */
	uint8_t kind;       /* enum sass_kind */
	uint8_t sources[4]; /* destination, a, b, c: enum sass_source_flags; 0: not there */
	uint64_t known[2];  /* the bits that may be set */
	const struct sass_form_field *fields;
	uint8_t field_count;
};

/* The last one is an immediate that a relocation replaces. */
enum sass_operand_kind { SASS_NONE, SASS_REGISTER, SASS_UNIFORM, SASS_IMMEDIATE, SASS_BANK, SASS_RELOCATED };

/* Both halves; an f32 in their place; one of them twice. */
enum sass_half { SASS_BOTH, SASS_F32, SASS_LOWER, SASS_UPPER };

struct sass_operand {
	uint8_t kind; /* enum sass_operand_kind */
	uint8_t reg;  /* its number; of a constant the uniform register that has the bank's handle, if `bindless` */
	bool negate, absolute, bindless;
	uint8_t half;    /* of pairs: enum sass_half; of conversions 1 for the upper one */
	uint8_t bank;    /* of a constant */
	uint32_t number; /* an immediate, or the offset of a constant in bytes */
};

struct sass_instr {
	const struct sass_form *form;
	uint32_t address; /* of the instruction in its function, in bytes */
	uint8_t guard;    /* the predicate without which it has no effect */
	bool guard_not;
	uint8_t d; /* destination register; SASS_RZ if the form has none */
	struct sass_operand a, b, c;
	int64_t field[SASS_FIELDS]; /* fields that the form does not have are 0 */
};

/* False: the form is unknown; `error`, of `room` bytes, gets its words and a name if it has one. */
bool sass_decode(const uint8_t *code, uint32_t address, struct sass_instr *instr, char *error, size_t room);

/* The tables of sass-forms.c. */
extern const struct sass_form sass_forms[];
extern const uint16_t sass_form_of[4096];

#endif

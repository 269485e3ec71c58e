/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a cubin, an ELF file with machine code of NVIDIA's GPUs, from memory. Every offset, count and string of the
 * file is checked. Time and memory are bounded by the size of the file. No state, no logging: the functions are
 * thread-safe.
 */
#ifndef VCUDA_SASS_CUBIN_H
#define VCUDA_SASS_CUBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sass-callee.h"

struct sass_param {
	uint32_t ordinal, offset, bytes; /* offset within the parameter area */
};

enum sass_space { SASS_GLOBAL, SASS_CONSTANT };

/* NVIDIA's numbers of addresses in data: of 32 and of 64 bits, such of generic addresses, and of functions. */
enum { SASS_ADDRESS_32 = 1, SASS_ADDRESS_64, SASS_GENERIC_32, SASS_GENERIC_64, SASS_FUNCTION_64 = 35 };

/* A symbol whose address is at `offset` of a section, or in the instruction there. */
struct sass_relocation {
	uint64_t offset;
	uint32_t type; /* NVIDIA's number of the kind of relocation */
	const char *symbol;
	uint32_t symbol_section; /* 0: the symbol is not defined here */
	uint64_t symbol_value;   /* its offset in that section */
	bool is_function;        /* the symbol is one of code */
	int64_t addend;          /* also of data, where the file has it in the bytes themselves */
};

/*
 * A variable of .nv.global, .nv.global.init or .nv.constant3. Variables do not overlap. Gaps of .nv.constant3, and gaps
 * with bytes that are not 0, are variables with names of their own.
 */
struct sass_variable {
	const char *name; /* unique, and a name in PTX */
	enum sass_space space;
	bool global, managed; /* other modules see it; the host reads and writes it */
	uint32_t section;
	uint64_t offset, bytes; /* in its section */
	uint32_t align;
	const uint8_t *initial; /* NULL: zeroes */
	uint32_t first_relocation, relocation_count;
	const struct sass_relocation
		*relocations; /* of the initial bytes, in order; offsets are those of the section */
	char *own_name;
};

/* A function whose code is behind that of others. */
struct sass_part {
	uint32_t place;
	const char *name;
};

struct sass_function {
	const char *name;
	const char *entry; /* the name that its entry has in the text; NULL: `name` */
	bool kernel, global;
	const uint8_t *code;
	uint32_t bytes;   /* of the whole section, a multiple of 16 */
	uint32_t section; /* its number */
	/* The place of parameters in bank 0: 0x160, or 0x210 on sm_90. */
	uint32_t param_base, param_bytes;
	uint32_t param_count;
	struct sass_param *params;                /* in order of ordinals and offsets */
	uint32_t frame_bytes;                     /* local memory of a thread, with all callees */
	uint32_t stack_bytes, return_stack_bytes; /* parts of that, as the compiler says */
	/* From sm_90 on the bytes of shared memory begin with some that the system has: the kernel's are behind these.
	 */
	uint32_t shared_bytes, shared_base;
	uint32_t registers, max_threads[3], required_threads[3], cluster[3]; /* 0: not said */
	const uint8_t *constant2;                                            /* NULL: none */
	uint32_t constant2_bytes;
	/* For each BRX the offset, a word, the number of its targets and their offsets. NULL: not said. */
	const uint8_t *branches;
	uint32_t branch_words;
	const uint8_t *constant0; /* NULL: none */
	uint32_t constant0_bytes;
	uint32_t relocation_count;
	struct sass_relocation *relocations; /* of the code, in order of offsets */
	/* The functions of a kernel with its callees (whole.h), in order of their places; else none. */
	uint32_t part_count;
	const struct sass_part *parts;
};

struct sass_symbol;
struct sass_file;

struct sass_cubin {
	unsigned int architecture; /* 80 for sm_80 */
	bool specific;             /* sm_90a: for exactly this architecture */
	bool linked;               /* false: a device linker has not seen it (nvcc -rdc=true) */
	uint32_t function_count;
	struct sass_function *functions;
	uint32_t variable_count; /* in order of (section, offset) */
	struct sass_variable *variables;
	/* Constant bank 4 has addresses of 8 bytes, in order of offsets, and numbers between them. */
	uint32_t bank4_count;
	struct sass_relocation *bank4;
	const uint8_t *constant4; /* NULL: none */
	uint32_t constant4_bytes;
	const uint8_t *constant3; /* NULL: none */
	uint32_t constant3_bytes, constant3_section;
	/* Symbols that are used and not defined: each once, in the order of the file. */
	uint32_t undefined_count;
	struct sass_undefined {
		const char *name;
		bool is_function;
		enum sass_space space; /* of a variable */
	} * undefined;
	struct sass_relocation *data_relocations; /* of all variables */
	/* Functions that are no kernels, and the most that any function needs of a thread. */
	bool has_callees;
	uint32_t most_frame_bytes, most_registers;
	/* Bank 2 of all kernels, if it is the same: callees find their constants there. NULL: none is known. */
	const uint8_t *callee_constant2;
	uint32_t callee_constant2_bytes;
	struct sass_file *file;
};

/*
 * Keeps pointers into `data`. 0; -EINVAL: the file is malformed; -ENOMEM. After an error *cubin is NULL, and `error`,
 * of `room` bytes, says why.
 */
int sass_cubin_open(const void *data, size_t bytes, struct sass_cubin **cubin, char *error, size_t room);
void sass_cubin_close(struct sass_cubin *cubin);

/* The variable that has this byte of a section; NULL: none. An address right behind a variable is that variable's. */
const struct sass_variable *sass_variable_at(const struct sass_cubin *cubin, uint32_t section, uint64_t offset);

/* The function whose code is this section; NULL: none. */
const struct sass_function *sass_function_in(const struct sass_cubin *cubin, uint32_t section);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the parts of the parser share. */
#ifndef VCUDA_BACKEND_CPU_PTX_PARSE_H
#define VCUDA_BACKEND_CPU_PTX_PARSE_H

#include "ptx/ptx-forms.h"
#include "front/ptx-ir.h"
#include "ptx/ptx-lex.h"
#include "front/ptx-names.h"

#define PTX_BUCKETS 1024
#define PTX_MAX_SCOPES 64
#define PTX_MNEMONICS 256

struct ptx_table {
	struct ptx_symbol *buckets[PTX_BUCKETS];
};

/* An instruction's name, parsed once: the same names come again and again. */
struct ptx_mnemonic {
	const char *name;
	size_t length;
	const struct ptx_opcode *op;
	ptx_mods mods;
	uint8_t type, type2, space;
};

struct ptx_parser {
	struct ptx_lexer lexer;
	struct ptx_token token;
	struct ptx_module *module;
	struct ptx_error *error;
	enum ptx_status status; /* sticky: once it is not PTX_OK every token is PTX_TOK_END */
	struct ptx_table symbols, labels;
	struct ptx_mnemonic mnemonics[PTX_MNEMONICS]; /* by the name's hash, the last one */
	/* all symbols in order of declaration, so that a scope can be undone; not in the arena, for it goes with the parser */
	struct ptx_symbol **scope;
	uint32_t scope_count, scope_room;
	const struct ptx_names *around; /* of a body that is read later: what its text declares; the first `visible` of it */
	uint32_t visible;
	uint32_t kernels[PTX_BUCKETS]; /* the number of the last kernel whose name has that hash, from 1 */
	struct ptx_function *function;
	uint32_t instr_room, reg_room, label_room;
	bool uncompiled; /* the last instruction's operands are legal, but the compiler does not implement them */
	uint32_t used_bytes; /* of the load that comes next, a bit each; 0: of all */
	uint32_t text; /* number of the present text, from 1 */
	struct ptx_dialect dialect; /* the dialect of the text */
	uint64_t constant_bytes;  /* bytes of the text's constants so far */
	const char *start;        /* the begin of the text */
	struct ptx_token closing; /* the } of the last body */
	uint32_t depth, scope_starts[PTX_MAX_SCOPES]; /* depth and starts of blocks in braces */
	struct ptx_symbol **label_scope, *outer_labels;
	uint32_t label_scope_count, label_scope_room;
};

void ptx_parse_end(struct ptx_parser *p); /* frees it */
void ptx_parse_next(struct ptx_parser *p);
bool ptx_parse_fail(struct ptx_parser *p, enum ptx_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool ptx_parse_accept(struct ptx_parser *p, int kind);
bool ptx_parse_expect(struct ptx_parser *p, int kind);
bool ptx_parse_integer(struct ptx_parser *p, uint64_t *value); /* a literal */

/* ---- ptx-parse-constant.c ---- */
enum ptx_constant_kind { PTX_CONST_SIGNED, PTX_CONST_UNSIGNED, PTX_CONST_REAL };

struct ptx_constant {
	enum ptx_constant_kind kind;
	uint64_t value; /* for a floating point number the bits of an f64 */
	bool single;    /* a literal of an f32, whose bits are kept just as they are */
	uint32_t bits;
};

bool ptx_parse_constant(struct ptx_parser *p, struct ptx_constant *value); /* an expression */
bool ptx_parse_number(struct ptx_parser *p, uint64_t *value);              /* an expression with an integer value */
bool ptx_parse_product(struct ptx_parser *p, uint64_t *value);             /* and binds tighter than + and - */
unsigned ptx_parse_type(const char *text, size_t length);
uint32_t ptx_parse_hash(const char *name, size_t length);
struct ptx_symbol *ptx_parse_find(struct ptx_table *table, const char *name, size_t length);
/* The symbol of a name here, in the scope or around it; NULL: none. */
struct ptx_symbol *ptx_parse_symbol(struct ptx_parser *p, const char *name, size_t length);
struct ptx_symbol *ptx_parse_declare(struct ptx_parser *p, struct ptx_table *table, const char *name, size_t length);
void ptx_parse_close_scope(struct ptx_parser *p, uint32_t scope_start);
/* Makes a symbol known until its scope is closed. */
bool ptx_parse_reopen(struct ptx_parser *p, struct ptx_symbol *symbol);
/* Marks of a declaration at module scope. */
enum {
	PTX_LINK_EXTERN = 1 << 0,
	PTX_LINK_VISIBLE = 1 << 1,
	PTX_LINK_WEAK = 1 << 2,
	PTX_LINK_COMMON = 1 << 3,
};

/* The symbol that a declaration at module scope repeats; another text's only if both are linked. NULL: none. */
struct ptx_symbol *ptx_parse_find_linked(struct ptx_parser *p, const char *name, size_t length, unsigned linkage);
/* Notes how a symbol was declared. */
void ptx_parse_mark_linked(struct ptx_parser *p, struct ptx_symbol *symbol, unsigned linkage);
/* A variable, from its state space on; in a function's body or at module scope. */
bool ptx_parse_variable(struct ptx_parser *p, unsigned linkage);
bool ptx_parse_body(struct ptx_parser *p);

/* ---- declarations: ptx-parse-variable.c, ptx-parse-function.c ---- */
#define PTX_MAX_DIMENSIONS 32

struct ptx_declaration {
	unsigned space, type, lanes;
	unsigned dimension_count;
	uint64_t dimensions[PTX_MAX_DIMENSIONS]; /* the first of an open array is 0 */
	uint64_t align, size;
	bool reference; /* .texref or .surfref */
	bool managed, open_array; /* name[]: the size follows from the initialiser, or the memory is dynamic */
	const char *name;
	size_t name_length;
};

bool ptx_parse_no_memory(struct ptx_parser *p);

/* ---- ptx-parse-label.c: blocks in braces, and their labels ---- */
void ptx_parse_begin_labels(struct ptx_parser *p);
bool ptx_parse_open_scope(struct ptx_parser *p);
bool ptx_parse_leave_scope(struct ptx_parser *p);
void ptx_parse_end_labels(struct ptx_parser *p);
struct ptx_symbol *ptx_parse_label(struct ptx_parser *p, const struct ptx_token *name);
struct ptx_symbol *ptx_parse_prototype_label(struct ptx_parser *p, const struct ptx_token *name);

/* ---- ptx-parse-operand.c ---- */
/* [register + number] and its like, without the bracket at the end. */
bool ptx_parse_address(struct ptx_parser *p, struct ptx_operand *o);
bool ptx_parse_operand(struct ptx_parser *p, struct ptx_operand *o, bool label, unsigned depth); /* depth: in {} */
bool ptx_parse_argument(struct ptx_parser *p, struct ptx_operand *o); /* no vector, no label */
/* All parts of a special register, such as %tid: what a vector is moved from. */
bool ptx_parse_special_vector(struct ptx_parser *p, struct ptx_operand *o);
bool ptx_parse_named(struct ptx_parser *p, struct ptx_operand *o, bool label); /* a register, a symbol, a label */

/* ---- ptx-operands.c ---- */
/* Is the operand that follows the last one that there may be? */
bool ptx_parse_is_last_operand(const struct ptx_instr *i);
/* Are there as many operands as the instruction's row says, and do their registers agree with its types? */
bool ptx_parse_check_operands(struct ptx_parser *p, const struct ptx_instr *i);

/* The types of a letter of an opcode's operands, up to PTX_NONE; none: any. */
void ptx_parse_wanted_types(const struct ptx_instr *i, char letter, uint8_t types[4]);

/* ---- ptx-operand-kinds.c ---- */
/* May this operand be what it is, a register, a number, an address and so on? */
bool ptx_parse_check_kind(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter);
/* Are the operands, which are right one by one, so together? */
bool ptx_parse_check_together(struct ptx_parser *p, const struct ptx_instr *i);

/* ---- ptx-parse-expand.c: instructions, each the last one so far, that become several ---- */
/* A load or store of 128 bits, or of eight numbers. */
bool ptx_parse_wide_access(struct ptx_parser *p, struct ptx_instr *i);
bool ptx_parse_eight(struct ptx_parser *p, const struct ptx_instr *i);
/* A texture or surface instruction that names a reference, or asks whether what it fetches is there. */
bool ptx_parse_tex_rest(struct ptx_parser *p, struct ptx_instr *i);

/* ---- ptx-parse-body.c, for the two files around it ---- */
struct ptx_instr *ptx_parse_append(struct ptx_parser *p);             /* an empty instruction; NULL: no memory */
bool ptx_parse_registers(struct ptx_parser *p, struct ptx_symbol *s, unsigned type, uint64_t count);

/* ---- ptx-parse-call.c ---- */
/* The rest of the call `i`, which is the function's last instruction. */
bool ptx_parse_call(struct ptx_parser *p, struct ptx_instr *i);
/* Opens a body: makes registers for the parameters that are declared as such. */
bool ptx_parse_open_function(struct ptx_parser *p);
/* Stores the results that registers hold, before the return `i` (the last instruction), or at the end of the body. */
bool ptx_parse_return(struct ptx_parser *p, struct ptx_instr *i);

/* ---- texture and surface instructions: ptx-parse-tex.c ---- */
/* False: it is none. True with i->tex NULL: it is one, but not one that is supported. */
bool ptx_parse_tex_name(struct ptx_parser *p, struct ptx_instr *i, const char *name, size_t length, size_t *first);
/* Completes a texture instruction by its operands. */
void ptx_parse_tex_operands(struct ptx_instr *i);

unsigned ptx_parse_space(const struct ptx_token *token);
bool ptx_parse_declaration(struct ptx_parser *p, struct ptx_declaration *d);
/* Gives a symbol the next place behind `*end`. Fails if its state space then exceeds PTX_MAX_SPACE_BYTES. */
bool ptx_parse_place(struct ptx_parser *p, uint64_t *end, struct ptx_symbol *symbol);
bool ptx_parse_alias(struct ptx_parser *p); /* ptx-alias.c */
bool ptx_parse_function(struct ptx_parser *p, bool entry, unsigned linkage);
/* Parses a body whose { is the present token. The scope has all that the body sees but its parameters. */
bool ptx_parse_function_body(struct ptx_parser *p, struct ptx_function *fn);
/* From .callprototype on. */
bool ptx_parse_prototype(struct ptx_parser *p, struct ptx_symbol *label);

#endif

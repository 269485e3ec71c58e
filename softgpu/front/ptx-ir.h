/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler's own form of a PTX module. Everything hangs off an arena and dies with the module; nothing here is
 * changed once ptx_module_create() has returned, except the addresses that ptx_module_place() sets and what the
 * module's locks protect. A function's body is read when a kernel that may run it is first compiled.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_IR_H
#define VCUDA_BACKEND_CPU_PTX_IR_H

#include <pthread.h>
#include <stdarg.h>

#include "kernel.h"
#include "common/cache.h"

/* Name, text, bits, class: b(its) u(nsigned) s(igned) f(loat) h(alf) y (bfloat) p(redicate); upper case: a pair. */
#define PTX_TYPES(X)                                                                                                   \
	X(B8, "b8", 8, 'b')                                                                                            \
	X(B16, "b16", 16, 'b')                                                                                         \
	X(B32, "b32", 32, 'b')                                                                                         \
	X(B64, "b64", 64, 'b')                                                                                         \
	X(B128, "b128", 128, 'b')                                                                                      \
	X(U8, "u8", 8, 'u')                                                                                            \
	X(U16, "u16", 16, 'u')                                                                                         \
	X(U32, "u32", 32, 'u')                                                                                         \
	X(U64, "u64", 64, 'u')                                                                                         \
	X(S8, "s8", 8, 's')                                                                                            \
	X(S16, "s16", 16, 's')                                                                                         \
	X(S32, "s32", 32, 's')                                                                                         \
	X(S64, "s64", 64, 's')                                                                                         \
	X(U16X2, "u16x2", 32, 'U')                                                                                     \
	X(S16X2, "s16x2", 32, 'S')                                                                                     \
	X(F16, "f16", 16, 'h')                                                                                         \
	X(F16X2, "f16x2", 32, 'H')                                                                                     \
	X(BF16, "bf16", 16, 'y')                                                                                       \
	X(BF16X2, "bf16x2", 32, 'Y')                                                                                   \
	X(F32, "f32", 32, 'f')                                                                                         \
	X(F64, "f64", 64, 'f')                                                                                         \
	X(F32X2, "f32x2", 64, 'F')                                                                                     \
	X(PRED, "pred", 1, 'p')

enum ptx_type {
	PTX_NONE,
#define X(id, text, bits, cls) PTX_##id,
	PTX_TYPES(X)
#undef X
		PTX_TYPE_COUNT
};

struct ptx_type_info {
	const char *text;
	unsigned bits;
	char cls;
};
extern const struct ptx_type_info ptx_types[PTX_TYPE_COUNT];

/* Everything else that may follow a dot in an instruction's name. The atomic operations stand together, AND to EXCH. */
/* clang-format off */
#define PTX_MODIFIERS(X) \
	X(RN, "rn") X(RZ, "rz") X(RM, "rm") X(RP, "rp") X(RNI, "rni") X(RZI, "rzi") X(RMI, "rmi") \
	X(RPI, "rpi") X(FTZ, "ftz") X(SAT, "sat") X(APPROX, "approx") X(FULL, "full") X(WIDE, "wide") \
	X(HI, "hi") X(LO, "lo") X(UNI, "uni") X(SYNC, "sync") X(ALIGNED, "aligned") X(VOLATILE, "volatile") \
	X(RELAXED, "relaxed") X(ACQUIRE, "acquire") X(RELEASE, "release") X(ACQ_REL, "acq_rel") \
	X(WEAK, "weak") X(SC, "sc") X(CTA, "cta") X(CLUSTER, "cluster") X(GPU, "gpu") X(SYS, "sys") \
	X(GL, "gl") X(GLOBAL, "global") X(SHARED, "shared") X(LOCAL, "local") X(CONST, "const") \
	X(PARAM, "param") X(V2, "v2") X(V4, "v4") X(CA, "ca") X(CG, "cg") X(CS, "cs") X(LU, "lu") \
	X(CV, "cv") X(WB, "wb") X(WT, "wt") X(NC, "nc") X(HINT, "L1::evict_normal") X(EQ, "eq") X(NE, "ne") \
	X(LT, "lt") X(LE, "le") X(GT, "gt") X(GE, "ge") X(LS, "ls") X(HS, "hs") X(EQU, "equ") X(NEU, "neu") \
	X(LTU, "ltu") X(LEU, "leu") X(GTU, "gtu") X(GEU, "geu") X(NUM, "num") X(NAN_, "nan") X(AND, "and") \
	X(OR, "or") X(XOR, "xor") X(ADD, "add") X(MIN, "min") X(MAX, "max") X(INC, "inc") X(DEC, "dec") \
	X(CAS, "cas") X(EXCH, "exch") X(UP, "up") X(DOWN, "down") X(BFLY, "bfly") X(IDX, "idx") \
	X(ALL, "all") X(ANY, "any") X(BALLOT, "ballot") X(RED, "red") X(ARRIVE, "arrive") X(WARP, "warp") \
	X(POPC, "popc") X(TO, "to") X(F4E, "f4e") X(B4E, "b4e") X(RC8, "rc8") X(ECL, "ecl") X(ECR, "ecr") \
	X(RC16, "rc16") X(L, "l") X(R, "r") X(CLAMP, "clamp") X(WRAP, "wrap") X(NANP, "NaN") \
	X(FINITE, "finite") X(INFINITE, "infinite") X(NUMBER, "number") X(NOTANUMBER, "notanumber") \
	X(NORMAL, "normal") X(SUBNORMAL, "subnormal") X(CC, "cc") X(SHIFTAMT, "shiftamt") X(NOFTZ, "noftz") \
	X(RELU, "relu") X(PAIR, "pair") X(POLICY, "L2::cache_hint") X(OOB, "oob") X(V8, "v8")
/* clang-format on */

enum ptx_modifier {
#define X(id, text) PTX_MOD_##id,
	PTX_MODIFIERS(X)
#undef X
		PTX_MOD_COUNT
};

typedef unsigned __int128 ptx_mods;
#define M(id) ((ptx_mods)1 << PTX_MOD_##id)

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_CONST, PTX_PARAM, PTX_REG, PTX_TEXTURE, PTX_SURFACE };

enum ptx_symbol_kind {
	PTX_SYM_VARIABLE,
	PTX_SYM_FUNCTION,
	PTX_SYM_PARAM,
	PTX_SYM_REGISTER,
	PTX_SYM_FAMILY,
	PTX_SYM_LABEL
};

struct ptx_function;

/* The shared variables of a kernel, or the local variables or parameters of a function, together; fits an int. */
#define PTX_MAX_SPACE_BYTES (1ull << 30)
#define PTX_MAX_SHARED_BYTES (227u << 10) /* limit of a block on a present GPU */

/* The functions or labels of a .calltargets or .branchtargets directive. */
struct ptx_targets {
	const struct ptx_symbol **list;
	uint32_t count;
};

struct ptx_symbol {
	const char *name;
	struct ptx_symbol *next; /* in its hash bucket, newest first */
	uint32_t hash;
	uint8_t kind, space, type;
	bool is_extern, dynamic; /* dynamic: .extern .shared without a size */
	bool reference;          /* a variable with the handle of a texture or surface object */
	bool taken;              /* a function whose address the module uses */
	bool global, weak, common; /* other texts of the module may mean it; how it is defined */
	uint32_t text;           /* the last one that declared it */
	unsigned line;
	uint64_t size, align;
	uint64_t offset; /* in the parameter buffer or the local frame; a label's depth */
	uint32_t index;  /* variable, function, register (first of a family), label or function-parameter number */
	uint32_t count;  /* of a register family */
	uint8_t lanes;   /* of a vector of registers, which follow one another; 0: it is none */
	struct ptx_function *function; /* of a label: its .callprototype */
	const struct ptx_targets *targets; /* of a label */
	struct ptx_symbol *alias; /* of a function: the one that it is another name of */
	const struct ptx_symbol *outer; /* of a label: the one that it is, of the block around its own */
	const char *register_name; /* a .reg parameter of a function, which is passed as a .param one */
	int32_t reg;               /* the register `register_name`, in the body */
	bool predicate;            /* the parameter is a predicate, which is passed as a .b32 */
};

enum ptx_operand_kind {
	PTX_OP_NONE,
	PTX_OP_REG,     /* reg; negate: !p */
	PTX_OP_INT,     /* imm */
	PTX_OP_FLOAT,   /* imm: bits of an f32 (single) or f64 */
	PTX_OP_SYMBOL,  /* the address of symbol, plus imm */
	PTX_OP_MEM,     /* [reg + imm], [symbol + imm] or [imm] */
	PTX_OP_VECTOR,  /* {elements} */
	PTX_OP_LABEL,   /* reg: label number; symbol: its name */
	PTX_OP_SPECIAL, /* reg: enum ptx_special */
	PTX_OP_SINK,    /* _ */
};

/* Up to four numbers of parts, the last written first, how many they are, and whether the parts are halves or bytes. */
#define PTX_SELECT_COUNT(select) ((select) >> 12 & 7)
#define PTX_SELECT_PART(select, n) ((select) >> 3 * (n) & 7)
#define PTX_SELECT_HALVES(select) ((select) >> 15 & 1)

struct ptx_operand {
	uint8_t kind;
	bool negate, single;
	uint8_t count;     /* of elements */
	uint16_t select;   /* .b1, .h10 and the like, see PTX_SELECT_; 0: none */
	bool minus;        /* - before a register */
	int32_t reg, reg2; /* -1: none; reg2: q of p|q */
	const struct ptx_symbol *symbol;
	uint64_t imm;
	struct ptx_operand *elements;
};

struct ptx_call {
	const struct ptx_symbol *callee;    /* NULL: through a pointer */
	struct ptx_operand pointer;
	const struct ptx_symbol *prototype; /* the label of a pointer's .callprototype or .calltargets */
	const struct ptx_function *declared; /* once inlined: what a real call's parameters look like */
	struct ptx_routine *routine;        /* once inlined: the subroutine that is called */
	uint32_t ret_count, arg_count;
	const struct ptx_symbol **rets, **args;
};

struct ptx_opcode;
struct ptx_tex;

struct ptx_instr {
	const struct ptx_opcode *op; /* NULL: not known; refused when the function is compiled */
	const char *name;            /* as written, with all modifiers */
	ptx_mods mods;
	uint8_t type, type2; /* the first two types of the name */
	uint8_t count;
	uint8_t space;
	uint8_t unused; /* of a load: so many of its last bytes need not be there (.pragma "used_bytes_mask") */
	bool guard_negate;
	int32_t guard; /* predicate register, or -1 */
	uint32_t line;
	struct ptx_operand *ops;
	struct ptx_call *call;
	struct ptx_tex *tex; /* texture and surface instructions */
};

struct ptx_register {
	uint8_t type;
};

/* The place of a function's body, and the number of declarations before it. */
struct ptx_extent {
	uint64_t at, bytes; /* from { to } */
	uint32_t text, line, lines;
	uint32_t visible; /* of the text's symbols */
};

struct ptx_function {
	const char *name;
	struct ptx_module *module;
	bool entry, defined, noreturn;
	unsigned version, target; /* of its text; 0: the text does not say */
	bool recursive; /* may be called again before it has returned */
	unsigned line;
	uint32_t number; /* number of its body, in the order of the texts */
	struct ptx_extent body;
	bool read; /* from here on all is known but the parameters; under the module's lock `reading` */
	struct ptx_symbol **params, **rets;
	uint32_t param_count, ret_count;
	uint64_t param_bytes;
	struct ptx_instr *instrs;
	uint32_t instr_count;
	struct ptx_register *regs;
	uint32_t reg_count;
	uint32_t *labels; /* label number -> instruction index */
	uint32_t label_count;
	uint64_t local_bytes;
	uint32_t maxntid;
	uint32_t maxnreg, minnctapersm; /* 0: not said */
	bool dynamic_shared;
	bool reconverges; /* all its warp operations wait for the lanes that they name */
	bool callee;      /* an entry that warps of another kernel begin amid a block: common/sass-callee.h */
};

struct ptx_reloc {
	uint64_t offset;
	const struct ptx_symbol *symbol;
	int64_t addend;
	uint8_t bytes;
	struct ptx_reloc *next;
};

struct ptx_arena {
	struct ptx_chunk *chunks;
	size_t used, limit; /* bytes handed out, and how many may be: a hostile module cannot eat all memory */
};

/* As ptx_ask_for_memory() says. */
bool ptx_has_room(uint64_t bytes);

void *ptx_alloc(struct ptx_arena *arena, size_t bytes); /* zeroed; NULL when out of memory or over the limit */
char *ptx_strndup(struct ptx_arena *arena, const char *text, size_t length);
void ptx_arena_free(struct ptx_arena *arena);

/* How far an arena is used: all that was handed out since can be given back at once. */
struct ptx_arena_scope {
	struct ptx_chunk *chunk;
	size_t chunk_used, used;
};
struct ptx_arena_scope ptx_arena_scope_begin(const struct ptx_arena *arena);
void ptx_arena_scope_end(struct ptx_arena *arena, struct ptx_arena_scope scope);

/* A growing array in an arena: returns the new element, zeroed. Old copies are left to the arena. */
void *ptx_grow(struct ptx_arena *arena, void **array, uint32_t *count, uint32_t *room, size_t element);

/* ptx-shared.h */
struct ptx_shared_place {
	const struct ptx_symbol *symbol;
	uint64_t offset;
};

struct ptx_kernel {
	struct ptx_kernel_info info;
	struct ptx_function *function;
	struct vcuda_cache_key content; /* ptx-content.h */
	uint32_t next; /* while the heads are read: the one before it whose name has the same hash, from 1 */
	bool read;                       /* all bodies that it may run, and the next three; under the lock `reading` */
	struct ptx_shared_place *shared; /* the variables that it has */
	uint32_t shared_count, shared_room;
	struct ptx_binary *binaries;
};

struct ptx_module {
	struct ptx_arena arena;
	unsigned version, target;
	struct ptx_variable *variables;
	struct ptx_symbol **variable_symbols;
	uint64_t *addresses;
	struct ptx_reloc **relocs; /* per variable */
	uint32_t variable_count, variable_room, symbol_room, reloc_room;
	struct ptx_symbol **functions; /* kernels, too */
	uint32_t function_count, function_room;
	uint64_t function_base; /* base of the functions' addresses */
	bool uses_heap;         /* malloc() or free() is declared */
	struct ptx_kernel *kernels;
	uint32_t kernel_count, kernel_room;
	bool dynamic_shared;
	struct vcuda_cache_key text; /* SHA-256 of the text, for facts that are kept */
	struct ptx_function **bodies; /* all that have one, in order of the texts */
	uint32_t body_count, body_room;
	struct ptx_facts *facts;   /* what was found when all bodies were read; NULL: they are read with the module */
	struct ptx_source *source; /* the texts, which bodies are read from where there are facts */
	bool indivisible;          /* declarations in bodies matter outside of them: all bodies are read at once */
	bool aliased;              /* functions have other names */
	struct ptx_jit *jit;       /* made when it is first needed, under `link` */
	/* frees the kernels' binaries and `jit`; set with the first binary, under `lock`; NULL: there is none */
	void (*free_code)(struct ptx_module *module);
	pthread_mutex_t lock, link; /* lock: of the kernels' binaries */
	pthread_mutex_t reading;    /* of bodies, on demand; the arena is used under it only */
	pthread_cond_t changed;     /* a binary's state has */
	unsigned refs;              /* the owner's, and one for each compilation in the background; atomic */
	bool gone;                  /* the owner's is no more; atomic */
};

void ptx_module_get(struct ptx_module *module);
void ptx_module_put(struct ptx_module *module);

/*
 * A module that another process has made of these texts, whose key is `text`, once more. With its facts, for free(),
 * which become the module's; NULL: it has none.
 */
enum ptx_status ptx_module_again(const struct ptx_text *texts, size_t count, const struct vcuda_cache_key *text,
				 struct ptx_facts *facts, struct ptx_module **module, struct ptx_error *error);

enum ptx_special {
	PTX_TID_X,
	PTX_TID_Y,
	PTX_TID_Z,
	PTX_NTID_X,
	PTX_NTID_Y,
	PTX_NTID_Z,
	PTX_CTAID_X,
	PTX_CTAID_Y,
	PTX_CTAID_Z,
	PTX_NCTAID_X,
	PTX_NCTAID_Y,
	PTX_NCTAID_Z,
	PTX_LANEID,
	PTX_WARPID,
	PTX_NWARPID,
	PTX_SMID,
	PTX_NSMID,
	PTX_GRIDID,
	PTX_MASK_EQ,
	PTX_MASK_LE,
	PTX_MASK_LT,
	PTX_MASK_GE,
	PTX_MASK_GT,
	PTX_CLOCK,
	PTX_CLOCK_HI,
	PTX_CLOCK64,
	PTX_GLOBALTIMER,
	PTX_GLOBALTIMER_LO,
	PTX_GLOBALTIMER_HI,
	PTX_DYNAMIC_SMEM,
	PTX_TOTAL_SMEM,
	PTX_ALWAYS_0,
	PTX_ALWAYS_1,
	PTX_ENVREG1, /* the driver's: with %envreg2 the address of a cooperative launch's workspace */
	PTX_ENVREG2,
	PTX_SPECIAL_COUNT
};
int ptx_special_find(const char *name);
/*
 * The shared variable that takes the place of the memory that a GPU reserves in each block, and the offset in it that
 * %reserved_smem_offset_* names; NULL: the name is another one. Kernels that do not name it have no such memory.
 */
const struct ptx_symbol *ptx_special_reserved(const char *name, uint64_t *offset);
/* Whether the special register is the same in all launches: %reserved_smem_offset_cap, the bytes of that memory. */
bool ptx_special_constant(const char *name, uint64_t *value);

/* Sets *error (the first caller wins: an error that is already there stays). Long names in `` are cut to their ends. */
void ptx_error_set(struct ptx_error *error, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ptx_error_set_list(struct ptx_error *error, unsigned line, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

/* ---- ptx-alias.c ---- */
/* Puts functions in the place of their aliases. To be called once, when all is parsed. */
enum ptx_status ptx_module_aliases(struct ptx_module *module, struct ptx_error *error);
/* The same in a body that is read later. */
void ptx_alias_body(const struct ptx_function *function);

/* ---- ptx-calls.c ---- */
/*
 * Finds out which functions' addresses are used and which functions may call themselves, unless the module has facts
 * that say so. To be called once, when all is parsed.
 */
enum ptx_status ptx_module_calls(struct ptx_module *module);
/* A function's address as kernels see it: a number that no memory has. */
uint64_t ptx_function_address(const struct ptx_module *module, const struct ptx_symbol *symbol);
/* May this call go to that function? */
bool ptx_call_may_reach(const struct ptx_call *call, const struct ptx_symbol *symbol);
/* Functions outside of the module that kernels may call: the runtime has them. */
enum ptx_external {
	PTX_EXTERNAL_NONE,
	PTX_EXTERNAL_ASSERTFAIL,
	PTX_EXTERNAL_FREE,
	PTX_EXTERNAL_MALLOC,
	PTX_EXTERNAL_VPRINTF,
	PTX_EXTERNAL_SET_CONDITIONAL,
	PTX_EXTERNAL_CALL_ADDRESS, /* of machine code: common/sass-callee.h */
	PTX_EXTERNAL_COUNT
};
enum ptx_external ptx_external_find(const struct ptx_call *call);
bool ptx_same_signature(const struct ptx_function *a, const struct ptx_function *b);

/* With facts, bodies are passed over. */
enum ptx_status ptx_parse(struct ptx_module *module, const struct ptx_text *texts, size_t count,
			  struct ptx_error *error);

#endif

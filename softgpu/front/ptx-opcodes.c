/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions that the compiler knows. A name may have several rows; the first whose types and modifiers admit
 * what was written is taken, and what no row admits is refused by name. Rows of one name stand together, names in
 * order.
 */
#include <string.h>

#include "front/ptx-opcodes.h"

#define T(id) (1u << PTX_##id)
#define NO_TYPE 1u
#define T_INT (T(U16) | T(U32) | T(U64) | T(S16) | T(S32) | T(S64))
#define T_INT32 (T(U32) | T(S32))
#define T_INT64 (T_INT32 | T(U64) | T(S64))
#define T_PAIR (T(U16X2) | T(S16X2))
#define T_BITS (T(B16) | T(B32) | T(B64))
#define T_F (T(F32) | T(F64))
#define T_ANY8 (T(B8) | T(U8) | T(S8))
#define T_MEM (T_ANY8 | T_INT | T_BITS | T_F)
#define T_F16 (T(F16) | T(F16X2))
#define T_BF16 (T(BF16) | T(BF16X2))
#define T_HALF (T_F16 | T_BF16)

#define ROUND (M(RN) | M(RZ) | M(RM) | M(RP))
#define ROUND_INT (M(RNI) | M(RZI) | M(RMI) | M(RPI))
#define SPACES (M(GLOBAL) | M(SHARED) | M(LOCAL) | M(CONST) | M(PARAM))
#define SCOPES (M(CTA) | M(CLUSTER) | M(GPU) | M(SYS))
#define ORDER (M(VOLATILE) | M(RELAXED) | M(ACQUIRE) | M(RELEASE) | M(ACQ_REL) | M(WEAK))
#define CACHE (M(CA) | M(CG) | M(CS) | M(LU) | M(CV) | M(WB) | M(WT) | M(NC) | M(HINT) | M(POLICY))
#define COMPARE                                                                                                        \
	(M(EQ) | M(NE) | M(LT) | M(LE) | M(GT) | M(GE) | M(LO) | M(LS) | M(HI) | M(HS) | M(EQU) | M(NEU) | M(LTU) |    \
	 M(LEU) | M(GTU) | M(GEU) | M(NUM) | M(NAN_))
#define BOOLEAN (M(AND) | M(OR) | M(XOR))
#define ATOMIC (BOOLEAN | M(ADD) | M(MIN) | M(MAX) | M(INC) | M(DEC) | M(CAS) | M(EXCH) | M(NOFTZ))
#define ATOM_MODS (M(V2) | M(V4) | M(V8) | SCOPES | ORDER | M(GLOBAL) | M(SHARED) | M(HINT) | M(POLICY))

#define EFFECT PTX_F_EFFECT
#define TYPE2 PTX_F_TYPE2
#define SHAPE(id) PTX_SHAPE_##id
#define FAMILY(id) PTX_FAMILY_##id

/* name, types, modifiers, operands (least, most), shape of the result, flags, family, which of it */
static const struct ptx_opcode opcodes[] = {
	{"abs", T(S16) | T(S32) | T(S64), 0, "tt", SHAPE(PURE), 0, FAMILY(UNARY), OP_ABS},
	{"abs", T(F32), M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_ABS},
	{"abs", T(F64), 0, "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_ABS},
	{"abs", T_HALF, M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(HALF), OP_ABS},
	{"activemask", T(B32), 0, "b", SHAPE(UNIFORM), PTX_F_WARP, FAMILY(ACTIVEMASK), 0},
	{"add", T_INT, 0, "ttt", SHAPE(ADD), 0, FAMILY(BINARY), OP_ADD},
	{"add", T_INT64, M(CC), "ttt", SHAPE(ADD), 0, FAMILY(BINARY), OP_ADD},
	{"add", T(S32), M(SAT), "ttt", SHAPE(ADD), 0, FAMILY(BINARY), OP_ADD},
	{"add", T(F32), ROUND | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FADD},
	{"add", T(F64), ROUND, "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FADD},
	{"add", T(F32X2), ROUND | M(FTZ), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FADD},
	{"add", T(F32), ROUND | M(SAT), "tTt", SHAPE(PURE), TYPE2, FAMILY(FLOAT2), OP_FADD},
	{"add", T_F16, M(RN) | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FADD},
	{"add", T_BF16, M(RN), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FADD},
	{"add", T_PAIR, 0, "ttt", SHAPE(PURE), 0, FAMILY(INT_PAIR), OP_ADD},
	{"addc", T_INT, 0, "ttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(CARRY), OP_ADD},
	{"addc", T_INT64, M(CC), "ttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(CARRY), OP_ADD},
	{"alloca", T(U32) | T(U64), 0, "tt-?", SHAPE(VARYING), EFFECT | PTX_F_STACK, FAMILY(NONE), 0},
	{"and", T_BITS | T(PRED), 0, "ttt", SHAPE(AND), 0, FAMILY(BINARY), OP_AND},
	{"atom", T(B32) | T(B64), ATOM_MODS | BOOLEAN, "tatt?", SHAPE(VARYING), EFFECT | PTX_F_ATOM, FAMILY(ATOM), 0},
	{"atom", T(U32), ATOM_MODS | M(INC) | M(DEC), "tatt?", SHAPE(VARYING), EFFECT | PTX_F_ATOM, FAMILY(ATOM), 0},
	{"atom", T_INT32 | T(U64) | T_F | T_HALF, ATOM_MODS | M(ADD) | M(NOFTZ), "tatt?", SHAPE(VARYING), EFFECT | PTX_F_ATOM, FAMILY(ATOM), 0},
	{"atom", T_INT64 | T_HALF, ATOM_MODS | M(MIN) | M(MAX) | M(NOFTZ), "tatt?", SHAPE(VARYING), EFFECT | PTX_F_ATOM, FAMILY(ATOM), 0},
	{"atom", T_BITS | T(B128), ATOM_MODS | M(CAS) | M(EXCH), "tatt?", SHAPE(VARYING), EFFECT | PTX_F_ATOM, FAMILY(ATOM), 0},
	{"bar", NO_TYPE, M(SYNC) | M(WARP) | M(CTA), "uu?", SHAPE(NONE), EFFECT | PTX_F_BARRIER | PTX_F_NO_DST, FAMILY(BARRIER), 0},
	{"bar", NO_TYPE, M(ARRIVE) | M(CTA), "uu", SHAPE(NONE), EFFECT | PTX_F_BARRIER | PTX_F_NO_DST, FAMILY(BARRIER), 0},
	{"bar", T(U32), M(RED) | M(POPC) | M(CTA), "tuu?p", SHAPE(UNIFORM), EFFECT | PTX_F_BARRIER, FAMILY(BARRIER), 0},
	{"bar", T(PRED), M(RED) | M(AND) | M(OR) | M(CTA), "tuu?p", SHAPE(UNIFORM), EFFECT | PTX_F_BARRIER, FAMILY(BARRIER), 0},
	{"barrier", NO_TYPE, M(SYNC) | M(ALIGNED) | M(CTA), "uu?", SHAPE(NONE), EFFECT | PTX_F_BARRIER | PTX_F_NO_DST,
	 FAMILY(BARRIER), 0},
	{"barrier", NO_TYPE, M(ARRIVE) | M(ALIGNED) | M(CTA), "uu", SHAPE(NONE), EFFECT | PTX_F_BARRIER | PTX_F_NO_DST,
	 FAMILY(BARRIER), 0},
	{"barrier", T(U32), M(RED) | M(POPC) | M(ALIGNED) | M(CTA), "tuu?p", SHAPE(UNIFORM), EFFECT | PTX_F_BARRIER,
	 FAMILY(BARRIER), 0},
	{"barrier", T(PRED), M(RED) | M(AND) | M(OR) | M(ALIGNED) | M(CTA), "tuu?p", SHAPE(UNIFORM),
	 EFFECT | PTX_F_BARRIER, FAMILY(BARRIER), 0},
	{"bfe", T_INT64, 0, "ttuu", SHAPE(PURE), 0, FAMILY(BFE), 0},
	{"bfi", T(B32) | T(B64), 0, "tttuu", SHAPE(PURE), 0, FAMILY(BFI), 0},
	{"bfind", T_INT64, M(SHIFTAMT), "ut", SHAPE(PURE), 0, FAMILY(BFIND), 0},
	{"bmsk", T(B32), M(CLAMP) | M(WRAP), "uuu", SHAPE(PURE), 0, FAMILY(BITS), OP_BMSK},
	{"bra", NO_TYPE, M(UNI), "-", SHAPE(NONE), PTX_F_BRANCH | PTX_F_NO_DST, FAMILY(NONE), 0},
	{"brev", T(B32) | T(B64), 0, "tt", SHAPE(PURE), 0, FAMILY(BITS), OP_BREV},
	{"brkpt", NO_TYPE, 0, "", SHAPE(NONE), EFFECT | PTX_F_NO_DST, FAMILY(TRAP), 0},
	{"brx", NO_TYPE, M(IDX) | M(UNI), "u-", SHAPE(NONE), PTX_F_BRANCH | PTX_F_NO_DST, FAMILY(NONE), 0},
	{"call", NO_TYPE, M(UNI), "", SHAPE(VARYING), EFFECT | PTX_F_CALL, FAMILY(CALL), 0},
	{"clz", T(B32) | T(B64), 0, "ut", SHAPE(PURE), 0, FAMILY(BITS), OP_CLZ},
	{"cnot", T_BITS, 0, "tt", SHAPE(PURE), 0, FAMILY(CNOT), 0},
	{"copysign", T_F, 0, "ttt", SHAPE(PURE), 0, FAMILY(COPYSIGN), 0},
	{"cos", T(F32), M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_COS},
	{"cvt", T_INT | T(U8) | T(S8) | T_F | T(F16) | T(BF16) | T(F16X2) | T(BF16X2),
	 ROUND | ROUND_INT | M(FTZ) | M(SAT) | M(RELU), "wWW?", SHAPE(CVT), TYPE2, FAMILY(CVT), 0},
	{"cvta", T(U64), SPACES | M(TO), "tt", SHAPE(CVTA), 0, FAMILY(CVTA), 0},
	{"div", T_INT, 0, "ttt", SHAPE(PURE), 0, FAMILY(DIVREM), OP_DIV},
	{"div", T(F32), ROUND | M(FTZ) | M(APPROX) | M(FULL), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FDIV},
	{"div", T(F64), ROUND, "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FDIV},
	{"dp2a", T_INT32, M(LO) | M(HI), "utTu", SHAPE(PURE), TYPE2, FAMILY(DP2A), 0},
	{"dp4a", T_INT32, 0, "utTu", SHAPE(PURE), TYPE2, FAMILY(DP4A), 0},
	{"ex2", T(F32), M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_EX2},
	{"ex2", T_HALF, M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(HALF), OP_EX2},
	{"exit", NO_TYPE, 0, "", SHAPE(NONE), PTX_F_EXIT | PTX_F_NO_DST, FAMILY(NONE), 0},
	{"fence", NO_TYPE, SCOPES | M(ACQ_REL) | M(SC) | M(ACQUIRE) | M(RELEASE), "", SHAPE(NONE), EFFECT | PTX_F_NO_DST,
	 FAMILY(FENCE), 0},
	{"fma", T(F32), ROUND | M(FTZ) | M(SAT), "tttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMA},
	{"fma", T(F64), ROUND, "tttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMA},
	{"fma", T(F32X2), ROUND | M(FTZ), "tttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMA},
	{"fma", T(F32), ROUND | M(SAT), "tTTt", SHAPE(PURE), TYPE2, FAMILY(FLOAT2), OP_FMA},
	{"fma", T(BF16) | T(BF16X2), ROUND | M(RELU) | M(OOB), "tttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FMA},
	{"fma", T(F16) | T(F16X2), M(RN) | M(FTZ) | M(SAT) | M(RELU) | M(OOB), "tttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FMA},
	{"fns", T(B32), 0, "bbbb", SHAPE(PURE), 0, FAMILY(FNS), 0},
	{"isspacep", NO_TYPE, SPACES, "pA", SHAPE(PURE), 0, FAMILY(ISSPACEP), 0},
	{"istypep", NO_TYPE, 0, "pl", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"ld", T_MEM | T(B128), SPACES | SCOPES | ORDER | CACHE | M(V2) | M(V4) | M(V8), "wa", SHAPE(LOAD), EFFECT | PTX_F_LOAD, FAMILY(LD),
	 0},
	{"ldu", T_MEM | T(B128), M(GLOBAL) | M(V2) | M(V4), "wa", SHAPE(LOAD), EFFECT | PTX_F_LOAD, FAMILY(LD), 0},
	{"lg2", T(F32), M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_LG2},
	{"lop3", T(B32), 0, "tttt-", SHAPE(PURE), 0, FAMILY(LOP3), 0},
	{"lop3", T(B32), M(AND) | M(OR), "tttt-p", SHAPE(PURE), 0, FAMILY(LOP3), 0},
	{"mad", T_INT, M(LO), "tttt", SHAPE(MAD), 0, FAMILY(MUL), OP_MAD},
	{"mad", T_INT64, M(LO) | M(CC), "tttt", SHAPE(MAD), 0, FAMILY(MUL), OP_MAD},
	{"mad", T_INT, M(HI), "tttt", SHAPE(PURE), 0, FAMILY(MUL), OP_MAD},
	{"mad", T_INT64, M(HI) | M(CC), "tttt", SHAPE(PURE), 0, FAMILY(MUL), OP_MAD},
	{"mad", T(S32), M(HI) | M(SAT), "tttt", SHAPE(PURE), 0, FAMILY(MUL), OP_MAD},
	{"mad", T(U16) | T(S16) | T_INT32, M(WIDE), "dttd", SHAPE(MAD_WIDE), 0, FAMILY(MUL), OP_MAD},
	{"mad", T(F32), ROUND | M(FTZ) | M(SAT), "tttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMA},
	{"mad", T(F64), ROUND, "tttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMA},
	{"mad24", T_INT32, M(LO) | M(HI), "tttt", SHAPE(PURE), 0, FAMILY(MUL24), OP_MAD},
	{"mad24", T(S32), M(HI) | M(SAT), "tttt", SHAPE(PURE), 0, FAMILY(MUL24), OP_MAD},
	{"madc", T_INT, M(LO) | M(HI), "tttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(MUL), OP_MAD},
	{"madc", T_INT64, M(LO) | M(HI) | M(CC), "tttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(MUL), OP_MAD},
	{"madc", T(S32), M(HI) | M(SAT), "tttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(MUL), OP_MAD},
	{"match", T(B32) | T(B64), M(SYNC) | M(ANY) | M(ALL), "utu", SHAPE(VARYING), PTX_F_WARP | EFFECT, FAMILY(MATCH), 0},
	{"max", T_INT, 0, "ttt", SHAPE(PURE), 0, FAMILY(MINMAX), OP_MAX},
	{"max", T(S32), M(RELU), "ttt", SHAPE(PURE), 0, FAMILY(MINMAX), OP_MAX},
	{"max", T(U16X2), 0, "ttt", SHAPE(PURE), 0, FAMILY(INT_PAIR), OP_MAX},
	{"max", T(S16X2), M(RELU), "ttt", SHAPE(PURE), 0, FAMILY(INT_PAIR), OP_MAX},
	{"max", T(F32), M(FTZ) | M(NANP), "tttt?", SHAPE(PURE), 0, FAMILY(FMINMAX), OP_MAX},
	{"max", T(F64), 0, "ttt", SHAPE(PURE), 0, FAMILY(FMINMAX), OP_MAX},
	{"max", T_HALF, M(FTZ) | M(NANP), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_MAX},
	{"membar", NO_TYPE, M(CTA) | M(GL) | M(SYS), "", SHAPE(NONE), EFFECT | PTX_F_NO_DST, FAMILY(FENCE), 0},
	{"min", T_INT, 0, "ttt", SHAPE(PURE), 0, FAMILY(MINMAX), OP_MIN},
	{"min", T(S32), M(RELU), "ttt", SHAPE(PURE), 0, FAMILY(MINMAX), OP_MIN},
	{"min", T(U16X2), 0, "ttt", SHAPE(PURE), 0, FAMILY(INT_PAIR), OP_MIN},
	{"min", T(S16X2), M(RELU), "ttt", SHAPE(PURE), 0, FAMILY(INT_PAIR), OP_MIN},
	{"min", T(F32), M(FTZ) | M(NANP), "tttt?", SHAPE(PURE), 0, FAMILY(FMINMAX), OP_MIN},
	{"min", T(F64), 0, "ttt", SHAPE(PURE), 0, FAMILY(FMINMAX), OP_MIN},
	{"min", T_HALF, M(FTZ) | M(NANP), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_MIN},
	{"mov", T_BITS | T_INT | T_F | T(B128) | T(PRED), 0, "vv", SHAPE(MOV), 0, FAMILY(MOV), 0},
	{"mov", T_BITS | T_INT | T_F, M(V2) | M(V4), "tt", SHAPE(PURE), 0, FAMILY(MOV_VECTOR), 0},
	{"mul", T_INT, M(LO), "ttt", SHAPE(MUL), 0, FAMILY(MUL), OP_MUL},
	{"mul", T_INT, M(HI), "ttt", SHAPE(PURE), 0, FAMILY(MUL), OP_MUL},
	{"mul", T(U16) | T(S16) | T_INT32, M(WIDE), "dtt", SHAPE(MUL_WIDE), 0, FAMILY(MUL), OP_MUL},
	{"mul", T(F32), ROUND | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMUL},
	{"mul", T(F64), ROUND, "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMUL},
	{"mul", T(F32X2), ROUND | M(FTZ), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FMUL},
	{"mul", T_F16, M(RN) | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FMUL},
	{"mul", T_BF16, M(RN), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FMUL},
	{"mul24", T_INT32, M(LO) | M(HI), "ttt", SHAPE(PURE), 0, FAMILY(MUL24), OP_MUL},
	{"nanosleep", T(U32), 0, "u", SHAPE(NONE), EFFECT | PTX_F_NO_DST | PTX_F_ATOM, FAMILY(FENCE), 1},
	{"neg", T(S16) | T(S32) | T(S64), 0, "tt", SHAPE(PURE), 0, FAMILY(UNARY), OP_NEG},
	{"neg", T(F32), M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_NEG},
	{"neg", T(F64), 0, "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_NEG},
	{"neg", T_HALF, M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(HALF), OP_NEG},
	{"not", T_BITS | T(PRED), 0, "tt", SHAPE(PURE), 0, FAMILY(UNARY), OP_NOT},
	{"or", T_BITS | T(PRED), 0, "ttt", SHAPE(OR), 0, FAMILY(BINARY), OP_OR},
	{"popc", T(B32) | T(B64), 0, "ut", SHAPE(PURE), 0, FAMILY(BITS), OP_POPC},
	{"prefetch", NO_TYPE, M(GLOBAL) | M(LOCAL) | CACHE, "a", SHAPE(NONE), PTX_F_NO_DST, FAMILY(NOTHING), 0},
	{"prefetchu", NO_TYPE, CACHE, "a", SHAPE(NONE), PTX_F_NO_DST, FAMILY(NOTHING), 0},
	{"prmt", T(B32), M(F4E) | M(B4E) | M(RC8) | M(ECL) | M(ECR) | M(RC16), "tttt", SHAPE(PURE), 0, FAMILY(PRMT), 0},
	{"rcp", T_F, ROUND | M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_RCP},
	{"red", T(B32) | T(B64), ATOM_MODS | BOOLEAN, "at", SHAPE(NONE), EFFECT | PTX_F_ATOM | PTX_F_NO_DST, FAMILY(ATOM), 0},
	{"red", T(U32), ATOM_MODS | M(INC) | M(DEC), "at", SHAPE(NONE), EFFECT | PTX_F_ATOM | PTX_F_NO_DST, FAMILY(ATOM), 0},
	{"red", T_INT32 | T(U64) | T_F | T_HALF, ATOM_MODS | M(ADD) | M(NOFTZ), "at", SHAPE(NONE), EFFECT | PTX_F_ATOM | PTX_F_NO_DST, FAMILY(ATOM), 0},
	{"red", T_INT64 | T_HALF, ATOM_MODS | M(MIN) | M(MAX) | M(NOFTZ), "at", SHAPE(NONE), EFFECT | PTX_F_ATOM | PTX_F_NO_DST, FAMILY(ATOM), 0},
	{"redux", T_INT32, M(SYNC) | M(ADD) | M(MIN) | M(MAX), "uuu", SHAPE(VARYING), PTX_F_WARP | EFFECT, FAMILY(REDUX), 0},
	{"redux", T(B32), M(SYNC) | BOOLEAN, "uuu", SHAPE(VARYING), PTX_F_WARP | EFFECT, FAMILY(REDUX), 0},
	{"rem", T_INT, 0, "ttt", SHAPE(PURE), 0, FAMILY(DIVREM), OP_REM},
	{"ret", NO_TYPE, M(UNI), "", SHAPE(NONE), PTX_F_RET | PTX_F_NO_DST, FAMILY(NONE), 0},
	{"rsqrt", T_F, M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_RSQRT},
	{"sad", T_INT, 0, "tttt", SHAPE(PURE), 0, FAMILY(SAD), 0},
	{"selp", T_INT | T_BITS | T_F, 0, "tttp", SHAPE(PURE), 0, FAMILY(SELP), 0},
	{"set", T(U16) | T(S16) | T_INT32 | T(F32) | T_HALF, COMPARE | M(FTZ) | BOOLEAN, "tTTp?", SHAPE(PURE), TYPE2, FAMILY(SET), 0},
	{"setp", T_INT | T_BITS | T_F | T_HALF, COMPARE | M(FTZ) | BOOLEAN, "pttp?", SHAPE(PURE), 0, FAMILY(SETP),
	 0},
	{"shf", T(B32), M(L) | M(R) | M(CLAMP) | M(WRAP), "bbbu", SHAPE(PURE), 0, FAMILY(SHF), 0},
	{"shfl", T(B32), M(SYNC) | M(UP) | M(DOWN) | M(BFLY) | M(IDX), "bbbbu?", SHAPE(VARYING), PTX_F_WARP | EFFECT,
	 FAMILY(SHFL), 0},
	{"shl", T_BITS, 0, "ttu", SHAPE(SHL), 0, FAMILY(SHIFT), OP_SHL},
	{"shr", T_BITS | T(U16) | T(U32) | T(U64), 0, "ttu", SHAPE(SHR), 0, FAMILY(SHIFT), OP_LSHR},
	{"shr", T(S16) | T(S32) | T(S64), 0, "ttu", SHAPE(SHR), 0, FAMILY(SHIFT), OP_ASHR},
	{"sin", T(F32), M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_SIN},
	{"slct", T_INT | T_BITS | T_F, M(FTZ), "tttT", SHAPE(PURE), TYPE2, FAMILY(SLCT), 0},
	{"sqrt", T(F32), ROUND | M(APPROX) | M(FTZ), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_SQRT},
	{"sqrt", T(F64), ROUND, "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_SQRT},
	{"st", T_MEM | T(B128), SPACES | SCOPES | ORDER | CACHE | M(V2) | M(V4) | M(V8), "aw", SHAPE(NONE),
	 EFFECT | PTX_F_STORE | PTX_F_NO_DST, FAMILY(ST), 0},
	{"stackrestore", T(U32) | T(U64), 0, "t", SHAPE(NONE), EFFECT | PTX_F_STACK | PTX_F_NO_DST,
	 FAMILY(NONE), 0},
	{"stacksave", T(U32) | T(U64), 0, "t", SHAPE(VARYING), EFFECT | PTX_F_STACK, FAMILY(NONE), 0},
	{"sub", T_INT, 0, "ttt", SHAPE(SUB), 0, FAMILY(BINARY), OP_SUB},
	{"sub", T_INT64, M(CC), "ttt", SHAPE(SUB), 0, FAMILY(BINARY), OP_SUB},
	{"sub", T(S32), M(SAT), "ttt", SHAPE(SUB), 0, FAMILY(BINARY), OP_SUB},
	{"sub", T(F32), ROUND | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FSUB},
	{"sub", T(F64), ROUND, "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FSUB},
	{"sub", T(F32X2), ROUND | M(FTZ), "ttt", SHAPE(PURE), 0, FAMILY(FLOAT2), OP_FSUB},
	{"sub", T(F32), ROUND | M(SAT), "tTt", SHAPE(PURE), TYPE2, FAMILY(FLOAT2), OP_FSUB},
	{"sub", T_F16, M(RN) | M(FTZ) | M(SAT), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FSUB},
	{"sub", T_BF16, M(RN), "ttt", SHAPE(PURE), 0, FAMILY(HALF), OP_FSUB},
	{"subc", T_INT, 0, "ttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(CARRY), OP_SUB},
	{"subc", T_INT64, M(CC), "ttt", SHAPE(PURE), PTX_F_CARRY_IN, FAMILY(CARRY), OP_SUB},
	{"suld", T(B8) | T(B16) | T(B32) | T(B64), 0, "wlu", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"suq", T(B32), 0, "tl", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"sured", T_INT64 | T(B32) | T(B64), 0, "luw", SHAPE(NONE), EFFECT | PTX_F_TEX | PTX_F_NO_DST, FAMILY(TEX), 0},
	{"sust", T(B8) | T(B16) | T(B32) | T(B64), 0, "luw", SHAPE(NONE), EFFECT | PTX_F_TEX | PTX_F_NO_DST, FAMILY(TEX), 0},
	{"szext", T_INT32, M(CLAMP) | M(WRAP), "ttu", SHAPE(PURE), 0, FAMILY(SZEXT), 0},
	{"tanh", T_HALF, M(APPROX), "tt", SHAPE(PURE), 0, FAMILY(HALF), OP_TANH},
	{"tanh", T(F32), M(APPROX), "tt", SHAPE(PURE), 0, FAMILY(FLOAT1), OP_TANH},
	{"testp", T_F, M(FINITE) | M(INFINITE) | M(NUMBER) | M(NOTANUMBER) | M(NORMAL) | M(SUBNORMAL), "pt", SHAPE(PURE), 0, FAMILY(TESTP), 0},
	{"tex", T(F32) | T(U32) | T(S32) | T(F16X2), 0, "tlTb?b?b?", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"tld4", T(F32) | T(U32) | T(S32), 0, "tlTb?", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"trap", NO_TYPE, 0, "", SHAPE(NONE), EFFECT | PTX_F_NO_DST, FAMILY(TRAP), 0},
	{"txq", T(B32), 0, "tlu?", SHAPE(VARYING), EFFECT | PTX_F_TEX, FAMILY(TEX), 0},
	{"vote", T(PRED), M(SYNC) | M(ALL) | M(ANY) | M(UNI), "tpu?", SHAPE(UNIFORM), PTX_F_WARP | EFFECT, FAMILY(VOTE), 0},
	{"vote", T(B32), M(SYNC) | M(BALLOT), "tpu?", SHAPE(UNIFORM), PTX_F_WARP | EFFECT, FAMILY(VOTE), 0},
	{"xor", T_BITS | T(PRED), 0, "ttt", SHAPE(PURE), 0, FAMILY(BINARY), OP_XOR},
};

#define COUNT (sizeof(opcodes) / sizeof(opcodes[0]))

/* An instruction has at most one modifier of each of these sets. */
static const ptx_mods exclusive[] = {
	ROUND | ROUND_INT | M(APPROX) | M(FULL),
	COMPARE,
	(ATOMIC & ~M(NOFTZ)) | M(POPC),
	M(LO) | M(HI) | M(WIDE),
	M(UP) | M(DOWN) | M(BFLY) | M(IDX),
	M(ALL) | M(ANY) | M(UNI) | M(BALLOT),
	M(CLAMP) | M(WRAP),
	M(L) | M(R),
	M(F4E) | M(B4E) | M(RC8) | M(ECL) | M(ECR) | M(RC16),
	M(FINITE) | M(INFINITE) | M(NUMBER) | M(NOTANUMBER) | M(NORMAL) | M(SUBNORMAL),
	M(V2) | M(V4) | M(V8),
	SPACES,
};

static bool agree(ptx_mods mods)
{
	for (size_t n = 0; n < sizeof(exclusive) / sizeof(exclusive[0]); n++) {
		ptx_mods given = mods & exclusive[n];

		if (given & (given - 1))
			return false;
	}
	return true;
}

/* An instruction of these types must have one modifier of the set. */
static const struct {
	const char *name;
	uint32_t types;
	ptx_mods mods;
} needed[] = {
	{"cos", ~0u, M(APPROX)},
	{"cvta", ~0u, SPACES},
	{"div", T_F, ROUND | M(APPROX) | M(FULL)},
	{"ex2", ~0u, M(APPROX)},
	{"fma", ~0u, ROUND},
	{"lg2", ~0u, M(APPROX)},
	{"mad", T_F, ROUND},
	{"mad", T_INT, M(LO) | M(HI) | M(WIDE)},
	{"mad24", ~0u, M(LO) | M(HI)},
	{"madc", ~0u, M(LO) | M(HI)},
	{"mul", T_INT, M(LO) | M(HI) | M(WIDE)},
	{"mul24", ~0u, M(LO) | M(HI)},
	{"rcp", ~0u, ROUND | M(APPROX)},
	{"rsqrt", ~0u, M(APPROX)},
	{"set", ~0u, COMPARE},
	{"setp", ~0u, COMPARE},
	{"sin", ~0u, M(APPROX)},
	{"sqrt", ~0u, ROUND | M(APPROX)},
	{"tanh", ~0u, M(APPROX)},
};

bool ptx_opcode_complete(const struct ptx_opcode *op, unsigned type, ptx_mods mods, const struct ptx_module *module)
{
	bool mad = !strcmp(op->name, "mad") && type == PTX_F32 && module->version < 32;


	for (size_t n = 0; n < sizeof(needed) / sizeof(needed[0]); n++) {
		if ((module->target < 20 || mad) && (needed[n].mods & (ROUND | M(APPROX))))
			continue;
		if (!strcmp(needed[n].name, op->name) && (needed[n].types >> type & 1) && !(mods & needed[n].mods))
			return false;
	}
	return true;
}

static int compare_name(const char *row, const char *name, size_t length)
{
	int order = strncmp(row, name, length);

	return order ? order : row[length] != 0;
}

const struct ptx_opcode *ptx_opcode_find(const char *name, size_t length, unsigned type, unsigned type2, ptx_mods mods)
{
	size_t low = 0, high = COUNT;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_name(opcodes[middle].name, name, length) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < COUNT && !compare_name(opcodes[low].name, name, length); low++)
		if ((opcodes[low].types >> type & 1) && !(mods & ~opcodes[low].mods) && agree(mods) &&
		    (!type2 || (opcodes[low].flags & PTX_F_TYPE2)))
			return &opcodes[low];
	return NULL;
}

size_t ptx_opcode_table(const struct ptx_opcode **table)
{
	*table = opcodes;
	return COUNT;
}

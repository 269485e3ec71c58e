/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing registers and operands as LLVM values of one lane or of all. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lower/ptx-lower.h"
#include "front/ptx-shared.h"

LLVMOpcode llvm_opcode(const struct ptx_instr *i)
{
	static const LLVMOpcode opcodes[] = {
		[OP_ADD] = LLVMAdd,   [OP_SUB] = LLVMSub,   [OP_AND] = LLVMAnd,   [OP_OR] = LLVMOr,
		[OP_XOR] = LLVMXor,   [OP_SHL] = LLVMShl,   [OP_LSHR] = LLVMLShr, [OP_ASHR] = LLVMAShr,
		[OP_FADD] = LLVMFAdd, [OP_FSUB] = LLVMFSub, [OP_FMUL] = LLVMFMul, [OP_FDIV] = LLVMFDiv,
	};

	return opcodes[i->op->arg];
}

void lower_types(struct lower *l)
{
	l->type.i1 = LLVMInt1TypeInContext(l->c);
	l->type.i8 = LLVMInt8TypeInContext(l->c);
	l->type.i16 = LLVMInt16TypeInContext(l->c);
	l->type.i32 = LLVMInt32TypeInContext(l->c);
	l->type.i64 = LLVMInt64TypeInContext(l->c);
	l->type.f16 = LLVMHalfTypeInContext(l->c);
	l->type.bf16 = LLVMBFloatTypeInContext(l->c);
	l->type.f32 = LLVMFloatTypeInContext(l->c);
	l->type.f64 = LLVMDoubleTypeInContext(l->c);
	l->type.ptr = LLVMPointerTypeInContext(l->c, 0);
	l->type.void_type = LLVMVoidTypeInContext(l->c);
}

LLVMTypeRef int_type(struct lower *l, unsigned bits)
{
	return LLVMIntTypeInContext(l->c, bits);
}

LLVMTypeRef type_for(struct lower *l, LLVMTypeRef scalar)
{
	return l->at.lanes == 1 ? scalar : LLVMVectorType(scalar, l->at.lanes);
}

static LLVMTypeRef scalar_float(struct lower *l, unsigned type)
{
	switch (type) {
	case PTX_F64:
		return l->type.f64;
	case PTX_F16:
		return l->type.f16;
	case PTX_BF16:
		return l->type.bf16;
	default:
		return l->type.f32;
	}
}

LLVMTypeRef float_type(struct lower *l, unsigned type)
{
	return type_for(l, scalar_float(l, type));
}

LLVMValueRef scalar_const(LLVMTypeRef type, uint64_t value)
{
	return LLVMConstInt(type, value, 0);
}

LLVMValueRef int_const(struct lower *l, unsigned bits, uint64_t value)
{
	LLVMValueRef one = LLVMConstInt(int_type(l, bits), value, 0), all[PTX_LANES];

	if (l->at.lanes == 1)
		return one;
	for (unsigned n = 0; n < PTX_LANES; n++)
		all[n] = one;
	return LLVMConstVector(all, PTX_LANES);
}

LLVMValueRef lane_consts(struct lower *l, unsigned bits, const int64_t *values)
{
	LLVMValueRef all[PTX_LANES];

	for (unsigned n = 0; n < PTX_LANES; n++)
		all[n] = LLVMConstInt(int_type(l, bits), (uint64_t)values[n], 0);
	return LLVMConstVector(all, PTX_LANES);
}

bool is_vector(LLVMValueRef value)
{
	return LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
}

static LLVMTypeRef scalar_of(LLVMValueRef value)
{
	LLVMTypeRef type = LLVMTypeOf(value);

	return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

unsigned bits_of(LLVMValueRef value)
{
	LLVMTypeRef type = scalar_of(value);

	switch (LLVMGetTypeKind(type)) {
	case LLVMFloatTypeKind:
		return 32;
	case LLVMDoubleTypeKind:
		return 64;
	case LLVMHalfTypeKind:
	case LLVMBFloatTypeKind:
		return 16;
	default:
		return LLVMGetIntTypeWidth(type);
	}
}

LLVMValueRef splat(struct lower *l, LLVMValueRef value, unsigned lanes)
{
	LLVMTypeRef vector;
	LLVMValueRef one;

	if (lanes == 1 || is_vector(value))
		return value;
	vector = LLVMVectorType(LLVMTypeOf(value), lanes);
	one = LLVMBuildInsertElement(l->b, LLVMGetPoison(vector), value, LLVMConstInt(l->type.i32, 0, 0), "");
	return LLVMBuildShuffleVector(l->b, one, LLVMGetPoison(vector),
				      LLVMConstNull(LLVMVectorType(l->type.i32, lanes)), "");
}

static LLVMTypeRef like(LLVMValueRef value, LLVMTypeRef scalar)
{
	return is_vector(value) ? LLVMVectorType(scalar, LLVMGetVectorSize(LLVMTypeOf(value))) : scalar;
}

LLVMValueRef resize(struct lower *l, LLVMValueRef value, unsigned bits, bool is_signed)
{
	unsigned now = bits_of(value);
	LLVMTypeRef type = like(value, int_type(l, bits));

	if (now > bits)
		return LLVMBuildTrunc(l->b, value, type, "");
	if (now == bits)
		return value;
	return is_signed ? LLVMBuildSExt(l->b, value, type, "") : LLVMBuildZExt(l->b, value, type, "");
}

LLVMValueRef to_float(struct lower *l, LLVMValueRef value, unsigned type)
{
	return LLVMBuildBitCast(l->b, value, like(value, scalar_float(l, type)), "");
}

LLVMValueRef to_int(struct lower *l, LLVMValueRef value)
{
	return LLVMBuildBitCast(l->b, value, like(value, int_type(l, bits_of(value))), "");
}

enum ptx_shape_kind reg_shape(const struct lower *l, int32_t reg)
{
	enum ptx_shape_kind kind = (l->version.masked ? l->body->masked_shapes : l->body->shapes)[reg].kind;

	return l->version.masked && kind == PTX_OFFSETS ? PTX_VARYING : kind;
}

static bool special_is_uniform(const struct lower *l, int special)
{
	const uint32_t *dim = l->body->blockdim;

	if (l->version.width == 1)
		return true;
	if (special == PTX_LANEID || (special >= PTX_MASK_EQ && special <= PTX_MASK_GT))
		return false;
	if (special > PTX_TID_Z || dim[special - PTX_TID_X] == 1)
		return true;
	if (special == PTX_TID_X)
		return false;
	return special == PTX_TID_Y ? dim[0] % PTX_LANES == 0 : dim[0] * dim[1] % PTX_LANES == 0;
}

/* PTX_OFFSETS only in the full version */
enum ptx_shape_kind operand_kind(const struct lower *l, const struct ptx_operand *o)
{
	enum ptx_shape_kind kind = PTX_UNIFORM, part;

	if ((o->kind == PTX_OP_REG || o->kind == PTX_OP_MEM) && o->reg >= 0)
		return reg_shape(l, o->reg);
	if (o->kind == PTX_OP_SPECIAL)
		return special_is_uniform(l, o->reg) ? PTX_UNIFORM : PTX_VARYING;
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++) {
		part = operand_kind(l, &o->elements[e]);
		if (part > kind)
			kind = part;
	}
	return kind;
}

LLVMValueRef read_reg(struct lower *l, int32_t reg, unsigned lanes)
{
	enum ptx_shape_kind kind = reg_shape(l, reg);
	unsigned bits = ptx_types[l->body->regs[reg].type].bits, lanes_now = l->at.lanes;
	LLVMTypeRef type = int_type(l, bits);
	LLVMValueRef value;

	if (kind == PTX_VARYING)
		type = LLVMVectorType(type, PTX_LANES);
	value = LLVMBuildLoad2(l->b, type, l->regs.storage[reg], "");
	if (provenance_base(l, reg))
		return LLVMBuildAdd(l->b, value, provenance_base(l, reg), "");
	if (lanes == 1 || kind == PTX_VARYING)
		return value;
	l->at.lanes = lanes;
	value = splat(l, value, lanes);
	if (kind == PTX_OFFSETS)
		value = LLVMBuildAdd(l->b, value, lane_consts(l, bits, l->body->shapes[reg].offsets), "");
	l->at.lanes = lanes_now;
	return value;
}

/* In the entry block, so that compiled code reads the context once, or once for each thread block. */
static LLVMValueRef load_field(struct lower *l, LLVMTypeRef type, uint64_t offset)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	bool is_block = offset >= offsetof(struct ptx_context, ctaid) && offset < offsetof(struct ptx_context, nctaid);
	LLVMValueRef value;

	LLVMPositionBuilderBefore(
		l->b, LLVMGetBasicBlockTerminator(is_block && l->fn.each_block ? l->fn.each_block : l->fn.entry));
	value = LLVMBuildLoad2(l->b, type, field(l, l->fn.ctx, offset), "");
	LLVMPositionBuilderAtEnd(l->b, here);
	return value;
}

/* The linear number of a lane's thread. */
static LLVMValueRef thread_number(struct lower *l)
{
	int64_t lanes[PTX_LANES];

	if (l->at.lanes == 1)
		return l->fn.thread;
	for (unsigned n = 0; n < PTX_LANES; n++)
		lanes[n] = n;
	return LLVMBuildAdd(l->b, splat(l, l->fn.thread, l->at.lanes), lane_consts(l, 32, lanes), "");
}

static LLVMValueRef tid_value(struct lower *l, unsigned axis)
{
	const uint32_t *dim = l->body->blockdim;
	LLVMValueRef t = thread_number(l);

	if (dim[axis] == 1)
		return int_const(l, 32, 0);
	if (axis == 0)
		return dim[1] * dim[2] == 1 ? t : LLVMBuildURem(l->b, t, int_const(l, 32, dim[0]), "");
	t = LLVMBuildUDiv(l->b, t, int_const(l, 32, axis == 1 ? dim[0] : dim[0] * dim[1]), "");
	return axis == 1 && dim[2] > 1 ? LLVMBuildURem(l->b, t, int_const(l, 32, dim[1]), "") : t;
}

static LLVMValueRef lane_mask(struct lower *l, int special)
{
	int64_t values[PTX_LANES];

	for (unsigned n = 0; n < PTX_LANES; n++) {
		uint32_t eq = 1u << n, below = eq - 1;

		values[n] = special == PTX_MASK_EQ   ? eq
			    : special == PTX_MASK_LT ? below
			    : special == PTX_MASK_LE ? below | eq
			    : special == PTX_MASK_GE ? ~below
						     : ~(below | eq);
	}
	return lane_consts(l, 32, values);
}

LLVMValueRef special_value(struct lower *l, int special)
{
	int64_t lanes[PTX_LANES];
	LLVMValueRef value;

	if (special <= PTX_TID_Z)
		return tid_value(l, (unsigned)(special - PTX_TID_X));
	if (special <= PTX_NTID_Z)
		return int_const(l, 32, l->body->blockdim[special - PTX_NTID_X]);
	if (special <= PTX_CTAID_Z)
		return load_field(l, l->type.i32,
				  offsetof(struct ptx_context, ctaid) + 4u * (unsigned)(special - PTX_CTAID_X));
	if (special <= PTX_NCTAID_Z)
		return load_field(l, l->type.i32,
				  offsetof(struct ptx_context, nctaid) + 4u * (unsigned)(special - PTX_NCTAID_X));
	if (special >= PTX_MASK_EQ && special <= PTX_MASK_GT)
		return lane_mask(l, special);
	switch (special) {
	case PTX_LANEID:
		for (unsigned n = 0; n < PTX_LANES; n++)
			lanes[n] = n;
		return l->at.lanes == 1 ? scalar_const(l->type.i32, 0) : lane_consts(l, 32, lanes);
	case PTX_WARPID:
		return LLVMBuildLShr(l->b, l->fn.thread, scalar_const(l->type.i32, 5), "");
	case PTX_NWARPID:
		/* of all blocks that a multiprocessor has at once */
		return scalar_const(l->type.i32, 64);
	case PTX_SMID:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, smid));
	case PTX_NSMID:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, nsmid));
	case PTX_GRIDID:
		return load_field(l, l->type.i64, offsetof(struct ptx_context, gridid));
	case PTX_CLOCK:
	case PTX_CLOCK_HI:
	case PTX_CLOCK64:
		value = call_runtime(l, "ptx_rt_clock", l->type.i64, NULL, 0);
		break;
	case PTX_ALWAYS_0:
	case PTX_ALWAYS_1:
		return scalar_const(l->type.i32, special == PTX_ALWAYS_1);
	case PTX_DYNAMIC_SMEM:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, dynamic_bytes));
	case PTX_ENVREG1:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, workspace) + 4);
	case PTX_ENVREG2:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, workspace));
	case PTX_TOTAL_SMEM:
		return load_field(l, l->type.i32, offsetof(struct ptx_context, shared_bytes));
	default:
		value = call_runtime(l, "ptx_rt_nanoseconds", l->type.i64, NULL, 0);
	}
	if (special == PTX_CLOCK64 || special == PTX_GLOBALTIMER)
		return value;
	if (special == PTX_CLOCK_HI || special == PTX_GLOBALTIMER_HI)
		value = LLVMBuildLShr(l->b, value, scalar_const(l->type.i64, 32), "");
	return LLVMBuildTrunc(l->b, value, l->type.i32, "");
}

/* The address of a variable in its own space: a host address, or an offset in shared or local memory. */
/* Where variables are is not known when code comes from the cache. */
static LLVMValueRef variable_address(struct lower *l, const struct ptx_symbol *s, uint64_t imm)
{
	LLVMValueRef constant = LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, NULL, 0)), table, address;
	unsigned invariant = LLVMGetMDKindIDInContext(l->c, "invariant.load", 14);

	table = LLVMBuildLoad2(l->b, l->type.ptr, field(l, l->fn.ctx, offsetof(struct ptx_context, variables)), "");
	LLVMSetMetadata(table, invariant, constant);
	address = LLVMBuildLoad2(l->b, l->type.i64, field(l, table, s->index * sizeof(uint64_t)), "");
	LLVMSetMetadata(address, invariant, constant);
	return imm ? LLVMBuildAdd(l->b, address, scalar_const(l->type.i64, imm), "") : address;
}

LLVMValueRef symbol_address(struct lower *l, const struct ptx_symbol *s, uint64_t imm)
{
	uint64_t base = 0;

	if (s->kind == PTX_SYM_PARAM && s->space == PTX_PARAM && s->function && s->function->entry)
		return LLVMBuildPtrToInt(l->b, field(l, l->mem.params, s->offset + imm), l->type.i64, "");
	if (s->kind == PTX_SYM_FUNCTION) {
		base = ptx_function_address(l->body->function->module, s);
	} else if (s->dynamic) {
		base = (l->body->static_shared + 127) & ~127ull;
	} else if (s->space == PTX_SHARED) {
		base = ptx_shared_offset(l->body->kernel, s);
	} else if (s->space == PTX_LOCAL || s->space == PTX_PARAM) {
		base = s->offset;
	} else if (s->is_extern) {
		ptx_body_fail(l->body, PTX_UNRESOLVED, l->at.i->line, "the variable `%s` is not defined", s->name);
	} else {
		return variable_address(l, s, imm);
	}
	return scalar_const(l->type.i64, base + imm);
}

/* As recorded on an H100: an f32's literal is its bits, whatever the type. */
static uint64_t float_bits(const struct ptx_operand *o, unsigned type)
{
	double wide;
	float narrow;
	uint32_t half;

	if (o->single || ptx_types[type].bits != 32)
		return o->imm;
	memcpy(&wide, &o->imm, 8);
	narrow = (float)wide;
	memcpy(&half, &narrow, 4);
	return half;
}

LLVMValueRef get(struct lower *l, const struct ptx_operand *o, unsigned type)
{
	unsigned bits = ptx_types[type].bits;
	LLVMValueRef value = NULL;

	switch (o->kind) {
	case PTX_OP_REG:
		value = read_reg(l, o->reg, l->at.lanes);
		if (o->negate)
			value = LLVMBuildNot(l->b, value, "");
		break;
	case PTX_OP_INT:
		return int_const(l, bits, type == PTX_PRED ? o->imm != 0 : o->imm);
	case PTX_OP_FLOAT:
		return int_const(l, bits, float_bits(o, type));
	case PTX_OP_SPECIAL:
		value = special_value(l, o->reg);
		break;
	case PTX_OP_SYMBOL:
		value = symbol_address(l, o->symbol, o->imm);
		break;
	default:
		ptx_body_fail(l->body, PTX_INVALID, l->at.i->line, "an operand of `%s` is of the wrong kind",
			      l->at.i->name);
		return LLVMConstNull(type_for(l, int_type(l, bits)));
	}
	return resize(l, splat(l, value, l->at.lanes), bits, false);
}

LLVMValueRef getf(struct lower *l, const struct ptx_operand *o, unsigned type)
{
	return to_float(l, get(l, o, type), type);
}

static LLVMValueRef first_active(struct lower *l, LLVMValueRef value)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)},
		     lane = intrinsic(l, "llvm.cttz", l->type.i32, args, 2);

	return LLVMBuildExtractElement(l->b, value, LLVMBuildAnd(l->b, lane, scalar_const(l->type.i32, 31), ""), "");
}

void set_reg(struct lower *l, int32_t reg, LLVMValueRef value, bool is_signed)
{
	bool vector = reg_shape(l, reg) == PTX_VARYING;
	unsigned lanes = vector ? PTX_LANES : 1, saved = l->at.lanes;
	LLVMValueRef guard, old;

	value = resize(l, to_int(l, value), ptx_types[l->body->regs[reg].type].bits, is_signed);
	/* tid >> 5 and the like: uniform, but in the masked version its sources are not */
	if (l->version.masked && !vector && is_vector(value))
		value = first_active(l, value);
	if (!vector && is_vector(value)) {
		ptx_body_fail(l->body, PTX_NOT_SUPPORTED, l->at.i->line, "`%s`: the compiler is wrong about a shape",
			      l->at.i->name);
		return;
	}
	value = splat(l, value, lanes);
	if (provenance_base(l, reg))
		value = LLVMBuildSub(l->b, value, provenance_base(l, reg), "");
	if (l->at.i->guard >= 0) {
		guard = read_reg(l, l->at.i->guard, lanes);
		if (l->at.i->guard_negate)
			guard = LLVMBuildNot(l->b, guard, "");
		old = read_reg(l, reg, lanes);
		if (provenance_base(l, reg))
			old = LLVMBuildLoad2(l->b, l->type.i64, l->regs.storage[reg], "");
		value = LLVMBuildSelect(l->b, guard, value, old, "");
	}
	if (vector && ((l->version.masked && PTX_HELD(l->body, l->body->blend, reg)) ||
		       (l->at.keep && PTX_HELD(l->body, l->at.keep, reg))))
		value = LLVMBuildSelect(l->b, l->at.mask_vector, value, read_reg(l, reg, lanes), "");
	l->at.lanes = saved;
	LLVMBuildStore(l->b, value, l->regs.storage[reg]);
}

void set(struct lower *l, const struct ptx_operand *o, LLVMValueRef value, bool is_signed)
{
	if (o->kind == PTX_OP_REG)
		set_reg(l, o->reg, value, is_signed);
	else if (o->kind != PTX_OP_SINK)
		ptx_body_fail(l->body, PTX_INVALID, l->at.i->line, "`%s` cannot write its first operand",
			      l->at.i->name);
}

LLVMValueRef mask_bits(struct lower *l, LLVMValueRef predicates)
{
	return LLVMBuildBitCast(l->b, predicates, l->type.i32, "");
}

LLVMValueRef bits_mask(struct lower *l, LLVMValueRef bits)
{
	return LLVMBuildBitCast(l->b, bits, LLVMVectorType(l->type.i1, PTX_LANES), "");
}

LLVMValueRef intrinsic(struct lower *l, const char *name, LLVMTypeRef type, LLVMValueRef *args, unsigned count)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(l->m, id, &type, type ? 1 : 0);

	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, count, "");
}

LLVMValueRef call_runtime(struct lower *l, const char *name, LLVMTypeRef result, LLVMValueRef *args, unsigned count)
{
	LLVMValueRef fn = LLVMGetNamedFunction(l->m, name);
	LLVMTypeRef types[12];

	if (!fn) {
		for (unsigned n = 0; n < count; n++)
			types[n] = LLVMTypeOf(args[n]);
		fn = LLVMAddFunction(l->m, name, LLVMFunctionType(result, types, count, 0));
	}
	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, count, "");
}

/* The function of the module that calls a runtime function and keeps all registers. */
static LLVMValueRef keeper_of(struct lower *l, const char *name, LLVMValueRef *args, unsigned count)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMTypeRef types[4];
	LLVMValueRef fn;
	char keeper[64];

	snprintf(keeper, sizeof(keeper), "%s.kept", name);
	fn = LLVMGetNamedFunction(l->m, keeper);
	if (fn)
		return fn;
	for (unsigned n = 0; n < count; n++)
		types[n] = LLVMTypeOf(args[n]);
	fn = LLVMAddFunction(l->m, keeper, LLVMFunctionType(l->type.void_type, types, count, 0));
	LLVMSetLinkage(fn, LLVMInternalLinkage);
	LLVMSetFunctionCallConv(fn, LLVMPreserveAllCallConv);
	LLVMPositionBuilderAtEnd(l->b, LLVMAppendBasicBlockInContext(l->c, fn, "entry"));
	for (unsigned n = 0; n < count; n++)
		args[n] = LLVMGetParam(fn, n);
	call_runtime(l, name, l->type.void_type, args, count);
	LLVMBuildRetVoid(l->b);
	LLVMPositionBuilderAtEnd(l->b, here);
	return fn;
}

void call_seldom(struct lower *l, const char *name, LLVMValueRef *args, unsigned count)
{
	LLVMValueRef params[4], fn;

	if (l->version.width > 1) {
		call_runtime(l, name, l->type.void_type, args, count);
		return;
	}
	memcpy(params, args, count * sizeof(*args));
	fn = keeper_of(l, name, params, count);
	LLVMSetInstructionCallConv(LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, count, ""),
				   LLVMPreserveAllCallConv);
}

LLVMValueRef field(struct lower *l, LLVMValueRef base, uint64_t offset)
{
	LLVMValueRef index = LLVMConstInt(l->type.i64, offset, 0);

	return LLVMBuildGEP2(l->b, l->type.i8, base, &index, 1, "");
}

LLVMValueRef entry_alloca(struct lower *l, LLVMTypeRef type)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef value, first = LLVMGetFirstInstruction(l->fn.entry);

	if (first)
		LLVMPositionBuilderBefore(l->b, first);
	else
		LLVMPositionBuilderAtEnd(l->b, l->fn.entry);
	value = LLVMBuildAlloca(l->b, type, "");
	LLVMPositionBuilderAtEnd(l->b, here);
	return value;
}

LLVMBasicBlockRef new_bb(struct lower *l, const char *name)
{
	return LLVMAppendBasicBlockInContext(l->c, l->fn.value, name);
}

void branch_likely(struct lower *l, LLVMValueRef condition, LLVMBasicBlockRef likely, LLVMBasicBlockRef unlikely)
{
	LLVMValueRef branch = LLVMBuildCondBr(l->b, condition, likely, unlikely), node;
	LLVMMetadataRef parts[3] = {
		LLVMMDStringInContext2(l->c, "branch_weights", 14),
		LLVMValueAsMetadata(LLVMConstInt(l->type.i32, 100000, 0)),
		LLVMValueAsMetadata(LLVMConstInt(l->type.i32, 1, 0)),
	};

	node = LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, parts, 3));
	LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(l->c, "prof", 4), node);
}

LLVMValueRef compare(struct lower *l, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildICmp(l->b, p, a, b, "");
}

LLVMValueRef select_of(struct lower *l, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(l->b, c, a, b, "");
}

LLVMValueRef int2(struct lower *l, const char *name, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef args[2] = {a, b};

	return intrinsic(l, name, LLVMTypeOf(a), args, 2);
}

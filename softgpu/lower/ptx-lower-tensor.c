/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async.bulk.tensor and its kin, of tiles and of images; tensormap. */
#include "runtime/ptx-async.h"
#include "lower/ptx-emit.h"
#include "lower/ptx-lower-async.h"
#include "runtime/ptx-tensor-map.h"

/* How many dimensions the name says; 0: none, or several. */
static unsigned rank_of(const struct ptx_instr *i)
{
	static const char *const words[PTX_TENSOR_RANK] = {"1d", "2d", "3d", "4d", "5d"};
	unsigned rank = 0;

	for (unsigned n = 0; n < PTX_TENSOR_RANK; n++)
		if (ptx_word(i, words[n]))
			rank = rank ? PTX_TENSOR_RANK + 1 : n + 1;
	return rank > PTX_TENSOR_RANK ? 0 : rank;
}

/* [map, {as many coordinates as the name says}] from operand n on. */
static bool is_place(const struct ptx_instr *i, unsigned n)
{
	const struct ptx_operand *map = &i->ops[n], *coords = &i->ops[n + 1];

	return map->kind == PTX_OP_MEM && coords->kind == PTX_OP_VECTOR && rank_of(i) && coords->count == rank_of(i);
}

static void begin(struct lower *l, LLVMValueRef *args)
{
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = async_active(l);
}

/* The runtime's number of the mode; 0: the name has two modes, or one that images do not have. */
static unsigned mode_of(const struct ptx_instr *i)
{
	bool images = ptx_word(i, "im2col"), stores = ptx_word(i, "im2col_no_offs");
	unsigned rank = rank_of(i);

	if (images + stores + ptx_word(i, "tile") > 1 || ((images || stores) && rank < 3))
		return 0;
	return rank | (images || stores ? PTX_TENSOR_MODE_IMAGES : 0) | (images ? PTX_TENSOR_MODE_OFFSETS : 0);
}

/* {offsets} of images, for each dimension of one */
static bool are_offsets(const struct ptx_instr *i, const struct ptx_operand *o)
{
	return o->kind == PTX_OP_VECTOR && o->count + 2u == rank_of(i);
}

static void put_offsets(struct lower *l, const struct ptx_operand *o)
{
	LLVMValueRef all = NULL;

	for (unsigned n = 0; n < o->count; n++) {
		LLVMValueRef offset = async_number(l, &o->elements[n], PTX_U16);

		offset = LLVMBuildShl(l->b, offset, int_const(l, 64, 16 * n), "");
		all = n ? LLVMBuildOr(l->b, all, offset, "") : offset;
	}
	async_put(l, all, async_list(l, l->mem.data, PTX_TENSOR_OFFSETS));
}

/* Lists of two coordinates each. */
static LLVMValueRef coordinates(struct lower *l, const struct ptx_operand *o)
{
	for (unsigned n = 0; n < o->count; n += 2) {
		LLVMValueRef pair = async_number(l, &o->elements[n], PTX_U32), second;

		if (n + 1u < o->count) {
			second = async_number(l, &o->elements[n + 1], PTX_U32);
			pair = LLVMBuildOr(l->b, pair, LLVMBuildShl(l->b, second, int_const(l, 64, 32), ""), "");
		}
		async_put(l, pair, async_list(l, l->mem.data, n / 2));
	}
	return l->mem.data;
}

/* [to], [map, {coordinates}], [mbarrier] {, {offsets}} {, block mask} {, policy} */
bool emit_tensor_load(struct lower *l, const struct ptx_instr *i)
{
	bool multicast = ptx_word(i, "multicast::cluster"), images = ptx_word(i, "im2col");
	unsigned count = i->count - ptx_word(i, "L2::cache_hint") - multicast - images;
	LLVMValueRef args[9];

	if (count != 4 || !mode_of(i) || (images && !are_offsets(i, &i->ops[4])) || !is_place(i, 1) ||
	    i->ops[0].kind != PTX_OP_MEM || i->ops[3].kind != PTX_OP_MEM || !ptx_word(i, "global") ||
	    ptx_word(i, "shared::cta") == ptx_word(i, "shared::cluster") ||
	    !ptx_word(i, "mbarrier::complete_tx::bytes") || (multicast && !ptx_word(i, "shared::cluster")))
		return false;
	begin(l, args);
	if (multicast)
		args[2] = async_addressed(l, &i->ops[4 + images]);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->mem.addresses, 1));
	args[5] = coordinates(l, &i->ops[2]);
	if (images)
		put_offsets(l, &i->ops[4]);
	args[6] = async_put(l, async_address(l, &i->ops[3]), async_list(l, l->mem.addresses, 2));
	args[7] = scalar_const(l->type.i32, mode_of(i));
	args[8] = l->fn.thread;
	call_runtime(l, "ptx_rt_tensor_load", l->type.void_type, args, 9);
	return true;
}

/* [map, {coordinates}], [from] {, policy}; a reduction if the row says so, which the map gives the type of */
bool emit_tensor_store(struct lower *l, const struct ptx_instr *i)
{
	const ptx_mods all = M(AND) | M(OR) | M(XOR) | M(ADD) | M(INC) | M(DEC) | M(MIN) | M(MAX),
		       given = i->mods & all;
	bool reduces = i->op->arg;
	LLVMValueRef args[8];

	if (i->count - ptx_word(i, "L2::cache_hint") != 3 || !mode_of(i) || !is_place(i, 0) ||
	    i->ops[2].kind != PTX_OP_MEM || !ptx_word(i, "global") || !ptx_word(i, "shared::cta") ||
	    !ptx_word(i, "bulk_group") || (reduces && (!given || (given & (given - 1)))))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[2]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[0]), async_list(l, l->mem.addresses, 1));
	args[5] = coordinates(l, &i->ops[1]);
	args[6] = scalar_const(l->type.i32, mode_of(i));
	args[7] = l->fn.thread;
	call_runtime(l, reduces ? "ptx_rt_tensor_reduce" : "ptx_rt_tensor_store", l->type.void_type, args, 8);
	return true;
}

/* [map, {coordinates}] {, {offsets}} {, policy} */
bool emit_tensor_prefetch(struct lower *l, const struct ptx_instr *i)
{
	bool images = ptx_word(i, "im2col");
	LLVMValueRef args[7];

	if (i->count - ptx_word(i, "L2::cache_hint") - images != 2u || !mode_of(i) || !is_place(i, 0) ||
	    (images && !are_offsets(i, &i->ops[2])) || !ptx_word(i, "L2") || !ptx_word(i, "global"))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = coordinates(l, &i->ops[1]);
	if (images)
		put_offsets(l, &i->ops[2]);
	args[5] = scalar_const(l->type.i32, mode_of(i));
	args[6] = l->fn.thread;
	call_runtime(l, "ptx_rt_tensor_prefetch", l->type.void_type, args, 7);
	return true;
}

static const struct {
	const char *word;
	enum ptx_tensor_field field;
	unsigned type, count; /* how many dimensions may have it, or how many kinds there are; 0: it is any number */
} fields[] = {
	{"global_address", PTX_TENSOR_FIELD_ADDRESS, PTX_B64, 0},
	{"rank", PTX_TENSOR_FIELD_RANK, PTX_B32, 0},
	{"box_dim", PTX_TENSOR_FIELD_BOX, PTX_B32, PTX_TENSOR_RANK},
	{"global_dim", PTX_TENSOR_FIELD_DIM, PTX_B32, PTX_TENSOR_RANK},
	{"global_stride", PTX_TENSOR_FIELD_STRIDE, PTX_B64, PTX_TENSOR_RANK - 1},
	{"element_stride", PTX_TENSOR_FIELD_STEP, PTX_B32, PTX_TENSOR_RANK},
	{"elemtype", PTX_TENSOR_FIELD_TYPE, PTX_B32, PTX_TENSOR_TYPE_COUNT},
	{"interleave_layout", PTX_TENSOR_FIELD_NONE, PTX_B32, 1},
	{"swizzle_mode", PTX_TENSOR_FIELD_SWIZZLE, PTX_B32, PTX_TENSOR_SWIZZLE_COUNT},
	{"swizzle_atomicity", PTX_TENSOR_FIELD_NONE, PTX_B32, 1},
	{"fill_mode", PTX_TENSOR_FIELD_FILL, PTX_B32, 2},
};

/* PTX numbers some types in another order than the driver API. */
static uint64_t kind_of(enum ptx_tensor_field field, uint64_t value)
{
	static const uint8_t types[PTX_TENSOR_TYPE_COUNT] = {
		PTX_TENSOR_U8,   PTX_TENSOR_U16,  PTX_TENSOR_U32,     PTX_TENSOR_S32,     PTX_TENSOR_U64,
		PTX_TENSOR_S64,  PTX_TENSOR_F16,  PTX_TENSOR_F32,     PTX_TENSOR_F32_FTZ, PTX_TENSOR_F64,
		PTX_TENSOR_BF16, PTX_TENSOR_TF32, PTX_TENSOR_TF32_FTZ};

	return field == PTX_TENSOR_FIELD_TYPE ? types[value] : value;
}

/* [map] {, dimension}, number; of kinds and dimensions the number is known here */
bool emit_tensor_replace(struct lower *l, const struct ptx_instr *i)
{
	const struct ptx_operand *value = &i->ops[i->count - 1], *known = &i->ops[1];
	bool has_kinds = false, has_dimension = i->op->arg;
	LLVMValueRef args[8];
	unsigned f = 0;

	while (f < sizeof(fields) / sizeof(fields[0]) && !ptx_word(i, fields[f].word))
		f++;
	if (f == sizeof(fields) / sizeof(fields[0]) || i->type != fields[f].type || !ptx_word(i, "b1024") ||
	    i->ops[0].kind != PTX_OP_MEM || i->count != 2u + has_dimension)
		return false;
	has_kinds = fields[f].count && !has_dimension;
	if (fields[f].count && (known->kind != PTX_OP_INT || known->imm >= fields[f].count))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(
		l, has_kinds ? int_const(l, 64, kind_of(fields[f].field, value->imm)) : async_number(l, value, i->type),
		l->mem.data);
	args[5] = scalar_const(l->type.i32, fields[f].field);
	args[6] = scalar_const(l->type.i32, has_dimension ? known->imm : 0);
	args[7] = l->fn.thread;
	call_runtime(l, "ptx_rt_tensor_replace", l->type.void_type, args, 8);
	return true;
}

/* [to], [from], 128 */
bool emit_tensor_publish(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[6];

	if (i->ops[0].kind != PTX_OP_MEM || i->ops[1].kind != PTX_OP_MEM || i->ops[2].kind != PTX_OP_INT ||
	    i->ops[2].imm != sizeof(struct ptx_tensor_map) || !ptx_word(i, "global") || !ptx_word(i, "shared::cta") ||
	    !ptx_word(i, "tensormap::generic") || !ptx_word(i, "release") || !ptx_word(i, "sync") ||
	    !ptx_word(i, "aligned"))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->mem.addresses, 1));
	args[5] = l->fn.thread;
	call_runtime(l, "ptx_rt_tensor_publish", l->type.void_type, args, 6);
	return true;
}

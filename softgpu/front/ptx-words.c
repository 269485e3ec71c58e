/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions whose names are small grammars: shapes, several types, words in fixed places. A row lists the words that
 * may be written; the emitter looks at them, and refuses what does not belong together. Rows of one name stand together,
 * names in order; the row with the longest name that fits is taken.
 */
#include <string.h>

#include "front/ptx-opcodes.h"

#define EFFECT (PTX_F_EFFECT | PTX_F_WORDS)
#define WARP (EFFECT | PTX_F_WARP)
#define SHAPE(id) PTX_SHAPE_##id
#define FAMILY(id) PTX_FAMILY_##id
#define WMMA_SHAPES "m16n16k16 m8n32k16 m32n8k16 m16n16k8 m8n8k4 m8n8k32 m8n8k128 "
#define WMMA_TYPES "f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32 "
#define SPARSE                                                                                                         \
	"sync aligned m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 row col satfinite f16 bf16 tf32 f32 s8 u8 s4 u4 s32 "    \
	"e4m3 e5m2"
#define SPACE "global shared shared::cta "

#define SHARED "shared shared::cta shared::cluster "
#define SCOPE "relaxed release acquire cta cluster "
#define SCOPES "cta cluster gpu sys"
#define MBARRIER (EFFECT | PTX_F_SITE | PTX_F_WRITE)
#define FREE (EFFECT | PTX_F_NO_DST)
#define TENSOR (FREE | PTX_F_SITE | PTX_F_TENSOR)
#define TENSOR_MAP "tile global shared::cta b1024 b32 b64"
#define DIMENSIONS "1d 2d 3d 4d 5d "
#define VIDEO "u32 s32 "
#define ROUND "rn rz rm rp "
#define POLICY "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged "

static const struct {
	struct ptx_opcode op;
	const char *words;
} rows[] = {
	{{"applypriority", 0, 0, "a-", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "global L2::evict_normal"},
	{{"barrier.cluster.arrive", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "release relaxed aligned"},
	{{"barrier.cluster.wait", 0, 0, "", SHAPE(NONE), FREE | PTX_F_BARRIER, FAMILY(CLUSTER_WAIT), 0}, "acquire aligned"},
	{{"clusterlaunchcontrol.query_cancel", 0, 0, "tT", SHAPE(UNIFORM), PTX_F_WORDS, FAMILY(QUERY_CANCEL), 0},
	 "is_canceled pred get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z v4 b32 b128"},
	{{"clusterlaunchcontrol.try_cancel.async", 0, 0, "aa", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(TRY_CANCEL), 0},
	 "shared::cta mbarrier::complete_tx::bytes multicast::cluster::all b128"},
	{{"cp.async", 0, 0, "aa-o?P", SHAPE(NONE), FREE | PTX_F_SITE, FAMILY(CP_ASYNC), 0},
	 "ca cg shared shared::cta global L2::cache_hint L2::64B L2::128B L2::256B"},
	{{"cp.async.bulk", 0, 0, "aauaKP", SHAPE(NONE), FREE | PTX_F_SITE, FAMILY(CP_BULK), 1},
	 "shared::cta shared::cluster global mbarrier::complete_tx::bytes multicast::cluster L2::cache_hint"},
	{{"cp.async.bulk", 0, 0, "aauPK", SHAPE(NONE), FREE | PTX_F_SITE | PTX_F_WRITE, FAMILY(CP_BULK), 0},
	 "global shared::cta bulk_group L2::cache_hint cp_mask"},
	{{"cp.async.bulk.commit_group", 0, 0, "", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, ""},
	{{"cp.async.bulk.prefetch", 0, 0, "auP", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "L2 global L2::cache_hint"},
	{{"cp.async.bulk.prefetch.tensor", 0, 0, "auP", SHAPE(NONE), TENSOR, FAMILY(TENSOR_PREFETCH), 0},
	 DIMENSIONS "L2 global tile L2::cache_hint"},
	{{"cp.async.bulk.prefetch.tensor", 0, 0, "auhP", SHAPE(NONE), TENSOR, FAMILY(TENSOR_PREFETCH), 0},
	 DIMENSIONS "L2 global im2col L2::cache_hint"},
	{{"cp.async.bulk.tensor", 0, 0, "aauaKP", SHAPE(NONE), TENSOR, FAMILY(TENSOR_LOAD), 0},
	 DIMENSIONS "shared::cta shared::cluster global tile mbarrier::complete_tx::bytes multicast::cluster L2::cache_hint"},
	{{"cp.async.bulk.tensor", 0, 0, "aauahKP", SHAPE(NONE), TENSOR, FAMILY(TENSOR_LOAD), 0},
	 DIMENSIONS "shared::cta shared::cluster global im2col mbarrier::complete_tx::bytes multicast::cluster L2::cache_hint"},
	{{"cp.async.bulk.tensor", 0, 0, "auaP", SHAPE(NONE), TENSOR | PTX_F_WRITE, FAMILY(TENSOR_STORE), 0},
	 DIMENSIONS "global shared::cta tile im2col_no_offs bulk_group L2::cache_hint"},
	{{"cp.async.bulk.wait_group", 0, 0, "-", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "read"},
	{{"cp.async.commit_group", 0, 0, "", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, ""},
	{{"cp.async.mbarrier.arrive", 0, 0, "a", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(CP_ARRIVE), 0},
	 "noinc b64 shared shared::cta"},
	{{"cp.async.wait_all", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, ""},
	{{"cp.async.wait_group", 0, 0, "-", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, ""},
	{{"cp.reduce.async.bulk", 0, 0, "aaua?P", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(REDUCE_BULK), 0},
	 "global shared::cta shared::cluster bulk_group mbarrier::complete_tx::bytes L2::cache_hint and or xor add inc dec min "
	 "max noftz f16 bf16 b32 u32 s32 b64 u64 s64 f32 f64"},
	{{"cp.reduce.async.bulk.tensor", 0, 0, "auaP", SHAPE(NONE), TENSOR | PTX_F_WRITE, FAMILY(TENSOR_STORE), 1},
	 DIMENSIONS "global shared::cta and or xor add inc dec min max tile im2col_no_offs bulk_group L2::cache_hint"},
	{{"createpolicy.cvt", 0, 0, "ll", SHAPE(UNIFORM), PTX_F_WORDS, FAMILY(POLICY), 0}, "L2 b64"},
	{{"createpolicy.fractional", 0, 0, "lf?", SHAPE(UNIFORM), PTX_F_WORDS, FAMILY(POLICY), 0}, POLICY "b64"},
	{{"createpolicy.range", 0, 0, "lauu", SHAPE(UNIFORM), PTX_F_WORDS, FAMILY(POLICY), 0}, POLICY "global b64"},
	{{"cvt", 0, 0, "wWW?", SHAPE(PURE), PTX_F_WORDS, FAMILY(CVT_SMALL), 0},
	 "rn rna rz relu satfinite tf32 f32 f16 bf16 f16x2 bf16x2"},
	{{"cvt", 0, 0, "nNN?", SHAPE(PURE), PTX_F_WORDS, FAMILY(CVT_NARROW), 0},
	 "rn rz rp relu satfinite f32 f16x2 bf16x2 e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2"},
	{{"cvt.pack", 0, 0, "BWWB?", SHAPE(PURE), PTX_F_WORDS, FAMILY(CVT_PACK), 0}, "sat u16 s16 u8 s8 u4 s4 u2 s2 s32 b32"},
	{{"discard", 0, 0, "a-", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "global L2"},
	{{"elect", 0, 0, "uu", SHAPE(VARYING), WARP, FAMILY(ELECT), 0}, "sync"},
	{{"fence.acquire.sync_restrict::shared::cluster", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "cluster"},
	{{"fence.mbarrier_init", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "release cluster"},
	{{"fence.proxy", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0},
	 "alias async async.global async.shared::cta async.shared::cluster global " SHARED},
	{{"fence.proxy.async::generic.acquire.sync_restrict::shared::cluster", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "cluster"},
	{{"fence.proxy.async::generic.release.sync_restrict::shared::cta", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "cluster"},
	{{"fence.proxy.tensormap::generic.acquire", 0, 0, "a-", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, SCOPES},
	{{"fence.proxy.tensormap::generic.release", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, SCOPES},
	{{"fence.release.sync_restrict::shared::cta", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "cluster"},
	{{"getctarank", 0, 0, "ut", SHAPE(UNIFORM), PTX_F_WORDS, FAMILY(CLUSTER), 1}, "shared::cluster u32 u64"},
	{{"griddepcontrol", 0, 0, "", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "launch_dependents wait"},
	{{"ldmatrix", 0, 0, "ma", SHAPE(VARYING), WARP | PTX_F_SITE, FAMILY(MATRIX_ROWS), 0},
	 "sync aligned m8n8 m8n16 x1 x2 x4 trans shared shared::cta b16 b8x16 b6x16_p32 b4x16_p64"},
	{{"mapa", 0, 0, "ttu", SHAPE(PURE), PTX_F_WORDS, FAMILY(CLUSTER), 0}, "shared::cluster u32 u64"},
	{{"max", 0, 0, "tttt?", SHAPE(PURE), PTX_F_WORDS, FAMILY(FMINMAX), OP_MAX}, "ftz NaN xorsign abs f32"},
	{{"max", 0, 0, "ttt", SHAPE(PURE), PTX_F_WORDS, FAMILY(HALF), OP_MAX}, "ftz NaN xorsign abs f16 f16x2 bf16 bf16x2"},
	{{"mbarrier.arrive", 0, 0, "lau?", SHAPE(VARYING), MBARRIER, FAMILY(MBARRIER_ARRIVE), PTX_MBARRIER_ARRIVE},
	 SHARED SCOPE "expect_tx noComplete b64"},
	{{"mbarrier.arrive_drop", 0, 0, "lau?", SHAPE(VARYING), MBARRIER, FAMILY(MBARRIER_ARRIVE), PTX_MBARRIER_DROP},
	 SHARED SCOPE "expect_tx noComplete b64"},
	{{"mbarrier.complete_tx", 0, 0, "au", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(MBARRIER_SET),
	  PTX_MBARRIER_COMPLETE_TX},
	 SHARED SCOPE "b64"},
	{{"mbarrier.expect_tx", 0, 0, "au", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(MBARRIER_SET),
	  PTX_MBARRIER_EXPECT_TX},
	 SHARED SCOPE "b64"},
	{{"mbarrier.init", 0, 0, "au", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(MBARRIER_SET), PTX_MBARRIER_INIT},
	 "shared shared::cta b64"},
	{{"mbarrier.inval", 0, 0, "a", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(MBARRIER_SET), PTX_MBARRIER_INVAL},
	 "shared shared::cta b64"},
	{{"mbarrier.pending_count", 0, 0, "ul", SHAPE(PURE), PTX_F_WORDS, FAMILY(MBARRIER_PENDING), 0}, "b64"},
	{{"mbarrier.test_wait", 0, 0, "pas", SHAPE(VARYING), MBARRIER | PTX_F_WAIT, FAMILY(MBARRIER_TEST), 0},
	 "parity shared shared::cta acquire relaxed cta cluster b64"},
	{{"mbarrier.try_wait", 0, 0, "pasu?", SHAPE(VARYING), MBARRIER | PTX_F_WAIT, FAMILY(MBARRIER_TEST), 1},
	 "parity shared shared::cta acquire relaxed cta cluster b64"},
	{{"membar.proxy", 0, 0, "", SHAPE(NONE), FREE, FAMILY(FENCE), 0}, "alias"},
	{{"min", 0, 0, "tttt?", SHAPE(PURE), PTX_F_WORDS, FAMILY(FMINMAX), OP_MIN}, "ftz NaN xorsign abs f32"},
	{{"min", 0, 0, "ttt", SHAPE(PURE), PTX_F_WORDS, FAMILY(HALF), OP_MIN}, "ftz NaN xorsign abs f16 f16x2 bf16 bf16x2"},
	{{"mma", 0, 0, "rRRc", SHAPE(VARYING), WARP, FAMILY(MMA), 0},
	 "sync aligned m8n8k4 m16n8k4 m16n8k8 m16n8k16 m8n8k16 m16n8k32 m8n8k32 m16n8k64 m8n8k128 m16n8k128 m16n8k256 "
	 "row col satfinite xor and popc f16 bf16 tf32 f32 f64 s8 u8 s4 u4 b1 s32 e4m3 e5m2 e2m1 e2m3 e3m2 kind::f8f6f4 " ROUND},
	{{"mma.sp", 0, 0, "rRRcm-", SHAPE(VARYING), WARP, FAMILY(MMA_SPARSE), 0}, SPARSE},
	{{"mma.sp::ordered_metadata", 0, 0, "rRRcm-", SHAPE(VARYING), WARP, FAMILY(MMA_SPARSE), 0},
	 "e2m1 e2m3 e3m2 kind::f8f6f4 " SPARSE},
	{{"movmatrix", 0, 0, "mm", SHAPE(VARYING), WARP, FAMILY(MOVMATRIX), 0}, "sync aligned m8n8 trans b16"},
	{{"pmevent", 0, 0, "-", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "mask"},
	{{"prefetch", 0, 0, "a", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "tensormap const param"},
	{{"red.async", 0, 0, "ata", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(STORE_ASYNC), 1},
	 "relaxed cluster shared::cluster mbarrier::complete_tx::bytes and or xor add inc dec min max b32 u32 s32 u64 s64"},
	{{"red.async", 0, 0, "at", SHAPE(NONE), FREE | PTX_F_ATOM, FAMILY(ATOM), 0},
	 "mmio release gpu cluster sys global add u32 s32 u64 s64"},
	{{"redux", 0, 0, "ttu", SHAPE(VARYING), WARP, FAMILY(REDUX), 0}, "sync min max abs NaN f32"},
	{{"setmaxnreg", 0, 0, "-", SHAPE(NONE), FREE, FAMILY(NOTHING), 0}, "inc dec sync aligned u32"},
	{{"st.async", 0, 0, "ata", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(STORE_ASYNC), 0},
	 "weak cluster shared::cluster mbarrier::complete_tx::bytes v2 v4 b32 b64 u32 u64 s32 s64 f32 f64"},
	{{"st.async", 0, 0, "at", SHAPE(NONE), FREE | PTX_F_STORE, FAMILY(ST), 0},
	 "mmio release gpu sys global b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"},
	{{"st.bulk", 0, 0, "aA-", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(FILL_BULK), 0}, "weak shared::cta"},
	{{"stmatrix", 0, 0, "am", SHAPE(NONE), WARP | PTX_F_SITE | PTX_F_WRITE | PTX_F_NO_DST, FAMILY(MATRIX_ROWS), 1},
	 "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16"},
	{{"tensormap.cp_fenceproxy", 0, 0, "aa-", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(TENSOR_PUBLISH), 0},
	 "global shared::cta tensormap::generic release sync aligned " SCOPES},
	{{"tensormap.replace", 0, 0, "at", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(TENSOR_REPLACE), 0},
	 "global_address rank elemtype interleave_layout swizzle_mode swizzle_atomicity fill_mode " TENSOR_MAP},
	{{"tensormap.replace", 0, 0, "a-t", SHAPE(NONE), MBARRIER | PTX_F_NO_DST, FAMILY(TENSOR_REPLACE), 1},
	 "box_dim global_dim global_stride element_stride " TENSOR_MAP},
	{{"vabsdiff", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ABS}, VIDEO "sat add min max"},
	{{"vabsdiff2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ABS}, VIDEO "sat add"},
	{{"vabsdiff4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ABS}, VIDEO "sat add"},
	{{"vadd", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ADD}, VIDEO "sat add min max"},
	{{"vadd2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ADD}, VIDEO "sat add"},
	{{"vadd4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ADD}, VIDEO "sat add"},
	{{"vavrg2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_AVERAGE}, VIDEO "sat add"},
	{{"vavrg4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_AVERAGE}, VIDEO "sat add"},
	{{"vmad", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MAD}, VIDEO "sat shr7 shr15 po"},
	{{"vmax", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MAX}, VIDEO "sat add min max"},
	{{"vmax2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MAX}, VIDEO "sat add"},
	{{"vmax4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MAX}, VIDEO "sat add"},
	{{"vmin", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MIN}, VIDEO "sat add min max"},
	{{"vmin2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MIN}, VIDEO "sat add"},
	{{"vmin4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_MIN}, VIDEO "sat add"},
	{{"vset", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SET}, VIDEO "eq ne lt le gt ge add min max"},
	{{"vset2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SET}, VIDEO "eq ne lt le gt ge add"},
	{{"vset4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SET}, VIDEO "eq ne lt le gt ge add"},
	{{"vshl", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SHL}, VIDEO "sat clamp wrap add min max"},
	{{"vshr", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_ASHR}, VIDEO "sat clamp wrap add min max"},
	{{"vsub", 0, 0, "uuuu?", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SUB}, VIDEO "sat add min max"},
	{{"vsub2", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SUB}, VIDEO "sat add"},
	{{"vsub4", 0, 0, "uuuu", SHAPE(PURE), PTX_F_WORDS, FAMILY(VIDEO), OP_SUB}, VIDEO "sat add"},
	{{"wmma.load", 0, 0, "rau?", SHAPE(VARYING), WARP | PTX_F_SITE, FAMILY(TILE_LOAD), 0},
	 "a b c sync aligned row col v2 v4 v8 " SPACE WMMA_SHAPES WMMA_TYPES},
	{{"wmma.mma", 0, 0, "rRRc", SHAPE(VARYING), WARP, FAMILY(MMA), 1},
	 "sync aligned row col satfinite xor and popc " ROUND WMMA_SHAPES WMMA_TYPES},
	{{"wmma.store", 0, 0, "aru?", SHAPE(NONE), WARP | PTX_F_SITE | PTX_F_WRITE | PTX_F_NO_DST, FAMILY(TILE_STORE), 0},
	 "d sync aligned row col v2 v4 v8 " SPACE WMMA_SHAPES WMMA_TYPES},
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

const struct ptx_opcode *ptx_words_find(const char *name, size_t length)
{
	const struct ptx_opcode *best = NULL;
	size_t longest = 0;
	bool known = false;

	for (size_t r = 0; r < COUNT; r++) {
		size_t n = strlen(rows[r].op.name);

		if (n > length || n < longest || memcmp(rows[r].op.name, name, n) || (name[n] && name[n] != '.'))
			continue;
		if (n > longest)
			known = false;
		/* the first of several rows of one name that knows all words */
		if (known)
			continue;
		longest = n;
		best = &rows[r].op;
		known = all_known(name + n, rows[r].words);
	}
	return known ? best : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "matmul-abi.h"

#include "blas-abi.h"

/* Sizes beyond this are refused: sums of a few of them fit. */
#define MOST (1ll << 40)

/* cudaDataType's numbers are smaller. */
#define TYPES 64

#define MOST_SEARCH 9 /* cublasLtMatmulSearch_t's, with those that are reserved */

enum { BITS = 128, GELU_STEP = 8 }; /* leading dimensions of auxiliary matrices are multiples of these */

bool vcuda_matmul_reads_bias(uint32_t epilogue)
{
	return epilogue & CUBLASLT_EPILOGUE_BIAS;
}

bool vcuda_matmul_writes_bias(uint32_t epilogue)
{
	return epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB) ||
	       epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

bool vcuda_matmul_has_aux(uint32_t epilogue)
{
	return epilogue & 128;
}

bool vcuda_matmul_reads_aux(uint32_t epilogue)
{
	return (epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU ||
	       (epilogue & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU;
}

bool vcuda_matmul_alpha_is_address(int pointer_mode)
{
	return pointer_mode != CUBLASLT_POINTER_MODE_HOST;
}

bool vcuda_matmul_beta_is_address(int pointer_mode)
{
	return pointer_mode == CUBLASLT_POINTER_MODE_DEVICE || pointer_mode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR;
}

bool vcuda_matmul_is_quarter(uint32_t type)
{
	return type == VCUDA_BLAS_R_8F_E4M3 || type == VCUDA_BLAS_R_8F_E5M2;
}

uint32_t vcuda_matmul_bias_type(const vcuda_matmul *m)
{
	if (m->desc.bias_type >= 0)
		return (uint32_t)m->desc.bias_type;
	if (m->d.type == VCUDA_BLAS_R_8I)
		return (uint32_t)m->desc.scale;
	if (vcuda_matmul_is_quarter(m->a.type))
		return m->d.type == VCUDA_BLAS_R_16F ? VCUDA_BLAS_R_16F : VCUDA_BLAS_R_16BF;
	return m->d.type;
}

uint32_t vcuda_matmul_aux_type(const vcuda_matmul *m)
{
	return m->desc.aux_type >= 0 ? (uint32_t)m->desc.aux_type : m->d.type;
}

static bool is_epilogue(uint32_t epilogue)
{
	static const uint32_t known[] = {
		CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
		CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
		CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
		CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
		CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
		CUBLASLT_EPILOGUE_BGRADB};

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (epilogue == known[i])
			return true;
	return false;
}

/* Whether the type of scalars fits the type of computation. */
static bool is_scale(int compute, int scale)
{
	uint8_t real = vcuda_blas_scale((uint64_t)compute, VCUDA_BLAS_R_32F);
	uint8_t pair = vcuda_blas_scale((uint64_t)compute, VCUDA_BLAS_C_32F);

	if (compute < 0 || real == VCUDA_BLAS_NO_TYPE)
		return false;
	return scale == real || scale == pair || (real == VCUDA_BLAS_R_32I && scale == VCUDA_BLAS_R_32F);
}

static bool is_layout(const struct vcuda_matmul_layout *l)
{
	if (l->type >= TYPES || l->order < 0 || l->order > CUBLASLT_ORDER_COL32_2R_4R4 || l->batch < 1 ||
	    l->batch_mode > CUBLASLT_BATCH_MODE_POINTER_ARRAY)
		return false;
	if (!l->rows || !l->columns || l->rows > MOST || l->columns > MOST || l->ld < 0 || l->ld > MOST ||
	    l->stride < 0 || l->stride > MOST || l->plane < -MOST || l->plane > MOST)
		return false;
	/* The host's library checks the leading dimension of other orders. */
	return l->order == CUBLASLT_ORDER_COL   ? (uint64_t)l->ld >= l->rows
	       : l->order == CUBLASLT_ORDER_ROW ? (uint64_t)l->ld >= l->columns
						: true;
}

static bool is_op(int op)
{
	return op >= 0 && op <= 2;
}

static uint64_t rows_of(const struct vcuda_matmul_layout *l, int op)
{
	return op ? l->columns : l->rows;
}

static bool fits(const vcuda_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->desc;

	return rows_of(&m->a, d->trans_a) == m->d.rows && rows_of(&m->b, !d->trans_b) == m->d.columns &&
	       rows_of(&m->a, !d->trans_a) == rows_of(&m->b, d->trans_b) && m->c.rows == m->d.rows &&
	       m->c.columns == m->d.columns && m->a.batch == m->d.batch && m->b.batch == m->d.batch &&
	       m->c.batch == m->d.batch;
}

static bool is_size(int64_t size)
{
	return size >= 0 && size <= MOST;
}

static int check_epilogue(const vcuda_matmul *m, bool placed)
{
	const struct vcuda_matmul_desc *d = &m->desc;
	bool bits = d->epilogue & CUBLASLT_EPILOGUE_RELU || d->epilogue == CUBLASLT_EPILOGUE_DRELU ||
		    d->epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD;
	bool bias = vcuda_matmul_reads_bias(d->epilogue) || vcuda_matmul_writes_bias(d->epilogue);

	if (!is_size(d->bias_stride) || !is_size(d->aux_ld) || !is_size(d->aux_stride) || !is_size(d->alpha_stride) ||
	    d->bias_type < -1 || d->bias_type >= TYPES || d->aux_type < -1 || d->aux_type >= TYPES)
		return VCUDA_BLAS_INVALID;
	if (placed && ((bias && !d->bias) || (vcuda_matmul_has_aux(d->epilogue) && !d->aux)))
		return VCUDA_BLAS_INVALID;
	if (!vcuda_matmul_has_aux(d->epilogue))
		return VCUDA_BLAS_GOOD;
	if ((uint64_t)d->aux_ld < m->d.rows || d->aux_ld % (bits ? BITS : GELU_STEP) ||
	    d->aux_stride % (bits ? BITS : GELU_STEP))
		return VCUDA_BLAS_INVALID;
	return VCUDA_BLAS_GOOD;
}

static bool is_placed(const vcuda_matmul *m)
{
	int mode = m->desc.pointer_mode;

	/* A beta in device memory is not known, and may not be 0. */
	bool reads_c = vcuda_matmul_beta_is_address(mode)                            ? true
		       : mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO ? false
										     : m->beta[0] || m->beta[1];

	return m->at_a && m->at_b && m->at_d && (m->at_c || !reads_c) &&
	       (m->alpha[0] || !vcuda_matmul_alpha_is_address(mode)) &&
	       (m->beta[0] || !vcuda_matmul_beta_is_address(mode));
}

int vcuda_matmul_check(const vcuda_matmul *m, bool placed)
{
	const struct vcuda_matmul_desc *d = &m->desc;

	if (d->pointer_mode < 0 || d->pointer_mode > CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST ||
	    !is_op(d->trans_a) || !is_op(d->trans_b) || !is_layout(&m->a) || !is_layout(&m->b) || !is_layout(&m->c) ||
	    !is_layout(&m->d) || !fits(m))
		return VCUDA_BLAS_INVALID;
	if (d->trans_c || d->fill != VCUDA_MATMUL_FULL || !is_epilogue(d->epilogue) || !is_scale(d->compute, d->scale))
		return VCUDA_BLAS_NOT_SUPPORTED;
	if (placed && !is_placed(m))
		return VCUDA_BLAS_INVALID;
	return check_epilogue(m, placed);
}

static bool is_preference(const struct vcuda_matmul_preference *p)
{
	return p->alignment_a && p->alignment_b && p->alignment_c && p->alignment_d && p->search <= MOST_SEARCH &&
	       p->reduction <= CUBLASLT_REDUCTION_SCHEME_MASK;
}

int vcuda_matmul_question_check(const vcuda_matmul_question *q, uint32_t room)
{
	const vcuda_matmul *m = &q->matmul;

	if (q->kind >= VCUDA_MATMUL_KINDS || room > VCUDA_MATMUL_MOST_WORDS)
		return VCUDA_BLAS_INVALID;
	switch (q->kind) {
	case VCUDA_MATMUL_OPEN:
		return room >= 1 ? VCUDA_BLAS_GOOD : VCUDA_BLAS_INVALID;
	case VCUDA_MATMUL_HEURISTIC:
		if (!is_preference(&q->preference))
			return VCUDA_BLAS_INVALID;
		/* fall through */
	case VCUDA_MATMUL_CHECK:
		if (!q->count || q->count > VCUDA_MATMUL_MOST_RESULTS || room < q->count * VCUDA_MATMUL_RESULT_WORDS)
			return VCUDA_BLAS_INVALID;
		return vcuda_matmul_check(m, false);
	case VCUDA_MATMUL_INIT:
		if (room < VCUDA_MATMUL_RESULT_WORDS)
			return VCUDA_BLAS_INVALID;
		break;
	case VCUDA_MATMUL_IDS:
		if (!q->count || q->count > room)
			return VCUDA_BLAS_INVALID;
		break;
	default:
		if (!room || q->count > (room - 1) * 8)
			return VCUDA_BLAS_INVALID;
	}
	if (m->a.type >= TYPES || m->b.type >= TYPES || m->c.type >= TYPES || m->d.type >= TYPES)
		return VCUDA_BLAS_INVALID;
	return is_scale(m->desc.compute, m->desc.scale) ? VCUDA_BLAS_GOOD : VCUDA_BLAS_NOT_SUPPORTED;
}

int vcuda_transform_check(const vcuda_transform *t)
{
	const struct vcuda_transform_desc *d = &t->desc;
	bool device = d->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;

	if (d->pointer_mode < 0 || d->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE || !is_op(d->trans_a) ||
	    !is_op(d->trans_b) || d->scale < 0 || d->scale >= TYPES || !is_layout(&t->a) || !is_layout(&t->c) ||
	    !t->at_a || !t->at_c || (device && (!t->alpha[0] || (t->at_b && !t->beta[0]))))
		return VCUDA_BLAS_INVALID;
	if (rows_of(&t->a, d->trans_a) != t->c.rows || rows_of(&t->a, !d->trans_a) != t->c.columns ||
	    t->a.batch != t->c.batch)
		return VCUDA_BLAS_INVALID;
	if (!t->at_b)
		return VCUDA_BLAS_GOOD;
	if (!is_layout(&t->b) || rows_of(&t->b, d->trans_b) != t->c.rows ||
	    rows_of(&t->b, !d->trans_b) != t->c.columns || t->b.batch != t->c.batch)
		return VCUDA_BLAS_INVALID;
	return VCUDA_BLAS_GOOD;
}

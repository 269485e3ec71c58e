/* SPDX-License-Identifier: Apache-2.0 */
/* The supported products, and their division into tiles. */
#include "math/matmul.h"

#include "protocol/blas-abi.h"
#include "math/blas-product.h"
#include "device/device.h"

#define LEAST_TILE 64

static bool is_strided(const struct vcuda_matmul_layout *l)
{
	return l->order <= CUBLASLT_ORDER_ROW && l->batch_mode == CUBLASLT_BATCH_MODE_STRIDED && !l->plane &&
	       l->rows <= INT32_MAX && l->columns <= INT32_MAX && l->ld <= INT32_MAX;
}

static bool is_one_of(uint32_t type, const uint8_t *types, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (type == types[i])
			return true;
	return false;
}

static const uint8_t floats[] = {VCUDA_BLAS_R_32F, VCUDA_BLAS_R_16F, VCUDA_BLAS_R_16BF};

/* A, B are floats of 8 bits: the types that C and D may have. */
static bool goes_quarters(const vcuda_matmul *m)
{
	bool of_quarters = vcuda_matmul_is_quarter(m->d.type) && is_one_of(m->c.type, floats + 1, 2);

	return vcuda_matmul_is_quarter(m->a.type) && vcuda_matmul_is_quarter(m->b.type) &&
	       m->desc.scale == VCUDA_BLAS_R_32F &&
	       (of_quarters || (m->c.type == m->d.type && is_one_of(m->d.type, floats, 3)));
}

static bool goes_types(const vcuda_matmul *m)
{
	struct vcuda_blas_operand o[5] = {{.type = (uint8_t)m->desc.scale},
					  {.type = (uint8_t)m->a.type},
					  {.type = (uint8_t)m->b.type},
					  {.type = (uint8_t)m->desc.scale},
					  {.type = (uint8_t)m->d.type}};
	bool of_integers = vcuda_blas_scale((uint64_t)m->desc.compute, VCUDA_BLAS_R_32F) == VCUDA_BLAS_R_32I;

	if (goes_quarters(m))
		return true;
	if (m->c.type != m->d.type)
		return false;
	if (of_integers && m->desc.scale == VCUDA_BLAS_R_32F)
		return m->a.type == VCUDA_BLAS_R_8I && m->b.type == VCUDA_BLAS_R_8I && m->d.type == VCUDA_BLAS_R_8I;
	return vcuda_blas_goes_gemm(o, 5, NULL, 0);
}

/* A transpose of a matrix that is stored by rows needs no work; OpenBLAS has no operation for its conjugate. */
static bool conjugates(const struct vcuda_matmul_layout *l, int op, const struct vcuda_matmul_layout *d)
{
	return op == 2 && vcuda_blas_is_complex(l->type) && l->order != d->order;
}

static bool goes_scales(const vcuda_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->desc;
	bool quarters = vcuda_matmul_is_quarter(m->a.type);

	if (d->mode_a || d->mode_b || d->mode_c || d->mode_d || d->mode_aux || d->mode_out || d->scale_out ||
	    d->scale_aux || d->largest_aux)
		return false;
	return quarters || !(d->scale_a || d->scale_b || d->scale_c || d->scale_d || d->largest_d);
}

static bool goes_epilogue(const vcuda_matmul *m)
{
	const struct vcuda_matmul_desc *d = &m->desc;
	bool plain = m->d.order == CUBLASLT_ORDER_COL;

	if (d->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE && (!plain || d->scale == VCUDA_BLAS_R_32I))
		return false;
	if (d->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
		return true;
	if (softgpu_product_wide((unsigned int)d->scale) != VCUDA_BLAS_R_32F)
		return false;
	if ((vcuda_matmul_has_aux(d->epilogue) || vcuda_matmul_writes_bias(d->epilogue)) && !plain)
		return false;
	if ((vcuda_matmul_reads_bias(d->epilogue) || vcuda_matmul_writes_bias(d->epilogue)) &&
	    !is_one_of(vcuda_matmul_bias_type(m), floats, 3))
		return false;
	return !vcuda_matmul_has_aux(d->epilogue) || d->epilogue & CUBLASLT_EPILOGUE_RELU ||
	       (d->epilogue & CUBLASLT_EPILOGUE_DRELU) == CUBLASLT_EPILOGUE_DRELU ||
	       is_one_of(vcuda_matmul_aux_type(m), floats, 3);
}

CUresult softgpu_matmul_is_possible(const vcuda_matmul *m)
{
	return is_strided(&m->a) && is_strided(&m->b) && is_strided(&m->c) && is_strided(&m->d) && goes_types(m) &&
			       !conjugates(&m->a, m->desc.trans_a, &m->d) &&
			       !conjugates(&m->b, m->desc.trans_b, &m->d) && goes_scales(m) && goes_epilogue(m)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_NOT_SUPPORTED;
}

/* Sums over the columns are a thread's: whole rows are its tiles. */
static bool sums_columns(const vcuda_matmul *m)
{
	return m->desc.epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD || m->desc.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

static int64_t count(int64_t n, int64_t tile)
{
	return (n + tile - 1) / tile;
}

static uint64_t units(struct softgpu_matmul *m)
{
	m->down = (uint64_t)count(m->rows, m->tile_rows);
	m->tiles = m->down * (uint64_t)count(m->columns, m->tile_columns);
	return m->tiles * (uint64_t)m->m.d.batch;
}

static void cut(struct softgpu_matmul *m)
{
	bool whole_rows = sums_columns(&m->m);

	m->tile_rows = SOFTGPU_PRODUCT_BLOCK;
	m->tile_columns = whole_rows ? m->columns : SOFTGPU_PRODUCT_BLOCK;
	while (units(m) < softgpu_device()->threads) {
		int64_t *side = !whole_rows && m->tile_columns >= m->tile_rows ? &m->tile_columns : &m->tile_rows;

		if (*side <= LEAST_TILE)
			break;
		*side /= 2;
	}
	m->op.units = units(m);
}

void softgpu_matmul_plan(struct softgpu_matmul *m)
{
	const vcuda_matmul *p = &m->m;

	m->turned = p->d.order == CUBLASLT_ORDER_ROW;
	m->by_vectors = p->desc.pointer_mode > CUBLASLT_POINTER_MODE_DEVICE;
	m->rows = (int64_t)(m->turned ? p->d.columns : p->d.rows);
	m->columns = (int64_t)(m->turned ? p->d.rows : p->d.columns);
	m->k = (int64_t)(p->desc.trans_a ? p->a.rows : p->a.columns);
	m->wide = softgpu_product_wide(p->a.type);
	m->value = softgpu_product_wide((unsigned int)p->desc.scale);
	m->factor_ab = m->factor_c = m->factor_d = 1;
	cut(m);
}

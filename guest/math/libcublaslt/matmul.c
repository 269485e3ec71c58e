/* SPDX-License-Identifier: Apache-2.0 */
/* Products and copies: one command each. */
#include <string.h>

#include "protocol/blas-abi.h"
#include "protocol/cuda-functions.h"
#include "lt.h"

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

/* Both words are 0 where there is none. */
static bool scalar(uint64_t words[2], const void *from, bool is_address, int type)
{
	words[0] = words[1] = 0;
	if (!from)
		return false;
	if (is_address)
		words[0] = address(from);
	else
		memcpy(words, from, vcuda_blas_bytes((unsigned int)type));
	return true;
}

static uint32_t alignment(const void *p)
{
	uint64_t lowest = address(p) & -address(p);

	return lowest && lowest < 256 ? (uint32_t)lowest : 256;
}

/* Chooses an algorithm for a program that leaves the choice to the library. */
static int choose(const struct lt_handle *h, vcuda_matmul *m, const void *a, const void *b, const void *c,
		  const void *d)
{
	vcuda_matmul_question q = {.matmul.desc = m->desc,
				   .matmul.a = m->a,
				   .matmul.b = m->b,
				   .matmul.c = m->c,
				   .matmul.d = m->d,
				   .preference = {.workspace = m->workspace_bytes,
						  .reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
						  .alignment_a = alignment(a),
						  .alignment_b = alignment(b),
						  .alignment_c = alignment(c),
						  .alignment_d = alignment(d),
						  .implementations = UINT64_MAX},
				   .count = 1};
	struct vcuda_matmul_result result;
	unsigned int count;
	int status = lt_heuristic(h, &q, &result, &count);

	if (!status)
		m->algo = result.algo;
	return status ? status : result.state;
}

static int place(vcuda_matmul *m, const void *alpha, const void *beta)
{
	int mode = m->desc.pointer_mode;
	bool alpha_there = scalar(m->alpha, alpha, vcuda_matmul_alpha_is_address(mode), m->desc.scale);
	bool beta_there = scalar(m->beta, beta, vcuda_matmul_beta_is_address(mode), m->desc.scale);

	if (mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO) {
		m->beta[0] = m->beta[1] = 0;
		beta_there = true;
	}
	return alpha_there && beta_there ? BLAS_SUCCESS : BLAS_INVALID_VALUE;
}

BLAS_API int cublasLtMatmul(const struct lt_handle *h, const lt_desc *desc, const void *alpha, const void *a,
			    const lt_layout *layout_a, const void *b, const lt_layout *layout_b, const void *beta,
			    const void *c, const lt_layout *layout_c, void *d, const lt_layout *layout_d,
			    const struct lt_algo *algo, void *workspace, size_t bytes, CUstream stream)
{
	vcuda_matmul m;
	int status = !h ? BLAS_NOT_INITIALIZED : lt_describe(&m, desc, layout_a, layout_b, layout_c, layout_d);

	/* Scalars are read when it is known that they are of a type that goes with the rest. */
	if (!status)
		status = vcuda_matmul_check(&m, false);
	if (!status)
		status = place(&m, alpha, beta);
	if (!status && algo && algo->magic != LT_MAGIC)
		status = BLAS_INVALID_VALUE;
	if (!status) {
		m.at_a = address(a);
		m.at_b = address(b);
		m.at_c = address(c);
		m.at_d = address(d);
		m.workspace = address(workspace);
		m.workspace_bytes = workspace ? bytes : 0;
		status = vcuda_matmul_check(&m, true);
	}
	if (!status)
		status = blas_enter(h->context);
	if (!status && algo)
		m.algo = algo->algo;
	else if (!status)
		status = choose(h, &m, a, b, c, d);
	if (!status)
		status = blas_status(cuVcudaMatmul(stream, &m));
	lt_log_call("cublasLtMatmul", status);
	return status;
}

BLAS_API int cublasLtMatrixTransform(const struct lt_handle *h, const lt_transform *desc, const void *alpha,
				     const void *a, const lt_layout *layout_a, const void *beta, const void *b,
				     const lt_layout *layout_b, void *c, const lt_layout *layout_c, CUstream stream)
{
	vcuda_transform t = {0};
	bool device;
	int status = !h                                                              ? BLAS_NOT_INITIALIZED
		     : !desc || !layout_a || !layout_c || (b && !layout_b) || !alpha ? BLAS_INVALID_VALUE
										     : BLAS_SUCCESS;

	if (!status) {
		t.desc = *desc;
		t.a = *layout_a;
		t.c = *layout_c;
		if (b)
			t.b = *layout_b;
		device = desc->pointer_mode != CUBLASLT_POINTER_MODE_HOST;
		t.at_a = address(a);
		t.at_b = address(b);
		t.at_c = address(c);
		scalar(t.alpha, alpha, device, desc->scale);
		status = !scalar(t.beta, beta, device, desc->scale) && b ? BLAS_INVALID_VALUE
									 : vcuda_transform_check(&t);
	}
	if (!status)
		status = blas_enter(h->context);
	if (!status)
		status = blas_status(cuVcudaTransform(stream, &t));
	lt_log_call("cublasLtMatrixTransform", status);
	return status;
}

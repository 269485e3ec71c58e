/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: cuBLASLt. A back end gets checked numbers; it checks the operands' memory itself. */
#include <string.h>

#include "protocol/blas-abi.h"
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaMatmulAsk(struct worker_session *s, struct vcuda_args_vcudaMatmulAsk *a)
{
	if (!s->ops->matmulAsk)
		return worker_unsupported(s, VCUDA_OP_vcudaMatmulAsk);
	if (vcuda_matmul_question_check(&a->question, a->room) != VCUDA_BLAS_GOOD)
		return CUDA_ERROR_INVALID_VALUE;
	memset(a->words, 0, a->room * sizeof(*a->words));
	return s->ops->matmulAsk(&a->question, a->words, &a->count);
}

CUresult vcuda_handle_vcudaMatmul(struct worker_session *s, struct vcuda_args_vcudaMatmul *a)
{
	if (!s->ops->matmul)
		return worker_unsupported(s, VCUDA_OP_vcudaMatmul);
	if (vcuda_matmul_check(&a->matmul, true) != VCUDA_BLAS_GOOD)
		return CUDA_ERROR_INVALID_VALUE;
	return s->ops->matmul(a->stream, &a->matmul);
}

CUresult vcuda_handle_vcudaTransform(struct worker_session *s, struct vcuda_args_vcudaTransform *a)
{
	if (!s->ops->transform)
		return worker_unsupported(s, VCUDA_OP_vcudaTransform);
	if (vcuda_transform_check(&a->transform) != VCUDA_BLAS_GOOD)
		return CUDA_ERROR_INVALID_VALUE;
	return s->ops->transform(a->stream, &a->transform);
}

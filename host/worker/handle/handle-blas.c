/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: BLAS. A back end gets checked numbers; it checks the operands' memory itself. */
#include "protocol/blas-abi.h"
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

static bool is_sound(uint32_t function, uint32_t flags, uint32_t count, const uint64_t *words)
{
	const struct vcuda_blas_routine *r;

	if (function == VCUDA_BLAS_OPEN)
		return count == 0;
	if (function >= VCUDA_BLAS_LIMIT || !vcuda_blas_routines[function].name)
		return false;
	r = &vcuda_blas_routines[function];
	/* The back end takes each address for its own: addresses that are not in device memory are refused. */
	if (r->family->by_address && !(flags & VCUDA_BLAS_DEVICE))
		return false;
	return count == r->family->words && vcuda_blas_check(r, words) == VCUDA_BLAS_GOOD;
}

CUresult vcuda_handle_vcudaBlas(struct worker_session *s, struct vcuda_args_vcudaBlas *a)
{
	const struct vcuda_blas_routine *r;

	if (!s->ops->blas)
		return worker_unsupported(s, VCUDA_OP_vcudaBlas);
	if (a->function == VCUDA_BLAS_OPEN || !is_sound(a->function, a->flags, a->count, a->words))
		return CUDA_ERROR_INVALID_VALUE;
	r = &vcuda_blas_routines[a->function];
	if (r->family->result >= 0 && !(a->flags & VCUDA_BLAS_DEVICE))
		return CUDA_ERROR_INVALID_VALUE;
	return s->ops->blas(a->stream, a->function, a->flags, (void *)(uintptr_t)a->words, NULL);
}

CUresult vcuda_handle_vcudaBlasValue(struct worker_session *s, struct vcuda_args_vcudaBlasValue *a)
{
	if (!s->ops->blas)
		return worker_unsupported(s, VCUDA_OP_vcudaBlasValue);
	if (a->flags & VCUDA_BLAS_DEVICE || !is_sound(a->function, a->flags, a->count, a->words))
		return CUDA_ERROR_INVALID_VALUE;
	a->value[0] = a->value[1] = 0;
	return s->ops->blas(a->stream, a->function, a->flags, (void *)(uintptr_t)a->words, a->value);
}

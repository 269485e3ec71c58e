/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: generators of random numbers. The memory that the numbers go to is the back end's matter. */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/session.h"

CUresult vcuda_handle_vcudaRandomCreate(struct worker_session *s, struct vcuda_args_vcudaRandomCreate *a)
{
	if (!s->ops->randomCreate)
		return worker_unsupported(s, VCUDA_OP_vcudaRandomCreate);
	if (!vcuda_random_is_type(a->type))
		return CUDA_ERROR_INVALID_VALUE;
	return s->ops->randomCreate(&a->generator, a->type);
}

CUresult vcuda_handle_vcudaRandomDestroy(struct worker_session *s, struct vcuda_args_vcudaRandomDestroy *a)
{
	if (!s->ops->randomDestroy)
		return worker_unsupported(s, VCUDA_OP_vcudaRandomDestroy);
	return s->ops->randomDestroy(a->generator);
}

CUresult vcuda_handle_vcudaRandom(struct worker_session *s, struct vcuda_args_vcudaRandom *a)
{
	if (!s->ops->random)
		return worker_unsupported(s, VCUDA_OP_vcudaRandom);
	if (vcuda_random_check(&a->random) != VCUDA_RANDOM_SOUND)
		return CUDA_ERROR_INVALID_VALUE;
	return s->ops->random(a->stream, a->generator, &a->random);
}

/* No line in the log: who asks has numbers of his own. */
CUresult vcuda_handle_vcudaRandomScrambles(struct worker_session *s, struct vcuda_args_vcudaRandomScrambles *a)
{
	uint32_t dimensions = (uint32_t)(a->room / (a->bits + 1ull));

	if ((a->bits != 32 && a->bits != 64) || !dimensions || a->room % (a->bits + 1) ||
	    dimensions > VCUDA_RANDOM_DIMENSIONS || a->first > VCUDA_RANDOM_DIMENSIONS - dimensions)
		return CUDA_ERROR_INVALID_VALUE;
	if (!s->ops->randomScrambles)
		return CUDA_ERROR_NOT_SUPPORTED;
	return s->ops->randomScrambles(a->bits, a->first, dimensions, a->words);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Generators, and what is set in them. */
#include "generator.h"

#include <stdlib.h>

int rand_status_of(CUresult result, int otherwise)
{
	switch (result) {
	case CUDA_SUCCESS:
		return RAND_SUCCESS;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return RAND_ALLOCATION_FAILED;
	case CUDA_ERROR_NOT_SUPPORTED:
		return RAND_ARCH_MISMATCH;
	case CUDA_ERROR_INVALID_VALUE:
		return RAND_OUT_OF_RANGE;
	case CUDA_ERROR_NOT_INITIALIZED:
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_CONTEXT:
		return RAND_INITIALIZATION_FAILED;
	default:
		return otherwise;
	}
}

CUresult rand_current_context(CUcontext *context)
{
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuCtxGetCurrent(context);
	/* As the runtime does for a thread that has chosen no device. */
	if (result == CUDA_SUCCESS && !*context) {
		result = cuDevicePrimaryCtxRetain(context, 0);
		if (result == CUDA_SUCCESS)
			result = cuCtxSetCurrent(*context);
	}
	return result;
}

static struct rand_generator *new_generator(int type)
{
	struct rand_generator *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->now.type = (uint32_t)type;
	g->now.ordering = vcuda_random_is_quasi(g->now.type) ? VCUDA_ORDERING_QUASI : VCUDA_ORDERING_DEFAULT;
	g->now.dimensions = 1;
	g->now.fresh = 1;
	return g;
}

/* The types that stand for others. */
static int real_type(int type)
{
	return type == 100 ? VCUDA_RANDOM_XORWOW : type == 200 ? VCUDA_RANDOM_SOBOL32 : type;
}

RAND_API int curandCreateGeneratorHost(struct rand_generator **generator, int type)
{
	const uint64_t *scrambles = NULL;
	struct rand_generator *g;
	int status;

	if (!generator)
		return RAND_NOT_INITIALIZED;
	type = real_type(type);
	if (!vcuda_random_is_type((uint32_t)type))
		return RAND_TYPE_ERROR;
	status = vcuda_random_is_scrambled((uint32_t)type) ? rand_scrambles((uint32_t)type, &scrambles) : RAND_SUCCESS;
	if (status)
		return status;
	g = new_generator(type);
	if (!g)
		return RAND_ALLOCATION_FAILED;
	g->rng = rng_new(g->now.type);
	if (!g->rng) {
		free(g);
		return RAND_ALLOCATION_FAILED;
	}
	rng_set_scrambles(g->rng, scrambles);
	*generator = g;
	return RAND_SUCCESS;
}

RAND_API int curandCreateGenerator(struct rand_generator **generator, int type)
{
	struct rand_generator *g;
	CUresult result;

	if (!generator)
		return RAND_NOT_INITIALIZED;
	type = real_type(type);
	if (!vcuda_random_is_type((uint32_t)type))
		return RAND_TYPE_ERROR;
	g = new_generator(type);
	if (!g)
		return RAND_ALLOCATION_FAILED;
	result = rand_current_context(&g->context);
	if (result == CUDA_SUCCESS)
		result = cuVcudaRandomCreate(&g->device, g->now.type);
	if (result != CUDA_SUCCESS) {
		free(g);
		return rand_status_of(result, RAND_INITIALIZATION_FAILED);
	}
	*generator = g;
	return RAND_SUCCESS;
}

/* Queued generations are still executed. */
RAND_API int curandDestroyGenerator(struct rand_generator *g)
{
	CUcontext current;

	if (!g)
		return RAND_NOT_INITIALIZED;
	if (!g->rng && cuCtxGetCurrent(&current) == CUDA_SUCCESS) {
		cuCtxSetCurrent(g->context);
		cuVcudaRandomDestroy(g->device);
		cuCtxSetCurrent(current);
	}
	rng_free(g->rng);
	free(g);
	return RAND_SUCCESS;
}

RAND_API int curandGetVersion(int *version)
{
	if (!version)
		return RAND_OUT_OF_RANGE;
	*version = curand_version;
	return RAND_SUCCESS;
}

RAND_API int curandGetProperty(int type, int *value)
{
	if (!value || type < 0 || type > 2)
		return RAND_OUT_OF_RANGE;
	*value = type == 0 ? curand_version / 1000 : type == 1 ? curand_version / 100 % 10 : curand_version % 100;
	return RAND_SUCCESS;
}

RAND_API int curandSetStream(struct rand_generator *g, CUstream stream)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	g->stream = stream;
	return RAND_SUCCESS;
}

RAND_API int curandSetPseudoRandomGeneratorSeed(struct rand_generator *g, unsigned long long seed)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	if (vcuda_random_is_quasi(g->now.type))
		return RAND_TYPE_ERROR;
	/* Only another seed makes another sequence, and that goes on where this one is. */
	g->now.fresh |= g->now.seed != seed;
	g->now.seed = seed;
	return RAND_SUCCESS;
}

RAND_API int curandSetGeneratorOffset(struct rand_generator *g, unsigned long long offset)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	if (g->now.type == VCUDA_RANDOM_MTGP32 || g->now.type == VCUDA_RANDOM_MT19937)
		return RAND_TYPE_ERROR;
	g->now.offset = offset;
	g->moved = g->within = 0;
	g->now.fresh = 1;
	return RAND_SUCCESS;
}

RAND_API int curandSetGeneratorOrdering(struct rand_generator *g, int order)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	/* A host generator is the same everywhere: it knows no order of a device. */
	if (!vcuda_random_orders(g->now.type, (uint32_t)order) || (g->rng && order == VCUDA_ORDERING_DYNAMIC) ||
	    (g->rng && order == VCUDA_ORDERING_BEST && g->now.type == VCUDA_RANDOM_MT19937))
		return RAND_OUT_OF_RANGE;
	g->now.fresh |= g->now.ordering != (uint32_t)order;
	g->now.ordering = (uint32_t)order;
	return RAND_SUCCESS;
}

RAND_API int curandSetQuasiRandomGeneratorDimensions(struct rand_generator *g, unsigned int dimensions)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	if (!vcuda_random_is_quasi(g->now.type))
		return RAND_TYPE_ERROR;
	if (!dimensions || dimensions > VCUDA_RANDOM_DIMENSIONS)
		return RAND_OUT_OF_RANGE;
	g->now.fresh |= g->now.dimensions != dimensions;
	g->now.dimensions = dimensions;
	return RAND_SUCCESS;
}

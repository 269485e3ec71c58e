/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distributions that programs give to their own kernels, which read them with the device functions of NVIDIA's header:
 * the layout is that header's. A distribution is one piece of device memory, so that its address frees it.
 */
#include "generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random/poisson.h"

/* Methods of kernels. All but the first take a normal number. */
enum { METHOD_HISTOGRAM = 5, METHOD_NORMAL = 7 };

/* The pointers of the host are there for NVIDIA's own functions. */
struct histogram {
	CUdeviceptr value, host_value, other, host_other;
	uint32_t from_host;
};

struct shifted {
	CUdeviceptr histogram, host_histogram;
	uint32_t shift, length, from_host;
};

struct distribution {
	CUdeviceptr host_self, shifted, host_shifted;
	double deviation, mean;
	uint32_t method, from_host;
};

/* The structures in front of the columns. After them come the columns' values, and then their other numbers. */
struct head {
	struct distribution distribution;
	struct shifted shifted;
	struct histogram histogram;
};

/*
 * A column more than there are: kernels take the one after the last for the number 1, and this one sends them back to
 * the last.
 */
static void fill(struct head *head, CUdeviceptr at, const struct rng_poisson_table *t)
{
	double *value = (double *)(head + 1);
	uint32_t *other = (uint32_t *)(value + t->length + 1);

	memcpy(value, t->value, t->length * sizeof(*value));
	memcpy(other, t->other, t->length * sizeof(*other));
	value[t->length] = 0;
	other[t->length] = t->other[t->length - 1];
	head->histogram.value = at + sizeof(*head);
	head->histogram.other = at + sizeof(*head) + (t->length + 1) * sizeof(*value);
	head->shifted.histogram = at + offsetof(struct head, histogram);
	head->shifted.shift = t->shift;
	head->shifted.length = t->length;
	head->distribution.shifted = at + offsetof(struct head, shifted);
	head->distribution.method = METHOD_HISTOGRAM;
}

static int upload(double lambda, const struct rng_poisson_table *t, CUdeviceptr *at)
{
	size_t columns = t ? t->length + 1ull : 0;
	size_t bytes = sizeof(struct head) + columns * (sizeof(*t->value) + sizeof(*t->other));
	struct head *head = calloc(1, bytes);
	CUresult result = head ? cuMemAlloc_v2(at, bytes) : CUDA_ERROR_OUT_OF_MEMORY;

	if (result != CUDA_SUCCESS) {
		free(head);
		return rand_status_of(result, RAND_PREEXISTING_FAILURE);
	}
	head->distribution.mean = lambda;
	head->distribution.deviation = sqrt(lambda);
	head->distribution.method = METHOD_NORMAL;
	if (t)
		fill(head, *at, t);
	result = cuMemcpyHtoD_v2(*at, head, bytes);
	free(head);
	if (result != CUDA_SUCCESS)
		cuMemFree_v2(*at);
	return rand_status_of(result, RAND_PREEXISTING_FAILURE);
}

RAND_API int curandCreatePoissonDistribution(double lambda, CUdeviceptr *distribution)
{
	struct rng_poisson_table *t = NULL;
	CUcontext context;
	CUresult result;
	int status;

	if (!distribution)
		return RAND_NOT_INITIALIZED;
	/* NaN, too, is out of range. */
	if (!(lambda > 0 && lambda <= VCUDA_RANDOM_MOST_LAMBDA))
		return RAND_OUT_OF_RANGE;
	result = rand_current_context(&context);
	if (result != CUDA_SUCCESS)
		return rand_status_of(result, RAND_INITIALIZATION_FAILED);
	if (lambda < RNG_POISSON_NORMAL) {
		t = rng_poisson_table_new(lambda, false);
		if (!t)
			return RAND_ALLOCATION_FAILED;
	}
	status = upload(lambda, t, distribution);
	rng_poisson_table_free(t);
	return status;
}

RAND_API int curandDestroyDistribution(CUdeviceptr distribution)
{
	return distribution && cuMemFree_v2(distribution) == CUDA_SUCCESS ? RAND_SUCCESS : RAND_NOT_INITIALIZED;
}

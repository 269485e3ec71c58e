/* SPDX-License-Identifier: Apache-2.0 */
/* Generations. */
#include "generator.h"

static int on_host(struct rand_generator *g, const vcuda_random *r)
{
	struct rng_job job = {0};

	if (!rng_begin(g->rng, r, (void *)(uintptr_t)r->address, &job))
		return RAND_ALLOCATION_FAILED;
	for (uint64_t unit = 0; unit < job.units; unit++)
		rng_run(&job, unit);
	rng_end(&job);
	return job.failed ? RAND_ALLOCATION_FAILED : RAND_SUCCESS;
}

static int on_device(struct rand_generator *g, const vcuda_random *r)
{
	CUcontext current;
	CUresult result = cuCtxGetCurrent(&current);

	if (result == CUDA_SUCCESS && !current)
		result = cuCtxSetCurrent(g->context);
	if (result == CUDA_SUCCESS)
		result = cuVcudaRandom(g->stream, g->device, r);
	return rand_status_of(result, RAND_LAUNCH_FAILURE);
}

/*
 * Where a sequence that is begun anew goes on. cuRAND loses the way with Philox: it counts turns of four numbers, and
 * takes them for numbers. Programs that want the same numbers again want these.
 */
static uint64_t place_of(const struct rand_generator *g)
{
	uint64_t place = g->now.offset + g->moved;

	return g->now.type == VCUDA_RANDOM_PHILOX && !place ? g->within : place;
}

static void advance(struct rand_generator *g, const vcuda_random *r)
{
	uint64_t places = r->count / r->dimensions / vcuda_random_pair(r->type, r->kind);

	if (r->type == VCUDA_RANDOM_PHILOX) {
		places += r->fresh ? r->offset % 4 : g->within;
		g->within = places % 4;
		places /= 4;
	}
	if (r->type != VCUDA_RANDOM_MTGP32 && r->type != VCUDA_RANDOM_MT19937)
		g->moved += places;
	g->now.fresh = 0;
}

static int generate(struct rand_generator *g, uint32_t kind, void *out, size_t count, double a, double b)
{
	static const int faults[] = {[VCUDA_RANDOM_SOUND] = RAND_SUCCESS,
				     [VCUDA_RANDOM_TYPE] = RAND_TYPE_ERROR,
				     [VCUDA_RANDOM_RANGE] = RAND_OUT_OF_RANGE,
				     [VCUDA_RANDOM_LENGTH] = RAND_LENGTH_NOT_MULTIPLE};
	vcuda_random r;
	int status;

	if (!g)
		return RAND_NOT_INITIALIZED;
	r = g->now;
	r.offset = place_of(g);
	r.kind = kind;
	r.address = (uint64_t)(uintptr_t)out;
	r.count = count;
	r.a = a;
	r.b = b;
	if (!count)
		return RAND_SUCCESS;
	status = faults[vcuda_random_check(&r)];
	if (!status && !out)
		status = RAND_OUT_OF_RANGE;
	if (!status)
		status = g->rng ? on_host(g, &r) : on_device(g, &r);
	if (!status)
		advance(g, &r);
	return status;
}

RAND_API int curandGenerate(struct rand_generator *g, unsigned int *out, size_t n)
{
	return generate(g, VCUDA_RANDOM_BITS, out, n, 0, 0);
}

RAND_API int curandGenerateLongLong(struct rand_generator *g, unsigned long long *out, size_t n)
{
	return generate(g, VCUDA_RANDOM_LONG_BITS, out, n, 0, 0);
}

RAND_API int curandGenerateUniform(struct rand_generator *g, float *out, size_t n)
{
	return generate(g, VCUDA_RANDOM_UNIFORM, out, n, 0, 0);
}

RAND_API int curandGenerateUniformDouble(struct rand_generator *g, double *out, size_t n)
{
	return generate(g, VCUDA_RANDOM_UNIFORM_DOUBLE, out, n, 0, 0);
}

RAND_API int curandGenerateNormal(struct rand_generator *g, float *out, size_t n, float mean, float deviation)
{
	return generate(g, VCUDA_RANDOM_NORMAL, out, n, (double)mean, (double)deviation);
}

RAND_API int curandGenerateNormalDouble(struct rand_generator *g, double *out, size_t n, double mean, double deviation)
{
	return generate(g, VCUDA_RANDOM_NORMAL_DOUBLE, out, n, mean, deviation);
}

RAND_API int curandGenerateLogNormal(struct rand_generator *g, float *out, size_t n, float mean, float deviation)
{
	return generate(g, VCUDA_RANDOM_LOG_NORMAL, out, n, (double)mean, (double)deviation);
}

RAND_API int curandGenerateLogNormalDouble(struct rand_generator *g, double *out, size_t n, double mean,
					   double deviation)
{
	return generate(g, VCUDA_RANDOM_LOG_NORMAL_DOUBLE, out, n, mean, deviation);
}

RAND_API int curandGeneratePoisson(struct rand_generator *g, unsigned int *out, size_t n, double lambda)
{
	return generate(g, VCUDA_RANDOM_POISSON, out, n, lambda, 0);
}

/* A state is made with the first numbers that need it. */
RAND_API int curandGenerateSeeds(struct rand_generator *g)
{
	if (!g)
		return RAND_NOT_INITIALIZED;
	g->now.fresh = 1;
	return RAND_SUCCESS;
}

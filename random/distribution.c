/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform and normal numbers from random bits. */
#include <math.h>

#include "type.h"

#define TURN 6.28318530717958647692

float rng_uniform(uint32_t x)
{
	return (float)x * 0x1p-32f + 0x1p-33f;
}

double rng_uniform_double(uint32_t x, uint32_t y)
{
	return (double)(x ^ (uint64_t)y << 21) * 0x1p-53 + 0x1p-54;
}

float rng_angle(uint32_t x)
{
	return (float)x * (float)(0x1p-32 * TURN) + (float)(0x1p-33 * TURN);
}

double rng_half_turns(uint32_t x, uint32_t y)
{
	return (double)(x ^ (uint64_t)y << 21) * 0x1p-52 + 0x1p-53;
}

static float scale(const struct rng_job *job, float x)
{
	x = x * (float)job->b + (float)job->a;
	return job->kind == VCUDA_RANDOM_LOG_NORMAL ? expf(x) : x;
}

static double scale_double(const struct rng_job *job, double x)
{
	x = x * job->b + job->a;
	return job->kind == VCUDA_RANDOM_LOG_NORMAL_DOUBLE ? exp(x) : x;
}

void rng_normal_pair(const struct rng_job *job, float u, float angle, float *out)
{
	float r = sqrtf(-2 * logf(u));

	out[0] = scale(job, r * sinf(angle));
	out[1] = scale(job, r * cosf(angle));
}

void rng_normal_pair_double(const struct rng_job *job, double u, double half_turns, double *out)
{
	double r = sqrt(-2 * log(u));

	out[0] = scale_double(job, r * sin(half_turns * (TURN / 2)));
	out[1] = scale_double(job, r * cos(half_turns * (TURN / 2)));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform and normal numbers from random bits. */
#include <math.h>

#include "type.h"

#define TURN 6.28318530717958647692

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

void rng_plain_pair(float u, float angle, float out[2])
{
	float r = sqrtf(-2 * logf(u));

	out[0] = r * sinf(angle);
	out[1] = r * cosf(angle);
}

void rng_normal_pair(const struct rng_job *job, float u, float angle, float *out)
{
	rng_plain_pair(u, angle, out);
	out[0] = scale(job, out[0]);
	out[1] = scale(job, out[1]);
}

void rng_normal_pair_double(const struct rng_job *job, double u, double half_turns, double *out)
{
	double r = sqrt(-2 * log(u));

	out[0] = scale_double(job, r * sin(half_turns * (TURN / 2)));
	out[1] = scale_double(job, r * cos(half_turns * (TURN / 2)));
}

/* Numerator and denominator, the highest power first. */
static double ratio(const double p[8], const double q[8], double x)
{
	double above = p[0], below = q[0];

	for (unsigned int i = 1; i < 8; i++) {
		above = above * x + p[i];
		below = below * x + q[i];
	}
	return above / below;
}

/* The normal number below which are `p` of all, 0 < p <= 1/2: algorithm AS 241 of M. J. Wichura, to about 1e-16. */
static double lower_quantile(double p)
{
	static const double a[] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
				   45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
				   133.14166789178437745, 3.387132872796366608};
	static const double b[] = {
		5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
		5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
	static const double c[] = {7.7454501427834140764e-4, .0227238449892691845833, .24178072517745061177,
				   1.27045825245236838258,   3.64784832476320460504,  5.7694972214606914055,
				   4.6303378461565452959,    1.42343711074968357734};
	static const double d[] = {
		1.05075007164441684324e-9, 5.475938084995344946e-4, .0151986665636164571966, .14810397642748007459,
		.68976733498510000455,     1.6763848301838038494,   2.05319162663775882187,  1.0};
	static const double e[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, .0012426609473880784386,
				   .026532189526576123093,    .29656057182850489123,     1.7848265399172913358,
				   5.4637849111641143699,     6.6579046435011037772};
	static const double f[] = {
		2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
		.0148753612908506148525,    .13692988092273580531,    .59983220655588793769,    1.0};
	double q = p - 0.5, r;

	if (q >= -0.425)
		return q * ratio(a, b, 0.180625 - q * q);
	r = sqrt(-log(p));
	return r <= 5 ? -ratio(c, d, r - 1.6) : -ratio(e, f, r - 5);
}

/* The upper half is mirrored, since numbers near 1 have less precision than numbers near 0. */
float rng_quantile(uint32_t x)
{
	bool upper = x > 0x80000000u;
	double z = lower_quantile((double)rng_uniform(upper ? ~x : x));

	return (float)(upper ? -z : z);
}

double rng_normal_double(const struct rng_job *job, uint32_t x)
{
	bool upper = x > 0x80000000u;
	double z = lower_quantile((upper ? ~x : x) * 0x1p-32 + 0x1p-33);

	return scale_double(job, upper ? -z : z);
}

double rng_normal_widened(const struct rng_job *job, uint32_t x)
{
	return scale_double(job, (double)rng_quantile(x));
}

double rng_normal_long(const struct rng_job *job, uint64_t x)
{
	uint64_t top = x >> 11;
	bool upper = top > 1ull << 52;
	double z = lower_quantile((double)(upper ? ((1ull << 53) - 1) - top : top) * 0x1p-53 + 0x1p-54);

	return scale_double(job, upper ? -z : z);
}

void rng_store_word(const struct rng_job *job, uint32_t x, uint64_t i)
{
	switch (job->kind) {
	case VCUDA_RANDOM_UNIFORM:
		((float *)job->out)[i] = rng_uniform(x);
		break;
	case VCUDA_RANDOM_NORMAL:
	case VCUDA_RANDOM_LOG_NORMAL:
		((float *)job->out)[i] = scale(job, rng_quantile(x));
		break;
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		((double *)job->out)[i] = rng_normal_double(job, x);
		break;
	default:
		((uint32_t *)job->out)[i] = x;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <stdlib.h>
#include <string.h>

#include "type.h"

static const struct rng_type *find(uint32_t type)
{
	switch (type) {
	case VCUDA_RANDOM_XORWOW:
		return &rng_xorwow;
	case VCUDA_RANDOM_MRG32K3A:
		return &rng_mrg32k3a;
	case VCUDA_RANDOM_MT19937:
		return &rng_mt19937;
	case VCUDA_RANDOM_MTGP32:
		return &rng_mtgp32;
	case VCUDA_RANDOM_PHILOX:
		return &rng_philox;
	default:
		return &rng_sobol;
	}
}

size_t rng_bytes(uint32_t type)
{
	const struct rng_type *ops = find(type);

	return sizeof(struct rng) + ops->chunks + ops->state_bytes;
}

struct rng *rng_new(uint32_t type)
{
	const struct rng_type *ops = find(type);
	struct rng *rng = calloc(1, sizeof(*rng) + ops->chunks);

	if (!rng)
		return NULL;
	rng->ops = ops;
	if (ops->state_bytes) {
		rng->state = calloc(1, ops->state_bytes);
		if (!rng->state) {
			free(rng);
			return NULL;
		}
	}
	/* Defaults, for a guest whose first generation wrongly continues a sequence. */
	rng->settings.type = type;
	rng->settings.ordering = vcuda_random_is_quasi(type) ? VCUDA_ORDERING_QUASI : VCUDA_ORDERING_DEFAULT;
	rng->settings.dimensions = 1;
	return rng;
}

void rng_free(struct rng *rng)
{
	if (rng)
		free(rng->state);
	free(rng);
}

void rng_set_scrambles(struct rng *rng, const uint64_t *words)
{
	rng->scrambles = words;
}

bool rng_begin(struct rng *rng, const vcuda_random *r, void *out, struct rng_job *job)
{
	if (r->fresh) {
		rng->settings = *r;
		rng->cursor = rng->ops->start(rng);
		memset(rng->ready, 0, rng->ops->chunks);
	}
	job->rng = rng;
	job->settings = rng->settings;
	job->kind = r->kind;
	job->a = r->a;
	job->b = r->b;
	job->count = r->count;
	job->out = out;
	job->cursor = rng->cursor;
	if (!rng_poisson_begin(job))
		return false;
	if (rng->ops->begin(job))
		return true;
	rng_poisson_end(job);
	return false;
}

void rng_run(struct rng_job *job, uint64_t unit)
{
	job->rng->ops->run(job, unit);
}

void rng_end(struct rng_job *job)
{
	job->rng->ops->end(job);
	rng_poisson_end(job);
}

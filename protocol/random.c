/* SPDX-License-Identifier: Apache-2.0 */
#include "random-abi.h"

/* Counts beyond this are refused: sums and products with sizes of elements fit. */
#define MOST (1ull << 40)

bool vcuda_random_is_quasi(uint32_t type)
{
	return type >= VCUDA_RANDOM_SOBOL32 && type <= VCUDA_RANDOM_SCRAMBLED_SOBOL64;
}

bool vcuda_random_is_long(uint32_t type)
{
	return type == VCUDA_RANDOM_SOBOL64 || type == VCUDA_RANDOM_SCRAMBLED_SOBOL64;
}

bool vcuda_random_is_scrambled(uint32_t type)
{
	return type == VCUDA_RANDOM_SCRAMBLED_SOBOL32 || type == VCUDA_RANDOM_SCRAMBLED_SOBOL64;
}

bool vcuda_random_is_type(uint32_t type)
{
	return vcuda_random_is_quasi(type) || type == VCUDA_RANDOM_XORWOW || type == VCUDA_RANDOM_MRG32K3A ||
	       type == VCUDA_RANDOM_MTGP32 || type == VCUDA_RANDOM_MT19937 || type == VCUDA_RANDOM_PHILOX;
}

bool vcuda_random_orders(uint32_t type, uint32_t ordering)
{
	if (vcuda_random_is_quasi(type))
		return ordering == VCUDA_ORDERING_QUASI;
	return (ordering >= VCUDA_ORDERING_BEST && ordering <= VCUDA_ORDERING_DYNAMIC) &&
	       (ordering != VCUDA_ORDERING_SEEDED || type == VCUDA_RANDOM_XORWOW);
}

unsigned int vcuda_random_bytes(uint32_t kind)
{
	switch (kind) {
	case VCUDA_RANDOM_LONG_BITS:
	case VCUDA_RANDOM_UNIFORM_DOUBLE:
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		return 8;
	default:
		return 4;
	}
}

unsigned int vcuda_random_pair(uint32_t type, uint32_t kind)
{
	bool normal = kind >= VCUDA_RANDOM_NORMAL && kind <= VCUDA_RANDOM_LOG_NORMAL_DOUBLE;

	return normal && (type == VCUDA_RANDOM_XORWOW || type == VCUDA_RANDOM_MRG32K3A) ? 2 : 1;
}

enum vcuda_random_fault vcuda_random_check(const vcuda_random *r)
{
	if (!vcuda_random_is_type(r->type) || r->kind >= VCUDA_RANDOM_KINDS ||
	    (r->kind == VCUDA_RANDOM_BITS && vcuda_random_is_long(r->type)) ||
	    (r->kind == VCUDA_RANDOM_LONG_BITS && !vcuda_random_is_long(r->type)))
		return VCUDA_RANDOM_TYPE;
	if (!vcuda_random_orders(r->type, r->ordering) || !r->dimensions || r->dimensions > VCUDA_RANDOM_DIMENSIONS ||
	    (r->dimensions != 1 && !vcuda_random_is_quasi(r->type)) || r->fresh > 1 || r->count > MOST)
		return VCUDA_RANDOM_RANGE;
	/* NaN, too, is out of range. */
	if (r->kind == VCUDA_RANDOM_POISSON && !(r->a > 0 && r->a <= VCUDA_RANDOM_MOST_LAMBDA))
		return VCUDA_RANDOM_RANGE;
	if (r->count % r->dimensions || r->count % vcuda_random_pair(r->type, r->kind))
		return VCUDA_RANDOM_LENGTH;
	return VCUDA_RANDOM_SOUND;
}

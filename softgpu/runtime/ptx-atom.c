/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics, lane by lane; and the operations among the lanes of a warp that have no single LLVM operation. */
#include <string.h>

#include "runtime/ptx-run.h"

/* Sums of two halves are exact in float, or nearly so: rounding them once more does no harm. */
static uint16_t half_add(uint16_t a, uint16_t b)
{
	_Float16 x, y;

	memcpy(&x, &a, 2);
	memcpy(&y, &b, 2);
	x = (_Float16)((float)x + (float)y);
	memcpy(&a, &x, 2);
	return a;
}

static uint16_t bfloat_add(uint16_t a, uint16_t b)
{
	uint32_t wide = (uint32_t)a << 16, other = (uint32_t)b << 16;
	float x, y;

	memcpy(&x, &wide, 4);
	memcpy(&y, &other, 4);
	x += y;
	memcpy(&wide, &x, 4);
	if (x != x)
		return 0x7fff;
	return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

static float half_value(unsigned type, uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	_Float16 half;
	float value;

	memcpy(&half, &bits, 2);
	memcpy(&value, &wide, 4);
	return type == PTX_F16 || type == PTX_F16X2 ? (float)half : value;
}

/* If one operand is a NaN, the other one; -0 is less than +0. */
static uint16_t half_extreme(unsigned type, bool max, uint16_t a, uint16_t b)
{
	float x = half_value(type, a), y = half_value(type, b);

	if (x != x)
		return y != y ? 0x7fff : b;
	if (y != y)
		return a;
	if (x == y)
		return (a >> 15 != 0) != max ? a : b;
	return (x < y) != max ? a : b;
}

static uint64_t halves_extreme(unsigned type, bool max, uint64_t a, uint64_t b)
{
	uint64_t r = half_extreme(type, max, (uint16_t)a, (uint16_t)b);

	if (ptx_types[type].bits == 32)
		r |= (uint64_t)half_extreme(type, max, (uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;
	return r;
}

static bool is_integer(unsigned type)
{
	return ptx_types[type].cls == 'u' || ptx_types[type].cls == 's';
}

static uint64_t float_add(unsigned type, uint64_t a, uint64_t b)
{
	uint16_t (*add)(uint16_t, uint16_t) = type == PTX_F16 || type == PTX_F16X2 ? half_add : bfloat_add;

	if (strchr("hHyY", ptx_types[type].cls)) {
		a = (a & ~0xffffull) | add((uint16_t)a, (uint16_t)b);
		if (ptx_types[type].bits == 32)
			a = (a & 0xffff) | (uint64_t)add((uint16_t)(a >> 16), (uint16_t)(b >> 16)) << 16;
		return a;
	}
	if (type == PTX_F64) {
		double x, y;

		memcpy(&x, &a, 8);
		memcpy(&y, &b, 8);
		x += y;
		memcpy(&a, &x, 8);
	} else {
		float x, y;
		uint32_t bits = (uint32_t)a, more = (uint32_t)b;

		memcpy(&x, &bits, 4);
		memcpy(&y, &more, 4);
		x += y;
		memcpy(&bits, &x, 4);
		a = bits;
	}
	return a;
}

static bool less(unsigned type, uint64_t a, uint64_t b)
{
	switch (type) {
	case PTX_S32:
		return (int32_t)a < (int32_t)b;
	case PTX_S64:
		return (int64_t)a < (int64_t)b;
	default:
		return a < b;
	}
}

/* Subnormal f32 to zero. */
static uint64_t flushed(uint64_t bits)
{
	return bits & 0x7f800000 ? bits : bits & 0x80000000;
}

/* GPUs add f32 without subnormals, but with them in shared memory. */
static bool flushes(const struct ptx_context *ctx, const struct ptx_site *site, const uint8_t *at)
{
	return site->type == PTX_F32 && site->operation == PTX_MOD_ADD &&
	       (uintptr_t)at - (uintptr_t)ctx->shared >= ctx->shared_bytes;
}

static uint64_t apply(const struct ptx_site *site, uint64_t old, uint64_t b, uint64_t c)
{
	switch (site->operation) {
	case PTX_MOD_ADD:
		return is_integer(site->type) ? old + b : float_add(site->type, old, b);
	case PTX_MOD_MIN:
	case PTX_MOD_MAX:
		if (!is_integer(site->type))
			return halves_extreme(site->type, site->operation == PTX_MOD_MAX, old, b);
		if (site->operation == PTX_MOD_MIN)
			return less(site->type, b, old) ? b : old;
		return less(site->type, old, b) ? b : old;
	case PTX_MOD_AND:
		return old & b;
	case PTX_MOD_OR:
		return old | b;
	case PTX_MOD_XOR:
		return old ^ b;
	case PTX_MOD_INC:
		return old >= b ? 0 : old + 1;
	case PTX_MOD_DEC:
		return !old || old > b ? b : old - 1;
	case PTX_MOD_CAS:
		return old == b ? c : old;
	default:
		return b;
	}
}

#define ATOMIC(type)                                                                                                   \
	{                                                                                                              \
		type now = __atomic_load_n((type *)at, __ATOMIC_SEQ_CST), next;                                        \
		do {                                                                                                   \
			next = ftz ? (type)flushed(apply(site, flushed(now), flushed(b), 0))                           \
				   : (type)apply(site, now, (type)b, (type)c);                                         \
		} while (!__atomic_compare_exchange_n((type *)at, &now, next, false, __ATOMIC_SEQ_CST,                 \
						      __ATOMIC_SEQ_CST));                                              \
		return now;                                                                                            \
	}

static uint64_t atomic(const struct ptx_site *site, uint8_t *at, bool ftz, uint64_t b, uint64_t c)
{
	if (site->size == 8)
		ATOMIC(uint64_t)
	if (site->size == 2)
		ATOMIC(uint16_t)
	if (site->operation == PTX_MOD_ADD && is_integer(site->type))
		return __atomic_fetch_add((uint32_t *)at, (uint32_t)b, __ATOMIC_SEQ_CST);
	ATOMIC(uint32_t)
}

void ptx_atom_apply(const struct ptx_site *site, uint8_t *at, bool ftz, uint64_t operand)
{
	atomic(site, at, ftz, operand, 0);
}

/* A block runs on one OS thread, so no other thread accesses its shared memory. */
static void add_shared(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses,
		       const uint64_t *data, uint64_t *old, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t address = addresses[lane];
		volatile uint32_t *at = (volatile uint32_t *)(void *)(ctx->shared + address);

		if ((address & 3) || ctx->shared_bytes < 4 || address > ctx->shared_bytes - 4)
			at = (volatile uint32_t *)(void *)ptx_check_lane(ctx, number, address, thread + lane);
		old[lane] = *at;
		*at = (uint32_t)old[lane] + (uint32_t)data[lane];
	}
}

void ptx_rt_atom(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses,
		 const uint64_t *data, uint64_t *old, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	if (site->space == PTX_SHARED && site->operation == PTX_MOD_ADD && site->size == 4 && is_integer(site->type)) {
		add_shared(ctx, number, mask, addresses, data, old, thread);
		return;
	}
	/* the operands of one lane are also in separate rows: the second is 32 words behind the first */
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint8_t *at = ptx_check_lane(ctx, number, addresses[lane], thread + lane);

		old[lane] = atomic(site, at, flushes(ctx, site, at), data[lane], data[32 + lane]);
	}
}

void ptx_rt_atom_part(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses,
		      const uint64_t *data, uint64_t *old, uint32_t thread, uint32_t part)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint8_t *at = ptx_check_lane(ctx, number, addresses[lane], thread + lane) + part * site->size;

		old[lane] = atomic(site, at, flushes(ctx, site, at), data[lane], 0);
	}
}

typedef unsigned __int128 wide;

static wide pair(const uint64_t *lists, unsigned lane)
{
	return (wide)lists[32 + lane] << 64 | lists[lane];
}

/* The compiler would call a library that may take a lock, which the other sizes know nothing about. */
static bool swap_wide(void *at, wide *now, wide next)
{
	uint64_t low = (uint64_t)*now, up = (uint64_t)(*now >> 64);
	bool done;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*(wide *)at), "+a"(low), "+d"(up)
			 : "b"((uint64_t)next), "c"((uint64_t)(next >> 64))
			 : "memory");
	*now = (wide)up << 64 | low;
	return done;
}

void ptx_rt_atom_wide(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *addresses,
		      const uint64_t *data, uint64_t *old, uint32_t thread)
{
	bool cas = ctx->binary->sites[number].operation == PTX_MOD_CAS;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		void *at = ptx_check_lane(ctx, number, addresses[lane], thread + lane);
		wide expected = cas ? pair(data, lane) : 0, next = pair(cas ? data + 64 : data, lane);

		while (!swap_wide(at, &expected, next) && !cas)
			;
		old[lane] = (uint64_t)expected;
		old[32 + lane] = (uint64_t)(expected >> 64);
	}
}

/* `in`: 32 values, 32 lane operands, 32 clamps; `out`: 32 values, then 32 flags "the source lane was in range" */
void ptx_rt_shfl(uint32_t mode, uint32_t mask, const uint32_t *in, const uint32_t *by, uint32_t *out)
{
	(void)mask;
	for (int lane = 0; lane < 32; lane++) {
		int b = (int)(by[lane] & 31), c = (int)by[32 + lane], segment = c >> 8 & 31, from;
		int last = (lane & segment) | ((c & 31) & ~segment);
		bool ok;

		from = mode == 0   ? lane - b
		       : mode == 1 ? lane + b
		       : mode == 2 ? lane ^ b
				   : (lane & segment) | (b & ~segment);
		ok = mode == 0 ? from >= last : from <= last;
		out[lane] = in[ok ? from : lane];
		out[32 + lane] = ok;
	}
}

/* The group of the first lane that is left; takes it from those that are. */
static uint32_t next_group(uint32_t *left, uint32_t mask, const uint32_t *groups)
{
	uint32_t first = *left & -*left, group = groups ? (groups[__builtin_ctz(first)] & mask) | first : mask;

	*left &= ~group;
	return group;
}

static void match(bool all, uint32_t group, const uint64_t *values, uint32_t *out, uint32_t *same)
{
	for (uint32_t left = group; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint32_t equal = 0;

		for (uint32_t rest = group; rest; rest &= rest - 1)
			if (values[__builtin_ctz(rest)] == values[lane])
				equal |= rest & -rest;
		same[lane] = equal == group;
		out[lane] = all && equal != group ? 0 : equal;
	}
}

void ptx_rt_match(uint32_t all, uint32_t mask, const uint32_t *groups, const uint64_t *values, uint32_t *out,
		  uint32_t *same)
{
	memset(out, 0, 32 * sizeof(*out));
	memset(same, 0, 32 * sizeof(*same));
	for (uint32_t left = mask; left;)
		match(all, next_group(&left, mask, groups), values, out, same);
}

static uint32_t reduce(uint32_t operation, uint32_t group, const uint32_t *values)
{
	uint32_t sign = operation & PTX_REDUX_SIGNED ? 1u << 31 : 0, result = values[__builtin_ctz(group)];

	for (uint32_t left = group & (group - 1); left; left &= left - 1) {
		uint32_t v = values[__builtin_ctz(left)];
		/* flipping the sign bit makes signed order unsigned */
		bool below = (v ^ sign) < (result ^ sign);

		switch (operation & 7) {
		case 0:
			result += v;
			break;
		case 1:
			result = below ? v : result;
			break;
		case 2:
			result = below ? result : v;
			break;
		case 3:
			result &= v;
			break;
		case 4:
			result |= v;
			break;
		default:
			result ^= v;
		}
	}
	return result;
}

/*
 * The least or the largest number; -0 is less than +0. The result is NaN if all are, or with PTX_REDUX_NAN if any is.
 */
static uint32_t reduce_floats(uint32_t operation, uint32_t group, const uint32_t *values)
{
	uint32_t best = 0, result = INT32_MAX;

	for (uint32_t left = group; left; left &= left - 1) {
		uint32_t v = values[__builtin_ctz(left)], size = v & INT32_MAX, order;

		if (size > 0x7f800000 && (operation & PTX_REDUX_NAN))
			return INT32_MAX;
		if (size > 0x7f800000)
			continue;
		v = operation & PTX_REDUX_ABS ? size : v;
		/* in the order of the numbers, the wanted one last, all above 0 */
		order = v >> 31 ? ~v : v | 1u << 31;
		order = (operation & 7) == 1 ? ~order : order;
		result = order > best ? v : result;
		best = order > best ? order : best;
	}
	return result;
}

uint32_t ptx_rt_meet(uint32_t here, uint32_t live, const uint32_t *masks)
{
	uint32_t met = 0;

	for (uint32_t left = here; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left), named = masks[lane] & live, others = named;
		bool same = !(named & ~here);

		for (; others && same; others &= others - 1)
			same = (masks[__builtin_ctz(others)] & live) == named;
		met |= (uint32_t)same << lane;
	}
	return met;
}

void ptx_rt_redux(uint32_t operation, uint32_t mask, const uint32_t *groups, const uint32_t *values, uint32_t *out)
{
	memset(out, 0, 32 * sizeof(*out));
	for (uint32_t left = mask; left;) {
		uint32_t group = next_group(&left, mask, groups), result;

		result = operation & PTX_REDUX_FLOAT ? reduce_floats(operation, group, values)
						     : reduce(operation, group, values);

		for (; group; group &= group - 1)
			out[__builtin_ctz(group)] = result;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Surface accesses for the lanes of a warp: along x by bytes, or by elements where the data is formatted. Out of bounds
 * the instruction says what happens: a trap, the nearest element, or 0 and no store.
 */
#include <string.h>

#include "runtime/ptx-run.h"
#include "runtime/ptx-texel.h"

static unsigned element_bytes(const struct ptx_tex *op)
{
	return ptx_types[op->type].bits / 8;
}

static int64_t coordinate(const struct ptx_tex_call *call, unsigned n, uint32_t lane)
{
	return (int32_t)call->data[n * 32 + lane];
}

/* Moves `*at` into [0, count) if the instruction allows that; false: it is out of bounds. */
static bool bound(const struct ptx_tex_call *call, int64_t *at, int64_t count)
{
	if (*at >= 0 && *at < count)
		return true;
	if (call->op->bounds != PTX_BOUNDS_CLAMP)
		return false;
	*at = *at < 0 ? 0 : count - 1;
	return true;
}

/* Where a lane's access of `bytes` goes; NULL: nowhere. A surface always has room for one. */
static uint8_t *find(const struct ptx_tex_call *call, const struct ptx_texture *s, uint32_t lane, unsigned bytes,
		     unsigned scale)
{
	const struct ptx_level *l = &s->level[0];
	unsigned geometry = call->op->geometry, at = 0, dims = ptx_geometry_dims(geometry);
	int64_t row = (int64_t)l->width * s->texel_bytes, x, y = 0, slice = 0;
	bool inside;

	if (ptx_geometry_layered(geometry))
		slice = coordinate(call, at++, lane);
	x = coordinate(call, at++, lane) * scale;
	if (dims > 1)
		y = coordinate(call, at++, lane);
	if (dims > 2)
		slice = coordinate(call, at++, lane);
	if (bytes > row)
		inside = false;
	else if (x > row - bytes && call->op->bounds == PTX_BOUNDS_CLAMP)
		inside = (x = row - bytes, true);
	else
		inside = bound(call, &x, row - bytes + 1);
	/* an address that is not aligned is one that the hardware would not take either */
	inside = inside && x % (bytes < 16 ? bytes : 16) == 0 && bound(call, &y, l->height) &&
		 bound(call, &slice, l->slices);
	if (inside)
		return l->data + (uint64_t)slice * l->slice_bytes + (uint64_t)y * l->pitch + (uint64_t)x;
	if (call->op->bounds == PTX_BOUNDS_TRAP) {
		struct ptx_site report = *call->site;

		report.space = PTX_SURFACE;
		ptx_fault_at(call->ctx, &report, PTX_FAULT_TRAP, (uint64_t)x, call->thread + lane);
	}
	return NULL;
}

static void load(const struct ptx_tex_call *call, const struct ptx_texture *s)
{
	unsigned each = element_bytes(call->op), bytes = each * call->op->count;

	PTX_EACH_LANE (lane, call->mask) {
		const uint8_t *from = find(call, s, lane, bytes, 1);

		for (unsigned n = 0; n < call->op->count; n++) {
			uint64_t value = 0;

			if (from)
				memcpy(&value, from + n * each, each);
			if (each == 8)
				memcpy((uint8_t *)call->out + (n * 32 + lane) * 8ul, &value, 8);
			else
				call->out[n * 32 + lane] = (uint32_t)value;
		}
	}
}

/* The operand of a store or reduction, which follows the coordinates. */
static uint64_t source(const struct ptx_tex_call *call, unsigned n, uint32_t lane)
{
	const uint32_t *from = call->data + ptx_geometry_coords(call->op->geometry) * 32ul;
	uint64_t value;

	if (element_bytes(call->op) < 8)
		return from[n * 32 + lane];
	memcpy(&value, (const uint8_t *)from + (n * 32 + lane) * 8ul, 8);
	return value;
}

static void store(const struct ptx_tex_call *call, const struct ptx_texture *s)
{
	unsigned each = element_bytes(call->op), bytes = each * call->op->count;

	PTX_EACH_LANE (lane, call->mask) {
		uint8_t *to = find(call, s, lane, bytes, 1);

		for (unsigned n = 0; n < call->op->count && to; n++) {
			uint64_t value = source(call, n, lane);

			memcpy(to + n * each, &value, each);
		}
	}
}

static void encode(uint8_t *to, unsigned format, uint32_t bits)
{
	static const struct {
		int64_t least, most;
	} limits[] = {{0, 255}, {0, 65535}, {0, 0}, {-128, 127}, {-32768, 32767}};
	int64_t value = format >= PTX_FORMAT_S8 ? (int64_t)(int32_t)bits : (int64_t)bits;
	_Float16 half;
	float f;

	switch (format) {
	case PTX_FORMAT_F16:
		memcpy(&f, &bits, sizeof(f));
		half = (_Float16)f;
		memcpy(to, &half, sizeof(half));
		break;
	case PTX_FORMAT_F32:
	case PTX_FORMAT_U32:
	case PTX_FORMAT_S32:
		memcpy(to, &bits, sizeof(bits));
		break;
	default:
		value = value < limits[format].least ? limits[format].least
			: value > limits[format].most ? limits[format].most
						      : value;
		memcpy(to, &value, ptx_format_bytes(format));
	}
}

/* Components that the instruction does not bring keep what they hold. */
static void store_formatted(const struct ptx_tex_call *call, const struct ptx_texture *s)
{
	unsigned each = ptx_format_bytes(s->format);

	PTX_EACH_LANE (lane, call->mask) {
		uint8_t *to = find(call, s, lane, s->texel_bytes, s->texel_bytes);

		for (unsigned n = 0; n < call->op->count && n < s->channels && to; n++)
			encode(to + n * each, s->format, (uint32_t)source(call, n, lane));
	}
}

static uint64_t reduced(const struct ptx_tex *op, unsigned type, uint64_t old, uint64_t value)
{
	bool less;

	switch (type) {
	case PTX_S32:
		less = (int32_t)value < (int32_t)old;
		break;
	case PTX_S64:
		less = (int64_t)value < (int64_t)old;
		break;
	default:
		less = value < old;
	}
	switch (op->detail) {
	case PTX_REDUCE_ADD:
		return old + value;
	case PTX_REDUCE_MIN:
		return less ? value : old;
	case PTX_REDUCE_MAX:
		return less || value == old ? old : value;
	case PTX_REDUCE_AND:
		return old & value;
	default:
		return old | value;
	}
}

#define REDUCE(type)                                                                                                   \
	{                                                                                                              \
		type *to = (type *)(void *)at, now = __atomic_load_n(to, __ATOMIC_RELAXED);                            \
		while (!__atomic_compare_exchange_n(to, &now, (type)reduced(call->op, kind, now, value), true,         \
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))                               \
			;                                                                                              \
	}

/* As formatted data the surface says whether its numbers have signs. */
static unsigned type_of(const struct ptx_tex_call *call, const struct ptx_texture *s)
{
	bool wide = element_bytes(call->op) == 8;

	if (call->op->operation == PTX_SURF_REDUCE)
		return call->op->type;
	if (s->format >= PTX_FORMAT_S8 && s->format <= PTX_FORMAT_S32)
		return wide ? PTX_S64 : PTX_S32;
	return wide ? PTX_U64 : PTX_U32;
}

static void reduce(const struct ptx_tex_call *call, const struct ptx_texture *s)
{
	unsigned bytes = element_bytes(call->op), kind = type_of(call, s);
	unsigned scale = call->op->operation == PTX_SURF_REDUCE ? 1 : s->texel_bytes;

	PTX_EACH_LANE (lane, call->mask) {
		uint8_t *at = find(call, s, lane, bytes, scale);
		uint64_t value = source(call, 0, lane);

		if (at && bytes == 8)
			REDUCE(uint64_t)
		else if (at)
			REDUCE(uint32_t)
	}
}

void ptx_surface_run(const struct ptx_tex_call *call, const struct ptx_texture *surface)
{
	switch (call->op->operation) {
	case PTX_SURF_LOAD:
		load(call, surface);
		break;
	case PTX_SURF_STORE:
		store(call, surface);
		break;
	case PTX_SURF_STORE_FORMATTED:
		store_formatted(call, surface);
		break;
	default:
		reduce(call, surface);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Textures and surfaces. The object's handle, of 32 bits, is a word of a bank, in a uniform register, or in a register
 * among the operands.
 * Results are the bits of the texels, whose type the object knows.
 *
 * The order of the operands is what ptxas makes of PTX.
 */
#include <stdio.h>

#include "sass/lift/lifting.h"

/* Operands of a texture instruction: coordinates, then the handle if it is in a register, then the rest. */
struct operands {
	struct value coordinate[4], other[4];
	unsigned int coordinates, others;
};

static struct value register_at(struct lift *l, const struct sass_operand *o, unsigned int n)
{
	return in_register(l, register_name(l, false, o->reg == SASS_RZ ? SASS_RZ : o->reg + n));
}

/*
 * If they are scattered, the first half of all is in registers from `a` on and the second half from `b` on. Else the
 * coordinates are behind `a`, and the others behind `b`.
 */
static struct operands read_operands(struct lift *l, const struct sass_instr *i, unsigned int coordinates,
				     unsigned int others)
{
	struct operands o = {.coordinates = coordinates, .others = others};
	unsigned int total = coordinates + others;
	unsigned int first = i->field[SASS_F_SCATTERED] ? (total + 1) / 2 : coordinates;

	for (unsigned int n = 0; n < total; n++) {
		struct value v = n < first ? register_at(l, &i->a, n) : register_at(l, &i->b, n - first);

		if (n < coordinates)
			o.coordinate[n] = v;
		else
			o.other[n - coordinates] = v;
	}
	return o;
}

static bool has_common_handle(const struct sass_instr *i)
{
	return !i->field[SASS_F_BINDLESS];
}

/* PTX has handles of 64 bits. */
static struct value wide(struct lift *l, struct value v)
{
	return compute64(l, "cvt.u64.u32", "%s", in_register(l, v).text);
}

/* In a uniform register from sm_90 on. */
static struct value common_handle(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_HAS_U])
		return wide(l, register_name(l, true, (unsigned int)i->field[SASS_F_U]));
	return wide(l, bank_32(l, (unsigned int)i->field[SASS_F_BANK], (uint32_t)i->field[SASS_F_WORD] * 4));
}

/* `v`: the register that has the handle where it is not common to all lanes. */
static struct value handle_of(struct lift *l, const struct sass_instr *i, struct value v)
{
	return has_common_handle(i) ? common_handle(l, i) : wide(l, v);
}

/* ---- textures ---- */

static const struct geometry {
	const char *name; /* NULL: there is none */
	unsigned int coordinates;
	bool layered; /* the first one is the layer */
} geometries[] = {{"1d", 1, false}, {"2d", 2, false}, {"3d", 3, false}, {"cube", 3, false},
		  {"a1d", 2, true}, {"a2d", 3, true}, {NULL, 0, false}, {"acube", 4, true}};

enum { LOD_AUTOMATIC, LOD_ZERO, LOD_BIAS, LOD_GIVEN };

/* {a, b, ...}, of 1, 2 or 4 elements: the last one is said again. */
static void vector(const struct value *values, unsigned int count, char *to, size_t room)
{
	size_t length = 0;

	for (unsigned int n = 0; n < (count == 3 ? 4u : count); n++)
		length += (size_t)snprintf(to + length, room - length, "%s%s", n ? ", " : "{",
					   values[n < count ? n : count - 1].text);
	snprintf(to + length, room - length, "}");
}

/* The components of the mask go to the two registers of the destination, then to those of the second one. */
static void write_texel(struct lift *l, const struct sass_instr *i, const struct value *texel)
{
	unsigned int written = 0;

	for (unsigned int n = 0; n < 4; n++) {
		unsigned int to = written < 2 ? i->d : (unsigned int)i->field[SASS_F_D2];

		if (!(i->field[SASS_F_MASK] >> n & 1))
			continue;
		write_32(l, to == SASS_RZ ? SASS_RZ : to + written % 2, texel[n]);
		written++;
	}
}

/* `rest`: what follows the coordinates, with a comma before it, or nothing. */
static void fetch(struct lift *l, const struct sass_instr *i, const char *name, const char *type, struct value handle,
		  const struct value *coordinates, unsigned int count, const char *rest)
{
	struct value texel[4];
	char place[128];

	vector(coordinates, count, place, sizeof(place));
	for (unsigned int n = 0; n < 4; n++)
		texel[n] = temporary(l, TEMPORARY_32);
	emit_guarded(l, "%s.v4.u32.%s {%s, %s, %s, %s}, [%s, %s]%s", name, type, texel[0].text, texel[1].text,
		     texel[2].text, texel[3].text, handle.text, place, rest);
	write_texel(l, i, texel);
}

/* With or without a level of detail, which follows the handle. */
static bool fetch_level(struct lift *l, const struct sass_instr *i, const char *type)
{
	const struct geometry *g = &geometries[i->field[SASS_F_DIM]];
	bool has_level = i->field[SASS_F_LOD] == LOD_GIVEN;
	char name[32], level[32] = "";
	struct operands o;
	struct value handle;

	if (!g->name || (!has_level && i->field[SASS_F_LOD] != LOD_ZERO))
		return refuse(l, " of geometry %u with mode %u of its level", (unsigned int)i->field[SASS_F_DIM],
			      (unsigned int)i->field[SASS_F_LOD]);
	o = read_operands(l, i, g->coordinates, has_level + !has_common_handle(i));
	handle = handle_of(l, i, o.other[0]);
	snprintf(name, sizeof(name), "tex%s.%s", has_level ? ".level" : "", g->name);
	if (has_level)
		snprintf(level, sizeof(level), ", %s", o.other[o.others - 1].text);
	fetch(l, i, name, type, handle, o.coordinate, g->coordinates, level);
	return true;
}

bool lift_tex(struct lift *l, const struct sass_instr *i)
{
	return fetch_level(l, i, "f32");
}

bool lift_tld(struct lift *l, const struct sass_instr *i)
{
	return fetch_level(l, i, "s32");
}

bool lift_tld4(struct lift *l, const struct sass_instr *i)
{
	static const char components[] = "rgba";
	const struct geometry *g = &geometries[i->field[SASS_F_DIM]];
	struct operands o;
	char name[32];

	if (!g->name || g->coordinates - g->layered < 2)
		return refuse(l, " of geometry %u", (unsigned int)i->field[SASS_F_DIM]);
	o = read_operands(l, i, g->coordinates, !has_common_handle(i));
	snprintf(name, sizeof(name), "tld4.%c.%s", components[i->field[SASS_F_COMPONENT]], g->name);
	fetch(l, i, name, "f32", handle_of(l, i, o.other[0]), o.coordinate, g->coordinates, "");
	return true;
}

/*
 * The handle, if it is in a register, the coordinates and the layer are behind `a`; behind `b` is for each coordinate
 * its derivative along x and that along y.
 */
bool lift_txd(struct lift *l, const struct sass_instr *i)
{
	const struct geometry *g = &geometries[i->field[SASS_F_DIM]];
	unsigned int dims = g->coordinates - g->layered, at = !has_common_handle(i);
	struct value coordinate[4], along[2][2], handle = handle_of(l, i, register_at(l, &i->a, 0));
	char x[64], y[64], rest[132], name[32];

	if (!g->name || dims > 2 || i->field[SASS_F_SCATTERED])
		return refuse(l, " of geometry %u", (unsigned int)i->field[SASS_F_DIM]);
	for (unsigned int n = 0; n < dims; n++) {
		coordinate[n + g->layered] = register_at(l, &i->a, at + n);
		for (unsigned int way = 0; way < 2; way++)
			along[way][n] = register_at(l, &i->b, 2 * n + way);
	}
	if (g->layered)
		coordinate[0] = register_at(l, &i->a, at + dims);
	vector(along[0], dims, x, sizeof(x));
	vector(along[1], dims, y, sizeof(y));
	snprintf(rest, sizeof(rest), ", %s, %s", x, y);
	snprintf(name, sizeof(name), "tex.grad.%s", g->name);
	fetch(l, i, name, "f32", handle, coordinate, g->coordinates, rest);
	return true;
}

/* Sizes of a level, whose number is behind the handle. */
bool lift_txq(struct lift *l, const struct sass_instr *i)
{
	static const char *const names[] = {"width", "height", "depth"};
	struct value handle = handle_of(l, i, register_at(l, &i->a, 0)),
		     level = register_at(l, &i->a, !has_common_handle(i));
	struct value size[4] = {0};

	if (i->field[SASS_F_MASK] > 7)
		return refuse(l, " of a number of levels");
	for (unsigned int n = 0; n < 3; n++) {
		if (!(i->field[SASS_F_MASK] >> n & 1))
			continue;
		size[n] = temporary(l, TEMPORARY_32);
		emit_guarded(l, "txq.level.%s.b32 %s, [%s], %s", names[n], size[n].text, handle.text, level.text);
	}
	write_texel(l, i, size);
	return true;
}

/* ---- surfaces ---- */

static const char *const bounds[] = {"zero", "clamp", "trap", NULL};

/* The layer is behind the coordinates. "geometry.bounds" and the place in brackets; false: refused. */
static bool place_of(struct lift *l, const struct sass_instr *i, char *geometry, size_t geometry_room, char *place,
		     size_t room)
{
	static const struct geometry of_surface[] = {{"1d", 1, false}, {NULL, 0, false}, {"a1d", 2, true},
						     {"2d", 2, false}, {"a2d", 3, true}, {"3d", 3, false},
						     {NULL, 0, false}, {NULL, 0, false}};
	const struct geometry *g = &of_surface[i->field[SASS_F_DIM]];
	const char *outside = bounds[i->field[SASS_F_BOUNDS]];
	struct value handle, coordinate[3];
	char text[128];

	if (!g->name || !outside)
		return refuse(l, " of geometry %u with bounds %u", (unsigned int)i->field[SASS_F_DIM],
			      (unsigned int)i->field[SASS_F_BOUNDS]);
	handle = i->c.kind ? wide(l, register_at(l, &i->c, 0)) : common_handle(l, i);
	for (unsigned int n = 0; n < g->coordinates; n++)
		coordinate[(n + g->layered) % g->coordinates] = register_at(l, &i->a, n);
	vector(coordinate, g->coordinates, text, sizeof(text));
	snprintf(geometry, geometry_room, "%s", g->name);
	snprintf(place, room, "[%s, %s]", handle.text, text);
	return true;
}

static const struct access {
	const char *name; /* NULL: there is none */
	unsigned int registers;
	const char *widen; /* PTX that makes 32 bits of a register of 16; NULL: the registers have 32 */
} accesses[] = {
	{"b8", 1, "cvt.u32.u8"}, {NULL, 0, NULL},     {"b16", 1, "cvt.u32.u16"}, {NULL, 0, NULL},
	{"b32", 1, NULL},        {"v2.b32", 2, NULL}, {"v4.b32", 4, NULL},       {NULL, 0, NULL},
};

/* By the field `type`: U8, S8, U16, S16, 32, 64, 128; the rest as place_of() does. NULL: refused. */
static const struct access *access_of(struct lift *l, const struct sass_instr *i, char *geometry, size_t geometry_room,
				      char *place, size_t room)
{
	const struct access *a = &accesses[i->field[SASS_F_TYPE]];

	if (!a->name) {
		refuse(l, " of type %u", (unsigned int)i->field[SASS_F_TYPE]);
		return NULL;
	}
	return place_of(l, i, geometry, geometry_room, place, room) ? a : NULL;
}

bool lift_suld(struct lift *l, const struct sass_instr *i)
{
	char geometry[8], place[200], results[128];
	const struct access *a = access_of(l, i, geometry, sizeof(geometry), place, sizeof(place));
	struct value texel[4];

	if (!a)
		return false;
	for (unsigned int n = 0; n < a->registers; n++)
		texel[n] = temporary(l, a->widen ? TEMPORARY_16 : TEMPORARY_32);
	vector(texel, a->registers, results, sizeof(results));
	emit_guarded(l, "suld.b.%s.%s.%s %s, %s", geometry, a->name, bounds[i->field[SASS_F_BOUNDS]],
		     a->registers == 1 ? texel[0].text : results, place);
	for (unsigned int n = 0; n < a->registers; n++) {
		if (a->widen)
			texel[n] = compute32(l, a->widen, "%s", texel[n].text);
		write_32(l, i->d == SASS_RZ ? SASS_RZ : i->d + n, texel[n]);
	}
	return true;
}

bool lift_sust(struct lift *l, const struct sass_instr *i)
{
	char geometry[8], place[200], sources[128];
	const struct access *a = access_of(l, i, geometry, sizeof(geometry), place, sizeof(place));
	struct value texel[4];

	if (!a)
		return false;
	for (unsigned int n = 0; n < a->registers; n++) {
		texel[n] = register_at(l, &i->b, n);
		if (a->widen) {
			struct value low = temporary(l, TEMPORARY_16);

			emit(l, "cvt.u16.u32 %s, %s", low.text, texel[n].text);
			texel[n] = low;
		}
	}
	vector(texel, a->registers, sources, sizeof(sources));
	emit_guarded(l, "sust.b.%s.%s.%s %s, %s", geometry, a->name, bounds[i->field[SASS_F_BOUNDS]], place,
		     a->registers == 1 ? texel[0].text : sources);
	return true;
}

/* With the four components of a texel, which the surface's format converts. */
bool lift_sust_p(struct lift *l, const struct sass_instr *i)
{
	char geometry[8], place[200], sources[128];
	struct value texel[4];

	if (i->field[SASS_F_MASK] != 15)
		return refuse(l, " of some components");
	if (!place_of(l, i, geometry, sizeof(geometry), place, sizeof(place)))
		return false;
	for (unsigned int n = 0; n < 4; n++)
		texel[n] = register_at(l, &i->b, n);
	vector(texel, 4, sources, sizeof(sources));
	emit_guarded(l, "sust.p.%s.v4.b32.%s %s, %s", geometry, bounds[i->field[SASS_F_BOUNDS]], place, sources);
	return true;
}

bool lift_sured(struct lift *l, const struct sass_instr *i)
{
	static const char *const operations[] = {"add", "min", "max", NULL, NULL, "and", "or", NULL};
	bool bytes = i->field[SASS_F_BYTES], bitwise = i->field[SASS_F_OPERATION] > 4;
	const char *operation = operations[i->field[SASS_F_OPERATION]];
	const char *type = !bytes || bitwise ? "b32" : i->field[SASS_F_SIGNED] ? "s32" : "u32";
	char geometry[8], place[200];

	if (!operation)
		return refuse(l, " of operation %u", (unsigned int)i->field[SASS_F_OPERATION]);
	if (!place_of(l, i, geometry, sizeof(geometry), place, sizeof(place)))
		return false;
	emit_guarded(l, "sured.%s.%s.%s.%s.%s %s, %s", bytes ? "b" : "p", operation, geometry, type,
		     bounds[i->field[SASS_F_BOUNDS]], place, register_at(l, &i->b, 0).text);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of texture and surface instructions. Their words mean other things than in other instructions (.b is a component
 * or a form, .add comes before the geometry), so this file reads them.
 */
#include <string.h>

#include "front/ptx-parse.h"
#include "front/ptx-tex-instr.h"

#define ON(operation) (1u << (operation))
#define FETCHES (ON(PTX_TEX_FETCH) | ON(PTX_TEX_GATHER))
#define REDUCTIONS (ON(PTX_SURF_REDUCE) | ON(PTX_SURF_REDUCE_FORMATTED))
#define SURFACES (ON(PTX_SURF_LOAD) | ON(PTX_SURF_STORE) | ON(PTX_SURF_STORE_FORMATTED) | REDUCTIONS)

static const struct {
	const char *name;
	uint8_t operation;
	bool surface;
} families[] = {
	{"istypep", PTX_IS_TYPE, false},   {"suld", PTX_SURF_LOAD, true}, {"suq", PTX_TEX_QUERY, true},
	{"sured", PTX_SURF_REDUCE, true},  {"sust", PTX_SURF_STORE, true}, {"tex", PTX_TEX_FETCH, false},
	{"tld4", PTX_TEX_GATHER, false},   {"txq", PTX_TEX_QUERY, false},
};

enum field { GEOMETRY, COUNT, LOD, BOUNDS, DETAIL, FORM, LEVEL, IGNORED };

/* A word, where it may stand, and what it says. */
static const struct {
	const char *text;
	uint32_t where;
	uint8_t field, value;
} words[] = {
	{"1d", FETCHES | SURFACES, GEOMETRY, PTX_GEOMETRY_1D},
	{"2d", FETCHES | SURFACES, GEOMETRY, PTX_GEOMETRY_2D},
	{"3d", FETCHES | SURFACES, GEOMETRY, PTX_GEOMETRY_3D},
	{"a1d", FETCHES | SURFACES, GEOMETRY, PTX_GEOMETRY_A1D},
	{"a2d", FETCHES | SURFACES, GEOMETRY, PTX_GEOMETRY_A2D},
	{"cube", FETCHES, GEOMETRY, PTX_GEOMETRY_CUBE},
	{"acube", FETCHES, GEOMETRY, PTX_GEOMETRY_ACUBE},
	{"v2", SURFACES | ON(PTX_TEX_FETCH), COUNT, 2},
	{"v4", FETCHES | SURFACES, COUNT, 4},
	{"base", FETCHES, LOD, PTX_LOD_BASE},
	{"level", ON(PTX_TEX_FETCH), LOD, PTX_LOD_LEVEL},
	{"grad", ON(PTX_TEX_FETCH), LOD, PTX_LOD_GRADIENTS},
	{"level", ON(PTX_TEX_QUERY), LEVEL, true},
	{"r", ON(PTX_TEX_GATHER), DETAIL, 0},
	{"g", ON(PTX_TEX_GATHER), DETAIL, 1},
	{"b", ON(PTX_TEX_GATHER), DETAIL, 2},
	{"a", ON(PTX_TEX_GATHER), DETAIL, 3},
	{"b", SURFACES, IGNORED, 0},
	{"p", ON(PTX_SURF_STORE), FORM, PTX_SURF_STORE_FORMATTED},
	{"p", ON(PTX_SURF_REDUCE), FORM, PTX_SURF_REDUCE_FORMATTED},
	{"trap", SURFACES, BOUNDS, PTX_BOUNDS_TRAP},
	{"clamp", SURFACES, BOUNDS, PTX_BOUNDS_CLAMP},
	{"zero", SURFACES, BOUNDS, PTX_BOUNDS_ZERO},
	{"ca", SURFACES, IGNORED, 0},
	{"cg", SURFACES, IGNORED, 0},
	{"cs", SURFACES, IGNORED, 0},
	{"cv", SURFACES, IGNORED, 0},
	{"wb", SURFACES, IGNORED, 0},
	{"wt", SURFACES, IGNORED, 0},
	{"width", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_WIDTH},
	{"height", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_HEIGHT},
	{"depth", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_DEPTH},
	{"array_size", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_ARRAY_SIZE},
	{"num_mipmap_levels", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_LEVELS},
	{"normalized_coords", ON(PTX_TEX_QUERY), DETAIL, PTX_QUERY_NORMALIZED},
	{"add", REDUCTIONS, DETAIL, PTX_REDUCE_ADD},
	{"min", REDUCTIONS, DETAIL, PTX_REDUCE_MIN},
	{"max", REDUCTIONS, DETAIL, PTX_REDUCE_MAX},
	{"and", REDUCTIONS, DETAIL, PTX_REDUCE_AND},
	{"or", REDUCTIONS, DETAIL, PTX_REDUCE_OR},
	{"texref", ON(PTX_IS_TYPE), DETAIL, PTX_OPAQUE_TEXTURE},
	{"surfref", ON(PTX_IS_TYPE), DETAIL, PTX_OPAQUE_SURFACE},
	{"samplerref", ON(PTX_IS_TYPE), DETAIL, PTX_OPAQUE_SAMPLER},
};

static bool same(const char *text, const char *word, size_t length)
{
	return strlen(text) == length && !memcmp(text, word, length);
}

static bool find_word(struct ptx_tex *tex, const char *word, size_t length)
{
	size_t w = 0, count = sizeof(words) / sizeof(words[0]);

	while (w < count && !(words[w].where >> tex->operation & 1 && same(words[w].text, word, length)))
		w++;
	if (w == count)
		return false;
	switch (words[w].field) {
	case GEOMETRY:
		tex->geometry = words[w].value;
		break;
	case COUNT:
		tex->count = words[w].value;
		break;
	case LOD:
		tex->lod = words[w].value;
		break;
	case BOUNDS:
		tex->bounds = words[w].value;
		break;
	case DETAIL:
		tex->detail = words[w].value;
		break;
	case FORM:
		tex->operation = words[w].value;
		break;
	case LEVEL:
		tex->query_level = true;
		break;
	}
	return true;
}

/* Whether the name has all words that it must have. */
static bool complete(struct ptx_tex *tex, const struct ptx_instr *i)
{
	bool needs_geometry = FETCHES >> tex->operation & 1 || tex->surface;

	if (tex->operation == PTX_TEX_QUERY || tex->operation == PTX_IS_TYPE)
		return true;
	if (needs_geometry && !tex->geometry)
		return false;
	if (FETCHES >> tex->operation & 1) {
		tex->float_coords = i->type2 == PTX_F32;
		/* what integer coordinates with gradients mean is unknown */
		if (i->type2 == PTX_S32 && tex->lod == PTX_LOD_GRADIENTS)
			return false;
		return tex->count == (i->type == PTX_F16X2 ? 2 : 4) && (i->type2 == PTX_F32 || i->type2 == PTX_S32);
	}
	if (tex->operation == PTX_SURF_REDUCE_FORMATTED)
		return i->type == PTX_B32 || i->type == PTX_B64;
	return !i->type2 && (tex->operation != PTX_SURF_REDUCE || i->type != PTX_B64);
}

bool ptx_parse_tex_name(struct ptx_parser *p, struct ptx_instr *i, const char *name, size_t length, size_t *first)
{
	const char *at = memchr(name, '.', length), *end = name + length, *dot;
	struct ptx_tex *tex = NULL;

	*first = at ? (size_t)(at - name) : length;
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		if (same(families[f].name, name, *first)) {
			tex = ptx_alloc(&p->module->arena, sizeof(*tex));
			if (!tex)
				return !ptx_parse_no_memory(p);
			*tex = (struct ptx_tex){
				.operation = families[f].operation, .surface = families[f].surface, .count = 1};
		}
	if (!tex)
		return false;
	for (; at; at = dot) {
		size_t part;
		unsigned type;

		at++;
		dot = memchr(at, '.', (size_t)(end - at));
		part = (size_t)((dot ? dot : end) - at);
		type = ptx_parse_type(at, part);
		if (type && i->type2)
			return true;
		if (type)
			*(i->type ? &i->type2 : &i->type) = (uint8_t)type;
		else if (!find_word(tex, at, part))
			return true;
	}
	tex->type = i->type;
	if (complete(tex, i))
		i->tex = tex;
	return true;
}

void ptx_parse_tex_operands(struct ptx_instr *i)
{
	/* result, handle, coordinates, and what the level of detail takes */
	if (FETCHES >> i->tex->operation & 1)
		i->tex->offsets = i->count > 3 + i->tex->lod;
}

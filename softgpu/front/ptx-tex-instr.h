/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface instructions as the parser reads them. Semantics: NVIDIA's PTX ISA. */
#ifndef VCUDA_BACKEND_CPU_PTX_TEX_INSTR_H
#define VCUDA_BACKEND_CPU_PTX_TEX_INSTR_H

#include <stdbool.h>
#include <stdint.h>

enum ptx_tex_operation {
	PTX_TEX_FETCH,             /* tex */
	PTX_TEX_GATHER,            /* tld4 */
	PTX_TEX_QUERY,             /* txq, suq */
	PTX_SURF_LOAD,             /* suld.b */
	PTX_SURF_STORE,            /* sust.b */
	PTX_SURF_STORE_FORMATTED,  /* sust.p */
	PTX_SURF_REDUCE,           /* sured.b */
	PTX_SURF_REDUCE_FORMATTED, /* sured.p */
	PTX_IS_TYPE,               /* istypep */
};

enum ptx_geometry {
	PTX_GEOMETRY_NONE,
	PTX_GEOMETRY_1D,
	PTX_GEOMETRY_2D,
	PTX_GEOMETRY_3D,
	PTX_GEOMETRY_A1D,
	PTX_GEOMETRY_A2D,
	PTX_GEOMETRY_CUBE,
	PTX_GEOMETRY_ACUBE,
};

/* The number is that of the operands. */
enum ptx_lod { PTX_LOD_BASE, PTX_LOD_LEVEL, PTX_LOD_GRADIENTS };
enum ptx_bounds { PTX_BOUNDS_TRAP, PTX_BOUNDS_CLAMP, PTX_BOUNDS_ZERO };

enum ptx_query {
	PTX_QUERY_WIDTH,
	PTX_QUERY_HEIGHT,
	PTX_QUERY_DEPTH,
	PTX_QUERY_ARRAY_SIZE,
	PTX_QUERY_LEVELS,
	PTX_QUERY_NORMALIZED,
};

/* sured's operations, and what istypep asks for */
enum ptx_reduction { PTX_REDUCE_ADD, PTX_REDUCE_MIN, PTX_REDUCE_MAX, PTX_REDUCE_AND, PTX_REDUCE_OR };
enum ptx_opaque { PTX_OPAQUE_TEXTURE, PTX_OPAQUE_SURFACE, PTX_OPAQUE_SAMPLER };

/* The words of an instruction's name, beside its two types. */
struct ptx_tex {
	uint8_t operation, geometry;
	uint8_t count;     /* elements of the result or of what is stored */
	uint8_t lod;       /* enum ptx_lod */
	uint8_t bounds;    /* enum ptx_bounds */
	uint8_t detail;    /* component of tld4, enum ptx_query, ptx_reduction or ptx_opaque */
	uint8_t type;      /* of the elements: enum ptx_type */
	bool float_coords; /* else integers */
	bool surface;      /* the handle must be a surface's */
	bool query_level;  /* txq.level */
	bool offsets;      /* tex and tld4 with offsets of texels */
};

/* Coordinates of a geometry, a layer's number included. */
static inline unsigned ptx_geometry_coords(unsigned geometry)
{
	static const uint8_t count[] = {0, 1, 2, 3, 2, 3, 3, 4};

	return count[geometry];
}

/* The dimensions of a geometry along which derivatives and offsets are given. */
static inline unsigned ptx_geometry_dims(unsigned geometry)
{
	static const uint8_t count[] = {0, 1, 2, 3, 1, 2, 3, 3};

	return count[geometry];
}

static inline bool ptx_geometry_layered(unsigned geometry)
{
	return geometry == PTX_GEOMETRY_A1D || geometry == PTX_GEOMETRY_A2D || geometry == PTX_GEOMETRY_ACUBE;
}

#endif

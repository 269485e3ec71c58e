/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects, and the execution of texture and surface instructions for one warp at a time.
 * Semantics: NVIDIA's PTX ISA, and the CUDA C++ programming guide's chapter on texture fetching.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_TEX_H
#define VCUDA_BACKEND_CPU_PTX_TEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/ptx-tex-instr.h"
#include "kernel.h"

/*
 * Where compiled code puts the operands: 32 words each, one a lane. `data`: coordinates, offsets, then what is stored;
 * `extra`: level of detail, or derivatives along x of each coordinate and then those along y.
 */
struct ptx_context;
struct ptx_site;
void ptx_rt_tex(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *handles, const uint32_t *data,
		const uint32_t *extra, uint32_t *out, uint32_t thread);

/* One instruction of some lanes of a warp that use the same object. */
struct ptx_texture;
struct ptx_tex_call {
	struct ptx_context *ctx;
	const struct ptx_site *site;
	const struct ptx_tex *op;
	uint32_t mask, thread;
	const uint32_t *data, *extra;
	uint32_t *out;
};

/* Surface accesses: ptx-surf.c. They fault where a lane is out of bounds and the instruction says .trap. */
void ptx_surface_run(const struct ptx_tex_call *call, const struct ptx_texture *surface);

/* The lanes of `mask`, lowest first. */
#define PTX_EACH_LANE(lane, mask)                                                                                      \
	for (uint32_t left_ = (mask), lane; left_ && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

/* ---- objects ---- */

#define PTX_TEXTURE_LEVELS 17

enum ptx_format {
	PTX_FORMAT_U8,
	PTX_FORMAT_U16,
	PTX_FORMAT_U32,
	PTX_FORMAT_S8,
	PTX_FORMAT_S16,
	PTX_FORMAT_S32,
	PTX_FORMAT_F16,
	PTX_FORMAT_F32,
};

/* Numbered as CUaddress_mode. */
enum ptx_address_mode { PTX_WRAP, PTX_CLAMP, PTX_MIRROR, PTX_BORDER };

union ptx_texel {
	uint32_t u[4];
	float f[4];
};

struct ptx_texture;
struct ptx_tex_call;
typedef void (*ptx_decode)(const uint8_t *at, union ptx_texel *texel);
typedef void (*ptx_fetch)(const struct ptx_tex_call *call, const struct ptx_texture *texture);

/* One level of a mipmapped array, or all there is. Sizes are in texels and at least 1; slices are layers, faces or depth. */
struct ptx_level {
	uint8_t *data;
	uint32_t width, height, slices;
	uint64_t pitch, slice_bytes;
};

/* A texture or surface object. Immutable while any kernel may use it. */
struct ptx_texture {
	uint64_t handle;
	bool surface;
	bool linear_memory;   /* one-dimensional, no array: out of bounds is 0 */
	bool volume;          /* slices are depth */
	bool row;             /* an array of one dimension: machine code fetches as from two, of which the second is 0 */
	uint8_t format, channels;
	uint8_t texel_bytes;
	uint8_t address[3];
	bool normalized_coords, filter, filter_levels;
	bool as_float; /* texels are floats: 8- and 16-bit ones normalised, or the format's own */
	bool srgb;
	float bias, least, most; /* of the level of detail */
	union ptx_texel border;
	ptx_decode decode;
	/* for tex.2d and tex.3d with float coordinates and nothing else; NULL: none made for this format */
	ptx_fetch fetch_2d, fetch_3d;
	uint32_t levels;
	struct ptx_level level[PTX_TEXTURE_LEVELS];
};

/* Sets `decode` and what is missing of the border's colour; false: there is no such format. */
bool ptx_texture_prepare(struct ptx_texture *texture);

#define PTX_HANDLE_INDEX 20 /* bits of a handle that are the index in the table, plus 1; the rest changes */

struct ptx_texture_table {
	size_t count;
	const struct ptx_texture *const *entries; /* NULL: nothing there, or its memory is gone */
};

#endif

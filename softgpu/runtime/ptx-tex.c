/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture fetches for the lanes of a warp. A coordinate becomes one texel's index on each axis, or two and a weight of
 * 8 bits of fraction; the addressing mode is applied to the indices. For any coordinates, only texels
 * of the texture are read. Anisotropic filtering and the bits that choose how fast to filter have no effect.
 */
#include <math.h>

#include "runtime/ptx-run.h"
#include "runtime/ptx-texel.h"

#define INLINE static inline __attribute__((always_inline))

struct axis {
	int64_t first, second; /* indices, or -1: the border */
	float weight;          /* of the second */
};

struct position {
	float c[3]; /* or, of integer coordinates: */
	int32_t i[3];
	int32_t offset[3];
	uint32_t slice; /* layer and face */
};

/* floorf() is a call on processors that lack its instruction. */
INLINE float floor_of(float x)
{
	float whole = x;

	if (x > -8388608.0f && x < 8388608.0f) {
		whole = (float)(int32_t)x;
		whole -= whole > x;
	}
	return whole;
}

INLINE int64_t wrap_index(int64_t i, int64_t n, unsigned mode)
{
	if ((uint64_t)i < (uint64_t)n)
		return i;
	switch (mode) {
	case PTX_WRAP:
		i %= n;
		return i < 0 ? i + n : i;
	case PTX_MIRROR:
		i %= 2 * n;
		i = i < 0 ? i + 2 * n : i;
		return i < n ? i : 2 * n - 1 - i;
	case PTX_BORDER:
		return -1;
	default:
		return i < 0 ? 0 : n - 1;
	}
}

/* In texels. NaN counts as 0, and so does an infinity where coordinates repeat. */
INLINE float scaled(const struct ptx_texture *t, float x, uint32_t n, unsigned mode)
{
	if (t->normalized_coords) {
		if (mode == PTX_WRAP) {
			x -= floor_of(x);
		} else if (mode == PTX_MIRROR) {
			x -= 2 * floor_of(x * 0.5f);
			x = x > 1 ? 2 - x : x;
		}
		x *= (float)n;
	}
	if (x != x)
		x = 0;
	return x < -PTX_TEX_FAR ? -PTX_TEX_FAR : x > PTX_TEX_FAR ? PTX_TEX_FAR : x;
}

INLINE struct axis find_point(const struct ptx_texture *t, float x, int32_t offset, uint32_t n, unsigned mode)
{
	int64_t i = (int64_t)floor_of(scaled(t, x, n, mode)) + offset;

	return (struct axis){wrap_index(i, n, mode), -1, 0};
}

INLINE struct axis find_pair(const struct ptx_texture *t, float x, int32_t offset, uint32_t n, unsigned mode)
{
	float at = scaled(t, x, n, mode) - 0.5f, low = floor_of(at), weight = floor_of((at - low) * 256 + 0.5f) / 256;
	/* The pair that a gather reads begins behind the coordinate's rounding. */
	int64_t i = (int64_t)low + (weight == 1) + offset;

	return (struct axis){wrap_index(i, n, mode), wrap_index(i + 1, n, mode), weight == 1 ? 0 : weight};
}

INLINE void read_texel(const struct ptx_texture *t, const struct ptx_level *l, int64_t x, int64_t y, int64_t slice,
		       union ptx_texel *to, ptx_decode decode)
{
	if ((x | y | slice) < 0)
		*to = t->border;
	else
		decode(l->data + (uint64_t)slice * l->slice_bytes + (uint64_t)y * l->pitch +
			       (uint64_t)x * t->texel_bytes,
		       to);
}

INLINE void add_texel(union ptx_texel *sum, const union ptx_texel *texel, float weight)
{
	for (unsigned c = 0; c < 4; c++)
		sum->f[c] += weight * texel->f[c];
}

/* Filtered over as many axes as are given; those that are not have one index. */
INLINE void filter(const struct ptx_texture *t, const struct ptx_level *l, const struct axis *a, unsigned dims,
		   union ptx_texel *to, ptx_decode decode)
{
	union ptx_texel sum = {0}, texel;

	for (unsigned corner = 0; corner < 1u << dims; corner++) {
		int64_t at[3];
		float weight = 1;

		for (unsigned d = 0; d < 3; d++) {
			bool second = corner >> d & 1;

			at[d] = second ? a[d].second : a[d].first;
			if (d < dims)
				weight *= second ? a[d].weight : 1 - a[d].weight;
		}
		/* so that an infinity in a neighbouring texel does no harm */
		if (weight == 0)
			continue;
		read_texel(t, l, at[0], at[1], at[2], &texel, decode);
		add_texel(&sum, &texel, weight);
	}
	*to = sum;
}

static uint32_t axis_size(const struct ptx_level *l, unsigned d)
{
	return d == 0 ? l->width : d == 1 ? l->height : l->slices;
}

static struct axis fixed_axis(const struct ptx_level *l, unsigned d, const struct position *p)
{
	/* a height that the instruction does not look at, or the slice */
	return (struct axis){d == 2 ? (p->slice < l->slices ? p->slice : l->slices - 1) : 0, -1, 0};
}

INLINE void find_axes(const struct ptx_texture *t, const struct ptx_level *l, unsigned dims, const struct position *p,
		      struct axis a[3])
{
	for (unsigned d = 0; d < 3; d++) {
		uint32_t n = axis_size(l, d);

		if (d >= dims)
			a[d] = fixed_axis(l, d, p);
		else if (t->filter)
			a[d] = find_pair(t, p->c[d], p->offset[d], n, t->address[d]);
		else
			a[d] = find_point(t, p->c[d], p->offset[d], n, t->address[d]);
	}
}

static void sample_level(const struct ptx_texture *t, uint32_t level, unsigned dims, const struct position *p,
			 union ptx_texel *to)
{
	const struct ptx_level *l = &t->level[level];
	struct axis a[3];

	find_axes(t, l, dims, p, a);
	if (t->filter)
		filter(t, l, a, dims, to, t->decode);
	else
		read_texel(t, l, a[0].first, a[1].first, a[2].first, to, t->decode);
}

/* NaN counts as 0. */
static uint32_t whole_level(const struct ptx_texture *t, float lod)
{
	return !(lod > 0) ? 0 : lod >= (float)(t->levels - 1) ? t->levels - 1 : (uint32_t)lod;
}

/* ---- integers ---- */

/* The weight of the second texel, in 256ths. */
INLINE int64_t whole_weight(float weight)
{
	return (int64_t)(weight * 256);
}

INLINE int64_t corner_weight(const struct axis a[3], unsigned corner)
{
	int64_t product = 1;

	for (unsigned d = 0; d < 3; d++)
		product *= corner >> d & 1 ? whole_weight(a[d].weight) : 256 - whole_weight(a[d].weight);
	return product;
}

/* With 24 bits of fraction. */
static void sum_level(const struct ptx_texture *t, uint32_t level, unsigned dims, const struct position *p,
		      int64_t sum[4])
{
	const struct ptx_level *l = &t->level[level];
	union ptx_texel texel;
	struct axis a[3];

	find_axes(t, l, dims, p, a);
	for (unsigned corner = 0; corner < 8; corner++) {
		int64_t weight = corner_weight(a, corner);

		if (!weight)
			continue;
		read_texel(t, l, corner & 1 ? a[0].second : a[0].first, corner & 2 ? a[1].second : a[1].first,
			   corner & 4 ? a[2].second : a[2].first, &texel, t->decode);
		for (unsigned c = 0; c < 4; c++)
			sum[c] += weight * (t->format == PTX_FORMAT_U32 ? (int64_t)texel.u[c] : (int32_t)texel.u[c]);
	}
}

/*
 * As an H200 does (test/local/arrays.c): texels of 8 and 16 bits are rounded to the nearest number, up in the middle,
 * and those of 32 bits down. The GPU also rounds the products of weights to 8 bits.
 */
static void sample_integers(const struct ptx_texture *t, uint32_t level, float weight, unsigned dims,
			    const struct position *p, union ptx_texel *to)
{
	int64_t half = t->format == PTX_FORMAT_U32 || t->format == PTX_FORMAT_S32 ? 0 : 1ll << 31;
	int64_t sum[4] = {0}, next[4] = {0};

	sum_level(t, level, dims, p, sum);
	if (weight > 0)
		sum_level(t, level + 1, dims, p, next);
	for (unsigned c = 0; c < 4; c++) {
		__int128 all =
			(__int128)sum[c] * (256 - whole_weight(weight)) + (__int128)next[c] * whole_weight(weight);

		to->u[c] = (uint32_t)((all + half) >> 32);
	}
}

/* ---- levels ---- */

/* The level of detail, and how much the next one counts. */
static float find_levels(const struct ptx_texture *t, float lod, uint32_t *level)
{
	lod += t->bias;
	lod = lod > t->least ? lod : t->least; /* NaN becomes the least */
	lod = lod < t->most ? lod : t->most;
	*level = whole_level(t, t->filter_levels ? lod : floor_of(lod + 0.5f));
	if (!t->filter_levels || !(lod > 0) || *level == t->levels - 1)
		return 0;
	return floor_of((lod - (float)*level) * 256 + 0.5f) / 256;
}

static void sample(const struct ptx_texture *t, unsigned dims, const struct position *p, float lod, union ptx_texel *to)
{
	union ptx_texel next;
	uint32_t level = 0;
	float weight = t->levels == 1 ? 0 : find_levels(t, lod, &level);

	if (!t->as_float && (t->filter || t->filter_levels)) {
		sample_integers(t, level, weight, dims, p, to);
		return;
	}
	sample_level(t, level, dims, p, to);
	if (weight == 0)
		return;
	sample_level(t, level + 1, dims, p, &next);
	for (unsigned c = 0; c < 4; c++)
		to->f[c] = (1 - weight) * to->f[c] + weight * next.f[c];
}

/* ---- coordinates ---- */

static float as_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* A direction to the coordinates on the face that it meets first; returns the face: +x -x +y -y +z -z. */
static uint32_t find_face(float c[3])
{
	float x = c[0], y = c[1], z = c[2], ax = fabsf(x), ay = fabsf(y), az = fabsf(z), m, s, t;
	uint32_t face;

	if (ax >= ay && ax >= az) {
		face = x < 0;
		m = ax;
		s = face ? z : -z;
		t = -y;
	} else if (ay >= az) {
		face = 2 + (y < 0);
		m = ay;
		s = x;
		t = face == 2 ? z : -z;
	} else {
		face = 4 + (z < 0);
		m = az;
		s = face == 4 ? x : -x;
		t = -y;
	}
	c[0] = m > 0 ? (s / m + 1) / 2 : 0.5f;
	c[1] = m > 0 ? (t / m + 1) / 2 : 0.5f;
	return face;
}

static void read_position(const struct ptx_tex_call *call, const struct ptx_texture *t, uint32_t lane,
			  struct position *p)
{
	unsigned geometry = call->op->geometry, dims = ptx_geometry_dims(geometry), at = 0;
	bool cube = geometry == PTX_GEOMETRY_CUBE || geometry == PTX_GEOMETRY_ACUBE;
	uint32_t layers = t->level[0].slices / (cube ? 6 : 1), layer = 0;

	*p = (struct position){.slice = 0};
	if (ptx_geometry_layered(geometry)) {
		layer = call->data[at++ * 32 + lane];
		layer = layer < layers ? layer : layers ? layers - 1 : 0;
	}
	for (unsigned d = 0; d < dims; d++) {
		uint32_t bits = call->data[at++ * 32 + lane];

		if (call->op->float_coords)
			p->c[d] = as_float(bits);
		else
			p->i[d] = (int32_t)bits;
	}
	for (unsigned d = 0; d < dims && call->op->offsets; d++)
		p->offset[d] = (int32_t)call->data[at++ * 32 + lane];
	p->slice = cube ? layer * 6 + find_face(p->c) : layer;
}

/* From the derivatives of the coordinates: how many texels of the base level lie between neighbours. */
static float lod_of(const struct ptx_tex_call *call, const struct ptx_texture *t, uint32_t lane)
{
	unsigned dims = ptx_geometry_dims(call->op->geometry);
	float longest = 0;

	if (call->op->lod == PTX_LOD_BASE)
		return 0;
	if (call->op->lod == PTX_LOD_LEVEL)
		return call->op->float_coords ? as_float(call->extra[lane]) : (float)(int32_t)call->extra[lane];
	for (unsigned k = 0; k < 2; k++) {
		float sum = 0;

		for (unsigned d = 0; d < dims; d++) {
			float step = as_float(call->extra[(k * dims + d) * 32 + lane]);

			if (t->normalized_coords)
				step *= (float)axis_size(&t->level[0], d);
			sum += step * step;
		}
		longest = sum > longest ? sum : longest;
	}
	return longest > 0 ? 0.5f * log2f(longest) : -PTX_TEX_FAR;
}

/* ---- fetches ---- */

/* By the texel's number. In linear memory there is nothing, which is 0, beyond the end. */
static void fetch_number(const struct ptx_tex_call *call, const struct ptx_texture *t, const struct position *p,
			 uint32_t level, union ptx_texel *to)
{
	unsigned dims = ptx_geometry_dims(call->op->geometry);
	const struct ptx_level *l = &t->level[level < t->levels ? level : t->levels - 1];
	int64_t at[3];

	for (unsigned d = 0; d < 3; d++) {
		if (d >= dims) {
			at[d] = fixed_axis(l, d, p).first;
			continue;
		}
		at[d] = (int64_t)p->i[d] + p->offset[d];
		if (t->linear_memory && (uint64_t)at[d] >= axis_size(l, d)) {
			*to = (union ptx_texel){0};
			return;
		}
		at[d] = wrap_index(at[d], axis_size(l, d), t->address[d] == PTX_BORDER ? PTX_BORDER : PTX_CLAMP);
	}
	read_texel(t, l, at[0], at[1], at[2], to, t->decode);
}

static void put_texel(const struct ptx_tex_call *call, uint32_t lane, const union ptx_texel *texel)
{
	for (unsigned c = 0; c < 4; c++)
		call->out[c * 32 + lane] = texel->u[c];
}

static void fetch_any(const struct ptx_tex_call *call, const struct ptx_texture *t)
{
	unsigned geometry = call->op->geometry;
	bool cube = geometry == PTX_GEOMETRY_CUBE || geometry == PTX_GEOMETRY_ACUBE;
	unsigned dims = t->row ? 1 : cube ? 2 : ptx_geometry_dims(geometry);

	PTX_EACH_LANE(lane, call->mask)
	{
		union ptx_texel texel;
		struct position p;
		float lod;

		read_position(call, t, lane, &p);
		lod = lod_of(call, t, lane);
		if (!call->op->float_coords)
			fetch_number(call, t, &p, whole_level(t, lod), &texel);
		else
			sample(t, dims, &p, lod, &texel);
		put_texel(call, lane, &texel);
	}
}

/* The texels that a bilinear filter would use: one component of each, counter-clockwise from the lower left. */
static void gather(const struct ptx_tex_call *call, const struct ptx_texture *t)
{
	const struct ptx_level *l = &t->level[0];

	PTX_EACH_LANE(lane, call->mask)
	{
		struct position p;
		struct axis x, y, slice;
		union ptx_texel texel;

		read_position(call, t, lane, &p);
		if (!call->op->float_coords)
			for (unsigned d = 0; d < 2; d++)
				p.c[d] = (float)p.i[d] + 0.5f;
		x = find_pair(t, p.c[0], p.offset[0], l->width, t->address[0]);
		y = find_pair(t, p.c[1], p.offset[1], l->height, t->address[1]);
		slice = fixed_axis(l, 2, &p);
		for (unsigned n = 0; n < 4; n++) {
			read_texel(t, l, n == 1 || n == 2 ? x.second : x.first, n < 2 ? y.second : y.first, slice.first,
				   &texel, t->decode);
			call->out[n * 32 + lane] = texel.u[call->op->detail];
		}
	}
}

bool ptx_texture_prepare(struct ptx_texture *t)
{
	bool narrow = t->format != PTX_FORMAT_U32 && t->format != PTX_FORMAT_S32 && t->format < PTX_FORMAT_F16;
	unsigned conversion = !narrow || !t->as_float                 ? PTX_AS_IT_IS
			      : t->srgb && t->format == PTX_FORMAT_U8 ? PTX_SRGB
								      : PTX_NORMALISED;

	t->decode = ptx_decode_find(t->format, t->channels, conversion);
	t->fetch_2d = t->row ? NULL : ptx_fetch_find(t, conversion, 2);
	t->fetch_3d = ptx_fetch_find(t, conversion, 3);
	/* the border lacks the channels that the format lacks */
	for (unsigned c = t->channels; c < 4; c++)
		if (t->as_float)
			t->border.f[c] = c == 3;
		else
			t->border.u[c] = c == 3;
	/* beyond the edges of a texture without normalised coordinates nothing repeats */
	for (unsigned d = 0; d < 3; d++)
		if (!t->normalized_coords && t->address[d] != PTX_BORDER)
			t->address[d] = PTX_CLAMP;
	return t->decode;
}

/* ---- queries ---- */

static uint32_t query(const struct ptx_tex_call *call, const struct ptx_texture *t, uint32_t lane)
{
	uint32_t level = call->op->query_level ? call->extra[lane] : 0;
	const struct ptx_level *l = &t->level[level < t->levels ? level : t->levels - 1];

	switch (call->op->detail) {
	case PTX_QUERY_WIDTH:
		return l->width;
	case PTX_QUERY_HEIGHT:
		return l->height;
	case PTX_QUERY_DEPTH:
		return t->volume ? l->slices : 1;
	case PTX_QUERY_ARRAY_SIZE:
		return t->volume ? 1 : l->slices;
	case PTX_QUERY_LEVELS:
		return t->levels;
	default:
		return t->normalized_coords;
	}
}

static void run(const struct ptx_tex_call *call, const struct ptx_texture *t)
{
	const struct ptx_tex *op = call->op;
	ptx_fetch fetch = !op->float_coords || op->offsets  ? NULL
			  : op->geometry == PTX_GEOMETRY_2D ? t->fetch_2d
			  : op->geometry == PTX_GEOMETRY_3D ? t->fetch_3d
							    : NULL;

	switch (op->operation) {
	case PTX_TEX_FETCH:
		(fetch ? fetch : fetch_any)(call, t);
		break;
	case PTX_TEX_GATHER:
		gather(call, t);
		break;
	case PTX_TEX_QUERY:
		PTX_EACH_LANE(lane, call->mask)
		call->out[lane] = query(call, t, lane);
		break;
	default:
		ptx_surface_run(call, t);
	}
}

static const struct ptx_texture *look_up(const struct ptx_context *ctx, uint64_t handle)
{
	const struct ptx_texture_table *table = ctx->launch->textures;
	uint64_t index = handle & ((1u << PTX_HANDLE_INDEX) - 1);
	const struct ptx_texture *t;

	if (!table || !index || index > table->count)
		return NULL;
	t = table->entries[index - 1];
	return t && t->handle == handle ? t : NULL;
}

static void is_type(const struct ptx_tex_call *call, const uint64_t *handles)
{
	PTX_EACH_LANE(lane, call->mask)
	{
		const struct ptx_texture *t = look_up(call->ctx, handles[lane]);

		call->out[lane] = t && call->op->detail == (t->surface ? PTX_OPAQUE_SURFACE : PTX_OPAQUE_TEXTURE);
	}
}

void ptx_rt_tex(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *handles, const uint32_t *data,
		const uint32_t *extra, uint32_t *out, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	struct ptx_tex_call call = {ctx, site, &site->tex, mask, thread, data, extra, out};

	if (site->tex.operation == PTX_IS_TYPE) {
		is_type(&call, handles);
		return;
	}
	/* most often all lanes name the same object */
	for (uint32_t left = mask; left; left &= ~call.mask) {
		uint32_t first = (uint32_t)__builtin_ctz(left);
		const struct ptx_texture *t = look_up(ctx, handles[first]);

		if (!t || t->surface != site->tex.surface) {
			struct ptx_site report = *site;

			report.space = site->tex.surface ? PTX_SURFACE : PTX_TEXTURE;
			ptx_fault_at(ctx, &report, PTX_FAULT_ILLEGAL_ADDRESS, handles[first], thread + first);
		}
		call.mask = 0;
		PTX_EACH_LANE(lane, left)
		call.mask |= (uint32_t)(handles[lane] == handles[first]) << lane;
		run(&call, t);
	}
}

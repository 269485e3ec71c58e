/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fetches that programs use most, four lanes at a time and with the format compiled in: two or three float
 * coordinates, one level, no offsets. The results equal those of ptx-tex.c bit for bit. Unrequested lanes are computed
 * like the others, since any coordinates lead to a texel, and dropped.
 */
#include "runtime/ptx-texel.h"

#define INLINE static inline __attribute__((always_inline))
#define WIDE 4

typedef float wide_float __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t wide_int __attribute__((vector_size(WIDE * sizeof(int32_t))));

/* On one axis: the texel, or the two between which to filter, and how much of each. */
struct wide_axis {
	wide_int index[2]; /* -1: the border */
	wide_float weight[2];
};

INLINE wide_float choose(wide_int which, wide_float yes, wide_float no)
{
	return (wide_float)((which & (wide_int)yes) | (~which & (wide_int)no));
}

INLINE wide_int choose_int(wide_int which, wide_int yes, wide_int no)
{
	return (which & yes) | (~which & no);
}

INLINE bool any(wide_int which)
{
	uint64_t halves[2];

	memcpy(halves, &which, sizeof(halves));
	return halves[0] | halves[1];
}

/* For numbers that a 32-bit integer can hold. */
INLINE wide_int floor_int(wide_float x)
{
	wide_int whole = __builtin_convertvector(x, wide_int);

	return whole + (__builtin_convertvector(whole, wide_float) > x);
}

/* Floats from 2^23 on are whole. */
INLINE wide_float floor_of(wide_float x)
{
	wide_int small = (x > -8388608.0f) & (x < 8388608.0f);
	wide_float inside = (wide_float)((wide_int)x & small);

	return choose(small, __builtin_convertvector(floor_int(inside), wide_float), x);
}

/* In texels. NaN counts as 0, and so does an infinity where coordinates repeat. */
INLINE wide_float scaled(wide_float x, bool normalized, float n, unsigned mode)
{
	if (normalized) {
		if (mode == PTX_WRAP) {
			x -= floor_of(x);
		} else if (mode == PTX_MIRROR) {
			x -= 2 * floor_of(x * 0.5f);
			x = choose(x > 1, 2 - x, x);
		}
		x *= n;
	}
	x = (wide_float)((wide_int)x & (x == x));
	x = choose(x > -PTX_TEX_FAR, x, (wide_float){} - PTX_TEX_FAR);
	return choose(x < PTX_TEX_FAR, x, (wide_float){} + PTX_TEX_FAR);
}

/* Where coordinates wrap or mirror, `scaled` has left at most one texel beyond each edge. */
INLINE wide_int wrap(wide_int i, int32_t n, unsigned mode)
{
	wide_int below = i < 0, above = i >= n;

	switch (mode) {
	case PTX_WRAP:
		return i + (below & n) - (above & n);
	case PTX_BORDER:
		return i | below | above;
	default:
		return choose_int(above, (wide_int){} + (n - 1), i & ~below);
	}
}

INLINE void find_mode(const uint32_t *coords, const struct ptx_texture *t, uint32_t n, unsigned mode, bool linear,
		      struct wide_axis *to)
{
	for (uint32_t lane = 0; lane < 32; lane += WIDE, to++) {
		wide_float x, at;
		wide_int low;

		memcpy(&x, coords + lane, sizeof(x));
		at = scaled(x, t->normalized_coords, (float)n, mode) - (linear ? 0.5f : 0);
		low = floor_int(at);
		to->index[0] = wrap(low, (int32_t)n, mode);
		if (!linear)
			continue;
		to->index[1] = wrap(low + 1, (int32_t)n, mode);
		at = (at - __builtin_convertvector(low, wide_float)) * 256 + 0.5f;
		to->weight[1] = __builtin_convertvector(floor_int(at), wide_float) / 256;
		to->weight[0] = 1 - to->weight[1];
	}
}

INLINE void find(const uint32_t *coords, const struct ptx_texture *t, uint32_t n, unsigned mode, bool linear,
		 struct wide_axis *to)
{
	switch (mode) {
	case PTX_WRAP:
		return find_mode(coords, t, n, PTX_WRAP, linear, to);
	case PTX_MIRROR:
		return find_mode(coords, t, n, PTX_MIRROR, linear, to);
	case PTX_BORDER:
		return find_mode(coords, t, n, PTX_BORDER, linear, to);
	default:
		return find_mode(coords, t, n, PTX_CLAMP, linear, to);
	}
}

/* For all lanes, unrequested ones too. Not inlined: each format would have its own copy. */
static __attribute__((noinline)) void find_texel(const uint32_t *coords, const struct ptx_texture *t, uint32_t n,
						 unsigned mode, struct wide_axis *to)
{
	find(coords, t, n, mode, false, to);
}

static __attribute__((noinline)) void find_two_texels(const uint32_t *coords, const struct ptx_texture *t, uint32_t n,
						      unsigned mode, struct wide_axis *to)
{
	find(coords, t, n, mode, true, to);
}

/* A texel for each lane: to[c] is component c of all. */
INLINE void read_texels(const struct ptx_texture *t, unsigned dims, const wide_int *at, wide_float *to,
			ptx_decode decode, unsigned texel_bytes)
{
	const struct ptx_level *l = &t->level[0];
	union ptx_texel texels[WIDE];
	int32_t x[WIDE], y[WIDE], z[WIDE] = {0};

	memcpy(x, &at[0], sizeof(x));
	memcpy(y, &at[1], sizeof(y));
	if (dims == 3)
		memcpy(z, &at[2], sizeof(z));
#pragma GCC unroll 4
	for (unsigned n = 0; n < WIDE; n++) {
		if (__builtin_expect((x[n] | y[n] | z[n]) < 0, 0))
			texels[n] = t->border;
		else
			decode(l->data + (dims == 3 ? (uint64_t)(uint32_t)z[n] * l->slice_bytes : 0) +
				       (uint64_t)(uint32_t)y[n] * l->pitch + (uint64_t)(uint32_t)x[n] * texel_bytes,
			       &texels[n]);
	}
#pragma GCC unroll 4
	for (unsigned c = 0; c < 4; c++)
		to[c] = (wide_float){texels[0].f[c], texels[1].f[c], texels[2].f[c], texels[3].f[c]};
}

/* Components that the format lacks come from any texel. */
INLINE void filter(const struct ptx_texture *t, unsigned dims, const struct wide_axis *const *a, wide_float *to,
		   unsigned channels, ptx_decode decode, unsigned texel_bytes)
{
	wide_float texels[4];

	/* eight copies of the rest would take compilers minutes under sanitizers */
#pragma GCC unroll 1
	for (unsigned corner = 0; corner < 1u << dims; corner++) {
		wide_float weight = a[0]->weight[corner & 1] * a[1]->weight[corner >> 1 & 1];
		wide_int at[3] = {a[0]->index[corner & 1], a[1]->index[corner >> 1 & 1]};

		if (dims == 3) {
			weight *= a[2]->weight[corner >> 2 & 1];
			at[2] = a[2]->index[corner >> 2 & 1];
		}
		/* often the lanes' coordinates are those of texels on an axis */
		if (corner && !any(weight != 0))
			continue;
		read_texels(t, dims, at, texels, decode, texel_bytes);
#pragma GCC unroll 4
		for (unsigned c = 0; c < 4; c++) {
			/* so that an infinity in a neighbouring texel does no harm */
			wide_float part = (wide_float)((wide_int)(weight * texels[c]) & (weight != 0));

			if (corner == 0)
				to[c] = c < channels ? 0 + part : texels[c];
			else if (c < channels)
				to[c] += part;
		}
	}
}

INLINE void put(const struct ptx_tex_call *call, uint32_t lane, const wide_float *from)
{
	uint32_t mask = call->mask >> lane & ((1u << WIDE) - 1);

	for (unsigned c = 0; c < 4; c++) {
		uint32_t *to = call->out + c * 32 + lane;
		uint32_t values[WIDE];

		memcpy(values, &from[c], sizeof(values));
		if (mask == (1u << WIDE) - 1)
			memcpy(to, values, sizeof(values));
		else
			for (unsigned n = 0; n < WIDE; n++)
				to[n] = mask >> n & 1 ? values[n] : to[n];
	}
}

INLINE void fetch(const struct ptx_tex_call *call, const struct ptx_texture *t, unsigned dims, bool linear,
		  unsigned channels, ptx_decode decode, unsigned texel_bytes)
{
	const struct ptx_level *l = &t->level[0];
	const uint32_t size[3] = {l->width, l->height, l->slices};
	struct wide_axis axes[3][32 / WIDE];

	for (unsigned d = 0; d < dims; d++)
		(linear ? find_two_texels : find_texel)(call->data + d * 32, t, size[d], t->address[d], axes[d]);
	for (uint32_t lane = 0; lane < 32; lane += WIDE) {
		const struct wide_axis *a[3] = {&axes[0][lane / WIDE], &axes[1][lane / WIDE], &axes[2][lane / WIDE]};
		wide_float texels[4];

		if (!(call->mask >> lane & ((1u << WIDE) - 1)))
			continue;
		if (linear) {
			filter(t, dims, a, texels, channels, decode, texel_bytes);
		} else {
			wide_int at[3] = {a[0]->index[0], a[1]->index[0]};

			if (dims == 3)
				at[2] = a[2]->index[0];
			read_texels(t, dims, at, texels, decode, texel_bytes);
		}
		put(call, lane, texels);
	}
}

#define NAME(how, format, channels, conversion) how##_##format##_##channels##_##conversion

#define FETCH(how, dims, linear, format, channels, conversion)                                                         \
	static void NAME(how, format, channels, conversion)(const struct ptx_tex_call *call,                           \
							    const struct ptx_texture *t)                               \
	{                                                                                                              \
		fetch(call, t, dims, linear, channels, NAME(decode, format, channels, conversion),                     \
		      ptx_format_bytes(PTX_FORMAT_##format) * (channels));                                             \
	}

#define FETCHES(format, channels, conversion)                                                                          \
	INLINE void NAME(decode, format, channels, conversion)(const uint8_t *at, union ptx_texel *t)                  \
	{                                                                                                              \
		ptx_decode_texel(at, t, PTX_FORMAT_##format, channels, PTX_##conversion);                              \
	}                                                                                                              \
	FETCH(point_2d, 2, false, format, channels, conversion)                                                        \
	FETCH(linear_2d, 2, true, format, channels, conversion)                                                        \
	FETCH(point_3d, 3, false, format, channels, conversion)                                                        \
	FETCH(linear_3d, 3, true, format, channels, conversion)

/* The formats that programs use most. */
#define COMMON_FORMATS(X)                                                                                              \
	X(F32, 1, AS_IT_IS) X(F32, 2, AS_IT_IS) X(F32, 4, AS_IT_IS) X(U8, 1, NORMALISED) X(U8, 2, NORMALISED)         \
	X(U8, 4, NORMALISED) X(U8, 1, AS_IT_IS) X(U8, 4, AS_IT_IS) X(U16, 1, NORMALISED) X(S32, 1, AS_IT_IS)

COMMON_FORMATS(FETCHES)

static const struct {
	uint8_t format, channels, conversion;
	ptx_fetch fetch[2][2]; /* [3 dimensions][filtered] */
} common[] = {
#define ROW(format, channels, conversion)                                                                              \
	{PTX_FORMAT_##format,                                                                                          \
	 channels,                                                                                                     \
	 PTX_##conversion,                                                                                             \
	 {{NAME(point_2d, format, channels, conversion), NAME(linear_2d, format, channels, conversion)},               \
	  {NAME(point_3d, format, channels, conversion), NAME(linear_3d, format, channels, conversion)}}},
	COMMON_FORMATS(ROW)
#undef ROW
};

ptx_fetch ptx_fetch_find(const struct ptx_texture *t, unsigned conversion, unsigned dims)
{
	/* Filtered integers are rounded. */
	if (t->filter && !t->as_float)
		return NULL;
	for (size_t n = 0; n < sizeof(common) / sizeof(common[0]) && t->levels == 1; n++)
		if (common[n].format == t->format && common[n].channels == t->channels &&
		    common[n].conversion == conversion)
			return common[n].fetch[dims == 3][t->filter];
	return NULL;
}

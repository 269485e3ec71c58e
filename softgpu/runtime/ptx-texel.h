/* SPDX-License-Identifier: Apache-2.0 */
/* Texels in memory to what a fetch gives. Written so that the format is known where it is compiled. */
#ifndef VCUDA_BACKEND_CPU_PTX_TEXEL_H
#define VCUDA_BACKEND_CPU_PTX_TEXEL_H

#include <string.h>

#include "runtime/ptx-tex.h"

enum ptx_conversion { PTX_AS_IT_IS, PTX_NORMALISED, PTX_SRGB };

extern const float ptx_srgb_table[256];

static inline __attribute__((always_inline)) float ptx_normalise(int64_t value, int64_t most)
{
	float f = (float)value / (float)most;

	return f < -1.0f ? -1.0f : f;
}

#define PTX_READ(type, value)                                                                                          \
	type value;                                                                                                    \
	memcpy(&value, at, sizeof(value))

static inline __attribute__((always_inline)) void ptx_decode_channel(const uint8_t *at, union ptx_texel *t, unsigned c,
								     unsigned format, unsigned conversion)
{
	bool norm = conversion != PTX_AS_IT_IS;

	switch (format) {
	case PTX_FORMAT_U8:
		if (conversion == PTX_SRGB && c < 3)
			t->f[c] = ptx_srgb_table[*at];
		else if (norm)
			t->f[c] = ptx_normalise(*at, 255);
		else
			t->u[c] = *at;
		break;
	case PTX_FORMAT_S8:
		if (norm)
			t->f[c] = ptx_normalise((int8_t)*at, 127);
		else
			t->u[c] = (uint32_t)(int8_t)*at;
		break;
	case PTX_FORMAT_U16: {
		PTX_READ(uint16_t, v);
		if (norm)
			t->f[c] = ptx_normalise(v, 65535);
		else
			t->u[c] = v;
		break;
	}
	case PTX_FORMAT_S16: {
		PTX_READ(int16_t, v);
		if (norm)
			t->f[c] = ptx_normalise(v, 32767);
		else
			t->u[c] = (uint32_t)v;
		break;
	}
	case PTX_FORMAT_F16: {
		PTX_READ(_Float16, v);
		t->f[c] = (float)v;
		break;
	}
	default: {
		PTX_READ(uint32_t, v);
		t->u[c] = v;
	}
	}
}

static inline unsigned ptx_format_bytes(unsigned format)
{
	static const uint8_t bytes[] = {1, 2, 4, 1, 2, 4, 2, 4};

	return bytes[format];
}

/* Channels that are not there: 0, and 1 for the last. */
static inline __attribute__((always_inline)) void ptx_decode_texel(const uint8_t *at, union ptx_texel *t,
								   unsigned format, unsigned channels,
								   unsigned conversion)
{
	bool floats = conversion != PTX_AS_IT_IS || format >= PTX_FORMAT_F16;

	for (unsigned c = 0; c < 4; c++)
		if (c < channels)
			ptx_decode_channel(at + c * ptx_format_bytes(format), t, c, format, conversion);
		else if (floats)
			t->f[c] = c == 3 ? 1.0f : 0.0f;
		else
			t->u[c] = c == 3;
}

/* The decoder of a texture's format; NULL: there is none. */
ptx_decode ptx_decode_find(unsigned format, unsigned channels, unsigned conversion);

/* Further out than any texture's edge, and exact as a float. */
#define PTX_TEX_FAR 4194304.0f

/* The quick way to fetch from this texture with so many coordinates; NULL: there is none. */
ptx_fetch ptx_fetch_find(const struct ptx_texture *texture, unsigned conversion, unsigned dims);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Texture instructions. Expectations are computed here from the formulas of the CUDA programming guide. */
#include "softgpu/test/test-ptx-tex.h"

static double T(int x, int y, unsigned mode, int w, int h)
{
	int *at[2] = {&x, &y}, n[2] = {w, h};

	for (int d = 0; d < 2; d++) {
		if (mode == PTX_WRAP)
			*at[d] = ((*at[d] % n[d]) + n[d]) % n[d];
		else if (mode == PTX_MIRROR) {
			*at[d] = ((*at[d] % (2 * n[d])) + 2 * n[d]) % (2 * n[d]);
			*at[d] = *at[d] < n[d] ? *at[d] : 2 * n[d] - 1 - *at[d];
		} else if (mode == PTX_BORDER && (*at[d] < 0 || *at[d] >= n[d]))
			return 77;
		else
			*at[d] = *at[d] < 0 ? 0 : *at[d] >= n[d] ? n[d] - 1 : *at[d];
	}
	return y * w + x;
}

static double linear_2d(double x, double y, unsigned mode, int w, int h)
{
	double xb = x - 0.5, yb = y - 0.5, a = floor((xb - floor(xb)) * 256 + 0.5) / 256;
	double b = floor((yb - floor(yb)) * 256 + 0.5) / 256;
	int i = (int)floor(xb), j = (int)floor(yb);

	return (1 - a) * (1 - b) * T(i, j, mode, w, h) + a * (1 - b) * T(i + 1, j, mode, w, h) +
	       (1 - a) * b * T(i, j + 1, mode, w, h) + a * b * T(i + 1, j + 1, mode, w, h);
}

static const char *const tex_2d = KERNEL("tex.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}];\n");

/* Infinities, NaN and what overflows give some texel of the texture, the same in each of the two ways to fetch. */
static void far_away(void **state)
{
	static const uint32_t far[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff,
				       0x7f7fffff, 0xff7fffff, 0x4b800001, 0xcb000001};

	(void)state;
	for (unsigned mode = PTX_WRAP; mode <= PTX_BORDER; mode++)
		for (int linear = 0; linear < 2; linear++) {
			uint32_t first[LANES];

			for (int generic = 0; generic < 2; generic++) {
				make(8, 4, 1);
				texture.normalized_coords = true;
				texture.filter = linear;
				texture.address[0] = texture.address[1] = (uint8_t)mode;
				texture.border.f[0] = 77;
				for (unsigned n = 0; n < LANES; n++) {
					put(n, 0, 0.5f, 0, 0);
					in[n][n / 8 & 1] = far[n % 8];
				}
				run(generic ? KERNEL("tex.level.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n")
					    : tex_2d);
				for (unsigned n = 0; n < LANES; n++) {
					assert_true(f32(out[n][0]) >= 0 && f32(out[n][0]) <= 77);
					if (mode != PTX_BORDER)
						assert_true(f32(out[n][0]) < 32);
					/* infinities of what repeats, and NaN, count as 0 */
					if ((mode == PTX_WRAP || mode == PTX_MIRROR) && !linear && n < 4)
						assert_int_equal(f32(out[n][0]), 16);
					if (generic)
						assert_int_equal(out[n][0], first[n]);
					first[n] = out[n][0];
				}
			}
		}
}

/* A level that is no number is the first, and so is one between clamps that are none. */
static void levels_that_are_none(void **state)
{
	static const uint32_t nan[] = {0x7fc00000, 0xffc00000};

	(void)state;
	for (int linear = 0; linear < 2; linear++)
		for (int clamps = 0; clamps < 2; clamps++) {
			make(8, 4, 1);
			texture.normalized_coords = true;
			texture.filter_levels = linear;
			texture.levels = 2;
			texture.level[1] = level_of(texels + 32, 4, 2, 1, 4);
			texels[32] = 1000;
			if (clamps)
				texture.least = texture.most = f32(nan[0]);
			for (unsigned n = 0; n < LANES; n++) {
				put(n, 0, 0, 0, 0);
				in[n][2] = clamps ? 0x3f800000 : nan[n % 2];
			}
			run(KERNEL("tex.level.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n"));
			for (unsigned n = 0; n < LANES; n++)
				want(n, 0);
		}
}

static void addressing(void **state)
{
	(void)state;
	for (unsigned mode = PTX_WRAP; mode <= PTX_BORDER; mode++)
		for (int linear = 0; linear < 2; linear++)
			for (int generic = 0; generic < 2; generic++) {
				make(8, 4, 1);
				texture.normalized_coords = true;
				texture.filter = linear;
				texture.address[0] = texture.address[1] = (uint8_t)mode;
				texture.border.f[0] = 77;
				/* multiples of 1/128 of a texel are exact in float, whatever is done with them */
				for (unsigned n = 0; n < LANES; n++)
					put(n, ((float)n * 77 - 900) / 1024, ((float)n * 53 - 700) / 512, 0, 0);
				run(generic ? KERNEL("tex.level.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n")
					    : tex_2d);
				for (unsigned n = 0; n < LANES; n++) {
					double x = f32(in[n][0]) * 8.0, y = f32(in[n][1]) * 4.0;

					want(n, (float)(linear ? linear_2d(x, y, mode, 8, 4)
							       : T((int)floor(x), (int)floor(y), mode, 8, 4)));
				}
			}
}

static void texel_coordinates(void **state)
{
	static const float edges[] = {-1e30f, -1, -0.001f, 0, 0.5f, 0.999f, 1, 6.5f, 7.999f, 8, 1e30f, INFINITY};

	(void)state;
	make(8, 4, 1);
	/* wrapping needs normalised coordinates: without them it is clamping */
	texture.address[0] = texture.address[1] = PTX_WRAP;
	for (unsigned n = 0; n < LANES; n++)
		put(n, edges[n % 12], edges[n * 7 % 12], 0, 0);
	run(tex_2d);
	for (unsigned n = 0; n < LANES; n++) {
		double x = fmax(fmin(f32(in[n][0]), 100), -100), y = fmax(fmin(f32(in[n][1]), 100), -100);

		want(n, (float)T((int)floor(x), (int)floor(y), PTX_CLAMP, 8, 4));
	}
	put(0, NAN, NAN, 0, 0);
	run(tex_2d);
	want(0, 0);
}

static void formats(void **state)
{
	/* two texels each: the other lanes fetch wherever the coordinates of an earlier test lead them */
	static const uint8_t bytes[] = {0, 255, 128, 51, 129, 1, 2, 3};
	static const int8_t signs[] = {-128, -127, 0, 127, 1, 2, 3, 4};
	uint32_t raw;

	(void)state;
	make(2, 1, 1);
	texture.format = PTX_FORMAT_U8;
	texture.channels = texture.texel_bytes = 4;
	texture.level[0] = level_of((void *)(uintptr_t)bytes, 2, 1, 1, 4);
	put(0, 0, 0, 0, 0);
	run(tex_2d);
	want(0, 0);
	assert_true(f32(out[0][1]) == 1 && f32(out[0][3]) == 51 / 255.0f);
	texture.srgb = true;
	run(tex_2d);
	assert_true(f32(out[0][1]) == 1 && fabsf(f32(out[0][2]) - 0.2158605f) < 1e-6f && f32(out[0][3]) == 51 / 255.0f);
	texture.as_float = texture.srgb = false;
	run(KERNEL("tex.2d.v4.u32.f32 " TO ", [%t, {%f1, %f2}];\n"));
	assert_true(out[0][0] == 0 && out[0][1] == 255 && out[0][2] == 128 && out[0][3] == 51);
	texture.format = PTX_FORMAT_S8;
	texture.level[0].data = (uint8_t *)(uintptr_t)signs;
	run(KERNEL("tex.2d.v4.s32.f32 " TO ", [%t, {%f1, %f2}];\n"));
	assert_true((int32_t)out[0][0] == -128 && out[0][3] == 127);
	texture.as_float = true;
	run(tex_2d);
	assert_true(f32(out[0][0]) == -1 && f32(out[0][1]) == -1 && f32(out[0][3]) == 1);
	texture.format = PTX_FORMAT_F16;
	texture.channels = 2;
	raw = 0xc0003c00;
	texture.level[0] = level_of(&raw, 1, 1, 1, 4);
	run(tex_2d);
	assert_true(f32(out[0][0]) == 1 && f32(out[0][1]) == -2 && f32(out[0][2]) == 0 && f32(out[0][3]) == 1);
	texture.format = PTX_FORMAT_U16;
	texture.channels = 3;
	assert_false(ptx_texture_prepare(&texture));
}

/* The quick way to fetch against the general one, which instructions with offsets take: no bit differs. */
#define DIFFERENCE(dims, coords, offsets)                                                                              \
	KERNEL("tex." dims ".v4.f32.f32 " TO ", [%t, " coords "];\n"                                                   \
	       "tex." dims ".v4.f32.f32 {%r1, %r2, %r3, %r4}, [%t, " coords "], " offsets ";\n"                        \
	       "xor.b32 %o1, %o1, %r1;\nxor.b32 %o2, %o2, %r2;\nxor.b32 %o3, %o3, %r3;\nxor.b32 %o4, %o4, %r4;\n")

static void same(unsigned mode, bool filter)
{
	for (unsigned n = 0; n < LANES * 4; n++)
		if (out[n / 4][n % 4])
			fail_msg("mode %u, filter %d, lane %u, component %u: %g %g %g differ by 0x%x", mode, filter,
				 n / 4, n % 4, (double)f32(in[n / 4][0]), (double)f32(in[n / 4][1]),
				 (double)f32(in[n / 4][2]), out[n / 4][n % 4]);
}

static void compare_ways(unsigned mode, bool filter, unsigned channels, bool bytes)
{
	static const float odd[] = {NAN, 1e30f, -1e30f, 0, 1, -1, 0.99999994f, -1e-30f};

	make(16, 8, 4);
	if (bytes)
		texture.format = PTX_FORMAT_U8;
	texture.channels = (uint8_t)channels;
	texture.texel_bytes = (uint8_t)((bytes ? 1 : 4) * channels);
	texture.level[0] = level_of(texels, 16, 8, 4, texture.texel_bytes);
	texture.volume = true;
	texture.filter = filter;
	for (unsigned d = 0; d < 3; d++)
		texture.address[d] = (uint8_t)mode;
	texture.border = (union ptx_texel){.f = {1, 2, 3, 4}};
	for (unsigned scale = 1; scale <= 16; scale *= 16) {
		texture.normalized_coords = scale == 1;
		for (unsigned n = 0; n < LANES; n++)
			put(n, n < 8 ? odd[n] : ((float)n * 0.317f - 4) * (float)scale,
			    n % 8 ? ((float)n * 0.211f - 3) * (float)scale : odd[n / 8],
			    ((float)n * 0.11f - 1) * (float)scale, 0);
		run(DIFFERENCE("2d", "{%f1, %f2}", "{0, 0}"));
		same(mode, filter);
		run(DIFFERENCE("3d", "{%f1, %f2, %f3, %f3}", "{0, 0, 0, 0}"));
		same(mode, filter);
	}
}

static void quick_ways(void **state)
{
	(void)state;
	for (unsigned mode = PTX_WRAP; mode <= PTX_BORDER; mode++) {
		compare_ways(mode, true, 1, false);
		compare_ways(mode, false, 4, true);
		compare_ways(mode, true, 4, mode % 2);
	}
}

/* Some lanes of a warp fetch, and not four neighbours: the other lanes keep their values. */
static void some_lanes(void **state)
{
	(void)state;
	make(32, 1, 1);
	for (unsigned n = 0; n < LANES; n++)
		put(n, (float)n, 0, 0, 0);
	run(KERNEL(
		"mov.b32 %o1, 0fc0000000;\nand.b32 %r2, %r1, 5;\nsetp.eq.u32 %p1, %r2, 4;\n@%p1 tex.2d.v4.f32.f32 " TO
		", [%t, {%f1, %f2}];\n"));
	for (unsigned n = 0; n < LANES; n++)
		want(n, (n & 5) == 4 ? (float)n : -2);
}

static void linear_memory(void **state)
{
	(void)state;
	make(20, 1, 1);
	texture.linear_memory = true;
	for (unsigned n = 0; n < LANES; n++)
		in[n][0] = n - 4;
	run(KERNEL("tex.1d.v4.f32.s32 " TO ", [%t, {%i1}];\n"));
	for (unsigned n = 0; n < LANES; n++)
		want(n, n >= 4 && n < 24 ? (float)(n - 4) : 0);
	/* a divergent guard: the others must not look */
	run(KERNEL("setp.lt.s32 %p1, %i1, 4;\n@%p1 tex.1d.v4.f32.s32 " TO ", [%t, {%i1}];\n"));
	for (unsigned n = 0; n < LANES; n++)
		want(n, n >= 4 && n < 8 ? (float)(n - 4) : 0);
}

static void layers_and_volumes(void **state)
{
	(void)state;
	make(4, 2, 5);
	for (unsigned n = 0; n < LANES; n++) {
		put(n, 0, (float)(n % 5), (float)(n % 3), (float)(n % 7));
		in[n][0] = n - 2;
	}
	run(KERNEL("tex.a2d.v4.f32.f32 " TO ", [%t, {%i1, %f2, %f3, %f3}];\n"));
	for (unsigned n = 0; n < LANES; n++) {
		/* the number is unsigned */
		unsigned layer = n < 2 || n - 2 > 4 ? 4 : n - 2;

		assert_true(f32(out[n][0]) == (float)(layer * 8) + (float)T((int)n % 5, (int)n % 3, PTX_CLAMP, 4, 2));
	}
	run(KERNEL("tex.a1d.v4.f32.f32 " TO ", [%t, {%i1, %f2}];\n"));
	assert_true(f32(out[4][0]) == 16 + 3);
	texture.volume = true;
	texture.filter = true;
	put(0, 1.5f, 1.0f, 2.25f, 0);
	put(1, 2, 0.5f, 1, 0);
	run(KERNEL("tex.3d.v4.f32.f32 " TO ", [%t, {%f1, %f2, %f3, %f4}];\n"));
	assert_true(f32(out[0][0]) == 1 + 4 * 0.5f + 8 * 1.75f);
	assert_true(f32(out[1][0]) == 1.5f + 8 * 0.5f);
}

static void cubes(void **state)
{
	static const struct {
		float x, y, z;
		int texel;
	} cases[] = {
		/* face * 4 + row * 2 + column: from the guide's table of s and t */
		{1, 0.5f, 0.5f, 0},
		{1, -0.5f, -0.5f, 3},
		{-1, 0.5f, 0.5f, 4 + 1},
		{-1, -0.5f, -0.5f, 4 + 2},
		{0.5f, 1, 0.5f, 8 + 3},
		{-0.5f, 1, -0.5f, 8},
		{0.5f, -1, 0.5f, 12 + 1},
		{-0.5f, -1, -0.5f, 12 + 2},
		{0.5f, 0.5f, 1, 16 + 1},
		{-0.5f, -0.5f, 1, 16 + 2},
		{0.5f, 0.5f, -1, 20},
		{-0.5f, -0.5f, -1, 20 + 3},
		{0, 0, 0, 3},
	};

	(void)state;
	make(2, 2, 12);
	texture.normalized_coords = true;
	for (unsigned n = 0; n < 13; n++)
		put(n, cases[n].x * 3, cases[n].y * 3, cases[n].z * 3, 0);
	run(KERNEL("tex.cube.v4.f32.f32 " TO ", [%t, {%f1, %f2, %f3, %f3}];\n"));
	for (unsigned n = 0; n < 13; n++)
		want(n, (float)cases[n].texel);
	run(KERNEL("mov.u32 %i4, 1;\ntex.acube.v4.f32.f32 " TO ", [%t, {%i4, %f1, %f2, %f3}];\n"));
	for (unsigned n = 0; n < 13; n++)
		want(n, (float)cases[n].texel + 24);
}

static void levels(void **state)
{
	static const float lods[] = {-3, 0, 0.4f, 0.5f, 1, 1.25f, 1.5f, 2, 2.75f, 9};
	static const float nearest[] = {10, 10, 10, 20, 20, 20, 30, 30, 30, 30};
	static const float between[] = {10, 10, 10 + 10 * 102 / 256.0f, 15, 20, 22.5f, 25, 30, 30, 30};
	static float level[3] = {10, 20, 30};
	const char *text = KERNEL("tex.level.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n");

	(void)state;
	make(4, 4, 1);
	texture.normalized_coords = true;
	texture.levels = 3;
	for (unsigned n = 0; n < 3; n++) {
		texture.level[n] = level_of(&level[n], 4u >> n, 4u >> n, 1, 4);
		texture.level[n].pitch = texture.level[n].slice_bytes = 0;
		texture.level[n].width = 1;
	}
	for (unsigned n = 0; n < 10; n++)
		put(n, 0, 0, lods[n], 0);
	run(text);
	for (unsigned n = 0; n < 10; n++)
		want(n, nearest[n]);
	texture.filter_levels = true;
	run(text);
	for (unsigned n = 0; n < 10; n++)
		want(n, between[n]);
	texture.bias = 1;
	texture.most = 1.5f;
	run(text);
	want(1, 20);
	want(4, 25);
	texture.bias = 0;
	texture.most = 100;
	/* a step of half the height is two texels: level 1 */
	texture.level[0].width = 4;
	texture.filter_levels = false;
	put(0, 0, 0, 0.5f, 0);
	run(KERNEL("tex.grad.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], {%f1, %f3}, {%f1, %f1};\n"));
	want(0, 20);
}

/* ---- integers, as an H200 with driver 580 reads them ---- */

struct recorded {
	float at[3];
	int32_t value;
};

static int32_t plane_texels[] = {-443089302,  1475940384,  -232315045, 122130930,   -1210862307, -247415755,
				 -933413869,  847843603,   -440732134, -2131290057, 1570651715,  804892982,
				 -1837189729, -1288375468, 1120216089, 639246333};
static const struct recorded plane_values[] = {
	{{1.55078f, 2.87109f, 0.917969f}, -1655761238},  {{2.84375f, 2.11914f, 0.667969f}, 686942358},
	{{2.58203f, 0.0234375f, 0.478516f}, -203239399}, {{0.738281f, 3.9707f, 0.332031f}, -1706417581},
	{{2.62305f, 1.2832f, 0.916016f}, -599144362},    {{1.60156f, 1.25781f, 0.621094f}, 76328720},
	{{2.24805f, 3.95703f, 0.390625f}, 518068199},    {{3.18164f, 1.4043f, 0.292969f}, 260794902},
	{{0.986328f, 1.92383f, 0.748047f}, -961984297},  {{0.613281f, 2.8418f, 0.166016f}, -1024797472},
	{{0.15625f, 3.09961f, 0.507812f}, -1280788656},  {{1.39648f, 0.0703125f, 0.0390625f}, 1281038931}};

static int32_t volume_texels[] = {
	-1172350216, 1203627049,  -722808512,  -1525375786, 1357385193,  -564674917,  51248177,    1676387415,
	-794769490,  816796677,   -1166500339, 990863451,   1808745855,  -1033950206, 1293944147,  -1355059907,
	1425214963,  -1507652569, -1686135653, 1035486717,  -478508930,  -1773859633, 699380645,   1718235332,
	-1376461353, 20885014,    465789256,   -200308791,  1300685884,  782292366,   -313621124,  1186746528,
	-1097150381, -533636846,  -129736515,  -1531739272, -1830887065, 324150515,   520521159,   -715959804,
	1752066385,  -961959381,  766946803,   -1972667983, 1514736403,  -402955478,  -959440623,  1538579201,
	1577842338,  -833033679,  -285411332,  1486801041,  -1025865058, -461282970,  -1944153435, 1951183273,
	1168280472,  1736206450,  1806769421,  1339855181,  1853787948,  1569632243,  -1537903318, 652841770};
static const struct recorded volume_values[] = {
	{{1.45703f, 2.51562f, 1.28516f}, 131859103},   {{0.791016f, 2.80469f, 0.166016f}, 70439995},
	{{3.94531f, 3.62695f, 2.44531f}, 1519338351},  {{2.25195f, 1.31055f, 2.11914f}, 121914811},
	{{1.84766f, 2.76562f, 2.92578f}, 358937963},   {{1.63477f, 0.996094f, 3.68359f}, -708577647},
	{{1.62891f, 2.54492f, 2.05469f}, -358469544},  {{0.779297f, 0.0859375f, 3.49805f}, 899783458},
	{{1.45508f, 2.74609f, 2.46094f}, -677132122},  {{1.18164f, 1.21484f, 3.63672f}, -478600996},
	{{3.87305f, 2.49414f, 2.04492f}, -1164658708}, {{3.26758f, 3.31641f, 1.92383f}, 625802369}};

static int32_t levels_texels[] = {-1661267536, -808220297,  -1177789044, -329460025,  -1155396610,
				  676066592,   -1691520526, -1042820947, -1803700075, -2099751575,
				  1561520730,  515702975,   988078505,   -896980690,  1653102979,
				  -167575857,  -911053069,  -183623172,  -492668255,  -1163254949};
static const struct recorded level_values[] = {
	{{0.928223f, 0.655762f, 0.0410156f}, 375031258},  {{0.317871f, 0.0878906f, 0.787109f}, -852225559},
	{{0.732422f, 0.564453f, 0.277344f}, 140128197},   {{0.584961f, 0.603027f, 0.480469f}, 23634438},
	{{0.0854492f, 0.436035f, 0.970703f}, -773396633}, {{0.0800781f, 0.99707f, 0.429688f}, 351820131},
	{{0.630859f, 0.774414f, 0.361328f}, 652597339},   {{0.874512f, 0.833008f, 0.730469f}, -862859624},
	{{0.681152f, 0.0239258f, 0.128906f}, -894839418}, {{0.62793f, 0.136719f, 0.853516f}, -485808917},
	{{0.156738f, 0.425781f, 0.396484f}, -968824936},  {{0.0219727f, 0.237305f, 0.960938f}, -932454089}};

static void make_integers(int32_t *data, uint32_t w, uint32_t h, uint32_t slices)
{
	make(w, h, slices);
	texture.format = PTX_FORMAT_S32;
	texture.as_float = false;
	texture.filter = true;
	texture.level[0] = level_of(data, w, h, slices, 4);
}

/* The GPU rounds the products of weights to 8 bits: its values differ by 1/256 of the texels' differences at most. */
static void check_recorded(const char *text, const struct recorded *r, unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		put(n, r[n].at[0], r[n].at[1], r[n].at[2], 0);
	run(text);
	for (unsigned n = 0; n < count; n++)
		assert_true(llabs((int64_t)(int32_t)out[n][0] - r[n].value) <= UINT32_MAX / 256);
}

#define CHECK_RECORDED(text, r) check_recorded(text, r, sizeof(r) / sizeof((r)[0]))

static void integers(void **state)
{
	static uint8_t bytes[] = {10, 21, 200, 255};
	/* A fourth of a texel each, from the middle of the first one on. */
	static const uint8_t nearest[] = {10, 13, 16, 18, 21, 66, 111, 155, 200, 214, 228, 241, 255};

	(void)state;
	make_integers(plane_texels, 4, 4, 1);
	CHECK_RECORDED(KERNEL("tex.2d.v4.s32.f32 " TO ", [%t, {%f1, %f2}];\n"), plane_values);
	make_integers(volume_texels, 4, 4, 4);
	texture.volume = true;
	CHECK_RECORDED(KERNEL("tex.3d.v4.s32.f32 " TO ", [%t, {%f1, %f2, %f3, %f3}];\n"), volume_values);
	make_integers(levels_texels, 4, 4, 1);
	texture.level[1] = level_of(levels_texels + 16, 2, 2, 1, 4);
	texture.levels = 2;
	texture.filter_levels = texture.normalized_coords = true;
	CHECK_RECORDED(KERNEL("tex.level.2d.v4.s32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n"), level_values);
	make_integers((int32_t *)bytes, 4, 1, 1);
	texture.level[0] = level_of(bytes, 4, 1, 1, 1);
	texture.format = PTX_FORMAT_U8;
	texture.texel_bytes = 1;
	for (unsigned n = 0; n < sizeof(nearest); n++)
		put(n, 0.5f + 0.25f * (float)n, 0.5f, 0, 0);
	run(KERNEL("tex.2d.v4.u32.f32 " TO ", [%t, {%f1, %f2}];\n"));
	for (unsigned n = 0; n < sizeof(nearest); n++)
		assert_int_equal(out[n][0], nearest[n]);
}

static void gathers(void **state)
{
	(void)state;
	make(4, 4, 1);
	put(0, 2.0f, 2.0f, 0, 0);
	run(KERNEL("tld4.r.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}];\n"));
	assert_true(f32(out[0][0]) == 9 && f32(out[0][1]) == 10 && f32(out[0][2]) == 6 && f32(out[0][3]) == 5);
	/* The coordinate is rounded to 1/256 before, as an H200 does. */
	put(0, 1.498046875f, 2.0f, 0, 0);
	run(KERNEL("tld4.r.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}];\n"));
	assert_true(f32(out[0][0]) == 9 && f32(out[0][1]) == 10 && f32(out[0][2]) == 6 && f32(out[0][3]) == 5);
	put(0, 2.0f, 2.0f, 0, 0);
	/* offsets of texels */
	run(KERNEL("mov.u32 %i3, 1;\nmov.u32 %i4, -1;\ntex.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], {%i3, %i4};\n"));
	want(0, 4 + 3);
}

static void queries(void **state)
{
	(void)state;
	make(4, 3, 2);
	run(KERNEL("txq.width.b32 %o1, [%t];\ntxq.height.b32 %o2, [%t];\ntxq.array_size.b32 %o3, [%t];\n"
		   "istypep.texref %p1, %t;\nistypep.surfref %p2, %t;\nselp.u32 %o4, 1, 0, %p1;\n"
		   "@%p2 mov.u32 %o4, 2;\n"));
	assert_true(out[5][0] == 4 && out[5][1] == 3 && out[5][2] == 2 && out[5][3] == 1);
}

static void hostile(void **state)
{
	static const uint64_t bad[] = {0, 1, HANDLE(0), HANDLE(2), UINT64_MAX, HANDLE(1) + (1ull << PTX_HANDLE_INDEX)};

	(void)state;
	make(4, 4, 1);
	for (unsigned n = 0; n < 6; n++)
		for (unsigned threads = 1; threads <= 32; threads += 31)
			expect_fault(tex_2d, bad[n], threads, PTX_FAULT_ILLEGAL_ADDRESS, "texture");
}

static void refused(void **state)
{
	static const char *const texts[] = {
		KERNEL("tex.2dms.v4.f32.s32 " TO ", [%t, {%i1, %i2, %i3, %i3}];\n"),
		KERNEL("txq.channel_order.b32 %o1, [%t];\n"),
		KERNEL("tex.2d.v4.f32.f32 " TO ", [%t, {%f1}];\n"),
		KERNEL("tex.2d.v4.f32.f32 {%o1, %o2}, [%t, {%f1, %f2}];\n"),
		KERNEL("tex.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}], %f3;\n"),
	};
	static const char *const illegal[] = {
		KERNEL("tex.2dms.v4.f32.f32 " TO ", [%t, {%f1, %f2}];\n"),
		KERNEL("tex.2d.v4.f16x2.f32 " TO ", [%t, {%f1, %f2}];\n"),
		KERNEL("suld.b.cube.b32.trap {%o1}, [%t, {%i1, %i2, %i3, %i3}];\n"),
	};
	const struct ptx_binary *binary;
	const uint32_t block[3] = {32, 1, 1};

	(void)state;
	for (size_t n = 0; n < sizeof(texts) / sizeof(texts[0]); n++) {
		struct ptx_error error = {0};
		struct ptx_module *m = load(texts[n]);

		assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error),
				 PTX_NOT_SUPPORTED);
		assert_non_null(strstr(error.text, "not supported"));
		ptx_module_destroy(m);
	}
	for (size_t n = 0; n < sizeof(illegal) / sizeof(illegal[0]); n++) {
		struct ptx_error error = {0};
		struct ptx_module *m;

		assert_int_equal(ptx_module_create(illegal[n], strlen(illegal[n]), &m, &error), PTX_INVALID);
		assert_non_null(strstr(error.text, "tex") ? error.text : strstr(error.text, "suld"));
	}
}

/* An instruction that names a reference takes the handle that the variable of that name holds. */
static void references(void **state)
{
	static const char *const bodies[] = {
		KERNEL("st.global.u64 [ref], %t;\ntex.2d.v4.f32.f32 " TO ", [ref, {%f1, %f2}];\n"),
		KERNEL("st.global.u64 [ref], %t;\nsetp.lt.u32 %p1, %r1, 2;\n@%p1 tex.2d.v4.f32.f32 " TO
		       ", [ref, {%f1, %f2}];\n"),
	};
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	for (size_t n = 0; n < 2; n++) {
		char *text;

		assert_true(asprintf(&text, "%s.global .texref ref;\n%s", PTX_HEAD, bodies[n] + strlen(PTX_HEAD)) > 0);
		make(4, 4, 1);
		for (unsigned lane = 0; lane < LANES; lane++)
			put(lane, (float)(lane % 4), (float)(lane / 4 % 4), 0, 0);
		run(text);
		for (unsigned lane = 0; lane < LANES; lane++)
			want(lane, n && lane >= 2 ? 0 : (float)(lane % 16));
		free(text);
	}
	assert_int_equal(ptx_module_create(PTX_HEAD ".shared .texref ref;\n", strlen(PTX_HEAD ".shared .texref ref;\n"),
					   &m, &error),
			 PTX_NOT_SUPPORTED);
	assert_non_null(strstr(error.text, ".texref"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addressing),
		cmocka_unit_test(texel_coordinates),
		cmocka_unit_test(far_away),
		cmocka_unit_test(levels_that_are_none),
		cmocka_unit_test(formats),
		cmocka_unit_test(linear_memory),
		cmocka_unit_test(quick_ways),
		cmocka_unit_test(some_lanes),
		cmocka_unit_test(layers_and_volumes),
		cmocka_unit_test(cubes),
		cmocka_unit_test(levels),
		cmocka_unit_test(gathers),
		cmocka_unit_test(integers),
		cmocka_unit_test(queries),
		cmocka_unit_test(hostile),
		cmocka_unit_test(refused),
		cmocka_unit_test(references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

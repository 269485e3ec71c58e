/* SPDX-License-Identifier: Apache-2.0 */
/* Surface instructions. */
#include "softgpu/test/test-ptx-tex.h"

static void make_surface(void)
{
	make(8, 4, 2);
	texture.surface = true;
}

static void surfaces(void **state)
{
	(void)state;
	make_surface();
	for (unsigned n = 0; n < LANES; n++) {
		put(n, 0, 0, (float)n, 0);
		in[n][0] = n % 8 * 4;
		in[n][1] = n / 8;
	}
	run(KERNEL("suld.b.2d.b32.trap {%o1}, [%t, {%i1, %i2}];\nsust.b.2d.b32.trap [%t, {%i1, %i2}], {%i3};\n"
		   "suld.b.2d.b32.trap %o2, [%t, {%i1, %i2}];\n"));
	for (unsigned n = 0; n < LANES; n++)
		assert_true(f32(out[n][0]) == (float)n && f32(out[n][1]) == (float)n && texels[n] == (float)n);
	/* past the edges */
	in[0][0] = (uint32_t)-4;
	in[1][0] = 100;
	in[2][1] = 9;
	run(KERNEL(
		"suld.b.2d.b32.zero {%o1}, [%t, {%i1, %i2}];\nsuld.b.2d.b32.clamp {%o2}, [%t, {%i1, %i2}];\n"
		"sust.b.2d.b32.zero [%t, {%i1, %i2}], {%i1};\nsuld.b.2d.v2.b32.clamp {%o3, %o4}, [%t, {%i1, %i2}];\n"));
	assert_true(out[0][0] == 0 && out[1][0] == 0 && out[2][0] == 0);
	assert_true(f32(out[0][1]) == 0 && f32(out[1][1]) == 7 && f32(out[2][1]) == 26);
	/* layers, bytes and doubles */
	make_surface();
	in[0][0] = 1;
	run(KERNEL("mov.u32 %i1, 1;\nmov.u32 %i2, 0;\nsuld.b.a2d.v2.b64.trap {%l4, %l5}, [%t, {%i1, %i2, %i2, %i2}];\n"
		   "mov.b64 {%o1, %o2}, %l4;\nmov.b64 {%o3, %o4}, %l5;\nmov.u32 %i3, 3;\nmov.u16 %h1, 64;\n"
		   "sust.b.a2d.b8.trap [%t, {%i1, %i3, %i2, %i2}], {%h1};\n"
		   "suld.b.a1d.b16.trap {%h2}, [%t, {%i1, %i2}];\n"));
	assert_true(f32(out[3][0]) == 32 && f32(out[3][3]) == 35);
	assert_true(((uint8_t *)&texels[32])[3] == 64);
}

static void formatted_and_reduced(void **state)
{
	static uint8_t bytes[4];
	static uint32_t sum[2];

	(void)state;
	make_surface();
	texture.format = PTX_FORMAT_U8;
	texture.channels = texture.texel_bytes = 4;
	texture.level[0] = level_of(bytes, 1, 1, 1, 4);
	run(KERNEL("mov.u32 %i1, 0;\nmov.u32 %i2, 7;\nmov.u32 %i3, 300;\n"
		   "sust.p.2d.v4.b32.trap [%t, {%i1, %i1}], {%i2, %i3, %i2, %i1};\n"));
	assert_true(bytes[0] == 7 && bytes[1] == 255 && bytes[2] == 7 && bytes[3] == 0);
	texture.format = PTX_FORMAT_U32;
	texture.channels = 1;
	texture.level[0] = level_of(sum, 2, 1, 1, 4);
	run(KERNEL("mov.u32 %i1, 0;\nmov.u32 %i2, 4;\nsured.b.add.1d.u32.trap [%t, {%i1}], %r1;\n"
		   "sured.b.max.1d.u32.trap [%t, {%i2}], %r1;\n"));
	assert_true(sum[0] == 31 * 16 && sum[1] == 31);
}

static void hostile(void **state)
{
	(void)state;
	make(4, 4, 1);
	/* a texture is no surface */
	expect_fault(KERNEL("suld.b.2d.b32.zero {%o1}, [%t, {%i1, %i2}];\n"), HANDLE(1), 32, PTX_FAULT_ILLEGAL_ADDRESS,
		     "surface");
	make_surface();
	expect_fault(KERNEL("tex.2d.v4.f32.f32 " TO ", [%t, {%f1, %f2}];\n"), HANDLE(1), 32, PTX_FAULT_ILLEGAL_ADDRESS,
		     "texture");
	for (unsigned n = 0; n < LANES; n++)
		in[n][0] = in[n][1] = 0;
	in[9][0] = 32;
	expect_fault(KERNEL("suld.b.2d.b32.trap {%o1}, [%t, {%i1, %i2}];\n"), HANDLE(1), 32, PTX_FAULT_TRAP, "surface");
	in[9][0] = 29;
	expect_fault(KERNEL("sust.b.2d.b32.trap [%t, {%i1, %i2}], {%i1};\n"), HANDLE(1), 32, PTX_FAULT_TRAP, "surface");
	/* an access wider than a row, whatever the mode */
	texture.level[0] = level_of(texels, 1, 1, 1, 4);
	in[9][0] = 0;
	run(KERNEL("suld.b.2d.v4.b32.clamp " TO ", [%t, {%i1, %i2}];\n"));
	assert_int_equal(out[9][0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(surfaces),
		cmocka_unit_test(formatted_and_reduced),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of instructions that test/ptx/forms.py found to be legal and that no other test computes with. Expectations are
 * computed in C from the PTX ISA.
 */
#include <fenv.h>

#include "softgpu/test/harness.h"

#include "softgpu/runtime/ptx-tex.h"

/* ---- loads and stores of eight numbers of less than 32 bits ---- */

#define AREA(bytes) ".shared .align 16 .b8 area[2048];\nmov.u32 %r2, area;\nmad.lo.u32 %r2, %r1, " bytes ", %r2;\n"

W32(w_bytes, (uint32_t)((int32_t)(int8_t)(a >> 8) + (int32_t)(int8_t)(b >> 24)))
W32(w_unsigned_bytes, (a >> 8 & 255) + (b >> 24))
W32(w_halves, (uint32_t)((int32_t)(int16_t)(a >> 16) + (int32_t)(int16_t)b))
W32(w_stored_bytes, (a & 255) << 8 | (b & 255) << 16 | 4u << 24 | 3)
W32(w_stored_halves, (b & 0xffff) << 16 | (a >> 16))

static void eight_numbers(void **state)
{
	(void)state;
	check32("ld.v8.s8, into registers of 64 bits",
		HEAD32(AREA("8") "st.shared.v2.b32 [%r2], {%a, %b};\n"
				 "ld.shared.v8.s8 {%l5, %l6, %l7, %l8, %l9, %l10, %l11, %l12}, [%r2];\n"
				 "add.s64 %l5, %l6, %l12;\ncvt.u32.u64 %x, %l5;\n"),
		w_bytes);
	check32("ld.v8.u8",
		HEAD32(AREA("8") "st.shared.v2.b32 [%r2], {%a, %b};\n"
				 "ld.shared.v8.u8 {%h0, %h1, %h3, %h4, %h5, %h6, %h7, %h2}, [%r2];\n"
				 "cvt.u32.u16 %r3, %h1;\ncvt.u32.u16 %r4, %h2;\nadd.s32 %x, %r3, %r4;\n"),
		w_unsigned_bytes);
	check32("ld.v8.s16",
		HEAD32(AREA("16") "st.shared.v4.b32 [%r2], {%a, 7, %b, %a};\n"
				  "ld.volatile.shared.v8.s16 {%r5, %r3, %r6, %r7, %r4, %r8, %r9, %r10}, [%r2];\n"
				  "add.s32 %x, %r3, %r4;\n"),
		w_halves);
	check32("st.v8.b8",
		HEAD32(AREA("8") "st.shared.v8.b8 [%r2], {1, 2, %a, %b, 3, %a, %b, 4};\nld.shared.b32 %x, [%r2+4];\n"),
		w_stored_bytes);
	check32("st.v8.b16",
		HEAD32(AREA("16") "mov.b32 {%h0, %h1}, %a;\nmov.b32 {%h2, %h3}, %b;\n"
				  "st.shared.v8.b16 [%r2], {%h0, %h0, %h0, %h0, %h0, %h0, %h1, %h2};\n"
				  "ld.shared.b32 %x, [%r2+12];\n"),
		w_stored_halves);
}

/* ---- vectors of mixed registers ---- */

W32(w_second, b)

/* Beside a register of bits, a register of another type counts as bits. */
static void mixed_vectors(void **state)
{
	(void)state;
	check32("st.v2.s32 of bits and an f32",
		HEAD32(AREA("8") "mov.b32 %f1, %b;\nst.shared.v2.s32 [%r2], {%a, %f1};\nld.shared.b32 %x, [%r2+4];\n"),
		w_second);
	check32("ld.v2.s32 to bits and an f32",
		HEAD32(AREA("8") "st.shared.v2.b32 [%r2], {%a, %b};\nld.shared.v2.s32 {%r3, %f1}, [%r2];\n"
				 "mov.b32 %x, %f1;\n"),
		w_second);
}

/* ptxas takes these; the compiler does not implement them. */
static void refused_by_name(void **state)
{
	static const char *const instructions[] = {
		"st.global.v2.b32 [%l1], {%r1, %p1};",
		"ld.global.v2.u32 {%p1, %r1}, [%l1];",
		"mov.b64 {%r1, %p1}, %l1;",
		"abs.bf16x2 {%r1, %r2}, %r2;",
		"movmatrix.sync.aligned.m8n8.trans.b16 %p1, %r2;",
		"tex.grad.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%l1, {%r1}], {%f1}, {%f2};",
		"suld.b.2d.b64.clamp {%r1, %r2}, [%l2, {%r4, %r5}];",
		"cp.async.bulk.prefetch.tensor.1d.L2.global [%d1, {%r2}];",
		"tcgen05.ld.sync.32x32b.x1.b32 {%r1}, [%r2];",
	};
	uint32_t block[3] = {32, 1, 1};
	char text[4096];

	(void)state;
	for (size_t n = 0; n < sizeof(instructions) / sizeof(instructions[0]); n++) {
		struct ptx_module *m;
		struct ptx_error error;
		const struct ptx_binary *binary;
		int name = (int)strcspn(instructions[n], " ;");

		snprintf(text, sizeof(text), "%s%s\nret;\n}\n", REGISTERS, instructions[n]);
		m = load(text);
		assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_NOT_SUPPORTED);
		snprintf(text, sizeof(text), "%.*s", name, instructions[n]);
		assert_non_null(strstr(error.text, text));
		ptx_module_destroy(m);
	}
}

/* ---- parameters of bytes ---- */

W32(w_parameters, (uint32_t)((int32_t)(int8_t)a + (int32_t)(uint8_t)b - 3))

/* A call that is inlined, with bytes in parameters of their own and in one that is an array. */
static void byte_parameters(void **state)
{
	static const char function[] =
		PTX_HEAD ".func (.param .align 4 .b8 o[4]) sum(.param .s8 p, .param .align 4 .b8 q[4])\n{\n.reg .b16 "
			 "%h<4>;\n.reg .b32 %v<4>;\n"
			 "ld.param.s8 %v1, [p];\nld.param.v2.u8 {%h1, %h2}, [q+1];\nld.param.s8 %v3, "
			 "[q+3];\ncvt.u32.u16 %v2, %h2;\n"
			 "add.s32 %v1, %v1, %v2;\nadd.s32 %v1, %v1, %v3;\nst.param.b32 [o], %v1;\n}\n";
	static const char call[] =
		HEAD32("{\n.param .s8 p;\n.param .align 4 .b8 q[4];\n.param .align 4 .b8 o[4];\nst.param.b8 [p], %a;\n"
		       "st.param.v2.b8 [q+1], {7, %b};\nst.param.s8 [q+3], -3;\ncall (o), sum, (p, q);\n"
		       "ld.param.b32 %x, [o];\n}\n");
	char all[8192];

	(void)state;
	snprintf(all, sizeof(all), "%s%s", function, call + strlen(PTX_HEAD));
	check32("bytes as parameters", all, w_parameters);
}

/* ---- video instructions ---- */

static uint32_t limited(int64_t v, int64_t low, int64_t high)
{
	return (uint32_t)(v < low ? low : v > high ? high : v);
}

static uint32_t shifted(uint32_t a, uint32_t by)
{
	unsigned __int128 v = (unsigned __int128)a << (by < 32 ? by : 32);

	return v > INT32_MAX ? INT32_MAX : (uint32_t)v;
}

W32(w_shifted, shifted(a, b))
/* A negated c makes the sum signed, and c is extended as such. */
W32(w_less, (uint32_t)(((int64_t)(a & 0xffff) * (b >> 16) - (int32_t)b) >> 7))
W32(w_less_limited, limited((int64_t)(a >> 24) * (b & 255) - (int32_t)a, INT32_MIN, INT32_MAX))

W32(w_byte_sum, (a & 0xffffff) | limited((int64_t)(a & 0xffff) + b, 0, 255) << 24)

W32(w_least, (a >> 16) < b ? a >> 16 : b)
W32(w_differs, (a & 0xffff) != (b & 0xffff))

/* ptxas ignores a third source that has no use. */
static void ignored_source(void **state)
{
	(void)state;
	check32("vmin with a third source", HEAD32("vmin.u32.u32.u32 %x, %a.h1, %b, %a;\n"), w_least);
	check32("vset with a third source", HEAD32("vset.u32.u32.ne %x, %a.h0, %b.h0, %b;\n"), w_differs);
}

static void video(void **state)
{
	(void)state;
	check32("vadd.sat of unsigned words into a byte", HEAD32("vadd.u32.u32.u32.sat %x.b3, %a.h0, %b, %a;\n"),
		w_byte_sum);
	check32("vshl.sat.clamp of an unsigned word", HEAD32("vshl.s32.u32.u32.sat.clamp %x, %a, %b;\n"), w_shifted);
	check32("vmad of unsigned words less c", HEAD32("vmad.u32.u32.u32.shr7 %x, %a.h0, %b.h1, -%b;\n"), w_less);
	check32("vmad.sat of unsigned words less c", HEAD32("vmad.u32.u32.u32.sat %x, %a.b3, %b.b0, -%a;\n"),
		w_less_limited);
}

/* ---- numbers as predicates ---- */

W32(w_lower, a < b ? a : b)
W32(w_threads, THREADS)

/* All numbers but 0 are true. */
static void true_numbers(void **state)
{
	(void)state;
	check32("and.pred with 2",
		HEAD32("setp.lt.u32 %p1, %a, %b;\nand.pred %p1, %p1, 2;\nselp.u32 %x, %a, %b, %p1;\n"), w_lower);
	check32("bar.red.popc of 6", HEAD32("bar.red.popc.u32 %x, 0, 6;\n"), w_threads);
}

/* ---- products of doubles that round otherwise ---- */

static double doubles_in[7 * 32], doubles_out[4 * 32];

static double element(unsigned n)
{
	return doubles_in[n];
}

/* Registers of a lane stand 32 apart: two of A, one of B, four of C; row l / 4, column l % 4 of A, and so on. */
static double rounded_sum(unsigned lane, unsigned reg, int mode)
{
	unsigned row = lane / 4 + reg / 2 * 8, column = lane % 4 * 2 + reg % 2;
	volatile double sum = element((3 + reg) * 32 + lane);

	fesetround(mode);
	for (unsigned k = 0; k < 4; k++) {
		volatile double a = element(row / 8 * 32 + row % 8 * 4 + k), b = element(2 * 32 + column * 4 + k);

		sum = fma(a, b, sum);
	}
	fesetround(FE_TONEAREST);
	return sum;
}

static void rounded_product(const char *word, int mode)
{
	char text[4096];
	void *params[2] = {doubles_out, doubles_in};
	struct ptx_fault fault;
	struct ptx_module *m;

	strcpy(text, REGISTERS
	       ".reg .f64 %q<16>;\nmul.wide.u32 %l3, %r1, 8;\nadd.s64 %l1, %l1, %l3;\nadd.s64 %l2, %l2, %l3;\n"
	       "ld.global.f64 %q0, [%l2];\nld.global.f64 %q1, [%l2+256];\nld.global.f64 %q2, [%l2+512];\n"
	       "ld.global.f64 %q3, [%l2+768];\nld.global.f64 %q4, [%l2+1024];\n"
	       "ld.global.f64 %q5, [%l2+1280];\nld.global.f64 %q6, [%l2+1536];\n"
	       "mma.sync.aligned.m16n8k4.row.col");
	strcat(text, word);
	strcat(text, ".f64.f64.f64.f64 {%q8, %q9, %q10, %q11}, {%q0, %q1}, {%q2}, {%q3, %q4, %q5, %q6};\n"
		     "st.global.f64 [%l1], %q8;\nst.global.f64 [%l1+256], %q9;\nst.global.f64 [%l1+512], %q10;\n"
		     "st.global.f64 [%l1+768], %q11;\nret;\n}\n");
	map.count = 0;
	add_range(doubles_in, sizeof(doubles_in), false);
	add_range(doubles_out, sizeof(doubles_out), true);
	m = load(text);
	assert_true(launch(m, 1, 32, 1, 0, params, &fault));
	for (unsigned n = 0; n < 4 * 32; n++)
		if (doubles_out[n] != rounded_sum(n % 32, n / 32, mode))
			fail_msg("%s: number %u is %a", word, n, doubles_out[n]);
	ptx_module_destroy(m);
}

static void rounded_products(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 7 * 32; n++)
		doubles_in[n] = (n % 3 ? 1 : -1) / (double)(n * n % 97 + 3);
	rounded_product("", FE_TONEAREST);
	rounded_product(".rn", FE_TONEAREST);
	rounded_product(".rz", FE_TOWARDZERO);
	rounded_product(".rm", FE_DOWNWARD);
	rounded_product(".rp", FE_UPWARD);
	/* and the mode is as it was */
	rounded_product("", FE_TONEAREST);
}

/* ---- textures and surfaces ---- */

#define LANES 32
#define HANDLE (2 + (7ull << PTX_HANDLE_INDEX))

/* Each lane has its number in %r1 and in %f1 (and a half more), the handle in %l4, and writes %a, %b. */
#define TEXTURE_KERNEL(body)                                                                                           \
	REGISTERS ".reg .b32 %a, %b;\nmov.b64 %l4, " HANDLE_TEXT                                                       \
		  ";\ncvt.rn.f32.u32 %f1, %r1;\nadd.f32 %f1, %f1, 0f3F000000;\n"                                       \
		  "mov.b32 %f2, 0f3F000000;\nmov.b32 %a, 0;\nmov.b32 %b, 0;\nmul.wide.u32 %l3, %r1, 8;\n"              \
		  "add.s64 %l1, %l1, %l3;\n" body "st.global.v2.b32 [%l1], {%a, %b};\nret;\n}\n"
#define HANDLE_TEXT "7340034" /* HANDLE */

static uint32_t pairs_out[LANES][2];
static uint8_t texels[LANES * 16];
static struct ptx_texture texture;

static void make_texture(unsigned format, unsigned channels, bool surface)
{
	static const struct ptx_texture *entries[2] = {NULL, &texture};
	static const struct ptx_texture_table table = {2, entries};
	unsigned bytes = channels * (format == PTX_FORMAT_U8 ? 1 : 4);

	texture = (struct ptx_texture){
		.handle = HANDLE,
		.surface = surface,
		.format = (uint8_t)format,
		.channels = (uint8_t)channels,
		.texel_bytes = (uint8_t)bytes,
		.address = {PTX_CLAMP, PTX_CLAMP, PTX_CLAMP},
		.as_float = !surface,
		.most = 100,
		.levels = 1,
	};
	texture.level[0] = (struct ptx_level){texels, LANES, 1, 1, LANES * bytes, LANES * bytes};
	assert_int_equal(HANDLE, strtoull(HANDLE_TEXT, NULL, 10));
	assert_true(ptx_texture_prepare(&texture));
	textures = &table;
}

static void run_texture(const char *text)
{
	void *params[2] = {pairs_out, in32};
	struct ptx_fault fault;
	struct ptx_module *m;

	map.count = 0;
	add_range(pairs_out, sizeof(pairs_out), true);
	m = load(text);
	if (!launch(m, 1, LANES, 1, 0, params, &fault))
		fail_msg("fault %d, line %u", fault.kind, fault.line);
	ptx_module_destroy(m);
}

/* No texture is sparse: all of it is resident. A guard that is false changes nothing. */
static void resident(void **state)
{
	static const char *const fetches[] = {
		TEXTURE_KERNEL(
			"setp.ge.u32 %p1, %r1, 9;\nsetp.ne.u32 %p2, 0, 0;\n"
			"@%p1 tex.2d.v4.f32.f32 {%a, _, _, _}|%p2, [%l4, {%f1, %f2}];\nselp.b32 %b, 1, 0, %p2;\n"),
		TEXTURE_KERNEL(
			"setp.ge.u32 %p1, %r1, 9;\nsetp.ne.u32 %p2, 0, 0;\nadd.f32 %f1, %f1, 0f3F000000;\n"
			"@%p1 tld4.r.2d.v4.f32.f32 {_, _, _, %a}|%p2, [%l4, {%f1, %f2}];\nselp.b32 %b, 1, 0, %p2;\n"),
	};

	(void)state;
	make_texture(PTX_FORMAT_F32, 1, false);
	for (unsigned n = 0; n < LANES; n++)
		memcpy(texels + 4 * n, &(float){(float)n}, 4);
	for (unsigned k = 0; k < 2; k++) {
		run_texture(fetches[k]);
		for (unsigned n = 0; n < LANES; n++) {
			assert_int_equal(pairs_out[n][0], n < 9 ? 0 : bits32((float)n));
			assert_int_equal(pairs_out[n][1], n >= 9);
		}
	}
}

/* A coordinate alone needs no braces. */
static void one_coordinate(void **state)
{
	static const char fetch[] = TEXTURE_KERNEL("tex.1d.v4.f32.s32 {%a, _, _, _}, [%l4, %r1];\n"
						   "tex.1d.v4.f32.f32 {%b, _, _, _}, [%l4, %f1];\n");

	(void)state;
	make_texture(PTX_FORMAT_F32, 1, false);
	for (unsigned n = 0; n < LANES; n++)
		memcpy(texels + 4 * n, &(float){(float)n}, 4);
	run_texture(fetch);
	for (unsigned n = 0; n < LANES; n++) {
		assert_int_equal(pairs_out[n][0], bits32((float)n));
		assert_int_equal(pairs_out[n][1], bits32((float)n));
	}
}

/* Red and green in one register, blue and alpha in the other, as the nearest halves. */
static void halves(void **state)
{
	static const char fetch[] = TEXTURE_KERNEL("tex.2d.v2.f16x2.f32 {%a, %b}, [%l4, {%f1, %f2}];\n");
	float four[4];

	(void)state;
	make_texture(PTX_FORMAT_F32, 4, false);
	for (unsigned n = 0; n < LANES; n++) {
		for (unsigned c = 0; c < 4; c++)
			four[c] = (float)(n + 1) / (float)(3 + c) * (c & 1 ? -1 : 1);
		memcpy(texels + 16 * n, four, 16);
	}
	run_texture(fetch);
	for (unsigned n = 0; n < LANES; n++) {
		_Float16 want[4];

		for (unsigned c = 0; c < 4; c++)
			want[c] = (_Float16)((float)(n + 1) / (float)(3 + c) * (c & 1 ? -1 : 1));
		assert_memory_equal(pairs_out[n], want, 8);
	}
}

/* .p counts elements where .b counts bytes; whether numbers have signs is the surface's business. */
static void formatted_reductions(void **state)
{
	static const char least[] =
		TEXTURE_KERNEL("sub.s32 %r2, 10, %r1;\nsured.p.min.1d.b32.trap [%l4, {%r1}], %r2;\n");
	static const char sum[] = TEXTURE_KERNEL("mov.u32 %r2, 3;\nsured.p.add.1d.b32.trap [%l4, {%r2}], %r1;\n"
						 "add.s32 %r3, %r1, 1000;\nsured.p.or.1d.b32.zero [%l4, {%r3}], -1;\n");
	int32_t *numbers = (int32_t *)(void *)texels;

	(void)state;
	for (unsigned sign = 0; sign < 2; sign++) {
		make_texture(sign ? PTX_FORMAT_S32 : PTX_FORMAT_U32, 1, true);
		for (int n = 0; n < LANES; n++)
			numbers[n] = n - 5;
		run_texture(least);
		for (int n = 0; n < LANES; n++) {
			bool less = sign ? 10 - n < n - 5 : (uint32_t)(10 - n) < (uint32_t)(n - 5);

			assert_int_equal(numbers[n], less ? 10 - n : n - 5);
		}
	}
	memset(texels, 0, sizeof(texels));
	run_texture(sum);
	for (int n = 0; n < LANES; n++)
		assert_int_equal(numbers[n], n == 3 ? 31 * 16 : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eight_numbers),    cmocka_unit_test(mixed_vectors), cmocka_unit_test(refused_by_name),
		cmocka_unit_test(byte_parameters),  cmocka_unit_test(video),         cmocka_unit_test(ignored_source),
		cmocka_unit_test(rounded_products), cmocka_unit_test(resident),      cmocka_unit_test(one_coordinate),
		cmocka_unit_test(halves),           cmocka_unit_test(true_numbers),  cmocka_unit_test(formatted_reductions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A texture or surface, and a kernel of one instruction that reads or writes it. */
#ifndef TEST_PTX_TEX_H
#define TEST_PTX_TEX_H

#include "softgpu/test/harness.h"

#include "softgpu/runtime/ptx-tex.h"

#define LANES 32
#define HANDLE(n) ((uint64_t)(n) + 1 + (7ull << PTX_HANDLE_INDEX))

/* Every thread reads four words to %i1 to %i4 (also as %f1 to %f4) and writes %o1 to %o4. The handle is in %t. */
#define KERNEL(body)                                                                                                   \
	PTX_HEAD ".visible .entry test(.param .u64 p_out, .param .u64 p_in, .param .u64 p_handle)\n{\n"                \
		 ".reg .pred %p<4>;\n.reg .b16 %h<8>;\n.reg .b32 %r<8>, %i<8>, %o<8>;\n.reg .f32 %f<8>;\n"             \
		 ".reg .b64 %l<8>, %t;\n"                                                                              \
		 "ld.param.u64 %l1, [p_out];\nld.param.u64 %l2, [p_in];\nld.param.u64 %t, [p_handle];\n"               \
		 "mov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 16;\nadd.s64 %l1, %l1, %l3;\nadd.s64 %l2, %l2, %l3;\n"  \
		 "ld.global.v4.b32 {%i1, %i2, %i3, %i4}, [%l2];\nmov.b32 %f1, %i1;\nmov.b32 %f2, %i2;\n"               \
		 "mov.b32 %f3, %i3;\nmov.b32 %f4, %i4;\nmov.b32 %o1, 0;\nmov.b32 %o2, 0;\nmov.b32 %o3, 0;\n"           \
		 "mov.b32 %o4, 0;\n" body "st.global.v4.b32 [%l1], {%o1, %o2, %o3, %o4};\nret;\n}\n"

#define TO "{%o1, %o2, %o3, %o4}"

static __attribute__((unused)) uint32_t in[LANES][4], out[LANES][4];
static __attribute__((unused)) struct ptx_texture texture;
static __attribute__((unused)) float texels[4096];
static __attribute__((unused)) const struct ptx_texture *entries[2];
static __attribute__((unused)) const struct ptx_texture_table table = {2, entries};

static __attribute__((unused)) struct ptx_level level_of(void *data, uint32_t w, uint32_t h, uint32_t slices,
							 uint64_t texel)
{
	return (struct ptx_level){data, w, h, slices, w * texel, w * h * texel};
}

/* One-channel floats with the number of the texel as value. */
static __attribute__((unused)) void make(uint32_t w, uint32_t h, uint32_t slices)
{
	assert_true((size_t)w * h * slices <= 4096);
	for (uint32_t n = 0; n < w * h * slices; n++)
		texels[n] = (float)n;
	texture = (struct ptx_texture){
		.handle = HANDLE(1),
		.format = PTX_FORMAT_F32,
		.channels = 1,
		.texel_bytes = 4,
		.address = {PTX_CLAMP, PTX_CLAMP, PTX_CLAMP},
		.as_float = true,
		.most = 100,
		.levels = 1,
	};
	texture.level[0] = level_of(texels, w, h, slices, 4);
	entries[0] = NULL;
	entries[1] = &texture;
	textures = &table;
}

static __attribute__((unused)) bool run_handle(const char *text, uint64_t handle, unsigned threads,
					       struct ptx_fault *fault)
{
	struct {
		void *out, *in;
		uint64_t handle;
	} params = {out, in, handle};
	struct ptx_module *m;
	bool ok;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range(in, sizeof(in), false);
	m = load(text);
	ok = launch(m, 1, threads, 1, 0, &params, fault);
	ptx_module_destroy(m);
	return ok;
}

static __attribute__((unused)) void run(const char *text)
{
	struct ptx_fault fault;

	assert_true(ptx_texture_prepare(&texture));
	memset(out, 0xee, sizeof(out));
	if (!run_handle(text, HANDLE(1), LANES, &fault))
		fail_msg("fault %d, line %u", fault.kind, fault.line);
}

static __attribute__((unused)) void put(unsigned lane, float a, float b, float c, float d)
{
	in[lane][0] = bits32(a);
	in[lane][1] = bits32(b);
	in[lane][2] = bits32(c);
	in[lane][3] = bits32(d);
}

static __attribute__((unused)) void want(unsigned lane, float value)
{
	if (f32(out[lane][0]) != value)
		fail_msg("lane %u: %g, %g gives %.9g, not %.9g", lane, (double)f32(in[lane][0]),
			 (double)f32(in[lane][1]), (double)f32(out[lane][0]), (double)value);
}

static __attribute__((unused)) void expect_fault(const char *text, uint64_t handle, unsigned threads,
						 enum ptx_fault_kind kind, const char *space)
{
	struct ptx_fault fault;

	assert_true(ptx_texture_prepare(&texture));
	assert_false(run_handle(text, handle, threads, &fault));
	assert_int_equal(fault.kind, kind);
	assert_string_equal(fault.space, space);
}

#endif

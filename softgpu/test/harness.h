/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs PTX on the software GPU's compiler. check32() and check64() give every thread two inputs and compare one output
 * with what a C function says; the PTX of an instruction under test reads %a and %b and writes %x.
 */
#ifndef TEST_PTX_HARNESS_H
#define TEST_PTX_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "softgpu/kernel.h"
#include "softgpu/test/samples.h"

#define THREADS 64

static struct ptx_range ranges[8];
static struct ptx_memory_map map = {0, ranges};
static const struct ptx_texture_table *textures;
static __attribute__((unused)) char printed[4096];
static size_t printed_length;

static __attribute__((unused)) void print(void *device, const char *text, size_t length)
{
	(void)device;
	if (printed_length + length < sizeof(printed)) {
		memcpy(printed + printed_length, text, length);
		printed_length += length;
		printed[printed_length] = 0;
	}
}

static __attribute__((unused)) void add_range(void *start, size_t bytes, bool writable)
{
	size_t n = map.count++;

	assert_true(n < sizeof(ranges) / sizeof(ranges[0]));
	for (; n && ranges[n - 1].start > (uintptr_t)start; n--)
		ranges[n] = ranges[n - 1];
	ranges[n] = (struct ptx_range){(uintptr_t)start, (uintptr_t)start + bytes, writable};
}

static __attribute__((unused)) struct ptx_module *load(const char *text)
{
	struct ptx_module *module;
	struct ptx_error error;
	const struct ptx_variable *v;
	enum ptx_status status = ptx_module_create(text, strlen(text), &module, &error);
	static _Alignas(64) char store[8][4096];

	if (status != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	for (size_t n = 0, count = ptx_module_variables(module, &v); n < count && n < 8; n++) {
		add_range(store[n], v[n].size, true);
		ptx_module_place(module, n, (uintptr_t)store[n]);
	}
	for (size_t n = 0, count = ptx_module_variables(module, &v); n < count && n < 8; n++)
		if (v[n].init) {
			memcpy(store[n], v[n].init, v[n].size);
			assert_int_equal(ptx_module_relocate(module, n, store[n], &error), PTX_OK);
		}
	return module;
}

static __attribute__((unused)) bool launch(struct ptx_module *module, uint32_t blocks, uint32_t x, uint32_t y,
					   size_t shared, const void *params, struct ptx_fault *fault)
{
	struct ptx_launch l = {.grid = {blocks, 1, 1},
			       .block = {x, y, 1},
			       .dynamic_shared = shared,
			       .params = params,
			       .memory = &map,
			       .textures = textures,
			       .print = print};
	struct ptx_error error;
	enum ptx_status status = ptx_kernel_prepare(ptx_module_kernel(module, 0), l.block, &l.binary, &error);

	if (status != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	for (uint32_t n = 0; n < blocks; n++)
		if (!ptx_run_blocks(&l, n, 1, fault))
			return false;
	return true;
}

static __attribute__((unused)) uint32_t in32[2 * THREADS], out32[THREADS];
static __attribute__((unused)) uint64_t in64[2 * THREADS], out64[THREADS];

static __attribute__((unused)) const uint32_t edges32[] = {0,          1,          2,          3,          31,         32,         33,
				   0x7f,       0x80,       0xff,       0x7fff,     0x8000,     0x7fffffff, 0x80000000,
				   0x80000001, 0xffffffff, 0xfffffffe, 0x12345678, 0x3f800000, 0xbf800000, 0x7f800000,
				   0xff800000, 0x7fc00000, 0x00000100, 0x4f000000, 0xcf000000, 0x00400000, 0x40490fdb,
				   0x3f000000, 0x3fc00000, 0x40200000, 0xc0200000};
static __attribute__((unused)) const uint64_t edges64[] = {0,
				   1,
				   2,
				   63,
				   64,
				   65,
				   0x7fffffffffffffff,
				   0x8000000000000000,
				   0xffffffffffffffff,
				   0x3ff0000000000000,
				   0xbff0000000000000,
				   0x7ff0000000000000,
				   0x7ff8000000000000,
				   0x43e0000000000000,
				   0x123456789abcdef0,
				   0x4008000000000000};

static __attribute__((unused)) struct ptx_module *load_binary(const char *text, unsigned bits)
{
	map.count = 0;
	add_range(bits == 32 ? (void *)out32 : out64, bits == 32 ? sizeof(out32) : sizeof(out64), true);
	add_range(bits == 32 ? (void *)in32 : in64, bits == 32 ? sizeof(in32) : sizeof(in64), false);
	return load(text);
}

static __attribute__((unused)) void launch_binary(struct ptx_module *m, unsigned bits)
{
	void *params[2] = {bits == 32 ? (void *)out32 : (void *)out64, bits == 32 ? (void *)in32 : (void *)in64};
	struct ptx_fault fault;

	if (!launch(m, 1, THREADS, 1, 0, params, &fault))
		fail_msg("fault %d at line %u", fault.kind, fault.line);
}

static __attribute__((unused)) void run_binary(const char *text, unsigned bits)
{
	struct ptx_module *m = load_binary(text, bits);

	launch_binary(m, bits);
	ptx_module_destroy(m);
}

#define LOAD32                                                                                                         \
	"mul.wide.u32 %l4, %r1, 8;\nadd.s64 %l4, %l2, %l4;\nld.global.v2.b32 {%a, %b}, [%l4];\nadd.s64 %l3, %l1, "     \
	"%l3;\n"
#define LOAD64                                                                                                         \
	"mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l4, %l2, %l4;\nld.global.v2.b64 {%a, %b}, [%l4];\nadd.s64 %l3, %l1, "    \
	"%l3;\n"
#define HEAD32(body) PTX_BINARY_32(LOAD32 body "st.global.b32 [%l3], %x;\nret;\n")
#define HEAD64(body) PTX_BINARY_64(LOAD64 body "st.global.b64 [%l3], %x;\nret;\n")
#define REGISTERS                                                                                                      \
	PTX_HEAD_A ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"                                    \
		 ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .f32 %f<8>;\n.reg .f64 %d<8>;\n"        \
		 ".reg .b64 %l<16>;\nld.param.u64 %l1, [p_out];\nld.param.u64 %l2, [p_in];\nmov.u32 %r1, %tid.x;\n"
#define PTX_BINARY_32(body) REGISTERS ".reg .b32 %a, %b, %x;\nmul.wide.u32 %l3, %r1, 4;\n" body "}\n"
#define PTX_BINARY_64(body) REGISTERS ".reg .b64 %a, %b, %x;\nmul.wide.u32 %l3, %r1, 8;\n" body "}\n"

static __attribute__((unused)) void check32(const char *name, const char *text, uint32_t (*want)(uint32_t, uint32_t))
{
	struct ptx_module *m = load_binary(text, 32);

	for (unsigned round = 0; round < 16; round++) {
		for (unsigned n = 0; n < THREADS; n++) {
			in32[2 * n] = edges32[n % 32];
			in32[2 * n + 1] = edges32[(n * 7 + round * 2 + n / 32) % 32];
		}
		launch_binary(m, 32);
		for (unsigned n = 0; n < THREADS; n++)
			if (out32[n] != want(in32[2 * n], in32[2 * n + 1]))
				fail_msg("%s: %08x, %08x gives %08x, not %08x", name, in32[2 * n], in32[2 * n + 1],
					 out32[n], want(in32[2 * n], in32[2 * n + 1]));
	}
	ptx_module_destroy(m);
}

static __attribute__((unused)) void check64(const char *name, const char *text, uint64_t (*want)(uint64_t, uint64_t))
{
	struct ptx_module *m = load_binary(text, 64);

	for (unsigned round = 0; round < 4; round++) {
		for (unsigned n = 0; n < THREADS; n++) {
			in64[2 * n] = edges64[n % 16];
			in64[2 * n + 1] = edges64[(n * 5 + round * 4 + n / 16) % 16];
		}
		launch_binary(m, 64);
		for (unsigned n = 0; n < THREADS; n++)
			if (out64[n] != want(in64[2 * n], in64[2 * n + 1]))
				fail_msg("%s: %016llx, %016llx gives %016llx, not %016llx", name,
					 (unsigned long long)in64[2 * n], (unsigned long long)in64[2 * n + 1],
					 (unsigned long long)out64[n],
					 (unsigned long long)want(in64[2 * n], in64[2 * n + 1]));
	}
	ptx_module_destroy(m);
}

static __attribute__((unused)) float f32(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

static __attribute__((unused)) uint32_t bits32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	return bits;
}

#define W32(fn, expression)                                                                                            \
	static uint32_t fn(uint32_t a, uint32_t b)                                                                     \
	{                                                                                                              \
		(void)a, (void)b;                                                                                      \
		return (uint32_t)(expression);                                                                         \
	}
#define W64(fn, expression)                                                                                            \
	static uint64_t fn(uint64_t a, uint64_t b)                                                                     \
	{                                                                                                              \
		(void)a, (void)b;                                                                                      \
		return (uint64_t)(expression);                                                                         \
	}

#endif

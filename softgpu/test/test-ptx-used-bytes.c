/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .pragma "used_bytes_mask": a load may reach beyond an allocation with its unused last bytes, as nvcc generates it,
 * and with no others. The tests vary the lanes' addresses and the number of lanes.
 */
#include "softgpu/test/harness.h"

#define COUNT 32u /* elements there are */

static _Alignas(64) uint32_t out[2 * COUNT];
static _Alignas(64) uint8_t in[16 * COUNT + 64];

struct shape {
	const char *address; /* of the thread's element, from %l2 or %r9 (shared) on: its number in %r2 */
	unsigned first, step;
};

static const struct shape shapes[] = {
	{"mov.u32 %r2, %r1;\n", 0, 1},
	{"mov.u32 %r2, 31;\n", 31, 0},
	{"mul.lo.u32 %r2, %r1, 7;\nand.b32 %r2, %r2, 31;\n", 0, 7},
	{"sub.u32 %r2, 31, %r1;\nand.b32 %r2, %r2, 31;\n", 31, 31},
	/* one after the other, in a loop */
	{"mov.u32 %r2, 0;\nAGAIN:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r1;\n@%p1 bra AGAIN;\n"
	 "selp.u32 %r2, 0, %r2, %p2;\n",
	 0, 1},
};

struct vector {
	const char *load, *used;
	unsigned bytes, needed;
};

static const struct vector vectors[] = {
	{"v4.u32 {%r5, %r6, %r7, %r8}", "4095", 16, 12}, {"v4.u32 {%r5, %r6, %r7, %r8}", "0xf0f", 16, 12},
	{"v2.u32 {%r5, %r6}", "15", 8, 4},               {"u32 %r5", "7", 4, 3},
	{"v2.u64 {%l5, %l6}", "0x1ff", 16, 9},           {"v4.u8 {%r5, %r6, %r7, %r8}", "1", 4, 1},
};

static struct ptx_module *load_kernel(const char *space, const struct shape *s, const struct vector *v, bool pragma,
				      bool odd)
{
	bool shared = !strcmp(space, "shared");
	char text[4096];

	snprintf(text, sizeof(text),
		 PTX_HEAD ".extern .shared .align 16 .b8 area[];\n"
			  ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<16>;\n"
			  ".reg .b64 %%l<16>;\nld.param.u64 %%l1, [p0];\nld.param.u64 %%l2, [p1];\nmov.u32 %%r1, %%tid.x;\n"
			  "mov.u32 %%r2, %%tid.y;\nmov.u32 %%r3, %%ntid.x;\nmad.lo.u32 %%r1, %%r2, %%r3, %%r1;\n"
			  "mul.wide.u32 %%l3, %%r1, 4;\nadd.s64 %%l3, %%l1, %%l3;\nsetp.eq.u32 %%p2, %%r1, 0;\n"
			  "mov.u64 %%l5, 0;\nmov.u32 %%r5, 0;\nand.b32 %%r4, %%r1, 1;\nsetp.ne.u32 %%p3, %%r4, 0;\n"
			  "mov.u64 %%l4, area;\n%s"
			  "%smul.wide.u32 %%l7, %%r2, %u;\nadd.s64 %%l7, %%l7, %s;\n%s%s%sld.%s.%s, [%%l7];\n"
			  "SKIP:\ncvt.u32.u64 %%r10, %%l5;\nadd.u32 %%r5, %%r5, %%r10;\nst.global.u32 [%%l3], %%r5;\n"
			  "ret;\n}\n",
		 odd ? "@!%p3 bra SKIP;\n" : "", s->address, v->bytes, shared ? "%l4" : "%l2",
		 pragma ? ".pragma \"used_bytes_mask " : "", pragma ? v->used : "", pragma ? "\";\n" : "", space,
		 v->load);
	return load(text);
}

/* Whether COUNT elements that have so many bytes are enough for the kernel. */
static bool run(struct ptx_module *m, const char *space, const struct shape *s, const struct vector *v, bool odd,
		size_t bytes, unsigned x, unsigned y)
{
	bool shared = !strcmp(space, "shared"), ok;
	const void *params[2] = {out, in};
	struct ptx_fault fault;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range(in, shared ? sizeof(in) : bytes, false);
	memset(out, 0, sizeof(out));
	ok = launch(m, 1, x, y, shared ? bytes : 0, params, &fault);
	if (ok && !shared)
		for (unsigned n = 0; n < x * y; n++) {
			uint32_t expected = 0;

			memcpy(&expected, in + (s->first + n * s->step) % COUNT * v->bytes,
			       strstr(v->load, "u8") ? 1 : 4);
			assert_int_equal(out[n], odd && !(n & 1) ? 0 : expected);
		}
	if (!ok) {
		assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
		assert_int_equal(fault.address, (shared ? 0 : (uintptr_t)in) + (COUNT - 1) * v->bytes);
	}
	return ok;
}

/* Whether any of the threads reads the last element. */
static bool reaches_end(const struct shape *s, bool odd, unsigned threads)
{
	for (unsigned n = odd; n < threads; n += 1 + odd)
		if ((s->first + n * s->step) % COUNT == COUNT - 1)
			return true;
	return false;
}

struct block {
	unsigned x, y;
};

/* A whole warp, one of several rows, and few threads, which run one after the other. */
static const struct block blocks[] = {{32, 1}, {8, 4}, {4, 1}};

static void each_block(const char *space, const struct shape *s, const struct vector *v, bool odd)
{
	size_t least = (COUNT - 1) * v->bytes + v->needed;
	struct ptx_module *with = load_kernel(space, s, v, true, odd), *without = load_kernel(space, s, v, false, odd);

	for (size_t k = 0; k < sizeof(blocks) / sizeof(*blocks); k++) {
		const struct block *b = &blocks[k];

		if (!reaches_end(s, odd, b->x * b->y))
			continue;
		assert_true(run(with, space, s, v, odd, least, b->x, b->y));
		assert_false(run(with, space, s, v, odd, least - 1, b->x, b->y));
		assert_false(run(without, space, s, v, odd, least, b->x, b->y));
	}
	ptx_module_destroy(with);
	ptx_module_destroy(without);
}

static void each(const char *space)
{
	for (size_t k = 0; k < sizeof(vectors) / sizeof(*vectors); k++)
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
			each_block(space, &shapes[s], &vectors[k], false);
			each_block(space, &shapes[s], &vectors[k], true);
		}
}

static void global(void **state)
{
	(void)state;
	each("global");
}

static void shared(void **state)
{
	(void)state;
	each("shared");
}

static bool run_whole(const struct vector *v, size_t bytes)
{
	struct ptx_module *m = load_kernel("global", shapes, v, true, false);
	bool ok = run(m, "global", shapes, v, false, bytes, 32, 1);

	ptx_module_destroy(m);
	return ok;
}

/* The pragma is about the next instruction, and only if that loads. */
static void next_only(void **state)
{
	static const struct vector behind = {"u32 %r5, [%l7];\nld.global.v4.u32 {%r5, %r6, %r7, %r8}", "7", 16, 12};
	static const struct vector two = {"u32 %r5, [%l7];\nadd.u32 %r7, %r5, 1;\nld.global.u32 %r5", "7", 4, 3};
	static const struct vector odd = {"u32 %r5", "nonsense", 4, 4};

	(void)state;
	assert_false(run_whole(&behind, 16 * COUNT - 4));
	assert_false(run_whole(&two, 4 * COUNT - 1));
	assert_true(run_whole(&odd, 4 * COUNT));
	assert_false(run_whole(&odd, 4 * COUNT - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(global),
		cmocka_unit_test(shared),
		cmocka_unit_test(next_only),
	};

	for (size_t n = 0; n < sizeof(in); n++)
		in[n] = (uint8_t)(n * 37 + n / 7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

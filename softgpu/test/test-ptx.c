/* SPDX-License-Identifier: Apache-2.0 */
/* The PTX compiler's front end: what a module declares, what is refused and how, hostile text. */
#include "softgpu/test/harness.h"
#include "test/seed.h"

/* ---- parser ---- */

static void refuse(const char *text, enum ptx_status want, unsigned line, const char *part)
{
	struct ptx_module *module;
	struct ptx_error error;
	const struct ptx_binary *binary;
	uint32_t block[3] = {32, 1, 1};
	enum ptx_status status = ptx_module_create(text, strlen(text), &module, &error);

	if (status == PTX_OK)
		status = ptx_kernel_prepare(ptx_module_kernel(module, 0), block, &binary, &error);
	if (status != want)
		fail_msg("%u, not %u: %s", status, want, error.text);
	assert_int_equal(error.line, line);
	if (!strstr(error.text, part))
		fail_msg("`%s` lacks `%s`", error.text, part);
	ptx_module_destroy(module);
}

static void errors_name_the_line(void **state)
{
	(void)state;
	refuse("hello", PTX_INVALID, 1, ".version");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<2>;\nmov.u32 %r5, 1;\n}\n", PTX_INVALID, 7, "%r5");
	refuse(PTX_HEAD ".visible .entry k()\n{\nbra $nowhere;\n}\n", PTX_INVALID, 6, "$nowhere");
	refuse(PTX_HEAD ".visible .entry k()\n{\n", PTX_INVALID, 6, "ends inside");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<2>;\nadd.s32 %r1, %r1;\n}\n", PTX_INVALID, 7, "operands");
	refuse(PTX_HEAD ".visible .entry k()\n{\nret\n}\n", PTX_INVALID, 7, "before `}`");
	refuse(PTX_HEAD ".tex .u32 t;\n", PTX_NOT_SUPPORTED, 4, ".tex");
}

/* Names of templates have kilobytes: the reason comes behind. */
static void long_names_are_short(void **state)
{
	char name[1001] = {0}, text[4000];

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	memcpy(name, "first", 5);
	memcpy(name + sizeof(name) - 5, "last", 5);
	snprintf(text, sizeof(text), PTX_HEAD ".func %s()\n{\nret;\n}\n.func %s()\n{\nret;\n}\n", name, name);
	refuse(text, PTX_INVALID, 9, "`firstaaa");
	refuse(text, PTX_INVALID, 9, "aaa...aaa");
	refuse(text, PTX_INVALID, 9, "aaalast` is defined twice");
}

static void unsupported_is_named(void **state)
{
	(void)state;
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<2>;\ntex.2dms.v4.f32.s32 {%r1}, [x, {%r1}];\n}\n",
	       PTX_NOT_SUPPORTED, 7, "tex.2dms.v4.f32.s32");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b64 %l<2>;\n.reg .f32 %f<4>;\n"
			"tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%l0, %l1, {%f0, %f1}];\n}\n",
	       PTX_NOT_SUPPORTED, 8, "samplers");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<2>;\nadd.frob.s32 %r1, %r1, %r1;\n}\n", PTX_INVALID, 7,
	       ".frob");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<2>;\nmul.sat.lo.s32 %r1, %r1, %r1;\n}\n",
	       PTX_INVALID, 7, "mul");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .pred %p<4>;\nmov.pred {%p1, %p2}, %p3;\n}\n", PTX_INVALID, 7,
	       "mov.pred");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<4>;\nmov.b32 {%r1, %r2, %r3}, %r0;\n}\n", PTX_INVALID, 7,
	       "mov.b32");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.shared .b64 m;\ncp.async.mbarrier.arrive.shared [m];\n}\n",
	       PTX_INVALID, 7, "cp.async.mbarrier.arrive");
}

#define CALLED(rest)                                                                                                   \
	PTX_HEAD ".func f(.param .align 16 .b8 v[16])\n{\n.reg .b32 %r<8>;\n" rest "ret;\n}\n.visible .entry k()\n{\n"    \
		 ".param .align 16 .b8 v[16];\n.reg .b32 %r<8>;\nst.param.v4.b32 [v], {%r1, %r2, %r3, %r4};\n"          \
		 "call f, (v);\nret;\n}\n"

/* A vector has as many values as its name says, in each place of a parameter. */
static void vectors_are_whole(void **state)
{
	(void)state;
	refuse(CALLED("ld.param.v4.b32 {%r1, %r2}, [v];\n"), PTX_INVALID, 7, "ld");
	refuse(CALLED("ld.param.v2.b32 {%r1, %r2, %r3, %r4}, [v];\n"), PTX_INVALID, 7, "ld");
	refuse(CALLED("ld.param.v4.b32 %r1, [v];\n"), PTX_INVALID, 7, "ld");
	refuse(CALLED("ld.param.b32 {%r1, %r2}, [v];\n"), PTX_INVALID, 7, "ld");
	refuse(CALLED("ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [v];\nld.param.v4.b32 {%r1, %r2}, [v+4];\n"), PTX_INVALID, 8,
	       "ld");
	refuse(PTX_HEAD ".visible .entry k(.param .align 16 .b8 v[16])\n{\n.reg .b32 %r<8>;\n"
			"ld.param.v4.b32 {%r1, %r2}, [v];\nret;\n}\n",
	       PTX_INVALID, 7, "ld");
}

/* Managed or not is the definition's business; another text may only declare it. */
static void managed_variables(void **state)
{
	static const char defines[] = PTX_HEAD ".visible .global .attribute(.managed) .align 8 .b8 list[24] = {7};\n"
					       ".global .attribute(.managed) .u32 own;\n.global .u32 plain;\n";
	static const char declares[] = PTX_HEAD ".extern .global .attribute(.managed) .align 8 .b8 list[24];\n"
						".visible .global .u64 to_list = generic(list)+8;\n";
	const struct ptx_text texts[] = {{declares, strlen(declares)}, {defines, strlen(defines)}};
	const struct ptx_variable *v;
	struct ptx_module *m;
	struct ptx_error error;
	uint64_t address = 0;

	(void)state;
	assert_int_equal(ptx_module_link(texts, 2, &m, &error), PTX_OK);
	assert_int_equal(ptx_module_variables(m, &v), 4);
	assert_string_equal(v[0].name, "to_list");
	assert_string_equal(v[1].name, "list");
	assert_string_equal(v[2].name, "own");
	assert_true(!v[0].managed && v[1].managed && v[2].managed && !v[3].managed);
	assert_int_equal(v[1].size, 24);
	assert_int_equal(v[1].align, 8);
	ptx_module_place(m, 1, 0x5000);
	assert_int_equal(ptx_module_relocate(m, 0, &address, &error), PTX_OK);
	assert_true(address == 0x5008);
	ptx_module_destroy(m);
	refuse(PTX_HEAD ".const .attribute(.managed) .u32 c;\n", PTX_INVALID, 4, "managed");
	refuse(PTX_HEAD ".shared .attribute(.managed) .u32 c;\n", PTX_INVALID, 4, "managed");
	refuse(PTX_HEAD ".global .attribute(.unified) .u32 c;\n", PTX_NOT_SUPPORTED, 4, ".unified");
}

#define KERNEL(body) PTX_HEAD ".visible .entry k()\n{\n" body "ret;\n}\n"
#define HALF_SPACE "536870912"

static void refuse_size(const char *text, unsigned line, const char *part)
{
	struct ptx_module *module;
	struct ptx_error error = {0};

	if (ptx_module_create(text, strlen(text), &module, &error) != PTX_INVALID || error.line != line ||
	    !strstr(error.text, part))
		fail_msg("line %u, not %u: `%s` lacks `%s`", error.line, line, error.text, part);
}

static void accept_size(const char *text)
{
	ptx_module_destroy(load(text));
}

/* Sizes whose products and sums overflow, or do not fit the device's numbers of bytes. */
static void sizes_do_not_overflow(void **state)
{
	(void)state;
	refuse_size(PTX_HEAD ".global .b8 a[17179869184][68719476736];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".global .b8 a[65536][65536][65536][65536];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".global .v4 .b64 a[576460752303423488];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".global .b8 a[17179869184][68719476736] = {1};\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".extern .global .b8 a[17179869184][68719476736];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".common .global .b8 a[17179869184][68719476736];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".const .b8 a[17179869184][68719476736];\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".shared .b8 a[17179869184][68719476736];\n", 4, "`a` is too large");
	refuse_size(KERNEL(".local .b8 a[17179869184][68719476736];\n"), 6, "`a` is too large");
	refuse_size(KERNEL(".param .b8 a[17179869184][68719476736];\n"), 6, "`a` is too large");
	refuse_size(KERNEL(".param .b8 a[4294967304];\n"), 6, "`a` is too large");
	refuse_size(PTX_HEAD ".func f(.param .b8 a[17179869184][68719476736]);\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".entry k(.param .b8 a[17179869184][68719476736]) { ret; }\n", 4, "`a` is too large");
	refuse_size(PTX_HEAD ".global .b8 a[4294967296 * 4294967296];\n", 4, "`a` has no elements");
	refuse_size(PTX_HEAD ".global .b8 a[0];\n", 4, "`a` has no elements");
	accept_size(PTX_HEAD ".extern .shared .b8 a[0];\n");
}

/* Arrays without a size have an initial value, or are dynamic or another text's. */
static void arrays_have_elements(void **state)
{
	static const char *const spaces[] = {".global", ".const", ".shared", ".weak .global", ".common .global"};
	const struct ptx_variable *v;
	struct ptx_module *m;
	char text[300];

	(void)state;
	for (size_t n = 0; n < sizeof(spaces) / sizeof(spaces[0]); n++) {
		snprintf(text, sizeof(text), "%s%s .b8 a[];\n", PTX_HEAD, spaces[n]);
		refuse_size(text, 4, "`a` has no elements");
	}
	refuse_size(KERNEL(".local .b8 a[];\n"), 6, "`a` has no elements");
	refuse_size(KERNEL(".shared .b8 a[];\n"), 6, "`a` has no elements");
	accept_size(PTX_HEAD ".extern .shared .b8 a[];\n.extern .global .b8 b[];\n");
	m = load(PTX_HEAD ".global .b8 a[] = {1, 2, 3}, b;\n");
	assert_int_equal(ptx_module_variables(m, &v), 2);
	assert_int_equal(v[0].size, 3);
	assert_int_equal(v[1].size, 1);
	ptx_module_destroy(m);
}

/* As NVIDIA's assembler 13.0 has it: which braces an array's initial values need, and where the values are. */
static void initial_values_have_the_shape_of_the_array(void **state)
{
	static const struct {
		const char *variable;
		uint32_t count, words[8]; /* count 0: it is refused */
	} cases[] = {
		{".u32 a = 7", 1, {7}},
		{".u32 a[4] = {}", 4, {0}},
		{".u32 a[4] = {1, 2}", 4, {1, 2}},
		{".u32 a[2][2] = {{1}, {2, 3}}", 4, {1, 0, 2, 3}},
		{".u32 a[2][2] = {{}, {1}}", 4, {0, 0, 1}},
		{".u32 a[][2] = {{1}, {2, 3}, {4}}", 6, {1, 0, 2, 3, 4}},
		{".u32 a[][2] = {{}}", 2, {0}},
		{".u32 a[2][2][2] = {{{1}, {2}}, {{3, 4}}}", 8, {1, 0, 2, 0, 3, 4}},
		{".u32 a[1][1][1][1][1][1][1][1][1][1][1] = {{{{{{{{{{{3}}}}}}}}}}}", 1, {3}},
		{".v2 .u32 a = {1, 2}", 2, {1, 2}},
		{".v2 .u32 a[2] = {{1, 2}, {3, 4}}", 4, {1, 2, 3, 4}},
		{".v2 .u32 a[2] = {{1, 2}}", 4, {1, 2}},
		{".u32 a = {}", 0, {0}},
		{".u32 a = {1}", 0, {0}},
		{".u32 a[4] = 1", 0, {0}},
		{".u32 a[] = {}", 0, {0}},
		{".u32 a[][2] = {}", 0, {0}},
		{".u32 a[2][] = {{1}, {2}}", 0, {0}},
		{".u32 a[2] = {1,}", 0, {0}},
		{".u32 a[2] = {1, 2, 3}", 0, {0}},
		{".u32 a[2] = {{1}, 2}", 0, {0}},
		{".u32 a[2][2] = {1, 2}", 0, {0}},
		{".u32 a[2][2] = {1, {2, 3}}", 0, {0}},
		{".u32 a[2][2] = {{1, 2, 3}, {4}}", 0, {0}},
		{".v2 .u32 a[2] = {1, 2}", 0, {0}},
		{".v2 .u32 a[2] = {1, 2, 3, 4}", 0, {0}},
		{".v2 .u32 a[2] = {{1}, {3, 4}}", 0, {0}},
	};
	const struct ptx_variable *v;
	struct ptx_module *m;
	struct ptx_error error;
	char text[300];

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		snprintf(text, sizeof(text), "%s.global %s;\n", PTX_HEAD, cases[n].variable);
		if (!cases[n].count) {
			assert_int_equal(ptx_module_create(text, strlen(text), &m, &error), PTX_INVALID);
			continue;
		}
		m = load(text);
		assert_int_equal(ptx_module_variables(m, &v), 1);
		assert_int_equal(v->size, 4 * cases[n].count);
		assert_memory_equal(v->init, cases[n].words, v->size);
		ptx_module_destroy(m);
		map.count = 0;
	}
	/* Rows that a few letters fill. */
	refuse(PTX_HEAD ".global .b8 a[][4294967296] = {{1}, {2}};\n", PTX_NOT_SUPPORTED, 4, "4294967296 bytes");
	refuse(PTX_HEAD ".global .b8 a[][268435456] = {{}, {}};\n", PTX_NOT_SUPPORTED, 4, "536870912 bytes");
	refuse(PTX_HEAD ".global .b8 a[2][34359738368] = {{1}, {2}};\n", PTX_NOT_SUPPORTED, 4, "68719476736 bytes");
}

static unsigned threads_of(const char *tuning)
{
	char text[300];
	struct ptx_module *m;
	unsigned threads;

	snprintf(text, sizeof(text), "%s.visible .entry k()\n%s\n{\nret;\n}\n", PTX_HEAD, tuning);
	m = load(text);
	threads = ptx_kernel_info(ptx_module_kernel(m, 0))->max_threads;
	ptx_module_destroy(m);
	return threads;
}

/* A product that is too large is a limit like others. */
static void products_of_threads(void **state)
{
	(void)state;
	assert_int_equal(threads_of(""), 0);
	assert_int_equal(threads_of(".maxntid 16, 2, 3"), 96);
	assert_int_equal(threads_of(".maxntid 65536, 65536"), UINT32_MAX);
	assert_int_equal(threads_of(".reqntid 65536, 65536, 65536"), UINT32_MAX);
	assert_int_equal(threads_of(".maxntid 65537, 2"), 131074);
	refuse_size(PTX_HEAD ".visible .entry k()\n.maxntid 0\n{\nret;\n}\n", 6, "from 1 to");
	refuse_size(PTX_HEAD ".visible .entry k()\n.reqntid 4294967296\n{\nret;\n}\n", 6, "from 1 to");
	refuse_size(PTX_HEAD ".visible .entry k()\n.maxntid 1, 4294967297\n{\nret;\n}\n", 6, "from 1 to");
}

static void sums_of_sizes_do_not_overflow(void **state)
{
	static const char large[] = PTX_HEAD ".const .b8 a[40000];\n";
	const struct ptx_text texts[] = {{large, sizeof(large) - 1}, {large, sizeof(large) - 1}};
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	accept_size(KERNEL(".local .b8 a[" HALF_SPACE "], b[" HALF_SPACE "];\n"));
	refuse_size(KERNEL(".local .b8 a[" HALF_SPACE "], b[" HALF_SPACE "], c;\n"), 6, "`c` is too large");
	refuse_size(KERNEL(".shared .b8 a[116224], b[116224], c;\n.reg .b32 r;\n"
			   "mov.b32 r, a;\nmov.b32 r, b;\nmov.b32 r, c;\n"),
		    6, "`c` is too large");
	accept_size(PTX_HEAD ".const .b8 a[40000], b[25536];\n");
	refuse_size(PTX_HEAD ".const .b8 a[40000];\n.const .b8 b[25537];\n", 5, "`b` there are");
	/* each text has its own constants */
	assert_int_equal(ptx_module_link(texts, 2, &m, &error), PTX_OK);
	ptx_module_destroy(m);
}

static void module_is_described(void **state)
{
	struct ptx_module *m = load(sample_block_sum);
	const struct ptx_kernel_info *info = ptx_kernel_info(ptx_module_find_kernel(m, "sum"));
	const struct ptx_variable *v;

	(void)state;
	assert_int_equal(ptx_module_kernels(m), 1);
	assert_int_equal(info->param_count, 1);
	assert_int_equal(info->param_bytes, 8);
	assert_int_equal(info->static_shared, 4096);
	assert_int_equal(info->ptx_version, 90);
	assert_int_equal(info->target_sm, 100);
	assert_int_equal(ptx_module_variables(m, &v), 2);
	assert_string_equal(v[0].name, "table");
	assert_int_equal(v[0].size, 16);
	assert_int_equal(((const uint8_t *)v[0].init)[12], 4);
	ptx_module_destroy(m);
}

/* Each linked text has its own version and target, the second time too, when no bodies are read. */
static void linked_texts_are_described(void **state)
{
	static const char *const words[] = {
		".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry old()\n{\nret;\n}\n",
		".version 9.0\n.target sm_121\n.address_size 64\n.visible .entry new()\n{\nret;\n}\n",
	};
	const struct ptx_text texts[] = {{words[0], strlen(words[0])}, {words[1], strlen(words[1])}};
	const struct ptx_kernel_info *info;
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	for (int n = 0; n < 2; n++) {
		assert_int_equal(ptx_module_link(texts, 2, &m, &error), PTX_OK);
		info = ptx_kernel_info(ptx_module_find_kernel(m, "old"));
		assert_int_equal(info->ptx_version, 70);
		assert_int_equal(info->target_sm, 75);
		info = ptx_kernel_info(ptx_module_find_kernel(m, "new"));
		assert_int_equal(info->ptx_version, 90);
		assert_int_equal(info->target_sm, 121);
		ptx_module_destroy(m);
	}
}

static void accept(const char *text)
{
	struct ptx_error error;
	struct ptx_module *module;
	const struct ptx_binary *binary;
	uint32_t block[3] = {32, 1, 1};

	if (ptx_module_create(text, strlen(text), &module, &error) != PTX_OK ||
	    ptx_kernel_prepare(ptx_module_kernel(module, 0), block, &binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	ptx_module_destroy(module);
}

static void heads_and_vectors(void **state)
{
	(void)state;
	accept(PTX_HEAD ".visible .entry k() .pragma \"nounroll\"; .maxntid 64 .pragma \"maxnreg 32\";\n{\nret;\n}\n");
	accept(PTX_HEAD ".func f() .abi_preserve 8 .abi_preserve_control 2\n{\nret;\n}\n"
			".visible .entry k() .blocksareclusters .reqntid 32 .reqnctapercluster 1\n{\ncall f;\nret;\n}\n");
	refuse(PTX_HEAD ".visible .entry k() .blocksareclusters .reqntid 32 .reqnctapercluster 2\n{\nret;\n}\n",
	       PTX_NOT_SUPPORTED, 5, "clusters");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .v2 .b32 v;\n.reg .b32 x;\nmov.b32 x, v.z;\n}\n", PTX_INVALID, 8, "v.z");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .v2 .b32 v;\n.reg .b32 x;\nmov.b64 x, {v, v};\n}\n", PTX_INVALID, 8, "vector");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .v2 .b64 v;\n.reg .b32 x;\nld.global.b32 x, [v];\n}\n", PTX_INVALID, 8, "address");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .v4 .b32 v<4000000000>;\n}\n", PTX_INVALID, 6, "registers");
	refuse(PTX_HEAD ".visible .entry k()\n{\n.reg .v2 .b32 v;\nadd.s32 v.x, v, 1;\n}\n", PTX_INVALID, 7, "add.s32");
}

/* A kernel has the shared variables that it can reach, in its functions too, and no others. */
static void shared_by_use(void **state)
{
	struct ptx_module *m = load(PTX_HEAD ".shared .align 4 .b8 one[100];\n.shared .align 16 .b8 two[40000];\n"
					     ".shared .b8 unused[40000];\n"
					     ".func f()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, two;\nret;\n}\n"
					     ".visible .entry first()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, one;\nret;\n}\n"
					     ".visible .entry second()\n{\n.shared .b8 own[8];\n.reg .b32 %r<4>;\n"
					     "ld.shared.u32 %r1, [own+4];\nst.shared.v2.b32 [one], {%r1, %r1};\n"
					     "call f;\nret;\n}\n"
					     ".visible .entry third()\n{\nret;\n}\n");

	(void)state;
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "first"))->static_shared, 100);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "second"))->static_shared, 112 + 40000);
	assert_int_equal(ptx_kernel_info(ptx_module_find_kernel(m, "third"))->static_shared, 0);
	ptx_module_destroy(m);
}

/* ---- hostile text ---- */

static void try_text(const char *text, size_t length, bool compile)
{
	struct ptx_module *m;
	struct ptx_error error;
	const struct ptx_binary *binary;
	uint32_t block[3] = {32, 1, 1};

	if (ptx_module_create(text, length, &m, &error) != PTX_OK) {
		assert_true(error.text[0]);
		return;
	}
	for (size_t n = 0; compile && n < ptx_module_kernels(m); n++)
		if (ptx_kernel_prepare(ptx_module_kernel(m, n), block, &binary, &error) != PTX_OK)
			assert_true(error.text[0]);
	ptx_module_destroy(m);
}

static void mutated(void **state)
{
	static const char *const samples[] = {sample_vector_add, sample_block_sum};
	static const char salt[] = " \n;:,.%$@!{}[]()<>+-=0123456789abrsuf_x\"/*\0\xff";
	unsigned seed = test_seed();

	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		size_t length = strlen(samples[s]);
		char *copy = malloc(length);

		for (size_t cut = 0; cut < length; cut++) {
			memcpy(copy, samples[s], cut);
			try_text(copy, cut, false);
		}
		for (unsigned round = 0; round < 5000; round++) {
			memcpy(copy, samples[s], length);
			for (unsigned n = 0; n < 1 + round % 3; n++) {
				seed = seed * 1103515245 + 12345;
				copy[(seed >> 8) % length] = salt[(seed >> 3) % sizeof(salt)];
			}
			try_text(copy, length, round % 100 == 0);
		}
		free(copy);
	}
}

static void limits(void **state)
{
	static char deep[200000];
	size_t n;

	(void)state;
	n = (size_t)snprintf(deep, sizeof(deep), "%s.visible .entry k()\n{", PTX_HEAD);
	memset(deep + n, '{', 100000);
	try_text(deep, n + 100000, false);
	n = (size_t)snprintf(deep, sizeof(deep), "%s.global .b32 x[4] = {", PTX_HEAD);
	memset(deep + n, '{', 100000);
	try_text(deep, n + 100000, false);
	try_text(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<4000000000>;\nret;\n}\n",
		 strlen(PTX_HEAD ".visible .entry k()\n{\n.reg .b32 %r<4000000000>;\nret;\n}\n"), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_name_the_line), cmocka_unit_test(long_names_are_short),
		cmocka_unit_test(unsupported_is_named),
		cmocka_unit_test(vectors_are_whole),
		cmocka_unit_test(heads_and_vectors),
		cmocka_unit_test(managed_variables),
		cmocka_unit_test(sizes_do_not_overflow),
		cmocka_unit_test(arrays_have_elements),
		cmocka_unit_test(initial_values_have_the_shape_of_the_array),
		cmocka_unit_test(products_of_threads),
		cmocka_unit_test(sums_of_sizes_do_not_overflow),
		cmocka_unit_test(module_is_described),
		cmocka_unit_test(linked_texts_are_described),
		cmocka_unit_test(shared_by_use),
		cmocka_unit_test(mutated),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

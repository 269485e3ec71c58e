/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with a sparse matrix A. The reference fills a whole A, leaves half of each chunk out, and writes down which
 * half as the PTX ISA lays metadata out. Sums are exact.
 *
 * usage: test-ptx-sparse             compares PTX with the reference
 *        test-ptx-sparse --print     prints kernels for ptxas -arch=sm_80
 *        test-ptx-sparse CUBIN...    compares the machine code of these kernels with the reference
 */
#include "softgpu/test/test-ptx-matrix.h"
#include "softgpu/sass/sass.h"

#define M 16
#define N 8
#define MOST_K 128

struct variant {
	unsigned k;
	const char *words, *types; /* modifiers behind the layouts; types of d, a, b, c */
	char a, b, c;
	unsigned lanes; /* of each four, that have metadata */
	bool newer;	/* not of sm_80 */
};

#define INTEGERS(k, width, u, s, lanes)                                                                                \
	{k, "", "s32.u" width ".u" width ".s32", u, u, 'i', lanes, false},                                             \
		{k, "", "s32.u" width ".s" width ".s32", u, s, 'i', lanes, false},                                     \
		{k, ".satfinite", "s32.s" width ".u" width ".s32", s, u, 'i', lanes, false},                           \
		{k, ".satfinite", "s32.s" width ".s" width ".s32", s, s, 'i', lanes, false}

static const struct variant variants[] = {
	{16, "", "f16.f16.f16.f16", 'h', 'h', 'h', 1, false},
	{16, "", "f32.f16.f16.f32", 'h', 'h', 'f', 1, false},
	{32, "", "f16.f16.f16.f16", 'h', 'h', 'h', 2, false},
	{32, "", "f32.f16.f16.f32", 'h', 'h', 'f', 2, false},
	{16, "", "f32.bf16.bf16.f32", 'y', 'y', 'f', 1, false},
	{32, "", "f32.bf16.bf16.f32", 'y', 'y', 'f', 2, false},
	{8, "", "f32.tf32.tf32.f32", 't', 't', 'f', 1, false},
	{16, "", "f32.tf32.tf32.f32", 't', 't', 'f', 2, false},
	INTEGERS(32, "8", 'u', 's', 2),
	INTEGERS(64, "8", 'u', 's', 4),
	INTEGERS(64, "4", 'U', 'S', 2),
	INTEGERS(128, "4", 'U', 'S', 4),
	{64, "", "f32.e4m3.e5m2.f32", '4', '5', 'f', 4, true},
	{64, "", "f16.e5m2.e4m3.f16", '5', '4', 'h', 4, true},
	{64, ".kind::f8f6f4", "f32.e2m1.e3m2.f32", '2', '6', 'f', 4, true},
	{64, ".kind::f8f6f4", "f16.e2m3.e4m3.f16", '3', '4', 'h', 4, true},
};

#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

/* A kernel's registers: A, B, C and the metadata; then D. Each is at (register * 32 + lane) * 8. */
static uint32_t words_in[16 * LANES * 2], words_out[4 * LANES * 2], want[4 * LANES * 2];

static unsigned registers_a(const struct variant *v)
{
	return registers(M, v->k / 2, v->a);
}

static unsigned registers_b(const struct variant *v)
{
	return registers(v->k, N, v->b);
}

static unsigned registers_c(const struct variant *v)
{
	return registers(M, N, v->c);
}

/* Where a lane has its element i: a matrix of rows, for A with half of the columns and for B with columns as rows. */
static void where(char type, bool two_rows, unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
	unsigned each = bits_of_class(type) == 32 ? 1 : 32 / bits_of_class(type), reg = i / each;

	*row = lane / 4 + (two_rows && reg % 2 ? 8 : 0);
	*column = lane % 4 * each + i % each + (two_rows ? reg / 2 : reg) * 4 * each;
}

/* The metadata of a row's chunk of 4 bits: its word's lane, and its place in the word. */
static void put_metadata(const struct variant *v, uint32_t *words, unsigned selector, unsigned row, unsigned chunk,
			 unsigned code)
{
	bool wide = bits_of_class(v->a) >= 16;
	/* four chunks of rows r and r + 8 in one lane; or eight chunks of row r in one lane, of r + 8 in the next */
	unsigned part = wide ? chunk / 4 : chunk / 8 * 2 + row / 8;
	unsigned shift = wide ? row / 8 * 16 + chunk % 4 * 4 : chunk % 8 * 4;
	uint32_t *word = &words[(row % 8 * 4 + selector * v->lanes + part) * 2];

	*word = (*word & ~(15u << shift)) | code << shift;
}

/* Leaves half of each chunk out; `kept` gets the columns that remain. */
static void choose(const struct variant *v, uint32_t *words, unsigned selector, unsigned row, unsigned *kept)
{
	unsigned bits = bits_of_class(v->a), size = bits == 32 ? 2 : bits == 4 ? 8 : 4;

	for (unsigned chunk = 0; chunk < v->k / size; chunk++) {
		unsigned first = chunk * size, low = (unsigned)next(0, 2), high = (unsigned)next((int)low + 1, 3);

		if (bits == 32) { /* one of two, named by its halves */
			low = (unsigned)next(0, 1);
			*kept++ = first + low;
			put_metadata(v, words, selector, row, chunk, low ? 0xe : 0x4);
			continue;
		}
		put_metadata(v, words, selector, row, chunk, low | high << 2);
		if (bits == 4) { /* pairs */
			*kept++ = first + 2 * low;
			*kept++ = first + 2 * low + 1;
			*kept++ = first + 2 * high;
			*kept++ = first + 2 * high + 1;
		} else {
			*kept++ = first + low;
			*kept++ = first + high;
		}
	}
}

/* The sum as its type has it. */
static double limited(const struct variant *v, double sum)
{
	if (v->c == 'h')
		return (double)(_Float16)sum;
	if (v->c != 'i')
		return sum;
	if (strstr(v->words, "sat"))
		return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
	return (int32_t)(uint32_t)(int64_t)sum;
}

/* `huge`: integer sums that leave 32 bits. */
static void fill(const struct variant *v, unsigned selector, bool huge)
{
	static double a[M][MOST_K], b[N][MOST_K];
	static unsigned kept[M][MOST_K / 2];
	unsigned ra = registers_a(v), rb = registers_b(v), rc = registers_c(v), row, column;

	memset(words_in, 0, sizeof(words_in));
	memset(want, 0, sizeof(want));
	memset(a, 0, sizeof(a));
	/* lanes that are not selected have other metadata */
	for (unsigned l = 0; l < LANES; l++)
		words_in[((ra + rb + rc) * LANES + l) * 2] = (uint32_t)next(0, 0xffff) << 16 | (uint32_t)next(0, 0xffff);
	for (row = 0; row < M; row++)
		choose(v, &words_in[(ra + rb + rc) * LANES * 2], selector, row, kept[row]);
	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned i = 0; i < M * v->k / 2 / LANES; i++) {
			double value = any_value(v->a);

			where(v->a, true, l, i, &row, &column);
			a[row][kept[row][column]] = value;
			put(words_in, v->a, 0, l, i, value);
		}
		for (unsigned i = 0; i < N * v->k / LANES; i++) {
			where(v->b, false, l, i, &row, &column);
			b[row][column] = any_value(v->b);
			put(words_in, v->b, ra, l, i, b[row][column]);
		}
	}
	for (unsigned l = 0; l < LANES; l++)
		for (unsigned i = 0; i < M * N / LANES; i++) {
			double sum = huge ? (l & 1 ? INT32_MAX : INT32_MIN) : small('s'), product = 0;

			put(words_in, v->c, ra + rb, l, i, sum);
			for (unsigned k = 0; k < v->k; k++)
				product += a[l / 4 + i / 2 * 8][k] * b[l % 4 * 2 + i % 2][k];
			/* the kernel adds it twice */
			put(want, v->c, 0, l, i, limited(v, limited(v, sum + product) + product));
		}
}

static void full_name(const struct variant *v, bool ordered, char *to, size_t room)
{
	snprintf(to, room, "mma.sp%s.sync.aligned.m16n8k%u.row.col%s.%s", ordered ? "::ordered_metadata" : "", v->k,
		 v->words, v->types);
}

static char *kernel_text(char *at, const struct variant *v, unsigned selector, bool ordered)
{
	unsigned counts[3] = {registers_a(v), registers_b(v), registers_c(v)}, total = counts[0] + counts[1] + counts[2];
	char name[120];

	full_name(v, ordered, name, sizeof(name));
	at += sprintf(at,
		      ".visible .entry k%u_%u(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .b32 %%t, %%q<32>;\n"
		      ".reg .b64 %%l<4>;\nld.param.u64 %%l1, [p_out];\nld.param.u64 %%l2, [p_in];\nmov.u32 %%t, %%tid.x;\n"
		      "mul.wide.u32 %%l3, %%t, 8;\nadd.s64 %%l1, %%l1, %%l3;\nadd.s64 %%l2, %%l2, %%l3;\n",
		      (unsigned)(v - variants), selector);
	for (unsigned n = 0; n <= total; n++)
		at += sprintf(at, "ld.global.b32 %%q%u, [%%l2+%u];\n", n, n * 256);
	/* d = a * b + c, then d = a * b + d: machine code may say that both have the same metadata */
	for (unsigned round = 0; round < 2; round++) {
		at = registers_text(at + sprintf(at, "%s ", name), "%q", 24, counts[2]);
		at = registers_text(at + sprintf(at, ", "), "%q", 0, counts[0]);
		at = registers_text(at + sprintf(at, ", "), "%q", counts[0], counts[1]);
		at = registers_text(at + sprintf(at, ", "), "%q", round ? 24 : counts[0] + counts[1], counts[2]);
		at += sprintf(at, ", %%q%u, %u;\n", total, selector);
	}
	for (unsigned n = 0; n < counts[2]; n++)
		at += sprintf(at, "st.global.b32 [%%l1+%u], %%q%u;\n", n * 256, 24 + n);
	return at + sprintf(at, "ret;\n}\n");
}

static void run(struct ptx_module *m, const char *kernel)
{
	void *params[2] = {words_out, words_in};
	struct ptx_launch l = {
		.grid = {1, 1, 1}, .block = {LANES, 1, 1}, .params = params, .memory = &map, .print = print};
	struct ptx_kernel *k = ptx_module_find_kernel(m, kernel);
	struct ptx_error error;
	struct ptx_fault fault;

	map.count = 0;
	add_range(words_in, sizeof(words_in), false);
	add_range(words_out, sizeof(words_out), true);
	if (!k)
		fail_msg("kernel %s is missing", kernel);
	if (ptx_kernel_prepare(k, l.block, &l.binary, &error) != PTX_OK)
		fail_msg("%s, line %u: %s", kernel, error.line, error.text);
	memset(words_out, 0, sizeof(words_out));
	if (!ptx_run_blocks(&l, 0, 1, &fault))
		fail_msg("%s: fault %d", kernel, fault.kind);
}

static void check(struct ptx_module *m, const struct variant *v, unsigned selector)
{
	char kernel[32], name[120];

	full_name(v, false, name, sizeof(name));
	snprintf(kernel, sizeof(kernel), "k%u_%u", (unsigned)(v - variants), selector);
	for (unsigned round = 0; round < 4; round++) {
		fill(v, selector, round == 3 && v->c == 'i');
		run(m, kernel);
		for (unsigned w = 0; w < registers_c(v) * LANES * 2; w++)
			if (words_out[w] != want[w])
				fail_msg("%s, selector %u: register %u of lane %u is %08x, not %08x", name, selector,
					 w / 64, w / 2 % 32, words_out[w], want[w]);
	}
}

static void products(void **state)
{
	char text[8192];

	(void)state;
	for (const struct variant *v = variants; v < variants + VARIANTS; v++)
		for (unsigned selector = 0; selector < 4 / v->lanes; selector++)
			for (unsigned ordered = v->newer; ordered < 2; ordered++) {
				struct ptx_module *m;

				strcpy(text, ".version 9.0\n.target sm_120a\n.address_size 64\n");
				kernel_text(text + strlen(text), v, selector, ordered);
				m = load(text);
				check(m, v, selector);
				ptx_module_destroy(m);
			}
}

/* Numbers that are left out are not multiplied: rows of B that no row of A selects may be infinite. */
static void left_out(void **state)
{
	const struct variant *v = &variants[1];
	unsigned ra = registers_a(v), rb = registers_b(v), rc = registers_c(v);
	char text[8192] = ".version 9.0\n.target sm_80\n.address_size 64\n";
	struct ptx_module *m;

	(void)state;
	kernel_text(text + strlen(text), v, 2, true);
	m = load(text);
	memset(words_in, 0, sizeof(words_in));
	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned r = 0; r < ra; r++)
			words_in[(r * LANES + l) * 2] = 0x3c003c00;
		/* rows 0 and 1 of each four of B are 1, rows 2 and 3 infinite */
		for (unsigned r = 0; r < rb; r++)
			words_in[((ra + r) * LANES + l) * 2] = l % 2 ? 0x7c007c00 : 0x3c003c00;
		words_in[((ra + rb + rc) * LANES + l) * 2] = l % 4 == 2 ? 0x44444444 : 0xeeeeeeee;
	}
	run(m, "k1_2");
	for (unsigned w = 0; w < rc * LANES; w++)
		assert_int_equal(words_out[w * 2], bits32(16));
	ptx_module_destroy(m);
}

#define D4 "{%q0,%q1,%q2,%q3}"
#define SUM_F32(sp, shape, type) "mma." sp ".sync.aligned." shape ".row.col.f32." type "." type ".f32 "
#define K16 SUM_F32("sp", "m16n8k16", "f16")
#define OPERANDS D4 ", {%q4,%q5}, {%q6,%q7}, " D4
#define LARGE D4 ", " D4 ", " D4 ", " D4

static void refused(void **state)
{
	static const struct {
		const char *version, *target, *instruction;
		bool at_load; /* else when it is compiled */
	} bad[] = {
		{"9.0", "sm_80", K16 OPERANDS ", %q0, 4", true},
		{"9.0", "sm_80", K16 OPERANDS ", %q0, -1", true},
		{"9.0", "sm_80", K16 OPERANDS ", %q0, %q1", true},
		{"9.0", "sm_80", K16 OPERANDS ", %q0", true},
		{"9.0", "sm_80", K16 OPERANDS, true},
		{"9.0", "sm_80", K16 OPERANDS ", 17476, 0", true},
		{"9.0", "sm_80", K16 OPERANDS ", %l1, 0", true},
		{"9.0", "sm_80", K16 OPERANDS ", {17476}, 0", true},
		{"9.0", "sm_80", K16 OPERANDS ", %p1, 0", false},
		{"9.0", "sm_80", K16 OPERANDS ", {%q0, %q1}, 0", false},
		{"9.0", "sm_80", K16 LARGE ", %q0, 0", false},
		{"7.0", "sm_80", K16 OPERANDS ", %q0, 0", true},
		{"9.0", "sm_75", K16 OPERANDS ", %q0, 0", true},
		{"8.4", "sm_80", SUM_F32("sp::ordered_metadata", "m16n8k16", "f16") OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", SUM_F32("sp::ordered", "m16n8k16", "f16") OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k8", "f16") OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k8", "tf32") OPERANDS ", %q0, 4", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k16", "tf32") LARGE ", %q0, 2", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k32", "bf16") LARGE ", %q0, 2", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k32", "f16") LARGE ", %q0, 4", true},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k32", "f16") LARGE ", %q0, 2", false},
		{"9.0", "sm_80", SUM_F32("sp", "m16n8k64", "e4m3") LARGE ", %q0, 0", true},
		{"9.0", "sm_89", SUM_F32("sp", "m16n8k64", "e4m3") LARGE ", %q0, 1", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 " OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32 " OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16 " OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 " OPERANDS ", %q0, 0", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " OPERANDS ", %q0, 2", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 " LARGE ", %q0, 1", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 " OPERANDS ", %q0, 2", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32 " LARGE ", %q0, 1", true},
		{"9.0", "sm_80", "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s4.s32 " LARGE ", %q0, 0", true},
	};
	uint32_t block[3] = {LANES, 1, 1};
	char text[4096];

	(void)state;
	for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		struct ptx_module *m = NULL;
		const struct ptx_binary *binary;
		struct ptx_error error;
		enum ptx_status status;

		snprintf(text, sizeof(text),
			 ".version %s\n.target %s\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %%q<8>;\n"
			 ".reg .b64 %%l<2>;\n.reg .pred %%p<2>;\n%s;\nret;\n}\n",
			 bad[n].version, bad[n].target, bad[n].instruction);
		status = ptx_module_create(text, strlen(text), &m, &error);
		if (bad[n].at_load ? status != PTX_INVALID : status != PTX_OK)
			fail_msg("%s, %s: %s: status %d", bad[n].version, bad[n].target, bad[n].instruction, status);
		if (status != PTX_OK)
			continue;
		assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_NOT_SUPPORTED);
		assert_non_null(strstr(error.text, "mma.sp"));
		ptx_module_destroy(m);
	}
}

/* Kernels for machine code, of each selector. */
static void print_kernels(void)
{
	char text[8192];

	printf(".version 8.5\n.target sm_80\n.address_size 64\n");
	for (const struct variant *v = variants; v < variants + VARIANTS; v++)
		for (unsigned selector = 0; !v->newer && selector < 4 / v->lanes; selector++) {
			kernel_text(text, v, selector, true);
			fputs(text, stdout);
		}
}

static const char *cubin;

static void machine_code(void **state)
{
	static char data[1 << 20];
	FILE *file = fopen(cubin, "rb");
	char *text, error[300];
	size_t bytes = file ? fread(data, 1, sizeof(data), file) : 0, length;
	struct ptx_module *m;

	(void)state;
	if (!file || vcuda_sass_to_ptx(data, bytes, NULL, &text, &length, error, sizeof(error)))
		fail_msg("%s: %s", cubin, file ? error : "no file");
	fclose(file);
	assert_non_null(strstr(text, "mma.sp"));
	m = load(text);
	for (const struct variant *v = variants; v < variants + VARIANTS; v++)
		for (unsigned selector = 0; !v->newer && selector < 4 / v->lanes; selector++)
			check(m, v, selector);
	ptx_module_destroy(m);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products),
		cmocka_unit_test(left_out),
		cmocka_unit_test(refused),
	};
	const struct CMUnitTest lifted[] = {cmocka_unit_test(machine_code)};
	int failed = 0;

	if (argc > 1 && !strcmp(argv[1], "--print")) {
		print_kernels();
		return 0;
	}
	seed = test_seed();
	if (argc == 1)
		return cmocka_run_group_tests(tests, NULL, NULL);
	for (int n = 1; n < argc; n++) {
		cubin = argv[n];
		failed += cmocka_run_group_tests(lifted, NULL, NULL);
	}
	return failed;
}

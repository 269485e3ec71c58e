/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions: the fragments as the PTX ISA lays them out, filled with small numbers, so that sums are exact. */
#include "softgpu/test/test-ptx-matrix.h"

struct variant {
	const char *name;
	unsigned m, n, k;
	char a, b, c, d; /* types, as in test-ptx-matrix.h */
};

static uint32_t words_in[3 * 8 * LANES * 2], words_out[8 * LANES * 2];
static double va[16][256], vb[256][8], vc[16][8], vd[16][8];

/* Row and column of element i of A in a lane: the ISA's tables, all of one kind. */
static void where_a(const struct variant *v, unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
	unsigned each = bits_of_class(v->a) >= 32 ? 1 : 32 / bits_of_class(v->a), reg = i / each;

	*row = lane / 4 + (v->m == 16 && reg % 2 ? 8 : 0);
	*column = lane % 4 * each + i % each + (v->m == 16 ? reg / 2 : reg) * 4 * each;
}

static void fill(const struct variant *v)
{
	unsigned ra = registers(v->m, v->k, v->a), rb = registers(v->k, v->n, v->b), row, column;
	unsigned ea = v->m * v->k / LANES, eb = v->k * v->n / LANES, ec = v->m * v->n / LANES;
	unsigned each = bits_of_class(v->b) >= 32 ? 1 : 32 / bits_of_class(v->b);

	memset(words_in, 0, sizeof(words_in));
	for (unsigned l = 0; l < LANES; l++) {
		for (unsigned i = 0; i < ea; i++) {
			where_a(v, l, i, &row, &column);
			va[row][column] = any_value(v->a);
			put(words_in, v->a, 0, l, i, va[row][column]);
		}
		for (unsigned i = 0; i < eb; i++) {
			row = l % 4 * each + i % each + i / each * 4 * each;
			vb[row][l / 4] = any_value(v->b);
			put(words_in, v->b, ra, l, i, vb[row][l / 4]);
		}
		for (unsigned i = 0; i < ec; i++) {
			row = l / 4 + i / 2 * 8;
			column = l % 4 * 2 + i % 2;
			vc[row][column] = small('s');
			put(words_in, v->c, ra + rb, l, i, vc[row][column]);
		}
	}
	for (row = 0; row < v->m; row++)
		for (column = 0; column < v->n; column++) {
			vd[row][column] = vc[row][column];
			for (unsigned k = 0; k < v->k; k++)
				vd[row][column] += strstr(v->name, "xor") ? va[row][k] != vb[k][column]
									  : va[row][k] * vb[k][column];
		}
}

/* Each register of a lane is stored at (register * 32 + lane) * 8, 8 bytes wide. */
static void run_mma(const struct variant *v)
{
	char text[8192], *at = text;
	unsigned counts[3] = {registers(v->m, v->k, v->a), registers(v->k, v->n, v->b), registers(v->m, v->n, v->c)};
	unsigned total = counts[0] + counts[1] + counts[2], rd = registers(v->m, v->n, v->d);
	bool wide = v->a == 'd';
	void *params[2] = {words_out, words_in};
	struct ptx_fault fault;
	struct ptx_module *m;

	at += sprintf(at, "%s.reg .%s %%q<80>;\nmul.wide.u32 %%l3, %%r1, 8;\nadd.s64 %%l1, %%l1, %%l3;\n"
			  "add.s64 %%l2, %%l2, %%l3;\n", REGISTERS, wide ? "f64" : "b32");
	for (unsigned n = 0; n < total; n++)
		at += sprintf(at, "ld.global.%s %%q%u, [%%l2+%u];\n", wide ? "f64" : "b32", n, n * 256);
	at += sprintf(at, "%s ", v->name);
	at = registers_text(at, "%q", 40, rd);
	for (unsigned o = 0, first = 0; o < 3; first += counts[o++]) {
		at += sprintf(at, ", ");
		at = registers_text(at, "%q", first, counts[o]);
	}
	at += sprintf(at, ";\n");
	for (unsigned n = 0; n < rd; n++)
		at += sprintf(at, "st.global.%s [%%l1+%u], %%q%u;\n", wide ? "f64" : "b32", n * 256, 40 + n);
	sprintf(at, "ret;\n}\n");
	map.count = 0;
	add_range(words_in, sizeof(words_in), false);
	add_range(words_out, sizeof(words_out), true);
	m = load(text);
	if (!launch(m, 1, 32, 1, 0, params, &fault))
		fail_msg("%s: fault %d", v->name, fault.kind);
	ptx_module_destroy(m);
}

static void products(void **state)
{
	static const struct variant variants[] = {
		{"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, 'h', 'h', 'f', 'f'},
		{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 'h', 'h', 'f', 'f'},
		{"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, 'h', 'h', 'h', 'h'},
		{"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, 'y', 'y', 'f', 'f'},
		{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 'y', 'y', 'f', 'f'},
		{"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 't', 't', 'f', 'f'},
		{"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 't', 't', 'f', 'f'},
		{"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 'd', 'd', 'd', 'd'},
		{"mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64", 16, 8, 4, 'd', 'd', 'd', 'd'},
		{"mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", 16, 8, 8, 'd', 'd', 'd', 'd'},
		{"mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", 16, 8, 16, 'd', 'd', 'd', 'd'},
		{"mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32", 8, 8, 16, 's', 'u', 'i', 'i'},
		{"mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32", 16, 8, 16, 'u', 's', 'i', 'i'},
		{"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 8, 32, 's', 's', 'i', 'i'},
		{"mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32", 8, 8, 32, 'S', 'U', 'i', 'i'},
		{"mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", 16, 8, 32, 'U', 'S', 'i', 'i'},
		{"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 16, 8, 64, 'S', 'S', 'i', 'i'},
		{"mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 8, 8, 128, '1', '1', 'i', 'i'},
		{"mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc", 16, 8, 128, '1', '1', 'i', 'i'},
		{"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 8, 256, '1', '1', 'i', 'i'},
		{"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 8, 32, '4', '5', 'f', 'f'},
		{"mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32", 16, 8, 16, '5', '4', 'f', 'f'},
		{"mma.sync.aligned.m16n8k16.row.col.kind::f8f6f4.f32.e5m2.e4m3.f32", 16, 8, 16, '5', '4', 'f', 'f'},
		{"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m3.f32", 16, 8, 32, '2', '3', 'f', 'f'},
		{"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32", 16, 8, 32, '6', '2', 'f', 'f'},
		{"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e4m3.f32", 16, 8, 32, '3', '4', 'f', 'f'},
		{"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e5m2.e3m2.f32", 16, 8, 32, '5', '6', 'f', 'f'},
		{"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f16.e2m1.e2m1.f16", 16, 8, 32, '2', '2', 'h', 'h'},
	};

	(void)state;
	for (size_t n = 0; n < sizeof(variants) / sizeof(variants[0]); n++) {
		const struct variant *v = &variants[n];
		static uint32_t want[8 * LANES * 2];

		fill(v);
		memset(want, 0, sizeof(want));
		memset(words_out, 0, sizeof(words_out));
		for (unsigned l = 0; l < LANES; l++)
			for (unsigned i = 0; i < v->m * v->n / LANES; i++)
				put(want, v->d, 0, l, i, vd[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2]);
		run_mma(v);
		for (unsigned w = 0; w < registers(v->m, v->n, v->d) * LANES * 2; w++)
			if (words_out[w] != want[w])
				fail_msg("%s: register %u of lane %u is %08x, not %08x", v->name, w / 64, w / 2 % 32,
					 words_out[w], want[w]);
	}
}

/* m8n8k4 of halves: lanes 0-3 and 16-19 make one product, and so on; each with its own layout. */
static void quad_products(void **state)
{
	static const char *const layouts[] = {"row.col", "col.row", "row.row", "col.col"};
	float a[4][8][4], b[4][4][8];

	(void)state;
	for (unsigned n = 0; n < 4; n++) {
		char name[80];
		bool a_col = layouts[n][0] == 'c', b_row = layouts[n][4] == 'r';
		struct variant v = {name, 8, 8, 4, 'h', 'h', 'f', 'f'};
		char text[4096], *at = text;
		void *params[2] = {words_out, words_in};
		struct ptx_fault fault;
		struct ptx_module *m;

		sprintf(name, "mma.sync.aligned.m8n8k4.%s.f32.f16.f16.f32", layouts[n]);
		memset(words_in, 0, sizeof(words_in));
		for (unsigned l = 0; l < LANES; l++)
			for (unsigned i = 0; i < 4; i++) {
				unsigned q = l / 4 % 4, high = l < 16 ? 0 : 4;
				int x = small('h'), y = small('h');

				a[q][a_col ? i % 4 + high : l % 4 + high][a_col ? l % 4 : i] = (float)x;
				b[q][b_row ? l % 4 : i][b_row ? i + high : l % 4 + high] = (float)y;
				put(words_in, 'h', 0, l, i, x);
				put(words_in, 'h', 2, l, i, y);
			}
		at += sprintf(at, "%s.reg .b32 %%q<80>;\nmul.wide.u32 %%l3, %%r1, 8;\nadd.s64 %%l1, %%l1, %%l3;\n"
				  "add.s64 %%l2, %%l2, %%l3;\n", REGISTERS);
		for (unsigned r = 0; r < 12; r++)
			at += sprintf(at, "ld.global.b32 %%q%u, [%%l2+%u];\n", r, r * 256);
		at += sprintf(at, "%s {%%q40,%%q41,%%q42,%%q43,%%q44,%%q45,%%q46,%%q47}, {%%q0,%%q1}, {%%q2,%%q3}, "
				  "{%%q4,%%q5,%%q6,%%q7,%%q8,%%q9,%%q10,%%q11};\n", v.name);
		for (unsigned r = 0; r < 8; r++)
			at += sprintf(at, "st.global.b32 [%%l1+%u], %%q%u;\n", r * 256, 40 + r);
		sprintf(at, "ret;\n}\n");
		map.count = 0;
		add_range(words_in, sizeof(words_in), false);
		add_range(words_out, sizeof(words_out), true);
		m = load(text);
		if (!launch(m, 1, 32, 1, 0, params, &fault))
			fail_msg("%s: fault %d", name, fault.kind);
		ptx_module_destroy(m);
		for (unsigned l = 0; l < LANES; l++)
			for (unsigned i = 0; i < 8; i++) {
				unsigned row = (l & 1) + (i & 2) + (l < 16 ? 0 : 4), column = (i & 4) + (l & 2) + (i & 1);
				float want = 0;

				for (unsigned k = 0; k < 4; k++)
					want += a[l / 4 % 4][row][k] * b[l / 4 % 4][k][column];
				if (words_out[(i * LANES + l) * 2] != bits32(want))
					fail_msg("%s: element %u of lane %u", name, i, l);
			}
	}
}

/* ---- wmma: from memory to memory ---- */

static uint8_t matrix[3][4096], result[4096];

struct wmma {
	const char *shape, *type, *out; /* type of a and b; of c and d */
	unsigned m, n, k;
	char a, c;
	unsigned ra, rb, rc;
	const char *layouts, *mma;
};

static void element(uint8_t *at, char t, size_t index, double value)
{
	unsigned bits = bits_of_class(t);
	uint64_t code = encode(t, value);

	if (bits >= 8)
		memcpy(at + index * bits / 8, &code, bits / 8);
	else
		at[index * bits / 8] |= (uint8_t)(code << index * bits % 8);
}

static void run_wmma(const struct wmma *w)
{
	static double a[32 * 128], b[128 * 32], c[32 * 32];
	static const char *const names = "abc";
	char text[8192], *at = text;
	bool columns[3] = {w->layouts[0] == 'c', w->layouts[4] == 'c', w->layouts[8] == 'c'};
	unsigned rows_of[3] = {w->m, w->k, w->m}, columns_of[3] = {w->k, w->n, w->n}, pad = w->a == '1' ? 128 : 32;
	unsigned regs[3] = {w->ra, w->rb, w->rc}, ld[3], type_bits[3];
	double *values[3] = {a, b, c};
	void *params[2] = {result, matrix};
	struct ptx_fault fault;
	struct ptx_module *m;

	memset(matrix, 0, sizeof(matrix));
	memset(result, 0, sizeof(result));
	at += sprintf(at, "%s.reg .%s %%q<80>;\n", REGISTERS, w->a == 'd' ? "f64" : "b32");
	for (unsigned o = 0; o < 3; o++) {
		char t = o == 2 ? w->c : w->a;

		ld[o] = (columns[o] ? rows_of[o] : columns_of[o]) + (pad * (w->a == 'd' ? 0 : 1));
		if (ld[o] * (columns[o] ? columns_of[o] : rows_of[o]) * bits_of_class(t) / 8 > sizeof(matrix[0]))
			ld[o] = columns[o] ? rows_of[o] : columns_of[o];
		type_bits[o] = bits_of_class(t);
		for (unsigned r = 0; r < rows_of[o]; r++)
			for (unsigned n = 0; n < columns_of[o]; n++) {
				values[o][r * columns_of[o] + n] = small(o == 2 ? 's' : t == 's' ? 'S' : t);
				element(matrix[o], t, columns[o] ? n * ld[o] + r : r * ld[o] + n,
					values[o][r * columns_of[o] + n]);
			}
		at += sprintf(at, "mov.u32 %%r5, %u;\nadd.s64 %%l5, %%l2, %u;\nwmma.load.%c.sync.aligned.%s.%s.global.%s ",
			      ld[o], o * 4096, names[o], columns[o] ? "col" : "row", w->shape, o == 2 ? w->out : w->type);
		at = registers_text(at, "%q", o * 8, regs[o]);
		at += sprintf(at, ", [%%l5], %%r5;\n");
	}
	at += sprintf(at, "%s ", w->mma);
	at = registers_text(at, "%q", 24, regs[2]);
	for (unsigned o = 0; o < 3; o++) {
		at += sprintf(at, ", ");
		at = registers_text(at, "%q", o * 8, regs[o]);
	}
	at += sprintf(at, ";\nwmma.store.d.sync.aligned.row.%s.%s [%%l1], ", w->shape, w->out);
	at = registers_text(at, "%q", 24, regs[2]);
	sprintf(at, ", %u;\nret;\n}\n", w->n);
	map.count = 0;
	add_range(matrix, sizeof(matrix), false);
	add_range(result, sizeof(result), true);
	m = load(text);
	if (!launch(m, 1, 32, 1, 0, params, &fault))
		fail_msg("%s: fault %d", w->mma, fault.kind);
	ptx_module_destroy(m);
	(void)type_bits;
	for (unsigned r = 0; r < w->m; r++)
		for (unsigned n = 0; n < w->n; n++) {
			double sum = c[r * w->n + n];
			uint8_t want[8] = {0};
			unsigned bytes = bits_of_class(w->c) / 8;

			for (unsigned k = 0; k < w->k; k++)
				sum += strstr(w->mma, "xor") ? a[r * w->k + k] != b[k * w->n + n]
							     : a[r * w->k + k] * b[k * w->n + n];
			element(want, w->c, 0, sum);
			if (memcmp(want, result + (r * w->n + n) * bytes, bytes))
				fail_msg("%s: row %u, column %u is not %g", w->mma, r, n, sum);
		}
}

static void fragments(void **state)
{
	static const struct wmma variants[] = {
		{"m16n16k16", "f16", "f32", 16, 16, 16, 'h', 'f', 8, 8, 8, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"},
		{"m16n16k16", "f16", "f16", 16, 16, 16, 'h', 'h', 8, 8, 4, "col,row,col",
		 "wmma.mma.sync.aligned.col.row.m16n16k16.f16.f16"},
		{"m32n8k16", "f16", "f32", 32, 8, 16, 'h', 'f', 8, 8, 8, "row,row,row",
		 "wmma.mma.sync.aligned.row.row.m32n8k16.f32.f32"},
		{"m8n32k16", "f16", "f32", 8, 32, 16, 'h', 'f', 8, 8, 8, "col,col,col",
		 "wmma.mma.sync.aligned.col.col.m8n32k16.f32.f32"},
		{"m16n16k16", "bf16", "f32", 16, 16, 16, 'y', 'f', 4, 4, 8, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32"},
		{"m32n8k16", "bf16", "f32", 32, 8, 16, 'y', 'f', 8, 2, 8, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m32n8k16.f32.bf16.bf16.f32"},
		{"m16n16k8", "tf32", "f32", 16, 16, 8, 't', 'f', 4, 4, 8, "row,row,row",
		 "wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32"},
		{"m8n8k4", "f64", "f64", 8, 8, 4, 'd', 'd', 1, 1, 2, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64"},
		{"m16n16k16", "s8", "s32", 16, 16, 16, 's', 'i', 2, 2, 8, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32"},
		{"m8n32k16", "u8", "s32", 8, 32, 16, 'u', 'i', 1, 4, 8, "col,row,row",
		 "wmma.mma.sync.aligned.col.row.m8n32k16.s32.u8.u8.s32.satfinite"},
		{"m32n8k16", "s8", "s32", 32, 8, 16, 's', 'i', 4, 1, 8, "row,row,col",
		 "wmma.mma.sync.aligned.row.row.m32n8k16.s32.s8.s8.s32"},
		{"m8n8k32", "s4", "s32", 8, 8, 32, 'S', 'i', 1, 1, 2, "row,col,row",
		 "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32"},
		{"m8n8k128", "b1", "s32", 8, 8, 128, '1', 'i', 1, 1, 2, "row,col,row",
		 "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"},
	};

	(void)state;
	for (size_t n = 0; n < sizeof(variants) / sizeof(variants[0]); n++)
		run_wmma(&variants[n]);
}

/* ---- 8x8 matrices of 16 bits ---- */

static void rows_of_shared_memory(void **state)
{
	static const char text[] = REGISTERS
		".shared .align 16 .b8 tile[1024];\n.shared .align 16 .b8 copy[512];\n"
		".reg .b32 %s<8>;\nmov.u32 %s1, tile;\nmov.u32 %s2, copy;\n"
		/* every lane fills a row of 16 bytes: lane * 256 + cell */
		"shl.b32 %r2, %r1, 24;\nshl.b32 %r3, %r1, 8;\nor.b32 %r2, %r2, %r3;\nadd.s32 %r3, %r2, 0x00010000;\n"
		"add.s32 %r4, %r2, 0x00030002;\nadd.s32 %r5, %r2, 0x00050004;\nadd.s32 %r6, %r2, 0x00070006;\n"
		"shl.b32 %r7, %r1, 4;\nadd.s32 %s3, %s1, %r7;\nst.shared.v4.b32 [%s3], {%r3, %r4, %r5, %r6};\n"
		"bar.warp.sync -1;\n"
		"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%s3];\n"
		"ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%r12, %r13}, [%s3];\n"
		"movmatrix.sync.aligned.m8n8.trans.b16 %r14, %r9;\nadd.s32 %s4, %s2, %r7;\n"
		"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%s4], {%r8, %r9, %r10, %r11};\nbar.warp.sync -1;\n"
		"ld.shared.v2.b32 {%r4, %r5}, [%s4];\n"
		"mul.wide.u32 %l3, %r1, 32;\nadd.s64 %l3, %l1, %l3;\nst.global.v4.b32 [%l3], {%r8, %r11, %r12, %r13};\n"
		"st.global.v4.b32 [%l3+16], {%r14, %r4, %r5, %r9};\nret;\n}\n";
	uint32_t (*out)[8] = (void *)result;
	void *params[2] = {result, matrix};
	struct ptx_fault fault;
	struct ptx_module *m;

	(void)state;
	map.count = 0;
	add_range(result, sizeof(result), true);
	m = load(text);
	if (!launch(m, 1, 32, 1, 0, params, &fault))
		fail_msg("fault %d at line %u", fault.kind, fault.line);
	ptx_module_destroy(m);
#define CELL(row, column) ((uint32_t)((row) << 8 | (column)))
#define PAIR(matrix, row, column) (CELL(matrix * 8 + row, column) | CELL(matrix * 8 + row, column + 1) << 16)
#define TURNED(matrix, row, column) (CELL(matrix * 8 + column, row) | CELL(matrix * 8 + column + 1, row) << 16)
	for (unsigned l = 0; l < LANES; l++) {
		unsigned row = l / 4, column = l % 4 * 2;

		assert_int_equal(out[l][0], PAIR(0, row, column));
		assert_int_equal(out[l][1], PAIR(3, row, column));
		assert_int_equal(out[l][2], TURNED(0, row, column));
		assert_int_equal(out[l][3], TURNED(1, row, column));
		assert_int_equal(out[l][4], TURNED(1, row, column));
		/* stmatrix.trans: lane l's row of the copy is a column of its matrix */
		assert_int_equal(out[l][5], TURNED(l / 8, l % 8, 0));
		assert_int_equal(out[l][6], TURNED(l / 8, l % 8, 2));
		assert_int_equal(out[l][7], PAIR(1, row, column));
	}
}

/* The bytes that ldmatrix makes of 6 or 4 bits: number n of a row begins at bit n * bits. */
static void narrow_rows(void **state)
{
	static const char text[] = REGISTERS
		".shared .align 16 .b8 tile[512];\nmov.u32 %r2, tile;\nshl.b32 %r3, %r1, 4;\nadd.u32 %r2, %r2, %r3;\n"
		"mul.wide.u32 %l3, %r1, 16;\nadd.s64 %l2, %l2, %l3;\nld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%l2];\n"
		"st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7};\nbar.warp.sync -1;\n"
		"ldmatrix.sync.aligned.m8n16.x4.shared::cta.b8x16.b6x16_p32 {%r4, %r5, %r6, %r7}, [%r2];\n"
		"ldmatrix.sync.aligned.m8n16.x2.shared.b8x16.b4x16_p64 {%r8, %r9}, [%r2];\n"
		"add.s64 %l3, %l1, %l3;\nst.global.v4.b32 [%l3], {%r4, %r5, %r6, %r7};\n"
		"st.global.v2.b32 [%l3+512], {%r8, %r9};\nret;\n}\n";
	uint32_t rows[LANES][4], got[2][LANES][4];
	void *params[2] = {got, rows};
	struct ptx_fault fault;
	struct ptx_module *m;

	(void)state;
	for (unsigned l = 0; l < LANES; l++)
		for (unsigned n = 0; n < 4; n++)
			rows[l][n] = (uint32_t)next(0, 65535) << 16 | (uint32_t)next(0, 65535);
	map.count = 0;
	add_range(rows, sizeof(rows), false);
	add_range(got, sizeof(got), true);
	m = load(text);
	assert_true(launch(m, 1, 32, 1, 0, params, &fault));
	ptx_module_destroy(m);
	for (unsigned l = 0; l < LANES; l++)
		for (unsigned which = 0; which < 6; which++)
			for (unsigned n = 0; n < 4; n++) {
				unsigned bits = which < 4 ? 6 : 4, row = which % 4 * 8 + l / 4, at = (l % 4 * 4 + n) * bits, want = 0;

				for (unsigned b = 0; b < bits; b++)
					want |= (rows[row][(at + b) / 32] >> (at + b) % 32 & 1) << b;
				assert_int_equal(got[which / 4][l][which % 4] >> 8 * n & 0xff, want);
			}
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {%q0,%q1,%q2,%q3}, {%q4,%q5}, {%q6}, {%q0,%q1,%q2,%q3}",
		"mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {%q0,%q1,%q2,%q3}, {%q4,%q5}, {%q6}, {%q0,%q1,%q2,%q3}",
		"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%q0,%q1,%q2,%q3}, {%q4}, {%q6}, {%q0,%q1,%q2,%q3}",
		"mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%q0,%q1,%q2,%q3}, {%q4,%q5}, {%q6}, {%q0,%q1,%q2,%q3}",
		"mma.sync.aligned.m16n8k8.row.col.kind::f8f6f4.f32.f16.f16.f32 {%q0}, {%q4}, {%q6}, {%q0}",
		"mma.sync.aligned.m16n8k32.row.col.f32.e2m1.e2m1.f32 {%q0,%q1,%q2,%q3}, {%q4,%q5,%q6,%q7}, {%q0,%q1}, {%q0,%q1,%q2,%q3}",
		"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.s8.s8.s32 {%q0,%q1,%q2,%q3}, {%q4,%q5,%q6,%q7}, {%q0,%q1}, "
		"{%q0,%q1,%q2,%q3}",
		"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%q0, %q1}, [%q2]",
		"ldmatrix.sync.aligned.m8n16.x1.shared.b16 {%q0}, [%q2]",
		"ldmatrix.sync.aligned.m8n8.x1.shared.b8x16.b4x16_p64 {%q0}, [%q2]",
		"wmma.load.a.sync.aligned.col.m8n8k32.s4 {%q0}, [%l1], 32",
	};
	struct ptx_module *m;
	struct ptx_error error;
	const struct ptx_binary *binary;
	enum ptx_status status;
	uint32_t block[3] = {32, 1, 1};
	char text[4096];

	(void)state;
	for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		snprintf(text, sizeof(text), "%s.reg .b32 %%q<8>;\n%s;\nret;\n}\n", REGISTERS, bad[n]);
		status = ptx_module_create(text, strlen(text), &m, &error);
		if (status != PTX_OK) {
			assert_int_equal(status, PTX_INVALID);
			continue;
		}
		assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_NOT_SUPPORTED);
		assert_non_null(strstr(error.text, bad[n][0] == 'l' ? "ldmatrix" : "mma"));
		ptx_module_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products),	    cmocka_unit_test(quad_products), cmocka_unit_test(fragments),
		cmocka_unit_test(rows_of_shared_memory), cmocka_unit_test(narrow_rows), cmocka_unit_test(refused),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops of one lane that walk through memory: each access is checked by its distance from a parameter. The loop's
 * reads, its work before a bad access, and the fault's report are the same as with a check of each access.
 */
#include "softgpu/test/harness.h"

#define LANES 2u /* so few threads run one after the other */
#define MOST_ROUNDS 96u
#define MOST_LOADS 3
#define WORDS 1024u

/* Each thread keeps in each round what it read then; `memory`, but for its margins and a gap, is what may be read. */
static _Alignas(64) uint32_t out[LANES * MOST_ROUNDS], memory[WORDS];
#define IN_FIRST 256u
#define IN_END 320u
#define OTHER_FIRST 384u
#define OTHER_END 416u

struct walk {
	uint64_t in;    /* the second parameter */
	uint64_t start; /* bytes from `in` to the first thread's access; the next thread begins 8 bytes on */
	int64_t step;
	unsigned loads, bytes;
	int offsets[MOST_LOADS];
	uint32_t rounds;
};

/* ---- what should happen ---- */

static bool may_read(uint64_t address, unsigned bytes)
{
	uint64_t at = address - (uintptr_t)memory;

	return (at >= IN_FIRST * 4 && at + bytes <= IN_END * 4 && at < WORDS * 4) ||
	       (at >= OTHER_FIRST * 4 && at + bytes <= OTHER_END * 4 && at < WORDS * 4);
}

/* The first bad access, or nothing; fills in what should be in out[]. */
static bool expect(const struct walk *w, uint32_t *want, struct ptx_fault *fault)
{
	memset(want, 0, sizeof(out));
	for (uint32_t thread = 0; thread < LANES; thread++)
		for (uint32_t k = 0; k < w->rounds; k++) {
			uint32_t sum = 0;

			/* loads are checked from the last one on */
			for (unsigned n = w->loads; n--;) {
				uint64_t at = w->in + w->start + 8 * thread + k * (uint64_t)w->step +
					      (uint64_t)(int64_t)w->offsets[n];
				uint32_t value = 0;

				*fault = (struct ptx_fault){.kind = at % w->bytes ? PTX_FAULT_MISALIGNED
										  : PTX_FAULT_ILLEGAL_ADDRESS,
							    .address = at,
							    .line = n,
							    .thread = {thread, 0, 0}};
				if (at % w->bytes || !may_read(at, w->bytes))
					return false;
				memcpy(&value, (const void *)(uintptr_t)at, w->bytes < 4 ? w->bytes : 4);
				sum += value;
			}
			want[thread * MOST_ROUNDS + k] = sum;
		}
	return true;
}

/* ---- the kernel ---- */

/* The steps of the pointer %l5: %s is the step. */
static const char *const moves[] = {
	"add.s64 %%l5, %%l5, %s;\n",
	"mov.u64 %%l7, %%l5;\nadd.s64 %%l5, %%l7, %s;\n",
	"mov.u64 %%l7, %s;\nsub.s64 %%l7, 0, %%l7;\nsub.s64 %%l5, %%l5, %%l7;\n",
	"mov.u64 %%l7, %s;\nadd.s64 %%l5, %%l7, %%l5;\n",
	"mov.u64 %%l7, %s;\nmad.lo.s64 %%l5, %%l7, 1, %%l5;\n",
	"setp.ge.u32 %%p2, %%r3, 0;\n@%%p2 add.s64 %%l5, %%l5, %s;\n",
	"xor.b64 %%l5, %%l5, 1;\nxor.b64 %%l5, %%l5, 1;\nadd.s64 %%l5, %%l5, %s;\n",
};

static int write_loads(char *text, size_t room, const struct walk *w, uint32_t *first_line)
{
	int n = 0;

	/* each load on a line of its own */
	for (const char *c = text; *c; c++)
		*first_line += *c == '\n';
	text += strlen(text);
	for (unsigned k = 0; k < w->loads; k++)
		n += snprintf(text + n, room - (size_t)n, "ld.global.%s [%%l5+%d]; add.u32 %%r5, %%r5, %%r6;\n",
			      w->bytes == 1   ? "u8 %r6,"
			      : w->bytes == 4 ? "u32 %r6,"
					      : "v2.u32 {%r6, %r7},",
			      w->offsets[k]);
	return n;
}

static uint32_t write_kernel(char *text, size_t room, const struct walk *w, const char *move)
{
	char step[32];
	uint32_t line = 1;
	int n;

	snprintf(step, sizeof(step), "%lld", (long long)w->step);
	n = snprintf(
		text, room,
		PTX_HEAD
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n.reg .pred %%p<4>;\n"
		".reg .b32 %%r<16>;\n.reg .b64 %%l<16>;\nld.param.u64 %%l1, [p0];\n"
		"ld.param.u64 %%l2, [p1];\nld.param.v2.u32 {%%r8, %%r9}, [p2];\nmov.u32 %%r1, %%tid.x;\n"
		"mov.u32 %%r2, %u;\nmov.u32 %%r3, 0;\nmad.wide.u32 %%l3, %%r1, %u, %%l1;\n"
		"cvt.u64.u32 %%l4, %%r8;\ncvt.u64.u32 %%l6, %%r9;\nshl.b64 %%l6, %%l6, 32;\nadd.s64 %%l4, %%l4, %%l6;\n"
		"shl.b64 %%l4, %%l4, 3;\nadd.s64 %%l5, %%l2, %%l4;\nmad.wide.u32 %%l5, %%r1, 8, %%l5;\n"
		"add.s64 %%l5, %%l5, %lld;\n"
		"setp.ge.u32 %%p1, %%r3, %%r2;\n@%%p1 bra $end;\n$again:\nmov.u32 %%r5, 0;\n",
		w->rounds, MOST_ROUNDS * 4, (long long)(w->start & 7));
	n += write_loads(text, room - (size_t)n, w, &line);
	n += snprintf(text + n, room - (size_t)n, "st.global.u32 [%%l3], %%r5;\nadd.s64 %%l3, %%l3, 4;\n");
	n += snprintf(text + n, room - (size_t)n, move, step);
	snprintf(text + n, room - (size_t)n,
		 "add.u32 %%r3, %%r3, 1;\nsetp.lt.u32 %%p1, %%r3, %%r2;\n@%%p1 bra $again;\n$end:\nret;\n}\n");
	return line;
}

/* ---- both ---- */

static void check(const struct walk *w, const char *move)
{
	static uint32_t want[LANES * MOST_ROUNDS];
	struct ptx_fault fault, wanted;
	uint64_t eighths = (uint64_t)((int64_t)w->start >> 3);
	const void *params[3] = {out, (void *)(uintptr_t)w->in, (void *)(uintptr_t)eighths};
	char text[4096];
	uint32_t line = write_kernel(text, sizeof(text), w, move);
	bool good = expect(w, want, &wanted);
	struct ptx_module *m;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range(memory + IN_FIRST, (IN_END - IN_FIRST) * 4, false);
	add_range(memory + OTHER_FIRST, (OTHER_END - OTHER_FIRST) * 4, false);
	memset(out, 0, sizeof(out));
	m = load(text);
	if (launch(m, 1, LANES, 1, 0, params, &fault) != good)
		fail_msg("start %lld, step %lld, %u rounds: %s expected%s", (long long)w->start, (long long)w->step,
			 w->rounds, good ? "no fault" : "a fault", text);
	ptx_module_destroy(m);
	if (!good) {
		assert_int_equal(fault.kind, wanted.kind);
		assert_int_equal(fault.address, wanted.address);
		assert_int_equal(fault.thread[0], wanted.thread[0]);
		assert_int_equal(fault.line, line + wanted.line);
	}
	assert_memory_equal(out, want, sizeof(out));
}

static void check_all(const struct walk *w)
{
	for (size_t n = 0; n < sizeof(moves) / sizeof(*moves); n++)
		check(w, moves[n]);
}

static int fill(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < WORDS; n++)
		memory[n] = 0x01010101u * (n % 200 + 1);
	return 0;
}

#define IN ((uintptr_t)(memory + IN_FIRST))

/* Up to the end and beyond it, from in front of the beginning, and not at all. */
static void forwards(void **state)
{
	static const int starts[] = {0, 4, -4, -8, 244, 248, 252, 256};
	static const uint32_t rounds[] = {0, 1, 2, 61, 62, 63, 64, 65};

	(void)state;
	for (size_t s = 0; s < sizeof(starts) / sizeof(*starts); s++)
		for (size_t r = 0; r < sizeof(rounds) / sizeof(*rounds); r++)
			check(&(struct walk){.in = IN,
					     .start = (uint64_t)(int64_t)starts[s],
					     .step = 4,
					     .loads = 1,
					     .bytes = 4,
					     .rounds = rounds[r]},
			      moves[(s + r) % (sizeof(moves) / sizeof(*moves))]);
	check_all(&(struct walk){.in = IN, .step = 4, .loads = 1, .bytes = 4, .rounds = 62});
	check_all(&(struct walk){.in = IN, .step = 4, .loads = 1, .bytes = 4, .rounds = 63});
	check_all(&(struct walk){.in = IN, .step = 4, .loads = 1, .bytes = 4, .rounds = 65});
}

static void backwards(void **state)
{
	(void)state;
	for (uint32_t rounds = 62; rounds < 66; rounds++)
		check_all(&(struct walk){.in = IN, .start = 244, .step = -4, .loads = 1, .bytes = 4, .rounds = rounds});
	check_all(&(struct walk){.in = IN, .start = 252, .step = -4, .loads = 1, .bytes = 4, .rounds = 3});
	/* the parameter points to the end */
	check_all(&(struct walk){
		.in = IN + 252, .start = (uint64_t)-8, .step = -4, .loads = 1, .bytes = 4, .rounds = 64});
	check_all(&(struct walk){
		.in = IN + 256, .start = (uint64_t)-16, .step = -4, .loads = 1, .bytes = 4, .rounds = 90});
}

/* Several loads of a round: the one that is bad is told, whichever it is. */
static void several(void **state)
{
	(void)state;
	check_all(&(struct walk){.in = IN, .step = 12, .loads = 3, .bytes = 4, .offsets = {0, 4, 8}, .rounds = 20});
	check_all(&(struct walk){.in = IN, .step = 12, .loads = 3, .bytes = 4, .offsets = {0, 4, 8}, .rounds = 22});
	check_all(&(struct walk){
		.in = IN, .start = 16, .step = 12, .loads = 3, .bytes = 4, .offsets = {-8, 4, 0}, .rounds = 40});
	check_all(&(struct walk){.in = IN, .step = 4, .loads = 2, .bytes = 4, .offsets = {-4, 0}, .rounds = 10});
	check_all(&(struct walk){
		.in = IN, .start = 8, .step = 8, .loads = 2, .bytes = 8, .offsets = {-8, 0}, .rounds = 40});
	check_all(&(struct walk){
		.in = IN, .start = 6, .step = 1, .loads = 2, .bytes = 1, .offsets = {-6, 9}, .rounds = 90});
	check_all(&(struct walk){
		.in = IN, .start = 200, .step = 1, .loads = 2, .bytes = 1, .offsets = {-6, 9}, .rounds = 90});
	/* an offset that is a multiple of the access size only with the constant */
	check_all(
		&(struct walk){.in = IN, .start = 4, .step = 16, .loads = 1, .bytes = 8, .offsets = {4}, .rounds = 20});
}

static void misaligned(void **state)
{
	(void)state;
	for (unsigned by = 1; by < 4; by++) {
		check_all(&(struct walk){.in = IN + by, .step = 4, .loads = 1, .bytes = 4, .rounds = 4});
		check_all(&(struct walk){
			.in = IN + by, .start = 4 - by, .step = 4, .loads = 1, .bytes = 4, .rounds = 90});
		check_all(&(struct walk){.in = IN, .start = by, .step = 4, .loads = 1, .bytes = 4, .rounds = 4});
		check_all(&(struct walk){.in = IN, .step = by, .loads = 1, .bytes = 4, .rounds = 4});
		check_all(
			&(struct walk){.in = IN, .step = 4, .loads = 1, .bytes = 4, .offsets = {(int)by}, .rounds = 4});
	}
	check_all(&(struct walk){.in = IN, .step = 4, .loads = 1, .bytes = 8, .rounds = 4});
	check_all(&(struct walk){.in = IN + 4, .step = 8, .loads = 1, .bytes = 8, .rounds = 4});
	check_all(&(struct walk){.in = IN + 4, .start = 4, .step = 8, .loads = 1, .bytes = 8, .rounds = 40});
}

/* Into another allocation and out of that, and to where sums go round the end of all numbers. */
static void far(void **state)
{
	const int64_t between = (OTHER_FIRST - IN_FIRST) * 4;
	const int64_t half = INT64_MIN;

	(void)state;
	check_all(&(struct walk){.in = IN, .step = between, .loads = 1, .bytes = 4, .rounds = 2});
	check_all(&(struct walk){.in = IN, .step = between, .loads = 1, .bytes = 4, .rounds = 3});
	check_all(
		&(struct walk){.in = IN, .start = (uint64_t)between, .step = 4, .loads = 1, .bytes = 4, .rounds = 30});
	check_all(
		&(struct walk){.in = IN, .start = (uint64_t)between, .step = 4, .loads = 1, .bytes = 4, .rounds = 40});
	check_all(&(struct walk){.in = IN, .step = half, .loads = 1, .bytes = 4, .rounds = 5});
	check_all(&(struct walk){.in = IN, .start = (uint64_t)half, .step = 4, .loads = 1, .bytes = 4, .rounds = 5});
	check_all(&(struct walk){
		.in = IN ^ (uint64_t)half, .start = (uint64_t)half, .step = 4, .loads = 1, .bytes = 4, .rounds = 70});
	check_all(&(struct walk){.in = (uint64_t)-16, .step = 8, .loads = 1, .bytes = 4, .rounds = 5});
	check_all(
		&(struct walk){.in = (uint64_t)-16, .start = IN + 16, .step = 8, .loads = 1, .bytes = 4, .rounds = 40});
	check_all(&(struct walk){.in = 0, .start = IN, .step = 4, .loads = 1, .bytes = 4, .rounds = 70});
	check_all(&(struct walk){.in = 0, .step = 4, .loads = 1, .bytes = 4, .rounds = 2});
	check_all(&(struct walk){.in = 8, .start = (uint64_t)-24, .step = 8, .loads = 1, .bytes = 4, .rounds = 5});
}

/* Parameters that numbers are made of, beside the addresses: whatever is known of their distances, it is their values.
 */
static void values(void **state)
{
	static const struct {
		const char *text;
		uint64_t times; /* the expected distance is the first parameter plus `times` times the second */
	} all[] = {
		{"mad.lo.u64 %l5, %l2, 3, %l4;\n", 3},
		{"mad.lo.u64 %l5, %l2, %l3, %l4;\n", 5},
		{"mov.u64 %l6, %l2;\nmad.lo.u64 %l5, 4, %l6, %l4;\n", 4},
		{"mul.lo.u64 %l5, %l2, 3;\nadd.u64 %l5, %l5, %l4;\n", 3},
		{"shl.b64 %l5, %l2, 1;\nadd.u64 %l5, %l4, %l5;\n", 2},
		{"setp.eq.u64 %p1, %l3, 5;\nmov.u64 %l5, %l4;\n@%p1 mad.lo.u64 %l5, %l2, 7, %l4;\n", 7},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++) {
		uint64_t params[2] = {(uintptr_t)out, 24};
		struct ptx_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .memory = &map, .params = params};
		struct ptx_error error;
		struct ptx_fault fault;
		struct ptx_module *m;
		char text[1024];

		map.count = 0;
		add_range(out, sizeof(out), true);
		memset(out, 0, sizeof(out));
		/* Each is used as an address as well: what it is times the second one from the first on. */
		snprintf(text, sizeof(text),
			 PTX_HEAD
			 ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %%p<4>;\n"
			 ".reg .b64 %%l<16>;\nld.param.u64 %%l4, [p0];\nld.param.u64 %%l2, [p1];\n"
			 "mov.u64 %%l3, 5;\n%sst.global.u64 [%%l4], %%l5;\nst.global.u64 [%%l5], %%l4;\nret;\n}\n",
			 all[k].text);
		m = load(text);
		assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error), PTX_OK);
		assert_true(ptx_run_blocks(&l, 0, 1, &fault));
		assert_int_equal(*(uint64_t *)out, params[0] + all[k].times * params[1]);
		assert_int_equal(*(uint64_t *)(out + all[k].times * params[1] / 4), params[0]);
		ptx_module_destroy(m);
	}
}

/* ---- cancelling does not wait for ever: neither for an endless loop nor for many threads ---- */

#define CANCEL_HEAD                                                                                                    \
	PTX_HEAD ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n"        \
		 ".reg .b64 %l<16>;\nld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\nmov.u32 %r1, %tid.x;\n"         \
		 "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\nmov.u32 %r2, 0;\n"

static void cancel(const char *text, uint32_t first, uint32_t second)
{
	volatile bool stop = true;
	uint64_t params[2] = {(uintptr_t)out, IN};
	struct ptx_launch l = {
		.grid = {1, 1, 1}, .block = {LANES, 1, 1}, .memory = &map, .cancel = &stop, .params = params};
	struct ptx_error error;
	struct ptx_fault fault;
	struct ptx_module *m;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range(memory + IN_FIRST, (IN_END - IN_FIRST) * 4, false);
	memset(out, 0, sizeof(out));
	m = load(text);
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error), PTX_OK);
	assert_false(ptx_run_blocks(&l, 0, 1, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
	assert_int_equal(out[0], first);
	assert_int_equal(out[1], second);
	ptx_module_destroy(m);
}

static void cancelled(void **state)
{
	(void)state;
	/* up and down again */
	cancel(CANCEL_HEAD "$again:\nld.global.u32 %r5, [%l2];\nadd.s64 %l2, %l2, 4;\nadd.s64 %l2, %l2, -4;\n"
			   "setp.ne.u32 %p1, %r5, 0;\n@%p1 bra $again;\nret;\n}\n",
	       0, 0);
	/* not in each round */
	cancel(CANCEL_HEAD "$again:\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra $next;\nld.global.u32 %r5, [%l2];\n"
			   "add.s64 %l2, %l2, 4;\n$next:\nmov.u32 %r2, 1;\nsetp.ne.u32 %p1, %r5, 0;\n"
			   "@%p1 bra $again;\nret;\n}\n",
	       0, 0);
	cancel(CANCEL_HEAD "$again:\nsetp.eq.u32 %p2, %r2, 1;\nld.global.u32 %r5, [%l2];\n@%p2 add.s64 %l2, %l2, 4;\n"
			   "setp.ne.u32 %p1, %r5, 0;\n@%p1 bra $again;\nret;\n}\n",
	       0, 0);
	/* so far at once that it comes back */
	cancel(CANCEL_HEAD
	       "$again:\nld.global.u32 %r5, [%l2];\nadd.s64 %l2, %l2, 0x8000000000000000;\n"
	       "add.s64 %l2, %l2, 0x8000000000000000;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra $again;\nret;\n}\n",
	       0, 0);
	/* a loop that ends by itself, and the thread after it */
	cancel(CANCEL_HEAD "$again:\nld.global.u32 %r5, [%l2];\nadd.s64 %l2, %l2, 4;\nadd.u32 %r2, %r2, 1;\n"
			   "setp.lt.u32 %p1, %r2, 8;\n@%p1 bra $again;\nst.global.u32 [%l3], %r2;\nret;\n}\n",
	       8, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(forwards, fill),  cmocka_unit_test_setup(backwards, fill),
		cmocka_unit_test_setup(several, fill),   cmocka_unit_test_setup(misaligned, fill),
		cmocka_unit_test_setup(far, fill),       cmocka_unit_test_setup(values, fill),
		cmocka_unit_test_setup(cancelled, fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

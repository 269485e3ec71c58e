/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of printf for many formats: as on an H200, in little memory, and while another block writes to the format.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "softgpu/test/harness.h"

/* The end of the text comes and goes: block 1 never stops to write a digit and the end in turn. */
static const char spoiled[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
	".visible .entry k(.param .u64 text, .param .u64 end)\n{\n.local .align 8 .b8 d[16];\n.reg .pred %p<2>;\n"
	".reg .b32 %r<4>;\n.reg .b64 %l<8>;\nld.param.u64 %l4, [text];\nld.param.u64 %l5, [end];\n"
	"mov.u64 %l1, d;\ncvta.local.u64 %l2, %l1;\nst.local.u64 [%l1], 7;\nmov.u32 %r1, %ctaid.x;\n"
	"setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $print;\n"
	"mov.u32 %r2, 0;\n$again:\nst.volatile.global.u8 [%l5], %r2;\nxor.b32 %r2, %r2, 48;\nbra $again;\n"
	"$print:\n{\n.param .b64 p0;\nst.param.b64 [p0], %l4;\n.param .b64 p1;\nst.param.b64 [p1], %l2;\n"
	".param .b32 q;\ncall.uni (q), vprintf, (p0, p1);\nld.param.b32 %r2, [q];\n}\nret;\n}\n";

static bool stop;

static void *spoil(void *launch)
{
	struct ptx_fault fault;

	ptx_run_blocks(launch, 1, 1, &fault);
	return NULL;
}

static void formats_that_change(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* nothing may be read behind the text */
	char *text = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t params[2] = {(uintptr_t)text, (uintptr_t)(text + page - 1)};
	struct ptx_launch l = {.grid = {2, 1, 1},
			       .block = {1, 1, 1},
			       .memory = &map,
			       .params = params,
			       .print = print,
			       .cancel = &stop};
	struct ptx_module *m;
	struct ptx_error error;
	struct ptx_fault fault;
	unsigned good = 0;
	pthread_t thread;

	(void)state;
	assert_true(text != MAP_FAILED && !mprotect(text + page, page, PROT_NONE));
	memset(text, '0', page);
	text[0] = '%';
	map.count = 0;
	add_range(text, page, true);
	m = load(spoiled);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_int_equal(pthread_create(&thread, NULL, spoil, &l), 0);
	/* without an end there is a fault; on a busy machine that may be all for a while */
	for (unsigned n = 0; n < 20000 && good < 500; n++) {
		if (ptx_run_blocks(&l, 0, 1, &fault)) {
			good++;
			continue;
		}
		assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
		sched_yield();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	stop = false;
	text[page - 1] = 0;
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	ptx_module_destroy(m);
	munmap(text, 2 * page);
}

/* Prints the format at `text` with the arguments at `arguments`; the count goes to `out`. */
static const char printing[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
	".visible .entry k(.param .u64 text, .param .u64 arguments, .param .u64 out)\n{\n"
	".reg .b32 %r<2>;\n.reg .b64 %l<4>;\nld.param.u64 %l1, [text];\nld.param.u64 %l2, [arguments];\n"
	"ld.param.u64 %l3, [out];\n{\n.param .b64 p0;\nst.param.b64 [p0], %l1;\n.param .b64 p1;\n"
	"st.param.b64 [p1], %l2;\n.param .b32 q;\ncall.uni (q), vprintf, (p0, p1);\nld.param.b32 %r1, [q];\n}\n"
	"st.global.u32 [%l3], %r1;\nret;\n}\n";

#define MOST_TEXT (1u << 20)
#define MOST_FORMAT (64u << 10)

struct text {
	char text[4096];        /* the beginning */
	size_t length, longest; /* length of all text, and of the longest piece */
};

static char *whole; /* MOST_TEXT bytes for all of it, or NULL */

static void collect(void *device, const char *text, size_t length)
{
	struct text *to = device;
	size_t room = to->length < sizeof(to->text) ? sizeof(to->text) - to->length : 0;

	if (room)
		memcpy(to->text + to->length, text, length < room ? length : room);
	if (whole && to->length + length <= MOST_TEXT)
		memcpy(whole + to->length, text, length);
	to->length += length;
	to->longest = length > to->longest ? length : to->longest;
}

static uint32_t print_format(const char *format, size_t bytes, const uint64_t *arguments, size_t argument_bytes,
			     struct text *to)
{
	uint32_t count = 0;
	uint64_t params[3] = {(uintptr_t)format, (uintptr_t)arguments, (uintptr_t)&count};
	struct ptx_launch l = {.grid = {1, 1, 1},
			       .block = {1, 1, 1},
			       .memory = &map,
			       .params = params,
			       .print = collect,
			       .device = to};
	struct ptx_module *m = load(printing);
	struct ptx_error error;
	struct ptx_fault fault;

	*to = (struct text){.length = 0};
	map.count = 0;
	add_range((void *)(uintptr_t)format, bytes, true);
	add_range((void *)(uintptr_t)arguments, argument_bytes, true);
	add_range(&count, sizeof(count), true);
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error), PTX_OK);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	ptx_module_destroy(m);
	return count;
}

#define ONE_AND_A_HALF 0x3ff8000000000000

static void formats(void **state)
{
	static char words[] = "truncated";
	/* text and counts of an H200 */
	static const struct {
		const char *format, *text;
		uint64_t arguments[4];
		uint32_t count;
	} cases[] = {
		{"[%lld][%ld]", "[300][7]", {300, 7}, 2},
		{"[%hx][%hX]", "[ffff][CDEF]", {0x1ffff | 0xabcdefull << 32}, 2},
		{"[%hd][%hu]", "[4464][4464]", {70000 | 70000ull << 32}, 2},
		{"[%lf][%F][%E]",
		 "[1.500000][1.500000][1.500000E+00]",
		 {ONE_AND_A_HALF, ONE_AND_A_HALF, ONE_AND_A_HALF},
		 3},
		{"[%G][%A]", "[1.5][0X1.8P+0]", {ONE_AND_A_HALF, ONE_AND_A_HALF}, 2},
		{"[%y][%d]", "[%y][1]", {1}, 1},
		{"[%m][%][%5%][%C]", "[%m][%][%5%][%C]", {0}, 0},
		{"[%l", "[%l", {0}, 0},
		{"[%", "[%", {0}, 0},
		{"100%%", "100%", {0}, 0},
		{"[%lc]", "[a]", {'a'}, 1},
		{"[%p][%20p][%-20p]",
		 "[0x1234][              0x1234][0x1234              ]",
		 {0x1234, 0x1234, 0x1234},
		 3},
		{"[%p]", "[(nil)]", {0}, 1},
		{"[%+d][% d]", "[+1][ 2]", {1 | 2ull << 32}, 2},
		{"[%#x][%05d]", "[0x3][00004]", {3 | 4ull << 32}, 2},
		{"[%#8x][%#08x]", "[     0x3][0x000004]", {3 | 4ull << 32}, 2},
		{"[%05d][%+.3d]", "[-0004][+004]", {0xfffffffc | 4ull << 32}, 2},
		{"[%.0d][%5.0d]", "[][     ]", {0}, 2},
		{"[%-5d|][%+ d]", "[5    |][+6]", {5 | 6ull << 32}, 2},
		{"[%.*d]", "[%.*d]", {0xfffffffd | 5ull << 32}, 0},
		{"[%*d]", "[5    ]", {0xfffffffb | 5ull << 32}, 2},
		{"[%.f][%.0f][%.-1f]", "[2][2][%.-1f]", {ONE_AND_A_HALF, ONE_AND_A_HALF, ONE_AND_A_HALF}, 2},
		{"[%5.1.2d][%5-d]", "[%5.1.2d][%5-d]", {0}, 0},
		{"[%--++5d]", "[+5   ]", {5}, 1},
		{"[%08.2f][%-8.2f]", "[00001.50][1.50    ]", {ONE_AND_A_HALF, ONE_AND_A_HALF}, 2},
		{"[%08f]", "[     inf]", {0x7ff0000000000000}, 1},
		{"[%.3s][%10.3s]", "[tru][       tru]", {1, 1}, 2},
		{"[%-10.2s|][%12s]", "[tr        |][   truncated]", {1, 1}, 2},
	};
	struct {
		char format[64], words[sizeof(words)];
		uint64_t arguments[4];
	} memory;
	struct text to;

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		uint32_t count;

		memset(&memory, 0, sizeof(memory));
		strcpy(memory.format, cases[n].format);
		strcpy(memory.words, words);
		for (unsigned i = 0; i < 4; i++)
			memory.arguments[i] =
				strchr(cases[n].format, 's') ? (uintptr_t)memory.words : cases[n].arguments[i];
		count = print_format(memory.format, sizeof(memory), memory.arguments, 0, &to);
		if (to.length != strlen(cases[n].text) || memcmp(to.text, cases[n].text, to.length) ||
		    count != cases[n].count)
			fail_msg("%s: %.*s, %u arguments", cases[n].format, (int)to.length, to.text, count);
	}
}

/* Limit for what the tests may add to peak memory. The address sanitizer keeps freed memory. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_KIB (64 << 10)
#else
#define MOST_KIB (8 << 10)
#endif

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* The process does not grow by what a format says, and what is printed is as long as it says, up to a limit. */
static void widths(void **state)
{
	static const struct {
		const char *format;
		size_t length;
		const char *begin;
	} cases[] = {
		{"%1100d", 1100, "        "},
		{"%.5000f", 5002, "1.50000000"},
		{"%.5000d", 5000, "00000000"},
		{"%.5000e", 5006, "1.50000000"},
		{"%.5000g", 3, "1.5"},
		{"%#.5000g", 5001, "1.50000000"},
		{"%-70000d|", 70001, ""},
		{"%070000d|", 70001, "00000000"},
		{"%.999999999f", MOST_TEXT, "1.50000000"},
		{"%999999999f", MOST_TEXT, "         "},
		{"%99999999999999999999d", MOST_TEXT, "         "},
	};
	struct {
		char format[64];
		uint64_t arguments[1];
	} memory = {.arguments = {ONE_AND_A_HALF}};
	struct text to;
	long before = 0;

	(void)state;
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		strcpy(memory.format, cases[n].format);
		assert_int_equal(print_format(memory.format, sizeof(memory), memory.arguments, 0, &to), 1);
		if (to.length != cases[n].length || memcmp(to.text, cases[n].begin, strlen(cases[n].begin)))
			fail_msg("%s: %zu bytes: %.20s", cases[n].format, to.length, to.text);
		assert_true(to.longest <= 4096);
		before = before ? before : peak_kib();
	}
	assert_true(peak_kib() - before < MOST_KIB);
}

/* A format as long as an allocation is neither copied nor printed whole. */
static void long_formats(void **state)
{
	size_t bytes = 64u << 20;
	uint64_t arguments[1] = {5};
	char *format = malloc(bytes);
	struct text to;
	long before;

	(void)state;
	assert_non_null(format);
	memset(format, 'x', bytes);
	memcpy(format + MOST_FORMAT - 3, "%d|%d", 5);
	format[bytes - 1] = 0;
	print_format("", 1, arguments, sizeof(arguments), &to);
	before = peak_kib();
	assert_int_equal(print_format(format, bytes, arguments, sizeof(arguments), &to), 1);
	assert_int_equal(to.length, MOST_FORMAT - 1);
	assert_true(peak_kib() - before < MOST_KIB);
	free(format);
}

/* A text is read as far as it is printed: behind that is memory that cannot be read. */
static void unread_texts(void **state)
{
	static const struct {
		const char *format, *text; /* at the end of what can be read */
		const char *end;           /* of what is printed */
	} cases[] = {
		{"%1048576d%s%99999999s", "", "5"}, {"%1048573d%s", "abc", "5abc"},
		{"%1048573d%.2s%s", "abc", "5aba"}, {"%1048573d%-9s", "abc", "5abc"},
		{"%1048573d%.3s", "abc", "5abc"},   {"%1048570d%7.3s", "abc", "5    ab"},
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *area = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char tail[MOST_TEXT];
	struct text to;

	(void)state;
	assert_true(area != MAP_FAILED && !mprotect(area + 2 * page, page, PROT_NONE));
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		size_t length = strlen(cases[n].text);
		const uint64_t text = (uintptr_t)area + 2 * page - length, arguments[] = {5, text, text};

		strcpy(area, cases[n].format);
		memcpy(area + 2 * page - length, cases[n].text, length);
		whole = tail;
		print_format(area, 3 * page, arguments, sizeof(arguments), &to);
		whole = NULL;
		length = strlen(cases[n].end);
		if (to.length != MOST_TEXT || memcmp(tail + MOST_TEXT - length, cases[n].end, length))
			fail_msg("%s: %zu bytes, ...%.12s", cases[n].format, to.length, tail + MOST_TEXT - 12);
	}
	munmap(area, 3 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats),      cmocka_unit_test(unread_texts),        cmocka_unit_test(widths),
		cmocka_unit_test(long_formats), cmocka_unit_test(formats_that_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

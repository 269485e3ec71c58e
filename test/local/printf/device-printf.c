/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints each format of rows.h from a kernel, and compares text and return value.
 *
 * usage: device-printf              the exit status is 1 where a row differs; differences are on stderr
 *        device-printf --answers [FIRST]    prints the rows with this device's answers, in the form of rows.h, from the
 *                                    row of this number on: NVIDIA's driver 580 crashes with some formats
 *
 * The program needs only the driver's library, so that it runs on a GPU without virtio-cuda as well:
 * LD_LIBRARY_PATH=DIRECTORY_OF_NVIDIAS_LIBCUDA device-printf --answers
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"

#define MOST_ARGUMENTS 4
#define MOST_TEXT 256

struct argument {
	char type; /* I, L, D, S; 0: none */
	int64_t number;
	double real;
	const char *text;
};

struct row {
	const char *format, *text;
	int count;
	struct argument arguments[MOST_ARGUMENTS];
};

#define I(value)                                                                                                       \
	{                                                                                                              \
		.type = 'I', .number = (value)                                                                         \
	}
#define L(value)                                                                                                       \
	{                                                                                                              \
		.type = 'L', .number = (int64_t)(value)                                                                \
	}
#define D(value)                                                                                                       \
	{                                                                                                              \
		.type = 'D', .real = (value)                                                                           \
	}
#define S(value)                                                                                                       \
	{                                                                                                              \
		.type = 'S', .text = (value)                                                                           \
	}
#define ASKED(format, text, count, ...) {format, text, count, {__VA_ARGS__}},
#define DERIVED ASKED

static const struct row rows[] = {
#include "rows.h"
#include "test/check.h"
};

/* k(format, arguments, count): calls vprintf, with the arguments copied to local memory as nvcc does. */
static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
	".visible .entry k(.param .u64 format, .param .u64 arguments, .param .u64 count)\n{\n"
	".local .align 8 .b8 d[32];\n.reg .b32 %r<2>;\n.reg .b64 %l<9>;\n"
	"ld.param.u64 %l1, [format];\nld.param.u64 %l2, [arguments];\nld.param.u64 %l3, [count];\n"
	"mov.u64 %l4, d;\ncvta.local.u64 %l5, %l4;\n"
	"ld.global.u64 %l6, [%l2];\nst.local.u64 [%l4], %l6;\nld.global.u64 %l6, [%l2+8];\nst.local.u64 [%l4+8], %l6;\n"
	"ld.global.u64 %l6, [%l2+16];\nst.local.u64 [%l4+16], %l6;\n"
	"ld.global.u64 %l6, [%l2+24];\nst.local.u64 [%l4+24], %l6;\n"
	"{\n.param .b64 p0;\nst.param.b64 [p0], %l1;\n.param .b64 p1;\nst.param.b64 [p1], %l5;\n.param .b32 q;\n"
	"call.uni (q), vprintf, (p0, p1);\nld.param.b32 %r1, [q];\n}\nst.global.u32 [%l3], %r1;\nret;\n}\n";

/* The device's memory during one row. */
struct memory {
	char format[MOST_TEXT], texts[MOST_ARGUMENTS][MOST_TEXT];
	uint64_t arguments[MOST_ARGUMENTS];
	uint32_t count;
};

struct answer {
	char text[4 * MOST_TEXT];
	size_t length;
	int count;
};

static struct {
	CUfunction kernel;
	CUdeviceptr memory;
	int console;   /* stdout as it was */
	FILE *capture; /* takes the place of stdout during a row */
} test;

static void start(void)
{
	CUcontext context;
	CUmodule module;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&test.kernel, module, "k"));
	OK(cuMemAlloc_v2(&test.memory, sizeof(struct memory)));
	test.console = dup(STDOUT_FILENO);
	test.capture = tmpfile();
	if (test.console < 0 || !test.capture)
		exit(2);
}

/* Each argument is aligned to its size, as a variable argument list of the device is. */
static void pack(const struct row *row, struct memory *memory)
{
	char *list = (char *)memory->arguments;
	size_t at = 0;

	for (unsigned int i = 0; i < MOST_ARGUMENTS && row->arguments[i].type; i++) {
		const struct argument *a = &row->arguments[i];
		size_t size = a->type == 'I' ? 4 : 8;
		uint64_t word = (uint64_t)a->number;

		if (a->type == 'D')
			memcpy(&word, &a->real, 8);
		if (a->type == 'S') {
			strcpy(memory->texts[i], a->text);
			word = test.memory + (uint64_t)(memory->texts[i] - (char *)memory);
		}
		at = (at + size - 1) & ~(size - 1);
		memcpy(list + at, &word, size);
		at += size;
	}
}

static void capture(bool begin)
{
	fflush(stdout);
	dup2(begin ? fileno(test.capture) : test.console, STDOUT_FILENO);
}

static struct answer ask(const struct row *row)
{
	struct memory memory = {.count = 0xabcd};
	CUdeviceptr format = test.memory, arguments = test.memory + offsetof(struct memory, arguments),
		    count = test.memory + offsetof(struct memory, count);
	void *params[] = {&format, &arguments, &count};
	struct answer answer;

	strcpy(memory.format, row->format);
	pack(row, &memory);
	OK(cuMemcpyHtoD_v2(test.memory, &memory, sizeof(memory)));
	if (ftruncate(fileno(test.capture), 0) || lseek(fileno(test.capture), 0, SEEK_SET))
		exit(2);
	capture(true);
	OK(cuLaunchKernel(test.kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	capture(false);
	answer.length = (size_t)pread(fileno(test.capture), answer.text, sizeof(answer.text), 0);
	OK(cuMemcpyDtoH_v2(&memory, test.memory, sizeof(memory)));
	answer.count = (int)memory.count;
	return answer;
}

/* ---- rows as they stand in rows.h ---- */

static void show_text(FILE *to, const char *text, size_t length)
{
	fputc('"', to);
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c == '\n' || c == '\t')
			fputs(c == '\n' ? "\\n" : "\\t", to);
		else if (c < ' ' || c > '~')
			fprintf(to, "\\%03o", c);
		else
			fputc(c, to);
	}
	fputc('"', to);
}

static void show_argument(FILE *to, const struct argument *a)
{
	fprintf(to, ", %c(", a->type);
	if (a->type == 'S')
		show_text(to, a->text, strlen(a->text));
	else if (a->type == 'D' && isinf(a->real))
		fputs(a->real < 0 ? "-INFINITY" : "INFINITY", to);
	else if (a->type == 'D')
		fprintf(to, "%.17g", a->real);
	else
		fprintf(to, "%#llx", (unsigned long long)a->number);
	fputc(')', to);
}

static void show(FILE *to, const char *name, const struct row *row, const char *text, size_t length, int count)
{
	fprintf(to, "%s(", name);
	show_text(to, row->format, strlen(row->format));
	fputs(", ", to);
	show_text(to, text, length);
	fprintf(to, ", %d", count);
	for (unsigned int i = 0; i < MOST_ARGUMENTS && row->arguments[i].type; i++)
		show_argument(to, &row->arguments[i]);
	fputs(")\n", to);
}

static bool differs(const struct row *row, const struct answer *answer)
{
	return answer->length != strlen(row->text) || memcmp(answer->text, row->text, answer->length) ||
	       answer->count != row->count;
}

int main(int argc, char **argv)
{
	size_t count = sizeof(rows) / sizeof(rows[0]), wrong = 0;
	bool answers = argc >= 2 && !strcmp(argv[1], "--answers");

	start();
	for (size_t i = argc == 3 ? strtoul(argv[2], NULL, 10) : 0; i < count; i++) {
		struct answer answer = ask(&rows[i]);

		if (answers) {
			show(stdout, "ASKED", &rows[i], answer.text, answer.length, answer.count);
			fflush(stdout);
		} else if (differs(&rows[i], &answer)) {
			wrong++;
			show(stderr, "expected", &rows[i], rows[i].text, strlen(rows[i].text), rows[i].count);
			show(stderr, "got", &rows[i], answer.text, answer.length, answer.count);
		}
	}
	if (!answers)
		printf("device-printf: %zu of %zu formats differ\n", wrong, count);
	return wrong != 0;
}

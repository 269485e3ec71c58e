/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all questions of ask.h, each group in a process of its own, and compares the answers with a file. */
#include "ask.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A group that does not end within that has no answer. */
#define SECONDS 60

static const struct group *const all[] = {map_groups,  access_groups,  place_groups,
					  pool_groups, pointer_groups, border_groups};

/* ---- what questions are made of ---- */

static const char *group_name;

void question(const char *format, ...)
{
	va_list arguments;

	printf("%s: ", group_name);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf(":");
}

void say(const char *format, ...)
{
	va_list arguments;

	printf(" ");
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
}

void end(void)
{
	printf("\n");
}

const char *place_name(CUmemLocationType type)
{
	static const char *const names[] = {"no place", "DEVICE", "HOST", "HOST_NUMA", "HOST_NUMA_CURRENT"};

	return (unsigned int)type < 5 ? names[type] : "an unknown place";
}

static void must(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: the group ends: %s: %d\n", group_name, what, result);
	exit(0);
}

CUmemGenericAllocationHandle make(CUmemLocationType type, size_t granules)
{
	CUmemAllocationProp prop = properties(type, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle = 0;

	must("cuMemCreate", cuMemCreate(&handle, granules * granule, &prop, 0));
	return handle;
}

CUdeviceptr reserve(size_t granules)
{
	CUdeviceptr p = 0;

	must("cuMemAddressReserve", cuMemAddressReserve(&p, granules * granule, 0, 0, 0));
	return p;
}

CUmemGenericAllocationHandle put(CUmemLocationType type, CUdeviceptr p, size_t granules)
{
	CUmemGenericAllocationHandle handle = make(type, granules);

	must("cuMemMap", cuMemMap(p, granules * granule, 0, handle, 0));
	return handle;
}

CUdeviceptr usable(CUmemLocationType type, size_t granules)
{
	CUmemGenericAllocationHandle handle = make(type, granules);
	CUdeviceptr p = reserve(granules);

	must("cuMemMap", cuMemMap(p, granules * granule, 0, handle, 0));
	must("cuMemSetAccess", give(p, granules * granule, DEVICE, 0, RW));
	if (type != DEVICE)
		must("cuMemSetAccess", give(p, granules * granule, HOST, 0, RW));
	return p;
}

const char *processor_at(CUdeviceptr p)
{
	if (read_faults(p))
		return "faults";
	return write_faults(p) ? "reads" : "reads and writes";
}

/* ---- groups ---- */

static void start(void)
{
	CUmemAllocationProp prop = properties(DEVICE, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUcontext context;

	must("cuInit", cuInit(0));
	must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
	must("cuCtxSetCurrent", cuCtxSetCurrent(context));
	must("cuMemGetAllocationGranularity",
	     cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

/* Above a GPU of NVIDIA's, addresses for host memory are reserved while such memory waits to be mapped. */
static void answer(const struct group *g, int fd)
{
	dup2(fd, STDOUT_FILENO);
	setvbuf(stdout, NULL, _IONBF, 0);
	group_name = g->name;
	alarm(SECONDS);
	start();
	if (g->with[0] == HOST || g->with[0] == NUMA)
		make(HOST, 1);
	g->ask(g->with);
	exit(0);
}

/* All that the group prints, and how it ended if not well. The caller frees it. */
static char *run_group(const struct group *g)
{
	char *text = NULL;
	size_t length = 0;
	FILE *answers = open_memstream(&text, &length), *from;
	int pipes[2], status, c;
	pid_t child;

	fflush(stdout);
	if (!answers || pipe(pipes) || (child = fork()) < 0) {
		perror("hostmem");
		exit(2);
	}
	if (!child)
		answer(g, pipes[1]);
	close(pipes[1]);
	from = fdopen(pipes[0], "r");
	while (from && (c = fgetc(from)) != EOF)
		fputc(c, answers);
	fclose(from);
	waitpid(child, &status, 0);
	if (status)
		fprintf(answers, "%s%s: the group ends: status %#x\n", length && text[length - 1] != '\n' ? "\n" : "",
			g->name, (unsigned int)status);
	fclose(answers);
	return text;
}

/* ---- comparison ---- */

struct lines {
	char **line;
	size_t count;
};

/* A line that begins with # is a comment. */
static bool read_lines(const char *path, struct lines *lines)
{
	FILE *f = fopen(path, "r");
	char text[1024];

	while (f && fgets(text, sizeof(text), f)) {
		if (*text == '#')
			continue;
		text[strcspn(text, "\n")] = 0;
		lines->line = realloc(lines->line, (lines->count + 1) * sizeof(char *));
		lines->line[lines->count++] = strdup(text);
	}
	if (f)
		fclose(f);
	return f;
}

/* The length of the question: up to the answer. */
static size_t key_of(const char *line)
{
	const char *group = strstr(line, ": "), *answer = group ? strchr(group + 2, ':') : NULL;

	return answer ? (size_t)(answer - line) + 1 : strlen(line);
}

static const char *find(const struct lines *lines, const char *line)
{
	size_t length = key_of(line);

	for (size_t i = 0; i < lines->count; i++)
		if (!strncmp(lines->line[i], line, length))
			return lines->line[i];
	return NULL;
}

static unsigned int asked, unknown, different;

static void print_line(const char *line, const struct lines *expected)
{
	const char *native = find(expected, line);

	asked++;
	unknown += !native;
	if (native && !strcmp(native, line))
		return;
	different += native != NULL;
	printf("%s\n", line);
	if (native)
		printf("not %s\n", native);
}

static void print_group(char *text, const struct lines *expected)
{
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line)
			print_line(line, expected);
	free(text);
}

static size_t ask_all(const struct lines *expected)
{
	size_t groups = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct group *g = all[i]; g->name; g++, groups++)
			print_group(run_group(g), expected);
	return groups;
}

int ask(const char *expected)
{
	struct lines lines = {0};
	size_t groups;

	if (expected && !read_lines(expected, &lines)) {
		perror(expected);
		return 2;
	}
	groups = ask_all(&lines);
	printf("# hostmem: %zu groups, %u lines\n", groups, asked);
	if (!expected)
		return 0;
	printf("# hostmem: of %zu expected lines %u differ, %zu are missing; %u lines more\n", lines.count, different,
	       lines.count + unknown - asked, unknown);
	return different || lines.count + unknown != asked;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all questions of ask.h, each group in a process of its own, and compares the answers with a file. */
#include "ask.h"

#include <fcntl.h>
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

/* Groups that answer at the same time. */
#define AT_ONCE 4

static struct running {
	const struct group *g;
	pid_t child;
	FILE *answers;
} running[AT_ONCE];

static void begin(struct running *r, const struct group *g)
{
	int pipes[2];

	fflush(stdout);
	if (pipe2(pipes, O_CLOEXEC) || (r->child = fork()) < 0) {
		perror("hostmem");
		exit(2);
	}
	if (!r->child)
		answer(g, pipes[1]);
	close(pipes[1]);
	r->g = g;
	r->answers = fdopen(pipes[0], "r");
}

/* All that the group prints, and how it ended if not well. The caller frees it. NULL: there is none. */
static char *finish(struct running *r)
{
	char *text = NULL;
	size_t length = 0;
	FILE *whole = r->g ? open_memstream(&text, &length) : NULL;
	int status, c;

	if (!whole)
		return NULL;
	while ((c = fgetc(r->answers)) != EOF)
		fputc(c, whole);
	fclose(r->answers);
	fflush(whole);
	waitpid(r->child, &status, 0);
	if (status)
		fprintf(whole, "%s%s: the group ends: status %#x\n", length && text[length - 1] != '\n' ? "\n" : "",
			r->g->name, (unsigned int)status);
	fclose(whole);
	r->g = NULL;
	return text;
}

/* ---- comparison ---- */

static struct line {
	char *text;
	bool is_known; /* to differ: it begins with ~ and a blank */
	bool is_found;
} * expected;

static size_t expected_lines;

/* A line that begins with # is a comment. */
static bool read_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	char text[1024];

	while (f && fgets(text, sizeof(text), f)) {
		bool is_known = !strncmp(text, "~ ", 2);

		if (*text == '#')
			continue;
		text[strcspn(text, "\n")] = 0;
		expected = realloc(expected, (expected_lines + 1) * sizeof(*expected));
		expected[expected_lines++] = (struct line){strdup(text + (is_known ? 2 : 0)), is_known, false};
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

static struct line *find(const char *line)
{
	size_t length = key_of(line);

	for (size_t i = 0; i < expected_lines; i++)
		if (!strncmp(expected[i].text, line, length))
			return &expected[i];
	return NULL;
}

static unsigned int asked, others, known, different;

static void compare(const char *line)
{
	struct line *native = find(line);

	asked++;
	if (!native) {
		others++;
		printf("%s\n", line);
		return;
	}
	native->is_found = true;
	if (!strcmp(native->text, line))
		return;
	known += native->is_known;
	if (native->is_known)
		return;
	different++;
	printf("%s\nnot %s\n", line, native->text);
}

static void compare_group(char *text)
{
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line)
			compare(line);
	free(text);
}

static size_t turn;

/* In their order, whichever ends first. */
static void ask_groups(const struct group *groups)
{
	for (const struct group *g = groups; g->name; g++, turn++) {
		compare_group(finish(&running[turn % AT_ONCE]));
		begin(&running[turn % AT_ONCE], g);
	}
}

static unsigned int count_missing(void)
{
	unsigned int missing = 0;

	for (size_t i = 0; i < expected_lines; i++) {
		if (expected[i].is_found)
			continue;
		known += expected[i].is_known;
		if (expected[i].is_known)
			continue;
		missing++;
		printf("missing %s\n", expected[i].text);
	}
	return missing;
}

int ask(const char *file)
{
	unsigned int missing;

	if (file && !read_lines(file)) {
		perror(file);
		return 2;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		ask_groups(all[i]);
	for (size_t i = 0; i < AT_ONCE; i++, turn++)
		compare_group(finish(&running[turn % AT_ONCE]));
	printf("# hostmem: %u lines\n", asked);
	if (!file)
		return 0;
	missing = count_missing();
	printf("# hostmem: of %zu expected lines %u differ, %u are missing, %u are known to differ; %u others\n",
	       expected_lines, different, missing, known, others);
	return different || missing || others;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `vcuda profile`, and the end of a file that `vcuda run --profile` had written. The guest's library writes the events
 * (guest/libcuda/trace/profile.h), each in a line: the members of an event stand in a fixed order, names first.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the end of a file ---- */

static bool replace_end(int fd, off_t at, const char *text)
{
	return !ftruncate(fd, at) && pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text);
}

/* The end of the last whole event of the file, without its comma; 0: no event. `size`: of the file. */
static off_t end_of_events(int fd, off_t size)
{
	char text[65536];
	off_t from = size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) : 0;
	ssize_t n = pread(fd, text, sizeof(text), from);

	for (; n > 1; n--)
		if (text[n - 2] == ',' && text[n - 1] == '\n')
			return from + n - 2;
	return 0;
}

void cli_profile_end(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct stat about = {0};
	bool good = fd >= 0 && !fstat(fd, &about);
	off_t end = good ? end_of_events(fd, about.st_size) : 0;

	if (good && !end) {
		cli_message("--profile: no process of the program has called CUDA, or one was ended before it wrote");
		good = replace_end(fd, 0, "[]\n");
	} else if (good) {
		if (end + 2 != about.st_size)
			cli_message("--profile: the last event in %s is not whole, and is left out: is the disk full?",
				    path);
		good = replace_end(fd, end, "\n]\n");
	}
	if (!good)
		cli_message("--profile: %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* ---- the summary ---- */

struct event {
	char kind[16], name[8192];
	double us;
	uint64_t bytes;
};

/* Events of one kind and name. */
struct group {
	char *kind, *name;
	double *us; /* duration of each event */
	size_t count, room;
	double total;
	uint64_t bytes;
};

struct groups {
	struct group *all;
	size_t count, room;
};

struct table {
	const char *title, *kinds[4]; /* the last is NULL */
	bool has_bytes;
};

/* Behind `"key":"`. */
static bool copy_text(char *to, size_t room, const char *line, const char *key)
{
	const char *from = strstr(line, key);
	size_t n = 0;

	if (!from)
		return false;
	for (from += strlen(key); *from && *from != '"' && n + 1 < room; from++) {
		if (*from == '\\' && from[1])
			from++;
		to[n++] = *from;
	}
	to[n] = 0;
	return true;
}

static double number(const char *line, const char *key)
{
	const char *from = strstr(line, key);

	return from ? strtod(from + strlen(key), NULL) : 0;
}

/* False: the line is no event with a time. */
static bool read_event(const char *line, struct event *e)
{
	if ((strncmp(line, "{\"ph\":\"X\",", 10) && strncmp(line, "{\"ph\":\"b\",", 10)) ||
	    !copy_text(e->kind, sizeof(e->kind), line, "\"cat\":\"") ||
	    !copy_text(e->name, sizeof(e->name), line, "\"name\":\""))
		return false;
	e->us = number(line, "\"dur\":");
	e->bytes = (uint64_t)number(line, "\"bytes\":");
	return true;
}

static void *grow(void *memory, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return memory;
	*room = *room ? 2 * *room : 16;
	memory = realloc(memory, *room * size);
	if (!memory) {
		cli_message("there is no memory for the table");
		exit(CLI_FAILED);
	}
	return memory;
}

static struct group *find(struct groups *g, const struct event *e)
{
	for (size_t i = 0; i < g->count; i++)
		if (!strcmp(g->all[i].kind, e->kind) && !strcmp(g->all[i].name, e->name))
			return &g->all[i];
	g->all = grow(g->all, g->count, &g->room, sizeof(*g->all));
	g->all[g->count] = (struct group){.kind = strdup(e->kind), .name = strdup(e->name)};
	return &g->all[g->count++];
}

static void add(struct groups *g, const struct event *e)
{
	struct group *to = find(g, e);

	to->us = grow(to->us, to->count, &to->room, sizeof(*to->us));
	to->us[to->count++] = e->us;
	to->total += e->us;
	to->bytes += e->bytes;
}

static int compare(double a, double b)
{
	return a < b ? -1 : a > b;
}

static int by_time(const void *a, const void *b)
{
	return compare(*(const double *)a, *(const double *)b);
}

static int by_total(const void *a, const void *b)
{
	return -compare(((const struct group *)a)->total, ((const struct group *)b)->total);
}

static bool is_of(const struct group *g, const struct table *t)
{
	for (const char *const *kind = t->kinds; *kind; kind++)
		if (!strcmp(g->kind, *kind))
			return true;
	return false;
}

static void print_table(const struct groups *g, const struct table *t)
{
	double total = 0;

	for (size_t i = 0; i < g->count; i++)
		total += is_of(&g->all[i], t) ? g->all[i].total : 0;
	if (total <= 0)
		return;
	printf("%s\n%7s %12s %9s %12s %12s %12s %12s%s  %s\n", t->title, "% time", "ms", "count", "us/each",
	       "median us", "shortest us", "longest us", t->has_bytes ? "          MB" : "", "name");
	for (size_t i = 0; i < g->count; i++) {
		const struct group *r = &g->all[i];

		if (!is_of(r, t))
			continue;
		qsort(r->us, r->count, sizeof(*r->us), by_time);
		printf("%7.2f %12.3f %9zu %12.3f %12.3f %12.3f %12.3f", 100 * r->total / total, r->total / 1e3,
		       r->count, r->total / (double)r->count, r->us[r->count / 2], r->us[0], r->us[r->count - 1]);
		if (t->has_bytes)
			printf(" %11.3f", (double)r->bytes / 1e6);
		printf("  %s\n", r->name);
	}
	putchar('\n');
}

static int summary(const char *path)
{
	static const struct table tables[] = {
		{"Kernels, graphs and library calls on the GPU", {"kernel", "graph", "library"}, false},
		{"Copies and memsets on the GPU", {"memcpy", "memset"}, true},
		{"NVTX ranges", {"nvtx"}, false},
		{"Calls of the CUDA driver", {"call"}, false},
	};
	struct groups groups = {0};
	FILE *in = fopen(path, "re");
	struct event event;
	char *line = NULL;
	size_t room = 0;

	if (!in) {
		cli_message("%s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	while (getline(&line, &room, in) > 0)
		if (read_event(line, &event))
			add(&groups, &event);
	fclose(in);
	free(line);
	if (!groups.count) {
		cli_message("%s has no events that `vcuda run --profile` writes", path);
		return CLI_FAILED;
	}
	qsort(groups.all, groups.count, sizeof(*groups.all), by_total);
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		print_table(&groups, &tables[i]);
	return 0;
}

static int usage(FILE *out)
{
	fputs("usage: vcuda profile summary FILE\n"
	      "\n"
	      "Prints tables of a file that `vcuda run --profile FILE` has written: kernels and copies on the GPU, and "
	      "calls\n"
	      "of the CUDA driver, by time. c++filt makes names of C++ readable: `vcuda profile summary FILE | "
	      "c++filt`.\n"
	      "https://ui.perfetto.dev and chrome://tracing show the file itself.\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

int cli_profile(int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[argc - 1], "--help") || !strcmp(argv[argc - 1], "-h")))
		return usage(stdout);
	if (argc == 3 && !strcmp(argv[1], "summary"))
		return summary(argv[2]);
	if (argc > 1 && strcmp(argv[1], "summary"))
		cli_message("'%s' is no command of `vcuda profile`", argv[1]);
	return usage(stderr);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "group-limits.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A hierarchy of groups: version 2, or the one of version 1 that has a controller. */
struct hierarchy {
	const char *type;                     /* of its file system */
	const char *controller;               /* named where the hierarchy is listed; NULL in version 2 */
	uint64_t (*limit)(const char *folder); /* of a group; UINT64_MAX: none */
	char group[PATH_MAX]; /* the process's own; empty: it is in none */
};

/* A line of mountinfo. */
struct mount {
	const char *root, *point, *type, *options;
};

static FILE *open_below(const char *root, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", root, name);

	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;
}

/* Is the word in a list with commas? */
static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list; list = strchr(list, ','), list += !!list)
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	return false;
}

/* "NUMBER:CONTROLLERS:GROUP", without controllers in version 2. */
static void parse_group(char *line, struct hierarchy *h)
{
	char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!group)
		return;
	*group++ = '\0';
	controllers++;
	group[strcspn(group, "\n")] = '\0';
	if (h->controller ? has_word(controllers, h->controller) : !*controllers)
		snprintf(h->group, sizeof(h->group), "%s", group);
}

static void read_group(const char *root, struct hierarchy *h)
{
	FILE *f = open_below(root, "proc/self/cgroup");
	size_t room = 0;
	char *line = NULL;

	while (f && getline(&line, &room, f) > 0)
		parse_group(line, h);
	free(line);
	if (f)
		fclose(f);
}

/* Blanks and backslashes of a path are written in octal. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		bool escaped = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;

		*to = escaped ? (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0')) : *from;
		from += escaped ? 4 : 1;
	}
	*to = '\0';
}

/* "ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE OPTIONS" */
static bool parse_mount(char *line, struct mount *m)
{
	char *fields[8] = {NULL}, *rest = strstr(line, " - "), *save;

	if (!rest)
		return false;
	*rest = '\0';
	for (int n = 0; n < 5; n++)
		fields[n] = strtok_r(n ? NULL : line, " ", &save);
	for (int n = 5; n < 8; n++)
		fields[n] = strtok_r(n > 5 ? NULL : rest + 3, " \n", &save);
	if (!fields[4] || !fields[7])
		return false;
	unescape(fields[3]);
	unescape(fields[4]);
	*m = (struct mount){.root = fields[3], .point = fields[4], .type = fields[5], .options = fields[7]};
	return true;
}

/* The group's path in a mount of the hierarchy: "" or what begins with a slash. NULL: the mount does not show it. */
static const char *path_in_mount(const struct hierarchy *h, const struct mount *m)
{
	size_t above = strcmp(m->root, "/") ? strlen(m->root) : 0;

	if (strcmp(m->type, h->type) || (h->controller && !has_word(m->options, h->controller)))
		return NULL;
	if (strncmp(h->group, m->root, above) || (h->group[above] && h->group[above] != '/'))
		return NULL;
	return h->group + above;
}

/* The numbers, two at most, that a file begins with: "max", where there is no limit, is none. */
static int read_numbers(const char *folder, const char *name, long long numbers[2])
{
	FILE *f = open_below(folder, name);
	int count;

	if (!f)
		return 0;
	count = fscanf(f, "%lld %lld", &numbers[0], &numbers[1]);
	fclose(f);
	return count > 0 ? count : 0;
}

static uint64_t memory_2(const char *folder)
{
	long long n[2];

	return read_numbers(folder, "memory.max", n) && n[0] >= 0 ? (uint64_t)n[0] : UINT64_MAX;
}

static uint64_t memory_1(const char *folder)
{
	long long n[2];

	return read_numbers(folder, "memory.limit_in_bytes", n) && n[0] >= 0 ? (uint64_t)n[0] : UINT64_MAX;
}

/* A quota of -1 is none. */
static uint64_t whole_cpus(long long quota, long long period)
{
	return quota > 0 && period > 0 ? (uint64_t)(quota / period + (quota % period != 0)) : UINT64_MAX;
}

static uint64_t cpus_2(const char *folder)
{
	long long n[2];

	return read_numbers(folder, "cpu.max", n) == 2 ? whole_cpus(n[0], n[1]) : UINT64_MAX;
}

static uint64_t cpus_1(const char *folder)
{
	long long quota[2], period[2];

	if (!read_numbers(folder, "cpu.cfs_quota_us", quota) || !read_numbers(folder, "cpu.cfs_period_us", period))
		return UINT64_MAX;
	return whole_cpus(quota[0], period[0]);
}

/* From the group's folder up to the mount, whose path is the first `top` characters. */
static uint64_t lowest_limit(char *folder, size_t top, const struct hierarchy *h)
{
	uint64_t lowest = h->limit(folder), limit;

	for (char *slash; (slash = strrchr(folder + top, '/'));) {
		*slash = '\0';
		limit = h->limit(folder);
		lowest = limit < lowest ? limit : lowest;
	}
	return lowest;
}

static uint64_t limit_in_mount(const char *root, const struct hierarchy *h, const struct mount *m)
{
	const char *path = path_in_mount(h, m);
	char folder[PATH_MAX];
	int length;

	if (!path)
		return UINT64_MAX;
	length = snprintf(folder, sizeof(folder), "%s%s%s", root, m->point, path);
	if (length < 0 || (size_t)length >= sizeof(folder))
		return UINT64_MAX;
	return lowest_limit(folder, strlen(root) + strlen(m->point), h);
}

static uint64_t limit_in_hierarchy(const char *root, struct hierarchy *h)
{
	uint64_t lowest = UINT64_MAX, limit;
	size_t room = 0;
	struct mount m;
	char *line = NULL;
	FILE *f;

	read_group(root, h);
	f = *h->group ? open_below(root, "proc/self/mountinfo") : NULL;
	while (f && getline(&line, &room, f) > 0) {
		limit = parse_mount(line, &m) ? limit_in_mount(root, h, &m) : UINT64_MAX;
		lowest = limit < lowest ? limit : lowest;
	}
	free(line);
	if (f)
		fclose(f);
	return lowest;
}

uint64_t softgpu_memory_limit(const char *root)
{
	struct hierarchy second = {.type = "cgroup2", .limit = memory_2};
	struct hierarchy first = {.type = "cgroup", .limit = memory_1, .controller = "memory"};
	uint64_t a = limit_in_hierarchy(root, &second), b = limit_in_hierarchy(root, &first);

	return a < b ? a : b;
}

uint64_t softgpu_cpu_limit(const char *root)
{
	struct hierarchy second = {.type = "cgroup2", .limit = cpus_2};
	struct hierarchy first = {.type = "cgroup", .limit = cpus_1, .controller = "cpu"};
	uint64_t a = limit_in_hierarchy(root, &second), b = limit_in_hierarchy(root, &first);

	return a < b ? a : b;
}

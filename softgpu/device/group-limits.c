/* SPDX-License-Identifier: Apache-2.0 */
#include "group-limits.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/control-group.h"

struct limit {
	uint64_t (*read)(const char *folder); /* reads the limit of a group; UINT64_MAX: none */
	uint64_t lowest;
};

/* The numbers at the beginning of a file, two at most. "max" means no limit and is not a number. */
static int read_numbers(const char *folder, const char *name, long long numbers[2])
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name), count;
	FILE *f = length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;

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

/* A quota of -1 means no limit. */
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

static void lower(struct limit *limit, const char *folder)
{
	uint64_t n = limit->read(folder);

	limit->lowest = n < limit->lowest ? n : limit->lowest;
}

/* From the group's folder up to the mount. */
static bool visit(void *argument, const char *group, size_t top)
{
	char folder[PATH_MAX];

	strcpy(folder, group);
	lower(argument, folder);
	for (char *slash; (slash = strrchr(folder + top, '/'));) {
		*slash = '\0';
		lower(argument, folder);
	}
	return true;
}

/* controller: the one of version 1. */
static uint64_t lowest_limit(const char *root, const char *controller, uint64_t (*second)(const char *folder),
			     uint64_t (*first)(const char *folder))
{
	struct limit a = {.read = second, .lowest = UINT64_MAX}, b = {.read = first, .lowest = UINT64_MAX};

	vcuda_group_each(root, NULL, visit, &a);
	vcuda_group_each(root, controller, visit, &b);
	return a.lowest < b.lowest ? a.lowest : b.lowest;
}

uint64_t softgpu_memory_limit(const char *root)
{
	return lowest_limit(root, "memory", memory_2, memory_1);
}

uint64_t softgpu_cpu_limit(const char *root)
{
	return lowest_limit(root, "cpu", cpus_2, cpus_1);
}

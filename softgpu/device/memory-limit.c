/* SPDX-License-Identifier: Apache-2.0 */
#include "memory-limit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/control-group.h"

struct limit {
	const char *name; /* of the file with a group's limit */
	uint64_t lowest;
};

static FILE *open_below(const char *folder, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;
}

static uint64_t read_limit(const char *folder, const char *name)
{
	unsigned long long n = UINT64_MAX;
	FILE *f = open_below(folder, name);

	if (!f)
		return UINT64_MAX;
	/* "max", where there is no limit, is no number. */
	if (fscanf(f, "%llu", &n) != 1)
		n = UINT64_MAX;
	fclose(f);
	return n;
}

static void lower(struct limit *limit, const char *folder)
{
	uint64_t n = read_limit(folder, limit->name);

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

uint64_t softgpu_memory_limit(const char *root)
{
	struct limit second = {.name = "memory.max", .lowest = UINT64_MAX};
	struct limit first = {.name = "memory.limit_in_bytes", .lowest = UINT64_MAX};

	vcuda_group_each(root, NULL, visit, &second);
	vcuda_group_each(root, "memory", visit, &first);
	return first.lowest < second.lowest ? first.lowest : second.lowest;
}

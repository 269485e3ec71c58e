/* SPDX-License-Identifier: Apache-2.0 */
#include "free-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

/* ---- files ---- */

/* The begin of a file, as text. False: there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes;

	if (fd < 0)
		return false;
	do {
		bytes = read(fd, text, size - 1);
	} while (bytes < 0 && errno == EINTR);
	close(fd);
	text[bytes > 0 ? bytes : 0] = 0;
	return bytes > 0;
}

/* The number behind the word that begins a line. UINT64_MAX: there is none. */
static uint64_t find_number(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, word, length) && (line[length] == ' ' || line[length] == ':'))
			return strtoull(line + length + 1, NULL, 10);
	}
	return UINT64_MAX;
}

/* ---- control groups ---- */

/* Reads a file with one number. UINT64_MAX: "max", or there is none. */
static uint64_t read_number(const char *folder, const char *name)
{
	char path[1024], text[32], *end;
	uint64_t number;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) ||
	    !read_text(path, text, sizeof(text)))
		return UINT64_MAX;
	number = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : number;
}

/* Pages of files that are not in use go before anything is killed. */
static uint64_t read_unused(const char *folder)
{
	char path[1024], text[4096];
	uint64_t bytes;

	if (snprintf(path, sizeof(path), "%s/memory.stat", folder) >= (int)sizeof(path) ||
	    !read_text(path, text, sizeof(text)))
		return 0;
	bytes = find_number(text, "inactive_file");
	return bytes == UINT64_MAX ? 0 : bytes;
}

static uint64_t free_in_group(const char *folder)
{
	uint64_t limit = read_number(folder, "memory.max"), used = read_number(folder, "memory.current"), unused;

	if (limit == UINT64_MAX || used == UINT64_MAX)
		return UINT64_MAX;
	unused = read_unused(folder);
	used = used > unused ? used - unused : 0;
	return limit > used ? limit - used : 0;
}

/* The path of the process's group of version 2, behind the folder of all groups. NULL: it has none. */
static char *find_group(char *text)
{
	char *line = !strncmp(text, "0::/", 4) ? text : strstr(text, "\n0::/");

	if (!line)
		return NULL;
	line = strchr(line, '/');
	line[strcspn(line, "\n")] = 0;
	return line;
}

static uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* A namespace of groups shows the process's own one as the first. */
static uint64_t free_in_groups(const char *root)
{
	char path[1024], text[512], *group, *last;
	uint64_t bytes = UINT64_MAX;
	size_t top;

	snprintf(path, sizeof(path), "%.400s/proc/self/cgroup", root);
	group = read_text(path, text, sizeof(text)) ? find_group(text) : NULL;
	if (!group)
		return bytes;
	top = (size_t)snprintf(path, sizeof(path), "%.400s/sys/fs/cgroup", root);
	strncat(path, group, sizeof(path) - top - 1);
	do {
		bytes = least(bytes, free_in_group(path));
		last = strrchr(path + top, '/');
		if (last)
			*last = 0;
	} while (last);
	return bytes;
}

/* ---- all ---- */

uint64_t client_free_memory(const char *root)
{
	char path[512], text[1024];
	uint64_t kib = UINT64_MAX;

	snprintf(path, sizeof(path), "%.400s/proc/meminfo", root);
	if (read_text(path, text, sizeof(text)))
		kib = find_number(text, "MemAvailable");
	return least(kib == UINT64_MAX ? kib : kib << 10, free_in_groups(root));
}

size_t client_missing_memory(const void *address, size_t bytes)
{
	unsigned char is_there[1024];
	size_t missing = 0, part;

	for (size_t done = 0; done < bytes; done += part) {
		part = bytes - done < sizeof(is_there) * PAGE ? bytes - done : sizeof(is_there) * PAGE;
		memset(is_there, 0, sizeof(is_there));
		mincore((char *)address + done, part, is_there);
		for (size_t i = 0; i < part / PAGE; i++)
			missing += is_there[i] & 1 ? 0 : PAGE;
	}
	return missing;
}

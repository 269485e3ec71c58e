/* SPDX-License-Identifier: Apache-2.0 */
#include "options/cache-folder.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VCUDA "VCUDA_CACHE="
#define CUDA "CUDA_CACHE_PATH="

bool daemon_cache_is_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return *name && !strchr("._-", *name) && strlen(name) <= 64 && !name[strspn(name, letters)];
}

static bool is_absolute(const char *path)
{
	return path && path[0] == '/';
}

/* The user's, as the software GPU finds it (softgpu/front/ptx-cache.c). */
static int user_folder(char *path, size_t size)
{
	const char *given = getenv("VCUDA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (is_absolute(given))
		return snprintf(path, size, "%s", given);
	if (is_absolute(cache))
		return snprintf(path, size, "%s/vcuda", cache);
	return is_absolute(home) ? snprintf(path, size, "%s/.cache/vcuda", home) : -1;
}

/* The same VM's vcudad has the same socket each time. FNV-1a of its path. */
static void name_of_socket(const char *socket, char name[17])
{
	uint64_t hash = 0xcbf29ce484222325;
	char *whole = is_absolute(socket) ? NULL : realpath(".", NULL);
	const char *const parts[] = {whole ? whole : "", whole ? "/" : "", socket};

	for (size_t n = 0; n < 3; n++)
		for (const char *p = parts[n]; *p; p++)
			hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	free(whole);
	snprintf(name, 17, "%016llx", (unsigned long long)hash);
}

static void make_folders(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	mkdir(path, 0700);
}

static bool choose(const struct daemon_options *options, char *path, size_t size)
{
	int length = user_folder(path, size), more;
	char name[17];

	if (!options->vhost_socket || length < 0 || (options->cache && !strcmp(options->cache, "shared")))
		return false;
	name_of_socket(options->vhost_socket, name);
	if ((size_t)length >= size)
		return false;
	more = snprintf(path + length, size - (size_t)length, "/vm/%s", options->cache ? options->cache : name);
	return more > 0 && (size_t)more < size - (size_t)length;
}

void daemon_cache_variables(const struct daemon_options *options, const char *variables[DAEMON_CACHE_VARIABLES])
{
	static char vcuda[sizeof(VCUDA) + PATH_MAX] = VCUDA, cuda[sizeof(CUDA) + PATH_MAX + 8] = CUDA;
	char *path = vcuda + strlen(VCUDA), *driver = cuda + strlen(CUDA);

	variables[0] = variables[1] = NULL;
	if (!choose(options, path, PATH_MAX))
		return;
	make_folders(path);
	variables[0] = vcuda;
	if (getenv("CUDA_CACHE_PATH"))
		return;
	snprintf(driver, PATH_MAX + 8, "%s/nv", path);
	mkdir(driver, 0700);
	variables[1] = cuda;
}

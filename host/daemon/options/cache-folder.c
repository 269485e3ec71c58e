/* SPDX-License-Identifier: Apache-2.0 */
#include "options/cache-folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The user's, as the software GPU finds it (softgpu/cache/ptx-cache.c). */
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
static void name_of_socket(const char *socket, char *name)
{
	uint64_t hash = 0xcbf29ce484222325;
	char *whole = is_absolute(socket) ? NULL : realpath(".", NULL);
	const char *const parts[] = {whole ? whole : "", whole ? "/" : "", socket};

	for (size_t n = 0; n < 3; n++)
		for (const char *p = parts[n]; *p; p++)
			hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	free(whole);
	snprintf(name, DAEMON_CACHE_NAME_BYTES, "%016llx", (unsigned long long)hash);
}

void daemon_cache_name(const struct daemon_options *options, char name[DAEMON_CACHE_NAME_BYTES])
{
	if (options->cache)
		snprintf(name, DAEMON_CACHE_NAME_BYTES, "%s", options->cache);
	else
		name_of_socket(options->vhost_socket, name);
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

/* A user has a folder of its own there: it owns the files. */
static bool choose(const struct daemon_options *options, char *path, size_t size)
{
	int length = user_folder(path, size), more;
	char name[DAEMON_CACHE_NAME_BYTES], user[16] = "";

	if (!options->vhost_socket || length < 0 || (options->cache && !strcmp(options->cache, "shared")))
		return false;
	daemon_cache_name(options, name);
	if (options->user.set)
		snprintf(user, sizeof(user), "/%u", options->user.uid);
	if ((size_t)length >= size)
		return false;
	more = snprintf(path + length, size - (size_t)length, "/vm/%s%s", name, user);
	return more > 0 && (size_t)more < size - (size_t)length;
}

/* Only vcudad's user can replace the folder. */
static void make_own(const struct daemon_options *options, const char *parent, const char *name)
{
	char path[PATH_MAX + 16];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", parent, name);
	mkdir(path, 0700);
	fd = options->user.set ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	/* Where it fails, daemon_view_open() says what the user cannot use. */
	(void)!fchown(fd, options->user.uid, options->user.gid);
	close(fd);
}

void daemon_cache_variables(const struct daemon_options *options, const char *variables[DAEMON_CACHE_VARIABLES])
{
	static char vcuda[sizeof(VCUDA) + PATH_MAX] = VCUDA, cuda[sizeof(CUDA) + PATH_MAX + 8] = CUDA;
	char *path = vcuda + strlen(VCUDA), *driver = cuda + strlen(CUDA);

	variables[0] = variables[1] = NULL;
	if (!choose(options, path, PATH_MAX))
		return;
	make_folders(path);
	make_own(options, path, "kernels");
	variables[0] = vcuda;
	if (getenv("CUDA_CACHE_PATH"))
		return;
	make_own(options, path, "nv");
	snprintf(driver, PATH_MAX + 8, "%s/nv", path);
	variables[1] = cuda;
}

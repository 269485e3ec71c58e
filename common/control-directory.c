/* SPDX-License-Identifier: Apache-2.0 */
#include "control-directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fits(int length)
{
	return length > 0 && length < VCUDA_CONTROL_DIRECTORY_BYTES;
}

unsigned int vcuda_control_directories(char paths[VCUDA_CONTROL_DIRECTORIES][VCUDA_CONTROL_DIRECTORY_BYTES])
{
	const char *given = getenv("VCUDA_CONTROL"), *runtime = getenv("XDG_RUNTIME_DIR");
	const size_t size = VCUDA_CONTROL_DIRECTORY_BYTES;
	unsigned int count = 0;

	if (given && *given)
		return fits(snprintf(paths[0], size, "%s", given));
	if (runtime && *runtime)
		count += fits(snprintf(paths[count], size, "%s/vcuda/control", runtime));
	if (!geteuid())
		count += fits(snprintf(paths[count], size, "/run/vcuda/control"));
	return count + fits(snprintf(paths[count], size, "/tmp/vcuda-%u/control", geteuid()));
}

static bool is_private(const char *path)
{
	struct stat s;

	return !lstat(path, &s) && S_ISDIR(s.st_mode) && s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
}

/* The directory above: another user who may write there could replace ours. False: the operator chose the directory. */
static bool directory_above(const char *path, char above[VCUDA_CONTROL_DIRECTORY_BYTES])
{
	const char *slash = strrchr(path, '/'), *given = getenv("VCUDA_CONTROL");

	snprintf(above, VCUDA_CONTROL_DIRECTORY_BYTES, "%.*s", slash ? (int)(slash - path) : 0, path);
	return !given || !*given;
}

bool vcuda_control_directory_is_ours(const char *path)
{
	char above[VCUDA_CONTROL_DIRECTORY_BYTES];

	return is_private(path) && (!directory_above(path, above) || is_private(above));
}

bool vcuda_control_directory_make(const char *path)
{
	char above[VCUDA_CONTROL_DIRECTORY_BYTES];

	/* Other users reach the local socket in the directory above. */
	if (directory_above(path, above))
		mkdir(above, 0755);
	mkdir(path, 0700);
	return vcuda_control_directory_is_ours(path);
}

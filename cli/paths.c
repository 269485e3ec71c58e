/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUEST_LIB VCUDA_FROM_BIN "/" VCUDA_LIBDIR "/vcuda"

static void find_self(struct cli_paths *paths)
{
	ssize_t n = readlink("/proc/self/exe", paths->self, sizeof(paths->self) - 1);
	char path[PATH_MAX];

	paths->self[n > 0 ? n : 0] = '\0';
	strcpy(path, paths->self);
	/* An empty path means the directory ".". */
	strcpy(paths->directory, dirname(path));
}

/* directory/relative with its "..", if it exists, else as it is written. */
static void set(char path[PATH_MAX], const char *variable, const char *directory, const char *relative)
{
	const char *given = variable ? getenv(variable) : NULL;
	char joined[PATH_MAX + 128];

	if (given && *given)
		snprintf(joined, sizeof(joined), "%s", given);
	else
		snprintf(joined, sizeof(joined), "%s/%s", directory, relative);
	if (!realpath(joined, path))
		snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, joined);
}

static bool exists(const char *directory, const char *relative)
{
	char joined[PATH_MAX + 128];

	snprintf(joined, sizeof(joined), "%s/%s", directory, relative);
	return access(joined, F_OK) == 0;
}

void cli_paths_find(struct cli_paths *paths)
{
	const char *self = paths->directory;

	find_self(paths);
	if (exists(self, "../host/daemon/meson.build") || exists(self, "../host/daemon/vcudad")) {
		set(paths->guest_lib, "VCUDA_GUEST_LIB", self, "../guest/lib");
		set(paths->daemon, "VCUDA_DAEMON", self, "../host/daemon/vcudad");
		set(paths->worker, NULL, self, "../host/worker/vcuda-worker");
		set(paths->backend_cpu, NULL, self, "../softgpu/libvcuda-cpu.so");
		set(paths->scripts, "VCUDA_SCRIPTS", self, "source/scripts");
		set(paths->bench, "VCUDA_BENCH", self, "source/bench");
		set(paths->bench_programs, NULL, self, "../bench");
	} else {
		/* A container has our libraries among its own (describe/cdi.c). */
		set(paths->guest_lib, "VCUDA_GUEST_LIB", self,
		    exists(self, GUEST_LIB) || !exists(self, "../lib/libcuda.so.1") ? GUEST_LIB : "../lib");
		set(paths->daemon, "VCUDA_DAEMON", self, "vcudad");
		set(paths->worker, NULL, self, VCUDA_FROM_BIN "/" VCUDA_LIBEXECDIR "/vcuda/vcuda-worker");
		set(paths->backend_cpu, NULL, self, VCUDA_FROM_BIN "/" VCUDA_LIBDIR "/vcuda/libvcuda-cpu.so");
		set(paths->scripts, "VCUDA_SCRIPTS", self, VCUDA_FROM_BIN "/" VCUDA_DATADIR "/virtio-cuda/scripts");
		set(paths->bench, "VCUDA_BENCH", self, VCUDA_FROM_BIN "/" VCUDA_DATADIR "/virtio-cuda/bench");
		set(paths->bench_programs, NULL, self, VCUDA_FROM_BIN "/" VCUDA_LIBEXECDIR "/vcuda/bench");
	}
}

bool cli_each_library(const struct cli_paths *paths, bool (*call)(const char *path))
{
	char versions[] = VCUDA_CUDARTS, path[PATH_MAX + 64], *rest = NULL;

	for (char *version = strtok_r(versions, " ", &rest); version; version = strtok_r(NULL, " ", &rest)) {
		snprintf(path, sizeof(path), "%s/libcudart.so.%s", paths->guest_lib, version);
		if (!call(path))
			return false;
	}
	snprintf(path, sizeof(path), "%s/libcuda.so.1", paths->guest_lib);
	return call(path);
}

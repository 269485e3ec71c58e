/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files a worker opens. A driver or compiler opens more of them while it works: libraries, its cache, the GPU's
 * nodes. What is not here, above all the files of the worker's user, it cannot open.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/landlock.h"
#include "sandbox/stages.h"

#define READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define DEVICE (READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV)
#define KEEP                                                                                                           \
	(READ | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_DIR |                      \
	 LANDLOCK_REMOVE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REFER)

/* For both back ends. */
static const char *const readable[] = {
	/* Libraries, where distributions put them. */
	"/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/run/opengl-driver", "/opt/cuda", "/etc/ld.so.cache",
	"/etc/localtime",
	/* Processors, nodes of memory, control groups; for NVIDIA's driver the GPUs as well. */
	"/sys", NULL};

/* The worker itself, and what the kernel says of the machine. Other processes are not there. */
static const char *const readable_in_proc[] = {"/proc/self",
					       "/proc/sys",
					       "/proc/driver",
					       "/proc/cpuinfo",
					       "/proc/meminfo",
					       "/proc/devices",
					       "/proc/modules",
					       "/proc/version",
					       "/proc/filesystems",
					       "/proc/stat",
					       NULL};

static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", NULL};

/* NVIDIA's nodes, nvidia-caps among them, and that of a guest whose own GPU is lent to it. */
static const char *const gpu_nodes[] = {"/dev/nvidia*", "/dev/vcuda", NULL};

static int allow_all(int ruleset, const char *const paths[], uint64_t rights)
{
	int err = 0;

	for (; *paths && !err; paths++)
		err = landlock_allow(ruleset, *paths, rights);
	return err;
}

static int allow_proc(int ruleset, bool cuda)
{
	int err = 0;

	for (const char *const *path = readable_in_proc; *path && !err; path++)
		err = landlock_allow_in_proc(ruleset, *path, READ);
	/* NVIDIA's driver names its threads. */
	if (!err && cuda)
		err = landlock_allow_in_proc(ruleset, "/proc/self/task", READ | LANDLOCK_WRITE_FILE);
	return err;
}

/* A library's name may be a link to a file in another folder. */
static int allow_linked(int ruleset, DIR *folder)
{
	struct dirent *entry;
	char to[PATH_MAX], path[PATH_MAX];
	int err = 0;

	while (!err && (entry = readdir(folder))) {
		ssize_t n = entry->d_type == DT_LNK ? readlinkat(dirfd(folder), entry->d_name, to, sizeof(to)) : 0;

		if (n <= 0 || !memchr(to, '/', (size_t)n) || !strstr(entry->d_name, ".so"))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd(folder), entry->d_name);
		err = landlock_allow(ruleset, path, LANDLOCK_READ_FILE);
	}
	return err;
}

static int allow_library_folder(int ruleset, const char *path)
{
	int err = landlock_allow(ruleset, path, READ);
	DIR *folder = err ? NULL : opendir(path);

	if (!folder)
		return err;
	err = allow_linked(ruleset, folder);
	closedir(folder);
	return err;
}

/* The loader parts the paths by colons and semicolons. */
static int allow_library_path(int ruleset, const char *list)
{
	char *copy = list ? strdup(list) : NULL, *rest = copy, *path;
	int err = 0;

	while (!err && (path = strsep(&rest, ":;")))
		if (*path)
			err = allow_library_folder(ruleset, path);
	free(copy);
	return err;
}

/* The program and its loader: it may have to start anew, until it has its second stage (process/channel-serve.h). */
static int interpreter(struct dl_phdr_info *info, size_t size, void *path)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(const char **)path = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first is the program */
}

static int allow_program(int ruleset)
{
	const char *loader = NULL;
	int err = landlock_allow(ruleset, "/proc/self/exe", LANDLOCK_EXECUTE | LANDLOCK_READ_FILE);

	dl_iterate_phdr(interpreter, &loader);
	if (!err && loader)
		err = landlock_allow(ruleset, loader, LANDLOCK_EXECUTE | LANDLOCK_READ_FILE);
	return err;
}

/* ---- folders that the worker writes to ---- */

static void make_folders(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(path, 0700);
		*p = '/';
	}
	mkdir(path, 0700);
}

/* Whoever keeps something there makes it later, which is then too late. */
static int allow_folder(int ruleset, const char *parent, const char *below)
{
	char path[PATH_MAX];
	int n;

	if (!parent || parent[0] != '/')
		return 0;
	n = snprintf(path, sizeof(path), "%s%s", parent, below);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	make_folders(path);
	return landlock_allow(ruleset, path, KEEP);
}

/* Where the software GPU keeps compiled kernels (softgpu/front/ptx-cache.c). */
static int allow_kernels(int ruleset)
{
	const char *given = getenv("VCUDA_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
		   *wanted = getenv("VCUDA_CPU_CACHE");

	if (wanted && !strcmp(wanted, "0"))
		return 0;
	if (given && given[0] == '/')
		return allow_folder(ruleset, given, "/kernels");
	if (cache && cache[0] == '/')
		return allow_folder(ruleset, cache, "/vcuda/kernels");
	return allow_folder(ruleset, getenv("HOME"), "/.cache/vcuda/kernels");
}

/* Where NVIDIA's driver keeps them, and its settings. */
static int allow_compute_cache(int ruleset)
{
	const char *given = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
	char path[PATH_MAX];
	int err = 0;

	if (given && *given)
		err = allow_folder(ruleset, given, "");
	else if (!access("/dev/nvidiactl", F_OK))
		err = allow_folder(ruleset, home, "/.nv/ComputeCache");
	if (!err && home && snprintf(path, sizeof(path), "%s/.nv", home) < (int)sizeof(path))
		err = landlock_allow(ruleset, path, READ);
	return err;
}

/* A service of NVIDIA's that processes share a GPU by; only where it runs. */
static int allow_mps(int ruleset)
{
	const char *given = getenv("CUDA_MPS_PIPE_DIRECTORY");

	return landlock_allow(ruleset, given && *given ? given : "/tmp/nvidia-mps",
			      KEEP | LANDLOCK_MAKE_SOCK | LANDLOCK_MAKE_FIFO);
}

/* ---- by back end ---- */

static int allow_gpu_nodes(int ruleset)
{
	glob_t found = {0};
	int err = 0;

	for (const char *const *pattern = gpu_nodes; *pattern; pattern++)
		glob(*pattern, *pattern == gpu_nodes[0] ? 0 : GLOB_APPEND, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !err; i++)
		err = landlock_allow(ruleset, found.gl_pathv[i], DEVICE);
	globfree(&found);
	return err;
}

static int allow_cuda(int ruleset)
{
	int err = allow_gpu_nodes(ruleset);

	if (!err)
		err = landlock_allow(ruleset, "/etc/nvidia", READ);
	/* The driver keeps there what its processes share of memory and events. */
	if (!err)
		err = landlock_allow(ruleset, "/dev/shm", KEEP);
	if (!err)
		err = allow_compute_cache(ruleset);
	return err ? err : allow_mps(ruleset);
}

static int allow_cpu(int ruleset)
{
	const char *dump = getenv("VCUDA_CPU_DUMP");
	int err = allow_kernels(ruleset);

	return err || !dump ? err : landlock_allow(ruleset, dump, KEEP);
}

static int allow_needed(int ruleset, const struct worker_sandbox_needs *needs)
{
	int err = allow_all(ruleset, readable, READ);

	if (!err)
		err = allow_all(ruleset, needs->libraries, READ);
	if (!err)
		err = allow_library_path(ruleset, getenv("LD_LIBRARY_PATH"));
	if (!err)
		err = allow_all(ruleset, devices, DEVICE);
	if (!err)
		err = allow_proc(ruleset, needs->cuda);
	if (!err)
		err = allow_program(ruleset);
	if (!err && needs->cpu)
		err = allow_cpu(ruleset);
	if (!err && needs->cuda)
		err = allow_cuda(ruleset);
	return err;
}

int sandbox_limit_files(const struct worker_sandbox_needs *needs)
{
	int ruleset = landlock_create(), err;

	if (ruleset < 0)
		return ruleset;
	err = allow_needed(ruleset, needs);
	if (err) {
		close(ruleset);
		return err;
	}
	return landlock_enter(ruleset);
}

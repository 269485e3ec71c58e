/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver or compiler opens files while it works: libraries, its cache, the GPU's nodes. A file that is not listed
 * here, above all a file of the worker's user, cannot be opened.
 */
#include "worker-files.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY WORKER_FILE_LIBRARY
#define DATA WORKER_FILE_DATA
#define PROC WORKER_FILE_PROC
#define DEVICE WORKER_FILE_DEVICE

struct known {
	enum worker_file_kind kind;
	const char *path;
};

/* For both back ends. */
static const struct known known[] = {
	/* Libraries, where distributions put them. */
	{LIBRARY, "/usr"},
	{LIBRARY, "/lib"},
	{LIBRARY, "/lib64"},
	{LIBRARY, "/nix/store"},
	{LIBRARY, "/gnu/store"},
	{LIBRARY, "/run/opengl-driver"},
	{LIBRARY, "/opt/cuda"},
	/* The names of some libraries are links through it. */
	{DATA, "/etc/alternatives"},
	{DATA, "/etc/ld.so.cache"},
	{DATA, "/etc/localtime"},
	/* Processors, nodes of memory, control groups; for NVIDIA's driver the GPUs as well. */
	{DATA, "/sys"},
	/* The worker itself, and what the kernel says of the machine. Other processes are not there. */
	{WORKER_FILE_SELF, "/proc/self"},
	{PROC, "/proc/sys"},
	{PROC, "/proc/driver"},
	{PROC, "/proc/cpuinfo"},
	{PROC, "/proc/meminfo"},
	{PROC, "/proc/devices"},
	{PROC, "/proc/modules"},
	{PROC, "/proc/version"},
	{PROC, "/proc/filesystems"},
	{PROC, "/proc/stat"},
	{DEVICE, "/dev/null"},
	{DEVICE, "/dev/zero"},
	{DEVICE, "/dev/full"},
	{DEVICE, "/dev/random"},
	{DEVICE, "/dev/urandom"},
};

/* NVIDIA's nodes, nvidia-caps among them, and that of a guest whose own GPU is lent to it. */
static const struct {
	const char *pattern;
	bool needed;
} gpu_nodes[] = {
	{"/dev/nvidia[0-9]*", true}, {"/dev/nvidiactl", true},     {"/dev/nvidia-uvm", true},
	{"/dev/vcuda", true},        {"/dev/nvidia-uvm-*", false}, {"/dev/nvidia-[!u]*", false},
};

struct visitor {
	const struct worker_file_needs *needs;
	int (*visit)(void *context, const struct worker_file *file);
	void *context;
};

static const char *value_of(const struct visitor *v, const char *name)
{
	size_t length = strlen(name);

	for (const char *const *variable = v->needs->environment; *variable; variable++)
		if (!strncmp(*variable, name, length) && (*variable)[length] == '=')
			return *variable + length + 1;
	return NULL;
}

static bool is_absolute(const char *path)
{
	return path && path[0] == '/';
}

/* ---- places ---- */

/* Without "//", "." and "..", by the text alone: in a worker's view no folder above a listed file is a link. */
static void clean(char *path)
{
	char *to = path, *from = path;

	while (*from) {
		size_t length = strcspn(from + 1, "/");

		if (length == 2 && !strncmp(from + 1, "..", 2)) {
			while (to > path && *--to != '/')
				continue;
		} else if (length && !(length == 1 && from[1] == '.')) {
			memmove(to, from, length + 1);
			to += length + 1;
		}
		from += length + 1;
	}
	if (to == path)
		*to++ = '/';
	*to = '\0';
}

/* False: it is too long, or this process has no folder of work. */
static bool make_place(char place[PATH_MAX], const char *folder, const char *path)
{
	char *here = is_absolute(path) || is_absolute(folder) ? NULL : getcwd(NULL, 0);
	bool can = is_absolute(path) || is_absolute(folder) || is_absolute(here);
	int n = is_absolute(path) ? snprintf(place, PATH_MAX, "%s", path)
				  : snprintf(place, PATH_MAX, "%s/%s/%s", here ? here : "", folder ? folder : "", path);

	free(here);
	if (!can || n < 0 || n >= PATH_MAX)
		return false;
	clean(place);
	return true;
}

static int visit_at(const struct visitor *v, enum worker_file_kind kind, bool needed, const char *path,
		    const char *place)
{
	const struct worker_file file = {.kind = kind, .needed = needed, .path = path, .place = place};

	return v->visit(v->context, &file);
}

static int visit(const struct visitor *v, enum worker_file_kind kind, bool needed, const char *path)
{
	char place[PATH_MAX];

	return make_place(place, NULL, path) ? visit_at(v, kind, needed, path, place) : 0;
}

/* ---- libraries ---- */

/* A library's name may be a link to a file in another folder. */
static int visit_link(const struct visitor *v, const char *folder, DIR *directory, const struct dirent *entry)
{
	char to[PATH_MAX], path[PATH_MAX], place[PATH_MAX];
	ssize_t n = entry->d_type == DT_LNK ? readlinkat(dirfd(directory), entry->d_name, to, sizeof(to) - 1) : 0;

	if (n <= 0 || !memchr(to, '/', (size_t)n) || !strstr(entry->d_name, ".so"))
		return 0;
	to[n] = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path) ||
	    !make_place(place, folder, to))
		return 0;
	return visit_at(v, LIBRARY, false, path, place);
}

static int visit_library_folder(const struct visitor *v, const char *path)
{
	int status = visit(v, LIBRARY, true, path);
	DIR *directory = status || !v->needs->links ? NULL : opendir(path);
	struct dirent *entry;

	while (directory && !status && (entry = readdir(directory)))
		status = visit_link(v, path, directory, entry);
	if (directory)
		closedir(directory);
	return status;
}

/* The loader parts the paths by colons and semicolons. */
static int visit_library_path(const struct visitor *v, const char *list)
{
	char *copy = list ? strdup(list) : NULL, *rest = copy, *path;
	int status = 0;

	while (!status && (path = strsep(&rest, ":;")))
		if (*path)
			status = visit_library_folder(v, path);
	free(copy);
	return status;
}

static int interpreter(struct dl_phdr_info *info, size_t size, void *path)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(const char **)path = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first is the program */
}

/*
 * The program and its loader: the worker may have to start anew, until it has its second stage
 * (process/channel-serve.h). vcudad has the same loader.
 */
static int visit_program(const struct visitor *v)
{
	const char *loader = NULL;
	int status = visit(v, WORKER_FILE_PROGRAM, true, v->needs->program);

	if (!status && v->needs->keeper)
		status = visit(v, WORKER_FILE_PROGRAM, true, v->needs->keeper);
	dl_iterate_phdr(interpreter, &loader);
	return status || !loader ? status : visit(v, WORKER_FILE_PROGRAM, true, loader);
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

/* A program that keeps something there makes the folder later, which is then too late. */
static int visit_folder(const struct visitor *v, const char *parent, const char *below)
{
	char path[PATH_MAX];
	int n;

	if (!is_absolute(parent))
		return 0;
	n = snprintf(path, sizeof(path), "%s%s", parent, below);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	make_folders(path);
	return visit(v, WORKER_FILE_KEEP, true, path);
}

/* The folder of kernels that the software GPU compiled (softgpu/cache/ptx-cache.c). */
static int visit_kernels(const struct visitor *v)
{
	const char *given = value_of(v, "VCUDA_CACHE"), *cache = value_of(v, "XDG_CACHE_HOME"),
		   *wanted = value_of(v, "VCUDA_CPU_CACHE");

	if (wanted && !strcmp(wanted, "0"))
		return 0;
	if (is_absolute(given))
		return visit_folder(v, given, "/kernels");
	if (is_absolute(cache))
		return visit_folder(v, cache, "/vcuda/kernels");
	return visit_folder(v, value_of(v, "HOME"), "/.cache/vcuda/kernels");
}

/* The folder of kernels that NVIDIA's driver compiled, and its settings. */
static int visit_compute_cache(const struct visitor *v)
{
	const char *given = value_of(v, "CUDA_CACHE_PATH"), *home = value_of(v, "HOME");
	char path[PATH_MAX];
	int status = 0;

	if (home && snprintf(path, sizeof(path), "%s/.nv", home) < (int)sizeof(path))
		status = visit(v, DATA, false, path);
	if (status)
		return status;
	if (given && *given)
		return visit_folder(v, given, "");
	return access("/dev/nvidiactl", F_OK) ? 0 : visit_folder(v, home, "/.nv/ComputeCache");
}

/* ---- by back end ---- */

/* A service of NVIDIA's that processes share a GPU by; only where it runs. */
static int visit_mps(const struct visitor *v)
{
	const char *given = value_of(v, "CUDA_MPS_PIPE_DIRECTORY");

	return visit(v, WORKER_FILE_SERVICE, false, given && *given ? given : "/tmp/nvidia-mps");
}

static int visit_matches(const struct visitor *v, const char *pattern, bool needed)
{
	glob_t found = {0};
	int status = 0;

	if (!glob(pattern, 0, NULL, &found))
		for (size_t i = 0; i < found.gl_pathc && !status; i++)
			status = visit(v, DEVICE, needed, found.gl_pathv[i]);
	globfree(&found);
	return status;
}

static int visit_gpu_nodes(const struct visitor *v)
{
	int status = 0;

	for (size_t i = 0; i < sizeof(gpu_nodes) / sizeof(gpu_nodes[0]) && !status; i++)
		status = visit_matches(v, gpu_nodes[i].pattern, gpu_nodes[i].needed);
	return status;
}

/* The socket of a vcudad whose GPU is lent on: our libcuda.so.1 is the worker's driver then. */
static int visit_socket(const struct visitor *v)
{
	const char *given = value_of(v, "VCUDA_SOCKET");

	return given && *given ? visit(v, WORKER_FILE_SOCKET, true, given) : 0;
}

static int visit_cuda(const struct visitor *v)
{
	int status = visit_gpu_nodes(v);

	if (!status)
		status = visit(v, DATA, false, "/etc/nvidia");
	/* The driver keeps there what its processes share of memory and events. */
	if (!status)
		status = visit(v, WORKER_FILE_SHARED, false, "/dev/shm");
	/* The driver names its threads. */
	if (!status)
		status = visit(v, WORKER_FILE_THREADS, false, "/proc/self/task");
	if (!status)
		status = visit_compute_cache(v);
	if (!status)
		status = visit_socket(v);
	return status ? status : visit_mps(v);
}

static int visit_cpu(const struct visitor *v)
{
	const char *dump = value_of(v, "VCUDA_CPU_DUMP");
	int status = visit_kernels(v);

	return status || !dump ? status : visit(v, WORKER_FILE_KEEP, true, dump);
}

int worker_files_visit(const struct worker_file_needs *needs,
		       int (*visit_one)(void *context, const struct worker_file *file), void *context)
{
	const struct visitor v = {.needs = needs, .visit = visit_one, .context = context};
	int status = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !status; i++)
		status = visit(&v, known[i].kind, false, known[i].path);
	for (const char *const *folder = needs->libraries; *folder && !status; folder++)
		status = visit(&v, LIBRARY, true, *folder);
	if (!status)
		status = visit_library_path(&v, value_of(&v, "LD_LIBRARY_PATH"));
	if (!status)
		status = visit_program(&v);
	if (!status && needs->cpu)
		status = visit_cpu(&v);
	return status || !needs->cuda ? status : visit_cuda(&v);
}

/* ---- libraries of ours ---- */

/* Beside the worker, in its own folder in a build tree, in the same installation. */
static const char *const places[] = {"", "../../softgpu/", VCUDA_CPU_FROM_WORKER "/"};

#define PLACES (sizeof(places) / sizeof(places[0]))

const char *const *worker_library_folders(const char *program)
{
	static char folders[PLACES][PATH_MAX + 64];
	static const char *list[PLACES + 1];
	const char *slash = strrchr(program, '/');

	for (size_t i = 0; i < PLACES; i++) {
		list[i] = slash ? folders[i] : NULL;
		snprintf(folders[i], sizeof(folders[i]), "%.*s/%s", slash ? (int)(slash - program) : 0, program,
			 places[i]);
	}
	return list;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/control-group.h"

/* In a child of its own: what it loads may print, hang or crash. The child's first line comes back in `line`. */
static bool in_child(char *line, size_t size, int (*work)(void *), void *argument)
{
	int fds[2], status = -1;
	size_t length = 0;
	ssize_t n;
	pid_t child;

	line[0] = '\0';
	if (pipe(fds))
		return false;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		alarm(30);
		status = work(argument);
		fflush(stdout);
		_exit(status);
	}
	close(fds[1]);
	while (child > 0 && length < size - 1 && (n = read(fds[0], line + length, size - 1 - length)) > 0)
		length += (size_t)n;
	close(fds[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	line[length] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int exec_command(void *argument)
{
	char *const *command = argument;
	int null = open("/dev/null", O_WRONLY);

	if (null >= 0)
		dup2(null, STDERR_FILENO);
	execvp(command[0], command);
	return 127;
}

bool doctor_output(char *line, size_t size, char *const command[])
{
	return in_child(line, size, exec_command, (void *)(uintptr_t)command);
}

static bool check_file(const char *subject, const char *path, int mode, const char *variable)
{
	char mend[256];

	if (!access(path, mode))
		return doctor_say(FOUND, subject, NULL, "%s", path);
	snprintf(mend, sizeof(mend), "Build it with `make`%s%s%s.", variable ? ", or name it with " : "",
		 variable ? variable : "", "");
	return doctor_say(MISSING, subject, mend, "%s: %s", path, strerror(errno));
}

static bool is_readable(const char *path)
{
	return access(path, R_OK) == 0;
}

static bool check_guest_libraries(const struct cli_paths *paths)
{
	char management[PATH_MAX + 32];

	snprintf(management, sizeof(management), "%s/libnvidia-ml.so.1", paths->guest_lib);
	if (cli_each_library(paths, is_readable) && is_readable(management))
		return doctor_say(FOUND, "guest libraries", NULL,
				  "%s: libcuda.so.1, libnvidia-ml.so.1, libcudart.so of %s", paths->guest_lib,
				  VCUDA_CUDARTS);
	return doctor_say(MISSING, "guest libraries",
			  "Build them with `make`, or name their directory with VCUDA_GUEST_LIB.",
			  "%s lacks some of libcuda.so.1, libnvidia-ml.so.1, libcudart.so of %s", paths->guest_lib,
			  VCUDA_CUDARTS);
}

static int load_backend_cpu(void *argument)
{
	const struct cli_paths *paths = argument;
	void *library = dlopen(paths->backend_cpu, RTLD_NOW | RTLD_LOCAL);

	if (!library || !dlsym(library, "vcuda_backend_cpu")) {
		puts(dlerror());
		return 1;
	}
	puts(paths->backend_cpu);
	return 0;
}

static bool check_backend_cpu(const struct cli_paths *paths)
{
	char line[1024];

	if (in_child(line, sizeof(line), load_backend_cpu, (void *)(uintptr_t)paths))
		return doctor_say(FOUND, "software GPU", NULL, "%s", line);
	/* Not needed where there is a real GPU, so this is for the caller to count. */
	doctor_say(NOTED, "software GPU", "Install LLVM 19 (Debian: llvm-19-dev) and run `make` again.", "%s",
		   *line ? line : "its library does not load");
	return false;
}

/* The host driver's functions that are asked here. */
struct driver {
	int (*init)(unsigned int flags);
	int (*version)(int *version);
	int (*count)(int *count);
	int (*name)(char *name, int length, int device);
};

static bool load_driver(struct driver *d, const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("%s is not installed\n", file);
		return false;
	}
	*(void **)&d->init = dlsym(library, "cuInit");
	*(void **)&d->version = dlsym(library, "cuDriverGetVersion");
	*(void **)&d->count = dlsym(library, "cuDeviceGetCount");
	*(void **)&d->name = dlsym(library, "cuDeviceGetName");
	if (!d->init || !d->version || !d->count || !d->name) {
		puts("libcuda.so.1 is not a driver");
		return false;
	}
	return true;
}

static int ask_driver(void *argument)
{
	int version = 0, count = 0, result;
	struct driver d;

	if (!load_driver(&d, argument))
		return 1;
	result = d.init(0);
	if (result) {
		printf("the driver is installed, but cuInit fails with error %d\n", result);
		return 1;
	}
	d.version(&version);
	d.count(&count);
	printf("CUDA %d.%d, %d device%s", version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s");
	for (int i = 0; i < count; i++) {
		char name[256] = "";

		d.name(name, sizeof(name), i);
		printf("%s %s", i ? "," : ":", name);
	}
	putchar('\n');
	return count ? 0 : 1;
}

bool doctor_driver(const char *file, char *line, size_t size)
{
	return in_child(line, size, ask_driver, (void *)(uintptr_t)file);
}

/* "libcuda.so.1", as the loader finds it, is ours, which asks this machine's vcudad. */
static int finds_ours(void *argument)
{
	const struct cli_paths *paths = argument;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	char ours[PATH_MAX + 32], real[PATH_MAX], own[PATH_MAX];
	void *function = library ? dlsym(library, "cuInit") : NULL;
	Dl_info info;

	snprintf(ours, sizeof(ours), "%s/libcuda.so.1", paths->guest_lib);
	if (!function || !dladdr(function, &info) || !realpath(info.dli_fname, real) || !realpath(ours, own) ||
	    strcmp(real, own))
		return 1;
	puts("the libcuda.so.1 that is found is virtio-cuda's own");
	return 0;
}

static void driver_release(char *release, size_t size)
{
	FILE *f = fopen("/sys/module/nvidia/version", "r");

	snprintf(release, size, "driver");
	if (f) {
		char number[64] = "";

		if (fscanf(f, "%63s", number) == 1)
			snprintf(release, size, "driver %s", number);
		fclose(f);
	}
}

static bool check_backend_cuda(const struct cli_paths *paths)
{
	char line[1024], release[80];

	driver_release(release, sizeof(release));
	if (!in_child(line, sizeof(line), finds_ours, (void *)(uintptr_t)paths) &&
	    doctor_driver("libcuda.so.1", line, sizeof(line)))
		return doctor_say(FOUND, "NVIDIA GPU", NULL, "%s, %s", release, line);
	doctor_say(NOTED, "NVIDIA GPU",
		   "Without one the software GPU computes. With one: install NVIDIA's driver; no toolkit is needed.",
		   "%s", *line ? line : "the driver did not answer within 30 seconds, or crashed");
	return false;
}

static bool check_backends(const struct cli_paths *paths)
{
	bool cpu = check_backend_cpu(paths), cuda = check_backend_cuda(paths);

	if (cpu || cuda)
		return true;
	return doctor_say(MISSING, "back end", "One of the two above is needed.",
			  "neither a GPU nor the software GPU can be used");
}

static void check_daemon_socket(void)
{
	const char *given = getenv("VCUDA_SOCKET");
	char path[300];

	if (given && *given)
		doctor_say(cli_is_listening(given) ? FOUND : NOTED, "daemon",
			   cli_is_listening(given) ? NULL : "Start vcudad, or unset VCUDA_SOCKET.",
			   "VCUDA_SOCKET is %s, where %s", given,
			   cli_is_listening(given) ? "one listens" : "none listens");
	else if (cli_socket_find(path, sizeof(path)))
		doctor_say(FOUND, "daemon", NULL, "one listens at %s", path);
	else
		doctor_say(FOUND, "daemon", NULL, "none listens; `vcuda run` starts one of its own");
}

static void check_limits(void)
{
	unsigned long maps = 0;
	struct rlimit limit;
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");

	if (f) {
		if (fscanf(f, "%lu", &maps) != 1)
			maps = 0;
		fclose(f);
	}
	if (maps >= 262144)
		doctor_say(FOUND, "vm.max_map_count", NULL, "%lu", maps);
	else
		doctor_say(NOTED, "vm.max_map_count",
			   "For more pinned memory in a VM: sysctl -w vm.max_map_count=1048576",
			   "%lu; about %lu MiB of scattered 4 KiB pages can be pinned in one VM process", maps,
			   maps / 256);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		doctor_say(FOUND, "RLIMIT_MEMLOCK", NULL,
			   "%llu KiB; not a limit here, and in a VM only where it is more than the module's "
			   "max_pinned_mib",
			   (unsigned long long)limit.rlim_cur / 1024);
	else
		doctor_say(FOUND, "RLIMIT_MEMLOCK", NULL, "unlimited");
}

/* Checks the way in which vcudad ends processes of a worker: host/daemon/worker/worker-group.h. */
static void check_groups(void)
{
	char folder[PATH_MAX];

	if (vcuda_group_works(VCUDA_GROUP_V2, folder))
		doctor_say(FOUND, "control groups", NULL, "each worker has one of version 2 in %s", folder);
	else if (vcuda_group_works(VCUDA_GROUP_V1, folder))
		doctor_say(FOUND, "control groups", NULL, "each worker has one of version 1 in %s", folder);
	else
		doctor_say(
			NOTED, "control groups",
			"To end a hostile worker's processes at once, start vcudad with `systemd-run --user --scope`, "
			"or in a service with Delegate=yes.",
			"workers have none: vcudad kills the processes that a worker leaves one by one");
}

/* Whether vcudad can keep --max-host-memory: host/daemon/worker/memory-group.h. */
static void check_memory_group(void)
{
	char folder[PATH_MAX];

	if (vcuda_group_has(NULL, "memory.max", folder))
		doctor_say(FOUND, "--max-host-memory", NULL, "works by a control group of version 2 in %s", folder);
	else if (vcuda_group_has("memory", "memory.limit_in_bytes", folder))
		doctor_say(FOUND, "--max-host-memory", NULL, "works by a control group of version 1 in %s", folder);
	else
		doctor_say(NOTED, "--max-host-memory",
			   "For a limit of the host's memory start vcudad with `systemd-run --user --scope -p "
			   "Delegate=yes`, or in a service with Delegate=yes.",
			   "no group with such a limit can be made here");
}

static int usage(FILE *out)
{
	fputs("usage: vcuda doctor [--json]\n\n"
	      "Says what virtio-cuda needs on this machine, what is missing, and how to mend it.\n\n"
	      "  --json   an object: \"findings\", each with \"finding\" (ok, note, missing), \"subject\", \"text\" "
	      "and \"mend\";\n"
	      "           \"programs\", \"vcuda run\" and \"vcuda vm run\": yes, no, or null where the question does "
	      "not arise\n\n"
	      "Exit status: 0 if CUDA programs can run here, in a VM or container that has its devices from vcudad, or "
	      "if\n"
	      "`vcuda run` and `vcuda vm run` can work; else 1.\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* A VM or container whose devices come from elsewhere needs none of the host's parts. */
static bool is_guest_only(const struct cli_paths *paths, enum doctor_verdict programs)
{
	return programs != NOT_ASKED && access(paths->daemon, F_OK);
}

int cli_doctor(const struct cli_paths *paths, int argc, char **argv)
{
	enum doctor_verdict programs;
	bool run, vm;

	if (argc > 2 || (argc > 1 && strcmp(argv[1], "--json")))
		return usage(!strcmp(argv[1], "--help") ? stdout : stderr);
	doctor_begin(argc > 1);
	run = check_guest_libraries(paths);
	programs = doctor_guest(paths);
	if (is_guest_only(paths, programs)) {
		doctor_say(FOUND, "host", NULL, "vcudad is not installed: this machine lends no devices");
		doctor_end(programs, NOT_ASKED, NOT_ASKED);
		return programs == CAN_WORK && run ? 0 : 1;
	}
	run &= check_file("vcudad", paths->daemon, X_OK, "VCUDA_DAEMON");
	run &= check_file("vcuda-worker", paths->worker, X_OK, NULL);
	run &= check_backends(paths);
	check_daemon_socket();
	check_limits();
	check_groups();
	check_memory_group();
	doctor_sandbox();
	vm = doctor_vm(paths) && run;
	doctor_end(programs, run ? CAN_WORK : CANNOT_WORK, vm ? CAN_WORK : CANNOT_WORK);
	return programs == CAN_WORK || (run && vm) ? 0 : 1;
}

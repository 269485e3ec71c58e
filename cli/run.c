/* SPDX-License-Identifier: Apache-2.0 */
/* `vcuda run`: a program of this machine, over the local transport. */
#include "cli.h"
#include "common/trace-point.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
	const struct cli_paths *paths;
	const char *backend; /* NULL: not asked for */
	const char *sandbox; /* the same */
	char **program;      /* ends with NULL */
	char trace[PATH_MAX]; /* value for VCUDA_TRACE: a file, or "1" for standard error; empty: not asked for */
	char stats[PATH_MAX]; /* the same, for VCUDA_STATS */
	char profile[PATH_MAX]; /* a file, for VCUDA_PROFILE; empty: not asked for */
	bool check;           /* all accesses of kernels, on the software GPU */
	char file[PATH_MAX]; /* the file that program[0] names */
	char socket[300];
	sigset_t signals; /* the signals that sigwaitinfo() takes; blocked */
	sigset_t before;
};

static int usage(FILE *out)
{
	fputs("usage: vcuda run [--backend auto|cuda|cpu] [--sandbox MODE] [--check] [--trace[=FILE]] [--stats[=FILE]]\n"
	      "                 [--profile FILE] [--] PROGRAM [ARGUMENT...]\n"
	      "\n"
	      "Runs a CUDA program on virtio-cuda, without a VM, and returns its exit status.\n"
	      "\n"
	      "  --backend auto|cuda|cpu  a daemon of the program's own, and who computes: a real GPU or the software "
	      "GPU\n"
	      "                           (auto: a real one if there is one). Without it, the daemon at "
	      "$VCUDA_SOCKET,\n"
	      "                           $XDG_RUNTIME_DIR/vcuda/socket or /run/vcuda/socket is used where one "
	      "listens.\n"
	      "  --sandbox MODE           a daemon of the program's own with this --sandbox (see `vcudad --help`)\n"
	      "  --check                  on the software GPU: a line on standard error for each access of a kernel that is\n"
	      "                           out of bounds or misaligned: kernel, block, thread, line of the PTX, nearest\n"
	      "                           allocation. The kernel goes on: such loads give zeros, such stores are dropped.\n"
	      "                           The first 100 are printed, all are counted. The exit status is 1 if there were\n"
	      "                           any and the program succeeded (compute-sanitizer --error-exitcode 1), else the\n"
	      "                           program's. Kernels run many times slower. Neither leaks nor reads of memory that\n"
	      "                           was never written are looked for.\n"
	      "  --trace[=FILE]           a line for each call of the CUDA driver: arguments, result, whether it waited "
	      "for\n"
	      "                           the worker, time; on standard error, or to the file. VCUDA_TRACE=FILE (1: "
	      "standard\n"
	      "                           error) does the same without `vcuda run`.\n"
	      "  --stats[=FILE]           a table of the calls when the program exits: how often, errors, time, round "
	      "trips.\n"
	      "                           Also VCUDA_STATS. A process that a signal ends, or _exit(), prints none.\n"
	      "  --profile FILE           a trace of calls, commands of the worker and work of the GPU, with times, for\n"
	      "                           https://ui.perfetto.dev, chrome://tracing and `vcuda profile summary FILE`\n",
	      out);
	return out == stdout ? 0 : CLI_FAILED;
}

/* The value for the library: an absolute path, since the program may change its directory. */
static bool output_file(char value[PATH_MAX], const char *name, const char *option)
{
	int fd;

	strcpy(value, "1");
	if (!name)
		return true;
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && realpath(name, value))
		return true;
	cli_message("--%s: cannot write to '%s': %s", option, name, strerror(errno));
	return false;
}

/* Returns -1 to go on, or the exit status. */
static int parse(struct run *r, int argc, char **argv)
{
	static const struct option options[] = {
		{"backend", required_argument, NULL, 'b'}, {"help", no_argument, NULL, 'h'},
		{"trace", optional_argument, NULL, 't'},   {"stats", optional_argument, NULL, 's'},
		{"sandbox", required_argument, NULL, 'x'}, {"check", no_argument, NULL, 'c'},
		{"profile", required_argument, NULL, 'p'}, {0}};
	int option;

	opterr = 0;
	/* "+": options behind the program are the program's. */
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout);
		if (option == '?') {
			cli_message("'%s' is no option of `vcuda run`, or lacks its value", argv[optind - 1]);
			return usage(stderr);
		}
		if (option == 'b')
			r->backend = optarg;
		else if (option == 'x')
			r->sandbox = optarg;
		else if (option == 'c')
			r->check = true;
		else if (option == 't' && !output_file(r->trace, optarg, "trace"))
			return CLI_FAILED;
		else if (option == 's' && !output_file(r->stats, optarg, "stats"))
			return CLI_FAILED;
		else if (option == 'p' && !output_file(r->profile, optarg, "profile"))
			return CLI_FAILED;
	}
	if (r->backend && strcmp(r->backend, "auto") && strcmp(r->backend, "cuda") && strcmp(r->backend, "cpu")) {
		cli_message("--backend is auto, cuda or cpu, not '%s'", r->backend);
		return CLI_FAILED;
	}
	if (r->check && r->backend && strcmp(r->backend, "cpu")) {
		cli_message("--check needs the software GPU: --backend cpu, or none");
		return CLI_FAILED;
	}
	if (r->check)
		r->backend = "cpu";
	if (r->sandbox && !cli_is_sandbox(r->sandbox)) {
		cli_message("--sandbox is strict, best-effort, log or off, not '%s'", r->sandbox);
		return CLI_FAILED;
	}
	if (optind == argc) {
		cli_message("which program?");
		return usage(stderr);
	}
	r->program = argv + optind;
	return -1;
}

static int cannot_run(const char *name, int error)
{
	if (error == ENOENT && !strchr(name, '/'))
		cli_message("%s: command not found", name);
	else
		cli_message("%s: %s", name, strerror(error));
	return error == ENOENT || error == ENOTDIR ? 127 : 126;
}

/* The colon-separated list `name` with `first` in front. */
static void prepend(const char *name, const char *first)
{
	const char *rest = getenv(name);
	char *value;

	if (!rest || !*rest)
		setenv(name, first, 1);
	else if (asprintf(&value, "%s:%s", first, rest) > 0)
		setenv(name, value, 1);
}

static void append_math(const struct run *r)
{
	char *value;

	if (cli_wants_math(r->file) && asprintf(&value, "%s:%s/math", getenv("LD_LIBRARY_PATH"), r->paths->guest_lib) > 0)
		setenv("LD_LIBRARY_PATH", value, 1);
}

#define SEPARATORS " :;"

/*
 * The loader splits LD_PRELOAD at spaces and colons, LD_LIBRARY_PATH at colons and semicolons, and knows no quotes. So
 * libraries whose path has one of these are named through a link, which lives as long as the program.
 */
static bool link_libraries(struct cli_paths *paths, char directory[PATH_MAX])
{
	const char *parent = getenv("TMPDIR");
	char link[PATH_MAX + sizeof("/lib")];

	if (!parent || *parent != '/' || strpbrk(parent, SEPARATORS))
		parent = "/tmp";
	snprintf(directory, PATH_MAX, "%s/vcuda-run.XXXXXX", parent);
	if (!mkdtemp(directory)) {
		cli_message("no folder can be made in %s for a link to %s: %s", parent, paths->guest_lib, strerror(errno));
		return false;
	}
	snprintf(link, sizeof(link), "%s/lib", directory);
	if (symlink(paths->guest_lib, link)) {
		cli_message("%s cannot be linked to %s: %s", link, paths->guest_lib, strerror(errno));
		rmdir(directory);
		return false;
	}
	strcpy(paths->guest_lib, link);
	return true;
}

static void unlink_libraries(const struct cli_paths *paths, const char *directory)
{
	unlink(paths->guest_lib);
	rmdir(directory);
}

static bool preload(const char *path)
{
	prepend("LD_PRELOAD", path);
	return true;
}

/* NVTX of the program finds the library that records its ranges, unless another tool is asked for. */
static void record_ranges(const struct cli_paths *paths)
{
	char path[PATH_MAX + sizeof("/libcuda.so.1")];

	snprintf(path, sizeof(path), "%s/libcuda.so.1", paths->guest_lib);
	setenv("NVTX_INJECTION64_PATH", path, 0);
}

/*
 * PyTorch's libraries have a DT_RPATH to NVIDIA's libcupti. Ours must be loaded before, which costs each process 0.1
 * ms. Other libraries that are to be preloaded come first: some insist on that.
 */
static bool wants_profilers(const struct run *r)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false; /* libraries with a sanitizer are for programs that have it, too */
#else
	const char *wanted = getenv("VCUDA_CUPTI");

	return wanted && *wanted ? strcmp(wanted, "0") : cli_is_python(r->file);
#endif
}

static void preload_profilers(const struct cli_paths *paths)
{
	static const char *const names[] = {"libcupti.so.13", "libcupti.so.12"};
	const char *others;
	char *value;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		others = getenv("LD_PRELOAD");
		if (asprintf(&value, "%s%s%s/%s", others ? others : "", others && *others ? ":" : "", paths->guest_lib,
			     names[i]) > 0)
			setenv("LD_PRELOAD", value, 1);
	}
}

static void set_environment(const struct run *r)
{
	setenv("VCUDA_SOCKET", r->socket, 1);
	setenv("VCUDA_TRANSPORT", "local", 1);
	if (*r->trace)
		setenv("VCUDA_TRACE", r->trace, 1);
	if (*r->stats)
		setenv("VCUDA_STATS", r->stats, 1);
	if (*r->profile)
		setenv("VCUDA_PROFILE", r->profile, 1);
	if (*r->trace || *r->profile)
		record_ranges(r->paths);
	prepend("LD_LIBRARY_PATH", r->paths->guest_lib);
	append_math(r);
	/*
	 * DT_RPATH comes before LD_LIBRARY_PATH. A library that is loaded already under the same name comes before
	 * both, so a program with DT_RPATH gets our libraries preloaded. Other programs and their children do not.
	 */
	if (cli_has_rpath(r->file))
		cli_each_library(r->paths, preload);
	if (wants_profilers(r))
		preload_profilers(r->paths);
}

/* Passes on what was sent to us alone: what the terminal sends, the program gets by itself. */
static void forward(pid_t child, const siginfo_t *info)
{
	if (info->si_code <= 0)
		kill(child, info->si_signo);
}

static int wait_program(const struct run *r, pid_t child, const struct cli_daemon *daemon)
{
	bool daemon_lives = daemon->pid > 0;

	for (;;) {
		siginfo_t info;
		int status;

		if (waitpid(child, &status, WNOHANG) == child) {
			if (WIFSIGNALED(status) && *r->stats)
				cli_message("--stats: signal %d ended the program before it could print its table",
					    WTERMSIG(status));
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		}
		if (daemon_lives && waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
			cli_message("the daemon ended before the program; CUDA calls will fail from now on");
			daemon_lives = false;
		}
		if (sigwaitinfo(&r->signals, &info) > 0 && info.si_signo != SIGCHLD)
			forward(child, &info);
	}
}

static int run_program(struct run *r, const struct cli_daemon *daemon)
{
	int report[2], error = 0;
	pid_t child;

	if (pipe2(report, O_CLOEXEC)) {
		cli_message("cannot make a pipe: %s", strerror(errno));
		return CLI_FAILED;
	}
	vcuda_trace_point("vcuda: starts the program");
	child = fork();
	if (child == 0) {
		sigprocmask(SIG_SETMASK, &r->before, NULL);
		set_environment(r);
		execv(r->file, r->program);
		error = errno;
		_exit(write(report[1], &error, sizeof(error)) < 0 ? CLI_FAILED : 127);
	}
	close(report[1]);
	if (child > 0 && read(report[0], &error, sizeof(error)) < 0)
		error = 0;
	close(report[0]);
	if (child < 0) {
		cli_message("cannot start a process: %s", strerror(errno));
		return CLI_FAILED;
	}
	if (error) {
		waitpid(child, NULL, 0);
		return cannot_run(r->program[0], error);
	}
	return wait_program(r, child, daemon);
}

/* Else a program would find the host's own driver, and run beside us unnoticed. */
static bool has_libraries(const struct cli_paths *paths)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/libcuda.so.1", paths->guest_lib);
	if (access(path, R_OK) == 0)
		return true;
	cli_message("%s: %s. That is the library that programs are to find: build or install virtio-cuda again, or "
		    "say with VCUDA_GUEST_LIB where it is.",
		    path, strerror(errno));
	return false;
}

static bool find_listener(struct run *r)
{
	const char *given = getenv("VCUDA_SOCKET");

	if (given && *given) {
		snprintf(r->socket, sizeof(r->socket), "%s", given);
		return true;
	}
	return cli_socket_find(r->socket, sizeof(r->socket));
}

static int run_with_libraries(struct run *r, const struct cli_daemon *daemon)
{
	struct cli_paths linked = *r->paths;
	char directory[PATH_MAX];
	int status;

	if (!strpbrk(linked.guest_lib, cli_has_rpath(r->file) || wants_profilers(r) ? SEPARATORS : ":;"))
		return run_program(r, daemon);
	if (!link_libraries(&linked, directory))
		return CLI_FAILED;
	r->paths = &linked;
	status = run_program(r, daemon);
	unlink_libraries(&linked, directory);
	return status;
}

static bool start_daemon(const struct run *r, struct cli_daemon *daemon, struct cli_check *check)
{
	bool good;

	if (r->check && (setenv("VCUDA_CPU_BOUNDS", "check", 1) || !cli_check_begin(check)))
		return false;
	good = cli_daemon_start(daemon, r->paths, r->backend ? r->backend : "auto", true, r->sandbox);
	if (!r->check)
		return good;
	cli_check_started(check);
	/* The program may start a daemon of its own. */
	unsetenv("VCUDA_CPU_BOUNDS");
	if (!good)
		cli_check_wait(check);
	return good;
}

int cli_run(const struct cli_paths *paths, int argc, char **argv)
{
	struct run r = {.paths = paths};
	struct cli_daemon daemon = {0};
	struct cli_check check;
	int status = parse(&r, argc, argv);

	vcuda_trace_point("vcuda: starts");
	if (status >= 0)
		return status;
	if (!cli_program_find(r.program[0], r.file, sizeof(r.file)))
		return cannot_run(r.program[0], errno);
	if (!has_libraries(paths))
		return CLI_FAILED;
	if (cli_is_musl(r.file))
		cli_message("%s is linked with musl. CUDA needs glibc: our libraries need 2.17 or later, and musl's loader "
			    "refuses them.",
			    r.file);
	sigemptyset(&r.signals);
	for (const int *s = (const int[]){SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, 0}; *s; s++)
		sigaddset(&r.signals, *s);
	sigprocmask(SIG_BLOCK, &r.signals, &r.before);
	if (r.backend || r.sandbox || !find_listener(&r)) {
		if (!start_daemon(&r, &daemon, &check))
			return CLI_FAILED;
		snprintf(r.socket, sizeof(r.socket), "%s", daemon.socket);
	} else if (!cli_is_listening(r.socket)) {
		cli_message("VCUDA_SOCKET is %s, but no vcudad listens there. Start one, or unset the variable.",
			    r.socket);
		return CLI_FAILED;
	}
	status = run_with_libraries(&r, &daemon);
	vcuda_trace_point("vcuda: the program has ended");
	if (*r.profile)
		cli_profile_end(r.profile);
	if (*daemon.directory)
		cli_daemon_stop(&daemon);
	vcuda_trace_point("vcuda: ends");
	return r.check ? cli_check_end(&check, status) : status;
}

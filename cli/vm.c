/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The status of a run that did not get as far as the program; as env(1) and docker(1) do. */
#define VM_FAILED 125
#define VM_LOG_LINES 40

enum vm_port { VM_OUT, VM_ERR, VM_REPORT };

void vm_message(const char *format, ...)
{
	va_list values;

	va_start(values, format);
	fputs("vcuda: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	va_end(values);
}

static int usage(FILE *out)
{
	fputs("usage: vcuda vm run [options] [--] PROGRAM [ARGUMENT...]\n"
	      "       vcuda vm list | kill | set ...          (see `vcuda vm list --help`)\n"
	      "\n"
	      "Runs the program in a VM that sees this machine's files, read-only under a scratch layer, and has a "
	      "CUDA device.\n"
	      "\n"
	      "  --backend auto|cuda|cpu  who computes: a real GPU, or the software GPU (auto: a real one if there is "
	      "one)\n"
	      "  --cpus N                 processors of the VM (default: this machine's, at most 4)\n"
	      "  --memory SIZE            memory of the VM, such as 4G (default 2G)\n"
	      "  --register-ram           large copies go at full speed, and each program in the VM reaches all of its "
	      "memory (see `vcudad --help`)\n"
	      "  --sandbox MODE           of the workers: strict, best-effort, log or off (see `vcudad --help`)\n"
	      "  --kernel 6.1|6.12        which of Debian's kernels (default 6.1)\n"
	      "  --share HOW              how the VM is kept from writing to this machine's files: namespace "
	      "(default), "
	      "or\n"
	      "                           unprivileged, which needs no namespace and protects less (see "
	      "doc/threat-model.md)\n"
	      "  --trace                  a line for each call of the CUDA driver, on standard error (see `vcuda run "
	      "--help`)\n"
	      "  --stats                  a table of these calls when the program exits\n"
	      "  --verbose                show what the daemon and QEMU say\n",
	      out);
	return out == stdout ? 0 : VM_FAILED;
}

static bool parse_number(const char *text, unsigned long least, unsigned long most, unsigned int *value, char **end)
{
	unsigned long number;

	errno = 0;
	number = strtoul(text, end, 10);
	if (errno || *end == text || *text == '-' || number < least || number > most)
		return false;
	*value = (unsigned int)number;
	return true;
}

/* MiB; a number without a unit is MiB too, as QEMU has it. */
static bool parse_memory(const char *text, unsigned int *mib)
{
	char *end;

	if (!parse_number(text, 1, 1 << 20, mib, &end))
		return false;
	if ((*end == 'G' || *end == 'g') && *mib <= 1024) {
		*mib *= 1024;
		end++;
	} else if (*end == 'M' || *end == 'm') {
		end++;
	}
	return !*end && *mib >= 256;
}

static bool one_of(const char *text, const char *const list[])
{
	for (; *list; list++)
		if (!strcmp(text, *list))
			return true;
	return false;
}

static bool parse_option(int option, const char *value, struct vm_options *options)
{
	static const char *const backends[] = {"auto", "cuda", "cpu", "none", NULL};
	static const char *const kernels[] = {"6.1", "6.12", NULL};
	static const char *const shares[] = {"namespace", "unprivileged", NULL};
	char *end;

	switch (option) {
	case 'b':
		options->backend = value;
		return one_of(value, backends);
	case 'c':
		return parse_number(value, 1, 255, &options->cpus, &end) && !*end;
	case 'm':
		return parse_memory(value, &options->memory_mib);
	case 'k':
		options->kernel = value;
		return one_of(value, kernels);
	case 'r':
		options->register_ram = true;
		return true;
	case 'x':
		options->sandbox = value;
		return cli_is_sandbox(value);
	case 'f':
		options->unprivileged = !strcmp(value, "unprivileged");
		return one_of(value, shares);
	case 't':
		return !setenv("VCUDA_TRACE", "1", 1);
	case 's':
		return !setenv("VCUDA_STATS", "1", 1);
	case 'v':
		options->verbose = true;
		return true;
	default:
		return false;
	}
}

/* 0, or the status to leave with, plus one. */
static int parse(int argc, char **argv, struct vm_options *options)
{
	static const struct option known[] = {
		{"backend", required_argument, NULL, 'b'},
		{"cpus", required_argument, NULL, 'c'},
		{"memory", required_argument, NULL, 'm'},
		{"kernel", required_argument, NULL, 'k'},
		{"register-ram", no_argument, NULL, 'r'},
		{"sandbox", required_argument, NULL, 'x'},
		{"trace", no_argument, NULL, 't'},
		{"stats", no_argument, NULL, 's'},
		{"verbose", no_argument, NULL, 'v'},
		{"share", required_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int option;

	*options = (struct vm_options){.backend = "auto", .kernel = "6.1", .memory_mib = 2048};
	options->cpus = processors > 4 ? 4 : processors < 1 ? 1 : (unsigned int)processors;
	optind = 1;
	argv[0] = "vcuda vm run";
	while ((option = getopt_long(argc, argv, "+h", known, NULL)) != -1) {
		if (option == 'h')
			return usage(stdout) + 1;
		if (option == '?')
			return usage(stderr) + 1;
		if (!parse_option(option, optarg, options)) {
			vm_message("'%s' is not possible here.", optarg);
			return usage(stderr) + 1;
		}
	}
	options->program = argv + optind;
	return *options->program ? 0 : usage(stderr) + 1;
}

static void make_end_tag(char end_tag[VM_END_TAG])
{
	unsigned char bytes[(VM_END_TAG - 1) / 2];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		memset(bytes, 0xa5, sizeof(bytes));
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(end_tag + 2 * i, 3, "%02x", bytes[i]);
}

static bool make_ports(struct vm *vm)
{
	int i, pair[2];

	for (i = 0; i < 3; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
			vm_message("no sockets: %s.", strerror(errno));
			return false;
		}
		vm->ports[i] = pair[0];
		vm->guest_ports[i] = pair[1];
	}
	return true;
}

static const char *directory_parent(void)
{
	const char *parent = getenv("TMPDIR");

	/* Socket paths are short. */
	return parent && *parent == '/' && strlen(parent) <= 40 ? parent : "/tmp";
}

bool vm_directory_make(char directory[VM_DIRECTORY])
{
	snprintf(directory, VM_DIRECTORY, "%s/vcuda-vm-XXXXXX", directory_parent());
	if (mkdtemp(directory))
		return true;
	directory[0] = '\0';
	return false;
}

static bool make_directory(struct vm *vm)
{
	if (vm_directory_make(vm->directory))
		return true;
	vm_message("no directory can be made in %s: %s. TMPDIR names another.", directory_parent(), strerror(errno));
	return false;
}

static void remove_directory(const struct vm *vm)
{
	static const char *const files[] = {"share.sock", "share.sock.pid", "cuda.sock", "kernel.log",
					    "vcudad.log", "virtiofsd.log",  "qemu.log"};
	char path[128];
	size_t i;

	if (!vm->directory[0])
		return;
	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", vm->directory, files[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/view", vm->directory);
	rmdir(path);
	rmdir(vm->directory);
}

/* The last lines of a log, indented. */
static void show_log(const struct vm *vm, enum vm_process process, const char *title)
{
	char path[128], *text = NULL, *line;
	size_t size = 0, lines = 0;
	FILE *log;

	vm_log_path(vm, process, path, sizeof(path));
	log = fopen(path, "r");
	if (log) {
		ssize_t length = getdelim(&text, &size, '\0', log);

		fclose(log);
		if (length > 0) {
			vm_message("%s", title);
			for (line = text + length; line > text && lines <= VM_LOG_LINES; line--)
				lines += line[-1] == '\n' && line != text + length;
			fputs(lines > VM_LOG_LINES ? line + 1 : line, stderr);
			if (text[length - 1] != '\n')
				fputc('\n', stderr);
		}
	}
	free(text);
}

static void show_logs(const struct vm *vm)
{
	show_log(vm, VM_QEMU, "QEMU said:");
	show_log(vm, VM_SHARE, "virtiofsd said:");
	show_log(vm, VM_DAEMON, "the daemon said:");
	show_log(vm, VM_PROCESSES, "the last lines of the VM's kernel log:");
}

/*
 * A process ended while the program still ran: says which, and returns the status to leave with; -1 if none did. They
 * end together: the daemon and virtiofsd leave with exit status 0 when QEMU has gone, so the first that did not is to
 * blame.
 */
static int reap(struct vm *vm)
{
	static const char *const what[VM_PROCESSES] = {"the daemon", "virtiofsd", "the VM"};
	int status, culprit = -1, i;
	char how[32] = "";

	usleep(200000);
	for (i = 0; i < VM_PROCESSES; i++) {
		if (vm->processes[i] <= 0 || waitpid(vm->processes[i], &status, WNOHANG) <= 0)
			continue;
		vm->processes[i] = 0;
		if (culprit >= 0 && i != VM_QEMU)
			continue;
		if (culprit >= 0 && strcmp(how, "exit status 0"))
			continue;
		culprit = i;
		vm_describe_status(status, how, sizeof(how));
	}
	if (culprit < 0)
		return -1;
	vm_message("%s ended before the program did (%s).", what[culprit], how);
	show_logs(vm);
	return VM_FAILED;
}

static int read_signal(struct vm *vm, int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return -1;
	return info.ssi_signo == SIGCHLD ? reap(vm) : 128 + (int)info.ssi_signo;
}

/* "exit STATUS" or "fail SENTENCE", in one line: -1 while it is not complete. */
static int read_report(struct vm *vm, char *report, size_t size)
{
	size_t length = strlen(report);
	ssize_t got = read(vm->ports[VM_REPORT], report + length, size - 1 - length);

	if (got > 0)
		report[length + (size_t)got] = '\0';
	if (!strchr(report, '\n'))
		return -1;
	if (!strncmp(report, "exit ", 5))
		return atoi(report + 5) & 0xff;
	report[strcspn(report, "\n")] = '\0';
	vm_message("%s.", !strncmp(report, "fail ", 5) ? report + 5 : "the VM sent nonsense");
	show_logs(vm);
	return VM_FAILED;
}

/* Until the program has ended and all that it wrote has been copied, or something broke. */
static int follow(struct vm *vm, int signals)
{
	struct vm_stream out = {.from = vm->ports[VM_OUT], .to = STDOUT_FILENO, .end_tag = vm->end_tag};
	struct vm_stream err = {.from = vm->ports[VM_ERR], .to = STDERR_FILENO, .end_tag = vm->end_tag};
	char report[512] = "";
	int status = -1, broken = -1;

	while (broken < 0 && (status < 0 || !out.ended || !err.ended)) {
		struct pollfd waits[] = {
			{.fd = signals, .events = POLLIN},
			{.fd = out.ended ? -1 : out.from, .events = POLLIN},
			{.fd = err.ended ? -1 : err.from, .events = POLLIN},
			{.fd = status < 0 ? vm->ports[VM_REPORT] : -1, .events = POLLIN},
		};

		if (poll(waits, 4, -1) < 0 && errno != EINTR)
			break;
		if (waits[1].revents)
			vm_stream_pump(&out);
		if (waits[2].revents)
			vm_stream_pump(&err);
		if (waits[3].revents)
			status = read_report(vm, report, sizeof(report));
		if (status == VM_FAILED && strncmp(report, "exit ", 5))
			break;
		if (waits[0].revents)
			broken = read_signal(vm, signals);
	}
	return broken >= 0 ? broken : status;
}

static int run(struct vm *vm, int signals)
{
	bool device = strcmp(vm->options->backend, "none") != 0;
	int i, status;

	if (!make_directory(vm) || !make_ports(vm))
		return VM_FAILED;
	make_end_tag(vm->end_tag);
	vm->initrd = vm_program_archive(&vm->parts, vm->options->program, vm->end_tag);
	if (vm->initrd < 0)
		return VM_FAILED;
	if ((device && !vm_start_daemon(vm)) || !vm_start_share(vm) || !vm_start_qemu(vm))
		return VM_FAILED;
	/* So that the ends that QEMU has are the only ones. */
	for (i = 0; i < 3; i++)
		close(vm->guest_ports[i]);
	status = follow(vm, signals);
	/* QEMU first: it aborts when a back end goes before it. */
	vm_stop(vm, VM_QEMU, 2000);
	vm_stop(vm, VM_DAEMON, 3000);
	if (status > 0 && status < 128 && status != VM_FAILED && device && !vm->options->verbose)
		show_log(vm, VM_DAEMON, "the daemon said:");
	return status;
}

static int vm_run(int argc, char **argv)
{
	struct vm_options options;
	struct vm vm = {.options = &options, .initrd = -1};
	int status = parse(argc, argv, &options), signals;
	sigset_t watched, before;

	if (status)
		return status - 1;
	/* Before anything is downloaded. */
	if (!vm_share_try(options.unprivileged, &vm.share)) {
		vm_message("this machine's files cannot be shared read-only: %s. %s", vm.share.refused, vm.share.mend);
		return VM_FAILED;
	}
	if (!vm_prepare(&options, &vm.parts))
		return VM_FAILED;
	sigemptyset(&watched);
	sigaddset(&watched, SIGINT);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGHUP);
	sigaddset(&watched, SIGCHLD);
	sigprocmask(SIG_BLOCK, &watched, &before);
	signal(SIGPIPE, SIG_IGN);
	signals = signalfd(-1, &watched, SFD_CLOEXEC);
	status = run(&vm, signals);
	vm_stop(&vm, VM_QEMU, 0);
	vm_stop(&vm, VM_DAEMON, 1000);
	vm_stop(&vm, VM_SHARE, 0);
	remove_directory(&vm);
	close(signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

int cli_vm(int argc, char **argv)
{
	if (argc >= 2 && !strcmp(argv[1], "run"))
		return vm_run(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "list"))
		return vm_list(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "kill"))
		return vm_kill(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "set"))
		return vm_set(argc - 1, argv + 1);
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return usage(stdout);
	return usage(stderr);
}

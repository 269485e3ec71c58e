/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
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

#define VM_LOG_LINES 40

void vm_message(const char *format, ...)
{
	va_list values;

	vm_terminal_leave();
	va_start(values, format);
	fputs("vcuda: ", stderr);
	vfprintf(stderr, format, values);
	fputc('\n', stderr);
	va_end(values);
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

	for (i = 0; i < VM_PORTS; i++) {
		if (i == VM_TERMINAL && !vm->terminal)
			continue;
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
	static const char *const files[] = {"share.sock", "share.sock.pid", "cuda.sock"};
	char path[128];
	unsigned int i;

	if (!vm->directory[0])
		return;
	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		snprintf(path, sizeof(path), "%s/%s", vm->directory, files[i]);
		unlink(path);
	}
	for (i = 0; i <= VM_PROCESSES; i++) {
		vm_log_path(vm, i, path, sizeof(path));
		unlink(path);
	}
	for (i = 0; i < vm->options->writable_count; i++) {
		snprintf(path, sizeof(path), "%s/writable-%u.sock", vm->directory, i);
		unlink(path);
		strcat(path, ".pid");
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/view", vm->directory);
	rmdir(path);
	rmdir(vm->directory);
}

/* The bytes of the daemon's line that it listens, which is no news. */
static ssize_t first_line(const char *text)
{
	static const char listens[] = "vcudad: listening on ";

	return strncmp(text, listens, sizeof(listens) - 1) ? 0 : (ssize_t)strcspn(text, "\n") + 1;
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
		if (length > 0 && length > (process == VM_DAEMON ? first_line(text) : 0)) {
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
	for (unsigned int i = 0; i < vm->options->writable_count; i++)
		show_log(vm, VM_WRITABLE + i, "virtiofsd of --rw said:");
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
	static const char *const what[VM_PROCESSES] = {
		[VM_DAEMON] = "the daemon", [VM_SHARE] = "virtiofsd", [VM_QEMU] = "the VM"};
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
	vm_message("%s ended before the program did (%s).", what[culprit] ? what[culprit] : "virtiofsd of --rw", how);
	show_logs(vm);
	return VM_FAILED;
}

/* A line for the guest's init. A guest that does not read them misses them. */
static void tell_guest(const struct vm *vm, const char *word, unsigned int first, unsigned int second)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "%s %u %u\n", word, first, second);

	if (send(vm->ports[VM_CONTROL], line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void tell_size(const struct vm *vm)
{
	unsigned short rows, columns;

	if (vm->terminal && vm_terminal_size(&rows, &columns))
		tell_guest(vm, "size", rows, columns);
}

/*
 * The program gets the signal, as it would here. While there is no program the VM ends, and with the second SIGTERM.
 */
static int read_signal(struct vm *vm, int signals)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != sizeof(info))
		return -1;
	switch (info.ssi_signo) {
	case SIGCHLD:
		return reap(vm);
	case SIGCONT:
		/* The shell that stopped this process has set the terminal to its own mode. */
		if (vm->terminal && vm->begun && vm_terminal_is_ours())
			vm_terminal_enter();
		tell_size(vm);
		return -1;
	case SIGWINCH:
		tell_size(vm);
		return -1;
	}
	/* A VM that no longer obeys, or a program that stays, must not stay for ever. */
	if (!vm->begun || (info.ssi_signo == SIGTERM && vm->terminations++))
		return 128 + (int)info.ssi_signo;
	/* A key of the terminal sends it to a group of processes. */
	tell_guest(vm, "signal", info.ssi_signo, info.ssi_code == SI_KERNEL);
	return -1;
}

static void begin(struct vm *vm)
{
	vm->begun = true;
	if (vm->terminal)
		vm_terminal_enter();
	tell_size(vm);
}

/*
 * "begun", then "exit STATUS"; or "fail SENTENCE" at any time. Each is a line. -1 while the status is not known.
 */
static int read_report(struct vm *vm, char *report, size_t size)
{
	size_t length = strlen(report);
	ssize_t got = read(vm->ports[VM_REPORT], report + length, size - 1 - length);

	if (got > 0)
		report[length + (size_t)got] = '\0';
	if (!strncmp(report, "begun\n", 6)) {
		begin(vm);
		memmove(report, report + 6, strlen(report + 6) + 1);
	}
	if (!strchr(report, '\n') && got > 0)
		return -1;
	if (!strncmp(report, "exit ", 5))
		return atoi(report + 5) & 0xff;
	report[strcspn(report, "\n")] = '\0';
	vm_message("%s.", !strncmp(report, "fail ", 5) ? report + 5 : "the VM sent nonsense");
	show_logs(vm);
	return VM_FAILED;
}

/* A process in the background is stopped when it reads its terminal. */
static bool may_read_input(const struct vm *vm)
{
	return vm->begun && (!isatty(STDIN_FILENO) || vm_terminal_is_ours());
}

/* Until the program has ended and all that it wrote has been copied, or something broke. */
static int follow(struct vm *vm, int signals)
{
	int terminal = vm->ports[VM_TERMINAL];
	struct vm_stream out = {
		.from = vm->terminal ? terminal : vm->ports[VM_OUT], .to = STDOUT_FILENO, .end_tag = vm->end_tag};
	struct vm_stream err = {
		.from = vm->ports[VM_ERR], .to = STDERR_FILENO, .end_tag = vm->end_tag, .ended = vm->terminal_err};
	struct vm_input in = {
		.from = STDIN_FILENO, .to = vm->terminal ? terminal : vm->ports[VM_IN], .to_stays_open = vm->terminal};
	char report[512] = "";
	int status = -1, broken = -1;

	while (broken < 0 && (status < 0 || !out.ended || !err.ended)) {
		short wanted = may_read_input(vm) ? vm_input_events(&in) : 0, room = vm_input_port_events(&in);
		struct pollfd waits[] = {
			{.fd = signals, .events = POLLIN},
			{.fd = out.ended ? -1 : out.from, .events = POLLIN},
			{.fd = err.ended ? -1 : err.from, .events = POLLIN},
			{.fd = status < 0 ? vm->ports[VM_REPORT] : -1, .events = POLLIN},
			{.fd = wanted ? in.from : -1, .events = wanted},
			{.fd = room ? in.to : -1, .events = room},
		};

		if (poll(waits, 6, -1) < 0 && errno != EINTR)
			break;
		if (waits[1].revents)
			vm_stream_pump(&out);
		if (waits[2].revents)
			vm_stream_pump(&err);
		if (waits[3].revents)
			status = read_report(vm, report, sizeof(report));
		if (waits[4].revents || waits[5].revents)
			vm_input_pump(&in, waits[4].revents);
		if (status == VM_FAILED && strncmp(report, "exit ", 5))
			break;
		if (waits[0].revents)
			broken = read_signal(vm, signals);
	}
	vm_terminal_leave();
	return broken >= 0 ? broken : status;
}

static int run(struct vm *vm, int signals)
{
	bool device = strcmp(vm->options->backend, "none") != 0;
	int i, status;

	if (!make_directory(vm) || !make_ports(vm))
		return VM_FAILED;
	make_end_tag(vm->end_tag);
	vm->initrd = vm_program_archive(&vm->parts, vm->options, vm->end_tag);
	if (vm->initrd < 0)
		return VM_FAILED;
	if ((device && !vm_start_daemon(vm)) || !vm_start_share(vm) || !vm_start_qemu(vm))
		return VM_FAILED;
	/* So that the ends that QEMU has are the only ones. */
	for (i = 0; i < VM_PORTS; i++)
		if (vm->guest_ports[i] >= 0)
			close(vm->guest_ports[i]);
	status = follow(vm, signals);
	/* QEMU ends first: it aborts if a back end ends before it. */
	vm_stop(vm, VM_QEMU, 2000);
	vm_stop(vm, VM_DAEMON, 3000);
	if (status > 0 && status < 128 && status != VM_FAILED && device && !vm->options->verbose)
		show_log(vm, VM_DAEMON, "the daemon said:");
	return status;
}

/* A socket in the place of a closed stream would be taken for the stream. */
static void open_streams(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static int vm_run(int argc, char **argv)
{
	struct vm_options options;
	struct vm vm = {.options = &options, .initrd = -1};
	/* The signals behind SIGCHLD are of a terminal. A process in the background may set its terminal while SIGTTOU
	 * is blocked. */
	static const int watch[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGWINCH, SIGCONT};
	int status = vm_options_parse(argc, argv, &options), signals;
	sigset_t watched, before;
	size_t i;

	if (status)
		return status - 1;
	/* Before anything is downloaded. */
	if ((!options.image || options.writable_count) && !vm_share_try(options.unprivileged, &vm.share)) {
		vm_message("this machine's files cannot be shared read-only: %s. %s", vm.share.refused, vm.share.mend);
		return VM_FAILED;
	}
	status = options.image ? 0 : vm_program_check(*options.program);
	if (status)
		return status;
	if (!vm_prepare(&options, &vm.parts))
		return VM_FAILED;
	open_streams();
	for (i = 0; i < VM_PORTS; i++)
		vm.ports[i] = vm.guest_ports[i] = -1;
	vm.terminal = vm_terminal_is_ours() && isatty(STDOUT_FILENO);
	vm.terminal_err = vm.terminal && isatty(STDERR_FILENO);
	sigemptyset(&watched);
	for (i = 0; i < sizeof(watch) / sizeof(*watch); i++)
		sigaddset(&watched, watch[i]);
	signals = signalfd(-1, &watched, SFD_CLOEXEC);
	sigaddset(&watched, SIGTTOU);
	sigprocmask(SIG_BLOCK, &watched, &before);
	signal(SIGPIPE, SIG_IGN);
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
	if (argc >= 2 && !strcmp(argv[1], "exports"))
		return vm_exports(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "free"))
		return vm_free(argc - 1, argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "init"))
		return cli_vm_init(argv + 1);
	if (argc >= 2 && !strcmp(argv[1], "xml"))
		return cli_vm_xml(argc - 1, argv + 1);
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return vm_usage(stdout);
	return vm_usage(stderr);
}

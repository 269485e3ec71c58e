/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a VM. Each has a process group of its own (an interrupt from the terminal reaches only us,
 * and we end them in order) and dies with us.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "vm-view.h"
#include "vm.h"

static const char *const names[VM_PROCESSES + 1] = {"vcudad",      "virtiofsd",   "qemu",        "virtiofsd-0",
						    "virtiofsd-1", "virtiofsd-2", "virtiofsd-3", "kernel"};

void vm_log_path(const struct vm *vm, enum vm_process process, char *path, size_t size)
{
	snprintf(path, size, "%s/%s.log", vm->directory, names[process]);
}

/* In the child: never returns to the caller's loop, so it may leave by _exit. */
static void become_child(const struct vm *vm, enum vm_process process, pid_t parent)
{
	char path[128];
	sigset_t none;
	int log, null;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	null = open("/dev/null", O_RDWR);
	dup2(null, STDIN_FILENO);
	vm_log_path(vm, process, path, sizeof(path));
	log = vm->options->verbose ? dup(STDERR_FILENO) : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
}

static pid_t start(struct vm *vm, enum vm_process process, bool (*setup)(const struct vm *, enum vm_process),
		   char *const argv[])
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		vm_message("%s cannot be started: %s.", names[process], strerror(errno));
	if (child > 0)
		vm->processes[process] = child;
	if (child)
		return child;
	become_child(vm, process, parent);
	if (setup && !setup(vm, process))
		_exit(127);
	execv(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

void vm_stop(struct vm *vm, enum vm_process process, unsigned int grace_ms)
{
	pid_t child = vm->processes[process];
	unsigned int waited = 0;

	if (child <= 0)
		return;
	kill(child, grace_ms ? SIGTERM : SIGKILL);
	while (!waitpid(child, NULL, WNOHANG) && waited < grace_ms) {
		usleep(5000);
		waited += 5;
	}
	if (!kill(child, SIGKILL))
		waitpid(child, NULL, 0);
	vm->processes[process] = 0;
}

void vm_describe_status(int status, char *text, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(text, size, "signal %d", WTERMSIG(status));
	else
		snprintf(text, size, "exit status %d", WEXITSTATUS(status));
}

static void show_log(const struct vm *vm, enum vm_process process)
{
	char path[128], line[512];
	FILE *log;

	vm_log_path(vm, process, path, sizeof(path));
	log = fopen(path, "r");
	while (log && fgets(line, sizeof(line), log))
		fprintf(stderr, "  %s", line);
	if (log)
		fclose(log);
}

/* Until it listens. */
static bool await_socket(struct vm *vm, enum vm_process process, const char *socket_name)
{
	char path[128];
	unsigned int waited;
	char how[32] = "it does not listen";
	int status;

	snprintf(path, sizeof(path), "%s/%s", vm->directory, socket_name);
	for (waited = 0; waited < 10000; waited += 5) {
		struct stat file;

		if (!stat(path, &file) && S_ISSOCK(file.st_mode))
			return true;
		if (waitpid(vm->processes[process], &status, WNOHANG) > 0) {
			vm->processes[process] = 0;
			vm_describe_status(status, how, sizeof(how));
			break;
		}
		usleep(5000);
	}
	vm_message("%s did not start: %s.", names[process], how);
	show_log(vm, process);
	return false;
}

/* In the child: the guest's library obeys the variable. */
static bool leave_devices_to_guest(const struct vm *vm, enum vm_process process)
{
	return !unsetenv("CUDA_VISIBLE_DEVICES");
}

/* The program's, with our process id: for `vcuda vm list`. */
static void choose_name(const struct vm *vm, char name[VM_NAME])
{
	const char *program = vm->options->program[0], *slash = strrchr(program, '/');
	char *c;

	snprintf(name, VM_NAME, "%.32s-%d", slash ? slash + 1 : program, (int)getpid());
	for (c = name; *c; c++)
		if (!strchr("-_.", *c) && !(*c >= '0' && *c <= '9') && !((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z'))
			*c = '_';
}

bool vm_start_daemon(struct vm *vm)
{
	char path[128], device[16], name[VM_NAME];
	/* The worker gets ready while the VM boots. */
	char *argv[] = {
		vm->parts.daemon,
		"--vhost-socket",
		path,
		"--name",
		name,
		"--backend",
		(char *)vm->options->backend,
		"--warm",
		"1",
		"--warm-once",
		"--warm-device",
		device,
		"--cache",
		"run", /* the name would differ each time, as the socket's does */
		NULL,
		NULL,
		NULL,
		NULL,
	};
	size_t count = 14;

	if (vm->options->register_ram)
		argv[count++] = "--register-ram";
	if (vm->options->sandbox) {
		argv[count++] = "--sandbox";
		argv[count++] = (char *)vm->options->sandbox;
	}
	cli_warm_device(device, sizeof(device));
	choose_name(vm, name);
	snprintf(path, sizeof(path), "%s/cuda.sock", vm->directory);
	return start(vm, VM_DAEMON, leave_devices_to_guest, argv) > 0 && await_socket(vm, VM_DAEMON, "cuda.sock");
}

static const char *writable(const struct vm *vm, enum vm_process process)
{
	return process == VM_SHARE ? NULL : vm->options->writable[process - VM_WRITABLE];
}

/* In the child. vm_share_try() has done the same before, so a refusal here means that something has changed. */
static bool enter_view(const struct vm *vm, enum vm_process process)
{
	struct view_attempt attempt;
	char refused[256];

	/* A directory that the caller has left open is in a mount that stays writable. */
	syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (view_enter(vm->directory, writable(vm, process), vm->options->unprivileged, &attempt))
		return true;
	refusal_describe(&attempt, refused, sizeof(refused));
	fprintf(stderr, "%s.\n", refused);
	return false;
}

static bool start_virtiofsd(struct vm *vm, enum vm_process process, const char *socket_name)
{
	const char *folder = writable(vm, process);
	char socket_path[128], shared[VM_PATH + 128];
	char *argv[] = {
		vm->parts.virtiofsd, "--socket-path", socket_path, "--shared-dir", shared, "--no-announce-submounts",
		"--cache", "auto", "--log-level", "error", "--sandbox", (char *)vm->share.sandbox,
		/* A device node in the folder would be this machine's device, for any process of this machine. */
		folder ? "--modcaps=-mknod" : "--readonly", NULL};

	snprintf(socket_path, sizeof(socket_path), "%s/%s", vm->directory, socket_name);
	if (vm->options->unprivileged)
		snprintf(shared, sizeof(shared), "%s", folder ? folder : "/");
	else
		snprintf(shared, sizeof(shared), "%s/view%s", vm->directory, folder ? folder : "");
	return start(vm, process, enter_view, argv) > 0 && await_socket(vm, process, socket_name);
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

bool vm_start_share(struct vm *vm)
{
	char name[32], own[PATH_MAX];

	snprintf(own, sizeof(own), "%s/view", vm->directory);
	mkdir(own, 0700);
	if (!realpath(vm->directory, own) || (!vm->options->image && !start_virtiofsd(vm, VM_SHARE, "share.sock")))
		return false;
	for (unsigned int i = 0; i < vm->options->writable_count; i++) {
		/* The VM would have its own sockets and logs to write to. */
		if (is_below(own, vm->options->writable[i])) {
			vm_message("--rw: '%s' has the folder of this command's own files in it. TMPDIR names another.",
				   vm->options->writable[i]);
			return false;
		}
		snprintf(name, sizeof(name), "writable-%u.sock", i);
		if (!start_virtiofsd(vm, VM_WRITABLE + i, name))
			return false;
	}
	return true;
}

bool vm_uses_kvm(void)
{
	char line[8192];
	FILE *info = fopen("/proc/cpuinfo", "r");
	bool can = false;
	int kvm;

	while (info && !can && fgets(line, sizeof(line), info))
		can = !strncmp(line, "flags", 5) && (strstr(line, " vmx") || strstr(line, " svm"));
	if (info)
		fclose(info);
	kvm = can ? open("/dev/kvm", O_RDWR | O_CLOEXEC) : -1;
	if (kvm >= 0)
		close(kvm);
	return kvm >= 0;
}

static bool keep_descriptors(const struct vm *vm, enum vm_process process)
{
	int i;

	for (i = 0; i < VM_PORTS; i++)
		if (vm->guest_ports[i] >= 0)
			fcntl(vm->guest_ports[i], F_SETFD, 0);
	fcntl(vm->initrd, F_SETFD, 0);
	return true;
}

struct arguments {
	char *list[96];
	int count;
};

static void add(struct arguments *arguments, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	if (vasprintf(&arguments->list[arguments->count], format, values) < 0)
		abort();
	arguments->count++;
	va_end(values);
}

static void add_ports(const struct vm *vm, struct arguments *arguments)
{
	static const char *const port_names[VM_PORTS] = {"out", "err", "report", "in", "control", "terminal"};
	int i;

	add(arguments, "-device");
	add(arguments, "virtio-serial-pci,max_ports=8");
	for (i = 0; i < VM_PORTS; i++) {
		if (vm->guest_ports[i] < 0)
			continue;
		add(arguments, "-chardev");
		add(arguments, "socket,id=%s,fd=%d", port_names[i], vm->guest_ports[i]);
		add(arguments, "-device");
		add(arguments, "%s,chardev=%s,name=vcuda.%s", i == VM_TERMINAL ? "virtconsole" : "virtserialport",
		    port_names[i], port_names[i]);
	}
}

/* With a snapshot QEMU opens the file for reading only, and keeps what the VM writes, such as a journal's recovery. */
static void add_image(const struct vm_options *options, struct arguments *arguments)
{
	char path[2 * PATH_MAX], *to = path;

	/* A comma ends the value, two are one. */
	for (const char *from = options->image; *from; from++) {
		*to++ = *from;
		if (*from == ',')
			*to++ = ',';
	}
	*to = '\0';
	add(arguments, "-drive");
	add(arguments, "if=none,id=image,snapshot=on,format=%s,file=%s", options->image_format, path);
	add(arguments, "-device");
	add(arguments, "virtio-blk-pci,drive=image");
}

static void add_share(const struct vm *vm, struct arguments *arguments)
{
	add(arguments, "-chardev");
	add(arguments, "socket,id=share,path=%s/share.sock", vm->directory);
	add(arguments, "-device");
	add(arguments, "vhost-user-fs-pci,chardev=share,tag=vcuda-root,queue-size=1024");
}

static void add_vhost(const struct vm *vm, struct arguments *arguments, bool device)
{
	if (vm->options->image)
		add_image(vm->options, arguments);
	else
		add_share(vm, arguments);
	for (unsigned int i = 0; i < vm->options->writable_count; i++) {
		add(arguments, "-chardev");
		add(arguments, "socket,id=writable-%u,path=%s/writable-%u.sock", i, vm->directory, i);
		add(arguments, "-device");
		add(arguments, "vhost-user-fs-pci,chardev=writable-%u,tag=vcuda-writable-%u", i, i);
	}
	if (!device)
		return;
	add(arguments, "-chardev");
	add(arguments, "socket,id=cuda,path=%s/cuda.sock", vm->directory);
	add(arguments, "-device");
	add(arguments, "vhost-user-test-device-pci,virtio-id=38,num_vqs=3,vq_size=128,config_size=64,chardev=cuda");
}

/* RAM is a shared memory file, so that the daemon, the workers and virtiofsd can map it. */
static void add_machine(const struct vm *vm, struct arguments *arguments, bool device)
{
	const struct vm_options *options = vm->options;
	bool kvm = vm_uses_kvm();
	unsigned short rows = 0, columns = 0;
	char terminal[64] = "";

	/* A terminal that does not tell its size has none for the program, too. */
	vm_terminal_size(&rows, &columns);
	if (vm->terminal)
		snprintf(terminal, sizeof(terminal), " vcuda.terminal=%u,%u%s", rows, columns,
			 vm->terminal_err ? " vcuda.terminal_err=1" : "");

	add(arguments, "-nodefaults");
	add(arguments, "-no-user-config");
	add(arguments, "-no-reboot");
	add(arguments, "-display");
	add(arguments, "none");
	add(arguments, "-M");
	add(arguments, "q35,memory-backend=ram");
	add(arguments, "-accel");
	add(arguments, kvm ? "kvm" : "tcg,thread=multi");
	add(arguments, "-cpu");
	add(arguments, kvm ? "host" : "max");
	add(arguments, "-smp");
	add(arguments, "%u", options->cpus);
	add(arguments, "-m");
	add(arguments, "%u", options->memory_mib);
	add(arguments, "-object");
	add(arguments, "memory-backend-memfd,id=ram,size=%uM,share=on", options->memory_mib);
	add(arguments, "-serial");
	add(arguments, "file:%s/kernel.log", vm->directory);
	add(arguments, "-kernel");
	add(arguments, "%s", vm->parts.kernel);
	add(arguments, "-initrd");
	add(arguments, "/proc/self/fd/%d", vm->initrd);
	add(arguments, "-append");
	add(arguments, "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check random.trust_cpu=on%s%s%s",
	    device ? " vcuda.device=1" : "", options->image ? " vcuda.image=1" : "", terminal);
}

bool vm_start_qemu(struct vm *vm)
{
	struct arguments arguments = {.count = 0};
	bool device = strcmp(vm->options->backend, "none") != 0, started;

	add(&arguments, "%s", vm->parts.qemu);
	add_machine(vm, &arguments, device);
	add_ports(vm, &arguments);
	add_vhost(vm, &arguments, device);
	arguments.list[arguments.count] = NULL;
	started = start(vm, VM_QEMU, keep_descriptors, arguments.list) > 0;
	while (arguments.count)
		free(arguments.list[--arguments.count]);
	return started;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox-probe [--deliver] WORKER DAEMON OTHER FOLDER LOG [PROBE]: what code in a worker could do, or in a process that
 * compiles for one. Stops its first thread with ptrace(), has it make one system call after the other, and lets it go on
 * with its work. Prints "PROBE RESULT" a line; the result is what the call returned, or SIGSYS. WORKER, DAEMON, OTHER:
 * process ids of the worker, its vcudad, and another worker; FOLDER: where only the test has files, and a socket; LOG:
 * vcudad's. With PROBE only that one; with --deliver the worker gets its SIGSYS.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* A result that no call gives: kernel results are from -4095 on. */
#define REFUSED (-100000)

#define PAGE 4096ul

static struct {
	pid_t worker, daemon, other;
	const char *folder, *log;
	bool deliver;
	struct user_regs_struct saved;
	uint64_t instruction; /* address of a syscall instruction */
	uint64_t page;        /* of the worker's memory, for arguments */
	uint64_t used;        /* number of used bytes of `page` */
} p;

static void fail(const char *what)
{
	fprintf(stderr, "sandbox-probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the worker's thread ---- */

static int wait_for_stop(void)
{
	int status;

	if (waitpid(p.worker, &status, __WALL) != p.worker)
		fail("waitpid");
	if (!WIFSTOPPED(status)) {
		printf("ended\n");
		exit(0);
	}
	return status;
}

/* A process that it started: it has done nothing yet. */
static void kill_child(void)
{
	unsigned long child = 0;

	if (ptrace(PTRACE_GETEVENTMSG, p.worker, NULL, &child))
		fail("PTRACE_GETEVENTMSG");
	kill((pid_t)child, SIGKILL);
	waitpid((pid_t)child, NULL, __WALL);
}

static long step(struct user_regs_struct *regs)
{
	bool refused = false;

	if (ptrace(PTRACE_SETREGS, p.worker, NULL, regs))
		fail("PTRACE_SETREGS");
	for (;;) {
		int status;

		if (ptrace(PTRACE_SINGLESTEP, p.worker, NULL, 0))
			fail("PTRACE_SINGLESTEP");
		status = wait_for_stop();
		if (WSTOPSIG(status) == SIGSYS && p.deliver) {
			ptrace(PTRACE_CONT, p.worker, NULL, SIGSYS);
			wait_for_stop();
			ptrace(PTRACE_DETACH, p.worker, NULL, 0);
			exit(0);
		}
		/* The stop of the step itself follows. */
		refused |= WSTOPSIG(status) == SIGSYS;
		if (status >> 16 == PTRACE_EVENT_FORK || status >> 16 == PTRACE_EVENT_CLONE)
			kill_child();
		else if (WSTOPSIG(status) == SIGTRAP)
			break;
	}
	if (ptrace(PTRACE_GETREGS, p.worker, NULL, regs))
		fail("PTRACE_GETREGS");
	return refused ? REFUSED : (long)regs->rax;
}

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	struct user_regs_struct regs = p.saved;

	regs.orig_rax = (unsigned long long)-1;
	regs.rip = p.instruction;
	regs.rax = (unsigned long long)number;
	regs.rdi = (unsigned long long)a;
	regs.rsi = (unsigned long long)b;
	regs.rdx = (unsigned long long)c;
	regs.r10 = (unsigned long long)d;
	regs.r8 = (unsigned long long)e;
	regs.r9 = (unsigned long long)f;
	return step(&regs);
}

/* Copies an argument to the worker. */
static long give(const void *data, size_t bytes)
{
	uint64_t to = p.page + p.used;

	if (process_vm_writev(p.worker, &(struct iovec){(void *)(uintptr_t)data, bytes}, 1,
			      &(struct iovec){(void *)to, bytes}, 1, 0) != (ssize_t)bytes)
		fail("process_vm_writev");
	p.used += (bytes + 15) & ~15ul;
	return (long)to;
}

static void take(void *data, long from, size_t bytes)
{
	if (process_vm_readv(p.worker, &(struct iovec){data, bytes}, 1, &(struct iovec){(void *)from, bytes}, 1, 0) !=
	    (ssize_t)bytes)
		fail("process_vm_readv");
}

static long text(const char *folder, const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s%s", folder, name);
	return give(path, strlen(path) + 1);
}

static void find_instruction(void)
{
	static uint8_t code[1 << 20];
	unsigned long start, end;
	char path[64], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", p.worker);
	maps = fopen(path, "r");
	if (!maps)
		fail(path);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx r-xp", &start, &end) != 2 || !strstr(line, "r-xp") ||
		    !strstr(line, "/libc.so"))
			continue;
		if (end - start > sizeof(code))
			end = start + sizeof(code);
		if (process_vm_readv(p.worker, &(struct iovec){code, end - start}, 1,
				     &(struct iovec){(void *)start, end - start}, 1, 0) < 0)
			fail("process_vm_readv");
		for (size_t i = 0; i + 1 < end - start; i++)
			if (code[i] == 0x0f && code[i + 1] == 0x05)
				p.instruction = start + i;
		break;
	}
	fclose(maps);
	if (!p.instruction)
		fail("no system call in the worker's C library");
}

static void take_over(void)
{
	long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;

	if (ptrace(PTRACE_SEIZE, p.worker, NULL, options) || ptrace(PTRACE_INTERRUPT, p.worker, NULL, 0))
		fail("ptrace");
	wait_for_stop();
	if (ptrace(PTRACE_GETREGS, p.worker, NULL, &p.saved))
		fail("PTRACE_GETREGS");
	find_instruction();
	p.page = (uint64_t)call(SYS_mmap, 0, (long)PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.page > -PAGE)
		fail("the worker has no memory");
}

static void let_go(void)
{
	if (ptrace(PTRACE_SETOPTIONS, p.worker, NULL, 0) || ptrace(PTRACE_SETREGS, p.worker, NULL, &p.saved) ||
	    ptrace(PTRACE_DETACH, p.worker, NULL, 0))
		fail("letting the worker go on");
}

/* ---- the probes ---- */

static long closed(long fd)
{
	if (fd >= 0)
		call(SYS_close, fd, 0, 0, 0, 0, 0);
	return fd < 0 ? fd : 0;
}

static long opened(long path, int flags)
{
	return closed(call(SYS_openat, AT_FDCWD, path, flags, 0600, 0, 0));
}

static long reads_file(void)
{
	return opened(text(p.folder, "/secret"), O_RDONLY);
}

static long writes_file(void)
{
	return opened(text(p.folder, "/new"), O_WRONLY | O_CREAT);
}

static long opens_daemons_log(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/2", p.daemon);
	return opened(text(path, ""), O_WRONLY);
}

/* To the size that it has. */
static long truncates_log(void)
{
	long fd = call(SYS_openat, AT_FDCWD, text(p.log, ""), O_WRONLY, 0, 0, 0);
	long size = fd < 0 ? 0 : call(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0);
	long result = fd < 0 ? fd : call(SYS_ftruncate, fd, size, 0, 0, 0, 0);

	closed(fd);
	return result;
}

static long makes_tcp_socket(void)
{
	return closed(call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0));
}

static long makes_netlink_socket(void)
{
	return closed(call(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, 0, 0, 0));
}

static long signals_daemon(void)
{
	return call(SYS_kill, p.daemon, 0, 0, 0, 0, 0);
}

/* When something comes to a pipe of its own. */
static long owns_daemon(void)
{
	long ends = give(&(int[2]){-1, -1}, 2 * sizeof(int)), result;
	int fds[2];

	call(SYS_pipe2, ends, O_CLOEXEC, 0, 0, 0, 0);
	take(fds, ends, sizeof(fds));
	result = call(SYS_fcntl, fds[0], F_SETOWN, p.daemon, 0, 0, 0);
	closed(fds[0]);
	closed(fds[1]);
	return result;
}

static long traces_daemon(void)
{
	return call(SYS_ptrace, PTRACE_SEIZE, p.daemon, 0, 0, 0, 0);
}

static long forks(void)
{
	long result = call(SYS_fork, 0, 0, 0, 0, 0, 0);

	return result > 0 ? 0 : result;
}

/* As the C library's fork(). */
/* As the C library's fork(). */
static long clones_process(void)
{
	long result = call(SYS_clone, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, 0, 0, 0, 0, 0);

	return result > 0 ? 0 : result;
}

static long clones(void)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD};
	long result = call(SYS_clone3, give(&arguments, sizeof(arguments)), sizeof(arguments), 0, 0, 0, 0);

	return result > 0 ? 0 : result;
}

static long leaves_user_namespace(void)
{
	return call(SYS_unshare, CLONE_NEWUSER, 0, 0, 0, 0, 0);
}

static long makes_io_uring(void)
{
	struct io_uring_params parameters = {0};

	return closed(call(SYS_io_uring_setup, 4, give(&parameters, sizeof(parameters)), 0, 0, 0, 0));
}

static long makes_bpf_map(void)
{
	union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	return closed(
		call(SYS_bpf, BPF_MAP_CREATE, give(&attributes, sizeof(attributes)), sizeof(attributes), 0, 0, 0));
}

static long opens_perf_event(void)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attributes), .config = PERF_COUNT_SW_CPU_CLOCK};

	return closed(call(SYS_perf_event_open, give(&attributes, sizeof(attributes)), 0, -1, -1, 0, 0));
}

static long makes_secret_memory(void)
{
	return closed(call(SYS_memfd_secret, 0, 0, 0, 0, 0, 0));
}

static long asks_for_keyring(void)
{
	long result = call(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1, 0, 0, 0);

	return result > 0 ? 0 : result;
}

/* A limit that harms no process. */
static long limits_daemon(void)
{
	const struct rlimit none = {0, 0};

	return call(SYS_prlimit64, p.daemon, RLIMIT_CORE, give(&none, sizeof(none)), 0, 0, 0);
}

static long mounts(void)
{
	long type = text("tmpfs", ""), folder = text(p.folder, "/mount");
	long result = call(SYS_mount, type, folder, type, 0, 0, 0);

	if (!result)
		call(SYS_umount2, folder, MNT_DETACH, 0, 0, 0, 0);
	return result;
}

static long loads_module(void)
{
	return call(SYS_init_module, (long)p.page, 16, text("", ""), 0, 0, 0);
}

static long reads_other_worker(void)
{
	struct iovec to = {(void *)(p.page + PAGE - 8), 8}, from = {(void *)p.instruction, 0};

	return call(SYS_process_vm_readv, p.other, give(&to, sizeof(to)), 1, give(&from, sizeof(from)), 1, 0);
}

static long own_pages(void)
{
	return call(SYS_mmap, 0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static long moves_mapping(void)
{
	long from = own_pages();
	long to = call(SYS_mremap, from, PAGE, 4 * PAGE, MREMAP_MAYMOVE, 0, 0);

	return to < 0 ? to : 0;
}

static long remaps_file_pages(void)
{
	return call(SYS_remap_file_pages, own_pages(), PAGE, 0, 1, 0, 0);
}

static long runs_program(void)
{
	return call(SYS_execve, text(p.folder, "/none"), 0, 0, 0, 0, 0);
}

/* To a socket of another program in the file system. */
static long connects(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	long fd = call(SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0, 0), result;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", p.folder);
	result = call(SYS_connect, fd, give(&address, sizeof(address)), sizeof(address), 0, 0, 0);
	closed(fd);
	return result;
}

static long looks_at_file(void)
{
	return call(SYS_stat, text(p.folder, "/secret"), (long)(p.page + PAGE / 2), 0, 0, 0, 0);
}

static long looks_at_daemon(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", p.daemon);
	return call(SYS_stat, text(path, ""), (long)(p.page + PAGE / 2), 0, 0, 0, 0);
}

static const struct {
	const char *name;
	long (*run)(void);
} probes[] = {
	{"open-read", reads_file},
	{"open-write", writes_file},
	{"open-daemon-log", opens_daemons_log},
	{"ftruncate-log", truncates_log},
	{"socket-tcp", makes_tcp_socket},
	{"socket-netlink", makes_netlink_socket},
	{"kill-daemon", signals_daemon},
	{"f_setown-daemon", owns_daemon},
	{"ptrace-daemon", traces_daemon},
	{"fork", forks},
	{"clone", clones_process},
	{"clone3", clones},
	{"unshare-user", leaves_user_namespace},
	{"io_uring", makes_io_uring},
	{"bpf", makes_bpf_map},
	{"perf", opens_perf_event},
	{"memfd_secret", makes_secret_memory},
	{"keyctl", asks_for_keyring},
	{"prlimit-daemon", limits_daemon},
	{"mount", mounts},
	{"init_module", loads_module},
	{"process_vm_readv", reads_other_worker},
	{"mremap", moves_mapping},
	{"remap_file_pages", remaps_file_pages},
	{"execve", runs_program},
	{"connect", connects},
	{"stat", looks_at_file},
	{"stat-daemon", looks_at_daemon},
};

static void run_probes(const char *only)
{
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		long result;

		if (only && strcmp(only, probes[i].name))
			continue;
		p.used = 0;
		result = probes[i].run();
		if (result == REFUSED)
			printf("%s SIGSYS\n", probes[i].name);
		else
			printf("%s %ld\n", probes[i].name, result);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--deliver")) {
		p.deliver = true;
		argv++;
		argc--;
	}
	if (argc < 6)
		return 2;
	p.worker = atoi(argv[1]);
	p.daemon = atoi(argv[2]);
	p.other = atoi(argv[3]);
	p.folder = argv[4];
	p.log = argv[5];
	take_over();
	run_probes(argc > 6 ? argv[6] : NULL);
	let_go();
	return 0;
}

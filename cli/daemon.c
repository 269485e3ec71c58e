/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon that programs of this machine connect to: one that listens already, or one of our own. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 30000
#define STOP_MS 5000

/*
 * Asks without disturbing: the daemon's socket keeps message bounds, and a connection of another type is refused as
 * such where a process listens, while a socket file without a listener refuses everything.
 */
bool cli_is_listening(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool listening = false;

	if (fd >= 0 && strlen(path) < sizeof(address.sun_path)) {
		strcpy(address.sun_path, path);
		listening = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno == EPROTOTYPE;
	}
	if (fd >= 0)
		close(fd);
	return listening;
}

bool cli_is_sandbox(const char *mode)
{
	return !strcmp(mode, "strict") || !strcmp(mode, "best-effort") || !strcmp(mode, "log") || !strcmp(mode, "off");
}

bool cli_socket_find(char *path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (runtime && *runtime) {
		snprintf(path, size, "%s/vcuda/socket", runtime);
		if (cli_is_listening(path))
			return true;
	}
	snprintf(path, size, "/run/vcuda/socket");
	return cli_is_listening(path);
}

static bool make_directory(struct cli_daemon *d)
{
	const char *const parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

	for (size_t i = 0; i < sizeof(parents) / sizeof(*parents); i++) {
		/* The socket's name must fit sockaddr_un. */
		if (!parents[i] || !*parents[i] || strlen(parents[i]) > 80)
			continue;
		snprintf(d->directory, sizeof(d->directory), "%s/vcuda-XXXXXX", parents[i]);
		if (mkdtemp(d->directory))
			return true;
	}
	cli_message("cannot make a directory for the daemon's socket in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: %s",
		    strerror(errno));
	return false;
}

void cli_warm_device(char *text, size_t size)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	size_t digits = visible ? strspn(visible, "0123456789") : 0;
	bool is_number = digits && digits < 3 && (!visible[digits] || visible[digits] == ',');

	snprintf(text, size, "%.*s", visible ? (int)digits : 1, visible ? visible : "0");
	if (visible && (!is_number || atoi(text) > 63))
		snprintf(text, size, "none");
}

/* Whether a program of ours would reach a GPU of this machine that another host lends. */
static bool is_guest(void)
{
	const char *given = getenv("VCUDA_SOCKET");

	return (given && *given) || access("/dev/vcuda", R_OK | W_OK) == 0;
}

/*
 * In the child. The variables that lead to our own libraries reach the worker only in a guest that lends its device on:
 * there the worker takes our libcuda.so.1 for the driver.
 */
static void exec_daemon(const struct cli_daemon *d, const struct cli_paths *paths, const char *backend, bool computes,
			const char *sandbox, int ready, pid_t parent)
{
	const char *libraries = getenv("LD_LIBRARY_PATH");
	char number[16], device[16], name[32];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid(); /* the terminal's signals are the program's */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	if (libraries && strstr(libraries, paths->guest_lib) && (strcmp(backend, "cuda") || !is_guest()))
		unsetenv("LD_LIBRARY_PATH");
	unsetenv("LD_PRELOAD");
	strcpy(device, "none");
	if (computes)
		cli_warm_device(device, sizeof(device));
	/* The program's library chooses; a driver that does so too leaves it to choose among what is left. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	snprintf(number, sizeof(number), "%d", ready);
	snprintf(name, sizeof(name), "run-%d", (int)parent);
	/* The worker gets ready while the program starts. */
	execl(paths->daemon, "vcudad", "--socket", d->socket, "--name", name, "--backend", backend, "--warm", "1",
	      "--warm-once", "--warm-device", device, "--ready-fd", number, sandbox ? "--sandbox" : NULL, sandbox, NULL);
	cli_message("cannot start %s: %s. VCUDA_DAEMON names the daemon.", paths->daemon, strerror(errno));
	_exit(127);
}

/* True once the daemon has said so; false if it ended, with a message of its own, or says nothing. */
static bool wait_ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char answer[16];
	int n;

	while ((n = poll(&p, 1, READY_MS)) < 0 && errno == EINTR)
		continue;
	if (n == 0)
		cli_message("the daemon does not get ready");
	return n > 0 && read(fd, answer, sizeof(answer)) > 0;
}

bool cli_daemon_start(struct cli_daemon *d, const struct cli_paths *paths, const char *backend, bool computes,
		      const char *sandbox)
{
	pid_t self = getpid();
	int ready[2];
	bool good;

	if (!make_directory(d))
		return false;
	snprintf(d->socket, sizeof(d->socket), "%s/socket", d->directory);
	if (pipe(ready)) {
		cli_message("cannot make a pipe: %s", strerror(errno));
		rmdir(d->directory);
		return false;
	}
	d->pid = fork();
	if (d->pid == 0) {
		close(ready[0]);
		exec_daemon(d, paths, backend, computes, sandbox, ready[1], self);
	}
	close(ready[1]);
	if (d->pid < 0)
		cli_message("cannot start a process: %s", strerror(errno));
	good = d->pid > 0 && wait_ready(ready[0]);
	close(ready[0]);
	if (!good)
		cli_daemon_stop(d);
	return good;
}

static bool has_ended(pid_t pid)
{
	pid_t got = waitpid(pid, NULL, WNOHANG);

	return got == pid || (got < 0 && errno == ECHILD);
}

/* Waits at most `ms` for the daemon's end, which comes when its workers have ended and what they had is free. */
static bool reap(pid_t pid, int ms)
{
	struct pollfd p = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
	/* Linux before 5.3 has no such descriptors, and poll() ignores -1. */
	int slice = p.fd < 0 ? 10 : ms, waited = 0;
	bool ended;

	while (!(ended = has_ended(pid)) && waited < ms)
		if (poll(&p, 1, slice) >= 0 || errno != EINTR)
			waited += slice;
	if (p.fd >= 0)
		close(p.fd);
	return ended;
}

void cli_daemon_stop(struct cli_daemon *d)
{
	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		if (!reap(d->pid, STOP_MS)) {
			kill(d->pid, SIGKILL);
			reap(d->pid, STOP_MS);
		}
	}
	unlink(d->socket);
	rmdir(d->directory);
	d->pid = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the scripts for what a VM needs. Each prints one path, quickly when it is there already, or says what is
 * missing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm.h"

#define JOIN(path, ...) ((size_t)snprintf(path, sizeof(path), __VA_ARGS__) < sizeof(path))

/* Runs the script; its one line goes to `answer`. Its messages go to standard error. */
static bool ask(const char *scripts, const char *name, const char *first, const char *second, char answer[VM_PATH])
{
	char path[VM_PATH + 64];
	int pipe_fds[2], status = -1;
	ssize_t got;
	size_t length = 0;
	pid_t child;

	if (!JOIN(path, "%s/%s", scripts, name) || access(path, X_OK)) {
		vm_message("%s is missing. VCUDA_SCRIPTS names the directory of scripts.", path);
		return false;
	}
	if (pipe(pipe_fds)) {
		vm_message("%s", strerror(errno));
		return false;
	}
	child = fork();
	if (!child) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		execl(path, path, first, second, NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	while ((got = read(pipe_fds[0], answer + length, VM_PATH - 1 - length)) > 0)
		length += (size_t)got;
	close(pipe_fds[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	answer[length] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	return child > 0 && !status && *answer;
}

static bool prepare_daemon(struct vm_parts *parts)
{
	const char *daemon = getenv("VCUDA_DAEMON");

	if (!daemon || access(daemon, X_OK)) {
		vm_message("%s: cannot be run. VCUDA_DAEMON names the daemon.", daemon ? daemon : "vcudad");
		return false;
	}
	return JOIN(parts->daemon, "%s", daemon);
}

bool vm_prepare(const struct vm_options *options, struct vm_parts *parts)
{
	const char *scripts = getenv("VCUDA_SCRIPTS"); /* main() has set it */
	char directory[VM_PATH], kernel[VM_PATH], module[VM_PATH] = "";
	const char *given = getenv("VCUDA_MODULE");
	bool device = strcmp(options->backend, "none") != 0;

	if (device && !prepare_daemon(parts))
		return false;
	if (!ask(scripts, "get-qemu.sh", NULL, NULL, directory))
		return false;
	if (!JOIN(parts->qemu, "%s/qemu-system-x86_64", directory) ||
	    !JOIN(parts->virtiofsd, "%s/virtiofsd", directory))
		return false;
	if (!ask(scripts, "get-kernel.sh", options->kernel, NULL, kernel) || !JOIN(parts->kernel, "%s/kernel", kernel))
		return false;
	if (device && given && *given) {
		if (!JOIN(module, "%s", given))
			return false;
	} else if (device && !ask(scripts, "build-module.sh", options->kernel, NULL, module)) {
		return false;
	}
	return ask(scripts, "build-initramfs.sh", kernel, *module ? module : NULL, parts->initramfs);
}

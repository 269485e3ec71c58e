/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/sandbox.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/sandbox-layers.h"
#include "mapper/mapper.h"
#include "worker/user.h"
#include "worker/view.h"

#define MODPROBE "/usr/bin/nvidia-modprobe"
#define MAX_GPUS 64

static int missing(const struct daemon_options *options, const char *layer)
{
	bool strict = !strcmp(options->sandbox, "strict");

	vcuda_log("--sandbox %s: %s%s", options->sandbox, layer,
		  strict ? "" : "; workers go without, as doc/threat-model.md says");
	return strict ? -EOPNOTSUPP : 0;
}

static int check_layers(const struct daemon_options *options)
{
	int err = 0;

	if (!vcuda_landlock_abi())
		err = missing(options, "the kernel has no Landlock (Linux 5.13), or it is switched off");
	if (!err && !vcuda_has_seccomp())
		err = missing(options, "the kernel has no seccomp filters");
	return err;
}

static int choose_mapper(struct daemon_options *options)
{
	options->mapper = options->vhost_socket && !options->register_ram;
	if (!options->mapper || daemon_mapper_is_possible())
		return 0;
	options->mapper = false;
	return missing(options, "the kernel has no seccomp user notifications (Linux 5.9) to limit the VM's memory by");
}

static void run_modprobe(char *const arguments[])
{
	posix_spawn_file_actions_t actions;
	pid_t child;

	if (posix_spawn_file_actions_init(&actions))
		return;
	if (!posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1) &&
	    !posix_spawn(&child, MODPROBE, &actions, NULL, arguments, (char *[]){NULL}))
		waitpid(child, NULL, 0);
	posix_spawn_file_actions_destroy(&actions);
}

/*
 * NVIDIA's driver starts this program, which has its owner's rights, to load the kernel's modules and make the GPUs'
 * nodes. In a worker it has no such rights any more.
 */
static void make_gpu_nodes(void)
{
	char *arguments[MAX_GPUS + 3] = {MODPROBE, NULL};
	static char minors[MAX_GPUS][8];
	glob_t gpus = {0};
	size_t count, i;

	if (access(MODPROBE, X_OK))
		return;
	run_modprobe(arguments);
	count = glob("/proc/driver/nvidia/gpus/*", 0, NULL, &gpus) ? 0 : gpus.gl_pathc;
	globfree(&gpus);
	for (i = 0; i < count && i < MAX_GPUS; i++) {
		snprintf(minors[i], sizeof(minors[i]), "-c=%zu", i);
		arguments[i + 1] = minors[i];
	}
	arguments[i + 1] = "-u";
	run_modprobe(arguments);
}

/*
 * Workers find one another by sockets whose names belong to the network namespace. Those of one VM have the same
 * vcudad. Local programs of one user may have several, and so keep the host's. Without CAP_SYS_ADMIN the view brings
 * these namespaces, or is missing as well.
 */
static void leave_namespaces(const struct daemon_options *options)
{
	if (!unshare(CLONE_NEWIPC) && !options->socket)
		unshare(CLONE_NEWNET);
}

static int has_no_view(const struct daemon_options *options, const char *why)
{
	char text[PATH_MAX + 256];

	snprintf(text, sizeof(text),
		 "vcudad cannot give workers a file system without the sockets of other programs (%s)", why);
	return missing(options, text);
}

/* Without a view there is no user either: the user could not enter root's folders. */
static int choose_view(struct daemon_options *options)
{
	static struct daemon_view_failure failure, of_user;
	bool given = options->user.set;
	const char *why = daemon_user_choose(options);
	int err = daemon_view_open(options, &failure);

	if (err && given) {
		vcuda_log("--worker-user %s: %s", options->worker_user, failure.text);
		return err;
	}
	if (err)
		daemon_user_release(options);
	if (err && failure.user) {
		of_user = failure;
		why = of_user.text;
		err = daemon_view_open(options, &failure);
	}
	if (err)
		return has_no_view(options, failure.text);
	if (why)
		vcuda_log("--worker-user auto: workers run as vcudad's user: %s", why);
	if (options->user.set)
		vcuda_log_debug("workers run as user %u, group %u", options->user.uid, options->user.gid);
	return 0;
}

/*
 * Local programs can do to the host what their user can. So vcudad makes a view for them only where that is easily
 * done: they may be in containers.
 */
static int choose_local_view(struct daemon_options *options)
{
	static struct daemon_view_failure failure;

	if (!geteuid() && daemon_view_open(options, &failure))
		vcuda_log_debug("workers stay in the host's file system: %s", failure.text);
	return 0;
}

int daemon_sandbox_prepare(struct daemon_options *options)
{
	int err;

	if (!strcmp(options->sandbox, "off"))
		return 0;
	err = check_layers(options);
	if (!err)
		err = choose_mapper(options);
	if (err)
		return err;
	if (strcmp(options->backend, "cpu"))
		make_gpu_nodes();
	leave_namespaces(options);
	return options->vhost_socket ? choose_view(options) : choose_local_view(options);
}

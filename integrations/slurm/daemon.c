/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "deadline.h"

/* Not the folder of vcudad.service, whose user may be another one. */
#define CACHE_FOLDER "/var/cache/vcuda-slurm"

/* vcudad gives its workers 5 s. */
#define END_MS 15000

/* The descriptor to which vcudad says that it listens. */
#define READY 3

/* All that the child needs. */
struct launch {
	const struct settings *settings;
	const char *node;
	uint32_t job;
	struct state state;
	pid_t parent;
	uid_t uid; /* vcudad's */
	gid_t gid;
	char log[STATE_PATH];
	/* Arguments and variables. */
	char config[STATE_PATH], name[32], socket[STATE_PATH], memory[32], share[16], arbiter[STATE_PATH];
	char visible[64], control[STATE_PATH];
};

static int report(uint32_t job, const char *text, const char *path, int error)
{
	slurm_error("vcuda: job %u: %s %s: %s", job, text, path, strerror(error));
	return -1;
}

/* ---- folders ---- */

static void log_path(char path[STATE_PATH], const char *node, uint32_t job)
{
	snprintf(path, STATE_PATH, DAEMON_LOG_FOLDER "/%s-%" PRIu32 ".log", node, job);
}

/* A folder of vcudad's user in one that is root's. */
static int make_folder(const struct launch *launch, const char *path, mode_t mode)
{
	if ((mkdir(path, 0700) && errno != EEXIST) || lchown(path, launch->uid, launch->gid) || chmod(path, mode))
		return report(launch->job, "cannot make the folder", path, errno);
	return 0;
}

static int make_folders(const struct launch *launch)
{
	static const char *const names[] = {"control", "arbiter"};
	char path[STATE_PATH];

	if (mkdir(DAEMON_LOG_FOLDER, 0750) && errno != EEXIST)
		return report(launch->job, "cannot make the folder", DAEMON_LOG_FOLDER, errno);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), STATE_FOLDER "/%s/%s", launch->node, names[i]);
		if (make_folder(launch, path, 0700))
			return -1;
	}
	state_path(path, launch->node, launch->job, "");
	return make_folder(launch, path, 0711) ? -1 : make_folder(launch, CACHE_FOLDER, 0700);
}

/* The folder of the socket, which vcudad's user can write to: no link of that user is followed. */
static void remove_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
	else if (fd >= 0)
		close(fd);
	rmdir(path);
}

/* ---- the child ---- */

/* Slurm's programs block and ignore signals, and the kernel spares them when memory is short. */
static void become_ordinary(void)
{
	sigset_t none;
	int fd;

	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		dprintf(fd, "0");
		close(fd);
	}
}

static bool arrange_descriptors(const struct launch *launch, int ready)
{
	int null = open("/dev/null", O_RDWR), log = open(launch->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0640);

	/* Numbers above all that are taken below. */
	null = fcntl(null, F_DUPFD, READY + 1);
	log = fcntl(log, F_DUPFD, READY + 1);
	ready = fcntl(ready, F_DUPFD, READY + 1);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    dup2(ready, READY) < 0)
		return false;
	if (syscall(SYS_close_range, READY + 1, ~0u, 0))
		for (int fd = READY + 1, most = (int)sysconf(_SC_OPEN_MAX); fd < most; fd++)
			close(fd);
	return true;
}

static bool become_user(const struct launch *launch)
{
	return !initgroups(launch->settings->user, launch->gid) && !setresgid(launch->gid, launch->gid, launch->gid) &&
	       !setresuid(launch->uid, launch->uid, launch->uid) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/*
 * The file of the job names the process before it becomes vcudad: no vcudad is ever without a file. The environment has
 * nothing of the job's, nor of slurmd's.
 */
static _Noreturn void run(struct launch *launch, int ready)
{
	char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
				     "XDG_CACHE_HOME=" CACHE_FOLDER,
				     "CUDA_DEVICE_ORDER=PCI_BUS_ID",
				     launch->visible,
				     launch->control,
				     NULL};
	char *const arguments[] = {"vcudad",
				   "--config",
				   launch->config,
				   "--name",
				   launch->name,
				   "--socket",
				   launch->socket,
				   "--socket-mode",
				   "0600",
				   "--allow-any-user",
				   "--max-device-memory",
				   launch->memory,
				   "--share",
				   launch->share,
				   "--arbiter",
				   launch->arbiter,
				   "--ready-fd",
				   "3",
				   NULL};

	/* Until it has another user: without its parent nothing would have it end. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != launch->parent)
		_exit(1);
	become_ordinary();
	launch->state.pid = getpid();
	launch->state.started = state_process_start(launch->state.pid);
	if (state_write(launch->node, launch->job, &launch->state) || chdir("/") || !arrange_descriptors(launch, ready))
		_exit(1);
	if (!become_user(launch))
		dprintf(STDERR_FILENO, "cannot become the user %s: %s\n", launch->settings->user, strerror(errno));
	else if (execve(launch->settings->vcudad, arguments, environment))
		dprintf(STDERR_FILENO, "%s: %s\n", launch->settings->vcudad, strerror(errno));
	_exit(1);
}

/* ---- the prolog ---- */

static int fill(struct launch *launch)
{
	const struct passwd *user = getpwnam(launch->settings->user);
	const struct state *state = &launch->state;

	if (!user || !user->pw_uid) {
		slurm_error("vcuda: job %u: the user %s of vcudad is missing or is root's", launch->job,
			    launch->settings->user);
		return -1;
	}
	launch->uid = user->pw_uid;
	launch->gid = user->pw_gid;
	log_path(launch->log, launch->node, launch->job);
	snprintf(launch->config, sizeof(launch->config), "-%s", launch->settings->config);
	snprintf(launch->name, sizeof(launch->name), "job-%" PRIu32, launch->job);
	state_path(launch->socket, launch->node, launch->job, "/socket");
	snprintf(launch->memory, sizeof(launch->memory), "%" PRIu64, state->slices * launch->settings->slice_memory);
	snprintf(launch->share, sizeof(launch->share), "%u", state->slices);
	snprintf(launch->arbiter, sizeof(launch->arbiter), STATE_FOLDER "/%s/arbiter/%u", launch->node, state->device);
	snprintf(launch->visible, sizeof(launch->visible), "CUDA_VISIBLE_DEVICES=%u", state->device);
	snprintf(launch->control, sizeof(launch->control), "VCUDA_CONTROL=" STATE_FOLDER "/%s/control", launch->node);
	return 0;
}

/* The last line of vcudad's log says why it does not start. */
static void report_log(const struct launch *launch)
{
	char line[512] = "", last[512] = "no line in its log";
	FILE *file = fopen(launch->log, "re");

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			strcpy(last, line);
	}
	if (file)
		fclose(file);
	slurm_error("vcuda: job %u: vcudad does not start: %s", launch->job, last);
}

static bool listens(int fd, int64_t deadline)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&poll_fd, 1, deadline_left(deadline)) == 1 && read(fd, &byte, 1) == 1;
}

int daemon_start(const struct settings *settings, const char *node, uint32_t job, uid_t uid, const struct state *state,
		 int64_t deadline)
{
	struct launch launch = {.settings = settings, .node = node, .job = job, .state = *state, .parent = getpid()};
	int ready[2];
	bool good;
	pid_t child;

	if (fill(&launch) || make_folders(&launch))
		return -1;
	if (pipe2(ready, O_CLOEXEC))
		return report(job, "cannot make", "a pipe", errno);
	child = fork();
	if (!child)
		run(&launch, ready[1]);
	close(ready[1]);
	good = child > 0 && listens(ready[0], deadline);
	close(ready[0]);
	if (!good)
		report_log(&launch);
	else if (lchown(launch.socket, uid, launch.gid))
		good = !report(job, "cannot give away", launch.socket, errno);
	return good ? 0 : -1;
}

/* ---- the epilog ---- */

static bool has_ended(int pidfd, int milliseconds)
{
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, milliseconds) == 1;
}

/* The number may be another process's by now: what began at another time is left alone. */
static bool end_process(const struct state *state)
{
	int pidfd = state->pid > 0 ? (int)syscall(SYS_pidfd_open, state->pid, 0) : -1;
	bool ended = true;

	if (pidfd < 0)
		return true;
	if (state_process_start(state->pid) == state->started) {
		syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
		ended = has_ended(pidfd, END_MS);
		if (!ended) {
			syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
			ended = has_ended(pidfd, END_MS);
		}
	}
	close(pidfd);
	return ended;
}

int daemon_end(uint32_t job, const struct state *state)
{
	if (end_process(state))
		return 0;
	slurm_error("vcuda: job %u: vcudad, process %d, does not end", job, state->pid);
	return -1;
}

void daemon_remove_files(const char *node, uint32_t job)
{
	char path[STATE_PATH];
	struct stat stat_log;

	state_path(path, node, job, "");
	remove_folder(path);
	log_path(path, node, job);
	if (!stat(path, &stat_log) && !stat_log.st_size)
		unlink(path);
}

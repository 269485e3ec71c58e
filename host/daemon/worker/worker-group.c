/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker-group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/strays.h"

/* Until a group that the kernel tells nothing of is looked at again. */
#define RETRY_MS 2
#define RETRY_SLOW_MS 50
#define RETRIES_FAST 50

/* A process that waits in the kernel does not freeze: the others are thawed, to die, after so many tries. */
#define FREEZE_TRIES 25

#define FOLDER_DEPTH 8 /* descriptors of nftw() */

static struct {
	struct daemon_loop *loop;
	enum vcuda_group_way way;
	char folder[PATH_MAX]; /* of vcudad's group, in which those of workers are */
	unsigned int made;
	struct vcuda_list groups;
} state;

static int open_in(const char *folder, const char *name, int flags)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

static int write_in(const char *folder, const char *name, const char *text)
{
	int fd = open_in(folder, name, O_WRONLY), status;

	if (fd < 0)
		return -errno;
	status = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return status;
}

static bool has_word(int fd, const char *word)
{
	char text[256];
	ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	return strstr(text, word);
}

/* ---- removal ---- */

static int remove_folder(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	if (type == FTW_DP)
		rmdir(path);
	return 0;
}

/* The kernel removes a group only without processes. A worker may have made groups in its group. */
static bool is_removed(const char *folder)
{
	if (!rmdir(folder) || errno == ENOENT)
		return true;
	nftw(folder, remove_folder, FOLDER_DEPTH, FTW_DEPTH | FTW_PHYS);
	return !rmdir(folder) || errno == ENOENT;
}

/* ---- version 2 ---- */

/* False: there will be no event, or none that vcudad can wait for. */
static bool wait_for_event(struct daemon_worker_group *group)
{
	if (group->events < 0)
		group->events = open_in(group->folder, "cgroup.events", O_RDONLY);
	/* The read comes first: an event is what came after it. */
	if (group->events < 0 || !has_word(group->events, "populated 1"))
		return false;
	return group->source.fd >= 0 || !daemon_source_add(state.loop, &group->source, group->events, EPOLLPRI);
}

static bool kill_v2(struct daemon_worker_group *group)
{
	write_in(group->folder, "cgroup.kill", "1");
	return wait_for_event(group);
}

/* ---- version 1 ---- */

static bool thaws;

/* A process of another namespace has the number 0 here, which kill() takes for vcudad's own process group. */
static int kill_in_folder(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	int fd = type == FTW_DP ? open_in(path, "cgroup.procs", O_RDONLY) : -1;
	FILE *processes = fd >= 0 ? fdopen(fd, "r") : NULL;
	pid_t process;

	while (processes && fscanf(processes, "%d", &process) == 1)
		if (process > 0)
			kill(process, SIGKILL);
	if (processes)
		fclose(processes);
	if (thaws && type == FTW_DP)
		write_in(path, "freezer.state", "THAWED");
	return 0;
}

/* While the group is frozen its list is complete: no process of it forks, ends, or is between the two. */
static bool kill_v1(struct daemon_worker_group *group)
{
	int fd;

	write_in(group->folder, "freezer.state", "FROZEN");
	fd = open_in(group->folder, "freezer.state", O_RDONLY);
	thaws = fd < 0 || has_word(fd, "FROZEN") || group->tries % FREEZE_TRIES == FREEZE_TRIES - 1;
	if (fd >= 0)
		close(fd);
	nftw(group->folder, kill_in_folder, FOLDER_DEPTH, FTW_DEPTH | FTW_PHYS);
	return false;
}

/* ---- any way ---- */

static void forget(struct daemon_worker_group *group)
{
	daemon_source_remove(state.loop, &group->source);
	daemon_timer_clear(&group->timer);
	if (group->events >= 0)
		close(group->events);
	free(group->folder);
	vcuda_list_remove(&group->entry);
}

/* Kills what is left, and has itself called again until nothing is. */
static void step(struct daemon_worker_group *group)
{
	bool waits = true;

	if (group->folder ? is_removed(group->folder) : !daemon_strays_left()) {
		forget(group);
		group->empty(group);
		return;
	}
	if (group->folder)
		waits = group->way == VCUDA_GROUP_V2 ? kill_v2(group) : kill_v1(group);
	group->tries++;
	if (!waits)
		daemon_timer_set(state.loop, &group->timer, group->tries < RETRIES_FAST ? RETRY_MS : RETRY_SLOW_MS);
}

static void events_ready(struct daemon_source *source, uint32_t events)
{
	step(container_of(source, struct daemon_worker_group, source));
}

static void timer_expired(struct daemon_timer *timer)
{
	step(container_of(timer, struct daemon_worker_group, timer));
}

static void group_init(struct daemon_worker_group *group, enum vcuda_group_way way)
{
	*group = (struct daemon_worker_group){.way = way, .events = -1, .source = {.fd = -1, .ready = events_ready}};
	daemon_timer_init(&group->timer, timer_expired);
	vcuda_list_add(&group->entry, &state.groups);
}

int daemon_worker_group_make(struct daemon_worker_group *group)
{
	int status;

	group_init(group, state.way);
	if (state.way == VCUDA_GROUP_NONE)
		return 0;
	if (asprintf(&group->folder, "%s/%u", state.folder, ++state.made) < 0)
		group->folder = NULL;
	status = !group->folder ? -ENOMEM : mkdir(group->folder, 0755) ? -errno : 0;
	if (status)
		forget(group);
	return status;
}

static pid_t fork_into(const char *folder)
{
	struct clone_args arguments = {.flags = CLONE_VFORK | CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t child;

	if (fd < 0)
		return -errno;
	arguments.cgroup = (uint64_t)fd;
	child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (child < 0)
		child = -errno;
	if (child)
		close(fd);
	return child;
}

static pid_t fork_plainly(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);

	return child < 0 ? -errno : child;
}

/* Filters of containers and of services may refuse clone3(). */
pid_t daemon_worker_group_fork(struct daemon_worker_group *group)
{
	pid_t child = group->way == VCUDA_GROUP_V2 ? fork_into(group->folder) : -ENOSYS;

	if (child < 0) {
		group->moves = group->folder;
		child = fork_plainly();
	}
	if (child > 0)
		group->worker = child;
	return child;
}

/* In version 1 a thread moves alone. A process that moves may wait until all processors have been elsewhere. */
int daemon_worker_group_enter(const struct daemon_worker_group *group)
{
	if (!group->moves)
		return 0;
	return write_in(group->folder, group->way == VCUDA_GROUP_V1 ? "tasks" : "cgroup.procs", "0");
}

void daemon_worker_group_drop(struct daemon_worker_group *group)
{
	if (group->folder)
		is_removed(group->folder);
	forget(group);
}

void daemon_worker_group_end(struct daemon_worker_group *group, void (*empty)(struct daemon_worker_group *group))
{
	group->worker = 0;
	group->empty = empty;
	step(group);
}

/* ---- vcudad's own ---- */

static bool is_worker(pid_t child)
{
	vcuda_list_for_each (entry, &state.groups)
		if (container_of(entry, struct daemon_worker_group, entry)->worker == child)
			return true;
	return false;
}

static void strays_ended(void)
{
	struct daemon_worker_group *group, *after;

	if (daemon_strays_left())
		return;
	vcuda_list_for_each_safe (group, after, &state.groups, struct daemon_worker_group, entry)
		if (group->empty && !group->folder)
			step(group);
}

/* In clock ticks since the start of the machine; 0: it cannot be read. */
static unsigned long long start_of(pid_t process)
{
	unsigned long long start = 0;
	char path[64], text[1024];
	const char *rest;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	/* The process's name, in parentheses, may have blanks and parentheses of its own. */
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			    &start) != 1)
		return 0;
	return start;
}

/* Numbers of processes mean something in their namespace only. */
static unsigned long long own_namespace(void)
{
	struct stat own;

	return stat("/proc/self/ns/pid", &own) ? 0 : own.st_ino;
}

static bool is_gone(pid_t process, unsigned long long start)
{
	unsigned long long now = start_of(process);

	return now ? now != start : kill(process, 0) && errno == ESRCH;
}

/* Is it the group of a vcudad that is gone? */
static bool is_stale(const char *name)
{
	unsigned long long namespace, start;
	int process, length = 0;

	return sscanf(name, "vcudad-%llu-%d-%llu%n", &namespace, &process, &start, &length) == 3 && !name[length] &&
	       namespace == own_namespace() && is_gone(process, start);
}

static void stale_empty(struct daemon_worker_group *group)
{
	free(group);
}

static void end_stale(const char *folder, const char *name)
{
	struct daemon_worker_group *group = malloc(sizeof(*group));

	if (!group)
		return;
	group_init(group, state.way);
	if (asprintf(&group->folder, "%s/%s", folder, name) < 0) {
		vcuda_list_remove(&group->entry);
		free(group);
		return;
	}
	vcuda_log_debug("%s was left behind by a vcudad that is gone: its processes are killed", group->folder);
	daemon_worker_group_end(group, stale_empty);
}

static void end_all_stale(const char *folder)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (is_stale(entry->d_name))
			end_stale(folder, entry->d_name);
	if (directory)
		closedir(directory);
}

/* Below vcudad's own group, `folder`. */
static bool make_own(const char *folder)
{
	int length = snprintf(state.folder, sizeof(state.folder), "%s/vcudad-%llu-%d-%llu", folder, own_namespace(),
			      getpid(), start_of(getpid()));

	return length < (int)sizeof(state.folder) && !mkdir(state.folder, 0755);
}

static bool use(enum vcuda_group_way way)
{
	char folder[PATH_MAX];

	state.way = way;
	if (way == VCUDA_GROUP_NONE)
		return daemon_strays_adopt();
	if (!vcuda_group_works(way, folder) || !make_own(folder))
		return false;
	end_all_stale(folder);
	return true;
}

static bool use_first(const char *only)
{
	static const char *const names[] = {"v2", "v1", "none"};

	for (enum vcuda_group_way way = VCUDA_GROUP_V2; way <= VCUDA_GROUP_NONE; way++)
		if ((!only || !strcmp(only, names[way])) && use(way)) {
			vcuda_log_debug("control groups of workers: %s", names[way]);
			return true;
		}
	return false;
}

int daemon_worker_groups_open(struct daemon_loop *loop)
{
	const char *test = getenv("VCUDA_TEST_GROUPS"), *only = test && *test ? test : NULL;

	state.loop = loop;
	vcuda_list_init(&state.groups);
	daemon_strays_open(loop, is_worker, strays_ended);
	if (use_first(only))
		return 0;
	if (only) {
		vcuda_log("VCUDA_TEST_GROUPS=%s does not work here", only);
		return -EOPNOTSUPP;
	}
	vcuda_log("processes that a worker starts outlive it: vcudad may make no control groups (see vcuda doctor), and "
		  "%s",
		  getpid() == 1 ? "is process 1 of a container: start it behind an init, as by `docker run --init`"
				: "this system has no list of a process's children (CONFIG_PROC_CHILDREN)");
	return 0;
}

void daemon_worker_groups_close(void)
{
	if (state.way != VCUDA_GROUP_NONE)
		is_removed(state.folder);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <slurm/spank.h>

#include "deadline.h"

#define SUFFIX ".job"

static void node_path(char path[STATE_PATH], const char *node, const char *name)
{
	snprintf(path, STATE_PATH, STATE_FOLDER "/%s/%s", node, name);
}

void state_path(char path[STATE_PATH], const char *node, uint32_t job, const char *suffix)
{
	snprintf(path, STATE_PATH, STATE_FOLDER "/%s/%" PRIu32 "%s", node, job, suffix);
}

static bool parse(const char *text, struct state *state)
{
	*state = (struct state){0};
	if (sscanf(text, "refused %199[^\n]", state->refusal) == 1)
		return true;
	return sscanf(text,
		      "device %u slices %u of %u slice-memory %" SCNu64 " reserved %" SCNu64 " pid %d started %llu",
		      &state->device, &state->slices, &state->device_slices, &state->slice_memory, &state->reserved,
		      &state->pid, &state->started) == 7;
}

int state_read(const char *node, uint32_t job, struct state *state)
{
	char path[STATE_PATH], text[512];
	ssize_t bytes = -1;
	int fd;

	state_path(path, node, job, SUFFIX);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd >= 0) {
		bytes = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[bytes > 0 ? bytes : 0] = '\0';
	if (parse(text, state))
		return 1;
	slurm_error("vcuda: %s cannot be read. End the job's vcudad, if it runs, and remove the file", path);
	return -1;
}

int state_write(const char *node, uint32_t job, const struct state *state)
{
	char path[STATE_PATH], new[STATE_PATH];
	int fd, written, status = 0;

	state_path(path, node, job, SUFFIX);
	state_path(new, node, job, ".new");
	fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return -errno;
	if (*state->refusal)
		written = dprintf(fd, "refused %s\n", state->refusal);
	else
		written = dprintf(fd,
				  "device %u slices %u of %u slice-memory %" PRIu64 " reserved %" PRIu64
				  " pid %d started %llu\n",
				  state->device, state->slices, state->device_slices, state->slice_memory,
				  state->reserved, state->pid, state->started);
	/* The umask is Slurm's. */
	if (written < 0 || fchmod(fd, 0644) || rename(new, path))
		status = -errno;
	close(fd);
	return status;
}

void state_remove(const char *node, uint32_t job)
{
	char path[STATE_PATH];

	state_path(path, node, job, ".new");
	unlink(path);
	state_path(path, node, job, SUFFIX);
	unlink(path);
}

/* The folders above may be there, also as another program makes them; this one is root's. */
static int make_folder(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	return 0;
}

int state_prepare(const char *node)
{
	char path[STATE_PATH];
	int status = make_folder("/run/vcuda");

	if (!status)
		status = make_folder(STATE_FOLDER);
	node_path(path, node, "");
	if (!status)
		status = make_folder(path);
	if (!status && chmod(STATE_FOLDER, 0755))
		status = -errno;
	if (!status && chmod(path, 0755))
		status = -errno;
	return status;
}

int state_lock(const char *node, int64_t deadline)
{
	char path[STATE_PATH];
	int fd, error;

	node_path(path, node, "lock");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		error = errno;
		if (error == EINTR)
			continue;
		if (error != EWOULDBLOCK || !deadline_left(deadline)) {
			close(fd);
			return error == EWOULDBLOCK ? -ETIMEDOUT : -error;
		}
		usleep(10000);
	}
	return fd;
}

int state_each(const char *node, int (*call)(uint32_t job, const struct state *state, void *argument), void *argument)
{
	char path[STATE_PATH], *end;
	struct dirent *entry;
	struct state state;
	int found, status = 0;
	DIR *folder;

	node_path(path, node, "");
	folder = opendir(path);
	if (!folder) {
		slurm_error("vcuda: %s cannot be read: %s", path, strerror(errno));
		return -1;
	}
	while (!status && (entry = readdir(folder))) {
		unsigned long job = strtoul(entry->d_name, &end, 10);

		if (end == entry->d_name || strcmp(end, SUFFIX))
			continue;
		found = state_read(node, (uint32_t)job, &state);
		status = found > 0 ? call((uint32_t)job, &state, argument) : found;
	}
	closedir(folder);
	return status;
}

unsigned long long state_process_start(pid_t pid)
{
	char path[64], text[1024], *field;
	unsigned long long started = 0;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	/* The name in parentheses may have spaces. The start is field 22, twenty behind the name. */
	field = strrchr(text, ')');
	for (int i = 0; field && i < 20; i++)
		field = strchr(field + 1, ' ');
	if (field)
		started = strtoull(field, NULL, 10);
	return started;
}

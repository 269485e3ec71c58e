/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli.h"
#include "common/control-directory.h"

/* vcudad answers within a turn of its loop. */
#define ANSWER_S 5

/* A descriptor, or -errno. */
static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = ANSWER_S};
	int fd, error;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* All that comes until the peer closes, NUL-terminated; NULL with errno set. */
static char *read_all(int fd)
{
	char *text = NULL, buffer[4096];
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	ssize_t got;

	if (!out)
		return NULL;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, (size_t)got, out);
	if (fclose(out) || got < 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* Takes "ok" off the answer, or says what the daemon says. */
static char *take_answer(const char *path, char *answer)
{
	if (answer && !strncmp(answer, "ok\n", 3)) {
		memmove(answer, answer + 3, strlen(answer + 3) + 1);
		return answer;
	}
	if (answer && !strncmp(answer, "error ", 6))
		cli_message("%.*s", (int)strcspn(answer + 6, "\n"), answer + 6);
	else if (answer)
		cli_message("the vcudad at %s closed the connection: see its log", path);
	else
		cli_message("the vcudad at %s does not answer: %s", path, strerror(errno));
	free(answer);
	return NULL;
}

static char *ask(int fd, const char *path, const char *request)
{
	char line[512];
	int length = snprintf(line, sizeof(line), "%s\n", request);
	char *answer = NULL;

	if (length >= (int)sizeof(line) || strchr(request, '\n')) {
		cli_message("the request is too long, or more than one line");
		return NULL;
	}
	if (send(fd, line, (size_t)length, MSG_NOSIGNAL) == length)
		answer = read_all(fd);
	return take_answer(path, answer);
}

static void report_connect(const char *path, int error)
{
	if (error == -ECONNREFUSED)
		cli_message("%s is stale: its vcudad has ended", path);
	else
		cli_message("no vcudad is reached at %s: %s", path, strerror(-error));
}

char *control_request(const char *path, const char *request)
{
	int fd = connect_to(path);
	char *answer;

	if (fd < 0) {
		report_connect(path, fd);
		return NULL;
	}
	answer = ask(fd, path, request);
	close(fd);
	return answer;
}

/* Reads what the status does not have. */
static void add_memory(struct control_process *process)
{
	char path[64], line[256];
	unsigned long long kib;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", process->worker);
	file = process->worker ? fopen(path, "re") : NULL;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %llu", &kib) == 1)
			process->worker_memory = kib << 10;
	if (file)
		fclose(file);
}

static struct control_daemon *daemon_add(struct control_daemons *found, const char *path)
{
	struct control_daemon *daemons = realloc(found->daemons, (found->count + 1) * sizeof(*daemons));

	if (!daemons)
		return NULL;
	found->daemons = daemons;
	daemons[found->count] = (struct control_daemon){0};
	snprintf(daemons[found->count].path, sizeof(daemons->path), "%s", path);
	return &daemons[found->count++];
}

static bool read_status(struct control_daemons *found, int fd, const char *path)
{
	char *text = ask(fd, path, "status");
	struct control_daemon *daemon = text ? daemon_add(found, path) : NULL;
	bool good = daemon && control_parse(daemon, text);
	unsigned int i;

	if (text && !good)
		cli_message("out of memory");
	free(text);
	for (i = 0; good && i < daemon->process_count; i++)
		add_memory(&daemon->processes[i]);
	return good;
}

/* A daemon names its socket once it accepts connections: one that refuses them has no daemon any more. */
static bool visit(struct control_daemons *found, const char *path)
{
	int fd = connect_to(path);
	bool good;

	if (fd == -ECONNREFUSED) {
		cli_message("%s was left behind by a vcudad that is gone: %s", path,
			    unlink(path) ? strerror(errno) : "removed");
		return true;
	}
	/* The daemon has ended meanwhile. */
	if (fd == -ENOENT)
		return true;
	if (fd < 0) {
		report_connect(path, fd);
		return false;
	}
	good = read_status(found, fd, path);
	close(fd);
	return good;
}

static bool visit_directory(struct control_daemons *found, const char *directory)
{
	char path[VCUDA_CONTROL_DIRECTORY_BYTES + 16];
	DIR *entries = vcuda_control_directory_is_ours(directory) ? opendir(directory) : NULL;
	struct dirent *entry;
	bool good = true;

	while (entries && (entry = readdir(entries))) {
		/* Each is named by its daemon's process id. */
		if (!entry->d_name[strspn(entry->d_name, "0123456789")]) {
			snprintf(path, sizeof(path), "%.95s/%.10s", directory, entry->d_name);
			good &= visit(found, path);
		}
	}
	if (entries)
		closedir(entries);
	return good;
}

static int by_pid(const void *a, const void *b)
{
	const struct control_daemon *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

bool control_find(struct control_daemons *found, const char *path)
{
	char directories[VCUDA_CONTROL_DIRECTORIES][VCUDA_CONTROL_DIRECTORY_BYTES];
	unsigned int count = vcuda_control_directories(directories), i;
	bool good = true;
	int fd;

	*found = (struct control_daemons){0};
	if (path) {
		fd = connect_to(path);
		if (fd < 0) {
			report_connect(path, fd);
			return false;
		}
		good = read_status(found, fd, path);
		close(fd);
		return good;
	}
	for (i = 0; i < count; i++)
		good &= visit_directory(found, directories[i]);
	if (found->count)
		qsort(found->daemons, found->count, sizeof(*found->daemons), by_pid);
	return good;
}

void control_free(struct control_daemons *found)
{
	unsigned int i;

	for (i = 0; i < found->count; i++) {
		free(found->daemons[i].processes);
		free(found->daemons[i].exports);
	}
	free(found->daemons);
	*found = (struct control_daemons){0};
}

const struct control_daemon *control_choose(const struct control_daemons *found, const char *name)
{
	const struct control_daemon *chosen = NULL;
	unsigned int i, same = 0;
	char pid[16];

	for (i = 0; i < found->count; i++) {
		snprintf(pid, sizeof(pid), "%u", found->daemons[i].pid);
		if (!strcmp(pid, name))
			return &found->daemons[i];
		if (strcmp(found->daemons[i].name, name))
			continue;
		chosen = &found->daemons[i];
		same++;
	}
	if (same == 1)
		return chosen;
	if (same)
		cli_message("%u VMs have the name %s: give the process id that `vcuda vm list` shows", same, name);
	else if (found->count)
		cli_message("there is no VM of the name %s; see `vcuda vm list`", name);
	else
		cli_message("no vcudad of this user runs");
	return NULL;
}

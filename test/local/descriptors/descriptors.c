/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors: runs all probes, each in a process of its own, and counts those that fail. descriptors NAME...: only
 * those.
 */
#include "descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77
#ifndef PATIENCE_S
#define PATIENCE_S 120 /* for what hangs */
#endif
#define TEXT "what the program wrote"

int ours[16], ours_count;

static const struct probe *const tables[] = {probes_of_start, probes_of_ours, probes_of_life};

/* ---- in a probe's process ---- */

static void report(const char *text)
{
	const char *path = getenv("PROBE_REPORT");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	ssize_t written = write(fd, text, strlen(text));

	(void)written;
	close(fd);
}

void probe_fail(const char *file, int line, const char *what, long value)
{
	char text[512];

	snprintf(text, sizeof(text), "%s:%d: %s: %ld\n", strrchr(file, '/') + 1, line, what, value);
	report(text);
	_exit(1);
}

void probe_skip(void)
{
	_exit(SKIPPED);
}

bool probe_is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static bool was_open[4096];

static void find_new(void)
{
	for (int fd = 0; fd < (int)sizeof(was_open) && ours_count < (int)(sizeof(ours) / sizeof(ours[0])); fd++)
		if (probe_is_open(fd) && !was_open[fd])
			ours[ours_count++] = fd;
}

void probe_start(void)
{
	CUcontext context;

	for (int fd = 0; fd < (int)sizeof(was_open); fd++)
		was_open[fd] = probe_is_open(fd);
	OK(cuInit(0));
	find_new();
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(probe_use());
}

static CUresult use_memory(uint32_t *words, CUdeviceptr p)
{
	CUresult result = cuMemsetD32_v2(p, 7, 1024);

	if (result == CUDA_SUCCESS)
		result = cuMemcpyDtoHAsync_v2(words, p, 4096, NULL);
	if (result == CUDA_SUCCESS)
		result = cuStreamSynchronize(NULL);
	if (result == CUDA_SUCCESS)
		CHECK(words[0] == 7 && words[1023] == 7);
	return result;
}

static CUresult use_registered(void)
{
	void *memory = aligned_alloc(4096, 8192);
	CUresult result;

	CHECK(memory);
	memset(memory, 1, 8192);
	result = cuMemHostRegister_v2(memory, 8192, 0);
	if (result == CUDA_SUCCESS)
		result = cuMemHostUnregister(memory);
	free(memory);
	return result;
}

CUresult probe_use(void)
{
	void *words = NULL;
	CUdeviceptr p;
	CUresult result = cuMemAlloc_v2(&p, 4096);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuMemHostAlloc(&words, 4096, 0);
	if (result == CUDA_SUCCESS)
		result = use_memory(words, p);
	if (result == CUDA_SUCCESS)
		result = cuMemFreeHost(words);
	if (result == CUDA_SUCCESS)
		result = use_registered();
	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

void probe_use_until_error(void)
{
	time_t end = time(NULL) + PATIENCE_S / 2;
	CUdeviceptr p;

	while (probe_use() == CUDA_SUCCESS) {
		CHECK(time(NULL) < end);
		/* Once the worker sleeps it has to be woken. */
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	for (int i = 0; i < 3; i++)
		CHECK(cuMemAlloc_v2(&p, 4096) != CUDA_SUCCESS && cuCtxSynchronize() != CUDA_SUCCESS);
}

void probe_wait(int child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	OK(status);
}

struct precious precious_make(enum kind kind)
{
	struct precious p = {kind, -1, -1};
	int ends[2] = {-1, -1};

	if (kind == FILE_WITH_TEXT) {
		ends[0] = memfd_create("precious", 0);
		CHECK(write(ends[0], TEXT, sizeof(TEXT)) == sizeof(TEXT));
	} else if (kind == PIPE) {
		CHECK(pipe2(ends, O_NONBLOCK) == 0);
		p.fd = ends[1];
		p.other = ends[0];
		return p;
	} else if (kind == EVENT) {
		ends[0] = eventfd(0, EFD_NONBLOCK);
	} else if (kind == SOCKET || kind == SEQUENCED) {
		CHECK(socketpair(AF_UNIX, (kind == SOCKET ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_NONBLOCK, 0, ends) ==
		      0);
	} else {
		ends[0] = open("/dev/null", O_RDWR);
	}
	p.fd = ends[0];
	p.other = ends[1];
	CHECK(p.fd >= 0);
	return p;
}

void precious_check(const struct precious *p, int fd)
{
	char text[64] = "";
	struct stat s;

	CHECK(probe_is_open(fd));
	CHECK(fstat(fd, &s) == 0);
	if (p->kind == FILE_WITH_TEXT)
		CHECK(s.st_size == sizeof(TEXT) && pread(fd, text, sizeof(text), 0) == sizeof(TEXT) &&
		      !strcmp(text, TEXT));
	else if (p->kind == EVENT)
		CHECK(read(fd, text, 8) < 0 && errno == EAGAIN);
	else if (p->kind != NULL_DEVICE)
		CHECK(read(p->other, text, sizeof(text)) < 0 && errno == EAGAIN);
}

static const struct probe *find(const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct probe *p = tables[i]; p->name; p++)
			if (!strcmp(p->name, name))
				return p;
	fprintf(stderr, "there is no probe %s\n", name);
	exit(2);
}

/* ---- the process that starts them ---- */

static char self[4096], report_path[] = "/tmp/vcuda-probe-report-XXXXXX", log_path[] = "/tmp/vcuda-probe-log-XXXXXX";

static _Noreturn void become(const struct probe *p)
{
	int log = open(log_path, O_WRONLY | O_APPEND);

	setenv("PROBE_REPORT", report_path, 1);
	CHECK(log >= 0 && dup2(log, STDERR_FILENO) == STDERR_FILENO && dup2(log, STDOUT_FILENO) == STDOUT_FILENO);
	close(log);
	for (int fd = 0; fd < 3; fd++)
		if (p->closed & 1u << fd)
			close(fd);
	closefrom(3);
	execl(self, self, "--run", p->name, NULL);
	_exit(126);
}

static bool has_word(const char *path, const char *word, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, size - 1, f) : 0;

	text[n] = 0;
	if (f)
		fclose(f);
	return strstr(text, word);
}

/* 0: it failed, 1: passed, 2: cannot run here. */
static int run(const struct probe *p)
{
	char said[2000], log[4000];
	pid_t child;
	int status;
	bool named;

	CHECK(truncate(report_path, 0) == 0 && truncate(log_path, 0) == 0);
	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (!child)
		become(p);
	CHECK(waitpid(child, &status, 0) == child);
	has_word(report_path, "", said, sizeof(said));
	named = has_word(log_path, "descriptor", log, sizeof(log));
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		return 2;
	if (!status && (named || !p->says) && (p->says || !log[0]))
		return 1;
	printf("%s: FAILED: status %#x, %s\n%s%s", p->name, (unsigned int)status,
	       p->says && !named ? "no line names a descriptor" : "log and report:", log, said);
	return 0;
}

static int run_all(char **names)
{
	unsigned int count[3] = {0};

	close(mkstemp(report_path));
	close(mkstemp(log_path));
	if (*names)
		for (; *names; names++)
			count[run(find(*names))]++;
	else
		for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
			for (const struct probe *p = tables[i]; p->name; p++)
				count[run(p)]++;
	unlink(report_path);
	unlink(log_path);
	printf("descriptors: %u probes, %u failed, %u cannot run here\n", count[0] + count[1] + count[2], count[0],
	       count[2]);
	return count[0] ? 1 : 0;
}

int main(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	if (argc == 3 && !strcmp(argv[1], "--run")) {
		const struct probe *p = find(argv[2]);

		alarm(PATIENCE_S);
		p->run(p->how);
		return 0;
	}
	return run_all(argv + 1);
}

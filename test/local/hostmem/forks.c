/* SPDX-License-Identifier: Apache-2.0 */
/* Forks between any two steps of another thread: a child has neither the memory nor its file, and the parent keeps it.
 */
#include "hostmem.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20

static _Atomic bool slow, done;

/* The library's own call comes here: what is between this call and the one before takes long. */
int madvise(void *address, size_t bytes, int advice)
{
	if (slow && advice == MADV_DONTFORK)
		usleep(1000);
	return (int)syscall(SYS_madvise, address, bytes, advice);
}

/* ---- the child ---- */

enum { HAS_FILE = 1, HAS_MAPPING = 2 };

static bool has_file(void)
{
	char name[40], file[64];

	for (int fd = 3; fd < 1100; fd++) {
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, file, sizeof(file) - 1);
		if (n > 0 && !strncmp(file, "/memfd:vcuda-host", strlen("/memfd:vcuda-host")))
			return true;
	}
	return false;
}

static bool has_mapping(void)
{
	static char maps[1 << 20];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, maps + length, sizeof(maps) - 1 - length)) > 0)
		length += (size_t)n;
	maps[length] = 0;
	return strstr(maps, "memfd:vcuda-host");
}

/* The memory that a child has; -1: the child did not end well. */
static int fork_once(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit((has_file() ? HAS_FILE : 0) | (has_mapping() ? HAS_MAPPING : 0));
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* ---- the thread ---- */

static CUcontext context;

/* 1: a call failed, or the memory lost written values. */
static unsigned int use(uint32_t round)
{
	CUmemGenericAllocationHandle handle =
		create(round % 2 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_HOST, 1);
	CUdeviceptr p = map(handle, granule);
	bool lost;

	*words(p + 4096) = round;
	OK(cuMemsetD32_v2(p, round, 4));
	*words(p + 16) = round;
	lost = *words(p) != round || *words(p + 12) != round || *words(p + 16) != round || *words(p + 4096) != round;
	unmap(p, granule);
	OK(cuMemRelease(handle));
	return lost;
}

static void *use_all(void *lost)
{
	OK(cuCtxSetCurrent(context));
	for (uint32_t round = 1; !done; round++)
		*(unsigned int *)lost += use(round);
	return NULL;
}

static void fork_meanwhile(const char *name, bool is_slow)
{
	unsigned int files = 0, mappings = 0, failed = 0, lost = 0;
	pthread_t thread;

	probe_begin("forks", name);
	done = false;
	slow = is_slow;
	EXPECT(!pthread_create(&thread, NULL, use_all, &lost));
	for (int i = 0; i < FORKS; i++) {
		int has = fork_once();

		failed += has < 0;
		files += has > 0 && has & HAS_FILE;
		mappings += has > 0 && has & HAS_MAPPING;
	}
	done = true;
	EXPECT(!pthread_join(thread, NULL));
	slow = false;
	if (files || mappings || failed || lost)
		printf("of %d children %u had a file, %u a mapping, %u failed; %u rounds lost memory\n", FORKS, files,
		       mappings, failed, lost);
	EXPECT(!files && !mappings && !failed && !lost);
}

void probe_forks(void)
{
	OK(cuCtxGetCurrent(&context));
	fork_meanwhile("while memory is made, mapped and unmapped", false);
	fork_meanwhile("between a mapping and its mark", true);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/mapper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/mapper-task.h"
#include "protocol/ipc/mapper.h"

#define STACK_BYTES 16384

static struct worker_mapper_request request;
static pid_t mapper; /* 0: none */

int worker_mapper_start(void)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	pid_t child;
	int err;

	request.worker = getpid();
	request.maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (request.maps < 0)
		return -errno;
	/* No signal tells the worker of the mapper's end, and wait() does not find it: libraries wait for their own. */
	child = clone(worker_mapper_task, stack + sizeof(stack), CLONE_VM, &request);
	err = child < 0 ? -errno : 0;
	close(request.maps);
	close(VCUDA_MAPPER_FD);
	mapper = err ? 0 : child;
	return err;
}

bool worker_mapper_is_there(void)
{
	return mapper;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	syscall(SYS_futex, word, operation, value, NULL);
}

static int map_here(uint64_t address, const struct worker_mapping_extent *extents, unsigned int count, bool writable)
{
	int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;

	for (unsigned int i = 0; i < count; i++) {
		const struct worker_mapping_extent *e = &extents[i];

		if (mmap((void *)address, e->length, prot, MAP_SHARED | MAP_FIXED, e->file, (off_t)e->offset) ==
		    MAP_FAILED)
			return -errno;
		address += e->length;
	}
	return 0;
}

static int ask(uint64_t address, const struct worker_mapping_extent *extents, unsigned int count, bool writable)
{
	uint32_t before = atomic_load(&request.answered);

	request.address = address;
	request.extents = extents;
	request.count = count;
	request.writable = writable;
	atomic_fetch_add(&request.asked, 1);
	futex(&request.asked, FUTEX_WAKE_PRIVATE, 1);
	/* vcudad kills a worker whose mapper ends. */
	while (atomic_load(&request.answered) == before)
		futex(&request.answered, FUTEX_WAIT_PRIVATE, before);
	return request.status;
}

int worker_mapper_map(uint64_t address, const struct worker_mapping_extent *extents, unsigned int count, bool writable)
{
	return (mapper ? ask : map_here)(address, extents, count, writable);
}

void worker_mapper_end(void)
{
	if (mapper)
		waitpid(mapper, NULL, __WCLONE);
	mapper = 0;
}

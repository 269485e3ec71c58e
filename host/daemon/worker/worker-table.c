/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker-table.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/ipc/worker-table.h"

static struct {
	struct vcuda_worker_table *shared;
	int fd;
	bool tried;
} worker_table = {.fd = -1};

/* The seal keeps the file's size: a worker that shrank it would crash vcudad. */
static int make(void)
{
	int low = memfd_create("vcuda-worker-table", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;

	if (low < 0)
		return -1;
	fd = fcntl(low, F_DUPFD_CLOEXEC, VCUDA_WORKER_TABLE_FD + 1);
	close(low);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, sizeof(*worker_table.shared)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		worker_table.shared =
			mmap(NULL, sizeof(*worker_table.shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (worker_table.shared != MAP_FAILED)
			return fd;
	}
	close(fd);
	return -1;
}

int daemon_worker_table_fd(void)
{
	if (!worker_table.tried) {
		worker_table.tried = true;
		worker_table.fd = make();
		if (worker_table.fd < 0)
			vcuda_log("workers cannot tell of one another (%m): guests see no list of their processes");
	}
	return worker_table.fd;
}

static void each_slot(pid_t worker, void (*call)(struct vcuda_worker_table_slot *slot))
{
	for (unsigned int i = 0; worker_table.fd >= 0 && i < VCUDA_WORKER_TABLE_SLOTS; i++)
		if (atomic_load(&worker_table.shared->slots[i].worker) == worker)
			call(&worker_table.shared->slots[i]);
}

static void show_end(struct vcuda_worker_table_slot *slot)
{
	atomic_store(&slot->ends, 1);
}

void daemon_worker_table_ends(pid_t worker)
{
	each_slot(worker, show_end);
}

static void empty(struct vcuda_worker_table_slot *slot)
{
	atomic_store(&slot->computes, 0);
	atomic_store(&slot->at_work, 0);
	for (unsigned int i = 0; i < VCUDA_CPU_DEVICES_MOST; i++)
		atomic_store(&slot->bytes[i], 0);
	atomic_store(&slot->ends, 0);
	atomic_store(&slot->worker, 0);
}

void daemon_worker_table_remove(pid_t worker)
{
	each_slot(worker, empty);
}

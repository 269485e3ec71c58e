/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/ipc/channel.h"
#include "common/log.h"
#include "session/worker-table-slot.h"

/* A second. */
#define NAP_US 1000
#define MAX_NAPS 1000

static struct vcuda_worker_table *worker_table;
static struct vcuda_worker_table_slot *own;
static uint64_t group;
static _Atomic uint64_t nowhere[VCUDA_CPU_DEVICES_MOST];
static _Atomic uint32_t idle;

/* Over the local socket the guest is the user at the other end: others of the same daemon may be in other containers.
 */
static uint64_t group_of_peer(bool local)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	if (!local)
		return VCUDA_WORKER_TABLE_VM;
	return getsockopt(VCUDA_CHANNEL_FD, SOL_SOCKET, SO_PEERCRED, &who, &length) ? UINT32_MAX : who.uid;
}

static struct vcuda_worker_table_slot *take_slot(void)
{
	/* The program that ran in this process before may have taken one (worker_channel_restart()). */
	for (unsigned int i = 0; i < VCUDA_WORKER_TABLE_SLOTS; i++)
		if (atomic_load(&worker_table->slots[i].worker) == getpid())
			return &worker_table->slots[i];
	for (unsigned int i = 0; i < VCUDA_WORKER_TABLE_SLOTS; i++) {
		int32_t none = 0;

		if (atomic_compare_exchange_strong(&worker_table->slots[i].worker, &none, getpid()))
			return &worker_table->slots[i];
	}
	return NULL;
}

void worker_table_join(bool local, pid_t pid)
{
	struct stat s;

	if (fstat(VCUDA_WORKER_TABLE_FD, &s) || !S_ISREG(s.st_mode) || s.st_size != sizeof(*worker_table))
		return;
	worker_table = mmap(NULL, sizeof(*worker_table), PROT_READ | PROT_WRITE, MAP_SHARED, VCUDA_WORKER_TABLE_FD, 0);
	if (worker_table == MAP_FAILED)
		worker_table = NULL;
	else
		madvise(worker_table, sizeof(*worker_table), MADV_DONTFORK);
	group = group_of_peer(local);
	own = worker_table ? take_slot() : NULL;
	if (own) {
		own->pid = (uint32_t)pid;
		own->group = group;
	}
}

void worker_table_renumber(pid_t pid)
{
	if (own)
		own->pid = (uint32_t)pid;
}

_Atomic uint64_t *worker_table_bytes(void)
{
	return own ? own->bytes : nowhere;
}

_Atomic uint32_t *worker_table_at_work(void)
{
	return own ? &own->at_work : &idle;
}

void worker_table_computes(void)
{
	if (own)
		atomic_store(&own->computes, 1);
}

void worker_table_ends(void)
{
	if (own)
		atomic_store(&own->ends, 1);
}

/* vcudad empties the slot when the process has ended. */
static bool is_ending(const struct vcuda_worker_table_slot *slot)
{
	return atomic_load(&slot->worker) && atomic_load(&slot->ends) && slot != own;
}

bool worker_table_wait_for_ends(void)
{
	bool any = false, waited;

	for (unsigned int i = 0, naps = 0; worker_table && i < VCUDA_WORKER_TABLE_SLOTS; i++) {
		for (waited = false; is_ending(&worker_table->slots[i]); naps++) {
			if (naps == MAX_NAPS)
				return any;
			waited = true;
			usleep(NAP_US);
		}
		any |= waited;
	}
	return any;
}

const struct vcuda_worker_table_slot *worker_table_next(unsigned int *at)
{
	while (worker_table && *at < VCUDA_WORKER_TABLE_SLOTS) {
		const struct vcuda_worker_table_slot *slot = &worker_table->slots[(*at)++];

		if (atomic_load(&slot->worker) && atomic_load(&slot->computes) && slot->group == group)
			return slot;
	}
	return NULL;
}

bool worker_table_is_vm(void)
{
	return group == VCUDA_WORKER_TABLE_VM;
}

bool worker_table_same_guest(pid_t worker)
{
	for (unsigned int i = 0; worker_table && i < VCUDA_WORKER_TABLE_SLOTS; i++)
		if (atomic_load(&worker_table->slots[i].worker) == worker)
			return worker_table->slots[i].group == group;
	return false;
}

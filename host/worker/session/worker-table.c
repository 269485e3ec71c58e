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

static struct vcuda_roster *roster;
static struct vcuda_roster_slot *own;
static uint64_t group;
static _Atomic uint64_t nowhere;

/* Over the local socket the guest is the user at the other end: others of the same daemon may be in other containers.
 */
static uint64_t group_of_peer(bool local)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	if (!local)
		return VCUDA_ROSTER_VM;
	return getsockopt(VCUDA_CHANNEL_FD, SOL_SOCKET, SO_PEERCRED, &who, &length) ? UINT32_MAX : who.uid;
}

static struct vcuda_roster_slot *take_slot(void)
{
	/* The program that ran in this process before may have taken one (vcuda_channel_restart()). */
	for (unsigned int i = 0; i < VCUDA_ROSTER_SLOTS; i++)
		if (atomic_load(&roster->slots[i].worker) == getpid())
			return &roster->slots[i];
	for (unsigned int i = 0; i < VCUDA_ROSTER_SLOTS; i++) {
		int32_t none = 0;

		if (atomic_compare_exchange_strong(&roster->slots[i].worker, &none, getpid()))
			return &roster->slots[i];
	}
	return NULL;
}

void vcuda_roster_join(bool local, pid_t pid)
{
	struct stat s;

	if (fstat(VCUDA_ROSTER_FD, &s) || !S_ISREG(s.st_mode) || s.st_size != sizeof(*roster))
		return;
	roster = mmap(NULL, sizeof(*roster), PROT_READ | PROT_WRITE, MAP_SHARED, VCUDA_ROSTER_FD, 0);
	if (roster == MAP_FAILED)
		roster = NULL;
	group = group_of_peer(local);
	own = roster ? take_slot() : NULL;
	if (own) {
		own->pid = (uint32_t)pid;
		own->group = group;
	}
}

_Atomic uint64_t *vcuda_roster_bytes(void)
{
	return own ? &own->bytes : &nowhere;
}

void vcuda_roster_computes(void)
{
	if (own)
		atomic_store(&own->computes, 1);
}

void vcuda_roster_ends(void)
{
	if (own)
		atomic_store(&own->ends, 1);
}

/* vcudad empties the slot when the process has ended. */
static bool is_ending(const struct vcuda_roster_slot *slot)
{
	return atomic_load(&slot->worker) && atomic_load(&slot->ends) && slot != own;
}

bool vcuda_roster_wait_for_ends(void)
{
	bool any = false, waited;

	for (unsigned int i = 0, naps = 0; roster && i < VCUDA_ROSTER_SLOTS; i++) {
		for (waited = false; is_ending(&roster->slots[i]); naps++) {
			if (naps == MAX_NAPS)
				return any;
			waited = true;
			usleep(NAP_US);
		}
		any |= waited;
	}
	return any;
}

const struct vcuda_roster_slot *vcuda_roster_next(unsigned int *at)
{
	while (roster && *at < VCUDA_ROSTER_SLOTS) {
		const struct vcuda_roster_slot *slot = &roster->slots[(*at)++];

		if (atomic_load(&slot->worker) && atomic_load(&slot->computes) && slot->group == group)
			return slot;
	}
	return NULL;
}

bool vcuda_roster_is_vm(void)
{
	return group == VCUDA_ROSTER_VM;
}

bool vcuda_roster_same_guest(pid_t worker)
{
	for (unsigned int i = 0; roster && i < VCUDA_ROSTER_SLOTS; i++)
		if (atomic_load(&roster->slots[i].worker) == worker)
			return roster->slots[i].group == group;
	return false;
}

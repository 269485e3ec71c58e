/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stddef.h>

#include "common/log.h"

/* The process has no work any more, so that nothing holds the lock. */
#define LOCK_MS 5000

/* CUprocessState */
enum state { RUNNING, LOCKED, CHECKPOINTED, FAILED };

/* CUcheckpointLockArgs */
struct lock_arguments {
	unsigned int timeout_ms, reserved;
	uint64_t more[7];
};

/* CUuuid, CUcheckpointGpuPair, CUcheckpointRestoreArgs */
struct uuid {
	unsigned char bytes[16];
};

struct gpu_pair {
	struct uuid from, to;
};

struct restore_arguments {
	struct gpu_pair *pairs;
	unsigned int count;
	char reserved[52 - sizeof(struct gpu_pair *)];
	uint64_t more;
};

/* The same number as in vcudad (protocol/ipc/ledger.h). */
#define MOST_DEVICES 64

/* All give 0 for success. */
static struct {
	int (*init)(unsigned int flags);
	int (*device_count)(int *count);
	int (*device_uuid)(struct uuid *uuid, int device);
	int (*error_name)(int error, const char **name);
	int (*state)(int process, unsigned int *state);
	int (*lock)(int process, struct lock_arguments *arguments);
	int (*checkpoint)(int process, void *arguments);
	int (*restore)(int process, struct restore_arguments *arguments);
	int (*unlock)(int process, void *arguments);
} driver;

static bool find(void *library)
{
	*(void **)&driver.init = dlsym(library, "cuInit");
	*(void **)&driver.device_count = dlsym(library, "cuDeviceGetCount");
	*(void **)&driver.device_uuid = dlsym(library, "cuDeviceGetUuid_v2");
	*(void **)&driver.error_name = dlsym(library, "cuGetErrorName");
	*(void **)&driver.state = dlsym(library, "cuCheckpointProcessGetState");
	*(void **)&driver.lock = dlsym(library, "cuCheckpointProcessLock");
	*(void **)&driver.checkpoint = dlsym(library, "cuCheckpointProcessCheckpoint");
	*(void **)&driver.restore = dlsym(library, "cuCheckpointProcessRestore");
	*(void **)&driver.unlock = dlsym(library, "cuCheckpointProcessUnlock");
	return driver.init && driver.device_count && driver.device_uuid && driver.error_name && driver.state &&
	       driver.lock && driver.checkpoint && driver.restore && driver.unlock;
}

static const char *name_of(int error)
{
	const char *name;

	return driver.error_name(error, &name) ? "an unknown error" : name;
}

bool driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int error;

	/* A guest's library has the same name: its device belongs to another host. */
	if (!library || dlsym(library, "cuVcudaHost")) {
		vcuda_log("there is no driver of NVIDIA's here that could release memory");
		return false;
	}
	if (!find(library)) {
		vcuda_log("NVIDIA's driver is older than 570 and cannot release a process's memory");
		return false;
	}
	error = driver.init(0);
	if (error)
		vcuda_log("NVIDIA's driver does not start: %s", name_of(error));
	return !error;
}

/* True: no error. */
static bool check(pid_t process, const char *call, int error)
{
	if (error)
		vcuda_log("%s of process %d: %s", call, (int)process, name_of(error));
	return !error;
}

static bool get_state(pid_t process, unsigned int *state)
{
	return check(process, "cuCheckpointProcessGetState", driver.state(process, state));
}

static bool unlock(pid_t process)
{
	return check(process, "cuCheckpointProcessUnlock", driver.unlock(process, NULL));
}

bool driver_release(pid_t process)
{
	struct lock_arguments arguments = {.timeout_ms = LOCK_MS};
	unsigned int state;

	if (!get_state(process, &state))
		return false;
	if (state == CHECKPOINTED)
		return true;
	if (state == RUNNING && !check(process, "cuCheckpointProcessLock", driver.lock(process, &arguments)))
		return false;
	if (check(process, "cuCheckpointProcessCheckpoint", driver.checkpoint(process, NULL)))
		return true;
	unlock(process);
	return false;
}

static bool restore_with(pid_t process, struct restore_arguments *arguments)
{
	unsigned int state;

	if (!get_state(process, &state))
		return false;
	if (state == RUNNING)
		return true;
	if (state == CHECKPOINTED && !check(process, "cuCheckpointProcessRestore", driver.restore(process, arguments)))
		return false;
	return unlock(process);
}

bool driver_restore(pid_t process)
{
	return restore_with(process, NULL);
}

/*
 * The driver wants each device in the list, also those that stay (doc/reference/driver-behaviour.md). False: it does
 * not tell.
 */
static bool list_pairs(struct gpu_pair pairs[MOST_DEVICES], unsigned int count, unsigned int from, unsigned int to)
{
	struct uuid uuids[MOST_DEVICES];

	for (unsigned int i = 0; i < count; i++)
		if (driver.device_uuid(&uuids[i], (int)i))
			return false;
	for (unsigned int i = 0; i < count; i++)
		pairs[i] = (struct gpu_pair){uuids[i], uuids[i == from ? to : i == to ? from : i]};
	return true;
}

bool driver_move(pid_t process, unsigned int from, unsigned int to)
{
	struct gpu_pair pairs[MOST_DEVICES];
	struct restore_arguments arguments = {.pairs = pairs};
	int count = 0;

	if (driver.device_count(&count) || count <= 0 || count > MOST_DEVICES || from >= (unsigned int)count ||
	    to >= (unsigned int)count || !list_pairs(pairs, (unsigned int)count, from, to)) {
		vcuda_log("process %d cannot move from device %u to device %u: there are %d devices", (int)process,
			  from, to, count);
		return false;
	}
	arguments.count = (unsigned int)count;
	return restore_with(process, &arguments);
}

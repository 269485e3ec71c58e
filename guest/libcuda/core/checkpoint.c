/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuCheckpointProcess*(): a process of this guest is locked, gives its device memory back to the host, and gets it
 * again. The host does the steps (vcudad's gate of the process's worker). Semantics: CUDA's documentation of
 * checkpointing. The calls need no cuInit(). As NVIDIA's driver they answer CUDA_ERROR_OPERATING_SYSTEM for a process
 * that is not there.
 */
#include "core/checkpoint.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"
#include "core/request.h"
#include "guest/client/process.h"
#include "guest/client/restore.h"
#include "protocol/cuda-functions.h"

static CUresult result_of(int pid, int err)
{
	switch (-err) {
	case 0:
		return CUDA_SUCCESS;
	case EBADFD:
		return CUDA_ERROR_ILLEGAL_STATE;
	case ETIMEDOUT:
		return CUDA_ERROR_NOT_READY;
	case ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case EOPNOTSUPP:
		vcuda_log("process %d cannot be checkpointed: it shares memory with other processes, the host's "
			  "operator does not allow it, or the host or the guest's driver is older than this library",
			  pid);
		return CUDA_ERROR_NOT_SUPPORTED;
	case EPERM:
	case EACCES:
		vcuda_log("process %d is another user's: only root may hold it", pid);
		return CUDA_ERROR_OPERATING_SYSTEM;
	default:
		vcuda_log("cannot reach process %d: %s", pid, strerror(-err));
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

/* Numbers below 1 are no process's, and the host is not asked about them. */
static int process_open(struct client_process *process, int pid)
{
	return pid > 0 ? client_process_open(process, pid) : -ESRCH;
}

CUresult libcuda_checkpoint_step(int pid, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct client_process process;
	int err = process_open(&process, pid);

	if (err)
		return result_of(pid, err);
	err = client_process_step(&process, action, milliseconds);
	client_process_close(&process);
	return result_of(pid, err);
}

static bool is_zero(const void *bytes, size_t count)
{
	const char *byte = bytes;

	while (count && !*byte) {
		byte++;
		count--;
	}
	return !count;
}

static CUresult get_state(struct client_process *process, int pid)
{
	int err = process_open(process, pid);

	if (err)
		return result_of(pid, err);
	err = client_process_act(process, VCUDA_PROCESS_GET_STATE, 0);
	client_process_close(process);
	return result_of(pid, err);
}

CUresult libcuda_checkpoint_state(int pid, CUprocessState *state)
{
	struct client_process process;
	CUresult result = state ? get_state(&process, pid) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*state = (CUprocessState)(process.state & ~VCUDA_PROCESS_STEP);
	return result;
}

CUresult libcuda_checkpoint_thread(int pid, int *thread)
{
	struct client_process process;
	CUresult result = thread ? get_state(&process, pid) : CUDA_ERROR_INVALID_VALUE;
	pid_t found;

	if (result != CUDA_SUCCESS)
		return result;
	found = client_process_thread(&process);
	if (!found) {
		vcuda_log("process %d has no restore thread: it was not started with VCUDA_CHECKPOINT=detach, it is a "
			  "process of a VM, or its libcuda.so.1 is older",
			  pid);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*thread = found;
	return CUDA_SUCCESS;
}

/* The checks of all calls that take a step. */
static CUresult step(int pid, bool is_valid, enum vcuda_process_action action, uint32_t milliseconds)
{
	return is_valid ? libcuda_checkpoint_step(pid, action, milliseconds) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
	return libcuda_checkpoint_state(pid, state);
}

VCUDA_EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
	return libcuda_checkpoint_thread(pid, tid);
}

VCUDA_EXPORT CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
	bool is_valid = !args || (!args->reserved0 && is_zero(args->reserved1, sizeof(args->reserved1)));

	return step(pid, is_valid, VCUDA_PROCESS_LOCK, args ? args->timeoutMs : 0);
}

VCUDA_EXPORT CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
	return step(pid, !args || is_zero(args, sizeof(*args)), VCUDA_PROCESS_CHECKPOINT, 0);
}

VCUDA_EXPORT CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
	bool is_valid = !args || (is_zero(args->reserved, sizeof(args->reserved)) && !args->reserved1);

	if (is_valid && args && args->gpuPairsCount) {
		vcuda_log("cuCheckpointProcessRestore onto another GPU is not supported in a guest: the host's "
			  "operator moves a process (vcuda move)");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return step(pid, is_valid, VCUDA_PROCESS_RESTORE, 0);
}

VCUDA_EXPORT CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
	return step(pid, !args || is_zero(args, sizeof(*args)), VCUDA_PROCESS_UNLOCK, 0);
}

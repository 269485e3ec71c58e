/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of one process for another that is killed: its work is gone, and with it the events that it would have
 * recorded.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static CUstream make_stream(void)
{
	CUstream s;

	OK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
	return s;
}

static void never_end(void *unused)
{
	for (;;)
		pause();
}

static void child(int parent)
{
	CUipcEventHandle handle;
	CUstream s, idle;
	CUevent event;

	CHECK(read(parent, &handle, sizeof(handle)) == sizeof(handle));
	start();
	s = make_stream();
	idle = make_stream();
	OK(cuIpcOpenEventHandle(&event, handle));
	/* a completed record, then one that never completes */
	OK(cuEventRecordWithFlags(event, idle, 0));
	OK(cuEventSynchronize(event));
	OK(cuLaunchHostFunc(s, never_end, NULL));
	OK(cuEventRecordWithFlags(event, s, 0));
	CHECK(write(parent, "x", 1) == 1);
	pause();
}

static void parent(int other, pid_t pid)
{
	CUipcEventHandle handle;
	CUstream waits, idle;
	uint32_t value = 0;
	CUdeviceptr p;
	CUevent event;
	char c;

	start();
	waits = make_stream();
	idle = make_stream();
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuMemsetD32Async(p, 1, 1, idle));
	OK(cuStreamSynchronize(idle));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetEventHandle(&handle, event));
	CHECK(write(other, &handle, sizeof(handle)) == sizeof(handle));
	CHECK(read(other, &c, 1) == 1);
	OK(cuStreamWaitEvent(waits, event, 0));
	OK(cuMemsetD32Async(p, 2, 1, waits));
	usleep(50000);
	GIVES(cuStreamQuery(waits), CUDA_ERROR_NOT_READY);
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	/* a later record of ours counts by itself */
	OK(cuEventRecordWithFlags(event, idle, 0));
	OK(cuEventSynchronize(event));
	GIVES(cuStreamQuery(waits), CUDA_ERROR_NOT_READY);
	CHECK(kill(pid, SIGKILL) == 0);
	OK(cuStreamSynchronize(waits));
	OK(cuMemcpyDtoH_v2(&value, p, 4));
	CHECK(value == 2);
	/* and the event goes on */
	OK(cuEventRecordWithFlags(event, waits, 0));
	OK(cuStreamWaitEvent(idle, event, 0));
	OK(cuStreamSynchronize(idle));
	OK(cuEventQuery(event));
	OK(cuEventDestroy_v2(event));
}

int main(void)
{
	int end, status;
	pid_t pid;

	pid = fork_pair(&end);
	if (!pid)
		child(end);
	alarm(600);
	parent(end, pid);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	puts("ipc-killed: passed");
	return 0;
}

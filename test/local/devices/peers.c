/* SPDX-License-Identifier: Apache-2.0 */
/* Peer access, and memory of another process. */
#include "devices.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void peer_codes(void)
{
	CUcontext a, b, other;
	int yes;

	open_devices();
	a = devices[0].context;
	b = devices[1].context;
	for (int i = 0; i < device_count; i++)
		for (int j = 0; j < device_count; j++) {
			OK(cuDeviceCanAccessPeer(&yes, i, j));
			CHECK(yes == (i != j));
			if (i == j)
				GIVES(cuDeviceGetP2PAttribute(&yes, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, i, j),
				      CUDA_ERROR_INVALID_DEVICE);
			else
				OK(cuDeviceGetP2PAttribute(&yes, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, i, j));
			CHECK(yes == (i != j));
		}
	GIVES(cuDeviceGetP2PAttribute(&yes, (CUdevice_P2PAttribute)77, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetP2PAttribute(&yes, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 77),
	      CUDA_ERROR_INVALID_DEVICE);
	use(0);
	GIVES(cuCtxDisablePeerAccess(b), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	GIVES(cuCtxEnablePeerAccess(b, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxEnablePeerAccess(a, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	OK(cuCtxEnablePeerAccess(b, 0));
	GIVES(cuCtxEnablePeerAccess(b, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	/* Peer access has a direction. */
	use(1);
	GIVES(cuCtxDisablePeerAccess(a), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	use(0);
	OK(cuCtxDisablePeerAccess(b));
	GIVES(cuCtxDisablePeerAccess(b), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	/* Another context of the device is another peer. */
	OK(cuCtxCreate_v2(&other, 0, 1));
	use(0);
	OK(cuCtxEnablePeerAccess(other, 0));
	OK(cuCtxEnablePeerAccess(b, 0));
	OK(cuCtxDisablePeerAccess(other));
	GIVES(cuCtxEnablePeerAccess(b, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	OK(cuCtxDestroy_v2(other));
}

void peer_access(void)
{
	CUdeviceptr later;

	open_devices();
	for (int i = 0; i < device_count; i++)
		for (int j = 0; j < device_count; j++) {
			use(i);
			if (i != j)
				OK(cuCtxEnablePeerAccess(devices[j].context, 0));
		}
	for (int i = 0; i < device_count; i++) {
		/* Memory that is allocated later is open, too. */
		use(i);
		OK(cuMemAlloc_v2(&later, BYTES));
		for (int j = 0; j < device_count; j++) {
			use(i);
			reaches(j, devices[i].memory);
			reaches(j, later);
		}
	}
}

/* Without peer access a kernel faults. */
void peer_never(void)
{
	open_devices();
	use(0);
	reaches(0, devices[0].memory);
	faults(0, devices[1].memory);
}

void peer_ended(void)
{
	open_devices();
	use(0);
	OK(cuCtxEnablePeerAccess(devices[1].context, 0));
	use(1);
	reaches(0, devices[1].memory);
	use(0);
	OK(cuCtxDisablePeerAccess(devices[1].context));
	faults(0, devices[1].memory);
}

/* ---- two processes ---- */

/* The memory is of device 1. */
struct message {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void give(int socket)
{
	struct message m;
	CUevent event;
	char done;

	open_devices();
	use(1);
	fill(devices[1].memory, 40);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	OK(cuIpcGetMemHandle(&m.memory, devices[1].memory));
	OK(cuIpcGetEventHandle(&m.event, event));
	add(1, devices[1].memory, 1);
	OK(cuEventRecord(event, devices[1].stream));
	CHECK(write(socket, &m, sizeof(m)) == sizeof(m));
	CHECK(read(socket, &done, 1) == 1);
	OK(finish(1));
	expect(devices[1].memory, 44);
}

static void take(int socket)
{
	size_t before, after, total;
	struct message m;
	CUdeviceptr p;
	CUevent event;

	CHECK(read(socket, &m, sizeof(m)) == sizeof(m));
	open_devices();
	use(0);
	OK(cuMemGetInfo_v2(&before, &total));
	use(1);
	OK(cuIpcOpenMemHandle_v2(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuIpcOpenEventHandle(&event, m.event));
	CHECK(owner(p) == 1);
	OK(cuStreamWaitEvent(devices[1].stream, event, 0));
	add(1, p, 1);
	OK(finish(1));
	expect(p, 42);
	use(0);
	OK(cuMemGetInfo_v2(&after, &total));
	CHECK(before == after);
	use(1);
	OK(cuIpcCloseMemHandle(p));
	/* A device that reaches the memory's opens it as well. */
	use(0);
	OK(cuIpcOpenMemHandle_v2(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	add(0, p, 2);
	OK(finish(0));
	expect(p, 44);
	OK(cuIpcCloseMemHandle(p));
	CHECK(write(socket, "x", 1) == 1);
}

void sharing(void)
{
	int ends[2], status;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	child = fork();
	CHECK(child >= 0);
	close(ends[child ? 1 : 0]);
	if (!child) {
		take(ends[1]);
		exit(0);
	}
	give(ends[0]);
	CHECK(waitpid(child, &status, 0) == child && !status);
}

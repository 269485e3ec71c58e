/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls whose trace is known, then ends as the argument says: exit, thread, killed, fork, taken, asked, copied, interrupted.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

#define LAUNCHES 7
#define ASKED 40

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource);

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
			  ".visible .entry busy(.param .u64 p)\n{\n\tret;\n}\n";

static void calls(void)
{
	CUresult (*query)(CUstream);
	CUdeviceptr p = 0, unused = 0;
	CUfunction f;
	CUcontext c;
	CUmodule m;
	char name[64];
	void *params[] = {&unused}, *found;

	OK(cuInit(0));
	OK(cuDeviceGetName(name, sizeof(name), 0));
	OK(cuDevicePrimaryCtxRetain(&c, 0));
	OK(cuCtxSetCurrent(c));
	OK(cuModuleLoadData(&m, ptx));
	GIVES(cuModuleGetFunction(&f, m, "no\"such\n"), CUDA_ERROR_NOT_FOUND);
	/* A string that is not there does not end the program, since the call does not read it either. */
	GIVES(cuModuleGetFunction(&f, NULL, (const char *)16), CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleGetFunction(&f, m, "busy"));
	for (int i = 0; i < LAUNCHES; i++)
		OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemAlloc_v2(&p, 4096));
	GIVES(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
	/* As NVIDIA's runtime finds its functions. */
	OK(cuGetProcAddress_v2("cuStreamQuery", &found, 12000, 0, NULL));
	memcpy(&query, &found, sizeof(query));
	OK(query(NULL));
	GIVES(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_NOT_SUPPORTED);
}

/* Small copies to an idle device. */
static void copy(void)
{
	static char data[65536];
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, sizeof(data)));
	for (int i = 0; i < ASKED; i++)
		OK(cuMemcpyHtoD_v2(p, data, 4));
	OK(cuMemcpyDtoH_v2(data, p, 4));
	OK(cuMemcpyHtoD_v2(p, data, sizeof(data)));
}

static void end_here(int signal)
{
	(void)signal;
	exit(0);
}

/* Ends in a signal handler, sooner or later in the middle of a call. */
static void be_interrupted(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, 1 << 20));
	signal(SIGALRM, end_here);
	ualarm(100000, 0);
	for (;;)
		OK(cuMemsetD32Async(p, 1, 1 << 18, NULL));
}

static void ask(void)
{
	static const unsigned int modes[] = {CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD};
	CUfunction f, same;
	unsigned int flags;
	CUlibrary library;
	CUkernel kernel;
	int active, n, blocks;

	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "busy"));
	OK(cuKernelGetFunction(&f, kernel));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 40000));
	for (int i = 0; i < ASKED; i++) {
		if (i % (ASKED / 2) == 0)
			OK(cuDevicePrimaryCtxSetFlags_v2(0, modes[i / (ASKED / 2)]));
		OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
		GIVES(flags & CU_CTX_SCHED_MASK, modes[i / (ASKED / 2)]);
		GIVES(active, 1);
		OK(cuDevicePrimaryCtxGetState(0, NULL, NULL));
		OK(cuKernelGetFunction(&same, kernel));
		GIVES(same == f, 1);
		OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 64, 40000));
		GIVES(n, blocks);
		OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0));
	}
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 64, 65536));
	OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 32768, kernel, 0));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 64, 65536));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	GIVES(active, 0);
}

static void *leave(void *unused)
{
	int count;

	OK(cuDeviceGetCount(&count));
	exit(0);
}

static void in_child(void)
{
	int count;
	pid_t child = fork();

	if (!child) {
		GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
		exit(0);
	}
	printf("%d\n", (int)child);
	waitpid(child, NULL, 0);
}

/* As programs do that close what they did not open: the descriptor of `path` becomes standard output. */
static void take_descriptor(const char *path)
{
	char link[32], to[4096];
	int taken = 0;

	for (int fd = 3; fd < 4096; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, to, sizeof(to) - 1);
		if (n < 0)
			continue;
		to[n] = 0;
		if (!strcmp(to, path) && dup2(STDOUT_FILENO, fd) == fd)
			taken++;
	}
	if (taken != 1)
		_exit(2);
}

int main(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "exit";
	pthread_t thread;

	calls();
	if (!strcmp(end, "thread") && !pthread_create(&thread, NULL, leave, NULL))
		pthread_join(thread, NULL);
	if (!strcmp(end, "killed"))
		raise(SIGKILL);
	if (!strcmp(end, "interrupted"))
		be_interrupted();
	if (!strcmp(end, "copied"))
		copy();
	if (!strcmp(end, "asked"))
		ask();
	if (!strcmp(end, "fork"))
		in_child();
	if (!strcmp(end, "taken")) {
		take_descriptor(getenv("VCUDA_TRACE"));
		calls();
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that fork: before CUDA is used, which is as if they had not; after it, where the child has no CUDA, as with
 * a GPU next door, and the parent goes on; with other threads in the middle of their calls.
 */
#include "awkward.h"

#include <sys/wait.h>
#include <unistd.h>

#define FORKS 40
#define THREADS 3

static _Atomic bool stop;
static _Atomic unsigned int rounds;

static void use(void)
{
	CUdeviceptr p;
	unsigned int k = 5, n = 1;
	void *params[] = {&p, &k, &n};

	p = awkward_zeroed(4);
	OK(cuLaunchKernel(awkward_function("step"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	CHECK(awkward_read(p) == 1);
	OK(cuMemFree_v2(p));
}

static void begin(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&awkward_context, 0));
	OK(cuCtxSetCurrent(awkward_context));
	awkward_module = awkward_load();
	use();
}

static void wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	fprintf(stderr, "a forked child ended with status %#x\n", status);
	exit(1);
}

/* All is refused, and at once: the alarm ends a child that waits for a lock which its parent's thread had. */
static void no_cuda_here(CUstream s, void *pinned)
{
	CUdeviceptr p;
	CUcontext c;
	int count;

	alarm(600);
	GIVES(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuDevicePrimaryCtxRetain(&c, 0), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuMemAlloc_v2(&p, 4), CUDA_ERROR_NOT_INITIALIZED);
	CHECK(cuCtxSynchronize() != CUDA_SUCCESS);
	CHECK(cuStreamSynchronize(s) != CUDA_SUCCESS);
	CHECK(cuStreamDestroy_v2(s) != CUDA_SUCCESS);
	CHECK(cuMemFreeHost(pinned) != CUDA_SUCCESS);
	CHECK(cuLaunchHostFunc(s, NULL, NULL) != CUDA_SUCCESS);
	CHECK(cuLaunchKernel((CUfunction)s, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL) != CUDA_SUCCESS);
}

static void forks_before(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		begin();
		exit(0);
	}
	begin();
	wait_for(child);
	use();
}

static void forks_after(void)
{
	CUstream s = awkward_stream(CU_STREAM_DEFAULT);
	_Atomic uint32_t *words = awkward_pinned(4096);
	pid_t child;

	/* While a kernel runs, whose result only the parent has. */
	awkward_launch_answer(awkward_module, &words[0], (CUdeviceptr)(uintptr_t)&words[1], 5, s);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		no_cuda_here(s, (void *)(uintptr_t)words);
		exit(0); /* with all that runs at a program's end */
	}
	wait_for(child);
	words[0] = 1;
	OK(cuStreamSynchronize(s));
	CHECK(words[1] == 5);
	use();
}

static void *busy(void *unused)
{
	OK(cuCtxSetCurrent(awkward_context));
	while (!stop) {
		void *pinned = awkward_pinned(4096);

		use();
		OK(cuMemFreeHost(pinned));
		rounds++;
	}
	return unused;
}

static void forks_beside_threads(void)
{
	pthread_t threads[THREADS];
	CUstream s = awkward_stream(CU_STREAM_DEFAULT);
	void *pinned = awkward_pinned(4096);

	for (int i = 0; i < THREADS; i++)
		awkward_start(&threads[i], busy, NULL);
	for (int i = 0; i < FORKS; i++) {
		struct awkward_deadline deadline = awkward_deadline("threads stand still after a fork");
		unsigned int before = rounds;
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			no_cuda_here(s, pinned);
			_exit(0);
		}
		wait_for(child);
		while (rounds == before)
			awkward_pause(&deadline);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		awkward_join(threads[i]);
}

/* A fork that executes another program works: system() starts this one again. */
static void starts_a_program(void)
{
	char path[4096], command[4200];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	CHECK(n > 0);
	path[n] = 0;
	snprintf(command, sizeof(command), "'%s' list", path);
	CHECK(system(command) == 0);
}

void awkward_fork(void)
{
	forks_before();
	forks_after();
	forks_beside_threads();
	starts_a_program();
	use();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Much work at once: contexts with full queues, a long compilation, threads that leave, memory that both sides use. */
#include "awkward.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- a context for each thread ---- */

#define CONTEXTS 4
#define HELD 300  /* fewer than any driver queues before a launch waits */
#define FREE 6000 /* more than the ring holds */

struct context_thread {
	_Atomic uint32_t *mine, *others; /* the word that holds this context, and the next context's */
	uint32_t expected;
	pthread_barrier_t *barrier;
};

static void queue(CUfunction step, CUdeviceptr p, uint32_t *expected, unsigned int count, CUstream s, CUevent event)
{
	unsigned int k = 3, n = 64;
	void *params[] = {&p, &k, &n};

	for (unsigned int i = 0; i < count; i++) {
		switch (i % 4) {
		case 0:
			OK(cuEventRecord(event, s));
			break;
		case 1:
			OK(cuStreamWaitEvent(s, event, 0));
			break;
		case 2:
			OK(cuMemsetD32Async(p + 64 * 4, i, 64, s));
			break;
		default:
			OK(cuLaunchKernel(step, 1, 1, 1, 64, 1, 1, 0, s, params, NULL));
			*expected = *expected * 3 + 1;
		}
	}
}

/* Queues behind a kernel that waits until the thread before it has done the same; then much more. */
static void *with_context(void *argument)
{
	struct awkward_deadline deadline = awkward_deadline("the thread before this one cannot queue its work");
	struct context_thread *t = argument;
	uint32_t expected = 5;
	CUcontext context;
	CUfunction step;
	CUmodule module;
	CUdeviceptr p;
	CUevent event;
	CUstream s;

	OK(cuCtxCreate_v2(&context, 0, 0));
	module = awkward_load();
	OK(cuModuleGetFunction(&step, module, "step"));
	s = awkward_stream(CU_STREAM_NON_BLOCKING);
	p = awkward_zeroed(128 * 4);
	OK(cuEventCreate(&event, 0));
	pthread_barrier_wait(t->barrier);
	OK(cuMemsetD32Async(p, 0, 64, s));
	awkward_launch_answer(module, t->mine, p, 5, s);
	OK(cuMemsetD32Async(p, 5, 64, s));
	queue(step, p, &expected, HELD, s, event);
	*t->others = 1;
	while (!*t->mine)
		awkward_pause(&deadline);
	queue(step, p, &expected, FREE, s, event);
	OK(cuStreamSynchronize(s));
	CHECK(awkward_read(p) == expected && awkward_read(p + 63 * 4) == expected);
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(s));
	OK(cuCtxDestroy_v2(context));
	return NULL;
}

void awkward_contexts(void)
{
	_Atomic uint32_t *go = awkward_pinned(CONTEXTS * 64);
	struct context_thread all[CONTEXTS];
	pthread_t threads[CONTEXTS];
	pthread_barrier_t barrier;

	CHECK(!pthread_barrier_init(&barrier, NULL, CONTEXTS));
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		all[i] = (struct context_thread){
			.mine = go + 16 * i, .others = go + 16 * ((i + 1) % CONTEXTS), .barrier = &barrier};
		awkward_start(&threads[i], with_context, &all[i]);
	}
	for (unsigned int i = 0; i < CONTEXTS; i++)
		awkward_join(threads[i]);
}

/* Queues without a limit behind a kernel that only the main thread ends, once it is done. */
static void *full_queue(void *argument)
{
	struct context_thread *t = argument;
	uint32_t expected = 5;
	CUcontext context;
	CUfunction step;
	CUmodule module;
	CUdeviceptr p;
	CUevent event;
	CUstream s;

	OK(cuCtxCreate_v2(&context, 0, 0));
	module = awkward_load();
	OK(cuModuleGetFunction(&step, module, "step"));
	s = awkward_stream(CU_STREAM_NON_BLOCKING);
	p = awkward_zeroed(128 * 4);
	OK(cuEventCreate(&event, 0));
	pthread_barrier_wait(t->barrier);
	awkward_launch_answer(module, t->mine, p, 5, s);
	OK(cuMemsetD32Async(p, 5, 64, s));
	queue(step, p, &expected, FREE, s, event);
	OK(cuStreamSynchronize(s));
	CHECK(awkward_read(p) == expected && awkward_read(p + 63 * 4) == expected);
	OK(cuCtxDestroy_v2(context));
	return NULL;
}

/* A full queue of one context holds up its own thread only: the main thread works and ends the others' wait. */
void awkward_queues(void)
{
	_Atomic uint32_t *go = awkward_pinned(64);
	struct context_thread all[CONTEXTS];
	pthread_t threads[CONTEXTS];
	pthread_barrier_t barrier;
	CUdeviceptr p = awkward_zeroed(128 * 4);
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING);
	uint32_t expected = 0;
	CUevent event;

	OK(cuEventCreate(&event, 0));
	CHECK(!pthread_barrier_init(&barrier, NULL, CONTEXTS + 1));
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		all[i] = (struct context_thread){.mine = go, .barrier = &barrier};
		awkward_start(&threads[i], full_queue, &all[i]);
	}
	pthread_barrier_wait(&barrier);
	usleep(100000);
	for (int i = 0; i < 20; i++) {
		queue(awkward_function("step"), p, &expected, 100, s, event);
		OK(cuStreamSynchronize(s));
	}
	CHECK(awkward_read(p) == expected);
	*go = 1;
	for (unsigned int i = 0; i < CONTEXTS; i++)
		awkward_join(threads[i]);
}

/* ---- a compilation that takes long ---- */

static struct {
	_Atomic unsigned int rounds; /* launches that were waited for */
	_Atomic bool stop;
} small;

static void *small_launches(void *unused)
{
	CUstream s;
	CUdeviceptr p;
	unsigned int k = 1, n = 1;
	void *params[] = {&p, &k, &n};
	CUfunction step;

	OK(cuCtxSetCurrent(awkward_context));
	step = awkward_function("step");
	s = awkward_stream(CU_STREAM_NON_BLOCKING);
	p = awkward_zeroed(4);
	while (!small.stop) {
		OK(cuLaunchKernel(step, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
		OK(cuStreamSynchronize(s));
		small.rounds++;
	}
	CHECK(awkward_read(p) == small.rounds);
	return unused;
}

/* *p = the result of `lines` steps from 1; the text is new, so that no cache has it. */
static char *long_kernel(unsigned int lines, unsigned int *expected)
{
	unsigned int salt = (unsigned int)getpid() * 2654435761u ^ (unsigned int)time(NULL), x = 1;
	char *text;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f);
	fprintf(f, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
		   ".reg .b32 %%r<4>; .reg .b64 %%rd<2>;\nld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%ntid.x;\n");
	for (unsigned int i = 0; i < lines; i++) {
		unsigned int factor = salt | 1, shift = i % 13 + 3;

		salt = salt * 1664525 + 1013904223;
		fprintf(f, "mad.lo.u32 %%r1, %%r1, %u, %u;\nshr.u32 %%r2, %%r1, %u;\nxor.b32 %%r1, %%r1, %%r2;\n",
			factor, salt >> 8, shift);
		x = x * factor + (salt >> 8);
		x ^= x >> shift;
	}
	fprintf(f, "st.u32 [%%rd1], %%r1;\nret;\n}\n");
	CHECK(!fclose(f));
	*expected = x;
	return text;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define LINES 12000 /* take half a second at least */

/*
 * The other thread must only have done a little meanwhile, as machines have other work; a thread that is held up does
 * none.
 */
void awkward_compile(void)
{
	CUdeviceptr p = awkward_zeroed(4);
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING);
	double all = 0;
	pthread_t thread;

	awkward_start(&thread, small_launches, NULL);
	while (!small.rounds)
		usleep(1000);
	while (all < 2) {
		unsigned int expected, rounds;
		char *text = long_kernel(LINES, &expected);
		void *params[] = {&p};
		double took, start;
		CUmodule module;
		CUfunction f;

		start = seconds();
		rounds = small.rounds;
		OK(cuModuleLoadData(&module, text));
		OK(cuModuleGetFunction(&f, module, "k"));
		OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
		rounds = small.rounds - rounds;
		took = seconds() - start;
		OK(cuStreamSynchronize(s));
		CHECK(awkward_read(p) == expected);
		printf("compiled for %.2f s: %u rounds of the other thread\n", took, rounds);
		/*
		 * A thread that has to wait for the compiler comes round once. On an H100 beside three other tests it
		 * was 7 times.
		 */
		CHECK(took < 0.1 || rounds >= 3);
		all += took;
		OK(cuModuleUnload(module));
		free(text);
	}
	small.stop = true;
	awkward_join(thread);
}

/* ---- a list in pinned memory ---- */

#define NODES 3000

/* Memory of the program's own that is made known to the GPU, as it is. */
static void *registered(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	OK(cuMemHostRegister_v2(p, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
	return p;
}

static uint32_t sum_of(struct awkward_node *head, uint32_t *to)
{
	void *params[] = {&head, &to};

	*to = 0;
	OK(cuLaunchKernel(awkward_function("sum"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	return *to;
}

/* The nodes lie in two pieces of memory, by turns, and no pointer is translated for the GPU. */
void awkward_list(void)
{
	struct awkward_node *pieces[] = {awkward_pinned(NODES * sizeof(struct awkward_node)),
					 registered(NODES * sizeof(struct awkward_node))};
	struct awkward_node *head = NULL, **tail = &head;
	uint32_t *to = awkward_pinned(4), expected = 0;

	for (uint32_t i = 0; i < NODES; i++) {
		struct awkward_node *node = &pieces[i % 2][i * 7 % NODES];

		node->value = i * i;
		expected += node->value;
		*tail = node;
		tail = &node->next;
	}
	*tail = NULL;
	CHECK(sum_of(head, to) == expected);
	/* Changed in place, by the host alone. */
	for (struct awkward_node *node = head; node; node = node->next)
		node->value++;
	CHECK(sum_of(head, to) == expected + NODES);
	CHECK(sum_of(head->next, to) == expected + NODES - head->value);
	OK(cuMemHostUnregister(pieces[1]));
	OK(cuMemFreeHost(pieces[0]));
}

/* ---- threads that leave with work queued ---- */

#define THREADS 300 /* more than have a number of their own */

static void *leave(void *argument)
{
	uintptr_t number = (uintptr_t)argument;
	CUdeviceptr p = (CUdeviceptr)number;
	unsigned int k = 2, n = 64;
	void *params[] = {&p, &k, &n};
	CUstream s;

	OK(cuCtxSetCurrent(awkward_context));
	s = awkward_stream(CU_STREAM_DEFAULT);
	for (int i = 0; i < 3; i++) {
		OK(cuLaunchKernel(awkward_function("step"), 1, 1, 1, 64, 1, 1, 0, s, params, NULL));
		p += 64 * 4;
		OK(cuLaunchKernel_ptsz(awkward_function("step"), 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
		p -= 64 * 4;
	}
	OK(cuStreamDestroy_v2(s));
	return NULL;
}

/* One thread after the other: on a stream that it destroys, and on its default stream, which ends with it. */
void awkward_threads(void)
{
	CUdeviceptr all = awkward_zeroed(THREADS * 128 * 4);
	static uint32_t values[THREADS * 128];

	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_t thread;

		awkward_start(&thread, leave, (void *)(uintptr_t)(all + i * 128 * 4));
		awkward_join(thread);
	}
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(values, all, sizeof(values)));
	for (unsigned int i = 0; i < THREADS * 128; i++)
		CHECK(values[i] == 7);
}

/* ---- what the environment says ---- */

/* With CUDA_LAUNCH_BLOCKING=1: a launch returns after its kernel, and with the kernel's error. */
void awkward_blocking(void)
{
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING);
	_Atomic uint32_t *words = awkward_pinned(64);
	pthread_t thread;

	for (unsigned int i = 0; i < 3; i++) {
		words[0] = 0;
		awkward_later(&thread, &words[0]);
		awkward_launch_answer(awkward_module, &words[0], (CUdeviceptr)(uintptr_t)&words[1], 5, s);
		CHECK(words[1] == 5 * (i + 1));
		awkward_join(thread);
	}
	GIVES(cuLaunchKernel(awkward_function("wild"), 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Prints what CUDA_VISIBLE_DEVICES and CUDA_MODULE_LOADING come to. */
void awkward_devices(void)
{
	CUmoduleLoadingMode mode;
	CUresult result = cuInit(0);
	int count = -1;

	if (result == CUDA_SUCCESS) {
		OK(cuDeviceGetCount(&count));
		OK(cuModuleGetLoadingMode(&mode));
		OK(cuDevicePrimaryCtxRetain(&awkward_context, 0));
		OK(cuCtxSetCurrent(awkward_context));
		awkward_module = awkward_load();
		CHECK(cuDeviceGet(&(CUdevice){0}, count) == CUDA_ERROR_INVALID_DEVICE);
		printf("%d devices, %s\n", count, mode == CU_MODULE_EAGER_LOADING ? "eager" : "lazy");
	} else {
		GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
		printf("cuInit: %d\n", result);
	}
}

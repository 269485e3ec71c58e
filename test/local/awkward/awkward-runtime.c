/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of awkward.c for programs of the runtime. usage: awkward-runtime CASE [ARGUMENT...] */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/cuda-runtime-abi.h"
#include "test/local/image.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

/* clang-format off */
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **fatbin);
void __cudaUnregisterFatBinary(void **fatbin);
void __cudaRegisterFunction(void **fatbin, const char *host, char *device, const char *name, int limit, void *thread,
			    void *block, void *block_size, void *grid_size, int *warp);
cudaError_t cudaGetLastError(void);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t bytes);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaHostUnregister(void *p);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t at, enum cudaMemcpyKind kind);
cudaError_t cudaGetSymbolAddress(void **p, const void *symbol);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int size, size_t shared);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
				  cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *user);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
/* clang-format on */

IMAGE(image, ".version 6.0\n.target sm_30\n.address_size 64\n"
	     ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	     ".global .align 1 .b8 text[11] = {118, 97, 108, 117, 101, 32, 37, 100, 10, 0};\n" /* "value %d\n" */
	     ".visible .entry print(.param .u32 v) {\n"
	     "  .local .align 8 .b8 depot[8]; .reg .u32 %r<3>; .reg .u64 %d<5>;\n"
	     "  mov.u64 %d1, depot; cvta.local.u64 %d2, %d1;\n"
	     "  ld.param.u32 %r1, [v]; st.local.u32 [%d1], %r1;\n"
	     "  mov.u64 %d3, text; cvta.global.u64 %d4, %d3;\n"
	     "  { .param .b64 p0; st.param.b64 [p0], %d4; .param .b64 p1; st.param.b64 [p1], %d2; .param .b32 q;\n"
	     "    call.uni (q), vprintf, (p0, p1); ld.param.b32 %r2, [q]; }\n"
	     "  ret;\n}\n"
	     /* waits until *go is not 0, then *to += v */
	     ".visible .entry answer(.param .u64 go, .param .u64 to, .param .u32 v) {\n"
	     "  .reg .pred %p; .reg .u32 %r<3>; .reg .u64 %d<3>;\n"
	     "  ld.param.u64 %d1, [go]; ld.param.u64 %d2, [to]; ld.param.u32 %r1, [v];\n"
	     "AGAIN:\n"
	     "  ld.volatile.u32 %r2, [%d1]; setp.eq.u32 %p, %r2, 0;\n"
	     "  @%p bra AGAIN;\n"
	     "  ld.volatile.u32 %r2, [%d2]; add.u32 %r2, %r2, %r1; st.volatile.u32 [%d2], %r2;\n"
	     "  ret;\n}\n"
	     ".visible .entry wild() {\n"
	     "  .reg .u64 %d;\n"
	     "  mov.u64 %d, 0x123456789000; st.global.u64 [%d], %d;\n"
	     "  ret;\n}\n");

static const dim3 one = {1, 1, 1};
static char print, answer, wild, missing;

static void register_kernels(void)
{
	void **fatbin = __cudaRegisterFatBinary(&image_wrapper);

	__cudaRegisterFunction(fatbin, &print, "print", "print", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(fatbin, &answer, "answer", "answer", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(fatbin, &wild, "wild", "wild", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fatbin);
}

static void *zeroed(size_t bytes)
{
	void *p;

	OK(cudaMalloc(&p, bytes));
	OK(cudaMemset(p, 0, bytes));
	OK(cudaDeviceSynchronize());
	return p;
}

static void *pinned(size_t bytes)
{
	void *p;

	OK(cudaMallocHost(&p, bytes));
	memset(p, 0, bytes);
	return p;
}

static void *set_later(void *go)
{
	usleep(50000);
	*(_Atomic uint32_t *)go = 1;
	return NULL;
}

/* ---- cases ---- */

/* A wait for a stream or an event writes the output of its kernels: the program's own lines follow it. */
static void printed(void)
{
	cudaStream_t streams[2];
	uint32_t value = 0;
	void *args[] = {&value};
	cudaEvent_t event;

	OK(cudaStreamCreate(&streams[0]));
	OK(cudaStreamCreateWithFlags(&streams[1], 1));
	OK(cudaEventCreate(&event));
	for (int i = 0; i < 20; i++) {
		cudaStream_t s = streams[i % 2];

		value++;
		OK(cudaLaunchKernel(&print, one, one, args, 0, s));
		if (i % 4 < 2) {
			OK(cudaStreamSynchronize(s));
		} else {
			OK(cudaEventRecord(event, s));
			OK(cudaEventSynchronize(event));
		}
		printf("after %u\n", value);
	}
	value++;
	OK(cudaLaunchKernel_ptsz(&print, one, one, args, 0, NULL));
	OK(cudaStreamSynchronize_ptsz(NULL));
	printf("after %u\n", value);
}

static void launch_print(uint32_t value)
{
	void *args[] = {&value};

	OK(cudaLaunchKernel(&print, one, one, args, 0, NULL));
}

static void *waits_for_all(void *unused)
{
	OK(cudaDeviceSynchronize());
	return unused;
}

/* The next write to the pipe blocks. */
static void fill_pipe(int fd)
{
	char dots[4096];
	int flags = fcntl(fd, F_GETFL);

	memset(dots, '.', sizeof(dots));
	CHECK(!fcntl(fd, F_SETFL, flags | O_NONBLOCK));
	while (write(fd, dots, sizeof(dots)) > 0 || write(fd, dots, 1) > 0)
		continue;
	CHECK(!fcntl(fd, F_SETFL, flags));
}

/* Launches a kernel that prints, and has a thread fetch the text, which it cannot write: standard output is full. */
static pthread_t begin_blocked_text(void)
{
	pthread_t thread;

	fill_pipe(STDOUT_FILENO);
	launch_print(7);
	CHECK(!pthread_create(&thread, NULL, waits_for_all, NULL));
	sleep(1);
	return thread;
}

static _Atomic bool drains;

static void *drain_later(void *fd)
{
	char text[4096] = "";
	ssize_t bytes;

	usleep(300000);
	atomic_store(&drains, true);
	do
		bytes = read(*(int *)fd, text, sizeof(text));
	while (bytes > 0 && text[bytes - 1] != '\n');
	CHECK(bytes > 0);
	return NULL;
}

/* A wait returns when the text has been written, whichever thread writes it. */
static void printed_beside(void)
{
	int ends[2], output = dup(STDOUT_FILENO);
	pthread_t fetches, reader;

	launch_print(1);
	OK(cudaDeviceSynchronize());
	CHECK(!pipe(ends) && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
	fetches = begin_blocked_text();
	CHECK(!pthread_create(&reader, NULL, drain_later, &ends[0]));
	OK(cudaStreamSynchronize(NULL));
	CHECK(atomic_load(&drains));
	CHECK(!pthread_join(fetches, NULL) && !pthread_join(reader, NULL));
	CHECK(dup2(output, STDOUT_FILENO) == STDOUT_FILENO);
}

/* A thread that waits while it holds stdout goes on, although another one has text to write there. */
static void printed_held(void)
{
	pthread_t fetches;

	launch_print(1);
	OK(cudaDeviceSynchronize());
	flockfile(stdout);
	launch_print(7);
	CHECK(!pthread_create(&fetches, NULL, waits_for_all, NULL));
	sleep(1);
	OK(cudaStreamSynchronize(NULL));
	funlockfile(stdout);
	CHECK(!pthread_join(fetches, NULL));
}

/* The first call that gets a kernel's fault brings text of the kernels before it, also a call that waits for nothing. */
static void printed_fault(void)
{
	void *p;

	launch_print(1);
	OK(cudaLaunchKernel(&wild, one, one, NULL, 0, NULL));
	while (cudaMalloc(&p, 64) == cudaSuccess)
		usleep(1000);
	printf("after the fault\n");
	GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

/* A poller without any other call gets the error. */
static void polled(void)
{
	cudaStream_t s;
	cudaEvent_t e;
	int error;

	OK(cudaStreamCreate(&s));
	OK(cudaEventCreate(&e));
	OK(cudaLaunchKernel(&wild, one, one, NULL, 0, s));
	cudaEventRecord(e, s);
	for (int i = 0; (error = cudaEventQuery(e)) == cudaErrorNotReady && i < 600000; i++)
		usleep(100);
	for (int i = 0; (error == 0 || error == cudaErrorNotReady) && i < 600000; i++)
		error = cudaStreamQuery(s);
	GIVES(error, cudaErrorIllegalAddress);
	GIVES(cudaGetLastError(), cudaErrorIllegalAddress);
	GIVES(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	GIVES(cudaMalloc((void **)&s, 4), cudaErrorIllegalAddress);
}

/* The stream of a thread, that of all threads, and a small copy in each. */
static void defaults(void)
{
	_Atomic uint32_t *go = pinned(64);
	uint32_t *p = zeroed(8), *q = zeroed(4), seven = 7, value = 0;
	void *args[] = {&go, &p, &seven};
	cudaStream_t other;
	pthread_t thread;

	go[0] = 1;
	OK(cudaLaunchKernel_ptsz(&answer, one, one, args, 0, NULL)); /* loads the kernel */
	OK(cudaMemcpy_ptds(&value, p, 4, cudaMemcpyDeviceToHost));
	CHECK(value == 7);
	go[0] = 0;
	OK(cudaStreamCreateWithFlags(&other, 1));
	OK(cudaLaunchKernel(&answer, one, one, args, 0, other));
	/* Neither waits for a stream that does not block. */
	value = 5;
	OK(cudaMemcpy_ptds(q, &value, 4, cudaMemcpyHostToDevice));
	value = 0;
	OK(cudaMemcpy(&value, q, 4, cudaMemcpyDeviceToHost));
	CHECK(value == 5);
	OK(cudaStreamSynchronize(NULL));
	OK(cudaStreamQuery_ptsz(NULL));
	GIVES(cudaStreamQuery(other), cudaErrorNotReady);
	go[0] = 1;
	OK(cudaStreamSynchronize(other));
	/* A thread's own stream blocks, and is blocked. */
	go[0] = 0;
	OK(cudaLaunchKernel_ptsz(&answer, one, one, args, 0, NULL));
	GIVES(cudaStreamQuery_ptsz(NULL), cudaErrorNotReady);
	CHECK(!pthread_create(&thread, NULL, set_later, (void *)(uintptr_t)go));
	OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
	CHECK(value == 21 && go[0]);
	CHECK(!pthread_join(thread, NULL));
	cudaGetLastError();
}

/* Libraries with kernels, opened and closed, often at the same address. */
static void plugins(int count, char **paths)
{
	CHECK(count > 0);
	for (int i = 0; i < 12; i++) {
		void *library = dlopen(paths[i % count], RTLD_NOW);
		int (*run)(unsigned int, unsigned int), factor = i % count + 2;
		void *symbol;

		if (!library)
			fprintf(stderr, "%s\n", dlerror());
		CHECK(library);
		symbol = dlsym(library, "awkward_plugin");
		memcpy(&run, &symbol, sizeof(run));
		/* Every second time it is closed before it was ever used. */
		if (i % 4 < 3)
			CHECK(run(10, 1000 + i) == 10 * factor + 1000 + i);
		CHECK(!dlclose(library));
	}
	OK(cudaDeviceSynchronize());
}

/* Unregistered, freed, made up or NULL: an error, and the next call is none the worse. */
static void handles(void)
{
	static uint64_t memory[16];
	void *bad[] = {(void *)0x777777, memory, &print, NULL, NULL};
	struct cudaFuncAttributes attributes;
	uint32_t value = 0, *p = zeroed(4);
	cudaStream_t ended;
	int blocks;
	float ms;

	OK(cudaStreamCreate(&ended));
	OK(cudaStreamDestroy(ended));
	bad[3] = ended;
	for (int i = 0; i < 4; i++) {
		CHECK(cudaStreamSynchronize(bad[i]));
		CHECK(cudaStreamQuery(bad[i]));
		CHECK(cudaStreamDestroy(bad[i]));
		CHECK(cudaLaunchHostFunc(bad[i], (void (*)(void *))(void *)handles, NULL));
		CHECK(cudaMemcpyAsync(&value, p, 4, cudaMemcpyDeviceToHost, bad[i]));
		CHECK(cudaEventRecord(bad[i], NULL));
		CHECK(cudaStreamWaitEvent(NULL, bad[i], 0));
	}
	for (int i = 0; i < 5; i++) {
		CHECK(cudaEventQuery(bad[i]));
		CHECK(cudaEventSynchronize(bad[i]));
		CHECK(cudaEventDestroy(bad[i]));
		CHECK(cudaEventElapsedTime(&ms, bad[i], bad[i]));
		CHECK(cudaGraphLaunch(bad[i], NULL));
		CHECK(cudaGraphDestroy(bad[i]));
		CHECK(cudaHostUnregister(bad[i]));
		CHECK(cudaGetSymbolAddress((void **)memory, bad[i]));
		CHECK(cudaMemcpyToSymbol(bad[i], &value, 4, 0, cudaMemcpyHostToDevice));
		CHECK(!bad[i] || cudaFree(bad[i]));
		CHECK(!bad[i] || cudaFreeHost(bad[i]));
		if (bad[i] == &print)
			continue;
		CHECK(cudaLaunchKernel(bad[i], one, one, NULL, 0, NULL));
		CHECK(cudaFuncGetAttributes(&attributes, bad[i]));
		CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, bad[i], 32, 0));
	}
	CHECK(cudaLaunchKernel(&missing, one, one, NULL, 0, NULL));
	CHECK(cudaMalloc(NULL, 4));
	CHECK(cudaMemcpy(NULL, NULL, 4, cudaMemcpyDefault));
	CHECK(cudaMemcpy(&value, p, 4, (enum cudaMemcpyKind)77));
	CHECK(cudaSetDevice(-1) && cudaSetDevice(1000));
	OK(cudaFree(NULL));
	OK(cudaFreeHost(NULL));
	OK(cudaFree(p));
	CHECK(cudaFree(p));
	CHECK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
	cudaGetLastError();
	OK(cudaDeviceSynchronize());
}

/* ---- calls while the program ends ---- */

static bool at_the_end;
static cudaStream_t last_stream;
static void *last_memory;

/* The library may say that it is gone; nothing else, and it does not crash. */
static void still(int error, const char *call)
{
	if (!error || error == cudaErrorCudartUnloading)
		return;
	fprintf(stderr, "%s at the end gave %d\n", call, error);
	_exit(1);
}

#define STILL(call) still(call, #call)

static void use_at_the_end(void)
{
	uint32_t value = 0;
	void *args[] = {&value};

	STILL(cudaMemcpy(&value, last_memory, 4, cudaMemcpyDeviceToHost));
	STILL(cudaLaunchKernel(&print, one, one, args, 0, last_stream));
	STILL(cudaStreamSynchronize(last_stream));
	STILL(cudaMemset(last_memory, 1, 4));
}

static void first_handler(void)
{
	use_at_the_end();
}

static void last_handler(void)
{
	use_at_the_end();
	STILL(cudaStreamDestroy(last_stream));
	STILL(cudaFree(last_memory));
	STILL(cudaDeviceSynchronize());
	printf("the last handler\n");
}

__attribute__((destructor)) static void destroy(void)
{
	void *p;

	if (!at_the_end)
		return;
	STILL(cudaMalloc(&p, 4096));
	STILL(cudaFree(p));
	STILL(cudaDeviceSynchronize());
	printf("the end\n");
}

/* Goes on while the others end. */
static void *endless(void *unused)
{
	void *memory = zeroed(4096);

	for (;;) {
		cudaMemset(memory, 1, 4096);
		cudaDeviceSynchronize();
	}
	return unused;
}

static void *of_a_thread(void *unused)
{
	uint32_t value;

	OK(cudaMemcpy(&value, last_memory, 4, cudaMemcpyDeviceToHost));
	return unused;
}

static void thread_ends(void *unused)
{
	(void)unused;
	use_at_the_end();
}

static void *with_destructor(void *key)
{
	CHECK(!pthread_setspecific(*(pthread_key_t *)key, key));
	return of_a_thread(NULL);
}

static void ends(void)
{
	uint32_t value = 1;
	void *args[] = {&value};
	pthread_key_t key;
	pthread_t thread;

	CHECK(!pthread_key_create(&key, thread_ends));
	atexit(last_handler); /* before anything of CUDA, so that it runs after what CUDA registers */
	OK(cudaStreamCreate(&last_stream));
	last_memory = zeroed(4096);
	CHECK(!pthread_create(&thread, NULL, with_destructor, &key));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!pthread_create(&thread, NULL, endless, NULL));
	atexit(first_handler);
	for (int i = 0; i < 100; i++)
		OK(cudaLaunchKernel(&print, one, one, args, 0, last_stream));
	at_the_end = true;
}

/* Prints on and on, while the program ends. */
static void *prints(void *printed)
{
	for (uint32_t value = 1;; value++) {
		void *args[] = {&value};

		cudaLaunchKernel(&print, one, one, args, 0, NULL);
		cudaDeviceSynchronize();
		atomic_store((_Atomic uint32_t *)printed, value);
	}
	return NULL;
}

static void ends_printing(void)
{
	static _Atomic uint32_t printed;
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, prints, &printed));
	while (atomic_load(&printed) < 50)
		usleep(100);
}

/*
 * Ends, or has a child that ends, while a thread writes a kernel's text to a full pipe. The reader reads on after the
 * line on standard error.
 */
static void ends_blocked(bool in_child)
{
	pid_t child;

	launch_print(1);
	OK(cudaDeviceSynchronize());
	begin_blocked_text();
	fprintf(stderr, "the pipe is full\n");
	if (!in_child)
		return;
	child = fork();
	CHECK(child >= 0);
	if (!child)
		exit(0);
	CHECK(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	register_kernels();
	if (!strcmp(name, "printed"))
		printed();
	else if (!strcmp(name, "printed-beside"))
		printed_beside();
	else if (!strcmp(name, "printed-held"))
		printed_held();
	else if (!strcmp(name, "printed-fault"))
		printed_fault();
	else if (!strcmp(name, "polled"))
		polled();
	else if (!strcmp(name, "defaults"))
		defaults();
	else if (!strcmp(name, "plugins"))
		plugins(argc - 2, argv + 2);
	else if (!strcmp(name, "handles"))
		handles();
	else if (!strcmp(name, "ends"))
		ends();
	else if (!strcmp(name, "ends-printing"))
		ends_printing();
	else if (!strcmp(name, "ends-blocked"))
		ends_blocked(false);
	else if (!strcmp(name, "ends-blocked-child"))
		ends_blocked(true);
	else
		return 2;
	if (strncmp(name, "ends", 4))
		printf("%s: passed\n", name);
	return 0;
}

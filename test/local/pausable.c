/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that verifies all that it computes, in many ways, for tests that pause it: device, pinned, registered and
 * managed memory, two streams with events, a graph, a host function, a second context, a module now and then. Prints
 * "ready" after the first round; prints its number of rounds for each SIGUSR1; ends with SIGTERM. With "waits" it has
 * the device wait for it until SIGTERM, with "copies" it makes nothing but copies to the device, with "shares" other
 * processes may open some of its memory. With "grows" it allocates and writes so many MiB more when it gets SIGUSR2,
 * and prints the result of the allocation. With "writes" a thread of it writes to pinned and managed memory all the
 * time, it registers parts of pages, and it forks. With "adopts" it registers memory of a file, with "listens" too, and
 * a function for the log that makes a CUDA call, with "stack" it registers a part of its stack. With "replaces" it puts
 * other memory in the place of registered memory when it gets SIGUSR2, and makes no CUDA call before its end. With
 * "clones" a child of which the C library knows nothing has its descriptors. With "signals" a thread of it takes
 * SIGRTMAX - 1, and SIGUSR2 asks how often. With "hides" it gives its restore thread another name when it gets SIGUSR2,
 * and the right one with the next. With "fills" it opens as many files as it may when it gets SIGUSR2, and prints
 * "full". With "functions" threads of it launch host functions all the time. With SIGHUP it rests between two rounds,
 * until the next SIGHUP; a tab is behind its answer to SIGUSR1 then. With "named" its first thread has the restore
 * thread's name. Exit status 0: every result was right; 2: a wrong result; 3: a CUDA error.
 *
 * usage: pausable [waits|copies|shares|writes|adopts|listens|stack|replaces|clones|signals|hides|fills|functions|named]
 *        pausable grows MIB
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pausable.h"
#include "protocol/cuda-functions.h"
#include "test/local/cuda-error.h"

#define COUNT 16384u
#define BYTES (COUNT * sizeof(uint32_t))

/* Memory that the program writes in the beginning and reads in the end. */
#define BALLAST_BYTES (48u << 20)
#define BALLAST_VALUE 0x5eed1234u

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry add(.param .u64 data, .param .u32 what)\n{\n"
	".reg .b32 %r<7>;\n.reg .b64 %rd<5>;\n"
	"ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [what];\n"
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"cvta.to.global.u64 %rd2, %rd1;\nmul.wide.u32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"
	"ld.global.u32 %r6, [%rd4];\nadd.s32 %r6, %r6, %r1;\nst.global.u32 [%rd4], %r6;\nret;\n}\n";

static volatile sig_atomic_t stop, rounds, must_grow, rests, is_resting;

static void verify(const uint32_t *data, uint32_t first, const char *what)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		if (data[i] == first + i)
			continue;
		printf("round %d, %s: element %u is %u, not %u\n", (int)rounds, what, i, data[i], first + i);
		exit(2);
	}
}

static void fill(uint32_t *data, uint32_t first)
{
	for (uint32_t i = 0; i < COUNT; i++)
		data[i] = first + i;
}

struct side {
	CUcontext context;
	CUmodule module;
	CUfunction add;
	CUdeviceptr data;
	CUstream streams[2];
	CUevent event;
};

static void launch(const struct side *side, CUdeviceptr data, uint32_t what, CUstream stream)
{
	void *params[] = {&data, &what};

	OK(cuLaunchKernel(side->add, COUNT / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

static void load(struct side *side)
{
	OK(cuModuleLoadData(&side->module, ptx));
	OK(cuModuleGetFunction(&side->add, side->module, "add"));
}

static void begin(struct side *side)
{
	OK(cuCtxSetCurrent(side->context));
	load(side);
	OK(cuMemAlloc_v2(&side->data, BYTES));
	for (int i = 0; i < 2; i++)
		OK(cuStreamCreate(&side->streams[i], CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&side->event, CU_EVENT_DISABLE_TIMING));
}

static struct side first, second;
static uint32_t *pageable, *pinned, *registered;
static CUdeviceptr managed, ballast;
static CUgraphExec graph;

/* The graph adds 3 to the first side's data. */
static void make_graph(void)
{
	CUDA_KERNEL_NODE_PARAMS node = {0};
	uint32_t what = 3;
	void *params[] = {&first.data, &what};
	CUgraphNode nodes[2];
	CUgraph made;

	node.func = first.add;
	node.gridDimX = COUNT / 128;
	node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
	node.blockDimX = 128;
	node.kernelParams = params;
	OK(cuGraphCreate(&made, 0));
	OK(cuGraphAddKernelNode_v2(&nodes[0], made, NULL, 0, &node));
	what = 4;
	OK(cuGraphAddKernelNode_v2(&nodes[1], made, &nodes[0], 1, &node));
	OK(cuGraphInstantiateWithFlags(&graph, made, 0));
	OK(cuGraphDestroy(made));
}

static void set_up(void)
{
	CUdevice device = 0;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&first.context, device));
	OK(cuCtxCreate_v2(&second.context, 0, device));
	begin(&second);
	begin(&first);
	pageable = malloc(BYTES);
	registered = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!pageable || registered == MAP_FAILED)
		exit(1);
	OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
	OK(cuMemHostRegister_v2(registered, BYTES, 0));
	OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAlloc_v2(&ballast, BALLAST_BYTES));
	OK(cuMemsetD32_v2(ballast, BALLAST_VALUE, BALLAST_BYTES / sizeof(uint32_t)));
	make_graph();
}

static void share(void)
{
	CUipcMemHandle handle;

	OK(cuIpcGetMemHandle(&handle, ballast));
}

static CUdeviceptr more;
static size_t more_bytes;

static void grow(void)
{
	CUresult result = cuMemAlloc_v2(&more, more_bytes);

	if (result == CUDA_SUCCESS)
		OK(cuMemsetD32_v2(more, BALLAST_VALUE, more_bytes / sizeof(uint32_t)));
	else
		more = 0;
	printf("%d\n", (int)result);
}

static void verify_ballast(CUdeviceptr memory, size_t bytes)
{
	uint32_t *data = malloc(bytes);

	if (!data)
		exit(1);
	OK(cuMemcpyDtoH_v2(data, memory, bytes));
	for (size_t i = 0; i < bytes / sizeof(*data); i++)
		if (data[i] != BALLAST_VALUE)
			exit(2);
	free(data);
}

static void host_function(void *calls)
{
	usleep(500);
	++*(uint32_t *)calls;
}

/* From one stream to the other by an event, and through a graph and a function of the program. */
static void round_of_streams(uint32_t start)
{
	uint32_t calls = 0;

	fill(pinned, start);
	OK(cuMemcpyHtoDAsync_v2(first.data, pinned, BYTES, first.streams[0]));
	for (int i = 0; i < 8; i++)
		launch(&first, first.data, 1, first.streams[0]);
	OK(cuEventRecord(first.event, first.streams[0]));
	OK(cuStreamWaitEvent(first.streams[1], first.event, 0));
	OK(cuLaunchHostFunc(first.streams[1], host_function, &calls));
	OK(cuGraphLaunch(graph, first.streams[1]));
	OK(cuMemcpyDtoHAsync_v2(registered, first.data, BYTES, first.streams[1]));
	OK(cuStreamSynchronize(first.streams[1]));
	verify(registered, start + 15, "streams");
	if (calls != 1)
		exit(2);
}

static void round_of_copies(struct side *side, uint32_t start)
{
	OK(cuCtxSetCurrent(side->context));
	fill(pageable, start);
	OK(cuMemcpyHtoD_v2(side->data, pageable, BYTES));
	launch(side, side->data, 5, NULL);
	OK(cuMemcpyDtoH_v2(pageable, side->data, BYTES));
	verify(pageable, start + 5, "copies");
	OK(cuCtxSetCurrent(first.context));
}

static void round_of_managed_memory(uint32_t start)
{
	fill((uint32_t *)managed, start);
	launch(&first, managed, 9, NULL);
	OK(cuCtxSynchronize());
	verify((const uint32_t *)managed, start + 9, "managed memory");
}

static void round_of_modules(void)
{
	struct side other = first;

	load(&other);
	OK(cuMemsetD32_v2(first.data, 1, COUNT));
	launch(&other, first.data, 6, NULL);
	OK(cuMemcpyDtoH_v2(pageable, first.data, BYTES));
	for (uint32_t i = 0; i < COUNT; i++)
		pageable[i] += i;
	verify(pageable, 7, "modules");
	OK(cuModuleUnload(other.module));
}

static void count(int signal)
{
	char text[16];
	int at = sizeof(text), n = rounds;

	text[--at] = '\n';
	if (is_resting)
		text[--at] = '\t';
	do
		text[--at] = (char)('0' + n % 10);
	while (n /= 10);
	if (write(STDOUT_FILENO, text + at, sizeof(text) - (size_t)at) < 0)
		_exit(1);
}

static void grow_soon(int signal)
{
	must_grow = 1;
}

static void end(int signal)
{
	stop = 1;
}

static void rest_or_go_on(int signal)
{
	rests = !rests;
}

/* Between two rounds: a program that is stopped in one may keep the device waiting for it. */
static void rest(void)
{
	while (rests && !stop) {
		is_resting = 1;
		usleep(1000);
	}
	is_resting = 0;
}

static void make_rounds(void)
{
	while (!stop) {
		uint32_t start = (uint32_t)rounds * 17u;

		round_of_streams(start);
		round_of_copies(&first, start);
		round_of_copies(&second, start + 1);
		round_of_managed_memory(start);
		if (rounds % 16 == 0)
			round_of_modules();
		if (!rounds++)
			puts("ready");
		if (must_grow)
			grow();
		must_grow = 0;
		rest();
	}
}

static void make_copies(void)
{
	memset(pageable, 0, BYTES);
	while (!stop) {
		OK(cuMemcpyHtoD_v2(first.data, pageable, BYTES));
		if (!rounds++)
			puts("ready");
		rest();
	}
}

/* A stream waits for a word that the program writes in the end. */
static void wait_for_end(void)
{
	CUdeviceptr word;

	memset(pinned, 0, BYTES);
	OK(cuMemHostGetDevicePointer_v2(&word, pinned, 0));
	OK(cuStreamWaitValue32_v2(first.streams[0], word, 1, CU_STREAM_WAIT_VALUE_EQ));
	launch(&first, first.data, 1, first.streams[0]);
	puts("ready");
	while (!stop)
		usleep(1000);
	__atomic_store_n(pinned, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(first.streams[0]));
}

/* ---- memory that the program writes to meanwhile ---- */

/* Parts of pages on both ends, and whole ones between. */
#define PART_OFFSET 40u
#define PART_BYTES (3 * 4096u + 8)

static uint64_t *written[2];                               /* pinned and managed */
static uint64_t last_written[2][BYTES / sizeof(uint64_t)]; /* by the thread, which writes each value once */
static unsigned char *parts;                               /* a part of `block` */
static unsigned char block[5 * 4096] __attribute__((aligned(4096)));

/* While the process is checkpointed or restored an older value may be there, but not for long. */
static int has(const volatile uint64_t *word, uint64_t value)
{
	for (int i = 0; i < 100000000; i++)
		if (*word == value)
			return 1;
	return 0;
}

/* Each value stays until the next one is written. */
static void *write_all(void *unused)
{
	uint64_t value = 0;

	while (!stop)
		for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
			for (int k = 0; k < 2; k++) {
				if (!has(&written[k][i], last_written[k][i])) {
					printf("a write is lost\n");
					exit(2);
				}
				((volatile uint64_t *)written[k])[i] = last_written[k][i] = ++value;
			}
	return unused;
}

/* All of the block is the child's as well, and no child's write is the parent's. */
static void fork_and_look(unsigned char value)
{
	pid_t child = fork();
	int status;

	if (!child) {
		int right = block[0] == value && parts[0] == value && block[sizeof(block) - 1] == value;

		block[0] = parts[PART_BYTES - 1] = (unsigned char)~value;
		_exit(right ? 0 : 1);
	}
	while (waitpid(child, &status, 0) < 0)
		;
	if (status || block[0] != value)
		exit(2);
}

static void round_of_parts(unsigned char value)
{
	unsigned char back[PART_BYTES];

	memset(block, value, sizeof(block));
	fork_and_look(value);
	OK(cuMemcpyHtoD_v2(first.data, parts, PART_BYTES));
	memset(parts, 0, PART_BYTES);
	OK(cuMemcpyDtoHAsync_v2(parts, first.data, PART_BYTES, first.streams[0]));
	OK(cuStreamSynchronize(first.streams[0]));
	OK(cuMemcpyDtoH_v2(back, first.data, PART_BYTES));
	for (unsigned int i = 0; i < PART_BYTES; i++)
		if (parts[i] != value || back[i] != value)
			exit(2);
}

static void make_writes(void)
{
	CUdeviceptr other;
	pthread_t thread;

	OK(cuMemHostAlloc((void **)&written[0], BYTES, 0));
	OK(cuMemAllocManaged(&other, BYTES, CU_MEM_ATTACH_GLOBAL));
	written[1] = (uint64_t *)other;
	memset(written[0], 0, BYTES);
	memset(written[1], 0, BYTES);
	parts = block + PART_OFFSET;
	OK(cuMemHostRegister_v2(parts, PART_BYTES, 0));
	if (pthread_create(&thread, NULL, write_all, NULL))
		exit(1);
	while (!stop) {
		round_of_parts((unsigned char)rounds);
		if (!rounds++)
			puts("ready");
		rest();
	}
	pthread_join(thread, NULL);
	for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
		for (int k = 0; k < 2; k++)
			if (written[k][i] != last_written[k][i])
				exit(2);
}

static void register_file(void)
{
	int file = memfd_create("pausable", 0);
	void *memory = file < 0 || ftruncate(file, BYTES)
			       ? MAP_FAILED
			       : mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (memory == MAP_FAILED)
		exit(1);
	OK(cuMemHostRegister_v2(memory, BYTES, 0));
	close(file);
}

/* ---- others ---- */

static void replace_memory(void)
{
	if (mmap(registered, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED)
		exit(1);
	fill(registered, 77);
	puts("replaced");
}

static void wait_to_replace(void)
{
	puts("ready");
	while (!stop) {
		if (must_grow)
			replace_memory();
		must_grow = 0;
		usleep(1000);
	}
	verify(registered, 77, "memory of the program's own");
	for (rounds = 1; rounds < 20; rounds++)
		round_of_copies(&first, (uint32_t)rounds);
}

static void *launch_functions(void *stream)
{
	uint32_t calls = 0;

	OK(cuCtxSetCurrent(first.context));
	for (uint32_t i = 1; !stop; i++) {
		OK(cuLaunchHostFunc(stream, host_function, &calls));
		if (i % 16)
			continue;
		OK(cuStreamSynchronize(stream));
		if (calls != i)
			exit(2);
	}
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* Some thread is always in a call. */
static void make_functions(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, launch_functions, first.streams[i]))
			exit(1);
	while (!stop) {
		round_of_copies(&first, (uint32_t)rounds);
		if (!rounds++)
			puts("ready");
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void say_taken(void)
{
	int counts[2];

	puts("ready");
	while (!stop) {
		if (must_grow) {
			must_grow = 0;
			count_taken(counts);
			printf("%d %d\n", counts[0], counts[1]);
		}
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	char on_stack[3 * 4096];
	const char *how = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = grow_soon, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGHUP, &(struct sigaction){.sa_handler = rest_or_go_on, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end, .sa_flags = SA_RESTART}, NULL);
	if (!strcmp(how, "signals"))
		block_signal();
	if (!strcmp(how, "named"))
		prctl(PR_SET_NAME, "cuda-restore");
	set_up();
	if (!strcmp(how, "signals"))
		begin_to_take();
	if (!strcmp(how, "shares"))
		share();
	if (!strcmp(how, "listens"))
		listen_to_log();
	if (!strcmp(how, "adopts") || !strcmp(how, "listens"))
		register_file();
	if (!strcmp(how, "stack"))
		OK(cuMemHostRegister_v2(on_stack, sizeof(on_stack), 0));
	if (!strcmp(how, "clones"))
		clone_process();
	if (!strcmp(how, "hides"))
		hide_restore_thread();
	if (!strcmp(how, "fills"))
		fill_when_told();
	if (argc > 2 && !strcmp(how, "grows"))
		more_bytes = strtoull(argv[2], NULL, 10) << 20;
	if (!strcmp(how, "waits"))
		wait_for_end();
	else if (!strcmp(how, "copies"))
		make_copies();
	else if (!strcmp(how, "writes"))
		make_writes();
	else if (!strcmp(how, "replaces"))
		wait_to_replace();
	else if (!strcmp(how, "signals"))
		say_taken();
	else if (!strcmp(how, "functions"))
		make_functions();
	else
		make_rounds();
	verify_ballast(ballast, BALLAST_BYTES);
	if (more)
		verify_ballast(more, more_bytes);
	return 0;
}

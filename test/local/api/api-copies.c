/* SPDX-License-Identifier: Apache-2.0 */
/* Large copies of pageable memory: several threads of the library's work at one, and several copies share them. */
#include "test/local/api.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COPIERS = 7, ROUNDS = 3 };

#define MIB ((size_t)1 << 20)

static CUcontext context;

/* Differs from byte to byte, piece to piece and copy to copy. */
static void fill(uint8_t *p, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (uint8_t)(seed >> 56);
	}
}

/* Out and back, from and to places that are aligned to nothing; and not a byte more. */
static void there_and_back(CUdeviceptr p, size_t bytes, size_t odd, CUstream stream, bool async)
{
	uint8_t *out = malloc(bytes + odd), *back = malloc(bytes + odd + 1);

	fill(out, bytes + odd, bytes + odd);
	memset(back, 0x5a, bytes + odd + 1);
	if (async) {
		OK(cuMemcpyHtoDAsync_v2(p + odd, out + odd, bytes, stream));
		OK(cuMemcpyDtoHAsync_v2(back + odd, p + odd, bytes, stream));
		OK(cuStreamSynchronize(stream));
	} else {
		OK(cuMemcpyHtoD_v2(p + odd, out + odd, bytes));
		OK(cuMemcpyDtoH_v2(back + odd, p + odd, bytes));
	}
	CHECK(!memcmp(out + odd, back + odd, bytes));
	CHECK(back[bytes + odd] == 0x5a && (!odd || back[odd - 1] == 0x5a));
	free(out);
	free(back);
}

/* Each direction against small copies: errors of a large copy there and a large one back may cancel out. */
static void one_way(CUdeviceptr p, size_t bytes)
{
	const size_t small = 100000;
	uint8_t *out = malloc(bytes), *back = malloc(bytes);

	fill(out, bytes, bytes);
	OK(cuMemcpyHtoD_v2(p, out, bytes));
	for (size_t i = 0; i < bytes; i += small)
		OK(cuMemcpyDtoH_v2(back + i, p + i, bytes - i < small ? bytes - i : small));
	CHECK(!memcmp(out, back, bytes));
	fill(out, bytes, bytes + 1);
	for (size_t i = 0; i < bytes; i += small)
		OK(cuMemcpyHtoD_v2(p + i, out + i, bytes - i < small ? bytes - i : small));
	OK(cuMemcpyDtoH_v2(back, p, bytes));
	CHECK(!memcmp(out, back, bytes));
	free(out);
	free(back);
}

static void sizes(void)
{
	static const size_t all[] = {512 * 1024 - 1, 512 * 1024, 512 * 1024 + 1, MIB, 3 * MIB + 4097, 17 * MIB + 13};
	CUstream stream;
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, 18 * MIB));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t odd = 0; odd <= 3; odd += 3)
			for (int async = 0; async < 2; async++)
				there_and_back(p, all[i], odd, stream, async);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		one_way(p, all[i]);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(p));
}

static CUdeviceptr memory[COPIERS]; /* of 5 MiB */

static void *copy_often(void *number)
{
	uintptr_t n = (uintptr_t)number;
	CUstream stream;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < ROUNDS; i++)
		there_and_back(memory[n], 4 * MIB + n * 4099 + i, 1, stream, i % 2);
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

static void at_once(void)
{
	pthread_t threads[COPIERS];

	for (uintptr_t i = 0; i < COPIERS; i++)
		CHECK(!pthread_create(&threads[i], NULL, copy_often, (void *)i));
	for (int i = 0; i < COPIERS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

struct held {
	CUstream stream;
	CUdeviceptr from;
	uint8_t *to;
	_Atomic bool done;
};

static void *copy_held(void *argument)
{
	struct held *h = argument;

	OK(cuCtxSetCurrent(context));
	OK(cuMemcpyDtoHAsync_v2(h->to, h->from, 2 * MIB, h->stream));
	atomic_store(&h->done, true);
	return NULL;
}

/* Copies that wait for their streams hold up no copies of others, by which the program would let them go on. */
static void behind_others(void)
{
	struct held held[3] = {{0}};
	pthread_t threads[3];
	cuuint32_t *word;
	int can = 0;

	OK(cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	for (int i = 0; i < 3; i++) {
		OK(cuMemAlloc_v2(&held[i].from, 2 * MIB));
		OK(cuMemsetD32_v2(held[i].from, 7u + (unsigned int)i, 2 * MIB / 4));
		held[i].to = malloc(2 * MIB);
		OK(cuStreamCreate(&held[i].stream, CU_STREAM_NON_BLOCKING));
		OK(cuStreamWaitValue32_v2(held[i].stream, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		CHECK(!pthread_create(&threads[i], NULL, copy_held, &held[i]));
	}
	usleep(100000);
	/* No call in between that waits for all streams, such as cuMemFree(). */
	for (uintptr_t i = 0; i < COPIERS; i++)
		copy_often((void *)i);
	for (int i = 0; i < 3; i++)
		can += !atomic_load(&held[i].done);
	CHECK(can == 3);
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++) {
		CHECK(!pthread_join(threads[i], NULL));
		for (size_t k = 0; k < 2 * MIB; k += 4)
			CHECK(held[i].to[k] == 7 + i);
		OK(cuStreamDestroy_v2(held[i].stream));
		OK(cuMemFree_v2(held[i].from));
		free(held[i].to);
	}
	OK(cuMemFreeHost(word));
}

static char *lazy; /* pages that get their contents when they are first touched */

static void give_page(int signal, siginfo_t *info, void *unused)
{
	char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);

	if (page < lazy || page >= lazy + 4 * MIB || mprotect(page, 4096, PROT_READ | PROT_WRITE))
		_exit(1);
	memset(page, 1 + (int)((uintptr_t)page >> 12 & 0x7f), 4096);
}

/* Whichever thread touches the application's memory, the application's handler does what it does. */
static void from_lazy_memory(void)
{
	struct sigaction action = {.sa_sigaction = give_page, .sa_flags = SA_SIGINFO}, before;
	uint8_t *back = malloc(4 * MIB);

	lazy = mmap(NULL, 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lazy != MAP_FAILED && !sigaction(SIGSEGV, &action, &before));
	OK(cuMemcpyHtoD_v2(memory[0], lazy, 4 * MIB));
	CHECK(!sigaction(SIGSEGV, &before, NULL));
	OK(cuMemcpyDtoH_v2(back, memory[0], 4 * MIB));
	for (size_t i = 0; i < 4 * MIB; i += 4095)
		CHECK(back[i] == 1 + ((uintptr_t)(lazy + i) >> 12 & 0x7f));
	munmap(lazy, 4 * MIB);
	free(back);
}

/* The worker refuses; the blocks and the threads are there for the next. */
static void refused(void)
{
	uint8_t *p = calloc(1, 4 * MIB);

	for (int i = 0; i < 12; i++)
		CHECK(cuMemcpyHtoD_v2(0x10000, p, 4 * MIB) != CUDA_SUCCESS);
	free(p);
	there_and_back(memory[0], 4 * MIB, 0, NULL, false);
}

void api_copies(void)
{
	OK(cuCtxGetCurrent(&context));
	for (int i = 0; i < COPIERS; i++)
		OK(cuMemAlloc_v2(&memory[i], 5 * MIB));
	sizes();
	at_once();
	behind_others();
	from_lazy_memory();
	refused();
}

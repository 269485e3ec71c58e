/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <cpuid.h>
#include <emmintrin.h>
#include <immintrin.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "ring/ring.h"
#include "section.h"

_Static_assert(VCUDA_STAGE_BLOCKS < 32, "the blocks in use are the bits of one word");

/* The processor fetches ahead by itself, but not beyond the page. */
#define AHEAD 4096

static void *area;
static unsigned int all_blocks;
static sem_t free_blocks;
static _Atomic uint32_t used_blocks;

void client_stage_attach(void *shm, unsigned int blocks)
{
	area = shm;
	all_blocks = blocks;
	sem_init(&free_blocks, 0, blocks);
}

/* The semaphore has been taken. */
static uint32_t choose(void)
{
	uint32_t used = atomic_load(&used_blocks);

	for (;;) {
		uint32_t block = (uint32_t)__builtin_ctz(~used);

		/* The semaphore says that a bit is clear, but not that our copy of the word is new. */
		if (block >= all_blocks)
			used = atomic_load(&used_blocks);
		else if (atomic_compare_exchange_weak(&used_blocks, &used, used | 1u << block))
			return block;
	}
}

uint32_t client_stage_take_kept(void **memory)
{
	uint32_t block;
	int cancel_state;

	/* CUDA's calls are no cancellation points. The thread sanitizer loses track of the locks of a cancelled thread.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	while (sem_wait(&free_blocks) < 0)
		continue;
	pthread_setcancelstate(cancel_state, NULL);
	block = choose();
	*memory = vcuda_shm_stage(area, block);
	return block;
}

uint32_t client_stage_take(void **memory)
{
	uint32_t block = client_stage_take_kept(memory);

	client_section_enter();
	return block;
}

uint32_t client_stage_try(void)
{
	return sem_trywait(&free_blocks) == 0 ? 1u << choose() : 0;
}

void client_stage_give_tried(uint32_t block)
{
	atomic_fetch_and(&used_blocks, ~(1u << block));
	sem_post(&free_blocks);
}

void client_stage_give(uint32_t block)
{
	client_section_leave();
	client_stage_give_tried(block);
}

void client_stage_fill(void *block, const void *from, size_t bytes)
{
	const char *in = from;
	__m128i *out = block;

	for (; bytes >= 64; bytes -= 64, in += 64, out += 4) {
		_mm_prefetch(in + AHEAD, _MM_HINT_T0);
		for (int i = 0; i < 4; i++)
			_mm_stream_si128(out + i, _mm_loadu_si128((const __m128i *)in + i));
	}
	/* The streaming stores precede the store that reports the block full. */
	_mm_sfence();
	memcpy(out, in, bytes);
}

static bool has_flush;

static void look_at_processor(void)
{
	unsigned int a, b, c, d;

	has_flush = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_CLFLUSHOPT;
}

__attribute__((target("clflushopt"))) static void flush(const char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 64)
		_mm_clflushopt((void *)(uintptr_t)(from + at));
}

void client_stage_drain(void *to, const void *block, size_t bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t done = -(uintptr_t)to % 16 < bytes ? -(uintptr_t)to % 16 : bytes;
	const char *in = block;
	char *out = to;

	pthread_once(&once, look_at_processor);
	if (!has_flush) {
		memcpy(to, block, bytes);
		return;
	}
	memcpy(out, in, done);
	for (; bytes - done >= 64; done += 64)
		for (size_t i = done; i < done + 64; i += 16)
			_mm_stream_si128((__m128i *)(out + i), _mm_loadu_si128((const __m128i *)(in + i)));
	memcpy(out + done, in + done, bytes - done);
	flush(in, bytes);
	/* Before the device gets the block again, and before a thread that waits for the copy reads it. */
	_mm_sfence();
}

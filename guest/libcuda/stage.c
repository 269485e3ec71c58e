/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "ring.h"

_Static_assert(VCUDA_STAGE_BLOCKS < 32, "the blocks in use are the bits of one word");

static void *area;
static unsigned int all_blocks;
static sem_t free_blocks;
static _Atomic uint32_t used_blocks;

void vcuda_stage_attach(void *shm, unsigned int blocks)
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

uint32_t vcuda_stage_take(void **memory)
{
	uint32_t block;
	int cancel_state;

	/* CUDA's calls are no places to be cancelled at. The thread sanitizer loses sight of locks in a thread that is.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	while (sem_wait(&free_blocks) < 0)
		continue;
	pthread_setcancelstate(cancel_state, NULL);
	block = choose();
	*memory = vcuda_shm_stage(area, block);
	return block;
}

uint32_t vcuda_stage_try(void)
{
	return sem_trywait(&free_blocks) == 0 ? 1u << choose() : 0;
}

void vcuda_stage_give(uint32_t block)
{
	atomic_fetch_and(&used_blocks, ~(1u << block));
	sem_post(&free_blocks);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "test-libcuda-fake-mapped.h"

#include <pthread.h>
#include <string.h>

#include "test-libcuda-fake.h"
#include "test-libcuda-fake-answer.h"

#define MOST 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped {
	uint64_t start, bytes;
} mapped[MOST];
static unsigned int count;

static bool is_in(const struct mapped *m, uint64_t start, uint64_t bytes)
{
	return m->start >= start && m->start + m->bytes <= start + bytes;
}

static CUresult map(uint64_t start, uint64_t bytes)
{
	for (unsigned int i = 0; i < count; i++)
		if (start < mapped[i].start + mapped[i].bytes && mapped[i].start < start + bytes)
			return CUDA_ERROR_INVALID_VALUE;
	if (count == MOST)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapped[count++] = (struct mapped){start, bytes};
	return CUDA_SUCCESS;
}

/* Whole mappings without gaps, or nothing. */
static CUresult unmap(uint64_t start, uint64_t bytes)
{
	uint64_t sum = 0;
	unsigned int left = 0;

	for (unsigned int i = 0; i < count; i++)
		sum += is_in(&mapped[i], start, bytes) ? mapped[i].bytes : 0;
	if (!bytes || sum != bytes)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++)
		if (!is_in(&mapped[i], start, bytes))
			mapped[left++] = mapped[i];
	count = left;
	return CUDA_SUCCESS;
}

unsigned int fake_mapped_count(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = count;
	pthread_mutex_unlock(&lock);
	return n;
}

bool fake_mapped_has(unsigned int op)
{
	switch (op) {
	case VCUDA_OP_vcudaMemGranularity:
	case VCUDA_OP_cuMemAddressReserve:
	case VCUDA_OP_vcudaMemCreate:
	case VCUDA_OP_vcudaMemMap:
	case VCUDA_OP_vcudaMemPlace:
	case VCUDA_OP_cuMemUnmap:
		return true;
	default:
		return false;
	}
}

static CUresult answer(const struct vcuda_command *c, struct vcuda_writer *w)
{
	static uint64_t next = FAKE_DEVICE_START + (1u << 30), ids = 0x1000000;
	static uint8_t arena_memory[4096];
	struct vcuda_arena arena = {arena_memory, arena_memory + sizeof(arena_memory)};
	struct vcuda_reader r = vcuda_reader_init(c + 1, c->size - sizeof(*c));

	switch (c->op) {
		CASE(vcudaMemGranularity)
		a.granularity = FAKE_GRANULE;
		REPLY(vcudaMemGranularity)
		CASE(cuMemAddressReserve)
		a.ptr = next;
		next += a.size;
		REPLY(cuMemAddressReserve)
		CASE(vcudaMemCreate)
		a.handle = (vcuda_allocation)ids++;
		REPLY(vcudaMemCreate)
		CASE(vcudaMemMap)
		return map(a.ptr, a.size);
	}
	CASE(vcudaMemPlace)
	return map(a.ptr, a.size);
}
CASE(cuMemUnmap)
return unmap(a.ptr, a.size);
}
default:
return CUDA_ERROR_NOT_SUPPORTED;
}
}

CUresult fake_mapped_answer(const struct vcuda_command *c, struct vcuda_writer *w)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = answer(c, w);
	pthread_mutex_unlock(&lock);
	return result;
}

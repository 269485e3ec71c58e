/* SPDX-License-Identifier: Apache-2.0 */
#include "module/jit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "protocol/guest-calls.h"
#include "common/log.h"
#include "ring/ring.h"
#include "guest/client/stage.h"

/* A buffer of the program: an option says where it is, the next one how large. Its answer is what is in it. */
struct buffer {
	char *start;
	size_t size;
	unsigned int slot; /* the second option's; as many as there are options: none */
};

static struct buffer find_buffer(const struct libcuda_jit *jit, CUjit_option option)
{
	struct buffer b = {.slot = jit->count};

	for (unsigned int i = 0; i < jit->count; i++) {
		if (jit->options[i] == option) {
			b.start = jit->values[i];
		} else if (jit->options[i] == option + 1) {
			/* an unsigned int, of whose slot the upper half may be anything */
			b.size = (unsigned int)(uintptr_t)jit->values[i];
			b.slot = i;
		}
	}
	if (!b.size)
		b.start = NULL;
	return b;
}

/* A float in a slot for a pointer. */
static void set_time(const struct libcuda_jit *jit, void **answers, float ms)
{
	for (unsigned int i = 0; i < jit->count; i++) {
		if (jit->options[i] == CU_JIT_WALL_TIME)
			memcpy(&answers[i], &ms, sizeof(ms));
	}
}

CUresult libcuda_jit_start(const struct libcuda_jit *jit)
{
	if (jit->count && (!jit->options || !jit->values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < jit->count; i++) {
		if ((unsigned int)jit->options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		if (jit->options[i] == CU_JIT_GLOBAL_SYMBOL_NAMES) {
			vcuda_log(
				"CU_JIT_GLOBAL_SYMBOL_NAMES, symbols at addresses of the program's, is not supported");
			return CUDA_ERROR_NOT_SUPPORTED;
		}
	}
	for (CUjit_option o = CU_JIT_INFO_LOG_BUFFER; o <= CU_JIT_ERROR_LOG_BUFFER; o += 2) {
		struct buffer b = find_buffer(jit, o);

		if (b.start)
			*b.start = 0;
	}
	set_time(jit, jit->values, 0);
	return CUDA_SUCCESS;
}

/* Whether the worker is handed the option, and with which value. */
static bool crosses(const struct libcuda_jit *jit, unsigned int i, uint64_t *value)
{
	CUjit_option o = jit->options[i];
	bool log = o == CU_JIT_INFO_LOG_BUFFER || o == CU_JIT_ERROR_LOG_BUFFER;

	*value = log ? 0 : (unsigned int)(uintptr_t)jit->values[i];
	return log || VCUDA_JIT_NUMBERS >> o & 1;
}

CUresult libcuda_jit_send(const struct libcuda_jit *jit, vcuda_image image)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t value;

	for (unsigned int i = 0; i < jit->count && result == CUDA_SUCCESS; i++) {
		if (crosses(jit, i, &value))
			result = vcuda_call_vcudaImageOption(image, jit->options[i], value);
	}
	return result;
}

uint32_t libcuda_jit_wire(const struct libcuda_jit *jit, uint32_t *options, uint64_t *values)
{
	uint32_t count = 0;

	for (unsigned int i = 0; i < jit->count; i++) {
		options[count] = jit->options[i];
		count += crosses(jit, i, &values[count]);
	}
	return count;
}

/* Gives how much there is. */
static size_t fetch(struct buffer b, CUjit_option option, libcuda_jit_log log, void *from)
{
	size_t room = b.size - 1 < VCUDA_STAGE_BLOCK_BYTES ? b.size - 1 : VCUDA_STAGE_BLOCK_BYTES, length = 0;
	void *memory;
	uint32_t block = client_stage_take(&memory);

	if (log(from, option, block, room, &length) != CUDA_SUCCESS || length > room)
		length = 0;
	memcpy(b.start, memory, length);
	b.start[length] = 0;
	client_stage_give(block);
	return length;
}

void libcuda_jit_finish(const struct libcuda_jit *jit, libcuda_jit_log log, void *from, void **answers, float ms)
{
	for (CUjit_option o = CU_JIT_INFO_LOG_BUFFER; o <= CU_JIT_ERROR_LOG_BUFFER; o += 2) {
		struct buffer b = find_buffer(jit, o);
		size_t length = b.start ? fetch(b, o, log, from) : 0;

		if (answers && b.slot < jit->count)
			answers[b.slot] = (void *)length;
	}
	if (answers)
		set_time(jit, answers, ms);
}

double libcuda_jit_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "jit.h"

#include <stdint.h>
#include <string.h>

#include "guest-calls.h"
#include "log.h"
#include "ring.h"
#include "stage.h"

/* A buffer of the program: an option says where it is, the next one how large. Its value becomes what is in it. */
struct buffer {
	char *start;
	size_t size;
	void **slot;
};

static struct buffer find_buffer(const struct vcuda_jit *jit, CUjit_option option)
{
	struct buffer b = {0};

	for (unsigned int i = 0; i < jit->count; i++) {
		if (jit->options[i] == option) {
			b.start = jit->values[i];
		} else if (jit->options[i] == option + 1) {
			/* an unsigned int, of whose slot the upper half may be anything */
			b.size = (unsigned int)(uintptr_t)jit->values[i];
			b.slot = &jit->values[i];
		}
	}
	if (!b.size)
		b.start = NULL;
	return b;
}

/* A float in a slot for a pointer. */
static void set_time(const struct vcuda_jit *jit, float ms)
{
	for (unsigned int i = 0; i < jit->count; i++) {
		if (jit->options[i] == CU_JIT_WALL_TIME)
			memcpy(&jit->values[i], &ms, sizeof(ms));
	}
}

CUresult vcuda_jit_start(const struct vcuda_jit *jit)
{
	if (jit->count && (!jit->options || !jit->values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < jit->count; i++) {
		if ((unsigned int)jit->options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		if (jit->options[i] == CU_JIT_GLOBAL_SYMBOL_NAMES) {
			vcuda_log("CU_JIT_GLOBAL_SYMBOL_NAMES, symbols at addresses of the program's, is not supported");
			return CUDA_ERROR_NOT_SUPPORTED;
		}
	}
	for (CUjit_option o = CU_JIT_INFO_LOG_BUFFER; o <= CU_JIT_ERROR_LOG_BUFFER; o += 2) {
		struct buffer b = find_buffer(jit, o);

		if (b.start)
			*b.start = 0;
	}
	set_time(jit, 0);
	return CUDA_SUCCESS;
}

CUresult vcuda_jit_send(const struct vcuda_jit *jit, vcuda_image image)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < jit->count && result == CUDA_SUCCESS; i++) {
		CUjit_option o = jit->options[i];

		if (o == CU_JIT_INFO_LOG_BUFFER || o == CU_JIT_ERROR_LOG_BUFFER)
			result = vcuda_call_vcudaImageOption(image, o, 0);
		else if (VCUDA_JIT_NUMBERS >> o & 1)
			result = vcuda_call_vcudaImageOption(image, o, (unsigned int)(uintptr_t)jit->values[i]);
	}
	return result;
}

static void fetch(struct buffer b, CUjit_option option, vcuda_image image)
{
	size_t room = b.size - 1 < VCUDA_STAGE_BLOCK_BYTES ? b.size - 1 : VCUDA_STAGE_BLOCK_BYTES, length = 0;
	void *memory;
	uint32_t block = vcuda_stage_take(&memory);

	if (vcuda_call_vcudaImageLog(image, option, block, room, &length) != CUDA_SUCCESS || length > room)
		length = 0;
	memcpy(b.start, memory, length);
	b.start[length] = 0;
	vcuda_stage_give(block);
	*b.slot = (void *)length;
}

void vcuda_jit_finish(const struct vcuda_jit *jit, vcuda_image image, float ms)
{
	for (CUjit_option o = CU_JIT_INFO_LOG_BUFFER; o <= CU_JIT_ERROR_LOG_BUFFER; o += 2) {
		struct buffer b = find_buffer(jit, o);

		if (b.start)
			fetch(b, o, image);
		else if (b.slot)
			*b.slot = NULL;
	}
	set_time(jit, ms);
}

void vcuda_jit_error(const struct vcuda_jit *jit, const char *line)
{
	struct buffer b = find_buffer(jit, CU_JIT_ERROR_LOG_BUFFER);
	size_t length = strlen(line);

	if (!b.start)
		return;
	if (length > b.size - 1)
		length = b.size - 1;
	memcpy(b.start, line, length);
	b.start[length] = 0;
}

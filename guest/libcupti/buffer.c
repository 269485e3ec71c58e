/* SPDX-License-Identifier: Apache-2.0 */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/deadline.h"

typedef void (*request_function)(uint8_t **buffer, size_t *size, size_t *most);
typedef void (*complete_function)(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t used);

struct buffer {
	uint8_t *data; /* NULL: there is none */
	size_t size, used, most, count;
	struct buffer *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_function request;
static complete_function complete;
static struct buffer current;
static _Atomic bool has_current;
static struct buffer *full, **full_end = &full;
static uint64_t dropped;

static size_t size_of(uint32_t kind)
{
	static const uint16_t sizes[CUPTI_KINDS] = {
		[CUPTI_KIND_MEMCPY] = sizeof(struct cupti_memcpy_record),
		[CUPTI_KIND_MEMCPY2] = sizeof(struct cupti_peer_record),
		[CUPTI_KIND_MEMSET] = sizeof(struct cupti_memset_record),
		[CUPTI_KIND_KERNEL] = sizeof(struct cupti_kernel_record),
		[CUPTI_KIND_CONCURRENT_KERNEL] = sizeof(struct cupti_kernel_record),
		[CUPTI_KIND_DRIVER] = sizeof(struct cupti_api_record),
		[CUPTI_KIND_RUNTIME] = sizeof(struct cupti_api_record),
		[CUPTI_KIND_DEVICE] = sizeof(struct cupti_device_record),
		[CUPTI_KIND_CONTEXT] = sizeof(struct cupti_context_record),
		[CUPTI_KIND_OVERHEAD] = sizeof(struct cupti_overhead_record),
		[CUPTI_KIND_CUDA_EVENT] = sizeof(struct cupti_event_record),
		[CUPTI_KIND_STREAM] = sizeof(struct cupti_stream_record),
		[CUPTI_KIND_SYNCHRONIZATION] = sizeof(struct cupti_synchronization_record),
		[CUPTI_KIND_EXTERNAL_CORRELATION] = sizeof(struct cupti_external_record),
		[CUPTI_KIND_GRAPH_TRACE] = sizeof(struct cupti_graph_record),
	};

	return kind < CUPTI_KINDS ? sizes[kind] : 0;
}

/* ---- with the lock held ---- */

/* The current buffer is given back at the next chance. */
static void end_current(void)
{
	struct buffer *b = current.data ? malloc(sizeof(*b)) : NULL;

	if (b) {
		*b = current;
		b->next = NULL;
		*full_end = b;
		full_end = &b->next;
	} else {
		/* Without memory the client never sees the buffer again. */
		dropped += current.count;
	}
	current = (struct buffer){0};
	atomic_store(&has_current, false);
}

static void get_buffer(void)
{
	struct buffer b = {0};

	if (!request)
		return;
	cupti_in_client = true;
	request(&b.data, &b.size, &b.most);
	cupti_in_client = false;
	if (b.data)
		current = b;
	atomic_store(&has_current, b.data);
}

static bool has_room(size_t size)
{
	return current.data && current.size - current.used >= size && (!current.most || current.count < current.most);
}

/* A signal handler's call may have interrupted one that holds the lock. */
void cupti_buffer_prepare(void)
{
	if (atomic_load_explicit(&has_current, memory_order_relaxed) || cupti_in_client || pthread_mutex_trylock(&lock))
		return;
	if (!current.data)
		get_buffer();
	pthread_mutex_unlock(&lock);
}

void cupti_buffer_add(const void *record)
{
	size_t size = size_of(((const struct cupti_record *)record)->kind);

	pthread_mutex_lock(&lock);
	if (!has_room(size)) {
		end_current();
		get_buffer();
	}
	if (has_room(size)) {
		memcpy(current.data + current.used, record, size);
		current.used += size;
		current.count++;
	} else {
		dropped++;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- for the client ---- */

void cupti_buffer_deliver(bool all)
{
	struct buffer *list, *next;
	complete_function give;

	pthread_mutex_lock(&lock);
	if (all)
		end_current();
	list = full;
	full = NULL;
	full_end = &full;
	give = complete;
	pthread_mutex_unlock(&lock);
	for (; list; list = next) {
		next = list->next;
		cupti_in_client = true;
		give(NULL, 0, list->data, list->size, list->used);
		cupti_in_client = false;
		free(list);
	}
}

void cupti_buffer_drop(uint64_t records)
{
	pthread_mutex_lock(&lock);
	dropped += records;
	pthread_mutex_unlock(&lock);
}

bool cupti_buffer_has_client(void)
{
	bool has_client;

	pthread_mutex_lock(&lock);
	has_client = request;
	pthread_mutex_unlock(&lock);
	return has_client;
}

void cupti_buffer_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	current = (struct buffer){0};
	atomic_store(&has_current, false);
	full = NULL;
	full_end = &full;
	dropped = 0;
}

CUPTI_EXPORT cupti_result cuptiActivityRegisterCallbacks(request_function requested, complete_function completed)
{
	if (!requested || !completed)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&lock);
	request = requested;
	complete = completed;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, struct cupti_record **record)
{
	uint8_t *at = buffer;
	size_t left, size;

	if (!buffer || !record)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (*record) {
		size = size_of((*record)->kind);
		if (!size)
			return cupti_done(CUPTI_ERROR_INVALID_KIND);
		at = (uint8_t *)*record + size;
	}
	if (at < buffer || at > buffer + valid)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	left = (size_t)(buffer + valid - at);
	if (left < sizeof(struct cupti_record))
		return cupti_done(CUPTI_ERROR_MAX_LIMIT_REACHED);
	size = size_of(((struct cupti_record *)at)->kind);
	if (!size || size > left)
		return cupti_done(CUPTI_ERROR_INVALID_KIND);
	*record = (struct cupti_record *)at;
	return CUPTI_SUCCESS;
}

/* Records are dropped before they have a place in any stream's buffer: the global count has them all. */
CUPTI_EXPORT cupti_result cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count)
{
	(void)stream;
	if (!count)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*count = 0;
	if (context)
		return CUPTI_SUCCESS;
	pthread_mutex_lock(&lock);
	*count = dropped;
	dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityFlushAll(uint32_t flag)
{
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	uint64_t start = vcuda_now_ns();

	if (cupti_in_client || !cupti_buffer_has_client())
		return cupti_done(CUPTI_ERROR_INVALID_OPERATION);
	if (recorder)
		recorder->flush();
	if (flag & CUPTI_FLAG_FLUSH_FORCED)
		cupti_pieces_flush();
	cupti_record_flush(start);
	cupti_buffer_deliver(true);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	return cuptiActivityFlushAll(flag);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/deadline.h"
#include "common/log.h"

typedef void (*request_function)(uint8_t **buffer, size_t *size, size_t *most);
typedef void (*complete_function)(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t used);

/* Bytes of records that wait for a buffer, which none is given for while the client's function does not return. */
#define MOST_STAGED (64u << 20)
/* Bytes of memory that are kept while no record waits. */
#define KEPT_STAGED (1u << 20)

/* The longest time that a flush waits for buffers that other threads are handing to the client. */
#define LONGEST_DELIVERY_NS 10000000000ull

struct client {
	request_function request; /* NULL: there is no client */
	complete_function complete;
};

/* A buffer of a client, which goes back to the client. */
struct buffer {
	uint8_t *data;
	size_t size, used, most, count;
	complete_function complete;
	struct buffer *next;
};

struct queue {
	struct buffer *first, **end;
};

/* No function of the client is called while the lock is held: the client may have locks of its own. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct client client;
static struct buffer *current; /* NULL: there is none */
static struct queue spares = {.end = &spares.first}, full = {.end = &full.first};
static uint64_t dropped;
static unsigned int requests; /* that are under way */
static unsigned int returns;  /* how often all buffers went back to the client */
/* The numbers of deliveries that are under way; 0: the place is free. A delivery without a place is not waited for. */
static uint64_t deliveries[64], last_delivery;
static _Atomic bool has_buffer;

/* Records in the order of their making, with times of the monotonic clock. */
static struct {
	uint8_t *data;
	size_t begin, end, room;
	uint64_t taken; /* records so far */
} staged;

/* `times` words from `first_time` on are times. */
struct layout {
	uint16_t size, first_time;
	uint8_t times;
};

#define PLAIN(type)                                                                                                    \
	{                                                                                                              \
		.size = sizeof(struct cupti_##type##_record)                                                           \
	}
#define TIMED(type, count)                                                                                             \
	{                                                                                                              \
		.size = sizeof(struct cupti_##type##_record),                                                          \
		.first_time = offsetof(struct cupti_##type##_record, start), .times = count                            \
	}

static const struct layout layouts[CUPTI_KINDS] = {
	[CUPTI_KIND_MEMCPY] = TIMED(memcpy, 2),
	[CUPTI_KIND_MEMCPY2] = TIMED(peer, 2),
	[CUPTI_KIND_MEMSET] = TIMED(memset, 2),
	[CUPTI_KIND_KERNEL] = TIMED(kernel, 3),
	[CUPTI_KIND_CONCURRENT_KERNEL] = TIMED(kernel, 3),
	[CUPTI_KIND_DRIVER] = TIMED(api, 2),
	[CUPTI_KIND_RUNTIME] = TIMED(api, 2),
	[CUPTI_KIND_DEVICE] = PLAIN(device),
	[CUPTI_KIND_CONTEXT] = PLAIN(context),
	[CUPTI_KIND_MARKER] = {.size = sizeof(struct cupti_marker_record),
			       .first_time = offsetof(struct cupti_marker_record, time),
			       .times = 1},
	[CUPTI_KIND_OVERHEAD] = TIMED(overhead, 2),
	[CUPTI_KIND_CUDA_EVENT] = PLAIN(event),
	[CUPTI_KIND_STREAM] = PLAIN(stream),
	[CUPTI_KIND_SYNCHRONIZATION] = TIMED(synchronization, 2),
	[CUPTI_KIND_EXTERNAL_CORRELATION] = PLAIN(external),
	[CUPTI_KIND_GRAPH_TRACE] = TIMED(graph, 2),
};

static size_t size_of(uint32_t kind)
{
	return kind < CUPTI_KINDS ? layouts[kind].size : 0;
}

/* ---- with the lock held ---- */

static void append(struct queue *to, struct buffer *b)
{
	b->next = NULL;
	*to->end = b;
	to->end = &b->next;
}

/* NULL: there is none. */
static struct buffer *take(struct queue *from)
{
	struct buffer *b = from->first;

	if (!b)
		return NULL;
	from->first = b->next;
	if (!from->first)
		from->end = &from->first;
	return b;
}

static void set_current(struct buffer *b)
{
	current = b;
	atomic_store(&has_buffer, b);
}

/* The current buffer is given back at the next chance. */
static void end_current(void)
{
	if (current)
		append(&full, current);
	set_current(NULL);
}

static bool has_room(size_t size)
{
	return current && current->size - current->used >= size && (!current->most || current->count < current->most);
}

static bool is_client(const struct client *c)
{
	return c->request == client.request && c->complete == client.complete;
}

/*
 * Asks the client for a buffer, which becomes a spare one. The lock is not held meanwhile. False: the client gives
 * none.
 */
static bool request_buffer(void)
{
	struct buffer *b = calloc(1, sizeof(*b));
	const struct client asked = client;
	const unsigned int before = returns;

	if (!b || !asked.request) {
		free(b);
		return false;
	}
	requests++;
	pthread_mutex_unlock(&lock);
	cupti_in_client++;
	asked.request(&b->data, &b->size, &b->most);
	cupti_in_client--;
	b->complete = asked.complete;
	pthread_mutex_lock(&lock);
	/* None in a child that the client's function has forked. */
	requests -= requests > 0;
	/* Another client may have come meanwhile, or a flush, after which the client has all of its buffers. */
	if (b->data && (!is_client(&asked) || returns != before)) {
		append(&full, b);
	} else if (b->data) {
		append(&spares, b);
		atomic_store(&has_buffer, true);
	} else {
		free(b);
		return !is_client(&asked);
	}
	return true;
}

/* ---- records ---- */

/* With the lock held. False: there is no memory. */
static bool make_room(size_t size)
{
	size_t used = staged.end - staged.begin, room = staged.room ? staged.room : 1 << 14;
	uint8_t *data;

	if (staged.room - staged.end >= size)
		return true;
	while (room < 2 * used + size)
		room *= 2;
	if (room > MOST_STAGED)
		return false;
	data = malloc(room);
	if (!data)
		return false;
	if (used)
		memcpy(data, staged.data + staged.begin, used);
	free(staged.data);
	staged.data = data;
	staged.begin = 0;
	staged.end = used;
	staged.room = room;
	return true;
}

void cupti_buffer_add(const void *record)
{
	size_t size = size_of(((const struct cupti_record *)record)->kind);

	pthread_mutex_lock(&lock);
	if (make_room(size)) {
		memcpy(staged.data + staged.end, record, size);
		staged.end += size;
	} else {
		dropped++;
	}
	pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static void forget_first(size_t size)
{
	staged.begin += size;
	staged.taken++;
	if (staged.begin < staged.end)
		return;
	staged.begin = staged.end = 0;
	if (staged.room > KEPT_STAGED) {
		free(staged.data);
		staged.data = NULL;
		staged.room = 0;
	}
}

/* With the lock held. The first record goes into the current buffer. */
static void move_first(size_t size)
{
	uint8_t *to = current->data + current->used;
	const struct layout *layout;
	uint64_t time;

	memcpy(to, staged.data + staged.begin, size);
	layout = &layouts[((struct cupti_record *)to)->kind];
	for (unsigned int i = 0; i < layout->times; i++) {
		uint8_t *at = to + layout->first_time + i * sizeof(time);

		memcpy(&time, at, sizeof(time));
		time = cupti_clock_at(time);
		memcpy(at, &time, sizeof(time));
	}
	current->used += size;
	current->count++;
}

/* With the lock held, but for requests. Threads may do it together. */
static void fill_buffers(void)
{
	uint64_t refused = UINT64_MAX; /* the client gave no buffer for the nth record */

	while (staged.begin < staged.end) {
		size_t size = size_of(((struct cupti_record *)(staged.data + staged.begin))->kind);
		uint64_t n = staged.taken;

		if (!has_room(size)) {
			end_current();
			set_current(take(&spares));
		}
		if (!current && n != refused) {
			if (!request_buffer())
				refused = n;
			continue;
		}
		if (has_room(size))
			move_first(size);
		else
			dropped++;
		forget_first(size);
	}
}

/* ---- for the client ---- */

/* A signal handler's call may have interrupted one that holds the lock. */
void cupti_buffer_prepare(void)
{
	if (atomic_load_explicit(&has_buffer, memory_order_relaxed) || cupti_in_client || pthread_mutex_trylock(&lock))
		return;
	if (!current && !spares.first && !requests)
		request_buffer();
	pthread_mutex_unlock(&lock);
}

static void move_all(struct queue *from, struct queue *to)
{
	struct buffer *b;

	while ((b = take(from)))
		append(to, b);
}

#define DELIVERIES (sizeof(deliveries) / sizeof(deliveries[0]))

/* With the lock held. NULL: there is none. */
static uint64_t *free_place(void)
{
	for (unsigned int i = 0; i < DELIVERIES; i++)
		if (!deliveries[i])
			return &deliveries[i];
	return NULL;
}

/* Whether a delivery is under way that began no later than the nth one. */
static bool has_delivery(uint64_t n)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < DELIVERIES; i++)
		found |= deliveries[i] && deliveries[i] <= n;
	pthread_mutex_unlock(&lock);
	return found;
}

/* With the lock held, but for the client's function. */
static void hand_over(struct queue *list)
{
	uint64_t *place = free_place();
	struct buffer *b;

	if (!list->first)
		return;
	if (place)
		*place = ++last_delivery;
	pthread_mutex_unlock(&lock);
	while ((b = take(list))) {
		cupti_in_client++;
		b->complete(NULL, 0, b->data, b->size, b->used);
		cupti_in_client--;
		free(b);
	}
	pthread_mutex_lock(&lock);
	if (place)
		*place = 0;
}

void cupti_buffer_deliver(bool all)
{
	struct queue list = {.end = &list.first};

	cupti_clock_compare();
	pthread_mutex_lock(&lock);
	fill_buffers();
	if (all)
		end_current();
	move_all(&full, &list);
	if (all) {
		move_all(&spares, &list);
		returns++;
	}
	hand_over(&list);
	pthread_mutex_unlock(&lock);
}

bool cupti_buffer_wait(void)
{
	uint64_t end = vcuda_now_ns() + LONGEST_DELIVERY_NS, last;

	pthread_mutex_lock(&lock);
	last = last_delivery;
	pthread_mutex_unlock(&lock);
	while (has_delivery(last)) {
		if (vcuda_now_ns() >= end) {
			vcuda_log("libcupti: a flush lacks records: the profiler has not taken a buffer in time");
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return true;
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
	has_client = client.request;
	pthread_mutex_unlock(&lock);
	return has_client;
}

void cupti_buffer_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	spares = (struct queue){.end = &spares.first};
	full = (struct queue){.end = &full.first};
	set_current(NULL);
	memset(&staged, 0, sizeof(staged));
	memset(deliveries, 0, sizeof(deliveries));
	requests = 0;
	dropped = 0;
}

/* Buffers of another client go back to it. */
CUPTI_EXPORT cupti_result cuptiActivityRegisterCallbacks(request_function requested, complete_function completed)
{
	const struct client other = {requested, completed};
	struct queue list = {.end = &list.first};

	if (!requested || !completed)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&lock);
	if (!is_client(&other)) {
		end_current();
		move_all(&full, &list);
		move_all(&spares, &list);
		client = other;
	}
	hand_over(&list);
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

/* All buffers are the process's, and the count is, too, whichever context and stream are named. */
CUPTI_EXPORT cupti_result cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count)
{
	(void)context;
	(void)stream;
	if (!count)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
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
	bool is_complete = true;

	if (cupti_in_client || !cupti_buffer_has_client())
		return cupti_done(CUPTI_ERROR_INVALID_OPERATION);
	if (recorder)
		is_complete = recorder->flush();
	if (!is_complete)
		vcuda_log("libcupti: a flush lacks records: a call that was being noted has not ended its note, or the "
			  "worker does not answer");
	if (flag & CUPTI_FLAG_FLUSH_FORCED)
		cupti_pieces_flush();
	cupti_record_flush(start);
	cupti_buffer_deliver(true);
	is_complete &= cupti_buffer_wait();
	return cupti_done(is_complete ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN);
}

CUPTI_EXPORT cupti_result cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	return cuptiActivityFlushAll(flag);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's log for programs: the reasons why calls were refused, which common/log.c also writes to stderr. It keeps
 * as much as NVIDIA's driver keeps of its own log.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"

#define LINES 100
#define LINE_BYTES 256
#define NOTE "(older messages are not here)\n"

struct CUlogsCallbackEntry_st {
	CUlogsCallback function;
	void *data;
	struct CUlogsCallbackEntry_st *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES][LINE_BYTES]; /* each with its line's end */
static CUlogIterator count;           /* number of all lines so far; the newest is at count - 1 modulo LINES */

/* Held while the program is told, so that who takes its function back is not called any more. */
static pthread_mutex_t callbacks_lock;
static struct CUlogsCallbackEntry_st *callbacks;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread bool telling;

static void make_lock(void)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&callbacks_lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
}

static void lock_callbacks(void)
{
	pthread_once(&once, make_lock);
	pthread_mutex_lock(&callbacks_lock);
}

/* Passes a line to the program's callbacks, but not a line that is logged meanwhile. */
static void tell(const char *line, size_t length)
{
	struct CUlogsCallbackEntry_st *next;
	char copy[LINE_BYTES];

	if (telling)
		return;
	telling = true;
	lock_callbacks();
	for (struct CUlogsCallbackEntry_st *c = callbacks; c; c = next) {
		next = c->next;
		memcpy(copy, line, length);
		copy[length] = 0;
		c->function(c->data, CU_LOG_LEVEL_ERROR, copy, length);
	}
	pthread_mutex_unlock(&callbacks_lock);
	telling = false;
}

static void keep(const char *line, size_t length)
{
	if (length > LINE_BYTES - 2)
		length = LINE_BYTES - 2;
	pthread_mutex_lock(&lock);
	snprintf(lines[count % LINES], LINE_BYTES, "%.*s\n", (int)length, line);
	count++;
	pthread_mutex_unlock(&lock);
	tell(line, length);
}

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda", .variable = "VCUDA_LOG", .observe = keep};

VCUDA_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data, CUlogsCallbackHandle *callback)
{
	struct CUlogsCallbackEntry_st *c;

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	c = malloc(sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_callbacks();
	*c = (struct CUlogsCallbackEntry_st){function, data, callbacks};
	callbacks = c;
	pthread_mutex_unlock(&callbacks_lock);
	if (callback)
		*callback = c;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	struct CUlogsCallbackEntry_st **at, *c;

	lock_callbacks();
	for (at = &callbacks; *at && *at != callback;)
		at = &(*at)->next;
	c = *at;
	if (c)
		*at = c->next;
	pthread_mutex_unlock(&callbacks_lock);
	free(c);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags)
{
	/* NVIDIA's driver does not look at the flags of this call and of cuLogsDumpToMemory(). */
	(void)flags;
	if (!iterator)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*iterator = count;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

/* With the lock held: the bytes of the newest lines from `first` on that fit in `room`, the first of which *first is
 * then. */
static size_t measure(CUlogIterator *first, size_t room)
{
	CUlogIterator wanted = *first;
	size_t bytes = 0;

	for (*first = count; *first != wanted && count - *first < LINES; (*first)--) {
		size_t more = strlen(lines[(*first - 1) % LINES]);

		if (more > room - bytes)
			break;
		bytes += more;
	}
	return bytes;
}

/* To `buffer`, with a NUL if there is any room. Returns the bytes without it; 0, with *all false: something is there, but no room for it. */
static size_t dump_locked(CUlogIterator from, char *buffer, size_t size, bool *all)
{
	const size_t note = strlen(NOTE);
	CUlogIterator first = from;
	size_t bytes = size ? measure(&first, size - 1) : 0;

	if (!size) {
		*all = from == count;
		return 0;
	}
	*all = first == from;
	*buffer = 0;
	if (!*all) {
		first = from;
		bytes = size - 1 > note ? measure(&first, size - 1 - note) : 0;
		if (!bytes)
			return 0;
		bytes += note;
		strcpy(buffer, NOTE);
	}
	for (; first != count; first++)
		strcat(buffer, lines[first % LINES]);
	return bytes;
}

static size_t dump(CUlogIterator *iterator, char *buffer, size_t size, bool *all)
{
	CUlogIterator from;
	size_t bytes;

	pthread_mutex_lock(&lock);
	from = iterator && count - *iterator <= count ? *iterator : 0;
	bytes = dump_locked(from, buffer, size, all);
	if (iterator && (*all || bytes))
		*iterator = count;
	pthread_mutex_unlock(&lock);
	return bytes;
}

VCUDA_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	bool all;

	(void)flags;
	if (!buffer || !size)
		return CUDA_ERROR_INVALID_VALUE;
	*size = dump(iterator, buffer, *size, &all);
	return all || *size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned int flags)
{
	const size_t size = sizeof(lines) + sizeof(NOTE);
	char *buffer;
	size_t bytes;
	FILE *file;
	bool all;

	if (!path || flags)
		return CUDA_ERROR_INVALID_VALUE;
	buffer = malloc(size);
	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	file = fopen(path, "we");
	if (!file) {
		free(buffer);
		return CUDA_ERROR_INVALID_VALUE;
	}
	bytes = dump(iterator, buffer, size, &all);
	all = fwrite(buffer, 1, bytes, file) == bytes;
	all = !fclose(file) && all;
	free(buffer);
	return all ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

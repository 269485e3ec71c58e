/* SPDX-License-Identifier: Apache-2.0 */
#include "module/condition.h"

#include <pthread.h>
#include <stdatomic.h>

/* A handle is a serial number, and below it the condition's place. */
#define PLACE_BITS 16
#define PLACES (1u << PLACE_BITS)

static struct {
	_Atomic uint64_t handle; /* 0: free */
	_Atomic uint32_t value;
} conditions[PLACES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects new conditions */

uint64_t softgpu_condition_new(uint32_t value)
{
	static uint64_t serial;
	static unsigned int next;
	uint64_t handle = 0;

	pthread_mutex_lock(&lock);
	for (unsigned int n = 0; n < PLACES && !handle; n++, next = (next + 1) % PLACES) {
		if (atomic_load(&conditions[next].handle))
			continue;
		handle = ++serial << PLACE_BITS | next;
		atomic_store(&conditions[next].value, value);
		atomic_store(&conditions[next].handle, handle);
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

static bool is_there(uint64_t condition)
{
	return condition && atomic_load(&conditions[condition % PLACES].handle) == condition;
}

void softgpu_condition_drop(uint64_t condition)
{
	if (is_there(condition))
		atomic_store(&conditions[condition % PLACES].handle, 0);
}

bool softgpu_condition_set(uint64_t condition, uint32_t value)
{
	if (!is_there(condition))
		return false;
	atomic_store(&conditions[condition % PLACES].value, value);
	return true;
}

bool softgpu_condition_get(uint64_t condition, uint32_t *value)
{
	*value = is_there(condition) ? atomic_load(&conditions[condition % PLACES].value) : 0;
	return is_there(condition);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks a mutex within a time, or not. pthread_mutex_clocklock() would do it, but neither glibc before 2.30 nor the
 * thread sanitizer has that function.
 */
#ifndef VCUDA_LOCK_WITHIN_H
#define VCUDA_LOCK_WITHIN_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

static inline bool client_lock_within(pthread_mutex_t *lock, unsigned int ms)
{
	for (unsigned int i = 0; pthread_mutex_trylock(lock); i++) {
		if (i == 2 * ms)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	return true;
}

#endif

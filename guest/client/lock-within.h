/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex, if it is to be had soon. The thread sanitizer does not know pthread_mutex_clocklock(). */
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

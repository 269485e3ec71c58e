/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a library holds in a process whose descriptors are the application's.
 *
 * The numbers are never 0, 1 or 2, which the application may have closed. They are high, above those of the
 * application. The application may still close a descriptor, or put another file in its place. A caller asks before
 * each use whether a descriptor is still the library's. All functions are thread-safe.
 */
#ifndef VCUDA_OWN_DESCRIPTOR_H
#define VCUDA_OWN_DESCRIPTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct vcuda_own_descriptor {
	int fd; /* -1: none */
	bool marked;
	mode_t type;
	dev_t device;
	ino_t inode;
};

/*
 * Takes over an open descriptor, whose number may change; it closes on exec. 0 or -errno, with the descriptor closed:
 * -EMFILE: the process may have no more.
 */
int vcuda_own_descriptor_take(struct vcuda_own_descriptor *own, int fd);

/* False: the application has closed it, or its number is another file's now. Cheap, and async-signal-safe. */
bool vcuda_own_descriptor_is_there(const struct vcuda_own_descriptor *own);

/* Closes it unless the number is another file's now. Async-signal-safe. */
void vcuda_own_descriptor_close(struct vcuda_own_descriptor *own);

/* Logs, once a process, that the library's descriptor was closed. */
void vcuda_own_descriptor_say(const struct vcuda_own_descriptor *own);

/*
 * Between these two calls the thread is not cancelled, and the library opens no descriptor with the number 0, 1 or 2.
 * Those of the three that are closed are held meanwhile. A held number behaves as if closed: reading and writing gives
 * EBADF. The value of the first call goes to the second.
 */
int vcuda_own_descriptor_guard(void);
void vcuda_own_descriptor_unguard(int guarded);

/* In a forked child: ends what other threads have begun. */
void vcuda_own_descriptor_forked(void);

#endif

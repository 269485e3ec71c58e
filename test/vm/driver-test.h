/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of the driver: contexts of /dev/vcuda, each with a host of its own behaviour. */
#ifndef VCUDA_DRIVER_TEST_H
#define VCUDA_DRIVER_TEST_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHM_BYTES (2u << 20)
#define MIB (1ul << 20)

enum scenario { GOOD, SLOW_DESTROY, LOSE, MAP_FAILS, NO_DESTROY, DESTROY_FAILS, NO_CREATE, SLOW_UNMAP, SCRIBBLER };

/* The counters that fake-host.py writes at offset 64. */
struct counters {
	uint32_t bad, contexts, mappings, hellos, extents, direct, maps, held;
};

/* Says where and ends the process. */
void check_failed(const char *file, int line, const char *what, int error);

#define CHECK(condition)                                                                                       \
	do {                                                                                                   \
		errno = 0;                                                                                     \
		if (!(condition))                                                                              \
			check_failed(__FILE__, __LINE__, #condition, errno);                                                     \
	} while (0)
#define FAILS(call, error) CHECK((call) == -1 && errno == (error))

int open_device(void);
int open_context(int fd, enum scenario scenario);
volatile uint32_t *map_share(int fd);
int wait_word(int fd, uint32_t seen, uint32_t timeout_us);
int pin(int fd, const void *address, size_t length, bool writable);
int pin_direct(int fd, const void *address, size_t length, bool writable);
int unpin(int fd, const void *address, size_t length);

/* Rings, waits, and returns what the host has counted. */
struct counters ask(int fd, volatile uint32_t *share);

void *memory(size_t bytes);
unsigned long pinned_kib(void);

/* Checks with several processes: driver-process.c */
void check_fork(void);
void check_orphan(void);
void check_sharer(void);
void check_kill(void);
void check_killable(void);
void check_quarantine(void);

/* driver-export.c */
void check_export(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* This worker's memory, as the kernel reports it. */
#ifndef VCUDA_WORKER_HOST_MEMORY_H
#define VCUDA_WORKER_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Before worker_own_memory(). False: it cannot be measured, which the log says. Under a sanitizer it is not: the
 * sanitizer's own memory is many times the program's.
 */
bool worker_own_memory_open(void);

/*
 * Bytes of memory that are this worker's alone, swapped or not. Memory that it shares with its guest or with other
 * workers is not among them. Takes some microseconds. Thread-safe.
 */
uint64_t worker_own_memory(void);

#endif

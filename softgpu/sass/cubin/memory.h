/* SPDX-License-Identifier: Apache-2.0 */
/* Memory to read cubins and to lift kernels. Thread-safe. */
#ifndef VCUDA_SASS_MEMORY_H
#define VCUDA_SASS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `room` is asked before each allocation whether there is room for so many bytes. NULL: there is. Before any other
 * call. */
void sass_ask_for_memory(bool (*room)(uint64_t bytes));

/* Zeroes, for free(). NULL: there is no memory, or no room. */
void *sass_allocate(uint64_t count, size_t size);
/* As realloc(). `old` is as before if the result is NULL. */
void *sass_reallocate(void *old, uint64_t count, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CPU_LOG_H
#define VCUDA_CPU_LOG_H

#include <stddef.h>

/* One line on standard error, after `vcuda-cpu: `; no newline in `format`. */
void cpu_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * From here on the thread's lines go to `buffer` too, which has room for `size` bytes and ends with a NUL; NULL: no
 * longer. Gives how many bytes, without the NUL, the buffer before has.
 */
size_t cpu_log_keep(char *buffer, size_t size);

#endif

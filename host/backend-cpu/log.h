/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CPU_LOG_H
#define VCUDA_CPU_LOG_H

/* One line on standard error, after `vcuda-cpu: `; no newline in `format`. */
void cpu_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

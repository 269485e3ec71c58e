/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_WORKER_LOG_H
#define VCUDA_WORKER_LOG_H

/* One line to standard error: "vcuda-worker[PID]: ...". Thread-safe. */
void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

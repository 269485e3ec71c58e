/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_WORKER_LOG_H
#define VCUDA_WORKER_LOG_H

#include <stdbool.h>

/* One line to standard error: "vcuda-worker[PID]: ...". Thread-safe. */
void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* While it is, nothing is written: what this worker would say another one has said already. */
void vcuda_log_quiet(bool is_quiet);

#endif

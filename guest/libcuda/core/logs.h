/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_LOGS_H
#define VCUDA_LOGS_H

#include <stddef.h>

/* What is logged, without the line's end, for cuLogs*(). log.c goes without where it is not linked. */
__attribute__((weak)) void vcuda_logs_keep(const char *line, size_t length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on stderr, one line each, prefixed with the program's name. */
#ifndef VCUDA_LOG_H
#define VCUDA_LOG_H

#include <stdbool.h>

void vcuda_log_verbose(bool verbose);

void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a guest, a client or a worker can provoke at will: limited in rate, so that nobody fills the host's logs. */
void vcuda_log_peer(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Only with --verbose. */
void vcuda_log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

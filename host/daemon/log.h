/* SPDX-License-Identifier: Apache-2.0 */
/* Messages on stderr, one line each, prefixed with the program's name. */
#ifndef VCUDA_LOG_H
#define VCUDA_LOG_H

#include <stdbool.h>
#include <time.h>

void vcuda_log_verbose(bool verbose);

void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * What a guest, a client or a worker can provoke at will: limited in rate, so that nobody fills the host's logs. Each
 * place in the code has a limit of its own: a flood of one message does not hide another.
 */
#define vcuda_log_peer(...) \
	do { \
		static struct vcuda_log_limit limit_; \
		vcuda_log_limited(&limit_, __VA_ARGS__); \
	} while (0)

struct vcuda_log_limit {
	time_t since;
	unsigned int count;
};

void vcuda_log_limited(struct vcuda_log_limit *limit, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Only with --verbose. */
void vcuda_log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

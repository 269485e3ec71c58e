/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on stderr, one line each, behind the program's name. A line is one write(), so that lines of processes that
 * share stderr do not mix. In a process that begins with stderr closed nothing is written. Messages have no newline.
 * errno stays as it is. Thread-safe.
 */
#ifndef VCUDA_LOG_H
#define VCUDA_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* Each program and each library that logs defines `vcuda_log_program` once. */
struct vcuda_log_program {
	const char *name;     /* "vcudad": lines begin with "vcudad: " */
	bool with_pid;        /* lines begin with "NAME[PID]: " */
	const char *variable; /* the environment variable whose value "0" turns lines off; NULL: none */
	/* Gets each message, also one that is not written; NULL: none. */
	void (*observe)(const char *message, size_t length);
};
extern const struct vcuda_log_program vcuda_log_program;

void vcuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From here on `observe` gets none of the thread's lines. For threads that `observe` must not delay. */
void vcuda_log_unobserved(void);

/* While it is true, nothing is written. */
void vcuda_log_quiet(bool quiet);

/* Writes only after vcuda_log_verbose(true). */
void vcuda_log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void vcuda_log_verbose(bool verbose);

/*
 * From here on the thread's lines go to `buffer` too, without the program's name and with their newlines. It has room
 * for `size` bytes and ends with a NUL. NULL and 0 end that. Returns how many bytes the buffer before has, without the
 * NUL.
 */
size_t vcuda_log_capture(char *buffer, size_t size);

/* Logs once a process for each place in the code. */
#define vcuda_log_once(...)                                                                                            \
	do {                                                                                                           \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                            \
		if (!atomic_flag_test_and_set(&said))                                                                  \
			vcuda_log(__VA_ARGS__);                                                                        \
	} while (0)

/*
 * For messages that a peer can cause at will: their rate is limited, so that no peer fills the host's logs. Each place
 * in the code has its own limit: a flood of one message does not hide another. One thread of the program calls it.
 */
#define vcuda_log_peer(...)                                                                                            \
	do {                                                                                                           \
		static struct vcuda_log_limit limit_;                                                                  \
		vcuda_log_limited(&limit_, __VA_ARGS__);                                                               \
	} while (0)

struct vcuda_log_limit {
	time_t since;
	unsigned int count;
};

void vcuda_log_limited(struct vcuda_log_limit *limit, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

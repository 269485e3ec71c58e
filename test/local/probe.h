/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: a program counts how many of them fail, and goes on. One thread. */
#ifndef TEST_LOCAL_PROBE_H
#define TEST_LOCAL_PROBE_H

#include <stdbool.h>

/* Counts a probe; `name` is of the one that begins now. */
void probe_begin(const char *name, const char *variant);

/* The running probe has failed if this is false; it goes on. */
void probe_expect(bool holds, const char *file, int line, const char *what, long value);
#define EXPECT(condition) probe_expect(condition, __FILE__, __LINE__, #condition, 0)
#define GIVES(call, expected)                                                                                          \
	do {                                                                                                           \
		CUresult result_ = (call);                                                                             \
		probe_expect(result_ == (CUresult)(expected), __FILE__, __LINE__, #call, result_);                     \
	} while (0)
#define OK(call) GIVES(call, CUDA_SUCCESS)

/* The number of failures so far. */
unsigned int probe_failed(void);

/* Prints the counts of `program`; returns the exit status: 0 if no probe has failed. */
int probe_end(const char *program);

#endif

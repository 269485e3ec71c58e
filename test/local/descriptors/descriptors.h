/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of how a program's descriptors and those of its CUDA session get along. Each runs in a process of its own. */
#ifndef TEST_LOCAL_DESCRIPTORS_H
#define TEST_LOCAL_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/cuda-functions.h"

struct probe {
	const char *name;
	void (*run)(unsigned int how);
	unsigned int how;
	unsigned int closed; /* bit n: the process starts with descriptor n closed */
	bool says;           /* a line of the log names a descriptor */
};

/* Ends the process; the text goes to the probe's report. */
void probe_fail(const char *file, int line, const char *what, long value) __attribute__((noreturn));
#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			probe_fail(__FILE__, __LINE__, #condition, 0);                                                 \
	} while (0)
#define OK(call)                                                                                                       \
	do {                                                                                                           \
		long result_ = (call);                                                                                 \
		if (result_)                                                                                           \
			probe_fail(__FILE__, __LINE__, #call, result_);                                                \
	} while (0)

/* Ends the process: the transport has no such descriptor. */
void probe_skip(void) __attribute__((noreturn));

/* cuInit and a context; the descriptors that this makes are in `ours`. */
void probe_start(void);
extern int ours[16];
extern int ours_count;

/* All that uses descriptors: work, waiting, memory that is made, registered and given back. The first error. */
CUresult probe_use(void);
/* Uses CUDA until it fails, which must come; afterwards every call fails. */
void probe_use_until_error(void);

bool probe_is_open(int fd);
/* Waits for the child, which must end with 0. */
void probe_wait(int child);

/* A descriptor of the program whose contents the session must not change. */
enum kind { FILE_WITH_TEXT, PIPE, EVENT, SOCKET, SEQUENCED, NULL_DEVICE, KINDS };
struct precious {
	enum kind kind;
	int fd, other;
};
struct precious precious_make(enum kind kind);
/* At `fd` there is nothing but what the program put there. */
void precious_check(const struct precious *p, int fd);

extern const struct probe probes_of_start[], probes_of_ours[], probes_of_life[];

#endif

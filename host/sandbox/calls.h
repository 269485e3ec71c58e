/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls of a worker whose back end is up, and of a keeper. A call that is in no list is unknown. */
#ifndef VCUDA_SANDBOX_CALLS_H
#define VCUDA_SANDBOX_CALLS_H

#include <seccomp.h>
#include <stdint.h>

/* The back end that a rule is for, or the processes that compile and the one that starts them, or keepers. */
enum {
	CALLS_CPU = 1,
	CALLS_CUDA = 2,
	CALLS_BOTH = CALLS_CPU | CALLS_CUDA,
	CALLS_COMPILER = 4,
	CALLS_ALL = CALLS_BOTH | CALLS_COMPILER,
	CALLS_KEEPER = 8,
	CALLS_EACH = CALLS_ALL | CALLS_KEEPER,
};

/* With any arguments. The list ends with -1: a negative number is a call of other machines. */
struct sandbox_calls {
	const int *numbers;
	unsigned int back_ends;
};

extern const struct sandbox_calls sandbox_allowed[];
extern const unsigned int sandbox_allowed_count;

/* Only with these arguments. */
struct sandbox_call_rule {
	int number;
	unsigned int back_ends, count;
	struct scmp_arg_cmp arguments[3];
};

extern const struct sandbox_call_rule sandbox_allowed_rules[];
extern const unsigned int sandbox_allowed_rule_count;

/* The calls of a worker on itself; the argument is its number. */
extern const struct sandbox_calls sandbox_allowed_on_self;

/*
 * Calls that fail with `error`, after which libraries fall back to another way. No rule above allows these arguments.
 */
struct sandbox_refusal {
	int number, error;
	unsigned int back_ends, count;
	struct scmp_arg_cmp arguments[1];
};

extern const struct sandbox_refusal sandbox_refused[];
extern const unsigned int sandbox_refused_count;

/* Calls that are allowed else fail with EPERM where this argument, of which the kernel reads 32 bits, has the value. */
struct sandbox_forbidden {
	int number;
	unsigned int argument;
	uint32_t value;
};

extern const struct sandbox_forbidden sandbox_forbidden[];
extern const unsigned int sandbox_forbidden_count;

#endif

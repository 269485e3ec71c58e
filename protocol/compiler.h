/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler processes of the software GPU. The software GPU says what to compile, and its code in such a process
 * compiles it. The program that opens the software GPU starts the processes, and ends them at their limits.
 */
#ifndef VCUDA_COMPILER_H
#define VCUDA_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VCUDA_COMPILE_ORDER_BYTES 256

/* One version of one kernel. Borrowed for the call. */
struct vcuda_compile_job {
	int module;         /* a file with what all kernels of a module share; it is not changed */
	const void *order;  /* the parts of that module to compile */
	size_t order_bytes; /* at most VCUDA_COMPILE_ORDER_BYTES */
	const char *kernel; /* the kernel's name */
	bool background;    /* leaves the processors to others */
	const bool
		*unwanted; /* atomic; becomes true when nothing needs the result any more; NULL: the program waits for it */
};

/* A version of a kernel that can run now. Times in ns. */
struct vcuda_compiled {
	const char *kernel; /* the kernel's name, borrowed */
	bool loaded;        /* from the cache: nothing was compiled, and only `wall_ns` and `link_ns` are said */
	bool quick, background;
	uint32_t instructions;
	uint64_t bytes;   /* of machine code, as an object file */
	uint64_t wall_ns; /* since it was asked for */
	uint64_t cpu_ns;  /* of the process that compiled */
	uint64_t parse_ns, analysis_ns, lowering_ns, passes_ns, emission_ns, link_ns;
};

enum vcuda_compile_end {
	VCUDA_COMPILE_DONE,
	VCUDA_COMPILE_FAILED,    /* the same job fails again: it took too long, or the compiler crashed */
	VCUDA_COMPILE_NO_MEMORY, /* a later attempt may find some */
	VCUDA_COMPILE_UNWANTED,
};

struct vcuda_compiler {
	/*
	 * Waits until the job is done. VCUDA_COMPILE_DONE: *result is for free(). VCUDA_COMPILE_FAILED and
	 * VCUDA_COMPILE_NO_MEMORY: `why` has a clause for the log. Thread-safe.
	 */
	enum vcuda_compile_end (*run)(const struct vcuda_compile_job *job, void **result, size_t *result_bytes,
				      char *why, size_t why_bytes);
	/* A job will come soon. Does not wait. Thread-safe. */
	void (*expect)(void);
	/* Reports the times of a version. NULL: no reports. Thread-safe. */
	void (*tell)(const struct vcuda_compiled *compiled);
};

/*
 * In a process of its own, with one thread: makes the result of a job, for free(). False: there is no memory. The
 * process may compile one job after another.
 */
typedef bool (*vcuda_compile)(int module, const void *order, size_t order_bytes, void **result, size_t *result_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that compare what a driver answers with what NVIDIA's does. They open the libraries by their names. */
#ifndef TEST_LOCAL_NATIVE_H
#define TEST_LOCAL_NATIVE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/cuda-abi.h"

static void *cuda; /* libcuda.so.1 */
static int probes, different;

static inline void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	return found;
}

#define CALL(name, ...) ((CUresult(*)())function(cuda, #name))(__VA_ARGS__)

/* Ends the process, which may be a child of the program, if a call fails that the probes need. */
static inline void need(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, result);
	fflush(stdout);
	_exit(2);
}

#define NEED(name, ...) need(#name, CALL(name, __VA_ARGS__))

static inline void expect(const char *what, int got, int expected)
{
	probes++;
	if (got == expected)
		return;
	different++;
	printf("%s: %d, not %d\n", what, got, expected);
}

static inline void expect_text(const char *what, const char *got, const char *expected)
{
	probes++;
	if (got && !strcmp(got, expected))
		return;
	different++;
	printf("%s: \"%s\", not \"%s\"\n", what, got ? got : "NULL", expected);
}

/* The next line of recorded answers that is no comment, without its end; empty at the end of the file. */
static inline void next_line(FILE *file, char *line, int bytes)
{
	do
		if (!fgets(line, bytes, file))
			*line = 0;
	while (*line == '#');
	line[strcspn(line, "\n")] = 0;
}

/* `data` of a child that `probe` ran in; `bytes` are as many as a pipe takes at once. False: it ended otherwise. */
static inline bool in_child(void (*probe)(const void *with, void *data), const void *with, void *data, size_t bytes)
{
	int pipes[2], status;
	bool whole;
	pid_t child;

	fflush(stdout);
	if (pipe(pipes) || (child = fork()) < 0) {
		perror("answers");
		exit(2);
	}
	if (!child) {
		probe(with, data);
		_exit(write(pipes[1], data, bytes) != (ssize_t)bytes);
	}
	close(pipes[1]);
	whole = read(pipes[0], data, bytes) == (ssize_t)bytes;
	close(pipes[0]);
	return waitpid(child, &status, 0) == child && !status && whole;
}

#endif

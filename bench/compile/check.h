/* SPDX-License-Identifier: Apache-2.0 */
/* A program of this benchmark checks its results, so that code that is compiled wrong is no success. */
#ifndef BENCH_COMPILE_CHECK_H
#define BENCH_COMPILE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		cudaError_t error_ = (call);                                                                           \
		if (error_ != cudaSuccess) {                                                                           \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static inline void expect(bool right, const char *text)
{
	if (right)
		return;
	fprintf(stderr, "wrong: %s\n", text);
	exit(1);
}

template <typename T> static T *managed(size_t count)
{
	T *p;

	CHECK(cudaMallocManaged(&p, count * sizeof(T)));
	return p;
}

#endif

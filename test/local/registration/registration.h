/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of cuMemHostRegister. Native answers are of an H200 with driver 580. */
#ifndef TEST_LOCAL_REGISTRATION_H
#define TEST_LOCAL_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-functions.h"

/* The running probe has failed if this is false; it goes on. */
void probe_expect(bool holds, const char *file, int line, const char *what, long value);
#define EXPECT(condition) probe_expect(condition, __FILE__, __LINE__, #condition, 0)
#define GIVES(call, expected)                                                                                          \
	do {                                                                                                           \
		CUresult result_ = (call);                                                                             \
		probe_expect(result_ == (CUresult)(expected), __FILE__, __LINE__, #call, result_);                     \
	} while (0)

/* The device, by a copy in either direction and by its own pointer, sees `bytes` registered bytes; they change. */
void probe_use(uint8_t *p, size_t bytes);

/* Counts a probe; `name` is of the one that begins now. */
void probe_begin(const char *name, const char *variant);

void probe_layouts(void);
void probe_codes(void);
void probe_life(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The fake worker's addresses and mappings in two steps: which calls succeed, and nothing of the memory itself. */
#ifndef TEST_LIBCUDA_FAKE_MAPPED_H
#define TEST_LIBCUDA_FAKE_MAPPED_H

#include <stdbool.h>

#include "protocol/calls.h"
#include "ring/ring.h"

#define FAKE_GRANULE (2u << 20)

/* Whether the command is one of these. */
bool fake_mapped_has(unsigned int op);

/* Any thread, one at a time. */
CUresult fake_mapped_answer(const struct vcuda_command *c, struct vcuda_writer *w);

/* The number of mappings: device memory and places of guest memory. */
unsigned int fake_mapped_count(void);

#endif

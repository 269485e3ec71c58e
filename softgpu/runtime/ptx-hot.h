/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quick code is replaced once it is hot: once it has run for as long as makes better code worth its compilation. Code
 * that runs for less costs nothing more.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_HOT_H
#define VCUDA_BACKEND_CPU_PTX_HOT_H

#include "runtime/ptx-run.h"

struct ptx_hot {
	uint64_t since; /* ns; 0: none of the code is counted */
	bool has_masked;
};

/* Around the code of a call that runs blocks. From any thread. */
void ptx_hot_begin(struct ptx_hot *hot, const struct ptx_binary *binary);
void ptx_hot_end(const struct ptx_hot *hot, const struct ptx_binary *binary);

#endif

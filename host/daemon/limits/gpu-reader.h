/* SPDX-License-Identifier: Apache-2.0 */
/* The program vcuda-gpu-use (protocol/ipc/gpu-use.h), whose figures go to reconcile.h and overrun.h. */
#ifndef VCUDA_GPU_READER_H
#define VCUDA_GPU_READER_H

#include "loop/loop.h"
#include "options/options.h"

/*
 * Starts the program if there is a limit of a GPU's memory or a share of its time, and perhaps a GPU: at the start and
 * after each change.
 */
void daemon_gpu_reader_refresh(struct daemon_loop *loop, const struct daemon_options *options);
void daemon_gpu_reader_close(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of cuCheckpointProcess*(), for a program that has not called cuInit(). They return what the calls of that
 * name return. Thread-safe.
 */
#ifndef VCUDA_CHECKPOINT_H
#define VCUDA_CHECKPOINT_H

#include <stdint.h>

#include "protocol/control.h"
#include "protocol/cuda-abi.h"

CUresult libcuda_checkpoint_state(int pid, CUprocessState *state);
CUresult libcuda_checkpoint_thread(int pid, int *thread);

/* `milliseconds`: that running work may take, for VCUDA_PROCESS_LOCK; 0: no limit. */
CUresult libcuda_checkpoint_step(int pid, enum vcuda_process_action action, uint32_t milliseconds);

#endif

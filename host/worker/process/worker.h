/* SPDX-License-Identifier: Apache-2.0 */
/* What is the worker process's rather than its session's. */
#ifndef VCUDA_WORKER_H
#define VCUDA_WORKER_H

#include "process/backend-load.h"

/* The back end that the operator asked for: "auto", "cuda", "cpu". */
extern const char *vcuda_worker_backend;

/* Where its guest process's memory is mapped; there before anything is loaded. */
extern struct vcuda_windows *vcuda_worker_windows;

/* The one that was loaded (warm.c), for hello or in advance. */
extern struct vcuda_backend vcuda_worker_loaded;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the worker process, as opposed to its session's. */
#ifndef VCUDA_WORKER_H
#define VCUDA_WORKER_H

#include "process/backend-load.h"

/* The back end that the operator asked for: "auto", "cuda", "cpu". */
extern const char *worker_backend;

/* The mappings of the guest process's memory; set before anything is loaded. */
extern struct worker_mappings *worker_mappings;

/* The one that was loaded (warm.c), for hello or in advance. */
extern struct worker_backend worker_loaded;

#endif

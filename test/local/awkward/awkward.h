/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of the program `awkward`: what a program may do that is rare, and that must not end it. */
#ifndef TEST_LOCAL_AWKWARD_H
#define TEST_LOCAL_AWKWARD_H

#include <pthread.h>

#include "test/local/api.h"

/*
 * The module that every case finds loaded:
 * step(u32 *p, u32 k, u32 n)        p[i] = p[i] * k + 1
 * answer(u32 *go, u32 *to, u32 v)   waits until *go is not 0, then *to += v
 * sum(struct awkward_node *, u32 *) *to = the sum of the list
 * wild()                            stores where nothing is
 */
extern CUmodule awkward_module;
extern CUcontext awkward_context;

struct awkward_node {
	struct awkward_node *next;
	uint32_t value;
};

CUfunction awkward_function(const char *name);

/* Also for contexts that are not the first one. */
CUmodule awkward_load(void);
void awkward_launch_answer(CUmodule module, _Atomic uint32_t *go, CUdeviceptr to, uint32_t value, CUstream stream);

/* Pinned memory, zeroed. */
void *awkward_pinned(size_t bytes);
CUdeviceptr awkward_zeroed(size_t bytes);
CUstream awkward_stream(unsigned int flags);
uint32_t awkward_read(CUdeviceptr p);

/* Fails the test, with `what`, after a minute: a deadline for what would otherwise poll for ever. */
struct awkward_deadline {
	double until;
	const char *what;
};
struct awkward_deadline awkward_deadline(const char *what);
void awkward_pause(const struct awkward_deadline *d);

void awkward_start(pthread_t *thread, void *(*run)(void *), void *argument);
void awkward_join(pthread_t thread);

/* Sets *go to 1 a little later, from a thread of its own. */
void awkward_later(pthread_t *thread, _Atomic uint32_t *go);

void awkward_wild_event(void);
void awkward_wild_stream(void);
void awkward_copies(void);
void awkward_per_thread(void);
void awkward_capture(void);
void awkward_graph(void);
void awkward_stalled(void);
void awkward_backlog(void);
void awkward_contexts(void);
void awkward_queues(void);
void awkward_compile(void);
void awkward_list(void);
void awkward_handles(void);
void awkward_objects(void);
void awkward_fork(void);
void awkward_threads(void);
void awkward_blocking(void);
void awkward_devices(void);

#endif

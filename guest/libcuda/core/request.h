/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command of CUDA's: a call of guest/client/call.h in a context, with the context's error, the output of kernels and
 * the mirrors of managed variables. The generated vcuda_call_*() functions use these functions; hand-written code uses
 * the generated ones.
 *
 * Each generated function has a twin vcuda_call_*_with(), whose first argument is a struct call_options.
 */
#ifndef VCUDA_REQUEST_H
#define VCUDA_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/context.h"
#include "core/hooks.h"
#include "core/init.h"
#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

#define VCUDA_EXPORT __attribute__((visibility("default")))

/* Exports `name`, which is the function `as`, of the same file. */
#define VCUDA_SAME(name, as) extern __typeof__(as) name __attribute__((alias(VCUDA_SYMBOL(as)), visibility("default")))
#define VCUDA_SYMBOL(function) #function

/*
 * As client_call(). The context is that of the options (NULL: none are set), else the calling thread's. Errors:
 * CUDA_ERROR_NOT_INITIALIZED, the session's error (sticky), CUDA_ERROR_INVALID_VALUE (too large),
 * CUDA_ERROR_NOT_SUPPORTED (unknown to the worker), CUDA_ERROR_NOT_READY (options.only_drained), CUDA_ERROR_UNKNOWN
 * (an answer that does not decode; logged), the worker's result.
 */
CUresult libcuda_request(const struct call_options *options, const struct call_request *request);

/* The context that a call with these options goes to; `options` may be NULL. NULL: the thread has no current one. */
static inline struct libcuda_context *libcuda_request_context(const struct call_options *options)
{
	return options && options->context ? libcuda_context_of_calls(options->context) : libcuda_context_current();
}

/* The worker has answered the calling thread, and the context has not failed. */
void libcuda_request_confirmed(struct libcuda_context *context);

/* libcuda_require_init(), and CUDA_ERROR_INVALID_CONTEXT if the calling thread has no current context. */
CUresult libcuda_require_context(void);

/*
 * The same for a call that names an object or memory, whose context is `home`: without a current context the call is
 * one of `home`, as NVIDIA's driver has it. `home` may be NULL where the call finds out itself that there is no such
 * object.
 */
CUresult libcuda_require_context_or(struct libcuda_context *home);

/* ---- streams: the stream room defines these; `stream` is resolved ---- */

/*
 * A stream of the options' context is about to get a command that takes so many places in its queue, 0: one for all
 * commands of its kind that follow one another. Waits until there is room. Returns an error of an earlier command,
 * which the waiting thread must learn of. A command of the library's own (options->internal) takes none. Thread-safe.
 */
CUresult libcuda_throttle_take(const struct call_options *options, CUstream stream, unsigned int credits);

/* The list of the stream's commands; NULL: the stream is not tracked. */
struct call_queue *libcuda_completion_queue(CUstream stream);

/* A stream of the options' context has been destroyed. */
void libcuda_stream_destroyed(const struct call_options *options, CUstream stream);

#endif
